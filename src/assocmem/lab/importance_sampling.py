"""Importance sampling of similarities where a few large ones carry the mean square of the weights."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any

import numpy as np

from assocmem.contract.errors import InputError
from assocmem.contract.random import stream
from assocmem.inputs.similarities import SimilarityLaw
from assocmem.maps.activations import Activation
from assocmem.maps.block import Block

FloatArray = np.ndarray[Any, Any]
DRAWS = 4096
_GRID, _NEAR, _CLOSEST = 1400, 0.02, 1e-8
_WIDE, _REACH = 4096, 15.0
"""Width from which a middle of its own is needed, and how many standard deviations that spans."""
TAIL_LIMIT = 0.1
SHARP = 1e-3
"""Relative change of E σ² by the rounding of similarities that is borne."""


@dataclass(frozen=True)
class Tilt:
    """Similarities drawn towards the query and weighted back, without bias.

    A similarity y of the sphere's law f is moved to s = (y + c)/(1 + c y), c in [0, 1): the sphere's conformal map.
    The moved law is f(s) (1-c²)^((d-1)/2) / (1 - c s)^(d-1), the envelope of Wood (1994) for the von Mises-Fisher
    law e^(θ s) f(s), so that every draw has the exact weight (1 - c s)^(d-1) / (1-c²)^((d-1)/2); for σ(s)² =
    e^(2 beta s) the best c gives nearly equal products. tail: E σ^4/(E σ²)² for the sphere's own law. spread: the
    same quantity, E (σ² weight)²/(E σ²)², for the moved law. sharp: whether similarities rounded to float32 would
    change E σ² by more than a thousandth.
    """

    c: float
    tail: float
    spread: float
    sharp: bool = False

    def log_weight(self, s: FloatArray, d: int) -> FloatArray:
        """Return the logarithm of the weight that undoes the move."""
        moved: FloatArray = np.log1p(-self.c * s) - 0.5 * np.log1p(-self.c * self.c)
        return (d - 1) * moved


@lru_cache(maxsize=512)
def tilt_for(sigma: Activation, d: int) -> Tilt:
    """Return the move c in [0, 1) whose products σ(s)² weight spread least, with the tails before and after.

    A sum over angles decides, close together at both ends, where a sharp σ is narrow; it steers the sampler and enters
    no estimate.
    """
    if d == 1:
        return Tilt(0.0, 1.0, 1.0)
    angle, width = _angles(d)
    s = np.cos(angle)
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        log_square = 2 * np.log(np.abs(np.asarray(sigma(s), dtype=np.float64)))
        rounded = 2 * np.log(np.abs(np.asarray(sigma(s.astype(np.float32).astype(np.float64)), dtype=np.float64)))
    log_density = (d - 2) * np.log(np.sin(angle)) + np.log(width)
    log_density -= _log_sum(log_density)
    mean = _log_sum(log_density + log_square)
    if not np.isfinite(mean):
        return Tilt(0.0, 1.0, 1.0)

    @cache
    def spread(c: float) -> float:
        log_weight = Tilt(c, 0.0, 0.0).log_weight(s, d)
        return float(np.exp(min(700.0, _log_sum(log_density + 2 * log_square + log_weight) - 2 * mean)))

    sharp = abs(_log_sum(log_density + rounded) - mean) > SHARP
    moves, tail = [0.0, *np.tanh(np.geomspace(1e-3, 16, 48)).tolist()], spread(0.0)
    for _ in range(4):
        best = int(np.argmin([spread(c) for c in moves]))
        low, high = moves[max(0, best - 1)], moves[min(len(moves) - 1, best + 1)]
        moves = sorted({moves[best], *np.linspace(low, high, 9).tolist()})
    c = min(moves, key=spread)
    return Tilt(c, tail, spread(c), bool(sharp))


@lru_cache(maxsize=64)
def _angles(d: int) -> tuple[FloatArray, FloatArray]:
    """Return angles between 0 and pi and the widths they stand for.

    In equal steps, at both ends in equal ratios, and closer in the middle where wide keys have nearly all of theirs.
    """
    edge = np.geomspace(_CLOSEST, _NEAR, _GRID)
    middle = np.linspace(_NEAR, np.pi - _NEAR, _GRID)[1:-1]
    if d > _WIDE:
        middle = np.union1d(middle, np.pi / 2 + np.linspace(-_REACH, _REACH, _GRID) / np.sqrt(d))
    ends = np.concatenate([edge, middle, np.pi - edge[::-1]])
    return (ends[1:] + ends[:-1]) / 2, np.diff(ends)


def carried_by_few(sigma: Activation, d: int, n_memories: int, trials: int = 100) -> bool:
    """Say whether few similarities carry the mean square: E σ^4/(M (E σ²)²) > 0.1 with a hundred trials.

    More trials draw more similarities and bear a heavier tail in the same proportion. A σ too sharp for similarities
    in float32 is answered likewise: the tilted ones are float64.
    """
    tilt = tilt_for(sigma, d)
    return n_memories > 1 and (tilt.sharp or tilt.tail > TAIL_LIMIT * n_memories * trials / 100)


def tilted_mean_squares(
    sigma: Activation, d: int, *, seed: int, trials: int, draws: int = DRAWS, name: str = "tilted"
) -> FloatArray:
    """Return independent unbiased estimates of E σ(s)², one a trial (trials,), each from `draws` moved similarities.

    Cost: 0.3 ms a trial. Raises InputError for a σ that changes by more than a thousandth between two floats near 1.
    """
    if d > 1 and too_sharp(sigma):
        raise InputError(
            f"σ(s) = {sigma.formula} is too sharp to be measured by similarities: it changes by more than a thousandth "
            "between the two doubles nearest to s = 1."
        )
    tilt = tilt_for(sigma, d)
    law = SimilarityLaw(d, np.float64, size=draws)
    block, means = Block(), np.empty(trials)
    for trial in range(trials):
        s = law.draw(stream(seed, name, d, trial))[0]
        s += tilt.c * (1 - s * s) / (1 + tilt.c * s)  # (s + c)/(1 + c s), exact also near 1
        means[trial] = np.mean(sigma.on(block.load(s)) ** 2 * np.exp(tilt.log_weight(s, d)))
    return means


def too_sharp(sigma: Activation) -> bool:
    """Say whether σ changes by more than a thousandth from s = 1 to the next smaller double."""
    last = np.array([1.0, np.nextafter(1.0, 0.0)])
    with np.errstate(all="ignore"):
        logs = 2 * np.log(np.abs(np.asarray(sigma(last), dtype=np.float64)))
    return bool(np.isfinite(logs[0]) and not abs(logs[0] - logs[1]) <= SHARP)


def _log_sum(logs: FloatArray) -> float:
    top = float(np.max(logs))
    return top + float(np.log(np.sum(np.exp(logs - top)))) if np.isfinite(top) else top
