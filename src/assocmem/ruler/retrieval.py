"""Retrieval: picking the right one of C candidate values, another question than reading back a clean vector."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from assocmem.contract.arrays import Array, to_numpy
from assocmem.contract.errors import InputError
from assocmem.ruler.capacity import Capacity, crossing_of_curve
from assocmem.ruler.estimate import summarise_shares
from assocmem.ruler.ratio import checked_indices, checked_numbers

_BLOCK = 1 << 22


def top1_right(
    recalls: Array, candidates: Array, targets: Sequence[int] | Array
) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Say for every recall whether its largest inner product is with the right candidate, and with it alone.

    Parameters
    ----------
    recalls : array (..., m, d_v)
        What the store recalled.
    candidates : array (C, d_v) or (..., C, d_v)
        The values to choose from, all stored values where C = M; or other ones for each item of the recalls' batch.
    targets : sequence of int or array (m,) or (..., m)
        The row of the right one. A tie with another candidate counts as wrong.

    Returns
    -------
    bool array (..., m)
        True for right.

    Raises
    ------
    InputError
        For shapes and indices that do not fit.
    NonFiniteError
        For NaN.

    Notes
    -----
    Cost: m C d_v multiply-adds an item, in blocks of about 4 million products.

    Examples
    --------
    >>> top1_right(np.array([[0.9, 0.4]]), np.eye(2), [0]).tolist()
    [True]
    """
    rows = checked_numbers(recalls, "recalls", 2)
    values = checked_numbers(candidates, "candidates", 2)
    batch, (m, d_v), count = rows.shape[:-2], rows.shape[-2:], values.shape[-2]
    if values.shape[:-2] not in ((), batch) or count == 0 or values.shape[-1] != d_v:
        wanted = " or ".join(f"({''.join(f'{b}, ' for b in axes)}C, d_v={d_v})" for axes in dict.fromkeys([(), batch]))
        raise InputError(f"`candidates` must have shape {wanted}, C >= 1; got {values.shape}.")
    chosen = checked_indices(targets, m, count, batch)
    # One set of candidates takes one product for all items.
    shape = (1, math.prod(batch) * m) if values.ndim == 2 else (math.prod(batch), m)
    rows, chosen = rows.reshape(*shape, d_v), np.broadcast_to(chosen, (*batch, m)).reshape(shape)
    values = values.reshape(shape[0], count, d_v)
    out = np.empty(rows.shape[:-1], dtype=np.bool_)
    items, step = max(1, _BLOCK // (rows.shape[1] * count or 1)), max(1, _BLOCK // count)
    for first in range(0, rows.shape[0], items):
        item = slice(first, first + items)
        across = np.swapaxes(values[item].astype(np.float64), -1, -2)
        for start in range(0, rows.shape[1], step):
            block = item, slice(start, start + step)
            products, right = rows[block].astype(np.float64) @ across, chosen[block][..., None]
            own = np.take_along_axis(products, right, axis=-1)
            np.put_along_axis(products, right, -np.inf, axis=-1)
            out[block] = (own > products.max(axis=-1, keepdims=True))[..., 0]
    return out.reshape(*batch, m)


def retrieval_definition(candidates: int | None = None, share: float = 0.95) -> str:
    """Return the definition of the retrieval capacity in words.

    Parameters
    ----------
    candidates : int, optional
        C >= 2; by default all M values.
    share : float
        Of right recalls that is asked for, in (0, 1).

    Returns
    -------
    str
        With the number of candidates and the share.

    Raises
    ------
    InputError
        For numbers out of range.

    Examples
    --------
    >>> retrieval_definition(1000)[:56]
    'retrieval capacity (95 % right of C = 1000 candidates): '
    """
    if not 0 < share < 1:
        raise InputError(f"`share` must lie between 0 and 1; got {share!r}.")
    if candidates is not None and (isinstance(candidates, bool) or int(candidates) != candidates or candidates < 2):
        raise InputError(f"`candidates` must be a whole number >= 2, or None for all M values; got {candidates!r}.")
    number = "M" if candidates is None else str(int(candidates))
    return (
        f"retrieval capacity ({100 * share:g} % right of C = {number} candidates): the largest M at which at least "
        f"{100 * share:g} % of recalls have their largest inner product with the right one of C = {number} values"
    )


def retrieval_capacity(
    memories: Sequence[float] | Array,
    per_trial: Sequence[Sequence[float]] | Array,
    *,
    recalls_per_trial: int | Sequence[int],
    candidates: int | None = None,
    share: float = 0.95,
    seed: int = 0,
    sampler: str = "",
    level: float = 0.95,
) -> Capacity:
    """Return the M up to which at least `share` of the recalls are right.

    The crossing and its interval are found as in `crossing_of_curve`. Its definition names C and the share, so that it
    cannot come into one column with the capacity of the ratio.

    Parameters
    ----------
    memories : sequence of float or array (k,)
        Increasing numbers of memories.
    per_trial : array (trials, k)
        Each trial's share of right recalls at each M, in [0, 1].
    recalls_per_trial : int or sequence of int
        Recalls behind each share, one number or one for each M.
    candidates : int, optional
        C; by default C = M.
    share : float
        Of right recalls that is asked for, in (0, 1).
    seed, sampler, level
        As for `summarise`.

    Returns
    -------
    Capacity
        Its `threshold` is the share of wrong recalls allowed, its `ratio_there` the share of wrong ones at the largest
        M.

    Raises
    ------
    InputError
        For shapes that do not fit and numbers out of range.
    """
    table = np.asarray(per_trial if isinstance(per_trial, list | tuple) else to_numpy(per_trial), dtype=np.float64)
    if table.ndim != 2:
        raise InputError(f"`per_trial` must have shape (trials, k); got {table.shape}.")
    if np.isnan(table).any() or (table < 0).any() or (table > 1).any():
        raise InputError("`per_trial` must hold shares of right recalls in [0, 1].")
    definition = retrieval_definition(candidates, share)
    counts = np.asarray(recalls_per_trial)
    if counts.shape not in ((), (table.shape[1],)) or counts.dtype.kind not in "iu":
        raise InputError(
            f"`recalls_per_trial` must be one whole number or {table.shape[1]}; got {recalls_per_trial!r}."
        )
    each = np.broadcast_to(counts, table.shape[1:]).tolist()
    curve = [
        summarise_shares(1 - column, count, definition=definition, seed=seed, sampler=sampler, level=level)
        for column, count in zip(table.T, each, strict=True)
    ]
    found = crossing_of_curve(memories, curve, 1 - share, unit="share of wrong recalls")
    return replace(found, statistic="share")
