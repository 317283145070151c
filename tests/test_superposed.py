"""The superposed MLP: its features, its two readouts, and more facts than hidden units."""

from __future__ import annotations

import math

import numpy as np
import pytest

from assocmem.contract.arrays import to_numpy
from assocmem.maps.activations import Linear
from assocmem.stores.mlp import GatedMLP
from assocmem.stores.superposed import SuperposedMLP, WhitenedMLP, features
from batches import LIBRARIES, written
from batches import drawn_pairs as drawn


def phi(state, x):
    a, g = to_numpy(state["A"]), to_numpy(state["G"])
    rows = [[(a[i] @ row) * (g[i] @ row) / math.sqrt(len(a)) for i in range(len(a))] for row in x]
    return np.array(rows)


@pytest.mark.parametrize("library", LIBRARIES)
def test_both_readouts_have_their_formulas(library):
    xp = pytest.importorskip(library)
    keys, values = drawn(1, 30, 4)
    queries = np.random.default_rng(2).normal(size=(5, 4))
    outer, whitened = SuperposedMLP(seed=3, width=7), WhitenedMLP(seed=3, width=7, ridge=0.02)
    for store in (outer, whitened):
        state = written(store, xp.asarray(keys), xp.asarray(values), cuts=(11,))
        stored, asked = phi(state, keys), phi(state, queries)
        readout = values.T @ stored
        if store is whitened:
            readout = (readout / 30) @ np.linalg.inv(stored.T @ stored / 30 + 0.02 * np.eye(7))
        out = to_numpy(store.recall(state, xp.asarray(queries)))
        np.testing.assert_allclose(out, asked @ readout.T, rtol=1e-11, atol=1e-11)


def test_the_features_sketch_the_squared_similarity():
    store = SuperposedMLP(seed=5, width=200_000)
    x, _ = drawn(6, 4, 6)
    rows = features(store.empty(6, 1), x)
    # The mean over units of (a.x)^2 (g.x)^2 for a unit x: each has variance 9 - 1, so the standard error is 0.0063.
    np.testing.assert_allclose(rows @ rows.T, (x @ x.T) ** 2, atol=0.03)
    assert np.abs(rows @ rows.T - x @ x.T).max() > 0.2


@pytest.mark.parametrize("n", [1, 10, 24])
def test_independent_features_are_interpolated_exactly_without_a_ridge(n):
    keys, values = drawn(7, n, 8)
    store = WhitenedMLP(width=24, ridge=0.0)
    state = written(store, keys, values, cuts=(n // 2,))
    assert store.rank(state) == n
    np.testing.assert_allclose(store.recall(state, keys), values, atol=1e-10)
    raw = SuperposedMLP(width=24)
    assert not np.allclose(raw.recall(written(raw, keys, values), keys), values, atol=0.05)


@pytest.mark.parametrize(("width", "d"), [(7, 6), (40, 4), (21, 6), (60, 3)])
def test_the_rank_of_the_features_is_bounded_by_units_and_by_monomials(width, d):
    keys, values = drawn(8, 100, d)
    store = WhitenedMLP(width=width)
    assert store.rank(written(store, keys, values, cuts=(3, 50))) == min(width, d * (d + 1) // 2)


def test_any_gated_mlp_is_the_whitened_memory_of_its_own_outputs():
    store = WhitenedMLP(seed=9, width=12, ridge=0.0)
    keys, _ = drawn(10, 50, 6)
    readout = np.random.default_rng(11).normal(size=(3, 12))
    values = features(store.empty(6, 3), keys) @ readout.T
    state = written(store, keys, values, cuts=(20,))
    assert store.rank(state) == 12
    np.testing.assert_allclose(store.solution(state).T, readout, atol=1e-9)


def test_it_is_a_gated_mlp_with_as_many_hidden_units_as_its_width():
    keys, values = drawn(12, 40, 5)
    queries, _ = drawn(13, 6, 5)
    store, gated = SuperposedMLP(width=16), GatedMLP(Linear())
    state = written(store, keys, values)
    units = gated.write(gated.empty(5, 3), state["A"], state["B"].T / 4, gate=state["G"])
    assert units.n == 16 < state.n
    np.testing.assert_allclose(gated.recall(units, queries), store.recall(state, queries), atol=1e-12)


def accuracy(store, keys):
    recalls = store.recall(written(store, keys, keys), keys)
    return (np.argmax(recalls @ keys.T, axis=1) == np.arange(len(keys))).mean()


def accuracies(make, facts):
    return np.array([accuracy(make(seed), drawn(100 + seed, facts, 32)[0]) for seed in range(9)])


@pytest.mark.parametrize("facts", [64, 128])
def test_whitening_finds_every_fact_with_fewer_units_than_facts_and_the_outer_product_does_not(facts):
    units = 3 * facts // 4
    whitened = accuracies(lambda seed: WhitenedMLP(seed, units), facts)
    # Of 20 draws, 15 (64 facts) and 19 (128 facts) had every fact right; none at half the units, all at 7/8.
    assert (whitened == 1).mean() > 0.5
    assert whitened.mean() > 0.98
    assert (accuracies(lambda seed: WhitenedMLP(seed, 7 * facts // 8), facts) == 1).all()
    assert not (accuracies(lambda seed: WhitenedMLP(seed, facts // 2), facts) == 1).any()
    raw = accuracies(lambda seed: SuperposedMLP(seed, units), facts)
    assert raw.max() < 0.9
    assert (accuracies(lambda seed: SuperposedMLP(seed, 4 * facts), facts) > raw).all()


def test_the_seed_names_the_projections_and_the_state_counts_them():
    empty = SuperposedMLP(seed=1).empty(4, 3, batch=(2,))
    assert empty["A"].shape == empty["G"].shape == (2, 16, 4)
    assert empty.size == 2 * (2 * 16 * 4 + 16 * 3)
    np.testing.assert_array_equal(empty["A"][0], empty["A"][1])
    np.testing.assert_array_equal(empty["A"], WhitenedMLP(seed=1).empty(4, 9, batch=(2,))["A"])
    assert not np.array_equal(empty["A"], empty["G"])
    assert not np.array_equal(empty["A"], SuperposedMLP(seed=2).empty(4, 3, batch=(2,))["A"])
    narrow = SuperposedMLP(seed=1).empty(4, 3, like=np.zeros(1, np.float32))
    np.testing.assert_array_equal(narrow["A"], empty["A"][0].astype(np.float32))
