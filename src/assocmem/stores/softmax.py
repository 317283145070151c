"""Softmax attention: all pairs are kept, and a query's weights over them sum to one."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Annotated, Any, Literal

import numpy as np

from assocmem.contract import arrays as ar
from assocmem.contract.arrays import Array
from assocmem.contract.cost import D_K, D_V, Cost, N
from assocmem.contract.errors import InputError
from assocmem.contract.form import KernelSum
from assocmem.contract.recall import Ask, Causal, Dense, Recall, Visible
from assocmem.contract.register import register
from assocmem.contract.settings import Help
from assocmem.contract.state import State
from assocmem.contract.store import Store
from assocmem.contract.traits import Capabilities, Option, Source, Traits
from assocmem.kernels.attention import Beta, attend, attention_weights
from assocmem.kernels.blockwise import in_dtype, item_count
from assocmem.maps.activations import SHARPNESS, Constant, Sharpness

COUNT_BLOCK = 2**20
"""Entries of a mask that are counted at once."""


@dataclass(frozen=True)
class SoftmaxAttention(Store):
    """f(x) = V^T softmax(beta(n) K x): the values' mean, weighted by e^(beta k.x) over the pairs that x can see.

    beta multiplies similarities of unit keys. beta = 0 gives the plain mean, beta = inf the limit: the pairs with
    exactly the largest similarity share equally. At n = 1 the weight is exactly 1. Counting what is visible lets n
    follow causal position and restart with every segment of a mask; the two counts differ only under a mask.

    Notes
    -----
    State: keys (n, d_k) and values (n, d_v). Cost: nothing but the copy per write, n (d_k + d_v) multiply-adds per
    recall, some megabytes of working memory whatever n and the number of queries are. A query that sees nothing
    recalls zeros (not NaN), with a mass of -inf and weights 0. Half precision is computed in float32; logits that
    float32 does not hold to four digits are computed again in float64; beyond that RecallOverflowError is raised.
    Large recalls of plain NumPy arrays use several threads (`kernels.compute.thread_count`). A gradient at beta = inf
    flows through the values alone.
    A recall takes `n_total`, the number of pairs of all shards together that a query can see: a whole number >= 0, or
    one for each query. Without it n is counted in this state; the mass of a sharpness that depends on n needs it, as
    shards recalled with their own n would merge into something else than the whole.
    Sharpness that grows with n: `assocmem.sharpness`.

    Examples
    --------
    >>> import numpy as np
    >>> store = SoftmaxAttention(2.0)
    >>> state = store.write(store.empty(2, 1), np.eye(2), np.array([[3.0], [5.0]]))
    >>> store.recall(state, np.array([[0.0, 1.0]])).round(4).tolist()
    [[4.7616]]
    >>> SoftmaxAttention(np.inf).recall(state, np.array([[0.6, 0.8], [1.0, 1.0]])).tolist()
    [[5.0], [4.0]]
    """

    sharpness: Annotated[Sharpness, SHARPNESS, Help("how beta follows n; also a number")] = field(
        default_factory=Constant
    )
    count: Annotated[
        Literal["visible", "stored"], Help("what n is: the pairs that the query can see, or all that are stored")
    ] = "visible"

    equation = "f(x) = V^T softmax(beta(n) K x)"
    summary = "Keeps every pair; a softmax over the similarities picks among them."
    source = Source(
        title="Attention Is All You Need",
        authors="Vaswani, Ashish and Shazeer, Noam and Parmar, Niki and Uszkoreit, Jakob and Jones, Llion and "
        "Gomez, Aidan N. and Kaiser, Lukasz and Polosukhin, Illia",
        year=2017,
        arxiv="1706.03762",
        equation="eq. 1: Attention(Q, K, V) = softmax(Q K^T / sqrt(d_k)) V",
        deviations=(
            "beta multiplies the similarity of unit keys; their 1/sqrt(d_k) on keys and queries of length sqrt(d_k) "
            "is beta = sqrt(d_k), the default",
        ),
    )
    cost = Cost(D_K + D_V, N * (D_K + D_V), note="a write copies the pair")
    capabilities = Capabilities(masks=True, gives=("weights", "mass"), merges="appends", selects=True, scan="causal")

    @cached_property
    def traits(self) -> Traits:
        """Linear with shared weights, permutation-invariant, averaging, growing."""
        meaning = "number of pairs of all shards together that a query can see, where the sharpness depends on it"
        idle = not self.sharpness.depends_on_n
        n_total = Option("n_total", meaning, low=0, whole=True, per_query=True, idle=idle)
        return Traits("shared", True, "averages", constant_size=False, keeps_pairs=True, options=(n_total,))

    def form(self, d_k: int) -> KernelSum:
        return KernelSum(self.sharpness, normalised=True)

    def get(self, state: State, queries: Array, ask: Ask) -> Recall:
        """Return V^T softmax(beta K x); its mass is of logits beta k.x without any shift."""
        counts = ask.options.get("n_total")
        if counts is None and "mass" in ask.want and self.sharpness.depends_on_n:
            raise InputError(
                f"`n_total` is needed for the mass of a recall of SoftmaxAttention: {self.sharpness} depends on "
                "the number of memories: give that of all shards together (state.n for a whole memory)."
            )
        beta = self._beta(state, queries, ask.visible, counts)
        found = attend(state["keys"], state["values"], queries, beta, ask.visible, mass="mass" in ask.want)
        if "weights" not in ask.want:
            return found
        return replace(found, weights=Dense(attention_weights(state["keys"], queries, beta, ask.visible)))

    def _beta(self, state: State, queries: Array, visible: Visible, counts: Any = None) -> Beta:
        """Return the sharpness, one number or one for each query where n differs between them."""
        if not self.sharpness.depends_on_n:
            return self.sharpness.checked(2, state.d_k)  # an infinite rule has its sharpness from two memories on
        if counts is None and isinstance(visible, Causal):
            counts = visible.first + np.arange(int(queries.shape[-2]))
        elif counts is None and visible is not None and self.count == "visible":
            counts = _visible_counts(visible)
        if counts is None:
            return self.sharpness.checked(state.n, state.d_k)
        distinct, which = np.unique(np.asarray(counts), return_inverse=True)
        each = np.array([self.sharpness.checked(int(n), state.d_k) for n in distinct], dtype=np.float64)
        return each[which].reshape(np.shape(counts))


def _visible_counts(mask: Array) -> Any:
    """Return how many pairs each query sees, (..., m), in NumPy; block by block."""
    xp = ar.namespace(mask)
    total: Any = 0
    width, rows = int(mask.shape[-1]), item_count(tuple(mask.shape[:-1]))
    step = max(1, COUNT_BLOCK // max(1, rows))
    for start in range(0, width, step):
        block = mask[..., start : min(start + step, width)]
        total = total + ar.to_numpy(xp.sum(in_dtype(block, xp.int64, xp), axis=-1))
    return np.broadcast_to(total, tuple(mask.shape[:-1]))


register("softmax", SoftmaxAttention, colour="#44AA99", article=10, usual=True)
