"""Every chart of the project, defined once: results in, Vega-Altair chart out.

A result names its chart in ``header["view"]``, a dict with the key "kind" ("curves", "bars", "glyphs" or
"capacities") and that kind's own settings. Charts read the result's rows and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from assocmem.core.errors import InputError, UnknownNameError

if TYPE_CHECKING:
    import altair as alt

    from assocmem.core.results import Results

# Okabe and Ito's palette and three more, apart for common colour-vision deficiencies, seen on white and on black.
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#A6761D", "#8A8A8A", "#AA4499", "#44AA99")
TARGET_COLOUR = "#D55E00"
MEMORY_COLOUR = "#0072B2"
WIDTH, HEIGHT = 620, 380
SAMPLERS = {"similarities": "circle", "similarities, tilted": "triangle-up", "keys": "cross"}

Row = Mapping[str, Any]
Mode = Literal["report", "paper", "live"]
"""report: legend entries toggle their series. paper: no interaction. live: named datasets that a page swaps."""


def chart(results: Results, *, mode: Mode = "report") -> Any:
    """Return the Altair chart of a result.

    Parameters: `results`, whose header names a view; `mode`, see `Mode`.
    Raises UnknownNameError for a view this version cannot draw.
    """
    view = results.header.get("view") or {}
    kind = view.get("kind")
    if kind not in _KINDS:
        raise UnknownNameError(
            f"the result {results.name!r} asks for the chart {kind!r}; known are {', '.join(_KINDS)}."
        )
    drawn = _KINDS[kind](list(results.rows), view, mode)
    return drawn.configure_axis(gridColor="#ececec", domainColor="#999", tickColor="#999", titleFontWeight="normal")


def _series_scale(rows: Sequence[Row], order: Sequence[str] | None) -> alt.Scale:
    import altair as alt

    labels = list(order) if order else list(dict.fromkeys(str(r["label"]) for r in rows))
    colours = [PALETTE[i % len(PALETTE)] for i in range(len(labels))]
    return alt.Scale(domain=labels, range=colours)


def _data(name: str, rows: Sequence[Row], mode: Mode) -> Any:
    """Return a data source: the rows themselves, or in a live chart a name under which the page supplies rows."""
    import altair as alt

    return alt.NamedData(name) if mode == "live" else alt.InlineData(values=[dict(r) for r in rows])


def _positive(rows: Sequence[Row], field: str, log: bool) -> list[dict[str, Any]]:
    """Return the rows whose `field` can be drawn: present, and above zero on a logarithmic axis."""
    return [dict(r) for r in rows if r.get(field) is not None and (not log or r[field] > 0)]


@dataclass(frozen=True)
class _Axes:
    """The encodings that all layers of a chart of curves share."""

    x: str
    log_y: bool
    across: Any
    scale: Any
    title: str
    colour: Any
    shown: Any
    mode: Mode

    def up(self, field: str) -> Any:
        """Return the vertical channel of `field`."""
        import altair as alt

        return alt.Y(f"{field}:Q", title=self.title, scale=self.scale)

    def layer(self, name: str, rows: Sequence[Row]) -> Any:
        """Return a chart over rows (or, live, over the dataset called `name`)."""
        import altair as alt

        return alt.Chart(_data(name, rows, self.mode))


def curves(rows: Sequence[Row], view: Mapping[str, Any], mode: Mode = "report") -> Any:
    """Draw measured points with intervals, theory as lines, the article's own points, and a dashed line.

    Settings: x (column), x_title, y_title, x_log, y_log, rule (a number or None), rule_text, order (labels),
    x_domain, y_domain, legend (live charts have none unless asked). A live chart has the
    datasets theory, measured, spans and marker ({x column: M}).
    """
    axes = _axes(rows, view, mode)
    check_one_definition(rows)
    theory = curve_rows(rows, "theory", view)
    measured = curve_rows(rows, "value", view)
    printed = curve_rows(rows, "article", view)
    layers: list[Any] = []
    if theory or mode == "live":
        line = axes.layer("theory", theory).mark_line(strokeWidth=1.8)
        layers.append(line.encode(x=axes.across, y=axes.up("theory"), color=axes.colour, opacity=axes.shown))
    if measured or mode == "live":
        layers += _measured_layers(measured, axes)
    if printed:
        layers.append(_printed_layer(printed, axes))
    if view.get("rule") is not None:
        layers += _rule(float(view["rule"]), str(view.get("rule_text", "")), axes)
    if mode == "live":
        marker = axes.layer("marker", []).mark_rule(color=TARGET_COLOUR, strokeWidth=1.5, opacity=0.7)
        layers.append(marker.encode(x=axes.across))
    import altair as alt

    layered = alt.layer(*layers).properties(width=WIDTH, height=HEIGHT)
    return layered.add_params(_legend_pick()) if mode == "report" else layered


def curve_rows(rows: Sequence[Row], field: str, view: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the rows of a chart of curves that one of its datasets shows, without what its axis cannot show.

    field: "theory" (one row a series and x), "value" (measured), "low" (measured with interval) or "article".
    """
    log_y = bool(view.get("y_log", True))
    kept = _positive(rows, field, log_y)
    if log_y and view.get("y_domain"):
        kept = [r for r in kept if r[field] >= view["y_domain"][0]]
    if field == "theory":
        x = view["x"]
        return list({(r["label"], r[x]): {"label": r["label"], x: r[x], "theory": r["theory"]} for r in kept}.values())
    if field == "low":
        return [r for r in kept if r.get("high") is not None]
    return kept


