"""The Gaussian approximations s ~ N(0, 1/d), as in the article: labelled exact=False, never mixed with exact values.

They keep the leading order of large d and large M: capacities leave the target uncounted (d, 2d, 2d^2/3, ...). They
are good while beta is far below d; at beta = 25 and d = 64 they miss the ratio by a factor of 5.6.
"""

from __future__ import annotations

import math
from typing import TypeAlias

from assocmem.contract.estimate import Prediction
from assocmem.contract.form import KernelSum
from assocmem.maps.activations import Activation, Exp, Sharpness
from assocmem.theory.moments import Normal, log_mean_square, log_signal
from assocmem.theory.questions import Asked, checked, log_others

Weighing: TypeAlias = KernelSum | Activation | Sharpness
_SOURCE = "Gaussian approximation s ~ N(0, 1/d)"


def gaussian_ratio(form: Weighing, d: int, n_memories: float, *, cosine: float = 1.0) -> Prediction:
    """Return the Gaussian approximation of the rms ratio; a Sharpness stands for softmax with beta(M).

    Parameters
    ----------
    form, d
        As for `gaussian_capacity`.
    n_memories : float
        M >= 1, the target counted.
    cosine : float
        ρ in [-1, 1].

    Returns
    -------
    Prediction
        sqrt(M-1) times the root of E σ(s)^2, s ~ N(0, 1/d), over |σ(ρ)|; for the exponential sqrt(M) e^(beta^2/d -
        beta). None for an activation that is known on [-1, 1] only.

    Examples
    --------
    >>> from assocmem.maps.activations import Exp
    >>> round(gaussian_ratio(Exp(8.0), 64, 1024).value, 4)
    0.0292
    """
    return _answer(form, Asked("ratio", *checked(d, n_memories, cosine)))


def gaussian_capacity(form: Weighing, d: int, *, ratio: float = 1.0, cosine: float = 1.0) -> Prediction:
    """Return the Gaussian approximation of the capacity, ratio^2 σ(ρ)^2 / E σ(s)^2, as the article prints it.

    Parameters
    ----------
    form : Form, Activation or Sharpness
        Of a kernel sum.
    d : int
        Width of the keys.
    ratio : float
        > 0.
    cosine : float
        ρ in [-1, 1].

    Returns
    -------
    Prediction
        Labelled as an approximation; None, with a reason, where beta depends on M.

    Examples
    --------
    >>> from assocmem.maps.activations import Exp, Linear, ReLU
    >>> [round(gaussian_capacity(s, 64).value) for s in (Linear(), ReLU(), ReLU(2), ReLU(3), Exp(8.0))]
    [64, 128, 2731, 34953, 1202604]
    """
    asked = Asked("capacity", *checked(d, 1.0, cosine, ratio))
    if form.depends_on_n:
        return asked.none("beta depends on M; `capacity` follows it", regime=_words(asked), source=_SOURCE)
    return _answer(form, asked)


def _answer(form: Weighing, asked: Asked) -> Prediction:
    sigma = form.at(asked.n, asked.d)  # type: ignore[arg-type]
    if sigma is None:
        return asked.unknown(form)
    moment, own = log_mean_square(sigma, Normal(asked.d)), log_signal(sigma, asked.cosine)
    capacity = asked.quantity == "capacity"
    if math.isnan(moment.log) or own.log == -math.inf or (capacity and moment.log == -math.inf):
        reason = "no finite value: the signal or the interference is 0"
        if math.isnan(moment.log):
            reason = "no Gaussian approximation: this activation is known on [-1, 1] only"
        return asked.none(reason, regime=_words(asked), source=_SOURCE)
    count = math.log(asked.n) if isinstance(sigma, Exp) else log_others(asked.n)
    log, error = 0.5 * (count + moment.log) - own.log, moment.error + own.error
    if capacity:
        log, error = 2 * math.log(asked.wanted) + 2 * own.log - moment.log, error + own.error
    return asked.predict(log, regime=_words(asked), source=_SOURCE, exact=False, error=error)


def _words(asked: Asked) -> str:
    return f"s ~ N(0, 1/d), d = {asked.d:g}, query cosine {asked.cosine:g}; leading order in large d and M"
