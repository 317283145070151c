"""Nearest neighbours and Memorizing Transformers beside softmax attention; identities have variants that fail them."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from assocmem import MappedSlots
from assocmem.contract.numbers import stream
from assocmem.kernels.attention import attend
from assocmem.stores.knn import MemorizingTransformer, NearestNeighbours
from assocmem.stores.softmax import SoftmaxAttention

N, D, D_V, BETA = 60, 8, 3, 5.0


def drawn(n: int = N) -> tuple[Any, Any, Any]:
    """Return unit keys, values and six unit queries."""
    rng = stream(3, "test knn", n)
    keys, queries = rng.standard_normal((n, D)), rng.standard_normal((6, D))
    unit = [x / np.linalg.norm(x, axis=-1, keepdims=True) for x in (keys, queries)]
    return unit[0], rng.standard_normal((n, D_V)), unit[1]


def filled(store: Any, n: int = N, **more: Any) -> Any:
    """Return a state of n pairs."""
    keys, values, _ = drawn(n)
    return store.write(store.empty(D, D_V, **more), keys, values)


def error_of(store: Any, full: Any) -> Any:
    """Return how far recalls are from those of `full`, (6,)."""
    queries = drawn()[2]
    return np.linalg.norm(store.recall(filled(store), queries) - full.recall(filled(full), queries), axis=-1)


def test_as_many_neighbours_as_pairs_are_softmax_attention() -> None:
    full = SoftmaxAttention(BETA)
    for k in (N, 2 * N):
        assert error_of(NearestNeighbours(k, BETA), full).max() < 1e-14
    assert error_of(NearestNeighbours(N - 1, BETA), full).max() > 1e-6  # one left out
    assert error_of(NearestNeighbours(N, 1.1 * BETA), full).max() > 1e-3


def test_the_recall_is_the_softmax_over_the_k_best_and_names_them() -> None:
    keys, values, queries = drawn()
    found = NearestNeighbours(7, BETA).ask(filled(NearestNeighbours(7, BETA)), queries)
    best = np.argsort(-(queries @ keys.T), axis=-1)[:, :7]
    np.testing.assert_array_equal(np.sort(found.weights.ids, axis=-1), np.sort(best, axis=-1))
    for i, own in enumerate(best):
        want = attend(keys[own], values[own], queries[i : i + 1], BETA).values
        np.testing.assert_allclose(found.values[i : i + 1], want, rtol=1e-12)
    worst = np.argsort(queries @ keys.T, axis=-1)[:, :7]
    assert not np.array_equal(np.sort(worst, axis=-1), np.sort(found.weights.ids, axis=-1))


@pytest.mark.parametrize("k", [1, 4, 20, N])
@pytest.mark.parametrize("beta", [0.0, 2.0, 30.0])
def test_the_dropped_mass_bounds_the_error(k: int, beta: float) -> None:
    """Twice the mass times max |v| holds; so does the bound of each recall, which needs no second search."""
    keys, values, queries = drawn()
    store = NearestNeighbours(k, beta)
    state = filled(store)
    logits = beta * np.sort(queries @ keys.T, axis=-1)[:, ::-1]
    powers = np.exp(logits - logits[:, :1])
    mass = powers[:, k:].sum(axis=-1) / powers.sum(axis=-1)
    counted, told = store.dropped_mass(state, queries), store.ask(state, queries).dropped
    np.testing.assert_allclose(counted, mass, atol=1e-13)
    assert np.all(told >= counted - 1e-13)
    error, most = error_of(store, SoftmaxAttention(beta)), np.linalg.norm(values, axis=-1).max()
    assert np.all(error <= 2 * counted * most + 1e-13)


def test_half_the_mass_would_bound_nothing() -> None:
    """The bound is sharp: two opposite values, one of them dropped with half of the mass, are off by 2 m max |v|."""
    store = NearestNeighbours(1, 0.0)
    state = store.write(store.empty(1, 1), np.array([[1.0], [1.0]]), np.array([[1.0], [-1.0]]))
    error = abs(store.recall(state, np.ones((1, 1))) - SoftmaxAttention(0.0).recall(filled_pair(), np.ones((1, 1))))
    mass = float(store.dropped_mass(state, np.ones((1, 1)))[0])
    assert (mass, float(error[0, 0])) == (0.5, 1.0)
    assert float(store.ask(state, np.ones((1, 1))).dropped[0]) == 0.5
    assert float(error[0, 0]) == 2 * mass > 1.9 * mass


def filled_pair() -> Any:
    """Return softmax attention's state of two opposite values under one key."""
    store = SoftmaxAttention(0.0)
    return store.write(store.empty(1, 1), np.array([[1.0], [1.0]]), np.array([[1.0], [-1.0]]))


