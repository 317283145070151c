"""The least-squares solution of smallest norm, by one rule for which directions count."""

from __future__ import annotations

import math
from typing import Any

from assocmem.contract import arrays as ar
from assocmem.contract.arrays import Array, Namespace

TOLERANCE = 4.0
"""Singular values below TOLERANCE eps sqrt(width max(n, width)) times the largest count as zero (see `tolerance`)."""


def tolerance(n: int, width: int, dtype: Any, xp: Namespace) -> float:
    """Return the share of the largest singular value below which one counts as zero, for n pairs.

    4 eps sqrt(width max(n, width)): rounding errors of the folds of a long stream add up like a random walk. Never
    more than sqrt(eps), so that coarse dtypes keep their larger directions.
    """
    eps = float(xp.finfo(dtype).eps)
    return min(TOLERANCE * eps * math.sqrt(width * max(n, width)), math.sqrt(eps))


def solve(matrix: Array, targets: Array, *, ridge: float, cut: float) -> Array:
    """Return W^T (..., width, d_v) that minimises |matrix W^T - targets|^2 + ridge |W|^2.

    Parameters
    ----------
    matrix: (..., r, width); targets: (..., r, d_v). ridge: finite, >= 0.
    cut: directions whose singular value is at most this share of the largest get no weight, at any ridge.

    With ridge 0 the answer of smallest norm. Cost: one singular value decomposition of matrix. Gradients flow and
    are right where the rank that counts is the same nearby.
    """
    xp = ar.namespace(matrix)
    dtype = targets.dtype
    matrix, targets = solvable(matrix, xp), solvable(targets, xp)
    if ridge == 0:
        found = xp.linalg.pinv(matrix, rtol=cut) @ targets
    elif ar.carries_gradient(matrix):
        found = _solve_by_inverses(matrix, targets, ridge, cut, xp)
    else:
        left, singular, right = xp.linalg.svd(matrix, full_matrices=False)
        counts = singular > cut * singular[..., :1]
        safe = xp.where(counts, singular, xp.ones_like(singular))
        gains = xp.where(counts, 1 / (safe + ridge / safe), xp.zeros_like(singular))
        found = ar.transpose(right) @ (gains[..., None] * (ar.transpose(left) @ targets))
    return xp.astype(found, dtype)


def _solve_by_inverses(matrix: Array, targets: Array, ridge: float, cut: float, xp: Namespace) -> Array:
    """Return the ridge solution through pseudo-inverses alone.

    Their derivatives stay finite where two singular values meet; those of singular vectors do not.
    """
    width = int(matrix.shape[-1])
    eye = xp.eye(width, dtype=matrix.dtype, device=ar.device_of(matrix)) * math.sqrt(ridge)
    stacked = xp.concat([matrix, xp.broadcast_to(eye, (*matrix.shape[:-2], width, width))], axis=-2)
    inverse = xp.linalg.pinv(matrix, rtol=cut)
    found = xp.linalg.pinv(stacked, rtol=0.0)[..., : matrix.shape[-2]] @ (matrix @ (inverse @ targets))
    return inverse @ (matrix @ found)


def solvable(x: Array, xp: Namespace) -> Array:
    """Return `x` in a dtype that has factorisations: half precision has none and goes to float32."""
    return xp.astype(x, xp.float32) if ar.is_half(x.dtype, xp) else x
