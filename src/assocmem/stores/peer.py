"""PEER: a mixture of very many experts of one neuron each, found by product keys."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Annotated, Any, Literal

import numpy as np

from assocmem.contract.arrays import Array
from assocmem.contract.cost import D_K, D_V, Cost, Count
from assocmem.contract.numbers import stream
from assocmem.contract.register import register
from assocmem.contract.settings import COUNT, NOT_NEGATIVE, POSITIVE, Help
from assocmem.contract.slots import DenseSlots
from assocmem.contract.state import State
from assocmem.contract.traits import Source, Traits
from assocmem.kernels.product_keys import halves, product_addresses, uniform
from assocmem.kernels.slot_table import SlotTableStore, everywhere
from assocmem.maps.activations import ACTIVATION, GELU, Activation


@dataclass(frozen=True)
class PEER(SlotTableStore):
    """f(x) = sum over heads and the k best of n^2 experts of g_i σ(u_i.x) w_i: one neuron an expert, g by product keys.

    g is the softmax over the k scores of a head, or 1 for each of them with gate="none". A write adds the value to the
    output vectors w_i of the experts that its key chooses, in proportion to what each gives; their input vectors u_i
    stay as drawn (standard normal over sqrt(d_k)) or loaded. With all experts chosen and no gate it is a two-layer MLP.

    Notes
    -----
    State: "first" (heads, n, ceil(d_k/2)), "second" (heads, n, floor(d_k/2)), "inputs" u (n^2, d_k), "values" w (n^2,
    d_v). Cost: heads (n d_k + k^2 + k (d_k + d_v)) multiply-adds a recall.
    Source: He 2024.

    Examples
    --------
    >>> import numpy as np
    >>> store = PEER(sub_keys=8, k=4, heads=2)
    >>> keys = np.eye(8)
    >>> state = store.write(store.empty(8, 1), keys[:1], np.array([[3.0]]))
    >>> store.recall(state, keys[:1]).round(12).tolist()
    [[3.0]]
    """

    sub_keys: Annotated[int, COUNT, Help("sub-keys n of each half: there are n^2 experts")] = 32
    k: Annotated[int, COUNT, Help("experts that each head chooses; all where there are fewer")] = 8
    heads: Annotated[int, COUNT, Help("heads with sub-keys of their own, all over the same experts")] = 4
    activation: Annotated[Activation, ACTIVATION, Help("σ of the neurons, also any function of an array")] = field(
        default_factory=GELU
    )
    gate: Annotated[Literal["softmax", "none"], Help("g: softmax over the scores of a head's k, or 1")] = "softmax"
    scale: Annotated[float | None, POSITIVE, Help("factor on the scores of unit keys", none="sqrt(d_k)")] = None
    seed: Annotated[int, NOT_NEGATIVE, Help("names the drawn sub-keys and input vectors")] = 0

    equation = "f(x) = sum_h sum_i in top k g_i σ(u_i.x) w_i"
    summary = "A mixture of n^2 experts of one neuron each, found by product keys."
    source = Source(
        title="Mixture of A Million Experts",
        authors="He, Xu Owen",
        year=2024,
        arxiv="2407.04153",
        equation="f(x) = sum_i in I g_i(x) e_i(x), e_i(x) = σ(u_i^T x) v_i",
        deviations=(
            "output vectors are written, not trained; trained tables can be loaded",
            "query networks and their batch norm are the caller's; `scale` stands for the length of its queries",
            "32^2 experts and 4 heads of k = 8 by default; theirs are 1024^2, 8 and 16",
        ),
    )
    traits = Traits(linear_in_values="shared", permutation_invariant=True, overwrite="adds", constant_size=True)

    @property
    def cost(self) -> Cost:  # type: ignore[override]
        n, k, heads = self.sub_keys, min(self.k, self.sub_keys**2), self.heads
        recall = heads * (n + k) * D_K + Count("", lambda *_: 1, heads * k**2) + heads * k * D_V
        return Cost(recall + Count("", lambda *_: 1, (heads * k) ** 2), recall)

    def slot_count(self, state: State) -> int:
        return self.sub_keys**2

    def drawn(self, state: State) -> Mapping[str, Array]:
        widths = zip(("first", "second"), halves(state.d_k), strict=True)
        arrays = {
            name: everywhere(state, uniform(self.seed, f"peer {name}", (self.heads, self.sub_keys, width)))
            for name, width in widths
        }
        return {**arrays, "inputs": everywhere(state, _inputs(self.seed, self.sub_keys**2, state.d_k))}

    def addressed(self, state: State, x: Array) -> tuple[Array, Array]:
        ids, weights = product_addresses(
            state["first"], state["second"], x, self.k, self.scale, normalise=self.gate == "softmax"
        )
        rows = DenseSlots({"inputs": state["inputs"]}).take("inputs", ids)
        return ids, (weights * self.activation((rows @ x[..., None])[..., 0]))[..., None]


@lru_cache(maxsize=4)
def _inputs(seed: int, experts: int, d_k: int) -> np.ndarray[Any, Any]:
    rows: np.ndarray[Any, Any] = stream(seed, "peer", "inputs").standard_normal((experts, d_k))
    return rows / math.sqrt(max(1, d_k))


register("peer", PEER, label="PEER")
