"""The MLP read as a memory: one hidden unit per pair, with the key as its input weights and the value as its output."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated

from assocmem.contract.arrays import Array, transpose
from assocmem.contract.cost import D_K, D_V, Cost, N
from assocmem.contract.form import GatedSum, KernelSum
from assocmem.contract.recall import Ask, Recall
from assocmem.contract.register import Variant, register
from assocmem.contract.settings import Help
from assocmem.contract.slots import Rows
from assocmem.contract.state import State
from assocmem.contract.store import Store
from assocmem.contract.traits import Extra, Source, Traits
from assocmem.kernels.blockwise import in_dtype
from assocmem.kernels.weighted_sum import CAN, summed
from assocmem.maps.activations import ACTIVATION, GELU, Activation, ReLU, SwiGLU, Swish

GEVA = Source(
    title="Transformer Feed-Forward Layers Are Key-Value Memories",
    authors="Geva, Mor and Schuster, Roei and Berant, Jonathan and Levy, Omer",
    year=2021,
    venue="EMNLP 2021",
    arxiv="2012.14913",
    equation="eq. 1, FF(x) = f(x K^T) V",
    deviations=("pairs are written, not trained", "the power of a ReLU and its threshold are settings"),
)
SO = Source(
    title="Primer: Searching for Efficient Transformers for Language Modeling",
    authors="So, David R. and Mańke, Wojciech and Liu, Hanxiao and Dai, Zihang and Shazeer, Noam and Le, Quoc V.",
    year=2021,
    venue="NeurIPS 2021",
    arxiv="2109.08668",
    equation="squared ReLU, max(0, s)^2",
    deviations=("pairs are written, not trained",),
)
SHAZEER = Source(
    title="GLU Variants Improve Transformer",
    authors="Shazeer, Noam",
    year=2020,
    arxiv="2002.05202",
    equation="eq. 6, FFN_SwiGLU(x, W, V, W2) = (Swish_1(x W) * x V) W2",
    deviations=("pairs are written, not trained", "with the gate shared, W = V"),
)
HENDRYCKS = Source(
    title="Gaussian Error Linear Units (GELUs)",
    authors="Hendrycks, Dan and Gimpel, Kevin",
    year=2016,
    arxiv="1606.08415",
    equation="GELU(s) = s Φ(s), and its tanh approximation",
    deviations=("pairs are written, not trained",),
)


@dataclass(frozen=True)
class MLP(Store):
    """f(x) = V^T σ(K x): a two-layer perceptron whose hidden units are the stored pairs.

    σ is applied as given, whatever the length of the keys; unit keys make a stored key's own similarity 1.

    Notes
    -----
    State: keys (n, d_k) and values (n, d_v). Cost: nothing but the copy per write, n (d_k + d_v)
    multiply-adds per recall. Half precision is computed in float32 and cast back; a recall that leaves the range
    of its dtype raises RecallOverflowError. A σ that is not 0 at 0 lets zero keys and unrelated keys add to
    every recall.
    Source: Geva et al. 2021 (eq. 1, there f(x K^T) V), So et al. 2021 for the squared ReLU, Hendrycks and
    Gimpel 2016 for GELU, Shazeer 2020 for SwiGLU.

    Examples
    --------
    >>> import numpy as np
    >>> store = MLP(ReLU(power=2))
    >>> state = store.write(store.empty(2, 1), np.eye(2), np.array([[3.0], [5.0]]))
    >>> store.recall(state, np.array([[0.6, 0.8]])).round(12).tolist()
    [[4.28]]
    >>> MLP(lambda s: s**3).recall(state, np.array([[-1.0, 0.0]])).tolist()
    [[-3.0]]
    """

    activation: Annotated[Activation, ACTIVATION, Help("σ, also any function of an array that keeps its shape")] = (
        field(default_factory=ReLU)
    )

    summary = "One hidden unit per pair, read through a nonlinearity σ."
    cost = Cost(D_K + D_V, N * (D_K + D_V), note="a write copies the pair")
    capabilities = CAN
    traits = Traits("shared", permutation_invariant=True, overwrite="adds", constant_size=False, keeps_pairs=True)

    # One class serves the activations of several papers, so these two are the instance's.
    @property
    def equation(self) -> str:  # type: ignore[override]
        return f"f(x) = V^T σ(K x), σ(s) = {self.activation.formula}"

    @property
    def source(self) -> Source:  # type: ignore[override]
        return _source_of(self.activation)

    def form(self, d_k: int) -> KernelSum:
        return KernelSum(self.activation)

    def get(self, state: State, queries: Array, ask: Ask) -> Recall:

        def weigh(x: Array, pairs: slice) -> Array:
            return self.activation(_similarities(state, "keys", x, pairs))

        return summed(self.name, weigh, state["values"], queries, ask)


@dataclass(frozen=True)
class GatedMLP(Store):
    """f(x) = V^T (σ(G x) * K x): a gated linear unit whose gate has weights of its own, one row g_i per pair.

    `write` takes the gate rows as `gate=` (n, d_k). With g_i = k_i the weight is σ(s) s, a plain `MLP`.
    Swish: SwiGLU; ReLU: ReGLU; GELU: GEGLU; Linear: the bilinear layer.

    Notes
    -----
    State: keys (n, d_k), gates (n, d_k), values (n, d_v). Cost: n (2 d_k + d_v) multiply-adds per recall.
    Source: Shazeer 2020 (eq. 6: W -> gate rows, V -> keys, W_2 -> values).

    Examples
    --------
    >>> import numpy as np
    >>> store = GatedMLP(ReLU())
    >>> one = np.eye(2)[:1]
    >>> state = store.write(store.empty(2, 1), one, np.array([[3.0]]), gate=np.array([[0.0, 2.0]]))
    >>> store.recall(state, np.array([[1.0, 0.0], [0.6, 0.8]])).round(12).tolist()
    [[0.0], [2.88]]
    """

    activation: Annotated[Activation, ACTIVATION, Help("the gate's σ, also any function of an array")] = field(
        default_factory=Swish
    )

    summary = "One hidden unit per pair with a gate of its own weights."
    source = SHAZEER
    cost = Cost(2 * D_K + D_V, N * (2 * D_K + D_V), note="a write copies the pair")
    capabilities = CAN
    traits = Traits(
        linear_in_values="shared",
        permutation_invariant=True,
        overwrite="adds",
        constant_size=False,
        keeps_pairs=True,
        extras=(Extra("gate", "the gate's weights, one row for every pair", shape=("n", "d_k")),),
    )

    @property
    def equation(self) -> str:  # type: ignore[override]
        return f"f(x) = V^T (σ(G x) * K x), σ(s) = {self.activation.formula}"

    def form(self, d_k: int) -> GatedSum:
        return GatedSum(self.activation)

    def init(self, state: State) -> dict[str, Rows]:
        return {"keys": Rows(state.d_k), "gates": Rows(state.d_k), "values": Rows(state.d_v)}

    def put(self, state: State, keys: Array, values: Array, **extras: Array) -> dict[str, Array]:
        return {"keys": keys, "gates": extras["gate"], "values": values}

    def get(self, state: State, queries: Array, ask: Ask) -> Recall:

        def weigh(x: Array, pairs: slice) -> Array:
            gates = self.activation(_similarities(state, "gates", x, pairs))
            return gates * _similarities(state, "keys", x, pairs)

        return summed(self.name, weigh, state["values"], queries, ask)


def _similarities(state: State, rows: str, queries: Array, pairs: slice) -> Array:
    return queries @ transpose(in_dtype(state[rows][..., pairs, :], queries.dtype, state.xp))


def _source_of(activation: Activation) -> Source:
    if isinstance(activation, SwiGLU):
        return SHAZEER
    if isinstance(activation, GELU):
        return HENDRYCKS
    if activation == ReLU(power=2.0):
        return SO
    return GEVA


register(
    "relu",
    Variant(MLP, {"activation": "relu", "power": 1.0}),
    summary="MLP with ReLU: half the mean square interference of a linear store.",
    label="ReLU",
    article=3,
)
register(
    "squared-relu",
    Variant(MLP, {"activation": "relu", "power": 2.0}),
    summary="MLP with ReLU^2 (Primer), the same as a GLU whose gate shares its weights.",
    label="squared ReLU",
    article=4,
    usual=True,
)
register(
    "cubed-relu",
    Variant(MLP, {"activation": "relu", "power": 3.0}),
    summary="MLP with ReLU^3.",
    label="cubed ReLU",
    article=5,
)
register(
    "relu-power",
    Variant(MLP, {"activation": "relu"}),
    summary="MLP with any power of ReLU.",
    defaults={"power": 4.0},
    label="power of ReLU",
    article=6,
)
register(
    "swiglu",
    Variant(MLP, {"activation": "swiglu"}, when="shared"),
    Variant(GatedMLP, {"activation": "swish"}, when="own"),
    summary="MLP with SwiGLU, its gate shared with the keys or with weights of its own.",
    choice=("gate", "the gate's weights: shared with the keys, or own ones, which every write takes as rows (n, d_k)"),
    label="SwiGLU",
    article=7,
)
register("gelu", Variant(MLP, {"activation": "gelu"}), summary="MLP with GELU.", label="GELU", article=8)
