"""Ratio and capacity of every store whose recall is V^T σ(K x), exact at any width.

With independent values of one length the other M - 1 memories add in the mean square: ratio^2 = (M - 1) E σ(s)^2 /
σ(ρ)^2. A query at cosine ρ to its key is as random to every other key as the key itself, so noise changes the signal
alone. A pair's weight does not depend on what was written after it, so its age changes nothing.

Softmax attention whose sharpness follows the number of memories has its ratio at M by beta(M). While beta is far below
d a growing beta makes the ratio fall; but s is bounded by 1, and at ln M of the order of d ln ln M some other key comes
so near the target that no sharpness of the order of ln M tells them apart: there the ratio rises again. So a curve may
cross the threshold never, once, or several times.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

from assocmem.contract.estimate import Prediction
from assocmem.contract.form import KernelSum
from assocmem.maps.activations import Activation, Exp, Sharpness
from assocmem.theory import questions
from assocmem.theory.key_laws import law_capacity, law_ratio, log_mean_square_of_signs
from assocmem.theory.moments import Sphere, log_mean_square, log_ratio, log_signal
from assocmem.theory.questions import EPS, LARGEST, Asked, answer_capacity, log_others, plus_one, power
from assocmem.theory.roots import lowest, root


@questions.answer_ratio.register
def _(form: KernelSum, asked: Asked) -> Prediction:
    if form.sigma is None:
        return asked.unknown(form)
    return _of_signs(form, asked) if form.signs else questions.answer_ratio(form.sigma, asked)


def _of_signs(form: KernelSum, asked: Asked) -> Prediction:
    """Return the ratio of sign vectors, queries too: (M - 1) E σ(s)^2 / σ(ρ)^2 with the binomial law of s."""
    if asked.statistic != "rms":
        return asked.none(f"theory gives the root mean square, not the {asked.statistic}")
    if asked.law not in _SYMMETRIC:
        return asked.none(f"there is no formula for the signs of keys by the law {asked.law!r}")
    words = f"independent random sign vectors, d = {asked.d:g}, query cosine {asked.cosine:g}; M counts the target"
    sigma = form.at(asked.n, asked.d)  # type: ignore[arg-type]
    others, own = log_mean_square_of_signs(sigma, asked.d), log_signal(sigma, asked.cosine)
    if own.log == -math.inf:
        return asked.none(_lost(sigma), regime=words, source=others.method)
    if asked.quantity == "capacity":
        log = plus_one(2 * math.log(asked.wanted) + 2 * own.log - others.log)
        return asked.predict(log, regime=words, source=others.method, error=others.error + 2 * own.error)
    log = 0.5 * (log_others(asked.n) + others.log) - own.log
    return asked.predict(log, regime=words, source=others.method, error=0.5 * others.error + own.error)


_SYMMETRIC = ("sphere", "gaussian", "signs")
"""Laws whose keys have independent random signs."""


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
    if form.sigma is None:
        return asked.unknown(form)
    return _of_signs(form, asked) if form.signs else questions.answer_capacity(form.sigma, asked)


@questions.answer_capacity.register
def _(sigma: Activation, asked: Asked) -> Prediction:
    """M = 1 + ratio^2 σ(ρ)^2 / E σ(s)^2; none where no other memory ever interferes, as then no M is too large."""
    if asked.statistic != "rms":
        return asked.none(f"theory gives the root mean square, not the {asked.statistic}")
    if asked.law != "sphere":
        return law_capacity(sigma, asked)
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


_STEP = 0.25  # spacing of the search in ln(M - 1)


@answer_capacity.register
def _(rule: Sharpness, asked: Asked) -> Prediction:
    """The smallest M at which the ratio with beta(M) rises to `ratio`; further crossings are named in the regime.

    Where there is none up to the largest M, the reason states the ratio there and whether it falls or rises. The search
    steps by a factor e^0.25 in M - 1 and follows every extremum between its steps.
    """
    if rule.depends_on_n and asked.law != "sphere":
        return asked.none("no theory for the capacity of a sharpness that follows M among keys of another law")
    if not rule.depends_on_n or asked.statistic != "rms" or asked.law != "sphere":
        return answer_capacity(rule.at(2, asked.d), asked)  # type: ignore[arg-type]
    wanted, end = math.log(asked.wanted), asked.n

    def above(y: float) -> float:
        sigma = rule.at(1 + math.exp(y), asked.d)  # type: ignore[arg-type]
        return log_ratio(sigma, asked.d, y, asked.cosine) - wanted

    words, source = asked.regime + "; beta = beta(M)", "exact ratio at beta(M), solved for ln M"
    curve = _trace(above, min(-20.0, 2 * wanted - 20), math.log(end - 1) if end > 1 else -19.0)
    if not curve.rises:
        return asked.none(_not_reached(curve, end, wanted), regime=words, source=source)
    first = curve.rises[0]
    words += _shape(curve, first, wanted)
    slope = abs(above(first + 1e-3) - above(first - 1e-3)) / 2e-3
    error = 64 * EPS * (1 + abs(first)) / max(slope, 1e-6)
    return asked.predict(plus_one(first), regime=words, source=source, error=error)


@dataclass(frozen=True)
class _Curve:
    """ln(ratio/wanted) at points y = ln(M - 1), with every zero that it crosses upward and downward."""

    points: list[float]
    values: list[float]
    rises: list[float]
    falls: list[float]


def _trace(above: Callable[[float], float], start: float, end: float) -> _Curve:
    """Return the curve over [start, end]: even steps, the extrema between them that may hide a zero, the zeros."""
    steps = max(2, math.ceil((end - start) / _STEP))
    points = [start + (end - start) * i / steps for i in range(steps + 1)]
    values = [above(y) for y in points]
    for i in range(steps - 1, 0, -1):
        turns_up = values[i] < values[i - 1] and values[i] < values[i + 1] and values[i] > 0
        turns_down = values[i] > values[i - 1] and values[i] > values[i + 1] and values[i] < 0
        if turns_up or turns_down:
            sign = 1.0 if turns_up else -1.0
            y = lowest(lambda y, sign=sign: sign * above(y), points[i - 1], points[i + 1], within=1e-9)  # type: ignore[misc]
            at = i if y < points[i] else i + 1
            points.insert(at, y)
            values.insert(at, above(y))
    zeros: dict[bool, list[float]] = {True: [], False: []}
    for i in range(len(points) - 1):
        if (values[i] < 0) != (values[i + 1] < 0):
            zeros[values[i] < 0].append(root(above, points[i], points[i + 1]))
    return _Curve(points, values, zeros[True], zeros[False])


def _not_reached(curve: _Curve, end: float, wanted: float) -> str:
    """Return the reason: the trend and the ratio at the largest M, and the largest ratio met on the way."""
    trend = "falls" if curve.values[-1] < curve.values[-2] else "rises"
    text = f"not reached up to M = {end:.6g}: the ratio {trend} as M grows, to {power(curve.values[-1] + wanted)} there"
    top = curve.values.index(max(curve.values))
    if top < len(curve.points) - 1:
        text += f"; its largest value is {power(curve.values[top] + wanted)}, at M = {_show(curve.points[top])}"
    return text


def _shape(curve: _Curve, first: float, wanted: float) -> str:
    """Return in words how the ratio moves before and after its first crossing, where it is not plainly rising."""
    before = [i for i, y in enumerate(curve.points) if y < first]
    text = ""
    drops = [i for i in before[1:] if curve.values[i] < curve.values[i - 1]]
    if drops:
        low = min(drops, key=lambda i: curve.values[i])
        text += (
            f"; before that the ratio falls to {power(curve.values[low] + wanted)} at M = {_show(curve.points[low])}"
        )
    for down in curve.falls:
        text += f"; it falls below again at M = {_show(down)}"
    for up in curve.rises[1:]:
        text += f"; it is reached once more at M = {_show(up)}"
    return text


def _show(y: float) -> str:
    return power(plus_one(y))
