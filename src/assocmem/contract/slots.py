"""The slots of a state: rows kept for its pairs, held by the state and never asked for their kind by a store."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, Self

import numpy as np

from assocmem.contract import arrays as ar
from assocmem.contract.arrays import Array, DType, Namespace

BLOCK_NUMBERS = 2**20
"""Numbers in one block of rows or similarities."""


@dataclass(frozen=True)
class Rows:
    """What a store's `init` names where it keeps a row for every pair: its width, and its dtype if not the state's."""

    width: int
    dtype: DType = None


class Slots(Protocol):
    """Rows by name, each array (*batch, count, width). They never change: `append` and `select` return others.

    A store reads them by name from its state, block by block, by id, or by search, whatever holds them.
    """

    @property
    def count(self) -> int:
        """Rows held."""

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the arrays."""

    @property
    def numbers(self) -> int:
        """Numbers held in these rows, all batch items together."""

    @property
    def place(self) -> str | None:
        """The folder that keeps the rows when the process ends, whose name a saved memory holds; None for no such."""

    def empty(self, rows: Mapping[str, Array]) -> Self:
        """Return slots like these that hold nothing, for rows like these (*batch, 0, width)."""

    def __getitem__(self, name: str) -> Array:
        """Return all rows of one name."""

    def append(self, rows: Mapping[str, Array]) -> Self:
        """Return the slots with these rows (*batch, n, width) behind their own."""

    def select(self, ids: Array) -> Self:
        """Return the slots of the rows `ids` (k,) alone, whole numbers in [0, count), in that order."""

    def astype(self, dtype: DType) -> Self:
        """Return the slots with floating rows in `dtype`."""

    def blocks(self, size: int | None = None) -> Iterator[tuple[slice, Mapping[str, Array]]]:
        """Yield the rows in blocks of at most `size`, each with its place."""

    def take(self, name: str, ids: Array) -> Array:
        """Return rows by id: ids (*batch, m, k) or (m, k) -> (*batch, m, k, width)."""

    def search(self, queries: Array, k: int, name: str = "keys") -> tuple[Array, Array]:
        """Return ids and similarities (..., m, k) of the rows most similar to queries (..., m, width), best first.

        Of equal ones the first stored comes first; k is at most `count`.
        """

    def unread(self, queries: Array, k: int, name: str = "keys") -> tuple[Array, Array] | None:
        """Return what that search does not look at, in groups: their rows and how similar they are at most.

        Both (..., m, groups); None where it looks at all rows, so that none is more similar than the last one found.
        """


