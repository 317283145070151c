"""Capacity: the number of memories M at which a statistic of the ratio crosses a threshold. M counts the target."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from assocmem.contract.arrays import Array, to_numpy
from assocmem.contract.errors import InputError
from assocmem.contract.estimate import Estimate
from assocmem.ruler.crossing import Curve, dependence_of
from assocmem.ruler.estimate import Statistic, same_definition, summarise
from assocmem.ruler.readings import Floats

_METHOD = (
    "upward crossing interpolated between measured M in log(M - 1) and log ratio; limits are where the limits of the "
    "curve's pointwise intervals cross"
)


@dataclass(frozen=True)
class Capacity:
    """Number of memories at which a curve crosses a threshold, or a sentence saying that it does not.

    value, low, high: M (a real number, the target counted) with its interval at `level`; `value` is None where
    the curve does not cross, or jumps to infinity. reason says why, else "". A limit is None where the measured M do
    not reach it, and for a single trial.
    definition, statistic, threshold: of what was crossed. largest_m, ratio_there: the largest measured M and the
    curve's value at it. n_trials: at the measured M with the fewest. note: what else to know, such as a curve
    that comes back below the threshold, or why a limit is missing.
    """

    value: float | None
    low: float | None
    high: float | None
    threshold: float
    definition: str
    statistic: str
    n_trials: int
    largest_m: float
    ratio_there: float | None
    seed: int = 0
    sampler: str = ""
    level: float = 0.95
    method: str = _METHOD
    reason: str = ""
    note: str = ""


def crossing(
    memories: Sequence[float] | Array,
    per_trial: Sequence[Sequence[float]] | Array,
    threshold: float = 1.0,
    statistic: Statistic = "rms",
    *,
    reading: str = "weights",
    seed: int = 0,
    sampler: str = "",
    level: float = 0.95,
) -> Capacity:
    """Return the M at which a statistic of the ratio crosses `threshold`.

    Parameters
    ----------
    memories: (k,), increasing numbers of memories, the target counted.
    per_trial: (trials, k), one ratio a trial for each M. Where M have different trials, summarise each and give
        the estimates to `crossing_of_curve`.
    threshold: a ratio > 0, dimensionless. statistic, reading, seed, sampler, level: see `summarise`.

    Returns the capacity; see `crossing_of_curve` for how it and its interval are found. Between two measured
    M the errors of both are put together with the dependence that the trials show, so that the interval is right
    whether a trial's numbers at different M come from the same keys or not. Raises InputError for lengths that do
    not fit and M that do not increase. Cost: linear in the numbers given.

    >>> ratios = [[0.5, 1.9], [0.5, 2.1], [0.5, 2.0]]
    >>> round(crossing([17, 257], ratios).value)
    65
    """
    counts = _checked_memories(memories)
    table = np.asarray(per_trial if isinstance(per_trial, list | tuple) else to_numpy(per_trial), dtype=np.float64)
    if table.ndim != 2 or table.shape[1] != counts.size:
        raise InputError(
            f"`per_trial` must have shape (trials, {counts.size}), one column for each M; got {table.shape}."
        )
    curve = [
        summarise(column, statistic, reading=reading, seed=seed, sampler=sampler, level=level) for column in table.T
    ]
    return _capacity(counts, curve, threshold, "ratio", dependence_of(table, statistic))


def crossing_of_curve(
    memories: Sequence[float] | Array, curve: Sequence[Estimate], threshold: float = 1.0, *, unit: str = "ratio"
) -> Capacity:
    """Return the M at which a measured curve crosses `threshold` from below.

    Parameters
    ----------
    memories: (k,), increasing. curve: k estimates of one definition, their intervals taken over trials.
    threshold: > 0. unit: the word for the curve's quantity in sentences.

    A point whose whole interval lies below (above) the threshold is surely below (above). The crossing is sought
    between the last point surely below before the first surely above, and that point; where noise makes the
    curve cross several times in between, the middle crossing is taken. Between two M the curve is a straight
    line in log(M - 1) and log ratio, as the M - 1 others add up in the square (in M and the squared ratio where one
    end is zero or M is 1; for another unit in the quantity itself). The lower limit is where the upper
    limits of the curve's intervals cross, the upper limit where their lower limits do: inverting an interval
    that covers the ratio gives one that covers the crossing. Limits are straight lines between points too (for
    points whose errors go together; else the interval is somewhat wide, which `crossing` avoids). Measured M
    should not lie much denser than the interval is wide: with independent trials at every M it was found to cover
    95 % with three of them in its width and 92 % with seven; a note says so where more than three are neither
    surely below nor surely above.
    Raises InputError for mixed definitions, lengths and M that do not increase.
    """
    return _capacity(_checked_memories(memories), curve, threshold, unit, [1.0] * len(curve))


def _capacity(
    counts: Floats, curve: Sequence[Estimate], threshold: float, unit: str, dependence: Sequence[float]
) -> Capacity:
    if len(curve) != counts.size:
        raise InputError(f"`curve` must hold one estimate for each of {counts.size} M; got {len(curve)}.")
    if not (math.isfinite(threshold) and threshold > 0):
        raise InputError(f"`threshold` must be a finite number > 0; got {threshold!r}.")
    definition = same_definition(curve)
    values = [math.nan if point.value is None else point.value for point in curve]
    if any(math.isnan(value) for value in values):
        raise InputError(f"`curve` holds an M without a measurement: {counts[values.index(math.nan)]:g}.")
    found = Curve(
        counts, values, [p.low for p in curve], [p.high for p in curve], threshold, dependence, unit == "ratio"
    )
    value, low, high, note = found.crossing()
    if value is not None and (low is None or high is None):
        note = "; ".join(filter(None, [note, _why_no_limit(low, high, curve, counts)]))
    reason = "" if value is not None else found.why_not(unit)
    return Capacity(
        value, low, high, threshold, definition, curve[0].statistic, min(p.n_trials for p in curve),
        float(counts[-1]), values[-1] if math.isfinite(values[-1]) else None,
        seed=curve[0].seed, sampler=curve[0].sampler, level=curve[0].level, reason=reason, note=note,
    )  # fmt: skip


def _why_no_limit(low: float | None, high: float | None, curve: Sequence[Estimate], counts: Floats) -> str:
    """Return why a crossing has no interval or an open one; "" for a single trial, whose number says it."""
    if min(point.n_trials for point in curve) < 2:
        return ""
    reasons = [
        f"M = {n:g}: {point.reason or 'the ratio there has no interval'}"
        for n, point in zip(counts, curve, strict=True)
        if point.low is None or point.high is None
    ]
    if reasons:
        return f"the interval is open; {reasons[0]}"
    if low is None and high is None:
        return "no interval: its ends lie beyond the measured M"
    side, n = ("lower", counts[0]) if low is None else ("upper", counts[-1])
    return f"the {side} end of the interval lies beyond the measured M = {n:g}"


def _checked_memories(memories: Sequence[float] | Array) -> Floats:
    counts = np.asarray(memories if isinstance(memories, list | tuple) else to_numpy(memories))
    if counts.ndim != 1 or counts.size == 0 or counts.dtype.kind not in "fiu":
        raise InputError(f"`memories` must be at least one number of memories, shape (k,); got shape {counts.shape}.")
    counts = counts.astype(np.float64)
    if not (np.isfinite(counts).all() and counts[0] >= 1 and (np.diff(counts) > 0).all()):
        raise InputError(f"`memories` must be finite, at least 1 and increasing; got {counts.tolist()[:8]}.")
    return counts
