"""Softmax attention: all pairs are kept, and a query's weights over them sum to one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np

from assocmem.contract import arrays as ar
from assocmem.contract.arrays import Array
from assocmem.contract.errors import InputError
from assocmem.contract.form import KernelSum
from assocmem.contract.recall import Ask, Causal, Dense, Recall, Visible
from assocmem.contract.register import register
from assocmem.contract.slots import GrowingStore
from assocmem.contract.state import State
from assocmem.contract.traits import Capabilities, Option, Source, Traits
from assocmem.kernels.attention import Beta, attend, attention_weights
from assocmem.kernels.blockwise import in_dtype, item_count
from assocmem.maps.sharpness import POLICIES, Constant, ScalableSoftmax, Sharpness, as_sharpness

COUNT_BLOCK = 2**20
"""Entries of a mask that are counted at once."""


@dataclass(frozen=True)
class SoftmaxAttention(GrowingStore):
    """f(x) = V^T softmax(beta(n) K x): the values' mean, weighted by e^(beta k.x) over the pairs that x can see.

    sharpness: the policy beta(n); also a number >= 0 (constant), None (sqrt(d_k)) or a policy's name. beta
        multiplies similarities of unit keys. beta = 0 gives the plain mean, beta = inf the limit: the pairs with
        exactly the largest similarity share equally. At n = 1 the weight is exactly 1.
    count: what n is. "visible": the pairs that the query can see, so that n follows causal position and restarts
        with every segment of a mask; "stored": all pairs of the state. They differ only under a mask.

    State: keys (n, d_k) and values (n, d_v). Cost: nothing but the copy per write, n (d_k + d_v) multiply-adds per
    recall, some megabytes of working memory whatever n and the number of queries are. A query that sees nothing
    recalls zeros (not NaN), with a mass of -inf and weights 0. Half precision is computed in float32; logits that
    float32 does not hold to four digits are computed again in float64; beyond that RecallOverflowError is raised.
    Large recalls of plain NumPy arrays use several threads (`kernels.compute.thread_count`). A gradient at beta = inf
    flows through the values alone.
    A recall takes `n_total`, the number of pairs of all shards together that a query can see: a whole number >= 0, or
    one for each query. Without it n is counted in this state; the mass of a sharpness that depends on n needs it, as
    shards recalled with their own n would merge into something else than the whole.
    Source: Vaswani et al. 2017 (eq. 1). Sharpness that grows with n: `maps.sharpness`.

    >>> import numpy as np
    >>> store = SoftmaxAttention(2.0)
    >>> state = store.write(store.empty(2, 1), np.eye(2), np.array([[3.0], [5.0]]))
    >>> store.recall(state, np.array([[0.0, 1.0]])).round(4).tolist()
    [[4.7616]]
    >>> SoftmaxAttention(np.inf).recall(state, np.array([[0.6, 0.8], [1.0, 1.0]])).tolist()
    [[5.0], [4.0]]
    """

    sharpness: Sharpness = field(default_factory=Constant)
    count: Literal["visible", "stored"] = "visible"

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
    cost = "write d_k + d_v (copied), recall n (d_k + d_v)"
    capabilities = Capabilities(masks=True, gives=("weights", "mass"), merges="appends", scan="causal")

    def __post_init__(self) -> None:
        value = float(self.sharpness) if isinstance(self.sharpness, np.number) else self.sharpness
        object.__setattr__(self, "sharpness", as_sharpness(value))
        if self.count not in ("visible", "stored"):
            raise InputError(f"`count` of SoftmaxAttention must be 'visible' or 'stored'; got {self.count!r}.")

    @property
    def traits(self) -> Traits:
        """Linear with shared weights, permutation-invariant, averaging, growing; takes masks."""
        return _TRAITS

    def form(self, d_k: int) -> KernelSum:
        """Return σ(s) = e^(beta(n) (s - 1)), normalised."""
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
        found = attend(state["keys"], state["values"], queries, beta, ask.visible)
        if "weights" not in ask.want:
            return found
        return replace(found, weights=Dense(attention_weights(state["keys"], queries, beta, ask.visible)))

    def _beta(self, state: State, queries: Array, visible: Visible, counts: Any = None) -> Beta:
        """Return the sharpness, one number or one for each query where n differs between them."""
        if not self.sharpness.depends_on_n:
            return self.sharpness.checked(1, state.d_k)
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


_TRAITS = Traits(
    linear_in_values="shared",
    permutation_invariant=True,
    overwrite="averages",
    constant_size=False,
    keeps_pairs=True,
    options=(
        Option(
            "n_total",
            "number of pairs of all shards together that a query can see, where the sharpness depends on it",
            low=0,
            whole=True,
            per_query=True,
        ),
    ),
)


def softmax(
    beta: float | None = None,
    sharpness: Sharpness | str | None = None,
    reference: float | None = None,
    s: float | None = None,
    count: Literal["visible", "stored"] = "visible",
) -> SoftmaxAttention:
    """Return SoftmaxAttention by plain settings.

    Parameters
    ----------
    beta: sharpness on unit keys, a number >= 0 (inf for argmax); sqrt(d_k) where left out. Under a policy with a
        reference length it is the sharpness at that length.
    sharpness: "constant" (default), "log-n", "qwen", "yarn", "ssmax", or a Sharpness (then give nothing else of it).
    reference: the length L of "log-n", "qwen" and "yarn", a number of memories > 1; 1024 where left out.
    s: the scale of "ssmax", s ln n.
    count: what n is, "visible" or "stored".

    Raises InputError for a setting that the policy does not have.

    >>> softmax(beta=8.0, sharpness="log-n", reference=1024).sharpness
    LogN(reference=1024, at_reference=8.0)
    """
    given = {"beta": beta, "reference": reference, "s": s}
    if sharpness is None:
        sharpness = "constant"
    if isinstance(sharpness, Sharpness):
        _refuse(given, type(sharpness).__name__)
        return SoftmaxAttention(sharpness, count)
    if isinstance(beta, np.number):
        beta = float(beta)
    if sharpness == "constant":
        _refuse({"reference": reference, "s": s}, sharpness)
        return SoftmaxAttention(Constant(beta), count)
    if sharpness == "ssmax":
        _refuse({"beta": beta, "reference": reference}, sharpness)
        if s is None:
            raise InputError("the sharpness 'ssmax' needs `s`, the scale of s ln n, a number > 0.")
        return SoftmaxAttention(ScalableSoftmax(s), count)
    if not isinstance(sharpness, str) or sharpness not in POLICIES:
        raise InputError(f"`sharpness` must be one of {', '.join(POLICIES)}, or a Sharpness; got {sharpness!r}.")
    _refuse({"s": s}, sharpness)
    policy: Callable[..., Sharpness] = POLICIES[sharpness]
    settings = {} if reference is None else {"reference": reference}
    return SoftmaxAttention(policy(at_reference=beta, **settings), count)


def _refuse(given: dict[str, Any], policy: str) -> None:
    for name, value in given.items():
        if value is not None:
            raise InputError(f"the sharpness {policy!r} has no setting `{name}`; leave it out.")


register(
    "softmax",
    softmax,
    summary=SoftmaxAttention.summary,
    options={
        "beta": "sharpness on unit keys, a number >= 0 or inf (argmax); sqrt(d_k) by default",
        "sharpness": "how beta follows the number of memories: constant, log-n, qwen, yarn or ssmax",
        "reference": "the length L at which log-n, qwen and yarn have sharpness beta; 1024 by default",
        "s": "the scale of ssmax, s ln n",
        "count": "which memories n counts: visible (to the query) or stored",
    },
    article=10,
)
