"""What a compressor gets and gives: a layer's cache with the queries it is judged by, and the smaller one."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, TypeAlias

import numpy as np

from assocmem.contract.arrays import to_numpy
from assocmem.contract.errors import InputError
from assocmem.contract.numbers import is_number, is_whole
from assocmem.contract.recall import Mass, Recall
from assocmem.contract.settings import WithSettings
from assocmem.contract.state import State
from assocmem.kernels.attention import attention_weights
from assocmem.maps.activations import Constant
from assocmem.ruler import GivenRows
from assocmem.ruler.ratio import checked_numbers
from assocmem.stores.softmax import SoftmaxAttention

Floats: TypeAlias = np.ndarray[Any, np.dtype[np.float64]]
Indices: TypeAlias = np.ndarray[Any, np.dtype[np.int64]]
Budget: TypeAlias = "int | float"
"""How much is kept: a whole number of pairs, or a share of them as a float in (0, 1]; `1` is one pair, `1.0` all."""
Per: TypeAlias = Literal["head", "all"]
"""What a budget speaks of: every head by itself, or all heads together, which then share it out by their scores."""


@dataclass(frozen=True, eq=False)
class Cache:
    """Keys and values of one attention layer, and queries like those that will be asked.

    Parameters
    ----------
    keys, values : arrays (h_k, n, d_k), (h_k, n, d_v), or (n, d_k), (n, d_v) for one head
        Any array library and floating dtype; computed in float64.
    queries : array (h, m, d_k) or (m, d_k)
        Head i reads the keys of head i // (h / h_k).
    scaling : float, optional
        A logit is scaling k.q; by default 1 / sqrt(d_k).
    causal : bool
        Whether the queries stand at the last m of the n positions and see no later key. Otherwise they see every key.

    Raises
    ------
    InputError, NonFiniteError
        For shapes that do not fit, and a row that holds NaN or infinity.

    Examples
    --------
    >>> cache = Cache(np.eye(4), np.eye(4), np.eye(4))
    >>> cache.keys.shape, cache.scaling, cache.attention[0].shape
    ((1, 4, 4), 0.5, (4, 4))
    """

    keys: Any
    values: Any
    queries: Any
    scaling: Any = None
    causal: bool = False

    def __post_init__(self) -> None:
        for name in ("keys", "values", "queries"):
            rows = checked_numbers(getattr(self, name), name, 2)
            rows = np.asarray(rows[None] if rows.ndim == 2 else rows, np.float64)
            if rows.ndim != 3 or 0 in rows.shape:
                raise InputError(f"`{name}` must be (heads, rows, width) with a row at least; got {rows.shape}.")
            object.__setattr__(self, name, rows)
        if self.values.shape[:2] != self.keys.shape[:2]:
            raise InputError(
                f"`values` must have a row for each of the keys {self.keys.shape}; got {self.values.shape}."
            )
        if self.queries.shape[0] % len(self.keys) or self.queries.shape[2] != self.keys.shape[2]:
            raise InputError(
                f"`queries` must have the width of the keys {self.keys.shape} and a multiple of their heads; "
                f"got {self.queries.shape}."
            )
        if self.causal and self.queries.shape[1] > self.keys.shape[1]:
            raise InputError(f"`queries` that are causal stand at keys; got {self.queries.shape[1]} for {self.n} keys.")
        if self.scaling is None:
            object.__setattr__(self, "scaling", self.keys.shape[-1] ** -0.5)
        elif not (is_number(self.scaling) and self.scaling > 0):
            raise InputError(f"`scaling` must be a finite number > 0; got {self.scaling!r}.")

    @property
    def n(self) -> int:
        """Pairs that a head holds."""
        return int(self.keys.shape[1])

    @property
    def grouped(self) -> Floats:
        """The queries of each key head, (h_k, g m, d_k): those of a group stand below one another."""
        return np.asarray(self.queries.reshape(len(self.keys), -1, self.queries.shape[-1]))

    @property
    def seen(self) -> Any:
        """Which keys the queries of a group see, (g m, n) of true and false; None for all."""
        if not self.causal:
            return None
        m = self.queries.shape[1]
        return np.tile(np.tri(m, self.n, self.n - m, dtype=bool), (len(self.queries) // len(self.keys), 1))

    @cached_property
    def attention(self) -> Floats:
        """The softmax weights of the queries over keys, (h_k, g m, n)."""
        return np.asarray(attention_weights(self.keys, self.grouped, self.scaling, self.seen))

    def whole(self) -> Compressed:
        """Return the cache itself in the form of a compressed one: nothing is left out."""
        everything = np.arange(self.n)
        return Compressed.of_rows(self, [everything] * len(self.keys))


@dataclass(frozen=True, eq=False)
class Compressed:
    """The smaller cache: keys, values and logit biases of each key head, any number of rows a head.

    Attributes
    ----------
    keys, values, bias : tuples of float64 arrays (t, d_k), (t, d_v), (t,)
        A logit is scaling k.q + bias, so a row with bias ln g stands for g rows with its key.
    kept : tuple of int arrays (t,), or None
        Which of the cache's rows these are, in their order; None where rows are no longer the cache's.
    scaling : float
    of : int
        Pairs that each head of the cache held.
    """

    keys: tuple[Floats, ...]
    values: tuple[Floats, ...]
    bias: tuple[Floats, ...]
    kept: tuple[Indices, ...] | None
    scaling: float
    of: int

    @classmethod
    def of_rows(cls, cache: Cache, kept: Sequence[Indices]) -> Compressed:
        """Return the rows `kept` of each head of a cache, untouched."""
        rows = tuple(np.sort(np.asarray(ids, np.int64)) for ids in kept)
        keys = tuple(k[i] for k, i in zip(cache.keys, rows, strict=True))
        values = tuple(v[i] for v, i in zip(cache.values, rows, strict=True))
        return cls(keys, values, tuple(np.zeros(len(i)) for i in rows), rows, cache.scaling, cache.n)

    @property
    def share(self) -> float:
        """Rows held, as a share of the cache's."""
        return sum(map(len, self.keys)) / (len(self.keys) * self.of)

    @property
    def numbers(self) -> int:
        """Numbers held: keys and values, and a bias a row where there are any."""
        return sum(
            k.size + v.size + b.size * bool(b.any()) for k, v, b in zip(self.keys, self.values, self.bias, strict=True)
        )

    def pairs(self, head: int) -> tuple[Floats, Floats]:
        """Return keys (t, d_k + 1) and values (t, d_v) of a key head, for any softmax store at this sharpness.

        A bias b is the key's last number, b / scaling, which a query reads with a last number of 1 (`asked`).
        """
        if head not in range(len(self.keys)):
            raise InputError(f"`head` must be a key head in [0, {len(self.keys)}); got {head!r}.")
        return np.concatenate([self.keys[head], self.bias[head][:, None] / self.scaling], axis=-1), self.values[head]

    @staticmethod
    def asked(queries: Any) -> Floats:
        """Return queries (..., d_k) with the last number 1 that reads the bias."""
        plain = checked_numbers(queries, "queries", 2)
        return np.concatenate([plain, np.ones((*plain.shape[:-1], 1))], axis=-1)

    def memory(self, head: int) -> tuple[SoftmaxAttention, State]:
        """Return a softmax store and its state with this key head's pairs; ask it with `asked(queries)`."""
        keys, values = self.pairs(head)
        store = SoftmaxAttention(Constant(self.scaling))
        return store, store.write(store.empty(keys.shape[-1], values.shape[-1], like=keys), keys, values)

    def recall(self, queries: Any) -> Recall:
        """Return values (h, m, d_v) for queries (h, m, d_k), grouped as the cache's, with the mass to merge by."""
        asked = self.asked(queries)
        if asked.ndim != 3 or len(asked) % len(self.keys) or asked.shape[-1] != self.keys[0].shape[-1] + 1:
            raise InputError(
                f"`queries` must be (h, m, {self.keys[0].shape[-1]}) with a multiple of {len(self.keys)} heads; "
                f"got {tuple(to_numpy(queries).shape)}."
            )
        grouped = asked.reshape(len(self.keys), -1, asked.shape[-1])
        found = []
        for head, rows in enumerate(grouped):
            store, state = self.memory(head)
            found.append(store.ask(state, rows, want=("mass",)))
        lead = asked.shape[:2]
        peaks, shares = [], []
        for recall in found:
            assert recall.mass is not None  # it was wanted
            peaks.append(recall.mass.peak)
            shares.append(np.ones_like(recall.mass.peak) if recall.mass.share is None else recall.mass.share)
        values = np.stack([recall.values for recall in found]).reshape(*lead, -1)
        return Recall(values, mass=Mass(np.stack(peaks).reshape(lead), np.stack(shares).reshape(lead)))

    def rows(self, head: int, queries: Any) -> GivenRows:
        """Return this key head's rows under queries (m, d_k) on the ruler, each asking for its strongest row."""
        keys, values = self.pairs(head)
        return GivenRows(keys, self.asked(queries), values, scaling=self.scaling, target="strongest")


