"""Headless Chromium for the page's tests: it refuses every other host and remembers whatever went wrong."""

from __future__ import annotations

import contextlib
import os
import shutil
import threading
import time
from urllib.parse import urlsplit

import pytest

FLAGS = (
    "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--no-first-run",
)  # fmt: skip
HERE = ("localhost", "127.0.0.1")
TWO_FRAMES = """() => new Promise((done) =>
  requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(done, 30))))"""
LOADED = "html[data-ready=all]"


def parsed(text):
    """Return the number written as the page does: 1,024, 0.5 or 7.46 × 10⁻⁴."""
    digits, _, power = text.replace(",", "").partition(" × 10")
    return float(digits) * 10.0 ** int(power.translate(str.maketrans("⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "-0123456789")) or "0")


def chromium():
    """Return the path of a Chromium, or skip the test."""
    found = os.environ.get("ASSOCMEM_CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
    if not found:
        pytest.skip("there is no chromium on this machine")
    return found


@contextlib.contextmanager
def browser():
    """Yield a headless Chromium."""
    api = pytest.importorskip("playwright.sync_api", reason="needs playwright")
    with api.sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=chromium(), args=list(FLAGS))
        yield running
        running.close()


@contextlib.contextmanager
def live_page():
    """Yield the address of the live page, served from this process."""
    import uvicorn

    from assocmem.page.server import application, listen

    wire = listen(0)
    server = uvicorn.Server(uvicorn.Config(application(), log_level="warning", access_log=False, lifespan="off"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [wire]}, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    yield f"http://localhost:{wire.getsockname()[1]}/"
    server.should_exit = True
    thread.join(timeout=5)
    wire.close()


class Tab:
    """A page that notes every console error or warning, page error, failed request and request to another host."""

    def __init__(self, browser, width=1280, **settings):
        settings = {"reduced_motion": "reduce", "viewport": {"width": width, "height": 900}} | settings
        self.context = browser.new_context(**settings)
        self.page = self.context.new_page()
        self.page.set_default_timeout(15000)
        self.problems = []
        self.context.route("**/*", self._allow)
        self.page.on("console", self._console)
        self.page.on("pageerror", lambda error: self.problems.append(f"page error: {error}"))
        self.page.on("requestfailed", lambda request: self.problems.append(f"failed: {request.url[:200]}"))

    def _allow(self, route):
        address = urlsplit(route.request.url)
        if address.scheme in ("data", "blob", "file") or address.hostname in HERE:
            return route.continue_()
        self.problems.append(f"outside request: {route.request.url}")
        return route.abort()

    def _console(self, message):
        if message.type in ("error", "warning"):
            self.problems.append(f"console {message.type}: {message.text}")

    def open(self, address):
        """Go to the address and wait until every section is there."""
        self.page.goto(address)
        self.page.wait_for_selector(LOADED, timeout=60000)  # a busy machine computes its first answers
        return self

    def text(self, selector):
        """Return the text of an element."""
        return self.page.text_content(selector).strip()

    def number(self, selector):
        """Return the number that an element shows."""
        return parsed(self.text(selector))

    def shows(self, selector, value):
        """Wait until an element shows a number, to its three digits."""
        deadline = time.monotonic() + 8
        while (shown := self.number(selector)) != pytest.approx(value, rel=6e-3, abs=1e-12):
            assert time.monotonic() < deadline, f"{selector} shows {shown}, not {value}"
            self.page.wait_for_timeout(20)

    def press(self, selector, *keys):
        """Focus an element and press keys; the page has then painted."""
        self.page.focus(selector)
        for key in keys:
            self.page.keyboard.press(key)
        self.settle()

    def settle(self):
        """Wait for two frames and what they started."""
        self.page.evaluate(TWO_FRAMES)

    def slide(self, selector, share, steps=6):
        """Drag a slider's thumb with the mouse to a share (0..1) of its way."""
        slider = self.page.locator(selector)
        slider.scroll_into_view_if_needed()
        box = slider.bounding_box()
        low, high = (float(slider.get_attribute(name)) for name in ("min", "max"))
        now = (float(slider.input_value()) - low) / (high - low)
        at = lambda part: box["x"] + 8 + part * (box["width"] - 16)  # noqa: E731 (the thumb is 16 px wide)
        middle = box["y"] + box["height"] / 2
        self.page.mouse.move(at(now), middle)
        self.page.mouse.down()
        self.page.mouse.move(at(share), middle, steps=steps)
        self.page.mouse.up()
        self.settle()

    def close(self):
        """Close the tab and fail on anything noted."""
        self.context.close()
        assert self.problems == []
