"""Capacity: the number of memories M at which a statistic of the ratio crosses a threshold. M counts the target."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from assocmem.core.arrays import Array, to_numpy
from assocmem.core.errors import InputError
from assocmem.core.types import Estimate
from assocmem.ruler.estimate import Statistic, same_definition, summarise
from assocmem.ruler.readings import Floats

_METHOD = (
    "upward crossing interpolated between measured M in log M and log ratio; limits are where the limits of the "
    "curve's pointwise intervals cross"
)


@dataclass(frozen=True)
class Capacity:
    """Number of memories at which a curve crosses a threshold, or a sentence saying that it does not.

    value, low, high: M (a real number, the target counted) with its interval at `level`; `value` is None where
    the curve does not cross, a limit is None where the measured M do not reach it. reason says why, else "".
    definition, statistic, threshold: of what was crossed. largest_m, ratio_there: the largest measured M and the
    curve's value at it. n_trials: at the measured M with the fewest. note: what else to know, such as a curve
    that comes back below the threshold.
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
    per_trial: (trials, k), one ratio a trial for each M; a list of k arrays where M have different trials.
    threshold: a ratio > 0, dimensionless. statistic, reading, seed, sampler, level: see `summarise`.

    Returns the capacity; see `crossing_of_curve` for how it and its interval are found. Raises InputError for
    lengths that do not fit and M that do not increase.

    >>> ratios = [[0.5, 1.9], [0.5, 2.1], [0.5, 2.0]]
    >>> round(crossing([16, 256], ratios).value)
    64
    """
    counts = _checked_memories(memories)
    if isinstance(per_trial, list | tuple) and len({np.size(column) for column in per_trial}) > 1:
        columns = [np.asarray(column, dtype=np.float64) for column in per_trial]
    else:
        table = np.asarray(per_trial if isinstance(per_trial, list | tuple) else to_numpy(per_trial))
        columns = list(table.T) if table.ndim == 2 else [table]
    if len(columns) != counts.size:
        raise InputError(
            f"`per_trial` must have shape (trials, {counts.size}), one column for each M; it has {len(columns)}."
        )
    curve = [
        summarise(column, statistic, reading=reading, seed=seed, sampler=sampler, level=level) for column in columns
    ]
    return crossing_of_curve(counts, curve, threshold)


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
    line in log M and log ratio (in the ratio itself where one end is zero). The lower limit is where the upper
    limits of the pointwise intervals cross, the upper limit where their lower limits do: inverting an interval
    that covers the ratio gives one that covers the crossing. It assumes that measured M are not so dense that
    many fall into the interval. Raises InputError for mixed definitions, lengths and M that do not increase.
    """
    counts = _checked_memories(memories)
    if len(curve) != counts.size:
        raise InputError(f"`curve` must hold one estimate for each of {counts.size} M; got {len(curve)}.")
    if not (math.isfinite(threshold) and threshold > 0):
        raise InputError(f"`threshold` must be a finite number > 0; got {threshold!r}.")
    definition = same_definition(curve)
    values = [math.nan if point.value is None else point.value for point in curve]
    if any(math.isnan(value) for value in values):
        raise InputError(f"`curve` holds an M without a measurement: {counts[values.index(math.nan)]:g}.")
    found = _Curve(counts, values, [p.low for p in curve], [p.high for p in curve], threshold)
    value, low, high, note = found.crossing()
    reason = "" if value is not None else found.why_not(unit)
    return Capacity(
        value, low, high, threshold, definition, curve[0].statistic, min(p.n_trials for p in curve),
        float(counts[-1]), values[-1] if math.isfinite(values[-1]) else None,
        seed=curve[0].seed, sampler=curve[0].sampler, level=curve[0].level, reason=reason, note=note,
    )  # fmt: skip


@dataclass(frozen=True)
class _Curve:
    memories: Floats
    values: list[float]
    lows: list[float | None]
    highs: list[float | None]
    threshold: float

    def crossing(self) -> tuple[float | None, float | None, float | None, str]:
        """Return value, lower and upper limit, and a note."""
        t, last = self.threshold, len(self.values) - 1
        surely_above = [i for i, low in enumerate(self.lows) if low is not None and low > t]
        stop = surely_above[0] if surely_above else last
        surely_below = [i for i in range(stop + 1) if self._below(i)]
        start = surely_below[-1] if surely_below else 0
        low = self._between(self.highs, start) if surely_below and start < last else None
        high = self._between(self.lows, stop - 1) if surely_above and stop > 0 else None
        places = self._places(start, stop)
        measured = any(limit is not None for limit in (*self.lows, *self.highs))
        if not places or (measured and self.values[stop] <= t):
            return None, low, high, ""
        # An even number of crossings comes from a single trial that ends below: its first is the capacity.
        value = places[len(places) // 2] if len(places) % 2 else places[0]
        later = [i for i in range(stop + 1, last + 1) if self._below(i)]
        note = f"the curve is below the threshold again at M = {self.memories[later[0]]:g}" if later else ""
        return value, low and min(low, value), high and max(high, value), note

    def _below(self, i: int) -> bool:
        high = self.highs[i]
        return high is not None and high <= self.threshold

    def _places(self, start: int, stop: int) -> list[float]:
        """Return every crossing, up or down, of the measured values between two points."""
        if self.values[start] > self.threshold:
            return []
        above = [value > self.threshold for value in self.values]
        turns = [i for i in range(start, stop) if above[i] != above[i + 1]]
        return [self._line(self.values[i], self.values[i + 1], i) for i in turns]

    def _between(self, limits: list[float | None], i: int) -> float | None:
        """Return where the line between limits i and i + 1 crosses, None where it does not."""
        a, b = limits[i], limits[i + 1]
        if a is None or b is None or not a <= self.threshold < b:
            return None
        return self._line(a, b, i)

    def _line(self, a: float, b: float, i: int) -> float:
        """Return the M between memories i and i + 1 at which the line from a to b meets the threshold."""
        t = self.threshold
        if math.isinf(b):
            share = 0.0
        elif math.isinf(a):
            share = 1.0
        elif min(a, b) > 1e-9 * t:
            share = math.log(t / a) / math.log(b / a)
        else:
            share = (t - a) / (b - a)
        m, n = self.memories[i], self.memories[i + 1]
        return float(m * (n / m) ** share)

    def why_not(self, unit: str) -> str:
        """Return the sentence for a curve that does not cross."""
        first, last = self.values[0], self.values[-1]
        if first > self.threshold:
            return (
                f"already above {self.threshold:g} at the smallest M = {self.memories[0]:g}, where the {unit} is "
                f"{first:.4g}; measure smaller M"
            )
        return f"not reached below M = {self.memories[-1]:g}; the {unit} there is {last:.4g}; raise --max-memories"


def _checked_memories(memories: Sequence[float] | Array) -> Floats:
    counts = np.asarray(memories if isinstance(memories, list | tuple) else to_numpy(memories))
    if counts.ndim != 1 or counts.size == 0 or counts.dtype.kind not in "fiu":
        raise InputError(f"`memories` must be at least one number of memories, shape (k,); got shape {counts.shape}.")
    counts = counts.astype(np.float64)
    if not (np.isfinite(counts).all() and counts[0] >= 1 and (np.diff(counts) > 0).all()):
        raise InputError(f"`memories` must be finite, at least 1 and increasing; got {counts.tolist()[:8]}.")
    return counts
