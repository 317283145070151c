"""The optimal linear store V^T pinv(K^T) x: ratio and capacity, with random keys.

For M <= d recall of a stored key is exact. Above, the weight of memory i in the recall of key j is P_ij, P = K (K^T
K)^-1 K^T, a projection: interference^2 = P_jj - P_jj^2, so ratio^2 = (1 - P_jj)/P_jj = 1/(k_j^T S^-1 k_j), S the sum of
k k^T over the other keys. For Gaussian keys that is chi2(M-d)/chi2(d), P_jj ~ Beta(d/2, (M-d)/2), exactly. For unit
keys the denominator hardly varies: about (1 + 2/M) chi2(M-d)/d, the 2/M because keys whose other coordinates are
short have less leverage and more residual (docs/theory.md). The article's rule is sqrt(M/d - 1).
"""

from __future__ import annotations

import math
from typing import Any

from assocmem.contract.errors import InputError
from assocmem.contract.estimate import Prediction, Statistic
from assocmem.contract.form import LeastSquares
from assocmem.theory.answer import known, none, predict
from assocmem.theory.domain import EPS, checked_cosine, checked_memories, checked_ratio, checked_width
from assocmem.theory.law import log_gamma_ratio
from assocmem.theory.questions import LARGEST, LEFT, capacity, old_value_left, ratio, steady_statistic
from assocmem.theory.ridge import noisy_capacity, ridge_ratio
from assocmem.theory.roots import root

_REACH = 600.0  # ln(M - d) up to which the equation for M is solved, and its negative
_FEW = 0.05  # degrees of freedom below which a median is below 1e-12
_RMS_ALONE = "noisy queries and ridges have theory for the rms alone"

_SOURCES = {
    "gaussian": "P_jj ~ Beta(d/2, (M-d)/2), exact for Gaussian keys",
    "sphere": "ratio about (1 + 1/M) sqrt(chi2(M-d)/d) for unit keys; measured error below 0.3 % from d = 16",
}


@ratio.register
def _(
    form: LeastSquares,
    d: float,
    n_memories: float,
    *,
    cosine: float = 1.0,
    statistic: Statistic = "rms",
    law: str = "sphere",
    **settings: Any,
) -> Prediction:
    """0 for M <= d, then rising to meet the outer product's. Keys: "gaussian" (exact) or "sphere" (approximate).

    With a noisy query or a ridge only the rms has a theory, see `ridge_ratio`, to which such questions go.
    """
    width, n = checked_width(d), checked_memories(n_memories)
    cosine = checked_cosine(cosine, width)
    if law not in _SOURCES:
        return none("ratio", f"there is no formula for least squares of keys by the law {law!r}", statistic=statistic)
    _require_statistic(statistic)
    if cosine != 1 or form.ridge != 0:
        if statistic != "rms":
            return none("ratio", _RMS_ALONE, statistic=statistic)
        return ridge_ratio(d, n, ridge=form.ridge, cosine=cosine)
    words = _words(law, width)
    if n <= width:
        reason = "recall of stored keys is exact for M <= d (independent keys)"
        return predict("ratio", -math.inf, regime=words, source=reason, statistic=statistic)
    log = _log_ratio(width, n - width, law, statistic)
    if math.isinf(log):
        need = "d > 2" if statistic == "rms" else "d > 1"
        reason = f"the {statistic} over Gaussian keys is infinite at d = {d:g} (it needs {need})"
        return none("ratio", reason, statistic=statistic, regime=words, source=_SOURCES[law])
    exact = law == "gaussian" or width == 1
    error = 1e-12 if statistic == "median" else 16 * EPS * (1 + abs(log))
    return predict("ratio", log, regime=words, source=_SOURCES[law], statistic=statistic, exact=exact, error=error)


def optimal_rule(d: int, n_memories: float) -> Prediction:
    """Return the article's rule sqrt(M/d - 1) for M > d, 0 for M <= d: the ratio at the mean weight P_jj = d/M.

    Low by about 1/M of the ratio in the root mean square over unit keys; above the mean and the median near M = d.

    >>> optimal_rule(64, 128).value
    1.0
    """
    width, n = checked_width(d), checked_memories(n_memories)
    log = 0.5 * math.log(n / width - 1) if n > width else -math.inf
    return predict("ratio", log, regime=_words("sphere", width), source="sqrt(M/d - 1), from trace P = d", exact=False)


