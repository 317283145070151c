"""Recall over many stored pairs in blocks, so that working memory does not grow with pairs times queries.

A query may see all pairs, those of a boolean mask, or (in a causal scan) a growing prefix. `weighted_sum` is the
loop that every store of the form V^T σ(Kx) shares; normalised weights have their own in `kernels.attention`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from assocmem.contract import arrays as ar
from assocmem.contract.arrays import Array, DType, Namespace
from assocmem.contract.recall import Causal, Visible

TILE_NUMBERS = 2**20
"""Numbers in one block of weights: 4 MB in float32."""
MAX_ROWS = 1024
"""Queries in one block."""
BLOCK_NUMBERS = 2**21
"""Numbers of keys and values in one block, which may have to be copied to another dtype."""
MIN_COLUMNS = 64
"""Pairs in one block where there are as many, however many batch items share it."""


def tiles(n_queries: int, n_pairs: int, items: int = 1, width: int = 1) -> Iterator[tuple[slice, list[slice]]]:
    """Yield blocks of queries, each with the blocks of pairs to go through.

    Parameters: items, batch items that share a block; width, numbers that are kept per pair.
    """
    items = max(1, items)
    rows = max(1, min(n_queries, MAX_ROWS // items))
    columns = max(MIN_COLUMNS, min(TILE_NUMBERS // (rows * items), BLOCK_NUMBERS // (items * max(1, width))))
    pairs = [slice(start, min(start + columns, n_pairs)) for start in range(0, n_pairs, columns)]
    for start in range(0, n_queries, rows):
        yield slice(start, min(start + rows, n_queries)), pairs


def hides_all(visible: Visible, rows: slice, columns: slice) -> bool:
    """Say whether a causal scan hides the whole block (its pairs all come after its queries)."""
    return isinstance(visible, Causal) and columns.start >= visible.first + rows.stop - 1


def mask_of(visible: Visible, rows: slice, columns: slice, xp: Namespace, device: object) -> Array | None:
    """Return the boolean mask of one block, None where it hides nothing."""
    if visible is None:
        return None
    if not isinstance(visible, Causal):
        return visible[..., rows, columns]
    if columns.stop <= visible.first + rows.start:
        return None
    ends = xp.arange(visible.first + rows.start, visible.first + rows.stop, device=device)
    return xp.arange(columns.start, columns.stop, device=device) < ends[:, None]


def working_dtype(dtype: DType, xp: Namespace) -> DType:
    """Return the dtype to compute and accumulate in: float32 for half precision, else `dtype` itself."""
    return xp.float32 if ar.is_half(dtype, xp) else dtype


def in_dtype(x: Array, dtype: DType, xp: Namespace) -> Array:
    """Return `x` in `dtype`, itself where it already is."""
    return x if x.dtype == dtype else xp.astype(x, dtype)


def item_count(*shapes: tuple[int, ...]) -> int:
    """Return how many batch items the broadcast of these leading shapes has."""
    total = 1
    for length in ar.broadcast_shapes(*shapes):
        total *= int(length)
    return total


@dataclass(frozen=True)
class Tile:
    """A block of queries with the blocks of pairs that it goes through."""

    keys: Array
    values: Array
    queries: Array
    visible: Visible
    rows: slice
    pairs: list[slice]
    shape: tuple[int, ...]

    def blocks(self, dtype: DType, xp: Namespace) -> Iterator[tuple[Array, Array, Array | None]]:
        """Yield keys and values of each block in `dtype`, with its mask (None where every query sees all)."""
        device = ar.device_of(self.keys)
        for columns in self.pairs:
            if hides_all(self.visible, self.rows, columns):
                return
            seen = mask_of(self.visible, self.rows, columns, xp, device)
            yield (
                in_dtype(self.keys[..., columns, :], dtype, xp),
                in_dtype(self.values[..., columns, :], dtype, xp),
                seen,
            )


def weighted_sum(
    weigh: Callable[[Array, slice], Array], values: Array, queries: Array, visible: Visible = None
) -> Array:
    """Return sum_j w_j(x) v_j for each query, block by block: V^T σ(Kx) where weigh(x, columns) is σ(K[columns] x).

    Parameters
    ----------
    weigh: function of a block of queries (..., r, d_k) and a slice of the n pairs (c of them), returning their
        weights (..., r, c); the queries come in float32 where `queries` are in half precision.
    values: (*batch, n, d_v). queries: (..., m, d_k), leading axes broadcasting against batch.
    visible: which pairs a query may see.

    Returns (..., m, d_v) in at least float32. Working memory: TILE_NUMBERS weights, whatever n and m are (a torch
    recall that carries gradients keeps its blocks for the backward pass).
    """
    xp = ar.namespace(values)
    dtype = working_dtype(xp.result_type(values.dtype, queries.dtype), xp)
    n, m, lead = int(values.shape[-2]), int(queries.shape[-2]), (tuple(values.shape[:-2]), tuple(queries.shape[:-2]))
    parts = []
    width = int(values.shape[-1]) + int(queries.shape[-1])
    for rows, pairs in tiles(m, n, item_count(*lead), width):
        x = in_dtype(queries[..., rows, :], dtype, xp)
        shape = (*ar.broadcast_shapes(*lead), int(x.shape[-2]), int(values.shape[-1]))
        total = xp.zeros(shape, dtype=dtype, device=ar.device_of(values))
        for columns in pairs:
            if hides_all(visible, rows, columns):
                break
            weights = weigh(x, columns)
            seen = mask_of(visible, rows, columns, xp, ar.device_of(values))
            if seen is not None:
                weights = xp.where(seen, weights, xp.zeros_like(weights))
            total = total + weights @ in_dtype(values[..., columns, :], dtype, xp)
        parts.append(total)
    if not parts:
        return xp.zeros((*ar.broadcast_shapes(*lead), 0, int(values.shape[-1])), dtype=dtype)
    return parts[0] if len(parts) == 1 else xp.concat(parts, axis=-2)
