"""Which stretch of a stream is which trial: every point of a curve reads the same stream, no number twice."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np

from assocmem.contract.errors import InputError

IntArray = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Layout:
    """The pieces of one stream: for each number of memories the places where its trials start.

    memories: each M counts the target, so a trial reads M - 1 similarities. starts: for each M the first place of
    each piece; the pieces of one M never overlap, those of different M may.
    """

    memories: tuple[int, ...]
    starts: tuple[tuple[int, ...], ...]

    def __post_init__(self) -> None:
        for n, starts in zip(self.memories, self.starts, strict=True):
            if any(b - a < n - 1 for a, b in pairwise(starts)):
                raise InputError(f"the pieces of M = {n} overlap in their stream; a trial must own its similarities.")

    @cached_property
    def cuts(self) -> IntArray:
        """All starts and ends of pieces, rising, from 0."""
        ends = [start + n - 1 for n, starts in zip(self.memories, self.starts, strict=True) for start in starts]
        return np.unique(np.array([0, *ends, *(s for starts in self.starts for s in starts)], dtype=np.int64))

    @property
    def length(self) -> int:
        """How many similarities of the stream are read."""
        return int(self.cuts[-1])

    def blocks(self, size: int) -> tuple[tuple[int, IntArray], ...]:
        """Return, for each block of `size` similarities, its first segment and the cuts inside it (from 0)."""
        if size not in self._blocks:
            found = []
            for start in range(0, self.length, size):
                end = min(start + size, self.length)
                first = int(np.searchsorted(self.cuts, start, side="right"))
                last = int(np.searchsorted(self.cuts, end, side="left"))
                found.append((first - 1, np.array([0, *(self.cuts[first:last] - start), end - start])))
            self._blocks[size] = tuple(found)
        return self._blocks[size]

    @cached_property
    def _blocks(self) -> dict[int, tuple[tuple[int, IntArray], ...]]:
        return {}

    def pieces(self, segments: IntArray) -> list[IntArray]:
        """Return for each M the sums over its pieces (..., pieces) from the sums between cuts (..., cuts - 1).

        Sums add up whole segments and never subtract, so a small sum beside a large one keeps its digits.
        """
        found = []
        for n, starts in zip(self.memories, self.starts, strict=True):
            if n == 1:
                found.append(np.zeros((*segments.shape[:-1], len(starts))))
                continue
            first = np.searchsorted(self.cuts, starts)
            last = np.searchsorted(self.cuts, np.asarray(starts) + n - 1)
            spans = [segments[..., a:b].sum(axis=-1) for a, b in zip(first, last, strict=True)]
            found.append(np.stack(spans, axis=-1))
        return found


def disjoint(memories: Iterable[int], *, length: int | None = None, most: int = 64) -> Layout:
    """Return a layout in which every M has as many pieces as fit into the stream, at most `most`.

    Parameters: memories, whole numbers >= 1; length, similarities in the stream, by default those of the largest M.

    >>> disjoint([3, 5]).starts
    ((0, 2), (0,))
    """
    counts = tuple(sorted(set(memories)))
    length = max(counts[-1] - 1, length or 0)
    fits = (min(most, length // (n - 1)) if n > 1 else most for n in counts)
    return Layout(counts, tuple(tuple(i * (n - 1) for i in range(k)) for n, k in zip(counts, fits, strict=True)))


def nested(memories: Sequence[int], *, pieces: int) -> Layout:
    """Return a layout of `pieces` trials in which every M reads the head of the trial's own stretch.

    Trial t is then one curve, as `ruler.crossing` wants it.

    >>> nested([3, 5], pieces=2).starts
    ((0, 4), (0, 4))
    """
    counts = tuple(sorted(set(memories)))
    starts = tuple(i * (counts[-1] - 1) for i in range(pieces))
    return Layout(counts, (starts,) * len(counts))
