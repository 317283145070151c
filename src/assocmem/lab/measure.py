"""A user's own keys, queries and values, measured: ratio and choices at growing M, capacity, geometry, what they say.

Stores whose recall is a sum over the pairs are measured exactly (`lab.exact`), the others by subsets (`lab.rows`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from itertools import groupby, product
from typing import Any

import numpy as np

from assocmem.contract.errors import InputError, ToldOnce
from assocmem.contract.estimate import Statistic
from assocmem.contract.numbers import is_number, is_whole, number
from assocmem.contract.results import Results, Row
from assocmem.kernels.compute import Progress, Workers, run_tasks
from assocmem.lab.explain import explain, gathered, set_aside, too_small, zero_rows
from assocmem.lab.extras import NO_EXTRAS, Extras, check_names, taken_by
from assocmem.lab.given import Given, given
from assocmem.lab.plan import LabelledStore, Plan, StoreLike, all_labelled
from assocmem.lab.prepared import STATISTICS, Prepared
from assocmem.lab.run import part_of
from assocmem.ruler import quantile
from assocmem.ruler.whitening import Kind
from assocmem.stores import entry, make_store
from assocmem.stores import names as store_names
from assocmem.stores.mlp import GatedMLP

KINDS: dict[str, Kind] = {
    "raw": "raw", "centre": "centred", "centred": "centred", "whiten": "whitened", "whitened": "whitened",
}  # fmt: skip


@dataclass(frozen=True, repr=False)
class Measurement:
    """What was found about given keys: rows, and sentences (`words`) on what their geometry does to recall.

    curve: a row for each head, preparation, store and M (ratio of the median query, of others, share of right choices).
    capacities: for each head, preparation and store (value, or "not reached ..." with the ratio there).
    geometry: for each head and preparation.
    """

    curve: tuple[Row, ...]
    capacities: tuple[Row, ...]
    geometry: tuple[Row, ...]
    words: tuple[str, ...]

    def __repr__(self) -> str:
        columns = ("name", "preparation", "label", "value", "p10", "p90", "reason")
        table = Results("measured", tuple({name: row[name] for name in columns} for row in self.capacities))
        return "\n".join([str(table), *self.words])

    def over_heads(self) -> list[Row]:
        """Return a row for each preparation and store: how its capacity is spread over the heads, and the worst heads.

        Returns
        -------
        list of dict
            A capacity beyond the rows counts as the one that rows of the same kind would have.
        """
        rows = []
        for (kind, label), found in groupby(sorted(self.capacities, key=_of_heads), key=_of_heads):
            heads = list(found)
            reached = np.array([_capacity_of(head) for head in heads])
            worst = [heads[i]["name"] for i in np.argsort(reached, kind="stable")[:3]]
            spread = {name: float(quantile(reached, q)) for name, q in (("value", 0.5), ("p10", 0.1), ("p90", 0.9))}
            rows.append({"preparation": kind, "label": label, "heads": len(heads), **spread, "worst": ", ".join(worst)})
        return rows


def _of_heads(row: Row) -> tuple[str, str]:
    return row["preparation"], row["label"]


def _capacity_of(row: Row) -> float:
    """Return the M of a row of capacities, thought on beyond its rows: 1 where none fits, infinity where all do."""
    if row["value"] is not None:
        return float(row["value"])
    if row.get("beyond") is not None:
        return float(row["beyond"])
    return math.inf if (row.get("ratio_there") or math.inf) <= row.get("threshold", 0.0) else 1.0


def measure(
    keys: Any,
    values: Any = None,
    *,
    queries: Any = None,
    targets: Any = None,
    gates: Any = None,
    biases: Any = None,
    gate_biases: Any = None,
    gain: Any = None,
    causal: bool = False,
    window: int | None = None,
    mask: Any = None,
    drop: Sequence[int] = (),
    names: Sequence[str] | None = None,
    transpose: str | Sequence[str] = (),
    stores: Iterable[StoreLike] | None = None,
    beta: float | Sequence[float] | None = None,
    preparation: str | Sequence[str] = "raw",
    normalise: bool = False,
    memories: Iterable[int] | None = None,
    largest: int | None = None,
    trials: int = 24,
    asked: int = 32,
    statistic: Statistic = "median",
    threshold: float = 1.0,
    fit_share: float = 1 / 3,
    d_v: int = 64,
    extras: Extras = NO_EXTRAS,
    seed: int = 0,
    workers: Workers = None,
    progress: Progress | None = None,
    came: str | None = None,
) -> Measurement:
    """Return the ratio, the share of right choices and the capacity of stores that hold a user's own keys.

    Where recall is a sum over the pairs (softmax, linear and MLP stores: `Store.form`) the numbers are exact: of each
    query the root mean square over all subsets of M rows, and of these the median over queries, with the queries that
    10 % and 90 % stay below, and the rms. Other stores are measured on random subsets, with an interval over trials;
    one that refuses the keys gets its sentence as the reason.

    Parameters
    ----------
    keys : array (n, d), (heads, n, d) or (layers, heads, n, d)
        A result a head, of any array library; n >= 2.
    values : array (..., n, d_v), optional
        By default the ratio is the rms over random values of one length, by weights. Stores that are not linear in
        their values get random ones, `d_v` wide, drawn anew in each trial.
    queries : array (..., m, d), optional
        With a multiple of the keys' heads where several ask one key store (head i reads keys i // group). By default
        every stored key asks for itself, prepared as it is stored.
    targets : "own", "strongest" or int array (m,) or (..., m), optional
        The row that each query asks for: at its own position, of its largest weight, or named (-1: none).
    gates : array (..., n, d), optional
        Rows of a layer, as the next three: weights σ(g.x + c) (k.x + b). Without queries each row is asked by its own
        direction: along its key, with gates midway between the two. Stores named by key take the gate; default swiglu.
    biases, gate_biases : array (..., n), optional
        The b and c.
    gain : array (d,), optional
        Inputs x are this gain of a norm times a vector of length sqrt(d), which a query then is.
    causal : bool
        Queries stand at the last m positions and see no later key.
    window : int, optional
        Causal queries see the last so many keys, their own included.
    mask : bool array (..., m, n), optional
        What each query sees.
    drop : sequence of int
        Positions of keys that count as absent.
    names : sequence of str, optional
        Of the heads; by default their places, "10.4" for head 4 of layer 10.
    transpose : {"keys", "values", "gates"} or several
        Arrays that came with a row in each column, as the values of a linear layer's weight (out, in) do.
    stores : iterable, optional
        Keys, Stores or (label, Store); by default those that the register calls usual.
    beta : float or several, optional
        For stores given by a key that takes one; it multiplies k.x as it is.
    preparation : {"raw", "centre", "whiten"} or several
        Of the keys. Centring and whitening are fitted on `fit_share` of the rows, and all preparations are then
        measured on the others. Queries of one's own get what leaves their logits as they were, keys that ask for
        themselves keep their mean squared length.
    normalise : bool
        Scale keys and queries to length one instead: a sharpness is then that of unit keys.
    memories : iterable of int, optional
        The M to measure, by default steps of sqrt(2) up to all rows or to `largest`.
    largest : int, optional
        The largest M of those steps.
    trials, asked : int
        Of stores that are sampled: random subsets at each M, and pairs asked for in each.
    statistic : {"median", "rms", "mean"}
        Over queries (sampled: and trials).
    threshold : float
        The ratio that a capacity is the M of, > 0.
    fit_share : float
        In (0, 1).
    d_v : int
        Width of random values.
    extras : mapping, optional
        Laws of the further arrays that writes take, by name, as in `assocmem.capacity`; a store that has one is
        sampled.
    seed : int
        Of subsets, random values and the rows to fit on.
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
    Cost of an exact store: three passes over the weights, m n (d + d_v) multiply-adds each, for each head and
    preparation; of others trials x M writes and recalls. The mean squares: docs/theory.md, 11.

    Examples
    --------
    >>> rows = np.random.default_rng(0).standard_normal((200, 16))
    >>> found = measure(rows, stores=["outer-product"], normalise=True, workers=1)
    >>> round(found.capacities[0]["value"])
    17
    """
    kinds, chosen = _kinds_of(preparation), _chosen(stores, beta, gates is not None)
    heads = given(
        keys, values, queries=queries, targets=targets, gates=gates, biases=biases, gate_biases=gate_biases, gain=gain,
        causal=causal, window=window, mask=mask, drop=drop, names=names, transpose=transpose, came=came,
    )  # fmt: skip
    _require(heads, kinds, normalise, trials, asked, fit_share, statistic, threshold)
    if extras:
        check_names([one.store for one in chosen], extras)
    n = heads.rows.keys.shape[-2]
    how: dict[str, Any] = {"fit": _rows_to_fit(n, fit_share, kinds), "normalise": normalise, "seed": seed}
    grid = partial(_memories_of, None if memories is None else list(memories), largest)
    known = [one for one in chosen if not taken_by([one.store], extras)]
    task = partial(_exactly, heads, how, grid, known, statistic, threshold, d_v)
    places = list(product(range(len(heads.names)), kinds))
    done = run_tasks(task, places, workers=workers, progress=part_of(progress, 0, 2))
    curve: list[Row] = []
    capacities: list[Row] = []
    with ToldOnce():
        for step, (one, ms, found) in enumerate(done):
            left = tuple(store for store in chosen if found.get(store.label) is None)
            if left:
                sampler, taken = one.sampler(trials, asked), taken_by([store.store for store in left], extras)
                plan = Plan(
                    sampler, left, one.fitted.rank, tuple(ms), seed, statistics=(statistic,), d_v=d_v, extras=taken
                )  # fmt: skip
                drawn = sampler.draw(plan, workers, part_of(progress, len(done) + step, 2 * len(done)))
                for label, trials_of in groupby(drawn, key=lambda trials: trials.one.label):
                    found[label] = one.sampled(list(trials_of), threshold, seed)
            for store in chosen:
                rows, capacity = found[store.label]
                curve += rows
                capacities.append(capacity)
    prepared = [one for one, _, _ in done]
    words = _words(prepared, beta is not None) + _expected(capacities, curve)
    if how["fit"]:
        whitened = max((one.fitted.rank for one in prepared if one.kind == "whitened"), default=0)
        words.append(set_aside(how["fit"], n, whitened, kinds))
    geometry = tuple(one.columns() | asdict(one.shape) for one in prepared)
    return Measurement(tuple(curve), tuple(capacities), geometry, tuple(words))


def _exactly(
    heads: Given, how: dict[str, Any], grid: Callable[[int], list[int]], chosen: Sequence[LabelledStore],
    statistic: Statistic, threshold: float, d_v: int, task: tuple[int, Kind],
) -> tuple[Prepared, list[int], dict[str, Any]]:  # fmt: skip
    """Return one head in one preparation, its M, and the rows of each store, None for those that must be sampled."""
    one = Prepared.of(heads, *task, **how)
    memories = grid(one.most)
    seed = how["seed"]
    return one, memories, {s.label: one.exact(s, memories, statistic, threshold, d_v, seed) for s in chosen}


def _words(prepared: Sequence[Prepared], told: bool) -> list[str]:
    """Return the sentences on all heads, preparation by preparation; `told`: a sharpness was given."""
    by_kind: dict[str, list[tuple[str, dict[str, str]]]] = {}
    for one in prepared:
        keys, name = one.rows.keys[one.kept], one.given.names[one.place]
        extra = {"zero": zero_rows(keys, one.kept.tolist()), "faint": too_small(keys), "fit": one.fitted.note}
        named = {topic: f"{one.kind.capitalize()} keys: {said}." for topic, said in extra.items() if said}
        by_kind.setdefault(one.kind, []).append((name, explain(one.shape, one.kind, told=told) | named))
    return [sentence for heads in by_kind.values() for sentence in gathered(*zip(*heads, strict=True))]


def _expected(capacities: Sequence[Row], curve: Sequence[Row]) -> list[str]:
    """Return what theory says of normal keys with the mean and the covariance of the given ones, a sentence a head."""
    words, heads = [], len({row["name"] for row in capacities})
    farthest = {_place(row): row["rms"] for row in curve}  # the largest M comes last

    def reached(row: Row) -> str:
        if row["rms"] is not None:
            return number(row["rms"])
        last = farthest.get(_place(row))
        return f"over {number(row['largest_m'])}" if last is not None and last <= row["threshold"] else "at most 2"

    for (name, kind), found in groupby(capacities, key=lambda row: (row["name"], row["preparation"])):
        rows = [row for row in found if row.get("theory") is not None]
        told = [f"{row['label']} {number(row['theory'])} (these {reached(row)} by rms)" for row in rows]
        missed = "" if all(row["theory_exact"] for row in rows) else ", or what an approximation misses"
        if told:
            words.append(
                f"{f'Head {name}, {kind}' if heads > 1 else kind.capitalize()} keys: by theory, normal ones with their "
                f"mean and covariance would hold {', '.join(told)}. What differs is the shape of their law{missed}."
            )
    return words


def _place(row: Row) -> tuple[str, str, str]:
    return row["name"], row["preparation"], row["label"]


# ---------------------------------------------------------------------- what a user asks for


def _chosen(
    named: Iterable[StoreLike] | None, beta: float | Sequence[float] | None, gated: bool
) -> tuple[LabelledStore, ...]:
    """Return the stores to measure; those given by a key take the gate, or a store for each sharpness."""
    usual = ["swiglu"] if gated else [key for key in store_names() if entry(key).usual]
    stores: list[StoreLike] = list(usual if named is None else named)
    if gated:
        stores = [_gated(what) if isinstance(what, str) else what for what in stores]
        for one in all_labelled(stores):
            if not getattr(one.store.form(1), "gated", False):
                raise InputError(f"`gates` are for stores whose pairs have a gate of their own; got {one.label}.")
    if beta is None:
        return all_labelled(stores)
    betas = list(beta) if isinstance(beta, Iterable) else [beta]
    found: list[StoreLike] = []
    for what in stores:
        if isinstance(what, str) and any(s.name == "beta" and not s.idle for s in entry(what).settings):
            label = "{}, beta {:g}" if len(betas) > 1 else "{}"
            found += [LabelledStore(make_store(what, beta=b), what, label.format(what, b)) for b in betas]
        else:
            found.append(what)
    if len(betas) == 0 or not any(isinstance(what, LabelledStore) and what.key in stores for what in found):
        raise InputError("`beta` was given, but none of the stores takes a sharpness by that name.")
    return all_labelled(found)


def _gated(key: str) -> LabelledStore:
    """Return the store of a key with a gate of its own."""
    if any(setting.name == "gate" for setting in entry(key).settings):
        return LabelledStore(make_store(key, gate="own"), key, key)
    store = make_store(key)
    activation = store.settings().get("activation")
    return LabelledStore(store if activation is None else GatedMLP(activation), key, key)


def _kinds_of(preparation: str | Sequence[str]) -> list[Kind]:
    """Return the kinds of preparation that were named, each once."""
    named = [preparation] if isinstance(preparation, str) else list(preparation)
    if not named or not set(named) <= KINDS.keys():
        raise InputError(f"`preparation` must be at least one of raw, centre and whiten; got {named}.")
    return list(dict.fromkeys(KINDS[name] for name in named))


def _require(
    heads: Given, kinds: Sequence[Kind], normalise: bool, trials: int, asked: int, fit_share: float, statistic: str,
    threshold: float,
) -> None:  # fmt: skip
    """Raise InputError for a setting out of range."""
    if heads.layer and (list(kinds) != ["raw"] or normalise):
        raise InputError("rows of a layer (gates, biases, gain) are read as they are: leave `preparation` raw.")
    if not (is_whole(trials) and is_whole(asked)):
        raise InputError(f"`trials` and `asked` must be whole numbers >= 1; got {trials!r} and {asked!r}.")
    if not (is_number(fit_share) and 0 < fit_share < 1):
        raise InputError(f"`fit_share` must lie between 0 and 1; got {fit_share!r}.")
    if statistic not in STATISTICS:
        raise InputError(f"`statistic` must be one of {', '.join(STATISTICS)}; got {statistic!r}.")
    if not (is_number(threshold) and threshold > 0):
        raise InputError(f"`threshold` must be a finite number > 0; got {threshold!r}.")


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


def _memories_of(memories: list[Any] | None, largest: int | None, rows: int) -> list[int]:
    """Return the M to measure, at most as many as there are rows, by default up to `largest`."""
    if rows < 1:
        raise InputError("`mask`, `window` and `drop` hide every row from every query; nothing is left to measure.")
    if memories is None:
        if largest is not None and not is_whole(largest, 2):
            raise InputError(f"`largest` must be a whole number >= 2; got {largest!r}.")
        top = rows if largest is None else min(rows, largest)
        steps = int(2 * np.log2(top))
        return sorted({min(top, round(2 ** (i / 2))) for i in range(2, steps + 1)} | {top})
    if not memories or not all(is_number(n) and float(n).is_integer() and 1 <= n <= rows for n in memories):
        raise InputError(
            f"`memories` must be whole numbers from 1 to the {rows} rows that are measured; got {memories}."
        )
    return sorted({int(n) for n in memories})
