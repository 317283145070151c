"""Softmax attention over many pairs in plain NumPy: a few Python threads, each with single-threaded BLAS.

The pairs are cut into shares. A thread goes through one of them in blocks that stay in its cache, with a running
maximum, and takes the next; the shares are merged by log-sum-exp. Weights are powers of two of logits in units of
log 2, because NumPy's `exp2` is the faster and the more accurate of its vectorised exponentials (where it is not
vectorised, `exp` is used).

Two properties of the hardware shape the blocks. BLAS multiplies small matrices (m n k <= 10^6) without packing
them first, which is faster here, so one `matmul` call goes through a stack of small products; and two threads lose
time whenever they hand over the interpreter's lock, so every call works on a few hundred thousand numbers.
"""

from __future__ import annotations

import functools
import itertools
import math
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from assocmem.contract.recall import Causal, Visible
from assocmem.kernels.compute import WORTH_A_THREAD, in_threads, one_blas_thread, thread_count

Floats: TypeAlias = "np.ndarray[Any, np.dtype[Any]]"

SMALL_PRODUCT = 10**6
"""Largest m n k that BLAS multiplies without packing."""
SLAB_NUMBERS = 10240
"""Numbers of keys (or values) in one small product: they stay in the first cache."""
TILE_ROWS = 96
"""Queries in one tile."""
CHUNK_NUMBERS = 2**18
"""Weights computed by one call."""
CHUNK_PAIRS = 2**15
"""Pairs in one call at most."""
LONG_ROW = 2**12
"""Numbers in one row that the maximum runs over."""
MOST_SHARES = 24
"""Shares of the work: enough that no thread waits long for another, few enough that to merge them costs little."""
FEWEST_PAIRS = 2**12
"""Pairs in one share at least, where there are so many."""
SUMS_KEPT = 2**22
"""Numbers at most in the sums of all shares."""
HEADROOM = 24.0
"""The running maximum may stand this many doublings above the shift before the shift follows it."""


@functools.cache
def _power() -> tuple[Any, float]:
    """Return the fastest vectorised exponential and the logarithm of its base."""
    try:
        found = np.lib.introspect.opt_func_info(func_name="^exp2$")["exp2"]["ff"]["current"]
    except (AttributeError, KeyError):
        found = "baseline"
    return (np.exp, 1.0) if "baseline" in found else (np.exp2, math.log(2.0))


@dataclass
class Attended:
    """What `attend` found: output (m, d_v); log mass and largest logit (m,), both in natural units, float64.

    shift, share (m,): the log mass is shift + log(share), the shift near the largest logit.
    """

    output: Floats
    log_mass: Floats
    peak: Floats
    shift: Floats
    share: Floats


