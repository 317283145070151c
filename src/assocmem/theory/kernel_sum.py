"""Ratio and capacity of every store whose recall is V^T σ(K x), exact at any width.

With independent values of one length the other M - 1 memories add in the mean square: ratio^2 = (M - 1) E σ(s)^2 /
σ(ρ)^2. A query at cosine ρ to its key is as random to every other key as the key itself, so noise changes the signal
alone. A pair's weight does not depend on what was written after it, so its age changes nothing.
"""

from __future__ import annotations

import math
from dataclasses import replace

from assocmem.contract.estimate import Prediction
from assocmem.contract.form import KernelSum
from assocmem.maps.activations import Activation, Exp
from assocmem.maps.sharpness import Sharpness
from assocmem.theory import questions
from assocmem.theory.answer import Asked, log_others, plus_one, power
from assocmem.theory.key_laws import law_ratio
from assocmem.theory.moments import Sphere, log_mean_square, log_signal
from assocmem.theory.questions import LARGEST


@questions.answer_ratio.register
def _(form: KernelSum, asked: Asked) -> Prediction:
    return asked.unknown(form) if form.sigma is None else questions.answer_ratio(form.sigma, asked)


@questions.answer_ratio.register
def _(sigma: Sharpness, asked: Asked) -> Prediction:
    return questions.answer_ratio(sigma.at(asked.n, asked.d), asked)  # type: ignore[arg-type]


@questions.answer_ratio.register
def _(sigma: Activation, asked: Asked) -> Prediction:
    """sqrt((M-1) E σ(s)^2) / |σ(ρ)|. Cost: microseconds for closed forms, about a millisecond by quadrature."""
    if asked.statistic != "rms":
        return asked.none(f"theory gives the root mean square, not the {asked.statistic}")
    if asked.law != "sphere":
        return law_ratio(sigma, asked)
    others, own = log_mean_square(sigma, Sphere(asked.d)), log_signal(sigma, asked.cosine)
    words, source = asked.regime, others.method
    if asked.n == 1 and (own.log > -math.inf or isinstance(sigma, Exp)):
        return asked.predict(-math.inf, regime=words, source=source)
    if own.log == -math.inf:
        return asked.none(_lost(sigma), regime=words, source=source)
    log = 0.5 * (log_others(asked.n) + others.log) - own.log
    return asked.predict(log, regime=words, source=source, error=0.5 * others.error + own.error)


@questions.answer_capacity.register
def _(form: KernelSum, asked: Asked) -> Prediction:
    return asked.unknown(form) if form.sigma is None else questions.answer_capacity(form.sigma, asked)


@questions.answer_capacity.register
def _(sigma: Activation, asked: Asked) -> Prediction:
    """M = 1 + ratio^2 σ(ρ)^2 / E σ(s)^2; none where no other memory ever interferes, as then no M is too large."""
    if asked.statistic != "rms":
        return asked.none(f"theory gives the root mean square, not the {asked.statistic}")
    if asked.law != "sphere":
        return asked.none(f"there is no formula for keys by the law {asked.law!r}")
    others, own = log_mean_square(sigma, Sphere(asked.d)), log_signal(sigma, asked.cosine)
    words, source = asked.regime, others.method
    if own.log == -math.inf:
        return asked.none(_lost(sigma), regime=words, source=source)
    if others.log == -math.inf:
        reason = "no finite capacity: every other memory has weight 0, so the ratio is 0 at every M"
        return asked.none(reason, regime=words, source=source)
    log = plus_one(2 * math.log(asked.wanted) + 2 * own.log - others.log)
    if log > math.log(asked.n) and asked.n < LARGEST:
        reason = f"not reached up to M = {asked.n:.6g}: it is reached at M = {power(log)}"
        return asked.none(reason, regime=words, source=source)
    return asked.predict(log, regime=words, source=source, error=others.error + 2 * own.error)


@questions.answer_signal_by_age.register
def _(form: KernelSum, asked: Asked) -> Prediction:
    if form.sigma is None or form.normalised:
        return asked.unknown(form)
    return asked.predict(0.0, regime="any unit keys", source="a pair's weight is σ(1) whatever is written after it")


@questions.answer_ratio_by_age.register
def _(form: KernelSum, asked: Asked) -> Prediction:
    return questions.answer_ratio(form, replace(asked, age=0))


@questions.answer_old_value_left.register
def _(form: KernelSum, asked: Asked) -> Prediction:
    if not form.normalised:
        return asked.known(1.0, "the first writing's weight does not depend on the second")
    return asked.known(0.5, "the key itself is the only one") if asked.n == 1 else asked.unknown(form)


def _lost(sigma: Activation) -> str:
    if isinstance(sigma, Exp):
        return "infinite: at infinite sharpness a noisy query is taken by any key nearer to it than its own"
    return "no recall at this cosine: the target's own weight σ(ρ) is 0"
