"""Stores with a table of slots, of which a key or query addresses few: the same addressing writes and recalls.

    f(x) = sum over the addressed slots s of w_s(x) V_s,      V_s <- V_s + w_s(k) v / |w(k)|^2

so that a pair alone is recalled exactly by its own key, and recall stays linear in the values.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

import array_api_compat
import numpy as np

from assocmem.contract import arrays as ar
from assocmem.contract import validation as valid
from assocmem.contract.arrays import Array, DType
from assocmem.contract.errors import InputError
from assocmem.contract.recall import Ask, TopK
from assocmem.contract.slots import DenseSlots, Rows
from assocmem.contract.state import State
from assocmem.contract.store import Store

FIRST_BLOCK = 64
"""Keys or queries in the first block, which tells how many numbers each of them takes."""
BLOCK_NUMBERS = 2**20
"""Numbers of rows, or of products between addresses, that are worked on at once."""


@dataclass(frozen=True)
class TableStore(Store):
    """A store with arrays beside what is written, which trained ones can take the place of."""

    @abstractmethod
    def rows_loaded(self, state: State, names: frozenset[str]) -> int:
        """Return how many rows of values come with the tables of these names: each counts as a pair."""

    def loaded(self, state: State, **tables: Array) -> State:
        """Return the state with trained tables in the place of those that it has, such as sub-keys and values.

        Parameters
        ----------
        state : State
            Of this store; what is not given stays as it is.
        tables : arrays by name
            Each of the shape that the state's array of that name has, without or with its batch axes.

        Returns
        -------
        State
            Its n counts every row of a loaded table of values as a pair. It may be written on.

        Raises
        ------
        InputError
            For a name that the store has not, and for a shape that does not fit; nothing is changed.
        """
        valid.check_own(self, state, "loaded")
        if not tables:
            raise InputError(f"{self.name}.loaded needs at least one table: {', '.join(state.arrays)}.")
        given = {name: ar.as_array(table, name) for name, table in tables.items()}
        like = next(iter(given.values()))
        state = self._following(state, like) if not (state.n or state.pinned) else state
        xp, arrays = state.xp, dict(state.arrays)
        for name, table in given.items():
            if name not in arrays:
                raise InputError(f"{self.name} has no table `{name}`; it has {', '.join(arrays)}.")
            if ar.namespace(table) is not xp:
                raise InputError(f"`{name}` of {self.name}.loaded must be an array of {valid.library_name(xp)}.")
            wanted = tuple(int(n) for n in arrays[name].shape)
            own = wanted[len(state.batch) :]
            if tuple(table.shape) not in (wanted, own):
                raise InputError(
                    f"`{name}` of {self.name}.loaded must have shape {own}, as the store's settings say; "
                    f"got {tuple(int(n) for n in table.shape)}."
                )
            table = xp.astype(ar.as_floating(table, xp), state.dtype)  # a copy, which the caller cannot change
            ar.require_finite(table, name, xp)
            arrays[name] = xp.broadcast_to(table, wanted)
        n = state.n + self.rows_loaded(state, frozenset(given))
        return replace(state.after(arrays, n, state.slots), pinned=True)


@dataclass(frozen=True)
class SlotTableStore(TableStore):
    """A store whose values are rows of one table, mixed by the weights of the slots that a query addresses.

    A family names the number of slots, the arrays beside the table (sub-keys and the like, drawn from a seed or
    loaded), and the slots that a key or query addresses, with their weights.

    State: "values" (slots, d_v), and what the family names. Nothing is kept for a pair.
    """

    @abstractmethod
    def slot_count(self, state: State) -> int:
        """Return the number of rows of the table."""

    @abstractmethod
    def drawn(self, state: State) -> Mapping[str, Array]:
        """Return the arrays beside the table, as drawn."""

    @abstractmethod
    def addressed(self, state: State, x: Array) -> tuple[Array, Array]:
        """Return ids (..., m, K) of slots and their weights (..., m, K, c) for keys or queries (..., m, d_k).

        c is d_v where every value channel has its own weights, else 1. A slot may stand several times: its weights add.
        """

    def rows_loaded(self, state: State, names: frozenset[str]) -> int:
        """Return the slots of the table where it is loaded."""
        return self.slot_count(state) if "values" in names else 0

    def check_ids(self, x: Array, name: str) -> None:
        """Refuse keys or queries that nothing can be addressed by, with InputError."""

    def init(self, state: State) -> Mapping[str, Array | Rows]:
        """Return the arrays of the family and a table of zeros."""
        return {**self.drawn(state), "values": state.zeros(self.slot_count(state), state.d_v)}

    def put(self, state: State, keys: Array, values: Array, **extras: Array) -> Mapping[str, Array]:
        """Return the arrays after every value was added to the slots that its key addresses."""
        self.check_ids(keys, "keys")
        return {**state.arrays, "values": added(state["values"], self._parts(state, keys, values))}

    def _parts(self, state: State, keys: Array, values: Array) -> Iterator[tuple[Array, Array, Array]]:
        """Yield ids (*batch, b, K), shares (*batch, b, K, c) and values (*batch, b, d_v), block by block."""
        xp, count, step = state.xp, int(keys.shape[-2]), FIRST_BLOCK
        start = 0
        while start < count:
            at = slice(start, min(start + step, count))
            ids, weights = self.addressed(state, keys[..., at, :])
            same = xp.astype(ids[..., :, None] == ids[..., None, :], weights.dtype)
            length = xp.sum((same @ weights) * weights, axis=(-2, -1)) / max(1, int(weights.shape[-1]))
            share = weights / xp.where(length > 0, length, xp.ones_like(length))[..., None, None]
            yield ids, share, values[..., at, :]
            start, wide = at.stop, int(ids.shape[-1])
            step = max(1, BLOCK_NUMBERS // (math.prod(state.batch) * wide * max(wide, state.d_v) or 1))

    def get(self, state: State, queries: Array, ask: Ask) -> Array:
        """Return the weighted sum of the addressed rows, a block of queries at a time."""
        self.check_ids(queries, "queries")
        table, xp, count = DenseSlots({"values": state["values"]}), state.xp, int(queries.shape[-2])
        parts: list[Array] = []
        start, step = 0, FIRST_BLOCK
        while start < count or not parts:
            ids, weights = self.addressed(state, queries[..., start : min(start + step, count), :])
            rows = table.take("values", ids)
            if int(weights.shape[-1]) == 1:
                parts.append((ar.transpose(weights) @ rows)[..., 0, :])
            else:
                parts.append(xp.sum(weights * rows, axis=-2))
            start, step = start + step, max(1, step * BLOCK_NUMBERS // max(1, math.prod(rows.shape)))
        return parts[0] if len(parts) == 1 else xp.concat(parts, axis=-2)

    def addresses(self, state: State, queries: Array) -> TopK:
        """Return the slots that queries (..., m, d_k) address: ids (..., m, K) in [0, slots), and their weights.

        Fewer than k where the table has fewer slots; never an id of -1. Where value channels have weights of their
        own, the root of their mean square.
        """
        queries = valid.checked_queries(self, state, queries, call="addresses")
        self.check_ids(queries, "queries")
        state = self._following(state, queries)
        with ar.own_arithmetic(state.xp, state.device):
            ids, weights = self.addressed(state, valid.as_state_dtype(self, state, queries))
        if int(weights.shape[-1]) == 1:
            return TopK(ids, weights[..., 0])
        square = state.xp.sum(weights * weights, axis=-1) / max(1, int(weights.shape[-1]))
        return TopK(ids, state.xp.sqrt(square))


def everywhere(state: State, array: np.ndarray[tuple[int, ...], np.dtype[np.float64]]) -> Array:
    """Return a NumPy array in the state's library and dtype, the same in every batch item."""
    own = _cast(state.xp.asarray(array.copy(), device=state.device), state.dtype)
    return state.xp.broadcast_to(own, (*state.batch, *array.shape))


