"""The MLP read as a memory: one hidden unit per pair, with the key as its input weights and the value as its output."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from assocmem.contract.arrays import Array, transpose
from assocmem.contract.errors import InputError
from assocmem.contract.form import KernelSum
from assocmem.contract.recall import Ask, Recall
from assocmem.contract.register import register
from assocmem.contract.requirement import is_number, require
from assocmem.contract.slots import GrowingStore
from assocmem.contract.state import State
from assocmem.contract.traits import Extra, Source, Traits
from assocmem.kernels.blockwise import in_dtype
from assocmem.kernels.weighted_sum import CAN, summed
from assocmem.maps.activations import GELU, Activation, Custom, ReLU, SwiGLU, Swish


@dataclass(frozen=True)
class MLP(GrowingStore):
    """f(x) = V^T σ(K x): a two-layer perceptron whose hidden units are the stored pairs.

    activation: an Activation, or any function of an array of similarities that keeps its shape. It is applied
    as given, whatever the length of the keys; unit keys make a stored key's own similarity 1.

    State: keys (n, d_k) and values (n, d_v). Cost: nothing but the copy per write, n (d_k + d_v)
    multiply-adds per recall. Half precision is computed in float32 and cast back; a recall that leaves the range
    of its dtype raises RecallOverflowError. A σ that is not 0 at 0 lets zero keys and unrelated keys add to
    every recall.
    Source: Geva et al. 2021 (eq. 1, there f(x K^T) V), So et al. 2021 for the squared ReLU, Hendrycks and
    Gimpel 2016 for GELU, Shazeer 2020 for SwiGLU.

    >>> import numpy as np
    >>> store = MLP(ReLU(power=2))
    >>> state = store.write(store.empty(2, 1), np.eye(2), np.array([[3.0], [5.0]]))
    >>> store.recall(state, np.array([[0.6, 0.8]])).round(12).tolist()
    [[4.28]]
    >>> MLP(lambda s: s**3).recall(state, np.array([[-1.0, 0.0]])).tolist()
    [[-3.0]]
    """

    activation: Activation = field(default_factory=ReLU)

    summary = "One hidden unit per pair, read through a nonlinearity σ."
    cost = "write d_k + d_v (copied), recall n (d_k + d_v)"
    capabilities = CAN

    def __post_init__(self) -> None:
        object.__setattr__(self, "activation", _as_activation(self.activation, "MLP"))

    # One class serves the activations of several papers, so these two are the instance's.
    @property
    def equation(self) -> str:  # type: ignore[override]
        """f(x) with the activation written out."""
        return f"f(x) = V^T σ(K x), σ(s) = {self.activation.formula}"

    @property
    def source(self) -> Source:  # type: ignore[override]
        """The paper that brought this activation."""
        return _source_of(self.activation)

    @property
    def traits(self) -> Traits:
        """Linear, permutation-invariant, additive, growing."""
        return _TRAITS

    def form(self, d_k: int) -> KernelSum:
        """Return the activation."""
        return KernelSum(self.activation)

    def get(self, state: State, queries: Array, ask: Ask) -> Recall:
        """Return V^T σ(K x)."""

        def weigh(x: Array, pairs: slice) -> Array:
            return self.activation(_similarities(state, "keys", x, pairs))

        return summed(self.name, weigh, state["values"], queries, ask)


@dataclass(frozen=True)
class GatedMLP(GrowingStore):
    """f(x) = V^T (σ(G x) * K x): a gated linear unit whose gate has weights of its own, one row g_i per pair.

    `write` takes the gate rows as `gate=` (n, d_k). With g_i = k_i the weight is σ(s) s, a plain `MLP`.

    activation: the gate's σ, an Activation or any function of an array (Swish: SwiGLU; ReLU: ReGLU;
    GELU: GEGLU; Linear: the bilinear layer).

    State: keys (n, d_k), gates (n, d_k), values (n, d_v). Cost: n (2 d_k + d_v) multiply-adds per recall.
    Source: Shazeer 2020 (eq. 6: W -> gate rows, V -> keys, W_2 -> values).

    >>> import numpy as np
    >>> store = GatedMLP(ReLU())
    >>> one = np.eye(2)[:1]
    >>> state = store.write(store.empty(2, 1), one, np.array([[3.0]]), gate=np.array([[0.0, 2.0]]))
    >>> store.recall(state, np.array([[1.0, 0.0], [0.6, 0.8]])).round(12).tolist()
    [[0.0], [2.88]]
    """

    activation: Activation = field(default_factory=Swish)

    summary = "One hidden unit per pair with a gate of its own weights."
    cost = "write 2 d_k + d_v (copied), recall n (2 d_k + d_v)"
    capabilities = CAN

    def __post_init__(self) -> None:
        object.__setattr__(self, "activation", _as_activation(self.activation, "GatedMLP"))

    @property
    def equation(self) -> str:  # type: ignore[override]
        """f(x) with the gate's activation written out."""
        return f"f(x) = V^T (σ(G x) * K x), σ(s) = {self.activation.formula}"

    @property
    def source(self) -> Source:  # type: ignore[override]
        """Shazeer 2020."""
        return SHAZEER

    @property
    def traits(self) -> Traits:
        """Linear, permutation-invariant, additive, growing, with a gate row for every pair."""
        return _GATED_TRAITS

    def columns(self, state: State) -> dict[str, int]:
        """Return the widths of keys, gates and values."""
        return {"keys": state.d_k, "gates": state.d_k, "values": state.d_v}

    def rows_for(self, state: State, keys: Array, values: Array, **extras: Array) -> dict[str, Array]:
        """Return the rows to keep."""
        return {"keys": keys, "gates": extras["gate"], "values": values}

    def get(self, state: State, queries: Array, ask: Ask) -> Recall:
        """Return V^T (σ(G x) * K x)."""

        def weigh(x: Array, pairs: slice) -> Array:
            gates = self.activation(_similarities(state, "gates", x, pairs))
            return gates * _similarities(state, "keys", x, pairs)

        return summed(self.name, weigh, state["values"], queries, ask)


