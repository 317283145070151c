"""All benchmarks, one table: what was measured, beside what, how it compares, and what was asked for.

    python benchmarks/run.py [--only NAME ...] [--quick] [--json] [--write-docs]

Each benchmark runs in a process of its own, one after the other, so none pays for what another left in memory. Run
it on a machine that does nothing else: load before and after is printed. Both variables in FORBIDDEN change which
kernels OpenBLAS picks and with them the ratios; they are taken out of the benchmarks' environment with a warning.
Those beside PyTorch need torch, the page's latency needs playwright and chromium; what cannot run says so.

--write-docs puts the table into docs/benchmarks.md. The whole takes about ten minutes, --quick two.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import date
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
PAGE = HERE.parent / "docs" / "benchmarks.md"
START, END = "<!-- generated: benchmarks -->", "<!-- end: benchmarks -->"
FORBIDDEN = ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE")
LIMIT_SECONDS = 1200
CHROMIUM = os.environ.get("ASSOCMEM_CHROMIUM") or shutil.which("chromium") or "chromium"


@dataclass(frozen=True)
class Line:
    """One line of the table; `met` is None where nothing was asked for."""

    benchmark: str
    what: str
    found: str
    asked: str = ""
    met: bool | None = None

    @classmethod
    def held(cls, benchmark: str, what: str, found: str, asked: str, met: bool) -> Line:
        """Return a line with a target."""
        return cls(benchmark, what, found, asked, bool(met))


def curve_lines(rows: list[dict[str, Any]]) -> list[Line]:
    """Return the lines of `curves.py`."""
    lines = []
    for row in rows:
        seconds, ratio, full = row["seconds"], row["ratio"], row["target_seconds"] is not None
        of = row["what"]
        lines += [
            Line.held("curves", of, f"{seconds:.2f} s", "under 6 s", seconds < 6) if full
            else Line("curves", of, f"{seconds:.2f} s"),
            Line.held("curves", "beside a plain NumPy script", f"{ratio:.0f} times as fast", "at least 500 times",
                      ratio >= 500) if full else Line("curves", "beside a plain script", f"{ratio:.0f} times as fast"),
            Line("curves", "keys sampler beside the same script", f"{row['keys_ratio']:.2f} times as fast"),
        ]  # fmt: skip
    return lines


def recall_lines(data: dict[str, Any]) -> list[Line]:
    """Return the lines of `recall_softmax.py`."""
    lines = []
    for row in data["rows"]:
        if "slope" in row:
            text, slope = f"time grows as M^{row['slope']:.3f}", row["slope"]
            lines.append(Line.held("recall", "64 queries, M to 2^22", text, "0.93 to 1.05", 0.93 <= slope <= 1.05))
            continue
        of = f"M = {row['n_memories']:,}, {row['n_queries']} queries"
        ours, other, times = 1e3 * row["seconds"], 1e3 * row["torch_seconds"], row["times_as_fast"]
        text = f"{ours:.1f} ms, torch's fused attention {other:.1f} ms: {times:.2f} times as fast"
        lines.append(Line.held("recall", of, text, "at least 1.2 times", times >= 1.2))
        least = 1e3 * row["products_seconds"]
        text = f"{least:.1f} ms for the two matrix products alone: {other / least:.2f} times as fast as torch's whole"
        lines.append(Line("recall", of, text))
        peak = row["peak_megabytes"]
        if peak is not None:
            lines.append(Line.held("recall", of, f"{peak:.1f} MB above its inputs", "at most 64 MB", peak <= 64))
    return lines


def write_lines(data: dict[str, Any]) -> list[Line]:
    """Return the lines of `single_writes.py`."""
    lines = []
    for row in data["rows"]:
        if row["benchmark"] == "write_and_recall":
            times = row["times_recalls_alone_median"]
            of = f"{row['store']}, {row['turns']:,} writes and recalls in turn at M = {row['n_memories']:,}"
            lines.append(
                Line.held("writes", of, f"{times:.2f} times the recalls alone", "at most 1.5 times", times <= 1.5)
            )
            continue
        last, growth = row["microseconds_last_tenth"], row["last_over_first"]
        of = f"{row['store']}, {row['writes']:,} single writes"
        text = f"{last:.1f} us a write at the end, {growth:.2f} times the start"
        lines.append(Line.held("writes", of, text, "about 20 us, as at the start", last <= 22 and growth <= 1.25))
    return lines


def scan_lines(rows: list[dict[str, Any]]) -> list[Line]:
    """Return the lines of `scan.py`."""
    lines = []
    for row in rows:
        wanted = 4 if row["store"] == "mamba-2" else 2
        loop, chunks = row["times_token_loop"], row["times_torch_chunks"]
        of = f"{row['store']}, T = {row['tokens']}, {row['heads']} heads: {1e3 * row['seconds']:.1f} ms"
        lines += [
            Line.held("scan", of, f"{loop:.1f} times the NumPy token loop", f"at least {wanted}", loop >= wanted),
            Line.held("scan", of, f"{chunks:.2f} times torch's chunk form", "at least 1", chunks >= 1),
        ]
    return lines


def fused_lines(rows: list[dict[str, Any]]) -> list[Line]:
    """Return the lines of `fused_attention.py`."""
    lines = []
    for row in rows:
        of, times = f"{row['what']}, T = {row['tokens']}, 8 heads", row["times_as_fast"]
        ours, other, busy = 1e3 * row["seconds"], 1e3 * row["torch_seconds"], row.get("times_as_fast_busy")
        text = f"{ours:.1f} ms, torch's fused attention {other:.1f} ms: {times:.2f} times as fast"
        lines.append(Line.held("torch arrays", of, text, "at least 0.9 times", times >= 0.9))
        if busy is not None:
            text = f"{busy:.2f} times as fast beside two busy processes"
            lines.append(Line.held("torch arrays", of, text, "at least 0.8 times", busy >= 0.8))
    return lines


def least_squares_lines(rows: list[dict[str, Any]]) -> list[Line]:
    """Return the lines of `least_squares_scan.py`."""
    lines = []
    for row in rows:
        of = f"optimal-linear, T = {row['tokens']}, {row['heads']} heads, {row['dtype']}: {1e3 * row['seconds']:.0f} ms"
        times = row["times_loop"]
        lines.append(Line.held("scan", of, f"{times:.0f} times the loop", "at least 50 times", times >= 50))
    return lines


def large_lines(rows: list[dict[str, Any]]) -> list[Line]:
    """Return the lines of `large_m.py`."""
    one, command, theory = rows
    of, took, peak = "softmax, beta = 14, d_k = 64, M = 1,000,000,000", one["seconds"], one["megabytes"]
    text = f"ratio {one['value']:.5f} ({one['low']:.5f} to {one['high']:.5f}), theory {one['theory']:.5f}, {took:.1f} s"
    lines = [Line.held("large M", of, text, "under 10 s", took < 10)]
    if peak is not None:
        lines.append(Line.held("large M", of, f"{peak:.0f} MB above its start", "at most 64 MB", peak <= 64))
    lines.append(Line("large M", "assocmem capacity --max-memories 1e10", f"{command['seconds']:.1f} s"))
    text = f"one trial's squared ratio has a relative standard deviation of {theory['deviation']:.1g} by theory"
    return [*lines, Line("large M", "M = 1,000,000,000,000", text)]


def page_lines(data: list[Any]) -> list[Line]:
    """Return the lines of `page_latency.py`."""
    first, cases = data
    lines = [
        Line.held("page", "first load", f"usable after {first['first_ms'] / 1e3:.2f} s", "under 2 s",
                  first["first_ms"] < 2000),
        Line.held("page", "first load", f"{first['kilobytes'] / 1e3:.2f} MB sent", "under 1.5 MB",
                  first["kilobytes"] < 1500),
    ]  # fmt: skip
    for row in cases:
        text = f"median {row['median_ms']:.0f} ms, 95th percentile {row['p95_ms']:.0f} ms"
        if "first visit" in row["case"]:
            lines.append(Line("page", row["case"], text))
        else:
            met = row["median_ms"] < 50 and row["p95_ms"] < 100
            lines.append(Line.held("page", row["case"], text, "under 50 and 100 ms", met))
    return lines


def slot_lines(rows: list[dict[str, Any]]) -> list[Line]:
    """Return the lines of `sparse_slots.py`."""
    lines = []
    for row in rows:
        of, times = f"{row['slots']:,} slots, k = 32, {row['n_queries']} queries", row["times_dense"]
        text = f"{row['microseconds_a_query']:.0f} us a query, {times:.0f} times as fast as dense softmax over them"
        lines.append(Line.held("sparse slots", of, text, "at least 50 times", times >= 50))
    return lines


def mapped_lines(rows: list[dict[str, Any]]) -> list[Line]:
    """Return the lines of `mapped_slots.py`."""
    lines = []
    for row in rows:
        of, most = f"{row['pairs']:,} pairs in {row['megabytes_on_disk']:.0f} MB of files", row["most_own_megabytes"]
        lines.append(
            Line.held("mapped slots", of, f"{most:.0f} MB of memory of its own", "at most 1000 MB", most <= 1000)
        )
        text = f"{row['queries']} recalls in {row['seconds_recalled']:.1f} s, off by {row['error_recalled']:.1g}"
        lines.append(Line("mapped slots", of, text))
        for name, words in (("nearest", "32 nearest, exact"), ("index", "32 nearest, through the index")):
            text = f"{words}: {row['queries']} recalls in {row[f'seconds_{name}']:.1f} s, off from softmax by "
            text += f"{row[f'error_{name}']:.2g}, at most {row[f'bound_{name}']:.2g} by the mass dropped"
            lines.append(Line("mapped slots", of, text))
    return lines


def hop_lines(rows: list[dict[str, Any]]) -> list[Line]:
    """Return the lines of `hops.py`."""
    command, memory = rows
    modules, calls = f"{command['modules']} of our modules", f"{memory['calls']} calls into our code"
    return [
        Line.held("hops", "`assocmem capacity softmax --d-k 64`", modules, "at most 20", command["modules"] <= 20),
        Line.held("hops", "two pairs written, one recalled", calls, "at most 110", memory["calls"] <= 110),
    ]


def whole_lines(rows: list[dict[str, Any]]) -> list[Line]:
    """Return the lines of `whole.py`."""
    lines = []
    for row in rows:
        seconds = row["seconds"]
        if row["benchmark"] == "import":
            met = seconds < 0.1 and not set(row["loads"]) & {"scipy", "torch", "polars", "altair"}
            text = f"{1e3 * seconds:.0f} ms, loads {', '.join(row['loads']) or 'no heavy package'}"
            lines.append(Line.held("whole", "import assocmem", text, "under 100 ms, nothing heavy", met))
            continue
        limit, of = (5, "assocmem reproduce --quick") if row["words"] else (60, "assocmem reproduce")
        lines.append(Line.held("whole", of, f"{seconds:.1f} s", f"under {limit} s", seconds < limit))
        if row["peak_megabytes"] is not None:
            peak = row["peak_megabytes"]
            lines.append(Line.held("whole", of, f"peak {peak:.0f} MB", "under 1000 MB", peak < 1000))
    return lines


def compare_lines(rows: list[dict[str, Any]]) -> list[Line]:
    """Return the lines of `compare.py`."""
    lines = []
    for row in rows:
        limit, of = (10, " --quick") if row["words"] else (60, "")
        text, what = f"{row['seconds']:.1f} s", f"assocmem compare{of}, six stores at four widths"
        lines.append(Line.held("compare", what, text, f"under {limit} s", row["seconds"] < limit))
    return lines


def lossless_lines(rows: list[dict[str, Any]]) -> list[Line]:
    """Return the lines of `lossless.py`."""
    ours, *others = rows
    beside = ", ".join(f"{row['coder']} {row['bits_per_character']:.2f}" for row in others)
    text = f"{ours['bits_per_character']:.2f} bits a character, {beside}; {ours['encode_ms_per_byte']:.1f} ms a byte"
    least = min(row["bits_per_character"] for row in others)
    of = f"{ours['bytes']:,} bytes of English, decoded to the same"
    return [Line.held("lossless", of, text, "fewer bits than all", ours["bits_per_character"] < least)]


@dataclass(frozen=True)
class Benchmark:
    """A module of this folder: the call that gives its data (quick and whole), and what reads lines from them."""

    call: str
    quick: str
    read: Callable[[Any], list[Line]]


BENCHMARKS = {
    "hops": Benchmark("hops.rows()", "hops.rows()", hop_lines),
    "whole": Benchmark("whole.rows()", "whole.rows(quick=True)", whole_lines),
    "compare": Benchmark("compare.rows()", "compare.rows(quick=True)", compare_lines),
    "curves": Benchmark("curves.rows()", "curves.rows(quick=True)", curve_lines),
    "recall_softmax": Benchmark(
        "recall_softmax.main(as_json=True)", "recall_softmax.main(as_json=True, repeats=3, quick=True)", recall_lines
    ),
    "single_writes": Benchmark(
        "single_writes.main(as_json=True)", "single_writes.main(as_json=True, writes=50_000, turns=500)", write_lines
    ),
    "sparse_slots": Benchmark("sparse_slots.rows()", "sparse_slots.rows(256, 16, 3)", slot_lines),
    "mapped_slots": Benchmark("mapped_slots.rows()", "mapped_slots.rows(200_000)", mapped_lines),
    "scan": Benchmark("scan.rows()", "scan.rows(tokens=1024, repeats=3)", scan_lines),
    "lossless": Benchmark("lossless.rows()", "lossless.rows(512)", lossless_lines),
    "fused_attention": Benchmark(
        "fused_attention.rows()", "fused_attention.rows((256,), 3, under_load=False)", fused_lines
    ),
    "least_squares_scan": Benchmark(
        "least_squares_scan.rows()", "least_squares_scan.rows(128, 1)", least_squares_lines
    ),
    "large_m": Benchmark("large_m.rows()", "large_m.rows()", large_lines),
    "page_latency": Benchmark(
        f"page_latency.measure(30, {CHROMIUM!r})", f"page_latency.measure(5, {CHROMIUM!r})", page_lines
    ),
}


def measured(name: str, quick: bool) -> Any:
    """Run one benchmark in a process of its own and return its data; RuntimeError says why it could not run."""
    bench = BENCHMARKS[name]
    code = f"import json, {name}; print(json.dumps({bench.quick if quick else bench.call}))"
    environment = {key: value for key, value in os.environ.items() if key not in FORBIDDEN}
    try:
        done = subprocess.run(
            [sys.executable, "-c", code], cwd=HERE, env=environment, capture_output=True, text=True, check=False,
            timeout=LIMIT_SECONDS,
        )  # fmt: skip
    except subprocess.TimeoutExpired as error:
        raise RuntimeError(f"it took longer than {LIMIT_SECONDS} s") from error
    if done.returncode:
        raise RuntimeError((done.stderr.strip().splitlines() or ["it failed without a word"])[-1])
    return json.loads(done.stdout.splitlines()[-1])


def collected(names: Sequence[str], quick: bool) -> tuple[list[Line], dict[str, Any]]:
    """Return the lines and the data of all benchmarks named; smaller sizes are held to no target."""
    lines: list[Line] = []
    data: dict[str, Any] = {}
    for name in names:
        start = time.perf_counter()
        print(f"{name} ...", end=" ", file=sys.stderr, flush=True)
        try:
            data[name] = measured(name, quick)
            found = BENCHMARKS[name].read(data[name])
            lines += [replace(line, asked="", met=None) for line in found] if quick else found
        except RuntimeError as error:
            lines.append(Line(name, "not run", str(error)))
        print(f"{time.perf_counter() - start:.0f} s", file=sys.stderr)
    return lines, data


def machine() -> str:
    """Return this machine and its software in one sentence."""
    import numpy as np
    from threadpoolctl import threadpool_info

    model = platform.processor() or platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        names = [line.split(":", 1)[1].strip() for line in cpuinfo.read_text().splitlines() if "model name" in line]
        model = names[0] if names else model
    blas = next((f"{info['internal_api']} {info['version']}" for info in threadpool_info()), "unknown BLAS")
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return f"{model}, {cores} cores, Python {platform.python_version()}, NumPy {np.__version__}, {blas}"


def table(lines: Sequence[Line]) -> str:
    """Return the lines as a Markdown table."""
    words = {True: "met", False: "**missed**", None: ""}
    rows = ["| benchmark | what | measured | asked for | |", "|---|---|---|---|---|"]
    rows += [f"| {x.benchmark} | {x.what} | {x.found} | {x.asked} | {words[x.met]} |".replace("  ", " ") for x in lines]
    return "\n".join(rows)


def write_page(lines: Sequence[Line], heading: str) -> None:
    """Replace the table in docs/benchmarks.md."""
    text = PAGE.read_text(encoding="utf-8")
    if START not in text or END not in text:
        raise SystemExit(f"the markers {START} and {END} are missing in {PAGE.name}.")
    head, rest = text.split(START, 1)
    PAGE.write_text(f"{head}{START}\n{heading}\n\n{table(lines)}\n{END}{rest.split(END, 1)[1]}", encoding="utf-8")


def main() -> int:
    """Run what was asked for and print it; exit status 1 where a target was missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", choices=list(BENCHMARKS), help="a benchmark; may be given again")
    parser.add_argument("--quick", action="store_true", help="smaller sizes, fewer repeats: shows that all run")
    parser.add_argument("--json", action="store_true", help="print JSON instead of the table")
    parser.add_argument("--write-docs", action="store_true", help="put the table into docs/benchmarks.md")
    given = parser.parse_args()
    for name in FORBIDDEN:
        if name in os.environ:
            print(f"warning: {name} is set; it is taken away, as it changes the kernels compared.", file=sys.stderr)
    before = os.getloadavg()[0]
    lines, data = collected(given.only or list(BENCHMARKS), given.quick)
    load = f"load {before:.1f} before and {os.getloadavg()[0]:.1f} after"
    heading = f"{machine()}; {date.today().isoformat()}; {load}{'; --quick' if given.quick else ''}."
    if given.json:
        print(json.dumps({"machine": heading, "lines": [asdict(x) for x in lines], "data": data}))
    else:
        print(f"{heading}\n\n{table(lines)}")
    if given.write_docs:
        write_page(lines, heading)
    return 1 if any(line.met is False for line in lines) else 0


if __name__ == "__main__":
    sys.exit(main())
