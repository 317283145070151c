"""The optimal linear store asked with a noisy query, or fitted with a ridge: theory for large d.

f(x) = V^T K (S + lambda I)^-1 x, S = K^T K. Two numbers of S suffice, m = tr (S + lambda)^-1 / d and m' = tr (S +
lambda)^-2 / d, which for unit keys tend to the Marchenko-Pastur values at load M/d. Without a ridge, below M = d - 1,
the interference is known exactly at any d.
"""

from __future__ import annotations

import math

from assocmem.contract.errors import InputError
from assocmem.contract.estimate import Prediction
from assocmem.theory.answer import none, predict
from assocmem.theory.domain import checked_cosine, checked_memories, checked_width

_STATISTIC = "rms interference over mean signal"
_FAINT = 1e-60  # a query's cosine below which 1/ρ^2 - 1 is 1/ρ^2
_OUTER = 1e20  # M/d + lambda above which the eigenvalues differ by nothing that shows


def ridge_ratio(d: float, n_memories: float, *, ridge: float = 0.0, cosine: float = 1.0) -> Prediction:
    """Return the root of the mean square interference over the mean signal, of least squares with a ridge.

    With a ridge, ratio^2 = (1 - 1/M) (m - lambda m') (1 + (1/ρ^2 - 1) (1+m)^2) / m^2, m the positive root of lambda
    m^2 + (lambda + M/d - 1) m = 1 and m' = -dm/dlambda. Without, in leading order (M/d - 1) + (1/ρ^2 - 1) M^2/(d (M-
    d)) above M = d and (1/ρ^2 - 1) M/(d-M) below: a noisy query makes the ratio peak at M = d, and a ridge removes
    the peak. Close to the peak their forms of finite M - d are used.

    Parameters
    ----------
    d, n_memories: width of unit keys and M. ridge: lambda >= 0, added to the eigenvalues of sum k k^T (mean M/d).
    cosine: ρ in [-1, 1], not 0.

    Asymptotic: the relative error is of order 1/d, measured as under 1.5 % at d = 64 and 8 % at d = 8. Without a
    ridge and below M = d - 1 it is exact: (1/ρ^2 - 1) (M-1) (d-2) / ((d-M-1) (d-1)). The value is None at |M - d| <=
    1 without a ridge, where the mean square is infinite. Single ratios scatter, as the signal itself does.

    >>> round(ridge_ratio(64, 32, cosine=0.8).value, 3), round(ridge_ratio(64, 64, ridge=1.0, cosine=0.8).value, 3)
    (0.744, 1.043)
    """
    width, n = checked_width(d), checked_memories(n_memories)
    cosine = checked_cosine(cosine, width)
    if not (math.isfinite(ridge) and ridge >= 0):
        raise InputError(f"`ridge` must be a finite number >= 0; got {ridge!r}.")
    words = (
        f"independent uniform unit keys, d = {d:g} large, query cosine {cosine:g}, ridge {ridge:g}; M counts the target"
    )
    if cosine == 0:
        return none("ratio", "no recall: the mean signal is 0 at cosine 0", statistic=_STATISTIC, regime=words)
    if abs(cosine) < _FAINT:
        found = ridge_ratio(d, n, ridge=ridge, cosine=_FAINT)  # from there on noise is all, and goes like 1/ρ
        if found.log_value is None:
            return found
        log = found.log_value + math.log(_FAINT) - math.log(abs(cosine))
        return predict("ratio", log, regime=words, source=found.source, statistic=_STATISTIC, exact=found.exact)
    noise = 1 / (cosine * cosine) - 1
    if ridge == 0 and noise > 0 and abs(n - width) <= 1 and n > 1:
        reason = "infinite: with a noisy query the mean square interference peaks at M = d; a ridge removes the peak"
        return none("ratio", reason, statistic=_STATISTIC, regime=words)
    source, exact = "Marchenko-Pastur law of sum k k^T at load M/d", False
    if n / width + ridge > _OUTER:  # S + lambda is a multiple of the identity: the outer product
        log = 0.5 * (math.log(n / width) + math.log1p(-1 / n)) - math.log(abs(cosine)) if n > 1 else -math.inf
        return predict("ratio", log, regime=words, source=source, statistic=_STATISTIC, exact=False)
    if ridge == 0 and n <= width:
        square = noise * (n - 1) * (width - 2) / ((width - n - 1) * (width - 1)) if noise and n > 1 else 0.0
        source = "inverse of the Gram matrix of unit keys, E G^-1_ii = (d-2)/(d-M-1)"
        exact = True
    else:
        square = _square(n / width, ridge, noise) * (1 - 1 / n) if ridge else _above(width, n, noise)
    log = 0.5 * math.log(square) if square > 0 else -math.inf
    return predict("ratio", log, regime=words, source=source, statistic=_STATISTIC, exact=exact)


def noisy_capacity(d: float, ratio: float, cosine: float) -> Prediction:
    """Return the first M at which least squares without a ridge reaches `ratio` with noisy queries: below d - 1.

    Parameters: d, width of unit keys; ratio > 0; cosine in (-1, 1). The ratio of `ridge_ratio`, rms interference over
    mean signal, solved for M: M = (d - 1 + a)/(1 + a), a = (1/ρ^2 - 1) (d-2) / ((d-1) ratio^2). Labelled approximate:
    the rms of single ratios, which a capacity is measured by, is larger, as the signal scatters.
    """
    words = f"independent uniform unit keys, d = {d:g}, query cosine {cosine:g}; M counts the target"
    if d <= 2 or abs(cosine) < _FAINT:
        reason = "no recall: the mean signal is 0 at cosine 0" if d > 2 else "no formula for d <= 2 and noisy queries"
        return none("capacity", reason, statistic=_STATISTIC, regime=words)
    size = abs(cosine)
    log_a = math.log((1 - size) * (1 + size)) - 2 * (math.log(size) + math.log(ratio)) + math.log((d - 2) / (d - 1))
    log = math.log1p((d - 2) * math.exp(-max(0.0, log_a)) / (1 + math.exp(-abs(log_a))))  # (d - 2)/(1 + a)
    source = "inverse of the Gram matrix of unit keys, E G^-1_ii = (d-2)/(d-M-1), solved for M"
    return predict("capacity", log, regime=words, source=source, statistic=_STATISTIC, exact=False)


def _above(d: float, n: float, noise: float) -> float:
    """Return ratio^2 without a ridge for M > d; each unit key is by 2/M of ratio^2 better off than a Gaussian one.

    The noise term is E u^T S^-1 u, of inverse Wishart form, less the share of it that falls on the target itself.
    """
    clean = (n / d - 1) * (1 + 1 / n) ** 2
    if not noise:
        return clean
    return clean + noise * n * (n / (d * (n - d - 1) * (1 + 2 / n)) - 1 / (d * (n - d)))


def _square(load: float, ridge: float, noise: float) -> float:
    """Return the asymptotic ratio^2 at M/d = `load`; `noise` is (1-ρ^2)/ρ^2."""
    b = ridge + load - 1
    root = math.sqrt(b * b + 4 * ridge)
    m = 2 / (b + root) if b >= 0 else (root - b) / (2 * ridge)
    left = m * (ridge * m + load - 1) if ridge > 1 else 1 - ridge * m  # one number, two forms without cancellation
    spread = left / root  # m - lambda m', as m' = m (1+m) / root and lambda m^2 + b m = 1
    return spread * (1 / (m * m) + noise * (1 + 1 / m) ** 2)
