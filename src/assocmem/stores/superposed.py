"""The superposed MLP: random gated features with a readout that is written, so facts can outnumber hidden units."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated, Any

import numpy as np

from assocmem.contract.arrays import Array, transpose
from assocmem.contract.cost import D_K, D_V, Cost, Count
from assocmem.contract.numbers import stream
from assocmem.contract.recall import Ask
from assocmem.contract.register import Variant, register
from assocmem.contract.settings import COUNT, NOT_NEGATIVE, Help
from assocmem.contract.slots import Rows
from assocmem.contract.state import State
from assocmem.contract.store import Store
from assocmem.contract.traits import Source, Traits
from assocmem.kernels.least_squares import LeastSquaresStore

GARCIA = Source(
    title="MLPs are Hebbians: Constructing Efficient Fact-Storing MLPs for Transformers",
    authors="Garcia, Roberto and Liu, Jerry and Junkins, Ronny and Eyuboglu, Sabri and Rudra, Atri and Ré, Christopher",
    year=2026,
    venue="COLM 2026",
    arxiv="2607.10034",
    equation="φ(x) = (A x) * (G x) / sqrt(m); B_0 = V^T Φ / F; B = B_0 (Φ^T Φ / F + λ I)^-1",
    deviations=(
        "the outer product readout is the sum F B_0, so that it can be written pair by pair",
        "λ multiplies F at every m and F (their code leaves F out where m > F)",
        "λ = 0 is allowed and gives the minimum-norm readout",
    ),
)

Seed = Annotated[int, NOT_NEGATIVE, Help("names the random projections A and G")]
Width = Annotated[int | None, COUNT, Help("hidden units m", none="4 d_k")]


@dataclass(frozen=True)
class SuperposedMLP(Store):
    """f(x) = B φ(x), φ(x) = (A x) * (G x) / sqrt(m), B = sum_i v_i φ(k_i)^T: an outer product store of features.

    A and G are m x d_k matrices of independent standard normal numbers that stay as drawn. E φ(x).φ(z) = (x.z)^2,
    so every pair weighs as with a squared similarity, plus a noise of about 1/sqrt(m) from the finite width.

    Notes
    -----
    State: A, G (m, d_k; the same in every batch item) and B (d_v, m), all of them weights of the MLP. Cost:
    m (2 d_k + d_v) multiply-adds per write and per recall.
    Source: Garcia et al. 2026, unwhitened readout.

    Examples
    --------
    >>> import numpy as np
    >>> store = SuperposedMLP(width=4096)
    >>> state = store.write(store.empty(2, 1), np.eye(2), np.array([[3.0], [5.0]]))
    >>> store.recall(state, np.eye(2)).round(0).tolist()
    [[3.0], [5.0]]
    """

    seed: Seed = 0
    width: Width = None

    equation = "f(x) = (sum_i v_i φ(k_i)^T) φ(x), φ(x) = (A x) * (G x) / sqrt(m)"
    summary = "Random gated features with an outer product readout: facts in superposition."
    source = GARCIA
    traits = Traits(linear_in_values="shared", permutation_invariant=True, overwrite="adds", constant_size=True)

    @property
    def cost(self) -> Cost:  # type: ignore[override]
        each = _hidden(self.width) * (2 * D_K + D_V)
        return Cost(each, each)

    def init(self, state: State) -> Mapping[str, Array]:
        projections = _projections(self.seed, self.width, state)
        return {**projections, "B": state.zeros(state.d_v, int(projections["A"].shape[-2]))}

    def put(self, state: State, keys: Array, values: Array, **extras: Array) -> Mapping[str, Array]:
        return {**state.arrays, "B": state["B"] + transpose(values) @ features(state, keys)}

    def get(self, state: State, queries: Array, ask: Ask) -> Array:
        return features(state, queries) @ transpose(state["B"])


@dataclass(frozen=True)
class WhitenedMLP(LeastSquaresStore):
    """f(x) = B φ(x) with the features of `SuperposedMLP` and the least-squares readout.

    B = V^T Φ (Φ^T Φ + F λ I)^-1 over all F pairs written, rows of Φ being φ(k_i): the paper's
    B_0 (Φ^T Φ / F + λ I)^-1. At λ = 0 it interpolates exactly as long as the features φ(k_i) are independent:
    at most min(m, d_k (d_k + 1)/2) of them are.

    Notes
    -----
    State: A, G (m, d_k), and R (m, m), Q^T V (m, d_v) of a QR factorisation of Φ, with pending pairs
    (kernels.least_squares). Cost: about 4 m^2 multiply-adds per pair written, one singular value decomposition
    (m x m) at the first recall after a write, then m (2 d_k + d_v) per query.
    Source: Garcia et al. 2026, whitened readout.

    Examples
    --------
    >>> import numpy as np
    >>> store = WhitenedMLP(width=16, ridge=0.0)
    >>> state = store.write(store.empty(2, 1), np.eye(2), np.array([[3.0], [5.0]]))
    >>> store.recall(state, np.eye(2)).round(6).tolist()
    [[3.0], [5.0]]
    """

    seed: Seed = 0
    width: Width = None
    ridge: Annotated[float, NOT_NEGATIVE, Help("the paper's λ, beside Φ^T Φ / F")] = 1e-6

    equation = "f(x) = V^T Φ (Φ^T Φ + F λ I)^-1 φ(x), φ(x) = (A x) * (G x) / sqrt(m)"
    summary = "Random gated features with a least-squares readout: facts in superposition."
    source = GARCIA
    traits = Traits(linear_in_values="shared", permutation_invariant=True, overwrite="averages", constant_size=True)

    @property
    def cost(self) -> Cost:  # type: ignore[override]
        m = _hidden(self.width)
        return Cost(4 * m**2, m * (2 * D_K + D_V), first_recall=m**3, note="writes amortised")

    def init(self, state: State) -> Mapping[str, Array | Rows]:
        return {**_projections(self.seed, self.width, state), **super().init(state)}

    def _width(self, state: State) -> int:
        return _units(self.width, state.d_k)

    def _features(self, state: State, x: Array) -> Array:
        return features(state, x)

    def _ridge(self, state: State) -> float:
        return float(self.ridge) * state.n


def features(state: State, x: Array) -> Array:
    """Return φ(x) = (A x) * (G x) / sqrt(m) for rows x (..., d_k) -> (..., m), with the state's A and G."""
    scale = 1 / math.sqrt(int(state["A"].shape[-2]))
    return (x @ transpose(state["A"])) * (x @ transpose(state["G"])) * scale


def _hidden(width: int | None) -> Count:
    return 4 * D_K if width is None else Count("", lambda *_: 1, width)


def _units(width: int | None, d_k: int) -> int:
    return max(1, 4 * d_k) if width is None else width


def _projections(seed: int, width: int | None, state: State) -> dict[str, Array]:
    drawn = _drawn(seed, _units(width, state.d_k), state.d_k)
    arrays = {}
    for name, matrix in zip(("A", "G"), drawn, strict=True):
        array = state.xp.astype(state.xp.asarray(matrix.copy(), device=state.device), state.dtype)
        arrays[name] = state.xp.broadcast_to(array, (*state.batch, *matrix.shape))
    return arrays


@lru_cache(maxsize=8)
def _drawn(seed: int, units: int, d_k: int) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    first = stream(seed, "superposed-mlp", "A").standard_normal((units, d_k))
    second = stream(seed, "superposed-mlp", "G").standard_normal((units, d_k))
    return first, second


register(
    "superposed-mlp",
    Variant(SuperposedMLP, when="outer"),
    Variant(WhitenedMLP, when="whitened"),
    choice=("readout", "the readout: a sum of outer products, or least squares (whitened)"),
    label="superposed MLP",
    colour="#117733",
    article=11,
)
