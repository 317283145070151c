"""The optimal linear store V^T pinv(K^T) x and least squares with a ridge: ratio and capacity, with random keys.

For M <= d recall of a stored key is exact. Above, the weight of memory i in the recall of key j is P_ij, P = K (K^T
K)^-1 K^T, a projection: interference^2 = P_jj - P_jj^2, so ratio^2 = (1 - P_jj)/P_jj = 1/(k_j^T S^-1 k_j), S the sum of
k k^T over the other keys. For Gaussian keys that is chi2(M-d)/chi2(d), P_jj ~ Beta(d/2, (M-d)/2), exactly. For unit
keys the denominator hardly varies: about (1 + 2/M) chi2(M-d)/d, the 2/M because keys whose other coordinates are
short have less leverage and more residual (docs/theory.md). The article's rule is sqrt(M/d - 1).
"""

from __future__ import annotations

import math
from dataclasses import replace

from assocmem.contract.estimate import Prediction, Statistic
from assocmem.contract.form import LeastSquares
from assocmem.theory.moments import log_gamma_ratio
from assocmem.theory.questions import (
    EPS,
    Asked,
    answer_capacity,
    answer_old_value_left,
    answer_ratio,
    checked,
    log_of,
    steady_statistic,
)
from assocmem.theory.roots import root

_REACH = 600.0  # ln(M - d) up to which the equation for M is solved, and its negative
_FEW = 0.05  # degrees of freedom below which a median is below 1e-12
_FAINT = 1e-60  # a query's cosine below which 1/ρ^2 - 1 is 1/ρ^2
_OUTER = 1e20  # M/d + lambda above which the eigenvalues differ by nothing that shows
_NOISY = "rms interference over mean signal"
_RMS_ALONE = "noisy queries and ridges have theory for the rms alone"
_NO_RECALL = "no recall: the mean signal is 0 at cosine 0"
_GRAM = "inverse of the Gram matrix of unit keys, E G^-1_ii = (d-2)/(d-M-1)"
_SOURCES = {
    "gaussian": "P_jj ~ Beta(d/2, (M-d)/2), exact for Gaussian keys",
    "sphere": "ratio about (1 + 1/M) sqrt(chi2(M-d)/d) for unit keys; measured error below 0.3 % from d = 16",
}


@answer_ratio.register
def _(form: LeastSquares, asked: Asked) -> Prediction:
    """0 for M <= d, then rising to meet the outer product's. Keys: "gaussian" (exact) or "sphere" (approximate)."""
    d, n, statistic, law, words = asked.d, asked.n, asked.statistic, asked.law, _words(asked)
    if law not in _SOURCES or statistic not in ("mean", "rms", "median"):
        return asked.none(f"there is no formula for the {statistic} of least squares of keys by the law {law!r}")
    if abs(asked.cosine) != 1 or form.ridge != 0:
        return _noisy_ratio(form.ridge, asked)
    if n <= d:
        source = "recall of stored keys is exact for M <= d (independent keys)"
        return asked.predict(-math.inf, regime=words, source=source)
    log = _log_ratio(d, n - d, law, statistic)
    if math.isinf(log):
        need = "d > 2" if statistic == "rms" else "d > 1"
        reason = f"the {statistic} over Gaussian keys is infinite at d = {d:g} (it needs {need})"
        return asked.none(reason, regime=words, source=_SOURCES[law])
    error = 1e-12 if statistic == "median" else 16 * EPS * (1 + abs(log))
    return asked.predict(log, regime=words, source=_SOURCES[law], exact=law == "gaussian" or d == 1, error=error)


