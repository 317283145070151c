"""Every chart of the project, defined once: results in, Vega-Lite specification (or Vega-Altair chart) out.

A result names its chart in ``header["view"]``, a dict with the key "kind" ("curves", "panels", "bars",
"glyphs", "capacities", "landscape" or "tokens") and that kind's own settings; where it names none, the rows say it
(`report.views`). Charts read the result's rows and nothing else.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from assocmem.contract.errors import UnknownNameError
from assocmem.contract.numbers import number
from assocmem.report.axes import limits, tick_axis, ticks
from assocmem.report.canvas import PALETTE, WIDTH, Canvas, Mode, Row, Spec, parameters
from assocmem.report.curves import LEGEND, curves, panels
from assocmem.report.export import write_picture
from assocmem.report.frames import frames
from assocmem.report.tokens import tokens
from assocmem.report.views import view_of

if TYPE_CHECKING:
    from altair.typing import ChartType

    from assocmem.contract.results import Results

__all__ = ["chart", "specification", "write_picture"]

TARGET_COLOUR = "#C2410C"
MEMORY_COLOUR = "#64748B"
ROUNDING = 1e-9
"""What is smaller than this against a signal is rounding."""
INK, SOFT, LINE = "#1C2024", "#586069", "#E3E0D8"
"""Of the page's light scheme (`page/static/style.css`), as are the fonts."""
SANS = 'system-ui, "Segoe UI", Roboto, "Helvetica Neue", "DejaVu Sans", sans-serif'
STYLE: Spec = {
    "font": SANS,
    "view": {"stroke": LINE},
    "axis": {"labelColor": SOFT, "titleColor": SOFT, "gridColor": LINE, "domainColor": SOFT, "tickColor": LINE,
             "labelFontSize": 12, "titleFontSize": 13, "titleFontWeight": "normal", "labelSeparation": 8},
    "legend": {"labelColor": INK, "labelFontSize": 12, "titleColor": SOFT, "titleFontSize": 12,
               "titleFontWeight": "normal"},
    "header": {"labelColor": INK, "labelFontSize": 12, "titleColor": SOFT, "titleFontWeight": "normal"},
    "title": {"color": INK, "fontSize": 14, "fontWeight": 600, "anchor": "start"},
}  # fmt: skip


def chart(results: Results, *, mode: Mode = "report", quantity: str | None = None, **settings: Any) -> ChartType:
    """Return the Altair chart of a result, validated; see `specification`."""
    import altair as alt

    drawn: ChartType = alt.Chart.from_dict(specification(results, mode=mode, quantity=quantity, **settings))
    return drawn


def specification(results: Results, *, mode: Mode = "report", quantity: str | None = None, **settings: Any) -> Spec:
    """Return the chart of a result as a Vega-Lite specification, a JSON-ready dict that holds its own rows.

    Altair writes the single layers. They are put together, and their rows added, as plain dicts: Altair would copy
    everything that passes through it many times. Nothing is validated here; the tests validate every chart.

    Parameters
    ----------
    results : Results
        Its header's view names the kind of chart, or it follows from the rows (`report.views`).
    mode : {"report", "paper", "live"}
        See `Mode`.
    quantity : str, optional
        Of the rows that are drawn, where there are several.
    settings
        Of the chart, in place of those of the view; and title, width, height.

    Raises
    ------
    UnknownNameError
        For a kind of chart that this version cannot draw.
    InputError
        Where no row can be drawn.
    """
    from altair import SCHEMA_URL
    from altair.utils.schemapi import debug_mode

    view, rows = dict(results.header.get("view") or {}), list[Row](results.rows)
    if quantity is not None or "kind" not in view:
        rows, view = view_of(results, quantity, settings.get("x"))
    view |= settings
    kind = view.get("kind")
    if kind not in _KINDS:
        known = ", ".join(_KINDS)
        raise UnknownNameError(f"the result {results.name!r} asks for the chart {kind!r}; known are {known}.")
    canvas = Canvas(mode)
    with debug_mode(False):
        drawn = _KINDS[kind](rows, view, canvas)
    drawn |= {name: view[name] for name in ("title", "width") if name in view}
    own = drawn.get("config", {})
    config = {**STYLE, **{name: {**STYLE.get(name, {}), **words} for name, words in own.items()}}
    return {"$schema": SCHEMA_URL, **drawn, "config": config, "datasets": canvas.datasets}


