"""Arrays from .npy, .npz and .safetensors files: no pickles, one clear sentence for whatever is wrong.

A path may name one array of several: ``keys.npz:layer0`` or ``model.safetensors:h.0.mlp.weight``.
"""

from __future__ import annotations

import math
import os
import tokenize
import zipfile
import zlib
from pathlib import Path
from typing import IO, Any, TypeAlias

import numpy as np

from assocmem.contract.errors import FileFormatError, InputError, NonFiniteError
from assocmem.inputs import tensorfile

Numbers: TypeAlias = np.ndarray[Any, Any]

_CONTAINERS = (".npz", ".safetensors")
_SHOWN = 12


def read_array(path: str | os.PathLike[str], *, name: str | None = None) -> Numbers:
    """Return one array of real numbers from a file, in native byte order.

    Parameters
    ----------
    path: a .npy, .npz or .safetensors file; ``file.npz:name`` picks one array, as does `name`. A file that
        holds a single array needs no name.

    Half-precision arrays of .npy files stay float16; bfloat16 tensors, which NumPy lacks, become float32
    (exactly). Raises FileFormatError where the file is missing, empty, truncated, of another kind, or holds
    objects, text or complex numbers; where several arrays are there and none is named, it lists them.
    Cost: reads only the named array.
    """
    file, name = _split(path, name)
    suffix = file.suffix.lower()
    if suffix not in (".npy", *_CONTAINERS):
        hint = " Such files can run code when opened." if suffix in (".pt", ".pth", ".bin", ".pkl", ".pickle") else ""
        raise FileFormatError(
            f"{file.name or file} is not a .npy, .npz or .safetensors file; save the array as one of them.{hint}"
        )
    try:
        size = file.stat().st_size
        with file.open("rb") as stream:
            if size == 0:
                raise FileFormatError(f"{file.name} is empty.")
            if suffix == ".npy":
                if name is not None:
                    raise FileFormatError(f"{file.name} holds one array without a name; leave ':{name}' out.")
                return _npy(stream, size, file.name)
            if suffix == ".npz":
                return _npz(stream, file.name, name)
            index = tensorfile.index(stream, size, file.name)
            return tensorfile.read(stream, index[_pick(list(index), file.name, name)], file.name)
    except FileNotFoundError:
        raise FileFormatError(f"there is no file {file}.") from None
    except OSError as error:
        raise FileFormatError(f"{file} cannot be read: {error.strerror or error}.") from error


def array_names(path: str | os.PathLike[str]) -> tuple[str, ...]:
    """Return the names of the arrays in a .npz or .safetensors file; () for a .npy file.

    Raises FileFormatError as `read_array` does.
    """
    file, _ = _split(path, None)
    suffix = file.suffix.lower()
    if suffix == ".npy":
        return ()
    if suffix not in _CONTAINERS:
        raise FileFormatError(f"{file.name} is not a .npy, .npz or .safetensors file.")
    try:
        with file.open("rb") as stream:
            if suffix == ".npz":
                return tuple(_members(_archive(stream, file.name)))
            return tuple(tensorfile.index(stream, file.stat().st_size, file.name))
    except FileNotFoundError:
        raise FileFormatError(f"there is no file {file}.") from None
    except OSError as error:
        raise FileFormatError(f"{file} cannot be read: {error.strerror or error}.") from error


def read_matrix(path: str | os.PathLike[str], what: str = "keys") -> Numbers:
    """Return keys, values or queries: an array (n, d) or (heads, n, d) of finite numbers, n and d >= 1.

    `what` is the word for it in messages. Raises FileFormatError for another number of axes or an empty array,
    NonFiniteError naming the first row that holds NaN or infinity.
    """
    array = read_array(path)
    label = f"`{what}` from {Path(path).name}"
    if array.ndim not in (2, 3):
        raise FileFormatError(f"{label} must have shape (n, d) or (heads, n, d); got {array.shape}.")
    if 0 in array.shape:
        raise FileFormatError(f"{label} must not be empty; got shape {array.shape}.")
    finite = np.isfinite(array).all(axis=-1)
    if not finite.all():
        at = np.argwhere(~finite)[0]
        place = f"row {at[-1]}" if at.size == 1 else f"head {at[0]}, row {at[1]}"
        count = int((~finite).sum())
        raise NonFiniteError(
            f"{label} must be finite; {place} holds NaN or infinity"
            + ("." if count == 1 else f", the first of {count} such rows.")
        )
    return array