@capacity.register
def _(
    form: LeastSquares,
    d: float,
    *,
    ratio: float = 1.0,
    cosine: float = 1.0,
    statistic: Statistic = "rms",
    law: str = "sphere",
    largest: float = LARGEST,
) -> Prediction:
    """About d (1 + ratio^2); exactly 2d for the median of Gaussian keys at ratio 1, as P_jj and 1 - P_jj share one law.

    Solved for M - d in log space. With a noisy query (|cosine| below 1) over unit keys it is the first M, which lies
    below d - 1, of the one statistic that has a theory there, see `noisy_capacity`: beyond the peak at M = d the
    ratio may be lower again.
    """
    width, wanted = checked_width(d), checked_ratio(ratio)
    cosine = checked_cosine(cosine, width)
    _require_statistic(statistic)
    if form.ridge:
        return none("capacity", "least squares with a ridge has a formula for its ratio, none for its capacity")
    if law not in _SOURCES:
        reason = f"there is no formula for least squares of keys by the law {law!r}"
        return none("capacity", reason, statistic=statistic)
    if abs(cosine) != 1 and statistic != "rms":
        return none("capacity", _RMS_ALONE, statistic=statistic)
    if abs(cosine) != 1:
        if law != "sphere":
            reason = f"noisy queries have a formula for unit keys alone, none for the law {law!r}"
            return none("capacity", reason, statistic=statistic, regime=_words(law, width))
        return noisy_capacity(width, wanted, cosine)
    words, target = _words(law, width), math.log(wanted)
    if math.isinf(_log_ratio(width, 1.0, law, statistic)):
        reason = f"the {statistic} of the ratio is infinite for every M > d at d = {d:g}"
        return none("capacity", reason, statistic=statistic, regime=words, source=_SOURCES[law])
    guess = 2 * target + math.log(width)

    def above(y: float) -> float:
        return _log_ratio(width, math.exp(y), law, statistic) - target

    low, high = max(guess - 60, -_REACH), min(max(guess, math.log(width)) + 5, _REACH)
    if low >= high or above(high) < 0:  # far above d the ratio goes like the root of M, whatever the statistic
        log = _REACH + 2 * (target - _log_ratio(width, math.exp(_REACH), law, statistic))
    elif above(low) > 0:  # M is d to all digits
        log = math.log(width)
    else:
        log = math.log(width + math.exp(root(above, low, high)))
    exact = law == "gaussian" or width == 1
    return predict("capacity", log, regime=words, source=_SOURCES[law], statistic=statistic, exact=exact, error=1e-11)


def _log_ratio(d: float, excess: float, law: str, statistic: Statistic) -> float:
    """Return ln of the statistic of sqrt((1-P)/P) for M - d = `excess` > 0; inf where it does not exist."""
    if law == "sphere":
        if d == 1:
            return 0.5 * math.log(excess)
        correction = math.log1p(1 / (d + excess)) - 0.5 * math.log(d)
        if statistic == "rms":
            return correction + 0.5 * math.log(excess)
        if statistic == "mean":
            return correction + 0.5 * math.log(2) + log_gamma_ratio(excess / 2, 0.5)
        return correction + 0.5 * _log_chi2_median(excess)
    if statistic == "rms":
        return 0.5 * math.log(excess / (d - 2)) if d > 2 else math.inf
    if statistic == "mean":
        return log_gamma_ratio(excess / 2, 0.5) - log_gamma_ratio(d / 2 - 0.5, 0.5) if d > 1 else math.inf
    return _log_beta_median(d / 2, excess / 2)


def _log_chi2_median(k: float) -> float:
    """Return ln of the median of chi-square with k degrees of freedom, by Wilson and Hilferty where k is large.

    For small k the median is so near 0 that the law is its leading power there.
    """
    from scipy.special import gammaincinv

    if k < _FEW:
        return math.log(2) + (math.lgamma(1 + k / 2) - math.log(2)) * (2 / k)
    return math.log(2 * gammaincinv(k / 2, 0.5)) if k < 1e8 else math.log(k) + 3 * math.log1p(-2 / (9 * k))


def _log_beta_median(a: float, b: float) -> float:
    """Return ln sqrt((1-m)/m), m the median of Beta(a, b).

    For b above 1e9 the beta is a gamma law in N = b + (a-1)/2 up to terms of order (a/b)^2: -ln(1-m) = median/N.
    """
    from scipy.special import betaincinv, gammaincinv

    if b < _FEW / 2:
        return 0.5 * (math.lgamma(1 + b) - math.log(2) - log_gamma_ratio(a, b)) / b
    if b < 1e9:
        return 0.5 * math.log(betaincinv(b, a, 0.5) / betaincinv(a, b, 0.5))
    tilt = float(gammaincinv(a, 0.5)) / (b + (a - 1) / 2)
    return -0.5 * math.log(math.expm1(tilt))


@old_value_left.register
def _(form: LeastSquares, d: int, n_memories: int, rewritten: int) -> Prediction:
    if form.ridge == 0 and n_memories <= d:
        return known(LEFT, 0.5, "least squares of independent keys takes the mean of equal keys' values")
    return old_value_left.dispatch(object)(form, d, n_memories, rewritten)


@steady_statistic.register
def _(form: LeastSquares, cosine: float = 1.0) -> Statistic:
    return "median" if cosine == 1 else "rms"


def _require_statistic(statistic: str) -> None:
    if statistic not in ("mean", "rms", "median"):
        raise InputError(f"`statistic` must be 'mean', 'rms' or 'median'; got {statistic!r}.")


def _words(law: str, d: float) -> str:
    keys = "uniform unit" if law == "sphere" else "Gaussian"
    return f"independent {keys} keys, d = {d:g}, query = the stored key; M counts the target"
