"""All that a store has learned: State, and the pairs that are written into it."""

from __future__ import annotations

import importlib
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

from assocmem.contract.arrays import Array, DType, Namespace
from assocmem.contract.slots import Slots


@dataclass(frozen=True, slots=True)
class State:
    """All that a store has learned: arrays, and slots where it keeps a row for every pair. Never changed in place.

    Made by `Store.empty` and `Store.write`. `state[name]` is an array, or all rows of that name in the slots.

    Parameters
    ----------
    arrays : mapping
        The learned numbers by name, batch axes first, without those in the slots.
    n : int
        Pairs written so far, >= 0.
    d_k, d_v : int
        Widths of keys and values.
    batch : tuple of int
        Leading axes of everything that is written.
    xp : namespace
        The array library.
    dtype : dtype
        Of the floating arrays.
    io_dtype : dtype
        Promoted dtype of everything written, in which recalls are returned.
    device : device or None
        Where the arrays are, in the library's words.
    pinned : bool
        Whether namespace and dtype were fixed by `empty(like=...)`; else the first write fixes them.
    state_dtype : str or None
        The dtype that `empty` was asked to keep the state in.
    slots : Slots or None
        The rows that are kept for every pair.
    kind : str
        The maker's name (`Store.maker`); stores of another refuse it. "" where that is not known.
    memo : dict
        What was worked out from the state and may be again, such as the solution of a system.
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
    slots: Slots | None = None
    kind: str = field(default="", compare=False)
    memo: dict[str, Any] = field(default_factory=dict, repr=False, compare=False)

    def __getitem__(self, name: str) -> Array:
        if self.slots is None or name in self.arrays:
            return self.arrays[name]
        return self.slots[name]

    @property
    def size(self) -> int:
        """Numbers held, counted from arrays and slots (all batch items together)."""
        held: int = sum(math.prod(a.shape) for a in self.arrays.values())
        return held if self.slots is None else held + self.slots.numbers

    @property
    def contents(self) -> dict[str, Array]:
        """Every array by name, those of the slots among them."""
        rows = {} if self.slots is None else {name: self.slots[name] for name in self.slots.names}
        return {**self.arrays, **rows}

    def after(self, arrays: Mapping[str, Array], n: int, slots: Slots | None = None) -> State:
        """Return the state with n pairs, these arrays and these slots.

        Parameters
        ----------
        arrays, n, slots
            As of a State; all else stays.

        Returns
        -------
        State
            A new one.
        """
        return State(
            arrays, n, self.d_k, self.d_v, self.batch, self.xp, self.dtype, self.io_dtype, self.device, self.pinned,
            self.state_dtype, slots, self.kind,
        )  # fmt: skip

    def astype(self, dtype: DType, io_dtype: DType) -> State:
        """Return the state with its floating numbers in another dtype.

        Parameters
        ----------
        dtype, io_dtype : dtype
            Of its numbers, and of recalls.

        Returns
        -------
        State
            A new one.
        """
        xp = self.xp
        arrays = {
            name: xp.astype(a, dtype) if xp.isdtype(a.dtype, "real floating") and a.dtype != dtype else a
            for name, a in self.arrays.items()
        }
        slots = None if self.slots is None else self.slots.astype(dtype)
        return replace(self, arrays=arrays, slots=slots, dtype=dtype, io_dtype=io_dtype, memo={})

    def __getstate__(self) -> dict[str, Any]:
        """Return what a pickle holds: arrays and slots by value, the array library by name, no memo."""
        kept = {f.name: getattr(self, f.name) for f in fields(self)}
        return kept | {"xp": self.xp.__name__, "memo": {}, "arrays": dict(self.arrays)}

    def __setstate__(self, kept: dict[str, Any]) -> None:
        for name, value in kept.items():
            object.__setattr__(self, name, importlib.import_module(value) if name == "xp" else value)

    def zeros(self, *shape: int) -> Array:
        """Return zeros of the state's dtype and device.

        Parameters
        ----------
        *shape : int
            Axes after those of the batch.

        Returns
        -------
        array (*batch, *shape)
            Of the state's library.
        """
        return self.xp.zeros((*self.batch, *shape), dtype=self.dtype, device=self.device)

    def eye(self, size: int) -> Array:
        """Return identity matrices of the state's dtype and device.

        Parameters
        ----------
        size : int
            Rows and columns.

        Returns
        -------
        array (*batch, size, size)
            Of the state's library; not to be written to.
        """
        eye = self.xp.eye(size, dtype=self.dtype, device=self.device)
        return self.xp.broadcast_to(eye, (*self.batch, size, size))


@dataclass(frozen=True)
class Pairs:
    """Keys and values to be stored, row i of one belonging to row i of the other.

    Parameters
    ----------
    keys : array (..., n, d_k)
        Of any array library.
    values : array (..., n, d_v)
        Of the same.
    law : str
        How they were drawn or where they were read from, in words.
    extras : mapping
        The further arrays of a write by name.
    """

    keys: Array
    values: Array
    law: str = ""
    extras: Mapping[str, Array] = field(default_factory=dict)

    @property
    def n(self) -> int:
        """Number of pairs per batch item."""
        return int(self.keys.shape[-2])
