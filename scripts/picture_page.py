"""Write docs/images/page.png: the page's opening, as it stands at 1280 pixels.

python scripts/picture_page.py [--chromium /usr/bin/chromium]
"""

from __future__ import annotations

import argparse
import io
import shutil
import threading
from pathlib import Path

from assocmem.page.server import application, listen

PICTURE = Path(__file__).parent.parent / "docs" / "images" / "page.png"
STATE = "#count=96&picture=outer&letter=g"
FLAGS = ("--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-sync", "--no-first-run")


def draw(chromium: str) -> bytes:
    """Return a screenshot (PNG) of the opening picture of a page served here."""
    import uvicorn
    from playwright.sync_api import sync_playwright
    from threadpoolctl import threadpool_limits

    threadpool_limits(1)
    wire = listen(0)
    server = uvicorn.Server(uvicorn.Config(application(), log_level="warning"))
    threading.Thread(target=server.run, kwargs={"sockets": [wire]}, daemon=True).start()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=list(FLAGS))
        page = browser.new_page(viewport={"width": 1280, "height": 1010}, reduced_motion="reduce")
        page.goto(f"http://localhost:{wire.getsockname()[1]}/{STATE}")
        page.wait_for_selector("html[data-ready=all]")
        page.wait_for_timeout(500)
        picture: bytes = page.screenshot()
        browser.close()
    server.should_exit = True
    return picture


def main() -> None:
    """Write the picture with a palette of 255 colours, which keeps it small."""
    from PIL import Image

    parser = argparse.ArgumentParser(description="Write docs/images/page.png.")
    parser.add_argument("--chromium", default=shutil.which("chromium") or "chromium")
    image = Image.open(io.BytesIO(draw(parser.parse_args().chromium))).convert("RGB")
    PICTURE.parent.mkdir(parents=True, exist_ok=True)
    image.quantize(255, dither=Image.Dither.NONE).save(PICTURE, optimize=True)
    print(f"wrote {PICTURE} ({PICTURE.stat().st_size / 1000:.0f} kB)")


if __name__ == "__main__":
    main()
