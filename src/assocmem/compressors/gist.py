"""Gist tokens: what stands before them is seen by them alone, so that only their keys and values need be kept."""

from __future__ import annotations

from typing import Any

import numpy as np

from assocmem.contract.errors import InputError
from assocmem.contract.numbers import is_whole


def gist_mask(n: int, start: int, stop: int) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Return which keys a query sees, (n, n), where the tokens [start, stop) are the gist of all before them.

    Parameters
    ----------
    n : int
        Tokens of the whole text.
    start, stop : int
        0 <= start < stop <= n.

    Returns
    -------
    seen : bool array (n, n)
        Causal; queries from `stop` on see the gist and what follows it, nothing before the gist.

    Raises
    ------
    InputError
        For places that are not in the text.

    Notes
    -----
    With this mask a model's later outputs are those it has from the keys and values of the gist alone. A model learns
    to put anything there only by training under the mask. Source: Mu et al. 2023, arXiv:2304.08467, figure 2.

    Examples
    --------
    >>> gist_mask(4, 1, 2).astype(int).tolist()
    [[1, 0, 0, 0], [1, 1, 0, 0], [0, 1, 1, 0], [0, 1, 1, 1]]
    """
    if not all(is_whole(x, 0) for x in (n, start, stop)) or not 0 <= start < stop <= n:
        raise InputError(
            f"the gist must be tokens 0 <= start < stop <= n; got start={start!r}, stop={stop!r}, n={n!r}."
        )
    seen = np.tri(n, dtype=bool)
    seen[stop:, :start] = False
    return seen
