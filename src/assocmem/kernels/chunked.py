"""Chunk forms of rules that write one pair after another into a matrix.

Two rules cover the family. With the state S (d_k, d_v), decay a_t and rows k_t, v_t:

    outer:  S_t = a_t S_(t-1) + k_t v_t^T                                   (linear attention, Mamba-2)
    delta:  S_t = a_t S_(t-1) + k_t u_t^T,  u_t = b_t (v_t - a_t S_(t-1)^T k_t)   (DeltaNet, Gated DeltaNet)

Inside a chunk of C pairs, with D_ij = a_(j+1) ... a_i for j <= i (0 above the diagonal) and g_i = a_1 ... a_i,

    U = V for the outer rule,  (I + strict_lower(diag(b) (D o K K^T))) U = diag(b) (V - diag(g) K S)  for delta,
    recalls after each write  O = diag(g) Q S + (D o Q K^T) U,     S <- g_C S + (diag(D_C) K)^T U.

Decays are multiplied up, never added or subtracted as logarithms, so that a decay of exactly 1 changes no bit and
one of 0, or of e^-200, loses nothing. Work memory does not grow with the number of pairs.

Sources: Dao and Gu 2024 (the 1-semiseparable matrix D); Yang et al. 2024 (UT transform); Yang, Kautz and
Hatamizadeh 2024 (the same with decay).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

from assocmem.contract import arrays as ar
from assocmem.contract.arrays import Array, Namespace, transpose

CHUNK = 64
"""Pairs per chunk by default."""

_TOGETHER = 32
"""Chunks of all batch items that are prepared at once: enough to amortise a call, few enough for the cache."""

_MILD = 2.0**-40
"""A chunk is mild where its decays multiply up to more than this."""

_BASE = 4
"""Width of the diagonal blocks that `inverse_unit_lower` starts from."""


def decay_products(decay: Array) -> Array:
    """Return D (..., C, C) with D_ij = decay_(j+1) ... decay_i for j <= i and 0 for j > i.

    decay: (..., C), entries in [0, 1]. This is the exponential of the masked cumulative sums ("segsum") of the
    log decays, formed row by row as products. Cost: C^2.

    >>> import numpy as np
    >>> decay_products(np.array([0.5, 0.0, 0.25])).tolist()
    [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.25, 1.0]]
    """
    xp = ar.namespace(decay)
    size = int(decay.shape[-1])
    one = xp.eye(size, dtype=decay.dtype, device=ar.device_of(decay))
    row = xp.broadcast_to(one[0, :], decay.shape)
    rows = [row]
    for i in range(1, size):
        row = row * decay[..., i : i + 1] + one[i, :]
        rows.append(row)
    return xp.stack(rows, axis=-2)


def later_decays(decay: Array) -> Array:
    """Return for each pair the product of the decays after it: (..., n) -> (..., n), the last entry 1."""
    xp = ar.namespace(decay)
    ones = xp.ones_like(decay[..., :1])
    after = xp.concat([ones, xp.flip(decay, axis=-1)[..., :-1]], axis=-1)
    return xp.flip(xp.cumulative_prod(after, axis=-1), axis=-1)


def inverse_unit_lower(low: Array) -> Array:
    """Return (I + strictly lower part of `low`)^-1, shape (..., C, C), any C >= 1.

    Blocks of 4 by their nilpotent series, then pairs of blocks by
    [[A, 0], [L, B]]^-1 = [[A^-1, 0], [-B^-1 L A^-1, B^-1]]. Entries on and above the diagonal are not read.
    """
    xp = ar.namespace(low)
    size, width = int(low.shape[-1]), _BASE
    while width < size:
        width *= 2
    if width != size:
        low = _padded(low, width - size, xp)
    device = ar.device_of(low)
    one = xp.eye(_BASE, dtype=low.dtype, device=device)
    block = xp.tril(_diagonal_blocks(low, _BASE, 0, xp), k=-1)
    inverse = (one - block) @ (one + block @ block)
    span = _BASE
    while span < width:
        first, second = inverse[..., 0::2, :, :], inverse[..., 1::2, :, :]
        below = second @ (_diagonal_blocks(low, span, span, xp) @ first)
        upper = xp.concat([first, xp.zeros_like(first)], axis=-1)
        inverse = xp.concat([upper, xp.concat([-below, second], axis=-1)], axis=-2)
        span *= 2
    return inverse[..., 0, :size, :size]


def _diagonal_blocks(low: Array, span: int, below: int, xp: Namespace) -> Array:
    """Return the blocks (..., count, span, span) of rows i+below and columns i, i = 0, span+below, ..."""
    starts = range(0, int(low.shape[-1]), span + below)
    return xp.stack([low[..., i + below : i + below + span, i : i + span] for i in starts], axis=-3)


def _padded(low: Array, extra: int, xp: Namespace) -> Array:
    """Return `low` (..., C, C) with `extra` rows and columns of zeros behind it."""
    *batch, size, _ = low.shape
    like = {"dtype": low.dtype, "device": ar.device_of(low)}
    wide = xp.concat([low, xp.zeros((*batch, size, extra), **like)], axis=-1)
    return xp.concat([wide, xp.zeros((*batch, extra, size + extra), **like)], axis=-2)


class _Prepared(NamedTuple):
    """What does not depend on the state, for some chunks (*batch, count, ...).

    probes: diag(g) K (C, d_k). gram: a matrix (C, C) whose strictly lower part is that of D o K K^T, None unless
    asked for. readers: diag(g) Q (C, d_k), scores: D o Q K^T (C, C), both None without queries.
    S <- after (before S + writers U), with `before` or `after` = g_C (1, 1) and the other None.
    """

    probes: Array
    gram: Array
    readers: Array
    scores: Array
    writers: Array
    before: Array
    after: Array

    def advance(self, state: Array, written: Array, c: int) -> Array:
        """Return the state after chunk c, which wrote `written` = writers U."""
        if self.before is not None:
            return state * self.before[..., c, :, :] + written
        total = state + written
        return total if self.after is None else total * self.after[..., c, :, :]


def _prepared(keys: Array, queries: Array | None, decay: Array | None, read: str, gram: bool) -> _Prepared:
    """Return what chunks of keys and queries (*batch, count, C, d_k), decay (*batch, count, C) need.

    Where no chunk decays by more than _MILD, D_ij = g_i / g_j: rows scaled by g_i and 1/g_j give the products,
    and what lies above the diagonal stays finite. Otherwise D is formed.
    """
    xp = ar.namespace(keys)
    keys_t = ar.contiguous(transpose(keys))
    if decay is None:
        scores = None if queries is None else _masked(queries @ keys_t, read)
        return _Prepared(keys, keys @ keys_t if gram else None, queries, scores, keys_t, None, None)
    entering = xp.cumulative_prod(decay, axis=-1)[..., None]
    whole = entering[..., -1:, :]
    probes = keys * entering if gram else None
    readers = None
    if queries is not None:
        first = xp.ones_like(whole)
        readers = queries * (entering if read == "after" else xp.concat([first, entering[..., :-1, :]], axis=-2))
    if bool(xp.all(whole > _MILD)):
        keys_t = keys_t / transpose(entering)
        scores = None if queries is None else _masked(readers @ keys_t, read)
        return _Prepared(probes, probes @ keys_t if gram else None, readers, scores, keys_t, None, whole)
    between = decay_products(decay)
    products = (keys @ keys_t) * between if gram else None
    writers = keys_t * between[..., -1:, :]
    if queries is None:
        return _Prepared(probes, products, None, None, writers, whole, None)
    if read == "before":
        between = xp.concat([xp.zeros_like(between[..., :1, :]), between[..., :-1, :]], axis=-2)
    return _Prepared(probes, products, readers, (queries @ keys_t) * between, writers, whole, None)


def _masked(products: Array, read: str) -> Array:
    """Return products (..., C, C), which are overwritten, with zeros for the pairs that a query does not see."""
    xp, size = ar.namespace(products), int(products.shape[-1])
    ones = xp.ones((size, size), dtype=products.dtype, device=ar.device_of(products))
    return ar.times(products, xp.tril(ones, k=0 if read == "after" else -1))


class Rows:
    """Recalls (*batch, n, d_v) that come in blocks of pairs, each put in its place.

    Arrays that carry gradients or cannot be written are joined at the end instead.
    """

    def __init__(self, n: int) -> None:
        self._n = n
        self._blocks: list[Array] = []
        self._whole: Array = None
        self._used = 0

    def add(self, block: Array) -> None:
        """Take the recalls (*batch, m, d_v) of the next m pairs."""
        *batch, count, d_v = block.shape
        if self._blocks or not ar.can_write_in_place(block):
            if self._whole is not None:
                self._blocks, self._whole = [self._whole[..., : self._used, :]], None
            self._blocks.append(block)
            return
        if self._whole is None:
            xp = ar.namespace(block)
            self._whole = xp.empty((*batch, self._n, d_v), dtype=block.dtype, device=ar.device_of(block))
        ar.write_rows(self._whole, self._used, self._used + count, block)
        self._used += count

    def joined(self) -> Array:
        """Return the recalls of all pairs."""
        return ar.namespace(self._blocks[0]).concat(self._blocks, axis=-2) if self._blocks else self._whole


def outer_chunks(
    state: Array,
    keys: Array,
    values: Array,
    *,
    decay: Array | None = None,
    queries: Array | None = None,
    read: str = "after",
    chunk: int = CHUNK,
) -> tuple[Array, Array | None]:
    """Write pairs by the outer rule; with queries (..., n, d_k) recall one after or before every write.

    state: S (..., d_k, d_v). keys (..., n, d_k), values (..., n, d_v), decay (..., n) in [0, 1] or None for 1.
    Returns the new S and the recalls (..., n, d_v) or None. Cost per pair: 2 d_k d_v + C (d_k + d_v) multiply-adds,
    work memory independent of n.
    """
    xp = ar.namespace(keys)
    if queries is None:
        if decay is None:
            return state + transpose(keys) @ values, None
        later = later_decays(decay)
        whole = (later[..., :1] * decay[..., :1])[..., None]
        return state * whole + transpose(keys * later[..., None]) @ values, None
    recalls = Rows(int(keys.shape[-2]))
    for start, count, size in _segments(keys, chunk):
        keys_in, values_in, asked = (_cut(x, start, count, size) for x in (keys, values, queries))
        slowed = None if decay is None else _cut(decay[..., None], start, count, size)[..., 0]
        ready = _prepared(keys_in, asked, slowed, read, gram=False)
        written, states = ready.writers @ values_in, []
        for c in range(count):
            states.append(state)
            state = ready.advance(state, written[..., c, :, :], c)
        recalls.add(_recalled(ready, xp.stack(states, axis=-3), values_in))
    return state, recalls.joined()


def delta_chunks(
    state: Array,
    keys: Array,
    values: Array,
    strength: Array,
    *,
    decay: Array | None = None,
    queries: Array | None = None,
    read: str = "after",
    chunk: int = CHUNK,
) -> tuple[Array, Array | None]:
    """Write pairs by the delta rule; with queries (..., n, d_k) recall one after or before every write.

    Arguments as for `outer_chunks`, and strength (..., n). Returns the new S and the recalls or None.
    Cost per pair: 3 d_k d_v + C (2 d_k + 2 d_v + C / 3) multiply-adds, work memory independent of n.
    """
    xp = ar.namespace(keys)
    recalls = Rows(int(keys.shape[-2]))
    for start, count, size in _segments(keys, chunk):
        keys_in, values_in = (_cut(x, start, count, size) for x in (keys, values))
        asked = None if queries is None else _cut(queries, start, count, size)
        slowed = None if decay is None else _cut(decay[..., None], start, count, size)[..., 0]
        steps = _cut(strength[..., None], start, count, size)
        ready = _prepared(keys_in, asked, slowed, read, gram=True)
        solve = ar.times(inverse_unit_lower(ar.times(ready.gram, steps)), transpose(steps))
        states, changes = [], []
        for c in range(count):
            change = solve[..., c, :, :] @ (values_in[..., c, :, :] - ready.probes[..., c, :, :] @ state)
            states.append(state)
            changes.append(change)
            state = ready.advance(state, ready.writers[..., c, :, :] @ change, c)
        if asked is not None:
            recalls.add(_recalled(ready, xp.stack(states, axis=-3), xp.stack(changes, axis=-3)))
    return state, None if queries is None else recalls.joined()


def _recalled(ready: _Prepared, states: Array, changes: Array) -> Array:
    """Return the recalls (*batch, count C, d_v) of chunks that met `states` and wrote `changes`."""
    found = ar.plus(ready.readers @ states, ready.scores @ changes)
    *batch, count, size, d_v = found.shape
    return ar.namespace(found).reshape(found, (*batch, count * size, d_v))


def _segments(keys: Array, chunk: int) -> Iterator[tuple[int, int, int]]:
    """Yield (first pair, number of chunks, pairs per chunk): full chunks in groups, then the rest as one."""
    *batch, n, _ = keys.shape
    together = max(1, _TOGETHER // max(1, math.prod(batch)))
    full = n // chunk
    for first in range(0, full, together):
        yield first * chunk, min(together, full - first), chunk
    if n % chunk:
        yield full * chunk, 1, n % chunk


def _cut(rows: Array, start: int, count: int, size: int) -> Array:
    """Return `count` chunks of `size` rows: (*batch, n, width) -> (*batch, count, size, width)."""
    part = rows[..., start : start + count * size, :]
    return ar.namespace(rows).reshape(part, (*rows.shape[:-2], count, size, int(rows.shape[-1])))
