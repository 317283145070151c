"""Gradient descent with momentum on a matrix, in chunks.

    S_i = m_i S_(i-1) - l W_(i-1) + g_i k_i^T,    W_i = r_i W_(i-1) + S_i

r keeps the matrix, m the last step, l (weight decay inside the gradient) pulls it back, and g_i is what pair i adds.
Where g_i = step_i (v_i - W_(i-1) k_i) the chunk is solved as a whole: with W_i written as a combination of what was
there before the chunk and of the pairs' own steps (`Mixing`),

    (I + diag(step) (shares o K K^T)) G = diag(step) (V - memory K W - push K S).
"""

from __future__ import annotations

import functools
import math
from typing import Any, NamedTuple

import numpy as np

from assocmem.contract import arrays as ar
from assocmem.contract.arrays import Array, transpose
from assocmem.kernels.chunked import decay_products, inverse_unit_lower


class Mixing(NamedTuple):
    """What matrix and step after i pairs of a chunk are made of, i = 0 .. C.

    memory, push: (..., C + 1), shares of W and S before the chunk in W_i. shares: (..., C + 1, C), those of the
    pairs' own g k^T in it. drag, going: (..., C), shares of W and S before the chunk in S_i, i = 1 .. C;
    later: (..., C, C), those of the pairs.
    """

    memory: Array
    push: Array
    shares: Array
    drag: Array
    going: Array
    later: Array

    def first(self, count: int) -> Mixing:
        """Return the mixing of the first `count` pairs."""
        return Mixing(
            self.memory[..., : count + 1],
            self.push[..., : count + 1],
            self.shares[..., : count + 1, :count],
            self.drag[..., :count],
            self.going[..., :count],
            self.later[..., :count, :count],
        )


def gated_mixing(momentum: Array, kept: Array) -> Mixing:
    """Return the mixing of pairs with gates m and r, (..., C) each, and l = 0.

    Products only: gates of exactly 0 or 1 lose nothing.
    """
    xp = ar.namespace(momentum)
    fading, later = decay_products(kept), decay_products(momentum)
    going = momentum[..., :1] * later[..., :, 0]
    none, one = xp.zeros_like(momentum[..., :1]), xp.ones_like(momentum[..., :1])
    return Mixing(
        memory=xp.concat([one, kept[..., :1] * fading[..., :, 0]], axis=-1),
        push=xp.concat([none, (fading @ going[..., None])[..., 0]], axis=-1),
        shares=xp.concat([xp.zeros_like(fading[..., :1, :]), fading @ later], axis=-2),
        drag=xp.zeros_like(going),
        going=going,
        later=later,
    )


@functools.lru_cache(maxsize=64)
def constant_mixing(momentum: float, pull: float, count: int) -> Mixing:
    """Return the mixing, in NumPy float64, of `count` pairs with r = 1, the same m and l = `pull` for all."""
    memory, drag = _unrolled(1.0, 0.0, momentum, pull, count)
    push, going = _unrolled(0.0, 1.0, momentum, pull, count)
    own, later = _unrolled(1.0, 1.0, momentum, pull, max(0, count - 1))
    ages = np.arange(count)[:, None] - np.arange(count)
    below = np.where(ages >= 0, own[np.maximum(ages, 0)], 0.0)
    return Mixing(
        memory=memory,
        push=push,
        shares=np.concatenate([np.zeros((1, count)), below]),
        drag=drag[1:],
        going=going[1:],
        later=np.where(ages >= 0, later[np.maximum(ages, 0)], 0.0),
    )


@functools.lru_cache(maxsize=64)
def age_shares(momentum: float, pull: float, count: int) -> Any:
    """Return how much of g k^T is in W when 0, 1, ... count - 1 further pairs were written: NumPy float64 (count,)."""
    return _unrolled(1.0, 1.0, momentum, pull, max(0, count - 1))[0][:count]


def _unrolled(matrix: float, step: float, momentum: float, pull: float, count: int) -> tuple[Any, Any]:
    """Return W_i and S_i, i = 0 .. count, of one number that nothing is added to."""
    rows = [(matrix, step)]
    for _ in range(count):
        step = momentum * step - pull * matrix
        matrix = matrix + step
        rows.append((matrix, step))
    matrices, steps = np.array(rows, dtype=np.float64).T
    return matrices, steps