def bars(rows: Sequence[Row], view: Mapping[str, Any], canvas: Canvas) -> Spec:
    """Draw one bar a memory: its weight in one recall divided by the target's, the target in orange.

    Rows hold panel, index, end, weight and target (bool). Settings: order (panels), columns; of a live chart
    x_title (without one there is no x axis), y_title, y_from (where the y axis begins). A live chart has one panel and
    the datasets bars (all but the target) and target; its parameters are `top`, where the y axis ends,
    and the colours `memory` and `target`.
    """
    if canvas.mode == "live":
        panel = _bar_panel(rows, canvas, view, width="container", height=240)
        return panel | {"params": parameters(top=1.05, memory=MEMORY_COLOUR, target=TARGET_COLOUR)}
    panels = []
    low = min((r["weight"] for r in rows), default=0.0)
    ground = {"y_from": math.floor(2 * max(low, -1.0)) / 2}  # one axis for all, no deeper than the lowest bar
    for panel in view.get("order") or list(dict.fromkeys(str(r["panel"]) for r in rows)):
        mine = [r for r in rows if r["panel"] == panel]
        ratio = next((r.get("ratio") for r in mine if r.get("ratio") is not None), None)
        heading: dict[str, Any] = {"text": panel, "fontSize": 13, "anchor": "start", "subtitleColor": SOFT}
        if ratio is not None:
            shown = 0 if ratio < ROUNDING else ratio
            heading["subtitle"] = f"ratio {shown:.3g}: recall {'fails' if ratio > 1 else 'works'}"
        panels.append(_bar_panel(mine, canvas, ground, width=330, height=110, title=heading))
    return {"concat": panels, "columns": int(view.get("columns", 2))}


def _bar_panel(rows: Sequence[Row], canvas: Canvas, view: Mapping[str, Any], **look: Any) -> Spec:
    """Return bars and, as a layer of its own so that it never vanishes, a mark of fixed width for the target."""
    import altair as alt

    words, live, low = view.get("x_title"), canvas.mode == "live", view.get("y_from", -1)
    axis = {"axis": None} if words is None else {"axis": alt.Axis(grid=False, tickCount=6)}
    x = alt.X("index:Q", title=words, scale=alt.Scale(nice=False, zero=False), **axis)
    ticked: dict[str, Any] = {"tickCount": 5} if live else {"values": [t for t in (-1, -0.5, 0, 0.5, 1) if t >= low]}
    height = alt.Scale(domain=[low, alt.ExprRef("top") if live else 1.05], clamp=True)
    y = alt.Y("weight:Q", title=view.get("y_title"), scale=height, axis=alt.Axis(**ticked))
    tooltip = [alt.Tooltip("index:Q", title="memory"), alt.Tooltip("weight:Q", format=".4f")]
    shown = [{name: r.get(name) for name in ("index", "end", "weight", "target")} for r in rows]
    others = canvas.layer("bars", [r for r in shown if not r["target"]])
    target = canvas.layer("target", [r for r in shown if r["target"]])
    ground = alt.Y2Datum(0)
    memory, own = (alt.ExprRef("memory"), alt.ExprRef("target")) if live else (MEMORY_COLOUR, TARGET_COLOUR)
    layers = (
        others.mark_bar(color=memory).encode(x=x, x2=alt.X2("end:Q"), y=y, y2=ground, tooltip=tooltip),
        target.mark_bar(color=own).encode(x=x, x2=alt.X2("end:Q"), y=y, y2=ground, tooltip=tooltip),
        target.mark_rule(color=own, strokeWidth=4).encode(x=x, y=y, y2=ground, tooltip=tooltip),
    )
    return {"layer": [canvas.written(layer) for layer in layers], **look}


