"""Capacity of a store: what theory says beside what is measured."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np

from assocmem.contract.errors import AssocmemError, InputError, ToldOnce, place_of
from assocmem.contract.estimate import Estimate, Prediction, Statistic
from assocmem.contract.numbers import checked_cosine, interval, is_number, is_whole, number
from assocmem.contract.results import Row
from assocmem.inputs import Law
from assocmem.kernels.compute import Progress, Workers
from assocmem.lab.extras import NO_EXTRAS, Extras, check_names
from assocmem.lab.keys import Keys, estimator_of
from assocmem.lab.plan import LabelledStore, Plan, Sampler, StoreLike, labelled, row, sigma_of
from assocmem.lab.similarities import (
    DRAWS,
    LONGEST,
    SAMPLER,
    TILTED,
    Similarities,
    tilt_for,
    tilted_mean_squares,
    too_sharp,
)  # fmt: skip
from assocmem.maps.activations import Activation
from assocmem.ruler.capacity import Capacity, crossing_of_curve

PRECISION = 0.01
BETWEEN = (
    "the sharpness follows M and exists at whole M alone; theory takes it at a real M, the measurement draws a line "
    "between the two next to it, which can differ by some thousandths of M"
)
HALF, MANY = 0.5, 12
"""Share of a mean that one trial may carry, where there are so many trials."""
LARGEST_WEIGHT = 1e150
LARGEST_BY_POLICY, LARGEST_BY_KEYS = 1 << 21, 1 << 14
STREAMS, FEWEST_STREAMS, LONGEST_STREAM, MOST_PIECES = 32, 8, 1 << 23, 1 << 14
PILOT_TRIALS, PILOT_TRIALS_BY_KEYS, KEYS_A_POINT = 20, 64, 1 << 14
FEW = 16
PATIENCE = 3.0  # seconds for one M of the first search
STEPS = (-0.75, -0.5, -0.25, 0.0, 0.25, 0.5, 0.75)
ROUGH = 0.1
"""Wanted precision from which the outermost of these places are left out and fewer trials do."""
TRIALS_BY_KEYS, FEWEST_TRIALS_BY_KEYS = 12, 8

Curve = dict[int, Estimate]
NOTHING: Curve = {}

HIGHEST, WIDEST = 1e100, 1 << 53
"""Largest ratio whose square, and that of any M with it, is a float; largest width."""


@dataclass(frozen=True, repr=False)
class MeasuredCapacity:
    """The M at which a store's ratio reaches a threshold, predicted and measured; M counts the target."""

    plan: Plan
    prediction: Prediction
    measured: Capacity
    curve: tuple[tuple[int, Estimate], ...]

    @property
    def one(self) -> LabelledStore:
        """The store that was measured."""
        return self.plan.stores[0]

    @property
    def d_k(self) -> int:
        """Width of its keys."""
        return self.plan.d_k

    @property
    def cosine(self) -> float:
        """Of queries with the keys that they ask for."""
        return self.plan.cosines[0]

    def __repr__(self) -> str:
        found, theory = self.measured, self.prediction
        said = f"{number(found.value)} ({interval(found.low, found.high)})" if found.value else found.reason
        known = theory.reason if theory.value is None else number(theory.value)
        ratio = f"{found.statistic} ratio of {found.threshold:g}, query cosine {self.cosine:g}"
        return f"{self.one.label}, d_k = {self.d_k}: capacity measured {said}; by theory {known}; {ratio}"

    @property
    def difference(self) -> float | None:
        """Measured over predicted, less one; None where either is missing or they are of different statistics."""
        found, theory = self.measured, self.prediction
        if found.value is None or not theory.value or theory.statistic != found.statistic:
            return None
        return found.value / theory.value - 1

    @property
    def drawn(self) -> str:
        """What one M took at most, in words, where it was measured by similarities; "" else."""
        if not all(point.sampler in (SAMPLER, TILTED) for _, point in self.curve):
            return ""
        most = max((p.n_trials * (DRAWS if p.sampler == TILTED else n - 1) for n, p in self.curve), default=0)
        return f"at most {most:,} similarities drawn for one M; memory does not grow with M"

    def row(self) -> Row:
        """Return one tidy row (columns: see `contract.columns`)."""
        found, theory = self.measured, self.prediction
        return row(self.one, found) | {
            "quantity": "capacity", "d_k": self.d_k, "cosine": self.cosine, "threshold": found.threshold,
            "largest_m": found.largest_m, "ratio_there": found.ratio_there, "note": found.note, "theory": theory.value,
            "theory_log": theory.log_value, "theory_source": theory.source, "theory_statistic": theory.statistic,
            "theory_reason": theory.reason, "difference": self.difference, "definition": found.definition,
        }  # fmt: skip


