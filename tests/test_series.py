"""The truncated exponential: its formula, its two readings, its limits and the numbers of the article."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from assocmem.contract.arrays import to_numpy
from assocmem.contract.errors import InputError, RecallOverflowError
from assocmem.stores import make_store, series
from assocmem.stores.series import TruncatedExp, TruncatedExpFeatures
from batches import LIBRARIES, written
from batches import drawn_pairs as drawn


def truncated(s, terms, beta):
    return sum((beta * s) ** p / math.factorial(p) for p in range(terms))


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("beta", [None, 0.0, 1.3])
@pytest.mark.parametrize("terms", [1, 2, 3, 4, 5])
def test_pairs_and_features_both_recall_the_truncated_exponential(terms, beta, library):
    xp = pytest.importorskip(library)
    keys, values = drawn(1, 17, 4, batch=(2,))
    queries = np.random.default_rng(2).normal(size=(2, 5, 4))
    expected = truncated(queries @ np.swapaxes(keys, -1, -2), terms, 2.0 if beta is None else beta) @ values
    for read in ("pairs", "features"):
        store = make_store("exp-series", terms=terms, beta=beta, read=read)
        state = written(store, xp.asarray(keys), xp.asarray(values), cuts=(3, 11))
        out = to_numpy(store.recall(state, xp.asarray(queries)))
        np.testing.assert_allclose(out, expected, atol=2e-12, err_msg=read)


def test_the_state_of_the_features_is_one_number_per_monomial_and_does_not_grow():
    d, terms = 3, 4
    monomials = sum(1 for p in range(terms) for _ in itertools.combinations_with_replacement(range(d), p))
    store = TruncatedExpFeatures(terms)
    keys, values = drawn(3, 50, d, 2)
    for n in (1, 10, 50):
        assert written(store, keys[:n], values[:n])["W"].shape == (2, monomials)
    assert written(TruncatedExp(terms), keys, values).size == 50 * 5


def test_the_features_go_through_in_blocks(monkeypatch):
    monkeypatch.setattr(series, "BLOCK_NUMBERS", 200)
    keys, values = drawn(7, 41, 5, batch=(2,))
    pairs, features = TruncatedExp(4), TruncatedExpFeatures(4)
    expected = pairs.recall(written(pairs, keys, values), keys)
    state = written(features, keys, values)
    np.testing.assert_allclose(features.recall(state, keys), expected, atol=1e-11)
    assert features.recall(state, keys[:, :0]).shape == (2, 0, 3)


def test_an_even_number_of_terms_can_count_against_a_value_and_an_odd_one_cannot():
    key, value = np.array([[1.0]]), np.array([[1.0]])
    queries = np.linspace(-6, 6, 241)[:, None]
    for terms in (1, 2, 3, 4, 5, 6, 7):
        store = TruncatedExp(terms, beta=1.0)
        lowest = store.recall(written(store, key, value), queries).min()
        assert (lowest < -0.5) == (terms % 2 == 0), (terms, lowest)
        assert terms % 2 == 0 or lowest > 0


def test_many_terms_are_the_exponential_and_two_do_worse_than_a_linear_store():
    keys, values = drawn(8, 30, 6)
    store = TruncatedExp(40, beta=3.0)
    np.testing.assert_allclose(
        store.recall(written(store, keys, values), keys), np.exp(3 * keys @ keys.T) @ values, rtol=1e-11, atol=1e-11
    )


def test_too_many_features_are_refused_with_their_number():
    with pytest.raises(InputError, match=r"needs 814,385 features at d_k=64, more than max_features=200,000"):
        make_store("exp-series", terms=5, read="features").empty(64, 2)
    with pytest.raises(InputError, match="needs 10 features at d_k=3, more than max_features=9"):
        TruncatedExpFeatures(3, max_features=9).empty(3, 1)
    assert TruncatedExpFeatures(3, max_features=10).empty(3, 1).size == 10


@pytest.mark.parametrize("read", ["pairs", "features"])
def test_half_precision_and_overflow(read):
    store = make_store("exp-series", terms=4, beta=1.0, read=read)
    keys = np.ones((1, 1), np.float16)
    state = written(store, keys, keys)
    assert next(iter(state.contents.values())).dtype == np.float32
    fits = store.recall(state, np.full((1, 1), 70, np.float16))
    assert fits.dtype == np.float16
    assert math.isclose(float(fits[0, 0]), truncated(70, 4, 1.0), rel_tol=1e-3)
    with pytest.raises(RecallOverflowError, match="float16"):
        store.recall(state, np.full((1, 1), 75, np.float16))
