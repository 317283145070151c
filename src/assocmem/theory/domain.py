"""The numbers that theory is asked about, checked once: width, memories, cosine, ratio."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from assocmem.contract.errors import InputError

EPS = 2.0**-52


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


def log_others(n: float) -> float:
    """Return ln(M - 1), -inf for M = 1."""
    return math.log(n - 1) if n > 1 else -math.inf


def regime(d: float, cosine: float = 1.0) -> str:
    """Return the words for the setting of every exact prediction here."""
    query = "query = the stored key" if cosine == 1 else f"query at cosine {cosine:g} to its key"
    return f"independent uniform unit keys, d = {d:g}, {query}, random values; M counts the target"


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
