"""Stores that keep their pairs: a doubling buffer shared by successive states."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from assocmem.contract import arrays as ar
from assocmem.contract.arrays import Array
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

    A family names the per-pair arrays it keeps (`columns`) and reads them in `get`.
    """

    def columns(self, state: State) -> dict[str, int]:
        """Return the width of each array kept per pair; "keys" and "values" by default."""
        return {"keys": state.d_k, "values": state.d_v}

    def rows_for(self, state: State, keys: Array, values: Array, **extras: Array) -> dict[str, Array]:
        """Return the rows (*batch, n, width) to append for these pairs, by the names of `columns`."""
        return {"keys": keys, "values": values}

    def init(self, state: State) -> Mapping[str, Array]:
        """Return arrays without rows."""
        return {name: state.zeros(0, width) for name, width in self.columns(state).items()}

    def put(self, state: State, keys: Array, values: Array, **extras: Array) -> Mapping[str, Array]:
        """Return the rows with the new ones behind them."""
        return self._write(state, keys, values, extras).arrays

    def _write(self, state: State, keys: Array, values: Array, extras: dict[str, Array]) -> State:
        return self._append(state, self.rows_for(state, keys, values, **extras), int(keys.shape[-2]))

    def _joined(self, state: State, other: State) -> State:
        return self._append(state, other.arrays, other.n)

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
