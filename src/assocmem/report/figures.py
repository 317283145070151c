"""Every chart of the project, defined once: results in, Vega-Altair chart out.

A result names its chart in ``header["view"]``, a dict with the key "kind" ("curves", "bars", "glyphs" or
"capacities") and that kind's own settings. Charts read the result's rows and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from assocmem.core.errors import InputError, UnknownNameError

if TYPE_CHECKING:
    import altair as alt

    from assocmem.core.results import Results

# Okabe and Ito's palette, readable with every common colour-vision deficiency; yellow is left out.
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#7F7F7F", "#882255", "#44AA99")
TARGET_COLOUR = "#D55E00"
MEMORY_COLOUR = "#0072B2"
WIDTH, HEIGHT = 620, 380

Row = Mapping[str, Any]


def chart(results: Results, *, interactive: bool = True) -> Any:
    """Return the Altair chart of a result.

    Parameters: `results`, whose header names a view; `interactive`, False for paper formats (no selections).
    Raises UnknownNameError for a view this version cannot draw.
    """
    view = results.header.get("view") or {}
    kind = view.get("kind")
    if kind not in _KINDS:
        raise UnknownNameError(
            f"the result {results.name!r} asks for the chart {kind!r}; known are {', '.join(_KINDS)}."
        )
    drawn = _KINDS[kind](list(results.rows), view, interactive)
    return drawn.configure_axis(gridColor="#ececec", domainColor="#999", tickColor="#999", titleFontWeight="normal")


def _series_scale(rows: Sequence[Row], order: Sequence[str] | None) -> alt.Scale:
    import altair as alt

    labels = list(order) if order else list(dict.fromkeys(str(r["label"]) for r in rows))
    colours = [PALETTE[i % len(PALETTE)] for i in range(len(labels))]
    return alt.Scale(domain=labels, range=colours)


def _positive(rows: Sequence[Row], field: str, log: bool) -> list[dict[str, Any]]:
    """Return the rows whose `field` can be drawn: present, and above zero on a logarithmic axis."""
    return [dict(r) for r in rows if r.get(field) is not None and (not log or r[field] > 0)]


def curves(rows: Sequence[Row], view: Mapping[str, Any], interactive: bool = True) -> Any:
    """Draw measured points with intervals, theory as lines, the article's own points, and a dashed line.

    Settings: x (column), x_title, y_title, x_log, y_log, rule (a number or None), rule_text, order (labels),
    y_domain.
    """
    import altair as alt

    x, log_x, log_y = view["x"], bool(view.get("x_log", True)), bool(view.get("y_log", True))
    check_one_definition(rows)
    colour = alt.Color(
        "label:N", scale=_series_scale(rows, view.get("order")), legend=alt.Legend(title=None, symbolType="circle")
    )
    x_axis = alt.X(
        f"{x}:Q", title=view.get("x_title", x), scale=alt.Scale(type="log" if log_x else "linear", nice=False)
    )
    domain: dict[str, Any] = {"domain": list(view["y_domain"]), "clamp": True} if view.get("y_domain") else {}
    y_scale = alt.Scale(type="log" if log_y else "linear", **domain)
    y_title = view.get("y_title", "interference / signal")
    pick = alt.selection_point(fields=["label"], bind="legend", name="pick")
    shown = alt.condition(pick, alt.value(1.0), alt.value(0.08)) if interactive else alt.value(1.0)

    layers: list[Any] = []
    theory = _positive(rows, "theory", log_y)
    if theory:
        seen = {(r["label"], r[x]): {"label": r["label"], x: r[x], "theory": r["theory"]} for r in theory}
        layers.append(
            alt.Chart(alt.InlineData(values=list(seen.values())))
            .mark_line(strokeWidth=1.8)
            .encode(x=x_axis, y=alt.Y("theory:Q", title=y_title, scale=y_scale), color=colour, opacity=shown)
        )
    measured = _positive(rows, "value", log_y)
    if measured:
        layers += _measured_layers(measured, x, x_axis, y_scale, y_title, colour, shown, log_y)
    printed = _positive(rows, "article", log_y)
    if printed:
        layers.append(
            alt.Chart(alt.InlineData(values=printed))
            .mark_point(shape="diamond", size=70, strokeWidth=1.2, filled=False)
            .encode(
                x=x_axis,
                y=alt.Y("article:Q", title=y_title, scale=y_scale),
                color=colour,
                opacity=shown,
                tooltip=[alt.Tooltip("label:N"), alt.Tooltip(f"{x}:Q"), alt.Tooltip("article:Q", title="article")],
            )
        )
    if view.get("rule") is not None:
        layers += _rule(float(view["rule"]), str(view.get("rule_text", "")), y_scale, y_title)
    layered = alt.layer(*layers).properties(width=WIDTH, height=HEIGHT)
    return layered.add_params(pick) if interactive else layered


def _measured_layers(
    rows: list[dict[str, Any]],
    x: str,
    x_axis: Any,
    y_scale: Any,
    y_title: str,
    colour: Any,
    shown: Any,
    log_y: bool,
) -> list[Any]:
    import altair as alt

    shape = alt.Shape(
        "sampler:N",
        scale=alt.Scale(
            domain=["similarities", "similarities, tilted", "keys"], range=["circle", "triangle-up", "cross"]
        ),
        legend=alt.Legend(title="measured from") if any(r.get("sampler") for r in rows) else None,
    )
    tooltip = [
        alt.Tooltip("label:N", title="series"),
        alt.Tooltip(f"{x}:Q"),
        alt.Tooltip("value:Q", format=".4g", title="measured"),
        alt.Tooltip("low:Q", format=".4g", title="95 % from"),
        alt.Tooltip("high:Q", format=".4g", title="to"),
        alt.Tooltip("n_trials:Q", title="trials"),
        alt.Tooltip("theory:Q", format=".4g", title="theory"),
        alt.Tooltip("sampler:N", title="sampler"),
    ]
    points = (
        alt.Chart(alt.InlineData(values=rows))
        .mark_point(size=38, filled=True)
        .encode(
            x=x_axis,
            y=alt.Y("value:Q", title=y_title, scale=y_scale),
            color=colour,
            shape=shape,
            opacity=shown,
            tooltip=tooltip,
        )
    )
    spans = [r for r in rows if r.get("low") is not None and r.get("high") is not None and (not log_y or r["low"] > 0)]
    if not spans:
        return [points]
    bars = (
        alt.Chart(alt.InlineData(values=spans))
        .mark_rule(strokeWidth=1.4)
        .encode(x=x_axis, y=alt.Y("low:Q", title=y_title, scale=y_scale), y2="high:Q", color=colour, opacity=shown)
    )
    return [bars, points]


def _rule(level: float, text: str, y_scale: Any, y_title: str) -> list[Any]:
    import altair as alt

    data = alt.InlineData(values=[{"level": level, "text": text}])
    y = alt.Y("level:Q", title=y_title, scale=y_scale)
    line = alt.Chart(data).mark_rule(strokeDash=[5, 4], color="#888").encode(y=y)
    if not text:
        return [line]
    words = (
        alt.Chart(data)
        .mark_text(align="right", dx=-6, dy=9, color="#777", fontSize=11)
        .encode(y=y, x=alt.value(WIDTH), text="text:N")
    )
    return [line, words]


def check_one_definition(rows: Sequence[Row]) -> None:
    """Refuse to draw two definitions of one quantity on one axis (InputError naming both)."""
    found = sorted({str(r["definition"]) for r in rows if r.get("definition")})
    if len(found) > 1:
        raise InputError(f"one axis holds one quantity; these rows mix definitions: {'; '.join(found)}.")


def bars(rows: Sequence[Row], view: Mapping[str, Any], interactive: bool = True) -> Any:
    """Draw one bar a memory: its weight in one recall divided by the target's, the target in red.

    Rows hold panel, index, weight and target (bool). Settings: order (panels), columns.
    """
    import altair as alt

    panels = []
    for panel in view.get("order") or list(dict.fromkeys(str(r["panel"]) for r in rows)):
        mine = [dict(r) | {"end": r["index"] + 0.9} for r in rows if r["panel"] == panel]
        x = alt.X("index:Q", title=None, axis=None, scale=alt.Scale(domain=[0, len(mine)], nice=False))
        base = alt.Chart(alt.InlineData(values=mine))
        y = alt.Y("weight:Q", title=None, scale=alt.Scale(domain=[-1, 1.05], clamp=True))
        tooltip = [alt.Tooltip("index:Q", title="memory"), alt.Tooltip("weight:Q", format=".4f")]
        others = base.mark_bar(color=MEMORY_COLOUR).encode(x=x, x2="end:Q", y=y, y2=alt.datum(0), tooltip=tooltip)
        target = (
            base.transform_filter("datum.target")
            .mark_rule(color=TARGET_COLOUR, strokeWidth=3)
            .encode(x=x, y=y, y2=alt.datum(0), tooltip=tooltip)
        )
        ratio = next((r.get("ratio") for r in mine if r.get("ratio") is not None), None)
        title = panel if ratio is None else f"{panel}   ratio {ratio:.3g}: recall {'fails' if ratio > 1 else 'works'}"
        panels.append(
            alt.layer(others, target).properties(
                width=290, height=110, title=alt.TitleParams(title, fontSize=12, anchor="start")
            )
        )
    columns = int(view.get("columns", 2))
    lines = [alt.hconcat(*panels[i : i + columns]) for i in range(0, len(panels), columns)]
    return alt.vconcat(*lines)


def glyphs(rows: Sequence[Row], view: Mapping[str, Any], interactive: bool = True) -> Any:
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


def capacities(rows: Sequence[Row], view: Mapping[str, Any], interactive: bool = True) -> Any:
    """Draw capacity a store: measured with interval, exact, and as printed in the article, on one log axis."""
    import altair as alt

    order = [str(r["label"]) for r in rows]
    y = alt.Y("label:N", sort=order, title=None)
    x_scale = alt.Scale(type="log")
    title = view.get("x_title", "capacity: memories at which interference equals signal")
    marks = []
    for field, name, shape, colour in (
        ("article", "printed in the article", "diamond", "#E69F00"),
        ("theory", "exact theory", "stroke", "#000000"),
        ("value", "measured (95 % interval)", "circle", "#0072B2"),
    ):
        data = [
            {"label": r["label"], "capacity": r[field], "what": name, "low": r.get("low"), "high": r.get("high")}
            for r in rows
            if r.get(field) is not None
        ]
        marks.append((data, name, shape, colour))
    colour_scale = alt.Scale(domain=[m[1] for m in marks], range=[m[3] for m in marks])
    shape_scale = alt.Scale(domain=[m[1] for m in marks], range=[m[2] for m in marks])
    points = (
        alt.Chart(alt.InlineData(values=[row for m in marks for row in m[0]]))
        .mark_point(size=90, filled=True)
        .encode(
            x=alt.X("capacity:Q", scale=x_scale, title=title),
            y=y,
            color=alt.Color("what:N", scale=colour_scale, legend=alt.Legend(title=None)),
            shape=alt.Shape("what:N", scale=shape_scale, legend=alt.Legend(title=None)),
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


_KINDS: dict[str, Callable[[Sequence[Row], Mapping[str, Any], bool], Any]] = {
    "curves": curves,
    "bars": bars,
    "glyphs": glyphs,
    "capacities": capacities,
}
