"""The k largest of many scores, and of scores that two lists of sub-keys span as a grid: two stages instead of n^2.

Equal scores go by their index, the lower first. A sum of halves is compared as it is rounded, so that two stages can
differ from all n^2 sums only where rounding alone makes unequal sums equal.
"""

from __future__ import annotations

from assocmem.contract import arrays as ar
from assocmem.contract.arrays import Array, top_k


def best_first(ids: Array, scores: Array) -> tuple[Array, Array]:
    """Return ascending ids (..., k) and their scores with the largest score first, equal ones by id."""
    xp = ar.namespace(scores)
    order = xp.argsort(-scores, axis=-1, stable=True)
    return xp.take_along_axis(ids, order, axis=-1), xp.take_along_axis(scores, order, axis=-1)


def top_of_sums(first: Array, second: Array, k: int) -> tuple[Array, Array]:
    """Return ids and scores of the k largest first_i + second_j, best first: exact, without the n m sums.

    Parameters
    ----------
    first (..., n), second (..., m): scores of both halves. The id of (i, j) is i m + j.

    Returns ids (..., k) and scores (..., k), fewer where n m < k. A pair among the k best has halves among the k best
    of theirs, so k^2 sums hold all of them. Cost: k^2 sums a row.

    >>> import numpy as np
    >>> ids, scores = top_of_sums(np.array([0.0, 2.0, 1.0]), np.array([0.5, 0.0]), 3)
    >>> ids.tolist(), scores.tolist()
    ([2, 3, 4], [2.5, 2.0, 1.5])
    """
    xp, width = ar.namespace(first), int(second.shape[-1])
    rows, columns = top_k(first, k), top_k(second, k)
    above, below = xp.take_along_axis(first, rows, axis=-1), xp.take_along_axis(second, columns, axis=-1)
    return _picked(above[..., :, None] + below[..., None, :], rows, columns, width, k)


def top_of_grid(
    first: Array, second: Array, core: Array, lists: tuple[Array, Array] | None, k: int
) -> tuple[Array, Array]:
    """Return ids and scores of the k largest S = first C second^T that two lists of candidates hold, best first.

    Parameters
    ----------
    first (..., n, r), second (..., m, r): components of the sub-keys' scores. core: C, (..., r, r).
    lists: a score (..., n) and (..., m) of each sub-key by itself; the best k of each are the candidates. None for all.

    The id of (i, j) is i m + j. Exact over the candidates; over the whole grid only where the lists have all n and m,
    or where S is the product of two non-negative lists. Cost: n r + m r + k^2 r a row.
    """
    width = int(second.shape[-2])
    by, most = ((first[..., 0], second[..., 0]), max(int(first.shape[-2]), width)) if lists is None else (lists, k)
    rows, columns = top_k(by[0], most), top_k(by[1], most)
    own = taken(first, rows) @ core @ ar.transpose(taken(second, columns))
    return _picked(own, rows, columns, width, k)


def taken(rows: Array, ids: Array) -> Array:
    """Return rows (..., n, r) at ids (..., k) as (..., k, r), where the leading axes are the same."""
    xp = ar.namespace(rows)
    index = xp.broadcast_to(ids[..., None], (*ids.shape, int(rows.shape[-1])))
    return xp.take_along_axis(rows, index, axis=-2)


def _picked(grid: Array, rows: Array, columns: Array, width: int, k: int) -> tuple[Array, Array]:
    xp = ar.namespace(grid)
    flat = xp.reshape(grid, (*grid.shape[:-2], int(grid.shape[-2]) * int(grid.shape[-1])))
    at = top_k(flat, k)
    across = int(columns.shape[-1])
    ids = xp.take_along_axis(rows, at // across, axis=-1) * width + xp.take_along_axis(columns, at % across, axis=-1)
    return best_first(ids, xp.take_along_axis(flat, at, axis=-1))


def softmax(scores: Array) -> Array:
    """Return e^s over its sum along the last axis, without overflow."""
    xp = ar.namespace(scores)
    powers = xp.exp(scores - ar.constant(xp.max(scores, axis=-1, keepdims=True)))
    return powers / xp.sum(powers, axis=-1, keepdims=True)
