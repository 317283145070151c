"""Slots in files: rows kept in a folder, mapped into memory and gone through a block at a time."""

from __future__ import annotations

import json
import math
import os
import shutil
import tempfile
import threading
import weakref
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from assocmem.contract import arrays as ar
from assocmem.contract.arrays import Array, DType
from assocmem.contract.errors import FileFormatError, InputError
from assocmem.contract.files import CLAIM, TEMPORARY, claimed, write_whole
from assocmem.contract.numbers import is_whole
from assocmem.contract.slots import RowsByName

HEADER = "slots.json"
FORMAT = 1
COPY = "copy-"
"""What the folders of copies are called, which live as long as the slots that are in them."""
_WRITING = threading.Lock()


class MappedSlots(RowsByName):
    """Rows of NumPy arrays in the files of a folder, which may be larger than memory.

    Appending writes behind the rows that are there; reading maps the files, so that rows are in memory only while they
    are used, and where the system has room. The folder holds `slots.json` (which names the arrays and counts their
    rows) and a file of bare numbers for every name, little-endian, row after row, each row (*batch, width).

    Slots never change: where rows stand behind these already, as after two writes from one old state, `append` goes on
    in a copy inside the folder, which ends with the slots in it; so do `select` and `astype`. A write that fails leaves
    the folder as it was.

    Parameters
    ----------
    folder : str or path
        A new or an empty one, made with the first rows. One that holds slots is opened by `MappedSlots.opened`, or by
        loading the memory that was saved with it.

    Raises
    ------
    InputError
        For a path of another type; on appending for a folder that holds other files, that another process writes to,
        or that cannot be written, and for arrays of other libraries.
    FileFormatError
        On reading, where a file is missing or shorter than its rows. A file that is cut while a recall goes through it
        ends the process, as the system does with mapped files.

    Notes
    -----
    Cost: a write copies the rows to disk; a recall reads all of them, from the page cache as far as they are there.

    Examples
    --------
    >>> import tempfile
    >>> from assocmem import Memory
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     memory = Memory("softmax", slots=MappedSlots(folder + "/rows"), beta=8.0)
    ...     memory.write([[1.0, 0.0], [0.0, 1.0]], [[3.0], [5.0]])
    ...     recalled = memory.recall([1.0, 0.0])
    >>> recalled.round(3).tolist()
    [3.001]
    """

    __slots__ = ("_layout", "_maps", "_own", "count", "folder")

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        if not isinstance(folder, str | os.PathLike):
            raise InputError(f"`folder` of MappedSlots must be a text or a path; got {folder!r}.")
        self._become(Path(os.path.abspath(folder)), {}, 0, _Files())

    def _become(self, folder: Path, layout: _Layout, count: int, own: _Files) -> MappedSlots:
        self.folder, self.count, self._layout, self._own = folder, count, layout, own
        self._maps: dict[str, np.ndarray[Any, Any]] = {}
        return self

    def _with(self, count: int, layout: _Layout | None = None) -> MappedSlots:
        """Return slots of the same files with another count."""
        layout = self._layout if layout is None else layout
        return _bare()._become(self.folder, layout, count, self._own)

    @classmethod
    def opened(cls, folder: str | os.PathLike[str], count: int | None = None) -> MappedSlots:
        """Return the slots that a folder holds, or their first `count` rows.

        Parameters
        ----------
        folder : str or path
            One that slots were written to.
        count : int, optional
            Whole number in [0, rows]; by default all rows.

        Returns
        -------
        MappedSlots
            With its files checked.

        Raises
        ------
        FileFormatError
            Where it holds none, or where its files are damaged or shorter than their rows.
        """
        slots = cls(folder)
        layout, there = _read(slots.folder)
        if count is not None and not (is_whole(count, 0) and count <= there):
            raise FileFormatError(f"{slots.folder} holds {there} rows; {count!r} were wanted.")
        slots._own.begun = True
        whole = slots._with(there, layout)
        for name in whole.names:
            whole._check(name)
        return whole if count is None else whole._with(int(count))

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the arrays."""
        return tuple(self._layout)

    @property
    def numbers(self) -> int:
        """Numbers held in these rows."""
        return sum(self.count * math.prod(shape) for shape, _ in self._layout.values())

    @property
    def place(self) -> str | None:
        """The folder; None for a copy, which ends with these slots."""
        return str(self.folder) if self.count and not self._own.copy else None

    def __getitem__(self, name: str) -> Array:
        """Return the rows of one name: a view of its file, not to be written to."""
        shape, dtype = self._layout[name]
        self._check(name)
        if name not in self._maps:
            whole = (self.count, *shape)
            empty = not math.prod(whole)
            flat = np.zeros(whole, dtype) if empty else np.memmap(self._file(name), dtype, "r", shape=whole)
            self._maps[name] = np.moveaxis(flat.view(np.ndarray), 0, -2)
        return self._maps[name]

    def empty(self, rows: Mapping[str, Array]) -> MappedSlots:
        """Return slots that hold nothing, for rows like these: in this folder while it is unused, else in a copy."""
        layout = {name: _row(array) for name, array in rows.items()}
        return self._with(0, layout) if not self.count else self._elsewhere(layout)

    def append(self, rows: Mapping[str, Array]) -> MappedSlots:
        """Return the slots with these rows behind their own, in the same files where nothing stands there yet."""
        for array in rows.values():
            _row(array)
        try:
            with _WRITING:
                self.folder.mkdir(parents=True, exist_ok=True)
                with claimed(self.folder):
                    if self._is_last():
                        return self._written(rows)
        except OSError as error:
            raise InputError(
                f"cannot write to {self.folder}: {error.strerror or error}; what it held is unchanged."
            ) from error
        return self._copy(self.blocks()).append(rows)

    def select(self, ids: Array) -> MappedSlots:
        """Return a copy of the rows `ids` alone, (k,)."""
        step = max(1, next(iter(self.blocks()), (slice(0, 1), {}))[0].stop)
        parts = (ids[start : start + step] for start in range(0, len(ids), step))
        return self._copy((None, {name: np.take(self[name], part, axis=-2) for name in self.names}) for part in parts)

    def astype(self, dtype: DType) -> MappedSlots:
        """Return a copy with floating rows in `dtype`; themselves where they are."""
        layout = {n: (shape, np.dtype(dtype) if own.kind == "f" else own) for n, (shape, own) in self._layout.items()}
        if layout == self._layout:
            return self
        return self._with(0, layout) if not self.count else self._copy(self.blocks(), layout)

    def blocks(self, size: int | None = None) -> Iterator[tuple[slice, Mapping[str, Array]]]:
        """Yield views of the rows in blocks of at most `size`, by default about a million numbers each."""
        yield from super().blocks(size) if self.count else ()

    def take(self, name: str, ids: Array) -> Array:
        """Return rows by id."""
        rows = self[name]
        lead = ar.broadcast_shapes(tuple(rows.shape[:-2]), tuple(ids.shape[:-2]))
        whole = np.broadcast_to(rows, (*lead, *rows.shape[-2:]))[..., None, :, :]
        return np.take_along_axis(whole, np.broadcast_to(ids, (*lead, *ids.shape[-2:]))[..., None], axis=-2)

    def __getstate__(self) -> dict[str, Any]:
        if self._own.copy and self.count:
            return {"rows": {name: np.array(self[name]) for name in self.names}, "folder": str(self.folder.parent)}
        return {"folder": str(self.folder), "layout": self._layout, "count": self.count}

    def __setstate__(self, kept: dict[str, Any]) -> None:
        self.__init__(kept["folder"])  # type: ignore[misc]  # a pickle names the folder and counts its rows
        if "rows" in kept:
            layout = {name: _row(array) for name, array in kept["rows"].items()}
            there = self._elsewhere(layout).append(kept["rows"])
            self._become(there.folder, layout, there.count, there._own)
        else:
            self._layout, self.count = kept["layout"], kept["count"]
            self._own.begun = bool(self.count)

    # ------------------------------------------------------------------ the files

    def _file(self, name: str) -> Path:
        return self.folder / f"{name}.rows"

    def _check(self, name: str) -> None:
        """Refuse a file that is missing or shorter than its rows."""
        shape, dtype = self._layout[name]
        each = math.prod(shape) * dtype.itemsize
        try:
            there = self._file(name).stat().st_size if self.count and each else 0
        except OSError as error:
            raise FileFormatError(f"{self._file(name)} cannot be read: {error.strerror or error}.") from error
        if there < self.count * each:
            raise FileFormatError(
                f"{self._file(name)} holds {there // each} of its {self.count} rows: it was cut short, or belongs to "
                "another folder."
            )

    def _is_last(self) -> bool:
        """Say whether nothing stands behind these rows; refuse a folder that is another's."""
        if (self.folder / HEADER).exists():
            layout, count = _read(self.folder)
            if not self._own.begun and count:
                raise InputError(
                    f"{self.folder} holds {count} rows already; open them (MappedSlots.opened, or Memory.load), or "
                    "name a new folder."
                )
            return count == self.count and (layout == self._layout or not count)
        others = [e.name for e in os.scandir(self.folder) if not e.name.startswith((CLAIM, COPY))]
        others = [name for name in others if not TEMPORARY.fullmatch(name)]
        if self.count or others:
            what = f"no {HEADER}" if self.count else f"other files ({sorted(others)[0]})"
            raise InputError(f"{self.folder} holds {what}, so that no rows can be written to it; name a new folder.")
        return True

    def _written(self, rows: Mapping[str, Array]) -> MappedSlots:
        """Write the rows behind these, and then the header, by which they count."""
        total = self.count
        for name, (shape, dtype) in self._layout.items():
            self._check(name)
            flat = np.ascontiguousarray(np.moveaxis(rows[name], -2, 0), dtype.newbyteorder("<"))
            total = self.count + len(flat)
            start = self.count * math.prod(shape) * dtype.itemsize
            with open(self._file(name), "r+b" if self.count else "wb") as file:
                file.seek(start)
                file.truncate()
                if flat.size:
                    file.write(flat.reshape(-1).view(np.uint8).data)
        header = {
            "format": FORMAT,
            "count": total,
            "rows": {n: {"shape": list(shape), "dtype": dtype.name} for n, (shape, dtype) in self._layout.items()},
        }
        write_whole(self.folder / HEADER, json.dumps(header).encode())
        self._own.begun = True
        return self._with(total)

    def _elsewhere(self, layout: _Layout) -> MappedSlots:
        """Return empty slots in a folder of their own inside this one, which ends with them."""
        parent = self.folder.parent if self._own.copy else self.folder
        try:
            parent.mkdir(parents=True, exist_ok=True)
            folder = Path(tempfile.mkdtemp(prefix=COPY, dir=parent))
        except OSError as error:
            raise InputError(f"cannot write to {parent}: {error.strerror or error}.") from error
        own = _Files(copy=True)
        weakref.finalize(own, shutil.rmtree, folder, ignore_errors=True)
        return _bare()._become(folder, layout, 0, own)

    def _copy(self, blocks: Iterator[tuple[Any, Mapping[str, Array]]], layout: _Layout | None = None) -> MappedSlots:
        copy = self._elsewhere(self._layout if layout is None else layout)
        for _, rows in blocks:
            copy = copy.append(rows)
        return copy


