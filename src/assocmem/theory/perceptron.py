"""Bits per number of state, exactly: how many random labels one threshold unit stores (Cover 1965)."""

from __future__ import annotations

import math

import numpy as np

from assocmem.contract.errors import InputError
from assocmem.contract.estimate import Prediction
from assocmem.contract.numbers import is_whole
from assocmem.theory.questions import Asked

BITS_PER_WEIGHT = 2
"""Random labels, of one bit each, that a threshold unit stores for every weight, as the weights grow many."""


def separable_share(n_labels: int, n_weights: int) -> Prediction:
    """Return the share of all labellings of P points that one threshold unit of N weights can give them.

    Parameters
    ----------
    n_labels : int
        Points P >= 1 in general position, each labelled + or -.
    n_weights : int
        N >= 1, no offset.

    Returns
    -------
    Prediction
        A share, exact for points in general position (as random ones are); 1/2 at P = 2 N, where it falls from 1 to 0
        the more suddenly, the larger N: 2 bits per number, `BITS_PER_WEIGHT`.

    Raises
    ------
    InputError
        For other numbers.

    Notes
    -----
    2 sum_{i < N} C(P - 1, i) / 2^P (Cover 1965, IEEE Trans. Electron. Comput. EC-14:326, function counting theorem).

    Examples
    --------
    >>> [round(separable_share(p, 20).value, 2) for p in (20, 36, 40, 50)]
    [1.0, 0.75, 0.5, 0.08]
    """
    from scipy.special import gammaln, logsumexp

    for name, given in (("n_labels", n_labels), ("n_weights", n_weights)):
        if not is_whole(given, 1):
            raise InputError(f"`{name}` must be a whole number >= 1; got {given!r}.")
    asked = Asked("separable share", float(n_weights), float(n_labels), statistic="share")
    words = f"{n_labels:,} points in general position, a threshold unit of {n_weights:,} weights without offset"
    source = "2 sum_{i<N} C(P-1, i) / 2^P (Cover 1965)"
    if n_labels <= n_weights:
        return asked.predict(0.0, regime=words, source=source)
    i = np.arange(n_weights)
    logs = gammaln(n_labels) - gammaln(i + 1) - gammaln(n_labels - i) - (n_labels - 1) * math.log(2)
    error = 8 * 2.0**-52 * n_labels * math.log(n_labels + 1)
    return asked.predict(min(0.0, float(logsumexp(logs))), regime=words, source=source, error=error)