def glyphs(rows: Sequence[Row], view: Mapping[str, Any], canvas: Canvas) -> Spec:
    """Draw recalled pictures in a grid: one line a store, one column a number of memories.

    Rows hold store label, n_memories, column, row, ink (0 = paper, 1 = ink, clipped to [0, 1]).
    """
    import altair as alt

    labels = view.get("order") or list(dict.fromkeys(str(r["label"]) for r in rows))
    counts = list(dict.fromkeys(r["n_memories"] for r in rows))
    inked = [r for r in rows if r["ink"] > 0.02]  # fainter ink is not seen on white
    shown = [{name: r[name] for name in ("label", "n_memories", "row", "column", "ink")} for r in inked]
    across, down = (sorted({r[name] for r in rows}) for name in ("column", "row"))
    squares = (
        canvas.layer("ink", shown)
        .mark_rect(stroke=None)
        .encode(
            x=alt.X("column:O", axis=None, scale=alt.Scale(domain=across, paddingInner=0, paddingOuter=0)),
            y=alt.Y("row:O", axis=None, scale=alt.Scale(domain=down, paddingInner=0, paddingOuter=0)),
            color=alt.Color(
                "ink:Q", scale=alt.Scale(domain=[0, 1], range=["#ffffff", "#111111"], clamp=True), legend=None
            ),
            column=alt.Column("n_memories:O", sort=counts, title=view.get("column_title", "memories stored")),
            row=alt.Row("label:N", sort=labels, title=None, header=alt.Header(labelAngle=0, labelAlign="left")),
        )
    )
    look = {"view": {"stroke": "#ddd"}, "facet": {"spacing": 6}}
    return {**canvas.written(squares), "width": 80, "height": 80, "config": look}


def capacities(rows: Sequence[Row], view: Mapping[str, Any], canvas: Canvas) -> Spec:
    """Draw capacity a store: measured with interval, exact, and as printed in the article, on one log axis.

    The measured number stands beside its markers (the exact one where none is measured); where the capacity was not
    reached, how far it was looked for.
    """
    import altair as alt

    rows = [
        {**r, "theory": None, "approximate": r.get("theory")} if r.get("theory_exact") is False else r for r in rows
    ]
    order = [str(r["label"]) for r in rows]
    y = alt.Y("label:N", sort=order, title=None, axis=alt.Axis(labelLimit=LEGEND))
    data = [
        {"label": r["label"], "capacity": r[field], "what": what.name}
        for field, what in CAPACITY_MARKS.items()
        for r in rows
        if r.get(field) is not None
    ]
    spans = [dict(r) for r in rows if r.get("low") is not None and r.get("high") is not None]
    numbers = [one for r in rows if (one := _number_beside(r)) is not None]
    ends = [
        *(d["capacity"] for d in data),
        *(n["at"] for n in numbers),
        *(r[e] for r in spans for e in ("low", "high")),
    ]
    ends = [end for end in ends if end > 0]
    domain = limits(ends, True, after=0.17) if ends else (1.0, 10.0)
    scale = alt.Scale(type="log", domain=list(domain), nice=False)
    title = view.get("x_title", "capacity: memories at which interference equals signal")
    axis = tick_axis(ticks(*domain))
    there = [what for what in CAPACITY_MARKS.values() if any(d["what"] == what.name for d in data)]

    def by_kind(channel: Any, values: Sequence[Any], **more: Any) -> Any:
        return channel("what:N", scale=alt.Scale(domain=[what.name for what in there], range=values), **more)

    legend = {"legend": alt.Legend(title=None, labelLimit=LEGEND)}
    points = (
        canvas.layer("capacities", data)
        .mark_point(size=210, strokeWidth=1.8, fillOpacity=0)
        .encode(
            x=alt.X("capacity:Q", scale=scale, title=title, **axis),
            y=y,
            color=by_kind(alt.Color, [what.colour for what in there], **legend),
            shape=by_kind(alt.Shape, [what.shape for what in there], **legend),
            tooltip=[alt.Tooltip("label:N"), alt.Tooltip("what:N"), alt.Tooltip("capacity:Q", format=",.1f")],
        )
    )
    span = (
        canvas.layer("spans", spans)
        .mark_rule(color=MEMORY_COLOUR, strokeWidth=2)
        .encode(x=alt.X("low:Q", scale=scale, title=title, **axis), x2=alt.X2("high:Q"), y=y)
    )
    words = (
        canvas.layer("numbers", numbers)
        .mark_text(align="left", dx=13, fontSize=12, color=INK)
        .encode(x=alt.X("at:Q", scale=scale, title=title, **axis), y=y, text=alt.Text("text:N"))
    )
    layers = [layer for layer, mine in ((span, spans), (points, data), (words, numbers)) if mine]
    return {"layer": [canvas.written(x) for x in layers], "width": WIDTH, "height": 28 * len(order)}