class Compressor(WithSettings, ABC):
    """A rule that makes a cache smaller. Frozen; what it needs beside the cache are its settings."""

    @abstractmethod
    def compressed(self, cache: Cache, counts: Indices) -> Compressed:
        """Return the cache with counts (h_k,) rows a head, each in [1, n)."""

    def shared_out(self, cache: Cache, total: int) -> Indices:
        """Return how many of `total` rows each head gets, at least one."""
        raise InputError(f"`per` of {type(self).__name__} must be 'head': it has no score to compare heads by.")

    def compress(self, cache: Cache, budget: Budget, *, per: Per = "head") -> Compressed:
        """Return the smaller cache.

        Parameters
        ----------
        cache : Cache
        budget : int or float
            Pairs that are kept, or their share in (0, 1]; the whole budget gives the cache back as it is.
        per : "head" or "all"
            Whether every head keeps that much, or all heads together, more of it where scores are higher.

        Returns
        -------
        compressed : Compressed

        Raises
        ------
        InputError
            For a budget that keeps nothing or more than there is.
        """
        heads = len(cache.keys)
        if per not in ("head", "all"):
            raise InputError(f"`per` must be 'head' or 'all'; got {per!r}.")
        everything = cache.n if per == "head" else cache.n * heads
        count = kept_rows(budget, everything, least=1 if per == "head" else heads)
        if count == everything:
            return cache.whole()
        return self.compressed(cache, np.full(heads, count) if per == "head" else self.shared_out(cache, count))


def kept_rows(budget: Budget, everything: int, *, least: int = 1) -> int:
    """Return how many of `everything` rows a budget keeps; InputError where it is none, or more than there are."""
    if is_whole(budget):
        count = int(budget)
    elif is_number(budget) and 0 < budget <= 1:
        count = max(round(budget * everything), least)
    else:
        raise InputError(f"`budget` must be a number of pairs >= 1, or a share of them in (0, 1]; got {budget!r}.")
    if count < least:
        raise InputError(f"`budget` must keep at least {least} of {everything} pairs, one a head; got {budget!r}.")
    if count > everything:
        raise InputError(f"`budget` must keep at most all {everything} pairs; got {budget!r}.")
    return count