@answer_capacity.register
def _(form: LeastSquares, asked: Asked) -> Prediction:
    """About d (1 + ratio^2); exactly 2d for the median of Gaussian keys at ratio 1, as P_jj and 1 - P_jj share one law.

    Solved for M - d in log space. With a noisy query (|cosine| below 1) over unit keys it is the first M, which lies
    below d - 1, of the one statistic that has a theory there: beyond the peak at M = d the ratio may be lower again.
    """
    if form.ridge:
        return asked.none("least squares with a ridge has a formula for its ratio, none for its capacity")
    d, law, statistic, target = asked.d, asked.law, asked.statistic, math.log(asked.wanted)
    if law not in _SOURCES or statistic not in ("mean", "rms", "median"):
        return asked.none(f"there is no formula for the {statistic} of least squares of keys by the law {law!r}")
    if abs(asked.cosine) != 1:
        return _noisy_capacity(asked)
    words, source = _words(asked), _SOURCES[law]
    if math.isinf(_log_ratio(d, 1.0, law, statistic)):
        reason = f"the {statistic} of the ratio is infinite for every M > d at d = {d:g}"
        return asked.none(reason, regime=words, source=source)
    guess = 2 * target + math.log(d)

    def above(y: float) -> float:
        return _log_ratio(d, math.exp(y), law, statistic) - target

    low, high = max(guess - 60, -_REACH), min(max(guess, math.log(d)) + 5, _REACH)
    if low >= high or above(high) < 0:  # far above d the ratio goes like the root of M, whatever the statistic
        log = _REACH + 2 * (target - _log_ratio(d, math.exp(_REACH), law, statistic))
    elif above(low) > 0:  # M is d to all digits
        log = math.log(d)
    else:
        log = math.log(d + math.exp(root(above, low, high)))
    return asked.predict(log, regime=words, source=source, exact=law == "gaussian" or d == 1, error=1e-11)


@answer_old_value_left.register
def _(form: LeastSquares, asked: Asked) -> Prediction:
    if form.ridge == 0 and asked.n <= asked.d:
        return asked.known(0.5, "least squares of independent keys takes the mean of equal keys' values")
    return asked.unknown(form)


@steady_statistic.register
def _(form: LeastSquares, cosine: float = 1.0) -> Statistic:
    return "median" if abs(cosine) == 1 else "rms"


def optimal_rule(d: int, n_memories: float) -> Prediction:
    """Return the article's rule sqrt(M/d - 1) for M > d, 0 for M <= d: the ratio at the mean weight P_jj = d/M.

    Low by about 1/M of the ratio in the root mean square over unit keys; above the mean and the median near M = d.

    Parameters
    ----------
    d : int
        Width of the keys.
    n_memories : float
        M >= 1.

    Returns
    -------
    Prediction
        Labelled as an approximation.

    Examples
    --------
    >>> optimal_rule(64, 128).value
    1.0
    """
    asked = Asked("ratio", *checked(d, n_memories))
    log = 0.5 * math.log(asked.n / asked.d - 1) if asked.n > asked.d else -math.inf
    return asked.predict(log, regime=_words(asked), source="sqrt(M/d - 1), from trace P = d", exact=False)


def _noisy_ratio(ridge: float, asked: Asked) -> Prediction:
    """Return the root of the mean square interference over the mean signal, of least squares with a ridge.

    With a ridge, ratio^2 = (1 - 1/M) (m - lambda m') (1 + (1/ρ^2 - 1) (1+m)^2) / m^2, m = tr (S + lambda)^-1 / d at its
    Marchenko-Pastur value, the positive root of lambda m^2 + (lambda + M/d - 1) m = 1, and m' = -dm/dlambda. Without,
    in leading order (M/d - 1) + (1/ρ^2 - 1) M^2/(d (M-d)) above M = d and (1/ρ^2 - 1) M/(d-M) below: a noisy query
    makes the ratio peak at M = d, and a ridge removes the peak.

    With a ridge the relative error is of order 1/d, measured as under 1.5 % at d = 64 and 8 % at d = 8. Without, it is
    exact below M = d - 1, (1/ρ^2 - 1) (M-1) (d-2) / ((d-M-1) (d-1)), and above d + 1 right to second order in 1/M,
    measured as within 0.3 % from d = 8 and M = d + 4 on. None at |M - d| <= 1 without a ridge, where the mean square
    is infinite. Single ratios scatter, as the signal itself does.
    """
    if asked.statistic != "rms":
        return asked.none(_RMS_ALONE)
    d, n, cosine = asked.d, asked.n, asked.cosine
    words = (
        f"independent uniform unit keys, d = {d:g} large, query cosine {cosine:g}, ridge {ridge:g}; M counts the target"
    )
    if cosine == 0:
        return asked.none(_NO_RECALL, statistic=_NOISY, regime=words)
    if abs(cosine) < _FAINT:  # from there on noise is all, and goes like 1/ρ
        found = _noisy_ratio(ridge, replace(asked, cosine=_FAINT))
        if found.log_value is None:
            return found
        log = found.log_value + math.log(_FAINT) - math.log(abs(cosine))
        return asked.predict(log, regime=words, source=found.source, statistic=_NOISY, exact=found.exact)
    noise = 1 / (cosine * cosine) - 1
    if ridge == 0 and noise > 0 and abs(n - d) <= 1 and n > 1:
        reason = "infinite: with a noisy query the mean square interference peaks at M = d; a ridge removes the peak"
        return asked.none(reason, statistic=_NOISY, regime=words)
    source, exact = "Marchenko-Pastur law of sum k k^T at load M/d", False
    if n / d + ridge > _OUTER:  # S + lambda is a multiple of the identity: the outer product
        log = 0.5 * (math.log(n / d) + math.log1p(-1 / n)) - math.log(abs(cosine)) if n > 1 else -math.inf
        return asked.predict(log, regime=words, source=source, statistic=_NOISY, exact=False)
    if ridge == 0 and n <= d:
        square = noise * (n - 1) * (d - 2) / ((d - n - 1) * (d - 1)) if noise and n > 1 else 0.0
        source, exact = _GRAM, True
    else:
        square = _square(n / d, ridge, noise) * (1 - 1 / n) if ridge else _above(d, n, noise)
    return asked.predict(0.5 * log_of(square), regime=words, source=source, statistic=_NOISY, exact=exact)


