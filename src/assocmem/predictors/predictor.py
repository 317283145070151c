"""Predictors of the next token that learn while they read: a store written with contexts, and mixtures of such."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any, Protocol, TypeAlias

import numpy as np

from assocmem.contract.errors import InputError
from assocmem.contract.numbers import is_number, is_whole, stream
from assocmem.memory import Memory

Floats: TypeAlias = np.ndarray[Any, np.dtype[np.float64]]

UNSEEN = 0.05
"""Share of a store's prediction that every token has in equal parts, whatever was read."""


class Predictor(Protocol):
    """What says how likely each token is to come next, and learns which one came."""

    @property
    def size(self) -> int:
        """Tokens that there are: 0 to size - 1."""

    def distribution(self) -> Floats:
        """Return the probability of each token, (size,), all > 0, their sum 1."""

    def observe(self, token: int) -> None:
        """Learn that `token` came, and go on to the next."""


class Uniform:
    """Every token is equally likely, whatever was read.

    Parameters
    ----------
    size : int
        Tokens that there are.
    """

    def __init__(self, size: int = 256) -> None:
        self.size = _checked_size(size)

    def distribution(self) -> Floats:
        """Return 1 / size for each."""
        return np.full(self.size, 1 / self.size)

    def observe(self, token: int) -> None:
        """Learn nothing."""
        _check_token(token, self.size)


class Reader:
    """A memory written while reading: the last tokens are the key, the next one, one-hot, is the value.

    A store of token ids, such as Engram's tables of hashed n-grams, has the tokens themselves as its key.

    Parameters
    ----------
    memory : Memory
        An empty one, of any store that is linear in its values; softmax recalls a distribution as it is, of other
        stores the parts above zero are taken. One of token ids must know `size` of them, what is before the text.
    size : int
        Tokens that there are.
    order : int
        Tokens of context that make a key, >= 0: the nearest has the longest code. With 0 all keys are equal.
    width : int
        Numbers in a token's code: a random direction, drawn from `seed`.
    fade : float
        Squared length of a token's code over that of the one after it, in (0, 1]. Keys have length one.
    unseen : float
        Share of the prediction that every token has in equal parts, in (0, 1].
    seed : int

    Raises
    ------
    InputError
        For a memory that holds something, and settings out of range.

    Notes
    -----
    Cost a token: one recall and one write of the store at d_k = order width (at least one), d_v = size.

    Examples
    --------
    >>> reader = Reader(Memory("softmax", beta=30.0), size=3, order=1)
    >>> for token in (0, 1, 2, 0, 1, 2, 0):
    ...     reader.observe(token)
    >>> int(reader.distribution().argmax())
    1
    >>> ngrams = Reader(Memory("engram", rows=64, vocabulary=4), size=3, order=2)
    >>> for token in (0, 1, 2, 0, 1, 2, 0):
    ...     ngrams.observe(token)
    >>> int(ngrams.distribution().argmax())
    1
    """

    def __init__(
        self, memory: Memory, size: int = 256, order: int = 4, *, width: int = 16, fade: float = 0.5,
        unseen: float = UNSEEN, seed: int = 0,
    ) -> None:  # fmt: skip
        if not isinstance(memory, Memory) or len(memory):
            raise InputError(f"`memory` of Reader must be an empty Memory; got {memory!r}.")
        for name, number, least in (("order", order, 0), ("width", width, 1)):
            if not is_whole(number, least):
                raise InputError(f"`{name}` of Reader must be a whole number >= {least}; got {number!r}.")
        for name, share in (("fade", fade), ("unseen", unseen)):
            if not (is_number(share) and 0 < share <= 1):
                raise InputError(f"`{name}` of Reader must be a number in (0, 1]; got {share!r}.")
        self.size, self.order, self.unseen, self._memory = _checked_size(size), order, unseen, memory
        lengths = np.sqrt(fade ** np.arange(order))
        codes = stream(seed, "reader").normal(size=(size + 1, width))  # the last one stands for what is before the text
        codes /= np.linalg.norm(codes, axis=-1, keepdims=True)
        self._codes: Any = (
            np.float32(codes[:, None, :] * (lengths / np.linalg.norm(lengths))[:, None]) if order else None
        )
        self._last = [size] * order
        self._by_ids = memory.store.traits.keys == "ids"
        if self._by_ids and not order:
            raise InputError("`order` of Reader must be >= 1 for a store of token ids; got 0.")

    def distribution(self) -> Floats:
        """Return what the memory recalls for the last tokens, and `unseen` in equal parts."""
        equal = np.full(self.size, 1 / self.size)
        if not len(self._memory):
            return equal
        found = np.maximum(np.asarray(self._memory.recall(self._key()), np.float64), 0.0)
        total = found.sum()
        return equal if total == 0 else (1 - self.unseen) * found / total + self.unseen * equal

    def observe(self, token: int) -> None:
        """Write the token under the last ones."""
        _check_token(token, self.size)
        value = np.zeros(self.size, np.float32)
        value[token] = 1.0
        self._memory.write(self._key(), value)
        self._last = [int(token), *self._last][: self.order]

    def _key(self) -> Any:
        if self._by_ids:
            return np.array(self._last[::-1])  # the newest last
        if self._codes is None:
            return np.ones(1, np.float32)
        return np.asarray(self._codes[self._last, np.arange(self.order)].ravel())


