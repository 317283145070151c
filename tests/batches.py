"""What many tests draw and read: pairs of a fixed stream, written states, recall weights."""

from __future__ import annotations

from typing import Any

import numpy as np

from assocmem.contract.state import State
from assocmem.contract.store import Store

LIBRARIES = ("numpy", "torch", "array_api_strict")


def weights_of(store: Store, state: State, queries: Any, mask: Any = None) -> Any:
    """Return the store's own recall weights (..., m, n)."""
    found = store.ask(state, queries, mask=mask, want="weights").weights
    assert found is not None
    return found.dense(state.n)


def drawn(
    seed: int, n: int, d_k: int, d_v: int = 3, batch: tuple[int, ...] = ()
) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Return unit keys (*batch, n, d_k), normal values (*batch, n, d_v) and normal queries (*batch, n, d_k)."""
    rng = np.random.default_rng(seed)
    keys, queries = rng.normal(size=(2, *batch, n, d_k))
    values = rng.normal(size=(*batch, n, d_v))
    return keys / np.linalg.norm(keys, axis=-1, keepdims=True), values, queries


def drawn_pairs(
    seed: int, n: int, d_k: int, d_v: int = 3, batch: tuple[int, ...] = (), scale: float = 1.0
) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Return keys (*batch, n, d_k) of length `scale` and normal values (*batch, n, d_v)."""
    rng = np.random.default_rng(seed)
    keys = rng.normal(size=(*batch, n, d_k))
    return scale * keys / np.linalg.norm(keys, axis=-1, keepdims=True), rng.normal(size=(*batch, n, d_v))


def written(store: Store, keys: Any, values: Any, cuts: tuple[int, ...] = (), **extras: Any) -> State:
    """Return the state after the pairs were written, at once or cut before the pairs `cuts`."""
    state = store.empty(keys.shape[-1], values.shape[-1], batch=tuple(keys.shape[:-2]))
    for start, stop in zip((0, *cuts), (*cuts, int(keys.shape[-2])), strict=True):
        at = (..., slice(start, stop), slice(None))
        own = {name: extra[at] if cuts else extra for name, extra in extras.items()}
        state = store.write(state, keys[at], values[at], **own)
    return state


def gap(one: Any, two: Any) -> float:
    """Return the largest difference, relative to the largest number of `two` or to 1."""
    return float(np.abs(one - two).max() / max(1.0, np.abs(two).max()))