def _noisy_capacity(asked: Asked) -> Prediction:
    """Return the first M at which least squares without a ridge reaches the ratio with noisy queries: below d - 1.

    The ratio of `_noisy_ratio` solved for M: M = (d - 1 + a)/(1 + a), a = (1/ρ^2 - 1) (d-2) / ((d-1) ratio^2). Labelled
    approximate: the rms of single ratios, which a capacity is measured by, is larger, as the signal scatters.
    """
    d, size = asked.d, abs(asked.cosine)
    if asked.statistic != "rms":
        return asked.none(_RMS_ALONE)
    if asked.law != "sphere":
        reason = f"noisy queries have a formula for unit keys alone, none for the law {asked.law!r}"
        return asked.none(reason, regime=_words(asked))
    words = f"independent uniform unit keys, d = {d:g}, query cosine {asked.cosine:g}; M counts the target"
    if d <= 2 or size < _FAINT:
        reason = _NO_RECALL if d > 2 else "no formula for d <= 2 and noisy queries"
        return asked.none(reason, statistic=_NOISY, regime=words)
    log_a = math.log((1 - size) * (1 + size)) - 2 * (math.log(size) + math.log(asked.wanted))
    log_a += math.log((d - 2) / (d - 1))
    log = math.log1p((d - 2) * math.exp(-max(0.0, log_a)) / (1 + math.exp(-abs(log_a))))  # (d - 2)/(1 + a)
    return asked.predict(log, regime=words, source=_GRAM + ", solved for M", statistic=_NOISY, exact=False)


def _log_ratio(d: float, excess: float, law: str, statistic: str) -> float:
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


def _above(d: float, n: float, noise: float) -> float:
    """Return ratio^2 without a ridge for M > d + 1, from E tr S^-1 and v, the relative variance of P_jj, of mean d/M.

    In the mean over the noise ratio^2 = M/d - 1 - v + noise ((M/d)^2 (1-1/M) E tr S^-1 - M/d + 1 + v)/(d-1), exactly.
    """
    v = weight_scatter(d, n)
    trace = (n - 1) * n / ((n - d - 1) * (1 + 2 / n + (8 * d + 4) / ((d + 2) * n * n)))  # times (M/d)^2 (1 - 1/M)
    return n / d - 1 - v + noise * (trace - n / d + 1 + v) / (d - 1)


def weight_scatter(d: float, n: float) -> float:
    """Return the relative variance of a stored key's own weight P_jj, of mean d/M, among M > d unit keys: order 1/M."""
    return 2 * (d - 1) * (n - d) / ((d + 2) * n * n)


def _square(load: float, ridge: float, noise: float) -> float:
    """Return the asymptotic ratio^2 at M/d = `load`; `noise` is (1-ρ^2)/ρ^2."""
    b = ridge + load - 1
    root = math.sqrt(b * b + 4 * ridge)
    m = 2 / (b + root) if b >= 0 else (root - b) / (2 * ridge)
    left = m * (ridge * m + load - 1) if ridge > 1 else 1 - ridge * m  # one number, two forms without cancellation
    spread = left / root  # m - lambda m', as m' = m (1+m) / root and lambda m^2 + b m = 1
    return spread * (1 / (m * m) + noise * (1 + 1 / m) ** 2)


def _words(asked: Asked) -> str:
    keys = "uniform unit" if asked.law == "sphere" else "Gaussian"
    return f"independent {keys} keys, d = {asked.d:g}, query = the stored key; M counts the target"
