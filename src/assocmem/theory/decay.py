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
from dataclasses import replace

import numpy as np

from assocmem.contract.errors import InputError
from assocmem.contract.estimate import Prediction, Statistic
from assocmem.contract.form import ChannelDecay, Decay, DeltaRule
from assocmem.theory.answer import known, none, predict
from assocmem.theory.domain import EPS, checked_age, checked_memories, checked_width
from assocmem.theory.questions import LEFT, SIGNAL, old_value_left, ratio_by_age, signal_by_age

QUOTIENT = "quotient of root mean squares"


@signal_by_age.register
def _(form: Decay, d: int, age: int, *, statistic: Statistic = "rms", d_v: int = 64) -> Prediction:
    """decay^age, where the matrix decays before each write: the same for every key, so every statistic is this."""
    n, log = checked_age(age), _log(form.decay)
    return predict(SIGNAL, _times(n, log), regime="any unit keys", source="decay^age", statistic=statistic)


@ratio_by_age.register
def _(form: Decay, d: int, n_memories: float, age: int) -> Prediction:
    """sqrt(sum over the other ages m of decay^(2m) / d) / decay^age; none where decay 0 has left nothing."""
    width, n, at = checked_width(d), checked_memories(n_memories), checked_age(age, n_memories)
    log = 2 * _log(form.decay)
    if log == -math.inf and at:
        return none("ratio", "nothing is left of the pair", regime=_words(width))
    younger = -math.inf if not at else log_geometric(-log, at) - log
    older = log_geometric(log, n - 1 - at) + log if n - 1 > at else -math.inf
    total = 0.5 * (float(np.logaddexp(younger, older)) - math.log(width))
    return predict("ratio", total, regime=_words(width), source="E cos^2 = 1/d, weights decay^age", error=n * EPS)


@old_value_left.register
def _(form: Decay, d: int, n_memories: int, rewritten: int) -> Prediction:
    return replace(signal_by_age(form, d, rewritten, statistic="median"), quantity=LEFT)


@signal_by_age.register
def _(form: DeltaRule, d: int, age: int, *, statistic: Statistic = "rms", d_v: int = 64) -> Prediction:
    """Later writes disturb older pairs. mean: decay^n (1 - b/d)^n; rms: decay^n sqrt((1 - 1/d) p^n + q^n/d)."""
    width, n = checked_width(d), checked_age(age)
    b, fading = form.strength, _times(n, _log(form.decay))
    if statistic == "mean":
        if b > width:
            return none(SIGNAL, "its mean changes sign with every pair, as strength > d", statistic="mean")
        log = _times(n, _log(1 - b / width))
        return predict(SIGNAL, fading + log, regime=_words(width), source="E P = (1 - b/d) I", statistic="mean")
    if statistic != "rms":
        raise InputError(f"`statistic` must be 'rms' or 'mean'; got {statistic!r}.")
    log = 0.5 * _log_moments(width, n, b)[1]
    return predict(SIGNAL, fading + log, regime=_words(width), source="E P k k^T P in closed form", error=n * EPS)


@ratio_by_age.register
def _(form: DeltaRule, d: int, n_memories: float, age: int) -> Prediction:
    """Root mean square interference over root mean square signal, at strength b and age n.

    With T = q^n, S the squared rms signal without decay and Q = decay^2 q, the interference is
    b^2/d ((1 - Q^n)/(1 - Q) + decay^(2n+2) (T - b(2-b) S) (1 - Q^(M-1-n))/(1 - Q)): pairs younger than the target, then
    older ones, of which the target's own write has taken out what lay along its key. The rms of the quotient itself
    is infinite once the signal can vanish; its median is near this while the signal is larger than its scatter.
    """
    width, count, n = checked_width(d), checked_memories(n_memories), checked_age(age, n_memories)
    b, log_a = form.strength, 2 * _log(form.decay)
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


@old_value_left.register
def _(form: DeltaRule, d: int, n_memories: int, rewritten: int) -> Prediction:
    if n_memories == 1:
        return known(LEFT, abs(1 - form.strength) * form.decay, "the key itself is the only one")
    return old_value_left.dispatch(object)(form, d, n_memories, rewritten)


@signal_by_age.register
def _(form: ChannelDecay, d: int, age: int, *, statistic: Statistic = "rms", d_v: int = 64) -> Prediction:
    """Every channel and key coordinate decays by itself (Mamba's diagonal).

    The weight of a pair of age n in channel c is D_c sum_s k_s^2 exp(n D_c A_s). Its mean square, summed over the
    channels, follows from E k_s^2 k_r^2 = (1 + 2 [s = r])/(d(d+2)) over unit keys.
    """
    if statistic != "rms":
        return signal_by_age.dispatch(object)(form, d, age, statistic=statistic)
    a, step, n = np.asarray(form.rates, dtype=np.float64), form.steps(d_v), checked_age(age)
    if a.size != d or not step.size:
        raise InputError(f"`d` must be the {a.size} rates' number and `d_v` >= 1; got {d!r} and {d_v!r}.")
    log_e = n * step[:, None] * a  # (d_v, d_k)
    top = log_e.max(axis=1)
    e = np.exp(log_e - top[:, None])
    squares = (e.sum(axis=1) ** 2 + 2 * (e**2).sum(axis=1)) / (d * (d + 2))
    logs = 2 * np.log(step)
    log = float(np.logaddexp.reduce(logs + 2 * top + np.log(squares)) - np.logaddexp.reduce(logs))
    words = "E k_s^2 k_r^2 = (1 + 2 [s = r])/(d(d+2))"
    return predict(SIGNAL, 0.5 * log, regime=_words(float(d)), source=words, error=1e-14)


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


def _log(x: float) -> float:
    return math.log(x) if x > 0 else -math.inf


def _times(n: int, log: float) -> float:
    """Return n log, 0 for n = 0 also where log is -inf."""
    return n * log if n else 0.0


def _words(d: float) -> str:
    return f"independent uniform unit keys, d = {d:g}, query = the stored key; age = pairs written after it"
