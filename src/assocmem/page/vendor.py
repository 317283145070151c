"""Write the charts' script: `python -m assocmem.page.vendor` makes static/vendor/vega.js from vl-convert's bundle."""

from __future__ import annotations

from pathlib import Path

from assocmem.contract.files import write_whole
from assocmem.report.export import make_bundle

STATIC = Path(__file__).parent / "static"


def main() -> None:
    """Write the bundle of the installed vl-convert."""
    path = STATIC / "vendor" / "vega.js"
    write_whole(path, make_bundle().encode())
    print(f"wrote {path} ({path.stat().st_size:,} bytes)")


if __name__ == "__main__":
    main()
