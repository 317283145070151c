"""Ratio and capacity of every store whose recall is V^T σ(K x), exact at any width.

With independent values of one length the other M - 1 memories add in the mean square: ratio^2 = (M - 1) E σ(s)^2 /
σ(ρ)^2. A query at cosine ρ to its key is as random to every other key as the key itself, so noise changes the signal
alone. A pair's weight does not depend on what was written after it, so its age changes nothing.
"""

from __future__ import annotations

import math
from typing import Any

from assocmem.contract.estimate import Prediction, Statistic
from assocmem.contract.form import KernelSum
from assocmem.maps.activations import Activation, Exp
from assocmem.maps.sharpness import Sharpness
from assocmem.theory.answer import known, none, plus_one, power, predict
from assocmem.theory.domain import (
    checked_age,
    checked_cosine,
    checked_memories,
    checked_ratio,
    checked_width,
    log_others,
    regime,
)
from assocmem.theory.keylaws import LAWS, law_ratio
from assocmem.theory.moments import log_mean_square, log_signal
from assocmem.theory.questions import (
    LARGEST,
    LEFT,
    SIGNAL,
    capacity,
    old_value_left,
    ratio,
    ratio_by_age,
    signal_by_age,
)

_NO_SIGNAL = "no recall at this cosine: the target's own weight σ(ρ) is 0"
_KEPT = "a pair's weight is σ(1) whatever is written after it"


@ratio.register
def _(form: KernelSum, d: float, n_memories: float, **asked: Any) -> Prediction:
    if form.sigma is None:
        return ratio.dispatch(object)(form, d, n_memories, **asked)
    return ratio(form.sigma, d, n_memories, **asked)


@ratio.register
def _(sigma: Sharpness, d: float, n_memories: float, **asked: Any) -> Prediction:
    return ratio(sigma.at(checked_memories(n_memories), d), d, n_memories, **asked)  # type: ignore[arg-type]


@ratio.register
def _(
    sigma: Activation,
    d: float,
    n_memories: float,
    *,
    cosine: float = 1.0,
    statistic: Statistic = "rms",
    law: str = "sphere",
    **settings: Any,
) -> Prediction:
    """sqrt((M-1) E σ(s)^2) / |σ(ρ)|. Cost: microseconds for closed forms, about a millisecond by quadrature."""
    if statistic != "rms":
        return none("ratio", f"theory gives the root mean square, not the {statistic}", statistic=statistic)
    d, n = checked_width(d), checked_memories(n_memories)
    cosine = checked_cosine(cosine, d)
    if law != "sphere" and law not in LAWS:
        return none("ratio", f"there is no formula for keys by the law {law!r}")
    if law != "sphere":
        return law_ratio(law, sigma, d, n, cosine, **settings)
    others, own = log_mean_square(sigma, d), log_signal(sigma, cosine)
    words = regime(d, cosine)
    if n == 1 and (own.log > -math.inf or isinstance(sigma, Exp)):
        return predict("ratio", -math.inf, regime=words, source=others.method)
    if own.log == -math.inf:
        return none("ratio", _lost(sigma), regime=words, source=others.method)
    log = 0.5 * (log_others(n) + others.log) - own.log
    return predict("ratio", log, regime=words, source=others.method, error=0.5 * others.error + own.error)


@capacity.register
def _(form: KernelSum, d: float, **asked: Any) -> Prediction:
    if form.sigma is None:
        return capacity.dispatch(object)(form, d, **asked)
    return capacity(form.sigma, d, **asked)


@capacity.register
def _(
    sigma: Activation,
    d: float,
    *,
    ratio: float = 1.0,
    cosine: float = 1.0,
    statistic: Statistic = "rms",
    law: str = "sphere",
    largest: float = LARGEST,
) -> Prediction:
    """M = 1 + ratio^2 σ(ρ)^2 / E σ(s)^2; none where no other memory ever interferes, as then no M is too large."""
    if statistic != "rms":
        return none("capacity", f"theory gives the root mean square, not the {statistic}", statistic=statistic)
    if law != "sphere":
        return none("capacity", f"there is no formula for keys by the law {law!r}")
    d, wanted = checked_width(d), checked_ratio(ratio)
    cosine, end = checked_cosine(cosine, d), checked_memories(largest)
    others, own = log_mean_square(sigma, d), log_signal(sigma, cosine)
    words, source = regime(d, cosine), others.method
    if own.log == -math.inf:
        return none("capacity", _lost(sigma), regime=words, source=source)
    if others.log == -math.inf:
        reason = "no finite capacity: every other memory has weight 0, so the ratio is 0 at every M"
        return none("capacity", reason, regime=words, source=source)
    log = plus_one(2 * math.log(wanted) + 2 * own.log - others.log)
    if log > math.log(end) and end < LARGEST:
        reason = f"not reached up to M = {end:.6g}: it is reached at M = {power(log)}"
        return none("capacity", reason, regime=words, source=source)
    return predict("capacity", log, regime=words, source=source, error=others.error + 2 * own.error)


@signal_by_age.register
def _(form: KernelSum, d: int, age: int, *, statistic: Statistic = "rms", d_v: int = 64) -> Prediction:
    if form.sigma is None or form.normalised:
        return signal_by_age.dispatch(object)(form, d, age, statistic=statistic)
    checked_age(age)
    return predict(SIGNAL, 0.0, regime="any unit keys", source=_KEPT, statistic=statistic)


@ratio_by_age.register
def _(form: KernelSum, d: int, n_memories: float, age: int) -> Prediction:
    checked_age(age, checked_memories(n_memories))
    return ratio(form, d, n_memories)


@old_value_left.register
def _(form: KernelSum, d: int, n_memories: int, rewritten: int) -> Prediction:
    if not form.normalised:
        return known(LEFT, 1.0, "the first writing's weight does not depend on the second")
    if n_memories == 1:
        return known(LEFT, 0.5, "the key itself is the only one")
    return old_value_left.dispatch(object)(form, d, n_memories, rewritten)


def _lost(sigma: Activation) -> str:
    if isinstance(sigma, Exp):
        return "infinite: at infinite sharpness a noisy query is taken by any key nearer to it than its own"
    return _NO_SIGNAL
