"""Adaptive quadrature in log space: ln of the integral of e^g over panels, with an error bound.

Each panel is read by a Gauss-Legendre rule of 20 nodes, then by the same rule on its two halves. Where the two
readings part, the halves are split again; where they agree, the finer one is kept and the difference counts as its
error, an overestimate for smooth g. All panels of a round are evaluated in one call.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeAlias

import numpy as np

from assocmem.contract.arrays import to_numpy
from assocmem.contract.errors import InputError
from assocmem.maps.activations import Activation
from assocmem.theory.questions import EPS

Floats: TypeAlias = "np.ndarray[Any, Any]"

_ROUNDS = 64
_PANELS = 40_000
_UNDERFLOW = -660.0  # ln of a weight so small that a float may have dropped what follows it


@dataclass(frozen=True)
class LogValue:
    """ln of a positive number, a bound on its absolute error, and the method that gave it."""

    log: float
    error: float
    method: str


def log_mean_of_two(sigma: Activation, first: float, second: float) -> LogValue:
    """Return ln of the mean of σ^2 over two similarities, equally likely."""
    both = log_abs(sigma, np.array([first, second]))
    return LogValue(float(np.logaddexp(2 * both[0], 2 * both[1])) - math.log(2), 4 * EPS, "mean of two")


def log_integral_of_square(
    sigma: Activation, density: Callable[[Floats], Floats], similarity: Callable[[Floats], Floats], edges: Floats
) -> LogValue:
    """Return ln of the integral of σ(similarity(x))^2 e^density(x) over the panels between `edges`."""
    smallest = [math.inf, -math.inf]  # ln|σ| and ln of the integrand where the latter is largest

    def integrand(x: Floats) -> Floats:
        weight = log_abs(sigma, similarity(x))
        value = 2 * weight + density(x)
        top = int(np.argmax(value))
        if value.flat[top] > smallest[1]:
            smallest[:] = [float(weight.flat[top]), float(value.flat[top])]
        return value

    found = log_integral(integrand, edges)
    if smallest[0] < _UNDERFLOW:
        return LogValue(found.log, math.inf, found.method + "; σ underflows where it matters, so the error is unknown")
    return found


def log_integral(integrand: Callable[[Floats], Floats], edges: Floats) -> LogValue:
    """Return ln of the integral of e^integrand over [edges[0], edges[-1]], refined adaptively between the edges.

    Parameters: `integrand`, ln of a function >= 0, elementwise on arrays of any shape, -inf where it is 0; `edges`,
    increasing, at least two. The error sums the differences of the last two readings of every panel, and rounding.
    """
    left, right = edges[:-1], edges[1:]
    coarse = _panels(integrand, left, right)
    kept: list[Floats] = []
    lost = -math.inf  # ln of the summed errors of the kept panels
    for rounds in range(_ROUNDS):
        middle = 0.5 * (left + right)
        first, second = _panels(integrand, left, middle), _panels(integrand, middle, right)
        fine = np.logaddexp(first, second)
        total = log_sum(np.concatenate([*kept, fine]))
        if total == -math.inf:
            return LogValue(-math.inf, 0.0, "σ is 0 at every node")
        change = np.abs(np.exp(coarse - total) - np.exp(fine - total))
        floor = 8 * EPS * (1 + np.abs(np.where(np.isfinite(fine), fine, 0))) * np.exp(fine - total)
        open_ = (change > np.maximum(1e-15, floor)) & (middle > left) & (middle < right)
        if rounds == _ROUNDS - 1 or 2 * int(open_.sum()) > _PANELS:
            open_[:] = False
        kept.append(fine[~open_])
        with np.errstate(divide="ignore"):
            lost = float(np.logaddexp(lost, np.log(change[~open_].sum()) + total))
        if not open_.any():
            break
        left, right, coarse = (
            np.concatenate([a[open_], b[open_]]) for a, b in ((left, middle), (middle, right), (first, second))
        )
    total = log_sum(np.concatenate(kept))
    error = min(math.exp(min(lost - total, 700)), 1e300) + 16 * EPS * (1 + abs(total))
    return LogValue(total, error, "adaptive Gauss-Legendre quadrature")


def edges_on_sphere(d: float, breaks: tuple[float, ...]) -> Floats:
    """Return the first panels in θ on [-π/2, π/2]: even ones, finer ones of the scale 1/sqrt(d), the break points."""
    scale = 1 / math.sqrt(d)
    fine = [sign * scale * k for k in (0.5, 1, 2, 3, 4, 6, 8, 12) for sign in (-1, 1)]
    kinks = [math.asin(b) for b in breaks if -1 < b < 1]
    marks = np.concatenate([np.linspace(-math.pi / 2, math.pi / 2, 17), fine, kinks])
    return np.unique(np.clip(marks, -math.pi / 2, math.pi / 2))


def log_abs(sigma: Activation, s: Floats) -> Floats:
    """Return ln |σ(s)| in float64, -inf where σ is 0; refuse an activation that is not finite on [-1, 1]."""
    with np.errstate(all="ignore"):
        flat = np.asarray(to_numpy(sigma(s.ravel())), dtype=np.float64)
    if not np.isfinite(flat).all():
        where = float(s.ravel()[int(np.argmin(np.isfinite(flat)))])
        raise InputError(f"the activation {sigma.formula} must be finite on [-1, 1]; it is not at s = {where:.6g}.")
    with np.errstate(divide="ignore"):
        return np.log(np.abs(flat)).reshape(s.shape)


@lru_cache(maxsize=1)
def _rule() -> tuple[Floats, Floats]:
    nodes, weights = np.polynomial.legendre.leggauss(20)
    return nodes, np.log(weights)


def _panels(integrand: Callable[[Floats], Floats], left: Floats, right: Floats) -> Floats:
    """Return ln of the Gauss-Legendre reading of each panel, shape of `left`."""
    nodes, log_weights = _rule()
    half = 0.5 * (right - left)
    values = integrand(0.5 * (left + right)[:, None] + half[:, None] * nodes) + log_weights
    top = values.max(axis=1)
    safe = np.where(np.isneginf(top), 0.0, top)
    with np.errstate(divide="ignore"):
        logs: Floats = safe + np.log(np.exp(values - safe[:, None]).sum(axis=1)) + np.log(half)
    return logs


def log_sum(logs: Floats) -> float:
    """Return ln of the sum of e^logs, summed exactly."""
    top = float(logs.max())
    return top if top == -math.inf else top + math.log(math.fsum(np.exp(logs - top)))
