"""The interference-to-signal ratio, by its estimators. Every one is a dimensionless amplitude ratio.

f(k_j) = A_jj v_j + interference. By weights the interference is sqrt(sum over i != j of A_ij^2), by vectors it
is the length of f(k_j) - A_jj v_j; their mean squares over random values of one law agree. The projection is a
third quantity, for stores that are not linear in their values.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

from assocmem.contract.arrays import Array, to_numpy
from assocmem.contract.errors import InputError, NonFiniteError

Floats: TypeAlias = np.ndarray[Any, np.dtype[np.float64]]
Indices: TypeAlias = np.ndarray[Any, np.dtype[np.int64]]

ESTIMATORS = {
    "weights": "interference-to-signal ratio by weights, sqrt(sum over i != j of A_ij^2) / |A_jj|",
    "vectors": "interference-to-signal ratio by vectors, ||f(k_j) - A_jj v_j|| / (|A_jj| ||v_j||)",
    "projection": "projection ratio, ||f(k_j) - c v_j|| / (|c| ||v_j||), c the least-squares coefficient of f on v_j",
}

_BLOCK = 1 << 20


def by_weights(weights: Array, targets: Sequence[int] | Array) -> Floats:
    """Return sqrt(sum over i != j of A_ij^2) / |A_jj| for every query.

    Parameters
    ----------
    weights : array (..., m, n)
        The weight of each of n memories in each of m recalls, of any array library.
    targets : sequence of int or array (m,)
        The index j of the memory that each query asks for.

    Returns
    -------
    float64 array (..., m)
        Ratios: 0 where nothing interferes, infinity where the target has weight zero.

    Raises
    ------
    InputError
        For shapes and indices that do not fit.
    NonFiniteError
        Naming a row with NaN or infinity.

    Notes
    -----
    Cost: one pass, in blocks of about a million weights.

    Examples
    --------
    >>> by_weights(np.array([[3.0, 4.0, 0.0], [0.0, 0.0, 2.0]]), [0, 2]).round(3).tolist()
    [1.333, 0.0]
    """
    rows = checked_numbers(weights, "weights", 2)
    chosen = checked_indices(targets, rows.shape[-2], rows.shape[-1])
    return _split_norms(rows, chosen, 1)


def by_channel_weights(weights: Array, targets: Sequence[int] | Array) -> Floats:
    """Return the ratio of stores with a row of weights for each value channel.

    sqrt(sum over i != j and channels c of A_ijc^2) / sqrt(sum over c of A_jjc^2): the ratio by weights for
    values whose channels have equal mean squares.

    Parameters
    ----------
    weights : array (..., m, n, d_v)
        Of any array library.
    targets : sequence of int or array (m,)
        The index j of the memory that each query asks for.

    Returns
    -------
    float64 array (..., m)
        Ratios; errors and infinities as in `by_weights`, to which it reduces where all channels are alike.
    """
    rows = checked_numbers(weights, "weights", 3)
    chosen = checked_indices(targets, rows.shape[-3], rows.shape[-2])
    return _split_norms(rows, chosen, 2)


def by_vectors(recalls: Array, target_values: Array, own_weights: Array, *, zero_recall: Array | None = None) -> Floats:
    """Return ||f(k_j) - A_jj v_j|| / (|A_jj| ||v_j||) for every query.

    Parameters
    ----------
    recalls : array (..., m, d_v)
        What the store recalled.
    target_values : array (m, d_v) or (..., m, d_v)
        The values that were asked for.
    own_weights : array (..., m) or (..., m, d_v)
        The weight A_jj of the target in its own recall (see `own_weights`), or one for each value channel.
    zero_recall : array (..., m, d_v), optional
        For affine stores what they recall when all values are zero; it is subtracted.

    Returns
    -------
    float64 array (..., m)
        Ratios, infinity where the signal is zero.

    Raises
    ------
    InputError
        For shapes that do not fit.
    NonFiniteError
        Naming a row with NaN or infinity.

    Examples
    --------
    >>> by_vectors(np.array([[1.0, 1.0]]), np.array([[2.0, 0.0]]), np.array([0.5])).tolist()
    [1.0]
    """
    recalled = checked_numbers(recalls, "recalls", 2)
    values = _fitting(target_values, "target_values", recalled.shape)
    own = checked_numbers(own_weights, "own_weights", 1)
    if own.ndim == recalled.ndim - 1:
        own = own[..., None]
    signal = _fitting(own, "own_weights", (*recalled.shape[:-1], own.shape[-1])) * values
    if zero_recall is not None:
        recalled = recalled - _fitting(zero_recall, "zero_recall", recalled.shape)
    return _quotient(_norm(recalled - signal), _norm(signal))


def by_projection(recalls: Array, target_values: Array) -> Floats:
    """Return ||f - c v|| / (|c| ||v||) with c = <f, v> / <v, v>: the projection ratio.

    For stores that are not linear in their values, whose weights A_jj do not exist. It is a quantity of its own:
    only its median is used, and above 1 it parts company with the other estimators, because a long interference
    has a share along v that it takes for signal.

    Parameters
    ----------
    recalls : array (..., m, d_v)
        What the store recalled.
    target_values : array (m, d_v) or (..., m, d_v)
        The values that were asked for, without zero rows.

    Returns
    -------
    float64 array (..., m)
        Ratios, infinity where f is orthogonal to v.

    Raises
    ------
    InputError
        For shapes that do not fit, and for zero rows.
    """
    recalled = checked_numbers(recalls, "recalls", 2)
    values = _fitting(target_values, "target_values", recalled.shape)
    lengths = _norm(values)
    if not lengths.all():
        row = int(np.argwhere(lengths == 0)[0][-1])
        raise InputError(f"`target_values` must not hold zero rows for the projection ratio; row {row} is zero.")
    units = values / lengths[..., None]
    along = np.sum(recalled * units, axis=-1)
    return _quotient(_norm(recalled - along[..., None] * units), np.abs(along))


def checked_indices(targets: Sequence[int] | Array, m: int, n: int, batch: tuple[int, ...] = ()) -> Indices:
    """Return `targets` as int64 (m,) or (*batch, m); InputError unless they are whole numbers in [0, n)."""
    indices = np.asarray(targets if isinstance(targets, list | tuple) else to_numpy(targets))
    if m == 0 and indices.size == 0:
        return np.zeros(0, dtype=np.int64)
    if indices.shape not in ((m,), (*batch, m)) or indices.dtype.kind not in "iu":
        raise InputError(
            f"`targets` must be {m} whole numbers, one for every query; "
            f"got shape {indices.shape}, dtype {indices.dtype}."
        )
    if indices.min() < 0 or indices.max() >= n:
        raise InputError(f"`targets` must lie in [0, {n}), the stored pairs; got {indices.min()} to {indices.max()}.")
    return indices.astype(np.int64)


def _split_norms(rows: Floats, chosen: Indices, axes: int) -> Floats:
    """Return, for every query, the norm of its last `axes` axes without the target's part over the norm of that."""
    leading, shape = rows.shape[: -axes - 1], rows.shape[-axes:]
    flat = rows.reshape(math.prod(leading), *rows.shape[-axes - 1 :])
    out = np.empty(flat.shape[:2])
    step = max(1, _BLOCK // max(1, math.prod(shape)))
    for item in range(flat.shape[0]):
        for start in range(0, chosen.size, step):
            block = flat[item, start : start + step].astype(np.float64)
            picked = np.arange(block.shape[0]), chosen[start : start + step]
            own = _norm(block[picked].reshape(block.shape[0], -1))
            block[picked] = 0.0
            out[item, start : start + step] = _quotient(_norm(block.reshape(block.shape[0], -1)), own)
    return out.reshape(*leading, chosen.size)


def _norm(x: Floats) -> Floats:
    """Return the length of the rows of `x`, without overflow or underflow of the squares."""
    top = np.max(np.abs(x), axis=-1, keepdims=True, initial=0.0)
    scale = np.where(top > 0, top, 1.0)
    return np.asarray(top[..., 0] * np.sqrt(np.sum((x / scale) ** 2, axis=-1)), dtype=np.float64)


def _quotient(noise: Floats, signal: Floats) -> Floats:
    """Return noise / signal, infinity where the signal is zero."""
    with np.errstate(over="ignore"):
        quotient = noise / np.where(signal > 0, signal, 1.0)
    return np.asarray(np.where(signal > 0, quotient, np.inf), dtype=np.float64)


def checked_numbers(x: Array, name: str, axes: int) -> Floats:
    """Return finite real numbers with at least `axes` axes as a NumPy array; float32 stays, to save memory."""
    array = np.asarray(to_numpy(x) if hasattr(x, "__dlpack__") else x)
    if array.ndim < axes or array.dtype.kind not in "fiub":
        raise InputError(
            f"`{name}` must hold real numbers with at least {axes} axes; got shape {array.shape}, dtype {array.dtype}."
        )
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        at = np.argwhere(~np.isfinite(array))[0]
        place = int(at[0]) if at.size < 3 else tuple(int(i) for i in at[:-1])
        raise NonFiniteError(f"`{name}` must be finite; row {place} holds NaN or infinity.")
    if array.dtype.kind == "f" and array.dtype.itemsize >= 4:
        return array
    return np.asarray(array, dtype=np.float64)


def _fitting(x: Array, name: str, shape: tuple[int, ...]) -> Floats:
    array = np.asarray(checked_numbers(x, name, 1), dtype=np.float64)
    try:
        return np.broadcast_to(array, shape)
    except ValueError:
        raise InputError(f"`{name}` must have shape {shape}, like the recalls; got {array.shape}.") from None
