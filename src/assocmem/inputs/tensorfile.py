"""The safetensors format, read without the libraries that its tensors came from.

A file is an 8-byte length, a JSON header (name -> dtype, shape, byte offsets), then the numbers, little-endian
and in C order. Format: https://github.com/huggingface/safetensors (README, "Format").
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import IO, Any

import numpy as np

from assocmem.contract.errors import FileFormatError

_TYPES = {
    "F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "<u2", "I64": "<i8", "I32": "<i4", "I16": "<i2", "I8": "i1",
    "U64": "<u8", "U32": "<u4", "U16": "<u2", "U8": "u1", "BOOL": "?",
}  # fmt: skip
_LARGEST_HEADER = 100_000_000


@dataclass(frozen=True)
class TensorEntry:
    """One tensor of a file: its name, type (in the format's words), shape and place in bytes from the start."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    start: int
    stop: int


def index(stream: IO[bytes], size: int, file: str) -> dict[str, TensorEntry]:
    """Return the tensors of an open file of `size` bytes by name, in the order of its header.

    Raises FileFormatError where the header is damaged or promises more than the file holds.
    """
    head = stream.read(8)
    length = int.from_bytes(head, "little") if len(head) == 8 else -1
    if not 2 <= length <= min(size - 8, _LARGEST_HEADER):
        raise FileFormatError(f"{file} is not a readable .safetensors file; it is truncated or of another kind.")
    try:
        header = json.loads(stream.read(length))
        items = [(name, entry) for name, entry in header.items() if name != "__metadata__"]
        return {name: _entry(name, entry, 8 + length, size, file) for name, entry in items}
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        if isinstance(error, FileFormatError):
            raise
        raise FileFormatError(f"{file} is not a readable .safetensors file; its header is damaged.") from error


def _entry(name: str, entry: dict[str, Any], origin: int, size: int, file: str) -> TensorEntry:
    shape = tuple(entry["shape"])
    start, stop = entry["data_offsets"]
    if not all(type(n) is int and n >= 0 for n in (*shape, start, stop)):
        raise ValueError("sizes must be whole numbers")
    dtype = str(entry["dtype"])
    if origin + stop > size:
        raise FileFormatError(f"{file} is truncated: {name!r} ends at byte {origin + stop} of {size}.")
    if dtype in _TYPES and stop - start != math.prod(shape) * np.dtype(_TYPES[dtype]).itemsize:
        raise ValueError("sizes do not fit")
    return TensorEntry(name, dtype, shape, origin + start, origin + stop)


def read(stream: IO[bytes], entry: TensorEntry, file: str) -> np.ndarray[Any, Any]:
    """Return one tensor as a NumPy array in native byte order; bfloat16 becomes float32, exactly.

    Raises FileFormatError for types that NumPy cannot hold (8-bit floats and narrower).
    """
    if entry.dtype not in _TYPES:
        raise FileFormatError(
            f"{file}:{entry.name} is of type {entry.dtype}; types that can be read are {', '.join(_TYPES)}."
        )
    stream.seek(entry.start)
    data = bytearray(stream.read(entry.stop - entry.start))
    if len(data) != entry.stop - entry.start:
        raise FileFormatError(f"{file} is truncated within {entry.name!r}.")
    dtype = np.dtype(_TYPES[entry.dtype])
    flat = np.frombuffer(data, dtype=dtype)
    if entry.dtype == "BF16":
        flat = (flat.astype(np.uint32) << np.uint32(16)).view(np.float32)
    elif not dtype.isnative:
        flat = flat.astype(dtype.newbyteorder("="))
    return flat.reshape(entry.shape)
