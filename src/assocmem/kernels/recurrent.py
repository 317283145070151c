"""Stores that are written pair by pair into a state of fixed size: one rule for a pair, a fast form for many."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, ClassVar, TypeAlias

import numpy as np

from assocmem.contract import arrays as ar
from assocmem.contract.arrays import Array
from assocmem.contract.errors import DivergedError
from assocmem.contract.settings import COUNT, Help, settings_of
from assocmem.contract.state import State
from assocmem.contract.store import Store
from assocmem.contract.traits import Capabilities
from assocmem.kernels.chunked import CHUNK
from assocmem.kernels.compute import run_shares

Arrays: TypeAlias = Mapping[str, Array]


@dataclass(frozen=True)
class RecurrentStore(Store):
    """A store with a rule for one pair (`put_pair`) and an equal, faster form for many (`put_chunk`).

    One pair is written by `put_pair`, several by `put_chunk`; `scan` is `put_chunk` with queries. A state kept in
    16 bits is written pair by pair, computed in float32 and rounded after each pair, as token-by-token decoding does.
    A state that leaves the range of its dtype raises DivergedError, which names the pair, counted from 0 over
    all pairs ever written.
    """

    chunk: Annotated[int, COUNT, Help("pairs that are prepared together; changes speed and rounding only")] = field(
        default=CHUNK, repr=False, compare=False, kw_only=True
    )

    capabilities = Capabilities(scan="own")
    remedy: ClassVar[str] = "Scale the keys (unit length) or the values down, or use float64."

    @abstractmethod
    def put_pair(self, arrays: Arrays, key: Array, value: Array, **extras: Array) -> Arrays:
        """Return the arrays after one pair, key (*batch, 1, d_k) and value (*batch, 1, d_v): the rule itself."""

    @abstractmethod
    def put_chunk(
        self, arrays: Arrays, keys: Array, values: Array, queries: Array | None, read: str, **extras: Array
    ) -> tuple[Arrays, Array | None]:
        """Return the arrays after n pairs and, with queries (*batch, n, d_k), the recall after (or before) each."""

    def resolved(self, state: State, keys: Array, extras: Arrays) -> dict[str, Array]:
        """Return the extras that `put_pair` and `put_chunk` take, defaults filled in; warn of unstable ones."""
        full, xp, each = dict(extras), state.xp, tuple(keys.shape[:-1])
        for setting in settings_of(type(self)):
            name = setting.name
            if setting.log and f"log_{name}" in full:
                full[name] = xp.exp(full.pop(f"log_{name}"))
            elif setting.per_pair and name not in full:
                full[name] = xp.full(each, getattr(self, name), dtype=keys.dtype, device=state.device)
        return full

    def put(self, state: State, keys: Array, values: Array, **extras: Array) -> Arrays:
        """Return the arrays after writing the pairs in order."""
        extras = self.resolved(state, keys, extras)
        if int(keys.shape[-2]) == 1 or ar.is_half(state.dtype, state.xp):
            return self._pair_by_pair(state, keys, values, extras)
        arrays, _ = self._many(state.arrays, keys, values, None, "after", extras)
        return arrays if _finite(arrays, state) else self._pair_by_pair(state, keys, values, extras)

    def scanned(
        self, state: State, keys: Array, values: Array, queries: Array, read: str, extras: dict[str, Array]
    ) -> tuple[Arrays, Array]:
        """Return the arrays after all pairs and the recalls along them: `put_chunk` with queries."""
        if ar.is_half(state.dtype, state.xp):
            after, recalls = self._loop(state, keys, values, queries, read, extras)
            return after.arrays, recalls
        full = self.resolved(state, keys, extras)
        arrays, recalls = self._many(state.arrays, keys, values, queries, read, full)
        if not _finite(arrays, state) or not ar.all_finite(recalls, state.xp):
            # Either the rule itself overflows, which this names, or only an intermediate of the fast form did.
            self._pair_by_pair(state, keys, values, full)
            after, recalls = self._loop(state, keys, values, queries, read, extras)
            return after.arrays, recalls
        return arrays, recalls

    def _many(
        self, arrays: Arrays, keys: Array, values: Array, queries: Array | None, read: str, extras: Arrays
    ) -> tuple[Arrays, Array | None]:
        """`put_chunk`, in threads over the first batch axis where the arrays are NumPy's and large."""
        items = int(keys.shape[0]) if keys.ndim > 2 and type(keys) is np.ndarray else 1
        found: dict[int, Arrays] = {}
        recalls: list[Array] = []

        def run(first: int, last: int) -> None:
            def share(group: Arrays) -> dict[str, Array]:
                return dict(group) if last - first == items else {name: a[first:last] for name, a in group.items()}

            rows = share({"keys": keys, "values": values} | ({} if queries is None else {"queries": queries}))
            with ar.overflow_unheard():
                found[first], own = self.put_chunk(
                    share(arrays), rows["keys"], rows["values"], rows.get("queries"), read, **share(extras)
                )
            if last - first == items:
                recalls.append(own)
            elif own is not None:
                whole[first:last] = own

        whole: Array = None if queries is None or items == 1 else np.empty(values.shape, values.dtype)
        run_shares(run, items, math.prod(keys.shape) * int(values.shape[-1]))
        if len(found) == 1:
            return found[0], recalls[0]
        return {name: np.concatenate([found[first][name] for first in sorted(found)]) for name in arrays}, whole

    def _pair_by_pair(self, state: State, keys: Array, values: Array, extras: Arrays) -> Arrays:
        """Apply `put_pair` to each pair in turn and name the first one that leaves the range of the dtype."""
        xp, half = state.xp, ar.is_half(state.dtype, state.xp)
        wide = xp.float32 if half else state.dtype
        arrays = state.arrays
        count = int(keys.shape[-2])
        for i in range(count):
            at = slice(i, i + 1)
            key, value = keys[..., at, :], values[..., at, :]
            own = extras if count == 1 else self._pairs_of(extras, at)
            if half:
                key, value = xp.astype(key, wide), xp.astype(value, wide)
                own = {name: xp.astype(a, wide) for name, a in own.items()}
                arrays = {name: xp.astype(a, wide) for name, a in arrays.items()}
            arrays = self.put_pair(arrays, key, value, **own)
            arrays = {name: xp.astype(a, state.dtype) for name, a in arrays.items()} if half else arrays
            if not _finite(arrays, state):
                raise DivergedError(
                    f"{self.name} diverged at pair {state.n + i}: its state left the range of "
                    f"{ar.dtype_name(state.dtype)}, and nothing was changed. {self.remedy}",
                    step=state.n + i,
                )
        return arrays


def _finite(arrays: Arrays, state: State) -> bool:
    return ar.quickly_finite(*arrays.values()) or all(ar.trusted_finite(a, state.xp) for a in arrays.values())


def one_each(number: float, keys: Array) -> Array:
    """Return `number` once for every pair of `keys` (..., n, d_k), shape (..., n)."""
    xp = ar.namespace(keys)
    return xp.full(tuple(keys.shape[:-1]), number, dtype=keys.dtype, device=ar.device_of(keys))
