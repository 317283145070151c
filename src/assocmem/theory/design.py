"""The design rule: how sharp attention must be for M memories, how sharp it can usefully be, and what that serves.

Assumed of the keys: independent and uniform on the unit sphere.

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
from assocmem.theory.moments import log_ratio, mean_cosine
from assocmem.theory.questions import EPS, Asked, checked, log_others, plain
from assocmem.theory.roots import root

_SHARPEST = 1e150
_NEAR = 1e-4
"""Distance of a cosine from 1 below which the best sharpness comes from a series."""


@dataclass(frozen=True)
class Design:
    """What softmax attention needs to serve M memories at a ratio, and whether it can.

    Parameters
    ----------
    d, n_memories, ratio, cosine
        As for `design`: what was asked.
    feasible : bool
        Whether there is a sharpness that suffices.
    sharpness : float or None
        The smallest beta on unit keys that suffices, None where none does.
    logit_scale : float or None
        beta/d, the factor on q.k for queries and keys of length sqrt(d); the usual 1/sqrt(d) is beta = sqrt(d).
    reached : Prediction
        The ratio at `sharpness`, or at the best sharpness where the wanted ratio is out of reach.
    best_sharpness : Prediction
        The beta of the lowest ratio; value None where the ratio keeps falling.
    largest : Prediction
        The largest M served at the wanted ratio, at the best sharpness; value None where there is no limit.
    sentence : str
        The answer in words.
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

    Parameters
    ----------
    feasible : bool or None
        None where theory has no answer.
    reached, largest : Prediction
        The ratio at M, and the largest M.
    sentence : str
        Which and why.
    """

    feasible: bool | None
    reached: Prediction
    largest: Prediction
    sentence: str


def design(d: int, n_memories: float, ratio: float, cosine: float = 1.0) -> Design:
    """Return the smallest softmax sharpness that keeps M memories at an rms ratio of at most `ratio`.

    The keys are assumed independent and uniform on the unit sphere. Keys with a mean or a decaying spectrum need far
    more: `assocmem.design(keys=...)` answers for given ones.

    Parameters
    ----------
    d : int
        Width of the keys, 1 or >= 2.
    n_memories : float
        M >= 1, counting the target.
    ratio : float
        Wanted interference-to-signal ratio, > 0.
    cosine : float
        ρ between query and stored key, in [-1, 1].

    Returns
    -------
    Design
        Not feasible where even the best sharpness leaves a larger ratio (or one above 1e150 would be needed).

    Raises
    ------
    InputError
        For numbers out of range.

    Examples
    --------
    >>> plan = design(64, 1272264, 1.0)
    >>> round(plan.sharpness, 5), round(plan.logit_scale * 64, 5)
    (8.0, 8.0)
    >>> design(64, 2e6, 1.0, cosine=0.6).feasible
    False
    """
    asked = Asked("largest M", *checked(d, n_memories, cosine, ratio))
    width, n, cosine, wanted = asked.d, asked.n, asked.cosine, asked.wanted
    best = best_sharpness(d, cosine)
    top = _SHARPEST if best.value is None else best.value
    sharpness = _smallest(lambda b: log_ratio(Exp(b), width, log_others(n), cosine) - math.log(wanted), top)
    largest = _largest(asked, best.value)
    reached = questions.ratio(Exp(top if sharpness is None else sharpness), width, n, cosine=cosine)
    scale, words = None if sharpness is None else sharpness / width, _sentence(asked, sharpness, best, largest, reached)
    return Design(d, n, wanted, cosine, sharpness is not None, sharpness, scale, reached, best, largest, words)


def best_sharpness(d: int, cosine: float = 1.0) -> Prediction:
    """Return the sharpness with the lowest rms ratio for queries at cosine ρ, whatever M is.

    Parameters
    ----------
    d : int
        Width of the keys, 1 or >= 2.
    cosine : float
        ρ in [-1, 1].

    Returns
    -------
    Prediction
        0 for ρ <= 0; at ρ = 1 the value is None with a reason. Its `error` grows with d and near 1.

    Notes
    -----
    The root b of I_{d/2}(2b)/I_{d/2-1}(2b) = ρ: about ρ d / (2 (1 - ρ^2)) for large d.

    Examples
    --------
    >>> round(best_sharpness(64, 0.6).value, 3)
    29.753
    """
    asked = Asked("best sharpness", *checked(d, 1.0, cosine))
    width, cosine, gap, source = asked.d, asked.cosine, 1 - asked.cosine, "root b of I_{d/2}(2b)/I_{d/2-1}(2b) = ρ"
    error = 0.0
    if cosine == 1:
        reason = "no finite one at cosine 1: the ratio falls with every increase of sharpness"
        return asked.none(reason, regime=asked.regime, source=source)
    if cosine <= 0:
        log = -math.inf
    elif cosine < 1e-9:  # the left side is 2 b/d there
        log = math.log(cosine) + math.log(width / 2)
    elif gap < _NEAR and width > 1:  # there 1 - I/I = (d-1)/(2 κ) - (d-1)(d-3)/(8 κ²) + ..., κ = 2 b
        log = math.log((width - 1) / (4 * gap)) + math.log1p(-(width - 3) * gap / (2 * (width - 1)))
        error = gap * gap + 4 * EPS
    else:
        high = width * cosine / (1 - cosine * cosine) + width
        log = math.log(root(lambda b: mean_cosine(2 * b, width) - cosine, 0.0, high))
        # The mean cosine is a difference of logarithms of size d, right to some d eps; its slope in ln b is near the
        # gap.
        error = 64 * EPS * (1 + 1 / gap) * (1 + width / 4)
    return asked.predict(log, source=source, error=error)


def requirement(form: Form | None, d: int, n_memories: float, ratio: float, cosine: float = 1.0) -> Requirement:
    """Return whether a store of this form keeps M memories at an rms ratio of at most `ratio`.

    Parameters
    ----------
    form : Form, Activation or None
        A store's form, or an activation in its place.
    d, n_memories, ratio, cosine
        As for `design`.

    Returns
    -------
    Requirement
        The answer, with the ratio reached and the largest M.

    Examples
    --------
    >>> from assocmem.maps.activations import ReLU
    >>> requirement(ReLU(2), 64, 2000, 1.0).feasible, requirement(ReLU(2), 64, 3000, 1.0).feasible
    (True, False)
    """
    wanted = math.log(checked(d, ratio=ratio)[3])
    reached = questions.ratio(form, d, n_memories, cosine=cosine)
    largest = questions.capacity(form, d, ratio=ratio, cosine=cosine)
    if isinstance(form, LeastSquares) and abs(cosine) != 1:
        reason = "with a noisy query the ratio peaks at M = d, so there is no one largest M"
        largest = Asked("capacity", d).none(reason, statistic=reached.statistic)
    if reached.value is None and reached.log_value is None:
        if not reached.reason.startswith(("infinite", "no recall")):
            return Requirement(None, reached, largest, reached.reason)
        return Requirement(False, reached, largest, f"no: {reached.reason}.")
    log = -math.inf if reached.log_value is None else reached.log_value
    feasible = log <= wanted + 1e-12
    sentence = f"{'yes' if feasible else 'no'}: the {reached.statistic} ratio is {_number(reached)}"
    if largest.value is not None or largest.log_value is not None:
        sentence += f"; it serves up to M = {_number(largest)} at a ratio of {plain(ratio)}"
    return Requirement(feasible, reached, largest, sentence + ".")


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


def _largest(asked: Asked, best: float | None) -> Prediction:
    if best is None and asked.d > 1:
        return asked.none(
            "no limit: with a query equal to its key a larger sharpness serves any M", regime=asked.regime
        )
    sigma = Exp(math.inf if best is None else best)
    return replace(questions.capacity(sigma, asked.d, ratio=asked.wanted, cosine=asked.cosine), quantity=asked.quantity)


def _sentence(asked: Asked, sharpness: float | None, best: Prediction, largest: Prediction, reached: Prediction) -> str:
    limit = "any M" if largest.value is None and largest.log_value is None else f"M = {_number(largest)}"
    task = f"M = {plain(asked.n)} memories at a ratio of {plain(asked.wanted)}"
    given = "With keys uniform on the sphere"
    if sharpness is None and limit == "any M":
        return f"{given} {task} need a sharpness above {plain(_SHARPEST)}, where the ratio is still {_number(reached)}."
    if sharpness is None:
        lowest = f"the lowest ratio is {_number(reached)}, and the largest M served is {limit.removeprefix('M = ')}"
        return f"{given} no sharpness serves {task}: {lowest}."
    if best.value is not None:
        serves = f"sharpness {plain(best.value)} is the best and serves up to {limit}"
    elif limit == "any M":
        serves = "sharper is always better for a clean query, so there is no largest M"
    else:
        serves = f"sharper is always better, up to {limit}"
    return f"{given} {task} need a sharpness of at least {plain(sharpness)}; {serves}."


def _number(p: Prediction) -> str:
    if p.value is not None:
        return plain(p.value)
    return f"e^{p.log_value:.6g}"
