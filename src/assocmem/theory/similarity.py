"""Ratio and capacity of every store whose recall is V^T σ(K x), exact at any width.

With independent values of one length the other M - 1 memories add in the mean square: ratio^2 = (M - 1) E σ(s)^2 /
σ(ρ)^2. A query at cosine ρ to its key is as random to every other key as the key itself, so noise changes the signal
alone.
"""

from __future__ import annotations

import math

from assocmem.contract.estimate import Prediction
from assocmem.contract.form import Similarity
from assocmem.maps.activations import Activation, Exp
from assocmem.theory.answer import none, plus_one, predict
from assocmem.theory.domain import (
    activation_of,
    checked_cosine,
    checked_memories,
    checked_ratio,
    checked_width,
    log_others,
    regime,
)
from assocmem.theory.moments import log_mean_square, log_signal

_NO_SIGNAL = "no recall at this cosine: the target's own weight σ(ρ) is 0"


def ratio(similarity: Similarity | Activation, d: int | float, n_memories: float, *, cosine: float = 1.0) -> Prediction:
    """Return the rms interference-to-signal ratio sqrt((M-1) E σ(s)^2) / |σ(ρ)| (dimensionless).

    Parameters
    ----------
    similarity: a store's `Similarity`, or its activation σ.
    d: width of the keys, 1 or >= 2 (verified to 4096).
    n_memories: M >= 1, counting the target; any size a float holds.
    cosine: ρ between the query and its key, in [-1, 1].

    The value is 0 for M = 1, None where σ(ρ) = 0 or the mean square is infinite. Raises InputError for numbers out
    of range and for an activation that is not finite on [-1, 1]. Cost: microseconds for closed forms, about a
    millisecond by quadrature.

    >>> from assocmem.maps.activations import Linear, ReLU
    >>> ratio(Linear(), 64, 257).value
    2.0
    >>> round(ratio(ReLU(2), 64, 2817).value, 12)
    1.0
    """
    sigma, d, n = activation_of(similarity), checked_width(d), checked_memories(n_memories)
    cosine = checked_cosine(cosine, d)
    others, own = log_mean_square(sigma, d), log_signal(sigma, cosine)
    words = regime(d, cosine)
    if n == 1 and (own.log > -math.inf or isinstance(sigma, Exp)):
        return predict("ratio", -math.inf, regime=words, source=others.method)
    if own.log == -math.inf:
        return none("ratio", _lost(sigma), regime=words, source=others.method)
    log = 0.5 * (log_others(n) + others.log) - own.log
    return predict("ratio", log, regime=words, source=others.method, error=0.5 * others.error + own.error)


def capacity(
    similarity: Similarity | Activation, d: int | float, *, ratio: float = 1.0, cosine: float = 1.0
) -> Prediction:
    """Return the number of memories M (a float, counting the target) at which the rms ratio reaches `ratio`.

    M = 1 + ratio^2 σ(ρ)^2 / E σ(s)^2. Parameters as for the function `ratio`. The value is None where no other
    memory ever interferes (then no M is too large) and where nothing is recalled.

    >>> from assocmem.maps.activations import Exp, Linear
    >>> round(capacity(Linear(), 64).value, 9)
    65.0
    >>> round(capacity(Exp(8.0), 64).value)
    1272264
    """
    sigma, d, wanted = activation_of(similarity), checked_width(d), checked_ratio(ratio)
    cosine = checked_cosine(cosine, d)
    others, own = log_mean_square(sigma, d), log_signal(sigma, cosine)
    words = regime(d, cosine)
    if own.log == -math.inf:
        return none("capacity", _lost(sigma), regime=words, source=others.method)
    if others.log == -math.inf:
        reason = "no finite capacity: every other memory has weight 0, so the ratio is 0 at every M"
        return none("capacity", reason, regime=words, source=others.method)
    log = plus_one(2 * math.log(wanted) + 2 * own.log - others.log)
    error = others.error + 2 * own.error
    return predict("capacity", log, regime=words, source=others.method, error=error)


def _lost(sigma: Activation) -> str:
    if isinstance(sigma, Exp):
        return "infinite: at infinite sharpness a noisy query is taken by any key nearer to it than its own"
    return _NO_SIGNAL
