"""Roots and minima of functions of one number.

By halving and by the golden section: both are sure, as good as the floats they work on, and cost some fifty calls of
functions that take microseconds. SciPy's, a few calls quicker, take a quarter of a second to import.
"""

from __future__ import annotations

import math
from collections.abc import Callable

_GOLDEN = (math.sqrt(5) - 1) / 2


def root(f: Callable[[float], float], low: float, high: float) -> float:
    """Return x in [low, high] where `f`, of opposite signs at the ends, changes its sign, to the last digit.

    Cost: one call for each halving, about 60; more only for a root that is many orders smaller than the ends.

    >>> root(lambda x: x * x - 2, 0.0, 2.0) == 2**0.5
    True
    """
    first, last = f(low), f(high)
    if first == 0 or last == 0:
        return low if first == 0 else high
    if (first < 0) == (last < 0):
        raise ValueError(f"no change of sign: f({low!r}) = {first!r}, f({high!r}) = {last!r}")
    while True:
        middle = low + (high - low) / 2
        if middle in (low, high):
            return low if abs(first) < abs(last) else high
        value = f(middle)
        if value == 0:
            return middle
        if (value < 0) == (first < 0):
            low, first = middle, value
        else:
            high, last = middle, value


def lowest(f: Callable[[float], float], low: float, high: float, *, within: float) -> float:
    """Return x in [low, high], to `within`, where `f` with one minimum there is least, by the golden section.

    >>> abs(lowest(lambda x: (x - 0.3) ** 2, 0.0, 1.0, within=1e-7) - 0.3) < 1e-7
    True
    """
    a, b = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
    at_a, at_b = f(a), f(b)
    while high - low > within and low < a < b < high:
        if at_a < at_b:
            high, b, at_b = b, a, at_a
            a = high - _GOLDEN * (high - low)
            at_a = f(a)
        else:
            low, a, at_a = a, b, at_b
            b = low + _GOLDEN * (high - low)
            at_b = f(b)
    return a if at_a < at_b else b
