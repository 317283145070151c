"""The package as a whole: how long `import assocmem` takes, and the seconds and peak memory of `assocmem reproduce`.

    python benchmarks/whole.py [--json] [--quick]

Each command runs in processes of its own. Its peak is the largest sum, over the command and all its children, of the
memory that is a process's own, and once what the largest has mapped from files (libraries, which they share), sampled
every 50 ms from numbers that the system keeps anyway, so that watching doesn't slow what is watched; where the system
doesn't say, there is none. The quick reproduction is run five times, and the median kept. `--quick` leaves the whole
one out.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

IMPORT = """
import time
start = time.perf_counter()
import assocmem
seconds = time.perf_counter() - start
import sys
heavy = [name for name in ("scipy", "torch", "polars", "altair", "numpy") if name in sys.modules]
print(seconds, *heavy)
"""
REPEATS, QUICK_REPEATS = 15, 5


def importing(repeats: int = REPEATS) -> dict[str, Any]:
    """Return the median seconds of `import assocmem` in fresh processes, and the heavy packages that it loads."""
    found = []
    for _ in range(repeats):
        done = subprocess.run([sys.executable, "-c", IMPORT], capture_output=True, text=True, check=True)
        seconds, *heavy = done.stdout.split()
        found.append(float(seconds))
    return {"benchmark": "import", "seconds": statistics.median(found), "loads": heavy, "repeats": repeats}


def reproducing(*words: str) -> dict[str, Any]:
    """Return the seconds and the peak memory of one `assocmem reproduce`, in megabytes."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "assocmem", "reproduce", *words, "--out", folder]
        start = time.perf_counter()
        running = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        peak = watch(running)
        seconds = time.perf_counter() - start
        if running.returncode not in (0, 1):
            told = running.stderr.read().decode() if running.stderr else ""
            raise RuntimeError(f"{' '.join(command)} ended with {running.returncode}: {told[-500:]}")
        size = sum(path.stat().st_size for path in Path(folder).iterdir())
    return {
        "benchmark": "reproduce", "words": list(words), "seconds": seconds, "peak_megabytes": peak,
        "folder_megabytes": size / 1e6, "all_explained": running.returncode == 0,
    }  # fmt: skip


def watch(running: subprocess.Popen[bytes]) -> float | None:
    """Wait for a process to end; return the largest memory of it and its children in megabytes."""
    peak = 0.0
    while running.poll() is None:
        found = [megabytes(pid) for pid in family(running.pid)]
        peak = max(peak, sum(own for own, _ in found) + max((mapped for _, mapped in found), default=0.0))
        time.sleep(0.05)
    return peak or None


def family(pid: int) -> list[int]:
    """Return a process and all its descendants."""
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        children = []
    return [pid, *(found for child in children for found in family(int(child)))]


def megabytes(pid: int) -> tuple[float, float]:
    """Return a process's own memory and what it has mapped from files; zeros where it is gone or nothing is said."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0.0, 0.0
    found = {name: int(rest.split()[0]) / 1024 for name, _, rest in (x.partition(":") for x in lines) if "Rss" in name}
    return found.get("RssAnon", 0.0) + found.get("RssShmem", 0.0), found.get("RssFile", 0.0)


def rows(*, quick: bool = False) -> list[dict[str, Any]]:
    """Return a row for the import, the median quick reproduction and (unless `quick`) the whole one."""
    quickly = [reproducing("--quick") for _ in range(1 if quick else QUICK_REPEATS)]
    found = [importing(3 if quick else REPEATS), sorted(quickly, key=lambda row: row["seconds"])[len(quickly) // 2]]
    return found if quick else [*found, reproducing()]


def main(words: Sequence[str] | None = None) -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print JSON instead of sentences")
    parser.add_argument("--quick", action="store_true", help="leave the whole reproduction out")
    given = parser.parse_args(words)
    found = rows(quick=given.quick)
    if given.json:
        print(json.dumps({"benchmark": "whole", "load": list(os.getloadavg()), "rows": found}))
        return
    for row in found:
        if row["benchmark"] == "import":
            heavy = ", ".join(row["loads"]) or "no heavy package"
            print(f"import assocmem: {1e3 * row['seconds']:.0f} ms, loads {heavy}")
        else:
            peak = "unknown" if row["peak_megabytes"] is None else f"{row['peak_megabytes']:.0f} MB"
            print(f"{' '.join(['assocmem reproduce', *row['words']])}: {row['seconds']:.1f} s, peak {peak}")


if __name__ == "__main__":
    main()
