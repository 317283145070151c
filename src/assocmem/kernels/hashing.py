"""Hashes of the last few token ids, with a prime for every table."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np

from assocmem.contract import arrays as ar
from assocmem.contract.arrays import Array
from assocmem.contract.numbers import stream


@lru_cache(maxsize=32)
def next_primes(least: int, count: int) -> tuple[int, ...]:
    """Return the first `count` primes >= `least`, rising.

    >>> next_primes(8, 3)
    (11, 13, 17)
    """
    found: list[int] = []
    number = max(2, least)
    while len(found) < count:
        if all(number % i for i in range(2, math.isqrt(number) + 1)):
            found.append(number)
        number += 1
    return tuple(found)


@lru_cache(maxsize=32)
def odd_multipliers(seed: int, count: int, below: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Return odd whole numbers whose products with ids 0 .. `below` - 1 stay in 63 bits, from the seed's own stream."""
    half = (2**63 - 1) // max(1, below - 1) // 2
    return 2 * stream(seed, "multipliers").integers(0, max(1, half), count) + 1


def mixed(ids: Array, multipliers: np.ndarray[Any, np.dtype[np.int64]]) -> Array:
    """Return t_0 a_0 xor t_1 a_1 xor ... of ids (..., n), t_0 the last of them: whole numbers in [0, 2^63).

    >>> mixed(np.array([[5, 7]]), np.array([3, 9])).tolist(), 7 * 3 ^ 5 * 9
    ([56], 56)
    """
    xp = ar.namespace(ids)
    n = int(ids.shape[-1])
    wide = xp.astype(ids, xp.int64)
    total = wide[..., n - 1] * int(multipliers[0])
    for back in range(1, n):
        total = xp.bitwise_xor(total, wide[..., n - 1 - back] * int(multipliers[back]))
    return total
