"""Whether an argument is a number, or a whole one."""

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


def require_bool(name: str, owner: str, got: object) -> None:
    """Raise InputError unless `got` is True or False: a text such as "no" would count as true.

    >>> require_bool("bias", "a doctest", "no")
    Traceback (most recent call last):
    assocmem.contract.errors.InputError: `bias` of a doctest must be True or False; got 'no'.
    """
    if not isinstance(got, bool | np.bool_):
        raise InputError(f"`{name}` of {owner} must be True or False; got {got!r}.")