def _legend_pick() -> Any:
    import altair as alt

    return alt.selection_point(fields=["label"], bind="legend", name="pick")


def _axes(rows: Sequence[Row], view: Mapping[str, Any], mode: Mode) -> _Axes:
    import altair as alt

    def scale(log: bool, domain: Any, **more: Any) -> Any:
        limits: dict[str, Any] = {"domain": list(domain), "clamp": True} if domain else {}
        return alt.Scale(type="log" if log else "linear", **limits, **more)

    x, log_y = view["x"], bool(view.get("y_log", True))
    across = scale(bool(view.get("x_log", True)), view.get("x_domain"), nice=False)
    legend = alt.Legend(title=None, symbolType="circle") if view.get("legend", mode != "live") else None
    return _Axes(
        x=x,
        log_y=log_y,
        across=alt.X(f"{x}:Q", title=view.get("x_title", x), scale=across),
        scale=scale(log_y, view.get("y_domain")),
        title=view.get("y_title", "interference / signal"),
        colour=alt.Color("label:N", scale=_series_scale(rows, view.get("order")), legend=legend),
        shown=alt.condition(_legend_pick(), alt.value(1.0), alt.value(0.08)) if mode == "report" else alt.value(1.0),
        mode=mode,
    )


def _measured_layers(rows: list[dict[str, Any]], axes: _Axes) -> list[Any]:
    import altair as alt

    samplers = [s for s in SAMPLERS if axes.mode == "live" or any(r.get("sampler") == s for r in rows)]
    shape = alt.Shape(
        "sampler:N",
        scale=alt.Scale(domain=samplers, range=[SAMPLERS[s] for s in samplers]),
        legend=alt.Legend(title="measured from") if len(samplers) > 1 and axes.mode != "live" else None,
    )
    tooltip = [
        alt.Tooltip("label:N", title="series"),
        alt.Tooltip(f"{axes.x}:Q"),
        alt.Tooltip("value:Q", format=".4g", title="measured"),
        alt.Tooltip("low:Q", format=".4g", title="95 % from"),
        alt.Tooltip("high:Q", format=".4g", title="to"),
        alt.Tooltip("n_trials:Q", title="trials"),
        alt.Tooltip("theory:Q", format=".4g", title="theory"),
        alt.Tooltip("sampler:N", title="sampler"),
    ]
    points = axes.layer("measured", rows).mark_point(size=38, filled=True)
    points = points.encode(
        x=axes.across, y=axes.up("value"), color=axes.colour, shape=shape, opacity=axes.shown, tooltip=tooltip
    )
    spans = [r for r in rows if r.get("low") is not None and r.get("high") is not None]
    spans = [r for r in spans if not axes.log_y or r["low"] > 0]
    if not spans and axes.mode != "live":
        return [points]
    bars = axes.layer("spans", spans).mark_rule(strokeWidth=1.4)
    bars = bars.encode(x=axes.across, y=axes.up("low"), y2="high:Q", color=axes.colour, opacity=axes.shown)
    return [bars, points]


def _printed_layer(rows: list[dict[str, Any]], axes: _Axes) -> Any:
    import altair as alt

    tooltip = [alt.Tooltip("label:N"), alt.Tooltip(f"{axes.x}:Q"), alt.Tooltip("article:Q", title="article")]
    points = axes.layer("article", rows).mark_point(shape="diamond", size=70, strokeWidth=1.2, filled=False)
    return points.encode(x=axes.across, y=axes.up("article"), color=axes.colour, opacity=axes.shown, tooltip=tooltip)


def _rule(level: float, text: str, axes: _Axes) -> list[Any]:
    import altair as alt

    data = alt.InlineData(values=[{"level": level, "text": text}])
    line = alt.Chart(data).mark_rule(strokeDash=[5, 4], color="#888").encode(y=axes.up("level"))
    if not text:
        return [line]
    words = alt.Chart(data).mark_text(align="right", dx=-6, dy=9, color="#777", fontSize=11)
    return [line, words.encode(y=axes.up("level"), x=alt.value("width"), text="text:N")]


def check_one_definition(rows: Sequence[Row]) -> None:
    """Refuse to draw two definitions of one quantity on one axis (InputError naming both)."""
    found = sorted({str(r["definition"]) for r in rows if r.get("definition")})
    if len(found) > 1:
        raise InputError(f"one axis holds one quantity; these rows mix definitions: {'; '.join(found)}.")


