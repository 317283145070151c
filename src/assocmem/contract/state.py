"""All that a store has learned: State, and the pairs that are written into it."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from assocmem.contract.arrays import Array, DType, Namespace


@dataclass(frozen=True, slots=True)
class State:
    """All that a store has learned. Made by `Store.empty` and `Store.write`; never changed in place.

    arrays: the learned numbers by name, batch axes first (for growing stores the used part of their buffers).
    n: pairs written so far (a whole number >= 0).
    io_dtype: promoted dtype of everything written, in which recalls are returned.
    dtype: dtype of the floating arrays.
    pinned: whether namespace and dtype were fixed by `empty(like=...)`; else the first write fixes them.
    held: working storage that is no part of the learned state, such as a doubling buffer.
    kind: the maker's name (`Store.maker`); stores of another refuse it. "" where that is not known.
    """

    arrays: Mapping[str, Array]
    n: int
    d_k: int
    d_v: int
    batch: tuple[int, ...]
    xp: Namespace
    dtype: DType
    io_dtype: DType
    device: Any = None
    pinned: bool = False
    state_dtype: str | None = None
    held: Any = field(default=None, repr=False, compare=False)
    kind: str = field(default="", compare=False)

    def __getitem__(self, name: str) -> Array:
        return self.arrays[name]

    @property
    def size(self) -> int:
        """Numbers held, counted from the arrays (all batch items together)."""
        return sum(_count(a) for a in self.arrays.values())

    def having(self, arrays: Mapping[str, Array], *, n: int, held: Any = None) -> State:
        """Return the state with new arrays and a new count of pairs."""
        return State(
            arrays,
            n,
            self.d_k,
            self.d_v,
            self.batch,
            self.xp,
            self.dtype,
            self.io_dtype,
            self.device,
            self.pinned,
            self.state_dtype,
            held,
            self.kind,
        )

    def __getstate__(self) -> dict[str, Any]:
        """Return what a pickle holds: the arrays by value, the array library by name, no working storage."""
        kept = {f.name: getattr(self, f.name) for f in fields(self)}
        return kept | {"xp": self.xp.__name__, "held": None, "arrays": dict(self.arrays)}

    def __setstate__(self, kept: dict[str, Any]) -> None:
        for name, value in ({"kind": ""} | kept).items():
            object.__setattr__(self, name, importlib.import_module(value) if name == "xp" else value)

    def zeros(self, *shape: int) -> Array:
        """Return zeros of the state's dtype and device, shape ``(*batch, *shape)``."""
        return self.xp.zeros((*self.batch, *shape), dtype=self.dtype, device=self.device)

    def eye(self, size: int) -> Array:
        """Return identity matrices of the state's dtype and device, shape ``(*batch, size, size)``."""
        eye = self.xp.eye(size, dtype=self.dtype, device=self.device)
        return self.xp.broadcast_to(eye, (*self.batch, size, size))


def _count(array: Array) -> int:
    total = 1
    for length in array.shape:
        total *= int(length)
    return total


@dataclass(frozen=True)
class Pairs:
    """Keys (..., n, d_k) and values (..., n, d_v) to be stored, row i of one belonging to row i of the other.

    `law` says in words how they were drawn or where they were read from.
    """

    keys: Array
    values: Array
    law: str = ""
    extras: Mapping[str, Array] = field(default_factory=dict)

    @property
    def n(self) -> int:
        """Number of pairs per batch item."""
        return int(self.keys.shape[-2])
