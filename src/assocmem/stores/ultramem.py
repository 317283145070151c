"""UltraMem: a grid of slots scored by a Tucker product of two lists of sub-keys, with virtual blocks of one table."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated, Any, Literal

import numpy as np

from assocmem.contract.arrays import Array, to_numpy, transpose
from assocmem.contract.cost import D_K, D_V, Cost, Count
from assocmem.contract.errors import InputError
from assocmem.contract.numbers import stream
from assocmem.contract.register import register
from assocmem.contract.settings import COUNT, NOT_NEGATIVE, POSITIVE, Help
from assocmem.contract.state import State
from assocmem.contract.traits import Source, Traits
from assocmem.kernels.product_keys import half_scores, halves, uniform
from assocmem.kernels.slot_table import SlotTableStore, everywhere
from assocmem.kernels.top_k import softmax, taken, top_of_grid


@dataclass(frozen=True)
class UltraMem(SlotTableStore):
    """f(x) = sum over the k best (i, j) of S_ij D_b V_p, S = S_1 C S_2^T, (b, p) the block and row behind (i, j).

    Every sub-key has r components, S_1 and S_2 (n', r) their products with the halves of x; the core C mixes them. The
    candidates are the k best rows and columns by the scores of C's first pair of singular vectors; among them S decides
    (selection="grid" lets all of them stand). Each of the h cores weighs its own h-th part of the value channels; the
    sum of the cores chooses the slots. The grid has E virtual addresses for each of the n^2 rows: a fixed random
    permutation spreads them, and each block b reads its rows through signs D_b of its own. A key with an empty half has
    scores of 0 and stores nothing.

    Notes
    -----
    State: "first" (r, n', ceil(d_k/2)), "second" (r, n', floor(d_k/2)), n' = sqrt(E) n, "core" (h, r, r), "signs"
    (E, d_v), "values" (n^2, d_v). Cores are uniform on [0, 1) as drawn, so that their first singular vectors are
    positive. Cost: n' r d_k + 2 n' r + k^2 r + k (h r^2 + d_v) multiply-adds a recall.
    Source: Huang et al. 2024, TDQKR, MCS and IVE.

    Examples
    --------
    >>> import numpy as np
    >>> store = UltraMem(sub_keys=8, k=4)
    >>> key = np.full((1, 8), 0.5)
    >>> state = store.write(store.empty(8, 2), key, np.array([[3.0, 3.0]]))
    >>> bool(np.all(store.recall(state, key) > 0)), state["first"].shape
    (True, (2, 16, 4))
    """

    sub_keys: Annotated[int, COUNT, Help("n: the table has n^2 rows")] = 32
    k: Annotated[int, COUNT, Help("slots addressed; all where there are fewer")] = 8
    rank: Annotated[int, COUNT, Help("components r of every sub-key")] = 2
    cores: Annotated[int, COUNT, Help("cores h, each for its part of the value channels")] = 2
    blocks: Annotated[int, COUNT, Help("virtual addresses E of every row, a square number")] = 4
    selection: Annotated[
        Literal["rank-1", "grid"], Help("candidates by the core's first singular vectors, or the whole grid")
    ] = "rank-1"
    weights: Annotated[Literal["score", "softmax"], Help("weights of the chosen: their scores, or softmax of them")] = (
        "score"
    )
    scale: Annotated[float | None, POSITIVE, Help("factor on the products of unit keys", none="sqrt(d_k)")] = None
    seed: Annotated[int, NOT_NEGATIVE, Help("names the drawn sub-keys, cores, signs and permutation")] = 0

    equation = "f(x) = sum_(i,j) in top k S_ij D_b V_p, S = S_1 C S_2^T, (b, p) behind (i, j)"
    summary = "A grid of slots scored by a Tucker product, each table row behind several virtual addresses."
    source = Source(
        title="Ultra-Sparse Memory Network",
        authors="Huang, Zihao and Min, Qiyang and Huang, Hongzhi and Zhu, Defa and Zeng, Yutao and Guo, Ran and Zhou, "
        "Xun",
        year=2024,
        arxiv="2411.12364",
        equation="S_grid = S_row^T C S_col (TDQKR), C = sum of C^(i) (MCS), E virtual blocks (IVE)",
        deviations=(
            "values are written, not trained; trained tables can be loaded",
            "the layer norms of queries and keys are the caller's, as no store rescales silently",
            "the projection of each virtual block is diagonal, random signs as drawn: values have the width that is "
            "recalled",
            "the first singular vectors have a non-negative sum, so that their lists choose the same slots everywhere",
        ),
    )

    @property
    def traits(self) -> Traits:
        """Linear: one row of weights for all channels where there is one core and one block."""
        linear: Literal["shared", "per-channel"] = "shared" if self.cores == self.blocks == 1 else "per-channel"
        return Traits(linear, permutation_invariant=True, overwrite="adds", constant_size=True)

    @property
    def cost(self) -> Cost:  # type: ignore[override]
        n, k, r = self._side, min(self.k, self._side**2), self.rank
        pairs = k * k if self.selection == "rank-1" else n * n
        find = n * r * D_K + Count("", lambda *_: 1, 2 * n * r + pairs * r + k * self.cores * r * r)
        return Cost(find + Count("", lambda *_: 1, k * k) + k * D_V, find + k * D_V)

    def check_together(self) -> None:
        """Refuse a number of blocks that is no square: the grid has sqrt(E) n sub-keys a side."""
        if math.isqrt(self.blocks) ** 2 != self.blocks:
            raise InputError(
                f"`blocks` of UltraMem is a number of blocks on a square grid: give 1, 4, 9, ...; got {self.blocks}."
            )

    @property
    def _side(self) -> int:
        return math.isqrt(self.blocks) * self.sub_keys

    def slot_count(self, state: State) -> int:
        return self.sub_keys**2

    def drawn(self, state: State) -> Mapping[str, Array]:
        first, second = (
            uniform(self.seed, f"ultramem {name}", (self.rank, self._side, width))
            for name, width in zip(("first", "second"), halves(state.d_k), strict=True)
        )
        core, signs = _drawn(self.seed, self.cores, self.rank, self.blocks, state.d_v)
        named = {"first": first, "second": second, "core": core, "signs": signs}
        return {name: everywhere(state, array) for name, array in named.items()}

    def addressed(self, state: State, x: Array) -> tuple[Array, Array]:
        xp = state.xp
        parts = half_scores(state["first"], state["second"], x, self.scale)
        one, two = (xp.moveaxis(part, -3, -1) for part in parts)  # (..., m, n', r)
        whole = xp.sum(state["core"], axis=-3)[..., None, :, :]
        lists = None
        if self.selection == "rank-1":
            u, v = _leading(whole, state)
            lists = xp.sum(one * u, axis=-1), xp.sum(two * v, axis=-1)
        ids, scores = top_of_grid(one, two, whole, lists, self.k)
        weights = scores[..., None]
        if self.cores > 1:
            rows, columns = taken(one, ids // self._side), taken(two, ids % self._side)
            each = xp.sum(
                (rows[..., None, :, :] @ state["core"][..., None, :, :, :]) * columns[..., None, :, :], axis=-1
            )
            weights = transpose(each)  # (..., m, k, h)
        if self.weights == "softmax":
            weights = transpose(softmax(transpose(weights)))
        if self.cores == self.blocks == 1:
            return ids, weights
        part = xp.asarray(np.arange(state.d_v) * self.cores // max(1, state.d_v), device=state.device)
        weights = xp.take(weights, part, axis=-1) if self.cores > 1 else weights
        if self.blocks > 1:
            virtual = xp.take(
                xp.asarray(_spread(self.seed, self._side**2), device=state.device), xp.reshape(ids, (-1,)), axis=0
            )
            virtual, rows = xp.reshape(virtual, ids.shape), self.sub_keys**2
            signs = state["signs"][..., None, :, :]
            block = xp.astype((virtual // rows)[..., None] == xp.arange(self.blocks, device=state.device), signs.dtype)
            ids, weights = virtual % rows, weights * (block @ signs)
        return ids, weights + xp.zeros_like(state["signs"][..., None, :1, :])


def _leading(core: Array, state: State) -> tuple[Array, Array]:
    """Return the first left and right singular vectors (..., 1, r) of the core (..., 1, r, r), their sum >= 0."""
    left, _, right = np.linalg.svd(to_numpy(core).astype(np.float64))
    u, v = left[..., :, 0], right[..., 0, :]
    sign = np.where(u.sum(axis=-1, keepdims=True) < 0, -1.0, 1.0)
    made = (state.xp.asarray(one * sign, device=state.device, dtype=state.dtype)[..., None, :] for one in (u, v))
    return next(made), next(made)


@lru_cache(maxsize=8)
def _drawn(seed: int, cores: int, rank: int, blocks: int, d_v: int) -> tuple[np.ndarray[Any, Any], ...]:
    core = stream(seed, "ultramem", "core").uniform(0, 1, (cores, rank, rank))
    signs = stream(seed, "ultramem", "signs").choice([-1.0, 1.0], (blocks, d_v))
    return core, signs if blocks > 1 else np.ones_like(signs)


@lru_cache(maxsize=4)
def _spread(seed: int, addresses: int) -> np.ndarray[Any, Any]:
    """Return the row behind each virtual address: a permutation, the block being the quotient by the table's rows."""
    return stream(seed, "ultramem", "spread").permutation(addresses)


register("ultramem", UltraMem, label="UltraMem")
