"""MesaNet: ridge regression in three forms, its limits, decays, and conjugate gradients that do not converge."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from assocmem.contract.errors import ConvergenceWarning, DivergedError, IllConditionedWarning, InputError
from assocmem.kernels.linear_systems import conjugate_gradient
from assocmem.stores.mesa import MesaNet
from assocmem.stores.optimal import OptimalLinear
from assocmem.stores.outer import OuterProduct
from batches import drawn, gap, written

SOLVERS = ("cg", "direct", "rls")


def ridge_regression(keys, values, queries, ridge, weights=None):
    """Weighted ridge regression by the normal equations."""
    w = np.ones(len(keys)) if weights is None else weights
    gram = (keys * w[:, None]).T @ keys + ridge * np.eye(keys.shape[1])
    return queries @ np.linalg.solve(gram, (keys * w[:, None]).T @ values)


# ---------------------------------------------------------------------- identities


@pytest.mark.parametrize("solver", SOLVERS)
def test_without_decay_it_is_ridge_regression(solver):
    for n in (3, 8, 40):
        keys, values, queries = drawn(n, n, 8, 5)
        want = ridge_regression(keys, values, queries, 0.7)
        store = MesaNet(ridge=0.7, solver=solver)
        assert gap(store.recall(written(store, keys, values), queries), want) < 1e-9
        twin = MesaNet(ridge=0.8, solver=solver)
        assert gap(twin.recall(written(twin, keys, values), queries), want) > 1e-3


@pytest.mark.parametrize("solver", ["cg", "direct"])
def test_decays_and_strengths_weigh_the_squares(solver):
    rng = np.random.default_rng(0)
    keys, values, queries = drawn(0, 30, 6, 4)
    decay, strength = rng.uniform(0.5, 1, 30), rng.uniform(0, 3, 30)
    store = MesaNet(solver=solver)
    got = store.recall(written(store, keys, values, decay=decay, strength=strength), queries)
    weights = strength * np.array([np.prod(decay[i + 1 :]) for i in range(30)])
    assert gap(got, ridge_regression(keys, values, queries, 1.0, weights)) < 1e-9
    decays_own_pair_too = weights * decay
    assert gap(got, ridge_regression(keys, values, queries, 1.0, decays_own_pair_too)) > 1e-2


def test_recursive_least_squares_lets_its_ridge_decay():
    keys, values, queries = drawn(1, 30, 6, 4)
    store = MesaNet(ridge=2.0, decay=0.9, solver="rls")
    got = store.recall(written(store, keys, values), queries)
    weights = 0.9 ** np.arange(29, -1, -1)
    assert gap(got, ridge_regression(keys, values, queries, 2.0 * 0.9**30, weights)) < 1e-9
    assert gap(got, ridge_regression(keys, values, queries, 2.0, weights)) > 1e-2  # what "cg" and "direct" give


def test_a_huge_ridge_is_the_outer_product_store_and_a_tiny_one_least_squares():
    keys, values, queries = drawn(2, 40, 8, 5)
    outer = OuterProduct().recall(written(OuterProduct(), keys, values), queries)
    store = MesaNet(ridge=1e8)
    assert gap(1e8 * store.recall(written(store, keys, values), queries), outer) < 1e-6
    assert gap(1e2 * MesaNet(ridge=1e2).recall(written(MesaNet(ridge=1e2), keys, values), queries), outer) > 1e-2
    for n, tolerance in ((5, 1e-5), (40, 1e-8)):
        keys, values, queries = drawn(3, n, 8, 5)
        optimal = OptimalLinear().recall(written(OptimalLinear(), keys, values), queries)
        for store in (MesaNet(ridge=1e-10, solver="direct"), MesaNet(ridge=1e-10, max_steps=200)):
            assert gap(store.recall(written(store, keys, values), queries), optimal) < tolerance
    assert gap(MesaNet().recall(written(MesaNet(), keys, values), queries), optimal) > 1e-2


# ---------------------------------------------------------------------- conjugate gradients


def test_conjugate_gradients_end_after_as_many_steps_as_there_are_eigenvalues():
    rng = np.random.default_rng(5)
    q, _ = np.linalg.qr(rng.normal(size=(12, 12)))
    matrix = q @ np.diag([1.0] * 5 + [30.0] * 4 + [7.0] * 3) @ q.T
    rows = rng.normal(size=(6, 12))
    diagonal = np.full(12, 2.0)  # any start will do that solves none of the three
    exact = np.linalg.solve(matrix, rows.T).T
    for steps, fits in ((3, True), (2, False)):
        x, residuals = conjugate_gradient(lambda x: x @ matrix, rows, diagonal, max_steps=steps, tolerance=1e-12)
        assert bool(gap(x, exact) < 1e-10) is fits
        true = np.linalg.norm(x @ matrix - rows, axis=-1) / np.linalg.norm(rows, axis=-1)
        np.testing.assert_allclose(residuals, true, rtol=1e-5, atol=1e-12)
    x, residuals = conjugate_gradient(lambda x: x @ matrix, 0 * rows, diagonal, max_steps=9, tolerance=1e-12)
    assert not x.any()
    assert not residuals.any()


def test_queries_that_do_not_converge_are_announced_and_solved_directly():
    rng = np.random.default_rng(6)
    keys, values = rng.normal(size=(500, 64)) * np.geomspace(1, 1e-3, 64), rng.normal(size=(500, 3))
    store, direct = MesaNet(ridge=1e-6), MesaNet(ridge=1e-6, solver="direct")
    state, queries = written(store, keys, values), rng.normal(size=(7, 64))
    want = direct.recall(written(direct, keys, values), queries)
    with pytest.warns(ConvergenceWarning, match="left 7 of 7 queries .* after 30 steps .* solved directly") as heard:
        got = store.recall(state, queries)
    assert heard[0].filename == __file__
    assert gap(got, want) < 1e-6
    with pytest.warns(ConvergenceWarning):
        out = store.scan(store.empty(64, 3), keys[:70], values[:70], rng.normal(size=(70, 64)))[1]
    assert np.isfinite(out).all()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        patient = MesaNet(ridge=1e-6, max_steps=2000, tolerance=1e-9)
        assert gap(patient.recall(state, queries), want) < 1e-5


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_default_converges_on_random_keys_of_every_load(dtype):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for n in (1, 32, 64, 128, 2048):
            keys, values, _ = drawn(n, n, 64, 4)
            out = MesaNet().recall(
                written(MesaNet(), keys.astype(dtype), values.astype(dtype)), keys[:50].astype(dtype)
            )
            want = ridge_regression(keys, values, keys[:50], 1.0)
            assert gap(out, want) < (1e-9 if dtype is np.float64 else 1e-4)


# ---------------------------------------------------------------------- forms, splits, libraries


# ---------------------------------------------------------------------- settings


def test_recursive_least_squares_with_forgetting_winds_up_and_says_so():
    key = np.array([[1.0, 0.0]])
    store = MesaNet(solver="rls", decay=0.5)
    state = written(store, key, np.ones((1, 1)))
    with pytest.raises(DivergedError, match="float64") as caught:
        store.write(state, np.repeat(key, 2000, axis=0), np.ones((2000, 1)))
    assert 1000 < caught.value.step < 1100  # 2^-n leaves float64 there
    with pytest.raises(InputError, match=r"`decay` of MesaNet\.write must be > 0"):
        store.write(state, key, np.ones((1, 1)), decay=np.zeros(1))


def test_recursive_least_squares_refuses_a_decay_of_nothing():
    with pytest.raises(InputError, match=r"`decay` of MesaNet must be a number in \(0, 1\] with solver"):
        MesaNet(decay=0.0, solver="rls")


# ---------------------------------------------------------------------- small ridges


@pytest.mark.parametrize("library", ["numpy", "torch"])
@pytest.mark.parametrize("solver", ["cg", "direct"])
def test_a_small_ridge_in_float32_ends_at_the_smallest_norm(solver, library):
    xp = np if library == "numpy" else pytest.importorskip("torch")
    rng = np.random.default_rng(0)
    one = rng.normal(size=(1, 16))
    keys, values, queries = np.repeat(one / np.linalg.norm(one), 50, axis=0), rng.normal(size=(50, 4)), np.eye(16)
    give = lambda x: xp.asarray(x.astype(np.float32))  # noqa: E731
    for ridge in (1e-2, 1e-4, 1e-6, 1e-12):
        store = MesaNet(ridge=ridge, solver=solver)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", IllConditionedWarning)
            got = np.asarray(store.recall(written(store, give(keys), give(values)), give(queries)))
        want = queries @ keys[:1].T @ values.sum(axis=0, keepdims=True) / (50 + ridge)
        assert np.abs(got - want).max() < 1e-6 * np.abs(want).max(), ridge


@pytest.mark.parametrize("solver", SOLVERS)
def test_a_ridge_that_the_dtype_cannot_carry_is_said_once_a_call(solver):
    keys, values, queries = (x.astype(np.float32) for x in drawn(3, 10, 16, 4))
    store = MesaNet(ridge=1e-6, solver=solver)
    small = r"a ridge of 1e-06 is small for float32 \(condition number about 1e\+"
    with pytest.warns(IllConditionedWarning, match=small):
        store.recall(written(store, keys, values), queries)
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        store.recall(written(store, keys, values), queries)
        store.scan(store.empty(16, 4), keys, values, queries)
    assert len(heard) == 2
    for dtype, ridge in ((np.float32, 1.0), (np.float64, 1e-6)):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            store = MesaNet(ridge=ridge, solver=solver)
            store.recall(written(store, keys.astype(dtype), values.astype(dtype)), queries.astype(dtype))


def test_a_scan_over_dependent_keys_is_the_loop_at_a_small_ridge():
    keys, values, queries = (x.astype(np.float32) for x in drawn(4, 100, 8, 3))
    keys = keys[:, :2] @ keys[:2]
    store = MesaNet(ridge=1e-7)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", IllConditionedWarning)
        _, got = store.scan(store.empty(8, 3), keys, values, queries)
        loop = [store.recall(written(store, keys[: i + 1], values[: i + 1]), queries[i : i + 1]) for i in range(100)]
    truth = [queries[i : i + 1] @ np.linalg.pinv(keys[: i + 1], rcond=1e-4) @ values[: i + 1] for i in range(100)]
    assert gap(got[2:], np.concatenate(loop)[2:]) < 2e-3
    assert gap(got[5:], np.concatenate(truth)[5:]) < 2e-3


def test_a_scan_leaves_out_the_rounding_of_the_dtype_in_which_its_keys_came():
    rng, store = np.random.default_rng(5), MesaNet(ridge=1e-9, solver="direct")
    keys, empty = rng.normal(size=(40, 2)) @ rng.normal(size=(2, 8)), store.empty(8, 3, state_dtype="float64")
    came = [x.astype(np.float16) for x in (keys, rng.normal(size=(40, 3)), rng.normal(size=(40, 8)))]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", IllConditionedWarning)
        _, got = store.scan(empty, *came)
        want = store.recall(store.write(empty, *came[:2]), came[2][-1:])
        _, twin = store.scan(empty, *(x.astype(float) for x in came))  # as if they had come in float64
    assert gap(got[-1:].astype(float), want.astype(float)) < 1e-2
    assert gap(twin[-1:], want.astype(float)) > 10


@pytest.mark.parametrize("single", [False, True], ids=["one write", "a write a pair"])
@pytest.mark.parametrize("kind", ["equal", "collinear", "plane", "free"])
def test_recursive_least_squares_in_float32_is_right_or_says_so(kind, single):
    rng, quiet = np.random.default_rng(9), 0
    one, axes = rng.normal(size=(1, 8)) / 8**0.5, rng.normal(size=(2, 8)) / 8**0.5
    for n, ridge in ((30, 1.0), (200, 1.0), (200, 0.1), (200, 1e-2), (30, 1e-4), (30, 1e-8)):
        keys = {"equal": np.repeat(one, n, 0), "collinear": one * np.linspace(-1, 1, n)[:, None],
                "plane": rng.normal(size=(n, 2)) @ axes, "free": rng.normal(size=(n, 8))}[kind]  # fmt: skip
        values, queries, store = rng.normal(size=(n, 3)), np.eye(8), MesaNet(ridge=ridge, solver="rls")
        state = store.empty(8, 3)
        with warnings.catch_warnings(record=True) as heard:
            warnings.simplefilter("always", IllConditionedWarning)
            for at in [slice(i, i + 1) for i in range(n)] if single else [slice(0, n)]:
                state = store.write(state, keys[at].astype(np.float32), values[at].astype(np.float32))
        want = ridge_regression(keys, values, queries, ridge)
        error = np.abs(store.recall(state, queries.astype(np.float32)) - want).max() / np.abs(want).max()
        assert heard or error < 1e-3, (n, ridge, error)
        assert all("condition number about" in str(w.message) for w in heard)
        quiet += not heard
    assert quiet >= (2 if kind == "free" else 1)  # a store that always warned would tell nothing


def test_many_pairs_by_recursive_least_squares_are_rounded_once():
    rng = np.random.default_rng(0)
    keys, values = np.repeat(rng.normal(size=(1, 8)) / 8**0.5, 300, axis=0), rng.normal(size=(300, 3))
    store = MesaNet(ridge=0.1, solver="rls")
    want = ridge_regression(keys, values, np.eye(8), 0.1)
    narrow = [x.astype(np.float32) for x in (keys, values, np.eye(8))]
    state = store.empty(8, 3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", IllConditionedWarning)
        at_once = written(store, *narrow[:2])
        for i in range(300):
            state = store.write(state, narrow[0][i : i + 1], narrow[1][i : i + 1])
    once, often = (gap(store.recall(held, narrow[2]), want) for held in (at_once, state))
    assert once < 1e-6
    assert often > 10 * once  # rounded after every pair
