"""Stores that keep their pairs: a doubling buffer shared by successive states, masks, shards that merge."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from assocmem.contract import arrays as ar
from assocmem.contract.arrays import Array
from assocmem.contract.errors import InputError
from assocmem.contract.state import State
from assocmem.contract.store import Store


class Buffer:
    """Rows (..., capacity, width) of which the first `used` are taken; several states may share it.

    A state owns the end of the buffer while its own count equals `used`; only then may a write append in
    place. Any other state copies, so two writes from one old state are both right, from two threads too.
    """

    __slots__ = ("_end", "capacity", "rows")

    def __init__(self, rows: dict[str, Array], used: int) -> None:
        self.rows = rows
        self.capacity = int(next(iter(rows.values())).shape[-2])
        # The end is a token that one writer at a time can take (popping from a list is atomic).
        self._end = [used]

    @property
    def used(self) -> int:
        """Rows that are taken; -1 while a write is under way."""
        end = self._end
        return end[-1] if end else -1

    @used.setter
    def used(self, count: int) -> None:
        self._end = [count]

    def claim(self, used: int, total: int) -> bool:
        """Take the end for a writer whose state has `used` rows and wants `total`; False where it must copy.

        The writer gives it back by setting `used`.
        """
        if total > self.capacity:
            return False
        try:
            end = self._end.pop()
        except IndexError:
            return False
        if end == used:
            return True
        self._end.append(end)
        return False


@dataclass(frozen=True)
class GrowingStore(Store):
    """A store whose state is the list of its pairs.

    A family names the per-pair arrays it keeps (`columns`) and implements `_recall` over them.
    """

    def columns(self, state: State) -> dict[str, int]:
        """Return the width of each array kept per pair; "keys" and "values" by default."""
        return {"keys": state.d_k, "values": state.d_v}

    def rows_for(self, state: State, keys: Array, values: Array, **extras: Array) -> dict[str, Array]:
        """Return the rows (*batch, n, width) to append for these pairs, by the names of `columns`."""
        return {"keys": keys, "values": values}

    @abstractmethod
    def _recall(self, state: State, queries: Array, mask: Array | None) -> Array:
        """Return the recall of checked queries over the state's rows."""

    def blank(self, state: State) -> Mapping[str, Array]:
        """Return arrays without rows."""
        return {name: state.zeros(0, width) for name, width in self.columns(state).items()}

    def put(self, state: State, keys: Array, values: Array, **extras: Array) -> Mapping[str, Array]:
        """Return the rows with the new ones behind them."""
        return self._write(state, keys, values, extras).arrays

    def get(self, state: State, queries: Array) -> Array:
        """Return the recall of queries that see every pair."""
        return self._recall(state, queries, None)

    def _write(self, state: State, keys: Array, values: Array, extras: dict[str, Array]) -> State:
        return self._append(state, self.rows_for(state, keys, values, **extras), int(keys.shape[-2]))

    def merge(self, *states: State) -> State:
        """Return one state that holds the pairs of all `states`, in order; cost: a copy of all but the first.

        Raises InputError where sizes, batches or array libraries differ.
        """
        total, *others = self._alike(states)
        for state in others:
            total = self._append(total, state.arrays, state.n)
        return total

    def _append(self, state: State, rows: Mapping[str, Array], count: int) -> State:
        """Return the state with `count` more rows behind its own."""
        n, total = state.n, state.n + count
        buffer = state.held
        if buffer is not None and not all(map(_may_copy, buffer.rows.values())):
            buffer = None
        if buffer is None or any(map(ar.carries_gradient, rows.values())) or not buffer.claim(n, total):
            if not all(_may_copy(a) for a in (*rows.values(), *state.arrays.values())):
                joined = {name: state.xp.concat([state.arrays[name], row], axis=-2) for name, row in rows.items()}
                return state.having(joined, n=total)
            buffer = _grown(state, rows, total)
        views = {}
        for name, row in rows.items():
            array = buffer.rows[name]
            ar.write_rows(array, n, total, row)
            views[name] = array[..., :total, :]
        buffer.used = total
        return state.having(views, n=total, held=buffer)

    def recall_with_mass(self, state: State, queries: Array, *, mask: Array | None = None) -> Recall:
        """Return the recall (..., m, d_v) together with the logarithm of the weights' sum (..., m).

        With it, `merge` joins the recalls of shards exactly. The log mass is -inf where a query sees nothing,
        None for stores whose weights are not normalised (their shards add).
        """
        queries = self._checked_queries(state, queries)
        mask = self._checked_mask(state, queries, mask)
        state = self._following(state, queries)
        with ar.overflow_unheard():
            found = self._recall_with_mass(state, self._as_state_dtype(state, queries), mask)
        return found._replace(output=self._finish(found.output, state, queries))

    def _recall_with_mass(self, state: State, queries: Array, mask: Array | None) -> Recall:
        return Recall(self._recall(state, queries, mask), None)

    def weights(self, state: State, queries: Array, *, mask: Array | None = None) -> Array:
        """Return the recall weights (..., m, n): recall is weights @ values. Memory grows with m x n."""
        queries = self._checked_queries(state, queries)
        mask = self._checked_mask(state, queries, mask)
        state = self._following(state, queries)
        with ar.overflow_unheard():
            return self._weights(state, self._as_state_dtype(state, queries), mask)

    @abstractmethod
    def _weights(self, state: State, queries: Array, mask: Array | None) -> Array:
        """Return the recall weights of checked queries."""


