"""Trials of pairs written in an order: each a sequence of its own, some of them going through a store as one batch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from assocmem.contract.estimate import Estimate, Prediction, Statistic
from assocmem.contract.results import Row
from assocmem.contract.store import Store
from assocmem.inputs import Law, draw_pairs, key_law
from assocmem.kernels.compute import Progress, Workers, run_tasks
from assocmem.lab.labelled import Subject
from assocmem.lab.trials import takes_batches
from assocmem.ruler import summarise

FloatArray = np.ndarray[Any, Any]
Numbers = dict[str, FloatArray]
SAMPLER = "keys"
AT_ONCE = 8
PER_CHANNEL = 8
"""Trials of a store with weights of each value channel are this many times fewer: each target costs a write."""


@dataclass(frozen=True)
class SequenceTask:
    """`count` trials of one store from number `first`; `ask` is given the task and keys and values (count, n, d).

    chosen: the pairs that `ask` looks at. passes: how often all pairs are written.
    """

    ask: Callable[[SequenceTask, FloatArray, FloatArray], Numbers]
    store: Store
    d_k: int
    d_v: int
    n: int
    seed: int
    first: int
    count: int
    law: Law
    chosen: tuple[int, ...] = ()
    passes: int = 1


def measured(
    ask: Callable[[SequenceTask, FloatArray, FloatArray], Numbers],
    stores: Sequence[Subject],
    d_k: int,
    d_v: int,
    chosen: Mapping[int, tuple[int, ...]],
    trials: int,
    seed: int,
    workers: Workers,
    progress: Progress | None,
) -> list[tuple[Subject, int, Numbers]]:
    """Return for each store and M the numbers of all trials, (trials, m) each; `chosen`: what is asked at each M."""
    points, tasks = [(one, n) for one in stores for n in chosen], []
    for one, n in points:
        fewer = PER_CHANNEL if one.store.traits.linear_in_values == "per-channel" else 1
        tasks.append(tasks_of(ask, one.store, d_k, d_v, n, max(6, trials // fewer), seed, chosen=chosen[n]))
    done = iter(run_tasks(run_sequence, [t for group in tasks for t in group], workers=workers, progress=progress))
    found = []
    for (one, n), group in zip(points, tasks, strict=True):
        parts = [next(done) for _ in group]
        found.append((one, n, {name: np.concatenate([p[name] for p in parts]) for name in parts[0]}))
    return found


def tasks_of(
    ask: Callable[[SequenceTask, FloatArray, FloatArray], Numbers],
    store: Store,
    d_k: int,
    d_v: int,
    n: int,
    trials: int,
    seed: int,
    *,
    law: Law | None = None,
    **more: Any,
) -> list[SequenceTask]:
    """Return the tasks of `trials` sequences of n pairs, keys by `law` (the sphere's by default)."""
    size = AT_ONCE if takes_batches(store) else 1
    drawn = key_law("sphere") if law is None else law
    return [
        SequenceTask(ask, store, d_k, d_v, n, seed, first, min(size, trials - first), drawn, **more)
        for first in range(0, trials, size)
    ]


def run_sequence(task: SequenceTask) -> Numbers:
    """Draw the task's pairs and return its numbers, (count, m) each; one by one for a store that takes no batches."""
    drawn = [
        draw_pairs(task.seed, task.first + i, task.n, task.d_k, task.d_v, keys=task.law, values="sphere")
        for i in range(task.count)
    ]
    keys, values = np.stack([p.keys for p in drawn]), np.stack([p.values for p in drawn])
    if takes_batches(task.store):
        return task.ask(task, keys, values)
    parts = task.ask(task, keys[0], values[0])
    return {name: part[None] for name, part in parts.items()}


def part_of(progress: Progress | None, i: int, total: int) -> Progress | None:
    """Return a progress that reports part i of `total` equal ones."""
    return None if progress is None else lambda done, whole: progress(i * whole + done, total * whole)


def ratio_row_of(
    one: Subject,
    numbers: FloatArray,
    statistic: Statistic,
    theory: Prediction | None,
    d_k: int,
    d_v: int,
    **at: Any,
) -> Row:
    """Return the row of a ratio by vectors, or by projection for stores that are not linear in their values."""
    estimator = "projection" if one.store.traits.linear_in_values == "no" else "vectors"
    estimate = summarise(numbers, statistic, estimator=estimator, seed=at["seed"], sampler=SAMPLER)
    return row_of(one, "ratio", estimate, theory, d_k, d_v, estimator, **at)


def row_of(
    one: Subject,
    quantity: str,
    estimate: Estimate,
    theory: Prediction | None,
    d_k: int,
    d_v: int,
    estimator: str,
    **at: Any,
) -> Row:
    """Return one tidy row; theory of another statistic than the measured one goes to a column of its own."""
    same = theory is not None and theory.statistic == estimate.statistic
    known = None if theory is None else theory.value
    return {
        "store": one.key, "label": one.label, "quantity": quantity, "d_k": d_k, "d_v": d_v, **at,
        "estimator": estimator, "statistic": estimate.statistic, "sampler": estimate.sampler, "value": estimate.value,
        "low": estimate.low, "high": estimate.high, "n_trials": estimate.n_trials, "theory": known if same else None,
        "theory_source": None if theory is None or known is None else theory.source,
        "theory_quotient": None if same else known, "reason": estimate.reason,
    }  # fmt: skip
