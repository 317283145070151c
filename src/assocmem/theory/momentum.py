"""Memories trained pair by pair with momentum: what is left of a pair of age n, for independent uniform unit keys.

With step c, momentum e and share kept x, a write with key k moves the vectors a, s by which a pair acts on queries,

    s <- e s - c k k^T a,    a <- x a + s,

and starts a new pair at a = s = c k. The second moments E a a^T, E a s^T, E s s^T keep the form α k_j k_j^T + β I under
uniform k (see theory.decay), so six numbers follow a pair exactly through any number of writes.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from assocmem.contract.errors import InputError
from assocmem.contract.estimate import Prediction, Statistic
from assocmem.contract.form import Momentum
from assocmem.theory.answer import none, predict
from assocmem.theory.decay import QUOTIENT
from assocmem.theory.domain import EPS, checked_age, checked_memories, checked_width
from assocmem.theory.questions import SIGNAL, ratio_by_age, signal_by_age

Moments = np.ndarray[Any, np.dtype[np.float64]]
"""(2, 2, 2): by vector, vector (a or s), and part: along k_j k_j^T, along I."""


@signal_by_age.register
def _(form: Momentum, d: int, age: int, *, statistic: Statistic = "rms", d_v: int = 64) -> Prediction:
    """Cost: linear in the age. Without momentum the delta rule's numbers, to rounding."""
    width, n = checked_width(d), checked_age(age)
    rule = _Rule(width, form)
    if statistic == "mean":
        along = rule.means(n)
        if along <= 0:
            return none(SIGNAL, "its mean is not above zero at this age", statistic="mean", regime=_words(width))
        log = math.log(along)
    elif statistic == "rms":
        log = 0.5 * _log(float(rule.after(rule.fresh(), n)[0, 0].sum()))
    else:
        raise InputError(f"`statistic` must be 'rms' or 'mean'; got {statistic!r}.")
    source = "recursion of the moments"
    return predict(SIGNAL, log, regime=_words(width), source=source, statistic=statistic, error=8 * (n + 1) * EPS)


@ratio_by_age.register
def _(form: Momentum, d: int, n_memories: float, age: int) -> Prediction:
    """Root mean square interference over root mean square signal. Cost: linear in M.

    Pairs younger than the target act through keys independent of its own; older ones pass through the target's own
    write, whose key is the query.
    """
    width, count, n = checked_width(d), int(checked_memories(n_memories)), checked_age(age, n_memories)
    rule = _Rule(width, form)
    younger, own = rule.through(n)
    older = rule.asked(rule.spread(rule.through(count - 1 - n)[0]))
    total = rule.after(older, n)[0, 0].sum() + rule.spread(younger)[0, 0, 1]
    signal = float(own[0, 0].sum())
    if signal <= 0:
        return none("ratio", "nothing is left of the pair", statistic=QUOTIENT, regime=_words(width))
    log = 0.5 * (_log(float(total)) - math.log(signal))
    words = "recursion of the moments: E interference^2 / E signal^2"
    return predict("ratio", log, regime=_words(width), source=words, statistic=QUOTIENT, error=16 * (count + 1) * EPS)


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


def _log(x: float) -> float:
    return math.log(x) if x > 0 else -math.inf


def _words(d: float) -> str:
    return f"independent uniform unit keys, d = {d:g}, query = the stored key; age = pairs written after it"
