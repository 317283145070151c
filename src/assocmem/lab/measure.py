"""A user's own keys and values, measured: ratio and retrieval at growing M, capacity, geometry, and what they say."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import groupby, product
from numbers import Real
from typing import Any

import numpy as np

from assocmem.contract.arrays import as_array, dtype_name, namespace, require_finite, to_numpy
from assocmem.contract.errors import InputError
from assocmem.contract.estimate import Statistic
from assocmem.contract.numbers import is_whole, stream
from assocmem.contract.results import Results, Row
from assocmem.inputs import checked_targets, value_law
from assocmem.kernels.compute import Progress, Workers
from assocmem.lab.explain import effective_sharpness, explain, gathered, set_aside, too_small, zero_rows
from assocmem.lab.plan import FloatArray, LabelledStore, Plan, StoreLike, Trials, all_labelled, row
from assocmem.lab.rows import Rows
from assocmem.lab.run import part_of
from assocmem.ruler.capacity import crossing_of_curve
from assocmem.ruler.geometry import key_geometry
from assocmem.ruler.whitening import Kind, Preparation
from assocmem.stores import entry, make_store, names

KINDS: dict[str, Kind] = {
    "raw": "raw", "centre": "centred", "centred": "centred", "whiten": "whitened", "whitened": "whitened",
}  # fmt: skip


@dataclass(frozen=True, repr=False)
class Measurement:
    """What was found about given keys: rows, and sentences (`words`) on what their geometry does to recall.

    curve: a row for each head, preparation, store and M (ratio with interval, share of right recalls).
    capacities: for each head, preparation and store (value, or "not reached ..." with the ratio there).
    geometry: for each head and preparation.
    """

    curve: tuple[Row, ...]
    capacities: tuple[Row, ...]
    geometry: tuple[Row, ...]
    words: tuple[str, ...]

    def __repr__(self) -> str:
        columns = ("head", "preparation", "label", "value", "low", "high", "reason")
        table = Results("measured", tuple({name: row[name] for name in columns} for row in self.capacities))
        return "\n".join([str(table), *self.words])


def measure(
    keys: Any,
    values: Any = None,
    *,
    queries: Any = None,
    targets: Any = None,
    stores: Iterable[StoreLike] | None = None,
    beta: float | None = None,
    preparation: str | Sequence[str] = "raw",
    normalise: bool = False,
    memories: Iterable[int] | None = None,
    largest: int | None = None,
    trials: int = 24,
    asked: int = 32,
    statistic: Statistic = "rms",
    threshold: float = 1.0,
    fit_share: float = 1 / 3,
    d_v: int = 64,
    seed: int = 0,
    workers: Workers = None,
    progress: Progress | None = None,
    came: str | None = None,
) -> Measurement:
    """Return the ratio, the retrieval accuracy and the capacity of stores that hold a user's own keys.

    Trials are random subsets of the rows; near all rows they overlap, so that intervals speak of these rows and not of
    others like them. A store that refuses the keys gets its sentence as the reason.

    Parameters
    ----------
    keys : array (n, d) or (heads, n, d)
        A result a head, of any array library; n >= 2.
    values : array (n, d_v) or (heads, n, d_v), optional
        By default uniform on the unit sphere, `d_v` wide.
    queries : array (m, d) or (heads, m, d), optional
        By default the stored keys.
    targets : sequence of int or array (m,), optional
        The rows that the queries ask for.
    stores : iterable, optional
        Keys, Stores or (label, Store); by default those that the register calls usual.
    beta : float, optional
        For stores given by a key that takes one.
    preparation : {"raw", "centre", "whiten"} or several
        Centring and whitening are fitted on `fit_share` of the rows, and all preparations are then measured on the
        others.
    normalise : bool
        Scale prepared keys to length one.
    memories : iterable of int, optional
        The M to measure, by default steps of sqrt(2) up to all rows or to `largest`.
    largest : int, optional
        The largest M of those steps.
    trials, asked : int
        Random subsets at each M, and pairs asked for in each.
    statistic : {"rms", "mean", "median"}
        Of the ratio over trials, and of the capacity.
    threshold : float
        The ratio that a capacity is the M of, > 0.
    fit_share : float
        In (0, 1).
    d_v : int
        Width of random values.
    seed : int
        Of subsets and random values.
    workers, progress
        See `kernels.compute.run_tasks`; the rows do not depend on it.
    came : str, optional
        Name of the dtype in which the keys came, where it was narrower than that of `keys`: directions that are its
        rounding are left out.

    Returns
    -------
    Measurement
        Rows for each M, capacities, and the keys' geometry.

    Raises
    ------
    InputError
        For shapes and numbers that do not fit.
    NonFiniteError
        Naming a row.

    Notes
    -----
    Cost: trials x stores x preparations writes and recalls of each M.

    Examples
    --------
    >>> rows = np.random.default_rng(0).standard_normal((200, 16))
    >>> found = measure(rows, stores=["outer-product"], normalise=True, workers=1)
    >>> 8 < found.capacities[0]["value"] < 32
    True
    """
    kinds, chosen = _kinds_of(preparation), _with_beta(stores, beta)
    heads = _heads_of(keys, "keys", 2)
    came = dtype_name(as_array(keys, "keys").dtype) if came is None else came
    paid = None if values is None else _heads_of(values, "values", 2)
    asks = None if queries is None else _heads_of(queries, "queries", 1)
    where = None if targets is None else checked_targets(targets, heads.shape[1])
    for sentence in _misfits(heads, paid, asks, where):
        raise InputError(sentence)
    if not (is_whole(trials) and is_whole(asked)):
        raise InputError(f"`trials` and `asked` must be whole numbers >= 1; got {trials!r} and {asked!r}.")
    if not 0 < fit_share < 1:
        raise InputError(f"`fit_share` must lie between 0 and 1; got {fit_share!r}.")
    fitting = _rows_to_fit(heads.shape[1], fit_share, kinds)
    given = [
        _Given(head, kind, *_prepared(heads, paid, asks, where, head, kind, fitting, normalise, d_v, seed, came))
        for head, kind in product(range(len(heads)), kinds)
    ]
    counts = [_memories_of(memories, len(one.rows.keys), largest) for one in given]
    how: dict[str, Any] = {"trials": trials, "asked": asked, "largest": max(max(ns) for ns in counts)}
    how["estimator"] = "auto" if values is None else "vectors"
    curve, capacities = [], []
    for i, (one, ns) in enumerate(zip(given, counts, strict=True)):
        sampler = replace(one.rows, name=one.head, **how)
        plan = Plan(sampler, chosen, one.fitted.rank, tuple(ns), seed, statistics=(statistic,))
        drawn = sampler.draw(plan, workers, part_of(progress, i, len(given)))
        for _, found in groupby(drawn, key=lambda trials: trials.one.label):
            rows, capacity = _summary(one, list(found), threshold, seed)
            curve += rows
            capacities.append(capacity)
    shapes = [key_geometry(one.rows.keys, came=came) for one in given]
    words = _words(given, [explain(shape, one.kind) for one, shape in zip(given, shapes, strict=True)])
    if fitting:
        whitened = max((one.fitted.rank for one in given if one.kind == "whitened"), default=0)
        words.append(set_aside(fitting, heads.shape[1], whitened, kinds))
    geometry = tuple(one.columns() | asdict(shape) for one, shape in zip(given, shapes, strict=True))
    return Measurement(tuple(curve), tuple(capacities), geometry, tuple(words))


@dataclass(frozen=True, eq=False)
class _Given:
    """One head in one preparation, and the places of its measured rows among the given ones."""

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
    kind: Kind, count: int, normalise: bool, d_v: int, seed: int, came: str,
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
    fitted = Preparation.fit(fitting, kind, normalise=normalise, among=rows, name="keys", came=came)
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


def _summary(given: _Given, trials: list[Trials], threshold: float, seed: int) -> tuple[list[Row], Row]:
    """Return the curve's rows and the capacity's row of one store, from its ratios and retrievals in turn."""
    one, counts = trials[0].one, [found.n_memories for found in trials[::2]]
    base: Row = given.columns() | {"beta": one.beta(given.fitted.rank, counts[-1])}
    sharp = effective_sharpness(base["beta"], given.rows.keys, given.kind)
    curve = [found.estimate(seed) for found in trials[::2]]
    refused = next((found.refusal for found in trials if found.refusal), "")
    if refused:
        return [], row(one, replace(curve[0], reason=refused), **base, note=sharp)
    rows = []
    for n, ratio, retrieval in zip(counts, curve, trials[1::2], strict=True):
        right = retrieval.estimate(seed)
        where: Row = {"quantity": "ratio", "n_memories": n, "estimator": retrieval.estimator, "right": right.value}
        rows.append(row(one, ratio, **base, **where, right_low=right.low, right_high=right.high))
    found = crossing_of_curve([float(n) for n in counts], curve, threshold)
    if found.value is None and found.ratio_there is not None and found.ratio_there <= threshold:
        all_of = "all the rows there are" if counts[-1] == len(given.rows.keys) else "the largest that was measured"
        reason = f"not reached below M = {counts[-1]:.12g}, {all_of}; the ratio there is {found.ratio_there:.4g}"
        found = replace(found, reason=reason)
    return rows, row(
        one, found, **base, quantity="capacity", threshold=threshold, largest_m=found.largest_m,
        ratio_there=found.ratio_there, right_there=rows[-1]["right"], definition=found.definition,
        note="; ".join(filter(None, [found.note, sharp])),
    )  # fmt: skip


def _words(given: Sequence[_Given], explained: Sequence[dict[str, str]]) -> list[str]:
    """Return the sentences on all heads, preparation by preparation."""
    by_kind: dict[str, list[dict[str, str]]] = {}
    for one, sentences in zip(given, explained, strict=True):
        keys = one.rows.keys
        extra = {"zero": zero_rows(keys, one.kept), "faint": too_small(keys), "fit": one.fitted.note}
        named = {topic: f"{one.kind.capitalize()} keys: {said}." for topic, said in extra.items() if said}
        by_kind.setdefault(one.kind, []).append(sentences | named)
    return [sentence for heads in by_kind.values() for sentence in gathered(heads)]


# ---------------------------------------------------------------------- what a user gives


def _with_beta(named: Iterable[StoreLike] | None, beta: float | None) -> tuple[LabelledStore, ...]:
    given: list[StoreLike] = [key for key in names() if entry(key).usual] if named is None else list(named)
    if beta is not None:
        takes = [
            isinstance(what, str) and any(s.name == "beta" and not s.idle for s in entry(what).settings)
            for what in given
        ]
        if not any(takes):
            raise InputError("`beta` was given, but none of the stores takes a sharpness by that name.")
        for i, what in enumerate(given):
            if takes[i] and isinstance(what, str):
                given[i] = LabelledStore(make_store(what, beta=beta), what, what)
    return all_labelled(given)


def _kinds_of(preparation: str | Sequence[str]) -> list[Kind]:
    """Return the kinds of preparation that were named, each once."""
    named = [preparation] if isinstance(preparation, str) else list(preparation)
    if not named or not set(named) <= KINDS.keys():
        raise InputError(f"`preparation` must be at least one of raw, centre and whiten; got {named}.")
    return list(dict.fromkeys(KINDS[name] for name in named))


def _heads_of(array: Any, name: str, least: int) -> FloatArray:
    """Return an array as (heads, n, width) float64."""
    checked = as_array(array, name)
    if checked.ndim not in (2, 3) or checked.shape[-2] < least or checked.shape[-1] < 1:
        raise InputError(
            f"`{name}` must have shape (n, d) or (heads, n, d) with n >= {least}; got {tuple(checked.shape)}."
        )
    require_finite(checked, name, namespace(checked))
    rows = to_numpy(checked).astype(np.float64)
    return rows if rows.ndim == 3 else rows[None]


def _misfits(
    keys: FloatArray, values: FloatArray | None, queries: FloatArray | None, targets: FloatArray | None
) -> Iterator[str]:
    """Yield a sentence where heads, rows or widths do not fit together."""
    heads, n, width = keys.shape
    empty = [] if values is None else [head for head, rows in enumerate(values) if not rows.any()]
    if empty and values is not None:
        where = f" of head {empty[0]}" if len(values) > 1 else ""
        yield f"`values`{where} must not all be zero: a recall has no length to compare interference with."
    if values is not None and values.shape[:2] != (heads, n):
        yield f"`values` must have one row for each of {n} keys in {heads} heads; got {values.shape}."
    if queries is None or targets is None:
        if queries is not targets:
            yield "`queries` and `targets` go together: the target of a query is the row that it asks for."
    elif queries.shape[0] != heads or queries.shape[2] != width:
        yield f"`queries` must have the heads and the width of the keys {keys.shape}; got {queries.shape}."
    elif len(targets) != queries.shape[1]:
        yield f"`targets` must name a row for each of {queries.shape[1]} queries; got {len(targets)}."


def _rows_to_fit(rows: int, fit_share: float, kinds: Sequence[Kind]) -> int:
    """Return how many of the rows are set aside to fit the preparations, at least 2 of which must be left."""
    if list(kinds) == ["raw"]:
        return 0
    count = max(2, round(fit_share * rows))
    if rows - count < 2:
        what = "the mean and the whitening" if "whitened" in kinds else "the mean"
        raise InputError(
            f"`keys` has {rows} rows: {count} are set aside to fit {what}, which leaves {max(0, rows - count)} to "
            "measure; at least 2 must be left, so give more rows."
        )
    return count


def _memories_of(memories: Iterable[int] | None, rows: int, largest: int | None = None) -> list[int]:
    """Return the M to measure, at most as many as there are rows, by default up to `largest`."""
    if memories is None:
        if largest is not None and not is_whole(largest, 2):
            raise InputError(f"`largest` must be a whole number >= 2; got {largest!r}.")
        top = rows if largest is None else min(rows, largest)
        steps = int(2 * np.log2(top))
        return sorted({min(top, round(2 ** (i / 2))) for i in range(2, steps + 1)} | {top})
    given = list(memories)
    if not given or not all(isinstance(n, Real) and float(n).is_integer() and 1 <= n <= rows for n in given):
        raise InputError(f"`memories` must be whole numbers from 1 to the {rows} rows that are measured; got {given}.")
    return sorted({int(n) for n in given})