def capacity(
    store: StoreLike,
    d_k: int,
    *,
    seed: int = 0,
    threshold: float = 1.0,
    cosine: float = 1.0,
    statistic: Statistic | None = None,
    sampler: str = "auto",
    largest: int | None = None,
    d_v: int = 64,
    keys: str | Law = "sphere",
    precision: float = PRECISION,
    budget: float | None = None,
    extras: Extras = NO_EXTRAS,
    workers: Workers = None,
    progress: Progress | None = None,
) -> MeasuredCapacity:
    """Return the predicted and the measured capacity of a store for random unit keys of width d_k.

    Parameters
    ----------
    store : str, Store or (label, Store)
        A register key, a Store (a user's own too), or one with a label.
    d_k : int
        Width of the keys, from 1 to 2^53.
    seed : int
        Of every stream.
    threshold, cosine : float
        The ratio that is to be reached, > 0; cosine of the queries with their keys.
    statistic : {"rms", "mean", "median"}, optional
        "rms" by default; stores that are not linear in their values have the median.
    sampler : {"auto", "similarities", "keys"}
        "similarities" for stores of the form V^T σ(K x), "keys" for any; "auto" takes the first where it can.
    largest : int, optional
        M up to which to look; by default 2^14 by keys (less for a store that takes seconds for one M), 2^21 for a
        sharpness that follows M, else no limit.
    d_v : int
        Width of the values, for the keys sampler.
    keys : str or Law
        Law of the keys, for the keys sampler.
    precision : float
        Wanted half-width of the interval as a share of M, in (0, 1); met by similarities, five times that by keys
        unless a budget is given.
    budget : float, optional
        Seconds >= 0 in which to reach the precision by keys: trials are added until it is reached or they are over,
        and the search for the place ends with them. How many trials fit depends on the machine.
    extras : mapping, optional
        Laws of the further arrays that writes take, by name: a number, (low, high) for uniform, or a function of the
        keys. By default an extra has its own law or default, else it is uniform in its range.
    workers, progress
        See `kernels.compute.run_tasks`; the result does not depend on it.

    Returns
    -------
    MeasuredCapacity
        The measured capacity with its interval, theory's, and the curve.

    Raises
    ------
    InputError
        For numbers out of range, and for a sampler that cannot measure the store.

    Notes
    -----
    A pilot finds the place; then the ratio is measured at seven M from 0.6 to 1.7 times it, with trials enough for an
    interval of about 1 % of M by similarities, and the crossing is read by `ruler.crossing_of_curve`. Cost: within
    five seconds a store on two cores at d_k = 64. A recall that is not finite counts as failed, with an infinite ratio;
    where a store stops the search with an error, what was measured before counts and the note says so.

    Examples
    --------
    >>> found = capacity("outer-product", 64, workers=1)
    >>> abs(found.difference) < 0.03, found.measured.low < 65 < found.measured.high
    (True, True)
    >>> found
    outer-product, d_k = 64: capacity measured 65.02 (64.66 to 65.37); by theory 65; rms ratio of 1, query cosine 1
    """
    cosine = checked_cosine(cosine)
    if not (is_number(threshold) and 0 < threshold <= HIGHEST):
        raise InputError(
            f"`threshold` must be a finite number > 0, and is measured up to {HIGHEST:g}; got {threshold!r}."
        )
    if is_whole(d_k) and d_k > WIDEST:
        raise InputError(f"`d_k` must be at most 2^53, the last whole number that floats count; got {d_k}.")
    for name, given, least in (("d_k", d_k, 1), ("d_v", d_v, 1), ("largest", largest, 2)):
        if not (is_whole(given, least) or (given is None and name == "largest")):
            raise InputError(f"`{name}` must be a whole number >= {least}; got {given!r}.")
    one = labelled(store)
    if extras:
        check_names([one.store], extras)
    by_keys = _by_keys(one, d_k, sampler, keys, cosine, extras)
    if not (is_number(precision) and 0 < precision < 1):
        raise InputError(f"`precision` must lie between 0 and 1; got {precision!r}.")
    if budget is not None and not (is_number(budget) and 0 <= budget < math.inf):
        raise InputError(f"`budget` must be seconds >= 0; got {budget!r}.")
    chosen: Statistic = statistic or ("rms" if one.store.traits.linear_in_values != "no" else "median")
    usual = Keys(1) if by_keys else Similarities()  # the search names a sampler for every M
    plan = Plan(usual, (one,), d_k, (1,), seed, (cosine,), (chosen,), d_v, keys, experiment="capacity", extras=extras)
    search = _Search(plan, threshold, largest, precision, budget, workers, progress)
    curve = search.by_keys() if by_keys else search.by_similarities()
    found = search.crossing(curve)
    notes = [found.note]
    if by_keys:
        found = replace(found, reason=search.why_not(found))
        notes += [_heavy(curve, found), _failures(curve), *(s for s in search.stops if s not in found.reason)]
    if one.changes_with_n(d_k) and found.value is not None and found.value < FEW:
        notes.append(BETWEEN)
    found = replace(found, note="; ".join(filter(None, notes)))
    return MeasuredCapacity(plan, plan.predicted_capacity(one, threshold), found, tuple(curve.items()))


