"""Charts to files: PNG, SVG and PDF without a browser, and the script bundle that makes pages interactive."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

from assocmem.contract.errors import InputError
from assocmem.contract.files import write_whole

# A process that only draws imports this module: it stays light.
FORMATS = ("png", "svg", "pdf")
PNG_SCALE = 2.0


def warm() -> None:
    """Load what draws, before there is anything to draw."""
    import vl_convert

    vl_convert.vega_to_svg({})


def write_pictures(
    spec: Mapping[str, Any], folder: Path, name: str, formats: Sequence[str] = FORMATS, scale: float = PNG_SCALE
) -> list[Path]:
    """Write a chart's specification as `<folder>/<name>.<format>` and return the paths.

    formats: any of "png", "svg", "pdf". scale: dots of a PNG for a unit of length. Cost: about 0.2 s for all of them.
    """
    import vl_convert

    unknown = [f for f in formats if f not in FORMATS]
    if unknown:
        raise InputError(f"`formats` must be among {', '.join(FORMATS)}; got {unknown[0]!r}.")
    picture = vl_convert.vegalite_to_svg(dict(spec))  # once for all: the other formats are made of it
    paths = []
    for kind in formats:
        if kind == "png":
            content = vl_convert.svg_to_png(picture, scale=scale)
        elif kind == "svg":
            content = picture.encode()
        else:
            content = vl_convert.svg_to_pdf(picture)
        path = folder / f"{name}.{kind}"
        write_whole(path, content)
        paths.append(path)
    return paths


def script_bundle() -> str:
    """Return the script that defines `vegaEmbed` on the window: Vega, Vega-Lite and vega-embed, as shipped.

    It is the page's own copy (`scripts/bundle_vega.py` writes it): making it takes seconds and 130 MB.
    """
    return (resources.files("assocmem") / "page" / "static" / "vendor" / "vega.js").read_text(encoding="utf-8")


def make_bundle() -> str:
    """Return the same script, made anew by the installed vl-convert."""
    import vl_convert

    return str(vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;"))
