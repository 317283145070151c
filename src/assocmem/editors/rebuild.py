"""MLP swapping: the store is built again from all its facts, the edited ones in place of the old."""

from __future__ import annotations

from typing import Any

import numpy as np

from assocmem.contract.errors import InputError
from assocmem.contract.state import State
from assocmem.contract.store import Store
from assocmem.ruler.ratio import checked_numbers


def swap_mlp(store: Store, facts: tuple[Any, Any], keys: Any, values: Any) -> State:
    """Return the state of a store written anew with its facts, those of equal keys replaced and new ones behind them.

    Parameters
    ----------
    store : Store
        What the memory is built as: `make_store("superposed-mlp", readout="whitened")` is that of the paper.
    facts : pair of arrays (n, d_k), (n, d_v)
        Everything that it holds.
    keys, values : arrays (m, d_k), (m, d_v)
        The edits. A key that is exactly one of the facts' replaces its value; of two edits the later one stands.

    Returns
    -------
    state : State

    Raises
    ------
    InputError, NonFiniteError
        For shapes that do not fit, and rows that hold NaN or infinity.

    Notes
    -----
    It needs all facts, and forgets none. Source: Garcia et al. 2026, arXiv:2607.10034, section 5. Cost: the writes.

    Examples
    --------
    >>> from assocmem import make_store
    >>> store, old = make_store("optimal-linear"), (np.eye(2), np.eye(2))
    >>> state = swap_mlp(store, old, np.eye(2)[:1], [[0.0, 7.0]])
    >>> store.recall(state, np.eye(2)).round(6).tolist()
    [[0.0, 7.0], [0.0, 1.0]]
    """
    old_keys, old_values = (np.asarray(checked_numbers(x, "facts", 2)) for x in facts)
    new_keys, new_values = (
        checked_numbers(keys, "keys", 2),
        checked_numbers(values, "values", 2),
    )
    if old_keys.shape[1:] != new_keys.shape[1:] or old_values.shape[1:] != new_values.shape[1:]:
        raise InputError(
            f"`keys` and `values` must be as wide as the facts, {old_keys.shape} and {old_values.shape}; "
            f"got {new_keys.shape} and {new_values.shape}."
        )
    if len(old_keys) != len(old_values) or len(new_keys) != len(new_values):
        raise InputError("`values` must have a row for each of the keys.")
    merged = {key.tobytes(): (key, value) for key, value in zip(old_keys, old_values, strict=True)}
    for key, value in zip(np.asarray(new_keys, old_keys.dtype), new_values, strict=True):
        merged[key.tobytes()] = key, value
    rows = [np.stack(column) for column in zip(*merged.values(), strict=True)]
    return store.write(store.empty(rows[0].shape[1], rows[1].shape[1], like=rows[0]), *rows)
