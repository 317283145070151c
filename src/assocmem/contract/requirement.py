"""Checks of a store's settings: one sentence that names the setting, what it must be, and what came."""

from __future__ import annotations

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


def require(fits: bool, name: str, store: object, words: str, got: object) -> None:
    """Raise InputError, "`name` of Store must be words; got ...", unless the setting fits.

    >>> require(False, "rate", "a doctest", "a number > 0", -1)
    Traceback (most recent call last):
    assocmem.contract.errors.InputError: `rate` of a doctest must be a number > 0; got -1.
    """
    if not fits:
        where = store if isinstance(store, str) else type(store).__name__
        raise InputError(f"`{name}` of {where} must be {words}; got {got!r}.")


def require_bool(name: str, store: object, got: object) -> None:
    """Raise InputError unless `got` is True or False: a text such as "no" would count as true.

    >>> require_bool("bias", "a doctest", "no")
    Traceback (most recent call last):
    assocmem.contract.errors.InputError: `bias` of a doctest must be True or False; got 'no'.
    """
    require(isinstance(got, bool | np.bool_), name, store, "True or False", got)


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


def with_python_numbers(store: object) -> None:
    """Turn NumPy's scalars among a frozen dataclass's fields into Python's numbers, which never widen a dtype.

    >>> from assocmem.maps.activations import ReLU
    >>> ReLU(power=np.float32(2)).power
    2.0
    """
    for name in getattr(store, "__dataclass_fields__", {}):
        value = getattr(store, name, None)
        if isinstance(value, np.generic) and value.dtype.kind in "biuf":
            object.__setattr__(store, name, value.item())
