"""`reproduce`: every figure and number of the article, and ours beyond it, into one folder."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import typer

from assocmem.cli import Stopped, app
from assocmem.cli.output import print_table
from assocmem.cli.settings import writable
from assocmem.contract.errors import InputError

OUT = Path("reproduced")
TABLE_TITLE = "Every printed number, repeated (root mean squares over trials; of the optimal linear store medians)"


@app.command()
def reproduce(
    only: list[str] = typer.Option([], "--only", help="An experiment's name; may be given several times."),
    quick: bool = typer.Option(False, "--quick", help="Fewer trials and smaller M, no PDF and SVG: a few seconds."),
    seed: int = typer.Option(0, "--seed", min=0, help="Seed of all random streams."),
    out: Path = typer.Option(OUT, "--out", help="Folder to write."),
    workers: int | None = typer.Option(None, "--workers", min=1, help="Threads; by default all cores."),
) -> None:
    """Repeat every number, curve and table of the article, each beside its exact theory, into a folder.

    Writes index.html (a report that opens offline), PNG, SVG and PDF of every figure, CSV and NDJSON of every result,
    and verdict.json: each printed number beside ours, with interval, exact value and a verdict in words.
    """
    began = time.perf_counter()
    from assocmem.cli.reproduction import Reproduction
    from assocmem.kernels.compute import Helpers
    from assocmem.report.export import warm

    if only:
        _known(only)
    writable(out)
    _own_folder(out)
    if quick and workers is None:
        workers = 1  # its tasks are small, and charts are drawn beside
    with Helpers(1) as drawer, Helpers(1) as aside:
        drawer.submit(warm)  # what draws is loaded while what measures is
        from assocmem.experiments import catalogue
        from assocmem.experiments.experiment import Run

        wanted = catalogue.chosen(only)
        made = Reproduction(out, Run(seed=seed, quick=quick, workers=workers), drawer, aside)
        interrupted = made.measure(wanted)
        seconds = time.perf_counter() - began
        try:
            rows = made.finish(wanted, seconds=seconds)
        except KeyboardInterrupt:  # little is left to do
            interrupted = True
            rows = made.finish(wanted, seconds=seconds)
    _print_verdicts(rows)
    done = len(made.results)
    print(f"{done} of {len(wanted)} experiments, {time.perf_counter() - began:.1f} s. Open {out / 'index.html'}")
    older = [e.name for e in catalogue.experiments() if e not in wanted and (out / f"{e.name}.ndjson").exists()]
    if older:
        print(f"note: files of an earlier run stay in {out}, outside this report: {', '.join(older)}.")
    if interrupted:
        raise Stopped("stopped by Ctrl-C: what was finished is written, and the report names the rest.")
    if any(row["verdict"] == "differs" for row in rows):
        raise typer.Exit(1)


def _own_folder(out: Path) -> None:
    """Refuse a folder with an index.html of somebody else's."""
    page = out / "index.html"
    if page.exists() and not (out / "verdict.json").exists():
        raise InputError(f"{page} is there and not from a run of assocmem; name another folder with --out.")


def _known(names: Sequence[str]) -> None:
    """Refuse an unknown name before anything starts."""
    from assocmem.experiments import catalogue

    catalogue.chosen(list(names))


def _print_verdicts(rows: Sequence[dict[str, Any]]) -> None:
    if not rows:
        return
    from assocmem.report.html import as_printed, exact_of, significant, span

    notes: list[str] = []
    lines = []
    for r in rows:
        verdict = r["verdict"]
        if verdict != "agrees" and r["reason"]:
            notes += [r["reason"]] * (r["reason"] not in notes)
            verdict += f" ({notes.index(r['reason']) + 1})"
        printed = as_printed(r["printed"]).replace(", ", ",\n")
        ours, exact = significant(r["value"]), exact_of(r)
        lines.append([r["name"], printed, ours, span(r["low"], r["high"]), exact, verdict])
    columns = ["number", "printed", "measured", "95 % interval", "exact", "verdict"]
    print_table(columns, lines, title=TABLE_TITLE, numeric=columns[1:5])
    for i, note in enumerate(notes):
        print(f"({i + 1}) {note}")
    covered = [r["exact_in_interval"] for r in rows if r["exact_in_interval"] is not None]
    kinds = Counter(r["verdict"] for r in rows)
    print(
        f"{kinds['agrees']} agree, {kinds['explained']} are explained, {kinds['not printed']} not printed, "
        f"{kinds['differs']} differ.\n{sum(covered)} of {len(covered)} intervals hold the exact value (95 % are meant "
        f"to); {len(rows) - len(covered)} more rows have an exact value that is 0, approximate (medians) or none."
    )
