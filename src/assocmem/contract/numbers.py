"""Numbers: what counts as one, how one is written, and independent named random streams of them from one seed.

A stream is named by words and whole numbers (``stream(7, "keys", trial)``). The same name gives the same
numbers in every process and on every machine, whatever else was drawn before, and different names give
independent streams (numpy's SeedSequence spawn keys over a hash of the name).
"""

from __future__ import annotations

import hashlib
import math

import numpy as np

from assocmem.contract.errors import InputError


def is_number(x: object) -> bool:
    """Say whether `x` is a finite number, Python's or a NumPy scalar; bools, arrays and ints beyond float64 are not."""
    if isinstance(x, bool) or not isinstance(x, int | float | np.integer | np.floating):
        return False
    try:
        return math.isfinite(x)
    except OverflowError:
        return False


def is_whole(x: object, least: int = 1) -> bool:
    """Say whether `x` is a whole number >= `least`, Python's or a NumPy scalar (bools are not)."""
    return isinstance(x, int | np.integer) and not isinstance(x, bool) and bool(x >= least)


def checked_cosine(cosine: float, name: str = "cosine", low: float = -1.0) -> float:
    """Return `cosine` as a float; InputError unless it lies in [low, 1]."""
    try:
        number = float(cosine)
    except (TypeError, ValueError):
        number = math.nan
    if not low <= number <= 1:
        raise InputError(f"`{name}` must be a number in [{low:g}, 1]; got {cosine!r}.")
    return number


def require_bool(name: str, owner: str, got: object) -> None:
    """Raise InputError unless `got` is True or False: a text such as "no" would count as true.

    >>> require_bool("bias", "a doctest", "no")
    Traceback (most recent call last):
    assocmem.contract.errors.InputError: `bias` of a doctest must be True or False; got 'no'.
    """
    if not isinstance(got, bool | np.bool_):
        raise InputError(f"`{name}` of {owner} must be True or False; got {got!r}.")


def number(value: float | None, *, zeros: bool = False) -> str:
    """Return a number as people write it: four digits, all before the point, or a dash; `zeros` keeps the last ones.

    >>> number(1272264.4), number(0.12345), number(None)
    ('1,272,264', '0.1235', '–')
    """
    if value is None or math.isnan(value):
        return "–"
    if math.isinf(value):
        return "∞" if value > 0 else "-∞"
    size = abs(value)
    if size == 0:
        return "0"
    if size >= 1e15:
        return f"{value:.4g}".replace("e+", "e")
    if size >= 999.95:
        return f"{value:,.0f}"
    return f"{value:{'#' if zeros else ''}.4g}" if size >= 1e-3 else f"{value:.3e}"


def bounded(ratio: float) -> str:
    """Return a ratio as people write it, beyond a million either way by its bound.

    >>> bounded(1.987e155), bounded(0.83), bounded(1e-9)
    ('> 1e6', '0.83', '< 1e-6')
    """
    return "> 1e6" if ratio > 1e6 else "< 1e-6" if 0 < ratio < 1e-6 else number(ratio)


def interval(low: float | None, high: float | None, *, zeros: bool = False) -> str:
    """Return an interval as "low to high", or a dash where there is none."""
    return "–" if low is None or high is None else f"{number(low, zeros=zeros)} to {number(high, zeros=zeros)}"


def stream(seed: int, *name: str | int) -> np.random.Generator:
    """Return the generator called `name` under `seed`.

    Parameters: `seed`, a whole number >= 0; `name`, any words and whole numbers.

    >>> bool((stream(1, "keys", 0).random(3) == stream(1, "keys", 0).random(3)).all())
    True
    >>> bool((stream(1, "keys", 0).random(3) == stream(1, "values", 0).random(3)).any())
    False
    """
    if not is_whole(seed, 0):
        raise InputError(f"`seed` must be a whole number >= 0; got {seed!r}.")
    text = "\x1f".join(f"{type(part).__name__}:{part}" for part in name)
    digest = hashlib.sha256(text.encode()).digest()
    words = tuple(int.from_bytes(digest[i : i + 4], "little") for i in range(0, 16, 4))
    return np.random.Generator(np.random.SFC64(np.random.SeedSequence(int(seed), spawn_key=words)))
