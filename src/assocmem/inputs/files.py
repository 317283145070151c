"""Arrays from .npy, .npz and .safetensors files: no pickles, one clear sentence for whatever is wrong.

A path may name one array of several: ``keys.npz:layer0`` or ``model.safetensors:h.0.mlp.weight``.
"""

from __future__ import annotations

import json
import os
import re
import tokenize
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from assocmem.contract.errors import AssocmemError, FileFormatError, InputError, NonFiniteError

Numbers: TypeAlias = np.ndarray[Any, Any]

_SHOWN = 12
_DAMAGE = (
    ValueError, TypeError, LookupError, EOFError, ArithmeticError, MemoryError, RuntimeError, SyntaxError,
    zlib.error, zipfile.BadZipFile, tokenize.TokenError,
)  # fmt: skip
"""What NumPy raises for a file that is damaged, or whose header promises more than it holds."""


def read_array(path: str | os.PathLike[str], *, name: str | None = None) -> Numbers:
    """Return one array of real numbers from a file, in native byte order.

    Half-precision arrays stay float16; bfloat16 tensors, which NumPy lacks, become float32 (exactly). Cost: reads
    only the named array.

    Parameters
    ----------
    path : str or path
        A .npy, .npz or .safetensors file; ``file.npz:name`` picks one array, as does `name`.
    name : str, optional
        The array's name; a file that holds a single array needs none.

    Returns
    -------
    ndarray
        The caller's own array.

    Raises
    ------
    FileFormatError
        Where the file is missing, empty, truncated, of another kind, or holds objects, text or complex numbers;
        where several arrays are there and none is named, it lists them.
    """
    file, name = _split(path, name)
    with _opened(file) as (names, read):
        if names is None and name is not None:
            raise FileFormatError(f"{file.name} holds one array without a name; leave ':{name}' out.")
        picked = "" if names is None else _pick(names, file.name, name)
        label = f"{file.name}:{picked}" if picked else file.name
        try:
            found = read(picked)
        except _DAMAGE as error:
            if isinstance(error, AssocmemError):
                raise
            why = str(error).partition("\n")[0].rstrip(".")
            raise FileFormatError(
                f"{label} is no readable array of numbers ({why}): it is truncated, damaged, encrypted or holds Python "
                "objects, which can run code when opened."
            ) from error
    if found.dtype.kind not in "fiub":
        raise FileFormatError(f"{label} must hold real numbers; it holds {found.dtype}.")
    return np.array(found, dtype=found.dtype.newbyteorder("="))


def array_names(path: str | os.PathLike[str]) -> tuple[str, ...]:
    """Return the names of the arrays in a .npz or .safetensors file; () for a .npy file.

    Parameters
    ----------
    path : str or path
        As in `read_array`, without a name.

    Returns
    -------
    tuple of str
        The names.

    Raises
    ------
    FileFormatError
        Where the file is missing, damaged or of another kind.
    """
    with _opened(_split(path, None)[0]) as (names, _):
        return tuple(names or ())


def came_as(path: str | os.PathLike[str]) -> str | None:
    """Return "bfloat16" for an array of that type, which `read_array` gives as float32; None for any other.

    Parameters
    ----------
    path : str or path
        As in `read_array`.
    """
    file, name = _split(path, None)
    if file.suffix.lower() != ".safetensors":
        return None
    from safetensors import safe_open

    with safe_open(file, framework="np") as held:
        return "bfloat16" if held.get_slice(_pick(list(held.keys()), file.name, name)).get_dtype() == "BF16" else None


def read_matrix(path: str | os.PathLike[str], what: str = "keys") -> Numbers:
    """Return keys, values or queries from a file.

    Parameters
    ----------
    path : str or path
        As in `read_array`.
    what : str
        The word for it in messages.

    Returns
    -------
    ndarray (n, d), (heads, n, d) or (layers, heads, n, d)
        Finite numbers, n and d >= 1.

    Raises
    ------
    FileFormatError
        For another number of axes or an empty array.
    NonFiniteError
        Naming the first row that holds NaN or infinity.
    """
    array = read_array(path)
    label = f"`{what}` from {Path(path).name}"
    if array.ndim not in (2, 3, 4):
        raise FileFormatError(
            f"{label} must have shape (n, d), (heads, n, d) or (layers, heads, n, d); got {array.shape}."
        )
    if 0 in array.shape:
        raise FileFormatError(f"{label} must not be empty; got shape {array.shape}.")
    finite = np.isfinite(array).all(axis=-1)
    if not finite.all():
        at = np.argwhere(~finite)[0]
        heads = "" if at.size == 1 else f"head {'.'.join(map(str, at[:-1]))}, "
        place = f"{heads}row {at[-1]}"
        count = int((~finite).sum())
        raise NonFiniteError(
            f"{label} must be finite; {place} holds NaN or infinity"
            + ("." if count == 1 else f", the first of {count} such rows.")
        )
    return array


