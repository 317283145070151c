"""A store and its state in one .safetensors file: the arrays, and a header that says what they are.

The header (JSON under "assocmem" in the file's metadata) names the store's class and settings, sizes, dtypes, number
of pairs, source, version, and a digest of the numbers. Files are written whole or not at all; nothing that a file
says is run when it is read.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from assocmem._version import __version__
from assocmem.contract import arrays as ar
from assocmem.contract.arrays import Array
from assocmem.contract.encoding import class_name, decoded, encoded
from assocmem.contract.errors import FileFormatError, RoundingWarning, warn
from assocmem.contract.mapped_slots import MappedSlots
from assocmem.contract.numbers import is_whole
from assocmem.contract.slots import DenseSlots, Slots
from assocmem.contract.state import State
from assocmem.contract.store import Store
from assocmem.contract.validation import library_name

FORMAT_VERSION = 1
_DTYPES = (
    *("float64", "float32", "float16", "bfloat16", "int64", "int32", "int16", "int8"),
    *("uint64", "uint32", "uint16", "uint8", "bool"),
)


def save(path: str | os.PathLike[str], store: Store, state: State, *, key: str = "", **more: Any) -> Path:
    """Write a store and its state to `path`, through a temporary file beside it; return the path.

    Parameters: key, the registered key under which the store is known (for messages); `more`, further plain values
    for the header. bfloat16 arrays are written as float32, exactly. Rows that a folder keeps (`MappedSlots`)
    stay there; the file names it, as seen from its own place. Raises InputError where the store holds a
    Python function, which a file cannot keep, and where the folder cannot be written.
    """
    from assocmem.contract.files import write_whole

    settings = {name: encoded(value, store, name) for name, value in store.settings().items()}
    slots, place = state.slots, None if state.slots is None else state.slots.place
    held = state.contents if place is None else state.arrays
    arrays = {name: _little(ar.to_numpy(a)) for name, a in held.items()}
    header = {
        "format": FORMAT_VERSION,
        "assocmem": __version__,
        "key": key,
        "class": class_name(type(store)),
        "settings": settings,
        "d_k": state.d_k,
        "d_v": state.d_v,
        "batch": list(state.batch),
        "n": state.n,
        "dtype": ar.dtype_name(state.dtype),
        "io_dtype": ar.dtype_name(state.io_dtype),
        "dtypes": {name: ar.dtype_name(a.dtype) for name, a in state.contents.items()},
        "state_dtype": state.state_dtype,
        "pinned": state.pinned,
        "library": state.xp.__name__,
        "source": _source(store),
        **({} if slots is None or place is None else {"rows_in": [_beside(place, Path(path)), slots.count]}),
        **more,
    }
    header["digest"] = _digest(header, arrays)
    return write_whole(Path(path), lambda file: _write(file, header, arrays))


def load(path: str | os.PathLike[str], *, like: Array | None = None) -> tuple[Store, State, dict[str, Any]]:
    """Return the store, the state and the header that `save` wrote to `path`.

    Parameters: like, an array whose library and device the state comes in; without it the library it was saved
    from where that is imported already, else NumPy.

    Raises FileFormatError where the file is missing, truncated, damaged, of another kind or of a newer format;
    InputError where it names a class that is not at hand (import its module first).
    """
    file = Path(path)
    header, arrays = _read(file)
    try:
        store = decoded(header["settings"], header["class"], file)
        _check_header(header, file)
        if not isinstance(store, Store):
            raise FileFormatError(f"{file.name} names {header['class']}, which is no store.")
        state = _state(header, arrays, like, store, file)
    except (KeyError, TypeError, AttributeError) as error:
        raise FileFormatError(f"the header of {file.name} is damaged: {type(error).__name__} {error}.") from error
    return store, state, header


# ---------------------------------------------------------------------- the file


def _write(file: str, header: Mapping[str, Any], arrays: Mapping[str, np.ndarray[Any, Any]]) -> None:
    from safetensors import SafetensorError
    from safetensors.numpy import save_file

    try:
        save_file(dict(arrays), file, {"format": "np", "assocmem": json.dumps(header, allow_nan=False)})
    except SafetensorError as error:
        raise OSError(str(error)) from error


def _read(file: Path) -> tuple[dict[str, Any], dict[str, np.ndarray[Any, Any]]]:
    from safetensors import SafetensorError, safe_open

    try:
        if not file.is_file():
            raise FileFormatError(f"there is no file {file}.")
        with safe_open(file, framework="np") as opened:
            text = (opened.metadata() or {}).get("assocmem")
            if text is None:
                raise FileFormatError(f"{file.name} is a .safetensors file, but not one that a Memory was saved to.")
            header = json.loads(text)
            if not isinstance(header, dict):
                raise FileFormatError(f"the header of {file.name} is damaged.")
            if header.get("format") != FORMAT_VERSION:
                raise FileFormatError(
                    f"{file.name} has format {header.get('format')} (assocmem {header.get('assocmem')}); assocmem "
                    f"{__version__} reads format {FORMAT_VERSION}."
                )
            arrays = {name: opened.get_tensor(name) for name in opened.keys()}  # noqa: SIM118 - no mapping
    except (SafetensorError, ValueError) as error:
        if isinstance(error, FileFormatError):
            raise
        raise FileFormatError(f"{file.name} is no readable .safetensors file; it is truncated or damaged.") from error
    except OSError as error:
        raise FileFormatError(f"{file} cannot be read: {error.strerror or error}.") from error
    if header.get("digest") != _digest(header, arrays):
        raise FileFormatError(f"{file.name} is damaged: its contents are not those that were saved.")
    return header, arrays


def _digest(header: Mapping[str, Any], arrays: Mapping[str, np.ndarray[Any, Any]]) -> str:
    words = {name: value for name, value in header.items() if name != "digest"}
    total = hashlib.sha256(json.dumps(words, sort_keys=True, allow_nan=False).encode())
    for name in sorted(arrays):
        array = _little(arrays[name])
        total.update(f"{name} {array.dtype.name} {array.shape}\n".encode())
        if array.size:
            total.update(array.reshape(-1).view(np.uint8).data)
    return total.hexdigest()


def _little(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return the array in C order and little-endian."""
    array = np.ascontiguousarray(array)
    return array.astype(array.dtype.newbyteorder("<"), copy=False)


