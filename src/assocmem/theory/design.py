"""The design rule: how sharp attention must be for M memories, how sharp it can usefully be, and what that serves.

ln ratio = (ln (M-1) + ln E e^(2b(s-1)))/2 + b (1 - ρ) is convex in the sharpness b. Its minimum b* is where the mean
of s under the law tilted by e^(2bs) equals the query's cosine: I_{d/2}(2b)/I_{d/2-1}(2b) = ρ. A clean query (ρ = 1)
has no finite minimum: sharper is always better.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

from assocmem.contract.estimate import Prediction
from assocmem.contract.form import Form, LeastSquares
from assocmem.maps.activations import Exp
from assocmem.theory import questions
from assocmem.theory.answer import (
    EPS,
    checked_cosine,
    checked_memories,
    checked_ratio,
    checked_width,
    log_others,
    none,
    plain,
    predict,
    regime,
)
from assocmem.theory.bessel import log_mean_exp, mean_cosine
from assocmem.theory.roots import root

_SHARPEST = 1e150
_NEAR = 1e-4
"""Distance of a cosine from 1 below which the best sharpness comes from a series."""


@dataclass(frozen=True)
class Design:
    """What softmax attention needs to serve M memories at a ratio, and whether it can.

    sharpness: the smallest beta on unit keys that suffices, None where none does. logit_scale: beta/d, the factor on
        q.k for queries and keys of length sqrt(d); the usual 1/sqrt(d) is beta = sqrt(d).
    reached: the ratio at `sharpness`, or at the best sharpness where the wanted ratio is out of reach.
    best_sharpness: the beta of the lowest ratio; value None where the ratio keeps falling.
    largest: the largest M served at the wanted ratio, at the best sharpness; value None where there is no limit.
    sentence: the answer in words.
    """

    d: int
    n_memories: float
    ratio: float
    cosine: float
    feasible: bool
    sharpness: float | None
    logit_scale: float | None
    reached: Prediction
    best_sharpness: Prediction
    largest: Prediction
    sentence: str


@dataclass(frozen=True)
class Requirement:
    """Whether a store serves M memories at a ratio: what it reaches there, and the largest M that it serves.

    feasible is None where theory has no answer; `sentence` says which and why.
    """

    feasible: bool | None
    reached: Prediction
    largest: Prediction
    sentence: str


def design(d: int, n_memories: float, ratio: float, cosine: float = 1.0) -> Design:
    """Return the smallest softmax sharpness that keeps M memories at an rms ratio of at most `ratio`.

    Parameters
    ----------
    d: width of the keys, 1 or >= 2. n_memories: M >= 1, counting the target.
    ratio: wanted interference-to-signal ratio, > 0. cosine: ρ between query and stored key, in [-1, 1].

    Not feasible where even the best sharpness leaves a larger ratio (or one above 1e150 would be needed).
    Raises InputError for numbers out of range.

    >>> plan = design(64, 1272264, 1.0)
    >>> round(plan.sharpness, 5), round(plan.logit_scale * 64, 5)
    (8.0, 8.0)
    >>> design(64, 2e6, 1.0, cosine=0.6).feasible
    False
    """
    width, n, wanted = checked_width(d), checked_memories(n_memories), checked_ratio(ratio)
    cosine = checked_cosine(cosine, width)
    best = best_sharpness(d, cosine)
    top = _SHARPEST if best.value is None else best.value
    target = math.log(wanted)
    sharpness = _smallest(lambda b: _log_ratio(width, n, b, cosine) - target, top)
    largest = _largest(width, wanted, cosine, best.value)
    reached = questions.ratio(Exp(top if sharpness is None else sharpness), width, n, cosine=cosine)
    return Design(
        d=d,
        n_memories=n,
        ratio=wanted,
        cosine=cosine,
        feasible=sharpness is not None,
        sharpness=sharpness,
        logit_scale=None if sharpness is None else sharpness / width,
        reached=reached,
        best_sharpness=best,
        largest=largest,
        sentence=_sentence(n, wanted, sharpness, best, largest, reached),
    )


def best_sharpness(d: int, cosine: float = 1.0) -> Prediction:
    """Return the sharpness with the lowest rms ratio for queries at cosine ρ, whatever M is.

    The root b of I_{d/2}(2b)/I_{d/2-1}(2b) = ρ: about ρ d / (2 (1 - ρ^2)) for large d. It is 0 for ρ <= 0; at ρ = 1
    the value is None with a reason. Its `error` grows with d and near 1.

    >>> round(best_sharpness(64, 0.6).value, 3)
    29.753
    """
    width = checked_width(d)
    cosine = checked_cosine(cosine, width)
    words = regime(width, cosine)
    source = "root b of I_{d/2}(2b)/I_{d/2-1}(2b) = ρ"
    if cosine == 1:
        reason = "no finite one at cosine 1: the ratio falls with every increase of sharpness"
        return none("best sharpness", reason, regime=words, source=source)
    if cosine <= 0:
        return predict("best sharpness", -math.inf, regime=words, source=source)
    if cosine < 1e-9:  # the left side is 2 b/d there
        return predict("best sharpness", math.log(cosine) + math.log(width / 2), regime=words, source=source)
    gap = 1 - cosine
    if gap < _NEAR and width > 1:  # there 1 - I/I = (d-1)/(2 κ) - (d-1)(d-3)/(8 κ²) + ..., κ = 2 b
        log = math.log((width - 1) / (4 * gap)) + math.log1p(-(width - 3) * gap / (2 * (width - 1)))
        return predict("best sharpness", log, regime=words, source=source, error=gap * gap + 4 * EPS)
    high = width * cosine / (1 - cosine * cosine) + width
    best = root(lambda b: mean_cosine(2 * b, width) - cosine, 0.0, high)
    # The mean cosine is a difference of logarithms of size d, right to some d eps; its slope in ln b is near the gap.
    error = 64 * EPS * (1 + 1 / gap) * (1 + width / 4)
    return predict("best sharpness", math.log(best), regime=words, source=source, error=error)


def requirement(form: Form | None, d: int, n_memories: float, ratio: float, cosine: float = 1.0) -> Requirement:
    """Return whether a store of this form keeps M memories at an rms ratio of at most `ratio`.

    Parameters: `form`, or an activation in its place; the others as for `design`.

    >>> from assocmem.maps.activations import ReLU
    >>> requirement(ReLU(2), 64, 2000, 1.0).feasible, requirement(ReLU(2), 64, 3000, 1.0).feasible
    (True, False)
    """
    reached = questions.ratio(form, d, n_memories, cosine=cosine)
    largest = questions.capacity(form, d, ratio=ratio, cosine=cosine)
    if isinstance(form, LeastSquares) and cosine != 1:
        reason = "with a noisy query the ratio peaks at M = d, so there is no one largest M"
        largest = none("capacity", reason, statistic=reached.statistic)
    return _required(reached, largest, ratio)


def _required(reached: Prediction, largest: Prediction, ratio: float) -> Requirement:
    wanted = math.log(checked_ratio(ratio))
    if reached.value is None and reached.log_value is None:
        feasible = False if reached.reason.startswith(("infinite", "no recall")) else None
        return Requirement(
            feasible, reached, largest, f"no: {reached.reason}." if feasible is False else reached.reason
        )
    log = -math.inf if reached.log_value is None else reached.log_value
    feasible = log <= wanted + 1e-12
    sentence = f"{'yes' if feasible else 'no'}: the {reached.statistic} ratio is {_number(reached)}"
    if largest.value is not None or largest.log_value is not None:
        sentence += f"; it serves up to M = {_number(largest)} at a ratio of {plain(ratio)}"
    return Requirement(feasible, reached, largest, sentence + ".")


def _log_ratio(d: float, n: float, b: float, cosine: float) -> float:
    return 0.5 * (log_others(n) + log_mean_exp(2 * b, d)) + b * (1 - cosine)


def _smallest(above: Callable[[float], float], top: float) -> float | None:
    """Return the smallest b in [0, top] at which `above`, which falls there, is <= 0; None where it stays above."""
    if above(0.0) <= 0:
        return 0.0
    if above(top) > 0:
        return None
    high = min(1.0, top)
    while above(high) > 0:
        high = min(2 * high, top)
    low = high / 2 if high > 1 else 0.0
    return root(above, low, high)


def _largest(d: float, ratio: float, cosine: float, best: float | None) -> Prediction:
    if best is None and d > 1:
        reason = "no limit: with a query equal to its key a larger sharpness serves any M"
        return none("largest M", reason, regime=regime(d, cosine))
    found = questions.capacity(Exp(math.inf if best is None else best), d, ratio=ratio, cosine=cosine)
    return replace(found, quantity="largest M")


def _sentence(
    n: float, ratio: float, sharpness: float | None, best: Prediction, largest: Prediction, reached: Prediction
) -> str:
    limit = "any M" if largest.value is None and largest.log_value is None else f"M = {_number(largest)}"
    task = f"M = {plain(n)} memories at a ratio of {plain(ratio)}"
    if sharpness is None and limit == "any M":
        return f"{task} need a sharpness above {plain(_SHARPEST)}, where the ratio is still {_number(reached)}."
    if sharpness is None:
        lowest = f"the lowest ratio is {_number(reached)}, and the largest M served is {limit.removeprefix('M = ')}"
        return f"no sharpness serves {task}: {lowest}."
    if best.value is not None:
        serves = f"sharpness {plain(best.value)} is the best and serves up to {limit}"
    elif limit == "any M":
        serves = "sharper is always better for a clean query, so there is no largest M"
    else:
        serves = f"sharper is always better, up to {limit}"
    return f"{task} need a sharpness of at least {plain(sharpness)}; {serves}."


def _number(p: Prediction) -> str:
    if p.value is not None:
        return plain(p.value)
    return f"e^{p.log_value:.6g}"
