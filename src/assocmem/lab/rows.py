"""The rows sampler: random subsets of a user's own rows are written, some of their keys asked for.

For stores whose recall is no sum over the pairs; the others are exact (`lab.exact`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import ClassVar

import numpy as np

from assocmem.contract.errors import AssocmemError
from assocmem.contract.numbers import stream
from assocmem.contract.state import Pairs
from assocmem.contract.store import Store
from assocmem.inputs import Law, value_law
from assocmem.kernels.compute import Progress, Workers, run_tasks
from assocmem.lab.extras import drawn_extras
from assocmem.lab.keys import NUMBERS_AT_ONCE, estimator_of, ratios
from assocmem.lab.plan import Estimator, FloatArray, LabelledStore, Plan, Trials
from assocmem.lab.probe import takes_batches
from assocmem.ruler.retrieval import retrieval_definition, top1_right

SAMPLER = "subsets of given keys"
NOTHING = np.empty((0, 1))


@dataclass(frozen=True, eq=False)
class _OneOf(Law):
    """Rows of the given ones, at random."""

    rows: FloatArray
    described: ClassVar[str] = "the given rows"
    unit: ClassVar[bool] = False

    def _draw(self, rng: np.random.Generator, n: int, d: int) -> FloatArray:
        return self.rows[rng.integers(len(self.rows), size=n)]


@dataclass(frozen=True, eq=False)
class Rows:
    """Trials that store n of the given rows without repetition, each from its own stream.

    keys (n, d), values (n, d_v), or None for random ones, drawn anew in each trial (`Plan.values`, `Plan.d_v`). Where
    keys ask for themselves a trial asks for `asked` of its n pairs. Queries (m, d) of one's own with their targets
    (m,), or a mask `seen` (m, n) of what each may see, are asked one a trial: one of those that see n rows, among its
    target and others at random, so that no other query has a say in what is stored. ordered: subsets are written in
    the order of the rows, not in a random one. trials at each M. name: tells heads apart in the random streams.
    """

    keys: FloatArray
    values: FloatArray | None = None
    queries: FloatArray | None = None
    targets: FloatArray | None = None
    seen: FloatArray | None = None
    ordered: bool = False
    trials: int = 24
    asked: int = 32
    name: int = 0

    def draw(self, plan: Plan, workers: Workers, progress: Progress | None) -> Iterator[Trials]:
        """Yield ratios and shares of right recalls of every store and M, or why the store refused the keys."""
        tasks = [(one, self.estimator_of(one.store), n) for one, n in product(plan.stores, plan.memories)]
        done = run_tasks(partial(_subsets, self, plan), tasks, workers=workers, progress=progress)
        for (one, estimator, n), (found, right, refusal) in zip(tasks, done, strict=True):
            statistic = "median" if estimator == "projection" else plan.statistics[0]
            yield Trials(one, n, found, statistic, estimator, SAMPLER, refusal=refusal)
            words = retrieval_definition(n) if n > 1 else "one candidate"
            yield Trials(
                one, n, right, "mean", estimator, SAMPLER, quantity="retrieval", definition=words,
                recalls=found.shape[1], refusal=refusal,
            )  # fmt: skip

    def estimator_of(self, store: Store) -> Estimator:
        """Return how a store's ratio is read: by its weights, the rms over values, where no values are given."""
        return estimator_of(store, len(self.keys), "weights" if self.values is None else "vectors")

    @property
    def together(self) -> bool:
        """Whether the pairs of a trial ask for themselves, all of one subset."""
        return self.queries is None and self.seen is None

    def subset(self, seed: int, n: int, trial: int, places: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return the rows of one trial (n,) as they are written, the queries (asked, d), and the places they ask for.

        `places`: where the targets shall stand, unless the subset keeps the order of the rows.
        """
        rng, count = stream(seed, "subset", self.name, n, trial), len(self.keys)
        if self.together:
            chosen = rng.permutation(count)[:n]
            return chosen, self.keys[chosen[places]], places
        queries = self.keys if self.queries is None else self.queries
        targets = np.arange(count) if self.targets is None else self.targets
        seen = np.ones((len(queries), count), dtype=bool) if self.seen is None else self.seen
        able = np.flatnonzero(seen[np.arange(len(queries)), targets] & (seen.sum(axis=1) >= n))
        query = rng.choice(able)
        target, others = targets[query], np.flatnonzero(seen[query])
        chosen = rng.permutation(others[others != target])[: n - 1]
        if self.ordered:
            chosen = np.sort(np.append(chosen, target))
            places = np.searchsorted(chosen, [target])
        else:
            chosen = np.insert(chosen, places[0], target)
        return chosen, queries[[query]], places


def _subsets(rows: Rows, plan: Plan, task: tuple[LabelledStore, Estimator, int]) -> tuple[FloatArray, FloatArray, str]:
    """Return ratios (trials, asked), shares of right recalls (trials,), and why the store refused.

    The targets' places in the order of writing are shared by the trials of a batch, so that they can be asked for
    together.
    """
    one, estimator, n = task
    store, seed, batched = one.store, plan.seed, takes_batches(one.store) and not rows.ordered
    d_v = plan.d_v if rows.values is None else rows.values.shape[1]
    width = rows.keys.shape[1] + d_v + min(n, 1024)
    size = max(1, min(rows.trials, NUMBERS_AT_ONCE // (n * width))) if batched else 1
    parts = []
    drawn_extras(store, rows.keys[:n], d_v, plan.extras, law=_OneOf(rows.keys), seed=seed, trial=0)  # a law may fail
    try:
        for first in range(0, rows.trials, size):
            count = min(size, rows.trials - first)
            asked = min(rows.asked, n) if rows.together else 1
            places = np.sort(stream(seed, "places", rows.name, n, first).choice(n, asked, replace=False))
            drawn = [rows.subset(seed, n, trial, places) for trial in range(first, first + count)]
            chosen, queries = (np.stack([part[i] for part in drawn]) for i in (0, 1))
            places = drawn[0][2]
            if rows.values is None:
                law = value_law(plan.values)
                values = np.stack([law.draw(stream(seed, "values", rows.name, n, first + i), n, d_v)
                                   for i in range(count)])  # fmt: skip
            else:
                values = rows.values[chosen]
            if not batched:
                chosen, queries, values = chosen[0], queries[0], values[0]
            keys = rows.keys[chosen]
            trial, law = (rows.name, n, first), _OneOf(rows.keys)
            pairs = Pairs(
                keys, values, extras=drawn_extras(store, keys, d_v, plan.extras, law=law, seed=seed, trial=trial)
            )
            found = ratios(store, pairs, queries, places, estimator)
            state = store.empty(keys.shape[-1], values.shape[-1], batch=keys.shape[:-2])
            recalls = store.recall(store.write(state, keys, values, **pairs.extras), queries)
            right = top1_right(recalls, values, places).mean(axis=-1)
            parts.append((found.reshape(count, asked), right.reshape(count)))
    except AssocmemError as error:
        return NOTHING, np.empty(0), str(error)
    return np.concatenate([part[0] for part in parts]), np.concatenate([part[1] for part in parts]), ""