def relu(bias: float = 0.0) -> MLP:
    """Return f(x) = V^T max(0, K x + bias); a negative bias is a threshold, in units of similarity."""
    require(is_number(bias), "bias", "relu", "a finite number", bias)
    return MLP(ReLU(threshold=0.0 - bias))


def squared_relu() -> MLP:
    """Return f(x) = V^T max(0, K x)^2."""
    return MLP(ReLU(power=2.0))


def cubed_relu() -> MLP:
    """Return f(x) = V^T max(0, K x)^3."""
    return MLP(ReLU(power=3.0))


def relu_power(power: float = 4.0, bias: float = 0.0) -> MLP:
    """Return f(x) = V^T max(0, K x + bias)^power for any power > 0."""
    require(is_number(bias), "bias", "relu-power", "a finite number", bias)
    return MLP(ReLU(power=power, threshold=0.0 - bias))


def gelu(tanh: bool = False) -> MLP:
    """Return f(x) = V^T GELU(K x), exact or in the tanh approximation."""
    return MLP(GELU(tanh=tanh))


def swiglu(gate: Literal["shared", "own"] = "shared") -> MLP | GatedMLP:
    """Return SwiGLU with a gate that shares the keys' weights or has its own.

    "shared": f(x) = V^T (Swish(K x) * K x); "own": V^T (Swish(G x) * K x). Raises InputError for another `gate`.
    """
    if gate not in ("shared", "own"):
        raise InputError(f"`gate` of swiglu must be 'shared' or 'own'; got {gate!r}.")
    return MLP(SwiGLU()) if gate == "shared" else GatedMLP(Swish())


def _as_activation(value: Activation | Callable[[Array], Array], store: str) -> Activation:
    if isinstance(value, Activation):
        return value
    if not callable(value):
        raise InputError(f"`activation` of {store} must be an Activation or a function of an array; got {value!r}.")
    return Custom(value, getattr(value, "__name__", "custom").strip("<>"))


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

_TRAITS = Traits(
    linear_in_values="shared", permutation_invariant=True, overwrite="adds", constant_size=False, keeps_pairs=True
)
_GATED_TRAITS = Traits(
    linear_in_values="shared",
    permutation_invariant=True,
    overwrite="adds",
    constant_size=False,
    keeps_pairs=True,
    extras=(Extra("gate", "the gate's weights, one row for every pair", shape=("n", "d_k")),),
)

_BIAS = {"bias": "added to every similarity before the ReLU (default 0; negative: a threshold)"}
register(
    "relu",
    relu,
    summary="MLP with ReLU: half the mean square interference of a linear store.",
    options=_BIAS,
    article=3,
)
register(
    "squared-relu",
    squared_relu,
    summary="MLP with ReLU^2 (Primer), the same as a GLU whose gate shares its weights.",
    article=4,
)
register("cubed-relu", cubed_relu, summary="MLP with ReLU^3.", article=5)
register(
    "relu-power",
    relu_power,
    summary="MLP with any power of ReLU.",
    options={"power": "exponent of the ReLU, > 0 (default 4)", **_BIAS},
    article=6,
)
register(
    "swiglu",
    swiglu,
    summary="MLP with SwiGLU, its gate shared with the keys or with weights of its own.",
    options={"gate": "'shared' (default) or 'own': then every write takes gate rows (n, d_k)"},
    article=7,
)
register(
    "gelu",
    gelu,
    summary="MLP with GELU.",
    options={"tanh": "take GPT-2's tanh approximation (default False)"},
    article=8,
)
