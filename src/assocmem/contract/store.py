"""The store contract: empty -> write -> recall, pure functions over an explicit state.

A store is a frozen dataclass of hyper-parameters. `Store` checks every argument once, before a
hook sees it (`contract.validation`); a family implements three hooks on checked arrays:

    init(state)                         -> arrays of a store that holds nothing, Rows for what is kept for every pair
    put(state, keys, values, **extras)  -> arrays after the pairs were written, rows of the new pairs
    get(state, queries, ask)            -> Recall, or its values alone
"""

from __future__ import annotations

import inspect
import itertools
import re
import textwrap
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import numpy as np

from assocmem.contract import arrays as ar
from assocmem.contract import validation as valid
from assocmem.contract.arrays import Array
from assocmem.contract.cost import Cost
from assocmem.contract.errors import DTypeError, InputError, RecallOverflowError, RoundingWarning, defined_at, warn
from assocmem.contract.form import Form
from assocmem.contract.recall import Ask, Causal, Recall, Want
from assocmem.contract.settings import WithSettings, with_section
from assocmem.contract.slots import DenseSlots, Rows, Slots
from assocmem.contract.state import State
from assocmem.contract.traits import Capabilities, Source, Traits

_PLAIN = Ask()
_MOST = 2**48
"""Largest width or length of a batch axis: an axis that no memory holds."""
_TOO_LARGE = "too (big|large)|dimension exceeded|out of memory|allocate|overflow"
"""What NumPy (ValueError) and torch (RuntimeError) say of arrays that cannot be allocated, beside MemoryError."""


