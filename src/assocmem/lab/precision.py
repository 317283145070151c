"""The rounding sampler: what it costs to keep a store's state in few bits, against the same store in float64."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import Any

import numpy as np

from assocmem.contract.arrays import to_numpy
from assocmem.contract.errors import InputError
from assocmem.contract.state import Pairs
from assocmem.contract.store import Store
from assocmem.inputs import draw_pairs
from assocmem.kernels.compute import Progress, Workers, run_tasks
from assocmem.lab.extras import drawn_extras, part
from assocmem.lab.keys import SAMPLER
from assocmem.lab.plan import FloatArray, Plan, Trials
from assocmem.lab.probe import as_taken, takes_batches
from assocmem.ruler.ratio import by_vectors
from assocmem.ruler.weights import recall_with_own_weights

NUMPY_DTYPES = ("float64", "float32", "float16")
INTERFERENCE = "interference"
ROUNDING = "root mean square over trials of ||f(k_j) - g(k_j)|| / (|A_jj| ||v_j||), g the float64 store written at once"


def measurable_dtypes(*, fast: bool = False) -> tuple[str, ...]:
    """Return the dtypes a state can be kept in here: bfloat16 only where torch is installed (and not `fast`)."""
    torch = not fast and importlib.util.find_spec("torch") is not None
    return (*NUMPY_DTYPES, "bfloat16") if torch else NUMPY_DTYPES


@dataclass(frozen=True)
class Rounding:
    """Trials of pairs written one by one into a state of each dtype; the `newest` pairs (at most M) are asked for.

    dtypes: see `measurable_dtypes`; bfloat16 needs torch, the others are measured in NumPy. trials: sequences, written
    side by side as one batch. Cost: max(memories) single writes for each store and dtype.
    """

    dtypes: tuple[str, ...] = NUMPY_DTYPES
    trials: int = 8
    newest: int = 8

    def draw(self, plan: Plan, workers: Workers, progress: Progress | None) -> Iterator[Trials]:
        """Yield, store by store, the interference of the float64 store at every M, then the rounding of every dtype.

        Raises InputError for stores that are not linear in their values with one row of weights.
        """
        for one in plan.stores:
            traits = one.store.traits
            if traits.linear_in_values != "shared" or traits.affine or not takes_batches(one.store):
                raise InputError(
                    f"{one.label} has no one row of weights for all channels; its rounding is not measured."
                )
        tasks = [(one.store, "") for one in plan.stores]
        tasks += [(one.store, dtype) for one, dtype in product(plan.stores, self.dtypes)]
        done = iter(run_tasks(partial(_recalls, self, plan), tasks, workers=workers, progress=progress))
        references = [next(done) for _ in plan.stores]
        for one, reference in zip(plan.stores, references, strict=True):
            recalls, signals, ratios = reference
            where = {"of": one.label, "label": INTERFERENCE, "state_dtype": "float64"}
            for n in plan.memories:
                yield Trials(one, n, ratios[n], "rms", "vectors", SAMPLER, where, INTERFERENCE)
            for dtype in self.dtypes:
                found, _, _ = next(done)
                where = {"of": one.label, "label": dtype, "state_dtype": dtype}
                for n in plan.memories:
                    apart = np.linalg.norm(found[n] - recalls[n], axis=-1) / signals[n]
                    yield Trials(one, n, apart, "rms", "vectors", SAMPLER, where, "rounding", ROUNDING)


Numbers = dict[int, FloatArray]


def _recalls(sampler: Rounding, plan: Plan, task: tuple[Store, str]) -> tuple[Numbers, Numbers, Numbers]:
    """Return by M the recalls (trials, m, d_v); for the reference also signals (trials, m) and ratios (trials, m)."""
    store, dtype = task
    n = max(plan.memories)
    drawn = [draw_pairs(plan.seed, i, n, plan.d_k, plan.d_v, values=plan.values) for i in range(sampler.trials)]
    keys, values = np.stack([p.keys for p in drawn]), np.stack([p.values for p in drawn])
    keys, values = as_taken(store, keys, values)
    extras = drawn_extras(store, keys, plan.d_v, plan.extras, law=plan.keys, seed=plan.seed, trial=0)
    pairs = Pairs(keys, values, extras=extras)
    newest = {n: np.arange(max(0, n - sampler.newest), n) for n in plan.memories}
    recalls, signals, ratios = Numbers(), Numbers(), Numbers()
    if not dtype:
        for n, at in newest.items():
            found, own, _ = recall_with_own_weights(store, part(store, pairs, slice(n)), keys[:, at], at)
            recalls[n], signals[n] = found, np.abs(own) * np.linalg.norm(values[:, at], axis=-1)
            ratios[n] = by_vectors(found, values[:, at], own)
        return recalls, signals, ratios
    xp: Any = np
    if dtype not in NUMPY_DTYPES:
        import array_api_compat.torch as xp
    asked = xp.asarray(keys)
    state = store.empty(plan.d_k, plan.d_v, batch=(sampler.trials,), like=asked, state_dtype=dtype)

    def taken(rows: FloatArray) -> Any:
        return xp.astype(xp.asarray(rows), state.dtype)  # as every write would, but once

    pairs = Pairs(taken(keys), taken(values), extras={name: taken(rows) for name, rows in extras.items()})
    for i in range(n):
        one = part(store, pairs, slice(i, i + 1))
        state = store.write(state, one.keys, one.values, **one.extras)
        if i + 1 in newest:
            recalls[i + 1] = to_numpy(store.recall(state, asked[:, newest[i + 1][0] : i + 1])).astype(np.float64)
    return recalls, signals, ratios