# ---------------------------------------------------------------------- the state


def _state(
    header: Mapping[str, Any], arrays: Mapping[str, np.ndarray[Any, Any]], like: Array | None, store: Store, file: Path
) -> State:
    if like is not None:
        xp, device = ar.namespace(like), ar.device_of(like)
    else:
        xp, device = _library(str(header["library"])), None
    d_k, d_v, n, batch = int(header["d_k"]), int(header["d_v"]), int(header["n"]), tuple(header["batch"])
    empty, mapped = store.empty(d_k, d_v, batch=batch), None
    if "rows_in" in header:
        folder, count = header["rows_in"]
        mapped = MappedSlots.opened(file.absolute().parent / folder, count)
        kept = {name: mapped[name] for name in mapped.names}
        arrays = {**arrays, **(kept if xp is np else {name: np.array(a) for name, a in kept.items()})}
    _check_shapes(store, empty, arrays, n, file)
    held = {}
    for name, kind in header["dtypes"].items():
        dtype, array = _dtype(kind, xp), arrays[name]
        if array.dtype == np.float16 and dtype == xp.float32:
            array = array.astype(np.float32)
        given = xp.asarray(array, device=device)
        held[name] = given if given.dtype == dtype else xp.astype(given, dtype)
    slots: Slots | None = mapped if xp is np else None
    rows = {name: held.pop(name) for name in _row_names(empty)}
    return State(
        held,
        n,
        d_k,
        d_v,
        batch,
        xp,
        _dtype(header["dtype"], xp, floating=True, state=True),
        _dtype(header["io_dtype"], xp, floating=True),
        device,
        bool(header["pinned"]),
        header["state_dtype"],
        DenseSlots(rows) if rows and slots is None else slots,
        store.maker,
    )


def _beside(place: str, path: Path) -> str:
    """Return a folder's path as seen from a file, so that both can be moved together."""
    try:
        return os.path.relpath(place, path.absolute().parent)
    except ValueError:  # on another drive
        return place


def _row_names(state: State) -> tuple[str, ...]:
    return () if state.slots is None else state.slots.names


def _library(name: str) -> Any:
    """Return the array library called `name` if the caller has imported it, else NumPy's."""
    base = name.removeprefix("array_api_compat.")
    if base not in sys.modules or base == "numpy":
        return np
    return ar.namespace(sys.modules[base].asarray([0.0]))


def _dtype(name: str, xp: Any, *, floating: bool = False, state: bool = False) -> Any:
    """Return the dtype called `name`, float32 for a half precision that this library lacks."""
    known = name in _DTYPES and not (floating and "float" not in name)
    dtype = getattr(xp, name, None) if known else None
    if dtype is None and name in ("float16", "bfloat16"):
        dtype = xp.float32
        if state:
            warn(
                f"the state was kept in {name}, which {library_name(xp)} lacks; it goes on in float32.", RoundingWarning
            )
    if dtype is None:
        raise KeyError(f"no{' floating' if floating else ''} dtype {name!r}")
    return np.dtype(dtype) if xp is np else dtype


def _check_header(header: Mapping[str, Any], file: Path) -> None:
    """Refuse sizes, counts and flags of a wrong kind."""
    batch, named = header["batch"], header["state_dtype"]
    fits = {
        **{name: is_whole(header[name], 0) for name in ("n", "d_k", "d_v")},
        "batch": isinstance(batch, list) and all(is_whole(b, 0) for b in batch),
        "state_dtype": named is None or isinstance(named, str),
        **{name: isinstance(header.get(name, False), bool) for name in ("pinned", "normalise")},
    }
    for name, fine in fits.items():
        if not fine:
            raise FileFormatError(f"the header of {file.name} is damaged: its `{name}` is {header[name]!r}.")


def _check_shapes(store: Store, empty: State, arrays: Mapping[str, np.ndarray[Any, Any]], n: int, file: Path) -> None:
    """Refuse arrays whose names or shapes are not those that the store would hold after n pairs."""
    wanted, rows = empty.contents, _row_names(empty)
    if set(wanted) != set(arrays):
        raise FileFormatError(
            f"{file.name} holds the arrays {', '.join(sorted(arrays))}; {store.name} keeps {', '.join(sorted(wanted))}."
        )
    count = arrays[rows[0]].shape[-2] if rows and arrays[rows[0]].ndim > 1 else 0
    for name, array in arrays.items():
        shape = tuple(int(w) for w in wanted[name].shape)
        if name in rows:
            shape = (*shape[:-2], count, shape[-1])
        if array.shape != shape:
            raise FileFormatError(
                f"the array {name!r} of {file.name} has shape {array.shape}, which does not fit {store.name} "
                f"with d_k={empty.d_k}, d_v={empty.d_v}, batch={empty.batch}."
            )
    if count > n or (rows and store.traits.keeps_pairs and count != n):
        raise FileFormatError(f"the array {rows[0]!r} of {file.name} holds {count} rows; its header names {n}.")


def _source(store: Store) -> str | None:
    found = store.source
    return None if found is None else f"{found.authors}: {found.title} ({found.year})"
