"""The page's charts: those of `report.figures` with datasets that the page swaps, and numbers as short JSON."""

import math
from typing import Any

import numpy as np

from assocmem.contract.results import Results
from assocmem.report.figures import specification

CURVES: dict[str, Any] = {
    "kind": "curves",
    "x": "n_memories",
    "x_title": "memories M",
    "y_title": "interference / signal",
    "rule": 1.0,
    "rule_text": "↑ recall fails",
}
"""The view of a chart of curves without its limits and its order."""


def live(view: dict[str, Any], height: int) -> dict[str, Any]:
    """Return a chart as a Vega-Lite specification with first rows, so that no scale is empty."""
    spec = specification(Results("page", (), {"view": view}), mode="live")
    spec.pop("config", None)
    look = {"width": "container", "height": height, "autosize": {"type": "fit-x", "contains": "padding"}}
    return spec | look | {"datasets": {**spec["datasets"], **_first(view)}}


def _first(view: dict[str, Any]) -> dict[str, Any]:
    """Return one row for every dataset of a chart."""
    if "first" in view:
        return dict(view["first"])
    if view["kind"] == "bars":
        target, other = ({"index": i, "end": i + 0.9, "weight": float(i == 0)} for i in range(2))
        return {"bars": [other], "target": [target]}
    if view["kind"] == "tokens":
        rows = [{"token": f"{i}", "place": i, "weight": float(i == 0), "words": ""} for i in range(2)]
        return {"bars": rows[1:], "target": rows[:1], "words": rows}
    low, high = view["x_domain"]
    label = view["order"][0]
    point = {"label": label, "n_memories": low, "value": 1.0, "low": 1.0, "high": 1.0, "sampler": "keys", "at": 1.0}
    ends = [{"label": label, "n_memories": m, "theory": 1.0} for m in (low, high)]
    same = {name: [point] for name in ("measured", "spans", "here", "labels")}
    return {"theory": ends, "marker": [{"n_memories": low}], **same}


def rounded(values: object, digits: int = 5) -> list[float]:
    """Return numbers rounded to `digits` significant digits, as short JSON; what isn't finite is refused."""
    array = np.asarray(values, dtype=np.float64).ravel()
    if not np.isfinite(array).all():
        raise ValueError("page data must be finite.")
    return [_short(x, digits) for x in array.tolist()]


def short(value: float | None, digits: int = 5) -> float | None:
    """Return one number as `rounded` does, None for None."""
    return None if value is None else rounded([value], digits)[0]


def _short(x: float, digits: int) -> float:
    if abs(x) < 1e-300:
        return 0
    places = digits - 1 - math.floor(math.log10(abs(x)))
    value = round(x, places) if places < 300 else x
    return int(value) if value == int(value) and abs(value) < 1e15 else value


def figure(x: float | None) -> str:
    """Return a number in three digits as the page's script writes it, – for None.

    >>> figure(0.25), figure(1234.5), figure(0.000746), figure(None)
    ('0.25', '1,234', '7.46 × 10⁻⁴', '–')
    """
    if x is None:
        return "–"
    if x and not 1e-3 <= abs(x) < 1e9:
        digits, power = f"{x:.2e}".split("e")
        return f"{digits} × 10{str(int(power)).translate(_RAISED)}"
    return f"{x:,.0f}" if abs(x) >= 1000 else f"{float(f'{x:.3g}'):g}"


_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