def like(mixing: Mixing, x: Array) -> Mixing:
    """Return a NumPy mixing as arrays of the library, dtype and device of `x`."""
    xp = ar.namespace(x)
    return Mixing(*(xp.asarray(a, dtype=x.dtype, device=ar.device_of(x)) for a in mixing))


def write_chunk(
    matrix: Array,
    step: Array,
    keys: Array,
    values: Array,
    rates: Array,
    mixing: Mixing,
    *,
    queries: Array | None = None,
    read: str = "after",
    given: bool = False,
) -> tuple[Array, Array, Array | None]:
    """Write C pairs; return W, S and, with queries (..., C, d_k), the recall after (or before) each pair.

    Parameters
    ----------
    matrix W, step S: (..., d_v, d_k). keys (..., C, d_k), values (..., C, d_v). rates: (..., C), the step_i.
    mixing: of these pairs. given: g_i = step_i v_i in place of step_i (v_i - W_(i-1) k_i).

    Cost per pair: about (2 C + 3 d_v) d_k + 2 C d_v.
    """
    keys_t, early = transpose(keys), slice(None, -1)
    memory, push = mixing.memory[..., None], mixing.push[..., None]
    change = rates[..., None] * values
    if not given:
        old = memory[..., early, :] * (keys @ transpose(matrix)) + push[..., early, :] * (keys @ transpose(step))
        low = rates[..., None] * mixing.shares[..., early, :] * (keys @ keys_t)
        change = inverse_unit_lower(low) @ (change - rates[..., None] * old)
    recalls = None
    if queries is not None:
        at = slice(1, None) if read == "after" else early
        recalls = memory[..., at, :] * (queries @ transpose(matrix)) + push[..., at, :] * (queries @ transpose(step))
        recalls = recalls + (mixing.shares[..., at, :] * (queries @ keys_t)) @ change
    written, stepped = (
        transpose(share[..., None] * change) @ keys for share in (mixing.shares[..., -1, :], mixing.later[..., -1, :])
    )
    return (
        memory[..., -1:, :] * matrix + push[..., -1:, :] * step + written,
        mixing.drag[..., -1:, None] * matrix + mixing.going[..., -1:, None] * step + stepped,
        recalls,
    )


def stable_rate(d_k: int, momentum: Array, forget: Array) -> Array:
    """Return the bound of step |k|^2 up to which errors do not grow, for r = 1 - forget and l = 0; arrays of one shape.

    The smaller of two numbers:

    - (1 + r) (1 + momentum): above it the recall of one key, written again and again, oscillates and grows (the
      matrix [[r - a, momentum], [-a, momentum]] leaves the unit circle);
    - the b > 0 with b^2 (1 + r momentum - 2 r momentum/d) - b (2 r (1 - momentum^2) + 2 momentum (1 - r^2))
      - d (1 - momentum^2) (1 - r momentum) (1 - r^2) = 0: above it the mean square error over independent random
      unit keys in d dimensions grows (the 3 x 3 recursion of |W|^2, <W, S>, |S|^2 has an eigenvalue above 1). Without
      forgetting it is near 2 (1 - momentum) for large d.

    >>> import numpy as np
    >>> stable_rate(1, np.asarray(0.5), np.asarray(0.0)).tolist()
    3.0
    >>> round(stable_rate(64, np.asarray(0.5), np.asarray(0.0)).tolist(), 3)
    1.011
    """
    xp = ar.namespace(momentum, forget)
    kept, rest, size = 1 - forget, 1 - momentum * momentum, max(1, d_k)
    square = 1 + kept * momentum * (1 - 2 / size)
    linear = 2 * kept * rest + 2 * momentum * (1 - kept * kept)
    constant = size * rest * (1 - kept * momentum) * (1 - kept * kept)
    least = float(xp.finfo(momentum.dtype).smallest_normal)
    some = square > least
    root = linear + xp.sqrt(linear * linear + 4 * square * constant + least)
    many = xp.where(some, root / (2 * xp.where(some, square, xp.ones_like(square))), xp.full_like(square, math.inf))
    return xp.minimum((1 + kept) * (1 + momentum), many)
