"""ln E σ(s)^2 and ln |σ(ρ)|: a closed form for each activation that has one, quadrature for all others.

This is all that a store's activation contributes to its ratio. To give another activation a closed form, register
it with `log_mean_square`; to leave it to quadrature, do nothing.

The similarity s of two independent uniform unit keys has the density ∝ (1 - s^2)^((d-3)/2) on [-1, 1]. With s = sin θ
the density is ∝ (cos θ)^(d-2) on [-π/2, π/2], smooth at both ends for every d >= 2 (uniform for d = 2). For d = 1 the
two unit keys give s = ±1, equally often.

E e^(t s) over it is Γ(d/2) (2/t)^(d/2-1) I_{d/2-1}(t), in log space at any d and t. Two forms meet at
R = sqrt(ν^2 + t^2) = 40, ν = d/2 - 1: below, the power series of the Bessel function (all terms positive, no
cancellation); above, Debye's uniform expansion, which in the variable 1/R holds for every ν >= 0, also for t far above
or below ν. The first term left out is below 3e-17.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache, singledispatch
from typing import Any

import numpy as np

from assocmem.maps.activations import GELU, Activation, Exp, ExpSeries, Linear, ReLU, SwiGLU, Swish
from assocmem.theory import quadrature
from assocmem.theory.quadrature import Floats, LogValue, log_abs
from assocmem.theory.questions import EPS


@dataclass(frozen=True)
class Sphere:
    """The law of the similarity of two independent uniform unit keys of width d, 1 or >= 2."""

    d: float

    def log_abs_moment(self, q: float) -> float:
        """Return ln E |s|^q, q > 0: |s|^2 is Beta(1/2, (d-1)/2), E |s|^q = B((q+1)/2, (d-1)/2) / B(1/2, (d-1)/2)."""
        return log_gamma_ratio(0.5, q / 2) - log_gamma_ratio(self.d / 2, q / 2)

    def log_widths(self, k: Floats) -> Floats:
        """Return ln of (2k-1) E s^(2k-2) / E s^(2k), k >= 1."""
        return np.asarray(np.log(self.d + 2 * k - 2))

    def log_mean_exp(self, t: float) -> LogValue:
        """Return ln E e^(t (s - 1))."""
        log = log_mean_exp(t, self.d)
        method = "E e^(ts) = Γ(d/2) (2/t)^(d/2-1) I_{d/2-1}(t), t = 2 beta"
        return LogValue(log, log_mean_exp_error(t, log), method)

    def integral(self, sigma: Activation) -> LogValue:
        """Return ln E σ(s)^2 by quadrature in θ = arcsin s; InputError where σ is not finite on [-1, 1].

        The panels start at multiples of 1/sqrt(d) and at σ's break points, so that a kink costs nothing where it is
        stated and some bisection where it is not. Cost: some thousand evaluations of σ.
        """
        if self.d == 1:
            return quadrature.log_mean_of_two(sigma, -1.0, 1.0)
        edges = quadrature.edges_on_sphere(self.d, sigma.breaks)
        return quadrature.log_integral_of_square(sigma, lambda theta: log_density(theta, self.d), np.sin, edges)


@dataclass(frozen=True)
class Normal:
    """s ~ N(0, 1/d), the large-d limit of `Sphere`, with the same methods."""

    d: float

    def log_abs_moment(self, q: float) -> float:
        """Return ln E |s|^q."""
        return q / 2 * math.log(2 / self.d) + log_gamma_ratio(0.5, q / 2)

    def log_widths(self, k: Floats) -> Floats:
        """Return ln d, k times over."""
        return np.full(k.shape, math.log(self.d))

    def log_mean_exp(self, t: float) -> LogValue:
        """Return ln E e^(t (s - 1))."""
        return LogValue(t * (t / (2 * self.d) - 1), 0.0, "E e^(ts) = e^(t^2/2d)")

    def integral(self, sigma: Activation) -> LogValue:
        """Return ln E σ(s)^2 by quadrature, NaN for a function that need not be defined beyond [-1, 1]."""
        if not isinstance(sigma, GELU | Swish | SwiGLU | ReLU):
            return LogValue(math.nan, math.inf, "none")
        d, scale = self.d, 1 / math.sqrt(self.d)
        marks = np.concatenate([scale * np.arange(-40.0, 41.0), [b for b in sigma.breaks if abs(b) < 40 * scale]])
        return quadrature.log_integral_of_square(
            sigma, lambda s: 0.5 * math.log(d / (2 * math.pi)) - 0.5 * d * s * s, lambda s: s, np.unique(marks)
        )


@singledispatch
def log_mean_square(sigma: Activation, law: Sphere | Normal) -> LogValue:
    """Return ln E σ(s)^2, s by the law."""
    return law.integral(sigma)


@log_mean_square.register
def _(sigma: Linear, law: Sphere | Normal) -> LogValue:
    return LogValue(-math.log(law.d), 0.0, "E s^2 = 1/d")


@log_mean_square.register(GELU)
@log_mean_square.register(Swish)
@log_mean_square.register(SwiGLU)
@lru_cache(maxsize=1024)
def _by_quadrature(sigma: Activation, law: Sphere | Normal) -> LogValue:
    """Quadrature, remembered: a curve over M asks for one and the same moment at every point."""
    return law.integral(sigma)


@log_mean_square.register
def _(sigma: ReLU, law: Sphere | Normal) -> LogValue:
    """A half of E |s|^(2p), as half the terms vanish; with a bias, quadrature split there."""
    if sigma.bias != 0:
        return _by_quadrature(sigma, law)
    log = law.log_abs_moment(2 * sigma.power) - math.log(2)
    return LogValue(log, 8 * EPS * (1 + abs(log)), "E max(0, s)^(2p) = Γ(p+1/2) Γ(d/2) / (2 sqrt(π) Γ(p+d/2))")


@log_mean_square.register
def _(sigma: Exp, law: Sphere | Normal) -> LogValue:
    """E e^(2 beta (s-1)); at infinite beta only s = 1 is left, which has probability 1/2 for d = 1 and else 0."""
    if math.isinf(sigma.beta):
        return LogValue(-math.log(2) if law == Sphere(1) else -math.inf, 0.0, "P(s = 1)")
    return law.log_mean_exp(2 * sigma.beta)


@log_mean_square.register
def _(sigma: ExpSeries, law: Sphere | Normal) -> LogValue:
    """Sum over k of c_2k beta^(2k) E s^(2k): odd moments vanish, and every term is positive.

    c_2k = sum over i + j = 2k, i, j < n, of 1/(i! j!) = 4^k/(2k)! times the probability that 2k fair coins show
    between 2k - n + 1 and n - 1 heads.
    """
    from scipy.special import betainc

    method = "polynomial in the moments E s^(2k) = prod_{j<k} (2j+1)/(d+2j)"
    n, beta = sigma.terms, sigma.beta
    if n == 1 or beta == 0:
        return LogValue(0.0, 0.0, method)
    k = np.arange(0, n)
    partial = np.ones(n)
    cut = 2 * k >= n
    partial[cut] = 1 - 2 * betainc(n, 2 * k[cut] - n + 1, 0.5)
    factor = 2 * np.log(2 * beta) - np.log(2.0 * k[1:]) - law.log_widths(k[1:])
    logs = np.concatenate([[0.0], np.cumsum(factor)]) + np.log(partial)
    log = quadrature.log_sum(logs)
    return LogValue(log, 8 * EPS * (n + abs(log)), method)


@singledispatch
def log_signal(sigma: Activation, cosine: float) -> LogValue:
    """Return ln |σ(ρ)| for a query at cosine ρ to its key; -inf where σ(ρ) = 0."""
    return LogValue(float(log_abs(sigma, np.array([cosine]))[0]), 8 * EPS, "σ(ρ)")


@log_signal.register
def _(sigma: Exp, cosine: float) -> LogValue:
    log = 0.0 if cosine == 1 else sigma.beta * (cosine - 1)
    return LogValue(log, EPS * abs(log) if math.isfinite(log) else 0.0, "e^(beta (ρ-1))")


@log_signal.register
def _(sigma: ReLU, cosine: float) -> LogValue:
    inside = cosine + sigma.bias
    log = sigma.power * math.log(inside) if inside > 0 else -math.inf
    return LogValue(log, 2 * EPS * (sigma.power + abs(log)) if inside > 0 else 0.0, "(ρ - threshold)^p")


@log_signal.register
def _(sigma: ExpSeries, cosine: float) -> LogValue:
    """The sum of (beta ρ)^p/p!, term by term in log space; at ρ < 0 the signs alternate and the error says so."""
    x = sigma.beta * cosine
    if x == 0:
        return LogValue(0.0, 0.0, "series at ρ")
    logs = np.concatenate([[0.0], np.cumsum(np.log(abs(x) / np.arange(1, sigma.terms)))])
    signs = np.where(np.arange(sigma.terms) % 2 == 1, math.copysign(1, x), 1.0)
    top = float(logs.max())
    total = abs(math.fsum(signs * np.exp(logs - top)))
    if total == 0:
        return LogValue(-math.inf, 0.0, "series at ρ")
    error = 4 * EPS * (sigma.terms + abs(top)) / min(total, 1.0)
    return LogValue(top + math.log(total), error, "series at ρ")


def log_ratio(sigma: Activation, d: float, log_others: float, cosine: float) -> float:
    """Return ln of the rms ratio over uniform unit keys from ln (M - 1), inf where nothing is recalled."""
    own = log_signal(sigma, cosine).log
    return math.inf if own == -math.inf else 0.5 * (log_others + log_mean_square(sigma, Sphere(d)).log) - own


def trial_deviation(sigma: Activation, d: float, n: float) -> float:
    """Return the relative standard deviation of one trial's squared ratio: sqrt((E σ^4/(E σ^2)^2 - 1)/(M - 1)).

    A trial's squared ratio is a sum over the M - 1 other similarities, which are independent. Where it is far below one
    a single trial tells the ratio (to half of it); where it is not, few similarities carry the sum.

    Parameters
    ----------
    sigma : Activation
        One that does not follow M (of a sharpness that does, `at(n, d)`).
    d : float
        Width of the keys, 1 or >= 2.
    n : float
        Memories M >= 2.

    Returns
    -------
    float
        >= 0; inf beyond the range of floats.

    Examples
    --------
    >>> trial_deviation(Exp(8.0), 64, 10**12) < 1e-5 < trial_deviation(Exp(20.0), 64, 10**12)
    True
    """
    c, law = sigma.exponent, Sphere(d)
    one, squared = (sigma, _Squared(sigma)) if c is None else (Exp(c), Exp(2 * c))
    log = log_mean_square(squared, law).log - 2 * log_mean_square(one, law).log
    return math.sqrt(math.expm1(max(0.0, log)) / (n - 1)) if log < 700 else math.inf


@dataclass(frozen=True)
class _Squared(Activation):
    """σ(s)^2 of another σ."""

    of: Activation

    def __call__(self, s: Any) -> Any:
        return self.of(s) ** 2

    @property
    def formula(self) -> str:
        return f"({self.of.formula})^2"

    @property
    def breaks(self) -> tuple[float, ...]:
        return self.of.breaks


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
