"""Attention to the nearest pairs of a large memory: by itself, or beside a local window that is attended to whole."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any

from annotated_types import Interval

from assocmem.contract.arrays import Array, device_of, namespace, transpose
from assocmem.contract.cost import D_K, D_V, Cost, N
from assocmem.contract.form import KernelSum, TopK
from assocmem.contract.recall import Ask, Recall
from assocmem.contract.recall import TopK as Chosen
from assocmem.contract.register import register
from assocmem.contract.settings import COUNT, NOT_NEGATIVE, Help
from assocmem.contract.slots import Slots
from assocmem.contract.state import State
from assocmem.contract.store import Store
from assocmem.contract.traits import Capabilities, Source, Traits
from assocmem.kernels.attention import attend
from assocmem.kernels.blockwise import in_dtype, working_dtype
from assocmem.maps.activations import Constant

GATHERED = 2**20
"""Numbers of values that are gathered at once (at least those of one query)."""
MOST_LOG = 60.0
"""Logarithm above which rows that were not looked at may have all of the mass."""

Nearest = Annotated[int, COUNT, Help("pairs of the memory that each query attends to; all where there are fewer")]
Beta = Annotated[float | None, NOT_NEGATIVE, Help("sharpness on unit keys", none="sqrt(d_k)")]

CAN = Capabilities(
    gives=("weights",),
    merges="appends",
    not_merged="the nearest of all pairs are not those of each shard",
    selects=True,
)
TRAITS = Traits("shared", False, "averages", constant_size=False, keeps_pairs=True)
"""Of equal keys the first stored are taken, so that their order tells where there are more than k."""


@dataclass(frozen=True)
class NearestNeighbours(Store):
    """f(x) = V^T softmax(beta K x) over the k keys most similar to x alone.

    A memory of any size is searched for the k nearest, exactly, and of equal ones those stored first are taken; with k
    at least as large as the memory it is softmax attention. What the softmax over all pairs would give to those left
    out is its dropped mass m: the recall is off from that of softmax attention by at most 2 m max |v|. Every recall
    says how large m can be (`Recall.dropped`), for those left out are no more similar than the last one taken, or,
    with `IndexSlots`, than the cells allow that were not read; `dropped_mass` counts it.

    Notes
    -----
    State: keys (n, d_k) and values (n, d_v), in memory, in files (`MappedSlots`) or behind an index (`IndexSlots`).
    Cost: nothing but the copy per write; n d_k + k d_v multiply-adds per recall, n d_k more for `dropped_mass`.

    Examples
    --------
    >>> import numpy as np
    >>> store = NearestNeighbours(k=2, beta=2.0)
    >>> state = store.write(store.empty(2, 1), np.array([[1.0, 0.0], [0.6, 0.8], [-1.0, 0.0]]), np.eye(3)[:, :1] * 3)
    >>> found = store.ask(state, np.array([[1.0, 0.0]]))
    >>> found.values.round(4).tolist(), found.dropped.round(4).tolist()
    ([[2.0699]], [0.2367])
    >>> store.dropped_mass(state, np.array([[1.0, 0.0]])).round(4).tolist()
    [0.0125]
    """

    k: Nearest = 32
    beta: Beta = None

    equation = "f(x) = V^T softmax(beta K x) over the k nearest keys"
    summary = "Softmax attention to the k nearest pairs of a memory of any size."
    source = Source(
        title="Memorizing Transformers",
        authors="Wu, Yuhuai and Rabe, Markus N. and Hutchins, DeLesley and Szegedy, Christian",
        year=2022,
        arxiv="2203.08913",
        equation="section 3.2: attention to the k nearest (key, value) pairs of an external memory",
        deviations=(
            "the search is exact unless slots have an index, theirs an approximation",
            "beta multiplies similarities of unit keys, the default sqrt(d_k)",
        ),
    )
    capabilities = CAN
    traits = TRAITS

    @property
    def cost(self) -> Cost:  # type: ignore[override]
        return Cost(D_K + D_V, N * D_K + self.k * D_V, note="a write copies the pair")

    def form(self, d_k: int) -> TopK:
        return TopK(self.k, KernelSum(Constant(self.beta), normalised=True))

    def get(self, state: State, queries: Array, ask: Ask) -> Recall:
        """Return the values weighted by the softmax over the k best similarities."""
        beta = _beta(self.beta, state.d_k)
        return _joined([self._block(state, x, beta) for x in _rows(queries, self.k * state.d_v, state)], state)

    def _block(self, state: State, x: Array, beta: float) -> Recall:
        slots = _slots(state)
        k = min(self.k, slots.count)
        ids, found = slots.search(x, k)
        powers, total = _powers(found, beta)
        weights = powers / _one_for_zero(total)
        far, mass = _unread(slots, x, k, beta, found, total)
        rest = (slots.count - k - far) * _least(weights, ids >= 0) + mass
        return Recall(_mixed(slots, ids, weights), Chosen(ids, weights), dropped=rest / (1 + rest))

    def dropped_mass(self, state: State, queries: Array) -> Array:
        """Return the share that softmax attention over all pairs gives to those that each query does not attend to.

        Parameters
        ----------
        state : State
            Of this store.
        queries : array (..., m, d_k)
            In the state's library.

        Returns
        -------
        array (..., m)
            In [0, 1]; 0 where k pairs or fewer are stored.
        """
        beta, xp = _beta(self.beta, state.d_k), state.xp
        x = in_dtype(queries, xp.float64, xp)
        every = attend(state["keys"], state["values"][..., :0], x, beta).mass
        _, found = _slots(state).search(x, min(self.k, state.n))
        if not state.n:
            return xp.zeros(x.shape[:-1], dtype=xp.float64, device=state.device)
        assert every is not None  # attention always has one
        _, total = _powers(found, beta)
        kept = beta * found[..., 0] + xp.log(total[..., 0])
        return xp.where(kept < every.log, -xp.expm1(kept - every.log), xp.zeros_like(kept))


@dataclass(frozen=True)
class MemorizingTransformer(Store):
    """f(x) = g f_memory(x) + (1 - g) f_local(x): the k nearest of old pairs, and the newest ones all together.

    The newest `window` pairs are local and attended to by softmax attention; all older ones are the memory, of which
    each query attends to the k nearest by a softmax of their own. The gate is g = sigmoid(bias), a learned number of
    each head in the paper; with bias None both share one softmax, which is the gate whose logit is the difference of
    their log-sum-exps, another one for every query. Where nothing is in the memory yet, only the local pairs count.

    `Recall.dropped` bounds the share of the memory's softmax (times g), or of the joint one, that went to older pairs
    which were not taken: with k at least as large as the memory the recall would be off by at most 2 dropped max |v|.

    Notes
    -----
    State: keys (n, d_k) and values (n, d_v). Cost: (n + window) d_k + (k + 2 window) d_v multiply-adds per recall.

    Examples
    --------
    >>> import numpy as np
    >>> store = MemorizingTransformer(k=1, window=1, beta=0.0)
    >>> state = store.write(store.empty(2, 1), np.array([[1.0, 0.0], [0.6, 0.8], [0.0, 1.0]]), np.eye(3)[:, :1] * 4)
    >>> store.recall(state, np.array([[1.0, 0.0]])).tolist()
    [[2.0]]
    """

    k: Nearest = 32
    window: Annotated[int, COUNT, Help("newest pairs, which are attended to locally")] = 512
    bias: Annotated[
        float | None, Interval(), Help("logit of the gate, the memory's share", none="one softmax over both")
    ] = 0.0
    beta: Beta = None

    equation = "f(x) = g V_m^T softmax(beta K_m x) + (1 - g) V_l^T softmax(beta K_l x), g = sigmoid(bias)"
    summary = "The k nearest of a large memory beside a local window, behind a gate."
    source = Source(
        title="Memorizing Transformers",
        authors="Wu, Yuhuai and Rabe, Markus N. and Hutchins, DeLesley and Szegedy, Christian",
        year=2022,
        arxiv="2203.08913",
        equation="V_a = V_m g + V_c (1 - g), g = sigmoid(b_g)",
        deviations=(
            "the search is exact unless slots have an index, theirs an approximation",
            "the local window slides, theirs ends with its segment",
            "beta multiplies similarities of unit keys, the default sqrt(d_k)",
            "one softmax over both (bias None) is that of other implementations",
        ),
    )
    capabilities = CAN
    traits = TRAITS

    @property
    def cost(self) -> Cost:  # type: ignore[override]
        recall = N * D_K + self.window * D_K + (self.k + 2 * self.window) * D_V
        return Cost(D_K + D_V, recall, note="a write copies the pair")

    def get(self, state: State, queries: Array, ask: Ask) -> Recall:
        """Return both parts under their gate, a block of queries at a time."""
        beta = _beta(self.beta, state.d_k)
        width = (self.k + 2 * self.window) * state.d_v
        return _joined([self._block(state, x, beta) for x in _rows(queries, width, state)], state)

    def _block(self, state: State, x: Array, beta: float) -> Recall:
        slots, xp = _slots(state), state.xp
        old = max(0, state.n - self.window)
        near = slice(old, state.n)
        # Among the k + window most similar of all pairs are at least the k most similar of the old ones.
        k = min(self.k + self.window, state.n) if old else 0
        ids, found = slots.search(x, k)
        taken = ids < old
        taken = taken & (xp.cumulative_sum(xp.astype(taken, xp.int64), axis=-1) <= self.k)
        nothing = xp.full_like(found, -float("inf"))
        local = x @ transpose(in_dtype(slots["keys"][..., near, :], x.dtype, xp))
        parts = [xp.where(taken, found, nothing), local]
        here = xp.broadcast_to(xp.arange(old, state.n, device=device_of(ids)), local.shape)
        left = old - min(self.k, old)
        if self.bias is None:
            both = xp.concat(parts, axis=-1)
            powers, total = _powers(both, beta)
            weights = powers / _one_for_zero(total)
            rest = left * _least(weights[..., : int(ids.shape[-1])], taken)
            rest = rest + _unread(slots, x, k, beta, both, total)[1]
            dropped = rest / (1 + rest)
        else:
            share = 1 / (1 + math.exp(-self.bias)) if old else 0.0
            (memory, of_memory), (window, of_window) = (_powers(part, beta) for part in parts)
            memory = memory / _one_for_zero(of_memory)
            rest = left * _least(memory, taken) + _unread(slots, x, k, beta, parts[0], of_memory)[1]
            dropped = share * rest / (1 + rest)
            weights = xp.concat([share * memory, (1 - share) * window / _one_for_zero(of_window)], axis=-1)
        ids = xp.concat([ids, here], axis=-1)
        return Recall(_mixed(slots, ids, weights), Chosen(ids, weights), dropped=dropped)


def _beta(beta: float | None, d_k: int) -> float:
    return math.sqrt(d_k) if beta is None else float(beta)


def _slots(state: State) -> Slots:
    assert state.slots is not None  # both stores keep their pairs
    return state.slots


def _rows(queries: Array, width: int, state: State) -> Iterator[Array]:
    """Yield the queries in the dtype to compute in, as many at a time as gather GATHERED numbers."""
    x = in_dtype(queries, working_dtype(queries.dtype, state.xp), state.xp)
    items = max(1, math.prod(state.batch)) * max(1, math.prod(x.shape[:-2]))
    step = max(1, GATHERED // (max(1, width) * items))
    m = int(x.shape[-2])
    for start in range(0, max(1, m), step):
        yield x[..., start : min(start + step, m), :]


def _joined(found: list[Recall], state: State) -> Recall:
    if len(found) == 1:
        return found[0]
    xp = state.xp
    chosen = [f.weights for f in found if isinstance(f.weights, Chosen)]
    weights = Chosen(*(xp.concat([getattr(c, name) for c in chosen], axis=-2) for name in ("ids", "weights")))
    dropped = xp.concat([f.dropped for f in found], axis=-1)
    return Recall(xp.concat([f.values for f in found], axis=-2), weights, dropped=dropped)


def _powers(found: Array, beta: float) -> tuple[Array, Array]:
    """Return e^(beta (s - max s)) of each similarity, 0 for -inf, and their sum (..., 1)."""
    xp = namespace(found)
    if not int(found.shape[-1]):
        return found, xp.zeros((*found.shape[:-1], 1), dtype=found.dtype, device=device_of(found))
    peak = xp.max(found, axis=-1, keepdims=True)
    gap = found - xp.where(peak > -float("inf"), peak, xp.zeros_like(peak))
    # At beta = 0 and at infinity the product with a gap of infinity or 0 is no number.
    hidden = gap == -float("inf")
    logits = xp.where((gap == 0) | hidden, gap, beta * xp.where(hidden, xp.zeros_like(gap), gap))
    powers = xp.exp(logits)
    return powers, xp.sum(powers, axis=-1, keepdims=True)


def _one_for_zero(total: Array) -> Array:
    xp = namespace(total)
    return xp.where(total == 0, xp.ones_like(total), total)


def _least(weights: Array, taken: Array) -> Array:
    """Return the smallest weight (..., m) of those taken, 0 where none is."""
    xp = namespace(weights)
    if not int(weights.shape[-1]):
        return xp.sum(weights, axis=-1)
    least = xp.min(xp.where(taken, weights, xp.full_like(weights, float("inf"))), axis=-1)
    return xp.where(least < float("inf"), least, xp.zeros_like(least))


def _unread(slots: Slots, x: Array, k: int, beta: float, found: Array, total: Array) -> tuple[Any, Any]:
    """Return how many rows the search for k did not look at, and their mass at most over `total`, that of `found`."""
    passed = slots.unread(x, k)
    if passed is None:
        return 0, 0.0
    xp = namespace(found)
    counts, most = passed
    gap = most - xp.max(found, axis=-1, keepdims=True)
    powers = xp.exp(xp.clip(xp.where(gap == 0, gap, beta * gap), None, MOST_LOG))
    mass = xp.sum(xp.where(counts > 0, counts * powers, xp.zeros_like(powers)), axis=-1)
    return xp.sum(counts, axis=-1), mass / total[..., 0]


def _mixed(slots: Slots, ids: Array, weights: Array) -> Array:
    """Return the weighted sums (..., m, d_v) of the values of `ids`."""
    xp = namespace(weights)
    values = in_dtype(slots.take("values", ids), weights.dtype, xp)
    return (weights[..., None, :] @ values)[..., 0, :]


register("nearest-neighbours", NearestNeighbours)
register("memorizing-transformer", MemorizingTransformer)
