"""Information: what a ratio is worth in bits, as the capacity of a Gaussian channel."""

from __future__ import annotations

import math

from assocmem.contract.errors import InputError
from assocmem.contract.estimate import Estimate

_BITS = "bits per recall, d_v/2 log2(1 + 1/ratio^2)"
_STATE = "bits per number of state, M d_v/2 log2(1 + 1/ratio^2) / (numbers held)"


def bits_per_recall(ratio: float | Estimate, d_v: int) -> Estimate:
    """Return d_v/2 log2(1 + 1/ratio^2): the bits that one recall tells about a Gaussian value in Gaussian noise.

    Parameters
    ----------
    ratio : float or Estimate
        >= 0, dimensionless; the interval of an Estimate is carried over.
    d_v : int
        Width of the values, >= 1.

    Returns
    -------
    Estimate
        In bits. At ratio 0 its value is None with a reason, because a real number without noise holds any number of
        bits.

    Raises
    ------
    InputError
        For negative or NaN ratios.

    Examples
    --------
    >>> bits_per_recall(1.0, 64).value
    32.0
    """
    if isinstance(d_v, bool) or int(d_v) != d_v or d_v < 1:
        raise InputError(f"`d_v` must be a whole number >= 1; got {d_v!r}.")
    return _scaled(ratio, d_v / 2, _BITS)


def bits_per_state(ratio: float | Estimate, d_v: int, n_memories: float, state_size: int) -> Estimate:
    """Return the bits that all M recalls tell, divided by the numbers that the state holds.

    Parameters
    ----------
    ratio, d_v
        As in `bits_per_recall`.
    n_memories : float
        The M > 0 at which the ratio was measured.
    state_size : int
        Numbers held, >= 1, counted from the arrays (`State.size`).

    Returns
    -------
    Estimate
        In bits per number.

    Raises
    ------
    InputError
        For numbers out of range.

    Examples
    --------
    >>> bits_per_state(1.0, 64, 65, 64 * 64).value
    0.5078125
    """
    if not (math.isfinite(n_memories) and n_memories > 0):
        raise InputError(f"`n_memories` must be a finite number > 0; got {n_memories!r}.")
    if isinstance(state_size, bool) or int(state_size) != state_size or state_size < 1:
        raise InputError(f"`state_size` must be a whole number >= 1; got {state_size!r}.")
    bits_per_recall(1.0, d_v)
    return _scaled(ratio, d_v / 2 * n_memories / state_size, _STATE)


def _scaled(ratio: float | Estimate, factor: float, definition: str) -> Estimate:
    measured = isinstance(ratio, Estimate)
    given = ratio if isinstance(ratio, Estimate) else Estimate(float(ratio), None, None, 0, 0, "a given ratio", "")
    if given.value is None:
        return given.renamed(definition=definition, reason=given.reason or "the ratio was not measured")
    if math.isnan(given.value) or given.value < 0:
        raise InputError(f"`ratio` must be a number >= 0; got {given.value!r}.")
    words = f"{definition}; ratio: {given.definition}" if measured else definition
    if given.value == 0:
        reason = "the ratio is 0: nothing interferes, and a real number without noise holds any number of bits"
        return given.renamed(value=None, low=None, high=None, definition=words, reason=reason)
    low = None if given.high is None else factor * _log_term(given.high)
    high = None if not given.low else factor * _log_term(given.low)
    return given.renamed(value=factor * _log_term(given.value), low=low, high=high, definition=words)


def _log_term(ratio: float) -> float:
    """Return log2(1 + 1/ratio^2), finite for any ratio > 0."""
    if math.isinf(ratio):
        return 0.0
    power = -2 * math.log(ratio)
    return (max(power, 0.0) + math.log1p(math.exp(-abs(power)))) / math.log(2)
