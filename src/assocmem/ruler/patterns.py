"""Which stored pattern of signs came back: it, its negative, or a mixture; and how many bits are wrong."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from assocmem.contract.arrays import Array
from assocmem.contract.errors import InputError
from assocmem.ruler.ratio import Floats, Indices, checked_numbers
from assocmem.ruler.row_ratios import Bools


@dataclass(frozen=True, eq=False)
class Match:
    """What rows of recalled signs are, beside the stored patterns.

    Parameters
    ----------
    ids : integer array (..., m)
        The pattern with the largest overlap in absolute value, the first of equal ones.
    overlaps : float array (..., m)
        With that pattern: mean of x_j p_j, in [-1, 1] for signs; negative where its inverse is nearer.
    """

    ids: Indices
    overlaps: Floats

    @property
    def exact(self) -> Bools:
        """Which rows are a pattern, bit for bit."""
        return np.asarray(self.overlaps == 1)

    @property
    def inverted(self) -> Bools:
        """Which rows are nearest to the negative of a pattern."""
        return np.asarray(self.overlaps < 0)

    @property
    def wrong_bits(self) -> Floats:
        """Share of the bits that differ from the pattern `ids`; 1 for its negative. A 0 is half a wrong bit."""
        return np.asarray((1 - self.overlaps) / 2)


def match(recalled: Array, patterns: Array) -> Match:
    """Return which pattern each recalled row is nearest to, and in which sign.

    A network whose energy does not change when all units turn has the negative of every pattern as a memory too; the
    ratio by projection sees no difference between the two, this does.

    Parameters
    ----------
    recalled : array (..., m, d)
        Signs, or 0 for none.
    patterns : array (n, d)
        Stored patterns, +1 and -1; n >= 1.

    Returns
    -------
    Match

    Raises
    ------
    InputError
        For shapes that do not fit, or where there is no pattern.

    Notes
    -----
    Cost: m n d multiply-adds.

    Examples
    --------
    >>> patterns = np.array([[1.0, 1, 1, 1], [1, -1, 1, -1]])
    >>> found = match([[1.0, 1, 1, -1], [-1, 1, -1, 1]], patterns)
    >>> found.ids.tolist(), found.overlaps.tolist(), found.inverted.tolist()
    ([0, 1], [0.5, -1.0], [False, True])
    """
    rows, stored = checked_numbers(recalled, "recalled", 2), checked_numbers(patterns, "patterns", 2)
    if stored.ndim != 2 or not stored.size or rows.shape[-1] != stored.shape[-1]:
        raise InputError(f"`patterns` must have shape (n, d={rows.shape[-1]}), n >= 1, d >= 1; got {stored.shape}.")
    overlaps = rows @ stored.T / stored.shape[-1]
    ids = np.argmax(np.abs(overlaps), axis=-1)
    return Match(ids, np.take_along_axis(overlaps, ids[..., None], axis=-1)[..., 0])