def read_targets(path: str | os.PathLike[str], n: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Return the indices of the pairs that queries ask for, from a file.

    Parameters
    ----------
    path : str or path
        As in `read_array`.
    n : int
        The number of stored pairs.

    Returns
    -------
    ndarray (m,), (heads, m) or (layers, heads, m) of int64
        Whole numbers in [0, n), or -1: the query asks for none.

    Raises
    ------
    FileFormatError
        For another shape or type.
    InputError
        For numbers outside [-1, n).
    """
    array = read_array(path)
    label = f"`targets` from {Path(path).name}"
    if array.ndim not in (1, 2, 3) or array.dtype.kind == "b":
        raise FileFormatError(
            f"{label} must be whole numbers of shape (m,), or for each head (heads, m); got {array.shape}, "
            f"{array.dtype}."
        )
    if array.dtype.kind == "f" and not (np.isfinite(array).all() and (array == np.floor(array)).all()):
        raise FileFormatError(f"{label} must be whole numbers; they hold fractions, NaN or infinity.")
    if array.size and (array.min() < -1 or array.max() >= n):
        raise InputError(f"{label} must lie in [0, {n}), the stored pairs; got {array.min():g} to {array.max():g}.")
    return array.astype(np.int64)


def _split(path: str | os.PathLike[str], name: str | None) -> tuple[Path, str | None]:
    found = re.fullmatch(r"(.+?\.(?:npy|npz|safetensors)):(.*)", os.fspath(path), re.I | re.S)
    return (Path(found[1]), found[2] or None) if found and name is None else (Path(path), name)


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


@contextmanager
def _opened(file: Path) -> Iterator[tuple[list[str] | None, Callable[[str], Numbers]]]:
    """Yield the names of a file's arrays, None where it holds one without a name, and what reads one of them."""
    kind = file.suffix.lower()
    if kind not in (".npy", ".npz", ".safetensors"):
        hint = " Such files can run code when opened." if kind in (".pt", ".pth", ".bin", ".pkl", ".pickle") else ""
        raise FileFormatError(
            f"{file.name or file} is not a .npy, .npz or .safetensors file; save the array as one of them.{hint}"
        )
    try:
        if file.stat().st_size == 0:
            raise FileFormatError(f"{file.name} is empty.")
        if kind == ".npy":
            yield None, lambda _: _mapped(file)
        elif kind == ".npz":
            with zipfile.ZipFile(file) as archive:
                members = {e.filename.removesuffix(".npy"): e for e in archive.infolist() if not e.is_dir()}
                yield list(members), lambda name: _member(archive, members[name])
        else:
            from safetensors import safe_open

            with safe_open(file, framework="np") as held:
                yield held.keys(), lambda name: _tensor(held, file, name)
    except AssocmemError:
        raise
    except FileNotFoundError:
        raise FileFormatError(f"there is no file {file}.") from None
    except OSError as error:
        raise FileFormatError(f"{file} cannot be read: {error.strerror or error}.") from error
    except Exception as error:
        raise FileFormatError(f"{file.name} is no readable {kind} file ({error}); it is damaged.") from error


def _mapped(file: Path) -> Numbers:
    """Return the array of a .npy file, mapped: a header that promises more than there is asks for no memory."""
    with np.errstate(all="ignore"):
        return np.lib.format.open_memmap(file, mode="r")


def _member(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> Numbers:
    with archive.open(member) as stream:
        found: Numbers = np.lib.format.read_array(stream, allow_pickle=False)
    return found


def _tensor(held: Any, file: Path, name: str) -> Numbers:
    """Return one tensor of a .safetensors file, which is sound; refuse types that NumPy cannot hold."""
    kind = held.get_slice(name).get_dtype()
    if kind == "BF16":
        with file.open("rb") as stream:
            length = int.from_bytes(stream.read(8), "little")
            entry = json.loads(stream.read(length))[name]
            first, end = entry["data_offsets"]
            stream.seek(8 + length + first)
            bits = np.frombuffer(stream.read(end - first), "<u2")
        return (bits.astype(np.uint32) << np.uint32(16)).view(np.float32).reshape(entry["shape"])
    try:
        found: Numbers = held.get_tensor(name)
    except (AttributeError, TypeError):
        raise FileFormatError(f"{file.name}:{name} is of type {kind}, which NumPy does not have.") from None
    return found
