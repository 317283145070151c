"""What rounding costs: a store's state kept in few bits, against the same store in float64."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from assocmem.contract.arrays import to_numpy
from assocmem.contract.errors import InputError
from assocmem.contract.results import Row
from assocmem.contract.state import Pairs
from assocmem.contract.store import Store
from assocmem.inputs import draw_pairs
from assocmem.kernels.compute import Progress, Workers, run_tasks
from assocmem.lab.labelled import Subject, subjects
from assocmem.lab.trials import takes_batches
from assocmem.ruler import by_vectors, summarise
from assocmem.ruler.weights import recall_with_own_weights

FloatArray = np.ndarray[Any, Any]
NUMPY_DTYPES = ("float64", "float32", "float16")
INTERFERENCE = "interference"
ROUNDING = "root mean square over trials of ||f(k_j) - g(k_j)|| / (|A_jj| ||v_j||), g the float64 store written at once"
DEFINITIONS = {
    "quantity": "interference: of the float64 store, over the signal; rounding: the distance of recalls from those of "
    "the float64 store, over the same signal",
    "state_dtype": "of the state; every pair is written by itself. The float64 store that all are compared with is "
    "written in large blocks, so that its own row shows what the order of sums alone changes",
    "n_memories": "pairs written; the newest of them are asked for",
    "value": "root mean square over trials, relative to the signal |A_jj| ||v_j||",
    "label": "interference, or the dtype of the state",
    "of": "the store",
}


def measurable_dtypes(*, fast: bool = False) -> tuple[str, ...]:
    """Return the dtypes a state can be kept in here: bfloat16 only where torch is installed (and not `fast`)."""
    torch = not fast and importlib.util.find_spec("torch") is not None
    return (*NUMPY_DTYPES, "bfloat16") if torch else NUMPY_DTYPES


@dataclass(frozen=True)
class _Task:
    store: Store
    dtype: str
    d_k: int
    d_v: int
    memories: tuple[int, ...]
    trials: int
    newest: int
    seed: int


def rounding_curves(
    stores: Iterable[Any],
    d_k: int,
    memories: Iterable[int],
    *,
    dtypes: Sequence[str] = NUMPY_DTYPES,
    d_v: int | None = None,
    trials: int = 8,
    newest: int = 8,
    seed: int = 0,
    workers: Workers = None,
    progress: Progress | None = None,
    experiment: str = "",
) -> list[Row]:
    """Return rows of interference and rounding after M pairs were written one by one, for each store and dtype.

    Parameters
    ----------
    stores: keys, Stores or (label, Store), linear in their values with one row of weights.
    memories: every M >= 1 at which the `newest` pairs (at most M) are asked for.
    dtypes: of the state, see `measurable_dtypes`; bfloat16 needs torch, the others are measured in NumPy.
    d_v: d_k by default. trials: sequences, written side by side as one batch.

    Raises InputError for other stores. Cost: max(memories) single writes for each store and dtype.

    >>> rows = rounding_curves(["outer-product"], 8, [4], dtypes=["float16"], workers=1)
    >>> [r["label"] for r in rows], rows[1]["value"] < 0.01 < rows[0]["value"]
    (['interference', 'float16'], True)
    """
    named, counts = subjects(*stores), tuple(sorted({int(n) for n in memories}))
    for one in named:
        if one.store.traits.linear_in_values != "shared" or one.store.traits.affine or not takes_batches(one.store):
            raise InputError(f"{one.label} has no one row of weights for all channels; its rounding is not measured.")
    tasks = [
        _Task(one.store, dtype, d_k, d_v or d_k, counts, trials, newest, seed) for one in named for dtype in dtypes
    ]
    first = [_Task(one.store, "", d_k, d_v or d_k, counts, trials, newest, seed) for one in named]
    done = run_tasks(_run, [*first, *tasks], workers=workers, progress=progress)
    rows: list[Row] = []
    for i, one in enumerate(named):
        reference, signals, ratios = done[i]
        rows += [_row(one, INTERFERENCE, ratios[n], n, first[i], experiment) for n in counts]
        for task, (found, _, _) in zip(tasks, done[len(named) :], strict=True):
            if task.store is one.store:
                apart = {n: np.linalg.norm(found[n] - reference[n], axis=-1) / signals[n] for n in counts}
                rows += [_row(one, task.dtype, apart[n], n, task, experiment) for n in counts]
    return rows


def _run(task: _Task) -> tuple[dict[int, FloatArray], dict[int, FloatArray], dict[int, FloatArray]]:
    """Return by M the recalls (trials, m, d_v); for the reference also signals (trials, m) and ratios (trials, m)."""
    n = max(task.memories)
    drawn = [draw_pairs(task.seed, i, n, task.d_k, task.d_v, values="sphere") for i in range(task.trials)]
    keys, values = np.stack([p.keys for p in drawn]), np.stack([p.values for p in drawn])
    return _single_writes(task, keys, values) if task.dtype else _reference(task, keys, values)


def _reference(
    task: _Task, keys: FloatArray, values: FloatArray
) -> tuple[dict[int, FloatArray], dict[int, FloatArray], dict[int, FloatArray]]:
    recalls, signals, ratios = {}, {}, {}
    for n in task.memories:
        at = np.arange(max(0, n - task.newest), n)
        found, own, _ = recall_with_own_weights(task.store, Pairs(keys[:, :n], values[:, :n]), keys[:, at], at)
        recalls[n], signals[n] = found, np.abs(own) * np.linalg.norm(values[:, at], axis=-1)
        ratios[n] = by_vectors(found, values[:, at], own)
    return recalls, signals, ratios


def _single_writes(
    task: _Task, keys: FloatArray, values: FloatArray
) -> tuple[dict[int, FloatArray], dict[int, FloatArray], dict[int, FloatArray]]:
    xp: Any = np
    if task.dtype not in NUMPY_DTYPES:
        import array_api_compat.torch as xp
    asked = xp.asarray(keys)
    state = task.store.empty(task.d_k, task.d_v, batch=(task.trials,), like=asked, state_dtype=task.dtype)
    k, v = (xp.astype(xp.asarray(a), state.dtype) for a in (keys, values))  # as every write would, but once
    recalls, done = {}, 0
    for n in task.memories:
        for i in range(done, n):
            state = task.store.write(state, k[:, i : i + 1], v[:, i : i + 1])
        done = n
        recalls[n] = to_numpy(task.store.recall(state, asked[:, max(0, n - task.newest) : n])).astype(np.float64)
    return recalls, {}, {}


def _row(one: Subject, label: str, numbers: FloatArray, n: int, task: _Task, experiment: str) -> Row:
    quantity = INTERFERENCE if label == INTERFERENCE else "rounding"
    words = None if quantity == INTERFERENCE else ROUNDING
    found = summarise(numbers, "rms", estimator="vectors", seed=task.seed, sampler="keys", definition=words)
    return {
        "experiment": experiment, "store": one.key, "of": one.label, "label": label, "quantity": quantity,
        "state_dtype": "float64" if quantity == INTERFERENCE else label, "d_k": task.d_k, "d_v": task.d_v,
        "n_memories": n, "estimator": "vectors", "statistic": found.statistic, "sampler": found.sampler,
        "value": found.value, "low": found.low, "high": found.high, "n_trials": found.n_trials, "seed": found.seed,
        "theory": None, "reason": found.reason,
    }  # fmt: skip
