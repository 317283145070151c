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
    return [write_whole(folder / f"{name}.{kind}", _as(kind, picture, scale)) for kind in formats]


def write_picture(spec: Mapping[str, Any], path: Path) -> Path:
    """Write a chart's specification to one file, of the format that its ending names, and return the path."""
    import vl_convert

    return write_whole(path, _as(path.suffix[1:].lower(), vl_convert.vegalite_to_svg(dict(spec)), PNG_SCALE))


def _as(kind: str, picture: str, scale: float) -> bytes:
    """Return an SVG picture as the bytes of a file of that kind."""
    import vl_convert

    if kind == "svg":
        return picture.encode()
    return bytes(vl_convert.svg_to_png(picture, scale=scale) if kind == "png" else vl_convert.svg_to_pdf(picture))


def script_bundle() -> str:
    """Return the script that defines `vegaEmbed` on the window: Vega, Vega-Lite and vega-embed, as shipped.

    It is the page's own copy (`scripts/bundle_vega.py` writes it): making it takes seconds and 130 MB.
    """
    return (resources.files("assocmem") / "page" / "static" / "vendor" / "vega.js").read_text(encoding="utf-8")


def make_bundle() -> str:
    """Return the same script, made anew by the installed vl-convert."""
    import vl_convert

    return str(vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;"))
