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
    """Queries and the indices of the pairs that they ask for.

    Parameters
    ----------
    queries : float64 array (..., m, d_k)
        What is asked.
    targets : int64 array (m,) or None
        The pairs; None for unseen queries.
    kind : str
        "stored", "noisy" or "unseen".
    cosine : float or None
        That of every query with its key; None for unseen ones.
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
    keys : array (..., n, d_k)
        Of any array library; batch items share their targets.
    targets : sequence of int or array (m,), optional
        Indices in [0, n) of the pairs to ask for, repeats allowed; all n of them by default.
    count : int, optional
        Instead of `targets`: ask for so many different pairs.
    rng : Generator, optional
        Of NumPy, chooses the `count` pairs.

    Returns
    -------
    Probe
        The queries, and the pairs that they ask for.

    Raises
    ------
    InputError
        For indices out of range, a count above n, or a count without rng.

    Examples
    --------
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

    u is uniform among the unit vectors orthogonal to the key, drawn anew for every query; other keys keep their length.

    Parameters
    ----------
    keys : array (..., n, d_k)
        Of any array library; batch items share their targets.
    cosine : float
        In [-1, 1]; at 1 the queries are the keys.
    rng : Generator
        Of NumPy; moved on.
    targets, count
        As for `stored`.

    Returns
    -------
    Probe
        The queries, and the pairs that they ask for.

    Raises
    ------
    InputError
        As `stored`, for zero keys and, in one dimension, for a cosine other than +-1.

    Examples
    --------
    >>> probe = noisy(np.eye(4), 0.6, rng=np.random.default_rng(0))
    >>> bool(np.allclose(np.diagonal(probe.queries), 0.6))
    True
    """
    rows, chosen = _chosen(keys, targets, count, rng)
    return Probe(at_cosine(rng, rows, cosine), chosen, "noisy", float(cosine))


def unseen(rng: np.random.Generator, count: int, d_k: int, *, law: str | Law = "sphere") -> Probe:
    """Return queries drawn by a law of keys, independent of everything stored.

    Parameters
    ----------
    rng : Generator
        Of NumPy; moved on.
    count, d_k : int
        Number of queries and their width.
    law : str or Law
        As `key_law` takes it.

    Returns
    -------
    Probe
        Queries (count, d_k) that ask for no pair.
    """
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
    """Return `targets` as whole numbers in [0, n).

    Parameters
    ----------
    targets : sequence of int or array (m,)
        Indices of pairs, of any array library.
    n : int
        The number of pairs.

    Returns
    -------
    int64 array (m,)
        The same numbers in NumPy.

    Raises
    ------
    InputError
        For other shapes, types and numbers out of range.
    """
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
