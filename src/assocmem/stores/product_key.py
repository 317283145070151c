"""Product keys: a table of n^2 slots that two short lists of sub-keys address; alone, and as the pool of layers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated, Any, Literal

import numpy as np

from assocmem.contract.arrays import Array, transpose
from assocmem.contract.cost import D_K, D_V, Cost, Count
from assocmem.contract.errors import InputError
from assocmem.contract.numbers import stream
from assocmem.contract.recall import Ask
from assocmem.contract.register import register
from assocmem.contract.settings import COUNT, NOT_NEGATIVE, POSITIVE, Help
from assocmem.contract.state import State
from assocmem.contract.traits import Source, Traits
from assocmem.kernels.product_keys import halves, product_addresses, uniform
from assocmem.kernels.slot_table import SlotTableStore, everywhere

LAMPLE = Source(
    title="Large Memory Layers with Product Keys",
    authors="Lample, Guillaume and Sablayrolles, Alexandre and Ranzato, Marc'Aurelio and Denoyer, Ludovic and Jégou, "
    "Hervé",
    year=2019,
    venue="NeurIPS 2019",
    arxiv="1907.05242",
    equation="section 3.2: I = T_k over C x C' of c.q_1 + c'.q_2, then m(x) = sum_i w_i v_i with w = softmax",
    deviations=(
        "values are written into the slots that their key addresses, not trained; trained tables can be loaded",
        "keys address as they come: query network and batch norm are the caller's, and `scale` stands for the length "
        "sqrt(d_q) that batch norm gives to queries",
        "32 sub-keys a half and k = 8 by default, so that a table is small; theirs are 512 and 32",
    ),
)
BERGES = Source(
    title="Memory Layers at Scale",
    authors="Berges, Vincent-Pierre and Oğuz, Barlas and Haziza, Daniel and Yih, Wen-tau and Zettlemoyer, Luke and "
    "Ghosh, Gargi",
    year=2024,
    arxiv="2412.09764",
    equation="output = (y * silu(x^T W_1))^T W_2, y = softmax(K_I q) V_I, one pool V for all memory layers",
    deviations=(
        "values are written, not trained; the output projection W_2 is the caller's",
        "the gate sees the key and stands at writing too, so that what is written comes back with its own sign",
        "32 sub-keys a half and k = 8 by default; theirs are 1024 and 32",
    ),
)

SubKeys = Annotated[int, COUNT, Help("sub-keys n of each half: the table has n^2 slots")]
Chosen = Annotated[int, COUNT, Help("slots that each head addresses; all where there are fewer")]
Heads = Annotated[int, COUNT, Help("heads with sub-keys of their own, all over one table")]
Scale = Annotated[float | None, POSITIVE, Help("factor on the scores of unit keys", none="sqrt(d_k)")]
Seed = Annotated[int, NOT_NEGATIVE, Help("names the drawn sub-keys")]


@dataclass(frozen=True)
class ProductKeyMemory(SlotTableStore):
    """f(x) = sum over heads and the k best of n^2 slots of softmax(s)_ij V_ij, s_ij = c_i.x_1 + c'_j.x_2.

    x_1 and x_2 are the halves of x (the first has the odd number), c and c' two lists of n sub-keys. The k best pairs
    (i, j) have i and j among the k best of their half, so k^2 sums are compared instead of n^2; equal ones go by the
    index i n + j. A value is written into the slots that its key addresses, in proportion to their weights, so that a
    pair alone comes back exactly.

    Notes
    -----
    State: "first" (heads, n, ceil(d_k/2)), "second" (heads, n, floor(d_k/2)), "values" (n^2, d_v). Sub-keys are uniform
    in ±1/sqrt(width) as drawn. Cost: heads (n d_k + k^2 + k d_v) multiply-adds a recall, instead of the n^2 (d_k +
    d_v) of attention over all slots.
    Source: Lample et al. 2019, section 3.2.

    Examples
    --------
    >>> import numpy as np
    >>> store = ProductKeyMemory(sub_keys=16, k=4)
    >>> keys = np.eye(8)
    >>> state = store.write(store.empty(8, 1), keys[:1], np.array([[3.0]]))
    >>> store.recall(state, keys[:1]).round(12).tolist(), store.addresses(state, keys[:1]).ids.shape
    ([[3.0]], (1, 16))
    """

    sub_keys: SubKeys = 32
    k: Chosen = 8
    heads: Heads = 4
    scale: Scale = None
    seed: Seed = 0

    equation = "f(x) = sum_h sum_(i,j) in top k softmax(c_i.x_1 + c'_j.x_2) V_ij"
    summary = "A table of n^2 slots addressed by two lists of n sub-keys."
    source = LAMPLE
    traits = Traits(linear_in_values="shared", permutation_invariant=True, overwrite="adds", constant_size=True)

    @property
    def cost(self) -> Cost:  # type: ignore[override]
        return _cost(self.sub_keys, self.k, self.heads)

    def slot_count(self, state: State) -> int:
        return self.sub_keys**2

    def drawn(self, state: State) -> Mapping[str, Array]:
        return _sub_keys(state, self.seed, (self.heads, self.sub_keys))

    def addressed(self, state: State, x: Array) -> tuple[Array, Array]:
        ids, weights = product_addresses(state["first"], state["second"], x, self.k, self.scale)
        return ids, weights[..., None]


@dataclass(frozen=True)
class MemoryLayers(SlotTableStore):
    """f(x) = y * silu(G x), y the recall of `ProductKeyMemory` from a pool that several layers share.

    Every layer has sub-keys and a gate G of its own; `layer` says through which of them this store writes and recalls.
    A state holds all of them and the one pool: what a store with layer=0 writes is seen by one with layer=1 that is
    handed the same state. Written values are weighted by the gate of their key, so that they come back with their sign;
    with gate="none" it is product-key memory.

    Notes
    -----
    State: "first" (layers, heads, n, ceil(d_k/2)), "second" (layers, heads, n, floor(d_k/2)), "gate" (layers, d_v,
    d_k), "values" (n^2, d_v). Cost: heads (n d_k + k^2 + k d_v) + d_k d_v multiply-adds a recall.
    Source: Berges et al. 2024 (Memory+).

    Examples
    --------
    >>> import numpy as np
    >>> one = MemoryLayers(sub_keys=16, k=4, layers=2)
    >>> keys = np.eye(8)
    >>> state = one.write(one.empty(8, 1), keys, np.ones((8, 1)))
    >>> other = MemoryLayers(sub_keys=16, k=4, layers=2, layer=1)
    >>> bool(np.any(other.recall(state, keys) != 0))
    True
    """

    sub_keys: SubKeys = 32
    k: Chosen = 8
    heads: Heads = 4
    layers: Annotated[int, COUNT, Help("layers that share the pool")] = 3
    layer: Annotated[int, NOT_NEGATIVE, Help("the one that writes and recalls, counted from 0")] = 0
    gate: Annotated[Literal["silu", "none"], Help("silu(G x) on what is recalled, or nothing")] = "silu"
    scale: Scale = None
    seed: Seed = 0

    equation = "f(x) = silu(G x) * sum_h sum_(i,j) in top k softmax(c_i.x_1 + c'_j.x_2) V_ij"
    summary = "Product keys over one pool of values that several layers share, behind a gate."
    source = BERGES

    @property
    def traits(self) -> Traits:
        """Linear: with the gate each channel has weights of its own."""
        linear: Literal["shared", "per-channel"] = "shared" if self.gate == "none" else "per-channel"
        return Traits(linear, permutation_invariant=True, overwrite="adds", constant_size=True)

    @property
    def cost(self) -> Cost:  # type: ignore[override]
        return _cost(self.sub_keys, self.k, self.heads, None if self.gate == "none" else D_K * D_V)

    def check_together(self) -> None:
        """Refuse a layer that there is not."""
        if self.layer >= self.layers:
            raise InputError(f"`layer` of MemoryLayers must be below layers={self.layers}; got {self.layer}.")

    def slot_count(self, state: State) -> int:
        return self.sub_keys**2

    def drawn(self, state: State) -> Mapping[str, Array]:
        arrays = dict(_sub_keys(state, self.seed, (self.layers, self.heads, self.sub_keys)))
        if self.gate != "none":
            arrays["gate"] = everywhere(state, _gates(self.seed, self.layers, state.d_v, state.d_k))
        return arrays

    def addressed(self, state: State, x: Array) -> tuple[Array, Array]:
        first, second = (state[name][..., self.layer, :, :, :] for name in ("first", "second"))
        ids, weights = product_addresses(first, second, x, self.k, self.scale)
        return ids, weights[..., None]

    def _open(self, state: State, x: Array) -> Array:
        """Return silu(G x), (..., m, d_v)."""
        s = x @ transpose(state["gate"][..., self.layer, :, :])
        return s / (1 + state.xp.exp(-s))

    def put(self, state: State, keys: Array, values: Array, **extras: Array) -> Mapping[str, Array]:
        if self.gate == "none":
            return super().put(state, keys, values)
        xp, gate = state.xp, self._open(state, keys)
        size = xp.sum(gate * gate, axis=-1, keepdims=True) / max(1, state.d_v)
        return super().put(state, keys, values * gate / xp.where(size > 0, size, xp.ones_like(size)))

    def get(self, state: State, queries: Array, ask: Ask) -> Array:
        found = super().get(state, queries, ask)
        return found if self.gate == "none" else found * self._open(state, queries)


def _cost(n: int, k: int, heads: int, gate: Count | None = None) -> Cost:
    slots = min(k, n * n)
    find = heads * n * D_K + Count("", lambda *_: 1, heads * slots**2)
    move = heads * slots * D_V
    own = Count("", lambda *_: 1, (heads * slots) ** 2)
    recall, write = find + move, find + own + move
    return Cost(write, recall) if gate is None else Cost(write + gate, recall + gate)


def _sub_keys(state: State, seed: int, sizes: tuple[int, ...]) -> dict[str, Array]:
    widths = zip(("first", "second"), halves(state.d_k), strict=True)
    return {name: everywhere(state, uniform(seed, f"product-key {name}", (*sizes, width))) for name, width in widths}


@lru_cache(maxsize=8)
def _gates(seed: int, layers: int, d_v: int, d_k: int) -> np.ndarray[Any, Any]:
    return stream(seed, "memory-layers", "gate").standard_normal((layers, d_v, d_k))


register("product-key", ProductKeyMemory, label="product keys")
register("memory-layers", MemoryLayers, label="memory layers")
