"""Lossless coding with a predictor on both sides: arithmetic coding, bits as predicted and two more."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate

import numpy as np

from assocmem.contract.errors import FileFormatError, InputError
from assocmem.contract.numbers import is_whole
from assocmem.predictors.predictor import Floats, Predictor

BITS = 48
"""Of the coder's interval."""
SHARES = 1 << 30
"""Parts that a distribution is cut into: none is below one, so a probability is off by at most size / 2^30."""
_TOP, _HALF, _QUARTER = 1 << BITS, 1 << (BITS - 1), 1 << (BITS - 2)


def encode(tokens: Sequence[int], predictor: Predictor) -> bytes:
    """Return the tokens as bytes that `decode` turns back, with a predictor that knows as little as this one did.

    Parameters
    ----------
    tokens : sequence of int
        Whole numbers in [0, predictor.size); bytes are.
    predictor : Predictor
        It learns the tokens.

    Returns
    -------
    data : bytes
        The number of tokens (7 bits a byte), then ceil(sum of -log2 p) + 2 bits at most, rounding of p apart.

    Raises
    ------
    InputError
        For tokens that the predictor does not know.

    Notes
    -----
    Both sides compute the same probabilities only on the same machine and libraries, with as many threads. Source:
    Witten, Neal and Cleary 1987, "Arithmetic coding for data compression"; Bellard 2019 (NNCP) for its use.

    Examples
    --------
    >>> from assocmem.predictors import Uniform
    >>> decode(encode(b"once more", Uniform()), Uniform()) == list(b"once more")
    True
    """
    bits: list[int] = []
    low, width, waiting = 0, _TOP, 0

    def put(bit: int) -> None:
        nonlocal waiting
        bits.append(bit)
        bits.extend([1 - bit] * waiting)
        waiting = 0

    for token in tokens:
        ends = _ends(predictor)
        if not (is_whole(token, 0) and token < predictor.size):
            raise InputError(f"`tokens` must be whole numbers in [0, {predictor.size}); got {token!r}.")
        start, stop = _part(width, ends, int(token))
        low, width = low + start, stop - start
        while True:
            if low + width <= _HALF:
                put(0)
            elif low >= _HALF:
                put(1)
                low -= _HALF
            elif low >= _QUARTER and low + width <= _HALF + _QUARTER:
                waiting += 1
                low -= _QUARTER
            else:
                break
            low, width = 2 * low, 2 * width
        predictor.observe(int(token))
    waiting += 1
    put(int(low >= _QUARTER))
    packed = np.packbits(np.array(bits, np.uint8)).tobytes()
    return _number(len(tokens)) + packed


def decode(data: bytes, predictor: Predictor, progress: Callable[[int, int], None] | None = None) -> list[int]:
    """Return the tokens that `encode` was given.

    Parameters
    ----------
    data : bytes
    predictor : Predictor
        Made as the encoder's was, having read nothing.
    progress : function of tokens done and tokens in all

    Returns
    -------
    list of int
        The tokens.

    Raises
    ------
    FileFormatError
        For data that ends before its tokens do.
    """
    total, place = _read_number(data)
    bits = np.unpackbits(np.frombuffer(data[place:], np.uint8))
    spare = 0
    position, low, width, tokens = 0, 0, _TOP, list[int]()

    def take() -> int:
        nonlocal position, spare
        position += 1
        if position > len(bits):
            spare += 1
            if spare > BITS:
                raise FileFormatError(f"`data` ends before its {total} tokens do.")
            return 0
        return int(bits[position - 1])

    value = 0
    for _ in range(BITS):
        value = 2 * value + take()
    while len(tokens) < total:
        ends = _ends(predictor)
        share = ((value - low + 1) * SHARES - 1) // width
        token = int(np.searchsorted(ends, share, side="right"))
        start, stop = _part(width, ends, token)
        low, width = low + start, stop - start
        while True:
            if low + width <= _HALF:
                shift = 0
            elif low >= _HALF:
                shift = _HALF
            elif low >= _QUARTER and low + width <= _HALF + _QUARTER:
                shift = _QUARTER
            else:
                break
            low, width, value = 2 * (low - shift), 2 * width, 2 * (value - shift) + take()
        predictor.observe(token)
        tokens.append(token)
        if progress is not None:
            progress(len(tokens), total)
    return tokens


def _ends(predictor: Predictor) -> Floats:
    """Return where each token's part of SHARES ends, whole numbers (size,); the last is SHARES."""
    p = predictor.distribution()
    free = SHARES - len(p)
    if free < 0 or not np.isfinite(p).all() or p.min() < 0 or abs(p.sum() - 1) > 1e-6:
        raise InputError("`predictor` must give numbers >= 0 whose sum is 1, of at most 2^30 tokens.")
    ends = np.floor(np.cumsum(p) / p.sum() * free).astype(np.int64) + np.arange(1, len(p) + 1)
    ends[-1] = SHARES
    return np.asarray(ends)


def _part(width: int, ends: Floats, token: int) -> tuple[int, int]:
    """Return where the token's part of an interval of this width begins and ends."""
    before = int(ends[token - 1]) if token else 0
    return width * before // SHARES, width * int(ends[token]) // SHARES


def _number(n: int) -> bytes:
    """Return a whole number as bytes of 7 bits, the lowest first."""
    parts = [n & 127]
    while n := n >> 7:
        parts.append(n & 127)
    return bytes(part | 128 for part in parts[:-1]) + bytes(parts[-1:])


def _read_number(data: bytes) -> tuple[int, int]:
    for place, total in enumerate(accumulate((part & 127) << (7 * i) for i, part in enumerate(data[:9]))):
        if data[place] < 128:
            return total, place + 1
    raise FileFormatError("`data` does not begin with a number of tokens.")
