"""Recall weights of any store that is linear in its values, read without looking inside.

f(x) = sum_i A_i(x) v_i, so writing one-hot values and recalling gives the weights themselves.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Literal, TypeAlias

import numpy as np

from assocmem.contract.arrays import Array, as_array, as_floating, device_of, namespace, state_dtype_for, to_numpy
from assocmem.contract.errors import InputError
from assocmem.contract.state import Pairs, State
from assocmem.contract.store import Store
from assocmem.ruler.ratio import checked_indices

Numbers: TypeAlias = np.ndarray[Any, Any]

_BLOCK = 1 << 22


def recall_weights(
    store: Store,
    pairs: Pairs,
    queries: Array,
    *,
    by: Literal["auto", "one-hot", "store"] = "auto",
    block: int | None = None,
) -> Numbers:
    """Return the weight of every stored pair in the recall of every query.

    The recall of zero values is subtracted from affine stores.

    Parameters
    ----------
    store : Store
        Its recall is linear in the values.
    pairs : Pairs
        Keys (*batch, n, d_k), values (*batch, n, d_v), with the extras that the store takes.
    queries : array (..., m, d_k)
        Leading axes broadcast against the batch.
    by : {"auto", "one-hot", "store"}
        "one-hot" writes one-hot values, "store" asks for its own weights, "auto" takes those where it has them.
    block : int, optional
        Columns of one-hot values written at once (for weights of each channel, pairs); about 4 million numbers by
        default.

    Returns
    -------
    array (..., m, n) or (..., m, n, d_v)
        A NumPy array in the recall's dtype; the latter where each value channel has weights of its own.

    Raises
    ------
    InputError
        For stores that are not linear in their values, and whatever the store raises.

    Notes
    -----
    Cost: one write of all pairs and one recall of all queries for each block.

    Examples
    --------
    >>> from assocmem.stores.outer import OuterProduct
    >>> recall_weights(OuterProduct(), Pairs(np.eye(2), np.ones((2, 1))), np.array([[2.0, 3.0]])).tolist()
    [[2.0, 3.0]]
    """
    kind = _linearity(store)
    if by not in ("auto", "one-hot", "store"):
        raise InputError(f"`by` must be 'auto', 'one-hot' or 'store'; got {by!r}.")
    own = "weights" in store.capabilities.gives
    if by == "store" and not own:
        raise InputError(f"{store.name} has no weights of its own; read it by 'one-hot'.")
    pairs = _as_arrays(pairs)
    if own and by != "one-hot" and kind == "shared" and not store.traits.affine:
        return weights_of(store, _written(store, pairs, pairs.values), queries)
    if kind == "per-channel":
        return _by_channel(store, pairs, queries, block)
    step = _columns(store, pairs, block or max(1, _BLOCK // max(1, pairs.n)))
    parts = []
    for start in range(0, pairs.n, step):
        names = np.arange(start, min(start + step, pairs.n))
        hot = _one_hot(pairs, names, _columns(store, pairs, names.size))
        parts.append(to_numpy(_response(store, pairs, hot, queries))[..., : names.size])
    if not parts:
        recall = to_numpy(_recalled(store, pairs, pairs.values, queries))
        return recall[..., :0]
    return np.concatenate(parts, axis=-1)


def weights_of(store: Store, state: State, queries: Array) -> Numbers:
    """Return the weights (..., m, n) that the store itself gives to the pairs of a state."""
    found = store.ask(state, queries, want="weights").weights
    if found is None:
        raise InputError(f"{store.name} declares weights and gives none; hand them out in `get`.")
    return to_numpy(found.dense(state.n))


def own_weights(store: Store, pairs: Pairs, queries: Array, targets: Sequence[int] | Array) -> Numbers:
    """Return the weight of each query's own target in its recall: the diagonal of `recall_weights`, cheaply.

    Parameters
    ----------
    store, pairs, queries
        As in `recall_weights`.
    targets : sequence of int or array (m,)
        Indices of pairs.

    Returns
    -------
    array (..., m) or (..., m, d_v)
        The latter where each value channel has its own weights.

    Notes
    -----
    Cost: one write and one recall with a one-hot channel for every target, in blocks; for weights of each channel, one
    write for every target.
    """
    return _own(store, _as_arrays(pairs), queries, targets, recalls=False)[1]


def recall_with_own_weights(
    store: Store, pairs: Pairs, queries: Array, targets: Sequence[int] | Array
) -> tuple[Numbers, Numbers, Numbers | None]:
    """Return what `by_vectors` needs of a store.

    Recalls and weights come from the same write, in which every target has a one-hot channel beside the values.

    Parameters
    ----------
    store, pairs, queries, targets
        As in `own_weights`.

    Returns
    -------
    recalls : array (..., m, d_v)
        What the store recalls.
    own : array (..., m) or (..., m, d_v)
        As `own_weights` gives it.
    zero : array (..., m, d_v) or None
        The recall of all values zero; None for stores that are not affine.
    """
    pairs = _as_arrays(pairs)
    recalls, own = _own(store, pairs, queries, targets, recalls=True)
    zero = to_numpy(_recalled(store, pairs, _zeros_like(pairs.values), queries)) if store.traits.affine else None
    return recalls, own, zero


def _own(store: Store, pairs: Pairs, queries: Array, targets: Any, *, recalls: bool) -> tuple[Numbers, Numbers]:
    kind = _linearity(store)
    queries = as_array(queries, "queries", like=pairs.keys)
    chosen = checked_indices(targets, int(queries.shape[-2]), pairs.n)
    d_v = int(pairs.values.shape[-1])
    if chosen.size == 0:
        answer = to_numpy(_recalled(store, pairs, pairs.values, queries))
        return answer, answer if kind == "per-channel" else answer[..., 0:0].sum(axis=-1)
    if kind == "per-channel":
        answer = to_numpy(_recalled(store, pairs, pairs.values, queries)) if recalls else np.zeros(0)
        return answer, _own_by_channel(store, pairs, queries, chosen)
    xp = namespace(pairs.values)
    answers, weights, order = [], [], []
    width = _columns(store, pairs, max(1, _BLOCK // max(1, pairs.n + chosen.size)))
    for at, names in _blocks_of_targets(chosen, width):
        hot = _one_hot(pairs, names, _columns(store, pairs, names.size))
        asked = xp.take(queries, _index(xp, at, queries), axis=-2)
        places = np.searchsorted(names, chosen[at])
        if recalls and not store.traits.affine:
            both = to_numpy(_recalled(store, pairs, xp.concat([pairs.values, hot], axis=-1), asked))
            answers.append(both[..., :d_v])
            rows = both[..., d_v:]
        else:
            if recalls:
                answers.append(to_numpy(_recalled(store, pairs, pairs.values, asked)))
            rows = to_numpy(_response(store, pairs, hot, asked))
        weights.append(rows[..., np.arange(at.size), places])
        order.append(at)
    back = np.argsort(np.concatenate(order), kind="stable")
    answer = np.concatenate(answers, axis=-2)[..., back, :] if recalls else np.zeros(0)
    return answer, np.concatenate(weights, axis=-1)[..., back]


def _columns(store: Store, pairs: Pairs, wanted: int) -> int:
    """Return how many one-hot channels to write at once: as wanted, but an affine store may depend on their number."""
    return max(1, int(pairs.values.shape[-1])) if store.traits.affine else wanted


def _blocks_of_targets(chosen: Numbers, width: int) -> Iterator[tuple[Numbers, Numbers]]:
    """Yield the queries (positions) of each block of targets and the block's sorted different targets."""
    names = np.unique(chosen)
    for start in range(0, names.size, width):
        block = names[start : start + width]
        yield np.flatnonzero(np.isin(chosen, block)), block


