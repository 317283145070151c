"""A thousand letters and signs as 16 x 16 pictures: values that one can see drown.

The glyphs were drawn once from DejaVu Sans (scripts/draw_glyphs.py; licence beside the data) and shuffled,
because neighbours in Unicode look alike. Glyphs share much of their background: stored raw, what is recalled
drowns in their common mean, an even square. So their values are the picture minus the mean of all glyphs, and
the mean is added back to draw.
"""

from __future__ import annotations

from functools import lru_cache
from importlib import resources
from typing import Any, NamedTuple

import numpy as np

from assocmem.contract.arrays import Array, to_numpy
from assocmem.contract.errors import InputError
from assocmem.contract.numbers import stream
from assocmem.contract.state import Pairs
from assocmem.inputs.directions import Floats
from assocmem.inputs.laws import Law, key_law

SIDE = 16


class Glyphs(NamedTuple):
    """Characters and their pictures.

    Parameters
    ----------
    chars : list of str
        The n characters.
    images : float64 array (n, 16, 16)
        1 for ink and 0 for paper.
    """

    chars: list[str]
    images: Floats

    @property
    def mean(self) -> Floats:
        """The mean picture (16, 16) of all glyphs."""
        return np.asarray(self.images.mean(axis=0), dtype=np.float64)

    @property
    def values(self) -> Floats:
        """The values (n, 256) to store: picture minus mean, rows of pixels from top to bottom."""
        return (self.images - self.mean).reshape(len(self.chars), SIDE * SIDE)

    def picture(self, values: Array) -> Floats:
        """Return recalled values as pictures: the mean is added back.

        Parameters
        ----------
        values : array (..., 256)
            As they were recalled, of any array library.

        Returns
        -------
        float64 array (..., 16, 16)
            Ink is 1, paper 0.

        Raises
        ------
        InputError
            For rows of another width.
        """
        pixels = to_numpy(values)
        if pixels.shape[-1:] != (SIDE * SIDE,):
            raise InputError(f"`values` of a glyph must have shape (..., {SIDE * SIDE}); got {pixels.shape}.")
        return np.asarray(pixels.reshape(*pixels.shape[:-1], SIDE, SIDE) + self.mean, dtype=np.float64)


def glyphs() -> Glyphs:
    """Return the 1024 glyphs in their fixed, shuffled order.

    >>> chars, images = glyphs()
    >>> len(chars), images.shape
    (1024, (1024, 16, 16))
    """
    chars, images = _packed()
    return Glyphs(list(chars), images.copy())


def glyph_pairs(seed: int, trial: int, n: int, d_k: int, *, keys: str | Law = "sphere", first: str = "") -> Pairs:
    """Return n pairs of random keys and the pictures of glyphs.

    Glyphs are taken in their fixed order, from the beginning again after 1024 pairs.

    Parameters
    ----------
    seed, trial : int
        Whole numbers >= 0 that name the stream of the keys.
    n, d_k : int
        Number of pairs, width of the keys.
    keys : str or Law
        The law of the keys.
    first : str, optional
        A character whose glyph is put in front.

    Returns
    -------
    Pairs
        Keys (n, d_k) and values (n, 256), pictures minus their mean.

    Raises
    ------
    InputError
        For a character that is not among the glyphs.
    """
    font = glyphs()
    order = np.arange(len(font.chars))
    if first:
        if first not in font.chars:
            raise InputError(f"`first` must be one of the {len(font.chars)} glyphs; {first!r} is not.")
        at = font.chars.index(first)
        order = np.concatenate([[at], np.delete(order, at)])
    law = key_law(keys)
    drawn = law.draw(stream(seed, "keys", trial), n, d_k)
    return Pairs(drawn, font.values[np.resize(order, n)], law=f"keys {law.words}; values glyphs minus their mean")


@lru_cache(maxsize=1)
def _packed() -> tuple[tuple[str, ...], np.ndarray[Any, Any]]:
    source = resources.files("assocmem.inputs") / "data" / "glyphs.npz"
    with source.open("rb") as file, np.load(file, allow_pickle=False) as data:
        bits = np.unpackbits(data["bits"], axis=1).reshape(-1, SIDE, SIDE).astype(np.float64)
        chars = tuple(chr(code) for code in data["codes"])
    return chars, bits
