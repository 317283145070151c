"""Keys that are not uniform on the sphere: exact ratios where the law of two keys' cosine is known, else none.

Two keys that share a direction, k = sqrt(c) m + sqrt(1-c) u with u uniform in the d - 1 directions left, have the
cosine c + (1-c) t, t the similarity of uniform keys of width d - 1. So every activation has its exact ratio there,
and by mixture for clusters; other laws are settled by second moments, for the outer product alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from assocmem.contract.errors import InputError
from assocmem.contract.estimate import Prediction
from assocmem.maps.activations import Activation, Exp, Linear
from assocmem.theory import quadrature
from assocmem.theory.moments import Sphere, log_density, log_mean_square, log_signal
from assocmem.theory.normal_keys import spectrum_ratio
from assocmem.theory.quadrature import LogValue, log_abs
from assocmem.theory.questions import EPS, Asked, checked, log_of, log_others, plus_one

_NO_SIGNAL = "no recall at this cosine: the target's own weight is 0"


def law_ratio(sigma: Activation, asked: Asked) -> Prediction:
    """Return the rms ratio for keys of another law, over draws of keys, centres and values, where theory has it.

    Exact for every σ and stored keys as queries: "equal-cosine", unit keys with a shared mean and expected cosine
    `rho`, "clustered", `clusters` centres with the sine `spread` between key and centre, and "signs" (entries
    ±1/sqrt(d)). Exact for the outer product: "gaussian" (entries N(0, 1/d)), "orthonormal" and "spectrum" (N(m, C),
    `eigenvalues` of C up to a factor; other σ: `theory.normal_keys`). The value is None, with a reason, for every other
    law and combination. Raises InputError for a missing or impossible setting of a law.

    >>> from assocmem.theory import ratio
    >>> ratio(Linear(), 64, 65, law="signs").value
    1.0
    >>> ratio(Linear(), 64, 101, law="equal-cosine", rho=0.25).value > 2.5
    True
    """
    law, d, cosine = asked.law, asked.d, asked.cosine
    words = f"independent keys of the law {law!r}, d = {d:g}, query cosine {cosine:g}; M counts the target"
    if law == "spectrum":
        return spectrum_ratio(sigma, asked)
    if law in _SHARED:
        return _from_moment(_SHARED[law](sigma, d, asked.settings), sigma, asked, words)
    if law not in _LINEAR:
        return asked.none(f"there is no formula for keys by the law {law!r}")
    if not isinstance(sigma, Linear):
        return asked.none(f"no exact theory for {law} keys but for the outer product (σ(s) = s)", regime=words)
    if cosine == 0:
        return asked.none(_NO_SIGNAL, regime=words)
    found = _LINEAR[law](asked)
    if isinstance(found, str):
        return asked.none(found, regime=words)
    return asked.predict(found.log, regime=words, source=found.method, error=found.error)


def law_capacity(sigma: Activation, asked: Asked) -> Prediction:
    """Return the M at which the ratio for keys of another law is the wanted one, as its square grows as M - 1.

    Parameters
    ----------
    sigma : Activation
        σ.
    asked : Asked
        Law and settings as for `law_ratio`.

    Returns
    -------
    Prediction
        None, with the reason, where `law_ratio` is none.
    """
    if asked.law == "orthonormal":
        return asked.none("orthonormal keys are at most d: there is no one largest M")
    two = law_ratio(sigma, replace(asked, n=2.0))
    if two.log_value is None or two.log_value == -math.inf:
        reason = two.reason or "no finite capacity: every other memory has weight 0, so the ratio is 0 at every M"
        return asked.none(reason, regime=two.regime, source=two.source)
    log = plus_one(2 * math.log(asked.wanted) - 2 * two.log_value)
    error = math.inf if two.error is None else 2 * two.error
    return asked.predict(log, regime=two.regime, source=two.source, exact=two.exact, error=error)


def effective_ratio(d_effective: float, n_memories: float, *, cosine: float = 1.0) -> Prediction:
    """Return the outer product's rms ratio sqrt((M-1)/d_eff)/|ρ| for unit keys with mean square cosine 1/d_eff.

    Exact whatever the law of the keys, as only E cos^2 over pairs of different keys enters (for a noisy query: over the
    query and the other keys). d_eff = d for uniform keys, 1/c^2 in the limit of a shared cosine c. For another σ the
    whole law of cosines matters, and d_eff in place of d is a guess.

    Parameters
    ----------
    d_effective : float
        >= 1.
    n_memories : float
        M >= 1, the target counted.
    cosine : float
        ρ in [-1, 1].

    Returns
    -------
    Prediction
        The ratio, dimensionless; None where nothing is recalled.

    Raises
    ------
    InputError
        For numbers out of range.

    Examples
    --------
    >>> effective_ratio(16.0, 65).value
    2.0
    """
    if not (math.isfinite(d_effective) and d_effective >= 1):
        raise InputError(f"`d_effective` must be a finite number >= 1; got {d_effective!r}.")
    asked = Asked("ratio", *checked(2, n_memories, cosine))
    words = f"unit keys with mean square cosine 1/{d_effective:g}, query cosine {cosine:g}; M counts the target"
    if cosine == 0:
        return asked.none(_NO_SIGNAL, regime=words)
    log = 0.5 * (log_others(asked.n) - math.log(d_effective)) - math.log(abs(cosine))
    return asked.predict(log, regime=words, source="E cos^2 = 1/d_eff")


def _from_moment(others: LogValue, sigma: Activation, asked: Asked, words: str) -> Prediction:
    """Return the ratio from ln E σ(s)^2; a noisy query among such keys has a second moment only for σ(s) = s."""
    own, d, cosine, log = log_signal(sigma, asked.cosine), asked.d, asked.cosine, others.log
    if own.log == -math.inf:
        return asked.none(_NO_SIGNAL, regime=words)
    if cosine != 1 and d > 1:
        if not isinstance(sigma, Linear):
            return asked.none("no theory for a noisy query to keys that share a direction or are signs", regime=words)
        square = math.exp(log)
        log = math.log(cosine**2 * square + (1 - cosine**2) * (1 - square) / (d - 1))
    log = 0.5 * (log_others(asked.n) + log) - own.log
    return asked.predict(log, regime=words, source=others.method, error=0.5 * others.error + own.error)


# ------------------------------------------------------------------ keys whose cosines have a known law: ln E σ(s)^2


def _clustered(sigma: Activation, d: float, settings: Mapping[str, Any]) -> LogValue:
    """The mixture: one cluster with probability 1/clusters, else two independent uniform keys."""
    clusters = settings.get("clusters")
    if clusters is None or clusters < 1:
        raise InputError(f"`clusters` must be a whole number >= 1; got {clusters!r}.")
    same = _sharing(sigma, d, 1 - _within_unit("spread", settings.get("spread")) ** 2)
    apart, log = log_mean_square(sigma, Sphere(d)), same.log - math.log(clusters)
    if clusters > 1:
        log = float(np.logaddexp(log, apart.log + math.log1p(-1 / clusters)))
    return LogValue(log, max(same.error, apart.error), "mixture of same and different clusters")


def _sharing(sigma: Activation, d: float, shared: float) -> LogValue:
    """Return ln E σ(c + (1-c) t)^2, t the similarity of uniform keys of width d - 1, c = `shared`."""
    method = "E σ(c + (1-c) t)^2, t of width d - 1"
    if shared == 1 or d == 1 or (d == 2 and not isinstance(sigma, Linear | Exp)):
        return quadrature.log_mean_of_two(sigma, 1.0, 1.0 if shared == 1 else 2 * shared - 1)
    if isinstance(sigma, Linear):
        return LogValue(math.log(shared**2 + (1 - shared) ** 2 / (d - 1)), 8 * EPS, method)
    if isinstance(sigma, Exp):
        return replace(log_mean_square(Exp(sigma.beta * (1 - shared)), Sphere(d - 1)), method=method)
    breaks = tuple((b - shared) / (1 - shared) for b in sigma.breaks)
    found = quadrature.log_integral_of_square(
        sigma,
        lambda theta: log_density(theta, d - 1),
        lambda theta: shared + (1 - shared) * np.sin(theta),
        quadrature.edges_on_sphere(d - 1, breaks),
    )
    return replace(found, method=method)


def log_mean_square_of_signs(sigma: Activation, d: float) -> LogValue:
    """Return ln E σ(s)^2 for sign vectors: d (1 + s)/2 is the number of d fair coins that show heads.

    InputError where d is not whole, but for σ(s) = s.
    """
    if isinstance(sigma, Linear):
        return LogValue(-math.log(d), 0.0, "E s^2 = 1/d")
    if d != int(d):
        raise InputError(f"`d` must be a whole number for keys of signs; got {d!r}.")
    heads = np.arange(int(d) + 1)
    chances = [math.lgamma(d + 1) - math.lgamma(h + 1) - math.lgamma(d - h + 1) for h in heads]
    logs = 2 * log_abs(sigma, 2 * heads / d - 1) + np.array(chances) - d * math.log(2)
    total = float(np.logaddexp.reduce(logs))
    return LogValue(total, 16 * EPS * (1 + d * math.log(2)), "E σ(s)^2 over the binomial law of sign vectors")


_SHARED: Mapping[str, Callable[[Activation, float, Mapping[str, Any]], LogValue]] = {
    "signs": lambda sigma, d, _settings: log_mean_square_of_signs(sigma, d),
    "equal-cosine": lambda sigma, d, settings: _sharing(sigma, d, _within_unit("rho", settings.get("rho"))),
    "clustered": _clustered,
}

# ------------------------------------------------------------------ the outer product: ln of the ratio, or why not


def _orthonormal(asked: Asked) -> LogValue | str:
    if asked.n > asked.d:
        return f"there are no {asked.n:g} orthonormal keys of width {asked.d:g}"
    square = (1 - asked.cosine * asked.cosine) * (asked.n - 1) / (asked.d - 1) if asked.n > 1 else 0.0
    log = 0.5 * log_of(square) - math.log(abs(asked.cosine))
    return LogValue(log, 0.0, "only the noise, uniform in d - 1 directions, overlaps")


def _gaussian(asked: Asked) -> LogValue | str:
    return _varying(asked, asked.d, lambda: LogValue(-math.log(asked.d - 2), 0.0, "E 1/|k|^2 = d/(d-2)"))


def _varying(asked: Asked, rank: float, moment: Callable[[], LogValue]) -> LogValue | str:
    """Keys of varying length, from ln E (k.k')^2/|k|^4."""
    if asked.cosine != 1:
        return "no theory for a noisy query to keys of varying length"
    if rank <= 2:
        return "infinite: Gaussian keys of rank 2 or less are too often near 0"
    found = moment()
    return LogValue(0.5 * (log_others(asked.n) + found.log), 0.5 * found.error, found.method)


_LINEAR: Mapping[str, Callable[[Asked], LogValue | str]] = {
    "orthonormal": _orthonormal, "gaussian": _gaussian,
}  # fmt: skip


def _within_unit(name: str, value: float | None) -> float:
    if value is None or not 0 <= value <= 1:
        raise InputError(f"`{name}` must be given and lie in [0, 1]; got {value!r}.")
    return float(value)