def bars(rows: Sequence[Row], view: Mapping[str, Any], mode: Mode = "report") -> Any:
    """Draw one bar a memory: its weight in one recall divided by the target's, the target in red.

    Rows hold panel, index, end, weight and target (bool). Settings: order (panels), columns. A live chart has one
    panel and the datasets bars (all but the target) and target.
    """
    import altair as alt

    if mode == "live":
        return _bar_panel(rows, mode).properties(width="container", height=240)
    panels = []
    for panel in view.get("order") or list(dict.fromkeys(str(r["panel"]) for r in rows)):
        mine = [r for r in rows if r["panel"] == panel]
        ratio = next((r.get("ratio") for r in mine if r.get("ratio") is not None), None)
        title = panel if ratio is None else f"{panel}   ratio {ratio:.3g}: recall {'fails' if ratio > 1 else 'works'}"
        heading = alt.TitleParams(title, fontSize=12, anchor="start")
        panels.append(_bar_panel(mine, mode).properties(width=290, height=110, title=heading))
    columns = int(view.get("columns", 2))
    lines = [alt.hconcat(*panels[i : i + columns]) for i in range(0, len(panels), columns)]
    return alt.vconcat(*lines)


def _bar_panel(rows: Sequence[Row], mode: Mode) -> Any:
    """Return bars and, as a layer of its own so that it never vanishes, a mark of fixed width for the target."""
    import altair as alt

    x = alt.X("index:Q", title=None, axis=None, scale=alt.Scale(nice=False, zero=False))
    y = alt.Y("weight:Q", title=None, scale=alt.Scale(domain=[-1, 1.05], clamp=True))
    tooltip = [alt.Tooltip("index:Q", title="memory"), alt.Tooltip("weight:Q", format=".4f")]
    others = alt.Chart(_data("bars", [r for r in rows if not r.get("target")], mode))
    target = alt.Chart(_data("target", [r for r in rows if r.get("target")], mode))
    return alt.layer(
        others.mark_bar(color=MEMORY_COLOUR).encode(x=x, x2="end:Q", y=y, y2=alt.datum(0), tooltip=tooltip),
        target.mark_bar(color=TARGET_COLOUR).encode(x=x, x2="end:Q", y=y, y2=alt.datum(0), tooltip=tooltip),
        target.mark_rule(color=TARGET_COLOUR, strokeWidth=4).encode(x=x, y=y, y2=alt.datum(0), tooltip=tooltip),
    )


def glyphs(rows: Sequence[Row], view: Mapping[str, Any], mode: Mode = "report") -> Any:
    """Draw recalled pictures in a grid: one line a store, one column a number of memories.

    Rows hold store label, n_memories, column, row, ink (0 = paper, 1 = ink, clipped to [0, 1]).
    """
    import altair as alt

    labels = view.get("order") or list(dict.fromkeys(str(r["label"]) for r in rows))
    counts = list(dict.fromkeys(r["n_memories"] for r in rows))
    return (
        alt.Chart(alt.InlineData(values=[dict(r) for r in rows]))
        .mark_rect(stroke=None)
        .encode(
            x=alt.X("column:O", axis=None, scale=alt.Scale(paddingInner=0, paddingOuter=0)),
            y=alt.Y("row:O", axis=None, scale=alt.Scale(paddingInner=0, paddingOuter=0)),
            color=alt.Color(
                "ink:Q", scale=alt.Scale(domain=[0, 1], range=["#ffffff", "#111111"], clamp=True), legend=None
            ),
            column=alt.Column("n_memories:O", sort=counts, title=view.get("column_title", "memories stored")),
            row=alt.Row("label:N", sort=labels, title=None, header=alt.Header(labelAngle=0, labelAlign="left")),
        )
        .properties(width=80, height=80)
        .configure_view(stroke="#ddd")
        .configure_facet(spacing=6)
    )


def capacities(rows: Sequence[Row], view: Mapping[str, Any], mode: Mode = "report") -> Any:
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
        alt.Chart(alt.InlineData(values=data))
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
            tooltip=["label:N", "what:N", alt.Tooltip("capacity:Q", format=",.1f")],
        )
    )
    spans = [dict(r) for r in rows if r.get("low") is not None and r.get("high") is not None]
    span = (
        alt.Chart(alt.InlineData(values=spans))
        .mark_rule(color="#0072B2", strokeWidth=2)
        .encode(x=alt.X("low:Q", scale=x_scale, title=title), x2="high:Q", y=y)
    )
    return alt.layer(span, points).properties(width=WIDTH, height=26 * len(order))


_KINDS: dict[str, Callable[[Sequence[Row], Mapping[str, Any], Mode], Any]] = {
    "curves": curves,
    "bars": bars,
    "glyphs": glyphs,
    "capacities": capacities,
}
