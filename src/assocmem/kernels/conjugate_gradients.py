"""Conjugate gradients for many right-hand sides at once: solve A x = q for symmetric positive definite A."""

from __future__ import annotations

from collections.abc import Callable

from assocmem.contract import arrays as ar
from assocmem.contract.arrays import Array


def conjugate_gradient(
    product: Callable[[Array], Array], rows: Array, diagonal: Array, *, max_steps: int, tolerance: float
) -> tuple[Array, Array]:
    """Return solutions x (..., m, d) of A x = q for each row q, and the relative residuals |A x - q| / |q| (..., m).

    Parameters
    ----------
    product: maps rows x (..., m, d) to A x; A may differ from row to row. diagonal: (..., d) or (..., m, d), that of A,
        by which the start x = q / diagonal is made.
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
