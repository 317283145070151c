"""Retrieval capacity: how many pairs a store serves where a value need only be told from the n stored ones.

For d_k = d_v = d and C = M = n candidates. All n at once: formulas of the literature, asymptotic in d. A share of
them: the law of one recall's scores at finite d, its interference taken at its mean square. Either counts something
else than `capacity`; the two never share a column.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache

import numpy as np

from assocmem.contract.errors import InputError
from assocmem.contract.estimate import Prediction
from assocmem.contract.form import KernelSum, LeastSquares
from assocmem.maps.activations import Linear
from assocmem.theory.moments import log_signal
from assocmem.theory.quadrature import Floats
from assocmem.theory.questions import Asked, answer_retrieval_capacity, checked

NODES, NORMAL_NODES, PLACES = 200, 40, 4096
"""Places at which the law of cosines and that of the noise on the target are read, and of the table of its tail."""
FEWEST, MOST = 2.0, 1e15


@answer_retrieval_capacity.register
def _(form: KernelSum, asked: Asked) -> Prediction:
    """All at once, the outer product alone: a gap of variance 2n/d^2 against n^2 comparisons."""
    if asked.statistic == "threshold":
        if not isinstance(form.sigma, Linear) or form.normalised:
            return asked.unknown(form)
        return _solved(asked, 8.0, "sharp transition at d^2 = 8 n ln n (Barnfield, Kim, Nichani, Lee and Lu 2026)")
    if form.sigma is None or form.signs or asked.d < 2:
        return asked.unknown(form)
    cosines, _ = _cosines(asked.d)

    def weights(n: float) -> Floats:
        sigma = form.at(n, int(asked.d))
        return np.asarray(sigma(cosines)) / math.exp(log_signal(sigma, 1.0).log)

    return _of_share(asked, weights, FEWEST)


@answer_retrieval_capacity.register
def _(form: LeastSquares, asked: Asked) -> Prediction:
    """A share of recalls: those of a linear sum whose mean square ratio is M/d - 1, as that of unit keys is."""
    if asked.statistic == "threshold" or form.ridge or asked.d < 2:
        return asked.unknown(form)
    cosines, _ = _cosines(asked.d)
    return _of_share(asked, lambda n: cosines * math.sqrt((n - asked.d) / (n - 1)), asked.d + 1)


def _of_share(asked: Asked, weights: Callable[[float], Floats], fewest: float) -> Prediction:
    """Return the n at which the share of right recalls falls to what is asked, n in [fewest, MOST]."""
    from scipy.optimize import brentq

    def above(log_n: float) -> float:
        return right_share(asked.d, math.exp(log_n), weights(math.exp(log_n))) - asked.wanted

    low, high = math.log(fewest), math.log(MOST)
    words = f"unit keys and values, d_k = d_v = {asked.d:g}, n candidates, {asked.wanted:g} of recalls right"
    if above(low) <= 0:
        return asked.none(f"not even {fewest:g} pairs: fewer recalls than {asked.wanted:g} are right", regime=words)
    if above(high) >= 0:
        return asked.none(f"beyond n = {MOST:g}", regime=words)
    while above(middle := (low + high) / 2) < 0 and high - low > 1:
        high = middle
    log = brentq(above, low, high, xtol=1e-5)
    source = "scores of a recall whose interference has its mean square (docs/theory.md, section 9)"
    return asked.predict(log, regime=words, source=source, exact=False, error=1e-3)


def right_share(d: float, n: float, weights: Floats) -> float:
    """Return the share of recalls whose largest inner product is with their own of n values.

    weights: what another pair weighs at each of the cosines, the target weighing 1. The recall f has the inner product
    a = 1 + z with its own value, z normal of the interference's mean square over d, and the rest of its square is that
    of the interference; with another value, of weight w, it has w + |f| t, t the cosine of two random directions.
    """
    from scipy.special import roots_hermitenorm

    _, shares = _cosines(d)
    square = (n - 1) * float(shares @ weights**2)
    nodes, masses = roots_hermitenorm(NORMAL_NODES)
    own = 1 + math.sqrt(square / d) * nodes
    length = np.sqrt(own**2 + square * (1 - 1 / d))
    lost = _beyond((own[:, None] - weights) / length[:, None], d) @ shares
    return float(masses @ np.exp((n - 1) * np.log1p(-np.minimum(lost, 1 - 1e-16))) / masses.sum())


def _cosines(d: float) -> tuple[Floats, Floats]:
    """Return cosines of two random directions and their shares: the midpoint rule over angles."""
    angles = (np.arange(NODES) + 0.5) / NODES * math.pi
    logs = (d - 2) * np.log(np.sin(angles))
    shares = np.exp(logs - logs.max())
    return np.cos(angles), shares / shares.sum()


def _beyond(t: Floats, d: float) -> Floats:
    """Return the chance that two random directions have a cosine above t."""
    angles, logs = _tail(d)
    tail = np.exp(np.interp(np.arccos(np.minimum(np.abs(t), 1)), angles, logs, left=-np.inf))
    return np.where(t > 0, tail, 1 - tail)


@lru_cache(maxsize=64)
def _tail(d: float) -> tuple[Floats, Floats]:
    """Return angles in (0, pi/2] and ln of the chance that two random directions are nearer than each."""
    from scipy.special import betainc

    angles = np.linspace(0, math.pi / 2, PLACES)[1:]
    with np.errstate(divide="ignore"):
        return angles, np.log(0.5 * betainc((d - 1) / 2, 0.5, np.sin(angles) ** 2))


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
