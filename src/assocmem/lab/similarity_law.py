"""Similarities of independent random unit keys, drawn exactly and in blocks, and σ applied to a block, in place.

Every activation works as it is written; some also have a form without temporary arrays.
"""

from __future__ import annotations

import math
from functools import singledispatch
from itertools import pairwise
from typing import Any

import numpy as np

from assocmem.contract.errors import InputError
from assocmem.contract.random import stream
from assocmem.contract.requirement import is_whole
from assocmem.maps.activations import Activation, Exp, ExpSeries, Linear, ReLU, SwiGLU

FloatArray = np.ndarray[Any, Any]
BLOCK = 65536
BOTH_FROM = 16
FEW_CUTS = 16
PILOT = 8192
ROW = 8192  # BLAS keeps dot products of this length to one thread


class SimilarityLaw:
    """Draws s = <k, x> for unit keys k uniform on the sphere in d dimensions and any unit query x.

    Two coordinates of a uniform unit vector are r cos φ and r sin φ with φ uniform and P(r > t) =
    (1 - t²)^((d-2)/2), so r = sqrt(1 - u^(2/(d-2))) for a uniform u. Each has the exact law of a similarity (density
    proportional to (1 - s²)^((d-3)/2)), but the two depend on each other (their squares correlate by -1/(d-1)), so
    they must go to different trials; below d = 16, where that would show, only the first is used. At d = 2 the
    similarity is cos φ, at d = 1 a sign. u carries 53 bits, so the far tail is drawn as finely as the centre.

    The arrays that `draw` returns are its own buffers, valid until the next draw.

    >>> law = SimilarityLaw(64, np.float64, size=1000)
    >>> first, second = law.draw(np.random.default_rng(0))
    >>> bool(abs(np.mean(first**2) - 1 / 64) < 0.003)
    True
    """

    def __init__(self, d: int, dtype: Any = np.float32, *, size: int = BLOCK) -> None:
        if not is_whole(d):
            raise InputError(f"`d_k` must be a whole number >= 1; got {d!r}.")
        self.d, self.dtype = int(d), np.dtype(dtype)
        self._uniform = np.empty(size)
        self._radius, self._cosine, self._sine = (np.empty(size, self.dtype) for _ in range(3))

    @property
    def streams(self) -> int:
        """How many streams one draw feeds: 2, or 1 where the two coordinates depend too much on each other."""
        return 2 if self.d >= BOTH_FROM else 1

    def draw(self, rng: np.random.Generator) -> tuple[FloatArray, ...]:
        """Return one block of similarities for each stream."""
        u, r, c, s = self._uniform, self._radius, self._cosine, self._sine
        if self.d == 1:
            np.copysign(1.0, np.subtract(rng.random(out=u), 0.5, out=u), out=c, casting="same_kind")
            return (c,)
        if self.d > 2:
            np.subtract(1.0, rng.random(out=u), out=r, casting="same_kind")
            np.log(r, out=r)
            np.multiply(r, self.dtype.type(2 / (self.d - 2)), out=r)
            np.expm1(r, out=r)
            np.sqrt(np.negative(r, out=r), out=r)
        np.multiply(rng.random(out=u), 2 * math.pi, out=s, casting="same_kind")
        np.cos(s, out=c)
        if self.d > 2:
            np.multiply(c, r, out=c)
        if self.streams == 1:
            return (c,)
        np.multiply(np.sin(s, out=s), r, out=s)
        return c, s


class Block:
    """One block of similarities with the buffers that all activations share."""

    def __init__(self) -> None:
        self.s: FloatArray = np.empty(0)
        self._buffers: dict[tuple[Any, ...], FloatArray] = {}
        self._known: dict[tuple[float, int], FloatArray] = {}

    def load(self, s: FloatArray) -> Block:
        """Take the similarities `s` (n,) and forget what was worked out for the last ones."""
        self.s = s
        self._known.clear()
        return self

    def buffer(self, *name: Any) -> FloatArray:
        """Return the scratch array called `name`, of the similarities' length and dtype."""
        key = (*name, self.s.dtype.char, len(self.s))
        if key not in self._buffers:
            self._buffers[key] = np.empty_like(self.s)
        return self._buffers[key]

    def power(self, threshold: float, p: int) -> FloatArray:
        """Return max(0, s - threshold)^p for a whole p >= 1, each power from the one below."""
        key = (threshold, p)
        if key not in self._known:
            out = self.buffer("power", threshold, p)
            if p > 1:
                np.multiply(self.power(threshold, p - 1), self.power(threshold, 1), out=out)
            elif threshold:
                np.maximum(np.subtract(self.s, self.s.dtype.type(threshold), out=out), 0, out=out)
            else:
                np.maximum(self.s, 0, out=out)
            self._known[key] = out
        return self._known[key]


