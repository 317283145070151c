"""Published capacities of memories whose recall is iterated: how many random patterns are fixed points.

They count patterns of signs that stay (or come back) bit for bit, or vectors that stay apart on a sphere; they are
another quantity than `capacity` (the M at which interference equals signal), and never share a column with it.
Asymptotic formulas and bounds are evaluated as they are printed.
"""

from __future__ import annotations

import math

from assocmem.contract.errors import InputError
from assocmem.contract.estimate import Prediction
from assocmem.theory.questions import Asked, checked, plain

CLASSICAL_LOAD = 0.138
"""Patterns per unit of Hebb's network at which recall breaks down (Amit, Gutfreund & Sompolinsky 1985)."""


def error_free_capacity(d: int, power: int) -> Prediction:
    """Return the number of random patterns of d signs that a dense associative memory of this power recalls exactly.

    K = d^(p-1) / (2 (2p-3)!! ln d), Krotov & Hopfield 2016, eq. 6: a typical pattern has then less than one wrong bit
    in d of them. p = 2 is the classical network: d / (2 ln d).

    Parameters
    ----------
    d : int
        Units, >= 2.
    power : int
        Exponent p of the energy, >= 2.

    Returns
    -------
    Prediction
        Not exact: asymptotic in d.

    Raises
    ------
    InputError
        For numbers out of range.

    Examples
    --------
    >>> [round(error_free_capacity(60, p).value, 1) for p in (2, 3, 4)]
    [7.3, 146.5, 1758.5]
    """
    width = checked(d)[0]
    if isinstance(power, bool) or not isinstance(power, int) or power < 2:
        raise InputError(f"`power` must be a whole number >= 2; got {power!r}.")
    if width < 2:
        raise InputError(f"`d` must be >= 2, as ln d divides the capacity; got {d!r}.")
    odd = sum(math.log(k) for k in range(1, 2 * power - 2, 2))
    log = (power - 1) * math.log(width) - math.log(2 * math.log(width)) - odd
    words = (
        f"random patterns of {plain(width)} signs, energy of power {power}, less than one wrong bit; asymptotic in d"
    )
    return _asked(width).predict(log, regime=words, source="d^(p-1) / (2 (2p-3)!! ln d) (Krotov & Hopfield 2016)",
                                 exact=False)  # fmt: skip


def exponential_load(radius: float = 0.0) -> float:
    """Return the alpha up to which e^(alpha d) random patterns of d signs have valleys of `radius` d bits, F = exp.

    I(1 - 2 radius) / 2, I(a) = ((1 + a) ln(1 + a) + (1 - a) ln(1 - a)) / 2 (Demircigil et al. 2017, theorem 3): a bound
    from below, as d grows.

    Parameters
    ----------
    radius : float
        Share of the bits, in [0, 1/2).

    Returns
    -------
    float
        ln of the number of patterns for each unit.

    Raises
    ------
    InputError
        For a radius out of range.

    Examples
    --------
    >>> round(exponential_load(), 4), round(exponential_load(0.1), 4)
    (0.3466, 0.184)
    """
    if not 0 <= radius < 0.5:
        raise InputError(f"`radius` must lie in [0, 1/2), a share of the bits; got {radius!r}.")
    a = 1 - 2 * radius
    below = (1 - a) * math.log(1 - a) if a < 1 else 0.0
    return ((1 + a) * math.log(1 + a) + below) / 4


def spherical_constant(d: int, beta: float = 1.0, length: float = 1.0, failure: float = 1e-3) -> float:
    """Return c of the modern Hopfield network's capacity sqrt(p) c^((d-1)/4), for patterns of length K sqrt(d - 1).

    c = b / W_0(exp(a + ln b)), a = 2/(d-1) (1 + ln(2 beta K^2 p (d-1))), b = 2 K^2 beta / 5 (Ramsauer et al. 2021,
    theorem 3); random patterns on the sphere, each a fixed point of its own with probability 1 - p at least.

    Parameters
    ----------
    d : int
        Width of the patterns, >= 2.
    beta : float
        Sharpness on patterns as they are, > 0.
    length : float
        K, > 0.
    failure : float
        p, in (0, 1].

    Returns
    -------
    float
        c, dimensionless.

    Raises
    ------
    InputError
        For numbers out of range.

    Examples
    --------
    >>> round(spherical_constant(20, 1.0, 3.0), 5), round(spherical_constant(75, 1.0, 1.0), 5)  # printed 3.1546, 1.3718
    (3.15461, 1.37188)
    """
    from scipy.special import lambertw

    width = checked(d)[0]
    if not (width >= 2 and 0 < beta < math.inf and 0 < length < math.inf and 0 < failure <= 1):
        raise InputError(
            f"`d` must be >= 2, `beta` and `length` finite and > 0, `failure` in (0, 1]; got {d!r}, {beta!r}, "
            f"{length!r}, {failure!r}."
        )
    a = 2 / (width - 1) * (1 + math.log(2 * beta * length**2 * failure * (width - 1)))
    b = 2 * length**2 * beta / 5
    return float(b / lambertw(math.exp(a + math.log(b))).real)


def spherical_capacity(d: int, beta: float = 1.0, length: float = 1.0, failure: float = 1e-3) -> Prediction:
    """Return the number of patterns that `spherical_constant` is of: at least sqrt(p) c^((d-1)/4).

    Parameters
    ----------
    d, beta, length, failure : numbers
        As for `spherical_constant`.

    Returns
    -------
    Prediction
        A lower bound.

    Examples
    --------
    >>> round(spherical_capacity(20, 1.0, 3.0).value, 2)
    7.41
    """
    c = spherical_constant(d, beta, length, failure)
    words = f"random patterns of length {length:g} sqrt({d} - 1), beta {beta:g}, failure {failure:g}; a lower bound"
    log = 0.5 * math.log(failure) + (d - 1) / 4 * math.log(c)
    return _asked(d).predict(log, regime=words, source="sqrt(p) c^((d-1)/4) (Ramsauer et al. 2021)", exact=False)


def _asked(d: float) -> Asked:
    return Asked("number of fixed points", d, statistic="threshold")