def read_targets(path: str | os.PathLike[str], n: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Return the indices (m,) of the pairs that queries ask for: whole numbers in [0, n).

    Raises FileFormatError for another shape or type, InputError for numbers outside [0, n).
    """
    array = read_array(path)
    label = f"`targets` from {Path(path).name}"
    if array.ndim != 1 or array.dtype.kind == "b":
        raise FileFormatError(f"{label} must be whole numbers of shape (m,); got {array.shape}, {array.dtype}.")
    if array.dtype.kind == "f" and not (np.isfinite(array).all() and (array == np.floor(array)).all()):
        raise FileFormatError(f"{label} must be whole numbers; they hold fractions, NaN or infinity.")
    if array.size and (array.min() < 0 or array.max() >= n):
        raise InputError(f"{label} must lie in [0, {n}), the stored pairs; got {array.min():g} to {array.max():g}.")
    return array.astype(np.int64)


def _split(path: str | os.PathLike[str], name: str | None) -> tuple[Path, str | None]:
    text = os.fspath(path)
    for suffix in _CONTAINERS:
        at = text.lower().find(suffix + ":")
        if at >= 0 and name is None:
            cut = at + len(suffix)
            return Path(text[:cut]), text[cut + 1 :] or None
    stem, colon, rest = text.rpartition(":")
    if colon and stem.lower().endswith(".npy") and name is None:
        return Path(stem), rest
    return Path(text), name


def _pick(names: list[str], file: str, name: str | None) -> str:
    if name is None and len(names) == 1:
        return names[0]
    if name is not None and name in names:
        return name
    if not names:
        raise FileFormatError(f"{file} holds no arrays.")
    listed = ", ".join(names[:_SHOWN]) + (f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else "")
    if name is None:
        raise FileFormatError(f"{file} holds {len(names)} arrays; name one, as in {file}:{names[0]}. It has {listed}.")
    raise FileFormatError(f"{file} holds no array called {name!r}; it has {listed}.")


def _archive(stream: IO[bytes], file: str) -> zipfile.ZipFile:
    try:
        return zipfile.ZipFile(stream)
    except (zipfile.BadZipFile, NotImplementedError, ValueError, zlib.error) as error:
        raise FileFormatError(f"{file} is not a readable .npz file; it is truncated or damaged.") from error


def _members(archive: zipfile.ZipFile) -> dict[str, zipfile.ZipInfo]:
    return {entry.filename.removesuffix(".npy"): entry for entry in archive.infolist() if not entry.is_dir()}


def _npz(stream: IO[bytes], file: str, name: str | None) -> Numbers:
    with _archive(stream, file) as archive:
        members = _members(archive)
        picked = _pick(list(members), file, name)
        label = f"{file}:{picked}"
        try:
            with archive.open(members[picked]) as member:
                return _npy(member, members[picked].file_size, label)
        except (zipfile.BadZipFile, RuntimeError, EOFError, zlib.error) as error:
            raise FileFormatError(f"{label} cannot be read: it is truncated, damaged or encrypted.") from error


def _npy(stream: IO[bytes], size: int, label: str) -> Numbers:
    """Return the array of a .npy stream that holds `size` bytes, checking its header before reading on."""
    later = np.lib.format.read_array_header_2_0  # version 3 differs in the encoding of field names alone
    forms = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): later, (3, 0): later}
    try:
        version = np.lib.format.read_magic(stream)
        if version not in forms:
            raise FileFormatError(f"{label} has the .npy version {version[0]}.{version[1]}; versions 1 to 3 are read.")
        shape, fortran, dtype = forms[version](stream)
        if min(shape, default=0) < 0:
            raise ValueError(shape)
    except FileFormatError:
        raise
    except (ValueError, EOFError, SyntaxError, TypeError, KeyError, tokenize.TokenError) as error:
        raise FileFormatError(f"{label} is not a readable .npy array; its header is damaged or missing.") from error
    if dtype.hasobject:
        raise FileFormatError(
            f"{label} holds Python objects, which can run code when opened; save an array of plain numbers."
        )
    if dtype.kind not in "fiub":
        raise FileFormatError(f"{label} must hold real numbers; it holds {dtype}.")
    count = math.prod(shape)
    wanted, there = count * dtype.itemsize, size - stream.tell()
    if wanted > there:
        raise FileFormatError(f"{label} is truncated: shape {shape} needs {wanted} bytes of numbers; {there} are left.")
    data = bytearray(stream.read(wanted))
    if len(data) < wanted:
        raise FileFormatError(f"{label} is truncated: {wanted} bytes of numbers were promised; {len(data)} came.")
    flat = np.frombuffer(data, dtype=dtype)
    if not dtype.isnative:
        flat = flat.astype(dtype.newbyteorder("="))
    return flat.reshape(shape[::-1]).T if fortran else flat.reshape(shape)
