"""The report page: one self-contained HTML file with every chart, table and number of a run."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from assocmem.contract.files import write_whole
from assocmem.contract.numbers import number
from assocmem.report.export import script_bundle
from assocmem.report.figures import specification

if TYPE_CHECKING:
    from assocmem.contract.results import Results

TEMPLATES = Path(__file__).parent / "templates"


def write_report(
    path: Path,
    results: Sequence[Results],
    *,
    title: str,
    verdicts: Sequence[Mapping[str, Any]] = (),
    facts: Mapping[str, Any] | None = None,
    unfinished: Sequence[str] = (),
    charts: Mapping[str, str] | None = None,
    lead: Results | None = None,
) -> Path:
    """Write the report of a run to `path` and return it.

    Parameters: results with "title", "question" and "caption" in their headers; verdicts, the rows of
    verdict.json; facts shown in the foot (versions, seed, machine); unfinished, names that did not run; charts,
    the results' charts by name (see `inline_chart`), where they are made already; lead, what the page opens with.
    The page loads nothing from anywhere: scripts, data and charts are inside.
    """
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES), autoescape=True, undefined=jinja2.StrictUndefined
    )
    environment.filters |= {"figure": significant, "printed": as_printed, "exact": exact_of}
    environment.globals["span"] = span
    folder = path.parent
    every = [*([] if lead is None else [lead]), *results]
    known = charts or {}
    charts = {r.name: known.get(r.name) or inline_chart(specification(r)) for r in every}
    sections = [
        {
            "name": r.name,
            "title": r.header.get("title", r.name),
            "question": r.header.get("question", ""),
            "caption": r.header.get("caption", ""),
            "files": [f"{r.name}.{kind}" for kind in ("png", "svg", "pdf", "csv", "ndjson") if
                      (folder / f"{r.name}.{kind}").exists()],
        }
        for r in every
    ]  # fmt: skip
    page = environment.get_template("report.html").render(
        title=title,
        lead=None if lead is None else sections[0],
        sections=sections if lead is None else sections[1:],
        verdicts=verdicts,
        reasons=list(dict.fromkeys(row["reason"] for row in verdicts if row["reason"])),
        facts=dict(facts or {}),
        unfinished=list(unfinished),
        charts=charts,
        bundle=script_bundle().replace("</script", "<\\/script"),
    )
    write_whole(path, page.encode())
    return path


def inline_chart(data: Any) -> str:
    """Return a chart's specification as JSON that is safe inside a script element."""
    text = json.dumps(data, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def significant(value: float | None) -> str:
    """Return a measured number: four digits, zeros kept, thousands separated, 0 for rounding errors; – for None."""
    return number(0.0 if value is not None and abs(value) < 1e-9 else value, zeros=True)


def exact_of(row: Mapping[str, Any]) -> str:
    """Return a verdict's exact value, marked where it is an approximation."""
    text = significant(row["exact"])
    return f"≈ {text}" if row["exact_kind"] == "approximate" else text


def span(low: float | None, high: float | None) -> str:
    """Return an interval as "low to high", or a dash where there is none."""
    return "–" if low is None or high is None else f"{significant(low)} to {significant(high)}"


def as_printed(value: str | float | None) -> str:
    """Return what the article prints with its own digits, or its words; a dash for None."""
    return "–" if value is None else value if isinstance(value, str) else f"{value:,}"
