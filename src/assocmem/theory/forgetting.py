"""Memories that fade: what is left of a pair written n pairs ago, for independent uniform unit keys.

The query is the pair's own key k_j, its age n the number of pairs written after it. Where every write multiplies the
matrix by a, its weight is left with a^n. The delta rule multiplies by P = I - b k k^T, k the later pair's key. A
matrix X of second moments then becomes, for k uniform,

    E P X P = X - (2b/d) X + b^2 (tr(X) I + 2X)/(d(d+2)),

so the trace of X shrinks by q = 1 - b(2-b)/d and its part along k_j k_j^T by p = 1 - 2b/d + 2b^2/(d(d+2)) a write.
With E P = (1 - b/d) I that gives all that follows, exactly; docs/theory.md has the steps.

Trained with step c, momentum e and share kept x, a write with key k moves the vectors a, s by which a pair acts on
queries, s <- e s - c k k^T a, a <- x a + s, and starts a new pair at a = s = c k. The second moments E a a^T, E a s^T,
E s s^T keep the form α k_j k_j^T + β I, so six numbers follow a pair exactly through any number of writes.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from assocmem.contract.errors import InputError
from assocmem.contract.estimate import Prediction
from assocmem.contract.form import ChannelDecay, Decay, DeltaRule, Momentum
from assocmem.theory import questions
from assocmem.theory.questions import EPS, Asked, log_of

QUOTIENT = "quotient of root mean squares"
_NOTHING = "nothing is left of the pair"
Moments = np.ndarray[Any, np.dtype[np.float64]]
"""(2, 2, 2): by vector, vector (a or s), and part: along k_j k_j^T, along I."""

# ------------------------------------------------------------------ a matrix that decays


@questions.answer_signal_by_age.register
def _(form: Decay, asked: Asked) -> Prediction:
    """decay^age, where the matrix decays before each write: the same for every key, so every statistic is this."""
    return asked.predict(_times(asked.age, log_of(form.decay)), regime="any unit keys", source="decay^age")


@questions.answer_ratio_by_age.register
def _(form: Decay, asked: Asked) -> Prediction:
    """sqrt(sum over the other ages m of decay^(2m) / d) / decay^age; none where decay 0 has left nothing."""
    n, age, log, words = asked.n, asked.age, 2 * log_of(form.decay), _words(asked.d)
    if log == -math.inf and age:
        return asked.none(_NOTHING, regime=words)
    younger = -math.inf if not age else log_geometric(-log, age) - log
    older = log_geometric(log, n - 1 - age) + log if n - 1 > age else -math.inf
    total = 0.5 * (float(np.logaddexp(younger, older)) - math.log(asked.d))
    return asked.predict(total, regime=words, source="E cos^2 = 1/d, weights decay^age", error=n * EPS)


@questions.answer_old_value_left.register
def _(form: Decay, asked: Asked) -> Prediction:
    return questions.answer_signal_by_age(form, asked)


@questions.answer_signal_by_age.register
def _(form: ChannelDecay, asked: Asked) -> Prediction:
    """Every channel and key coordinate decays by itself (Mamba's diagonal).

    The weight of a pair of age n in channel c is D_c sum_s k_s^2 exp(n D_c A_s). Its mean square, summed over the
    channels, follows from E k_s^2 k_r^2 = (1 + 2 [s = r])/(d(d+2)) over unit keys.
    """
    if asked.statistic != "rms":
        return asked.unknown(form)
    a, step = np.asarray(form.rates, dtype=np.float64), form.steps(asked.d_v)
    d = a.size
    if d != asked.d or not step.size:
        raise InputError(f"`d` must be the {d} rates' number and `d_v` >= 1; got {asked.d:g} and {asked.d_v!r}.")
    log_e = asked.age * step[:, None] * a  # (d_v, d_k)
    top = log_e.max(axis=1)
    e = np.exp(log_e - top[:, None])
    squares = (e.sum(axis=1) ** 2 + 2 * (e**2).sum(axis=1)) / (d * (d + 2))
    logs = 2 * np.log(step)
    log = float(np.logaddexp.reduce(logs + 2 * top + np.log(squares)) - np.logaddexp.reduce(logs))
    words = "E k_s^2 k_r^2 = (1 + 2 [s = r])/(d(d+2))"
    return asked.predict(0.5 * log, regime=_words(d), source=words, error=1e-14)


# ------------------------------------------------------------------ the delta rule


@questions.answer_signal_by_age.register
def _(form: DeltaRule, asked: Asked) -> Prediction:
    """Later writes disturb older pairs. mean: decay^n (1 - b/d)^n; rms: decay^n sqrt((1 - 1/d) p^n + q^n/d)."""
    d, n, b, words = asked.d, asked.age, form.strength, _words(asked.d)
    fading = _times(n, log_of(form.decay))
    if asked.statistic not in ("rms", "mean"):
        return asked.unknown(form)
    if asked.statistic == "mean":
        if b > d:
            return asked.none("its mean changes sign with every pair, as strength > d")
        return asked.predict(fading + _times(n, log_of(1 - b / d)), regime=words, source="E P = (1 - b/d) I")
    log = 0.5 * _log_moments(d, n, b)[1]
    return asked.predict(fading + log, regime=words, source="E P k k^T P in closed form", error=n * EPS)


@questions.answer_ratio_by_age.register
def _(form: DeltaRule, asked: Asked) -> Prediction:
    """Root mean square interference over root mean square signal, at strength b and age n.

    With T = q^n, S the squared rms signal without decay and Q = decay^2 q, the interference is
    b^2/d ((1 - Q^n)/(1 - Q) + decay^(2n+2) (T - b(2-b) S) (1 - Q^(M-1-n))/(1 - Q)): pairs younger than the target, then
    older ones, of which the target's own write has taken out what lay along its key. The rms of the quotient itself
    is infinite once the signal can vanish; its median is near this while the signal is larger than its scatter.
    """
    d, count, n, b, log_a = asked.d, asked.n, asked.age, form.strength, 2 * log_of(form.decay)
    log_t, log_s = _log_moments(d, n, b)
    if b == 0 or (n and log_a == -math.inf) or log_s == -math.inf:
        return asked.none(_NOTHING, statistic=QUOTIENT, regime=_words(d))
    common = log_a + log_of(1 - b * (2 - b) / d)
    younger = log_geometric(common, n) if n else -math.inf
    left = 1 - b * (2 - b) * math.exp(log_s - log_t) if log_t > -math.inf else 1.0
    older = -math.inf
    if count - 1 > n and left > 8 * EPS:
        older = _times(n + 1, log_a) + log_t + math.log(left) + log_geometric(common, count - 1 - n)
    noise = float(np.logaddexp(younger, older))
    log = 0.5 * (noise - math.log(d) - log_s - _times(n, log_a))
    words = "E interference^2 / E signal^2, both in closed form"
    return asked.predict(log, regime=_words(d), source=words, statistic=QUOTIENT, error=count * EPS)


@questions.answer_old_value_left.register
def _(form: DeltaRule, asked: Asked) -> Prediction:
    if asked.n != 1:
        return asked.unknown(form)
    return asked.known(abs(1 - form.strength) * form.decay, "the key itself is the only one")


def log_geometric(log_r: float, count: float) -> float:
    """Return ln of the sum of r^i over i = 0 .. count - 1, count >= 1, from ln r; -inf stands for r = 0."""
    if log_r == 0:
        return math.log(count)
    if log_r > 0:
        return (count - 1) * log_r + log_geometric(-log_r, count)
    return math.log(-math.expm1(count * log_r)) - math.log(-math.expm1(log_r))


def _log_moments(d: float, n: int, b: float) -> tuple[float, float]:
    """Return ln T, the mean squared length of P_n .. P_1 k, and ln S, that of its part along the unit vector k."""
    log_t = _times(n, log_of(1 - b * (2 - b) / d))
    if d == 1:
        return log_t, log_t
    along = math.log1p(-1 / d) + _times(n, log_of(1 - 2 * b / d + 2 * b * b / (d * (d + 2))))
    return log_t, float(np.logaddexp(along, log_t - math.log(d)))


# ------------------------------------------------------------------ training with momentum


@questions.answer_signal_by_age.register
def _(form: Momentum, asked: Asked) -> Prediction:
    """Cost: linear in the age. Without momentum the delta rule's numbers, to rounding."""
    rule, n, words, mean = _Rule(asked.d, form), asked.age, _words(asked.d), asked.statistic == "mean"
    if asked.statistic not in ("rms", "mean"):
        return asked.unknown(form)
    share = rule.means(n) if mean else float(rule.after(rule.fresh(), n)[0, 0].sum())
    if mean and share <= 0:
        return asked.none("its mean is not above zero at this age", regime=words)
    log = math.log(share) if mean else 0.5 * log_of(share)
    return asked.predict(log, regime=words, source="recursion of the moments", error=8 * (n + 1) * EPS)


@questions.answer_ratio_by_age.register
def _(form: Momentum, asked: Asked) -> Prediction:
    """Root mean square interference over root mean square signal. Cost: linear in M.

    Pairs younger than the target act through keys independent of its own; older ones pass through the target's own
    write, whose key is the query.
    """
    rule, count, n = _Rule(asked.d, form), int(asked.n), asked.age
    younger, own = rule.through(n)
    older = rule.asked(rule.spread(rule.through(count - 1 - n)[0]))
    total = rule.after(older, n)[0, 0].sum() + rule.spread(younger)[0, 0, 1]
    signal = float(own[0, 0].sum())
    if signal <= 0:
        return asked.none(_NOTHING, statistic=QUOTIENT, regime=_words(asked.d))
    log = 0.5 * (log_of(float(total)) - math.log(signal))
    words = "recursion of the moments: E interference^2 / E signal^2"
    return asked.predict(log, regime=_words(asked.d), source=words, statistic=QUOTIENT, error=16 * (count + 1) * EPS)


class _Rule:
    """One write: (a, s) <- B (a, s) - c (1, 1) k.a k, moments in units of c^2."""

    def __init__(self, d: float, form: Momentum) -> None:
        self.d, self.c = d, float(form.step)
        self.B = np.array([[1.0 - form.forgetting, form.momentum], [0.0, form.momentum]])

    def fresh(self) -> Moments:
        """Return the moments of a pair just written, its own key along k_j."""
        found = np.zeros((2, 2, 2))
        found[..., 0] = 1.0
        return found

    def after(self, moments: Moments, n: int) -> Moments:
        """Return the moments after n writes with independent uniform keys."""
        for _ in range(n):
            moments = self._next(moments)
        return moments

    def through(self, n: int) -> tuple[Moments, Moments]:
        """Return the sum of the moments of pairs of ages 0 .. n - 1, and the moments at age n."""
        now, total = self.fresh(), np.zeros((2, 2, 2))
        for _ in range(n):
            total = total + now
            now = self._next(now)
        return total, now

    def spread(self, moments: Moments) -> Moments:
        """Return the moments seen from a key independent of the pair's own: their trace over d, times I."""
        found = np.zeros((2, 2, 2))
        found[..., 1] = moments[..., 1] + moments[..., 0] / self.d
        return found

    def asked(self, moments: Moments) -> Moments:
        """Return isotropic moments after the write whose key is the query."""
        B, b = self.B, moments[..., 1]
        cross = B @ b[:, 0]  # of B (a, s) with a
        found = np.empty((2, 2, 2))
        found[..., 1] = B @ b @ B.T
        found[..., 0] = -self.c * (cross[:, None] + cross[None, :]) + self.c**2 * b[0, 0]
        return found

    def means(self, n: int) -> float:
        """Return the mean weight of a pair of age n, in units of the newest pair's."""
        matrix = self.B.copy()
        matrix[:, 0] -= self.c / self.d
        return float((np.linalg.matrix_power(matrix, n) @ np.ones(2))[0])

    def _next(self, moments: Moments) -> Moments:
        B, d = self.B, self.d
        moved = np.einsum("ij,jkp,lk->ilp", B, moments, B)
        cross = np.einsum("ij,jp->ip", B, moments[:, 0])  # (2, part)
        aa = moments[0, 0]
        kick = 2 * aa / (d * (d + 2))
        kick[1] += (aa[0] + d * aa[1]) / (d * (d + 2))
        return np.asarray(moved - self.c / d * (cross[:, None] + cross[None, :]) + self.c**2 * kick)


def _times(n: int, log: float) -> float:
    """Return n log, 0 for n = 0 also where log is -inf."""
    return n * log if n else 0.0


def _words(d: float) -> str:
    return f"independent uniform unit keys, d = {d:g}, query = the stored key; age = pairs written after it"
