"""The sequences sampler: pairs written in an order, each trial a sequence of its own, some of them as one batch."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import Protocol

import numpy as np

from assocmem.contract.store import Store
from assocmem.inputs import draw_pairs
from assocmem.kernels.compute import Progress, Workers, run_tasks
from assocmem.lab.keys import Batch
from assocmem.lab.plan import FloatArray, LabelledStore, Plan, Trials
from assocmem.lab.probe import takes_batches

Numbers = dict[str, FloatArray]
AT_ONCE, FEWEST = 8, 6
PER_CHANNEL = 8
"""Trials of a store with weights of each value channel are this many times fewer: each target costs a write."""


class Question(Protocol):
    """What is asked of a store once a sequence was written."""

    def ask(self, store: Store, keys: FloatArray, values: FloatArray, plan: Plan, batch: Batch) -> Numbers:
        """Write pairs (count, n, d), ask, and return numbers (count, m) by what they are."""
        ...

    def trials(self, plan: Plan, one: LabelledStore, n: int, numbers: Numbers) -> Iterator[Trials]:
        """Yield the numbers of all trials, (trials, m) each, place by place."""
        ...


@dataclass(frozen=True)
class Sequences:
    """Trials of n pairs in an order, which `question` writes and asks for.

    trials: >= 6, as a median's interval needs them; 8 times fewer for stores with weights of each value channel.
    """

    question: Question
    trials: int = 64

    def draw(self, plan: Plan, workers: Workers, progress: Progress | None) -> Iterator[Trials]:
        """Yield the question's trials, store by store, then M."""
        points, tasks = list(product(plan.stores, plan.memories)), []
        for one, n in points:
            each = one.store.traits.linear_in_values == "per-channel"
            trials = max(FEWEST, self.trials // PER_CHANNEL) if each else self.trials
            size = AT_ONCE if takes_batches(one.store) else 1
            tasks.append([(one.store, Batch(n, first, min(size, trials - first))) for first in range(0, trials, size)])
        flat = [task for group in tasks for task in group]
        done = iter(run_tasks(partial(_ask, self.question, plan), flat, workers=workers, progress=progress))
        for (one, n), group in zip(points, tasks, strict=True):
            parts = [next(done) for _ in group]
            yield from self.question.trials(
                plan, one, n, {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
            )


def _ask(question: Question, plan: Plan, task: tuple[Store, Batch]) -> Numbers:
    """Draw a batch and return its numbers, (count, m) each; one by one for a store that takes no batches."""
    store, batch = task
    drawn = [
        draw_pairs(plan.seed, batch.first + i, batch.n, plan.d_k, plan.d_v, keys=plan.keys, values=plan.values)
        for i in range(batch.count)
    ]
    keys, values = np.stack([p.keys for p in drawn]), np.stack([p.values for p in drawn])
    if takes_batches(store):
        return question.ask(store, keys, values, plan, batch)
    return {name: part[None] for name, part in question.ask(store, keys[0], values[0], plan, batch).items()}