def _by_keys(one: LabelledStore, d_k: int, sampler: str, keys: str | Law, cosine: float, extras: Extras) -> bool:
    """Say whether to measure by the keys sampler; InputError where the one that was asked for can't."""
    if sampler not in ("auto", "similarities", "keys"):
        raise InputError(f"`sampler` must be auto, similarities or keys; got {sampler!r}.")
    sigma = one.sigma(d_k, 2)
    other = keys != "sphere" or bool(extras)
    if sigma is None or not math.isfinite(getattr(sigma, "beta", 0.0)) or other:
        if sampler == "similarities":
            raise InputError(
                f"{one.label}, over keys of this law, is not of the form V^T σ(K x), σ finite; measure it by the keys "
                "sampler."
            )
        return True
    if sampler == "auto" and d_k > 1 and too_sharp(sigma):
        return True  # doubles resolve the inner products of drawn keys no better, but need no weighting back
    with np.errstate(over="ignore", invalid="ignore"):
        top = float(np.max(np.abs(np.asarray(sigma(np.array([cosine, 1.0])), dtype=np.float64))))
    if not top < LARGEST_WEIGHT:
        raise InputError(
            f"σ(s) = {sigma.formula} reaches {top:.3g}, and its square leaves the range of floats: it cannot be "
            "measured. The same σ times a small number has the same capacity."
        )
    return sampler == "keys"


def _heavy(curve: Curve, found: Capacity) -> str:
    """Return a note where, beside the capacity, one trial carries half of a mean over twelve or more."""
    first, last = min(curve), max(curve)
    if found.value is not None:
        first = max((n for n in curve if n <= (found.low or found.value)), default=first)
        last = min((n for n in curve if n >= (found.high or found.value)), default=last)
    near = [(e.heaviest or 0.0, n, e.n_trials) for n, e in curve.items() if first <= n <= last and e.n_trials >= MANY]
    share, n, trials = max(near, default=(0.0, 0, 0))
    if share <= HALF:
        return ""
    return (
        f"at M = {n} one of {trials} trials carries {share:.0%} of the mean: a target's own weight may come near zero, "
        "and then the mean over all draws is infinite and this number hangs on the seed; the median does not"
    )


