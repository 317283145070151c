"""The outer product store: Hebb's rule, the state of linear attention."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from assocmem.contract.arrays import Array, transpose
from assocmem.contract.cost import D_K, D_V, Cost
from assocmem.contract.form import KernelSum
from assocmem.contract.recall import Ask
from assocmem.contract.register import register
from assocmem.contract.state import State
from assocmem.contract.store import Store
from assocmem.contract.traits import Capabilities, Source, Traits
from assocmem.maps.activations import Linear

CHUNK = 64
"""Pairs that a scan takes together: within a chunk their similarities form one matrix."""


@dataclass(frozen=True)
class OuterProduct(Store):
    """f(x) = W x with W = sum_i v_i k_i^T: every pair is added to one matrix.

    Notes
    -----
    State: W (d_v, d_k). Cost: d_k d_v multiply-adds per write and per recall. Keys should be unit vectors;
    orthonormal ones are recalled exactly, random ones with ratio sqrt((M-1)/d_k).
    Source: Kohonen 1972 (eq. 3, correlation matrix memory); Anderson 1972.

    Examples
    --------
    >>> import numpy as np
    >>> store = OuterProduct()
    >>> state = store.write(store.empty(2, 1), np.eye(2), np.array([[3.0], [5.0]]))
    >>> store.recall(state, np.array([[0.0, 1.0]])).tolist()
    [[5.0]]
    """

    equation = "f(x) = V^T K x = (sum_i v_i k_i^T) x"
    summary = "Adds every pair to one matrix (Hebb's rule)."
    source = Source(
        title="Correlation Matrix Memories",
        authors="Kohonen, Teuvo",
        year=1972,
        venue="IEEE Transactions on Computers C-21(4):353-359",
        doi="10.1109/TC.1972.5008975",
        equation="correlation matrix memory M = sum_i v_i k_i^T",
    )
    cost = Cost(D_K * D_V, D_K * D_V)
    capabilities = Capabilities(merges="adds", forgets=True, scan="own")
    traits = Traits(linear_in_values="shared", permutation_invariant=True, overwrite="adds", constant_size=True)

    def init(self, state: State) -> Mapping[str, Array]:
        return {"W": state.zeros(state.d_v, state.d_k)}

    def put(self, state: State, keys: Array, values: Array, **extras: Array) -> Mapping[str, Array]:
        return {"W": state["W"] + _product(keys, values)}

    def get(self, state: State, queries: Array, ask: Ask) -> Array:
        return queries @ transpose(state["W"])

    def scanned(
        self, state: State, keys: Array, values: Array, queries: Array, read: str, extras: dict[str, Array]
    ) -> tuple[Mapping[str, Array], Array]:
        """Return the matrix after all pairs and the recalls, a chunk at a time."""
        W, count, parts = state["W"], int(keys.shape[-2]), []
        for start in range(0, count, CHUNK):
            at = slice(start, min(start + CHUNK, count))
            k, v, q = keys[..., at, :], values[..., at, :], queries[..., at, :]
            seen = state.xp.tril(q @ transpose(k), k=0 if read == "after" else -1)
            parts.append(q @ transpose(W) + seen @ v)
            W = W + _product(k, v)
        return {"W": W}, state.xp.concat(parts, axis=-2)

    def form(self, d_k: int) -> KernelSum:
        return KernelSum(Linear())


def _product(keys: Array, values: Array) -> Array:
    """Return sum_i v_i k_i^T; of a single pair entry by entry, which costs less than a matrix product."""
    columns = transpose(values)
    return columns * keys if keys.shape[-2] == 1 else columns @ keys


register("outer-product", OuterProduct, colour="#0072B2", article=1, usual=True)
