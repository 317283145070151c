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
from assocmem.maps.activations import Exp
from assocmem.maps.sharpness import Sharpness, as_sharpness
from assocmem.theory import similarity as exact
from assocmem.theory.answer import none, plus_one, predict
from assocmem.theory.domain import (
    EPS,
    checked_cosine,
    checked_memories,
    checked_ratio,
    checked_width,
    regime,
)
from assocmem.theory.moments import log_mean_square, log_signal
from assocmem.theory.roots import lowest, root

LARGEST = 1e300
_STEP = 0.25  # spacing of the search in ln(M - 1)


def softmax_ratio(
    policy: Sharpness | float | str | None, d: int, n_memories: float, *, cosine: float = 1.0
) -> Prediction:
    """Return the rms ratio of softmax attention over M memories with sharpness beta(M).

    Parameters: `policy`, a Sharpness, a number, a policy's name, or None for sqrt(d); `d`, `n_memories` and `cosine`
    as for `ratio`. The policy's n is M: the target and all other stored memories.

    >>> from assocmem.maps.sharpness import LogN
    >>> round(softmax_ratio(LogN(1024), 64, 2**21).value, 7)
    0.0038468
    """
    rule, width, n = as_sharpness(policy), checked_width(d), checked_memories(n_memories)
    return exact.ratio(Exp(rule.beta(n, d)), width, n, cosine=cosine)


def softmax_capacity(
    policy: Sharpness | float | str | None,
    d: int,
    *,
    ratio: float = 1.0,
    cosine: float = 1.0,
    largest: float = LARGEST,
) -> Prediction:
    """Return the smallest M at which the rms ratio of softmax with sharpness beta(M) rises to `ratio`.

    Parameters: as for `softmax_ratio`; `ratio` > 0; `largest`, the M up to which to look. Further crossings are named
    in the regime. Where there is none the value is None and the reason states the ratio at `largest` and whether it
    falls or rises there. The search steps by a factor e^0.25 in M - 1 and follows every extremum between its steps.

    >>> from assocmem.maps.sharpness import Constant, LogN
    >>> round(softmax_capacity(Constant(8.0), 64).value)
    1272264
    >>> softmax_capacity(LogN(1024), 64, largest=2**21).reason.split(":")[0]
    'not reached up to M = 2.09715e+06'
    """
    rule, width, wanted = as_sharpness(policy), checked_width(d), checked_ratio(ratio)
    cosine, end = checked_cosine(cosine, width), checked_memories(largest)
    if not rule.depends_on_n:
        return _bounded(exact.capacity(Exp(rule.beta(1, d)), width, ratio=wanted, cosine=cosine), end)

    def above(y: float) -> float:
        return _log_ratio(rule, d, y, cosine) - math.log(wanted)

    words, source = regime(width, cosine) + "; beta = beta(M)", "exact ratio at beta(M), solved for ln M"
    curve = _trace(above, min(-20.0, 2 * math.log(wanted) - 20), math.log(end - 1) if end > 1 else -19.0)
    if not curve.rises:
        return none("capacity", _not_reached(curve, end, math.log(wanted)), regime=words, source=source)
    first = curve.rises[0]
    words += _shape(curve, first, math.log(wanted))
    slope = abs(above(first + 1e-3) - above(first - 1e-3)) / 2e-3
    error = 64 * EPS * (1 + abs(first)) / max(slope, 1e-6)
    return predict("capacity", plus_one(first), regime=words, source=source, error=error)


@dataclass(frozen=True)
class _Curve:
    """ln(ratio/wanted) at points y = ln(M - 1), with every zero that it crosses upward and downward."""

    points: list[float]
    values: list[float]
    rises: list[float]
    falls: list[float]


def _log_ratio(rule: Sharpness, d: int, y: float, cosine: float) -> float:
    """Return ln of the rms ratio at M = 1 + e^y."""
    sigma = Exp(rule.beta(1 + math.exp(y), d))
    own = log_signal(sigma, cosine).log
    return math.inf if own == -math.inf else 0.5 * (y + log_mean_square(sigma, d).log) - own


def _trace(above: Callable[[float], float], start: float, end: float) -> _Curve:
    """Return the curve over [start, end]: even steps, the extrema between them that may hide a zero, the zeros."""
    steps = max(2, math.ceil((end - start) / _STEP))
    points = [start + (end - start) * i / steps for i in range(steps + 1)]
    values = [above(y) for y in points]
    for i in range(steps - 1, 0, -1):
        turns_up = values[i] < values[i - 1] and values[i] < values[i + 1] and values[i] > 0
        turns_down = values[i] > values[i - 1] and values[i] > values[i + 1] and values[i] < 0
        if turns_up or turns_down:
            y = _extremum(above, points[i - 1], points[i + 1], 1.0 if turns_up else -1.0)
            at = i if y < points[i] else i + 1
            points.insert(at, y)
            values.insert(at, above(y))
    zeros: dict[bool, list[float]] = {True: [], False: []}
    for i in range(len(points) - 1):
        if (values[i] < 0) != (values[i + 1] < 0):
            zero = root(above, points[i], points[i + 1])
            zeros[values[i] < 0].append(zero)
    return _Curve(points, values, zeros[True], zeros[False])


def _extremum(f: Callable[[float], float], low: float, high: float, sign: float) -> float:
    return lowest(lambda y: sign * f(y), low, high, within=1e-9)


def _not_reached(curve: _Curve, end: float, wanted: float) -> str:
    """Return the reason: the trend and the ratio at the largest M, and the largest ratio met on the way."""
    trend = "falls" if curve.values[-1] < curve.values[-2] else "rises"
    text = (
        f"not reached up to M = {end:.6g}: the ratio {trend} as M grows, to {_power(curve.values[-1] + wanted)} there"
    )
    top = curve.values.index(max(curve.values))
    if top < len(curve.points) - 1:
        text += f"; its largest value is {_power(curve.values[top] + wanted)}, at M = {_show(curve.points[top])}"
    return text


def _shape(curve: _Curve, first: float, wanted: float) -> str:
    """Return in words how the ratio moves before and after its first crossing, where it is not plainly rising."""
    before = [i for i, y in enumerate(curve.points) if y < first]
    text = ""
    drops = [i for i in before[1:] if curve.values[i] < curve.values[i - 1]]
    if drops:
        low = min(drops, key=lambda i: curve.values[i])
        text += (
            f"; before that the ratio falls to {_power(curve.values[low] + wanted)} at M = {_show(curve.points[low])}"
        )
    for down in curve.falls:
        text += f"; it falls below again at M = {_show(down)}"
    for up in curve.rises[1:]:
        text += f"; it is reached once more at M = {_show(up)}"
    return text


def _bounded(found: Prediction, end: float) -> Prediction:
    if found.log_value is None or found.log_value <= math.log(end) or end == LARGEST:
        return found
    reason = f"not reached up to M = {end:.6g}: it is reached at M = {_power(found.log_value)}"
    return none("capacity", reason, regime=found.regime, source=found.source)


def _show(y: float) -> str:
    return _power(plus_one(y))


def _power(log: float) -> str:
    return f"{math.exp(log):.4g}" if abs(log) < 700 else f"e^{log:.5g}"