@singledispatch
def weigh(sigma: Activation, block: Block) -> FloatArray:
    """Return σ(s) for the block's similarities (n,); the array may be shared and must not be changed."""
    weights = np.asarray(sigma(block.s))
    if weights.shape != block.s.shape:
        raise InputError(f"σ(s) = {sigma.formula} must return an array of its input's shape; got {weights.shape}.")
    return weights.astype(block.s.dtype, copy=False)


@weigh.register
def _(_: Linear, block: Block) -> FloatArray:
    return block.s


@weigh.register
def _(sigma: ReLU, block: Block) -> FloatArray:
    if sigma.power == int(sigma.power) and sigma.power <= 8:
        return block.power(-sigma.bias, int(sigma.power))
    out: FloatArray = np.power(block.power(-sigma.bias, 1), sigma.power, out=block.buffer("weights"))
    return out


@weigh.register
def _(_: SwiGLU, block: Block) -> FloatArray:
    divisor, out = block.buffer("divisor"), block.buffer("weights")
    np.exp(np.negative(block.s, out=divisor), out=divisor)
    np.add(divisor, 1, out=divisor)
    np.multiply(block.s, block.s, out=out)
    return np.divide(out, divisor, out=out)


@weigh.register
def _(sigma: Exp, block: Block) -> FloatArray:
    out = block.buffer("weights")
    np.multiply(np.subtract(block.s, 1, out=out), block.s.dtype.type(sigma.beta), out=out)
    return np.exp(out, out=out)


@weigh.register
def _(sigma: ExpSeries, block: Block) -> FloatArray:
    out, scaled = block.buffer("weights"), block.buffer("scaled")
    np.multiply(block.s, block.s.dtype.type(sigma.beta), out=scaled)
    out.fill(1)
    for p in range(sigma.terms - 1, 0, -1):
        np.multiply(out, scaled, out=out)
        np.multiply(out, block.s.dtype.type(1 / p), out=out)
        np.add(out, 1, out=out)
    return out


def sums_of_squares(weights: FloatArray, cuts: FloatArray, scratch: FloatArray) -> FloatArray:
    """Return the sums of weights² between successive cuts, in float64.

    Parameters: weights (n,); cuts (k + 1,), strictly rising whole numbers in [0, n]; scratch, like weights.
    Rounding: blockwise in the weights' dtype, below 1e-5 of each sum in float32.
    """
    if len(cuts) <= FEW_CUTS:
        return np.array([_sum_of_squares(weights[a:b]) for a, b in pairwise(cuts)])
    squares = np.multiply(weights, weights, out=scratch)[: cuts[-1]]
    return np.add.reduceat(squares, cuts[:-1]).astype(np.float64)


def _sum_of_squares(weights: FloatArray) -> float:
    total = 0.0
    for start in range(0, len(weights), ROW):
        row = weights[start : start + ROW]
        total += float(np.dot(row, row))
    return total


def dtype_for(sigma: Activation, d: int) -> np.dtype[Any]:
    """Return float32 where it gives the sums of σ² to 1e-5 on a pilot draw, else float64."""
    sums = []
    for dtype in (np.float32, np.float64):
        s = SimilarityLaw(d, np.float32, size=PILOT).draw(stream(0, "pilot", d))[0].astype(dtype)
        with np.errstate(all="ignore"):
            sums.append(_sum_of_squares(weigh(sigma, Block().load(s))))
    close = abs(sums[0] - sums[1]) <= 1e-5 * abs(sums[1]) and sums[1] > 0
    return np.dtype(np.float32 if close else np.float64)
