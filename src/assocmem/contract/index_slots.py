"""Slots with an index: rows in cells, of which a search reads the few nearest and says what it left unread."""

from __future__ import annotations

import hashlib
import math
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from assocmem.contract import arrays as ar
from assocmem.contract.arrays import Array, DType
from assocmem.contract.errors import FileFormatError, InputError, MissingExtraError
from assocmem.contract.files import write_whole
from assocmem.contract.numbers import is_whole
from assocmem.contract.slots import BLOCK_NUMBERS, RowsByName, Slots

SEARCHED = "keys"
"""The rows that the index is of."""
FORMAT = "1"
SAMPLE = 1024
"""Rows by which an index file knows the rows that it was made of."""
_ROUNDS, _SEED, _TRAINED_ON = 10, 0, 64

Floats = np.ndarray[Any, Any]


@dataclass(frozen=True, eq=False)
class _Cells:
    """The first `count` rows by cells: their centres (c, width), how far rows are from them, and whose rows they are.

    order: the rows, cell after cell. ends: where each cell begins, and the last ends (c + 1).
    """

    centres: Floats
    radii: Floats
    order: Floats
    ends: Floats

    @property
    def count(self) -> int:
        return len(self.order)

    @property
    def numbers(self) -> int:
        return self.centres.size + self.radii.size + self.order.size + self.ends.size

    def read(self, x: Floats, probes: int, k: int) -> tuple[Floats, Floats]:
        """Return which cells each query reads (m, c): the `probes` nearest, more where those hold fewer than k rows.

        And the inner products with their centres (m, c).
        """
        near = x @ self.centres.T.astype(x.dtype)
        distance = np.sum(self.centres**2, axis=-1) / 2 - near
        order = np.argsort(distance, axis=-1, kind="stable")
        before = np.cumsum(np.diff(self.ends)[order], axis=-1) - np.diff(self.ends)[order]
        wanted = (np.arange(len(self.radii)) < probes) | (before < k)
        read = np.zeros_like(wanted)
        np.put_along_axis(read, order, wanted, axis=-1)
        return read, near

    def rows_of(self, read: Floats) -> Floats:
        """Return the rows of the cells that one query reads (c,)."""
        return np.concatenate([self.order[self.ends[c] : self.ends[c + 1]] for c in np.flatnonzero(read)])


