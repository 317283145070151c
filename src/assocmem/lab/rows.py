"""The rows sampler: random subsets of a user's own rows are stored, some of their keys asked for."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import product

import numpy as np

from assocmem.contract.errors import AssocmemError
from assocmem.contract.numbers import stream
from assocmem.contract.state import Pairs
from assocmem.contract.store import Store
from assocmem.kernels.compute import Progress, Workers, run_tasks
from assocmem.lab.keys import NUMBERS_AT_ONCE, estimator_of, ratios
from assocmem.lab.plan import Estimator, FloatArray, LabelledStore, Plan, Trials
from assocmem.lab.probe import takes_batches
from assocmem.ruler.retrieval import retrieval_definition, top1_right

SAMPLER = "subsets of given keys"
NOTHING = np.empty((0, 1))


@dataclass(frozen=True, eq=False)
class Rows:
    """Trials that store n of the given rows in random order and without repetition, each from its own stream.

    keys (n, d), values (n, d_v); queries (m, d) with their targets (m,) in [0, n), or None for the keys themselves.
    trials at each M; asked: pairs asked for in each, at most M. estimator, largest: as in `keys.estimator_of`, by the
    largest M. name: tells heads apart in the random streams.
    """

    keys: FloatArray
    values: FloatArray
    queries: FloatArray | None = None
    targets: FloatArray | None = None
    trials: int = 24
    asked: int = 32
    estimator: Estimator = "auto"
    largest: int = 1
    name: int = 0

    def draw(self, plan: Plan, workers: Workers, progress: Progress | None) -> Iterator[Trials]:
        """Yield ratios and shares of right recalls of every store and M, or why the store refused the keys."""
        tasks = [(one, self.estimator_of(one.store), n) for one, n in product(plan.stores, plan.memories)]
        done = run_tasks(partial(_subsets, self, plan.seed), tasks, workers=workers, progress=progress)
        for (one, estimator, n), (found, right, refusal) in zip(tasks, done, strict=True):
            statistic = "median" if estimator == "projection" else plan.statistics[0]
            yield Trials(one, n, found, statistic, estimator, SAMPLER, refusal=refusal)
            words = retrieval_definition(n) if n > 1 else "one candidate"
            yield Trials(
                one, n, right, "mean", estimator, SAMPLER, quantity="retrieval", definition=words,
                recalls=found.shape[1], refusal=refusal,
            )  # fmt: skip

    def estimator_of(self, store: Store) -> Estimator:
        """Return how a store's ratio is read, the same at every M."""
        return estimator_of(store, self.largest, self.estimator)

    def subset(self, seed: int, n: int, trial: int, places: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the rows of one trial (n,) in order of writing, and the queries (asked, d) for those at `places`."""
        rng, count = stream(seed, "subset", self.name, n, trial), len(self.keys)
        if self.queries is None or self.targets is None:
            chosen = rng.permutation(count)[:n]
            return chosen, self.keys[chosen[places]]
        order = rng.permutation(len(self.targets))
        _, first = np.unique(self.targets[order], return_index=True)
        asked = order[rng.permutation(first)[: len(places)]]
        others = rng.permutation(np.setdiff1d(np.arange(count), self.targets[asked]))[: n - len(places)]
        chosen = np.empty(n, dtype=np.int64)
        chosen[places] = self.targets[asked]
        chosen[np.setdiff1d(np.arange(n), places)] = others
        return chosen, self.queries[asked]


def _subsets(rows: Rows, seed: int, task: tuple[LabelledStore, Estimator, int]) -> tuple[FloatArray, FloatArray, str]:
    """Return ratios (trials, asked), shares of right recalls (trials,), and why the store refused.

    The targets' places in the order of writing are shared by the trials of a batch, so that they can be asked for
    together.
    """
    one, estimator, n = task
    store, batched = one.store, takes_batches(one.store)
    askable = len(rows.keys) if rows.targets is None else len(np.unique(rows.targets))
    width = rows.keys.shape[1] + rows.values.shape[1] + min(n, 1024)
    size = max(1, min(rows.trials, NUMBERS_AT_ONCE // (n * width))) if batched else 1
    parts = []
    try:
        for first in range(0, rows.trials, size):
            count = min(size, rows.trials - first)
            asked = min(rows.asked, n, askable)
            places = np.sort(stream(seed, "places", rows.name, n, first).choice(n, asked, replace=False))
            drawn = [rows.subset(seed, n, trial, places) for trial in range(first, first + count)]
            chosen, queries = (np.stack(part) for part in zip(*drawn, strict=True))
            if not batched:
                chosen, queries = chosen[0], queries[0]
            keys, values = rows.keys[chosen], rows.values[chosen]
            found = ratios(store, Pairs(keys, values), queries, places, estimator)
            state = store.empty(keys.shape[-1], values.shape[-1], batch=keys.shape[:-2])
            recalls = store.recall(store.write(state, keys, values), queries)
            right = top1_right(recalls, values, places).mean(axis=-1)
            parts.append((found.reshape(count, asked), right.reshape(count)))
    except AssocmemError as error:
        return NOTHING, np.empty(0), str(error)
    return np.concatenate([part[0] for part in parts]), np.concatenate([part[1] for part in parts]), ""
