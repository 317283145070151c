"""The exponential cut to the first terms of its power series, read through the pairs or through explicit features."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

from annotated_types import Interval

from assocmem.contract.arrays import Array, transpose
from assocmem.contract.cost import D_K, D_V, Cost, N, by_width
from assocmem.contract.errors import InputError
from assocmem.contract.form import KernelSum
from assocmem.contract.recall import Ask, Recall
from assocmem.contract.register import Variant, register
from assocmem.contract.settings import COUNT, NOT_NEGATIVE, Help
from assocmem.contract.state import State
from assocmem.contract.store import Store
from assocmem.contract.traits import Capabilities, Source, Traits
from assocmem.kernels.blockwise import in_dtype, item_count
from assocmem.kernels.weighted_sum import CAN, summed
from assocmem.maps.activations import ExpSeries
from assocmem.maps.features import ExpSeriesFeatures

KELES = Source(
    title="On The Computational Complexity of Self-Attention",
    authors="Keles, Feyza Duman and Wijewardena, Pruthuvi Mahesakya and Hegde, Chinmay",
    year=2023,
    venue="ALT 2023",
    arxiv="2209.04881",
    equation="exp(s) replaced by its Taylor polynomial",
    deviations=("not normalised: a common divisor changes no ratio", "features are the distinct monomials only"),
)

Terms = Annotated[
    int,
    Interval(ge=1, le=1000),
    Help(
        "terms of the power series: 1 gives every weight 1, 2 gives 1 + beta s, more approach e^(beta s), softmax "
        "attention without its normaliser"
    ),
]
Beta = Annotated[float | None, NOT_NEGATIVE, Help("sharpness on unit keys", none="sqrt(d_k)")]
BLOCK_NUMBERS = 2**20
"""Features held at a time while pairs are written or queries answered (at least one row of them)."""


@dataclass(frozen=True)
class TruncatedExp(Store):
    """f(x) = sum_i σ(k_i . x) v_i with σ(s) = sum over p < terms of (beta s)^p / p!.

    An even number of terms makes σ negative at similarities far below 0, so a memory can count against its value;
    an odd number never does. Nothing is divided by the sum of the weights, which with an even number of terms may
    be 0.

    Notes
    -----
    State: keys (n, d_k) and values (n, d_v). Cost: n (d_k + d_v + terms) multiply-adds per recall.
    `TruncatedExpFeatures` gives the same recall from a state that does not grow.
    Source: Keles et al. 2023, who bound attention with a finite Taylor series of the exponential in this way;
    deviation: not normalised, which no ratio can see.

    Examples
    --------
    >>> import numpy as np
    >>> store = TruncatedExp(terms=3, beta=2.0)
    >>> state = store.write(store.empty(2, 1), np.eye(2)[:1], np.array([[1.0]]))
    >>> store.recall(state, np.array([[1.0, 0.0], [0.0, 1.0], [-0.5, 0.0]])).tolist()
    [[5.0], [1.0], [0.5]]
    """

    terms: Terms = 4
    beta: Beta = None

    equation = "f(x) = V^T σ(K x), σ(s) = sum_{p<terms} (beta s)^p / p!"
    summary = "The exponential cut to its first terms, over the pairs."
    source = KELES
    cost = Cost(D_K + D_V, N * (D_K + D_V), note="a write copies the pair")
    capabilities = CAN
    traits = Traits(
        linear_in_values="shared", permutation_invariant=True, overwrite="adds", constant_size=False, keeps_pairs=True
    )

    def form(self, d_k: int) -> KernelSum:
        return KernelSum(_series(self.terms, self.beta, d_k))

    def get(self, state: State, queries: Array, ask: Ask) -> Recall:
        sigma = _series(self.terms, self.beta, state.d_k)

        def weigh(x: Array, pairs: slice) -> Array:
            return sigma(x @ transpose(in_dtype(state["keys"][..., pairs, :], x.dtype, state.xp)))

        return summed(self.name, weigh, state["values"], queries, ask)


@dataclass(frozen=True)
class TruncatedExpFeatures(Store):
    """f(x) = W φ(x), W = sum_i v_i φ(k_i)^T, where φ(q) . φ(k) = sum over p < terms of (beta q.k)^p / p!.

    φ lists every monomial of degree below `terms` (symmetric tensor powers), so it is exact; the recall is that of
    `TruncatedExp`, to rounding. There are dphi = C(d_k + terms - 1, terms - 1) of them, growing like d_k^(terms-1):
    64 wide 65, 2145, 47905, 814385 for 2 to 5 terms.

    Notes
    -----
    State: W (d_v, dphi). Cost: dphi d_v multiply-adds per write and per recall.

    Examples
    --------
    >>> import numpy as np
    >>> store = TruncatedExpFeatures(terms=3, beta=2.0)
    >>> state = store.write(store.empty(2, 1), np.eye(2)[:1], np.array([[1.0]]))
    >>> store.recall(state, np.array([[1.0, 0.0], [0.0, 1.0]])).round(12).tolist(), state.size
    ([[5.0], [1.0]], 6)
    """

    terms: Terms = 4
    beta: Beta = None
    max_features: Annotated[int, COUNT, Help("largest number of features dphi that `empty` accepts")] = 200_000

    equation = "f(x) = (sum_i v_i φ(k_i)^T) φ(x), φ(q).φ(k) = sum_{p<terms} (beta q.k)^p / p!"
    summary = "The exponential cut to its first terms, in a state that does not grow."
    source = KELES
    capabilities = Capabilities(merges="adds", forgets=True)
    traits = Traits(linear_in_values="shared", permutation_invariant=True, overwrite="adds", constant_size=True)

    @property
    def cost(self) -> Cost:  # type: ignore[override]
        more = self.terms - 1
        width = by_width(f"C(d_k + {more}, {more})", lambda d_k: math.comb(d_k + more, more))
        return Cost(width * D_V, width * D_V)

    def form(self, d_k: int) -> KernelSum:
        return KernelSum(_series(self.terms, self.beta, d_k))

    def init(self, state: State) -> Mapping[str, Array]:
        """Return the zero matrix; InputError where it would have more than max_features columns."""
        width = self._map(state).width(state.d_k)
        if width > self.max_features:
            raise InputError(
                f"{self.name} with {self.terms} terms needs {width:,} features at d_k={state.d_k}, more than "
                f"max_features={self.max_features:,}; take fewer terms, read='pairs', or raise max_features."
            )
        return {"W": state.zeros(state.d_v, width)}

    def put(self, state: State, keys: Array, values: Array, **extras: Array) -> Mapping[str, Array]:
        """Add sum_i v_i φ(k_i)^T, a block of pairs at a time."""
        phi, total = self._map(state), state["W"]
        for at in self._blocks(state, keys):
            total = total + transpose(values[..., at, :]) @ phi(keys[..., at, :])
        return {"W": total}

    def get(self, state: State, queries: Array, ask: Ask) -> Array:
        phi = self._map(state)
        parts = [phi(queries[..., at, :]) @ transpose(state["W"]) for at in self._blocks(state, queries)]
        return parts[0] if len(parts) == 1 else state.xp.concat(parts, axis=-2)

    def _map(self, state: State) -> ExpSeriesFeatures:
        return ExpSeriesFeatures(self.terms, _series(self.terms, self.beta, state.d_k).beta)

    def _blocks(self, state: State, rows: Array) -> list[slice]:
        count = int(rows.shape[-2])
        width = int(state["W"].shape[-1])
        step = max(1, BLOCK_NUMBERS // (width * max(1, item_count(tuple(rows.shape[:-2])))))
        return [slice(start, min(start + step, count)) for start in range(0, count, step)] or [slice(0, 0)]


def _series(terms: int, beta: float | None, d_k: int) -> ExpSeries:
    return ExpSeries(terms, math.sqrt(d_k) if beta is None else float(beta))


register(
    "exp-series",
    Variant(TruncatedExp, when="pairs"),
    Variant(TruncatedExpFeatures, when="features"),
    choice=("read", "through the pairs, or through features in a state that does not grow"),
    label="exponential series",
    article=9,
)
