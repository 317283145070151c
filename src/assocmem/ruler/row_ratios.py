"""Mean square ratios of single queries as a function of the number of memories, kept in logarithms."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from assocmem.contract.errors import InputError
from assocmem.contract.numbers import is_number
from assocmem.ruler.ratio import Floats, Indices

Bools: TypeAlias = np.ndarray[Any, np.dtype[np.bool_]]


@dataclass(frozen=True, eq=False)
class RowRatios:
    """The mean square ratio of every query as a function of M: e^log_scale ((M - 1) A + (M - 1)(M - 2) B).

    Parameters
    ----------
    others : int array (..., m)
        How many rows other than its target each query sees; 0 where it has no target or sees nothing else, and every
        number about it is NaN.
    log_scale, first, second : float64 arrays (..., m)
        The scale, infinity where the target has weight zero; A; and B, which is 0 for random values.
    """

    others: Indices
    log_scale: Floats
    first: Floats
    second: Floats

    def __getitem__(self, at: Any) -> RowRatios:
        """Return some of the ratios, as an index of the arrays takes them."""
        return RowRatios(self.others[at], self.log_scale[at], self.first[at], self.second[at])

    @property
    def asked(self) -> Bools:
        """Which queries have a target and see something else (..., m)."""
        return self.others > 0

    def log_mean_square(self, n_memories: float | None = None) -> Floats:
        """Return the logarithm of each query's mean square ratio among M memories.

        Parameters
        ----------
        n_memories : float, optional
            M; by default all that a query sees. Beyond the rows that there are it says what more rows of the same kind
            would do.

        Returns
        -------
        float64 array (..., m)
            -inf where nothing interferes, inf where the target has weight zero, NaN where given values cancel so far
            that this has no answer.
        """
        more = self.others if n_memories is None else checked_memories(n_memories) - 1.0
        square = more * (self.first + (more - 1.0) * self.second)
        # A mean of squares is not negative: below zero by rounding is zero.
        rounding = 1e-12 * more * (self.first + np.abs((more - 1.0) * self.second))
        square = np.where(np.abs(square) <= rounding, 0.0, square)
        with np.errstate(divide="ignore", invalid="ignore"):
            found = np.where(np.isinf(self.log_scale), self.log_scale, self.log_scale + np.log(square))
        return np.where(self.asked, found, np.nan)

    def ratio(self, n_memories: float | None = None) -> Floats:
        """Return the root of each query's mean square ratio among M memories.

        Parameters
        ----------
        n_memories : float, optional
            M; by default all that a query sees.

        Returns
        -------
        float64 array (..., m)
            As `log_mean_square`.
        """
        with np.errstate(over="ignore"):
            return np.asarray(np.exp(0.5 * self.log_mean_square(n_memories)))

    def capacity(self, threshold: float = 1.0) -> Floats:
        """Return the M at which each query's ratio reaches the threshold.

        Parameters
        ----------
        threshold : float
            A ratio > 0.

        Returns
        -------
        float64 array (..., m)
            Real numbers > 1; inf: never.
        """
        require_threshold(threshold)
        with np.errstate(all="ignore"):
            aim = np.exp(2 * math.log(threshold) - self.log_scale)
            linear = self.first - self.second
            root = np.sqrt(linear**2 + 4 * self.second * aim)  # NaN where the ratio never gets there
            more = np.where(self.second == 0, aim / self.first, 2 * aim / (linear + root))
        more = np.where(np.isinf(aim) | np.isnan(more), np.inf, more)
        more = np.where(np.isposinf(self.log_scale), 0.0, more)
        return np.where(self.asked, 1.0 + more, np.nan)

    def over_queries(self) -> RowRatios:
        """Return the mean over the queries that ask.

        Returns
        -------
        RowRatios
            Last axis of length one; its root is the rms ratio.
        """
        there = self.asked & ~np.isnan(self.log_scale)
        top = np.max(np.where(there, self.log_scale, -np.inf), axis=-1, keepdims=True)
        shift = np.where(np.isfinite(top), top, 0.0)
        with np.errstate(over="ignore"):
            weight = np.where(there, np.exp(np.where(np.isposinf(top), 0.0, self.log_scale - shift)), 0.0)
        count = np.maximum(there.sum(axis=-1, keepdims=True), 1)
        means = [np.sum(np.where(there, weight * x, 0.0), axis=-1, keepdims=True) / count
                 for x in (self.first, self.second)]  # fmt: skip
        others = np.max(self.others, axis=-1, keepdims=True)
        return RowRatios(others, np.where(np.isposinf(top), top, shift), means[0], means[1])

    def rms(self, n_memories: float | None = None) -> tuple[Floats, Floats]:
        """Return the root mean square over queries of the ratio among M memories, and one query's largest share of it.

        Parameters
        ----------
        n_memories : float, optional
            M; by default all that each query sees.

        Returns
        -------
        rms : float64 array (...)
            The ratio.
        share : float64 array (...)
            Near 1 the rms speaks of one query alone.
        """
        logs = np.where(self.asked, self.log_mean_square(n_memories), -np.inf)
        top = np.max(logs, axis=-1, keepdims=True)
        with np.errstate(invalid="ignore", over="ignore"):
            total = np.sum(np.where(logs == top, 1.0, np.exp(logs - top)), axis=-1)
            mean = top[..., 0] + np.log(total / np.maximum(np.sum(self.asked, axis=-1), 1))
            return np.exp(0.5 * mean), np.asarray(np.where(np.isneginf(top[..., 0]), np.nan, 1.0 / total))


def quantile(numbers: Floats, q: float) -> Floats:
    """Return the quantile over the last axis: the number of a query, never one between two.

    Parameters
    ----------
    numbers : float64 array (..., m)
        NaN does not count.
    q : float
        In [0, 1].

    Returns
    -------
    float64 array (...)
        One of the numbers each.

    Examples
    --------
    >>> quantile(np.array([3.0, np.nan, 1.0, np.inf]), 0.5).item()
    3.0
    """
    ordered = np.sort(numbers, axis=-1)  # NaN last
    count = np.sum(~np.isnan(ordered), axis=-1, keepdims=True)
    place = np.maximum(np.ceil(q * count).astype(np.int64) - 1, 0)
    return np.take_along_axis(ordered, place, axis=-1)[..., 0]


def require_threshold(threshold: float) -> None:
    """Raise InputError unless `threshold` is a finite number > 0."""
    if not (is_number(threshold) and threshold > 0):
        raise InputError(f"`threshold` must be a finite number > 0; got {threshold!r}.")


def checked_memories(n_memories: float) -> float:
    """Return M as a float; InputError unless it is a finite number >= 2."""
    if not (is_number(n_memories) and n_memories >= 2):
        raise InputError(f"`n_memories` must be a number >= 2, the target counted; got {n_memories!r}.")
    return float(n_memories)
