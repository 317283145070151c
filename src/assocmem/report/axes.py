"""How axes fit what is drawn: limits with a little room around the data, and ticks at round numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

ROOM = 0.035
"""Share of an axis that is left free at each end."""
MOST = 8
"""Ticks of a logarithmic axis, about."""
_POWERS = ("¹", "²", "³", "⁴", "⁵", "⁶", "⁷", "⁸", "⁹", *(f"¹{digit}" for digit in "⁰¹²³⁴⁵⁶⁷⁸⁹"))


def limits(
    values: Sequence[float], log: bool, within: Sequence[float] | None = None, after: float = ROOM
) -> tuple[float, float]:
    """Return where an axis begins and ends so that it shows `values` and little else.

    log: whether it is logarithmic (then all values are positive). within: no further than from here to there.
    after: share of the axis that is left free at its end.
    """
    low, high = min(values), max(values)
    if within is not None:
        low, high = max(low, within[0]), min(high, within[1])
    if log:
        low, high = math.log10(low), math.log10(high)
    whole = (high - low or (1.0 if log else abs(low) or 1.0)) / (1 - ROOM - after)
    low, high = low - ROOM * whole, high + after * whole
    return (10**low, 10**high) if log else (low, high)


def ticks(low: float, high: float) -> list[float] | None:
    """Return round numbers along a logarithmic axis; None where it is too short, and Vega chooses better."""
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    step = math.ceil((last - first) / MOST)
    for digits in ((1,), (1, 3), (1, 2, 5)) if step == 1 else ((1,),):
        found = [d * 10.0**p for p in range(first - first % step, last + 1, step) for d in digits]
        found = [value for value in found if low <= value <= high]
        if len(found) >= 3:
            return found
    return None


def tick_axis(values: Sequence[float] | None, shown: str | None = None) -> dict[str, Any]:
    """Return an axis with ticks at `values`; without a format, numbers below 0.001 are written as powers of ten."""
    import altair as alt

    if values is None:
        return {}
    if shown is not None:
        return {"axis": alt.Axis(values=list(values), format=shown)}
    power = "ceil(-log(datum.value) / LN10 - 1e-6)"
    digit = f"round(datum.value * pow(10, {power}))"
    small = f"({digit} == 1 ? '' : {digit} + '·') + '10⁻' + {list(_POWERS)}[{power} - 1]"
    text = f"datum.value < 0.00099 ? {small} : format(datum.value, ',.12~r')"
    return {"axis": alt.Axis(values=list(values), labelExpr=text)}
