"""Write the charts' script: src/assocmem/page/static/vendor/vega.js, from the bundle of the installed vl-convert."""

from assocmem.contract.files import write_whole
from assocmem.page import STATIC
from assocmem.report.export import make_bundle

if __name__ == "__main__":
    path = write_whole(STATIC / "vendor" / "vega.js", make_bundle().encode())
    print(f"wrote {path} ({path.stat().st_size:,} bytes)")
