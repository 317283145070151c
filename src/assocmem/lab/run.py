"""A plan run: its trials drawn by the plan's sampler, summed up with intervals, theory beside them, a row each."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from assocmem.contract.errors import ToldOnce
from assocmem.contract.results import Row
from assocmem.kernels.compute import Progress, Workers
from assocmem.lab.keys import Keys
from assocmem.lab.plan import Plan, Sampler, StoreLike, Trials, all_labelled, row
from assocmem.lab.similarities import Similarities


def curves(
    stores: Iterable[StoreLike],
    d_k: int,
    memories: Iterable[int],
    sampler: Sampler | None = None,
    *,
    workers: Workers = None,
    progress: Progress | None = None,
    **settings: Any,
) -> list[Row]:
    """Return a tidy row for each store, M and place asked: the measured number with its interval, theory beside it.

    Parameters
    ----------
    stores : iterable
        Keys, Stores (a user's own too) or (label, Store).
    d_k : int
        Width of the keys.
    memories : iterable of int
        Every M, the target counted.
    sampler : Sampler, optional
        `Similarities` (the default where every store is of the form V^T σ(K x) and keys are uniform), `Keys` (the
        default elsewhere), `Sequences` where the order matters, `Rounding`.
    workers, progress
        See `kernels.compute.run_tasks`; the rows do not depend on it.
    **settings
        The other fields of `Plan`: seed, cosines, statistics, d_v, keys, values, experiment, extras.

    Returns
    -------
    list of dict
        Columns: see `contract.columns`. A recall that is not finite counts with an infinite ratio; an M that a store
        stops with an error has no value, and its `reason` says why.

    Raises
    ------
    Exception
        What a store raised, where nothing else was measured.

    Examples
    --------
    >>> rows = curves(["outer-product"], 64, [65], Similarities(streams=10), workers=1)
    >>> abs(rows[0]["value"] - 1) < 0.1, rows[0]["theory"]
    (True, 1.0)
    """
    named = all_labelled(stores)
    if sampler is None:
        plain = settings.get("keys", "sphere") == "sphere" and not settings.get("extras")
        sums = plain and all(one.sigma(d_k, 2) is not None for one in named)
        sampler = Similarities() if sums else Keys()
    plan = Plan(sampler, named, d_k, tuple(sorted({int(n) for n in memories})), **settings)
    return run(plan, workers=workers, progress=progress)


def run(plan: Plan, *, workers: Workers = None, progress: Progress | None = None) -> list[Row]:
    """Return a tidy row for every place of the plan."""
    with ToldOnce():
        return [row_of(trials, plan) for trials in plan.sampler.draw(plan, workers, progress)]


def row_of(trials: Trials, plan: Plan) -> Row:
    """Return the row of one place of a plan."""
    where = {
        "experiment": plan.experiment, "quantity": trials.quantity, "d_k": plan.d_k, "d_v": plan.d_v,
        "n_memories": trials.n_memories, "estimator": trials.estimator,
    }  # fmt: skip
    return row(trials.one, trials.estimate(plan.seed), trials.predict(), **(where | dict(trials.columns)))


def part_of(progress: Progress | None, i: int, total: int) -> Progress | None:
    """Return the progress of part i of `total` equal ones."""
    return None if progress is None else lambda done, whole: progress(i * whole + done, total * whole)
