"""The chart specifications of the page: the charts of `report.figures` with datasets that the page swaps."""

from __future__ import annotations

from functools import cache
from typing import Any

from assocmem.contract.results import Results
from assocmem.page.contexts import RULES
from assocmem.page.offer import CHOICES
from assocmem.report.canvas import PALETTE
from assocmem.report.figures import specification

CURVES_VIEW: dict[str, Any] = {
    "kind": "curves",
    "x": "n_memories",
    "x_title": "memories M",
    "y_title": "interference / signal",
    "x_domain": (2, 2**20),
    "x_values": tuple(10**k for k in range(1, 7)),
    "y_domain": (1e-3, 300),
    "y_values": tuple(10.0**k for k in range(-3, 3)),
    "rule": 1.0,
    "rule_text": "↑ recall fails",
    "order": [choice.label for choice in CHOICES],
}
CONTEXTS_VIEW: dict[str, Any] = CURVES_VIEW | {
    "x_domain": (16, 2**21),
    "x_values": tuple(10**k for k in range(2, 7)),
    "y_domain": (1e-6, 100),
    "y_values": tuple(10.0**k for k in range(-6, 3)),
    "order": list(RULES),
}
BARS_VIEW: dict[str, Any] = {"kind": "bars", "y_title": "weight / target's weight"}
STREAMS_VIEW: dict[str, Any] = {
    "kind": "bars",
    "x_title": "writes ago",
    "y_title": "share of its value",
    "y_from": 0,
}


def colours() -> dict[str, str]:
    """Return the colour of every store on the page, the same on buttons, curves and legends."""
    return {choice.id: PALETTE[i % len(PALETTE)] for i, choice in enumerate(CHOICES)}


@cache
def specs() -> dict[str, Any]:
    """Return the page's charts as Vega-Lite specifications with first rows, so that no scale is empty."""
    first = [{"index": i, "end": i + 0.9, "weight": float(i == 0)} for i in range(2)]
    rows = {"bars": first[1:], "target": first[:1]}
    return {
        "bars": _spec(BARS_VIEW, 250, rows),
        "streams": _spec(STREAMS_VIEW, 230, rows),
        "curves": _spec(CURVES_VIEW, 400, _first(CURVES_VIEW)),
        "contexts": _spec(CONTEXTS_VIEW, 330, _first(CONTEXTS_VIEW)),
    }


def _first(view: dict[str, Any]) -> dict[str, Any]:
    """Return one row for every dataset of a chart of curves."""
    low, high = view["x_domain"]
    label = view["order"][0]
    point = {"label": label, "n_memories": low, "value": 1.0, "low": 1.0, "high": 1.0, "sampler": "keys", "at": 1.0}
    ends = [{"label": label, "n_memories": m, "theory": 1.0} for m in (low, high)]
    return {"theory": ends, "marker": [{"n_memories": low}]} | {
        name: [point] for name in ("measured", "spans", "here", "labels")
    }


def _spec(view: dict[str, Any], height: int, data: dict[str, Any]) -> dict[str, Any]:
    spec = specification(Results("page", (), {"view": view}), mode="live")
    spec.pop("config", None)
    return spec | {
        "width": "container",
        "height": height,
        "autosize": {"type": "fit-x", "contains": "padding"},
        "datasets": {**spec["datasets"], **data},
    }
