"""Recall from the k most similar pairs alone, and from tables that keys are hashed into: exact ratios.

Asked with a stored key, the key itself is the most similar of all, and k - 1 of the other M - 1 take part. One of them,
at similarity s, does where at most k - 2 of the M - 2 remaining ones are more similar, so

    ratio^2 = (M - 1) E [σ(s)^2 P(Bin(M - 2, P(S > s)) <= k - 2)] / σ(1)^2

one integral over the law of s, whose second factor is an incomplete beta function.
"""

from __future__ import annotations

import math
from functools import partial

import numpy as np

from assocmem.contract.estimate import Prediction
from assocmem.contract.form import Hashed, KernelSum, TopK
from assocmem.maps.activations import Activation
from assocmem.theory import quadrature, questions
from assocmem.theory.moments import log_density, log_signal
from assocmem.theory.quadrature import Floats, LogValue
from assocmem.theory.questions import Asked, log_of, log_others, plus_one

MOST = 1e15
"""The M up to which a capacity is looked for."""


@questions.answer_ratio.register
def _(form: TopK, asked: Asked) -> Prediction:
    """By quadrature; with as few memories as take part, the ratio of the form itself."""
    if isinstance(refused := _refused(form, asked), Prediction):
        return refused
    if asked.n <= form.k:
        return questions.answer_ratio(form.of, asked)
    sigma = refused.at(asked.n, asked.d)  # type: ignore[arg-type]
    own, others = log_signal(sigma, 1.0), _log_chosen(sigma, asked.d, asked.n, form.k)
    if own.log == -math.inf:
        return asked.none("no recall: the target's own weight σ(1) is 0")
    log = 0.5 * (log_others(asked.n) + others.log) - own.log
    source = "order statistics of the similarities: " + others.method
    return asked.predict(log, source=source, error=0.5 * others.error + own.error)


@questions.answer_capacity.register
def _(form: TopK, asked: Asked) -> Prediction:
    """The smallest M at which the ratio rises to what is wanted, looked for in steps of a factor e."""
    if isinstance(refused := _refused(form, asked), Prediction):
        return refused
    end = min(asked.n, MOST)

    def above(y: float) -> float:
        there = questions.Asked("ratio", asked.d, 1 + math.exp(y))
        found = questions.answer_ratio(form, there)
        log = -math.inf if found.log_value is None else found.log_value
        return log - math.log(asked.wanted)

    low = 0.0
    if above(low) >= 0:
        return questions.answer_capacity(form.of, asked)
    while low < math.log(end):
        high = min(low + 1, math.log(end))
        if above(high) >= 0:
            from scipy.optimize import brentq

            y = brentq(above, low, high, xtol=1e-13, rtol=1e-14)
            return asked.predict(plus_one(y), source="exact ratio of the k most similar, solved for ln M", error=1e-9)
        low = high
    reached = math.exp(above(low)) * asked.wanted
    return asked.none(
        f"not reached up to M = {end:,.0f}: the ratio is {reached:.4g} there, as never more than k - 1 = {form.k - 1} "
        "other pairs take part"
    )


def _refused(form: TopK, asked: Asked) -> Prediction | KernelSum:
    """Return why there is no answer, or the kernel sum that takes part."""
    if not isinstance(form.of, KernelSum) or form.of.sigma is None:
        return asked.unknown(form)
    if asked.statistic != "rms":
        return asked.none(f"theory gives the root mean square, not the {asked.statistic}")
    if asked.law != "sphere":
        return asked.none(f"there is no formula for the most similar keys by the law {asked.law!r}")
    if asked.d == 1:
        return asked.none("at d = 1 half of all keys are the target's own, and which of them are chosen is left open")
    if asked.cosine != 1 and asked.n > form.k:
        return asked.none(
            f"infinite: with a noisy query {form.k} other keys may all be more similar than the target's own, which "
            "then has no weight"
        )
    return form.of


def _log_chosen(sigma: Activation, d: float, n: float, k: int) -> LogValue:
    """Return ln E σ(s)^2 [s is among the k - 1 largest of n - 1], n > k."""
    if k == 1:
        return LogValue(-math.inf, 0.0, "the target alone takes part")
    from scipy.special import betaincinv

    # About 2 k of the others lie beyond this place: the probability falls there, and panels begin around it.
    edge = math.acos(math.sqrt(min(1.0, float(betaincinv((d - 1) / 2, 0.5, min(1.0, 2 * k / n))))))
    marks = edge + (math.pi / 2 - edge) * np.linspace(-1, 1, 9)
    edges = np.unique(np.concatenate([quadrature.edges_on_sphere(d, sigma.breaks), marks]))
    density = partial(_log_density_of_chosen, d=d, n=n, k=k)
    return quadrature.log_integral_of_square(sigma, density, np.sin, edges)


def _log_density_of_chosen(theta: Floats, d: float, n: float, k: int) -> Floats:
    """Return ln of the density of θ = arcsin s times the probability that at most k - 2 of n - 2 lie above."""
    from scipy.special import betainc, betaincc

    tail = 0.5 * betainc((d - 1) / 2, 0.5, np.cos(theta) ** 2)
    above = np.where(theta < 0, 1 - tail, tail)
    with np.errstate(divide="ignore"):
        return np.asarray(log_density(theta, d) + np.log(betaincc(k - 1, n - k, above)))


@questions.answer_ratio.register
def _(form: Hashed, asked: Asked) -> Prediction:
    """sqrt((M-1) E A^2), A the share of the tables in which another key has the target's row."""
    if isinstance(square := _collisions(form, asked), Prediction):
        return square
    log = 0.5 * (log_others(asked.n) + math.log(square))
    return asked.predict(log, regime=_HASHED, source=_SOURCE)


@questions.answer_capacity.register
def _(form: Hashed, asked: Asked) -> Prediction:
    """M = 1 + ratio^2 / E A^2."""
    if isinstance(square := _collisions(form, asked), Prediction):
        return square
    return asked.predict(plus_one(2 * log_of(asked.wanted) - math.log(square)), regime=_HASHED, source=_SOURCE)


_HASHED = "distinct keys, hashes independent and uniform over the rows of each table; M counts the target"
_SOURCE = "E A^2 = ((sum 1/p)^2 + sum 1/p (1 - 1/p)) / T^2 over T tables of p rows"


def _collisions(form: Hashed, asked: Asked) -> Prediction | float:
    if asked.statistic != "rms":
        return asked.none(f"theory gives the root mean square, not the {asked.statistic}")
    if asked.cosine != 1:
        return asked.none("a hashed key that is not the stored one finds other rows: there is no recall of it")
    shares = [1 / rows for rows in form.rows]
    return (math.fsum(shares) ** 2 + math.fsum(p * (1 - p) for p in shares)) / len(shares) ** 2
