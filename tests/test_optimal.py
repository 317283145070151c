"""The optimal linear store against the pseudo-inverse, in batches and streams, on easy and on degenerate keys."""

from __future__ import annotations

import math

import numpy as np
import pytest

from assocmem.contract.arrays import to_numpy
from assocmem.contract.errors import IllConditionedWarning, RecallOverflowError
from assocmem.kernels import least_squares as lstsq
from assocmem.stores import optimal
from assocmem.stores.optimal import OptimalLinear
from batches import LIBRARIES
from batches import drawn_pairs as drawn

STORE = OptimalLinear()


def unit(x):
    return x / np.linalg.norm(x, axis=-1, keepdims=True)


def written(keys, values, cuts=(), store=STORE, **settings):
    state = store.empty(keys.shape[-1], values.shape[-1], batch=tuple(keys.shape[:-2]), **settings)
    n = int(keys.shape[-2])
    for start, stop in zip((0, *cuts), (*cuts, n), strict=True):
        state = store.write(state, keys[..., start:stop, :], values[..., start:stop, :])
    return state


def degenerate(seed=0):
    """Keys that are dependent in every way the store promises to survive, each with its rank."""
    rng = np.random.default_rng(seed)
    plain = rng.normal(size=(30, 6))
    dead = plain.copy()
    dead[:, [1, 4]] = 0
    return {
        "zero columns": (dead, 4),
        "duplicates": (np.concatenate([plain[:3]] * 10), 3),
        "collinear": (np.outer(rng.normal(size=30), rng.normal(size=6)), 1),
        "a plane": (rng.normal(size=(30, 2)) @ rng.normal(size=(2, 6)), 2),
        "all zero": (np.zeros((30, 6)), 0),
        "one of thirty": (np.concatenate([plain[:1], np.zeros((29, 6))]), 1),
        "independent": (plain, 6),
    }


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize(("n", "d"), [(1, 1), (5, 1), (1, 4), (3, 7), (7, 7), (8, 7), (16, 7), (60, 7), (10, 40)])
def test_recall_is_the_pseudo_inverse(n, d, library):
    xp = pytest.importorskip(library)
    keys, values = drawn(n * 100 + d, n, d)
    queries = np.random.default_rng(1).normal(size=(4, d))
    state = written(xp.asarray(keys), xp.asarray(values), cuts=(n // 2,))
    out = STORE.recall(state, xp.asarray(queries))
    expected = queries @ np.linalg.pinv(keys) @ values
    np.testing.assert_allclose(to_numpy(out), expected, rtol=1e-9, atol=1e-9)
    assert STORE.rank(state) == min(n, d)


def test_recall_weights_are_a_projection_with_trace_d():
    n, d = 37, 8
    keys, _ = drawn(3, n, d)
    weights = STORE.recall(written(keys, np.eye(n)), keys)
    np.testing.assert_allclose(weights, weights.T, atol=1e-13)
    np.testing.assert_allclose(weights @ weights, weights, atol=1e-13)
    own = np.diag(weights)
    assert math.isclose(own.sum(), d, rel_tol=1e-12)
    np.testing.assert_allclose((weights**2).sum(1) - own**2, own - own**2, atol=1e-13)


def test_its_ratio_above_d_follows_the_beta_law():
    d = 64
    for n, gaussian_mean, tolerance in ((80, 0.498, 0.03), (128, 1.008, 0.03), (256, 1.750, 0.03)):
        ratios = []
        for trial in range(6):
            keys, _ = drawn(1000 * n + trial, n, d)
            own = np.diag(STORE.recall(written(keys, np.eye(n)), keys))
            ratios.append(np.sqrt((1 - own) / own).mean())
        # Unit keys spread a little less than the Gaussian keys of the law: 0.2 to 1 % below it.
        assert abs(np.mean(ratios) / gaussian_mean - 1) < tolerance, n


def test_two_writes_from_one_state_do_not_meet():
    keys, values = drawn(5, 30, 4)
    for at in (3, 15, 16, 17):
        old = written(keys[:at], values[:at], cuts=tuple(range(1, at)))
        before = STORE.recall(old, keys).copy()
        left = STORE.write(old, keys[at : at + 1], values[at : at + 1])
        right = STORE.write(old, keys[at : at + 3], values[at : at + 3] * 2)
        STORE.recall(left, keys)
        for state, extra, scale in ((left, 1, 1), (right, 3, 2)):
            held = np.concatenate([values[:at], scale * values[at : at + extra]])
            expected = keys @ np.linalg.pinv(keys[: at + extra]) @ held
            np.testing.assert_allclose(STORE.recall(state, keys), expected, atol=1e-11)
        np.testing.assert_array_equal(STORE.recall(old, keys), before)


@pytest.mark.parametrize("seed", range(4))
def test_nearly_equal_keys_stream_as_well_as_in_a_batch_where_a_gram_matrix_fails(seed):
    rng = np.random.default_rng(seed)
    keys = rng.normal(size=(60, 5))
    keys[:, 4] = keys[:, 3] + 1e-7 * rng.normal(size=60)
    values = rng.normal(size=(60, 2))
    expected = np.linalg.lstsq(keys, values, rcond=None)[0]
    size = np.linalg.norm(expected)
    for cuts in ((), (7, 30), tuple(range(1, 60))):
        error = np.linalg.norm(STORE.solution(written(keys, values, cuts)) - expected) / size
        assert error < 1e-7, cuts
    by_gram = np.linalg.solve(keys.T @ keys, keys.T @ values)
    assert np.linalg.norm(by_gram - expected) / size > 1e-4


def test_two_keys_1e_7_apart_are_both_recalled_below_and_at_d():
    rng = np.random.default_rng(8)
    for n in (2, 20):
        keys = unit(rng.normal(size=(n, 20)))
        keys[1] = unit(keys[0] + 1e-7 * rng.normal(size=20))
        values = rng.normal(size=(n, 3))
        for cuts in ((), (1,), tuple(range(1, n))):
            np.testing.assert_allclose(STORE.recall(written(keys, values, cuts), keys), values, atol=1e-6)


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("case", degenerate())
def test_dependent_keys_get_the_minimum_norm_answer_and_their_rank(case, library):
    xp = pytest.importorskip(library)
    keys, rank = degenerate()[case]
    values = np.random.default_rng(6).normal(size=(30, 2))
    expected = np.linalg.pinv(keys, rtol=1e-12) @ values
    for cuts in ((), (9, 20), tuple(range(1, 30))):
        for scale in (1.0, 1e-120, 1e120):
            state = written(xp.asarray(keys * scale), xp.asarray(values), cuts)
            np.testing.assert_allclose(to_numpy(STORE.solution(state)) * scale, expected, atol=1e-12)
            assert STORE.rank(state) == rank


@pytest.mark.parametrize("ridge", [0.0, 0.3])
@pytest.mark.parametrize("library", LIBRARIES)
def test_a_problem_alone_and_in_a_batch_has_one_answer(library, ridge):
    xp, store = pytest.importorskip(library), OptimalLinear(ridge)
    cases = degenerate()
    keys = np.stack([keys for keys, _ in cases.values()])
    values = np.random.default_rng(7).normal(size=(len(cases), 30, 2))
    together = written(xp.asarray(keys), xp.asarray(values), cuts=(5,), store=store)
    recalls = to_numpy(store.recall(together, xp.asarray(keys)))
    assert to_numpy(store.rank(together)).tolist() == [rank for _, rank in cases.values()]
    conditions = to_numpy(store.condition(together))
    for i in range(len(cases)):
        alone = written(xp.asarray(keys[i]), xp.asarray(values[i]), cuts=(5,), store=store)
        np.testing.assert_allclose(recalls[i], to_numpy(store.recall(alone, xp.asarray(keys[i]))), atol=1e-12)
        np.testing.assert_allclose(conditions[i], store.condition(alone), rtol=1e-9)
    assert conditions[list(cases).index("all zero")] == 1


@pytest.mark.parametrize("case", ["independent", "duplicates", "zero columns", "all zero"])
def test_a_ridge_has_its_closed_form_and_goes_to_zero_without_a_jump(case):
    keys = degenerate()[case][0]
    values = np.random.default_rng(10).normal(size=(30, 2))
    limit = STORE.solution(written(keys, values, cuts=(11,)))
    for ridge in (1e3, 1.0, 1e-3):
        closed = np.linalg.solve(keys.T @ keys + ridge * np.eye(6), keys.T @ values)
        state = written(keys, values, cuts=(11,), store=OptimalLinear(ridge))
        np.testing.assert_allclose(OptimalLinear(ridge).solution(state), closed, atol=1e-11)
    previous = np.inf
    for ridge in (1e-2, 1e-6, 1e-12, 1e-20, 1e-26, 1e-28, 1e-30, 1e-32, 1e-60, 1e-300, 5e-324):
        store = OptimalLinear(ridge)
        gap = np.abs(store.solution(written(keys, values, cuts=(11,), store=store)) - limit).max()
        assert gap <= max(previous, 1e-14), ridge
        assert gap <= 2 * ridge + 1e-14, ridge
        previous = gap


def test_condition_is_reported_and_warned_of_above_the_bound_given():
    rng = np.random.default_rng(14)
    keys = 0.99 * rng.normal(size=8) + 0.01 * rng.normal(size=(4, 8))
    state = written(keys, rng.normal(size=(4, 2)))
    singular = np.linalg.svd(keys, compute_uv=False)
    assert math.isclose(STORE.condition(state), singular[0] / singular[-1], rel_tol=1e-9)
    assert STORE.condition(state, warn_above=1e12) > 50
    with pytest.warns(IllConditionedWarning, match="above 50; recalls lose that factor"):
        STORE.condition(state, warn_above=50)
    assert STORE.condition(STORE.empty(3, 2)) == 1
    assert STORE.rank(STORE.empty(3, 2)) == 0


def test_a_solution_is_found_once_per_state_and_folds_once_per_block(monkeypatch):
    solved, folded = [], []
    solve, fold = lstsq.solve, OptimalLinear._folded
    monkeypatch.setattr(lstsq, "solve", lambda *a, **k: solved.append(1) or solve(*a, **k))
    monkeypatch.setattr(OptimalLinear, "_folded", lambda *a: folded.append(1) or fold(*a))
    keys, values = drawn(15, 640, 20)
    state = written(keys, values, cuts=tuple(range(1, 640)))
    assert len(folded) == 640 // 20
    assert not solved
    first = STORE.recall(state, keys)
    for _ in range(5):
        np.testing.assert_array_equal(STORE.recall(state, keys), first)
    assert len(solved) == 1
    longer = STORE.write(state, keys[:1], values[:1] + 1)
    assert not np.allclose(STORE.recall(longer, keys), first, atol=1e-6)
    assert len(solved) == 2


def test_the_state_is_bounded_and_counts_what_is_pending():
    d, d_v, block = 20, 3, 20
    keys, values = drawn(16, 100, d, d_v)
    state, sizes = STORE.empty(d, d_v), []
    for i in range(100):
        state = STORE.write(state, keys[i : i + 1], values[i : i + 1])
        sizes.append(state.size)
        assert state.size == sum(a.size for a in state.contents.values())
        assert state["pending_keys"].shape[-2] == (i + 1) % block
    assert max(sizes) == d * d + d * d_v + (block - 1) * (d + d_v)
    assert np.allclose(np.tril(state["R"], -1), 0)
    np.testing.assert_allclose(state["R"].T @ state["R"], keys.T @ keys, atol=1e-12)


def test_a_long_write_folds_in_parts(monkeypatch):
    monkeypatch.setattr(lstsq, "MAX_FOLD", 40)
    keys, values = drawn(17, 333, 6)
    np.testing.assert_allclose(STORE.solution(written(keys, values)), np.linalg.pinv(keys) @ values, atol=1e-13)


def test_rank_survives_a_long_stream_in_single_precision():
    rng = np.random.default_rng(18)
    basis = rng.normal(size=(5, 12))
    keys = (rng.normal(size=(4000, 5)) @ basis).astype(np.float32)
    values = rng.normal(size=(4000, 2)).astype(np.float32)
    state = written(keys, values, cuts=tuple(range(1, 4000, 12)))
    assert STORE.rank(state) == 5
    expected = np.linalg.pinv(keys.astype(float), rtol=1e-4) @ values
    np.testing.assert_allclose(STORE.solution(state), expected, atol=1e-5)


@pytest.mark.parametrize(
    ("share", "more", "rank"), [(1e-4, 0, 2), (5e-7, 0, 1), (1e-4, 400_000, 1), (6e-4, 2_000_000, 2)], ids=str
)
def test_the_rounding_of_a_long_stream_counts_up_to_half_the_digits(share, more, rank):
    keys = np.zeros((2 + more, 2), np.float32)
    keys[0, 0], keys[1, 1] = 1, share
    assert STORE.rank(written(keys, keys[:, :1])) == rank


def test_half_and_mixed_precision_solve_in_single_at_least():
    keys, values = drawn(19, 20, 6)
    expected = keys @ np.linalg.pinv(keys) @ values
    state = written(keys.astype(np.float32), values.astype(np.float16))
    assert state["R"].dtype == np.float32
    out = STORE.recall(state, keys)
    assert out.dtype == np.float64
    np.testing.assert_allclose(out, expected, atol=5e-3)
    halves = written(keys.astype(np.float16), values.astype(np.float16))
    assert STORE.recall(halves, keys.astype(np.float16)).dtype == np.float16
    rounded = written(keys, values, state_dtype="float16")
    assert rounded["R"].dtype == np.float16
    np.testing.assert_allclose(STORE.recall(rounded, keys), expected, atol=2e-2)
    wide = written(*drawn(24, 64, 64), state_dtype="float16")
    assert STORE.rank(wide) > 32


@pytest.mark.parametrize("ridge", [0.0, 0.3])
@pytest.mark.parametrize(("n", "d"), [(3, 5), (5, 5), (9, 5), (40, 5), (1, 1)])
def test_gradients_flow_through_writes_and_recalls(n, d, ridge):
    torch = pytest.importorskip("torch")
    store = OptimalLinear(ridge)
    keys, values = drawn(20 + n, n, d, 2)
    queries = np.random.default_rng(21).normal(size=(2, d))
    tensors = [torch.tensor(a, requires_grad=True) for a in (keys, values, queries)]
    assert torch.autograd.gradcheck(
        lambda k, v, q: store.recall(written(k, v, cuts=(n // 2,), store=store), q), tensors, fast_mode=True
    )


@pytest.mark.parametrize("ridge", [0.0, 0.5, 1e-26])
def test_gradients_are_finite_where_singular_values_meet_and_recalls_agree(ridge):
    torch = pytest.importorskip("torch")
    store = OptimalLinear(ridge)
    keys = torch.eye(4, dtype=torch.float64)[:, [0, 1, 2, 2]].requires_grad_()
    values = torch.arange(8.0, dtype=torch.float64).reshape(4, 2)
    state = written(keys, values, store=store)
    for _ in range(2):
        store.recall(state, torch.eye(4, dtype=torch.float64)).sum().backward()
        assert bool(torch.isfinite(keys.grad).all())
    plain = store.solution(written(keys.detach().numpy(), values.numpy(), store=store))
    np.testing.assert_allclose(store.solution(state).detach().numpy(), plain, atol=1e-14)


@pytest.mark.parametrize("ridge", [1.0, 1e-14, 1e-26, 1e-30, 1e-300])
def test_recording_gradients_changes_no_recall_of_dependent_keys(ridge):
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(22)
    keys, values = rng.normal(size=(16, 3)) @ rng.normal(size=(3, 8)), rng.normal(size=(16, 2))
    store = OptimalLinear(ridge)
    recorded = written(torch.tensor(keys, requires_grad=True), torch.tensor(values), store=store)
    plain = store.solution(written(keys, values, store=store))
    np.testing.assert_allclose(store.solution(recorded).detach().numpy(), plain, atol=1e-13)


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("n", [10, 40])
def test_numbers_out_of_range_are_refused_and_large_ones_within_it_are_not(n, library):
    xp = pytest.importorskip(library)
    keys, values = drawn(23, n, 5)
    for size, dtype in ((1e300, np.float64), (1e36, np.float32)):
        state = written(xp.asarray((size * keys).astype(dtype)), xp.asarray(values.astype(dtype)))
        expected = np.linalg.pinv(keys) @ values
        np.testing.assert_allclose(to_numpy(STORE.solution(state)) * size, expected, atol=1e-5)
    huge = np.full((n, 5), 3e38, np.float32)
    with pytest.raises(RecallOverflowError, match="the keys written to OptimalLinear are too long for float32"):
        STORE.recall(written(xp.asarray(huge), xp.asarray(huge)), xp.asarray(huge))
    state = written(xp.asarray(keys.astype(np.float32)), xp.asarray(huge))
    with pytest.raises(RecallOverflowError, match="left the range of float32"):
        STORE.recall(state, xp.asarray(np.full((1, 5), 1e9, np.float32)))


def test_two_threads_that_write_from_one_old_state_get_their_own_pairs(monkeypatch):
    """The first writer stops between taking the buffer's end and writing, while a second writes from the same state."""
    keys, values = drawn(5, 3, 40)
    old = STORE.write(STORE.empty(40, 3), keys[:1], values[:1])
    original, others = lstsq.ar.write_rows, []

    def slow(buffer, start, stop, rows):
        if not others:
            others.append(None)
            others[0] = STORE.write(old, keys[1:2], values[1:2])
        original(buffer, start, stop, rows)

    monkeypatch.setattr(lstsq.ar, "write_rows", slow)
    mine = STORE.write(old, keys[2:3], values[2:3])
    for state, row in ((mine, 2), (others[0], 1)):
        np.testing.assert_array_equal(state["pending_keys"], keys[[0, row]])
        np.testing.assert_array_equal(state["pending_values"], values[[0, row]])


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize("cuts", [(), (7, 100, 211)])
def test_rounding_is_not_taken_for_directions(dtype, cuts):
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(8)
    keys, values = unit(rng.normal(size=(300, 8)) @ rng.normal(size=(8, 64))), rng.normal(size=(300, 3))
    given = [torch.as_tensor(x).to(getattr(torch, dtype)) for x in (keys, values)]
    state = written(*given, cuts=cuts)
    assert STORE.rank(state) == 8
    assert STORE.condition(state) < 10
    want = keys @ np.linalg.pinv(keys, rcond=1e-6) @ to_numpy(given[1])
    eps = float(torch.finfo(given[0].dtype).eps)
    assert np.abs(to_numpy(STORE.recall(state, given[0])) - want).max() < max(8 * eps, 1e-12) * np.abs(want).max()


def test_directions_that_half_precision_holds_stay():
    torch = pytest.importorskip("torch")
    keys = torch.diag(torch.tensor([1.0, 0.25, 2**-5])).to(torch.bfloat16)
    assert STORE.rank(written(keys, keys)) == 3
    assert STORE.rank(written(keys / 2 ** torch.tensor([[0], [0], [2]]), keys)) == 2


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("ridge", [0.0, 0.3])
def test_a_scan_is_the_loop_where_blocks_do_and_where_keys_depend_on_each_other(ridge, library, monkeypatch):
    xp, store, found = pytest.importorskip(library), OptimalLinear(ridge), []
    through = optimal.least_squares_scan
    monkeypatch.setattr(optimal, "least_squares_scan", lambda *a, **k: found.append(through(*a, **k)) or found[-1])
    keys, values = drawn(4, 40, 6, batch=(2,))
    queries = np.random.default_rng(2).normal(size=keys.shape)
    nearly = keys.copy()
    nearly[0, 20:] = keys[0, 19] + 1e-9 * keys[0, 20:]
    twice = keys.copy()
    twice[1, 3] = keys[1, 1]
    for case, blocks in ((keys, "all"), (nearly, "all"), (twice, "some"), (0 * keys, "none")):
        k, v, x = (xp.asarray(a) for a in (case, values, queries))
        for old, read in ((0, "after"), (0, "before"), (3, "after"), (17, "before")):
            state = written(k[:, :old, :], v[:, :old, :], store=store) if old else store.empty(6, 3, batch=(2,), like=k)
            rest = [a[:, old:, :] for a in (k, v, x)]
            found.clear()
            after, out = store.scan(state, *rest, read=read)
            slow, want = store._loop(state, *rest, read, {})
            np.testing.assert_allclose(to_numpy(out), to_numpy(want), rtol=1e-9, atol=1e-10)
            np.testing.assert_allclose(to_numpy(store.solution(after)), to_numpy(store.solution(slow)), atol=1e-10)
            taken = [block is not None for block, _ in found]
            assert after.n == slow.n == 40
            assert all(taken) if blocks == "all" else not any(taken) if blocks == "none" else True
            other = store.scan(state, *rest, read="before" if read == "after" else "after")[1]
            assert blocks == "none" or np.abs(to_numpy(other) - to_numpy(want)).max() > 1e-3


def test_a_scan_of_single_precision_is_as_near_as_its_loop():
    keys, values = (a.astype(np.float32) for a in drawn(5, 70, 24, batch=(2,)))
    out = STORE.scan(STORE.empty(24, 3, batch=(2,)), keys, values, keys)[1]
    exact = STORE._loop(
        STORE.empty(24, 3, batch=(2,)), *(a.astype(np.float64) for a in (keys, values, keys)), "after", {}
    )
    assert np.abs(out - exact[1]).max() < 1e-5