def parts(k: int, window: int) -> tuple[Any, Any]:
    """Return the recalls of memory and window by themselves, with masses."""
    keys, values, queries = drawn()
    store = NearestNeighbours(k, BETA)
    old = store.write(store.empty(D, D_V), keys[: N - window], values[: N - window])
    ids = store.ask(old, queries).weights.ids
    memory = [attend(keys[i], values[i], queries[j : j + 1], BETA) for j, i in enumerate(ids)]
    peaks = np.concatenate([m.mass.log for m in memory])
    recalled = np.concatenate([m.values for m in memory])
    return (recalled, peaks), attend(keys[N - window :], values[N - window :], queries, BETA)


@pytest.mark.parametrize("bias", [-1.5, 0.0, 2.0])
def test_the_gate_mixes_memory_and_window(bias: float) -> None:
    (memory, _), local = parts(5, 10)
    g = 1 / (1 + math.exp(-bias))
    store = MemorizingTransformer(5, 10, bias, BETA)
    got = store.recall(filled(store), drawn()[2])
    np.testing.assert_allclose(got, g * memory + (1 - g) * local.values, rtol=1e-11, atol=1e-13)
    assert np.abs(got - ((1 - g) * memory + g * local.values)).max() > 1e-2 or bias == 0


def test_a_gate_of_the_difference_of_log_sum_exps_is_one_softmax() -> None:
    (_, log_mass), local = parts(5, 10)
    joint, queries = MemorizingTransformer(5, 10, None, BETA), drawn()[2]
    want = joint.recall(filled(joint), queries)
    for i in range(len(queries)):
        logit = float(log_mass[i] - local.mass.log[i])
        for bias, holds in ((logit, True), (-logit, False), (logit + 0.3, False)):
            store = MemorizingTransformer(5, 10, bias, BETA)
            off = np.abs(store.recall(filled(store), queries[i : i + 1]) - want[i : i + 1]).max()
            assert bool(off < 1e-13) is holds, (i, bias, off)


def test_a_joint_softmax_over_all_of_the_memory_is_softmax_attention() -> None:
    full = SoftmaxAttention(BETA)
    assert error_of(MemorizingTransformer(N, 10, None, BETA), full).max() < 1e-13
    assert error_of(MemorizingTransformer(N, 10, 0.0, BETA), full).max() > 1e-3  # a gate is not
    assert error_of(MemorizingTransformer(3, N, None, BETA), full).max() < 1e-13  # all is local


@pytest.mark.parametrize("bias", [None, 1.0])
def test_what_a_memory_dropped_bounds_the_error(bias: float | None) -> None:
    few, whole = (MemorizingTransformer(k, 10, bias, BETA) for k in (3, N))
    state, (_, values, queries) = filled(few), drawn()
    told, error = few.ask(state, queries).dropped, error_of(few, whole)
    assert np.all(error <= 2 * told * np.linalg.norm(values, axis=-1).max())
    assert np.all(whole.ask(state, queries).dropped == 0)


def test_rows_in_files_recall_the_same(tmp_path: Path) -> None:
    queries = drawn()[2]
    for store in (NearestNeighbours(5, BETA), MemorizingTransformer(5, 10, None, BETA)):
        state = filled(store, slots=MappedSlots(tmp_path / store.name))
        np.testing.assert_allclose(store.recall(state, queries), store.recall(filled(store), queries), rtol=1e-12)


def test_blocks_of_queries_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    queries = drawn()[2]
    for store in (NearestNeighbours(5, BETA), MemorizingTransformer(5, 10, None, BETA)):
        want = store.ask(filled(store), queries)
        with monkeypatch.context() as patched:
            patched.setattr("assocmem.stores.knn.GATHERED", 1)
            got = store.ask(filled(store), queries)
        np.testing.assert_allclose(got.values, want.values, rtol=1e-12)
        np.testing.assert_allclose(got.dropped, want.dropped, rtol=1e-12)
        np.testing.assert_array_equal(got.weights.ids, want.weights.ids)
