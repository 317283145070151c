"""Test-time regression: choices of weights, function class and optimiser that equal other stores."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from assocmem.checks import contract
from assocmem.contract.errors import InputError
from assocmem.stores import make_store
from assocmem.stores.regression import WeightedRegression
from batches import drawn, gap, written

# configuration -> (the store it equals, its settings, and a configuration that must not equal it)
EQUALS = {
    "outer-product": ({"optimiser": "first-step"}, {}, {"optimiser": "first-step", "step": 0.9}),
    "linear-attention": (
        {"optimiser": "first-step"},
        {"feature": "identity", "normalise": False},
        {"optimiser": "exact"},
    ),
    "mamba-2": ({"optimiser": "first-step", "decay": 0.9}, {"decay": 0.9}, {"optimiser": "first-step", "decay": 0.89}),
    "delta-net": ({"optimiser": "online", "step": 0.7}, {"strength": 0.7}, {"optimiser": "online", "step": 0.6}),
    "gated-delta-net": (
        {"optimiser": "online", "decay": 0.9},
        {"decay": 0.9},
        {"optimiser": "online", "decay": 1.0},
    ),
    "optimal-linear": ({}, {}, {"ridge": 0.1}),
    "mesa-net": ({"ridge": 1.0}, {}, {"ridge": 0.9}),
    "mesa-net, decaying": ({"ridge": 1.0, "decay": 0.9}, {"decay": 0.9}, {"ridge": 1.0}),
    "softmax": ({"function": "constant"}, {}, {"function": "constant", "beta": 2.0}),
}


def recalled(store, keys, values, queries):
    return store.recall(written(store, keys, values), queries)


# ---------------------------------------------------------------------- identities


@pytest.mark.parametrize("name", EQUALS)
@pytest.mark.parametrize("n", [5, 40])
def test_three_choices_give_another_store(name, n):
    choices, settings, twin = EQUALS[name]
    pairs = drawn(n, n, 8, 5)
    want = recalled(make_store(name.split(",")[0], **settings), *pairs)
    assert gap(recalled(WeightedRegression(**choices), *pairs), want) < 1e-9
    assert gap(recalled(WeightedRegression(**twin), *pairs), want) > 1e-3


def test_softmax_attention_is_regression_with_a_gaussian_kernel_on_unit_keys():
    # theorem 2 of the TTT paper: a Nadaraya-Watson learner with an exponential kernel is self-attention
    keys, values, queries = drawn(0, 60, 8, 5)
    queries /= np.linalg.norm(queries, axis=-1, keepdims=True)
    kernel = np.exp(-1.5 * ((queries[:, None] - keys) ** 2).sum(axis=-1))
    want = kernel @ values / kernel.sum(axis=-1, keepdims=True)
    assert gap(recalled(WeightedRegression("constant", beta=3.0), keys, values, queries), want) < 1e-13
    assert gap(recalled(WeightedRegression("constant", beta=1.5), keys, values, queries), want) > 1e-3


@pytest.mark.parametrize("beta", [0.0, 2.0, 10.0])
def test_local_linear_fits_are_exact_for_values_affine_in_the_key_and_local_constant_ones_are_not(beta):
    rng = np.random.default_rng(1)
    keys, _, queries = drawn(1, 40, 6, 4)
    slope, offset = rng.normal(size=(6, 4)), rng.normal(size=4)
    values, want = keys @ slope + offset, queries @ slope + offset
    assert gap(recalled(WeightedRegression("local-linear", beta=beta), keys, values, queries), want) < 1e-8
    assert gap(recalled(WeightedRegression("constant", beta=beta), keys, values, queries), want) > 0.1
    bent = values + keys[:, :1] ** 2
    assert gap(recalled(WeightedRegression("local-linear", beta=beta), keys, bent, queries), want) > 1e-2


def test_a_local_linear_fit_is_its_weighted_least_squares():
    keys, values, queries = drawn(2, 30, 4, 3)
    got = recalled(WeightedRegression("local-linear", decay=0.95, beta=3.0), keys, values, queries)
    ages = 0.95 ** np.arange(29, -1, -1)
    for x, row in zip(queries, got, strict=True):
        design = np.concatenate([np.ones((30, 1)), keys - x], axis=1)
        root = np.sqrt(ages * np.exp(3.0 * keys @ x))[:, None]
        np.testing.assert_allclose(row, np.linalg.lstsq(root * design, root * values, rcond=None)[0][0], atol=1e-9)


# ---------------------------------------------------------------------- masks, forms, libraries

CHOICES = [
    {},
    {"ridge": 0.5, "decay": 0.8},
    {"optimiser": "first-step", "decay": 0.9},
    {"optimiser": "online"},
    {"optimiser": "online", "decay": 0.9, "step": 0.5},
    {"function": "constant", "decay": 0.9},
    {"function": "local-linear"},
]


@pytest.mark.parametrize("library", ["numpy", "torch", "array_api_strict"])
@pytest.mark.parametrize("choices", CHOICES[1:], ids=str)
def test_choices_keep_the_contract(choices, library):
    report = contract.check(WeightedRegression(**choices), xp=pytest.importorskip(library))
    assert report.ok, report.text()


def test_the_fit_does_not_depend_on_how_queries_are_blocked(monkeypatch):
    monkeypatch.setattr("assocmem.stores.regression._TILE", 64)
    for choices in CHOICES:
        keys, values, queries = drawn(6, 30, 5, 4, batch=(2,))
        store = WeightedRegression(**choices)
        alone = np.concatenate([recalled(store, keys, values, queries[:, i : i + 1]) for i in range(30)], axis=1)
        assert gap(recalled(store, keys, values, queries), alone) < 1e-10


def test_settings_out_of_range_are_refused():
    with pytest.raises(InputError, match="`optimiser` of WeightedRegression must be exact for function='constant'"):
        WeightedRegression("constant", "online")
    keys, values, queries = drawn(7, 5, 4, 3)
    with pytest.raises(InputError, match="gives no mass"):
        WeightedRegression().ask(written(WeightedRegression(), keys, values), queries, want="mass")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert np.isfinite(recalled(WeightedRegression(), np.repeat(keys, 3, axis=0), values.repeat(3, 0), keys)).all()


def test_old_pairs_near_the_query_keep_their_share_though_their_decays_underflow():
    keys = np.concatenate([np.eye(4)[:1], np.repeat(-np.eye(4)[:1], 160, axis=0)]).astype(np.float32)
    values = np.zeros((161, 1), np.float32)
    values[0] = 1
    store = WeightedRegression("constant", decay=0.5, beta=60.0)
    state = store.write(store.empty(4, 1), keys, values)
    ages = np.arange(160, -1, -1.0)
    logits = 60 * (keys @ np.eye(4)[0]) + ages * np.log(0.5)
    weights = np.exp(logits - logits.max())
    got = store.recall(state, np.eye(4, dtype=np.float32)[:1])
    assert abs(got[0, 0] - weights[0] / weights.sum()) < 1e-4
