"""A few random pairs written into a store: to count what it holds, or to compare how it answers."""

from __future__ import annotations

from functools import lru_cache
from math import isfinite
from typing import Any

import numpy as np

from assocmem.contract.arrays import to_numpy
from assocmem.contract.errors import AssocmemError
from assocmem.contract.numbers import stream
from assocmem.contract.state import Pairs, State
from assocmem.contract.store import Store
from assocmem.lab.extras import drawn_extras

FloatArray = np.ndarray[Any, Any]


def probe(store: Store, n: int, d_k: int, d_v: int, *, batch: tuple[int, ...] = ()) -> tuple[State, Pairs]:
    """Return the store's state after n random pairs of the kind it takes, and the pairs.

    Keys (*batch, n, d_k) have length one, or are signs or token ids where the store wants them.
    """
    rng = stream(0, "probe", n)
    keys, values = rng.standard_normal((*batch, n, d_k)), rng.standard_normal((*batch, n, d_v))
    keys, values = as_taken(store, keys / np.linalg.norm(keys, axis=-1, keepdims=True), values)
    unbounded = (e for e in store.traits.extras if e.required and e.law is None and e.shape != ("n", "d_k"))
    mild = {e.name: 1.0 for e in unbounded if e.low <= 1 <= e.high and not (isfinite(e.low) and isfinite(e.high))}
    extras = drawn_extras(store, keys, d_v, mild, seed=0, trial=n)
    return store.write(store.empty(d_k, d_v, batch=batch), keys, values, **extras), Pairs(keys, values, extras=extras)


IDS = 2**16
"""Token ids that numbers of keys become."""


def of_kind(rows: FloatArray, store: Store) -> FloatArray:
    """Return keys (..., d_k) of length about one in the kind that a store takes: their signs, or token ids.

    An id grows with the number: one of 2^16 steps, about as many numbers of random keys falling into each.
    """
    kind = store.traits.keys
    if kind == "signs":
        return np.where(rows >= 0, 1, -1).astype(rows.dtype)
    if kind == "ids":
        size = rows.astype(np.float64) * np.sqrt(max(1, rows.shape[-1]))
        share = 0.5 + 0.5 * size / np.sqrt(1 + size * size)
        ids: FloatArray = np.minimum(IDS - 1, np.floor(IDS * share)).astype(np.int64)
        return ids
    return rows


def as_taken(store: Store, keys: FloatArray, values: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return keys and values of the kinds that the store takes; the signs of values where it takes signs alone."""
    signs = store.traits.values == "signs"
    return of_kind(keys, store), np.where(values >= 0, 1, -1).astype(values.dtype) if signs else values


def counted_state(store: Store, d_k: int, d_v: int, n: int) -> int:
    """Return how many numbers the store's state holds after n pairs."""
    return probe(store, n, d_k, d_v)[0].size


def takes_batches(store: Store) -> bool:
    """Say whether the store answers a batch of two as it answers each alone; a user's own may not."""
    try:
        hash(store)
    except TypeError:  # it holds an array or a list: equal stores cannot be looked up
        return _takes_batches.__wrapped__(store)
    return _takes_batches(store)


@lru_cache(maxsize=256)
def _takes_batches(store: Store) -> bool:
    try:
        state, pairs = probe(store, 5, 6, 6, batch=(2,))
        both = store.recall(state, pairs.keys)
    except Exception:  # noqa: BLE001  whatever a user's store raises, it is then measured trial by trial
        return False
    alone = []
    for i in range(2):
        extras = {name: rows[i] for name, rows in pairs.extras.items()}
        state = store.write(store.empty(6, 6), pairs.keys[i], pairs.values[i], **extras)
        alone.append(store.recall(state, pairs.keys[i]))
    return both.shape == (2, 5, 6) and bool(np.allclose(both, np.stack(alone), rtol=1e-9, atol=1e-12))


def holds_alike(one: Store, other: Store) -> bool:
    """Say whether a state written by one store may be read by the other.

    They must be of one class that keeps its pairs and hold the same arrays after the same forty pairs.
    """
    if one == other:
        return True
    if type(one) is not type(other) or not one.traits.keeps_pairs:
        return False
    try:
        held = [probe(store, 40, 6, 6)[0].contents for store in (one, other)]
    except AssocmemError:
        return False
    return held[0].keys() == held[1].keys() and all(
        np.array_equal(to_numpy(array), to_numpy(held[1][name])) for name, array in held[0].items()
    )
