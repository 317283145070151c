"""A recall as pictures side by side, from what was stored to where it rests, with its energy below."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from assocmem.report.canvas import PALETTE, Canvas, Row, Spec, parameters

APART = 18.0
"""From the left edge of one picture of 16 pixels to that of the next."""
KINDS = ("ink", "wrong", "missing")


def frames(rows: Sequence[Row], view: Mapping[str, Any], canvas: Canvas) -> Spec:
    """Draw pictures in a line and one curve below them.

    Rows hold what: "ink" (x, x2, y, y2, in pixels from the left of the first picture and from the top, and kind: ink,
    wrong or missing), "word" (x, text; above the pictures) or "energy" (x, energy). Settings: count (pictures there is
    room for), height, y_title. Live, its datasets are ink, words and energy, its parameters the colours.
    """
    import altair as alt

    live, height = canvas.mode == "live", float(view.get("height", 300))
    wide = float(view["count"]) * APART
    mine = {what: [r for r in rows if r["what"] == what] for what in ("ink", "word", "energy")}
    across = alt.X("x:Q", axis=None, scale=alt.Scale(domain=[-1, wide - 1], nice=False))
    # As high as wide where there is room, so that pixels are squares.
    foot = f"min(width * 19 / {wide:g}, {height - 90:g})"
    down = alt.Scale(domain=[-3, 16], range=[0, {"expr": foot}], nice=False)
    ink = alt.ExprRef("ink") if live else "#1C2024"
    memory, target = ("memory", "target")
    squares = canvas.layer("ink", mine["ink"]).mark_rect(stroke=None)
    tint = alt.Color(
        "kind:N",
        scale=alt.Scale(domain=list(KINDS), range=[{"expr": "ink"}, {"expr": target}, {"expr": memory}]),
        legend=None,
    )
    pictures = squares.encode(
        x=across, x2=alt.X2("x2:Q"), y=alt.Y("y:Q", axis=None, scale=down), y2=alt.Y2("y2:Q"), color=tint
    )
    words = canvas.layer("words", mine["word"]).mark_text(align="left", baseline="middle", fontSize=11, color=ink)
    words = words.encode(x=across, y=alt.YDatum(-1.6, scale=down, axis=None), text=alt.Text("text:N"))
    ground = alt.Scale(range=[{"expr": "height - 6"}, {"expr": foot + " + 24"}], zero=False, nice=False)
    curve = canvas.layer("energy", mine["energy"]).mark_line(color=ink, point=alt.OverlayMarkDef(size=26, color=ink))
    title = alt.Axis(tickCount=4, grid=False, format=",.4~r", minExtent=44, maxExtent=44)
    curve = curve.encode(
        x=across,
        y=alt.Y("energy:Q", scale=ground, title=view.get("y_title", "energy"), axis=title),
        tooltip=[alt.Tooltip("energy:Q", format=".5g")],
    )
    layers = [canvas.written(layer) for layer in (pictures, words, curve)]
    both = {"layer": layers[:2]}
    drawn: Spec = {"layer": [both, layers[2]], "width": 620, "height": height}
    drawn["resolve"] = {"scale": {"y": "independent"}}
    drawn["params"] = parameters(ink="#1C2024", memory=PALETTE[5], target="#C2410C")
    return drawn
