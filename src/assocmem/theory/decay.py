"""Memories that fade: what is left of a pair written n pairs ago, for independent uniform unit keys.

The query is the pair's own key k_j, its age n the number of pairs written after it. Where every write multiplies the
matrix by a, its weight is left with a^n. The delta rule multiplies by P = I - b k k^T, k the later pair's key. A
matrix X of second moments then becomes, for k uniform,

    E P X P = X - (2b/d) X + b^2 (tr(X) I + 2X)/(d(d+2)),

so the trace of X shrinks by q = 1 - b(2-b)/d and its part along k_j k_j^T by p = 1 - 2b/d + 2b^2/(d(d+2)) a write.
With E P = (1 - b/d) I that gives all that follows, exactly; docs/theory.md has the steps.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from assocmem.contract.errors import InputError
from assocmem.contract.estimate import Prediction
from assocmem.theory.answer import none, predict
from assocmem.theory.domain import EPS, checked_memories, checked_width

QUOTIENT = "quotient of root mean squares"
SIGNAL = "signal left"


def fading_signal(age: int, decay: float) -> Prediction:
    """Return decay^age: the weight of a pair over that of the newest one, where the matrix decays before each write.

    Parameters: `age`, a whole number >= 0; `decay` in [0, 1]. The same for every key, so every statistic is this.

    >>> fading_signal(100, 0.99).value
    0.366032341273229
    """
    n, log = checked_age(age), _log(checked_share("decay", decay))
    return predict(SIGNAL, _times(n, log), regime="any unit keys", source="decay^age")


def fading_ratio(d: float, n_memories: float, age: int, decay: float) -> Prediction:
    """Return the rms ratio of the pair of an age among M, all of one weight when written, where the matrix decays.

    sqrt(sum over the other ages m of decay^(2m) / d) / decay^age; at decay 1 the outer product's sqrt((M-1)/d).
    Parameters: `age`, a whole number in [0, M). The value is None where decay 0 has left nothing.

    >>> fading_ratio(64, 65, 10, 1.0).value
    1.0
    """
    width, n, at = checked_width(d), checked_memories(n_memories), checked_age(age, n_memories)
    log = 2 * _log(checked_share("decay", decay))
    if log == -math.inf and at:
        return none("ratio", "nothing is left of the pair", regime=_words(width))
    younger = -math.inf if not at else log_geometric(-log, at) - log
    older = log_geometric(log, n - 1 - at) + log if n - 1 > at else -math.inf
    total = 0.5 * (float(np.logaddexp(younger, older)) - math.log(width))
    return predict("ratio", total, regime=_words(width), source="E cos^2 = 1/d, weights decay^age", error=n * EPS)


def delta_signal(
    d: float, age: int, *, strength: float = 1.0, decay: float = 1.0, statistic: Literal["rms", "mean"] = "rms"
) -> Prediction:
    """Return the weight of a pair over that of the newest one under the delta rule, whose writes disturb older pairs.

    mean: decay^n (1 - b/d)^n. rms: decay^n sqrt((1 - 1/d) p^n + q^n/d), see the module. Parameters: `age`, a whole
    number n >= 0; `strength` b in [0, 2]; `decay` in [0, 1] (gated delta rule).

    >>> round(delta_signal(64, 64, statistic="mean").value, 4), round(delta_signal(64, 64).value, 4)
    (0.365, 0.3726)
    """
    width, n = checked_width(d), checked_age(age)
    b, fading = _checked_strength(strength), _times(n, _log(checked_share("decay", decay)))
    if statistic == "mean":
        if b > width:
            return none(SIGNAL, "its mean changes sign with every pair, as strength > d", statistic="mean")
        log = _times(n, _log(1 - b / width))
        return predict(SIGNAL, fading + log, regime=_words(width), source="E P = (1 - b/d) I", statistic="mean")
    if statistic != "rms":
        raise InputError(f"`statistic` must be 'rms' or 'mean'; got {statistic!r}.")
    log = 0.5 * _log_moments(width, n, b)[1]
    return predict(SIGNAL, fading + log, regime=_words(width), source="E P k k^T P in closed form", error=n * EPS)


def delta_ratio(d: float, n_memories: float, age: int, *, strength: float = 1.0, decay: float = 1.0) -> Prediction:
    """Return root mean square interference over root mean square signal under the delta rule, at one age among M.

    With T = q^n, S the squared rms of `delta_signal` without decay and Q = decay^2 q, the interference is
    b^2/d ((1 - Q^n)/(1 - Q) + decay^(2n+2) (T - b(2-b) S) (1 - Q^(M-1-n))/(1 - Q)): pairs younger than the target, then
    older ones, of which the target's own write has taken out what lay along its key. The rms of the quotient itself
    is infinite once the signal can vanish; its median is near this while the signal is larger than its scatter.

    Parameters: `age`, a whole number n in [0, M); `strength` b in (0, 2]; `decay` in [0, 1].

    >>> delta_ratio(64, 1000, 0).value, round(delta_ratio(64, 1000, 30).value, 3)
    (0.0, 1.237)
    """
    width, count, n = checked_width(d), checked_memories(n_memories), checked_age(age, n_memories)
    b, log_a = _checked_strength(strength), 2 * _log(checked_share("decay", decay))
    if b == 0 or (n and log_a == -math.inf):
        return none("ratio", "nothing is left of the pair", statistic=QUOTIENT, regime=_words(width))
    log_t, log_s = _log_moments(width, n, b)
    if log_s == -math.inf:
        return none("ratio", "nothing is left of the pair", statistic=QUOTIENT, regime=_words(width))
    common = log_a + _log(1 - b * (2 - b) / width)
    younger = log_geometric(common, n) if n else -math.inf
    left = 1 - b * (2 - b) * math.exp(log_s - log_t) if log_t > -math.inf else 1.0
    older = -math.inf
    if count - 1 > n and left > 8 * EPS:
        older = _times(n + 1, log_a) + log_t + math.log(left) + log_geometric(common, count - 1 - n)
    noise = float(np.logaddexp(younger, older))
    log = 0.5 * (noise - math.log(width) - log_s - _times(n, log_a))
    words = "E interference^2 / E signal^2, both in closed form"
    return predict("ratio", log, regime=_words(width), source=words, statistic=QUOTIENT, error=count * EPS)


def channel_signal(rates: Sequence[float], steps: Sequence[float], age: int) -> Prediction:
    """Return the rms signal left where every channel and key coordinate decays by itself (Mamba's diagonal).

    The weight of a pair of age n in channel c is D_c sum_s k_s^2 exp(n D_c A_s). Its mean square, summed over the
    channels, follows from E k_s^2 k_r^2 = (1 + 2 [s = r])/(d(d+2)) over unit keys.

    Parameters: `rates` A (d_k numbers <= 0), the same in all channels; `steps` D (d_v numbers > 0).

    >>> channel_signal([0.0] * 8, [0.1, 1.0], 50).value
    1.0
    >>> abs(channel_signal([-1.0] * 8, [0.5], 3).value / math.exp(-1.5) - 1) < 1e-12
    True
    """
    a, step, n = np.asarray(rates, dtype=np.float64), np.asarray(steps, dtype=np.float64), checked_age(age)
    if a.ndim != 1 or step.ndim != 1 or not a.size or not step.size or not np.isfinite(a).all() or (a > 0).any():
        raise InputError("`rates` must be d_k finite numbers <= 0 and `steps` d_v numbers, at least one of each.")
    if not (np.isfinite(step).all() and (step > 0).all()):
        raise InputError("`steps` must be finite numbers > 0.")
    d = a.size
    log_e = n * step[:, None] * a  # (d_v, d_k)
    top = log_e.max(axis=1)
    e = np.exp(log_e - top[:, None])
    squares = (e.sum(axis=1) ** 2 + 2 * (e**2).sum(axis=1)) / (d * (d + 2))
    logs = 2 * np.log(step)
    log = float(np.logaddexp.reduce(logs + 2 * top + np.log(squares)) - np.logaddexp.reduce(logs))
    words = "E k_s^2 k_r^2 = (1 + 2 [s = r])/(d(d+2))"
    return predict(SIGNAL, 0.5 * log, regime=_words(float(d)), source=words, error=1e-14)


def checked_age(age: Any, n_memories: float | None = None) -> int:
    """Return `age`, a whole number >= 0 and below M where that is given."""
    if isinstance(age, bool) or not isinstance(age, int | np.integer) or age < 0:
        raise InputError(f"`age` must be a whole number >= 0; got {age!r}.")
    if n_memories is not None and age >= n_memories:
        raise InputError(f"`age` must be below n_memories = {n_memories:g}, the target counted; got {age}.")
    return int(age)


def checked_share(name: str, value: Any) -> float:
    """Return a number in [0, 1]."""
    if isinstance(value, bool) or not isinstance(value, int | float | np.floating) or not 0 <= value <= 1:
        raise InputError(f"`{name}` must be a number in [0, 1]; got {value!r}.")
    return float(value)


def log_geometric(log_r: float, count: float) -> float:
    """Return ln of the sum of r^i over i = 0 .. count - 1, count >= 1, from ln r; -inf stands for r = 0."""
    if log_r == 0:
        return math.log(count)
    if log_r > 0:
        return (count - 1) * log_r + log_geometric(-log_r, count)
    return math.log(-math.expm1(count * log_r)) - math.log(-math.expm1(log_r))


def _log_moments(d: float, n: int, b: float) -> tuple[float, float]:
    """Return ln T, the mean squared length of P_n .. P_1 k, and ln S, that of its part along the unit vector k."""
    log_t = _times(n, _log(1 - b * (2 - b) / d))
    if d == 1:
        return log_t, log_t
    along = math.log1p(-1 / d) + _times(n, _log(1 - 2 * b / d + 2 * b * b / (d * (d + 2))))
    return log_t, float(np.logaddexp(along, log_t - math.log(d)))


def _checked_strength(strength: Any) -> float:
    if isinstance(strength, bool) or not isinstance(strength, int | float | np.floating) or not 0 <= strength <= 2:
        raise InputError(f"`strength` must be a number in [0, 2]; got {strength!r}.")
    return float(strength)


def _log(x: float) -> float:
    return math.log(x) if x > 0 else -math.inf


def _times(n: int, log: float) -> float:
    """Return n log, 0 for n = 0 also where log is -inf."""
    return n * log if n else 0.0


def _words(d: float) -> str:
    return f"independent uniform unit keys, d = {d:g}, query = the stored key; age = pairs written after it"
