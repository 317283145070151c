"""Addresses by product keys: the k best of all pairs of two lists of sub-keys, for every head."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np

from assocmem.contract import arrays as ar
from assocmem.contract.arrays import Array
from assocmem.contract.numbers import stream
from assocmem.kernels.top_k import softmax, top_of_sums


def halves(d_k: int) -> tuple[int, int]:
    """Return the widths of the two halves of a key; the first has the odd number."""
    return d_k - d_k // 2, d_k // 2


@lru_cache(maxsize=16)
def uniform(seed: int, name: str, shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    """Return numbers uniform in ±1/sqrt(width), the width being the last axis: sub-keys as they are drawn."""
    bound = 1 / math.sqrt(max(1, shape[-1]))
    return stream(seed, name).uniform(-bound, bound, shape)


def half_scores(first: Array, second: Array, x: Array, scale: float | None) -> tuple[Array, Array]:
    """Return the scores (..., heads, m, n) of both halves.

    Parameters
    ----------
    first (*batch, heads, n, ceil(d_k/2)), second (*batch, heads, n, floor(d_k/2)): sub-keys.
    x: keys or queries (..., m, d_k). scale: factor on the scores, None for sqrt(d_k).
    """
    d_k = int(x.shape[-1])
    x = x * (math.sqrt(d_k) if scale is None else scale)
    cut = halves(d_k)[0]
    return x[..., None, :, :cut] @ ar.transpose(first), x[..., None, :, cut:] @ ar.transpose(second)


def product_addresses(
    first: Array, second: Array, x: Array, k: int, scale: float | None, normalise: bool = True
) -> tuple[Array, Array]:
    """Return ids (..., m, heads k) and weights of the k best slots of each head, softmax over each head's k.

    Parameters as in `half_scores`; without `normalise` all weights are 1. Fewer than k where n^2 is less.
    """
    ids, scores = top_of_sums(*half_scores(first, second, x, scale), k)
    weights = softmax(scores) if normalise else ar.namespace(scores).ones_like(scores)
    return side_by_side(ids), side_by_side(weights)


def side_by_side(x: Array) -> Array:
    """Return (..., heads, m, k) as (..., m, heads k)."""
    xp = ar.namespace(x)
    *lead, heads, m, k = (int(n) for n in x.shape)
    return xp.reshape(xp.moveaxis(x, -3, -2), (*lead, m, heads * k))
