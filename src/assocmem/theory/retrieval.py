"""Choice capacity of a linear store: how many pairs one matrix serves where a value need only be told from others.

Reference formulas of the literature for d_k = d_v = d and C = M candidates, all asymptotic in d. They count
something else than `capacity`; the two never share a column.
"""

from __future__ import annotations

import math
from typing import Literal

from assocmem.contract.errors import InputError
from assocmem.contract.estimate import Prediction
from assocmem.theory.answer import checked_width, predict

_CONSTANTS = {
    "outer-product": (8.0, "sharp transition at d^2 = 8 n ln n (Barnfield, Kim, Nichani, Lee and Lu 2026)"),
    "optimal": (2.0, "conjectured transition at d^2 = 2 n ln n (Giorlandino, Goldt and Maillard 2026)"),
}


def choice_capacity(d: int, *, store: Literal["outer-product", "optimal"] = "outer-product") -> Prediction:
    """Return the n with d^2 = c n ln n, at which all n recalls of a d x d store stop picking the right one of n values.

    Parameters: `d`, width of unit keys and values; `store`, "outer-product" (c = 8: a gap of variance 2n/d^2 against
    n^2 comparisons) or "optimal" (c = 2, the best matrix, conjectured). Solved as n = x/W(x), x = d^2/c.

    Asymptotic: at d of about 128 the chance that all n are right is near 1/2 there, below that it is lower.

    >>> n = choice_capacity(128).value
    >>> round(8 * n * math.log(n) / 128**2, 12)
    1.0
    """
    from scipy.special import lambertw

    width = checked_width(d)
    if store not in _CONSTANTS:
        raise InputError(f"`store` must be 'outer-product' or 'optimal'; got {store!r}.")
    constant, source = _CONSTANTS[store]
    x = width * width / constant
    log = math.log(x / lambertw(x).real)
    words = f"unit keys and values, d_k = d_v = {d:g}, n candidates, all n right; asymptotic in d"
    return predict("choice capacity", log, regime=words, source=source, statistic="threshold", exact=False, error=1e-14)


def listwise_capacity(d: int, share: float) -> Prediction:
    """Return the n up to which one d x d matrix lets every recall beat the mean of its best `share` of candidates.

    n = alpha_c d^2 with alpha_c = 1/E[(κ - G)_+^2] = 1/((κ^2 + 1) Φ(κ) + κ φ(κ)), G standard normal, κ = φ(Φ^-1(1 -
    r))/r the mean of the top share r of a normal sample. Parameters: `share`, r in (0, 1). Asymptotic in d, r fixed.

    >>> [round(listwise_capacity(1000, r).value / 1e6, 4) for r in (0.5, 0.1, 0.01)]
    [0.6577, 0.2458, 0.1234]
    """
    from scipy.special import ndtr, ndtri

    width = checked_width(d)
    if not 0 < share < 1:
        raise InputError(f"`share` must lie in (0, 1); got {share!r}.")
    kappa = _bell(float(ndtri(share))) / share
    log = 2 * math.log(width) - math.log((kappa * kappa + 1) * float(ndtr(kappa)) + kappa * _bell(kappa))
    words = f"random keys and values, d_k = d_v = {d:g}, beating the mean of the top {share:g}; asymptotic in d"
    source = "listwise load alpha_c (Barnfield, Kim, Nichani, Lee and Lu 2026)"
    return predict(
        "listwise capacity", log, regime=words, source=source, statistic="threshold", exact=False, error=1e-14
    )


def _bell(x: float) -> float:
    return math.exp(-x * x / 2) / math.sqrt(2 * math.pi)
