"""Probes: the queries that a memory is asked, and which pair each of them is about."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from assocmem.contract.arrays import Array, as_array, to_numpy
from assocmem.contract.errors import InputError
from assocmem.inputs.directions import Floats, at_cosine
from assocmem.inputs.laws import Law, key_law


@dataclass(frozen=True)
class Probe:
    """Queries (..., m, d_k) and the indices (m,) of the pairs that they ask for.

    kind: "stored", "noisy" or "unseen". cosine: that of every query with its key; None for unseen ones, whose
    `targets` are None too.
    """

    queries: Floats
    targets: np.ndarray[Any, np.dtype[np.int64]] | None
    kind: str
    cosine: float | None


def stored(
    keys: Array,
    *,
    targets: Sequence[int] | Array | None = None,
    count: int | None = None,
    rng: np.random.Generator | None = None,
) -> Probe:
    """Return stored keys as queries.

    Parameters
    ----------
    keys: (..., n, d_k), of any array library; batch items share their targets.
    targets: indices in [0, n) of the pairs to ask for, repeats allowed; all n of them by default.
    count, rng: instead of `targets`, ask for `count` different pairs chosen by `rng`.

    Raises InputError for indices out of range, a count above n, or a count without rng.

    >>> stored(np.eye(3), targets=[2]).queries.tolist()
    [[0.0, 0.0, 1.0]]
    """
    rows, chosen = _chosen(keys, targets, count, rng)
    return Probe(rows, chosen, "stored", 1.0)


def noisy(
    keys: Array,
    cosine: float,
    *,
    rng: np.random.Generator,
    targets: Sequence[int] | Array | None = None,
    count: int | None = None,
) -> Probe:
    """Return queries with exactly the given cosine to their keys: for a unit key, ``cosine k + sqrt(1 - cosine^2) u``.

    u is uniform among the unit vectors orthogonal to the key, drawn anew for every query; other keys keep their
    length. cosine in [-1, 1]; at 1 the queries are the keys. The other parameters are those of `stored`.
    Raises InputError also for zero keys and, in one dimension, for a cosine other than +-1.

    >>> probe = noisy(np.eye(4), 0.6, rng=np.random.default_rng(0))
    >>> bool(np.allclose(np.diagonal(probe.queries), 0.6))
    True
    """
    rows, chosen = _chosen(keys, targets, count, rng)
    return Probe(at_cosine(rng, rows, cosine), chosen, "noisy", float(cosine))


def unseen(rng: np.random.Generator, count: int, d_k: int, *, law: str | Law = "sphere") -> Probe:
    """Return `count` queries (count, d_k) drawn by a law of keys, independent of everything stored."""
    return Probe(key_law(law).draw(rng, count, d_k), None, "unseen", None)


def _chosen(
    keys: Array, targets: Sequence[int] | Array | None, count: int | None, rng: np.random.Generator | None
) -> tuple[Floats, np.ndarray[Any, np.dtype[np.int64]]]:
    rows = to_numpy(as_array(keys, "keys"))
    if rows.ndim < 2:
        raise InputError(f"`keys` must have shape (..., n, d_k); got {rows.shape}.")
    n = rows.shape[-2]
    if count is not None:
        if targets is not None:
            raise InputError("give either `targets` or `count`, not both.")
        if rng is None:
            raise InputError("`count` needs `rng`, the generator that chooses the pairs.")
        if isinstance(count, bool) or not isinstance(count, int | np.integer) or not 0 <= count <= n:
            raise InputError(f"`count` must be a whole number from 0 to the {n} stored pairs; got {count!r}.")
        chosen = np.sort(rng.choice(n, size=int(count), replace=False)).astype(np.int64)
    elif targets is None:
        chosen = np.arange(n, dtype=np.int64)
    else:
        chosen = checked_targets(targets, n)
    return rows[..., chosen, :].astype(np.float64, copy=False), chosen


def checked_targets(targets: Sequence[int] | Array, n: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Return `targets` as int64 (m,); InputError unless they are whole numbers in [0, n)."""
    indices = np.asarray(targets if isinstance(targets, list | tuple) else to_numpy(targets))
    if indices.size == 0:
        return np.zeros(0, dtype=np.int64)
    if indices.ndim != 1 or indices.dtype.kind not in "iu":
        raise InputError(
            f"`targets` must be whole numbers of shape (m,); got shape {indices.shape}, dtype {indices.dtype}."
        )
    if indices.min() < 0 or indices.max() >= n:
        raise InputError(f"`targets` must lie in [0, {n}), the stored pairs; got {indices.min()} to {indices.max()}.")
    return indices.astype(np.int64)