def _may_copy(x: Array) -> bool:
    """Say whether rows of `x` may be copied into a buffer: not where they are immutable or carry a gradient."""
    return type(x) is np.ndarray or ar.can_write_in_place(x)


def _grown(state: State, rows: Mapping[str, Array], total: int) -> Buffer:
    """Return a buffer of at least twice the size that starts with a copy of the state's rows."""
    capacity = max(16, 2 * state.n, total)
    fresh = {}
    for name, row in rows.items():
        old = state.arrays[name]
        array = state.xp.empty((*old.shape[:-2], capacity, int(row.shape[-1])), dtype=old.dtype, device=state.device)
        if state.n:
            ar.write_rows(array, 0, state.n, old)
        fresh[name] = array
    return Buffer(fresh, state.n)


class Recall(NamedTuple):
    """A recall with what is needed to merge it with the recalls of other shards.

    output: (..., m, d_v). log_mass: (..., m), log of the sum of weights; at beta = inf the largest similarity;
    None where weights are not normalised. ties: at beta = inf the number of memories that share the largest
    similarity (..., m), else None.

    peak, share: (..., m), log_mass once more as peak + log(share), or None. Beside a large peak the log of the share
    is lost to rounding, and with it how many memories stand at the peak. (Whether two logits are equal is still
    decided in floating point: a matrix product may round equal keys otherwise in shards of another size.)
    """

    output: Array
    log_mass: Array | None
    ties: Array | None = None
    peak: Array | None = None
    share: Array | None = None


def merge(shards: Sequence[Recall]) -> Recall:
    """Join the recalls of disjoint shards of one memory into the recall of the whole.

    Normalised stores: o = sum_i e^(l_i - l) o_i with l = log sum_i e^(l_i), exact, associative and commutative.
    Unnormalised ones add. At beta = inf the shards that hold the largest similarity share by their ties.
    Where the sharpness depends on the number of memories, recall every shard with the total number
    (`n_total=` of SoftmaxAttention.recall_with_mass).

    Parameters: shards, a non-empty sequence of Recall of one shape, all with log_mass or all without.
    Raises InputError otherwise. Cost: one pass over the outputs.
    """
    if not shards:
        raise InputError("`shards` of merge must hold at least one recall; got none.")
    if len({(s.log_mass is None, s.ties is None) for s in shards}) != 1:
        raise InputError("`shards` of merge must all come from the same store with the same settings.")
    if len({tuple(s.output.shape) for s in shards}) != 1:
        raise InputError(
            f"`shards` of merge must have one shape; got {sorted({tuple(s.output.shape) for s in shards})}."
        )
    first = shards[0]
    if first.log_mass is None:
        total = first.output
        for shard in shards[1:]:
            total = total + shard.output
        return Recall(total, None)
    xp = ar.namespace(first.output)
    if first.ties is not None:
        masses, counts = xp.stack([s.log_mass for s in shards]), xp.stack([s.ties for s in shards])
        peak = xp.max(masses, axis=0)
        shares = counts * xp.astype(masses == peak, masses.dtype)
    elif any(s.peak is None or s.share is None for s in shards):
        masses = xp.stack([s.log_mass for s in shards])
        peak = xp.max(masses, axis=0)
        shares = xp.exp(masses - _seen(peak))
    else:
        masses = xp.stack([s.peak for s in shards])
        peak = xp.max(masses, axis=0)
        shares = xp.exp(masses - _seen(peak)) * xp.stack([s.share for s in shards])
    total = xp.sum(shares, axis=0)
    some = peak > -float("inf")
    divisor = xp.where(some, total, xp.ones_like(total))
    output = xp.zeros_like(first.output)
    for i, shard in enumerate(shards):
        share = xp.astype(shares[i, ...] / divisor, output.dtype)
        output = output + shard.output * share[..., None]
    if first.ties is not None:
        return Recall(output, peak, total)
    return Recall(output, xp.where(some, _seen(peak) + xp.log(divisor), peak), None, peak, total)


def _seen(peak: Array) -> Array:
    """Return `peak` with 0 where a query sees nothing."""
    return ar.namespace(peak).where(peak > -float("inf"), peak, 0 * ar.namespace(peak).ones_like(peak))
