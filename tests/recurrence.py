"""The token rules of the recurrent stores in plain float64 NumPy, and what the tests of their fast forms share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from assocmem.contract.store import Store
from assocmem.kernels.recurrent import RecurrentStore

Floats = Any
Draw = Callable[[np.random.Generator, tuple[int, ...]], Floats]
LENGTHS = (1, 2, 31, 32, 33, 63, 64, 65, 77, 1000)
DOUBLE = 1e-10
SINGLE = 2e-5
"""Largest difference from the float64 loop, relative to the largest number of the loop, in float32."""


class ByOne(RecurrentStore):
    """Write several pairs by the rule for one: how a broken twin shows its rule everywhere."""

    def put_chunk(
        self, arrays: Any, keys: Floats, values: Floats, queries: Floats | None, read: str, **extras: Floats
    ) -> tuple[Any, Floats | None]:
        """Apply `one` to each pair in turn."""
        assert queries is None, "twins are written, not scanned"
        for i in range(keys.shape[-2]):
            at = slice(i, i + 1)
            arrays = self.put_pair(arrays, keys[..., at, :], values[..., at, :], **self._pairs_of(extras, at))
        return arrays, None


def unit(rng: np.random.Generator, *shape: int) -> Floats:
    """Return random rows of length 1."""
    rows = rng.standard_normal(shape)
    return rows / np.linalg.norm(rows, axis=-1, keepdims=True)


def loop(
    keys: Floats,
    values: Floats,
    queries: Floats,
    *,
    strength: Floats | None = None,
    decay: Floats | None = None,
    state: Floats | None = None,
) -> tuple[Floats, dict[str, Floats]]:
    """Return W (..., d_v, d_k) and the recalls "after" and "before" each write, in float64.

    The outer rule, or with `strength` the delta rule.
    """
    keys, values, queries = (np.asarray(x, np.float64)[..., None] for x in (keys, values, queries))
    W = np.zeros((*keys.shape[:-3], values.shape[-2], keys.shape[-2])) if state is None else np.array(state, np.float64)
    recalls = {"after": np.empty(values.shape), "before": np.empty(values.shape)}
    for i in range(keys.shape[-3]):
        k, v, q = keys[..., i, :, :], values[..., i, :, :], queries[..., i, :, :]
        recalls["before"][..., i, :, :] = W @ q
        if decay is not None:
            W = W * np.asarray(decay, np.float64)[..., i, None, None]
        if strength is not None:
            v = np.asarray(strength, np.float64)[..., i, None, None] * (v - W @ k)
        W = W + v @ k.mT
        recalls["after"][..., i, :, :] = W @ q
    return W, {read: found[..., 0] for read, found in recalls.items()}


def difference(found: Floats, true: Floats) -> float:
    """Return the largest difference, relative to the largest true number or to 1."""
    found, true = np.asarray(found, np.float64), np.asarray(true, np.float64)
    assert found.shape == true.shape
    return float(np.max(np.abs(found - true), initial=0.0) / max(1.0, np.max(np.abs(true), initial=0.0)))


def written(store: Store, keys: Floats, values: Floats, queries: Floats, **extras: Floats) -> Floats:
    """Return the recall of `queries` after the pairs were written at once to an empty store."""
    state = store.empty(keys.shape[-1], values.shape[-1], batch=tuple(keys.shape[:-2]))
    return store.recall(store.write(state, keys, values, **extras), queries)


DECAYS: dict[str, Draw] = {
    "exactly one": lambda _, shape: np.ones(shape),
    "mild": lambda rng, shape: np.exp(-rng.exponential(0.05, shape)),
    "uniform": lambda rng, shape: rng.random(shape),
    "near zero": lambda rng, shape: rng.random(shape) * 1e-6,
    "grid": lambda rng, shape: np.exp(rng.choice([0.0, -1e-4, -1.0, -5.0, -20.0], shape)),
    "log -200": lambda rng, shape: np.exp(rng.choice([0.0, -0.01, -200.0], shape, p=[0.45, 0.5, 0.05])),
    "zeros": lambda rng, shape: (rng.random(shape) > 0.05).astype(np.float64),
    "one mild, one hard": lambda rng, shape: np.exp(
        -np.broadcast_to(np.array([0.01, 3.0])[:, None], shape) * rng.random(shape)
    ),
}
"""Decays of a batch of two sequences, by name."""

STRENGTHS: dict[str, Draw] = {
    "zero": lambda _, shape: np.zeros(shape),
    "one": lambda _, shape: np.ones(shape),
    "two": lambda _, shape: np.full(shape, 2.0),
    "any": lambda rng, shape: 2 * rng.random(shape),
}


def key_rows(name: str, rng: np.random.Generator, n: int, d: int) -> Floats:
    """Return unit keys (2, n, d): "random", "duplicates" of five, "nearly parallel" (cosine about 1 - 1e-6)."""
    if name == "duplicates":
        return unit(rng, 2, 5, d)[:, rng.integers(0, 5, n), :]
    if name == "nearly parallel":
        rows = unit(rng, 2, 1, d) + 1e-3 * unit(rng, 2, n, d)
        return rows / np.linalg.norm(rows, axis=-1, keepdims=True)
    return unit(rng, 2, n, d)
