"""ln E σ(s)^2 and ln |σ(ρ)|: a closed form for each activation that has one, quadrature for all others.

This is all that a store's activation contributes to its ratio. To give another activation a closed form, register
it with `log_mean_square`; to leave it to quadrature, do nothing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache, singledispatch

import numpy as np

from assocmem.maps.activations import GELU, Activation, Exp, ExpSeries, Linear, ReLU, SwiGLU, Swish
from assocmem.theory import quadrature
from assocmem.theory.answer import EPS
from assocmem.theory.bessel import log_mean_exp, log_mean_exp_error
from assocmem.theory.quadrature import Floats, LogValue, log_abs
from assocmem.theory.similarity_law import log_density, log_gamma_ratio


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
