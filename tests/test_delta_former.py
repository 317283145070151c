"""DeltaFormer: its recursion, softmax attention and the delta rule as its limits, blocks, masks."""

from __future__ import annotations

import numpy as np
import pytest

from assocmem.contract.errors import DivergedError
from assocmem.kernels.chunked import inverse_unit_lower
from assocmem.stores.delta import DeltaNet
from assocmem.stores.delta_former import DeltaFormer
from assocmem.stores.softmax import SoftmaxAttention
from batches import drawn, gap, written


def softmax(logits):
    weights = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return weights / weights.sum(axis=-1, keepdims=True)


def corrected(keys, values, strengths, beta, *, own_pair_too=False):
    """U by its definition, one pair at a time; `own_pair_too` lets p_t see pair t, which is wrong."""
    u = []
    for t in range(len(keys)):
        rows = np.reshape([*u, values[t]] if own_pair_too else u, (-1, values.shape[-1]))
        seen = softmax(beta * keys[: len(rows)] @ keys[t]) @ rows if len(rows) else 0
        u.append(values[t] - strengths[t] * seen)
    return np.array(u)


# ---------------------------------------------------------------------- identities


def test_the_recursion_is_that_of_the_definition():
    keys, values, queries = drawn(0, 90, 8, 5)
    strengths = np.random.default_rng(0).uniform(0, 1, 90)
    for beta in (None, 0.0, 3.0, 40.0):
        store, sharp = DeltaFormer(beta=beta), np.sqrt(8) if beta is None else beta
        state = written(store, keys, values, strength=strengths)
        u = corrected(keys, values, strengths, sharp)
        assert gap(state["corrected"], u) < 1e-12
        assert gap(store.recall(state, queries), softmax(sharp * queries @ keys.T) @ u) < 1e-12
        assert gap(state["corrected"], corrected(keys, values, strengths, sharp, own_pair_too=True)) > 1e-2


def test_strength_0_is_softmax_attention():
    keys, values, queries = drawn(1, 70, 8, 5)
    want = SoftmaxAttention().recall(written(SoftmaxAttention(), keys, values), queries)
    off = DeltaFormer(strength=0.0)
    assert gap(off.recall(written(off, keys, values), queries), want) < 1e-13
    given = DeltaFormer()
    state = written(given, keys, values, strength=np.zeros(70))
    assert gap(given.recall(state, queries), want) < 1e-13
    assert gap(given.recall(written(given, keys, values), queries), want) > 1e-2


def test_with_a_linear_kernel_in_place_of_the_softmax_the_correction_is_the_delta_rule():
    # the block form solves (I + diag(b) P) U = V; with P = strict(K K^T) and U = diag(b) ... it is DeltaNet's UT form
    keys, values, queries = drawn(2, 40, 8, 5)
    strengths = np.random.default_rng(2).uniform(0, 1, 40)
    u = inverse_unit_lower(strengths[:, None] * (keys @ keys.T)) @ (strengths[:, None] * values)
    want = DeltaNet().recall(written(DeltaNet(), keys, values, strength=strengths), queries)
    assert gap((queries @ keys.T) @ u, want) < 1e-13
    with_softmax = inverse_unit_lower(strengths[:, None] * softmax(keys @ keys.T)) @ (strengths[:, None] * values)
    assert gap((queries @ keys.T) @ with_softmax, want) > 1e-2


def test_a_key_written_again_loses_its_old_value():
    keys, values, _ = drawn(3, 12, 32, 6)
    again = np.concatenate([keys, keys[:1]])
    fresh = np.concatenate([values, -3 * values[1:2]])
    sharp = DeltaFormer(beta=60.0)
    out = sharp.recall(written(sharp, again, fresh), keys[:1])
    # both writings of the key share the softmax, so half of the new value comes back and nothing of the old one
    np.testing.assert_allclose(out, fresh[-1:] / 2, rtol=0, atol=1e-3)
    averaging = SoftmaxAttention(60.0)
    out = averaging.recall(written(averaging, again, fresh), keys[:1])
    np.testing.assert_allclose(out, (values[:1] + fresh[-1:]) / 2, rtol=0, atol=1e-3)


def test_it_recalls_by_default():
    rng = np.random.default_rng(4)
    keys, values = rng.normal(size=(2, 200, 64))
    keys, values = (a / np.linalg.norm(a, axis=-1, keepdims=True) for a in (keys, values))
    out = DeltaFormer().recall(written(DeltaFormer(), keys, values), keys)
    assert ((out @ values.T).argmax(axis=-1) == np.arange(200)).all()


# ---------------------------------------------------------------------- forms, splits, masks, libraries


def test_a_thousand_pairs_in_blocks_of_any_length():
    keys, values, _ = drawn(6, 1000, 6, 4)
    store = DeltaFormer()
    state = written(store, keys, values)
    assert gap(state["corrected"], corrected(keys, values, np.ones(1000), np.sqrt(6))) < 1e-11
    odd = DeltaFormer(block=7)
    assert gap(written(odd, keys, values)["corrected"], state["corrected"]) < 1e-11


def test_a_masked_recall_is_that_of_a_store_which_never_saw_the_hidden_pairs():
    keys, values, queries = drawn(7, 20, 6, 4)
    strengths = np.random.default_rng(7).uniform(0, 1, 20)
    store, mask = DeltaFormer(), np.random.default_rng(8).random((20, 20)) < 0.6
    mask[3] = np.arange(20) < 9
    state = written(store, keys, values, strength=strengths)
    got = store.recall(state, queries, mask=mask)
    for i, seen in enumerate(mask):
        alone = written(store, keys[seen], values[seen], strength=strengths[seen])
        assert gap(got[i : i + 1], store.recall(alone, queries[i : i + 1])) < 1e-12
    kept_corrections = softmax(np.where(mask, np.sqrt(6) * queries @ keys.T, -np.inf)) @ state["corrected"]
    assert gap(got, kept_corrections) > 1e-2
    causal = np.tril(np.ones((20, 20), bool))
    _, want = store.scan(store.empty(6, 4), keys, values, queries, strength=strengths)
    assert gap(store.recall(state, queries, mask=causal), want) < 1e-12


# ---------------------------------------------------------------------- settings


def test_overflow_is_an_error():
    keys = np.repeat(drawn(12, 1, 4, 1)[0], 3, axis=0)
    values = np.array([[1e308], [-1e308], [1e308]])
    with pytest.raises(DivergedError) as caught:
        written(DeltaFormer(), keys, values)
    assert caught.value.step == 1
