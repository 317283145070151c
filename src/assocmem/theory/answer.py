"""How theory answers: a Prediction made from the logarithm of its value, or none with a reason."""

from __future__ import annotations

import math

from assocmem.contract.estimate import Prediction
from assocmem.theory.domain import EPS

_LOG_MAX = math.log(1.7976931348623157e308)


def none(quantity: str, reason: str, *, statistic: str = "rms", regime: str = "", source: str = "") -> Prediction:
    """Return the answer "none": no theory, or no finite value, and why.

    >>> none("capacity", "the rule is not linear in its values").value is None
    True
    """
    return Prediction(quantity, None, statistic, regime, source, reason=reason)


def predict(
    quantity: str,
    log_value: float,
    *,
    regime: str,
    source: str,
    statistic: str = "rms",
    exact: bool = True,
    error: float = 0.0,
) -> Prediction:
    """Return the Prediction whose value is e^log_value.

    Parameters: `log_value`, -inf for an exact 0; `error`, a bound on the absolute error of `log_value`, to which
    rounding is added (None in the answer where it is unknown). The value is given to the 15 digits that log space
    carries. Where it leaves the range of floats it is None (above) or 0.0 (below), and `log_value` still holds it.
    """
    if log_value == -math.inf:
        return Prediction(quantity, 0.0, statistic, regime, source, exact=exact, error=0.0)
    error += 2 * EPS * (2 + abs(log_value)) + 5e-15
    bound = math.expm1(error) if error < 1 else None
    if log_value > _LOG_MAX:
        reason = f"the value, e^{log_value:.6g}, is beyond the range of floats; its logarithm is given"
        return Prediction(quantity, None, statistic, regime, source, log_value, exact, bound, reason)
    value = float(f"{math.exp(log_value):.15g}")
    return Prediction(quantity, value, statistic, regime, source, log_value, exact, bound)


def known(quantity: str, value: float, source: str) -> Prediction:
    """Return a value that is the same in every trial, so its median too."""
    log = math.log(value) if value else -math.inf
    return Prediction(quantity, value, "median", "unit keys", source, log)


def plus_one(log_x: float) -> float:
    """Return ln(1 + x) from ln x, without overflow."""
    return log_x + math.log1p(math.exp(-log_x)) if log_x > 0 else math.log1p(math.exp(log_x))


def power(log: float) -> str:
    """Return e^log as sentences write it, to four digits, as a power of e where it leaves the range of floats."""
    return f"{math.exp(log):.4g}" if abs(log) < 700 else f"e^{log:.5g}"


def plain(value: float) -> str:
    """Return a number as sentences write it: whole with separators from a thousand, a power of ten from 1e15.

    >>> plain(1e6), plain(12.34567), plain(2.1e20)
    ('1,000,000', '12.3457', '2.1e20')
    """
    if 1000 <= abs(value) < 1e15:
        return f"{value:,.0f}"
    return f"{value:.6g}".replace("e+", "e").replace("e-0", "e-")
