"""Stores that keep their pairs and recall their plain sum, each value times a weight of its own."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from functools import partial

import numpy as np

from assocmem.contract.arrays import Array, dtype_name, namespace
from assocmem.contract.errors import RecallOverflowError
from assocmem.contract.slots import GrowingStore
from assocmem.contract.state import State
from assocmem.kernels.blockwise import Causal, in_dtype, weighted_sum, working_dtype


@dataclass(frozen=True)
class WeightedSumStore(GrowingStore):
    """f(x) = sum_i w_i(x) v_i, where pair i's weight depends on that pair and the query alone.

    A family implements `_weigh`. Recall goes block by block (`kernels.blockwise`), so its memory does not grow with
    pairs times queries; shards of one memory add.
    """

    @abstractmethod
    def _weigh(self, state: State, queries: Array, pairs: slice) -> Array:
        """Return the weights (..., m, c) of the c pairs in `pairs` for checked queries (..., m, d_k)."""

    def _recall(self, state: State, queries: Array, mask: Array | None) -> Array:
        return self._sum(state, queries, mask)

    def _sum(self, state: State, queries: Array, visible: Array | Causal | None) -> Array:
        # A weight that overflows makes its recall infinite or NaN, and that is refused where the recall is returned.
        with np.errstate(over="ignore", invalid="ignore"):
            return weighted_sum(partial(self._weigh, state), state["values"], queries, visible)

    def _scan(
        self, state: State, keys: Array, values: Array, queries: Array, read: str, extras: dict[str, Array]
    ) -> tuple[State, Array]:
        first = state.n + (1 if read == "after" else 0)
        state = self._write(state, keys, values, extras)
        return state, self._sum(state, queries, Causal(first))

    def _weights(self, state: State, queries: Array, mask: Array | None) -> Array:
        xp = namespace(queries)
        x = in_dtype(queries, working_dtype(queries.dtype, xp), xp)
        with np.errstate(over="ignore", invalid="ignore"):
            weights = self._weigh(state, x, slice(0, state.n))
        if mask is not None:
            weights = xp.where(mask, weights, xp.zeros_like(weights))
        if not bool(xp.all(xp.isfinite(weights))):
            raise RecallOverflowError(
                f"the weights of {self.name} left the range of {dtype_name(weights.dtype)}; "
                "scale the keys (unit length) down, or use float64."
            )
        return weights
