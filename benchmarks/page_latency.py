"""The page in headless Chromium: from a real pointer move on a slider to the repainted bars, at M = 1024.

A move is timed inside the page, from the pointer event's own time stamp to the first task after the frame in which
the bars were drawn again. Each line is 30 moves; "first visit" asks the server for values that it has not computed
yet, the other lines move among values that the page or the server already holds. The first load is timed from the
navigation's start, and weighed as sent (compressed).

    python benchmarks/page_latency.py [--moves 30] [--chromium /usr/bin/chromium]
"""

from __future__ import annotations

import argparse
import contextlib
import re
import shutil
import statistics
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

FLAGS = (
    "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--no-first-run",
)  # fmt: skip

WATCH = """() => {
  let moved = 0;
  const bars = document.getElementById('bars-chart');
  document.addEventListener('input', (event) => (moved = event.timeStamp), true);
  window.times = [];
  new MutationObserver(() => requestAnimationFrame(() => {
    const channel = new MessageChannel();
    channel.port1.onmessage = () => window.times.push(performance.now() - moved);
    channel.port2.postMessage(0);
  })).observe(bars, { attributes: true, attributeFilter: ['data-rows'] });
}"""

LOADED = """() => {
  const all = [...performance.getEntriesByType('resource'), ...performance.getEntriesByType('navigation')];
  return all.reduce((sum, entry) => sum + entry.transferSize, 0);
}"""


@dataclass(frozen=True)
class Case:
    """A slider moved among some of its last positions, with the controls in the state of an address."""

    name: str
    address: str
    slider: str
    positions: Sequence[int]


CASES = (
    Case("M, outer product", "#store=outer&m=1024", "m", (25, 24, 23, 26)),
    Case("M, optimal linear", "#store=optimal&m=1024", "m", (25, 24, 23, 26)),
    Case("M, softmax", "#store=softmax&m=1024", "m", (25, 24, 23, 26)),
    Case("beta, softmax, first visit", "#store=softmax&m=1024&cosine=0.9&beta=0.5", "beta", tuple(range(1, 24))),
    Case("beta, softmax", "#store=softmax&m=1024&cosine=0.9&beta=0.5", "beta", (10, 12, 11, 14, 13)),
    Case("cosine, squared ReLU", "#store=squared&m=1024&beta=8", "cosine", (1, 2, 3, 4, 0)),
    Case("key width, optimal linear, first visit", "#store=optimal&m=1024&draw=3", "width", (0, 1, 3, 2)),
)


@contextlib.contextmanager
def server() -> Iterator[str]:
    """Yield the address of a page served by a process of its own."""
    command = [sys.executable, "-m", "assocmem", "explore", "--no-browser", "--port", "0"]
    running = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        line = running.stdout.readline() if running.stdout else ""
        found = re.search(r"http://\S+", line)
        if found is None:
            raise RuntimeError(f"the page did not start: {line!r}")
        yield found[0]
    finally:
        running.terminate()
        running.wait()


def load(page: Any, address: str) -> dict[str, Any]:
    """Load the page afresh; return milliseconds to the first usable bars and to all sections, and kilobytes sent."""
    page.goto(address, wait_until="commit")
    page.wait_for_selector("html[data-ready]")
    first = page.evaluate("() => performance.now()")
    page.wait_for_selector("html[data-ready=all]")
    return {
        "first_ms": first,
        "all_ms": page.evaluate("() => performance.now()"),
        "kilobytes": page.evaluate(LOADED) / 1e3,
    }


def moves(page: Any, case: Case, count: int) -> list[float]:
    """Return the milliseconds of `count` pointer moves."""
    page.evaluate("(hash) => { location.hash = hash; }", case.address)
    page.wait_for_timeout(800)
    slider = page.locator(f"#{case.slider}")
    slider.scroll_into_view_if_needed()
    page.wait_for_timeout(300)
    box = slider.bounding_box()
    last = float(slider.get_attribute("max"))

    def point(position: float) -> tuple[float, float]:
        return box["x"] + 8 + position / last * (box["width"] - 16), box["y"] + box["height"] / 2

    page.mouse.move(*point(float(slider.input_value())))
    page.mouse.down()
    page.wait_for_timeout(300)
    times: list[float] = []
    for i in range(count):
        page.evaluate("() => { window.times = []; }")
        page.mouse.move(*point(case.positions[i % len(case.positions)]))
        while not (found := page.evaluate("() => window.times")):
            page.wait_for_timeout(5)
        times.append(found[0])
        page.wait_for_timeout(40)
    page.mouse.up()
    return times


def measure(count: int, chromium: str) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Return the first load and one row a case: name, moves, median, 95th percentile and largest in milliseconds."""
    from playwright.sync_api import sync_playwright

    with server() as address, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=list(FLAGS))
        page = browser.new_context(reduced_motion="reduce", viewport={"width": 1280, "height": 900}).new_page()
        first = load(page, address)
        page.evaluate(WATCH)
        rows = []
        for case in CASES:
            times = sorted(moves(page, case, min(count, len(case.positions)) if "first visit" in case.name else count))
            p95 = times[min(len(times) - 1, round(0.95 * (len(times) - 1)))]
            rows.append(
                {
                    "case": case.name,
                    "moves": len(times),
                    "median_ms": statistics.median(times),
                    "p95_ms": p95,
                    "max_ms": times[-1],
                }
            )
        browser.close()
    return first, rows


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--moves", type=int, default=30)
    parser.add_argument("--chromium", default=shutil.which("chromium") or "chromium")
    chosen = parser.parse_args()
    first, rows = measure(chosen.moves, chosen.chromium)
    print(f"first load: usable after {first['first_ms']:.0f} ms, complete after {first['all_ms']:.0f} ms, "
          f"{first['kilobytes']:.0f} kB sent\n")  # fmt: skip
    print("| slider, store | moves | median ms | 95th percentile ms | largest ms |\n|---|---|---|---|---|")
    for row in rows:
        print(
            f"| {row['case']} | {row['moves']} | {row['median_ms']:.0f} | {row['p95_ms']:.0f} | {row['max_ms']:.0f} |"
        )


if __name__ == "__main__":
    main()
