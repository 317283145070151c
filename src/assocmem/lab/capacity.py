"""Capacity of a store: what theory says beside what is measured."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from assocmem import theory
from assocmem.contract.errors import InputError
from assocmem.contract.estimate import Estimate, Prediction, Statistic
from assocmem.contract.requirement import is_whole
from assocmem.inputs import Law
from assocmem.kernels.compute import Progress, Workers
from assocmem.lab.importance_sampling import too_sharp
from assocmem.lab.labelled import subject
from assocmem.lab.search import FEW, PRECISION, Search
from assocmem.ruler import Capacity, crossing_of_curve

BETWEEN = (
    "the sharpness follows M and exists at whole M alone; theory takes it at a real M, the measurement draws a line "
    "between the two next to it, which can differ by some thousandths of M"
)

DEFINITIONS = {
    "value": "measured capacity: the M at which the statistic of the ratio crosses the threshold; M counts the target",
    "low": "lower end of the 95 % interval of the measured capacity",
    "high": "upper end of the 95 % interval of the measured capacity",
    "threshold": "interference-to-signal ratio that counts as failure (dimensionless amplitude ratio)",
    "cosine": "cosine between a query and the stored key that it asks for",
    "n_trials": "independent trials at the measured M with the fewest",
    "largest_m": "the largest M that was measured",
    "ratio_there": "the ratio at largest_m",
    "reason": "why there is no measured capacity, empty where there is",
    "note": "what to know about it, empty where there is nothing",
    "theory": "capacity that theory gives for random unit keys; null with a reason where there is none",
    "theory_log": "natural logarithm of the same, finite where the number is not",
    "theory_source": "what theory rests on",
    "theory_statistic": "the statistic that theory is of",
    "theory_reason": "why theory gives none, empty where it does",
    "difference": "measured over predicted, less one; null where their statistics differ",
    "definition": "of the statistic of the ratio",
}

HALF, MANY = 0.5, 12
"""Share of a mean that one trial may carry, where there are so many trials."""
LARGEST_WEIGHT = 1e150


@dataclass(frozen=True)
class MeasuredCapacity:
    """The M at which a store's ratio reaches `threshold`, predicted and measured; M counts the target.

    difference: measured over predicted, less one; None where either is missing or they are of different statistics.
    """

    store: str
    label: str
    d_k: int
    cosine: float
    threshold: float
    statistic: str
    prediction: Prediction
    measured: Capacity
    curve: tuple[tuple[int, Estimate], ...]

    @property
    def difference(self) -> float | None:
        """Measured over predicted, less one."""
        if self.measured.value is None or not self.prediction.value or self.prediction.statistic != self.statistic:
            return None
        return self.measured.value / self.prediction.value - 1

    def row(self) -> dict[str, Any]:
        """Return one tidy row (columns: see DEFINITIONS)."""
        found, theory = self.measured, self.prediction
        return {
            "store": self.store, "label": self.label, "d_k": self.d_k, "cosine": self.cosine,
            "threshold": self.threshold, "statistic": self.statistic, "sampler": found.sampler, "value": found.value,
            "low": found.low, "high": found.high, "n_trials": found.n_trials, "seed": found.seed,
            "largest_m": found.largest_m, "ratio_there": found.ratio_there, "reason": found.reason, "note": found.note,
            "theory": theory.value, "theory_log": theory.log_value, "theory_source": theory.source,
            "theory_statistic": theory.statistic, "theory_reason": theory.reason, "difference": self.difference,
            "definition": found.definition,
        }  # fmt: skip


def capacity(
    store: Any,
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
    workers: Workers = None,
    progress: Progress | None = None,
) -> MeasuredCapacity:
    """Return the predicted and the measured capacity of a store for random unit keys of width d_k.

    Parameters
    ----------
    store: a register key, a Store (a user's own too) or (label, Store).
    threshold: the ratio that is to be reached, > 0. cosine: of the queries with their keys.
    statistic: "rms" (the default), "mean" or "median"; stores that are not linear in their values have the median.
    sampler: "similarities" for stores of the form V^T σ(K x), "keys" for any; "auto" takes the first where it can.
    largest: M up to which to look; by default 2^14 by keys (less for a store that takes seconds for one M), 2^21 for a
        sharpness that follows M, else no limit.
    d_v, keys: width of the values and law of the keys, for the keys sampler.
    precision: wanted half-width of the interval as a share of M, in (0, 1); met by similarities, about five times
        that by keys.

    A pilot finds the place; then the ratio is measured at seven M from 0.6 to 1.7 times it, with trials enough for an
    interval of about 1 % of M by similarities, and the crossing is read by `ruler.crossing_of_curve`. Cost: within
    five seconds a store on two cores at d_k = 64.

    >>> found = capacity("outer-product", 64, workers=1)
    >>> abs(found.difference) < 0.03, found.measured.low < 65 < found.measured.high
    (True, True)
    """
    for name, number, least in (("d_k", d_k, 1), ("d_v", d_v, 1), ("largest", largest, 2)):
        if not (is_whole(number, least) or (number is None and name == "largest")):
            raise InputError(f"`{name}` must be a whole number >= {least}; got {number!r}.")
    one = subject(store)
    sigma = one.sigma(d_k, 2)
    by_form = sigma is not None and math.isfinite(getattr(sigma, "beta", 0.0)) and keys == "sphere"
    if sampler not in ("auto", "similarities", "keys"):
        raise InputError(f"`sampler` must be auto, similarities or keys; got {sampler!r}.")
    if sampler == "similarities" and not by_form:
        raise InputError(
            f"{one.label}, over keys of this law, is not of the form V^T σ(K x), σ finite; measure it by the keys "
            "sampler."
        )
    if by_form and sampler == "auto" and d_k > 1 and sigma is not None and too_sharp(sigma):
        by_form = False  # doubles resolve the inner products of drawn keys no better, but need no weighting back
    if by_form and sigma is not None:
        with np.errstate(over="ignore", invalid="ignore"):
            top = float(np.max(np.abs(np.asarray(sigma(np.array([cosine, 1.0])), dtype=np.float64))))
        if not top < LARGEST_WEIGHT:
            raise InputError(
                f"σ(s) = {sigma.formula} reaches {top:.3g}, and its square leaves the range of floats: it cannot be "
                "measured. The same σ times a small number has the same capacity."
            )
    if not (math.isfinite(threshold) and threshold > 0):
        raise InputError(f"`threshold` must be a finite number > 0; got {threshold!r}.")
    if not 0 < precision < 1:
        raise InputError(f"`precision` must lie between 0 and 1; got {precision!r}.")
    linear = one.store.traits.linear_in_values != "no"
    chosen: Statistic = statistic or ("rms" if linear else "median")
    search = Search(one, d_k, seed, threshold, cosine, chosen, largest, d_v, keys, precision, workers, progress)
    by_keys = sampler == "keys" or not by_form
    counts, curve = search.by_keys() if by_keys else search.by_similarities()
    found = crossing_of_curve([float(n) for n in counts], curve, threshold)
    if by_keys:
        found = replace(found, reason=search.why_not(found))
        found = replace(found, note="; ".join(filter(None, [found.note, _heavy(counts, curve, found)])))
    if one.changes_with_n(d_k) and found.value is not None and found.value < FEW:
        found = replace(found, note="; ".join(filter(None, [found.note, BETWEEN])))
    if keys == "sphere":
        prediction = theory.capacity(one.form(d_k), d_k, ratio=threshold, cosine=cosine, statistic=chosen)
    else:
        prediction = Prediction("capacity", None, chosen, "", "", reason="no formula for keys of this law")
    return MeasuredCapacity(
        one.key, one.label, d_k, cosine, threshold, chosen, prediction, found, tuple(zip(counts, curve, strict=True))
    )


def _heavy(counts: list[int], curve: list[Estimate], found: Capacity) -> str:
    """Return a note where, beside the capacity, one trial carries half of a mean over twelve or more."""
    first, last = counts[0], counts[-1]
    if found.value is not None:
        first = max((n for n in counts if n <= (found.low or found.value)), default=first)
        last = min((n for n in counts if n >= (found.high or found.value)), default=last)
    near = [(e.heaviest or 0.0, n, e.n_trials) for n, e in zip(counts, curve, strict=True) if first <= n <= last]
    share, n, trials = max((one for one in near if one[2] >= MANY), default=(0.0, 0, 0))
    if share <= HALF:
        return ""
    return (
        f"at M = {n} one of {trials} trials carries {share:.0%} of the mean: a target's own weight may come near zero, "
        "and then the mean over all draws is infinite and this number hangs on the seed; the median does not"
    )
