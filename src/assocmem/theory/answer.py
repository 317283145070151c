"""How theory answers: the numbers it is asked about, checked; a value from its logarithm, or none with a reason."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from assocmem.contract.errors import InputError
from assocmem.contract.estimate import Prediction

EPS = 2.0**-52
_LOG_MAX = math.log(1.7976931348623157e308)

# ------------------------------------------------------------------ what is asked


def checked_width(d: float) -> float:
    """Return `d` as a float: 1, or any finite number >= 2.

    Keys of whole width are meant; a fractional d >= 2 (an effective dimension) is accepted because every formula
    here holds for real d.
    """
    d = _number("d", d)
    if not (d == 1 or d >= 2):
        raise InputError(f"`d` must be 1 or a finite number >= 2; got {d!r}.")
    return d


def checked_memories(n_memories: float) -> float:
    """Return the number of memories M as a float in [1, 1e308]; it counts the target."""
    n = _number("n_memories", n_memories)
    if n < 1:
        raise InputError(f"`n_memories` counts the target and must be >= 1; got {n_memories!r}.")
    return n


def checked_cosine(cosine: float, d: float) -> float:
    """Return the cosine between query and stored key, in [-1, 1]; for d = 1 it can only be 1 or -1."""
    c = _number("cosine", cosine)
    if not -1 <= c <= 1:
        raise InputError(f"`cosine` must lie in [-1, 1]; got {cosine!r}.")
    if d == 1 and abs(c) != 1:
        raise InputError(f"`cosine` must be 1 or -1 where d = 1, as there are only two unit keys; got {cosine!r}.")
    return c


def checked_ratio(ratio: float) -> float:
    """Return the wanted interference-to-signal ratio, a finite number > 0."""
    r = _number("ratio", ratio)
    if r <= 0:
        raise InputError(f"`ratio` must be > 0; got {ratio!r}.")
    return r


def checked_age(age: Any, n_memories: float | None = None) -> int:
    """Return `age`, a whole number >= 0 and below M where that is given."""
    if isinstance(age, bool) or not isinstance(age, int | np.integer) or age < 0:
        raise InputError(f"`age` must be a whole number >= 0; got {age!r}.")
    if n_memories is not None and age >= n_memories:
        raise InputError(f"`age` must be below n_memories = {n_memories:g}, the target counted; got {age}.")
    return int(age)


def _number(name: str, value: Any) -> float:
    try:
        number = float(value)
    except OverflowError as error:
        raise InputError(f"`{name}` must be below 1e308; got a larger whole number.") from error
    except (TypeError, ValueError) as error:
        raise InputError(f"`{name}` must be a number; got {value!r}.") from error
    if isinstance(value, bool | str) or not math.isfinite(number):
        raise InputError(f"`{name}` must be a finite number; got {value!r}.")
    return number


def regime(d: float, cosine: float = 1.0) -> str:
    """Return the words for the setting of every exact prediction for uniform unit keys."""
    query = "query = the stored key" if cosine == 1 else f"query at cosine {cosine:g} to its key"
    return f"independent uniform unit keys, d = {d:g}, {query}, random values; M counts the target"


# ------------------------------------------------------------------ what is answered


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
    return Prediction(quantity, value, "median", "unit keys", source, log_of(value))


def log_others(n: float) -> float:
    """Return ln(M - 1), -inf for M = 1."""
    return math.log(n - 1) if n > 1 else -math.inf


def log_of(x: float) -> float:
    """Return ln x, -inf for x <= 0."""
    return math.log(x) if x > 0 else -math.inf


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
