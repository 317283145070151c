"""The causal form of least squares: the recall after every pair of a block, from a few matrix products.

The factor of the first i pairs' system is the leading part of the factor of the whole block, so one factorisation
serves all of them, as a sum over the pairs that came before does in linear attention. Below d_k pairs the rows are made
orthogonal one after the other; above, new pairs correct what is known by what they see of its error.
"""

from __future__ import annotations

import math

from assocmem.contract import arrays as ar
from assocmem.contract.arrays import Array

RANK_MARGIN = 2.0
"""Singular values must exceed the share that counts as zero this many times, so that all of them count."""
ERROR = 2e-11
"""Largest relative error of the block form in float64, estimated as squared condition number times rounding unit."""
SHARE_OF_ROUNDING = 0.1
"""Its share of the rounding unit of coarser states."""


def least_squares_scan(
    known: tuple[Array, Array],
    pairs: tuple[Array, Array],
    queries: Array,
    *,
    ridge: float,
    cut: float,
    own: bool,
    least: Array | None = None,
) -> tuple[Array | None, Array | None]:
    """Return the recalls (..., b, d_v) of least squares of the known pairs and of those up to each query's own.

    Parameters
    ----------
    known: rows (..., r, d) and targets (..., r, d_v) of the system before the block, r <= d.
    pairs: keys (..., b, d) and values (..., b, d_v) of the block; at r < d no more than d - r of them.
    queries: (..., b, d), one for each pair. own: whether a query sees its own pair.
    ridge, cut: as `linear_systems.solve` takes them. least: (...) that no singular value of the rows is below.

    In float64 whatever comes, returned in the dtype of the values. None where a direction may count as zero on the way,
    or where the block form would lose digits: the answer of smallest norm is then found step by step. Beside it what
    may be given as `least` after this block: from d pairs on, further ones never lower a singular value.
    Cost: (r + b) d^2 + b^2 (d + d_v).
    """
    xp, dtype = ar.namespace(queries), pairs[1].dtype
    rows, targets, keys, values, x = (xp.astype(a, xp.float64) for a in (*known, *pairs, queries))
    unit = float(xp.finfo(xp.float64).eps)
    accurate = math.sqrt(max(ERROR, SHARE_OF_ROUNDING * float(xp.finfo(dtype).eps)) / unit)
    growing = rows.shape[-2] < rows.shape[-1]
    held = xp.concat([rows, keys], axis=-2)
    largest = xp.sqrt(xp.sum(ar.constant(held) ** 2, axis=(-2, -1)))
    share = RANK_MARGIN * cut if growing else max(RANK_MARGIN * cut, 1 / accurate)
    if least is None or growing or not bool(xp.all(least > share * largest)):
        singular = xp.linalg.svdvals(ar.constant(held if growing else rows))
        added = 0.0 if growing else xp.sum(ar.constant(keys) ** 2, axis=(-2, -1))
        least, largest = singular[..., -1], xp.sqrt(singular[..., 0] ** 2 + added)
        if not bool(xp.all(least > share * largest)):
            return None, None if growing else least
    out = (_below if growing else _above)(rows, targets, keys, values, x, ridge, own)
    return xp.astype(out, dtype), None if growing else least


def _below(rows: Array, targets: Array, keys: Array, values: Array, x: Array, ridge: float, own: bool) -> Array:
    """Return the recalls while there are no more pairs than d_k: K^T = Q R, W^T = Q R^-T V."""
    xp = ar.namespace(x)
    held, wanted = xp.concat([rows, keys], axis=-2), xp.concat([targets, values], axis=-2)
    q, r = xp.linalg.qr(_over(ar.transpose(held), ridge), mode="reduced")
    corrections = xp.linalg.solve(ar.transpose(r), wanted)
    return _summed(x @ q[..., : x.shape[-1], :], corrections, int(rows.shape[-2]), own)


def _above(rows: Array, targets: Array, keys: Array, values: Array, x: Array, ridge: float, own: bool) -> Array:
    """Return the recalls where the known pairs fix every direction.

    With A = rows^T rows + ridge and W of the known pairs, f(x) = W x + (V - W K)^T (I + K A^-1 K^T)^-1 K A^-1 x.
    """
    xp = ar.namespace(x)
    n, b, r = int(rows.shape[-2]), int(keys.shape[-2]), rows
    if ridge or n > rows.shape[-1]:
        q, r = xp.linalg.qr(_over(rows, ridge), mode="reduced")
        targets = ar.transpose(q[..., :n, :]) @ targets
    before = xp.linalg.solve(r, targets)
    both = ar.transpose(xp.linalg.solve(ar.transpose(r), ar.transpose(xp.concat([keys, x], axis=-2))))
    seen, asked = both[..., :b, :], both[..., b:, :]
    factor = xp.linalg.cholesky(seen @ ar.transpose(seen) + xp.eye(b, dtype=x.dtype, device=ar.device_of(x)))
    given = xp.concat([seen @ ar.transpose(asked), values - keys @ before], axis=-1)
    solved = xp.linalg.solve(factor, given)
    return x @ before + _summed(ar.transpose(solved[..., :b]), solved[..., b:], 0, own)


def _over(matrix: Array, ridge: float) -> Array:
    """Return the matrix (..., r, c) over sqrt(ridge) I (c, c)."""
    xp, width = ar.namespace(matrix), int(matrix.shape[-1])
    if not ridge:
        return matrix
    eye = math.sqrt(ridge) * xp.eye(width, dtype=matrix.dtype, device=ar.device_of(matrix))
    return xp.concat([matrix, xp.broadcast_to(eye, (*matrix.shape[:-2], width, width))], axis=-2)


def _summed(weights: Array, rows: Array, known: int, own: bool) -> Array:
    """Return the weights' sums of rows: query i's over the first known + i of them, and its own if it sees that."""
    return ar.namespace(weights).tril(weights, k=known if own else known - 1) @ rows