class RowsByName(ABC):
    """What all slots have that give their rows by name: blocks, ids and exact search over them."""

    __slots__ = ()

    count: int

    @property
    @abstractmethod
    def names(self) -> tuple[str, ...]:
        """The names of the arrays."""

    @abstractmethod
    def __getitem__(self, name: str) -> Array: ...

    @property
    def numbers(self) -> int:
        """Numbers held in these rows, without what a buffer has room for."""
        return sum(math.prod(self[name].shape) for name in self.names)

    def blocks(self, size: int | None = None) -> Iterator[tuple[slice, Mapping[str, Array]]]:
        """Yield views of the rows in blocks of at most `size`, by default about a million numbers each."""
        step = size or max(1, BLOCK_NUMBERS * self.count // max(1, self.numbers))
        for start in range(0, self.count, step):
            at = slice(start, min(start + step, self.count))
            yield at, {name: self[name][..., at, :] for name in self.names}

    def take(self, name: str, ids: Array) -> Array:
        """Return rows by id."""
        rows = self[name]
        xp, width, batch = ar.namespace(rows), int(rows.shape[-1]), tuple(rows.shape[:-2])
        flat = xp.broadcast_to(ids, (*ar.broadcast_shapes(batch, tuple(ids.shape[:-2])), *ids.shape[-2:]))
        if batch:
            items = xp.reshape(xp.arange(math.prod(batch), device=ar.device_of(ids)), (*batch, 1, 1))
            flat = flat + items * self.count
        found = xp.take(xp.reshape(rows, (math.prod(batch) * self.count, width)), xp.reshape(flat, (-1,)), axis=0)
        return xp.reshape(found, (*flat.shape, width))

    def search(self, queries: Array, k: int, name: str = "keys") -> tuple[Array, Array]:
        """Return ids and similarities of the most similar rows: exact, a block at a time."""
        xp, device = ar.namespace(queries), ar.device_of(queries)
        lead = (*ar.broadcast_shapes(tuple(queries.shape[:-2]), tuple(self[name].shape[:-2])), queries.shape[-2])
        best = xp.zeros((*lead, 0), dtype=queries.dtype, device=device)
        ids = xp.zeros((*lead, 0), dtype=xp.int64, device=device)
        for at, rows in self.blocks(max(1, BLOCK_NUMBERS // max(1, math.prod(lead)))) if k else ():
            found = queries @ ar.transpose(_cast(rows[name], queries.dtype, xp))
            places = xp.broadcast_to(xp.arange(at.start, at.stop, device=device), found.shape)
            best, ids = xp.concat([best, found], axis=-1), xp.concat([ids, places], axis=-1)
            kept = ar.top_k(best, k)
            best, ids = xp.take_along_axis(best, kept, axis=-1), xp.take_along_axis(ids, kept, axis=-1)
        order = xp.argsort(-best, axis=-1, stable=True)
        return xp.take_along_axis(ids, order, axis=-1), xp.take_along_axis(best, order, axis=-1)

    def unread(self, queries: Array, k: int, name: str = "keys") -> tuple[Array, Array] | None:
        """Return None: the search looks at all rows."""
        return None


class DenseSlots(RowsByName):
    """Rows in memory, in a buffer that doubles and that successive slots share.

    Slots own the end of the buffer while their count is what is used of it; only then may they append in place. All
    others copy, so two writes from one old state are both right, from two threads too.
    """

    __slots__ = ("_buffer", "_rows", "count")

    place: str | None = None

    def __init__(self, rows: Mapping[str, Array], buffer: Buffer | None = None) -> None:
        self._rows = rows
        self._buffer = buffer
        self.count = int(next(iter(rows.values())).shape[-2]) if rows else 0

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the arrays."""
        return tuple(self._rows)

    @property
    def capacity(self) -> int:
        """Rows that there is room for."""
        return self.count if self._buffer is None else self._buffer.capacity

    def empty(self, rows: Mapping[str, Array]) -> DenseSlots:
        """Return slots that hold nothing, for rows like these."""
        return DenseSlots(rows)

    def __getitem__(self, name: str) -> Array:
        return self._rows[name]

    def __getstate__(self) -> dict[str, Any]:
        return {"_rows": dict(self._rows)}

    def __setstate__(self, kept: dict[str, Any]) -> None:
        self.__init__(kept["_rows"])  # type: ignore[misc]  # a pickle holds the rows, not the buffer

    def append(self, rows: Mapping[str, Array]) -> DenseSlots:
        """Return the slots with these rows behind their own: written in place where possible, else copied."""
        own, buffer, count = self._rows, self._buffer, self.count
        total = count + int(next(iter(rows.values())).shape[-2])
        if buffer is not None and not all(map(_may_copy, buffer.rows.values())):
            buffer = None
        if buffer is None or any(map(ar.carries_gradient, rows.values())) or not buffer.claim(count, total):
            if not all(_may_copy(a) for a in (*rows.values(), *own.values())):
                return DenseSlots({name: _joined(own[name], row) for name, row in rows.items()})
            buffer = _grown(own, count, total)
        views = {}
        for name, row in rows.items():
            array = buffer.rows[name]
            ar.write_rows(array, count, total, row)
            views[name] = array[..., :total, :]
        buffer.used = total
        return DenseSlots(views, buffer)

    def select(self, ids: Array) -> DenseSlots:
        """Return the slots of the rows `ids` alone."""
        return DenseSlots({name: ar.namespace(a).take(a, ids, axis=-2) for name, a in self._rows.items()})

    def astype(self, dtype: DType) -> DenseSlots:
        """Return the slots with floating rows in `dtype`; themselves where they are."""
        cast = {name: _cast(a, dtype, ar.namespace(a)) for name, a in self._rows.items()}
        return self if all(cast[name] is a for name, a in self._rows.items()) else DenseSlots(cast)


class Buffer:
    """Rows (..., capacity, width) of which the first `used` are taken; several slots may share it."""

    __slots__ = ("_end", "capacity", "rows")

    def __init__(self, rows: Mapping[str, Array], used: int) -> None:
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
        """Take the end for a writer that has `used` rows and wants `total`; False where it must copy.

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


def _may_copy(x: Array) -> bool:
    """Say whether rows of `x` may be copied into a buffer: not where they are immutable or carry a gradient."""
    return type(x) is np.ndarray or ar.can_write_in_place(x)


def _joined(own: Array, more: Array) -> Array:
    return ar.namespace(own).concat([own, more], axis=-2)


def _cast(x: Array, dtype: DType, xp: Namespace) -> Array:
    return xp.astype(x, dtype) if x.dtype != dtype and xp.isdtype(x.dtype, "real floating") else x


def _grown(own: Mapping[str, Array], count: int, total: int) -> Buffer:
    """Return a buffer of at least twice the size that starts with a copy of the rows."""
    fresh = {}
    for name, old in own.items():
        shape = (*old.shape[:-2], max(16, 2 * count, total), int(old.shape[-1]))
        array = ar.namespace(old).empty(shape, dtype=old.dtype, device=ar.device_of(old))
        if count:
            ar.write_rows(array, 0, count, old)
        fresh[name] = array
    return Buffer(fresh, count)
