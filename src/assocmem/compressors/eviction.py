"""Eviction: the rows with the highest scores stay as they are, the others go, or are merged into those that stay."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, field, replace
from typing import Annotated, Any

import numpy as np
from annotated_types import Interval

from assocmem.compressors.cache import Cache, Compressed, Compressor, Floats, Indices
from assocmem.contract.errors import InputError
from assocmem.contract.settings import COUNT, Help
from assocmem.kernels.attention import attention_weights
from assocmem.ruler.ratio import checked_numbers


class Evictor(Compressor):
    """A compressor that keeps rows untouched: those with the highest scores, of equal ones the first."""

    @abstractmethod
    def scores(self, cache: Cache) -> Floats:
        """Return a score for every row of every key head, (h_k, n); infinity for rows that always stay."""

    def compressed(self, cache: Cache, counts: Indices) -> Compressed:
        """Return each head's rows with the highest scores."""
        order = np.argsort(-self.scores(cache), axis=-1, kind="stable")
        return Compressed.of_rows(cache, [ids[:count] for ids, count in zip(order, counts, strict=True)])

    def shared_out(self, cache: Cache, total: int) -> Indices:
        """Return counts so that the rows kept have the highest scores of all heads, after the best one of each."""
        scores = self.scores(cache)
        best = np.argmax(scores, axis=-1)
        scores[np.arange(len(scores)), best] = np.inf
        first = np.argsort(-scores, axis=None, kind="stable")[:total]
        return np.bincount(first // cache.n, minlength=len(scores))


@dataclass(frozen=True)
class RecencyWindow(Evictor):
    """The last rows stay.

    Examples
    --------
    >>> RecencyWindow().compress(Cache(np.eye(4), np.eye(4), np.eye(4)), 2).kept[0].tolist()
    [2, 3]
    """

    def scores(self, cache: Cache) -> Floats:
        """Return the positions."""
        return np.tile(np.arange(cache.n, dtype=np.float64), (len(cache.keys), 1))


@dataclass(frozen=True)
class SinksAndWindow(Evictor):
    """The first rows, which take the weight that no other row wants, and the last ones stay (StreamingLLM).

    Notes
    -----
    Source: Xiao et al. 2023, arXiv:2309.17453, section 3.2: four first tokens beside the window.
    """

    sinks: Annotated[int, Interval(ge=0), Help("first rows that always stay")] = 4

    def scores(self, cache: Cache) -> Floats:
        """Return the positions, infinity for the sinks."""
        places = np.arange(cache.n, dtype=np.float64)
        return np.tile(np.where(places < self.sinks, np.inf, places), (len(cache.keys), 1))


@dataclass(frozen=True)
class RandomRows(Evictor):
    """Rows drawn at random stay: what any other rule has to beat."""

    seed: Annotated[int, Interval(ge=0), Help("of the draw")] = 0

    def scores(self, cache: Cache) -> Floats:
        """Return numbers drawn uniformly."""
        return np.asarray(np.random.default_rng(self.seed).random(cache.keys.shape[:2]))


@dataclass(frozen=True)
class HeavyHitters(Evictor):
    """Rows that got the most attention in all stay, and the last ones (H2O).

    Notes
    -----
    Score: the sum over queries, and over the heads of a group, of the softmax weight. Source: Zhang et al. 2023,
    arXiv:2306.14048, section 4; half of the budget there is a recent window. Deviation: scored once, over all
    queries of the cache, not step by step.
    """

    recent: Annotated[int, Interval(ge=0), Help("last rows that always stay")] = 0

    def scores(self, cache: Cache) -> Floats:
        """Return the summed attention, infinity for the recent rows."""
        total: Floats = cache.attention.sum(axis=1)
        total[:, cache.n - min(self.recent, cache.n) :] = np.inf
        return total


@dataclass(frozen=True)
class KVzip(Evictor):
    """Rows stay that some query needs when the model repeats its context: the score is the largest softmax weight.

    The cache's queries should be those of the model while it repeats the context.

    Notes
    -----
    Source: Kim et al. 2025, arXiv:2505.23416, eq. 2: the maximum over queries and over the heads of a group. There the
    softmax runs over the repeated text as well: give its keys as `repeat_keys`. Deviation: exactly the budget is
    kept, where the authors' strict threshold keeps one row fewer.
    """

    repeat_keys: Annotated[
        Any, Help("keys (h_k, m, d_k) of the repeated text, at the queries' positions, each seen from its position on")
    ] = None

    def scores(self, cache: Cache) -> Floats:
        """Return the largest weight that a query gives."""
        if self.repeat_keys is None:
            return np.asarray(cache.attention.max(axis=1))
        beside, m = checked_numbers(self.repeat_keys, "repeat_keys", 2), cache.queries.shape[1]
        beside = beside[None] if beside.ndim == 2 else beside
        if beside.shape != (len(cache.keys), m, cache.keys.shape[-1]):
            raise InputError(
                f"`repeat_keys` must be {(len(cache.keys), m, cache.keys.shape[-1])}, a key for each query; "
                f"got {beside.shape}."
            )
        own = replace(cache, keys=beside, values=beside, causal=True).seen
        seen = np.concatenate([np.ones((len(own), cache.n), bool) if cache.seen is None else cache.seen, own], axis=-1)
        keys = np.concatenate([cache.keys, beside], axis=-2)
        weights = attention_weights(keys, cache.grouped, cache.scaling, seen)
        return np.asarray(weights[..., : cache.n].max(axis=1))


@dataclass(frozen=True)
class CaM(Compressor):
    """Values of evicted rows are merged into the next rows that stay (Cache Merging), each with a probability.

    Notes
    -----
    v_j <- v_j + z v_i / m for the m rows j that stay next after an evicted row i, z drawn as Bernoulli with probability
    clamp(A_i / mean A_j, 0, 1), A the mean attention of a row. Source: Zhang et al. 2024, "CaM: Cache Merging for
    Memory-efficient LLMs Inference", ICML; the rule is from memory. Keys stay as they are.
    """

    by: Annotated[Evictor, Help("chooses the rows that stay")] = field(default_factory=HeavyHitters)
    into: Annotated[int, COUNT, Help("rows that an evicted one is merged into")] = 8
    seed: Annotated[int, Interval(ge=0), Help("of the draws")] = 0

    def compressed(self, cache: Cache, counts: Indices) -> Compressed:
        """Return the rows that the evictor keeps, the others merged into them."""
        kept, rng = self.by.compressed(cache, counts), np.random.default_rng(self.seed)
        assert kept.kept is not None  # an evictor's rows are the cache's
        values = []
        for ids, v, attention in zip(kept.kept, cache.values, cache.attention.mean(axis=1), strict=True):
            merged = v[ids].copy()
            for gone in np.setdiff1d(np.arange(cache.n), ids):
                after = np.searchsorted(ids, gone)
                into = slice(after, min(after + self.into, len(ids)))
                if into.stop > into.start:
                    near = attention[ids[into]].mean()
                    probability = 1.0 if near == 0 else min(attention[gone] / near, 1.0)
                    merged[into] += (rng.random() < probability) * v[gone] / (into.stop - into.start)
            values.append(merged)
        return replace(kept, values=tuple(values))

    def shared_out(self, cache: Cache, total: int) -> Indices:
        """Return the evictor's counts."""
        return self.by.shared_out(cache, total)
