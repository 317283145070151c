"""A plan run: its trials drawn by the plan's sampler, summed up with intervals, theory beside them, a row each."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from assocmem.contract.estimate import Estimate, Prediction
from assocmem.contract.results import Row, Rows
from assocmem.kernels.compute import Progress, Workers
from assocmem.lab.keys import Keys
from assocmem.lab.plan import LabelledStore, Plan, Sampler, StoreLike, Trials, all_labelled
from assocmem.lab.similarities import Similarities
from assocmem.ruler.estimate import summarise, summarise_shares


def curves(
    stores: Iterable[StoreLike],
    d_k: int,
    memories: Iterable[int],
    sampler: Sampler | None = None,
    *,
    workers: Workers = None,
    progress: Progress | None = None,
    **settings: Any,
) -> Rows:
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
    settings
        The other fields of `Plan`: seed, cosines, statistics, d_v, keys, values, experiment.

    Returns
    -------
    Rows
        A list of dicts that prints as a table; columns: see `contract.columns`.

    Examples
    --------
    >>> rows = curves(["outer-product"], 64, [65], Similarities(streams=10), workers=1)
    >>> abs(rows[0]["value"] - 1) < 0.1, rows[0]["theory"]
    (True, 1.0)
    """
    named = all_labelled(stores)
    if sampler is None:
        sums = settings.get("keys", "sphere") == "sphere" and all(one.sigma(d_k, 2) is not None for one in named)
        sampler = Similarities() if sums else Keys()
    plan = Plan(sampler, named, d_k, tuple(sorted({int(n) for n in memories})), **settings)
    return run(plan, workers=workers, progress=progress)


def run(plan: Plan, *, workers: Workers = None, progress: Progress | None = None) -> Rows:
    """Return a tidy row for every place of the plan."""
    return Rows(row_of(trials, plan) for trials in plan.sampler.draw(plan, workers, progress))


def estimates(plan: Plan, *, workers: Workers = None, progress: Progress | None = None) -> list[Estimate]:
    """Return the measured numbers alone, in the order of the rows."""
    return [summarised(trials, plan.seed) for trials in plan.sampler.draw(plan, workers, progress)]


def summarised(trials: Trials, seed: int) -> Estimate:
    """Return the statistic of the trials' numbers with its interval."""
    record: dict[str, Any] = {"seed": seed, "sampler": trials.sampler}
    if trials.recalls:
        return summarise_shares(trials.numbers, trials.recalls, definition=trials.definition or "", **record)
    return summarise(
        trials.numbers, trials.statistic, estimator=trials.estimator, definition=trials.definition, **record
    )


def row_of(trials: Trials, plan: Plan) -> Row:
    """Return the row of one place of a plan."""
    where = {
        "experiment": plan.experiment, "quantity": trials.quantity, "d_k": plan.d_k, "d_v": plan.d_v,
        "n_memories": trials.n_memories, "estimator": trials.estimator,
    }  # fmt: skip
    return row(trials.one, summarised(trials, plan.seed), trials.predict(), **(where | dict(trials.columns)))


def row(one: LabelledStore, found: Any, theory: Prediction | None = None, **columns: Any) -> Row:
    """Return one tidy row: the store, what was found of it (an Estimate or a Capacity), theory, and `columns`.

    Theory of another statistic than the measured one goes to a column of its own. Columns: see `contract.columns`.
    """
    known = None if theory is None else theory.value
    same = theory is not None and theory.statistic == found.statistic
    return {
        "store": one.key, "label": one.label, "statistic": found.statistic, "sampler": found.sampler,
        "value": found.value, "low": found.low, "high": found.high, "n_trials": found.n_trials, "seed": found.seed,
        "theory": known if same else None, "theory_quotient": None if same else known,
        "theory_source": theory.source if theory is not None and known is not None else None,
        "reason": found.reason, **columns,
    }  # fmt: skip


def part_of(progress: Progress | None, i: int, total: int) -> Progress | None:
    """Return a progress that reports part i of `total` equal ones."""
    return None if progress is None else lambda done, whole: progress(i * whole + done, total * whole)
