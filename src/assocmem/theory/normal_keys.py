"""Keys by a normal law: a mean and a spectrum, k ~ N(m, C) along the axes of C, as they are or scaled to length one.

Two memories are independent, so a stored key x asked among others k needs E σ(k.x)^2 / σ(x.x)^2.

- σ = e^(b s), keys as they are: given x, k.x is normal, and what is left is the mean of the exponential of a quadratic
  form in x, a product over the axes (exact; infinite where b λ reaches (1 + sqrt 2)/2 on an axis of variance λ).
- σ = s: with N(t) = E x x^T e^(-t |x|^2), a closed form, the mean square is ∫ t tr((C + m m^T) N(t)) dt for keys as
  they are, and tr M^2 with M = ∫ N(t) dt = E x x^T / |x|^2 for keys of length one (exact).
- σ = e^(b (s - 1)), keys of length one: s = k.x / (|k| |x|) depends on P = |k + x|^2/4, Q = |k - x|^2/4 and
  D = (|k|^2 - |x|^2)/2, whose joint cumulant function K is in closed form. E e^(2 b s) is taken by Laplace's method
  over the saddlepoint density of (P, Q, D): |I - K'' F''|^(-1/2) e^(K(t) - t v + F(v)) at t = F'(v), v = K'(t), with
  F = 2 b (P - Q)/sqrt((P + Q)^2 - D^2). An approximation of relative order 1 / effective dimension, labelled so.
- every other σ: the mean over keys drawn from the law (for keys as they are over x alone: k.x is normal given x), an
  approximation that states its standard error.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import singledispatch
from typing import Any

import numpy as np

from assocmem.contract.errors import InputError
from assocmem.contract.estimate import Prediction
from assocmem.maps.activations import Activation, Exp, Linear
from assocmem.theory import quadrature
from assocmem.theory.quadrature import Floats, LogValue, log_abs
from assocmem.theory.questions import EPS, Asked, log_others

DRAWS, ASKED, OTHERS = 16, 256, 1024
"""Draws of keys for the mean over them: in each so many are asked, on keys of length one among so many others."""
DEVIATIONS = np.linspace(-10.0, 10.0, 401)
LOG_WEIGHTS = -0.5 * DEVIATIONS**2 - 0.5 * math.log(2 * math.pi) + math.log(DEVIATIONS[1] - DEVIATIONS[0])

_NONE = "no approximation: keys of length one have too few directions for this sharpness"


@dataclass(frozen=True, eq=False)
class NormalKeys:
    """k ~ N(mean, C), `variances` (r,) and `mean` (r,) along the axes of C; `unit`: then divided by its length.

    Scaled so that the mean squared length is one. Axes on which nothing varies and the mean is 0 are left out.
    """

    variances: Floats
    mean: Floats
    unit: bool

    @classmethod
    def of(cls, settings: Mapping[str, Any]) -> NormalKeys:
        """Return the law of settings `eigenvalues`, `mean` along the same axes, `normalise`; InputError for others."""
        variances = _numbers("eigenvalues", settings.get("eigenvalues"))
        given = settings.get("mean")
        mean = np.zeros(len(variances)) if given is None or len(given) == 0 else _numbers("mean", given)
        if (variances < 0).any() or not (variances.any() or mean.any()):
            raise InputError("`eigenvalues` must be finite numbers >= 0, at least one of them above zero.")
        if mean.shape != variances.shape:
            raise InputError(f"`mean` must have a number for each of {len(variances)} eigenvalues; got {len(mean)}.")
        scale = float(np.max(variances + mean**2))
        variances, mean = variances / scale, mean / math.sqrt(scale)
        total = float(np.sum(variances + mean**2))
        there = (variances > 0) | (mean != 0)
        return cls(variances[there] / total, mean[there] / math.sqrt(total), bool(settings.get("normalise", False)))

    @property
    def rank(self) -> int:
        """How many directions vary."""
        return int(np.count_nonzero(self.variances))


def spectrum_ratio(sigma: Activation, asked: Asked) -> Prediction:
    """Return the rms ratio for keys by the law "spectrum" of `theory.key_laws`.

    Parameters
    ----------
    sigma : Activation
        Exp or Linear; for others the mean over drawn keys.
    asked : Asked
        Its settings: `eigenvalues` of the covariance, `mean` along the same axes (default 0), both up to one factor
        that makes the mean squared length one, and `normalise` (default False): keys are scaled to length one.

    Returns
    -------
    Prediction
        Exact for Linear, and for Exp on keys as they are.
    """
    law = NormalKeys.of(asked.settings)
    words = f"independent normal keys with a given mean and spectrum, d = {asked.d:g}"
    words += ", scaled to length one; M counts the target" if law.unit else "; M counts the target"
    if asked.cosine != 1:
        return asked.none("no theory for a noisy query to keys of varying length", regime=words)
    found = log_interference(sigma, law)
    if isinstance(found, str):
        return asked.none(found, regime=words)
    log = 0.5 * (log_others(asked.n) + found.log)
    exact = math.isfinite(found.error)
    return asked.predict(
        log, regime=words, source=found.method, exact=exact, error=0.5 * found.error if exact else math.inf
    )


@singledispatch
def log_interference(sigma: Activation, law: NormalKeys) -> LogValue | str:
    """Return ln E σ(k.x)^2/σ(x.x)^2, of infinite error where it is an approximation; a reason where there is none."""
    rng, c, m = np.random.Generator(np.random.SFC64(0)), law.variances, law.mean

    def drawn(n: int) -> Floats:
        rows = m + rng.standard_normal((n, len(c))) * np.sqrt(c)
        return np.asarray(rows / np.linalg.norm(rows, axis=1, keepdims=True) if law.unit else rows)

    logs = []
    for _ in range(DRAWS):
        x = drawn(ASKED)
        if law.unit:
            others = _log_mean(2 * log_abs(sigma, x @ drawn(OTHERS).T), np.full(OTHERS, -math.log(OTHERS)))
        else:
            met = (x @ m)[:, None] + np.sqrt(x**2 @ c)[:, None] * DEVIATIONS
            others = _log_mean(2 * log_abs(sigma, met), LOG_WEIGHTS)
        own = 2 * log_abs(sigma, (x**2).sum(axis=1))
        if not np.isfinite(own).all():
            return "infinite: some keys get no weight when they are asked for"
        logs.append(float(_log_mean(others - own, np.full(ASKED, -math.log(ASKED)))))
    log = float(_log_mean(np.array(logs), np.full(DRAWS, -math.log(DRAWS))))
    spread = float(np.std(np.exp(np.array(logs) - log), ddof=1)) / math.sqrt(DRAWS)
    return LogValue(log, math.inf, f"mean over drawn keys, standard error {0.5 * spread:.1%} of the ratio")


def _log_mean(logs: Floats, weights: Floats) -> Floats:
    """Return ln sum e^(logs + weights) over the last axis, -inf where all are 0."""
    terms = logs + weights
    peak = np.maximum(terms.max(axis=-1, keepdims=True), -1e300)
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(np.exp(terms - peak).sum(axis=-1)) + peak[..., 0])


@log_interference.register
def _(sigma: Exp, law: NormalKeys) -> LogValue | str:
    if math.isinf(sigma.beta):
        return "no theory for keys with a spectrum at infinite sharpness"
    if law.unit:
        return log_mean_exp_of_cosine(2 * sigma.beta, law)
    b, c, m = sigma.beta, law.variances, law.mean
    square, straight = 2 * b * b * c - 2 * b, 2 * b * m
    left = 1 - 2 * square * c
    if (left <= 0).any():
        most = (1 + math.sqrt(2)) / (2 * float(c.max()))
        return f"infinite: keys near 0 meet ones far out along the widest axis, from a sharpness of {most:.4g} on"
    terms = (square * m * m + straight * m + 0.5 * c * straight**2) / left
    log = math.fsum(terms) - 0.5 * math.fsum(np.log(left))
    error = 8 * EPS * (len(c) + float(np.abs(terms).sum() + np.abs(np.log(left)).sum()))
    return LogValue(log, error, "mean of the exponential of a quadratic form in a normal key")


@log_interference.register
def _(sigma: Linear, law: NormalKeys) -> LogValue | str:
    c, m = law.variances, law.mean
    decay = law.rank / 2 if law.unit else law.rank / 2 - 1
    away = float(np.sum(m[c == 0] ** 2))  # no key comes nearer to 0 than that
    if decay <= 0 and away == 0:
        return "infinite: Gaussian keys of rank 2 or less are too often near 0"
    ends = [45.0 / decay - math.log(float(c[c > 0].min()))] if decay > 0 else []
    edges = np.linspace(-45.0, min([*ends, *([math.log(100 / away)] if away else [])]), 65)
    if law.unit:
        return _second_moment_of_units(law, float(edges[0]), float(edges[-1]))

    def integrand(y: Floats) -> Floats:
        t = np.exp(y)[..., None]
        grown = 1 + 2 * t * c
        spread = (c * c / grown + c * m * m / grown**2).sum(axis=-1) + (m * m * c / grown).sum(axis=-1)
        met = spread + (m * m / grown).sum(axis=-1) ** 2
        return np.asarray(2 * y + _log_kept(t, c, m) + np.log(met))

    found = quadrature.log_integral(integrand, edges)
    return LogValue(found.log, found.error, "E x^T (C + m m^T) x/|x|^4 by one integral over the spectrum")


def _log_kept(t: Floats, c: Floats, m: Floats) -> Floats:
    """Return ln E e^(-t |x|^2), the last axis of `t` being one."""
    grown = 1 + 2 * t * c
    return np.asarray(-(0.5 * np.log(grown) + t * m * m / grown).sum(axis=-1))


def _second_moment_of_units(law: NormalKeys, low: float, high: float) -> LogValue:
    """Return ln tr M^2, M = E x x^T/|x|^2, by the trapezoidal rule in ln t at two steps."""
    c, m = law.variances, law.mean

    def square(count: int) -> float:
        y, step = np.linspace(low, high, count, retstep=True)
        t = np.exp(y)[:, None]
        grown, kept = 1 + 2 * t * c, np.exp(y + _log_kept(t, c, m)) * step
        along = m / grown
        moment = np.einsum("t,ti,tj->ij", kept, along, along, optimize=True)
        moment[np.diag_indices_from(moment)] += kept @ (c / grown)
        return float(np.sum(moment**2))

    coarse, fine = square(401), square(801)
    return LogValue(
        math.log(fine), abs(fine - coarse) / fine + 64 * EPS, "E x x^T/|x|^2 by integrals over the spectrum"
    )


def log_mean_exp_of_cosine(t: float, law: NormalKeys) -> LogValue | str:
    """Return ln E e^(t (s - 1)), s the cosine of two normal keys, by Laplace's method at the saddlepoint.

    Cost: some hundred sums over the axes. A reason where there is no saddlepoint, as in one or two directions.
    """
    from scipy.optimize import brentq

    c, squares = law.variances, law.mean**2
    if t == 0 or law.rank == 0:
        return LogValue(0.0, 0.0, "all weights are one")
    widest = 1 / float(c.max())

    def place(p: float) -> tuple[float, float, float]:
        """P at p, and the m with m Q(m) = -p P(p), for which F's slopes have the right quotient; Q there."""
        with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
            first = float(np.sum(0.5 * c / (1 - c * p) + squares / (1 - c * p) ** 2))
        other = 0.0 if p == 0 else _other_side(p * first, c)
        return first, other, float(np.sum(0.5 * c[c > 0] / (1 + c[c > 0] * other)))

    def excess(share: float) -> float:
        p = share * widest
        first, other, second = place(p)
        return math.inf if math.isinf(other) else p * (first + second) ** 2 / (2 * second) - t

    end = _last_finite(excess)
    if not excess(end) > 0:
        return _NONE
    share = float(brentq(excess, 0.0, end, xtol=1e-15, rtol=1e-13))
    p = share * widest
    first, other, second = place(p)
    whole = first + second
    near, far = 1 - c * p, 1 + c * other
    log = -0.5 * float(np.log(near).sum() + np.log(far).sum()) + float(np.sum(squares * p / near))
    log += -p * first + other * second + t * ((first - second) / whole - 1)
    of_first = float(np.sum(0.5 * c * c / near**2 + 2 * c * squares / near**3))
    of_second = float(np.sum(0.5 * c * c / far**2))
    of_both = float(np.sum((c / near + 2 * squares / near**2) * c / far))
    bend = t / whole**3
    cross = 2 * bend * (first - second)
    shape = (1 + 4 * bend * second * of_first) * (1 - 4 * bend * first * of_second) - cross**2 * of_first * of_second
    aside = 1 - of_both * bend * (first - second)
    if shape <= 0 or aside <= 0:
        return _NONE
    log -= 0.5 * (math.log(shape) + math.log(aside))
    return LogValue(log, math.inf, "Laplace's method at the saddlepoint of two lengths and their product")