def attend(keys: Floats, values: Floats, queries: Floats, scale: float | Floats, visible: Visible = None) -> Attended:
    """Return softmax(scale K x)^T V for each query over the pairs that it sees; pairs that none can see are skipped.

    Parameters
    ----------
    keys (n, d_k), values (n, d_v): rows contiguous, n >= 1, one dtype (float32 or float64), which is computed in.
    queries: (m, d_k) of the same dtype. scale: finite number >= 0, or one for each query (m,).
    visible: a boolean mask (m, n), Causal, or None for every pair; a query that sees none gets zeros and mass -inf.

    Logits outside the dtype's range show in `peak` as infinity or NaN: the caller decides. Working memory: some
    megabytes a thread, plus the output. Cost: n m (d_k + d_v) multiply-adds.
    """
    n, m = len(keys), len(queries)
    power, base = _power()
    factor = np.broadcast_to(np.asarray(scale, np.float64) / base, (m,))
    rows = [slice(start, min(start + TILE_ROWS, m)) for start in range(0, m, TILE_ROWS)]
    block = _Block(min(TILE_ROWS, m), int(keys.shape[1]), int(values.shape[1]), keys.dtype)
    cuts, groups = _shares(n, m, len(rows), block)
    parts = [slice(first, last) for first, last in itertools.pairwise(cuts)]
    shares = [([_Tile(rows[i]) for i in group], part) for group in groups for part in parts]
    left, failed = itertools.count(), threading.Event()

    def run(_worker: int) -> None:
        scratch = _Scratch(block)
        try:
            # Whoever is free takes the next share, so that no thread waits for one on a slower core.
            while not failed.is_set() and (i := next(left)) < len(shares):
                tiles, part = shares[i]
                with np.errstate(all="ignore"):
                    for tile in tiles:
                        tile.sees(visible, part)
                        scaled = (queries[tile.at] * factor[tile.at, None]).astype(keys.dtype)
                        tile.begin(np.ascontiguousarray(scaled.T), block.d_v, power)
                    _go_through(tiles, keys[part], values[part], block, scratch)
                for tile in tiles:
                    del tile.queries, tile.mask
        except BaseException:
            failed.set()  # an error, or Ctrl-C, ends the other threads too
            raise

    threads = min(thread_count(), n * m * (block.d_k + block.d_v) // WORTH_A_THREAD, len(shares))
    with one_blas_thread:
        in_threads(run, max(1, threads))
    output = np.empty((m, values.shape[1]), keys.dtype)
    mass, peak, shift, share = np.empty((4, m))
    with np.errstate(all="ignore"):
        for first in range(0, len(shares), len(parts)):
            for tiles in zip(*(tiles for tiles, _ in shares[first : first + len(parts)]), strict=True):
                at = tiles[0].at
                output[at], mass[at], peak[at], shift[at], share[at] = _merged(tiles)
    return Attended(output, mass * base, peak * base, shift * base, share)


class _Block:
    """Pairs that one call goes through: a stack of small products of `slab` pairs each, for `rows` queries at most."""

    def __init__(self, rows: int, d_k: int, d_v: int, dtype: Any) -> None:
        self.rows, self.d_k, self.d_v, self.dtype = rows, d_k, d_v, dtype
        width = max(1, d_k, d_v)
        slab = min(SMALL_PRODUCT // (rows * width), SLAB_NUMBERS // width) // 16 * 16
        self.slab = slab = slab if slab >= 48 else 256
        most = (CHUNK_NUMBERS // (slab * rows), CHUNK_PAIRS // slab, 4 * CHUNK_NUMBERS // (rows * width))
        self.stack = max(1, min(most))
        self.pairs = slab * self.stack


def _shares(n: int, m: int, tiles: int, block: _Block) -> tuple[list[int], list[range]]:
    """Return where the pairs are cut, and which tiles go through them together, so that a block is read once for all.

    They depend on sizes alone: results depend neither on the number of threads nor on which was faster. As every share
    of the pairs has sums of its own, many queries have fewer of them, and are shared out themselves.
    """
    most = max(1, min(MOST_SHARES, SUMS_KEPT // (m * max(1, block.d_v))))
    each = max(FEWEST_PAIRS, block.pairs // 2, -(-n // most))
    unit = block.pairs if each >= block.pairs else block.slab
    cuts = [*range(0, n, -(-each // unit) * unit), n]
    group = -(-tiles // min(tiles, max(1, MOST_SHARES // (len(cuts) - 1))))
    return cuts, [range(i, min(i + group, tiles)) for i in range(0, tiles, group)]


def _go_through(tiles: list[_Tile], keys: Floats, values: Floats, block: _Block, scratch: _Scratch) -> None:
    """Let every tile absorb all pairs, block by block."""
    for start in range(0, len(keys), block.pairs):
        stop = min(start + block.pairs, len(keys))
        for tile in tiles:
            # Behind `free` pairs are hidden from some queries of the tile, behind `end` from all of them.
            free, end = (min(max(start, cut), stop) for cut in (tile.free, tile.end))
            if free > start:
                tile.absorb_all(keys[start:free], values[start:free], block.slab, scratch)
            if end > free:
                tile.absorb_all(keys[free:end], values[free:end], block.slab, scratch, tile.hidden(free, end))


class _Scratch:
    """The buffers of one thread."""

    def __init__(self, block: _Block) -> None:
        self.weights = np.empty(block.pairs * block.rows, block.dtype)
        self.sums = np.empty(block.stack * block.rows * block.d_v, block.dtype)
        self.ones = np.ones(block.pairs, block.dtype)


class _Tile:
    """A block of queries and what it has absorbed: weights' sum and weighted values, scaled by base^-shift."""

    def __init__(self, at: slice) -> None:
        self.at = at

    def begin(self, queries: Floats, d_v: int, power: Any) -> None:
        """Set out with queries (d_k, rows), already scaled."""
        self.queries = queries
        self.rows = rows = int(queries.shape[1])
        self.power = power
        self.peak = np.full(rows, -np.inf, queries.dtype)
        self.shift = np.zeros(rows, queries.dtype)
        self.shifted = False
        self.total = np.zeros(rows, queries.dtype)
        self.sums = np.zeros((rows, d_v), queries.dtype)

    def sees(self, visible: Visible, part: slice) -> None:
        """Say which of the pairs in `part` the queries see."""
        n, self.mask = part.stop - part.start, None
        self.free = self.end = n
        if isinstance(visible, Causal):
            self.free, self.end = (visible.first + at - part.start for at in (self.at.start, self.at.stop - 1))
        elif visible is not None:
            self.free, self.mask = 0, visible[self.at, part]

    def hidden(self, start: int, stop: int) -> Any:
        """Return which queries do not see the pairs from `start` to `stop` of the share, (pairs, rows)."""
        if self.mask is not None:
            return np.ascontiguousarray(~self.mask[:, start:stop].T)
        return np.greater_equal(np.arange(start, stop)[:, None], self.free + np.arange(self.rows))

    def absorb_all(
        self, keys: Floats, values: Floats, slab: int, scratch: _Scratch, hidden: Floats | None = None
    ) -> None:
        """Take in the pairs: a stack of small products, and what is left over."""
        if self.rows == 1 and hidden is None:
            return self.absorb_one(keys, values, scratch)
        whole = len(keys) // slab * slab
        for at, size in ((slice(0, whole), slab), (slice(whole, len(keys)), len(keys) - whole)):
            if size and at.stop > at.start:
                self.absorb(keys[at], values[at], size, scratch, None if hidden is None else hidden[at])
        return None

    def absorb(self, keys: Floats, values: Floats, slab: int, scratch: _Scratch, hidden: Floats | None = None) -> None:
        """Take in the pairs, in a stack of products of `slab` pairs each (their number is a multiple of it)."""
        n, rows = len(keys), self.rows
        stack = n // slab
        flat = scratch.weights[: n * rows].reshape(n, rows)
        logits = flat.reshape(stack, slab, rows)
        np.matmul(keys.reshape(stack, slab, keys.shape[1]), self.queries, out=logits)
        if hidden is not None:
            np.copyto(flat, -np.inf, where=hidden)
        # Folding many pairs into one long row lets the maximum run over long rows.
        fold = math.gcd(n, 1 << max(0, (LONG_ROW // rows).bit_length() - 1))
        top = flat.reshape(n // fold, fold * rows).max(axis=0).reshape(fold, rows).max(axis=0)
        self._follow(top)
        if self.shifted:
            flat -= self.shift
        self.power(flat, out=flat)
        self.total += scratch.ones[:n] @ flat
        sums = scratch.sums[: stack * self.sums.size].reshape(stack, *self.sums.shape)
        np.matmul(logits.mT, values.reshape(stack, slab, values.shape[1]), out=sums)
        # A product with ones adds them up faster than NumPy's sum.
        self.sums += (scratch.ones[:stack] @ sums.reshape(stack, -1)).reshape(self.sums.shape)

    def absorb_one(self, keys: Floats, values: Floats, scratch: _Scratch) -> None:
        """Take in the pairs for a single query, by matrix-vector products."""
        logits = scratch.weights[: len(keys)]
        np.matmul(keys, self.queries[:, 0], out=logits)
        self._follow(logits.max(keepdims=True))
        if self.shifted:
            logits -= self.shift
        self.power(logits, out=logits)
        self.total += logits.sum()
        self.sums[0] += logits @ values

    def _follow(self, top: Floats) -> None:
        """Update the running maximum; move the shift where the maximum left [shift, shift + HEADROOM]."""
        np.maximum(self.peak, top, out=self.peak)
        lead = self.peak - self.shift
        if lead.min() >= 0 and lead.max() <= HEADROOM:
            return
        # A query that has seen nothing yet has no maximum to follow.
        stays = ((lead >= 0) & (lead <= HEADROOM)) | (self.peak == -np.inf)
        shift = np.where(stays, self.shift, self.peak)
        factor = self.power(self.shift - shift)
        # Before anything was absorbed the sums are zero, and zero times an infinite factor would be NaN.
        np.copyto(factor, 0, where=self.total == 0)
        self.total *= factor
        self.sums *= factor[:, None]
        self.shift = shift
        self.shifted = True


def _merged(tiles: Sequence[_Tile]) -> tuple[Floats, Floats, Floats, Floats, Floats]:
    """Return output, log mass, largest logit, shift and share of a tile's shares (in units of the power's base)."""
    shifts = [np.where(t.peak == -np.inf, -np.inf, t.shift) for t in tiles]
    shift = np.max(shifts, axis=0).astype(np.float64)
    shift[shift == -np.inf] = 0
    factors = [tiles[0].power(own - shift) for own in shifts]
    total = sum(t.total * f for t, f in zip(tiles, factors, strict=True))
    sums = sum(t.sums * f[:, None] for t, f in zip(tiles, factors, strict=True))
    log = np.log2 if tiles[0].power is np.exp2 else np.log
    peak = np.max([t.peak for t in tiles], axis=0)
    sums /= np.where(peak == -np.inf, 1, total)[:, None]
    return sums, shift + log(total), peak, shift, total
