"""Tensors of .safetensors and .gguf files by name: headers are read at once, numbers only when asked for.

Formats: https://github.com/huggingface/safetensors (README, "Format"), and
https://github.com/ggml-org/ggml/blob/master/docs/gguf.md, versions 2 and 3, little-endian.
"""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from assocmem.contract.errors import FileFormatError, MissingExtraError

Numbers: TypeAlias = np.ndarray[Any, np.dtype[np.float32]]

_FLOATS = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "<u2"}
_FIELDS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_TEXT, _LIST = 8, 9


@dataclass(frozen=True)
class Tensor:
    """A tensor that lies in a file.

    Attributes
    ----------
    shape : tuple of int
        In C order.
    stored : str
        The format's word for its type, such as "BF16" or "Q4_1".
    read : function
        Reads and decodes it to float32: exactly from 16 bits, to the numbers that quantised ones stand for, and
        rounded from 64 bits.
    """

    shape: tuple[int, ...]
    stored: str
    read: Callable[[], Numbers]


def safetensors_of(path: Path) -> dict[str, Tensor]:
    """Return the floating-point tensors of a .safetensors file.

    Raises FileFormatError where the file is missing, truncated or damaged. Tensors of other types are left out.
    """
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="np"):  # its reader checks the header against the size of the file
            pass
        with path.open("rb") as stream:
            length = int.from_bytes(stream.read(8), "little")
            header = json.loads(stream.read(length))
    except FileNotFoundError:
        raise FileFormatError(f"there is no file {path}.") from None
    except (OSError, SafetensorError) as error:
        raise FileFormatError(f"{path.name} is no readable .safetensors file ({error}): it is damaged.") from error
    return {
        name: Tensor(tuple(entry["shape"]), entry["dtype"],
                     partial(_read_plain, path, 8 + length + entry["data_offsets"][0], entry["shape"], entry["dtype"]))
        for name, entry in header.items()
        if name != "__metadata__" and entry["dtype"] in _FLOATS
    }  # fmt: skip


def _read_plain(path: Path, start: int, shape: list[int], stored: str) -> Numbers:
    numbers = np.fromfile(path, _FLOATS[stored], math.prod(shape), offset=start)
    if stored == "BF16":
        numbers = (numbers.astype(np.uint32) << np.uint32(16)).view(np.float32)
    return np.asarray(numbers, np.float32).reshape(shape)


def gguf_of(path: Path) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Return the metadata and the tensors of a .gguf file.

    Raises FileFormatError where the file is missing, truncated, damaged or of another kind, MissingExtraError where
    the package `gguf`, which knows what quantised numbers stand for, is not installed.
    """
    try:
        import gguf
    except ImportError as error:
        raise MissingExtraError("reading .gguf files needs gguf: pip install 'assocmem[models]'.") from error
    try:
        size = path.stat().st_size
        data = np.memmap(path, np.uint8, mode="r") if size else np.zeros(0, np.uint8)
    except OSError as error:
        raise FileFormatError(f"{path} cannot be read: {error.strerror or error}.") from error
    try:
        return _gguf_header(data, path.name, gguf)
    except (ArithmeticError, IndexError, RecursionError, TypeError, struct.error) as error:
        raise FileFormatError(f"{path.name} is damaged: its header makes no sense.") from error


def _gguf_header(data: np.ndarray[Any, Any], file: str, gguf: Any) -> tuple[dict[str, Any], dict[str, Tensor]]:
    header = _Header(data, file)
    if bytes(data[:4]) != b"GGUF":
        raise FileFormatError(f"{file} is no .gguf file.")
    if (version := header.number("I")) not in (2, 3):
        raise FileFormatError(f"{file} is of GGUF version {version}; versions 2 and 3, little-endian, are read.")
    n_tensors, n_fields = header.number("Q"), header.number("Q")
    fields = {header.text(): header.value(header.number("I")) for _ in range(n_fields)}
    found = [(header.text(), header.shape(), header.number("I"), header.number("Q")) for _ in range(n_tensors)]
    unit = fields.get("general.alignment", 32)
    origin = -(-header.at // unit) * unit
    tensors = {}
    for name, shape, code, offset in found:
        try:
            kind = gguf.GGMLQuantizationType(code)
        except ValueError:
            raise FileFormatError(f"{file}: {name!r} is of a type that gguf does not know ({code}).") from None
        numbers, width = gguf.GGML_QUANT_SIZES[kind]
        rows = (*shape[:-1], shape[-1] // numbers * width)
        stop = origin + offset + math.prod(rows)
        if stop > len(data):
            raise FileFormatError(f"{file} is truncated: {name!r} ends at byte {stop} of {len(data)}.")
        tensors[name] = Tensor(shape, kind.name, partial(_read_packed, data[origin + offset : stop], rows, shape, kind))
    return fields, tensors


def _read_packed(data: np.ndarray[Any, Any], rows: tuple[int, ...], shape: tuple[int, ...], kind: Any) -> Numbers:
    from gguf.quants import dequantize

    try:
        return np.array(dequantize(np.asarray(data).reshape(rows), kind), np.float32).reshape(shape)
    except NotImplementedError as error:
        raise FileFormatError(f"gguf cannot decode tensors of type {kind.name} yet.") from error


class _Header:
    """The header of a .gguf file, read from front to back; the first four bytes are its name."""

    def __init__(self, data: np.ndarray[Any, Any], name: str) -> None:
        self.data, self.name, self.at = data, name, 4

    def bytes(self, count: int) -> bytes:
        self.at += count
        if self.at > len(self.data):
            raise FileFormatError(f"{self.name} is truncated: its header does not end before byte {len(self.data)}.")
        return self.data[self.at - count : self.at].tobytes()

    def number(self, kind: str) -> Any:
        return struct.unpack("<" + kind, self.bytes(struct.calcsize("<" + kind)))[0]

    def text(self) -> str:
        return self.bytes(self.number("Q")).decode("utf-8", "replace")

    def shape(self) -> tuple[int, ...]:
        """Return a tensor's shape, which the file gives from the fastest axis to the slowest."""
        return tuple(self.number("Q") for _ in range(self.number("I")))[::-1]

    def value(self, kind: int) -> Any:
        if kind == _TEXT:
            return self.text()
        if kind == _LIST:
            inner, count = self.number("I"), self.number("Q")
            if inner in _FIELDS:
                width = struct.calcsize("<" + _FIELDS[inner])
                return list(struct.unpack(f"<{count}{_FIELDS[inner]}", self.bytes(count * width)))
            return [self.value(inner) for _ in range(count)]
        if kind not in _FIELDS:
            raise FileFormatError(f"{self.name} is damaged: its header holds a value of unknown type ({kind}).")
        return self.number(_FIELDS[kind])
