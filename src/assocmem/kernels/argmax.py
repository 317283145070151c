"""Softmax attention in the limit of infinite sharpness: the pairs with exactly the largest similarity share equally."""

from __future__ import annotations

from assocmem.contract import arrays as ar
from assocmem.contract.arrays import Array, DType, Namespace
from assocmem.contract.errors import RecallOverflowError
from assocmem.contract.recall import Mass, Recall
from assocmem.kernels.blockwise import Tile, in_dtype


def argmax(tile: Tile, dtype: DType, xp: Namespace) -> Recall:
    """Return the tile's recall at beta = inf: the mean value of the pairs with exactly the largest similarity.

    A matrix product finds the pairs within rounding of the maximum; only these are compared exactly, in float64.
    """
    device, wide = ar.device_of(tile.keys), xp.float64
    queries = ar.constant(in_dtype(tile.queries, wide, xp))
    lengths = xp.sqrt(xp.sum(queries * queries, axis=-1))
    unit = 8 * (int(queries.shape[-1]) + 8) * float(xp.finfo(wide).eps)
    peak = xp.full(tile.shape, -float("inf"), dtype=wide, device=device)
    some = xp.zeros(tile.shape, dtype=xp.bool, device=device)
    count = xp.zeros(tile.shape, dtype=wide, device=device)
    sums = xp.zeros((*tile.shape, int(tile.values.shape[-1])), dtype=dtype, device=device)
    for keys, values, seen in tile.blocks(wide, xp):
        keys = ar.constant(keys)
        near = queries @ ar.transpose(keys)
        if seen is not None:
            near = xp.where(seen, near, xp.full_like(near, -float("inf")))
        some = xp.ones_like(some) if seen is None else some | xp.any(seen, axis=-1)
        top = xp.maximum(peak, xp.max(near, axis=-1))
        if not bool(xp.all(top < float("inf"))):
            raise logit_overflow()
        slack = unit * lengths * xp.sqrt(xp.max(xp.sum(keys * keys, axis=-1), axis=-1))[..., None]
        close = (near >= (top - slack)[..., None]) & (near > -float("inf"))
        chosen = xp.nonzero(xp.any(xp.reshape(close, (-1, int(close.shape[-1]))), axis=0))[0]
        if int(chosen.shape[0]) == 0:
            continue
        exact = exact_similarities(queries, xp.take(keys, chosen, axis=-2))
        exact = xp.where(xp.take(close, chosen, axis=-1), exact, xp.full_like(exact, -float("inf")))
        old, peak = peak, xp.maximum(peak, xp.max(exact, axis=-1))
        ties = (exact == peak[..., None]) & (exact > -float("inf"))
        keep = old == peak
        count = xp.where(keep, count, xp.zeros_like(count)) + xp.sum(in_dtype(ties, wide, xp), axis=-1)
        fresh = in_dtype(ties, dtype, xp) @ in_dtype(xp.take(values, chosen, axis=-2), dtype, xp)
        sums = xp.where(keep[..., None], sums, xp.zeros_like(sums)) + fresh
    if not bool(xp.all((peak > -float("inf")) | ~some)):
        raise logit_overflow()
    divisor = xp.where(some, count, xp.ones_like(count))
    return Recall(sums / in_dtype(divisor, dtype, xp)[..., None], mass=Mass(peak, count, "largest"))


def argmax_weights(queries: Array, keys: Array, seen: Array | None, dtype: DType, xp: Namespace) -> Array:
    """Return the weights at beta = inf of float64 queries and keys."""
    exact = exact_similarities(queries, keys)
    if seen is not None:
        exact = xp.where(seen, exact, xp.full_like(exact, -float("inf")))
    peak = xp.max(exact, axis=-1)
    some = xp.ones_like(peak, dtype=xp.bool) if seen is None else xp.any(seen, axis=-1)
    if not bool(xp.all(xp.isfinite(peak) | ~some)):
        raise logit_overflow()
    ties = in_dtype((exact == peak[..., None]) & (exact > -float("inf")), dtype, xp)
    total = xp.sum(ties, axis=-1)
    return ties / xp.where(some, total, xp.ones_like(total))[..., None]


def exact_similarities(queries: Array, keys: Array) -> Array:
    """Return queries @ keys^T, (..., m, d_k) and (..., n, d_k) -> (..., m, n), summed in one fixed order.

    Matrix products round differently at different places of a block; here equal keys get equal similarities
    wherever they stand, which is what makes ties exact. Cost: d_k passes over m n numbers.
    """
    xp = ar.namespace(queries)
    lead = ar.broadcast_shapes(tuple(queries.shape[:-2]), tuple(keys.shape[:-2]))
    shape = (*lead, int(queries.shape[-2]), int(keys.shape[-2]))
    total = xp.zeros(shape, dtype=queries.dtype, device=ar.device_of(queries))
    for j in range(int(queries.shape[-1])):
        total = total + queries[..., :, j : j + 1] * ar.transpose(keys[..., :, j : j + 1])
    return total


def logit_overflow() -> RecallOverflowError:
    """Return the error of a logit that no dtype holds."""
    return RecallOverflowError(
        "a logit of SoftmaxAttention left the range of float64; scale keys and queries to unit length or lower beta."
    )
