"""Attention over learned slots: persistent memory beside the context, and a layer that is nothing but such slots."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated, Any, Literal

import numpy as np

from assocmem.contract import arrays as ar
from assocmem.contract.arrays import Array, transpose
from assocmem.contract.cost import D_K, D_V, Cost, Count, N
from assocmem.contract.numbers import stream
from assocmem.contract.recall import Ask, Dense, Recall, merge
from assocmem.contract.register import register
from assocmem.contract.settings import COUNT, NOT_NEGATIVE, Help
from assocmem.contract.slots import Rows
from assocmem.contract.state import State
from assocmem.contract.traits import Capabilities, Source, Traits
from assocmem.kernels.attention import attend, attention_weights
from assocmem.kernels.slot_table import TableStore, everywhere
from assocmem.kernels.top_k import softmax

Seed = Annotated[int, NOT_NEGATIVE, Help("names the drawn arrays")]


@dataclass(frozen=True)
class AllAttention(TableStore):
    """f(x) = [V; U]^T softmax(beta [K; P] x): one softmax over the pairs of the context and N persistent ones.

    The persistent keys P are drawn, their values U zeros, until trained ones are loaded (`loaded`): then an empty
    context is attention over parameters, the layer that replaces the feed-forward one. Worked out as the merge of two
    recalls by their masses, that of the context and that of the persistent pairs.

    Notes
    -----
    State: "persistent_keys" (N, d_k), "persistent_values" (N, d_v), and keys (n, d_k), values (n, d_v) of the context.
    Cost: (n + N) (d_k + d_v) multiply-adds a recall.
    Source: Sukhbaatar et al. 2019.

    Examples
    --------
    >>> import numpy as np
    >>> store = AllAttention(persistent=1, beta=0.0)
    >>> state = store.loaded(store.empty(2, 1), persistent_keys=np.ones((1, 2)), persistent_values=np.array([[8.0]]))
    >>> state = store.write(state, np.eye(2), np.array([[3.0], [4.0]]))
    >>> store.recall(state, np.eye(2)).round(12).tolist()
    [[5.0], [5.0]]
    """

    persistent: Annotated[int, COUNT, Help("persistent pairs N")] = 16
    beta: Annotated[float | None, NOT_NEGATIVE, Help("sharpness for unit keys", none="sqrt(d_k)")] = None
    seed: Seed = 0

    equation = "f(x) = [V; U]^T softmax(beta [K; P] x)"
    summary = "One softmax over the context's pairs and learned persistent ones."
    source = Source(
        title="Augmenting Self-attention with Persistent Memory",
        authors="Sukhbaatar, Sainbayar and Grave, Edouard and Lample, Guillaume and Jégou, Hervé and Joulin, Armand",
        year=2019,
        arxiv="1907.01470",
        equation="eq. 9: attention over [k; m_k], [v; m_v] with N persistent vectors",
        deviations=(
            "persistent values are zeros until loaded, so that a store that holds nothing recalls nothing",
            "their factors sqrt(d) and sqrt(N) on persistent keys and values are part of what is loaded",
            "position embeddings and adaptive spans are left out",
        ),
    )
    capabilities = Capabilities(
        masks=True,
        gives=("weights",),
        merges="appends",
        not_merged="every shard would count the persistent pairs again",
        selects=True,
        scan="causal",
    )
    traits = Traits("shared", True, "averages", constant_size=False, keeps_pairs=True)

    @property
    def cost(self) -> Cost:  # type: ignore[override]
        both = D_K + D_V
        return Cost(both, N * both + self.persistent * both, note="a write copies the pair")

    def init(self, state: State) -> Mapping[str, Array | Rows]:
        keys = everywhere(state, _unit(self.seed, self.persistent, state.d_k))
        values = state.zeros(self.persistent, state.d_v)
        return {**super().init(state), "persistent_keys": keys, "persistent_values": values}

    def put(self, state: State, keys: Array, values: Array, **extras: Array) -> Mapping[str, Array]:
        return {**state.arrays, "keys": keys, "values": values}

    def rows_loaded(self, state: State, names: frozenset[str]) -> int:
        return 0

    def get(self, state: State, queries: Array, ask: Ask) -> Recall:
        beta = _root(state.d_k) if self.beta is None else self.beta
        context = attend(state["keys"], state["values"], queries, beta, ask.visible)
        whole = merge([context, attend(state["persistent_keys"], state["persistent_values"], queries, beta)])
        if "weights" not in ask.want:
            return Recall(whole.values)
        rows = attention_weights(state["keys"], queries, beta, ask.visible)
        assert context.mass is not None  # attention always has one
        assert whole.mass is not None
        share = _exp(context.mass.log - whole.mass.log)
        return Recall(whole.values, Dense(rows * state.xp.astype(share, rows.dtype)[..., None]))


@dataclass(frozen=True)
class AttentionOverParameters(TableStore):
    """f(x) = W_o [softmax(sqrt(H) K_h W_q,h x)^T sqrt(d_v) V_h for each head h]: attention over rows of parameters.

    The layer that took the place of the feed-forward one in versions 2 and 3 of the paper: softmax attention whose keys
    and values are parameters, without the factor 1/sqrt(d). A write adds to every row of V_h in proportion to the
    weight that its key gives it, so that a pair alone comes back exactly; W_q, K and W_o stay as drawn or loaded. W_o
    as drawn lays the heads' outputs over the value channels, one after the other and from the beginning again.

    Notes
    -----
    State: "queries" W_q (H width, d_k), "keys" K (H, rows, width), "values" V (H, rows, w), "out" W_o (d_v, H w).
    Cost: H width d_k + H rows (width + w) + H w d_v multiply-adds a recall.
    Source: Vaswani et al. 2017, versions 2 and 3, and tensor2tensor's code.

    Examples
    --------
    >>> import numpy as np
    >>> store = AttentionOverParameters(heads=8, rows=1536, width=64)
    >>> store.empty(512, 512).size  # as many as the two matrices of the layer that it replaces, 2 x 512 x 2048
    2097152
    >>> store = AttentionOverParameters()
    >>> state = store.write(store.empty(4, 1), np.eye(4)[:1], np.array([[3.0]]))
    >>> store.recall(state, np.eye(4)[:1]).round(12).tolist()
    [[3.0]]
    """

    heads: Annotated[int, COUNT, Help("heads H")] = 8
    rows: Annotated[int, COUNT, Help("rows of parameters in each head")] = 64
    width: Annotated[int | None, COUNT, Help("width of a head's keys and values", none="d_k and d_v")] = None
    seed: Seed = 0

    equation = "f(x) = W_o [softmax(sqrt(H) K_h W_q,h x)^T sqrt(d_v) V_h]_h"
    summary = "Softmax attention over rows of parameters, in the place of a feed-forward layer."
    source = Source(
        title="Attention Is All You Need",
        authors="Vaswani, Ashish and Shazeer, Noam and Parmar, Niki and Uszkoreit, Jakob and Jones, Llion and "
        "Gomez, Aidan N. and Kaiser, Lukasz and Polosukhin, Illia",
        year=2017,
        arxiv="1706.03762",
        equation="versions 2 and 3, appendix: two feed-forward layers = attention over parameters",
        deviations=(
            "V is written, not trained; trained arrays can be loaded",
            "W_o as drawn has one nonzero number a column, so that value channels stay apart",
            "64 rows by default; the paper has 1536 rows in 8 heads or 512 in 16, of width 64",
        ),
    )

    @property
    def traits(self) -> Traits:
        """Linear: where a head has a part of the channels only, others have other weights."""
        whole = self.heads == 1 or self.width is None
        linear: Literal["shared", "per-channel"] = "shared" if whole else "per-channel"
        return Traits(linear, permutation_invariant=True, overwrite="adds", constant_size=True)

    @property
    def cost(self) -> Cost:  # type: ignore[override]
        heads, rows, width = self.heads, self.rows, self.width
        if width is None:
            each = heads * (D_K**2 + D_V**2) + heads * rows * (D_K + D_V)
        else:
            each = heads * width * (D_K + D_V) + Count("", lambda *_: 1, 2 * heads * rows * width)
        return Cost(each + Count("", lambda *_: 1, heads * rows), each)

    def _widths(self, state: State) -> tuple[int, int]:
        if self.width is None:
            return state.d_k, state.d_v
        return self.width, max(self.width, math.ceil(state.d_v / self.heads))

    def init(self, state: State) -> Mapping[str, Array]:
        wide, w = self._widths(state)
        queries, keys = _parameters(self.seed, self.heads, self.rows, wide, state.d_k)
        channels = np.arange(self.heads * w) % max(1, state.d_v)
        out = (channels == np.arange(state.d_v)[:, None]).astype(np.float64)
        out /= np.sqrt(np.maximum(1, out.sum(axis=-1, keepdims=True)))
        arrays = {name: everywhere(state, a) for name, a in (("queries", queries), ("keys", keys), ("out", out))}
        return {**arrays, "values": state.zeros(self.heads, self.rows, w)}

    def rows_loaded(self, state: State, names: frozenset[str]) -> int:
        return self.heads * self.rows if "values" in names else 0

    def weighed(self, state: State, x: Array) -> Array:
        """Return the weights (..., H, m, rows) of keys or queries (..., m, d_k) over each head's rows."""
        wide = self._widths(state)[0]
        lead, m = tuple(int(n) for n in x.shape[:-2]), int(x.shape[-2])
        asked = x @ transpose(state["queries"])
        lead = tuple(int(n) for n in asked.shape[:-2])
        asked = state.xp.moveaxis(state.xp.reshape(asked, (*lead, m, self.heads, wide)), -2, -3)
        return softmax(math.sqrt(self.heads) * (asked @ transpose(state["keys"])))

    def put(self, state: State, keys: Array, values: Array, **extras: Array) -> Mapping[str, Array]:
        xp, w = state.xp, self._widths(state)[1]
        weights = self.weighed(state, keys)
        share = weights / xp.sum(weights * weights, axis=-1, keepdims=True)
        parts = values @ state["out"]
        lead = tuple(int(n) for n in parts.shape[:-1])
        parts = xp.moveaxis(xp.reshape(parts, (*lead, self.heads, w)), -2, -3)
        return {**state.arrays, "values": state["values"] + transpose(share) @ parts * (1 / _root(state.d_v))}

    def get(self, state: State, queries: Array, ask: Ask) -> Array:
        xp, w = state.xp, self._widths(state)[1]
        heads = self.weighed(state, queries) @ state["values"] * _root(state.d_v)
        *lead, _, m, _ = (int(n) for n in heads.shape)
        return xp.reshape(xp.moveaxis(heads, -3, -2), (*lead, m, self.heads * w)) @ transpose(state["out"])


def _root(d: int) -> float:
    return math.sqrt(max(1, d))


def _exp(x: Array) -> Array:
    xp = ar.namespace(x)
    return xp.exp(xp.where(xp.isnan(x), xp.full_like(x, -float("inf")), x))


@lru_cache(maxsize=8)
def _unit(seed: int, count: int, d_k: int) -> np.ndarray[Any, Any]:
    rows = stream(seed, "all-attention").standard_normal((count, d_k))
    return rows / np.linalg.norm(rows, axis=-1, keepdims=True) if d_k else rows


@lru_cache(maxsize=8)
def _parameters(seed: int, heads: int, rows: int, wide: int, d_k: int) -> tuple[np.ndarray[Any, Any], ...]:
    draw = stream(seed, "attention-over-parameters")
    scale = 1 / _root(d_k)
    return scale * draw.standard_normal((heads * wide, d_k)), scale * draw.standard_normal((heads, rows, wide))


register("all-attention", AllAttention)
register("attention-over-parameters", AttentionOverParameters)
