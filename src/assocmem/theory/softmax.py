"""Softmax attention whose sharpness follows the number of memories: ratio at M, and every M where it crosses.

The ratio at M uses beta(M). While beta is far below d a growing beta makes the ratio fall; but s is bounded by 1, and
at ln M of the order of d ln ln M some other key comes so near the target that no sharpness of the order of ln M tells
them apart: there the ratio rises again. So a curve may cross the threshold never, once, or several times.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from assocmem.contract.estimate import Prediction
from assocmem.maps.sharpness import Sharpness
from assocmem.theory.answer import EPS, Asked, plus_one, power
from assocmem.theory.moments import log_ratio
from assocmem.theory.questions import answer_capacity
from assocmem.theory.roots import lowest, root

_STEP = 0.25  # spacing of the search in ln(M - 1)


@answer_capacity.register
def _(rule: Sharpness, asked: Asked) -> Prediction:
    """The smallest M at which the ratio with beta(M) rises to `ratio`; further crossings are named in the regime.

    Where there is none up to the largest M, the reason states the ratio there and whether it falls or rises. The search
    steps by a factor e^0.25 in M - 1 and follows every extremum between its steps.
    """
    if not rule.depends_on_n or asked.statistic != "rms" or asked.law != "sphere":
        return answer_capacity(rule.at(1, asked.d), asked)  # type: ignore[arg-type]
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