@dataclass(frozen=True)
class _Mark:
    """How one kind of capacity is drawn; each can be seen where all three coincide."""

    name: str
    colour: str
    shape: str


CAPACITY_MARKS = {
    "article": _Mark("printed in the article", "#E69F00", "diamond"),
    "theory": _Mark("exact theory", "#1C2024", "M0,-1.1L0,1.1"),
    "approximate": _Mark("theory, approximate", "#1C2024", "M0,-1.1L0,-.3M0,.3L0,1.1"),
    "value": _Mark("measured, 95 % interval", MEMORY_COLOUR, "M.55,0A.55,.55,0,1,1,-.55,0A.55,.55,0,1,1,.55,0Z"),
}


def _number_beside(row: Row) -> dict[str, Any] | None:
    """Return the number that stands beside a store's markers, and where: right of all of them."""
    marks = [row[field] for field in CAPACITY_MARKS if row.get(field) is not None]
    known = row.get("value") if row.get("value") is not None else row.get("theory")
    if known is not None:
        return {"label": row["label"], "at": max([*marks, row.get("high") or 0]), "text": number(known)}
    if row.get("largest_m") is None:
        return None
    return {"label": row["label"], "at": row["largest_m"], "text": f"over {row['largest_m']:,.0f}"}


def landscape(rows: Sequence[Row], view: Mapping[str, Any], canvas: Canvas) -> Spec:
    """Draw an energy over a plane, with stored points and the paths of recalls on it.

    Rows hold what ("energy", "stored" or "path"), x, y; energy of the plane's points, which are a grid; label and step
    of paths. Settings: spacing, of the grid; order (labels of paths).
    """
    import altair as alt

    half = float(view["spacing"]) / 2
    plane = [{"x": r["x"] - half, "x2": r["x"] + half, "y": r["y"] - half, "y2": r["y"] + half, "energy": r["energy"]}
             for r in rows if r["what"] == "energy"]  # fmt: skip
    x, y = (alt.Scale(domain=[min(r[a] for r in plane), max(r[f"{a}2"] for r in plane)], nice=False) for a in "xy")
    across, up = alt.X("x:Q", title=None, scale=x), alt.Y("y:Q", title=None, scale=y)
    shade = alt.Color("energy:Q", scale=alt.Scale(scheme="blues", reverse=True), legend=alt.Legend(title="energy"))
    ground = canvas.layer("plane", plane).mark_rect(strokeWidth=0)
    paths = [{name: r[name] for name in ("label", "step", "x", "y")} for r in rows if r["what"] == "path"]
    line = canvas.layer("paths", paths).mark_line(point=True, strokeWidth=2)
    own = alt.Scale(domain=list(view["order"]), range=list(PALETTE[1 : 1 + len(view["order"])]))
    tint = alt.Color("label:N", scale=own, legend=alt.Legend(title=None))
    points = [{"x": r["x"], "y": r["y"]} for r in rows if r["what"] == "stored"]
    stored = canvas.layer("stored", points).mark_point(shape="diamond", size=120, filled=True, color="black")
    layers = [
        canvas.written(ground.encode(x=across, x2=alt.X2("x2:Q"), y=up, y2=alt.Y2("y2:Q"), color=shade)),
        canvas.written(stored.encode(x=across, y=up)),
        canvas.written(line.encode(x=across, y=up, color=tint, order=alt.Order("step:Q"))),
    ]
    return {"layer": layers, "width": 480, "height": 480, "resolve": {"scale": {"color": "independent"}}}


_KINDS: dict[str, Callable[[Sequence[Row], Mapping[str, Any], Canvas], Spec]] = {
    "curves": curves,
    "panels": panels,
    "bars": bars,
    "glyphs": glyphs,
    "capacities": capacities,
    "landscape": landscape,
    "tokens": tokens,
    "frames": frames,
}
