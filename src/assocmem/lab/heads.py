"""Attention heads as memories: exact ratio and capacity of real keys under real queries, and what longer texts take.

Every number is of `ruler.GivenRows`: no sampling, quantiles over queries first. Interference is over random values.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from assocmem.contract.arrays import to_numpy
from assocmem.contract.errors import InputError
from assocmem.contract.numbers import is_number, is_whole
from assocmem.contract.results import Results, Row, header_for
from assocmem.kernels.compute import Progress, Workers, run_tasks
from assocmem.lab.longer_texts import CONTEXT_COLUMNS, CONTEXTS, LongerTexts, finite
from assocmem.ruler import GivenRows, RowRatios, key_geometry, quantile

if TYPE_CHECKING:
    import altair as alt
    import polars as pl

    from assocmem.models.tracing import Trace

FloatArray = np.ndarray[Any, Any]

LOG_EDGES = tuple(float(edge) for edge in range(-30, 11))
TABLE = ("layer", "head", "ratio", "capacity", "capacity_p10", "capacity_p90", "sink_mass", "effective_dimension")
"""What a printed table shows."""
SHOWN = 12
"""Collisions that a page shows of a head."""
COLUMNS = {
    "layer": "number of the layer, from 0",
    "head": "number of the query head, from 0",
    "key_head": "number of the key store that the head asks",
    "n_keys": "keys of the text, dropped ones left out",
    "asked": "queries that have a target and see other keys",
    "ratio": "interference-to-signal ratio of the median query among all keys that it sees",
    "ratio_p90": "the same, of the query that 90 % do better than",
    "ratio_rms": "root mean square of the ratio over queries",
    "heaviest": "share of the mean square that one query holds: near 1 the rms speaks of that query alone",
    "past_capacity": "share of queries that see more keys than they can tell apart: their ratio is above the threshold",
    "capacity": "keys at which the ratio of the median query reaches the threshold",
    "capacity_p10": "the same, of the query that 90 % do better than",
    "capacity_p90": "the same, of the query that 10 % do better than",
    "sink_mass": "softmax weight of key 0 for the median query, dropped or not",
    "beta": "sharpness on unit keys: scaling times the mean lengths of queries and keys",
    "key_length": "mean length of the keys",
    "effective_dimension": "1 / E cos^2 of pairs of keys: the width at which random keys would overlap as much",
    "mean_share": "||mean key||^2 / mean ||key||^2: a shared direction, which softmax does not feel",
    "duplicates": "keys equal to an earlier one",
}


@dataclass(frozen=True)
class Spread:
    """A number over queries: of the median query, and of those that 10 % and 90 % stay below."""

    median: float
    p10: float
    p90: float

    @classmethod
    def of(cls, numbers: FloatArray) -> Spread:
        """Return the spread of one number a query; queries with NaN do not count, and NaN where none is left."""
        return cls(*(float(quantile(numbers, q)) for q in (0.5, 0.1, 0.9)))


@dataclass(frozen=True, eq=False)
class Head:
    """One head: its keys, its queries, which key each asks for.

    Attributes
    ----------
    layer, head : int
    rows : GivenRows
        Keys (n, d) and queries (m, d).
    tokens : tuple of str
        What stands at the keys' positions; () where that is not known.
    row : mapping
        The head's row of `Heads.table`.
    """

    layer: int
    head: int
    rows: GivenRows
    tokens: tuple[str, ...]
    row: Mapping[str, Any]

    def ratios(self, scale: float = 1.0) -> RowRatios:
        """Return the ratio of every query as a function of M, its logits times `scale`."""
        return self.rows.ratios(scale)

    def ratio(self, m: float | None = None, scale: float = 1.0) -> Spread:
        """Return the ratio over queries among `m` keys like these (None: all that each sees), logits times `scale`."""
        return Spread.of(self.ratios(scale).ratio(m))

    def capacity(self, threshold: float = 1.0, scale: float = 1.0) -> Spread:
        """Return over queries how many keys like these bring the ratio to the threshold, logits times `scale`."""
        return Spread.of(self.ratios(scale).capacity(threshold))

    def factor(self, m: float, ratio: float = 1.0) -> Spread:
        """Return over queries by how much logits must grow to serve `m` keys at a ratio; infinity: no factor does."""
        return Spread.of(self.rows.logit_factors([m], ratio)[..., 0])

    def collisions(self, count: int = 20) -> pl.DataFrame:
        """Return the strongest interference: a row for each query and key, largest weight first.

        Columns: query, asks, meets (positions), their tokens, weight (that of the key met over that of the key asked
        for) and share (of the query's interference, in squares).
        """
        import polars as pl

        if not is_whole(count):
            raise InputError(f"`count` must be a whole number >= 1; got {count!r}.")
        names, weights = self.rows.strongest(min(count, self.rows.keys.shape[0]))
        ratios, targets = self.ratios().ratio(), self.targets()
        order = np.argsort(-np.where(names >= 0, weights, -1.0), axis=None, kind="stable")[:count]
        at = [np.unravel_index(i, names.shape) for i in order]
        with np.errstate(invalid="ignore"):
            found = [
                {"query": int(q), "asks": int(targets[q]), "meets": int(names[q, j]), "query_token": self._token(q),
                 "asks_token": self._token(targets[q]), "meets_token": self._token(names[q, j]),
                 "weight": float(weights[q, j]), "share": float((weights[q, j] / ratios[q]) ** 2)}
                for q, j in at if names[q, j] >= 0
            ]  # fmt: skip
        return pl.DataFrame(found)

    def targets(self) -> FloatArray:
        """Return the key that every query asks for (m,), -1 where none."""
        return self.rows.targets()

    def report(self) -> str:
        """Return what there is to say of the head, in sentences."""
        return head_words(self.row)

    def _token(self, place: Any) -> str:
        return self.tokens[place] if 0 <= place < len(self.tokens) else ""


@dataclass(frozen=True, eq=False)
class _Layer:
    """The heads of one layer: rows of all of them."""

    layer: int
    rows: GivenRows


@dataclass(frozen=True, eq=False)
class Heads:
    """All heads of a trace, or of arrays that were captured elsewhere.

    Attributes
    ----------
    layers : tuple
        The rows of each layer's heads.
    tokens : tuple of str
    notes : tuple of str
        What to say beside numbers: what is dropped, what a query asks for, quantised weights.
    reference : float
        L, the length that rules for longer texts leave as it is: the model's context, or the keys there are.
    threshold : float
        The ratio that a capacity is the M of.
    """

    layers: tuple[_Layer, ...]
    tokens: tuple[str, ...]
    notes: tuple[str, ...]
    reference: float
    threshold: float = 1.0
    _done: dict[int, list[Row]] = field(default_factory=dict, init=False)

    def head(self, layer: int, head: int) -> Head:
        """Return one head; InputError where there is none of these numbers."""
        chosen = [one for one in self.layers if one.layer == layer]
        if not chosen or isinstance(layer, bool):
            there = ", ".join(str(one.layer) for one in self.layers)
            raise InputError(f"`layer` must be one of {there}, the layers traced; got {layer!r}.")
        count = chosen[0].rows.queries.shape[0]
        if not is_whole(head, 0) or head >= count:
            raise InputError(f"`head` must lie in [0, {count}), the heads of layer {layer}; got {head!r}.")
        row = self._measured(chosen[0])[head]
        return Head(layer, head, chosen[0].rows.head(head), self.tokens, row)

    def results(self, *, workers: Workers = None, progress: Progress | None = None) -> Results:
        """Return a row for each head (columns: COLUMNS), worked out layer by layer and kept."""
        left = [one for one in self.layers if one.layer not in self._done]

        def keep(i: int, rows: list[Row]) -> None:
            self._done[left[i].layer] = rows

        run_tasks(partial(_rows_of, threshold=self.threshold), left, workers=workers, progress=progress, keep=keep)
        return self.kept()

    def kept(self) -> Results:
        """Return the rows of the layers that have been worked out so far."""
        rows = [row for one in self.layers for row in self._done.get(one.layer, [])]
        config = {"threshold": self.threshold, "notes": list(self.notes), "tokens": len(self.tokens)}
        header = header_for(config=config, definitions=COLUMNS)
        return Results("heads", tuple(rows), header | {"table": list(TABLE)})

    def table(self) -> pl.DataFrame:
        """Return a row for each head as a polars DataFrame."""
        return self.results().frame()

    def contexts(
        self, memories: Sequence[float] = CONTEXTS, *, reference: float | None = None, workers: Workers = None,
        progress: Progress | None = None,
    ) -> Results:  # fmt: skip
        """Return what longer texts do to each head, under the rules that sharpen logits with length.

        Parameters
        ----------
        memories : sequence of numbers >= 2
            M, keys of the same kind as these.
        reference : float >= 2
            L, the length at which the rules change nothing; default: the model's context, or the keys there are.

        Returns
        -------
        results : Results
            A row for each head, M and rule (columns: CONTEXT_COLUMNS).
        """
        length = self.reference if reference is None else reference
        if not (is_number(length) and length >= 2):
            raise InputError(f"`reference` must be a number of keys >= 2; got {length!r}.")
        task = LongerTexts(tuple(memories), float(length), self.threshold)
        given = [(one.layer, one.rows) for one in self.layers]
        rows = [row for found in run_tasks(task, given, workers=workers, progress=progress) for row in found]
        config = {"threshold": self.threshold, "notes": list(self.notes), "reference": length}
        return Results("contexts", tuple(rows), header_for(config=config, definitions=CONTEXT_COLUMNS))

    def details(self, *, workers: Workers = None, progress: Progress | None = None) -> list[Row]:
        """Return what a page shows of each head.

        Keys: layer, head, words; edges and counts of the histogram of ln(weight / weight of the key asked for); ratios
        of the queries (null where one asks for nothing); collisions, the rows of `Head.collisions`.
        """
        found = run_tasks(self._details, self.layers, workers=workers, progress=progress)
        return [row for rows in found for row in rows]

    def _details(self, one: _Layer) -> list[Row]:
        counts = one.rows.log_histogram(LOG_EDGES)
        rows: list[Row] = []
        for i in range(len(counts)):
            head = self.head(one.layer, i)
            rows.append(
                {"layer": one.layer, "head": i, "words": head.report(), "edges": list(LOG_EDGES),
                 "counts": counts[i].tolist(), "ratios": [finite(x) for x in head.ratios().ratio()],
                 "collisions": head.collisions(SHOWN).to_dicts()}
            )  # fmt: skip
        return rows

    def map(self, quantity: str = "capacity") -> alt.Chart:
        """Return a chart of layers and heads, coloured by a column of `table`."""
        import altair as alt

        column = [row[quantity] for row in self.results().rows] if quantity in COLUMNS else []
        if quantity not in COLUMNS or quantity in ("layer", "head"):
            raise InputError(f"`quantity` must be a column of the table; got {quantity!r}.")
        known = [x for x in column if x is not None] or [1.0]
        wide = min(known) > 0 and max(known) > 30 * min(known)
        scale = alt.Scale(type="log" if wide else "linear", scheme="viridis")
        chart: alt.Chart = (
            alt.Chart(self.table(), title=f"{quantity}: {COLUMNS[quantity]}")
            .mark_rect()
            .encode(
                x=alt.X("head:O", title="head", axis=alt.Axis(labelAngle=0)), y=alt.Y("layer:O", title="layer"),
                color=alt.Color(f"{quantity}:Q", scale=scale, title=quantity),
                tooltip=[alt.Tooltip(f"{name}:Q", format=".4~g") for name in COLUMNS],
            )
        )  # fmt: skip
        return chart

    def _measured(self, one: _Layer) -> list[Row]:
        if one.layer not in self._done:
            self._done[one.layer] = _rows_of(one, self.threshold)
        return self._done[one.layer]


def measure_attention(
    q: Any, k: Any, v: Any = None, *, scaling: float | None = None, causal: bool = True, mask: Any = None,
    window: int | None = None, softcap: float | None = None, drop: Sequence[int] | None = None,
    target: Any = "strongest", tokens: Sequence[str] = (), reference: float | None = None, threshold: float = 1.0,
) -> Heads:  # fmt: skip
    """Return the heads of queries, keys and values that were captured: ratio and capacity of each, exactly.

    Parameters
    ----------
    q : array (m, d), (heads, m, d) or (layers, heads, m, d)
        Of any array library, as they meet the keys (after norms and positions).
    k : array (n, d), (key heads, n, d) or (layers, key heads, n, d)
        Grouped heads: query head i reads keys of head i // (heads / key heads).
    v : array like k, of any width
        With values the interference is that of these values; without, that of random ones.
    scaling : float
        Of q.k; default 1/sqrt(d).
    causal, mask, window, softcap : bool, bool array, int, float
        As in `ruler.GivenRows`.
    drop : sequence of int
        Positions of keys that count as absent; default: key 0, the sink, where attention is causal, and none else.
    target : "strongest", "own", "next" or int array
        The key that a query asks for: that of its largest weight; its own position's; "next", that of the token that
        comes next (where it is seen, else where the same token last stood before: needs `tokens`); or rows, -1: none.
    tokens : sequence of str
        What stands at the keys' positions.
    reference : float
        L of `Heads.contexts`; default: the keys there are.
    threshold : float
        The ratio that a capacity is the M of.

    Returns
    -------
    Heads
        One for each query head, measured when asked.

    Raises
    ------
    InputError, NonFiniteError
        For shapes and settings that do not fit, and naming a row that holds NaN or infinity.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> heads = measure_attention(rng.standard_normal((4, 50, 16)), rng.standard_normal((2, 50, 16)))
    >>> heads.table().shape
    (4, 19)
    """
    arrays = [None if x is None else _layered(x, name) for x, name in ((q, "q"), (k, "k"), (v, "v"))]
    queries, keys, values = arrays
    assert queries is not None
    assert keys is not None
    if len(queries) != len(keys) or (values is not None and len(values) != len(keys)):
        raise InputError(f"`q`, `k` and `v` must have the same layers; got {np.shape(q)}, {np.shape(k)}.")
    n = keys.shape[-2]
    if tokens and len(tokens) != n:
        raise InputError(f"`tokens` must be {n}, one for every key; got {len(tokens)}.")
    dropped = ((0,) if causal else ()) if drop is None else tuple(drop)
    asked = _next_token(tokens, queries.shape[-2], n, causal) if _is(target, "next") else target
    shape = (len(keys), *queries.shape[1:3])
    masks = _each_layer(mask, "mask", (*shape, n), 2)
    targets = _each_layer(asked, "target", shape, 1)
    layers = tuple(
        _Layer(i, GivenRows(
            keys[i], queries[i], None if values is None else values[i], causal=causal, mask=masks[i], window=window,
            softcap=softcap, drop=dropped, target=targets[i],
            scaling=1 / math.sqrt(keys.shape[-1]) if scaling is None else scaling))
        for i in range(len(keys))
    )  # fmt: skip
    return Heads(layers, tuple(tokens), _notes(dropped, target, values is not None), reference or n, threshold)


def heads_of_trace(
    trace: Trace, *, drop: Sequence[int] | None = None, target: Any = "strongest", layers: Sequence[int] | None = None,
    values: bool = False, threshold: float = 1.0,
) -> Heads:  # fmt: skip
    """Return the heads of a trace; settings as in `measure_attention`, `values`: take the heads' own."""
    n = len(trace.tokens)
    chosen = range(len(trace.layers)) if layers is None else layers
    for layer in chosen:
        if not is_whole(layer, 0) or layer >= len(trace.layers):
            raise InputError(f"`layers` must lie in [0, {len(trace.layers)}), the layers of the model; got {layer!r}.")
    causal = any(layer.seen is not None for layer in trace.layers)
    dropped = ((0,) if causal else ()) if drop is None else tuple(drop)
    asked = _next_token(trace.tokens, n, n, causal) if _is(target, "next") else target
    taken = tuple(
        _Layer(one.layer, GivenRows(
            one.keys, one.queries, one.values if values else None, mask=one.seen, softcap=one.softcap, drop=dropped,
            target=asked, scaling=one.scaling))
        for one in (trace.layers[layer] for layer in chosen)
    )  # fmt: skip
    notes = (*trace.notes, *_notes(dropped, target, values))
    if any(trace.layers[layer].sinks is not None for layer in chosen):
        notes = (*notes, "heads have a sink logit of their own: shares are of the mass that keys get")
    return Heads(taken, trace.tokens, notes, trace.context or n, threshold)


def _rows_of(one: _Layer, threshold: float) -> list[Row]:
    """Return the row of each head of a layer."""
    given = one.rows
    kept = np.setdiff1d(np.arange(given.keys.shape[-2]), list(given.drop))
    shapes = [key_geometry(keys[kept]) for keys in given.keys]
    lengths = np.linalg.norm(given.queries.astype(np.float64), axis=-1).mean(axis=-1)
    found = given.ratios()
    ratio, capacity = found.ratio(), found.capacity(threshold)
    rms, heaviest = found.rms()
    asked = np.sum(found.asked, axis=-1)
    past = np.sum(ratio > threshold, axis=-1) / np.maximum(asked, 1)
    sink = quantile(np.where(found.asked, given.share_of(0), np.nan), 0.5)
    grouped = given.queries.shape[0] // given.keys.shape[0]
    rows: list[Row] = []
    for head in range(len(given.queries)):
        shape = shapes[head // grouped]
        rows.append(
            {"layer": one.layer, "head": head, "key_head": head // grouped, "n_keys": len(kept),
             "asked": int(asked[head]), "ratio": finite(quantile(ratio[head], 0.5)),
             "ratio_p90": finite(quantile(ratio[head], 0.9)), "ratio_rms": finite(rms[head]),
             "heaviest": finite(heaviest[head]), "past_capacity": float(past[head]),
             "capacity": finite(quantile(capacity[head], 0.5)), "capacity_p10": finite(quantile(capacity[head], 0.1)),
             "capacity_p90": finite(quantile(capacity[head], 0.9)), "sink_mass": finite(sink[head]),
             "beta": given.scaling * float(lengths[head]) * shape.norm_mean, "key_length": shape.norm_mean,
             "effective_dimension": shape.effective_dimension, "mean_share": shape.shared_mean_share,
             "duplicates": shape.duplicates}
        )  # fmt: skip
    return rows


def head_words(row: Mapping[str, Any]) -> str:
    """Return the sentences on a head, out of its row of the table."""
    if not row["asked"]:
        return f"Layer {row['layer']}, head {row['head']}: no query has a target and sees other keys."
    rms = (
        f"rms {_words(row['ratio_rms'])}"
        if row["heaviest"] < 0.5
        else f"rms {_words(row['ratio_rms'])}, which speaks of one query ({row['heaviest']:.0%} of the mean square)"
    )
    return (
        f"Layer {row['layer']}, head {row['head']} (key store {row['key_head']}): {row['asked']} queries on "
        f"{row['n_keys']} keys.\n"
        f"Ratio among all keys that a query sees: median query {_words(row['ratio'])}, 90 % below "
        f"{_words(row['ratio_p90'])}; {rms}.\n"
        f"Capacity: {_words(row['capacity'])} keys for the median query (10 % of queries below "
        f"{_words(row['capacity_p10'])}, 10 % above {_words(row['capacity_p90'])}); {row['past_capacity']:.0%} of "
        f"queries see more keys than that.\n"
        f"Key 0 takes {row['sink_mass']:.0%} of the median query's weight. Keys overlap like random ones of width "
        f"{_words(row['effective_dimension'])}; a direction that all share has {row['mean_share'] or 0:.0%} of their "
        f"squared length, which softmax does not feel."
    )


def _words(value: float | None) -> str:
    """Return a number in three digits or more, an infinite one (None) in words."""
    if value is None:
        return "any number of"
    return f"{value:,.0f}" if value >= 100 else f"{value:#.3g}"


def _notes(dropped: Sequence[int], target: Any, values: bool) -> tuple[str, ...]:
    asks = {"strongest": "its strongest key", "own": "the key at its own position", "next": "the next token's key"}
    named = asks[target] if isinstance(target, str) and target in asks else "the key that was named for it"
    gone = f"left out: key {', '.join(map(str, dropped))}" if dropped else "no key is left out"
    return (
        f"a query asks for {named}; {gone}",
        "interference of the values given" if values else "interference over random values of one length",
    )


def _next_token(tokens: Sequence[str], m: int, n: int, causal: bool) -> FloatArray:
    """Return for each query the key of the token that comes next, or where it last stood before; -1 for none."""
    if not tokens or m != n:
        raise InputError("`target` 'next' needs the tokens, one for every query and key.")
    if not causal:
        return np.where(np.arange(n) < n - 1, np.arange(n) + 1, -1)
    last: dict[str, int] = {}
    found = np.full(n, -1)
    for place in range(n - 1):
        last[tokens[place]] = place
        found[place] = last.get(tokens[place + 1], -1)
    return found


def _layered(x: Any, name: str) -> FloatArray:
    """Return an array as (layers, heads, n, d)."""
    rows = np.asarray(to_numpy(x) if hasattr(x, "__dlpack__") else x)
    if rows.ndim not in (2, 3, 4):
        raise InputError(
            f"`{name}` must have the axes (n, d), (heads, n, d) or (layers, heads, n, d); got {rows.shape}."
        )
    return rows.reshape((1,) * (4 - rows.ndim) + rows.shape)


def _each_layer(x: Any, name: str, shape: tuple[int, ...], axes: int) -> list[Any]:
    """Return what belongs to each layer of an array with or without axes for layers and heads; words are for all."""
    if x is None or isinstance(x, str):
        return [x] * shape[0]
    rows = np.asarray(to_numpy(x) if hasattr(x, "__dlpack__") else x)
    if rows.ndim == axes:
        return [rows] * shape[0]
    try:
        return list(np.broadcast_to(rows, shape))
    except ValueError:
        raise InputError(f"`{name}` must have the shape {shape[-axes:]} or {shape}; got {rows.shape}.") from None


def _is(target: Any, word: str) -> bool:
    return isinstance(target, str) and target == word
