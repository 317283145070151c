"""Charts of curves: measured points with intervals, theory as lines, the article's own points; and panels of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle
from typing import TYPE_CHECKING, Any

from assocmem.contract.errors import InputError
from assocmem.report.axes import limits, tick_axis, ticks
from assocmem.report.canvas import PALETTE, WIDTH, Canvas, Row, Spec, parameters

if TYPE_CHECKING:
    import altair as alt

HEIGHT, PANEL_HEIGHT = 380, 260
LEGEND = 360
"""Width of a legend up to which its words stay whole."""
PICK, PICKED = "pick", "picked"
_CROSS = (  # its arms show beside a circle under it, and are no interval
    "M-0.92,-1.20L0.00,-0.28L0.92,-1.20L1.20,-0.92L0.28,0.00"
    "L1.20,0.92L0.92,1.20L0.00,0.28L-0.92,1.20L-1.20,0.92L-0.28,0.00L-1.20,-0.92Z"
)
SAMPLERS = {"similarities": "circle", "similarities, tilted": "triangle-up", "keys": _CROSS}
FEWEST = 3
"""Places from which on a series is drawn as a line: two points are no curve."""
BESIDE = 58
"""Width of the words beside a level, between the chart and its legend."""


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
    canvas: Canvas
    ticks: Mapping[str, Any]

    def up(self, field: str) -> Any:
        """Return the vertical channel of `field`."""
        import altair as alt

        return alt.Y(f"{field}:Q", title=self.title, scale=self.scale, **self.ticks)

    def layer(self, name: str, rows: Sequence[Row]) -> Any:
        """Return a chart over rows, see `Canvas.layer`."""
        return self.canvas.layer(name, rows)


def curves(rows: Sequence[Row], view: Mapping[str, Any], canvas: Canvas) -> Spec:
    """Draw measured points with intervals, theory as lines, the article's own points, and a dashed line.

    Settings: x (column), x_title, y_title, x_log, y_log, rule (a number or None), rule_text, order (labels),
    x_domain, y_domain (where axes begin and end; without them they fit what is drawn), y_within (where the y axis goes
    no further), lines (upright ones: x and words), legend (live charts have none unless asked), x_values, y_values
    (ticks), dashes (of the theory lines of some labels: lengths drawn and left out). A series with fewer than `FEWEST`
    places is no line: its theory is a stroke at each.

    A live chart has the datasets theory, measured, spans, marker ({x column: M}), here ({x column, value}: a ring on
    the marker) and labels ({label, x column, at}: words beside the lines' ends); its parameter `room` is where the x
    axis ends, `ink` the colour of marker and ring.
    """
    if canvas.mode == "live" and not view.get("x_domain"):
        places = [r[view["x"]] for r in rows if r.get(view["x"]) is not None]
        view = {**view, "x_domain": (min(places, default=1), max(places, default=10))}
    layered = _curves(rows, view, canvas)
    if canvas.mode == "live":
        layered["params"] = parameters(room=view["x_domain"][1], ink="#444444")
        return layered
    if canvas.mode == "report":
        layered["params"] = _pick_by_legend(layered)
    beside = view.get("rule") is not None and view.get("rule_text")
    return layered | ({"config": {"legend": {"offset": BESIDE}}} if beside else {})


def _curves(rows: Sequence[Row], view: Mapping[str, Any], canvas: Canvas, series: alt.Scale | None = None) -> Spec:
    """Return the layers of a chart of curves, without the selection that its legend makes."""
    check_one_definition(rows)
    theory, measured, printed = (curve_rows(rows, field, view) for field in ("theory", "value", "article"))
    if canvas.mode != "live":
        view = _fitted(view, theory, measured, printed)
    axes = _axes(view, canvas, series or _series_scale(rows, view))
    layers: list[Any] = []
    if theory or canvas.mode == "live":
        layers += _theory_layers(theory, view.get("dashes") or {}, axes)
    if view.get("join"):
        covered = {(r["label"], r[view["x"]]) for r in theory}
        alone = {r["label"] for r in measured if (r["label"], r[view["x"]]) not in covered}
        lone = [r for r in measured if r["label"] in alone]
        if lone := _long(lone, view["x"]):
            thin = axes.layer("joined", lone).mark_line(strokeWidth=0.8)
            layers.append(thin.encode(x=axes.across, y=axes.up("value"), color=axes.colour, opacity=axes.shown))
    if measured or canvas.mode == "live":
        layers += _measured_layers(measured, axes)
    if printed:
        layers.append(_printed_layer(printed, axes))
    if view.get("rule") is not None:
        layers += _rule(float(view["rule"]), str(view.get("rule_text", "")), axes)
    layers += [layer for x, words in view.get("lines") or () for layer in _upright(float(x), str(words), axes)]
    if canvas.mode == "live":
        layers += _live_layers(axes)
    return {"layer": [canvas.written(x) for x in layers], "width": WIDTH, "height": int(view.get("height", HEIGHT))}


def panels(rows: Sequence[Row], view: Mapping[str, Any], canvas: Canvas) -> Spec:
    """Draw charts of curves one below the other over one legend: quantities that must not share an axis.

    Settings: panels, for each the settings of `curves` and `where` ({column: value} of its rows); height of each;
    all other settings are common to the panels.
    """
    common = {"height": PANEL_HEIGHT} | {name: value for name, value in view.items() if name not in ("kind", "panels")}
    views = [common | dict(own) for own in view["panels"]]
    kept = [[r for r in rows if all(r.get(name) == value for name, value in own["where"].items())] for own in views]
    # The panels share a legend, and so its labels and their colours.
    seen = [label for mine, own in zip(kept, views, strict=True) for label in _seen(mine, own)]
    series = _series_scale(rows, {**view, "seen": seen})
    drawn = [_curves(mine, own, canvas, series) for mine, own in zip(kept, views, strict=True)]
    if canvas.mode == "report":
        return {"vconcat": drawn, "params": _pick_by_legend(drawn[0])}  # one selection serves all panels
    return {"vconcat": drawn}


def _long(rows: Sequence[Row], x: str) -> list[dict[str, Any]]:
    """Return the rows of series with enough places for a line."""
    places: dict[str, set[Any]] = {}
    for row in rows:
        places.setdefault(row["label"], set()).add(row[x])
    return [dict(row) for row in rows if len(places[row["label"]]) >= FEWEST]


def _seen(rows: Sequence[Row], view: Mapping[str, Any]) -> list[str]:
    """Return the labels of which something is drawn."""
    fields = ("theory", "value", "article")
    return list(dict.fromkeys(str(r["label"]) for field in fields for r in curve_rows(rows, field, view)))


def _fitted(view: Mapping[str, Any], *drawn: Sequence[Row]) -> Mapping[str, Any]:
    """Return a view whose axes fit what is drawn, where it doesn't say itself how far they go."""
    x, fields = view["x"], ("theory", "value", "low", "high", "article")
    rows = [row for rows in drawn for row in rows if row.get(x) is not None]
    across, up = bool(view.get("x_log", True)), bool(view.get("y_log", True))
    heights = [row[f] for row in rows for f in fields if row.get(f) is not None and (row[f] > 0 or not up)]
    if not heights:
        return view
    if view.get("rule") is not None:
        heights.append(float(view["rule"]))
    places = [
        at for at in (*(row[x] for row in rows), *(at for at, _ in view.get("lines") or ())) if at > 0 or not across
    ]
    x_domain = view.get("x_domain") or limits(places, across)
    y_domain = view.get("y_domain") or limits(heights, up, view.get("y_within"))
    return {
        **view, "x_domain": x_domain, "y_domain": y_domain,
        "x_values": view.get("x_values") or (ticks(*x_domain) if across else None),
        "y_values": view.get("y_values") or (ticks(*y_domain) if up else None),
    }  # fmt: skip


def _live_layers(axes: _Axes) -> list[Any]:
    """Return what only the page draws: the marker with its ring, words at the lines' ends, and values on hover."""
    import altair as alt

    ink = alt.ExprRef("ink")
    marker = axes.layer("marker", []).mark_rule(color=ink, strokeWidth=1.2, opacity=0.8)
    ring = axes.layer("here", []).mark_point(color=ink, size=110, strokeWidth=2.5, filled=False, opacity=1, clip=True)
    swatch = axes.layer("labels", []).mark_point(shape="square", size=50, filled=True, opacity=1, clip=True)
    words = axes.layer("labels", []).mark_text(align="left", dx=8, fontSize=12, clip=True)
    hover = axes.layer("theory", []).mark_point(size=120, filled=True, opacity=0, clip=True)
    series, across = alt.Tooltip("label:N", title="series"), alt.Tooltip(f"{axes.x}:Q", format=",", title="M")
    expected = alt.Tooltip("theory:Q", format=".4g", title="expected")
    return [
        marker.encode(x=axes.across),
        swatch.encode(x=axes.across, y=axes.up("at"), color=axes.colour),
        words.encode(x=axes.across, y=axes.up("at"), text=alt.Text("label:N")),
        hover.encode(x=axes.across, y=axes.up("theory"), color=axes.colour, tooltip=[series, across, expected]),
        ring.encode(x=axes.across, y=axes.up("value"), tooltip=[series, across, alt.Tooltip("value:Q", format=".4g")]),
    ]


def curve_rows(rows: Sequence[Row], field: str, view: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the rows of a chart of curves that one of its datasets shows, without what its axis cannot show.

    field: "theory" (one row a series and x), "value" (measured), "low" (measured with interval) or "article".
    """
    log_y = bool(view.get("y_log", True))
    kept = _positive(rows, field, log_y)
    least = view.get("y_domain") or view.get("y_within")
    if log_y and least:
        kept = [r for r in kept if r[field] >= least[0]]
    if field == "theory":
        x = view["x"]
        return list({(r["label"], r[x]): {"label": r["label"], x: r[x], "theory": r["theory"]} for r in kept}.values())
    if field == "low":
        return [r for r in kept if r.get("high") is not None]
    return kept


def _shown(canvas: Canvas) -> Any:
    import altair as alt

    if canvas.mode != "report":
        return alt.OpacityValue(1.0)
    return alt.OpacityValue(0.08, condition={"param": PICK, "value": 1.0})


def _pick_by_legend(layered: Spec) -> list[Spec]:
    """Return the selection that clicks on the legend make, in a layer that the legend belongs to."""
    layered["layer"][0]["name"] = PICKED
    return [{"name": PICK, "select": {"type": "point", "fields": ["label"]}, "bind": "legend", "views": [PICKED]}]


def _axes(view: Mapping[str, Any], canvas: Canvas, series: alt.Scale) -> _Axes:
    import altair as alt

    live = canvas.mode == "live"

    def scale(log: bool, domain: Any, **more: Any) -> Any:
        limits: dict[str, Any] = {"domain": list(domain), "clamp": not live} if domain else {}
        return alt.Scale(type="log" if log else "linear", **limits, **more)

    x, log_y = view["x"], bool(view.get("y_log", True))
    across = scale(bool(view.get("x_log", True)), view.get("x_domain"), nice=False)
    if live:
        across = alt.Scale(type=across.type, nice=False, domain=[view["x_domain"][0], alt.ExprRef("room")])
    legend = (
        alt.Legend(title=None, symbolType="circle", labelLimit=LEGEND)
        if view.get("legend", canvas.mode != "live")
        else None
    )
    return _Axes(
        x=x,
        log_y=log_y,
        across=alt.X(
            f"{x}:Q",
            title=view.get("x_title", x),
            scale=across,
            **tick_axis(view.get("x_values"), ("~s" if view.get("x_log", True) else "~r") if live else None),
        ),
        scale=scale(log_y, view.get("y_domain")),
        ticks=tick_axis(view.get("y_values")),
        title=view.get("y_title", "interference / signal"),
        colour=alt.Color("label:N", scale=series, legend=legend),
        shown=_shown(canvas),
        canvas=canvas,
    )


def _theory_layers(rows: list[dict[str, Any]], dashes: Mapping[str, Sequence[int]], axes: _Axes) -> list[Any]:
    """Return the theory's lines, those with dashes above the others in layers of their own; strokes of the rest."""
    import altair as alt

    layers: list[Any] = []
    lines = rows if axes.canvas.mode == "live" else _long(rows, axes.x)
    drawn = {r["label"] for r in lines}
    short = [r for r in rows if r["label"] not in drawn]
    if short:
        stroke = axes.layer("theory", short).mark_point(shape="stroke", size=330, strokeWidth=1.8)
        layers.append(stroke.encode(x=axes.across, y=axes.up("theory"), color=axes.colour, opacity=axes.shown))
        if not lines:
            return layers
    for label in (None, *dashes):
        mine = [r for r in lines if (r["label"] == label if label else r["label"] not in dashes)]
        broken: dict[str, Any] = {"strokeDash": list(dashes[label])} if label else {}
        line = axes.layer("theory", mine).mark_line(strokeWidth=1.8, clip=axes.canvas.mode == "live", **broken)
        if axes.canvas.mode == "live" and dashes:  # all its lines are of one dataset
            line = line.transform_filter(alt.FieldOneOfPredicate("label", [label]) if label else _no_dashes(dashes))
        layers.append(line.encode(x=axes.across, y=axes.up("theory"), color=axes.colour, opacity=axes.shown))
    return layers


def _no_dashes(dashes: Mapping[str, Sequence[int]]) -> Any:
    import altair as alt

    return {"not": alt.FieldOneOfPredicate("label", list(dashes)).to_dict()}


def _measured_layers(rows: list[dict[str, Any]], axes: _Axes) -> list[Any]:
    import altair as alt

    samplers = [s for s in SAMPLERS if axes.canvas.mode == "live" or any(r.get("sampler") == s for r in rows)]
    several = len(samplers) > 1 and axes.canvas.mode != "live"
    shape = alt.Shape(
        "sampler:N",
        scale=alt.Scale(domain=samplers, range=[SAMPLERS[s] for s in samplers]),
        legend=alt.Legend(title="measured from", symbolSize=45) if several else None,
    )
    tooltip = [
        alt.Tooltip("label:N", title="series"),
        alt.Tooltip(f"{axes.x}:Q"),
        alt.Tooltip("value:Q", format=".4g", title="measured"),
        alt.Tooltip("low:Q", format=".4g", title="95 % from"),
        alt.Tooltip("high:Q", format=".4g", title="to"),
        alt.Tooltip("n_trials:Q", title="trials"),
        alt.Tooltip("theory:Q", format=".4g", title="theory"),
        *(() if axes.canvas.mode == "live" else (alt.Tooltip("sampler:N", title="sampler"),)),
    ]
    points = axes.layer("measured", rows).mark_point(size=38, filled=True, clip=axes.canvas.mode == "live")
    points = points.encode(
        x=axes.across, y=axes.up("value"), color=axes.colour, shape=shape, opacity=axes.shown, tooltip=tooltip
    )
    spans = [r for r in rows if r.get("low") is not None and r.get("high") is not None]
    spans = [r for r in spans if not axes.log_y or r["low"] > 0]
    if not spans and axes.canvas.mode != "live":
        return [points]
    bars = axes.layer("spans", spans).mark_rule(strokeWidth=1.4, clip=axes.canvas.mode == "live")
    bars = bars.encode(x=axes.across, y=axes.up("low"), y2=alt.Y2("high:Q"), color=axes.colour, opacity=axes.shown)
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
    if axes.canvas.mode == "live":  # on the page's own ground, light or dark
        place: dict[str, Any] = {"fontSize": 12, "align": "left", "dx": 6, "dy": -8, "color": alt.ExprRef("ink")}
        at = alt.XValue(0)  # type: ignore[no-untyped-call]  # Altair leaves it untyped
    else:  # beside the chart, where no curve is
        place = {"fontSize": 12, "align": "left", "baseline": "middle", "dx": 6, "lineBreak": " ", "lineHeight": 13}
        at = alt.XValue("width")  # type: ignore[no-untyped-call]
    words = alt.Chart(data).mark_text(**{"color": "#666", **place})
    return [line, words.encode(y=axes.up("level"), x=at, text=alt.Text("text:N"))]


def _upright(x: float, text: str, axes: _Axes) -> list[Any]:
    """Return a dashed line at `x` with words above it (inside a live chart, which has no room there)."""
    import altair as alt

    live = axes.canvas.mode == "live"
    place: dict[str, Any] = {"align": "left", "dx": 4} if live else {"align": "center"}

    data = alt.Chart(alt.InlineData(values=[{axes.x: x, "text": text}]))
    top = alt.YValue(8 if live else -7)  # type: ignore[no-untyped-call]  # Altair leaves it untyped
    line = data.mark_rule(strokeDash=[5, 4], color="#888").encode(x=axes.across)
    words = data.mark_text(color="#666", fontSize=11, **place)
    return [line, words.encode(x=axes.across, y=top, text=alt.Text("text:N"))]


def check_one_definition(rows: Sequence[Row]) -> None:
    """Refuse to draw two definitions of one quantity on one axis (InputError naming both)."""
    found = sorted({str(r["definition"]) for r in rows if r.get("definition")})
    if len(found) > 1:
        raise InputError(f"one axis holds one quantity; these rows mix definitions: {'; '.join(found)}.")


def _series_scale(rows: Sequence[Row], view: Mapping[str, Any]) -> alt.Scale:
    import altair as alt

    known = [str(label) for label in view.get("order") or dict.fromkeys(str(r["label"]) for r in rows)]
    chosen: Mapping[str, str] = view.get("colours") or {}
    free = cycle([colour for colour in PALETTE if colour not in chosen.values()] or PALETTE)
    colours = {label: chosen.get(label) or next(free) for label in known}
    # A legend lists what occurs, each in the colour that it has wherever it is; a page, whose rows come later, all.
    seen = set(view["seen"] if "seen" in view else _seen(rows, view)) or set(known)
    labels = [label for label in known if label in seen]
    return alt.Scale(domain=labels, range=[colours[label] for label in labels])


def _positive(rows: Sequence[Row], field: str, log: bool) -> list[dict[str, Any]]:
    """Return the rows whose `field` can be drawn: present, and above zero on a logarithmic axis."""
    return [dict(r) for r in rows if r.get(field) is not None and (not log or r[field] > 0)]
