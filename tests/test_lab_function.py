"""A user's rule given as a plain function: its capacity is found with memory in proportion to M."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

from assocmem import theory
from assocmem.contract.errors import InputError
from assocmem.kernels import compute
from assocmem.lab import keys as keys_room
from assocmem.lab.capacity import capacity
from assocmem.lab.keys import estimator_of, has_weights
from assocmem.maps.activations import ReLU
from assocmem.stores import function as function_room
from assocmem.stores.function import FunctionStore
from assocmem.stores.mlp import MLP
from batches import weights_of
from plans import key_plan, key_ratios


def cube(keys, values, queries):
    return np.maximum(queries @ keys.T, 0) ** 3 @ values


def shifted(keys, values, queries):
    return cube(keys, values, queries) + 0.25


D, D_V, TARGETS = 16, 16, 8
N = 4096
MULTIPLE = 8
"""Arrays of M rows and of d_k + d_v + targets columns that may be held at once; twice what was counted."""


def plan_of(store, n=N, **settings):
    return key_plan([store], D, [n], trials=2, targets=TARGETS, d_v=D_V, **settings)


def peak(plan) -> float:
    """Return the numbers that were held at once, in units of M (d_k + d_v + targets)."""
    key_ratios(plan_of(FunctionStore(cube), 2))
    tracemalloc.start()
    try:
        key_ratios(plan)
        return tracemalloc.get_traced_memory()[1] / 8 / (plan.memories[0] * (D + D_V + TARGETS))
    finally:
        tracemalloc.stop()


def test_memory_grows_with_m_and_not_with_its_square():
    assert peak(plan_of(FunctionStore(cube))) < MULTIPLE


def test_a_row_of_weights_at_once_breaks_the_bound(monkeypatch):
    # The broken twin, as it was: one-hot values of width M.
    monkeypatch.setattr(function_room, "ONE_HOT_AT_ONCE", 1 << 62)
    assert peak(plan_of(FunctionStore(cube), estimator="weights")) > 10 * MULTIPLE


def test_a_trial_calls_the_function_once_with_a_channel_for_each_target():
    seen = []

    def counted(keys, values, queries):
        seen.append((keys.shape, values.shape, queries.shape))
        return cube(keys, values, queries)

    store = FunctionStore(counted, promises=FunctionStore(cube).traits)
    plan = plan_of(store)
    key_ratios(plan)
    large = [shapes for shapes in seen if shapes[0][0] == N]
    assert large == [((N, D), (N, D_V + TARGETS), (TARGETS, D))] * plan.sampler.trials


def test_a_function_is_read_by_vectors_and_a_store_with_weights_by_them():
    assert not has_weights(FunctionStore(cube))
    assert has_weights(MLP(ReLU(3)))
    assert (estimator_of(FunctionStore(cube), 512), estimator_of(FunctionStore(cube), 513)) == ("weights", "vectors")


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("function", [cube, shifted])
def test_weights_in_blocks_are_the_weights(monkeypatch, function, masked):
    rng = np.random.default_rng(0)
    keys, values, queries = (rng.standard_normal(shape) for shape in ((2, 7, 4), (2, 7, 3), (2, 5, 4)))
    store = FunctionStore(function)
    state = store.write(store.empty(4, 3, batch=(2,)), keys, values)
    mask = rng.random((2, 5, 7)) < 0.6 if masked else None
    want = np.maximum(queries @ keys.mT, 0) ** 3 * (1 if mask is None else mask)
    for at_once in (1, 21, 1 << 20):
        monkeypatch.setattr(function_room, "ONE_HOT_AT_ONCE", at_once)
        np.testing.assert_allclose(weights_of(store, state, queries, mask=mask), want, rtol=1e-12, atol=1e-12)
    assert weights_of(store, store.empty(4, 3, batch=(2,)), queries).shape == (2, 5, 0)


def test_the_capacity_of_a_function_is_that_of_its_rule():
    exact = theory.capacity(ReLU(3), D).value
    found = capacity(FunctionStore(cube), D, workers=1).measured
    assert found.low < exact < found.high
    assert found.high - found.low < 0.15 * exact
    assert "by vectors" in found.definition


def test_another_power_has_another_capacity():
    exact = theory.capacity(ReLU(3), D).value
    found = capacity(FunctionStore(lambda k, v, q: np.maximum(q @ k.T, 0) ** 2 @ v), D, workers=1).measured
    assert found.high < exact


def test_many_pairs_in_blocks_give_the_ratios_of_one_write(monkeypatch):
    plan = plan_of(FunctionStore(cube))
    whole = key_ratios(plan)[N]
    monkeypatch.setattr(keys_room, "LARGE", 2000)
    monkeypatch.setattr("assocmem.lab.out_of_core.WRITTEN_AT_ONCE", 700)
    np.testing.assert_allclose(key_ratios(plan)[N], whole, rtol=1e-9)


def test_an_affine_function_is_refused_in_blocks(monkeypatch):
    monkeypatch.setattr(keys_room, "LARGE", 100)
    with pytest.raises(InputError, match="can be measured with at most 100 memories"):
        key_ratios(plan_of(FunctionStore(shifted)))


# ---------------------------------------------------------------------- what stops a search


def test_a_search_that_stops_for_patience_says_so(monkeypatch):
    monkeypatch.setattr("assocmem.lab.capacity.PATIENCE", -1.0)
    reason = capacity(FunctionStore(cube), 32, workers=1).measured.reason
    assert reason.startswith("not reached below M = 2; the ratio there is ")
    assert "the search stopped because one M took more than" in reason
    assert reason.endswith("name a larger M with --max-memories to go on")
    named = capacity(FunctionStore(cube), 32, largest=2, workers=1).measured.reason
    assert named.endswith("; raise --max-memories")
    assert "stopped" not in named


def test_a_trial_that_memory_does_not_hold_is_refused_before_it_is_drawn(monkeypatch):
    monkeypatch.setattr(compute, "free_bytes", lambda: 4e6)
    drawn = []
    monkeypatch.setattr(keys_room, "draw_pairs", drawn.append)
    words = r"a trial of M = 4096 memories at d_k = 16 needs about 0\.0 GB of memory, of which 0\.0 GB are free"
    with pytest.raises(InputError, match=words):
        key_ratios(plan_of(FunctionStore(cube)))
    assert drawn == []


def test_many_pairs_that_memory_does_not_hold_are_refused(monkeypatch):
    monkeypatch.setattr(compute, "free_bytes", lambda: 3e6)
    monkeypatch.setattr(keys_room, "LARGE", 2000)
    with pytest.raises(InputError, match="measure fewer memories"):
        key_ratios(plan_of(FunctionStore(cube)))
    # A store of fixed size holds one block of them.
    assert np.isfinite(key_ratios(plan_of("outer-product"))[N]).all()


def test_fewer_threads_where_memory_does_not_hold_a_trial_for_each(monkeypatch):
    plan = plan_of(FunctionStore(cube))
    whole = key_ratios(plan, workers=2)[N]
    tasks = plan.sampler.batches(plan, N, True)
    one = plan.sampler.bytes_of(plan, tasks[0])
    assert one == 4 * 8 * tasks[0].count * N * (D + D_V + TARGETS)
    monkeypatch.setattr(compute, "free_bytes", lambda: 1.5 * one)
    assert plan.sampler.workers_that_fit(2, plan, tasks) == 1
    assert np.array_equal(key_ratios(plan, workers=2)[N], whole)
    monkeypatch.setattr(compute, "free_bytes", lambda: 2.5 * one)
    assert plan.sampler.workers_that_fit(2, plan, tasks) == 2
    assert plan.sampler.workers_that_fit(0, plan, tasks) == 0  # refused where tasks are run


def test_the_estimate_is_near_what_a_trial_takes():
    plan = plan_of(FunctionStore(cube))
    task = plan.sampler.batches(plan, N, True)[0]
    counted = plan.sampler.bytes_of(plan, task) / 8 / (N * (D + D_V + TARGETS))
    assert 0.5 * counted < peak(plan) < 1.5 * counted
