"""Pairs drawn from two laws, each from its own named stream of one seed."""

from __future__ import annotations

from typing import Any

import numpy as np

from assocmem.contract.errors import InputError
from assocmem.contract.numbers import stream
from assocmem.contract.state import Pairs
from assocmem.inputs.laws import Law, key_law, value_law


def draw_pairs(
    seed: int,
    trial: int,
    n: int,
    d_k: int,
    d_v: int,
    *,
    keys: str | Law = "sphere",
    values: str | Law = "gaussian",
    dtype: Any = np.float64,
) -> Pairs:
    """Return n pairs of trial `trial` under `seed`.

    Keys come from the stream (seed, "keys", trial), values from (seed, "values", trial), so that neither depends on the
    other's size or law, nor on what was drawn before. Numbers are drawn in float64 and then cast.

    Parameters
    ----------
    seed, trial : int
        Whole numbers >= 0 that name the streams.
    n : int
        The number of pairs.
    d_k, d_v : int
        Widths of keys and values.
    keys, values : str or Law
        Their laws, as `key_law` and `value_law` take them.
    dtype : dtype
        "float32" or "float64", or a half type.

    Returns
    -------
    Pairs
        Keys (n, d_k), values (n, d_v) and the laws in words.

    Raises
    ------
    InputError
        For impossible sizes or types.

    Examples
    --------
    >>> pairs = draw_pairs(0, 0, n=5, d_k=8, d_v=3)
    >>> pairs.keys.shape, pairs.values.shape, pairs.law
    ((5, 8), (5, 3), 'keys uniform on the unit sphere; values Gaussian N(0, I/d)')
    """
    try:
        kind = np.dtype(dtype)
    except TypeError:
        raise InputError(f"`dtype` must be a floating dtype of NumPy; got {dtype!r}.") from None
    if kind.kind != "f":
        raise InputError(f"`dtype` must be a floating dtype of NumPy; got {kind}.")
    law_of_keys, law_of_values = key_law(keys), value_law(values)
    drawn_keys = law_of_keys.draw(stream(seed, "keys", trial), n, d_k)
    drawn_values = law_of_values.draw(stream(seed, "values", trial), n, d_v)
    return Pairs(
        drawn_keys.astype(kind, copy=False),
        drawn_values.astype(kind, copy=False),
        law=f"keys {law_of_keys.words}; values {law_of_values.words}",
    )