def _by_channel(store: Store, pairs: Pairs, queries: Array, block: int | None) -> Numbers:
    """Return (..., m, n, d_v): pair by pair, its value set to ones in all channels and the others to zeros."""
    queries = as_array(queries, "queries", like=pairs.keys)
    xp = namespace(pairs.values)
    zero = _zeros_like(pairs.values)
    base = _recalled(store, pairs, zero, queries) if store.traits.affine else None
    width = int(pairs.keys.shape[-1]) + int(pairs.values.shape[-1])
    step = block or max(1, _BLOCK // max(1, width * (pairs.n + int(queries.shape[-2]))))
    parts = []
    for start in range(0, pairs.n, step):
        names = np.arange(start, min(start + step, pairs.n))
        values = xp.stack([_one_hot(pairs, np.array([j]), 1) * xp.ones_like(pairs.values) for j in names])
        answer = _recalled(store, _repeated(pairs, names.size), values, queries)
        answer = answer if base is None else answer - base
        parts.append(np.moveaxis(to_numpy(answer), 0, -2))
    if not parts:
        return to_numpy(_recalled(store, pairs, zero, queries))[..., None, :][..., :0, :]
    return np.concatenate(parts, axis=-2)


def _own_by_channel(store: Store, pairs: Pairs, queries: Array, chosen: Numbers) -> Numbers:
    xp = namespace(pairs.values)
    rows, order = [], []
    for name in np.unique(chosen):
        at = np.flatnonzero(chosen == name)
        asked = xp.take(queries, _index(xp, at, queries), axis=-2)
        values = _one_hot(pairs, np.array([name]), 1) * xp.ones_like(pairs.values)
        rows.append(to_numpy(_response(store, pairs, values, asked)))
        order.append(at)
    return np.concatenate(rows, axis=-2)[..., np.argsort(np.concatenate(order)), :]


def _response(store: Store, pairs: Pairs, values: Array, queries: Array) -> Array:
    """Return the recall of `values`, less the recall of zero values where the store is affine."""
    answer = _recalled(store, pairs, values, queries)
    return answer - _recalled(store, pairs, _zeros_like(values), queries) if store.traits.affine else answer


def _recalled(store: Store, pairs: Pairs, values: Array, queries: Array) -> Array:
    return store.recall(_written(store, pairs, values), queries)


def _written(store: Store, pairs: Pairs, values: Array) -> Any:
    batch = tuple(int(n) for n in values.shape[:-2])
    state = store.empty(int(pairs.keys.shape[-1]), int(values.shape[-1]), batch=batch)
    return store.write(state, pairs.keys, values, **pairs.extras)


def _one_hot(pairs: Pairs, names: Numbers, width: int) -> Array:
    """Return values (*batch, n, width): row names[c] is one in channel c, all else zero."""
    values = pairs.values
    xp = namespace(values)
    hot = np.zeros((pairs.n, width))
    hot[names, np.arange(names.size)] = 1.0
    rows = xp.asarray(hot, dtype=values.dtype, device=device_of(values))
    return xp.broadcast_to(rows, (*values.shape[:-2], pairs.n, width))


def _repeated(pairs: Pairs, times: int) -> Pairs:
    """Return the pairs with a new leading batch axis."""
    xp = namespace(pairs.keys)
    keys = xp.broadcast_to(pairs.keys, (times, *pairs.keys.shape))
    return Pairs(keys, pairs.values, pairs.law, pairs.extras)


def _as_arrays(pairs: Pairs) -> Pairs:
    """Return the pairs with values in the dtype of a state, so that half precision does not round the weights."""
    keys = as_array(pairs.keys, "keys")
    values = as_array(pairs.values, "values", like=keys)
    if keys.ndim < 2 or values.ndim < 2 or keys.shape[:-1] != values.shape[:-1]:
        raise InputError(
            f"`pairs` must hold keys (..., n, d_k) and values (..., n, d_v) of the same leading axes; "
            f"got {tuple(keys.shape)} and {tuple(values.shape)}."
        )
    xp = namespace(values)
    values = as_floating(values, xp)
    values = xp.astype(values, state_dtype_for(values.dtype, xp), copy=False)
    return Pairs(keys, values, pairs.law, pairs.extras)


def _zeros_like(values: Array) -> Array:
    return namespace(values).zeros_like(values)


def _index(xp: Any, at: Numbers, like: Array) -> Array:
    return xp.asarray(at, dtype=xp.int64, device=device_of(like))


def _linearity(store: Store) -> str:
    kind = store.traits.linear_in_values
    if kind == "no":
        raise InputError(
            f"{store.name} is not linear in its values, so its memories have no weights; "
            "use the projection ratio (ruler.by_projection) instead."
        )
    return kind
