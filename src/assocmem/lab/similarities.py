"""Curves of stores of the form V^T σ(K x), by the similarities sampler: all stores and every M from one reading."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from assocmem import theory
from assocmem.contract.errors import InputError
from assocmem.contract.estimate import Estimate, Statistic
from assocmem.contract.random import stream
from assocmem.contract.results import Row
from assocmem.kernels.compute import Progress, Workers
from assocmem.lab.importance_sampling import carried_by_few, tilted_mean_squares
from assocmem.lab.labelled import subjects
from assocmem.lab.layout import Layout, disjoint
from assocmem.lab.plans import SimilarityPlan, sigma_of
from assocmem.lab.rows import ratio_row
from assocmem.lab.streams import sums_over_pieces
from assocmem.maps.activations import Activation
from assocmem.ruler.estimate import summarise, summarise_weighted

FloatArray = np.ndarray[Any, Any]
SAMPLER = "similarities"
TILTED = "similarities, tilted"
LONGEST = 1 << 22


def similarity_curves(
    stores: Iterable[Any],
    d_k: int,
    memories: Iterable[int],
    *,
    workers: Workers = None,
    progress: Progress | None = None,
    experiment: str = "",
    **settings: Any,
) -> list[Row]:
    """Return the rows of the ratio of each store at each M (columns as in `rows.DEFINITIONS`).

    Parameters: stores, keys, Stores or (label, Store); d_k; memories; settings, the other fields of SimilarityPlan.
    Cost: one pass over streams x max(memories) similarities for all stores together, about 10 ns each on one core
    and 1-2 ns more for each σ; memory is one block of 65,536 similarities for each worker.

    >>> rows = similarity_curves(["outer-product"], 64, [65], streams=10, workers=1)
    >>> abs(rows[0]["value"] - 1) < 0.1
    True
    """
    counts = tuple(sorted({int(n) for n in memories}))
    plan = SimilarityPlan(experiment, subjects(*stores), d_k, counts, **settings)
    return run_similarities(plan, workers=workers, progress=progress)


def run_similarities(plan: SimilarityPlan, *, workers: Workers = None, progress: Progress | None = None) -> list[Row]:
    """Return the rows of the plan: store by store, then M, cosine, estimator and statistic."""
    drawn = draw_squares(plan, workers=workers, progress=progress)
    rows = []
    for one, n, cosine in product(plan.stores, plan.memories, plan.cosines):
        for estimator, statistic in product(plan.estimators, plan.statistics):
            estimate = drawn.estimate(sigma_of(one, plan.d_k, n), n, cosine, estimator, statistic)
            prediction = theory.ratio(one.form(plan.d_k), plan.d_k, n, cosine=cosine, statistic=statistic)
            row = ratio_row(
                one, estimate, experiment=plan.experiment, d_k=plan.d_k, n_memories=n,
                d_v=plan.d_v if estimator == "vectors" else None,
                cosine=cosine, estimator=estimator, prediction=prediction,
            )  # fmt: skip
            rows.append(row)
    return rows


@dataclass(frozen=True)
class Squares:
    """What was drawn for a plan: by (σ, M) the sums of σ² of every trial, by σ the tilted estimates of E σ²."""

    plan: SimilarityPlan
    sums: Mapping[tuple[Activation, int], FloatArray]
    tilted: Mapping[tuple[Activation, int], FloatArray]

    def estimate(self, sigma: Activation, n: int, cosine: float, estimator: str, statistic: Statistic) -> Estimate:
        """Return the statistic of the ratio at M = n; the rms by tilted draws where the plan calls for them."""
        by_tilt = statistic == "rms" and (sigma, n) in self.tilted
        squares = self.tilted[sigma, n] * (n - 1) if by_tilt else self.sums[sigma, n]
        signal = float(np.asarray(sigma(np.array([cosine])))[0])
        with np.errstate(divide="ignore", over="ignore"):
            squares = squares / signal**2 if signal**2 > 0 else np.full_like(squares, np.inf)
        if estimator == "vectors":
            squares = squares * self._lengths(n, len(squares))
        record: dict[str, Any] = {"estimator": estimator, "seed": self.plan.seed}
        if by_tilt:
            return summarise_weighted(squares, sampler=TILTED, **record)
        return summarise(np.sqrt(squares), statistic, sampler=SAMPLER, **record)

    def _lengths(self, n: int, trials: int) -> FloatArray:
        """Return the squared length of a Gaussian sum of values over that of a value, both of variance one."""
        rng = stream(self.plan.seed, "lengths", self.plan.d_v, n)
        return rng.chisquare(self.plan.d_v, trials) / rng.chisquare(self.plan.d_v, trials)


def draw_squares(plan: SimilarityPlan, *, workers: Workers = None, progress: Progress | None = None) -> Squares:
    """Draw the plan's streams once and return the sums of σ² over all its trials."""
    wanted: dict[Activation, set[int]] = {}
    for one, n in product(plan.stores, plan.memories):
        wanted.setdefault(sigma_of(one, plan.d_k, n), set()).add(n)
    layouts: dict[Activation, Layout] = {}
    tilted: dict[tuple[Activation, int], FloatArray] = {}
    for sigma, counts in wanted.items():
        layout = _layout(plan, counts)
        few = {n for n, starts in zip(layout.memories, layout.starts, strict=True)
               if n > LONGEST or carried_by_few(sigma, plan.d_k, n, plan.streams * len(starts))}  # fmt: skip
        if few and "rms" in plan.statistics:
            squares = tilted_mean_squares(sigma, plan.d_k, seed=plan.seed, trials=plan.streams)
            tilted |= {(sigma, n): squares for n in few}
        summed = counts - few if plan.statistics == ("rms",) else counts
        if max(summed, default=1) > LONGEST:
            raise InputError(
                f"only the rms can be measured beyond M = {LONGEST}; got {max(summed)} and {plan.statistics}."
            )
        if summed:
            layouts[sigma] = _layout(plan, summed)
    sums = sums_over_pieces(layouts, plan.d_k, seed=plan.seed, streams=plan.streams, workers=workers, progress=progress)
    return Squares(plan, sums, tilted)


def _layout(plan: SimilarityPlan, counts: set[int]) -> Layout:
    """Return the pieces of one σ: from the whole stream where it has a curve, from an eighth where it has a point.

    A policy beta(M) is another σ at every M; reading the whole stream for each would cost as much as all other stores.
    """
    length = max(plan.length, max(counts) - 1, (min(max(plan.memories), LONGEST) - 1) // 8)
    return disjoint(counts, length=length, most=plan.pieces)
