"""Linear systems: least squares of smallest norm, ridge systems of sums of squares, conjugate gradients.

One rule for all of them says which directions count and which are rounding (`tolerance`, `gram_tolerance`). It follows
the dtype in which the numbers came as well as the one that is computed in, so that a ridge that goes to 0 ends at the
answer of smallest norm without a jump.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from assocmem.contract import arrays as ar
from assocmem.contract.arrays import Array, DType, Namespace
from assocmem.contract.errors import IllConditionedWarning, warn

TOLERANCE = 4.0
"""Singular values below TOLERANCE eps sqrt(width max(n, width)) times the largest count as zero (see `tolerance`)."""
CAME_ROUNDED = 2.0
"""Numbers that came in a dtype of rounding unit eps have no directions below CAME_ROUNDED eps times the largest."""
GRAM_TOLERANCE = 16.0
"""Eigenvalues of a sum of squares below GRAM_TOLERANCE eps times the largest are rounding."""
MARGIN = 128.0
"""A system of sums is solved as it stands where ridge and eigenvalues exceed their rounding MARGIN times."""


def tolerance(n: int, width: int, state: Any) -> float:
    """Return the share of the largest singular value below which one counts as zero, for n pairs.

    state: has the dtype that is computed in, the dtype in which the numbers came (`io_dtype`) and their library `xp`.
    The larger of 4 eps sqrt(width max(n, width)), by which the rounding errors of the folds of a long stream add up
    like a random walk (never more than sqrt(eps), so that coarse dtypes keep their larger directions), and of 2 eps of
    the numbers as they came: rows that were rounded have directions of up to 0.6 eps that are rounding alone.
    """
    eps = float(state.xp.finfo(state.dtype).eps)
    computed = min(TOLERANCE * eps * math.sqrt(width * max(n, width)), math.sqrt(eps))
    return max(computed, CAME_ROUNDED * float(state.xp.finfo(state.io_dtype).eps))


def gram_tolerance(computed: DType, came: DType, xp: Namespace) -> float:
    """Return the share of the largest eigenvalue of a sum of squares below which one is rounding.

    computed, came: dtypes of the sum and of the rows in it, whose share counts squared.
    """
    return max(GRAM_TOLERANCE * float(xp.finfo(computed).eps), (CAME_ROUNDED * float(xp.finfo(came).eps)) ** 2)


def wide(x: Array) -> Array:
    """Return `x` in a dtype that has factorisations: half precision has none and goes to float32."""
    xp = ar.namespace(x)
    return xp.astype(x, ar.state_dtype_for(x.dtype, xp), copy=False)


def solve(matrix: Array, targets: Array | None, *, ridge: float, cut: float) -> Array:
    """Return W^T (..., width, d_v) that minimises |matrix W^T - targets|^2 + ridge |W|^2.

    Parameters
    ----------
    matrix: (..., r, width); targets: (..., r, d_v), None for the identity: the regularised inverse (..., width, r).
    ridge: finite, >= 0.
    cut: directions whose singular value is at most this share of the largest get no weight, at any ridge.

    With ridge 0 the answer of smallest norm. Cost: one singular value decomposition of matrix. Gradients flow and
    are right where the rank that counts is the same nearby.
    """
    xp = ar.namespace(matrix)
    dtype = matrix.dtype if targets is None else targets.dtype
    matrix = wide(matrix)
    apply: Callable[[Array], Array] = lambda a: a if targets is None else a @ wide(targets)  # noqa: E731
    if ridge == 0:
        found = apply(xp.linalg.pinv(matrix, rtol=cut))
    elif ar.carries_gradient(matrix):
        # Through pseudo-inverses alone: their derivatives stay finite where two singular values meet.
        width = int(matrix.shape[-1])
        eye = xp.eye(width, dtype=matrix.dtype, device=ar.device_of(matrix)) * math.sqrt(ridge)
        stacked = xp.concat([matrix, xp.broadcast_to(eye, (*matrix.shape[:-2], width, width))], axis=-2)
        inverse = xp.linalg.pinv(matrix, rtol=cut)
        damped = xp.linalg.pinv(stacked, rtol=0.0)[..., : matrix.shape[-2]]
        found = inverse @ (matrix @ (damped @ (matrix @ apply(inverse))))
    else:
        left, singular, right = xp.linalg.svd(matrix, full_matrices=False)
        counts = singular > cut * singular[..., :1]
        safe = xp.where(counts, singular, xp.ones_like(singular))
        gains = xp.where(counts, 1 / (safe + ridge / safe), xp.zeros_like(singular))
        found = ar.transpose(right) @ (gains[..., None] * apply(ar.transpose(left)))
    return xp.astype(found, dtype)


def solve_gram(gram: Array, rows: Array, *, ridge: float, cut: float) -> Array:
    """Return (gram + ridge I)^-1 q for each query, in the directions of the sum of squares that are not rounding.

    Parameters
    ----------
    gram: (..., d, d), or (..., m, d, d), one for each query. rows q: (..., m, d). ridge: > 0.
    cut: directions whose eigenvalue is at most this share of the largest get no weight, at any ridge.

    As the ridge goes to 0 this goes to the answer of smallest norm. Through a pseudo-inverse, whose derivatives stay
    finite where eigenvalues meet. Cost: one singular value decomposition and one solve of every gram.
    """
    xp, size = ar.namespace(gram), int(gram.shape[-1])
    eye = xp.eye(size, dtype=gram.dtype, device=ar.device_of(gram))
    counts = gram @ xp.linalg.pinv(gram, rtol=cut)
    scale = xp.max(xp.linalg.diagonal(gram), axis=-1)[..., None, None] + ridge
    matrix = counts @ gram @ counts + ridge * eye + scale * (eye - counts)
    columns = rows[..., None] if gram.ndim > rows.ndim else ar.transpose(rows)
    found = counts @ xp.linalg.solve(matrix, counts @ columns)
    return found[..., 0] if gram.ndim > rows.ndim else ar.transpose(found)


def warn_small_ridge(store: str, ridge: float, condition: float, dtype: DType, what: str) -> None:
    """Give IllConditionedWarning that a dtype does not carry systems of this condition number at this ridge."""
    number = 10.0 ** round(math.log10(condition)) if 0 < condition < math.inf else condition
    warn(
        f"{store}: a ridge of {ridge:g} is small for {ar.dtype_name(dtype)} (condition number about {number:.0e}); "
        f"{what}. Raise `ridge`, or use float64.",
        IllConditionedWarning,
    )


def conjugate_gradient(
    product: Callable[[Array], Array], rows: Array, diagonal: Array, *, max_steps: int, tolerance: float
) -> tuple[Array, Array]:
    """Return solutions x (..., m, d) of A x = q for each row q, and the relative residuals |A x - q| / |q| (..., m).

    Parameters
    ----------
    product: maps rows x (..., m, d) to A x; A, symmetric and positive definite, may differ from row to row.
    diagonal: (..., d) or (..., m, d), that of A, by which the start x = q / diagonal is made.
    max_steps: most steps of any row, >= 0. tolerance: relative residual at which a row stands still.

    A row of zeros is solved by zeros. Cost: one product a step, until all rows have converged. Residuals are those
    of the recursion, which follow the true ones down to rounding. Source: Hestenes and Stiefel 1952.
    """
    xp = ar.namespace(rows)
    x = rows / diagonal
    residual = rows - product(x)
    direction = residual
    squares = _dot(residual, residual)
    least = float(xp.finfo(rows.dtype).smallest_normal)
    goal = xp.maximum(tolerance**2 * _dot(rows, rows), xp.full_like(squares, least))
    for _ in range(max_steps):
        running = squares > goal
        if not bool(xp.any(running)):
            break
        image = product(direction)
        curved = _dot(direction, image)
        moving = running & (curved > least)
        step = _ratio(squares, curved, moving)
        x = x + step * direction
        residual = residual - step * image
        after = _dot(residual, residual)
        direction = residual + _ratio(after, squares, moving) * direction
        squares = after
    sizes = _dot(rows, rows)
    return x, xp.sqrt(_ratio(squares, sizes, sizes > least))[..., 0]


def _dot(a: Array, b: Array) -> Array:
    return ar.namespace(a).sum(a * b, axis=-1, keepdims=True)


def _ratio(above: Array, below: Array, where: Array) -> Array:
    """Return above / below where asked for, else 0."""
    xp = ar.namespace(above)
    quotient = above / xp.where(where, below, xp.ones_like(below))
    return xp.where(where, quotient, xp.zeros_like(quotient))
