"""Trials on given rows: random subsets of them are stored, some of their keys are asked for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from assocmem.contract.errors import AssocmemError
from assocmem.contract.random import stream
from assocmem.contract.state import Pairs
from assocmem.contract.store import Store
from assocmem.lab.plans import Estimator
from assocmem.lab.trials import ratios, takes_batches
from assocmem.ruler import top1_right

FloatArray = np.ndarray[Any, Any]
NUMBERS_AT_ONCE = 1 << 19


@dataclass(frozen=True, eq=False)
class Rows:
    """The rows of one head in one preparation.

    keys (n, d), values (n, d_v); queries (m, d) with their targets (m,) in [0, n), or None for the keys themselves.
    """

    keys: FloatArray
    values: FloatArray
    queries: FloatArray | None = None
    targets: FloatArray | None = None

    @property
    def askable(self) -> int:
        """How many different pairs can be asked for."""
        return len(self.keys) if self.targets is None else len(np.unique(self.targets))


@dataclass(frozen=True, eq=False)
class SubsetTask:
    """All trials of one store at one M; `name` tells heads apart in the random streams."""

    store: Store
    rows: Rows
    n: int
    trials: int
    asked: int
    estimator: Estimator
    seed: int
    name: int


@dataclass(frozen=True, eq=False)
class SubsetResult:
    """Ratios (trials, asked) and shares of right choices (trials,), or the reason why the store refused."""

    ratios: FloatArray
    right: FloatArray
    reason: str = ""


def run_subsets(task: SubsetTask) -> SubsetResult:
    """Store random subsets of n rows and ask for some of them; every trial reads its own stream.

    Trials store rows in random order and without repetition. The targets' places in that order are shared by the
    trials of a batch, so that they can be asked for together.
    """
    batched = takes_batches(task.store)
    width = task.rows.keys.shape[1] + task.rows.values.shape[1] + min(task.n, 1024)
    size = max(1, min(task.trials, NUMBERS_AT_ONCE // (task.n * width))) if batched else 1
    parts = []
    try:
        for first in range(0, task.trials, size):
            trials = range(first, min(first + size, task.trials))
            parts.append(_measured(task, trials, batched))
    except AssocmemError as error:
        return SubsetResult(np.empty((0, 0)), np.empty(0), str(error))
    return SubsetResult(np.concatenate([p[0] for p in parts]), np.concatenate([p[1] for p in parts]))


def _measured(task: SubsetTask, trials: range, batched: bool) -> tuple[FloatArray, FloatArray]:
    asked = min(task.asked, task.n, task.rows.askable)
    places = np.sort(stream(task.seed, "places", task.name, task.n, trials[0]).choice(task.n, asked, replace=False))
    drawn = [_subset(task, trial, places) for trial in trials]
    chosen = np.stack([rows for rows, _ in drawn])
    keys, values = task.rows.keys[chosen], task.rows.values[chosen]
    queries = np.stack([asks for _, asks in drawn])
    if not batched:
        keys, values, queries = keys[0], values[0], queries[0]
    found = ratios(task.store, Pairs(keys, values), queries, places, task.estimator)
    state = task.store.empty(keys.shape[-1], values.shape[-1], batch=keys.shape[:-2])
    recalls = task.store.recall(task.store.write(state, keys, values), queries)
    right = top1_right(recalls, values, places).mean(axis=-1)
    return found.reshape(len(trials), asked), right.reshape(len(trials))


def _subset(task: SubsetTask, trial: int, places: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the rows of one trial (n,) in order of writing, and the queries (asked, d) for those at `places`."""
    rows, rng = task.rows, stream(task.seed, "subset", task.name, task.n, trial)
    count = len(rows.keys)
    if rows.queries is None or rows.targets is None:
        chosen = rng.permutation(count)[: task.n]
        return chosen, rows.keys[chosen[places]]
    order = rng.permutation(len(rows.targets))
    _, first = np.unique(rows.targets[order], return_index=True)
    asked = order[rng.permutation(first)[: len(places)]]
    wanted = rows.targets[asked]
    others = rng.permutation(np.setdiff1d(np.arange(count), wanted))[: task.n - len(places)]
    chosen = np.empty(task.n, dtype=np.int64)
    chosen[places] = wanted
    chosen[np.setdiff1d(np.arange(task.n), places)] = others
    return chosen, rows.queries[asked]
