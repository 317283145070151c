"""Capacity: the number of memories M at which a statistic of the ratio crosses a threshold. M counts the target."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from assocmem.contract.arrays import Array, to_numpy
from assocmem.contract.errors import InputError
from assocmem.contract.estimate import Estimate, Statistic
from assocmem.contract.numbers import bounded
from assocmem.ruler.estimate import same_definition, summarise
from assocmem.ruler.ratio import Floats

_METHOD = (
    "upward crossing interpolated between measured M in log(M - 1) and log ratio; limits are where the limits of the "
    "curve's pointwise intervals cross"
)


@dataclass(frozen=True)
class Capacity:
    """Number of memories at which a curve crosses a threshold, or a sentence saying that it does not.

    Parameters
    ----------
    value, low, high : float or None
        M (a real number, the target counted) with its interval; None where the curve does not cross or jumps to
        infinity (`reason` says why), a limit also where the measured M do not reach it and for a single trial.
    threshold, definition, statistic : float, str, str
        Of what was crossed.
    n_trials : int
        At the measured M with the fewest.
    largest_m, ratio_there : float
        The largest measured M and the curve's value at it.
    seed, sampler : int, str
        How the trials were drawn.
    level : float
        Of the interval.
    method : str
        How the crossing was found.
    reason, note : str
        Why there is none; what else to know, such as a curve that comes back below the threshold, or why a limit is
        missing.
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
    estimator: str = "weights",
    seed: int = 0,
    sampler: str = "",
    level: float = 0.95,
) -> Capacity:
    """Return the M at which a statistic of the ratio crosses `threshold`.

    See `crossing_of_curve` for how it and its interval are found. Between two measured M the errors of both are put
    together with the dependence that the trials show, so that the interval is right whether a trial's numbers at
    different M come from the same keys or not.

    Parameters
    ----------
    memories : sequence of float or array (k,)
        Increasing numbers of memories, the target counted.
    per_trial : array (trials, k)
        One ratio a trial for each M; where M have different trials, summarise each and take `crossing_of_curve`.
    threshold : float
        A ratio > 0, dimensionless.
    statistic, estimator, seed, sampler, level
        As for `summarise`.

    Returns
    -------
    Capacity
        The M with its interval, or why there is none.

    Raises
    ------
    InputError
        For lengths that do not fit and M not increasing.

    Examples
    --------
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
    record = {"estimator": estimator, "seed": seed, "sampler": sampler, "level": level}
    curve = [summarise(column, statistic, **record) for column in table.T]  # type: ignore[arg-type]
    return _capacity(counts, curve, threshold, "ratio", _dependence(table, statistic))


def crossing_of_curve(
    memories: Sequence[float] | Array, curve: Sequence[Estimate], threshold: float = 1.0, *, unit: str = "ratio"
) -> Capacity:
    """Return the M at which a measured curve crosses `threshold` from below.

    Parameters
    ----------
    memories : sequence of float or array (k,)
        Increasing numbers of memories, the target counted.
    curve : sequence of Estimate
        k of them, of one definition, their intervals over trials.
    threshold : float
        > 0.
    unit : str
        The word for the curve's quantity in sentences.

    Returns
    -------
    Capacity
        The M with its interval, or why there is none.

    Raises
    ------
    InputError
        For mixed definitions, lengths that do not fit and M that do not increase.

    Notes
    -----
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
    """
    return _capacity(_checked_memories(memories), curve, threshold, unit, [1.0] * len(curve))


def growth(sizes: Sequence[float], capacities: Sequence[Capacity | Estimate]) -> Estimate:
    """Return the exponent of a capacity's growth: the least-squares slope of its logarithm over that of a size.

    The points have equal weight; their errors are independent and taken from their 95 % intervals (3.92 standard
    errors).

    Parameters
    ----------
    sizes : sequence of float
        Key widths, or numbers in the state.
    capacities : sequence of Capacity
        One for each size; those that have no value are left out.

    Returns
    -------
    Estimate
        The slope, dimensionless; None with a reason for fewer than two sizes.

    Examples
    --------
    >>> found = [crossing(memories, [[0.5, 2.0]] * 3) for memories in ([17, 257], [33, 513])]
    >>> round(growth([64, 128], found).value, 3)
    0.989
    """
    known = [(size, found) for size, found in zip(sizes, capacities, strict=True) if found.value]
    seed, trials = capacities[0].seed if capacities else 0, min((one.n_trials for _, one in known), default=0)
    words: dict[str, Any] = {"definition": "slope of ln capacity over ln size by least squares", "statistic": "slope"}
    if len({size for size, _ in known}) < 2:
        return Estimate(None, None, None, trials, seed, reason="a slope needs capacities at two sizes", **words)
    x = np.log([size for size, _ in known])
    slope = float(np.polyfit(x, np.log([one.value or math.nan for _, one in known]), 1)[0])
    if not all(one.low and one.high for _, one in known):
        return Estimate(slope, None, None, trials, seed, reason="a capacity has no interval", **words)
    share = (x - x.mean()) / np.sum((x - x.mean()) ** 2)
    widths = np.array([math.log((one.high or math.nan) / (one.low or math.nan)) for _, one in known])
    half = 1.96 * float(np.sqrt(np.sum((share * widths / 3.92) ** 2)))
    return Estimate(slope, slope - half, slope + half, trials, seed, **words)


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
    found = _Curve(
        counts, values, [p.low for p in curve], [p.high for p in curve], threshold, dependence, unit == "ratio",
        [p.failed for p in curve],
    )  # fmt: skip
    value, low, high, note = found.crossing()
    if value is not None and (low is None or high is None):
        note = "; ".join(filter(None, [note, _why_no_limit(low, high, curve, counts)]))
    return Capacity(
        value, low, high, threshold, definition, curve[0].statistic, min(p.n_trials for p in curve),
        float(counts[-1]), values[-1] if math.isfinite(values[-1]) else None, seed=curve[0].seed,
        sampler=curve[0].sampler, level=curve[0].level, reason=found.why_not(unit) if value is None else "", note=note,
    )  # fmt: skip


def _why_no_limit(low: float | None, high: float | None, curve: Sequence[Estimate], counts: Floats) -> str:
    """Return why a crossing has no interval or an open one; "" for a single trial, whose number says it."""
    if min(point.n_trials for point in curve) < 2:
        return ""
    for n, point in zip(counts, curve, strict=True):
        if point.low is None or point.high is None:
            return f"the interval is open; M = {n:g}: {point.reason or 'the ratio there has no interval'}"
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


def _dependence(table: Floats, statistic: str) -> list[float]:
    """Return, for neighbouring columns (trials, k), the correlation of the statistic's errors, at least 0.

    For a median it is that of the signs about the medians, for a mean that of the numbers, for an rms of their
    squares. It is 1, the cautious assumption, where the numbers do not tell.
    """
    found = []
    for a, b in zip(table.T[:-1], table.T[1:], strict=True):
        if len(table) < 2 or not (np.isfinite(a).all() and np.isfinite(b).all()):
            x = y = np.zeros(1)
        elif statistic == "median":
            x, y = np.sign(a - np.median(a)), np.sign(b - np.median(b))
        else:
            power = 2 if statistic == "rms" else 1
            x, y = ((z / (z.max() or 1.0)) ** power for z in (a, b))
            x, y = x - x.mean(), y - y.mean()
        scale = math.sqrt(float(x @ x) * float(y @ y))
        found.append(min(1.0, max(0.0, float(x @ y) / scale)) if scale > 0 else 1.0)
    return found


@dataclass(frozen=True)
class _Curve:
    """Measured values at increasing M with the limits of their intervals, and the threshold that they cross.

    dependence: correlation of the errors of points i and i + 1, for every i but the last. adds_in_square: whether
    values are ratios, to whose square every other memory adds its share. failed: what is said of recalls
    that were not finite.
    """

    memories: Floats
    values: list[float]
    lows: list[float | None]
    highs: list[float | None]
    threshold: float
    dependence: Sequence[float]
    adds_in_square: bool
    failed: list[str]

    def crossing(self) -> tuple[float | None, float | None, float | None, str]:
        """Return value, lower and upper limit, and a note."""
        last = len(self.values) - 1
        below, above = self._bracket()
        start, stop = below or 0, last if above is None else above
        low = self._limit(1, start) if below is not None and start < last else None
        high = self._limit(0, stop - 1) if above is not None and stop > 0 else None
        places = self._places(start, stop)
        measured = any(limit is not None for limit in (*self.lows, *self.highs))
        if not places or (measured and self.values[stop] <= self.threshold) or self._jump() is not None:
            return None, low, high, ""
        # An even number of crossings comes from a single trial that ends below: its first is the capacity.
        value = places[len(places) // 2] if len(places) % 2 else places[0]
        notes = ["between 1 and 2 memories: no other memory fits beside the target"] if 1 < value < 2 else []
        if below is not None and above is not None and above - below > 4:
            notes.append(f"{above - below - 1} measured M lie within the interval, which may be too narrow for that")
        later = [i for i in range(stop + 1, last + 1) if self._below(i)]
        if later:
            notes.append(f"the curve is below the threshold again at M = {self.memories[later[0]]:g}")
        return value, low and min(low, value), high and max(high, value), "; ".join(notes)

    def _bracket(self) -> tuple[int | None, int | None]:
        """Return the last point surely below before the first surely above (an infinite one is), and that point."""
        last = len(self.values) - 1
        sure = [low is not None and low > self.threshold for low in self.lows]
        stop = next((i for i, value in enumerate(self.values) if sure[i] or math.isinf(value)), None)
        start = next((i for i in range(last if stop is None else stop, -1, -1) if self._below(i)), None)
        return start, stop

    def _jump(self) -> int | None:
        """Return the last point before the first crossing where that goes to an infinite value, else None."""
        above = [value > self.threshold for value in self.values]
        first = above.index(True) if True in above else 0
        return first - 1 if first > 0 and math.isinf(self.values[first]) else None

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

    def _limit(self, end: int, i: int) -> float | None:
        """Return where the lower (end 0) or upper (1) limit crosses between points i and i + 1, None if it does not."""
        limits = (self.lows, self.highs)[end]
        a, b = limits[i], limits[i + 1]
        if a is None or b is None or not a <= self.threshold < b:
            return None
        values = self.values[i], self.values[i + 1]
        whole = self.memories[i] > 1 and self._logarithmic(*values) and self._logarithmic(a, b)
        if self.dependence[i] == 1 or not whole:
            return self._line(a, b, i)
        left, right = 0.0, 1.0
        for _ in range(40):
            share = (left + right) / 2
            # Interpolating averages the two points' errors, the more so the less they depend on each other.
            near, far = (1 - share) * math.log(a / values[0]), share * math.log(b / values[1])
            error = math.sqrt(near**2 + far**2 + 2 * self.dependence[i] * abs(near * far))
            middle = (1 - share) * math.log(values[0]) + share * math.log(values[1])
            if middle + (error if end else -error) <= math.log(self.threshold):
                left = share
            else:
                right = share
        return self._at(i, left)

    def _logarithmic(self, a: float, b: float) -> bool:
        """Say whether the line from a to b is drawn in their logarithms: not where one is zero but for rounding."""
        return math.isfinite(a + b) and min(a, b) > 1e-9 * self.threshold

    def _line(self, a: float, b: float, i: int) -> float:
        """Return the M between memories i and i + 1 at which the line from a to b meets the threshold."""
        t = self.threshold
        m, n = self.memories[i], self.memories[i + 1]
        if self.adds_in_square and math.isfinite(a + b) and (m == 1 or not self._logarithmic(a, b)):
            # Where a logarithm is not finite: the others add up in the square, a straight line in M.
            low, high, there = ((x / max(a, b)) ** 2 for x in (a, b, t))
            return float(m + (n - m) * (there - low) / (high - low))
        if math.isinf(a) or math.isinf(b):
            return self._at(i, 0.0 if math.isinf(b) else 1.0)
        logarithmic = self._logarithmic(a, b)
        return self._at(i, math.log(t / a) / math.log(b / a) if logarithmic else (t - a) / (b - a))

    def _at(self, i: int, share: float) -> float:
        """Return the M at a share in [0, 1] of the way from memories i to i + 1 in log(M - 1)."""
        others, more = self.memories[i] - 1, self.memories[i + 1] - 1
        return 1 + float(others * (more / others) ** share if others else more * share)

    def why_not(self, unit: str) -> str:
        """Return the sentence for a curve that does not cross."""
        first, last, jump = self.values[0], self.values[-1], self._jump()
        if jump is not None:
            m, n = self.memories[jump], self.memories[jump + 1]
            return (
                f"between {m:g} and {n:g}: the {unit} jumps from {self.values[jump]:.4g} at M = {m:g} to infinity at "
                f"M = {n:g}, where {self.failed[jump + 1] or 'a query may give its own memory no weight'}; other "
                "trials may meet that at another M, and a median over trials does not hang on it"
            )
        if first <= self.threshold:
            return (
                f"not reached below M = {self.memories[-1]:.12g}; the {unit} there is {last:.4g}; raise --max-memories"
            )
        smallest = self.memories[0]
        if math.isinf(first):
            more = f": {self.failed[0] or 'a query may give its own memory no weight'}"
        elif smallest <= 2:
            more = ": no other memory fits" if smallest == 2 else ": not even one memory fits"
        else:
            more = "; measure smaller M"
        return (
            f"already above {self.threshold:g} at the smallest M = {smallest:g}, where the {unit} is "
            f"{'infinite' if math.isinf(first) else bounded(first)}{more}"
        )
