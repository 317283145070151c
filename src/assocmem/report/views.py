"""The chart of a result that names none: which of its columns goes across, and what tells its series apart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from assocmem.contract.columns import QUANTITIES, cell, heading
from assocmem.contract.errors import InputError
from assocmem.report.canvas import Row

if TYPE_CHECKING:
    from assocmem.contract.results import Results

ACROSS = {
    "n_memories": "memories M", "d_k": "key width d_k", "shown_age": "age + 1 (pairs)", "rho": "cosine of two keys",
    "cosine": "cosine of a query and its key",
}  # fmt: skip
"""Columns that a curve can go along, with the axis's title; the first with several places is taken."""
LOGARITHMIC = ("n_memories", "d_k", "shown_age")
APART = ("head", "preparation", "n_memories", "d_k", "rho", "cosine", "statistic")
"""Columns that tell series of one store apart where they differ and don't go across."""
IN_MEMORIES = "capacity"
FEW = 8
"""Places of measurement up to which each has its tick."""


def view_of(results: Results, quantity: str | None = None, x: str | None = None) -> tuple[list[Row], dict[str, Any]]:
    """Return the rows to draw and the view that draws them, for results whose header names no kind of chart.

    quantity: of the rows; by default what the header's view says, else that of the answer. x: the column that goes
    across; by default the first of `ACROSS` with several places. InputError where no row has a number of it.
    """
    told = dict(results.header.get("view") or {})
    wanted = quantity or told.pop("quantity", None)
    rows: Sequence[Row] = results.rows if wanted is None else results.where(quantity=wanted).rows
    rows = [row for row in (results.answer if wanted is None else rows) if _drawn(row)]
    if not rows:
        there = dict.fromkeys(str(row["quantity"]) for row in results.rows if row.get("quantity") and _drawn(row))
        raise InputError(
            f"there is nothing to draw{f' of {wanted!r}' if wanted else ''}: no row has a number of it"
            f"{f'; there are rows of {chr(44).join(there)}' if there else ''}."
        )
    x = x or told.get("x") or next((name for name in ACROSS if _differs(rows, name)), None)
    of = str(rows[0].get("quantity") or "")
    named = _named(rows, x)
    measured = of if of in QUANTITIES else "measured"
    if x is None:
        view: dict[str, Any] = {"kind": "capacities", "x_title": _with_unit(measured, of)}
    else:
        view = {"kind": "curves", "x": x, "x_title": ACROSS.get(x) or heading(x), "join": True,
                "y_title": _with_unit(measured, of), "x_log": x in LOGARITHMIC}  # fmt: skip
        places = sorted({row[x] for row in rows if row.get(x) is not None})
        if len(places) <= FEW:
            view["x_values"] = places
        if of == "ratio":
            view |= {"rule": 1.0, "rule_text": "recall fails"}
    return named, view | {"title": _title(rows, x, measured)} | told


def _drawn(row: Row) -> bool:
    return row.get("value") is not None or row.get("theory") is not None


def _differs(rows: Sequence[Row], name: str) -> bool:
    return len({row.get(name) for row in rows} - {None}) > 1


def _named(rows: Sequence[Row], x: str | None) -> list[Row]:
    """Return the rows labelled by all that tells series apart, definitions of their statistics with it."""
    more = [name for name in APART if name not in (x, "n_memories" if x == "d_k" else x) and _differs(rows, name)]
    return [{**row, "definition": None, "label": ", ".join([str(row.get("label")), *_told(row, more)])} for row in rows]


def _told(row: Mapping[str, Any], names: Sequence[str]) -> list[str]:
    return [f"{heading(name)} = {cell(name, row)}" for name in names if row.get(name) is not None]


def _title(rows: Sequence[Row], x: str | None, measured: str) -> str:
    """Return what is drawn, and what all rows share."""
    shared = [name for name in ("d_k", "n_memories", "cosine") if name != x and not _differs(rows, name)]
    against = f" against {ACROSS.get(x) or heading(x)}" if x else ""
    return ", ".join([f"{measured.capitalize()}{against}", *_told(rows[0], shared)])


def _with_unit(measured: str, of: str) -> str:
    unit = "memories" if of.endswith(IN_MEMORIES) or of == "held" else ""
    return {"ratio": "ratio: interference / signal"}.get(of, f"{measured} ({unit})" if unit else measured)