class IndexSlots(RowsByName):
    """Rows in other slots, of which a search reads the cells nearest to the query alone.

    Rows are grouped by k-means (faiss) once there are `least` of them, and again whenever they have doubled; those
    that came since are read by every search, so that nothing is missed for being new. With `probes` at least as many
    as there are cells the search is exact. What it leaves unread is known by its cells: a row of a cell with centre c
    and radius r is at most x.c + |x| r similar to x, and by that stores bound their error (`Recall.dropped`).

    Parameters
    ----------
    rows : Slots
        Where the rows are, `MappedSlots` or those of a state. The index itself is in memory: about a number a row.
    cells : int, optional
        Groups >= 1; by default twice the root of the number of rows.
    probes : int
        Cells that a search reads, >= 1. More are read where those hold fewer rows than are sought.
    least : int
        Rows, >= 1, below which every search is exact.

    Raises
    ------
    InputError
        For settings out of range, rows with batch axes, and arrays of other libraries than NumPy.
    MissingExtraError
        When the first index is made, where faiss is not installed.

    Notes
    -----
    Cost: an index takes rows x cells x width multiply-adds; a search cells x width, and width for each row read.
    A saved memory holds the rows alone; `save_index` keeps the index, `IndexSlots.opened` takes it up.

    Examples
    --------
    >>> import numpy as np
    >>> from assocmem import Memory
    >>> from assocmem.contract.slots import DenseSlots
    >>> memory = Memory("nearest-neighbours", k=1, slots=IndexSlots(DenseSlots({}), least=100))
    >>> memory.write(np.eye(4), np.arange(4.0)[:, None])
    >>> memory.recall(np.eye(4)[2]).tolist()
    [2.0]
    """

    __slots__ = ("_cells", "cells", "count", "least", "probes", "rows")

    def __init__(self, rows: Slots, *, cells: int | None = None, probes: int = 16, least: int = 10_000) -> None:
        if not hasattr(rows, "append") or isinstance(rows, IndexSlots):
            raise InputError(f"`rows` of IndexSlots must be slots without an index; got {type(rows).__name__}.")
        for name, given in (("cells", cells), ("probes", probes), ("least", least)):
            if not (is_whole(given, 1) or (name == "cells" and given is None)):
                raise InputError(f"`{name}` of IndexSlots must be a whole number >= 1; got {given!r}.")
        self.rows, self.cells, self.probes, self.least = rows, cells, probes, least
        self.count, self._cells = rows.count, None
        if rows.count:
            _checked(rows[SEARCHED])
            self._cells = self._indexed(None)

    def _with(self, rows: Slots, kept: _Cells | None) -> IndexSlots:
        slots = IndexSlots.__new__(IndexSlots)
        slots.rows, slots.cells, slots.probes, slots.least = rows, self.cells, self.probes, self.least
        slots.count, slots._cells = rows.count, kept
        slots._cells = slots._indexed(kept)
        return slots

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the arrays."""
        return self.rows.names

    @property
    def numbers(self) -> int:
        """Numbers held in the rows and in the index."""
        return self.rows.numbers + (0 if self._cells is None else self._cells.numbers)

    @property
    def place(self) -> str | None:
        """The folder of the rows, None where they have none."""
        return self.rows.place

    @property
    def indexed(self) -> int:
        """How many of the rows are in the index: the first ones."""
        return 0 if self._cells is None else self._cells.count

    def __getitem__(self, name: str) -> Array:
        return self.rows[name]

    def __getstate__(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in ("rows", "cells", "probes", "least", "count", "_cells")}

    def __setstate__(self, kept: dict[str, Any]) -> None:
        for name, value in kept.items():
            setattr(self, name, value)

    def empty(self, rows: Mapping[str, Array]) -> IndexSlots:
        """Return slots that hold nothing, for rows like these."""
        _checked(rows[SEARCHED])
        return self._with(self.rows.empty(rows), None)

    def append(self, rows: Mapping[str, Array]) -> IndexSlots:
        """Return the slots with these rows behind their own, indexed anew where they have doubled."""
        return self._with(self.rows.append(rows), self._cells)

    def select(self, ids: Array) -> IndexSlots:
        """Return the slots of the rows `ids` alone, with an index of their own."""
        return self._with(self.rows.select(ids), None)

    def astype(self, dtype: DType) -> IndexSlots:
        """Return the slots with floating rows in `dtype`; themselves where they are."""
        rows = self.rows.astype(dtype)
        return self if rows is self.rows else self._with(rows, None)

    def blocks(self, size: int | None = None) -> Iterator[tuple[slice, Mapping[str, Array]]]:
        """Yield the rows in blocks of at most `size`, each with its place."""
        return self.rows.blocks(size)

    def take(self, name: str, ids: Array) -> Array:
        """Return rows by id."""
        return self.rows.take(name, ids)

    def search(self, queries: Array, k: int, name: str = SEARCHED) -> tuple[Array, Array]:
        """Return ids and similarities of the most similar of the rows that are read, best first; ties by id."""
        if self._cells is None or name != SEARCHED or not k:
            return self.rows.search(queries, k, name)
        flat = np.reshape(queries, (-1, queries.shape[-1]))
        keys, read = self.rows[SEARCHED], self._cells.read(flat, self.probes, k)[0]
        newer = np.arange(self._cells.count, self.count)
        ids, best = np.empty((len(flat), k), np.int64), np.empty((len(flat), k), flat.dtype)
        for i, x in enumerate(flat):
            at = np.sort(np.concatenate([self._cells.rows_of(read[i]), newer]))
            found = np.concatenate([keys[part].astype(x.dtype, copy=False) @ x for part in _parts(at, len(x))])
            kept = ar.top_k(found[None], k)[0]
            kept = np.sort(kept)
            kept = kept[np.argsort(-found[kept], kind="stable")]
            ids[i], best[i] = at[kept], found[kept]
        shape = (*queries.shape[:-1], k)
        return ids.reshape(shape), best.reshape(shape)

    def unread(self, queries: Array, k: int, name: str = SEARCHED) -> tuple[Array, Array] | None:
        """Return of each cell how many rows the search leaves unread, and how similar they are at most (..., m, c)."""
        if self._cells is None or name != SEARCHED or not k:
            return None
        flat = np.reshape(queries, (-1, queries.shape[-1]))
        read, near = self._cells.read(flat, self.probes, k)
        most = near + np.linalg.norm(flat, axis=-1, keepdims=True) * self._cells.radii
        counts = np.where(read, 0, np.diff(self._cells.ends))
        shape = (*queries.shape[:-1], read.shape[-1])
        return counts.astype(flat.dtype).reshape(shape), most.reshape(shape)

    def save_index(self, path: str | os.PathLike[str]) -> Path:
        """Write the index to a file (safetensors), without the rows; return its path.

        Raises InputError where there are too few rows to have one, or where the file cannot be written.
        """
        from safetensors.numpy import save

        if self._cells is None:
            raise InputError(f"there is no index to save: {self.count} rows are fewer than `least` = {self.least}.")
        kept = self._cells
        arrays = {"centres": kept.centres, "radii": kept.radii, "order": kept.order, "ends": kept.ends}
        header = {"format": FORMAT, "rows": _fingerprint(self.rows[SEARCHED], kept.count)}
        return write_whole(Path(path), save(arrays, metadata=header))

    @classmethod
    def opened(cls, rows: Slots, path: str | os.PathLike[str], *, probes: int = 16, least: int = 10_000) -> IndexSlots:
        """Return slots over `rows` with the index of a file; faiss is not needed.

        Parameters
        ----------
        rows : Slots
            Those that the index was made of, or with further rows behind them.
        path : str or path
            Of `save_index`.
        probes, least
            As in the class.

        Returns
        -------
        IndexSlots
            With the file's index.

        Raises
        ------
        FileFormatError
            Where the file is damaged, was made for another width or of other rows, or of more than there are.
        """
        slots = cls(rows, probes=probes, least=max(least, rows.count + 1))
        slots.least = least
        kept, of = _read(Path(path))
        width, file = int(rows[SEARCHED].shape[-1]), Path(path)
        if kept.centres.shape[1] != width:
            raise FileFormatError(f"{file} is an index of rows of width {kept.centres.shape[1]}; these have {width}.")
        if kept.count > rows.count:
            raise FileFormatError(f"{file} is an index of {kept.count} rows; there are {rows.count}.")
        if _fingerprint(rows[SEARCHED], kept.count) != of:
            raise FileFormatError(f"{file} is an index of other rows than these.")
        slots._cells, slots.cells = kept, len(kept.radii)
        return slots

    def _indexed(self, kept: _Cells | None) -> _Cells | None:
        """Return the index that is there, or another where rows have doubled since, none where they are few."""
        if self.count < max(self.least, 2 * (0 if kept is None else kept.count)):
            return kept
        cells = self.cells or max(1, round(2 * math.sqrt(self.count)))
        return _made(self.rows[SEARCHED], min(cells, self.count))


def _made(keys: Floats, cells: int) -> _Cells:
    """Return the cells of all rows (n, width), their centres by k-means over some of them."""
    faiss = _faiss()
    n, width = keys.shape
    sample = keys[:: max(1, n // (_TRAINED_ON * cells))]
    means = faiss.Kmeans(
        width, cells, niter=_ROUNDS, seed=_SEED, min_points_per_centroid=1, max_points_per_centroid=2 * _TRAINED_ON
    )
    means.train(np.ascontiguousarray(sample, dtype=np.float32))
    centres, own, squares = means.centroids, np.empty(n, np.int32), np.zeros(cells)
    for part in _parts(np.arange(n), width):
        rows = np.ascontiguousarray(keys[part[0] : part[-1] + 1], dtype=np.float32)
        at = means.index.search(rows, 1)[1][:, 0]
        own[part[0] : part[-1] + 1] = at
        off = keys[part[0] : part[-1] + 1].astype(np.float64) - centres[at]
        np.maximum.at(squares, at, np.einsum("nd,nd->n", off, off))
    ends = np.concatenate([[0], np.cumsum(np.bincount(own, minlength=cells))])
    order = np.argsort(own, kind="stable")
    return _Cells(centres.astype(np.float64), np.sqrt(squares) * (1 + 1e-6), order, ends)


def _faiss() -> Any:
    try:
        import faiss
    except ImportError as error:
        raise MissingExtraError("an index of rows needs faiss: pip install 'assocmem[index]'.") from error
    return faiss


def _checked(keys: Array) -> None:
    if type(keys) is not np.ndarray:
        raise InputError(f"IndexSlots keep NumPy's arrays alone; got {type(keys).__name__}.")
    if keys.ndim != 2:
        raise InputError(f"IndexSlots take no batch axes; got rows of shape {keys.shape}.")


def _parts(at: Floats, width: int) -> Iterator[Floats]:
    """Yield row numbers, as many at a time as hold about a million numbers."""
    step = max(1, BLOCK_NUMBERS // max(1, width))
    return (at[start : start + step] for start in range(0, max(1, len(at)), step))


def _fingerprint(keys: Floats, count: int) -> str:
    """Return a digest of rows evenly spaced among the first `count`."""
    some = keys[np.unique(np.linspace(0, count - 1, min(count, SAMPLE)).astype(int))]
    return hashlib.sha256(f"{keys.dtype.name} {count}".encode() + np.ascontiguousarray(some).tobytes()).hexdigest()


def _read(file: Path) -> tuple[_Cells, str]:
    """Return the index of a file and the digest of the rows that it is of; FileFormatError for a damaged one."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(file, "numpy") as opened:
            of = opened.metadata() or {}
            kept = _Cells(*(opened.get_tensor(name) for name in ("centres", "radii", "order", "ends")))
    except (OSError, SafetensorError) as error:
        raise FileFormatError(f"{file} cannot be read as an index: {error}.") from error
    c, n = len(kept.radii), kept.count
    sound = kept.centres.shape[:1] == (c,) and kept.centres.ndim == 2 and kept.ends.shape == (c + 1,) and c > 0
    sound = sound and kept.ends[0] == 0 and kept.ends[-1] == n and bool(np.all(np.diff(kept.ends) >= 0))
    if of.get("format") != FORMAT or not sound or not np.array_equal(np.sort(kept.order), np.arange(n)):
        raise FileFormatError(f"{file} is damaged, or no index of this assocmem.")
    return kept, of["rows"]