class Mixture:
    """Several predictors, their logarithms added with weights that follow what came (geometric mixing).

    Parameters
    ----------
    predictors : sequence of Predictor
        At least one, of one size.
    rate : float
        Step of the weights after every token, in [0, 1].
    sets : int
        How many sets of weights there are; which is used is told by the rank that the last token had among them.

    Notes
    -----
    p is proportional to prod_i p_i^(w_i); the step is the gradient of ln p of the token that came, w_i += rate
    (ln p_i(token) - sum_y p(y) ln p_i(y)). Weights begin at 1 / number of predictors. Source: Mattern 2012, "Mixing
    Strategies in Data Compression", eq. 5 (geometric weighting).

    Examples
    --------
    >>> mixture = Mixture([Uniform(4), Reader(Memory("softmax"), size=4, order=1)])
    >>> float(mixture.distribution().sum().round(12))
    1.0
    """

    def __init__(self, predictors: Sequence[Predictor], rate: float = 0.02, sets: int = 4) -> None:
        self._of = tuple(predictors)
        if not self._of or len({p.size for p in self._of}) != 1:
            raise InputError("`predictors` of Mixture must be at least one, all of one size.")
        if not (is_number(rate) and 0 <= rate <= 1):
            raise InputError(f"`rate` of Mixture must be a number in [0, 1]; got {rate!r}.")
        if not is_whole(sets):
            raise InputError(f"`sets` of Mixture must be a whole number >= 1; got {sets!r}.")
        self.size, self.rate = self._of[0].size, rate
        self._weights = np.full((sets, len(self._of)), 1.0 / len(self._of))
        self._set = 0
        self._found: tuple[Floats, Floats] | None = None

    def distribution(self) -> Floats:
        """Return the mixed probabilities."""
        logs = np.log([p.distribution() for p in self._of])
        mixed = self._weights[self._set] @ logs
        mixed = np.exp(mixed - mixed.max())
        mixed /= mixed.sum()
        self._found = logs, mixed
        return np.asarray(mixed)

    def observe(self, token: int) -> None:
        """Move the weights towards those that said so, and let all learn."""
        _check_token(token, self.size)
        if self._found is None:
            self.distribution()
        assert self._found is not None  # `distribution` sets it
        logs, mixed = self._found
        self._weights[self._set] += self.rate * (logs[:, token] - logs @ mixed)
        rank = int((mixed > mixed[token]).sum())
        self._set = min(rank.bit_length(), len(self._weights) - 1)
        self._found = None
        for predictor in self._of:
            predictor.observe(token)


def read(predictor: Predictor, tokens: Iterable[int]) -> Floats:
    """Return -log2 of the probability that each token had before it came; the predictor learns them.

    Parameters
    ----------
    predictor : Predictor
        It goes on from what it has read.
    tokens : iterable of int
        Whole numbers in [0, predictor.size).

    Returns
    -------
    float64 array (n,)
        Bits.

    Examples
    --------
    >>> read(Uniform(4), [0, 3, 3]).tolist()
    [2.0, 2.0, 2.0]
    """
    bits = []
    for token in tokens:
        _check_token(token, predictor.size)
        bits.append(-math.log2(predictor.distribution()[token]))
        predictor.observe(token)
    return np.array(bits)


def _checked_size(size: int) -> int:
    if not is_whole(size):
        raise InputError(f"`size` must be a whole number >= 1; got {size!r}.")
    return int(size)


def _check_token(token: int, size: int) -> None:
    if not (is_whole(token, 0) and token < size):
        raise InputError(f"`token` must be a whole number in [0, {size}); got {token!r}.")
