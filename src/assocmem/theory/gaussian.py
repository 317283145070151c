"""The Gaussian approximations s ~ N(0, 1/d), as in the article: labelled exact=False, never mixed with exact values.

They keep the leading order of large d and large M: capacities leave the target uncounted (d, 2d, 2d^2/3, ...), and
the softmax ratio is sqrt(M) e^(beta^2/d - beta). They are good while beta is far below d; at beta = 25 and d = 64
they miss the ratio by a factor of 5.6.
"""

from __future__ import annotations

import math
from functools import singledispatch

import numpy as np

from assocmem.contract.estimate import Prediction
from assocmem.contract.form import KernelSum
from assocmem.maps.activations import GELU, Activation, Exp, ExpSeries, Linear, ReLU, SwiGLU, Swish
from assocmem.maps.sharpness import Sharpness
from assocmem.theory.answer import none, predict
from assocmem.theory.domain import (
    checked_cosine,
    checked_memories,
    checked_ratio,
    checked_width,
    log_others,
)
from assocmem.theory.law import log_gamma_ratio
from assocmem.theory.moments import log_signal
from assocmem.theory.quadrature import Floats, LogValue, log_integral_of_square

_SOURCE = "Gaussian approximation s ~ N(0, 1/d)"


def gaussian_ratio(
    form: KernelSum | Activation | Sharpness, d: int, n_memories: float, *, cosine: float = 1.0
) -> Prediction:
    """Return the Gaussian approximation of the rms ratio; a Sharpness stands for softmax with beta(M).

    sqrt(M-1) times the root of E σ(s)^2, s ~ N(0, 1/d), over |σ(ρ)|; for the exponential sqrt(M) e^(beta^2/d - beta).
    The value is None for an activation that is known on [-1, 1] only.

    >>> from assocmem.maps.activations import Exp
    >>> round(gaussian_ratio(Exp(8.0), 64, 1024).value, 4)
    0.0292
    """
    width, n = checked_width(d), checked_memories(n_memories)
    cosine = checked_cosine(cosine, width)
    sigma = form.at(n, d)
    words = _words(width, cosine)
    moment, own = _mean_square(sigma, width), log_signal(sigma, cosine)
    if moment is None or own.log == -math.inf:
        return none("ratio", _reason(moment), regime=words, source=_SOURCE)
    count = math.log(n) if isinstance(sigma, Exp) else log_others(n)
    log = 0.5 * (count + moment.log) - own.log
    return predict("ratio", log, regime=words, source=_SOURCE, exact=False, error=moment.error + own.error)


def gaussian_capacity(
    form: KernelSum | Activation | Sharpness, d: int, *, ratio: float = 1.0, cosine: float = 1.0
) -> Prediction:
    """Return the Gaussian approximation of the capacity, ratio^2 σ(ρ)^2 / E σ(s)^2, as the article prints it.

    >>> from assocmem.maps.activations import Exp, Linear, ReLU
    >>> [round(gaussian_capacity(s, 64).value) for s in (Linear(), ReLU(), ReLU(2), ReLU(3), Exp(8.0))]
    [64, 128, 2731, 34953, 1202604]
    """
    width, wanted = checked_width(d), checked_ratio(ratio)
    cosine = checked_cosine(cosine, width)
    words = _words(width, cosine)
    if form.depends_on_n:
        return none("capacity", "beta depends on M; `capacity` follows it", regime=words, source=_SOURCE)
    sigma = form.at(1, d)
    moment, own = _mean_square(sigma, width), log_signal(sigma, cosine)
    if moment is None or own.log == -math.inf or moment.log == -math.inf:
        return none("capacity", _reason(moment), regime=words, source=_SOURCE)
    log = 2 * math.log(wanted) + 2 * own.log - moment.log
    return predict("capacity", log, regime=words, source=_SOURCE, exact=False, error=moment.error + 2 * own.error)


@singledispatch
def _mean_square(sigma: Activation, d: float) -> LogValue | None:
    """Return ln E σ(s)^2 for s ~ N(0, 1/d), None where σ need not be defined beyond [-1, 1]."""
    return None


@_mean_square.register
def _(sigma: Linear, d: float) -> LogValue | None:
    return LogValue(-math.log(d), 0.0, "1/d")


@_mean_square.register
def _(sigma: ReLU, d: float) -> LogValue | None:
    """A half of (2/d)^p Γ(p+1/2)/sqrt(π); with a threshold, quadrature."""
    if sigma.bias != 0:
        return _by_quadrature(sigma, d)
    return LogValue(sigma.power * math.log(2 / d) + log_gamma_ratio(0.5, sigma.power) - math.log(2), 0.0, "moments")


@_mean_square.register
def _(sigma: Exp, d: float) -> LogValue | None:
    log = -math.inf if math.isinf(sigma.beta) else 2 * sigma.beta * (sigma.beta / d - 1)
    return LogValue(log, 0.0, "e^(2 beta^2/d - 2 beta)")


@_mean_square.register
def _(sigma: ExpSeries, d: float) -> LogValue | None:
    """Sum over i + j = 2k of (beta^2k/(i! j!)) (2k-1)!!/d^k."""
    p = np.arange(sigma.terms)
    if sigma.beta == 0:
        return LogValue(0.0, 0.0, "moments")
    logs = p * math.log(sigma.beta) - np.array([math.lgamma(i + 1.0) for i in p])
    degree = p[:, None] + p[None, :]
    moments = np.array([log_gamma_ratio(0.5, k / 2) + k / 2 * math.log(2 / d) for k in range(2 * sigma.terms - 1)])
    terms = np.where(degree % 2 == 0, logs[:, None] + logs[None, :] + moments[degree], -np.inf)
    return LogValue(float(np.logaddexp.reduce(terms, axis=None)), 0.0, "moments")


@_mean_square.register(GELU)
@_mean_square.register(Swish)
@_mean_square.register(SwiGLU)
def _by_quadrature(sigma: Activation, d: float) -> LogValue | None:
    scale = 1 / math.sqrt(d)

    def density(s: Floats) -> Floats:
        return 0.5 * math.log(d / (2 * math.pi)) - 0.5 * d * s * s

    marks = np.concatenate([scale * np.arange(-40.0, 41.0), [b for b in sigma.breaks if abs(b) < 40 * scale]])
    return log_integral_of_square(sigma, density, lambda s: s, np.unique(marks))


def _words(d: float, cosine: float) -> str:
    return f"s ~ N(0, 1/d), d = {d:g}, query cosine {cosine:g}; leading order in large d and M"


def _reason(moment: LogValue | None) -> str:
    if moment is None:
        return "no Gaussian approximation: this activation is known on [-1, 1] only"
    return "no finite value: the signal or the interference is 0"
