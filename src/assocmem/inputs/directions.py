"""Random directions: unit vectors, and unit vectors at an exact angle to given ones."""

from __future__ import annotations

import math
from typing import Any, TypeAlias

import numpy as np

from assocmem.contract.errors import InputError
from assocmem.contract.numbers import checked_cosine

Floats: TypeAlias = np.ndarray[Any, np.dtype[np.float64]]


def unit_rows(rng: np.random.Generator, n: int, d: int) -> Floats:
    """Return n vectors uniform on the unit sphere and independent.

    Parameters
    ----------
    rng : Generator
        Of NumPy; moved on by n d normal numbers, the cost.
    n, d : int
        Number of rows, and their width >= 1.

    Returns
    -------
    float64 array (n, d)
        Rows of length one.

    Examples
    --------
    >>> rows = unit_rows(np.random.default_rng(0), 3, 8)
    >>> bool(np.allclose(np.linalg.norm(rows, axis=1), 1.0))
    True
    """
    if d == 1:
        return rng.choice(np.array([-1.0, 1.0]), size=(n, 1))
    rows = rng.standard_normal((n, d))
    norms = _lengths(rows)
    while not norms.all():
        empty = norms[:, 0] == 0
        rows[empty] = rng.standard_normal((int(empty.sum()), d))
        norms = _lengths(rows)
    rows /= norms
    return rows


def _lengths(rows: Floats) -> Floats:
    """Return the lengths (n, 1) of rows whose squares neither over- nor underflow."""
    return np.asarray(np.sqrt(np.einsum("ij,ij->i", rows, rows)), dtype=np.float64)[:, None]


def at_cosine(rng: np.random.Generator, rows: Floats, cosine: float) -> Floats:
    """Return for every row r the vector ``|r| (cosine r/|r| + sqrt(1 - cosine^2) u)``, u uniform and orthogonal to r.

    Every result has its row's length and exactly the given cosine with it.

    Parameters
    ----------
    rng : Generator
        Of NumPy; moved on.
    rows : array (..., d)
        Without zero rows.
    cosine : float
        In [-1, 1], dimensionless.

    Returns
    -------
    float64 array (..., d)
        The turned rows.

    Raises
    ------
    InputError
        For another cosine, for zero rows and, in one dimension, for a cosine other than +-1.

    Notes
    -----
    Cost: twice the size of `rows`.
    """
    cosine = checked_cosine(cosine)
    rows = np.asarray(rows, dtype=np.float64)
    d = rows.shape[-1]
    scale = np.max(np.abs(rows), axis=-1, keepdims=True, initial=0.0)
    if not scale.all():
        at = np.argwhere(scale[..., 0] == 0)[0]
        place = int(at[0]) if at.size == 1 else tuple(int(i) for i in at)
        raise InputError(f"`keys` must not hold zero rows where a cosine with them is wanted; row {place} is zero.")
    if abs(cosine) == 1:
        return rows * cosine
    if d < 2:
        raise InputError(f"a cosine of {cosine:g} needs vectors of at least 2 dimensions; got {d}.")
    norms = np.linalg.norm(rows / scale, axis=-1, keepdims=True) * scale
    units = rows / norms
    other = _orthogonal(rng, units)
    turned: Floats = norms * (cosine * units + math.sqrt((1 - cosine) * (1 + cosine)) * other)
    return turned


def _orthogonal(rng: np.random.Generator, units: Floats) -> Floats:
    """Return for every unit vector another, uniform among those orthogonal to it."""
    other = np.asarray(rng.standard_normal(units.shape))
    while True:
        drawn = np.linalg.norm(other, axis=-1)
        for _ in range(2):
            other -= np.sum(other * units, axis=-1, keepdims=True) * units
        left = np.linalg.norm(other, axis=-1)
        # A draw along the vector (as from the stream that made it) leaves nothing but rounding: it is drawn again.
        along = left <= 1e-6 * drawn
        if not along.any():
            return np.asarray(other / left[..., None], dtype=np.float64)
        other[along] = rng.standard_normal((int(along.sum()), units.shape[-1]))
