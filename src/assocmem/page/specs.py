"""The chart specifications of the page: the charts of `report.figures` with datasets that the page swaps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from assocmem.core.results import Results
from assocmem.page.contexts import RULES
from assocmem.page.offer import CHOICES
from assocmem.report.figures import PALETTE, chart

CURVES_VIEW: dict[str, Any] = {
    "kind": "curves",
    "x": "n_memories",
    "x_title": "memories M",
    "y_title": "interference / signal",
    "x_domain": (2, 2**20),
    "y_domain": (1e-3, 300),
    "rule": 1.0,
    "rule_text": "above: recall fails",
    "order": [choice.label for choice in CHOICES],
}
CONTEXTS_VIEW: dict[str, Any] = CURVES_VIEW | {
    "x_domain": (16, 2**21),
    "y_domain": (1e-6, 10),
    "order": list(RULES),
}


def colours() -> dict[str, str]:
    """Return the colour of every store on the page, the same on buttons, curves and legends."""
    return {choice.id: PALETTE[i % len(PALETTE)] for i, choice in enumerate(CHOICES)}


def specs() -> dict[str, Any]:
    """Return the page's charts as Vega-Lite specifications with first rows, so that no scale is empty."""
    first = [{"index": i, "end": i + 0.9, "weight": float(i == 0)} for i in range(2)]
    bars = _spec({"kind": "bars"}, [], {"bars": first[1:], "target": first[:1]})
    return {
        "bars": bars,
        "streams": bars,
        "curves": _spec(CURVES_VIEW, [], _first(CURVES_VIEW, 340)),
        "contexts": _spec(CONTEXTS_VIEW, [], _first(CONTEXTS_VIEW, 300), legend=True),
    }


def _first(view: dict[str, Any], height: int) -> dict[str, Any]:
    low, high = view["x_domain"]
    label = view["order"][0]
    point = {"label": label, "n_memories": low, "value": 1.0, "low": 1.0, "high": 1.0, "sampler": "keys"}
    ends = [{"label": label, "n_memories": m, "theory": 1.0} for m in (low, high)]
    return {"theory": ends, "measured": [point], "spans": [point], "marker": [{"n_memories": low}], "_height": height}


def _spec(
    view: dict[str, Any], rows: Sequence[dict[str, Any]], data: dict[str, Any], *, legend: bool = False
) -> dict[str, Any]:
    height = data.pop("_height", 240)
    drawn = chart(Results("page", tuple(rows), {"view": view | {"legend": legend}}), mode="live")
    spec: dict[str, Any] = drawn.properties(width="container", height=height).to_dict()
    spec["datasets"] = {**spec.get("datasets", {}), **data}
    spec["autosize"] = {"type": "fit-x", "contains": "padding"}
    spec.pop("config", None)
    return spec
