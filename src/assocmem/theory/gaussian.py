"""The Gaussian approximations s ~ N(0, 1/d), as in the article: labelled exact=False, never mixed with exact values.

They keep the leading order of large d and large M: capacities leave the target uncounted (d, 2d, 2d^2/3, ...), and
the softmax ratio is sqrt(M) e^(beta^2/d - beta). They are good while beta is far below d; at beta = 25 and d = 64
they miss the ratio by a factor of 5.6.
"""

from __future__ import annotations

import math

from assocmem.contract.estimate import Prediction
from assocmem.contract.form import KernelSum
from assocmem.maps.activations import Activation, Exp
from assocmem.maps.sharpness import Sharpness
from assocmem.theory.answer import (
    checked_cosine,
    checked_memories,
    checked_ratio,
    checked_width,
    log_others,
    none,
    predict,
)
from assocmem.theory.moments import Normal, log_mean_square, log_signal
from assocmem.theory.quadrature import LogValue

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
    moment, own = log_mean_square(sigma, Normal(width)), log_signal(sigma, cosine)
    if math.isnan(moment.log) or own.log == -math.inf:
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
    moment, own = log_mean_square(sigma, Normal(width)), log_signal(sigma, cosine)
    if math.isnan(moment.log) or own.log == -math.inf or moment.log == -math.inf:
        return none("capacity", _reason(moment), regime=words, source=_SOURCE)
    log = 2 * math.log(wanted) + 2 * own.log - moment.log
    return predict("capacity", log, regime=words, source=_SOURCE, exact=False, error=moment.error + 2 * own.error)


def _words(d: float, cosine: float) -> str:
    return f"s ~ N(0, 1/d), d = {d:g}, query cosine {cosine:g}; leading order in large d and M"


def _reason(moment: LogValue) -> str:
    if math.isnan(moment.log):
        return "no Gaussian approximation: this activation is known on [-1, 1] only"
    return "no finite value: the signal or the interference is 0"
