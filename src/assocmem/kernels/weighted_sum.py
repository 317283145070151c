"""Recall as the plain sum over kept pairs, each value times a weight of its own."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from assocmem.contract.arrays import Array, device_of, dtype_name, namespace
from assocmem.contract.errors import RecallOverflowError
from assocmem.contract.recall import Ask, Dense, Mass, Recall
from assocmem.contract.traits import Capabilities
from assocmem.kernels.blockwise import in_dtype, mask_of, weighted_sum, working_dtype

CAN = Capabilities(masks=True, gives=("weights", "mass"), merges="appends", selects=True, scan="causal")
"""What a store can do whose every pair has a weight of its own: shards of it add."""


def summed(name: str, weigh: Callable[[Array, slice], Array], values: Array, queries: Array, ask: Ask) -> Recall:
    """Return f(x) = sum_i w_i(x) v_i, where pair i's weight depends on that pair and the query alone.

    Parameters
    ----------
    name: of the store, for messages.
    weigh: function of a block of queries (..., r, d_k) and a slice of the pairs (c of them) that returns their weights
        (..., r, c).

    Recall goes block by block (`kernels.blockwise`), so its memory does not grow with pairs times queries, unless
    weights are wanted. A weight that overflows makes its recall infinite or NaN, and that is refused where the recall
    is returned; among wanted weights it raises RecallOverflowError.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        if "weights" not in ask.want:
            recalled = weighted_sum(weigh, values, queries, ask.visible)
            if "mass" not in ask.want:
                return Recall(recalled)
            ones = namespace(values).ones_like(values[..., :1])
            total = weighted_sum(lambda x, at: abs(weigh(x, at)), ones, queries, ask.visible)[..., 0]
            return Recall(recalled, mass=Mass.of_sum(total))
        xp = namespace(queries)
        x = in_dtype(queries, working_dtype(queries.dtype, xp), xp)
        rows, columns = slice(0, int(x.shape[-2])), slice(0, int(values.shape[-2]))
        weights = weigh(x, columns)
        seen = mask_of(ask.visible, rows, columns, xp, device_of(x))
        if seen is not None:
            weights = xp.where(seen, weights, xp.zeros_like(weights))
    if not bool(xp.all(xp.isfinite(weights))):
        raise RecallOverflowError(
            f"the weights of {name} left the range of {dtype_name(weights.dtype)}; "
            "scale the keys (unit length) down, or use float64."
        )
    recalled = weights @ in_dtype(values, weights.dtype, xp)
    return Recall(
        recalled, Dense(weights), Mass.of_sum(xp.sum(xp.abs(weights), axis=-1)) if "mass" in ask.want else None
    )
