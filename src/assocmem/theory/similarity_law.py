"""The law of the similarity s of two independent uniform unit keys: density ∝ (1 - s^2)^((d-3)/2) on [-1, 1].

With s = sin θ the density is ∝ (cos θ)^(d-2) on [-π/2, π/2], smooth at both ends for every d >= 2 (uniform for
d = 2). For d = 1 the two unit keys give s = ±1, equally often.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

_STIRLING = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360, 1 / 156, -3617 / 122400)


def stirling_remainder(x: float) -> float:
    """Return ln Γ(x) - ((x - 1/2) ln x - x + ln(2π)/2) for x >= 10, to rounding (8 terms of Stirling's series)."""
    inverse, total = 1 / (x * x), 0.0
    for coefficient in reversed(_STIRLING):
        total = total * inverse + coefficient
    return total / x


def log_gamma_ratio(x: float, a: float) -> float:
    """Return ln Γ(x + a) - ln Γ(x) for x > 0, a >= 0, without the cancellation of two large logarithms.

    Accurate to a few roundings of the result at any size of x. Source: Stirling's series, DLMF 5.11.1.

    >>> log_gamma_ratio(4.0, 1.0) == math.log(4)
    True
    >>> abs(log_gamma_ratio(1e300, 0.5) - 0.5 * math.log(1e300)) < 1e-12
    True
    """
    if a == 0:
        return 0.0
    if a == 1:
        return math.log(x)
    if x < 10:
        return math.lgamma(x + a) - math.lgamma(x)
    growth = (x + a - 0.5) * math.log1p(a / x) - a
    return a * math.log(x) + growth + stirling_remainder(x + a) - stirling_remainder(x)


def log_density(theta: np.ndarray[Any, Any], d: float) -> np.ndarray[Any, Any]:
    """Return ln of the density c (cos θ)^(d-2) of θ = arcsin s; c = Γ(d/2) / (sqrt(π) Γ((d-1)/2)), d >= 2."""
    if d == 2:
        return np.full_like(theta, -math.log(math.pi))
    log_c = log_gamma_ratio((d - 1) / 2, 0.5) - 0.5 * math.log(math.pi)
    with np.errstate(divide="ignore"):
        return np.asarray(log_c + (d - 2) * np.log(np.cos(theta)))
