"""Write pictures of the page's opening: docs/images/page.png, at 1280 pixels, and the preview of links to it.

python scripts/picture_page.py [--chromium /usr/bin/chromium]
"""

from __future__ import annotations

import argparse
import io
import shutil
import threading
from pathlib import Path

from assocmem.page import STATIC
from assocmem.page.server import application, listen

PICTURES = {
    Path(__file__).parent.parent / "docs" / "images" / "page.png": (1280, 1010),
    STATIC / "preview.png": (1200, 630),
}
"""Each with its size."""
STATE = "#count=256&picture=outer&picked=2&beside=softmax"
FLAGS = ("--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-sync", "--no-first-run")


def draw(chromium: str) -> list[bytes]:
    """Return screenshots (PNG) of the opening picture of a page served here, one of each size."""
    import uvicorn
    from playwright.sync_api import sync_playwright
    from threadpoolctl import threadpool_limits

    threadpool_limits(1)
    wire = listen(0)
    server = uvicorn.Server(uvicorn.Config(application(), log_level="warning"))
    threading.Thread(target=server.run, kwargs={"sockets": [wire]}, daemon=True).start()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=list(FLAGS))
        page = browser.new_page(reduced_motion="reduce")
        page.goto(f"http://localhost:{wire.getsockname()[1]}/{STATE}")
        page.wait_for_selector("html[data-ready=all]")
        pictures = []
        for width, height in PICTURES.values():
            page.set_viewport_size({"width": width, "height": height})
            page.wait_for_timeout(500)
            pictures.append(page.screenshot())
        browser.close()
    server.should_exit = True
    return pictures


def main() -> None:
    """Write the pictures with palettes of 255 colours, which keeps them small."""
    from PIL import Image

    parser = argparse.ArgumentParser(description="Write docs/images/page.png and the page's preview.png.")
    parser.add_argument("--chromium", default=shutil.which("chromium") or "chromium")
    for path, picture in zip(PICTURES, draw(parser.parse_args().chromium), strict=True):
        path.parent.mkdir(parents=True, exist_ok=True)
        image = Image.open(io.BytesIO(picture)).convert("RGB")
        image.quantize(255, dither=Image.Dither.NONE).save(path, optimize=True)
        print(f"wrote {path} ({path.stat().st_size / 1000:.0f} kB)")


if __name__ == "__main__":
    main()
