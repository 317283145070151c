"""Attention matching: few keys, biases and values, fitted so that outputs and masses stay what they were."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np

from assocmem.compressors.cache import Cache, Compressed, Compressor, Floats, Indices
from assocmem.contract.settings import NOT_NEGATIVE, Help

STRENGTHS: Mapping[str, Callable[[Floats], Floats]] = {
    "max": lambda weights: np.max(weights, axis=0),
    "mean": lambda weights: np.mean(weights, axis=0),
    "rms": lambda weights: np.sqrt(np.mean(weights**2, axis=0)),
}
SMALLEST = 1e-12
"""The share of a row that the fit of masses gives no weight to (the authors' clamp)."""


@dataclass(frozen=True)
class AttentionMatching(Compressor):
    """Keys are chosen, then biases and values solve two least-squares problems over the cache's queries.

    Notes
    -----
    1. t keys c_j of the cache are chosen. 2. B >= 0 with sum_j B_j e^(q.c_j) near sum_i e^(q.k_i) for every query q,
    each row in units of its largest term; the bias is ln B. 3. Values: softmax(q.C + ln B) C_2 near softmax(q.K) V. As
    both the outputs and the masses match, the smaller cache merges with other shards (`contract.recall.merge`).
    Cost: a solve with t columns over the g m queries of a key head, and for omp t of them.
    Source: Zweiger et al. 2026, arXiv:2602.16284; `solve="clamped"` (least squares, then no less than 1e-12) is the
    authors' default, "nnls" the problem that it stands for.

    Examples
    --------
    >>> keys, values = np.repeat(np.eye(3), 2, axis=0), np.arange(6.0)[:, None]
    >>> small = AttentionMatching("omp").compress(Cache(keys, values, np.random.default_rng(0).normal(size=(9, 3))), 3)
    >>> np.exp(small.bias[0]).round(6).tolist(), small.values[0].ravel().round(6).tolist()
    ([2.0, 2.0, 2.0], [0.5, 2.5, 4.5])
    """

    select: Annotated[
        Literal["max", "mean", "rms", "omp"],
        Help("how keys are chosen: by the largest, mean or rms attention, or by matching pursuit on the masses"),
    ] = "max"
    solve: Annotated[Literal["clamped", "nnls"], Help("how biases are fitted")] = "clamped"
    ridge: Annotated[float, NOT_NEGATIVE, Help("weight of the squared values in their fit")] = 0.0

    def compressed(self, cache: Cache, counts: Indices) -> Compressed:
        """Return chosen keys with fitted biases and values."""
        kept, biases, values = [], [], []
        for head, count in enumerate(counts):
            attention = cache.attention[head]
            terms = attention / attention.max(axis=-1, keepdims=True)
            masses = terms.sum(axis=-1)
            if self.select == "omp":
                ids, shares = self._pursued(terms, masses, int(count))
            else:
                strength = STRENGTHS[self.select](attention)
                ids = np.sort(np.argsort(-strength, kind="stable")[:count])
                shares = self._shares(terms[:, ids], masses)
            weights = terms[:, ids] * shares
            weights /= weights.sum(axis=-1, keepdims=True)
            kept.append(ids)
            biases.append(np.log(shares))
            values.append(_least_squares(weights, attention @ cache.values[head], self.ridge))
        chosen = Compressed.of_rows(cache, kept)
        return Compressed(chosen.keys, tuple(values), tuple(biases), None, chosen.scaling, chosen.of)

    def _shares(self, terms: Floats, masses: Floats) -> Floats:
        """Return B (t,) with terms @ B near the masses."""
        if self.solve == "nnls":
            from scipy.optimize import nnls  # loaded where it is asked for

            return np.asarray(np.maximum(nnls(terms, masses)[0], SMALLEST))
        return np.asarray(np.maximum(np.linalg.lstsq(terms, masses, rcond=None)[0], SMALLEST))

    def _pursued(self, terms: Floats, masses: Floats, count: int) -> tuple[Indices, Floats]:
        """Return the keys of orthogonal matching pursuit on the masses, one after another, and their shares."""
        chosen: list[int] = []
        left, shares = masses, np.empty(0)
        for _ in range(count):
            gain = left @ terms / np.linalg.norm(terms, axis=0)
            gain[chosen] = -np.inf
            chosen.append(int(np.argmax(gain)))
            shares = self._shares(terms[:, chosen], masses)
            left = masses - terms[:, chosen] @ shares
        order = np.argsort(chosen)
        return np.asarray(chosen, np.int64)[order], shares[order]


def _least_squares(weights: Floats, wanted: Floats, ridge: float) -> Floats:
    """Return the values (t, d_v) that `weights` (m, t) read as `wanted` (m, d_v), of smallest norm where many do."""
    if ridge:
        weights = np.concatenate([weights, np.sqrt(ridge) * np.eye(weights.shape[1])])
        wanted = np.concatenate([wanted, np.zeros((weights.shape[1], wanted.shape[1]))])
    return np.asarray(np.linalg.lstsq(weights, wanted, rcond=None)[0])
