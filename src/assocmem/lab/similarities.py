"""The similarities sampler, for stores of the form V^T σ(K x): one stream of similarities serves every σ and M.

Similarities of independent random unit keys are drawn exactly and in blocks, by importance sampling where a few large
ones carry the mean square of the weights.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache, partial
from itertools import pairwise, product
from typing import Any

import numpy as np

from assocmem.contract.errors import InputError, NonFiniteError
from assocmem.contract.numbers import is_whole, stream
from assocmem.kernels.compute import Progress, Workers, run_tasks
from assocmem.lab.plan import FloatArray, Plan, Trials, sigma_of
from assocmem.maps.activations import Activation, Block

BLOCK = 65536
BOTH_FROM = 16


class SimilarityLaw:
    """Draws s = <k, x> for unit keys k uniform on the sphere in d dimensions and any unit query x.

    Two coordinates of a uniform unit vector are r cos φ and r sin φ with φ uniform and P(r > t) =
    (1 - t²)^((d-2)/2), so r = sqrt(1 - u^(2/(d-2))) for a uniform u. Each has the exact law of a similarity (density
    proportional to (1 - s²)^((d-3)/2)), but the two depend on each other (their squares correlate by -1/(d-1)), so
    they must go to different trials; below d = 16, where that would show, only the first is used. At d = 2 the
    similarity is cos φ, at d = 1 a sign. u carries 53 bits, so the far tail is drawn as finely as the centre.

    The arrays that `draw` returns are its own buffers, valid until the next draw.

    >>> law = SimilarityLaw(64, np.float64, size=1000)
    >>> first, second = law.draw(np.random.default_rng(0))
    >>> bool(abs(np.mean(first**2) - 1 / 64) < 0.003)
    True
    """

    def __init__(self, d: int, dtype: Any = np.float32, *, size: int = BLOCK) -> None:
        if not is_whole(d):
            raise InputError(f"`d_k` must be a whole number >= 1; got {d!r}.")
        self.d, self.dtype = int(d), np.dtype(dtype)
        self._uniform = np.empty(size)
        self._radius, self._cosine, self._sine = (np.empty(size, self.dtype) for _ in range(3))

    @property
    def streams(self) -> int:
        """How many streams one draw feeds: 2, or 1 where the two coordinates depend too much on each other."""
        return 2 if self.d >= BOTH_FROM else 1

    def draw(self, rng: np.random.Generator) -> tuple[np.ndarray[Any, Any], ...]:
        """Return one block of similarities for each stream."""
        u, r, c, s = self._uniform, self._radius, self._cosine, self._sine
        if self.d == 1:
            np.copysign(1.0, np.subtract(rng.random(out=u), 0.5, out=u), out=c, casting="same_kind")
            return (c,)
        if self.d > 2:
            np.subtract(1.0, rng.random(out=u), out=r, casting="same_kind")
            np.log(r, out=r)
            np.multiply(r, self.dtype.type(2 / (self.d - 2)), out=r)
            np.expm1(r, out=r)
            np.sqrt(np.negative(r, out=r), out=r)
        np.multiply(rng.random(out=u), 2 * math.pi, out=s, casting="same_kind")
        np.cos(s, out=c)
        if self.d > 2:
            np.multiply(c, r, out=c)
        if self.streams == 1:
            return (c,)
        np.multiply(np.sin(s, out=s), r, out=s)
        return c, s


SAMPLER = "similarities"
TILTED = "similarities, tilted"
LONGEST = 1 << 22
FEW_CUTS = 16
PILOT = 8192
ROW = 8192  # BLAS keeps dot products of this length to one thread


@dataclass(frozen=True)
class Similarities:
    """Trials by similarities alone; by importance sampling where few of them carry the mean square.

    streams: independent streams, each as long as the largest M: the number of trials there. pieces: most trials that a
    smaller M may cut from one stream. length: similarities in each stream, if more than the largest M needs.
    estimators: "weights", or "vectors" for Gaussian values of the plan's width d_v, whose interference is then drawn
    exactly. Cost: one pass over streams x max(memories) similarities for all stores together, about 10 ns each on one
    core and 1-2 ns more for each σ; memory is one block of 65,536 similarities for each worker.
    """

    streams: int = 100
    pieces: int = 64
    length: int = 0
    estimators: tuple[str, ...] = ("weights",)

    def __post_init__(self) -> None:
        if self.streams < 1 or self.pieces < 1:
            raise InputError(f"`streams` and `pieces` must be >= 1; got {self.streams} and {self.pieces}.")
        if not set(self.estimators) <= {"weights", "vectors"}:
            raise InputError(f"`estimators` must be among weights and vectors; got {self.estimators!r}.")

    def draw(self, plan: Plan, workers: Workers, progress: Progress | None) -> Iterator[Trials]:
        """Yield the ratios of every store, M, cosine, estimator and statistic; the rms tilted where called for."""
        sums, tilted = self._draw_squares(plan, workers, progress)
        for one, n, cosine in product(plan.stores, plan.memories, plan.cosines):
            sigma = sigma_of(one, plan.d_k, n)
            signal = float(np.asarray(sigma(np.array([cosine])))[0]) ** 2
            where: dict[str, Any] = {"cosine": cosine, "beta": one.beta(plan.d_k, n)}
            for estimator, statistic in product(self.estimators, plan.statistics):
                by_tilt = statistic == "rms" and (sigma, n) in tilted
                squares = tilted[sigma, n] * (n - 1) if by_tilt else sums[sigma, n]
                with np.errstate(divide="ignore", over="ignore"):
                    squares = squares / signal if signal > 0 else np.full_like(squares, np.inf)
                if estimator == "vectors":
                    # the squared length of a Gaussian sum of values over that of a value, both of variance one
                    rng, sizes = stream(plan.seed, "lengths", plan.d_v, n), (plan.d_v, len(squares))
                    squares = squares * (rng.chisquare(*sizes) / rng.chisquare(*sizes))
                yield Trials(
                    one, n, np.sqrt(squares), statistic, estimator, TILTED if by_tilt else SAMPLER,
                    where | {"d_v": plan.d_v if estimator == "vectors" else None},
                    predict=partial(plan.predicted, one, n, cosine, statistic),
                )  # fmt: skip

    def _draw_squares(
        self, plan: Plan, workers: Workers, progress: Progress | None
    ) -> tuple[dict[tuple[Activation, int], FloatArray], dict[tuple[Activation, int], FloatArray]]:
        """Return, by (σ, M), the sums of σ² of every trial, and the tilted estimates of E σ²."""
        wanted: dict[Activation, set[int]] = {}
        for one, n in product(plan.stores, plan.memories):
            wanted.setdefault(sigma_of(one, plan.d_k, n), set()).add(n)
        layouts: dict[Activation, Layout] = {}
        tilted: dict[tuple[Activation, int], FloatArray] = {}
        for sigma, counts in wanted.items():
            few = {
                n for n, count in self._layout(plan, counts).trials
                if n > LONGEST or carried_by_few(sigma, plan.d_k, n, self.streams * count)
            }  # fmt: skip
            if few and "rms" in plan.statistics:
                squares = tilted_mean_squares(sigma, plan.d_k, seed=plan.seed, trials=self.streams)
                tilted |= {(sigma, n): squares for n in few}
            summed = counts - few if plan.statistics == ("rms",) else counts
            if max(summed, default=1) > LONGEST:
                raise InputError(
                    f"only the rms can be measured beyond M = {LONGEST}; got {max(summed)} and {plan.statistics}."
                )
            if summed:
                layouts[sigma] = self._layout(plan, summed)
        sums = sums_over_pieces(
            layouts, plan.d_k, seed=plan.seed, streams=self.streams, workers=workers, progress=progress
        )
        return sums, tilted

    def _layout(self, plan: Plan, counts: set[int]) -> Layout:
        """Return the pieces of one σ: from the whole stream where it has a curve, from an eighth where it has a point.

        A policy beta(M) is another σ at every M; reading the whole stream for each would cost as much as all other
        stores.
        """
        length = max(self.length, max(counts) - 1, (min(max(plan.memories), LONGEST) - 1) // 8)
        return layout(counts, length=length, most=self.pieces)


@dataclass(frozen=True)
class Layout:
    """Which stretch of a stream is which trial: every point of a curve reads the same stream, no number twice.

    trials: pairs of M and how many trials of it there are; each reads M - 1 similarities, as the target counts, the
    next one those that follow. Trials of different M share theirs.
    """

    trials: tuple[tuple[int, int], ...]

    @cached_property
    def cuts(self) -> FloatArray:
        """Where trials begin and end, rising, from 0; the last is how many similarities are read."""
        return np.unique(np.concatenate([(n - 1) * np.arange(count + 1) for n, count in self.trials]))

    def block(self, start: int, size: int) -> tuple[int, FloatArray]:
        """Return, for the `size` similarities from `start`, their first segment and the cuts inside (from 0)."""
        end = min(start + size, int(self.cuts[-1]))
        first = int(np.searchsorted(self.cuts, start, side="right"))
        last = int(np.searchsorted(self.cuts, end, side="left"))
        return first - 1, np.array([0, *(self.cuts[first:last] - start), end - start])

    def sums(self, segments: FloatArray) -> dict[int, FloatArray]:
        """Return for each M the sums of its trials (..., trials) from the sums between cuts (..., cuts - 1).

        Sums add up whole segments and never subtract, so a small sum beside a large one keeps its digits.
        """
        found = {}
        for n, count in self.trials:
            at = np.searchsorted(self.cuts, (n - 1) * np.arange(count + 1))
            found[n] = np.stack([segments[..., a:b].sum(axis=-1) for a, b in pairwise(at)], axis=-1)
        return found


def layout(memories: Iterable[int], *, length: int = 0, most: int = 64) -> Layout:
    """Return the layout in which every M has as many trials as fit into the stream, at most `most`.

    Parameters: memories, whole numbers >= 1; length, similarities in the stream, if more than the largest M needs.

    >>> layout([3, 5]).trials
    ((3, 2), (5, 1))
    """
    counts = sorted(set(memories))
    length = max(counts[-1] - 1, length)
    return Layout(tuple((n, min(most, length // (n - 1)) if n > 1 else most) for n in counts))


@dataclass(frozen=True)
class Column:
    """One σ with the pieces that it is summed over and the dtype that it is worked out in."""

    sigma: Activation
    layout: Layout
    dtype: str


def sums_over_pieces(
    layouts: Mapping[Activation, Layout],
    d: int,
    *,
    seed: int,
    streams: int,
    workers: Workers = None,
    progress: Progress | None = None,
) -> dict[tuple[Activation, int], FloatArray]:
    """Return, for each σ and each M of its layout, the sums of σ(s)² over M - 1 similarities, one for each trial."""
    if not layouts:
        return {}
    sharp = {sigma: tilt_for(sigma, d).sharp for sigma in layouts}
    columns = tuple(
        Column(sigma, layout, "float64" if sharp[sigma] else dtype_for(sigma, d).name)
        for sigma, layout in layouts.items()
    )
    # float32 would be too coarse for a sharp σ
    read = partial(read_stream, columns, d, "float64" if any(sharp.values()) else "float32", seed)
    each = SimilarityLaw(d, size=1).streams
    done = run_tasks(read, range(-(-streams // each)), workers=workers, progress=progress)
    sums: dict[tuple[Activation, int], FloatArray] = {}
    for i, column in enumerate(columns):
        segments = np.concatenate([found[i] for found in done])[:streams]
        sums |= {(column.sigma, n): found.reshape(-1) for n, found in column.layout.sums(segments).items()}
    return sums


def read_stream(columns: tuple[Column, ...], d: int, dtype: str, seed: int, index: int) -> list[FloatArray]:
    """Return for each column the sums of σ² between its cuts, (streams of this generator, cuts - 1)."""
    longest = max(int(column.layout.cuts[-1]) for column in columns)
    # A power of two that holds the stream: its numbers depend on it, so they are the same in every plan of that size.
    size = min(BLOCK, 1 << max(10, (longest - 1).bit_length()))
    law = SimilarityLaw(d, dtype, size=size)
    rng = stream(seed, "similarities", d, index)
    sums = [np.zeros((law.streams, len(column.layout.cuts) - 1)) for column in columns]
    narrow, wide = Block(), Block()
    widened = any(column.dtype == "float64" for column in columns)
    for start in range(0, longest, size):
        here = [(c, found, *c.layout.block(start, size)) for c, found in zip(columns, sums, strict=True)
                if start < c.layout.cuts[-1]]  # fmt: skip
        for row, s in enumerate(law.draw(rng)):
            narrow.load(s)
            if widened:
                wide.load(s.astype(np.float64))
            for column, found, first, cuts in here:
                block = wide if column.dtype == "float64" else narrow
                weights = column.sigma.on(block)
                found[row, first : first + len(cuts) - 1] += sums_of_squares(weights, cuts, block.buffer("squares"))
    for column, found in zip(columns, sums, strict=True):
        if not np.all(np.isfinite(found)):
            raise NonFiniteError(f"σ(s) = {column.sigma.formula} gives NaN or infinity for some s in [-1, 1].")
    return sums


def sums_of_squares(weights: FloatArray, cuts: FloatArray, scratch: FloatArray) -> FloatArray:
    """Return the sums of weights² between successive cuts, in float64.

    Parameters: weights (n,); cuts (k + 1,), strictly rising whole numbers in [0, n]; scratch, like weights.
    Rounding: blockwise in the weights' dtype, below 1e-5 of each sum in float32.
    """
    if len(cuts) <= FEW_CUTS:
        return np.array([_sum_of_squares(weights[a:b]) for a, b in pairwise(cuts)])
    squares = np.multiply(weights, weights, out=scratch)[: cuts[-1]]
    return np.add.reduceat(squares, cuts[:-1]).astype(np.float64)


def _sum_of_squares(weights: FloatArray) -> float:
    total = 0.0
    for start in range(0, len(weights), ROW):
        row = weights[start : start + ROW]
        total += float(np.dot(row, row))
    return total


def dtype_for(sigma: Activation, d: int) -> np.dtype[Any]:
    """Return float32 where it gives the sums of σ² to 1e-5 on a pilot draw, else float64."""
    sums = []
    for dtype in (np.float32, np.float64):
        s = SimilarityLaw(d, np.float32, size=PILOT).draw(stream(0, "pilot", d))[0].astype(dtype)
        with np.errstate(all="ignore"):
            sums.append(_sum_of_squares(sigma.on(Block().load(s))))
    close = abs(sums[0] - sums[1]) <= 1e-5 * abs(sums[1]) and sums[1] > 0
    return np.dtype(np.float32 if close else np.float64)


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
