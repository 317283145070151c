"""Where a measured curve crosses a threshold, and how surely: the arithmetic behind `crossing`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from assocmem.ruler.readings import Floats


def dependence_of(table: Floats, statistic: str) -> list[float]:
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
class Curve:
    """Measured values at increasing M with the limits of their intervals, and the threshold that they cross.

    dependence: correlation of the errors of points i and i + 1, for every i but the last. adds_in_square: whether
        values are ratios, to whose square every other memory adds its share.
    """

    memories: Floats
    values: list[float]
    lows: list[float | None]
    highs: list[float | None]
    threshold: float
    dependence: Sequence[float]
    adds_in_square: bool = True

    def bracket(self) -> tuple[int | None, int | None]:
        """Return the last point surely below before the first surely above (an infinite one is), and that point."""
        last = len(self.values) - 1
        sure = [low is not None and low > self.threshold for low in self.lows]
        stop = next((i for i, value in enumerate(self.values) if sure[i] or math.isinf(value)), None)
        start = next((i for i in range(last if stop is None else stop, -1, -1) if self._below(i)), None)
        return start, stop

    def crossing(self) -> tuple[float | None, float | None, float | None, str]:
        """Return value, lower and upper limit, and a note."""
        last = len(self.values) - 1
        below, above = self.bracket()
        start, stop = below or 0, last if above is None else above
        low = self._limit(1, start) if below is not None and start < last else None
        high = self._limit(0, stop - 1) if above is not None and stop > 0 else None
        places = self._places(start, stop)
        measured = any(limit is not None for limit in (*self.lows, *self.highs))
        if not places or (measured and self.values[stop] <= self.threshold) or self.jump() is not None:
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

    def jump(self) -> int | None:
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
        if math.isinf(b):
            share = 0.0
        elif math.isinf(a):
            share = 1.0
        elif self._logarithmic(a, b):
            share = math.log(t / a) / math.log(b / a)
        else:
            share = (t - a) / (b - a)
        return self._at(i, share)

    def _at(self, i: int, share: float) -> float:
        """Return the M at a share in [0, 1] of the way from memories i to i + 1 in log(M - 1)."""
        others, more = self.memories[i] - 1, self.memories[i + 1] - 1
        return 1 + float(others * (more / others) ** share if others else more * share)

    def why_not(self, unit: str) -> str:
        """Return the sentence for a curve that does not cross."""
        first, last, jump = self.values[0], self.values[-1], self.jump()
        if jump is not None:
            m, n = self.memories[jump], self.memories[jump + 1]
            return (
                f"between {m:g} and {n:g}: the {unit} jumps from {self.values[jump]:.4g} at M = {m:g} to infinity at "
                f"M = {n:g}, where a query may give its own memory no weight; other trials may meet that at another M, "
                "and a median over trials does not hang on it"
            )
        if first > self.threshold:
            smallest = self.memories[0]
            if math.isinf(first):
                more = ": a query may give its own memory no weight"
            elif smallest <= 2:
                more = ": no other memory fits" if smallest == 2 else ": not even one memory fits"
            else:
                more = "; measure smaller M"
            return (
                f"already above {self.threshold:g} at the smallest M = {smallest:g}, where the {unit} is "
                f"{'infinite' if math.isinf(first) else f'{first:.4g}'}{more}"
            )
        return f"not reached below M = {self.memories[-1]:.12g}; the {unit} there is {last:.4g}; raise --max-memories"
