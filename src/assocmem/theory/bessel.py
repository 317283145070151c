"""E e^(t s) over the law of similarities: Γ(d/2) (2/t)^(d/2-1) I_{d/2-1}(t), in log space at any d and t.

Two forms meet at R = sqrt(ν^2 + t^2) = 40, ν = d/2 - 1: below, the power series of the Bessel function (all terms
positive, no cancellation); above, Debye's uniform expansion, which in the variable 1/R holds for every ν >= 0, also
for t far above or below ν. The first term left out is below 3e-17.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache

from assocmem.theory.answer import EPS
from assocmem.theory.similarity_law import stirling_remainder

_SWITCH = 40.0
_TERMS = 12


def log_mean_exp(t: float, d: float) -> float:
    """Return ln E e^(t (s - 1)) for t >= 0 (the factor e^-t keeps it small and exact at large t).

    Parameters: t, any finite number >= 0; d, 1 or any number >= 2. Absolute error about EPS (|value| + t for t < R).
    Source: the integral form of I_ν, DLMF 10.32.2; series 10.25.2; uniform expansion 10.41.3.

    >>> round(log_mean_exp(1.0, 3) + 1.0, 12) == round(math.log(math.sinh(1.0)), 12)
    True
    """
    if d == 1:
        return math.log1p(math.exp(-2 * t)) - math.log(2)
    nu = d / 2 - 1
    radius = math.hypot(nu, t)
    return _series(t, nu) if radius < _SWITCH else _debye(t, nu, radius)


def log_mean_exp_error(t: float, value: float) -> float:
    """Return a bound on the absolute error of `log_mean_exp`'s `value` at `t`."""
    return 16 * EPS * (1 + abs(value) + (t if t < _SWITCH else 0))


def mean_cosine(t: float, d: float) -> float:
    """Return I_{d/2}(t) / I_{d/2-1}(t), the mean of s under the law tilted by e^(t s): it rises from 0 to 1 with t.

    It is the derivative of ln E e^(t s), computed as (t/d) E_{d+2} e^(t s) / E_d e^(t s).
    """
    if d == 1:
        return math.tanh(t)
    if t == 0:
        return 0.0
    return min(1.0, math.exp(math.log(t) - math.log(d) + log_mean_exp(t, d + 2) - log_mean_exp(t, d)))


def _series(t: float, nu: float) -> float:
    """ln of sum_k (t^2/4)^k / (k! (ν+1)_k), minus t."""
    quarter, term, total, k = t * t / 4, 1.0, 1.0, 0
    while term > EPS / 8 * total:
        k += 1
        term *= quarter / (k * (nu + k))
        total += term
    return math.log(total) - t


def _debye(t: float, nu: float, radius: float) -> float:
    """Debye's expansion with R = sqrt(ν^2 + t^2), arranged so that no two large terms cancel."""
    tail = math.log(_debye_sum(nu / radius, radius))
    beyond = nu * (nu / (radius + t))  # R - t
    if nu < 10:
        return (
            math.lgamma(nu + 1)
            - nu * math.log((nu + radius) / 2)
            + beyond
            - 0.5 * math.log(2 * math.pi * radius)
            + tail
        )
    excess = t * (t / (radius + nu))  # R - ν
    main = excess - t if t < nu else beyond - nu
    return main - nu * math.log1p(excess / (2 * nu)) + 0.5 * math.log(nu / radius) + stirling_remainder(nu) + tail


def _debye_sum(p: float, radius: float) -> float:
    """Return sum_k v_k(p^2) / R^k, where u_k(p) = p^k v_k(p^2) are Debye's polynomials and p = ν/R."""
    square, total = p * p, 0.0
    for coefficients in reversed(_debye_polynomials()):
        value = 0.0
        for c in reversed(coefficients):
            value = value * square + c
        total = total / radius + value
    return total


@lru_cache(maxsize=1)
def _debye_polynomials() -> tuple[tuple[float, ...], ...]:
    """Return v_0..v_12 by the recurrence DLMF 10.41.9, in exact fractions.

    u_{k+1}(p) = p^2 (1-p^2) u_k'(p) / 2 + (1/8) ∫_0^p (1 - 5 q^2) u_k(q) dq; with u_k = sum_j c_j p^(k+2j).
    """
    rows = [[Fraction(1)]]
    for k in range(_TERMS):
        following = [Fraction(0)] * (k + 2)
        for j, c in enumerate(rows[-1]):
            power = k + 2 * j
            following[j] += c * power / 2 + c / (8 * (power + 1))
            following[j + 1] -= c * power / 2 + 5 * c / (8 * (power + 3))
        rows.append(following)
    return tuple(tuple(float(c) for c in row) for row in rows)
