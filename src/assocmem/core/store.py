"""The store contract: empty -> write -> recall, pure functions over an explicit state.

A store is a frozen dataclass of hyper-parameters. `Store` checks every argument once, at the door; a family
implements three hooks on checked arrays:

    blank(state)                        -> arrays of a store that holds nothing
    put(state, keys, values, **extras)  -> arrays after the pairs were written
    get(state, queries)                 -> recall

Stores that keep their pairs derive from `core.growing.GrowingStore` instead.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Literal

import array_api_compat.numpy as np_compat
import numpy as np

from assocmem.core import arrays as ar
from assocmem.core.arrays import Array
from assocmem.core.errors import DTypeError, InputError, RecallOverflowError
from assocmem.core.types import Similarity, Source, State, Traits

UNIT_TOLERANCE = 1e-3


@dataclass(frozen=True)
class Store(ABC):
    """An associative memory: writes pairs (key, value) into a state and recalls a value when asked with a query.

    Class attributes: `equation` (recall as plain text), `summary` (one sentence), `source`, `cost`
    (multiply-adds per write and per recall), all shown by `assocmem show`.
    """

    equation: ClassVar[str] = ""
    summary: ClassVar[str] = ""
    source: ClassVar[Source | None] = None
    cost: ClassVar[str] = ""

    @property
    @abstractmethod
    def traits(self) -> Traits:
        """What this store promises."""

    @abstractmethod
    def blank(self, state: State) -> Mapping[str, Array]:
        """Return the arrays of a store that holds nothing (sizes, dtype and namespace are the state's)."""

    @abstractmethod
    def put(self, state: State, keys: Array, values: Array, **extras: Array) -> Mapping[str, Array]:
        """Return the arrays after writing keys (*batch, n, d_k) and values (*batch, n, d_v), n >= 1, in order."""

    @abstractmethod
    def get(self, state: State, queries: Array) -> Array:
        """Return the recall (..., m, d_v) of queries (..., m, d_k); the state's batch broadcasts against '...'."""

    def similarity(self, d_k: int, n: int) -> Similarity | None:
        """Return σ where recall of n stored pairs is V^T σ(K x) (see `Similarity`), else None."""
        return None

    # ------------------------------------------------------------------ the public contract

    def empty(
        self,
        d_k: int,
        d_v: int,
        *,
        batch: tuple[int, ...] = (),
        like: Array | None = None,
        state_dtype: str | None = None,
    ) -> State:
        """Return a state that holds nothing.

        Parameters
        ----------
        d_k, d_v: widths of keys and values, whole numbers >= 0.
        batch: leading axes (sequences, heads) shared by everything that is written.
        like: array whose library, device and dtype the state follows; without it the first write decides.
        state_dtype: name of the dtype to keep the state in ("bfloat16", ...), for those who study rounding;
            by default float32 for half precision and the data's own dtype otherwise.

        Raises InputError for negative or fractional sizes.
        """
        d_k, d_v = _size("d_k", d_k, self), _size("d_v", d_v, self)
        batch = tuple(_size("batch", b, self) for b in batch)
        return self._empty(d_k, d_v, batch, like, state_dtype, pinned=like is not None)

    def _empty(
        self, d_k: int, d_v: int, batch: tuple[int, ...], like: Array | None, state_dtype: str | None, *, pinned: bool
    ) -> State:
        if like is None:
            xp, device, io = np_compat, None, np.dtype(np.float64)
        else:
            like = ar.as_array(like, "like")
            xp = ar.namespace(like)
            device, io = ar.device_of(like), ar.as_floating(like, xp).dtype
        # Without `like` the dtype is only a stand-in until the first write, in whose library it is looked up.
        named = state_dtype is not None and (like is not None or hasattr(np, str(state_dtype)))
        dtype = ar.dtype_named(state_dtype, xp) if named else ar.state_dtype_for(io, xp)
        bare = State({}, 0, d_k, d_v, batch, xp, dtype, io, device, pinned, state_dtype)
        return self._blank(bare)

    def _following(self, state: State, like: Array) -> State:
        """Return a state that follows `like`'s library and dtype where nothing has fixed them yet."""
        if state.n or state.pinned:
            return state
        return self._empty(state.d_k, state.d_v, state.batch, like, state.state_dtype, pinned=False)

    def _blank(self, bare: State) -> State:
        return bare.having(self.blank(bare), n=0)

    def write(self, state: State, keys: Array, values: Array, **extras: Array) -> State:
        """Return the state after writing n pairs in order; the old state stays valid and unchanged.

        Parameters
        ----------
        state: a state of this store.
        keys: (*batch, n, d_k); values: (*batch, n, d_v), of the same n >= 0 and the same array library.
        extras: the per-pair arrays that the store's traits declare.

        Raises InputError for shapes that do not fit, NonFiniteError for NaN or infinity.
        """
        if not extras and self._fits(state, keys, values):
            with ar.overflow_unheard():
                return self._write(state, keys, values, {})
        keys, values, extras = self._checked_pairs(state, keys, values, extras)
        if keys.shape[-2] == 0:
            return state
        state = self._following(state, keys)
        keys, values, extras, state = self._same_dtype(state, keys, values, extras)
        with ar.overflow_unheard():
            return self._write(state, keys, values, extras)

    def _fits(self, state: State, keys: Array, values: Array) -> bool:
        """Say quickly whether a few unbatched NumPy pairs of the state's own dtype would pass every check at the door.

        The thousands of single writes of a streaming use pass here; all others take the long way, which also
        knows what to say.
        """
        dtype = state.dtype
        if not state.n or type(keys) is not np.ndarray or type(values) is not np.ndarray or state.batch:
            return False
        if keys.dtype != dtype or values.dtype != dtype or state.io_dtype != dtype:
            return False
        n = len(keys) if keys.ndim == 2 else 0
        if not n or keys.shape != (n, state.d_k) or values.shape != (n, state.d_v):
            return False
        if not ar.quickly_finite(keys) or not ar.quickly_finite(values):
            return False
        traits = self.traits
        return traits.keys == "any" and not traits.extras

    def _write(self, state: State, keys: Array, values: Array, extras: dict[str, Array]) -> State:
        return state.having(self.put(state, keys, values, **extras), n=state.n + int(keys.shape[-2]))

    def recall(self, state: State, queries: Array, *, mask: Array | None = None) -> Array:
        """Return what the store recalls for each query, shape (..., m, d_v).

        Parameters
        ----------
        queries: (..., m, d_k); the leading axes broadcast against the state's batch axes.
        mask: boolean (..., m, n), True where a query may see a pair; only for stores that keep their pairs.

        A store that holds nothing recalls zeros. Raises InputError, NonFiniteError, RecallOverflowError.
        """
        queries = self._checked_queries(state, queries)
        mask = self._checked_mask(state, queries, mask)
        state = self._following(state, queries)
        with ar.overflow_unheard():
            out = self._recall(state, self._as_state_dtype(state, queries), mask)
        return self._finish(out, state, queries)

    def _recall(self, state: State, queries: Array, mask: Array | None) -> Array:
        return self.get(state, queries)

    def scan(
        self,
        state: State,
        keys: Array,
        values: Array,
        queries: Array,
        *,
        read: Literal["after", "before"] = "after",
        **extras: Array,
    ) -> tuple[State, Array]:
        """Write the pairs one by one and recall query i after (or before) pair i is written: the causal form.

        Parameters
        ----------
        keys (*batch, n, d_k), values (*batch, n, d_v), queries (*batch, n, d_k): one query for every pair.
        read: "after" recalls with pair i stored, "before" without it.

        Returns the final state and the recalls (*batch, n, d_v); equal to the loop of `write` and `recall`.
        """
        if read not in ("after", "before"):
            raise InputError(f"`read` of {self.name}.scan must be 'after' or 'before'; got {read!r}.")
        keys, values, extras = self._checked_pairs(state, keys, values, extras, call="scan")
        queries = self._checked_queries(state, ar.as_array(queries, "queries", like=keys), call="scan")
        xp = ar.namespace(keys, queries)
        if queries.shape[-2] != keys.shape[-2] or queries.shape[:-2] not in ((), tuple(state.batch)):
            wanted = (*state.batch, int(keys.shape[-2]), state.d_k)
            raise InputError(
                f"`queries` of {self.name}.scan must have shape {wanted}, one for every pair; "
                f"got {tuple(queries.shape)}."
            )
        queries = xp.broadcast_to(queries, keys.shape) if queries.shape != keys.shape else queries
        followed = self._following(state, keys)
        if keys.shape[-2] == 0:
            return state, self._finish(followed.zeros(0, state.d_v), followed, queries)
        keys, values, extras, state = self._same_dtype(followed, keys, values, extras)
        with ar.overflow_unheard():
            state, out = self._scan(state, keys, values, self._as_state_dtype(state, queries), read, extras)
        return state, self._finish(out, state, queries)

    def _scan(
        self, state: State, keys: Array, values: Array, queries: Array, read: str, extras: dict[str, Array]
    ) -> tuple[State, Array]:
        return self._loop(state, keys, values, queries, read, extras)

    def _loop(
        self, state: State, keys: Array, values: Array, queries: Array, read: str, extras: dict[str, Array]
    ) -> tuple[State, Array]:
        """Write and recall token by token: the slow truth that every fast `_scan` must equal."""
        rows = []
        for i in range(int(keys.shape[-2])):
            at = slice(i, i + 1)
            if read == "before":
                rows.append(self._recall(state, queries[..., at, :], None))
            state = self._write(state, keys[..., at, :], values[..., at, :], self._pairs_of(extras, at))
            if read == "after":
                rows.append(self._recall(state, queries[..., at, :], None))
        return state, state.xp.concat(rows, axis=-2)

    # ------------------------------------------------------------------ what only some stores can do

    def merge(self, *states: State) -> State:
        """Return one state that holds the pairs of all `states`, as if they had been written one after the other.

        Raises InputError for a store whose states cannot be joined, and where sizes, batches or libraries differ.
        """
        raise InputError(f"states of {self.name} cannot be merged: what one holds depends on what came before it.")

    def forget(self, state: State, keys: Array, values: Array) -> State:
        """Return the state without pairs that were written before; InputError for a store that cannot take them out."""
        raise InputError(f"{self.name} cannot forget a pair: it does not keep pairs apart in a form that adds up.")

    def _alike(self, states: tuple[State, ...]) -> list[State]:
        """Return the states that hold something (or the first), checked to fit and brought to one dtype."""
        if not states:
            raise InputError(f"`states` of {self.name}.merge must hold at least one state; got none.")
        sizes = {(s.d_k, s.d_v, s.batch) for s in states}
        if len(sizes) > 1:
            raise InputError(f"`states` of {self.name}.merge must have one d_k, d_v and batch; got {sorted(sizes)}.")
        filled = [s for s in states if s.n] or [states[0]]
        libraries = {_library(s.xp) for s in filled}
        if len(libraries) > 1:
            raise InputError(
                f"`states` of {self.name}.merge must come from one array library; got {', '.join(sorted(libraries))}."
            )
        xp, dtype, io = filled[0].xp, filled[0].dtype, filled[0].io_dtype
        for state in filled[1:]:
            dtype, io = xp.result_type(dtype, state.dtype), xp.result_type(io, state.io_dtype)
        return [s if (s.dtype, s.io_dtype) == (dtype, io) else self._recast(s, dtype, io) for s in filled]

    def _pairs_of(self, extras: Mapping[str, Array], at: slice) -> dict[str, Array]:
        """Return the extras of the pairs in `at`; extras without an axis of pairs are passed on whole."""
        spec = {e.name: e for e in self.traits.extras}
        cut = {}
        for name, array in extras.items():
            if not spec[name].per_pair:
                cut[name] = array
            elif len(spec[name].shape) == 1:
                cut[name] = array[..., at]
            else:
                cut[name] = array[..., at, :]
        return cut

    # ------------------------------------------------------------------ names and hyper-parameters

    @property
    def name(self) -> str:
        """The class name, used in messages."""
        return type(self).__name__

    def settings(self) -> dict[str, Any]:
        """Return the hyper-parameters by name."""
        return {f.name: getattr(self, f.name) for f in fields(self)}

    # ------------------------------------------------------------------ checks at the door

    def _checked_pairs(
        self, state: State, keys: Array, values: Array, extras: Mapping[str, Array], call: str = "write"
    ) -> tuple[Array, Array, dict[str, Array]]:
        like = None if state.xp is np_compat else _any_array(state)
        keys = ar.as_array(keys, "keys", like=like)
        values = ar.as_array(values, "values", like=keys)
        if type(keys) is not np.ndarray or type(values) is not np.ndarray:
            ar.namespace(keys, values)
        keys = self._shaped(state, keys, "keys", state.d_k, call)
        values = self._shaped(state, values, "values", state.d_v, call)
        if keys.shape[-2] != values.shape[-2]:
            raise InputError(
                f"`keys` and `values` of {self.name}.{call} must hold the same number of pairs; "
                f"got {keys.shape[-2]} keys and {values.shape[-2]} values."
            )
        xp = ar.namespace(keys)
        if state.pinned or state.n:
            self._same_library(state, keys, "keys", call)
        ar.require_finite(keys, "keys", xp)
        ar.require_finite(values, "values", xp)
        traits = self.traits
        if traits.keys != "any":
            self._check_key_kind(keys, "keys", traits.keys, call)
        if extras or traits.extras:
            extras = self._checked_extras(state, keys, extras, traits, call)
        return keys, values, dict(extras)

    def _shaped(self, state: State, x: Array, name: str, width: int, call: str) -> Array:
        shape = x.shape
        if len(shape) >= 2 and shape[-1] == width:
            if shape[:-2] == state.batch:
                return x
            if len(shape) == 2:
                return ar.namespace(x).broadcast_to(x, (*state.batch, *shape))
        label = "d_k" if name in ("keys", "queries") else "d_v"
        wanted = ", ".join([*(str(b) for b in state.batch), "n", f"{label}={width}"])
        hint = ""
        if len(shape) == 1 and shape[0] == width:
            hint = f" For a single pair add an axis: {name}[None, :]."
        elif len(shape) > 2 and not state.batch:
            hint = f" For batched data make the state with empty(..., batch={tuple(int(b) for b in shape[:-2])})."
        raise InputError(
            f"`{name}` of {self.name}.{call} must have shape ({wanted}); got {tuple(int(n) for n in shape)}.{hint}"
        )

    def _same_library(self, state: State, x: Array, name: str, call: str) -> None:
        if ar.namespace(x) is not state.xp:
            raise DTypeError(
                f"`{name}` of {self.name}.{call} must be arrays of {_library(state.xp)}, as the state is; "
                f"got {type(x).__module__}.{type(x).__name__}."
            )

    def _checked_queries(self, state: State, queries: Array, call: str = "recall") -> Array:
        like = None if state.xp is np_compat else _any_array(state)
        queries = ar.as_array(queries, "queries", like=like)
        if queries.ndim < 2 or queries.shape[-1] != state.d_k:
            hint = " For a single query add an axis: queries[None, :]." if queries.ndim == 1 else ""
            raise InputError(
                f"`queries` of {self.name}.{call} must have shape (..., m, d_k={state.d_k}); "
                f"got {tuple(int(n) for n in queries.shape)}.{hint}"
            )
        try:
            np.broadcast_shapes(tuple(queries.shape[:-2]), state.batch)
        except ValueError:
            raise InputError(
                f"`queries` of {self.name}.{call} must have leading axes that broadcast against the state's batch "
                f"{state.batch}; got {tuple(int(n) for n in queries.shape[:-2])}."
            ) from None
        if state.n or state.pinned:
            self._same_library(state, queries, "queries", call)
        ar.require_finite(queries, "queries", ar.namespace(queries))
        return queries

    def _checked_mask(self, state: State, queries: Array, mask: Array | None) -> Array | None:
        if mask is None:
            return None
        if not self.traits.keeps_pairs:
            raise InputError(
                f"`mask` cannot be used with {self.name}, which does not keep its pairs apart: "
                "a memory that is mixed into the state cannot be hidden from one query. Leave `mask` out."
            )
        mask = ar.as_array(mask, "mask", like=queries)
        if ar.namespace(mask) is not ar.namespace(queries):
            raise DTypeError(f"`mask` of {self.name}.recall must be an array of the queries' library or a list.")
        if not ar.namespace(mask).isdtype(mask.dtype, "bool"):
            raise DTypeError(f"`mask` of {self.name}.recall must be boolean (True = visible); got dtype {mask.dtype}.")
        batch = np.broadcast_shapes(tuple(queries.shape[:-2]), state.batch)
        wanted = (*batch, int(queries.shape[-2]), state.n)
        try:
            return ar.namespace(mask).broadcast_to(mask, wanted)
        except (ValueError, RuntimeError):
            raise InputError(
                f"`mask` of {self.name}.recall must have shape (..., m={wanted[-2]}, n={state.n}), "
                f"broadcasting to {wanted}; got {tuple(int(n) for n in mask.shape)}."
            ) from None

    def _check_key_kind(self, keys: Array, name: str, kind: str, call: str) -> None:
        xp = ar.namespace(keys)
        if kind == "unit":
            rows = ar.as_floating(keys, xp)
            rows = xp.astype(rows, ar.state_dtype_for(rows.dtype, xp), copy=False)
            with ar.overflow_unheard():
                off = xp.abs(xp.sqrt(xp.sum(rows * rows, axis=-1)) - 1)
            if bool(xp.any(off > UNIT_TOLERANCE)):
                raise InputError(
                    f"`{name}` of {self.name}.{call} must be rows of length 1 (within {UNIT_TOLERANCE}); the worst is "
                    f"off by {float(xp.max(off)):.3g}. Normalise them first (normalise=True in Memory, --normalise)."
                )
        elif kind == "signs":
            if bool(xp.any(xp.abs(ar.as_floating(keys, xp)) != 1)):
                raise InputError(f"`{name}` of {self.name}.{call} must hold only +1 and -1; other numbers came.")
        elif kind == "ids" and (not xp.isdtype(keys.dtype, "integral") or bool(xp.any(keys < 0))):
            raise InputError(f"`{name}` of {self.name}.{call} must be whole-number token ids >= 0; got {keys.dtype}.")

    def _checked_extras(
        self, state: State, keys: Array, extras: Mapping[str, Array], traits: Traits, call: str
    ) -> dict[str, Array]:
        known = {e.name: e for e in traits.extras}
        for name in extras:
            if name not in known:
                takes = f"it takes {', '.join(known)}" if known else "it takes no extras"
                raise InputError(f"{self.name}.{call} has no use for `{name}`; {takes}. Leave it out.")
        xp = ar.namespace(keys)
        sizes = {"n": int(keys.shape[-2]), "d_k": state.d_k, "d_v": state.d_v}
        checked = {}
        for name, extra in known.items():
            given = extras.get(name)
            if given is not None and extra.instead_of and extras.get(extra.instead_of) is not None:
                raise InputError(f"{self.name}.{call} takes `{extra.instead_of}` or `{name}`, not both; leave one out.")
            if given is None:
                placed = any(other.instead_of == name and extras.get(other.name) is not None for other in traits.extras)
                if extra.required and not placed:
                    raise InputError(f"{self.name}.{call} needs `{name}`: {extra.meaning}.")
                continue
            array = ar.as_array(given, name, like=keys)
            if ar.namespace(array) is not xp:
                raise DTypeError(
                    f"`{name}` of {self.name}.{call} must be an array of the keys' library, {_library(xp)}."
                )
            shape = tuple(sizes[a] if isinstance(a, str) else a for a in extra.shape)
            try:
                array = xp.broadcast_to(array, (*state.batch, *shape))
            except (ValueError, RuntimeError):
                words = ", ".join([*(str(b) for b in state.batch), *(str(a) for a in extra.shape)])
                raise InputError(
                    f"`{name}` of {self.name}.{call} must have shape ({words}) = {(*state.batch, *shape)}; "
                    f"got {tuple(int(n) for n in array.shape)}."
                ) from None
            if not ar.all_finite(array, xp):
                raise InputError(f"`{name}` of {self.name}.{call} must be finite; it holds NaN or infinity.")
            if array.size and (bool(xp.any(array < extra.low)) or bool(xp.any(array > extra.high))):
                raise InputError(
                    f"`{name}` of {self.name}.{call} must lie in [{extra.low:g}, {extra.high:g}]; "
                    f"got {float(xp.min(array)):g} to {float(xp.max(array)):g}."
                )
            checked[name] = array
        return checked

    def _same_dtype(
        self, state: State, keys: Array, values: Array, extras: dict[str, Array]
    ) -> tuple[Array, Array, dict[str, Array], State]:
        """Bring pairs and state to one dtype by the rule of core.arrays."""
        dtype = state.dtype
        if keys.dtype == dtype and values.dtype == dtype and not extras and state.io_dtype == dtype:
            return keys, values, extras, state
        xp = state.xp
        ids = self.traits.keys == "ids"
        keys = keys if ids else ar.as_floating(keys, xp)
        values = ar.as_floating(values, xp)
        written = values.dtype if ids else xp.result_type(keys.dtype, values.dtype)
        io = written if not state.n and not state.pinned else xp.result_type(state.io_dtype, written)
        if state.state_dtype is None:
            dtype = (
                xp.result_type(state.dtype, ar.state_dtype_for(io, xp))
                if state.n or state.pinned
                else (ar.state_dtype_for(io, xp))
            )
        if io != state.io_dtype or dtype != state.dtype:
            state = self._recast(state, dtype, io)
        cast: Callable[[Array], Array] = lambda a: a if a.dtype == dtype else xp.astype(a, dtype)  # noqa: E731
        return keys if ids else cast(keys), cast(values), {k: cast(a) for k, a in extras.items()}, state

    def _recast(self, state: State, dtype: Any, io: Any) -> State:
        xp = state.xp
        arrays = {
            name: xp.astype(a, dtype) if xp.isdtype(a.dtype, "real floating") and a.dtype != dtype else a
            for name, a in state.arrays.items()
        }
        held = state.held if dtype == state.dtype else None
        return State(
            arrays, state.n, state.d_k, state.d_v, state.batch, xp, dtype, io, state.device, state.pinned,
            state.state_dtype, held,
        )  # fmt: skip

    def _as_state_dtype(self, state: State, queries: Array) -> Array:
        if self.traits.keys == "ids":
            return queries
        return queries if queries.dtype == state.dtype else ar.namespace(queries).astype(queries, state.dtype)

    def _finish(self, out: Array, state: State, queries: Array) -> Array:
        """Cast a recall to the dtype it is returned in; refuse one that overflowed."""
        xp = ar.namespace(out)
        wanted = state.io_dtype
        if xp is ar.namespace(queries) and self.traits.keys != "ids" and xp.isdtype(queries.dtype, "real floating"):
            wanted = xp.result_type(wanted, queries.dtype) if state.n or state.pinned else queries.dtype
        if out.dtype != wanted:
            with np.errstate(over="ignore"):
                out = xp.astype(out, wanted)
        if not ar.all_finite(out, xp):
            raise RecallOverflowError(
                f"the recall of {self.name} left the range of {ar.dtype_name(out.dtype)}; "
                "scale the keys (unit length) or the values down, or use float64."
            )
        return out


def _size(name: str, value: int, store: Store) -> int:
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 0:
        raise InputError(f"`{name}` of {store.name}.empty must be a whole number >= 0; got {value!r}.")
    return int(value)


def _any_array(state: State) -> Array | None:
    return next(iter(state.arrays.values()), None)


def _library(xp: Any) -> str:
    return str(xp.__name__).removeprefix("array_api_compat.")
