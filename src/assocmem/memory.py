"""Memory: a store and its state in one mutable handle, for whoever wants to write, ask and save."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np

from assocmem.contract import arrays as ar
from assocmem.contract import serialization as archive
from assocmem.contract.arrays import Array
from assocmem.contract.errors import FileFormatError, InputError
from assocmem.contract.numbers import require_bool
from assocmem.contract.recall import Recall, Want
from assocmem.contract.slots import Slots
from assocmem.contract.state import State
from assocmem.contract.store import Store
from assocmem.contract.traits import Traits
from assocmem.stores import key_of, make_store

if TYPE_CHECKING:
    from assocmem.stores.all_settings import AllSettings


class Memory:
    """An associative memory that is written to and asked, true also while empty: a store with what it has learned.

    A write that fails changes nothing. Writes from several threads are all kept; a pickled Memory (as sent to another
    process) is an independent copy, whose writes reach this one only through `merge`.

    Parameters
    ----------
    store : str or Store
        A registered key such as "softmax" (`assocmem.stores.names()` lists them), or a Store.
    d_k, d_v : int, optional
        Widths of keys and values; taken from the first write where left out.
    batch : tuple of int
        Leading axes (sequences, heads) of everything that is written.
    like : array, optional
        Its library, device and dtype the state follows; the first write decides otherwise.
    state_dtype : str, optional
        Name of the dtype to keep the state in, for those who study rounding.
    slots : Slots, optional
        What is to hold the rows that are kept for pairs, as `MappedSlots(folder)` does in files; by default memory.
    normalise : bool
        Divide every key and query by its length first (rows of length zero are refused).
    **settings
        Of the store, such as beta=8.0. Checkers know those that registered stores declare; a store of one's own with
        others is given made: Memory(MyStore(gain=2)).

    Raises
    ------
    InputError, UnknownNameError
        For settings and sizes out of range, and a key that is not registered.

    Examples
    --------
    >>> memory = Memory("softmax", beta=8.0)
    >>> memory.write([[1.0, 0.0], [0.0, 1.0]], [[3.0], [5.0]])
    >>> memory.write([0.6, 0.8], [7.0])
    >>> len(memory), memory.recall([1.0, 0.0]).round(3).tolist()
    (3, [3.157])
    """

    def __init__(
        self,
        store: str | Store,
        d_k: int | None = None,
        d_v: int | None = None,
        *,
        batch: tuple[int, ...] = (),
        like: Array | None = None,
        state_dtype: str | None = None,
        slots: Slots | None = None,
        normalise: bool = False,
        **settings: Unpack[AllSettings],
    ) -> None:
        self._store, self._key = _made(store, settings)
        require_bool("normalise", "Memory", normalise)
        self._normalise = bool(normalise)
        self._widths = d_k, d_v
        self._options: dict[str, Any] = {"batch": batch, "like": _sample(like), "state_dtype": state_dtype}
        self._options["slots"] = slots
        self._lock = threading.Lock()
        self._state: State | None = None
        if d_k is not None and d_v is not None:
            self._state = self._store.empty(d_k, d_v, batch=batch, like=like, state_dtype=state_dtype, slots=slots)

    # ------------------------------------------------------------------ write and recall

    def write(self, keys: Array, values: Array, **extras: Array) -> None:
        """Store n pairs in order, or a single one.

        Parameters
        ----------
        keys : array (*batch, n, d_k), or (d_k,) for a single pair
            Of any library, or Python sequences of numbers, which take the dtype of what is stored. A memory kept in
            another library copies NumPy's arrays.
        values : array (*batch, n, d_v), or (d_v,)
            Of the same library.
        **extras : array
            The further arrays that the store takes (`traits.extras`).

        Raises
        ------
        InputError
            For shapes that do not fit; nothing is changed then.
        NonFiniteError
            For NaN or infinity; nothing is changed then.
        """
        with self._lock:
            state, keys, values = self._pairs(keys, values)
            for name, x in extras.items():
                extras[name] = self._own(x, name)
            self._state = self._store.write(state, keys, values, **extras)

    def recall(self, queries: Array, return_weights: bool = False, mask: Array | None = None, **options: Any) -> Any:
        """Return what is recalled for each query, with the recall weights where `return_weights`.

        Parameters
        ----------
        queries : array (..., m, d_k), or (d_k,) for a single query
            As the keys of `write`.
        return_weights : bool
            Also return the weights of the stored pairs (recall is weights @ values); for stores that keep their pairs.
        mask : bool array (..., m, n), or (n,), optional
            True where a query may see a pair; for stores that take masks.
        **options
            Of the recall, as the store's traits declare them.

        Returns
        -------
        array (..., m, d_v), for a single query (*batch, d_v), or a tuple
            The values; or them and the weights (..., m, n).

        Raises
        ------
        InputError, NonFiniteError, RecallOverflowError
            As `Store.ask`.
        """
        queries, single = self._queries(queries, self.state)
        mask = self._own(mask, "mask")
        found = self._store.ask(self.state, queries, mask=mask, want="weights" if return_weights else (), **options)
        values = found.values[..., 0, :] if single else found.values
        if not return_weights:
            return values
        assert found.weights is not None  # whoever has none refuses to be asked for them
        weights = found.weights.dense(self.state.n)
        return values, weights[..., 0, :] if single else weights

    def ask(
        self, queries: Array, *, want: Want | Iterable[Want] = (), mask: Array | None = None, **options: Any
    ) -> Recall:
        """Return the whole recall of queries: its values, and what else is wanted of it.

        Parameters
        ----------
        queries : array (..., m, d_k) or (d_k,)
            The recall of a single query has m = 1.
        want, mask, **options
            As for `Store.ask`.

        Returns
        -------
        Recall
            Values (..., m, d_v), and what was wanted.
        """
        queries, mask = self._queries(queries, self.state)[0], self._own(mask, "mask")
        return self._store.ask(self.state, queries, mask=mask, want=want, **options)

    def merge(self, *others: Memory) -> Memory:
        """Return a new Memory that holds this one's pairs and those of `others`, in order; none of them changes.

        Parameters
        ----------
        *others : Memory
            Of the same store and sizes.

        Returns
        -------
        Memory
            A new one.

        Raises
        ------
        InputError
            Where stores or sizes differ, or where the store's states cannot be joined.
        """
        for other in others:
            if not isinstance(other, Memory):
                raise InputError(f"`others` of Memory.merge must be of the class Memory; got {other!r}.")
            if other._store != self._store or other._normalise != self._normalise:
                raise InputError(f"only memories of one store can be merged; got {self!r} and {other!r}.")
        filled = [m._state for m in (self, *others) if m._state is not None]
        return self._copy(self._store.merge(*filled) if filled else None)

    def forget(self, keys: Array, values: Array) -> None:
        """Take out pairs that were written before; for stores that can.

        Parameters
        ----------
        keys, values : array
            As they were written.

        Raises
        ------
        InputError
            As `Store.forget`; nothing is changed then.
        """
        with self._lock:
            state, keys, values = self._pairs(keys, values)
            self._state = self._store.forget(state, keys, values)

    # ------------------------------------------------------------------ what it is

    def __len__(self) -> int:
        """Pairs written (for each batch item)."""
        return 0 if self._state is None else self._state.n

    def __bool__(self) -> bool:
        """True, also while nothing is stored: whether a memory is there is not how much it holds."""
        return True

    @property
    def state(self) -> State:
        """What has been learned; InputError before the widths are known."""
        if self._state is None:
            raise InputError("this Memory holds nothing and has no widths yet; write pairs, or give d_k and d_v.")
        return self._state

    @property
    def store(self) -> Store:
        """The rule."""
        return self._store

    @property
    def key(self) -> str:
        """The registered key that it was made by, or the class name of its store."""
        return self._key

    @property
    def traits(self) -> Traits:
        """What the store promises."""
        return self._store.traits

    @property
    def size(self) -> int:
        """Numbers held, counted from the arrays."""
        return 0 if self._state is None else self._state.size

    @property
    def normalise(self) -> bool:
        """Whether keys and queries are divided by their length."""
        return self._normalise

    def __repr__(self) -> str:
        name = f"Memory({self._key!r}"
        if self._state is None:
            return f"{name}, empty, widths not yet known; {self._store})"
        state = self._state
        batch = f", batch={state.batch}" if state.batch else ""
        normalise = ", normalise=True" if self._normalise else ""
        return (
            f"{name}, d_k={state.d_k}, d_v={state.d_v}{batch}{normalise}: {state.n} pair{'' if state.n == 1 else 's'}, "
            f"{state.size} numbers, {ar.dtype_name(state.dtype)}; {self._store})"
        )

    # ------------------------------------------------------------------ files and copies

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write everything to a .safetensors file, whole or not at all.

        Parameters
        ----------
        path : str or path
            The file.

        Returns
        -------
        Path
            The file that was written.

        Raises
        ------
        InputError
            Where nothing is known yet, where the store holds a Python function, and where the folder cannot be written.

        Notes
        -----
        Cost: one copy of the numbers to disk.
        """
        if not isinstance(path, str | os.PathLike):
            raise InputError(f"`path` of Memory.save must be a text or a path; got {path!r}.")
        return archive.save(path, self._store, self.state, key=self._key, normalise=self._normalise)

    @classmethod
    def load(
        cls,
        path: str | os.PathLike[str],
        store: str | Store | None = None,
        *,
        d_k: int | None = None,
        d_v: int | None = None,
        like: Array | None = None,
        **settings: Any,
    ) -> Memory:
        """Return the Memory that was saved to a file, every number bit for bit.

        Parameters
        ----------
        path : str or path
            The file.
        store, d_k, d_v
            As for Memory: what is expected; a file that holds something else is refused.
        like : array, optional
            The state comes in its library and on its device; without it in the library it was saved from where that is
            imported already, else in NumPy.
        **settings
            Of the store that is expected.

        Returns
        -------
        Memory
            The memory.

        Raises
        ------
        FileFormatError
            Where the file is missing, damaged or of another kind, or holds another store or size.
        InputError
            For a path of another type.
        """
        if not isinstance(path, str | os.PathLike):
            raise InputError(f"`path` of Memory.load must be a text or a path; got {path!r}.")
        found, state, header = archive.load(path, like=like)
        key = str(header.get("key") or type(found).__name__)
        if store is not None:
            wanted, wanted_key = _made(store, settings)
            named = isinstance(store, str) and not settings and key in (wanted_key, type(wanted).__name__)
            if not (found == wanted or (named and type(found) is type(wanted))):
                raise FileFormatError(f"{Path(path).name} holds {key!r}, {found}; {wanted_key!r}, {wanted} was wanted.")
        for name, want, got in (("d_k", d_k, state.d_k), ("d_v", d_v, state.d_v)):
            if want is not None and want != got:
                raise FileFormatError(f"{Path(path).name} holds {key!r} with {name}={got}; {name}={want} was wanted.")
        memory = cls(found, normalise=bool(header.get("normalise")))
        memory._key, memory._state = key, state
        return memory

    def _copy(self, state: State | None) -> Memory:
        copy = Memory(self._store, *self._widths, normalise=self._normalise, **self._options)
        copy._key = self._key
        copy._state = state if state is not None else copy._state
        return copy

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_lock"}

    def __setstate__(self, kept: dict[str, Any]) -> None:
        self.__dict__.update(kept, _lock=threading.Lock())

    # ------------------------------------------------------------------ checks of arguments

    def _pairs(self, keys: Array, values: Array) -> tuple[State, Array, Array]:
        """Return the state to write to, and keys and values with an axis of pairs."""
        keys, values = self._array(keys, "keys"), self._array(values, "values")
        if keys.ndim == 1 and values.ndim == 1:
            keys, values = keys[None, :], values[None, :]
        elif keys.ndim < 2 or values.ndim < 2:
            raise InputError(
                "`keys` and `values` of Memory.write must both have an axis of pairs, (n, d_k) and (n, d_v), or both "
                f"be a single pair, (d_k,) and (d_v,); got shapes {tuple(keys.shape)} and {tuple(values.shape)}."
            )
        state = self._state
        if state is None:
            d_k, d_v = self._widths
            state = self._store.empty(
                int(keys.shape[-1]) if d_k is None else d_k,
                int(values.shape[-1]) if d_v is None else d_v,
                **self._options,
            )
        if self._normalise:
            keys = ar.unit_rows(keys, "keys")
        return state, keys, values

    def _queries(self, queries: Array, state: State) -> tuple[Array, bool]:
        queries = self._array(queries, "queries")
        single = queries.ndim == 1
        if single:
            queries = queries[None, :]
        if self._normalise:
            queries = ar.unit_rows(queries, "queries")
        return queries, single

    def _array(self, x: Any, name: str) -> Array:
        """Return `x` as an array; Python numbers take the library and dtype of what is stored.

        NumPy's arrays are copied to the library and device of a memory that is kept in another one.
        """
        state = self._state
        plain = self._options["like"] is None if state is None else state.xp is np
        if plain and type(x) is np.ndarray and x.dtype.kind == "f" and x.dtype.isnative:
            return x
        fixed = state is not None and bool(state.n or state.pinned)
        like = next(iter(state.contents.values()), None) if state is not None and fixed else self._options["like"]
        array = ar.as_array(x, name, like=like)
        if like is not None and type(array) is np.ndarray and not isinstance(like, np.ndarray):
            array = ar.namespace(like).asarray(np.array(array, order="C"), device=ar.device_of(like))
        if state is not None and fixed and isinstance(x, list | tuple | float | int) and self.traits.keys != "ids":
            array = state.xp.astype(array, state.io_dtype)
        return array

    def _own(self, x: Any, name: str) -> Any:
        return self._array(x, name) if isinstance(x, np.ndarray) else x


def _sample(like: Array | None) -> Array | None:
    """Return an empty array of the library, dtype and device of `like`, so that no large one is held on to."""
    if like is None:
        return None
    like = ar.as_array(like, "like")
    return ar.namespace(like).empty(0, dtype=like.dtype, device=ar.device_of(like))


def _made(store: str | Store, settings: Mapping[str, Any]) -> tuple[Store, str]:
    """Return a store and its key."""
    if isinstance(store, str):
        return make_store(store, **settings), store
    if not isinstance(store, Store):
        raise InputError(f"`store` of Memory must be a registered key or a Store; got {store!r}.")
    if settings:
        raise InputError(f"settings ({', '.join(settings)}) go with a store's key; this one is given as {store}.")
    return store, key_of(store)
