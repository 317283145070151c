"""How a capacity grows with the width of the keys: the fitted exponent beside the declared one."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from assocmem.contract.errors import InputError
from assocmem.lab.capacity import MeasuredCapacity
from assocmem.maps.activations import Activation, ExpSeries, Linear, ReLU, SwiGLU


@dataclass(frozen=True)
class Exponent:
    """The slope of ln capacity against ln d_k, with the interval that the capacities' own intervals give it.

    theory: the same slope of the exact capacities at the same widths, None where one is missing. The interval is that
    of measuring; that capacities of finite width are no pure power shows in `theory` against the declared exponent.
    """

    value: float
    low: float | None
    high: float | None
    theory: float | None
    widths: tuple[int, ...]


def fitted_exponent(found: Sequence[MeasuredCapacity]) -> Exponent:
    """Return the least-squares slope of ln capacity against ln d_k.

    Parameters: found, capacities of one store at two or more widths; those that were not reached are left out.
    Raises InputError where fewer than two widths are left. The points have equal weight; their errors are independent
    and taken from the intervals (95 % is 3.92 standard errors of ln M).
    """
    known = [one for one in found if one.measured.value is not None]
    if len({one.d_k for one in known}) < 2:
        raise InputError(f"an exponent needs capacities at two widths or more; got {len(known)} of {len(found)}.")
    x = np.log([one.d_k for one in known])
    share = (x - x.mean()) / np.sum((x - x.mean()) ** 2)
    slope = float(share @ np.log([one.measured.value or math.nan for one in known]))
    theory = [one.prediction.log_value for one in known]
    exact = None if None in theory else float(share @ np.array(theory, dtype=np.float64))
    widths = [_log_width(one) for one in known]
    if None in widths:
        return Exponent(slope, None, None, exact, tuple(one.d_k for one in known))
    half = 1.96 * float(np.sqrt(np.sum((share * np.array(widths, dtype=np.float64) / 3.92) ** 2)))
    return Exponent(slope, slope - half, slope + half, exact, tuple(one.d_k for one in known))


def _log_width(one: MeasuredCapacity) -> float | None:
    low, high = one.measured.low, one.measured.high
    return None if not low or not high else math.log(high / low)


def declared_exponent(sigma: Activation) -> float | None:
    """Return the p of capacity ~ d_k^p that σ's form promises for wide keys, None where it is no power of d_k.

    ReLU^p: p, as interference shrinks to d_k^(-p/2). Linear: 1. SwiGLU with a shared gate: 2, as it is s²/2 for small
    s. The exponential's first n terms at beta = sqrt(d_k): n - 1. The whole exponential grows like e^(2 sqrt(d_k)).

    >>> declared_exponent(ReLU(2)), declared_exponent(Linear())
    (2.0, 1.0)
    """
    if isinstance(sigma, ReLU) and sigma.bias == 0:
        return float(sigma.power)
    if isinstance(sigma, ExpSeries):
        return float(sigma.terms - 1)
    return {Linear: 1.0, SwiGLU: 2.0}.get(type(sigma))