def added(table: Array, parts: Iterable[tuple[Array, Array, Array]]) -> Array:
    """Return table (*batch, S, d) with shares (*batch, m, K, c) * values (*batch, m, d) added to its rows.

    ids (*batch, m, K) say which; c is 1 or d.
    """
    xp, batch, (slots, d) = ar.namespace(table), tuple(table.shape[:-2]), table.shape[-2:]
    items = math.prod(batch)
    out = xp.reshape(table, (items * int(slots), int(d)))
    out = out.copy() if type(out) is np.ndarray else out
    for ids, shares, values in parts:
        offsets = xp.reshape(xp.arange(items, device=ar.device_of(ids)), (*batch, 1, 1)) * int(slots)
        at = xp.reshape(ids + offsets, (-1,))
        if type(out) is np.ndarray and shares.shape[-1] == 1:
            _sum_into(out, at, shares.reshape(-1), values.reshape(math.prod(ids.shape[:-1]), int(d)))
        elif type(out) is np.ndarray:
            rows = (shares * values[..., None, :]).reshape(math.prod(ids.shape), int(d))
            _sum_into(out, at, np.ones(len(rows), rows.dtype), rows)
        else:
            out = _summed(out, at, xp.reshape(shares * values[..., None, :], (math.prod(ids.shape), int(d))))
    return xp.reshape(out, table.shape)


def _sum_into(out: Array, at: Array, shares: Array, rows: Array) -> None:
    """Add shares (N,) times rows (R, d), each row for N / R shares in turn, to the rows `at` of out, in place."""
    from scipy.sparse import csr_array  # takes as long to import as all of assocmem

    order = np.argsort(at, kind="stable")
    places, begins = np.unique(at[order], return_index=True)
    if len(places):
        each = len(at) // len(rows)
        sums = csr_array((shares[order], order // each, np.append(begins, len(at))), shape=(len(places), len(rows)))
        out[places] += sums @ rows


def _summed(out: Array, at: Array, rows: Array) -> Array:
    """Return `out` with rows added."""
    xp = ar.namespace(out)
    if array_api_compat.is_torch_array(out):
        return out.index_add(0, at, rows)
    # Any library can multiply by a matrix of zeros and ones, and differentiate it.
    slots, step = int(out.shape[0]), max(1, BLOCK_NUMBERS // max(1, int(at.shape[0])))
    places = xp.arange(slots, device=ar.device_of(at))
    return xp.concat(
        [
            out[one, :] + xp.astype(places[one, None] == at, rows.dtype) @ rows
            for start in range(0, slots, step)
            for one in (slice(start, min(start + step, slots)),)
        ]
    )


def _cast(x: Array, dtype: DType) -> Array:
    return x if x.dtype == dtype else ar.namespace(x).astype(x, dtype)
