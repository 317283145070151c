"""Retrieval capacity of a linear store: how many pairs one matrix serves where a value need only be told from others.

Reference formulas of the literature for d_k = d_v = d and C = M candidates, all asymptotic in d. They count
something else than `capacity`; the two never share a column.
"""

from __future__ import annotations

import math

from assocmem.contract.errors import InputError
from assocmem.contract.estimate import Prediction
from assocmem.contract.form import KernelSum
from assocmem.maps.activations import Linear
from assocmem.theory.questions import Asked, answer_retrieval_capacity, checked


@answer_retrieval_capacity.register
def _(form: KernelSum, asked: Asked) -> Prediction:
    """The outer product alone: a gap of variance 2n/d^2 against n^2 comparisons."""
    if not isinstance(form.sigma, Linear) or form.normalised:
        return asked.unknown(form)
    return _solved(asked, 8.0, "sharp transition at d^2 = 8 n ln n (Barnfield, Kim, Nichani, Lee and Lu 2026)")


def best_retrieval_capacity(d: int) -> Prediction:
    """Return the conjectured `retrieval_capacity` of the best d x d matrix there is, n with d^2 = 2 n ln n.

    Parameters
    ----------
    d : int
        Width of keys and values.

    Returns
    -------
    Prediction
        The n; asymptotic in d.
    """
    asked = Asked("retrieval capacity", *checked(d), statistic="threshold")
    return _solved(asked, 2.0, "conjectured transition at d^2 = 2 n ln n (Giorlandino, Goldt and Maillard 2026)")


def _solved(asked: Asked, constant: float, source: str) -> Prediction:
    """Return the n with d^2 = constant n ln n: n = x/W(x), x = d^2/constant."""
    from scipy.special import lambertw

    x = asked.d * asked.d / constant
    words = f"unit keys and values, d_k = d_v = {asked.d:g}, n candidates, all n right; asymptotic in d"
    return asked.predict(math.log(x / lambertw(x).real), regime=words, source=source, exact=False, error=1e-14)


def listwise_capacity(d: int, share: float) -> Prediction:
    """Return the n up to which one d x d matrix lets every recall beat the mean of its best `share` of candidates.

    Parameters
    ----------
    d : int
        Width of keys and values.
    share : float
        r in (0, 1).

    Returns
    -------
    Prediction
        The n; asymptotic in d with r fixed.

    Raises
    ------
    InputError
        For another share or width.

    Notes
    -----
    n = alpha_c d^2 with alpha_c = 1/E[(κ - G)_+^2] = 1/((κ^2 + 1) Φ(κ) + κ φ(κ)), G standard normal, κ = φ(Φ^-1(1 -
    r))/r the mean of the top share r of a normal sample.

    Examples
    --------
    >>> [round(listwise_capacity(1000, r).value / 1e6, 4) for r in (0.5, 0.1, 0.01)]
    [0.6577, 0.2458, 0.1234]
    """
    from scipy.special import ndtr, ndtri

    asked = Asked("listwise capacity", *checked(d), statistic="threshold")
    if not 0 < share < 1:
        raise InputError(f"`share` must lie in (0, 1); got {share!r}.")
    kappa = _bell(float(ndtri(share))) / share
    log = 2 * math.log(asked.d) - math.log((kappa * kappa + 1) * float(ndtr(kappa)) + kappa * _bell(kappa))
    words = f"random keys and values, d_k = d_v = {d:g}, beating the mean of the top {share:g}; asymptotic in d"
    source = "listwise load alpha_c (Barnfield, Kim, Nichani, Lee and Lu 2026)"
    return asked.predict(log, regime=words, source=source, exact=False, error=1e-14)


def _bell(x: float) -> float:
    return math.exp(-x * x / 2) / math.sqrt(2 * math.pi)
