"""The search for a capacity: find where the ratio crosses the threshold, then measure it well around there."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from assocmem.contract.estimate import Estimate, Statistic
from assocmem.inputs import Law
from assocmem.kernels.compute import Progress, Workers
from assocmem.lab.importance_sampling import tilt_for, tilted_mean_squares
from assocmem.lab.keys import SAMPLER, key_ratios
from assocmem.lab.labelled import Subject
from assocmem.lab.plans import KeyPlan, SimilarityPlan, sigma_of
from assocmem.lab.similarities import LONGEST, draw_squares
from assocmem.lab.trials import estimator_of
from assocmem.maps.activations import Activation
from assocmem.ruler import Capacity, crossing_of_curve, summarise

PRECISION = 0.01
LARGEST_BY_POLICY = 1 << 21
LARGEST_BY_KEYS = 1 << 14
STREAMS, FEWEST_STREAMS = 32, 8
MOST_PIECES = 1 << 14
LONGEST_STREAM = 1 << 23
PILOT_TRIALS, PILOT_TRIALS_BY_KEYS = 20, 64
KEYS_A_POINT = 1 << 14
FEW = 16
PATIENCE = 3.0  # seconds for one M of the first search
STEPS = (-0.75, -0.5, -0.25, 0.0, 0.25, 0.5, 0.75)
ROUGH = 0.1
"""Wanted precision from which the outermost of these places are left out and fewer trials do."""
TRIALS_BY_KEYS, FEWEST_TRIALS_BY_KEYS = 12, 8


@dataclass(frozen=True)
class Search:
    """Where a capacity is looked for: each way returns the measured M with their estimates."""

    one: Subject
    d_k: int
    seed: int
    threshold: float
    cosine: float
    statistic: Statistic
    largest: int | None
    d_v: int
    keys: str | Law
    precision: float
    workers: Workers
    progress: Progress | None

    def by_similarities(self) -> tuple[list[int], list[Estimate]]:
        """Measure by similarities around the place that a pilot of tilted draws shows, moving on where it is not."""
        limit = self.largest or (LARGEST_BY_POLICY if self.one.changes_with_n(self.d_k) else None)
        counts, squares = self._pilot(limit)
        rises = [i for i, square in enumerate(squares) if i and squares[i - 1] <= self.threshold**2 < square]
        if not rises:
            coarse = sorted({*[n for n in counts if n <= LONGEST][::2], min(counts[-1], LONGEST)})
            return coarse, self._ratios(coarse)
        centre = float(counts[rises[0]])
        if squares[rises[0] - 1] > 0 and math.isfinite(squares[rises[0]]):
            gap = math.log(squares[rises[0]] / squares[rises[0] - 1])
            back = math.log(squares[rises[0]] / self.threshold**2) / gap
            others = counts[rises[0] - 1] - 1
            centre = 1 + (centre - 1) * math.exp(-back * (math.log(centre - 1) - math.log(others)))
        return self._homing(centre, limit, self._ratios)

    def by_keys(self) -> tuple[list[int], list[Estimate]]:
        """Measure by drawn keys: M = 2, 4, 8, ... until the ratio is surely beyond the threshold, then around it.

        Where no largest M was named, the doubling also ends at the first M that takes longer than PATIENCE.
        """
        limit = self.largest or LARGEST_BY_KEYS
        counts, curve = [min(2, limit)], self._pilot_keys(min(2, limit), limit)
        began = time.perf_counter()
        while counts[-1] < limit and not _beyond(curve[-1], self.threshold):
            if self.largest is None and time.perf_counter() - began > PATIENCE:
                break
            began = time.perf_counter()
            counts.append(min(2 * counts[-1], limit))
            curve += self._pilot_keys(counts[-1], limit)
        if counts == [2] and (curve[0].value or 0.0) > self.threshold:
            counts, curve = [1, 2], self._pilot_keys(1, limit) + curve
        counts, curve = self._closing_in(counts, curve, limit)
        found = crossing_of_curve(counts, curve, self.threshold)
        if found.value is None:
            return counts, curve
        return self._homing(found.value, limit, lambda ns: self._key_ratios(ns, self._keys_a_point, ns[-1]))

    def why_not(self, found: Capacity) -> str:
        """Return the reason why a search by keys found no crossing, where it ended for PATIENCE in those words."""
        ended = found.largest_m < LARGEST_BY_KEYS and self.largest is None
        if found.value is not None or not ended or (found.ratio_there or math.inf) > self.threshold:
            return found.reason
        return (
            f"not reached below M = {found.largest_m:.12g}; the ratio there is {found.ratio_there:.4g}; the search "
            f"stopped because one M took more than {PATIENCE:g} s; name a larger M with --max-memories to go on"
        )

    def _closing_in(self, counts: list[int], curve: list[Estimate], limit: int) -> tuple[list[int], list[Estimate]]:
        """Where the ratio jumps to infinity, halve the gap that the jump lies in until it is one memory wide."""
        known = dict(zip(counts, curve, strict=True))
        while True:
            counts = sorted(known)
            values = [math.nan if known[n].value is None else float(known[n].value or 0.0) for n in counts]
            i = next((i for i, value in enumerate(values) if value > self.threshold), 0)
            if i == 0 or not math.isinf(values[i]) or counts[i] - counts[i - 1] == 1:
                return counts, [known[n] for n in counts]
            n = (counts[i] + counts[i - 1]) // 2
            known[n] = self._pilot_keys(n, limit)[0]

    def _pilot_keys(self, n: int, limit: int) -> list[Estimate]:
        return self._key_ratios([n], self._keys_a_point // 4, limit, most=PILOT_TRIALS_BY_KEYS)

    @property
    def _keys_a_point(self) -> int:
        return max(1 << 10 if self._rough else 1 << 11, int(KEYS_A_POINT * (PRECISION / self.precision)))

    @property
    def _rough(self) -> bool:
        return self.precision >= ROUGH

    def _homing(
        self, centre: float, limit: int | None, measure: Callable[[list[int]], list[Estimate]]
    ) -> tuple[list[int], list[Estimate]]:
        """Measure around `centre`; where the crossing lies outside, move there, at most four times."""
        counts: list[int] = []
        curve: list[Estimate] = []
        for _ in range(5):
            counts = _around(centre, limit, STEPS[1:-1] if self._rough else STEPS)
            curve = measure(counts)
            found = crossing_of_curve([float(n) for n in counts], curve, self.threshold)
            first, last = curve[0].value, curve[-1].value
            if found.value is not None or first is None or last is None:
                break
            if last <= self.threshold and counts[-1] != limit:
                centre = counts[-1] * min(64.0, max(1.5, (self.threshold / max(last, 1e-9)) ** 2))
            elif first > self.threshold and counts[0] > 1:
                centre = counts[0] * max(1 / 64, min(1 / 1.5, (self.threshold / first) ** 2))
            else:
                break
        return counts, curve

    def _pilot(self, limit: int | None) -> tuple[list[int], list[float]]:
        """Return M = 1, 2, 4, ... with the pilot's mean squares of the ratio, to one M beyond the threshold."""
        counts: list[int] = []
        squares: list[float] = []
        found: dict[Activation, float] = {}
        n = 1
        while True:
            sigma = sigma_of(self.one, self.d_k, n)
            if sigma not in found:
                means = tilted_mean_squares(sigma, self.d_k, seed=self.seed, trials=self._pilot_trials, name="pilot")
                found[sigma] = float(means.mean())
            signal = float(np.asarray(sigma(np.array([self.cosine])))[0]) ** 2
            counts.append(n)
            squares.append(0.0 if n == 1 else (n - 1) * found[sigma] / signal if signal > 0 else math.inf)
            if n == (limit or 1 << 1000) or (squares[-1] > self.threshold**2 and not self.one.changes_with_n(self.d_k)):
                return counts, squares
            n = 2 * n if limit is None else min(2 * n, limit)

    @property
    def _pilot_trials(self) -> int:
        return PILOT_TRIALS if self.precision <= 2 * PRECISION else PILOT_TRIALS // 2

    def _ratios(self, counts: list[int]) -> list[Estimate]:
        """Measure the ratio at each M by similarities, with streams long enough for PRECISION."""
        middle = sigma_of(self.one, self.d_k, counts[len(counts) // 2])
        wanted = 8 * tilt_for(middle, self.d_k).tail / self.precision**2
        streams = max(FEWEST_STREAMS, min(STREAMS, round(STREAMS * PRECISION / self.precision)))
        length = int(min(LONGEST_STREAM, wanted / streams))
        plan = SimilarityPlan(
            "capacity", (self.one,), self.d_k, tuple(counts), seed=self.seed, streams=streams, pieces=MOST_PIECES,
            length=length, cosines=(self.cosine,), statistics=(self.statistic,),
        )  # fmt: skip
        drawn = draw_squares(plan, workers=self.workers, progress=self.progress)
        sigmas = [sigma_of(self.one, self.d_k, n) for n in counts]
        return [
            drawn.estimate(sigma, n, self.cosine, "weights", self.statistic)
            for sigma, n in zip(sigmas, counts, strict=True)
        ]

    def _key_ratios(self, counts: list[int], keys_a_point: int, largest: int, most: int = 512) -> list[Estimate]:
        """Measure the ratio at each M by drawn keys, about `keys_a_point` of them in all trials, read as at `largest`.

        Weights of each value channel are read by one write for every target, so such stores get an eighth.
        """
        found = []
        each = self.one.store.traits.linear_in_values == "per-channel"
        targets, keys_a_point = (4, keys_a_point // 8) if each else (16, keys_a_point)
        estimator = estimator_of(self.one.store, largest)
        for n in counts:
            trials = max(FEWEST_TRIALS_BY_KEYS if self._rough else TRIALS_BY_KEYS, min(most, keys_a_point // n))
            plan = KeyPlan(
                "capacity", (self.one,), self.d_k, (n,), seed=self.seed, trials=trials, targets=targets,
                cosines=(self.cosine,),
                d_v=self.d_v, keys=self.keys, estimator=estimator,
            )  # fmt: skip
            ratios = key_ratios(plan, workers=self.workers, progress=self.progress)[n][:, 0, 0]
            found.append(summarise(ratios, self.statistic, estimator=estimator, seed=self.seed, sampler=SAMPLER))
        return found


def _around(centre: float, limit: int | None, steps: Sequence[float]) -> list[int]:
    """Return whole M around a real one, apart by a factor 2^(1/4) where whole numbers allow."""
    counts = {max(1, round(centre * 2**step)) for step in steps}
    if centre < FEW:
        counts |= {max(1, math.floor(centre)), math.ceil(centre) + 1}
    return sorted(counts if limit is None else {min(n, limit) for n in counts})


def _beyond(estimate: Estimate, threshold: float) -> bool:
    low = estimate.value if estimate.low is None else estimate.low
    return low is not None and low > threshold
