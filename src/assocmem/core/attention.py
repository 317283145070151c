"""Softmax attention over many pairs: o = V^T softmax(beta K x), block by block with a true running maximum.

`attend` picks the way: threads over plain NumPy arrays (`core.threaded`), else blocks in any array library. Logits
that float32 cannot hold to four digits are computed again in float64; logits beyond float64 are refused. At
beta = inf it is the limit: the pairs with the largest similarity share equally.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from assocmem.core import arrays as ar
from assocmem.core import threaded
from assocmem.core.arrays import Array, DType, Namespace
from assocmem.core.blockwise import Visible, hides_all, in_dtype, item_count, mask_of, tiles, working_dtype
from assocmem.core.errors import RecallOverflowError
from assocmem.core.growing import Recalled

SAFE_LOGIT = 1024.0
"""A larger float32 logit is off by more than 6e-5, and with it the weights: such queries are redone in float64."""
WORTH_THREADS = 2**18
"""Multiply-adds from which the threaded way pays."""

Beta: TypeAlias = "float | np.ndarray[Any, np.dtype[np.float64]]"
"""Sharpness >= 0: one number, or one for each query, broadcasting to (..., m)."""


def attend(keys: Array, values: Array, queries: Array, beta: Beta, visible: Visible = None) -> Recalled:
    """Return softmax attention of each query over the pairs that it sees, with the log of the weights' sum.

    Parameters
    ----------
    keys (*batch, n, d_k), values (*batch, n, d_v), queries (..., m, d_k): arrays of one library.
    beta: sharpness >= 0, one number or one for each query; inf anywhere means inf for every query.
    visible: which pairs a query sees; one that sees none gets zeros and log mass -inf.

    Returns output (..., m, d_v) in at least float32 and log_mass (..., m) in float64; at beta = inf the log mass is
    the largest similarity and `ties` the number of pairs that share it. Working memory: some megabytes, whatever
    n and m are. Raises RecallOverflowError where logits leave the range of float64. Cost: n m (d_k + d_v).

    >>> keys, values = np.eye(2), np.array([[1.0], [3.0]])
    >>> attend(keys, values, keys[:1], 0.0).output.tolist(), attend(keys, values, keys[:1], np.inf).output.tolist()
    ([[2.0]], [[1.0]])
    """
    with np.errstate(all="ignore"):
        if np.any(np.isinf(beta)):
            return _in_blocks(keys, values, queries, None, visible)
        if visible is None and _suits_threads(keys, values, queries):
            return _in_threads(keys, values, queries, beta)
        return _in_blocks(keys, values, queries, beta, visible)


def attention_weights(keys: Array, queries: Array, beta: Beta, visible: Visible = None) -> Array:
    """Return the weights (..., m, n) that `attend` gives to the pairs, in at least float32.

    Rows sum to one, or to zero where a query sees nothing. Parameters as in `attend`; memory grows with m n.
    """
    xp = ar.namespace(keys)
    rows, columns = slice(0, int(queries.shape[-2])), slice(0, int(keys.shape[-2]))
    dtype = working_dtype(xp.result_type(keys.dtype, queries.dtype), xp)
    seen = mask_of(visible, rows, columns, xp, ar.device_of(keys))
    if columns.stop == 0:
        lead = ar.broadcast_shapes(tuple(keys.shape[:-2]), tuple(queries.shape[:-2]))
        return xp.zeros((*lead, rows.stop, 0), dtype=dtype, device=ar.device_of(keys))
    with np.errstate(all="ignore"):
        if np.any(np.isinf(beta)):
            wide = [ar.constant(in_dtype(a, xp.float64, xp)) for a in (queries, keys)]
            return _shares(wide[0], wide[1], seen, dtype, xp)
        for used in (dtype,) if dtype == xp.float64 else (dtype, xp.float64):
            logits = _scaled(queries, beta, used, xp) @ ar.transpose(in_dtype(keys, used, xp))
            if seen is not None:
                logits = xp.where(seen, logits, xp.full_like(logits, -float("inf")))
            peak = ar.constant(xp.max(logits, axis=-1))
            some = xp.ones_like(peak, dtype=xp.bool) if seen is None else xp.any(seen, axis=-1)
            if bool(xp.all(_is_safe(peak, xp) | ~some)):
                weights = xp.exp(logits - xp.where(some, peak, xp.zeros_like(peak))[..., None])
                total = xp.sum(weights, axis=-1)
                return in_dtype(weights / xp.where(some, total, xp.ones_like(total))[..., None], dtype, xp)
    raise _overflow()


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


# ---------------------------------------------------------------------- plain NumPy: threads


def _suits_threads(keys: Array, values: Array, queries: Array) -> bool:
    """Say whether these are unbatched plain NumPy arrays of one dtype and enough work for the threaded way."""
    return (
        type(keys) is type(values) is type(queries) is np.ndarray
        and keys.ndim == 2
        and keys.dtype == values.dtype == queries.dtype
        and keys.dtype in (np.float32, np.float64)
        and keys.flags.c_contiguous
        and values.flags.c_contiguous
        and len(keys) >= 256
        and queries.size * len(keys) >= WORTH_THREADS
    )


def _in_threads(keys: Array, values: Array, queries: Array, beta: Beta) -> Recalled:
    lead = queries.shape[:-1]
    flat = queries.reshape(-1, queries.shape[-1])
    scale: Any = beta if np.ndim(beta) == 0 else np.broadcast_to(beta, lead).reshape(-1)
    found = threaded.attend(keys, values, flat, scale)
    safe = np.isfinite(found.output).all(axis=-1) & np.isfinite(found.peak)
    if keys.dtype == np.float32:
        safe &= np.abs(found.peak) <= SAFE_LOGIT
    if not safe.all():
        redo = ~safe
        again = _in_blocks(keys, values, flat[redo], scale if np.ndim(scale) == 0 else scale[redo], None, np.float64)
        found.output[redo], found.log_mass[redo] = again.output, again.log_mass
    return Recalled(found.output.reshape(*lead, -1), found.log_mass.reshape(lead))


# ---------------------------------------------------------------------- any array library: blocks


@dataclass(frozen=True)
class _Tile:
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


def _in_blocks(
    keys: Array, values: Array, queries: Array, beta: Beta | None, visible: Visible, dtype: DType = None
) -> Recalled:
    """Go through the tiles; beta None means infinity; `dtype` overrides the one to compute in."""
    xp, device = ar.namespace(keys), ar.device_of(keys)
    dtype = working_dtype(xp.result_type(keys.dtype, values.dtype, queries.dtype), xp) if dtype is None else dtype
    n, m, d_v = int(keys.shape[-2]), int(queries.shape[-2]), int(values.shape[-1])
    leads = tuple(keys.shape[:-2]), tuple(queries.shape[:-2])
    lead = ar.broadcast_shapes(*leads)
    found = []
    for rows, pairs in tiles(m, n, item_count(*leads)):
        shape = (*lead, rows.stop - rows.start)
        tile = _Tile(keys, values, queries[..., rows, :], visible, rows, pairs, shape)
        if beta is None:
            found.append(_argmax(tile, dtype, xp))
        else:
            found.append(_softmax(tile, beta if np.ndim(beta) == 0 else np.asarray(beta)[..., rows], dtype, xp))
    if not found:
        none = xp.zeros((*lead, 0), dtype=xp.float64, device=device)
        ties = none if beta is None else None
        return Recalled(xp.zeros((*lead, 0, d_v), dtype=dtype, device=device), none, ties)
    if len(found) == 1:
        return found[0]
    outputs, masses, ties_ = zip(*found, strict=True)
    joined = xp.concat(ties_, axis=-1) if beta is None else None
    return Recalled(xp.concat(outputs, axis=-2), xp.concat(masses, axis=-1), joined)


def _softmax(tile: _Tile, beta: Beta, dtype: DType, xp: Namespace) -> Recalled:
    for used in (dtype,) if dtype == xp.float64 else (dtype, xp.float64):
        found = _running(tile, _scaled(tile.queries, beta, used, xp), used, xp)
        if found is not None:
            return found
    raise _overflow()


def _running(tile: _Tile, queries: Array, dtype: DType, xp: Namespace) -> Recalled | None:
    """Return the tile's recall computed in `dtype`, None where its logits or sums are not safe there.

    The running maximum cancels in the result, so no gradient flows through it.
    """
    device = ar.device_of(tile.keys)
    peak = xp.full(tile.shape, -float("inf"), dtype=dtype, device=device)
    some = xp.zeros(tile.shape, dtype=xp.bool, device=device)
    total = xp.zeros(tile.shape, dtype=dtype, device=device)
    sums = xp.zeros((*tile.shape, int(tile.values.shape[-1])), dtype=dtype, device=device)
    floor = xp.zeros_like(peak)
    for keys, values, seen in tile.blocks(dtype, xp):
        logits = queries @ ar.transpose(keys)
        if seen is None:
            some = xp.ones_like(some)
        else:
            logits = xp.where(seen, logits, xp.full_like(logits, -float("inf")))
            some = some | xp.any(seen, axis=-1)
        old, peak = peak, xp.maximum(peak, ar.constant(xp.max(logits, axis=-1)))
        floor = xp.where(xp.isfinite(peak), peak, xp.zeros_like(peak))
        weights = xp.exp(logits - floor[..., None])
        fade = xp.exp(old - floor)
        total = total * fade + xp.sum(weights, axis=-1)
        sums = sums * fade[..., None] + weights @ values
    output = sums / xp.where(some, total, xp.ones_like(total))[..., None]
    if not bool(xp.all(_is_safe(peak, xp) | ~some)) or (dtype != xp.float64 and not ar.all_finite(output, xp)):
        return None
    wide, total = in_dtype(floor, xp.float64, xp), in_dtype(total, xp.float64, xp)
    mass = wide + xp.log(xp.where(some, total, xp.ones_like(total)))
    return Recalled(output, xp.where(some, mass, xp.full_like(mass, -float("inf"))))


def _argmax(tile: _Tile, dtype: DType, xp: Namespace) -> Recalled:
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
        near, top = queries @ ar.transpose(keys), None
        if seen is not None:
            near = xp.where(seen, near, xp.full_like(near, -float("inf")))
        some = xp.ones_like(some) if seen is None else some | xp.any(seen, axis=-1)
        top = xp.maximum(peak, xp.max(near, axis=-1))
        if not bool(xp.all(top < float("inf"))):
            raise _overflow()
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
        raise _overflow()
    divisor = xp.where(some, count, xp.ones_like(count))
    return Recalled(sums / in_dtype(divisor, dtype, xp)[..., None], peak, count)


def _shares(queries: Array, keys: Array, seen: Array | None, dtype: DType, xp: Namespace) -> Array:
    """Return the weights at beta = inf of float64 queries and keys."""
    exact = exact_similarities(queries, keys)
    if seen is not None:
        exact = xp.where(seen, exact, xp.full_like(exact, -float("inf")))
    peak = xp.max(exact, axis=-1)
    some = xp.ones_like(peak, dtype=xp.bool) if seen is None else xp.any(seen, axis=-1)
    if not bool(xp.all(xp.isfinite(peak) | ~some)):
        raise _overflow()
    ties = in_dtype((exact == peak[..., None]) & (exact > -float("inf")), dtype, xp)
    total = xp.sum(ties, axis=-1)
    return ties / xp.where(some, total, xp.ones_like(total))[..., None]


def _scaled(queries: Array, beta: Beta, dtype: DType, xp: Namespace) -> Array:
    """Return beta x in `dtype`, multiplied in float64."""
    wide = in_dtype(queries, xp.float64, xp)
    if np.ndim(beta) == 0:
        return in_dtype(wide * float(beta), dtype, xp)
    return in_dtype(wide * xp.asarray(beta, dtype=xp.float64, device=ar.device_of(queries))[..., None], dtype, xp)


def _is_safe(peak: Array, xp: Namespace) -> Array:
    """Say for each largest logit whether its dtype holds it well enough."""
    if peak.dtype == xp.float64:
        return xp.isfinite(peak)
    return xp.abs(peak) <= SAFE_LOGIT


def _overflow() -> RecallOverflowError:
    return RecallOverflowError(
        "a logit of SoftmaxAttention left the range of float64; scale keys and queries to unit length or lower beta."
    )
