"""A block of similarities that several activations are applied to, in place."""

from __future__ import annotations

from typing import Any

import numpy as np


class Block:
    """A block of NumPy similarities, with the buffers and the powers that all activations applied to it share."""

    def __init__(self) -> None:
        self.s: np.ndarray[Any, Any] = np.empty(0)
        self._buffers: dict[tuple[Any, ...], np.ndarray[Any, Any]] = {}
        self._known: dict[tuple[float, int], np.ndarray[Any, Any]] = {}

    def load(self, s: np.ndarray[Any, Any]) -> Block:
        """Take the similarities `s` (n,) and forget what was worked out for the last ones."""
        self.s = s
        self._known.clear()
        return self

    def buffer(self, *name: Any) -> np.ndarray[Any, Any]:
        """Return the scratch array called `name`, of the similarities' length and dtype."""
        key = (*name, self.s.dtype.char, len(self.s))
        if key not in self._buffers:
            self._buffers[key] = np.empty_like(self.s)
        return self._buffers[key]

    def power(self, threshold: float, p: int) -> np.ndarray[Any, Any]:
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
