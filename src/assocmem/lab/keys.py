"""The keys sampler: keys and values are drawn, written and recalled, by any store and any law."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import product
from typing import Any

import numpy as np

from assocmem import theory
from assocmem.contract.results import Row
from assocmem.inputs import key_law
from assocmem.kernels.compute import Progress, Workers, run_tasks
from assocmem.lab.labelled import subjects
from assocmem.lab.memory_budget import workers_that_fit
from assocmem.lab.out_of_core import LARGE, run_large_task
from assocmem.lab.plans import KeyPlan, KeyTask
from assocmem.lab.rows import ratio_row
from assocmem.lab.trials import ROWS_UP_TO, estimator_of, run_task, takes_batches
from assocmem.ruler.estimate import summarise

FloatArray = np.ndarray[Any, Any]
SAMPLER = "keys"
NUMBERS_AT_ONCE = 1 << 19


def key_curves(
    stores: Iterable[Any],
    d_k: int,
    memories: Iterable[int],
    *,
    workers: Workers = None,
    progress: Progress | None = None,
    experiment: str = "",
    **settings: Any,
) -> list[Row]:
    """Return the rows of the ratio of each store at each M (columns as in `rows.DEFINITIONS`).

    Parameters: stores, keys, Stores (a user's own too) or (label, Store); d_k; memories; settings, the other fields
    of KeyPlan. Cost: for each M and trial one draw of M keys and values, and one write and one recall of each store.

    >>> rows = key_curves(["outer-product"], 16, [17], trials=200, workers=1)
    >>> abs(rows[0]["value"] - 1) < 0.1
    True
    """
    counts = tuple(sorted({int(n) for n in memories}))
    return run_keys(KeyPlan(experiment, subjects(*stores), d_k, counts, **settings), workers=workers, progress=progress)


def run_keys(plan: KeyPlan, *, workers: Workers = None, progress: Progress | None = None) -> list[Row]:
    """Return the rows of the plan: store by store, then M, cosine and statistic."""
    ratios = key_ratios(plan, workers=workers, progress=progress)
    rows, law = [], key_law(plan.keys)
    for (i, one), n, (c, cosine) in product(enumerate(plan.stores), plan.memories, enumerate(plan.cosines)):
        estimator = estimator_of(one.store, n, plan.estimator)
        for statistic in ("median",) if estimator == "projection" else plan.statistics:
            estimate = summarise(ratios[n][:, i, c], statistic, estimator=estimator, seed=plan.seed, sampler=SAMPLER)
            row = ratio_row(
                one, estimate, experiment=plan.experiment, d_k=plan.d_k, d_v=plan.d_v, n_memories=n, cosine=cosine,
                estimator=estimator,
                prediction=theory.ratio(
                    one.form(plan.d_k), plan.d_k, n, cosine=cosine, statistic=statistic, law=law.name, **law.settings
                ),
            )  # fmt: skip
            rows.append(row)
    return rows


def key_ratios(plan: KeyPlan, *, workers: Workers = None, progress: Progress | None = None) -> dict[int, FloatArray]:
    """Return for each M the ratios (trials, stores, cosines, targets).

    Trials of little work go together as one batch. More than 2^17 pairs are drawn and written block by block, one
    trial after the other, so that memory holds one store. Fewer threads work where free memory does not hold a trial
    for each; InputError where it does not hold one.
    """
    batched = all(takes_batches(one.store) for one in plan.stores)
    tasks = [task for n in plan.memories for task in _tasks(plan, n, batched)]
    few, many = [t for t in tasks if t.n <= LARGE], [t for t in tasks if t.n > LARGE]
    workers_that_fit(1, many, in_blocks=True)
    workers = workers_that_fit(workers, few, in_blocks=False)
    done = run_tasks(run_task, few, workers=workers, progress=_part(progress, 0, len(tasks)))
    done += run_tasks(run_large_task, many, workers=1, progress=_part(progress, len(few), len(tasks)))
    found: dict[int, list[FloatArray]] = {n: [] for n in plan.memories}
    for task, ratios in zip(few + many, done, strict=True):
        found[task.n].append(ratios)
    return {n: np.concatenate(parts) for n, parts in found.items()}


def _tasks(plan: KeyPlan, n: int, batched: bool) -> list[KeyTask]:
    width = plan.d_k + plan.d_v + min(n, ROWS_UP_TO)
    size = max(1, min(64, NUMBERS_AT_ONCE // (n * width))) if batched and n <= LARGE else 1
    trials = plan.trials_at(n)
    return [KeyTask(plan, n, first, min(size, trials - first), batched) for first in range(0, trials, size)]


def _part(progress: Progress | None, before: int, total: int) -> Progress | None:
    return None if progress is None else lambda done, _: progress(before + done, total)
