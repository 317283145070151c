"""One offline page on the heads of a trained network: maps of layers and heads, and what is known of each head."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from assocmem.contract.files import write_whole
from assocmem.contract.results import Results, Row, plain
from assocmem.report.export import script_bundle
from assocmem.report.html import TEMPLATES, inline_chart

MAPPED = ("capacity", "ratio", "past_capacity", "sink_mass", "effective_dimension", "mean_share", "beta")


def write_heads_page(
    path: Path, heads: Results, contexts: Results, details: Sequence[Row], *, title: str, tokens: Sequence[str] = ()
) -> Path:
    """Write the page to `path` and return it; it loads nothing from anywhere.

    Parameters
    ----------
    path : Path
    heads, contexts : Results
        A row a head, and a row a head, number of keys and rule, with definitions in their headers.
    details : sequence of dict
        What the page shows of each head: layer, head, words, edges, counts, ratios, collisions.
    title : str
    tokens : sequence of str
        The text, as hints on the queries' ratios.
    """
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES), autoescape=True, undefined=jinja2.StrictUndefined
    )
    page = environment.get_template("heads.html").render(
        title=title,
        notes=heads.header["config"]["notes"],
        definitions={name: heads.header["definitions"][name] for name in MAPPED},
        map=inline_chart(map_of(heads.rows)),
        data=inline_chart(plain({"details": details, "contexts": contexts.rows, "tokens": list(tokens)})),
        bundle=script_bundle().replace("</script", "<\\/script"),
    )
    return write_whole(path, page.encode())


def map_of(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the Vega-Lite chart of layers and heads, coloured by the column that the reader picks."""
    names = [name for name in MAPPED if any(row[name] is not None for row in rows)]
    return {
        "$schema": "https://vega.github.io/schema/vega-lite/v6.json",
        "data": {"values": [plain(dict(row)) for row in rows]},
        "params": [
            {"name": "quantity", "value": names[0], "bind": {"input": "select", "options": names, "name": "colour: "}},
            {"name": "picked", "select": {"type": "point", "fields": ["layer", "head"]}},
        ],
        "transform": [
            {"calculate": "datum[quantity]", "as": "shown"},
            {"joinaggregate": [{"op": "distinct", "field": "shown", "as": "values"}]},
            {"window": [{"op": "rank", "as": "rank"}], "sort": [{"field": "shown"}]},
        ],
        "mark": {"type": "rect", "cursor": "pointer"},
        "width": {"step": 26},
        "height": {"step": 16},
        "encoding": {
            "x": {"field": "head", "type": "ordinal", "axis": {"labelAngle": 0}},
            "y": {"field": "layer", "type": "ordinal"},
            "color": {"field": "rank", "type": "quantitative", "title": "rank among heads",
                      "scale": {"scheme": "viridis"}},
            "strokeWidth": {"condition": {"param": "picked", "empty": False, "value": 2}, "value": 0},
            "stroke": {"value": "#b00020"},
            "tooltip": [{"field": x, "format": ".4~g", "type": "quantitative"} for x in ("layer", "head", *names)],
        },
    }  # fmt: skip