_Layout = Mapping[str, tuple[tuple[int, ...], "np.dtype[Any]"]]
"""Shape (*batch, width) and dtype of a row of each name."""


@dataclass(eq=False)
class _Files:
    """What slots of the same files share in this process.

    copy: whether the folder ends with them. begun: whether they have written to it or opened it.
    """

    copy: bool = False
    begun: bool = False


def _bare() -> MappedSlots:
    return MappedSlots.__new__(MappedSlots)


def _row(array: Array) -> tuple[tuple[int, ...], np.dtype[Any]]:
    if type(array) is not np.ndarray:
        raise InputError(f"MappedSlots keep NumPy's arrays alone; got {type(array).__name__}.")
    return (*array.shape[:-2], array.shape[-1]), array.dtype


def _read(folder: Path) -> tuple[_Layout, int]:
    """Return the layout and the count that a folder's header names."""
    file = folder / HEADER
    try:
        header = json.loads(file.read_bytes())
        if header["format"] != FORMAT:
            raise FileFormatError(f"{file} has format {header['format']!r}; this assocmem reads format {FORMAT}.")
        rows, count = header["rows"], header["count"]
        layout = {name: (tuple(map(_whole, r["shape"])), np.dtype(r["dtype"])) for name, r in rows.items()}
        if any(not name.isidentifier() or dtype.kind not in "biuf" for name, (_, dtype) in layout.items()):
            raise ValueError("names or dtypes of another kind")
        return layout, _whole(count)
    except OSError as error:
        raise FileFormatError(f"{folder} holds no slots: {file.name} cannot be read, {error.strerror}.") from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        if isinstance(error, FileFormatError):
            raise
        raise FileFormatError(f"{file} is damaged: {type(error).__name__} {error}.") from error


def _whole(x: Any) -> int:
    if not is_whole(x, 0):
        raise ValueError(f"{x!r} is no count")
    return int(x)
