"""Similarities of independent random unit keys, drawn exactly and in blocks."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from assocmem.contract.errors import InputError
from assocmem.contract.requirement import is_whole

BLOCK = 65536
BOTH_FROM = 16


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

    def draw(self, rng: np.random.Generator) -> tuple[np.ndarray[Any, Any], ...]:
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
