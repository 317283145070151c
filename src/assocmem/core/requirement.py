"""Checks of a store's settings: one sentence that names the setting, what it must be, and what came."""

from __future__ import annotations

import math

from assocmem.core.errors import InputError


def is_number(x: object) -> bool:
    """Say whether `x` is a finite Python number (bools are not)."""
    return isinstance(x, int | float) and not isinstance(x, bool) and math.isfinite(x)


def is_whole(x: object, least: int = 1) -> bool:
    """Say whether `x` is a Python whole number >= `least` (bools are not)."""
    return isinstance(x, int) and not isinstance(x, bool) and x >= least


def require(fits: bool, name: str, store: object, words: str, got: object) -> None:
    """Raise InputError, "`name` of Store must be words; got ...", unless the setting fits.

    >>> require(False, "rate", "a doctest", "a number > 0", -1)
    Traceback (most recent call last):
    assocmem.core.errors.InputError: `rate` of a doctest must be a number > 0; got -1.
    """
    if not fits:
        where = store if isinstance(store, str) else type(store).__name__
        raise InputError(f"`{name}` of {where} must be {words}; got {got!r}.")


def require_gate(
    store: object, name: str, value: object, *, words: str = "a number in [0, 1]", fits: bool = True
) -> None:
    """Raise InputError unless `value`, a store's number for every pair, lies in [0, 1] and `fits`."""
    inside = is_number(value) and 0 <= value <= 1  # type: ignore[operator]  # a number by the first half
    if not (inside and fits):
        where = type(store).__name__
        raise InputError(
            f"`{name}` of {where} must be {words}; got {value!r}. One for each pair is given to write: "
            f"write(state, keys, values, {name}=...)."
        )
