"""Every chart of the project, defined once: results in, Vega-Lite specification (or Vega-Altair chart) out.

A result names its chart in ``header["view"]``, a dict with the key "kind" ("curves", "panels", "bars",
"glyphs", "capacities" or "landscape") and that kind's own settings; where it names none, the rows say it
(`report.views`). Charts read the result's rows and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from assocmem.contract.errors import UnknownNameError
from assocmem.report.canvas import PALETTE, WIDTH, Canvas, Mode, Row, Spec, parameters
from assocmem.report.curves import curves, panels
from assocmem.report.export import write_picture
from assocmem.report.views import view_of

if TYPE_CHECKING:
    from altair.typing import ChartType

    from assocmem.contract.results import Results

__all__ = ["chart", "specification", "write_picture"]

TARGET_COLOUR = "#D55E00"
MEMORY_COLOUR = "#0072B2"
AXIS_STYLE = {
    "gridColor": "#ececec", "domainColor": "#999", "tickColor": "#999", "titleFontWeight": "normal",
    "labelSeparation": 8,
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
    config = {**drawn.get("config", {}), "axis": AXIS_STYLE}
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
    for panel in view.get("order") or list(dict.fromkeys(str(r["panel"]) for r in rows)):
        mine = [r for r in rows if r["panel"] == panel]
        ratio = next((r.get("ratio") for r in mine if r.get("ratio") is not None), None)
        title = panel if ratio is None else f"{panel}, ratio {ratio:.3g}: recall {'fails' if ratio > 1 else 'works'}"
        heading = {"text": title, "fontSize": 12, "anchor": "start"}
        panels.append(_bar_panel(mine, canvas, {}, width=290, height=110, title=heading))
    return {"concat": panels, "columns": int(view.get("columns", 2))}


def _bar_panel(rows: Sequence[Row], canvas: Canvas, view: Mapping[str, Any], **look: Any) -> Spec:
    """Return bars and, as a layer of its own so that it never vanishes, a mark of fixed width for the target."""
    import altair as alt

    words, live = view.get("x_title"), canvas.mode == "live"
    axis = {"axis": None} if words is None else {"axis": alt.Axis(grid=False, tickCount=6)}
    x = alt.X("index:Q", title=words, scale=alt.Scale(nice=False, zero=False), **axis)
    limits = alt.Scale(domain=[view.get("y_from", -1), alt.ExprRef("top") if live else 1.05], clamp=True)
    y = alt.Y("weight:Q", title=view.get("y_title"), scale=limits, axis=alt.Axis(tickCount=5))
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
    """Draw capacity a store: measured with interval, exact, and as printed in the article, on one log axis."""
    import altair as alt

    order = [str(r["label"]) for r in rows]
    y = alt.Y("label:N", sort=order, title=None)
    x_scale = alt.Scale(type="log")
    title = view.get("x_title", "capacity: memories at which interference equals signal")
    kinds = (("article", "printed in the article"), ("theory", "exact theory"), ("value", "measured, 95 % interval"))
    data = [
        {"label": r["label"], "capacity": r[field], "what": name}
        for field, name in kinds
        for r in rows
        if r.get(field) is not None
    ]
    names = [name for _, name in kinds]
    points = (
        canvas.layer("capacities", data)
        .mark_point(size=110, strokeWidth=1.6)
        .encode(
            x=alt.X("capacity:Q", scale=x_scale, title=title),
            y=y,
            color=alt.Color(
                "what:N",
                scale=alt.Scale(domain=names, range=["#E69F00", "#000000", "#0072B2"]),
                legend=alt.Legend(title=None),
            ),
            shape=alt.Shape(
                "what:N",
                scale=alt.Scale(domain=names, range=["diamond", "cross", "circle"]),
                legend=alt.Legend(title=None),
            ),
            tooltip=[alt.Tooltip("label:N"), alt.Tooltip("what:N"), alt.Tooltip("capacity:Q", format=",.1f")],
        )
    )
    spans = [dict(r) for r in rows if r.get("low") is not None and r.get("high") is not None]
    span = (
        canvas.layer("spans", spans)
        .mark_rule(color="#0072B2", strokeWidth=2)
        .encode(x=alt.X("low:Q", scale=x_scale, title=title), x2=alt.X2("high:Q"), y=y)
    )
    return {"layer": [canvas.written(x) for x in (span, points)], "width": WIDTH, "height": 26 * len(order)}


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
}
