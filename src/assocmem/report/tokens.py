"""The chart of one head's recall: a bar for every token that is seen, its words beside it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from assocmem.report.canvas import Canvas, Row, Spec, parameters


def tokens(rows: Sequence[Row], view: Mapping[str, Any], canvas: Canvas) -> Spec:
    """Draw the weight of every token as a bar, what the query asks for in the target's colour.

    Rows hold token (a text of its own for each), place (its turn, from the top), weight, words (beside the bar) and
    target (bool). Settings: x_title. A live chart has the datasets bars (all but the target), target and words; its
    parameters are the colours `memory`, `target` and `ink`.
    """
    import altair as alt

    live = canvas.mode == "live"
    plain = {"memory": "#0072B2", "target": "#C2410C", "ink": "#1C2024"}
    memory, own, ink = (alt.ExprRef(name) if live else colour for name, colour in plain.items())
    y = alt.Y("token:N", sort=alt.EncodingSortField("place", "min"), title=None, axis=alt.Axis(labelLimit=120))
    room = alt.Scale(domain=[0, 1.5], nice=False)  # for the words beside the longest bar
    axis = alt.Axis(values=[0, 0.5, 1], titleAnchor="start")
    x = alt.X("weight:Q", title=view.get("x_title", "weight"), scale=room, axis=axis)
    tooltip = [alt.Tooltip("token:N"), alt.Tooltip("weight:Q", format=".4f"), alt.Tooltip("words:N", title="adds")]
    layers = [
        canvas.layer(name, [r for r in rows if bool(r["target"]) is wanted])
        .mark_bar(color=colour)
        .encode(x=x, y=y, tooltip=tooltip)
        for name, colour, wanted in (("bars", memory, False), ("target", own, True))
    ]
    beside = canvas.layer("words", rows).mark_text(align="left", dx=5, color=ink, fontSize=11)
    layers.append(beside.encode(x=x, y=y, text="words:N"))
    spec: Spec = {"layer": [canvas.written(layer) for layer in layers], "height": {"step": 17}}
    return spec | ({"params": parameters(**plain)} if live else {})