def _failures(curve: Curve) -> str:
    """Return a note where recalls were not finite, at the smallest such M."""
    n = next((n for n in sorted(curve) if curve[n].failed), None)
    return "" if n is None or curve[n].value == math.inf else f"at M = {n} {curve[n].failed}"


@dataclass(frozen=True)
class _Search:
    """Where a capacity is looked for: each way finds its place and measures around it, returning the curve by M.

    stops: in words what stopped the search, once something was measured; began: when, by `time.perf_counter`.
    """

    plan: Plan
    threshold: float
    largest: int | None
    precision: float
    budget: float | None
    workers: Workers
    progress: Progress | None
    stops: list[str] = field(default_factory=list)
    began: float = field(default_factory=time.perf_counter)

    @property
    def one(self) -> LabelledStore:
        """The store that is measured."""
        return self.plan.stores[0]

    def crossing(self, curve: Curve) -> Capacity:
        """Return where the curve crosses the threshold."""
        return crossing_of_curve([float(n) for n in curve], list(curve.values()), self.threshold)

    def by_similarities(self) -> Curve:
        """Measure by similarities around the place that a pilot of tilted draws shows, moving on where it is not."""
        limit = self.largest or (LARGEST_BY_POLICY if self.one.changes_with_n(self.plan.d_k) else None)
        squares = self._pilot(limit)
        counts, wanted = list(squares), self.threshold**2
        rise = next((i for i in range(1, len(counts)) if squares[counts[i - 1]] <= wanted < squares[counts[i]]), None)
        if rise is None:
            coarse = sorted({*[n for n in counts if n <= LONGEST][::2], min(counts[-1], LONGEST)})
            return self._by_similarities(coarse)
        centre, (below, above) = float(counts[rise]), (squares[n] for n in counts[rise - 1 : rise + 1])
        if below > 0 and math.isfinite(above):
            back = math.log(above / wanted) / math.log(above / below)
            centre = 1 + (centre - 1) * math.exp(-back * (math.log(centre - 1) - math.log(counts[rise - 1] - 1)))
        return self._homing(centre, limit, self._by_similarities)

    def _pilot(self, limit: int | None) -> dict[int, float]:
        """Return, for M = 1, 2, 4, ... to one beyond the threshold, the pilot's mean squares of the ratio."""
        trials = PILOT_TRIALS if self.precision <= 2 * PRECISION else PILOT_TRIALS // 2
        squares: dict[int, float] = {}
        found: dict[Activation, float] = {}
        n = 1
        while True:
            sigma = sigma_of(self.one, self.plan.d_k, n)
            if sigma not in found:
                means = tilted_mean_squares(sigma, self.plan.d_k, seed=self.plan.seed, trials=trials, name="pilot")
                found[sigma] = float(means.mean())
            signal = float(np.asarray(sigma(np.array([self.plan.cosines[0]])))[0]) ** 2
            squares[n] = 0.0 if n == 1 else (n - 1) * found[sigma] / signal if signal > 0 else math.inf
            beyond = squares[n] > self.threshold**2 and not self.one.changes_with_n(self.plan.d_k)
            if n == (limit or 1 << 1000) or beyond:
                return squares
            n = 2 * n if limit is None else min(2 * n, limit)

    def _by_similarities(self, counts: list[int]) -> Curve:
        """Measure the ratio at each M by similarities, with streams long enough for the wanted precision."""
        middle = sigma_of(self.one, self.plan.d_k, counts[len(counts) // 2])
        wanted = 8 * tilt_for(middle, self.plan.d_k).tail / self.precision**2
        streams = max(FEWEST_STREAMS, min(STREAMS, round(STREAMS * PRECISION / self.precision)))
        return self._measured(Similarities(streams, MOST_PIECES, int(min(LONGEST_STREAM, wanted / streams))), counts)

    def by_keys(self) -> Curve:
        """Measure by drawn keys: M = 2, 4, 8, ... until the ratio is surely beyond the threshold, then around it.

        Where no largest M was named, the doubling also ends at the first M that takes longer than PATIENCE.
        """
        with ToldOnce():
            return self._all_by_keys(self.largest or LARGEST_BY_KEYS)

    def _all_by_keys(self, limit: int) -> Curve:
        n = min(2, limit)
        curve = self._by_keys([n], limit, pilot=True)
        began = time.perf_counter()
        while n < limit and not _beyond(curve[n], self.threshold):
            if self._impatient(time.perf_counter() - began):
                break
            n, began = min(2 * n, limit), time.perf_counter()
            more = self._by_keys([n], limit, pilot=True, known=curve)
            if not more:
                break
            curve |= more
        if n == 2 and (curve[2].value or 0.0) > self.threshold:
            curve = self._by_keys([1], limit, pilot=True, known=curve) | curve
        curve = self._closing_in(curve, limit)
        found = self.crossing(curve)
        if found.value is None:
            return curve
        fine = self._homing(found.value, limit, lambda ns: self._by_keys(ns, ns[-1], known=curve))
        fine = self._refined(fine)
        return curve if self.stops and self.crossing(fine).value is None else fine

    def _impatient(self, seconds: float) -> bool:
        """Say whether the doubling ends because one M took that long, or because the budget is spent."""
        if self.budget is not None:
            return self._spent > self.budget
        return self.largest is None and seconds > PATIENCE

    @property
    def _spent(self) -> float:
        return time.perf_counter() - self.began

    def _refined(self, curve: Curve) -> Curve:
        """Measure the curve with more trials until the precision is reached or the budget will not do for them."""
        factor, began = 1.0, self._spent
        while self.budget is not None:
            found, took = self.crossing(curve), self._spent - began
            if found.value is None or (wide := _half_width(found)) <= self.precision:
                break
            more = min(16.0, max(2.0, 1.2 * (wide / self.precision) ** 2))
            left = self.budget - self._spent
            if took > 0 and left < more * took:
                more = left / took
            if more < 1.5:
                if wide < math.inf:
                    self.stops.append(f"the budget of {self.budget:g} s ended at ±{wide:.1%}")
                break
            factor, began = factor * more, self._spent
            counts = sorted(curve)
            better = self._by_keys(counts, counts[-1], known=curve, factor=factor)
            if len(better) < len(counts):
                break
            curve = better
        return curve

    def why_not(self, found: Capacity) -> str:
        """Return the reason why a search by keys found no crossing, in words where it ended early."""
        if found.value is not None or (found.ratio_there or math.inf) > self.threshold:
            return found.reason
        so_far = f"not reached below M = {found.largest_m:.12g}; the ratio there is {found.ratio_there:.4g}"
        if self.stops:
            return f"{so_far}; {self.stops[0]}"
        if self.budget is not None and self._spent > self.budget:
            return f"{so_far}; the search stopped because the budget of {self.budget:g} s is spent"
        if found.largest_m >= LARGEST_BY_KEYS or self.largest is not None:
            return found.reason
        return (
            f"{so_far}; the search "
            f"stopped because one M took more than {PATIENCE:g} s; name a larger M with --max-memories to go on"
        )

    def _closing_in(self, curve: Curve, limit: int) -> Curve:
        """Where the ratio jumps to infinity, halve the gap that the jump lies in until it is one memory wide."""
        while True:
            counts = sorted(curve)
            values = [math.nan if curve[n].value is None else float(curve[n].value or 0.0) for n in counts]
            i = next((i for i, value in enumerate(values) if value > self.threshold), 0)
            if i == 0 or not math.isinf(values[i]) or counts[i] - counts[i - 1] == 1:
                return {n: curve[n] for n in counts}
            n = (counts[i] + counts[i - 1]) // 2
            more = self._by_keys([n], limit, pilot=True, known=curve)
            if not more:
                return {n: curve[n] for n in counts}
            curve |= more

    @property
    def _rough(self) -> bool:
        return self.precision >= ROUGH

    def _by_keys(
        self, counts: list[int], largest: int, pilot: bool = False, known: Curve = NOTHING, factor: float = 1.0
    ) -> Curve:
        """Measure the ratio at each M by drawn keys, a number of them in all trials, read as at `largest`.

        A pilot draws a quarter of them, `factor` times as many are drawn where asked. Weights of each value channel are
        read by one write for every target, so such stores get an eighth. Where some M are `known`, an error ends it:
        what is measured so far is returned, and `stops` says why.
        """
        keys_a_point = max(1 << 10 if self._rough else 1 << 11, int(KEYS_A_POINT * (PRECISION / self.precision)))
        keys_a_point, most = (keys_a_point // 4, PILOT_TRIALS_BY_KEYS) if pilot else (keys_a_point, 512)
        keys_a_point, most = int(keys_a_point * factor), int(most * factor)
        each = self.one.store.traits.linear_in_values == "per-channel"
        targets, keys_a_point = (4, keys_a_point // 8) if each else (16, keys_a_point)
        fewest = FEWEST_TRIALS_BY_KEYS if self._rough else TRIALS_BY_KEYS
        estimator = estimator_of(self.one.store, largest)
        curve: Curve = {}
        for n in counts:
            trials = max(int(fewest * factor), min(most, keys_a_point // n))
            try:
                sampler = Keys(trials, most=max(256, trials), targets=targets, estimator=estimator)
                curve |= self._measured(sampler, [n])
            except Exception as error:
                if not (known or curve):
                    raise
                self.stops.append(f"the search stopped at M = {n}: {_in_words(error)}")
                break
        return curve

    def _measured(self, sampler: Sampler, counts: list[int]) -> Curve:
        plan = replace(self.plan, sampler=sampler, memories=tuple(counts))
        drawn = sampler.draw(plan, self.workers, self.progress)
        return {trials.n_memories: trials.estimate(self.plan.seed) for trials in drawn}

    def _homing(self, centre: float, limit: int | None, measure: Callable[[list[int]], Curve]) -> Curve:
        """Measure around `centre`; where the crossing lies outside, move there, at most four times."""
        curve: Curve = {}
        for _ in range(5):
            counts = _around(centre, limit, rough=self._rough)
            curve = measure(counts)
            if len(curve) < len(counts):
                break
            first, last = (curve[n].value for n in (counts[0], counts[-1]))
            if self.crossing(curve).value is not None or first is None or last is None:
                break
            if last <= self.threshold and counts[-1] != limit:
                centre = counts[-1] * min(64.0, max(1.5, (self.threshold / max(last, 1e-9)) ** 2))
            elif first > self.threshold and counts[0] > 1:
                centre = counts[0] * max(1 / 64, min(1 / 1.5, (self.threshold / first) ** 2))
            else:
                break
        return curve


def _in_words(error: Exception) -> str:
    """Return an error's sentence without its stop; one that is not the package's with its kind and its place."""
    if isinstance(error, AssocmemError):
        return str(error).rstrip(".")
    return f"{type(error).__name__}: {error} ({place_of(error)})"


def _half_width(found: Capacity) -> float:
    """Return half the width of a capacity's interval as a share of it, infinite where that is open."""
    if found.value is None or found.low is None or found.high is None:
        return math.inf
    return (found.high - found.low) / 2 / found.value


def _around(centre: float, limit: int | None, *, rough: bool) -> list[int]:
    """Return whole M around a real one, apart by a factor 2^(1/4) where whole numbers allow."""
    counts = {max(1, round(centre * 2**step)) for step in (STEPS[1:-1] if rough else STEPS)}
    if centre < FEW:
        counts |= {max(1, math.floor(centre)), math.ceil(centre) + 1}
    return sorted(counts if limit is None else {min(n, limit) for n in counts})


def _beyond(estimate: Estimate, threshold: float) -> bool:
    low = estimate.value if estimate.low is None else estimate.low
    return low is not None and low > threshold
