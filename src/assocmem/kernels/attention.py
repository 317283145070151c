"""Softmax attention over many pairs: o = V^T softmax(beta K x), block by block with a true running maximum.

`attend` picks the way: threads over plain NumPy arrays (`kernels.fused_attention`), else blocks in any array
library. Logits that float32 cannot hold to four digits are computed again in float64; logits beyond float64 are
refused. At beta = inf it is the limit: the pairs with the largest similarity share equally.
"""

from __future__ import annotations

import math
from typing import Any, TypeAlias

import numpy as np

from assocmem.contract import arrays as ar
from assocmem.contract.arrays import Array, DType, Namespace
from assocmem.contract.recall import Causal, Mass, Recall, Visible
from assocmem.kernels import fused_attention as threaded
from assocmem.kernels import torch_attention as fused
from assocmem.kernels.argmax import argmax, argmax_weights, logit_overflow
from assocmem.kernels.blockwise import Tile, in_dtype, item_count, mask_of, tiles, working_dtype

SAFE_LOGIT = 1024.0
"""A larger float32 logit is off by more than 6e-5, and with it the weights: such queries are redone in float64."""
LIKE_BLOCKS = 2.0**40
"""Largest float64 logit of the threaded way, whose powers of two round otherwise than the exponentials of blocks do."""
WORTH_THREADS = 2**19
"""Multiply-adds from which the threaded way pays."""

Beta: TypeAlias = "float | np.ndarray[Any, np.dtype[np.float64]]"
"""Sharpness >= 0: one number, or one for each query, broadcasting to (..., m)."""


def attend(
    keys: Array, values: Array, queries: Array, beta: Beta, visible: Visible = None, *, mass: bool = True
) -> Recall:
    """Return softmax attention of each query over the pairs that it sees, with the log of the weights' sum.

    Parameters
    ----------
    keys (*batch, n, d_k), values (*batch, n, d_v), queries (..., m, d_k): arrays of one library.
    beta: sharpness >= 0, one number or one for each query; inf anywhere means inf for every query.
    visible: which pairs a query sees; one that sees none gets zeros and log mass -inf.
    mass: whether it is wanted; without it torch's fused kernel does for arrays that carry gradients too.

    Returns values (..., m, d_v) in at least float32 and their mass in float64, by the rule "largest" at beta = inf.
    Working memory: some megabytes, whatever n and m are. Raises RecallOverflowError where logits leave the range of
    float64. Cost: n m (d_k + d_v).

    >>> keys, values = np.eye(2), np.array([[1.0], [3.0]])
    >>> attend(keys, values, keys[:1], 0.0).values.tolist(), attend(keys, values, keys[:1], np.inf).values.tolist()
    ([[2.0]], [[1.0]])
    """
    with np.errstate(all="ignore"):
        if np.any(np.isinf(beta)):
            return _in_blocks(keys, values, queries, None, visible)
        if fused.suits(keys, values, queries) and not (mass and any(map(ar.carries_gradient, (keys, values, queries)))):
            found = _fused(keys, values, queries, beta, visible)
            if found is not None:
                return found
        if _suits_threads(keys, values, queries):
            if keys.ndim > 2:
                return _each_item(keys, values, queries, beta, visible)
            recalled, peak, share = _in_threads(keys, values, queries, beta, visible)
            return Recall(recalled, mass=Mass(peak, share))
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
            return argmax_weights(wide[0], wide[1], seen, dtype, xp)
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
    raise logit_overflow()


# ---------------------------------------------------------------------- plain NumPy: threads


def _suits_threads(keys: Array, values: Array, queries: Array) -> bool:
    """Say whether these are plain NumPy arrays of one dtype, each item enough work for the threaded way."""
    return (
        type(keys) is type(values) is type(queries) is np.ndarray
        and (keys.ndim == 2 or queries.shape[:-2] == keys.shape[:-2])
        and keys.dtype == values.dtype == queries.dtype
        and keys.dtype in (np.float32, np.float64)
        and _has_whole_rows(keys)
        and _has_whole_rows(values)
        and keys.shape[-2] >= 256
        and queries.size // max(1, math.prod(keys.shape[:-2])) * keys.shape[-2] >= WORTH_THREADS
    )


def _has_whole_rows(x: Array) -> bool:
    """Say whether the rows of each batch item stand one behind the other in memory."""
    return bool(x.size) and x.strides[-2:] == (x.shape[-1] * x.itemsize, x.itemsize)


def _each_item(keys: Array, values: Array, queries: Array, beta: Beta, visible: Visible) -> Recall:
    """Go through the items of a batch one by one."""
    lead = keys.shape[:-2]
    beta = np.broadcast_to(beta, queries.shape[:-1])
    found = []
    for i in np.ndindex(lead):
        own = visible if visible is None or isinstance(visible, Causal) else visible[i]
        found.append(_in_threads(keys[i], values[i], queries[i], beta[i], own))
    output: Array = np.stack([recalled for recalled, _, _ in found])
    peak, share = (np.stack(x).reshape(*lead, -1) for x in zip(*(f[1:] for f in found), strict=True))
    return Recall(output.reshape(*lead, *output.shape[1:]), mass=Mass(peak, share))


