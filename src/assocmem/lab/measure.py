"""A user's own keys and values, measured: ratio and choice at growing M, capacity, geometry, and what they say."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import product
from typing import Any

import numpy as np

from assocmem.contract.errors import InputError
from assocmem.contract.estimate import Estimate, Statistic
from assocmem.contract.random import stream
from assocmem.contract.results import Row
from assocmem.inputs import checked_targets, value_law
from assocmem.kernels.compute import Progress, Workers, run_tasks
from assocmem.lab.explain import effective_sharpness, explain, gathered, set_aside, too_small, zero_rows
from assocmem.lab.given import check_arrays, heads_of, kinds_of, memories_of, rows_to_fit
from assocmem.lab.labelled import Subject, subjects
from assocmem.lab.plans import Estimator
from assocmem.lab.subsets import Rows, SubsetResult, SubsetTask, run_subsets
from assocmem.lab.trials import estimator_of
from assocmem.ruler import (
    Preparation,
    crossing_of_curve,
    key_geometry,
    retrieval_definition,
    summarise,
    summarise_shares,
)
from assocmem.ruler.whitening import Kind
from assocmem.stores import entry, make_store

FloatArray = np.ndarray[Any, Any]
DEFAULT_STORES = ("outer-product", "squared-relu", "softmax")
TRIALS = 24
ASKED = 32
FIT_SHARE = 1 / 3


@dataclass(frozen=True)
class Measurement:
    """What was found about given keys.

    curve: a row for each head, preparation, store and M (ratio with interval, share of right choices).
    capacities: a row for each head, preparation and store (value, or "not reached ..." with the ratio there).
    geometry: a row for each head and preparation. words: sentences on what the geometry does to recall.
    """

    curve: tuple[Row, ...]
    capacities: tuple[Row, ...]
    geometry: tuple[Row, ...]
    words: tuple[str, ...]


def measure(
    keys: Any,
    values: Any = None,
    *,
    queries: Any = None,
    targets: Any = None,
    stores: Iterable[Any] = DEFAULT_STORES,
    beta: float | None = None,
    preparation: str | Sequence[str] = "raw",
    normalise: bool = False,
    memories: Iterable[int] | None = None,
    largest: int | None = None,
    trials: int = TRIALS,
    asked: int = ASKED,
    statistic: Statistic = "rms",
    threshold: float = 1.0,
    fit_share: float = FIT_SHARE,
    d_v: int = 64,
    seed: int = 0,
    workers: Workers = None,
    progress: Progress | None = None,
) -> Measurement:
    """Return the ratio, the choice accuracy and the capacity of stores that hold a user's own keys.

    Parameters
    ----------
    keys: (n, d), or (heads, n, d) for a result a head, of any array library; n >= 2.
    values: (n, d_v) or (heads, n, d_v); by default drawn uniform on the unit sphere, `d_v` wide.
    queries: (m, d) or (heads, m, d), with targets (m,), the rows they ask for; by default the stored keys themselves.
    stores: keys, Stores or (label, Store). beta: for those given by a key that takes one.
    preparation: "raw", "centre" or "whiten", or several. Centring and whitening are fitted on `fit_share` of the rows,
        and all preparations are then measured on the others. normalise: scale prepared keys to length one.
    memories: the M to measure, by default steps of sqrt(2) up to all rows or to `largest`. trials: random subsets at
        each M. asked: pairs asked for in each. statistic: of the ratio over trials. threshold: of the capacity.

    Trials are random subsets of the rows; near all rows they overlap, so that intervals speak of these rows and not of
    others like them. A store that refuses the keys gets its sentence as the reason. Raises InputError for shapes that
    do not fit, NonFiniteError naming a row. Cost: trials x stores x preparations writes and recalls of each M.

    >>> rows = np.random.default_rng(0).standard_normal((200, 16))
    >>> found = measure(rows, stores=["outer-product"], normalise=True, workers=1)
    >>> 8 < found.capacities[0]["value"] < 32
    True
    """
    kinds = kinds_of(preparation)
    chosen = _with_beta(stores, beta)
    heads = heads_of(keys, "keys", 2)
    paid = None if values is None else heads_of(values, "values", 2)
    asks = None if queries is None else heads_of(queries, "queries", 1)
    where = None if targets is None else checked_targets(targets, heads.shape[1])
    check_arrays(heads, paid, asks, where, trials, asked, fit_share)
    fitting = rows_to_fit(heads.shape[1], fit_share, kinds)
    lots = [
        _Lot(head, kind, *_prepared(heads, paid, asks, where, head, kind, fitting, normalise, d_v, seed))
        for head, kind in product(range(len(heads)), kinds)
    ]
    jobs = [(lot, one, n) for lot in lots for one in chosen for n in memories_of(memories, len(lot.rows.keys), largest)]
    wanted: Estimator = "auto" if values is None else "vectors"
    estimators = {one.label: estimator_of(one.store, max(n for _, _, n in jobs), wanted) for one in chosen}
    tasks = [
        SubsetTask(one.store, lot.rows, n, trials, asked, estimators[one.label], seed, lot.head) for lot, one, n in jobs
    ]
    done = run_tasks(run_subsets, tasks, workers=workers, progress=progress)
    curve, capacities = [], []
    for lot, one in product(lots, chosen):
        points = [(n, found) for (a, b, n), found in zip(jobs, done, strict=True) if a is lot and b is one]
        rows, capacity = _summary(lot, one, points, estimators[one.label], statistic, threshold, seed)
        curve += rows
        capacities.append(capacity)
    shapes = [key_geometry(lot.rows.keys) for lot in lots]
    words = _words(lots, [explain(shape, lot.kind) for lot, shape in zip(lots, shapes, strict=True)])
    if fitting:
        whitened = max((lot.fitted.rank for lot in lots if lot.kind == "whitened"), default=0)
        words.append(set_aside(fitting, heads.shape[1], whitened, kinds))
    return Measurement(
        tuple(curve), tuple(capacities),
        tuple(lot.columns() | asdict(shape) for lot, shape in zip(lots, shapes, strict=True)), tuple(words),
    )  # fmt: skip


@dataclass(frozen=True, eq=False)
class _Lot:
    """One head in one preparation."""

    head: int
    kind: Kind
    rows: Rows
    fitted: Preparation
    kept: tuple[int, ...]

    def columns(self) -> Row:
        """Return what every row says of the keys."""
        fit = self.fitted
        return {
            "head": self.head, "preparation": self.kind, "normalised": fit.normalise, "n_rows": len(self.rows.keys),
            "n_fitted": 0 if self.kind == "raw" else fit.n_fitted, "columns": fit.d, "columns_dropped": fit.dropped,
            "directions_dropped": fit.directions_dropped, "d_k": fit.rank,
        }  # fmt: skip


def _prepared(
    keys: FloatArray, values: FloatArray | None, queries: FloatArray | None, targets: FloatArray | None, head: int,
    kind: Kind, count: int, normalise: bool, d_v: int, seed: int,
) -> tuple[Rows, Preparation, tuple[int, ...]]:  # fmt: skip
    """Return the measured rows of one head, prepared, the preparation, and the places of these rows.

    Rows to fit on are drawn among those that no query asks for, as far as they go; queries whose pair is not among
    the measured rows are left out.
    """
    rows = keys[head]
    paid = value_law("sphere").draw(stream(seed, "values", head), len(rows), d_v) if values is None else values[head]
    order = stream(seed, "split", head).permutation(len(rows))
    if targets is not None:
        order = np.concatenate([order[~np.isin(order, targets)], order[np.isin(order, targets)]])
    kept = np.sort(order[count:])
    places = tuple(int(i) for i in kept)
    fitting = rows if kind == "raw" else rows[order[:count]]
    fitted = Preparation.fit(fitting, kind, normalise=normalise, among=rows, name="keys")
    prepared = fitted.apply(rows[kept], places=places)
    if queries is None or targets is None:
        return Rows(prepared, paid[kept]), fitted, places
    inside = np.isin(targets, kept)
    if not inside.any():
        raise InputError(
            "no query asks for a row that is left to measure; give fewer targets or a smaller `fit_share`."
        )
    asks = fitted.apply(queries[head][inside], "queries", places=np.flatnonzero(inside).tolist())
    return Rows(prepared, paid[kept], asks, np.searchsorted(kept, targets[inside])), fitted, places


def _words(lots: Sequence[_Lot], explained: Sequence[dict[str, str]]) -> list[str]:
    """Return the sentences on all heads, preparation by preparation."""
    by_kind: dict[str, list[dict[str, str]]] = {}
    for lot, sentences in zip(lots, explained, strict=True):
        extra = {
            "zero": zero_rows(lot.rows.keys, lot.kept), "faint": too_small(lot.rows.keys), "fit": lot.fitted.note,
        }  # fmt: skip
        named = {topic: f"{lot.kind.capitalize()} keys: {said}." for topic, said in extra.items() if said}
        by_kind.setdefault(lot.kind, []).append(sentences | named)
    return [sentence for heads in by_kind.values() for sentence in gathered(heads)]


def _summary(
    lot: _Lot, one: Subject, points: list[tuple[int, SubsetResult]], estimator: Estimator, statistic: Statistic,
    threshold: float, seed: int,
) -> tuple[list[Row], Row]:  # fmt: skip
    """Return the curve's rows and the capacity's row of one store."""
    beta = one.beta(lot.fitted.rank, points[-1][0])
    base = lot.columns() | {"store": one.key, "label": one.label, "beta": beta}
    sharp = effective_sharpness(beta, lot.rows.keys, lot.kind)
    refused = [found.reason for _, found in points if found.reason]
    if refused:
        return [], base | {"statistic": statistic, "value": None, "low": None, "high": None, "reason": refused[0],
                           "note": sharp}  # fmt: skip
    used: Statistic = "median" if estimator == "projection" else statistic
    rows: list[Row] = []
    curve: list[Estimate] = []
    for n, trial in points:
        ratio = summarise(trial.ratios, used, estimator=estimator, seed=seed, sampler="subsets of given keys")
        words = retrieval_definition(n) if n > 1 else "one candidate"
        right = summarise_shares(trial.right, trial.ratios.shape[1], definition=words, seed=seed)
        curve.append(ratio)
        row = {
            "n_memories": n, "statistic": used, "estimator": estimator, "value": ratio.value, "low": ratio.low,
            "high": ratio.high, "n_trials": ratio.n_trials, "choice": right.value, "choice_low": right.low,
            "choice_high": right.high, "reason": ratio.reason,
        }  # fmt: skip
        rows.append(base | row)
    counts = [float(n) for n, _ in points]
    found = crossing_of_curve(counts, curve, threshold)
    if found.value is None and found.ratio_there is not None and found.ratio_there <= threshold:
        all_of = "all the rows there are" if counts[-1] == len(lot.rows.keys) else "the largest that was measured"
        reason = f"not reached below M = {counts[-1]:.12g}, {all_of}; the ratio there is {found.ratio_there:.4g}"
        found = replace(found, reason=reason)
    return rows, base | {
        "statistic": used, "threshold": threshold, "value": found.value, "low": found.low, "high": found.high,
        "n_trials": found.n_trials, "largest_m": found.largest_m, "ratio_there": found.ratio_there,
        "choice_there": rows[-1]["choice"], "reason": found.reason,
        "note": "; ".join(filter(None, [found.note, sharp])), "definition": found.definition,
    }  # fmt: skip


def _with_beta(stores: Iterable[Any], beta: float | None) -> tuple[Subject, ...]:
    given = list(stores)
    if beta is not None:
        takes = [
            isinstance(what, str) and any(s.name == "beta" and not s.idle for s in entry(what).settings)
            for what in given
        ]
        if not any(takes):
            raise InputError("`beta` was given, but none of the stores takes a sharpness by that name.")
        given = [
            Subject(make_store(what, beta=beta), what, what) if t else what
            for what, t in zip(given, takes, strict=True)
        ]
    return subjects(*given)