@dataclass(frozen=True)
class Store(WithSettings, ABC):
    """An associative memory: writes pairs (key, value) into a state and recalls a value when asked with a query.

    Class attributes: `equation` (recall as plain text), `summary` (one sentence), `source`, `cost`
    (multiply-adds per write and per recall), all shown by `assocmem show`.
    """

    equation: ClassVar[str] = ""
    summary: ClassVar[str] = ""
    source: ClassVar[Source | None] = None
    cost: ClassVar[Cost | None] = None

    def __init_subclass__(cls, **more: Any) -> None:
        super().__init_subclass__(**more)
        source = vars(cls).get("source")
        if cls.__doc__ and isinstance(source, Source):
            lines = textwrap.wrap(source.cited, 110)
            cls.__doc__ = with_section(inspect.cleandoc(cls.__doc__), "References", lines, before="Examples")

    @property
    @abstractmethod
    def traits(self) -> Traits:
        """What this store promises."""

    @property
    def capabilities(self) -> Capabilities:
        """What it can do beside writing and recalling."""
        return Capabilities()

    def init(self, state: State) -> Mapping[str, Array | Rows]:
        """Return the arrays of a store that holds nothing.

        `Rows(width)` in place of an array stands for a row that is kept for every pair. By default those are keys and
        values: a store that keeps its pairs as they come implements `get` alone.

        Parameters
        ----------
        state : State
            Sizes, dtype and namespace; no arrays.

        Returns
        -------
        mapping
            Arrays, or Rows, by name.
        """
        return {"keys": Rows(state.d_k), "values": Rows(state.d_v)}

    def put(self, state: State, keys: Array, values: Array, **extras: Array) -> Mapping[str, Array] | State:
        """Return the arrays after writing pairs in order.

        Parameters
        ----------
        state : State
            Before them.
        keys : array (*batch, n, d_k)
            n >= 1, checked, in the state's dtype.
        values : array (*batch, n, d_v)
            Likewise.
        **extras : array
            As the traits declare them.

        Returns
        -------
        mapping or State
            Arrays by name; where a row is kept for every pair, those of the new pairs (*batch, n, width), which are
            appended.
        """
        return {"keys": keys, "values": values}

    @abstractmethod
    def get(self, state: State, queries: Array, ask: Ask) -> Recall | Array:
        """Return the recall of queries.

        A store whose capabilities give something hands out what `ask.want` names of it; one that takes masks obeys
        `ask.visible`. Where there is neither, the values will do.

        Parameters
        ----------
        state : State
            Its batch broadcasts against the leading axes of the queries.
        queries : array (..., m, d_k)
            Checked, in the state's dtype.
        ask : Ask
            What is asked beside the queries.

        Returns
        -------
        Recall or array (..., m, d_v)
            With what was wanted, or the values alone.
        """

    def form(self, d_k: int) -> Form | None:
        """Return how recall depends on the pairs.

        Parameters
        ----------
        d_k : int
            Width of the keys.

        Returns
        -------
        Form or None
            None where none of the forms says it.
        """
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
        slots: Slots | None = None,
    ) -> State:
        """Return a state that holds nothing.

        Parameters
        ----------
        d_k, d_v : int
            Widths of keys and values, >= 0.
        batch : tuple of int
            Leading axes (sequences, heads) shared by everything that is written.
        like : array, optional
            Its library, device and dtype the state follows; without it the first write decides.
        state_dtype : str, optional
            Name of the dtype to keep the state in ("bfloat16", ...), for those who study rounding; by default float32
            for half precision and the data's own dtype otherwise.
        slots : Slots, optional
            What is to hold the rows that are kept for pairs, as `MappedSlots(folder)` does in files; by default memory.

        Returns
        -------
        State
            With n = 0.

        Raises
        ------
        InputError
            For negative or fractional sizes, for those that do not fit into memory, for widths that the store does
            not take, and for slots that hold rows, or where the store keeps none.
        DTypeError
            For a `state_dtype` that is no name of a floating dtype.
        """
        d_k, d_v = _size("d_k", d_k, self), _size("d_v", d_v, self)
        batch = _batch(batch, self)
        widths = self.traits.widths
        if widths is not None and not widths.fits(d_k, d_v):
            raise InputError(f"widths of {self.name} must be {widths.words}; got d_k={d_k}, d_v={d_v}.")
        if not isinstance(state_dtype, str | None):
            got = repr(state_dtype)
            raise DTypeError(f"`state_dtype` of {self.name}.empty must be a floating dtype's name, or None; got {got}.")
        if slots is not None and slots.count:
            raise InputError(f"`slots` of {self.name}.empty must hold no rows; got {slots.count} of them.")
        state = self._empty(d_k, d_v, batch, like, state_dtype, slots, pinned=like is not None)
        if slots is not None and state.slots is None:
            raise InputError(f"{self.name} keeps no rows for its pairs, so that it takes no `slots`.")
        return state

    def _empty(
        self,
        d_k: int,
        d_v: int,
        batch: tuple[int, ...],
        like: Array | None,
        state_dtype: str | None,
        slots: Slots | None,
        *,
        pinned: bool,
    ) -> State:
        if like is None:
            xp, device, io = np, None, np.dtype(np.float64)
        else:
            like = ar.as_array(like, "like")
            xp = ar.namespace(like)
            device, io = ar.device_of(like), ar.as_floating(like, xp).dtype
        # Without `like` the dtype is only a stand-in until the first write, in whose library it is looked up.
        named = state_dtype is not None and (like is not None or hasattr(np, str(state_dtype)))
        dtype = ar.dtype_named(state_dtype, xp) if named else ar.state_dtype_for(io, xp)
        bare = State({}, 0, d_k, d_v, batch, xp, dtype, io, device, pinned, state_dtype, slots, self.maker)
        try:
            return self._holding_nothing(bare)
        except (MemoryError, ValueError, RuntimeError) as error:
            told = isinstance(error, MemoryError) or re.search(_TOO_LARGE, str(error), re.IGNORECASE)
            if isinstance(error, InputError) or not told:
                raise
            raise InputError(
                f"an empty {self.name} with d_k={d_k}, d_v={d_v}, batch={batch} does not fit into memory; take smaller "
                "sizes."
            ) from error

    def _following(self, state: State, like: Array) -> State:
        """Return a state that follows `like`'s library and dtype where nothing has fixed them yet."""
        if state.n or state.pinned:
            return state
        return self._empty(state.d_k, state.d_v, state.batch, like, state.state_dtype, state.slots, pinned=False)

    def _holding_nothing(self, bare: State) -> State:
        arrays: dict[str, Array] = {}
        rows: dict[str, Rows] = {}
        for name, what in self.init(bare).items():
            (rows if isinstance(what, Rows) else arrays)[name] = what
        slots = DenseSlots({}) if bare.slots is None else bare.slots
        return bare.after(arrays, 0, slots.empty(_no_rows(bare, rows)) if rows else None)

    def write(self, state: State, keys: Array, values: Array, **extras: Array) -> State:
        """Return the state after writing n pairs in order; the old state stays valid and unchanged.

        Parameters
        ----------
        state : State
            Of this store.
        keys : array (*batch, n, d_k)
            n >= 0.
        values : array (*batch, n, d_v)
            Of the same array library.
        **extras : array
            The per-pair arrays that the store's traits declare.

        Returns
        -------
        State
            A new one.

        Raises
        ------
        InputError
            For shapes that do not fit.
        NonFiniteError
            For NaN or infinity.
        DivergedError
            Where the state leaves the range of its dtype.
        """
        if not extras and self._fits(state, keys, values):
            with ar.own_arithmetic(state.xp, state.device):
                return self._write(state, keys, values, {})
        keys, values, extras = valid.checked_pairs(self, state, keys, values, extras)
        if keys.shape[-2] == 0:
            return state
        state = self._following(state, keys)
        keys, values, extras, state = valid.same_dtype(self, state, keys, values, extras)
        with ar.own_arithmetic(state.xp, state.device):
            return self._write(state, keys, values, extras)

    def _fits(self, state: State, keys: Array, values: Array) -> bool:
        """Say quickly whether a few NumPy pairs of the state's own dtype and batch would pass every check.

        The thousands of single writes of a streaming use pass here; all others take the long way, which also
        knows what to say.
        """
        if type(state) is not State or state.kind != self.maker:
            return False
        dtype = state.dtype
        if type(keys) is not np.ndarray or type(values) is not np.ndarray or keys.ndim < 2 or state.xp is not np:
            return False
        if keys.dtype != dtype or values.dtype != dtype or not (state.n or state.state_dtype is None):
            return False
        if state.io_dtype != dtype and np.promote_types(state.io_dtype, dtype) != state.io_dtype:
            return False
        pairs = (*state.batch, keys.shape[-2])
        if not pairs[-1] or keys.shape != (*pairs, state.d_k) or values.shape != (*pairs, state.d_v):
            return False
        traits = self.traits
        return traits.keys == traits.values == "any" and not traits.needs_extras and ar.quickly_finite(keys, values)

    def _write(self, state: State, keys: Array, values: Array, extras: dict[str, Array]) -> State:
        found = self.put(state, keys, values, **extras)
        if isinstance(found, State):
            return found
        if state.slots is None and state.state_dtype is not None and ar.is_half(state.dtype, state.xp):
            self._warn_where_rounded(state, found, keys, values, extras)
        n, slots = state.n + int(keys.shape[-2]), state.slots
        if slots is None:
            return state.after(found, n)
        rows = {name: found[name] for name in slots.names}
        return state.after({name: a for name, a in found.items() if name not in rows}, n, slots.append(rows))

    def _warn_where_rounded(
        self, state: State, kept: Mapping[str, Array], keys: Array, values: Array, extras: dict[str, Array]
    ) -> None:
        """Warn where the rounding of a 16-bit state takes more than half of what pairs add, where they change it."""
        xp = state.xp
        wide = state.astype(xp.float32, state.io_dtype)
        keys, values = xp.astype(keys, xp.float32), xp.astype(values, xp.float32)
        exact = self.put(wide, keys, values, **{name: xp.astype(a, xp.float32) for name, a in extras.items()})
        assert not isinstance(exact, State)  # as for the state itself
        added, gone = (
            sum(float(ar.to_numpy(xp.sum((a - xp.astype(other[name], a.dtype)) ** 2))) for name, a in exact.items())
            for other in (state.arrays, kept)
        )
        whole = ar.to_numpy(xp.sum(keys * keys, axis=-1) * xp.sum(values * values, axis=-1)).sum()
        if 4 * gone > added > float(xp.finfo(state.dtype).eps) ** 2 * float(whole):
            warn(
                f"the rounding of a {ar.dtype_name(state.dtype)} state of {self.name} takes more than half of what "
                "these pairs add: what is written from here on is kept in part only. Keep the state in float32.",
                RoundingWarning,
            )

    def ask(
        self,
        state: State,
        queries: Array,
        *,
        mask: Array | None = None,
        want: Want | Iterable[Want] = (),
        **options: Any,
    ) -> Recall:
        """Return what the store recalls for each query, with its weights, mass or trace where they are wanted.

        Parameters
        ----------
        state : State
            Of this store; one that holds nothing recalls zeros.
        queries : array (..., m, d_k)
            The leading axes broadcast against the state's batch axes.
        mask : bool array (..., m, n), optional
            True where a query may see a pair; for stores that take masks.
        want : {"weights", "mass", "trace"} or several of them
            Weights (..., m, n) take memory that grows with m n.
        **options
            Numbers: the settings of a recall that the store's traits declare.

        Returns
        -------
        Recall
            Values (..., m, d_v), and what was wanted.

        Raises
        ------
        InputError
            For shapes, wishes and options that do not fit.
        NonFiniteError
            For NaN or infinity.
        RecallOverflowError
            Where the recall leaves the range of its dtype.
        """
        queries = valid.checked_queries(self, state, queries)
        asked = valid.checked_ask(self, state, queries, mask, want, options)
        state = self._following(state, queries)
        return self._got(state, valid.as_state_dtype(self, state, queries), queries, asked)

    def recall(self, state: State, queries: Array, *, mask: Array | None = None, **options: Any) -> Array:
        """Return what the store recalls for each query: the values of `ask`.

        Parameters
        ----------
        state, queries, mask, **options
            As for `ask`.

        Returns
        -------
        array (..., m, d_v)
            In the dtype of what was written, or the queries' where that is wider.
        """
        return self.ask(state, queries, mask=mask, **options).values

    def _got(self, state: State, queries: Array, asked: Array, ask: Ask) -> Recall:
        """Return the recall of queries in the state's dtype, its values in that of the queries as they were asked."""
        with ar.own_arithmetic(state.xp, state.device):
            found = self.get(state, queries, ask)
        found = found if isinstance(found, Recall) else Recall(found)
        values = self._finish(found.values, state, asked)
        return found if values is found.values else replace(found, values=values)

    def _finish(self, out: Array, state: State, queries: Array) -> Array:
        """Cast a recall to the dtype it is returned in; refuse one that overflowed."""
        wanted = state.io_dtype
        plain = type(out) is np.ndarray and type(queries) is np.ndarray
        if plain and out.dtype == queries.dtype == wanted and ar.quickly_finite(out):
            return out
        xp = ar.namespace(out)
        if xp is ar.namespace(queries) and self.traits.keys != "ids" and xp.isdtype(queries.dtype, "real floating"):
            wanted = xp.result_type(wanted, queries.dtype) if state.n or state.pinned else queries.dtype
        if out.dtype != wanted:
            with np.errstate(over="ignore"):
                out = xp.astype(out, wanted)
        if not ar.trusted_finite(out, xp):
            nan = xp.any(xp.isnan(out), axis=-1)
            if bool(xp.any(nan)):
                row = int(xp.argmax(xp.astype(xp.reshape(nan, (-1,)), xp.int8))) % int(nan.shape[-1])
                raise RecallOverflowError(
                    f"the recall of {self.name} is NaN for query {row}: zero divided by zero, one infinity taken from "
                    f"another, or numbers that left the range of {ar.dtype_name(out.dtype)} on the way."
                )
            raise RecallOverflowError(
                f"the recall of {self.name} left the range of {ar.dtype_name(out.dtype)}; "
                "scale the keys (unit length) or the values down, or use float64."
            )
        return out

    def _plain_ask(self) -> Ask:
        """Return what is asked where nothing is: every pair is seen, options have their defaults."""
        options = self.traits.options
        return Ask(options={option.name: option.default for option in options}) if options else _PLAIN

    def scan(
        self,
        state: State,
        keys: Array,
        values: Array,
        queries: Array,
        *,
        read: Literal["after", "before"] = "after",
        reset: Sequence[int] | Array = (),
        **extras: Array,
    ) -> tuple[State, Array]:
        """Write the pairs one by one and recall query i after (or before) pair i is written: the causal form.

        Parameters
        ----------
        state : State
            Of this store.
        keys : array (*batch, n, d_k)
            As for `write`.
        values : array (*batch, n, d_v)
            As for `write`.
        queries : array (*batch, n, d_k)
            One for every pair.
        read : {"after", "before"}
            "after" recalls with pair i stored, "before" without it.
        reset : sequence of int
            Numbers of the pairs before which everything is forgotten, as where sequences are packed one behind the
            other: whole numbers in [0, n), each larger than the one before. It equals a store for every sequence.
        **extras : array
            As for `write`.

        Returns
        -------
        state : State
            After all pairs.
        recalls : array (*batch, n, d_v)
            Equal to the loop of `write` and `recall`.

        Raises
        ------
        InputError
            For shapes and numbers that do not fit; further as `write` and `ask`.
        """
        if read not in ("after", "before"):
            raise InputError(f"`read` of {self.name}.scan must be 'after' or 'before'; got {read!r}.")
        keys, values, extras = valid.checked_pairs(self, state, keys, values, extras, call="scan")
        queries = valid.checked_queries(self, state, ar.as_array(queries, "queries", like=keys), call="scan")
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
        keys, values, extras, state = valid.same_dtype(self, followed, keys, values, extras)
        asked, parts = valid.as_state_dtype(self, state, queries), []
        starts = self._checked_reset(reset, int(keys.shape[-2]))
        with ar.own_arithmetic(state.xp, state.device):
            for start, stop in itertools.pairwise(dict.fromkeys((0, *starts, int(keys.shape[-2])))):
                at = slice(start, stop)
                if start in starts:
                    state = self._holding_nothing(replace(state, arrays={}, n=0, memo={}))
                own = self._pairs_of(extras, at) if starts else extras
                rows = (keys[..., at, :], values[..., at, :], asked[..., at, :])
                state, out = self._scanned(state, rows[0], rows[1], rows[2], read, own)
                parts.append(out)
        out = parts[0] if len(parts) == 1 else xp.concat(parts, axis=-2)
        return state, self._finish(out, state, queries)

    def _scanned(
        self, state: State, keys: Array, values: Array, queries: Array, read: str, extras: dict[str, Array]
    ) -> tuple[State, Array]:
        """Return the state after all pairs, and the recalls after (or before) each, in the form that the store has."""
        way = self.capabilities.scan
        if way == "own":
            found, out = self.scanned(state, keys, values, queries, read, extras)
            return found if isinstance(found, State) else state.after(found, state.n + int(keys.shape[-2])), out
        if way == "causal":
            ask = replace(self._plain_ask(), visible=Causal(state.n + (1 if read == "after" else 0)))
            state = self._write(state, keys, values, extras)
            return state, self._answer(state, queries, ask)
        return self._loop(state, keys, values, queries, read, extras)

    def _checked_reset(self, reset: Sequence[int] | Array, n: int) -> tuple[int, ...]:
        given = np.asarray(reset if isinstance(reset, list | tuple) else ar.to_numpy(reset))
        whole = given.size == 0 or given.dtype.kind in "iu"
        fits = whole and given.ndim == 1 and ((given >= 0) & (given < n)).all() and (np.diff(given) > 0).all()
        if not fits:
            raise InputError(
                f"`reset` of {self.name}.scan must be whole numbers in [0, {n}), each larger than the one before; "
                f"got {reset!r}."
            )
        return tuple(int(i) for i in given)

    def scanned(
        self, state: State, keys: Array, values: Array, queries: Array, read: str, extras: dict[str, Array]
    ) -> tuple[Mapping[str, Array] | State, Array]:
        """Return the arrays after all pairs, and the recalls after (or before) each: a family's own form of `scan`.

        Parameters
        ----------
        state, keys, values, queries, read, extras
            As for `scan`, checked, in the state's dtype.

        Returns
        -------
        arrays : mapping or State
            As `put` gives them.
        recalls : array (*batch, n, d_v)
            In the state's dtype.
        """
        state, out = self._loop(state, keys, values, queries, read, extras)
        return state.arrays, out

    def _loop(
        self, state: State, keys: Array, values: Array, queries: Array, read: str, extras: dict[str, Array]
    ) -> tuple[State, Array]:
        """Write and recall token by token: the slow truth that every fast form must equal."""
        rows = []
        for i in range(int(keys.shape[-2])):
            at = slice(i, i + 1)
            query = queries[..., at, :]
            if read == "before":
                rows.append(self._answer(state, query))
            state = self._write(state, keys[..., at, :], values[..., at, :], self._pairs_of(extras, at))
            if read == "after":
                rows.append(self._answer(state, query))
        return state, state.xp.concat(rows, axis=-2)

    def _answer(self, state: State, queries: Array, ask: Ask | None = None) -> Array:
        found = self.get(state, queries, ask or self._plain_ask())
        return found.values if isinstance(found, Recall) else found

    # ------------------------------------------------------------------ what only some stores can do

    def merge(self, *states: State) -> State:
        """Return one state that holds the pairs of all `states`, as if they had been written one after the other.

        Parameters
        ----------
        *states : State
            At least one; those that hold nothing add nothing.

        Returns
        -------
        State
            With the widest of their dtypes.

        Raises
        ------
        InputError
            For a store whose states cannot be joined, and where sizes, batches or libraries differ.

        Notes
        -----
        Cost: one pass over the arrays, or a copy of all pairs but the first state's.
        """
        how = self.capabilities
        if how.merges == "no":
            why = how.not_merged
            if not why:
                invariant = self.traits.permutation_invariant
                why = "what they hold does not add up" if invariant else "what one holds depends on what came before"
            raise InputError(f"states of {self.name} cannot be merged: {why}. Write all pairs into one store.")
        total, *others = self._alike(states)
        if how.merges == "appends":
            slots, n = total.slots, total.n
            assert slots is not None  # stores that append keep their pairs
            for state in others:
                slots, n = slots.append({name: state[name] for name in slots.names}), n + state.n
            return total.after(total.arrays, n, slots)
        with ar.own_arithmetic(total.xp, total.device):
            arrays = {name: sum((s[name] for s in others), array) for name, array in total.arrays.items()}
        return total.after(arrays, sum(s.n for s in (total, *others)))

    def forget(self, state: State, keys: Array, values: Array) -> State:
        """Return the state without pairs that were written before: what they add to its arrays is subtracted.

        Parameters
        ----------
        state : State
            Of this store.
        keys : array (..., n, d_k)
            As they were written; pairs that were never written cannot be told apart from others.
        values : array (..., n, d_v)
            Likewise.

        Returns
        -------
        State
            A new one.

        Raises
        ------
        InputError
            Where more are given than are stored, and for a store that cannot take pairs out.
        """
        if not self.capabilities.forgets:
            raise InputError(f"{self.name} cannot forget a pair: it does not keep pairs apart in a form that adds up.")
        keys, values, extras = valid.checked_pairs(self, state, keys, values, {}, call="forget")
        count = int(keys.shape[-2])
        if count > state.n:
            raise InputError(f"`keys` of {self.name}.forget must hold at most the {state.n} stored pairs; got {count}.")
        if not count:
            return state
        keys, values, _, state = valid.same_dtype(self, state, keys, values, extras)
        taken = self._write(self._holding_nothing(state), keys, values, {}).arrays
        return state.after({name: array - taken[name] for name, array in state.arrays.items()}, state.n - count)

    def select(self, state: State, ids: Array) -> State:
        """Return the state that holds the pairs `ids` alone, in that order.

        Parameters
        ----------
        state : State
            Of this store.
        ids : array (k,)
            Whole numbers in [0, n).

        Returns
        -------
        State
            A new one with k pairs.

        Raises
        ------
        InputError
            For a store whose rows cannot be parted from each other, and for ids of another kind.
        """
        valid.check_own(self, state, "select")
        if not self.capabilities.selects or state.slots is None:
            raise InputError(f"pairs of {self.name} cannot be selected: it does not keep them apart.")
        chosen = ar.to_numpy(ar.as_array(ids, "ids"))
        fits = chosen.ndim == 1 and (not chosen.size or chosen.dtype.kind in "iu")
        if not fits or np.any(chosen < 0) or np.any(chosen >= state.n):
            raise InputError(f"`ids` of {self.name}.select must be whole numbers in [0, {state.n}), (k,); got {ids!r}.")
        index = state.xp.asarray(chosen.astype(np.int64), device=state.device)
        return state.after(state.arrays, int(chosen.size), state.slots.select(index))

    def _alike(self, states: tuple[State, ...]) -> list[State]:
        """Return the states that hold something (or the first), checked to fit and brought to one dtype."""
        if not states:
            raise InputError(f"`states` of {self.name}.merge must hold at least one state; got none.")
        for state in states:
            valid.check_own(self, state, "merge")
        sizes = {(s.d_k, s.d_v, s.batch) for s in states}
        if len(sizes) > 1:
            raise InputError(f"`states` of {self.name}.merge must have one d_k, d_v and batch; got {sorted(sizes)}.")
        filled = [s for s in states if s.n] or [states[0]]
        libraries = {valid.library_name(s.xp) for s in filled}
        if len(libraries) > 1:
            raise InputError(
                f"`states` of {self.name}.merge must come from one array library; got {', '.join(sorted(libraries))}."
            )
        xp, dtype, io = filled[0].xp, filled[0].dtype, filled[0].io_dtype
        for state in filled[1:]:
            dtype, io = xp.result_type(dtype, state.dtype), xp.result_type(io, state.io_dtype)
        return [s if (s.dtype, s.io_dtype) == (dtype, io) else s.astype(dtype, io) for s in filled]

    def _pairs_of(self, extras: Mapping[str, Array], at: slice) -> dict[str, Array]:
        """Return the extras of the pairs in `at`; extras without an axis of pairs are passed on whole.

        Those that a store resolved for itself are numbers, one a pair.
        """
        spec = {e.name: e for e in self.traits.extras}
        cut = {}
        for name, array in extras.items():
            if name in spec and not spec[name].per_pair:
                cut[name] = array
            elif name not in spec or len(spec[name].shape) == 1:
                cut[name] = array[..., at]
            else:
                cut[name] = array[..., at, :]
        return cut

    # ------------------------------------------------------------------ names and hyper-parameters

    @property
    def maker(self) -> str:
        """Name of the stores that take this one's states: its class, and in some the feature map that was written."""
        return type(self).__name__

    @property
    def name(self) -> str:
        """The class name, used in messages."""
        return type(self).__name__

    @property
    def place(self) -> str:
        """File and line of the rule's recall, for messages about it."""
        return defined_at(type(self).get)

    @property
    def advice(self) -> str:
        """What its author can do where the contract finds it broken, as a sentence; "" for nothing but the rule."""
        return ""


def _no_rows(state: State, rows: Mapping[str, Rows]) -> dict[str, Array]:
    return {
        name: state.xp.zeros((*state.batch, 0, what.width), dtype=what.dtype or state.dtype, device=state.device)
        for name, what in rows.items()
    }


def _size(name: str, value: int, store: Store) -> int:
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 0:
        raise InputError(f"`{name}` of {store.name}.empty must be a whole number >= 0; got {value!r}.")
    if value > _MOST:
        raise InputError(f"`{name}` of {store.name}.empty must be at most {_MOST}; got {value!r}.")
    return int(value)


def _batch(batch: Any, store: Store) -> tuple[int, ...]:
    if not isinstance(batch, tuple | list):
        raise InputError(f"`batch` of {store.name}.empty must be a tuple of whole numbers >= 0; got {batch!r}.")
    return tuple(_size("batch", b, store) for b in batch)
