"""Keys that are not uniform on the sphere: exact ratios where the law of two keys' cosine is known, else none.

Two keys that share a direction, k = sqrt(c) m + sqrt(1-c) u with u uniform in the d - 1 directions left, have the
cosine c + (1-c) t, t the similarity of uniform keys of width d - 1. So every activation has its exact ratio there,
and by mixture for clusters; other laws are settled by second moments, for the outer product alone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from assocmem.contract.errors import InputError
from assocmem.contract.estimate import Prediction
from assocmem.maps.activations import Activation, Exp, Linear
from assocmem.theory.answer import none, predict
from assocmem.theory.domain import EPS, checked_cosine, checked_memories, log_others
from assocmem.theory.law import log_density
from assocmem.theory.moments import log_mean_square, log_signal
from assocmem.theory.quadrature import Floats, LogValue, edges_on_sphere, log_abs, log_integral, log_integral_of_square

LAWS = ("gaussian", "signs", "orthonormal", "equal-cosine", "spectrum", "clustered")
_NO_SIGNAL = "no recall at this cosine: the target's own weight is 0"


def law_ratio(
    law: str,
    sigma: Activation,
    d: float,
    n_memories: float,
    cosine: float = 1.0,
    *,
    rho: float | None = None,
    clusters: int | None = None,
    spread: float | None = None,
    eigenvalues: Sequence[float] | None = None,
) -> Prediction:
    """Return the rms ratio for keys of another law, over draws of keys, centres and values, where theory has it.

    Parameters
    ----------
    law: Exact for every σ and stored keys as queries: "equal-cosine", unit keys with a
        shared mean and expected cosine `rho`, and "clustered", `clusters` centres with the sine `spread` between
        key and centre. Exact for the outer product: "signs" (entries ±1/sqrt(d)), "gaussian" (entries N(0, 1/d)),
        "spectrum" (N(0, C), `eigenvalues` of C up to a factor) and "orthonormal".
    sigma, d, n_memories, cosine: as for `ratio`, checked.

    The value is None, with a reason, for every other law and combination. Raises InputError for a missing or
    impossible setting of a law.

    >>> law_ratio("signs", Linear(), 64, 65).value
    1.0
    >>> law_ratio("equal-cosine", Linear(), 64, 101, rho=0.25).value > 2.5
    True
    """
    width, n = d, n_memories
    words = f"independent keys of the law {law!r}, d = {d:g}, query cosine {cosine:g}; M counts the target"
    if law == "equal-cosine":
        shared = _within_unit("rho", rho)
        return _from_moment(_sharing(sigma, width, shared), sigma, width, n, cosine, words)
    if law == "clustered":
        if clusters is None or clusters < 1:
            raise InputError(f"`clusters` must be a whole number >= 1; got {clusters!r}.")
        shared = 1 - _within_unit("spread", spread) ** 2
        return _from_moment(_mixed(sigma, width, shared, clusters), sigma, width, n, cosine, words)
    if not isinstance(sigma, Linear):
        return none("ratio", f"no exact theory for {law} keys but for the outer product (σ(s) = s)", regime=words)
    if cosine == 0:
        return none("ratio", _NO_SIGNAL, regime=words)
    return _linear(law, width, n, cosine, words, eigenvalues)


def effective_ratio(d_effective: float, n_memories: float, *, cosine: float = 1.0) -> Prediction:
    """Return the outer product's rms ratio sqrt((M-1)/d_eff)/|ρ| for unit keys with mean square cosine 1/d_eff.

    Exact whatever the law of the keys, as only E cos^2 over pairs of different keys enters (for a noisy query: over
    the query and the other keys). d_eff = d for uniform keys, 1/c^2 in the limit of a shared cosine c. Parameters:
    `d_effective` >= 1. For another σ the whole law of cosines matters, and d_eff in place of d is a guess.

    >>> effective_ratio(16.0, 65).value
    2.0
    """
    if not (math.isfinite(d_effective) and d_effective >= 1):
        raise InputError(f"`d_effective` must be a finite number >= 1; got {d_effective!r}.")
    n, cosine = checked_memories(n_memories), checked_cosine(cosine, 2)
    words = f"unit keys with mean square cosine 1/{d_effective:g}, query cosine {cosine:g}; M counts the target"
    if cosine == 0:
        return none("ratio", _NO_SIGNAL, regime=words)
    log = 0.5 * (log_others(n) - math.log(d_effective)) - math.log(abs(cosine))
    return predict("ratio", log, regime=words, source="E cos^2 = 1/d_eff")


def _from_moment(others: LogValue, sigma: Activation, d: float, n: float, cosine: float, words: str) -> Prediction:
    """Return the ratio from ln E σ(s)^2; a noisy query among such keys has a second moment only for σ(s) = s."""
    own = log_signal(sigma, cosine)
    if own.log == -math.inf:
        return none("ratio", _NO_SIGNAL, regime=words)
    log, error = others.log, others.error
    if cosine != 1 and d > 1:
        if not isinstance(sigma, Linear):
            return none("ratio", "no theory for a noisy query to keys that share a direction", regime=words)
        square = math.exp(log)
        log = math.log(cosine**2 * square + (1 - cosine**2) * (1 - square) / (d - 1))
    log = 0.5 * (log_others(n) + log) - own.log
    return predict("ratio", log, regime=words, source=others.method, error=0.5 * error + own.error)


def _sharing(sigma: Activation, d: float, shared: float) -> LogValue:
    """Return ln E σ(c + (1-c) t)^2, t the similarity of uniform keys of width d - 1, c = `shared`."""
    method = "E σ(c + (1-c) t)^2, t of width d - 1"
    if shared == 1 or d == 1:
        both = log_abs(sigma, np.array([1.0, 1.0 if shared == 1 else 2 * shared - 1]))
        return LogValue(float(np.logaddexp(2 * both[0], 2 * both[1])) - math.log(2), 8 * EPS, method)
    if isinstance(sigma, Linear):
        return LogValue(math.log(shared**2 + (1 - shared) ** 2 / (d - 1)), 8 * EPS, method)
    if isinstance(sigma, Exp):
        return LogValue(*_first(log_mean_square(Exp(sigma.beta * (1 - shared)), d - 1)), method)
    if d == 2:
        both = log_abs(sigma, np.array([1.0, 2 * shared - 1]))
        return LogValue(float(np.logaddexp(2 * both[0], 2 * both[1])) - math.log(2), 8 * EPS, method)
    breaks = tuple((b - shared) / (1 - shared) for b in sigma.breaks)

    def density(theta: Floats) -> Floats:
        return log_density(theta, d - 1)

    def similarity(theta: Floats) -> Floats:
        return shared + (1 - shared) * np.sin(theta)

    found = log_integral_of_square(sigma, density, similarity, edges_on_sphere(d - 1, breaks))
    return LogValue(found.log, found.error, method)


def _first(value: LogValue) -> tuple[float, float]:
    return value.log, value.error


def _mixed(sigma: Activation, d: float, shared: float, clusters: int) -> LogValue:
    """Return ln of the mixture: one cluster with probability 1/clusters, else two independent uniform keys."""
    same, apart = _sharing(sigma, d, shared), log_mean_square(sigma, d)
    log = same.log - math.log(clusters)
    if clusters > 1:
        log = float(np.logaddexp(log, apart.log + math.log1p(-1 / clusters)))
    return LogValue(log, max(same.error, apart.error), "mixture of same and different clusters")


def _linear(law: str, d: float, n: float, cosine: float, words: str, eigenvalues: Sequence[float] | None) -> Prediction:
    """Second moments of the outer product: E (k.k')^2/|k|^4 over keys, or what a noisy query adds."""
    others = log_others(n)
    if law == "signs":
        log = 0.5 * (others - math.log(d)) - math.log(abs(cosine))
        return predict("ratio", log, regime=words, source="E s^2 = 1/d")
    if law == "orthonormal":
        if n > d:
            return none("ratio", f"there are no {n:g} orthonormal keys of width {d:g}", regime=words)
        noise = 1 - cosine * cosine
        log = 0.5 * math.log(noise * (n - 1) / (d - 1)) - math.log(abs(cosine)) if n > 1 and noise else -math.inf
        return predict("ratio", log, regime=words, source="only the noise, uniform in d - 1 directions, overlaps")
    if cosine != 1:
        return none("ratio", "no theory for a noisy query to keys of varying length", regime=words)
    values = np.full(math.ceil(d), 1.0) if law == "gaussian" else _checked_spectrum(eigenvalues)
    rank = d if law == "gaussian" else float((values > 0).sum())
    if rank <= 2:
        return none("ratio", "infinite: Gaussian keys of rank 2 or less are too often near 0", regime=words)
    if law == "gaussian":
        return predict("ratio", 0.5 * (others - math.log(d - 2)), regime=words, source="E 1/|k|^2 = d/(d-2)")
    moment = _log_spectrum_moment(values)
    log = 0.5 * (others + moment.log)
    return predict("ratio", log, regime=words, source=moment.method, error=0.5 * moment.error)


def _log_spectrum_moment(values: Floats) -> LogValue:
    """Return ln E k^T C k / |k|^4 for k ~ N(0, C), as the integral over t > 0 of t E k^T C k e^(-t |k|^2).

    That expectation is prod (1 + 2 t λ_i)^(-1/2) times sum λ_i^2/(1 + 2 t λ_i); integrated over y = ln t.
    """
    values = np.sort(values[values > 0]) / values.max()
    decay = values.size / 2 - 1
    edges = np.linspace(-45.0, 45.0 / decay - math.log(values[0]), 65)

    def integrand(y: Floats) -> Floats:
        grown = 1 + 2 * np.exp(y)[..., None] * values
        return np.asarray(2 * y - 0.5 * np.log(grown).sum(axis=-1) + np.log((values**2 / grown).sum(axis=-1)))

    found = log_integral(integrand, edges)
    return LogValue(found.log, found.error, "E k^T C k/|k|^4 by one integral over the eigenvalues")


def _checked_spectrum(eigenvalues: Sequence[float] | None) -> Floats:
    if eigenvalues is None:
        raise InputError("`eigenvalues` must be given for keys with a spectrum.")
    values = np.asarray(eigenvalues, dtype=np.float64)
    if values.ndim != 1 or not np.isfinite(values).all() or (values < 0).any() or not values.any():
        raise InputError("`eigenvalues` must be finite numbers >= 0, at least one of them above zero.")
    return values


def _within_unit(name: str, value: float | None) -> float:
    if value is None or not 0 <= value <= 1:
        raise InputError(f"`{name}` must be given and lie in [0, 1]; got {value!r}.")
    return float(value)