def _other_side(wanted: float, c: Floats) -> float:
    """Return x > 0 with x sum (c/2)/(1 + c x) = wanted, infinity where that is beyond the number of axes over two."""
    if wanted >= 0.5 * np.count_nonzero(c):
        return math.inf
    x = 0.0
    for _ in range(200):  # the sum is concave, so Newton's method comes to the root from the left
        grown = 1 + c * x
        step = (wanted - float(np.sum(0.5 * c * x / grown))) / float(np.sum(0.5 * c / grown**2))
        x += step
        if not step > 1e-15 * x:
            break
    return x


def _last_finite(excess: Any) -> float:
    """Return a share in (0, 1) at which the excess is positive and finite, or the largest at which it is negative."""
    low, high = 0.0, 1 - 1e-15
    for _ in range(60):
        middle = 0.5 * (low + high)
        found = excess(middle)
        if math.isinf(found):
            high = middle
        elif found > 0:
            return middle
        else:
            low = middle
    return high


def _numbers(name: str, given: Any) -> Floats:
    if given is None:
        raise InputError(f"`{name}` must be given for keys with a spectrum.")
    values = np.asarray(given, dtype=np.float64)
    if values.ndim != 1 or not np.isfinite(values).all():
        raise InputError(f"`{name}` must be finite numbers, one for each axis; got shape {values.shape}.")
    return values