def _in_threads(keys: Array, values: Array, queries: Array, beta: Beta, visible: Visible) -> tuple[Array, Array, Array]:
    """Return values, peak and share."""
    lead, n = queries.shape[:-1], len(keys)
    flat, seen = queries.reshape(-1, queries.shape[-1]), visible
    some: Any = np.ones(len(flat), np.bool)
    if isinstance(visible, Causal):
        some = visible.first + np.arange(len(flat)) > 0
    elif visible is not None:
        seen = np.broadcast_to(visible, (*lead, n)).reshape(-1, n)
        some = seen.any(axis=-1)
    scale: Any = beta if np.ndim(beta) == 0 else np.broadcast_to(beta, lead).reshape(-1)
    found = threaded.attend(keys, values, flat, scale, seen)
    safe = np.isfinite(found.output).all(axis=-1) & np.isfinite(found.log_mass) & np.isfinite(found.peak)
    safe &= np.abs(found.peak) <= (SAFE_LOGIT if keys.dtype == np.float32 else LIKE_BLOCKS)
    found.shift[~some] = -np.inf
    redo = np.nonzero(some & ~safe)[0]
    if len(redo):
        own = scale if np.ndim(scale) == 0 else scale[redo]
        if isinstance(seen, Causal):
            seen = np.arange(n) < (seen.first + redo)[:, None]
        elif seen is not None:
            seen = seen[redo]
        again = _in_blocks(keys, values, flat[redo], own, seen, np.float64)
        assert again.mass is not None  # attention always has one
        found.output[redo] = again.values
        found.shift[redo], found.share[redo] = again.mass.peak, again.mass.share
    return found.output.reshape(*lead, -1), found.shift.reshape(lead), found.share.reshape(lead)


# ---------------------------------------------------------------------- torch: its fused kernel


def _fused(keys: Array, values: Array, queries: Array, beta: Beta, visible: Visible) -> Recall | None:
    """Return the recall by torch's kernel, None where its logits or sums are not safe in their dtype."""
    xp, scale = ar.namespace(keys), 1.0
    if np.ndim(beta) == 0 and beta:
        scale = float(beta)
    else:  # a scale of 0 makes NaN of what the kernel hides
        queries = _scaled(queries, beta, queries.dtype, xp)
    found = fused.attend(keys, values, queries, scale, visible, lambda *asked: _in_blocks(*asked).values)
    mass, some, output = found.log_mass, found.some, ar.constant(found.output)
    blind = mass == 0 if some is None else (mass == 0) & some
    safe = _is_safe(mass, xp) if some is None else _is_safe(mass, xp) | ~some
    # A query all of whose logits are -inf gets zeros and a log mass of 0.
    if not bool(xp.all(safe)) or not ar.all_finite(output, xp):
        return None
    if bool(xp.any(blind)) and not bool(xp.all(xp.any(output[blind] != 0, axis=-1))):
        return None
    peak = in_dtype(mass, xp.float64, xp)
    peak = peak if some is None else xp.where(some, peak, xp.full_like(peak, -math.inf))
    return Recall(found.output, mass=Mass(peak, xp.ones_like(peak)))


# ---------------------------------------------------------------------- any array library: blocks


def _in_blocks(
    keys: Array, values: Array, queries: Array, beta: Beta | None, visible: Visible, dtype: DType = None
) -> Recall:
    """Go through the tiles; beta None means infinity; `dtype` overrides the one to compute in."""
    xp, device = ar.namespace(keys), ar.device_of(keys)
    dtype = working_dtype(xp.result_type(keys.dtype, values.dtype, queries.dtype), xp) if dtype is None else dtype
    n, m, d_v = int(keys.shape[-2]), int(queries.shape[-2]), int(values.shape[-1])
    leads = tuple(keys.shape[:-2]), tuple(queries.shape[:-2])
    lead = ar.broadcast_shapes(*leads)
    found = []
    for rows, pairs in tiles(m, n, item_count(*leads), d_v + int(keys.shape[-1])):
        shape = (*lead, rows.stop - rows.start)
        tile = Tile(keys, values, queries[..., rows, :], visible, rows, pairs, shape)
        own = beta if beta is None or np.ndim(beta) == 0 else np.asarray(beta)[..., rows]
        found.append(argmax(tile, dtype, xp) if own is None else _softmax(tile, own, dtype, xp))
    if not found:
        none = xp.zeros((*lead, 0), dtype=xp.float64, device=device)
        mass = Mass(none, none, "mean" if beta is not None else "largest")
        return Recall(xp.zeros((*lead, 0, d_v), dtype=dtype, device=device), mass=mass)
    if len(found) == 1:
        return found[0]
    masses = [f.mass for f in found if f.mass is not None]
    peak, share = (xp.concat([getattr(m, name) for m in masses], axis=-1) for name in ("peak", "share"))
    return Recall(xp.concat([f.values for f in found], axis=-2), mass=Mass(peak, share, masses[0].rule))


def _softmax(tile: Tile, beta: Beta, dtype: DType, xp: Namespace) -> Recall:
    for used in (dtype,) if dtype == xp.float64 else (dtype, xp.float64):
        found = _running(tile, _scaled(tile.queries, beta, used, xp), used, xp)
        if found is not None:
            return found
    raise logit_overflow()


def _running(tile: Tile, queries: Array, dtype: DType, xp: Namespace) -> Recall | None:
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
    return Recall(output, mass=Mass(xp.where(some, wide, xp.full_like(wide, -float("inf"))), total))


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
