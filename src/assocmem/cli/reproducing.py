"""`reproduce`: every figure and number of the article, and ours beyond it, into one folder."""

from __future__ import annotations

import platform
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from assocmem.cli.terminal import Seed, Stopped, Workers, print_table, writable
from assocmem.contract.errors import InputError
from assocmem.contract.files import claimed, write_whole
from assocmem.contract.results import as_json

if TYPE_CHECKING:
    from assocmem.contract.results import Results
    from assocmem.experiments.experiment import Experiment, Run
    from assocmem.kernels.compute import Helpers

TITLE = "assocmem: how many memories fit, and what makes recall fail"
TABLE_TITLE = "Every printed number, repeated (root mean squares over trials; of the optimal linear store medians)"
LISTEN = 0.2
"""Seconds after which Ctrl-C is noticed while another process measures."""


def reproduce(
    only: Annotated[list[str], typer.Option(help="An experiment's name; may be given several times.")] = [],  # noqa: B006
    quick: Annotated[
        bool, typer.Option("--quick", help="Fewer trials, smaller M, no PDF and SVG: some seconds.")
    ] = False,
    model: Annotated[
        Path | None,
        typer.Option(metavar="MODEL", help="A trained network for the experiments that read one: some minutes more."),
    ] = None,
    seed: Seed = 0,
    out: Annotated[Path, typer.Option(help="Folder to write.")] = Path("reproduced"),
    workers: Workers = None,
) -> None:
    """Repeat every number, curve and table of the article, each beside its exact theory, into a folder.

    Writes index.html (a report that opens offline), PNG, SVG and PDF of every figure, CSV and NDJSON of every result,
    and verdict.json: each printed number beside ours, with interval, exact value and a verdict in words.
    """
    began = time.perf_counter()
    from assocmem.kernels.compute import Helpers, one_blas_thread
    from assocmem.report.export import warm

    if only or model:  # a name that is none, and a network that cannot be loaded, are refused before anything starts
        _require_network(_chosen(only, model), model)
    writable(out)
    page = out / "index.html"
    if page.exists() and not (out / "verdict.json").exists():
        raise InputError(f"{page} is there and not from a run of assocmem; name another folder with --out.")
    with Helpers(1) as drawer, Helpers(1) as aside:
        drawer.submit(warm)  # what draws is loaded while what measures is
        wanted = _chosen(only, model)
        from assocmem.experiments.experiment import Run

        # The tasks of a quick run are small, and its charts are drawn beside.
        run = Run(seed=seed, quick=quick, workers=1 if quick and workers is None else workers, model=model)
        reproduction = _Reproduction(out, run, drawer, aside)
        with claimed(out), one_blas_thread:
            interrupted = reproduction.measure(wanted)
            seconds = time.perf_counter() - began
            try:
                rows = reproduction.finish(wanted, seconds=seconds)
            except KeyboardInterrupt:  # little is left to do
                interrupted = True
                rows = reproduction.finish(wanted, seconds=seconds)
    _print_verdicts(rows)
    done = len(wanted) - len(reproduction.unfinished(wanted))
    print(f"{done} of {len(wanted)} experiments, {time.perf_counter() - began:.1f} s. Open {page}")
    others = [e for e in _chosen([], Path()) if e not in wanted]
    older = [e.name for e in others if (out / f"{e.name}.ndjson").exists()]
    if not only and others:
        names = ", ".join(e.name for e in others)
        print(f"note: {names} read a trained network; name one with --model (needs the extra trace).")
    if older:
        print(f"note: files of an earlier run stay in {out}, outside this report: {', '.join(older)}.")
    if interrupted:
        raise Stopped("stopped by Ctrl-C: what was finished is written, and the report names the rest.")
    if any(row["verdict"] == "differs" for row in rows):
        raise typer.Exit(1)


def _chosen(names: Sequence[str], model: Path | None) -> tuple[Experiment, ...]:
    from assocmem.experiments import catalogue

    return catalogue.chosen(names, trained=model is not None)


def _require_network(wanted: Sequence[Experiment], model: Path | None) -> None:
    """Load the network that experiments read; refuse those that would have none."""
    reading = [e.name for e in wanted if e.trained]
    if reading and model is None:
        raise InputError(f"{', '.join(reading)}: a trained network is read; name one with --model (extra trace).")
    if reading:
        from assocmem.experiments.trained import live_network

        live_network(model)


@dataclass
class _Reproduction:
    """Where a run writes, how it is made, the processes beside it, and what it has so far.

    drawer: makes pictures. aside: measures what is mostly Python's own (`Experiment.scripted`), which threads don't
    speed up, on one core while this process measures the rest; not in a quick run or with one worker.
    """

    out: Path
    run: Run
    drawer: Helpers
    aside: Helpers
    charts: dict[str, str] = field(default_factory=dict)
    _results: list[Results] = field(default_factory=list)
    _drawing: list[Future[list[Path]]] = field(default_factory=list)
    _in_hand: Results | None = None

    def measure(self, wanted: Sequence[Experiment]) -> bool:
        """Measure, write and send to the drawer every experiment; return whether Ctrl-C stopped it."""
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

        _load()
        aside: dict[str, Future[Results]] = {}
        columns = (TextColumn("{task.description:16}"), BarColumn(), TimeElapsedColumn())
        with Progress(*columns, console=Console(stderr=True)) as bars:
            try:
                if not self.run.quick and self.run.workers != 1:
                    alone = replace(self.run, workers=1)
                    aside |= {e.name: self.aside.submit(e.run, alone) for e in wanted if e.scripted}
                # A quick run is over when the last chart is drawn: what is slow to measure and quick to draw goes last.
                for experiment in sorted(wanted, key=lambda one: self.run.quick and one.slow):
                    if experiment.name not in aside:
                        task = bars.add_task(experiment.name, total=1.0)

                        def report(done: int, total: int, at: Any = task) -> None:
                            bars.update(at, completed=done / max(1, total))

                        self._keep(experiment.run(self.run, report))
                        bars.update(task, completed=1.0)
                for name, measuring in aside.items():
                    task = bars.add_task(name, total=None)
                    while not wait([measuring], timeout=LISTEN).done:
                        pass  # polars takes signals over in a way that doesn't wake a wait without end
                    self._keep(measuring.result())
                    bars.update(task, total=1, completed=1)
            except KeyboardInterrupt:
                done = [measuring for measuring in aside.values() if measuring.done()]
                self.aside.end()
                # What was measured is kept, and what was only being written and laid out.
                for found in [self._in_hand, *(one.result() for one in done if one.exception() is None)]:
                    if found is not None and found.name not in self.charts:
                        self._keep(found)
                return True
        return False

    def _keep(self, found: Results) -> None:
        """Have a result drawn, and write it meanwhile; its chart is laid out here, for the report too."""
        self._in_hand = found
        try:
            drawn = self._draw(found)
        finally:  # a chart that fails takes no table with it
            found.write(self.out)
        self.charts[found.name] = drawn
        self._results.append(found)
        self._in_hand = None

    def _draw(self, found: Results) -> str:
        """Have a result drawn, and return its chart for the report."""
        from assocmem.report.export import FORMATS, PNG_SCALE, write_pictures
        from assocmem.report.figures import specification
        from assocmem.report.html import inline_chart

        formats, scale = (("png",), 1.0) if self.run.quick else (FORMATS, PNG_SCALE)
        spec = specification(found)
        self._drawing.append(self.drawer.submit(write_pictures, spec, self.out, found.name, formats, scale))
        return inline_chart(spec)

    def unfinished(self, wanted: Sequence[Experiment]) -> list[str]:
        """Return the names of those that have no chart."""
        return [one.name for one in wanted if one.name not in self.charts]

    def finish(self, wanted: Sequence[Experiment], *, seconds: float) -> list[dict[str, Any]]:
        """Wait for the charts, then write verdict.json and index.html; return the verdicts."""
        from assocmem._version import __version__
        from assocmem.experiments.overview import overview
        from assocmem.experiments.verdict import DEFINITIONS, verdicts
        from assocmem.report.html import write_report

        names = [e.name for e in wanted]
        results = sorted(self._results, key=lambda found: names.index(found.name))
        rows = verdicts(results)
        lead = overview(results)
        if lead is not None:
            self.charts[lead.name] = self._draw(lead)
        unfinished = self.unfinished(wanted)
        facts = {
            "assocmem": __version__, "seed": self.run.seed, "quick": self.run.quick,
            "seconds measuring": round(seconds, 1), "python": platform.python_version(), "machine": platform.platform(),
        }  # fmt: skip
        document = {"definitions": DEFINITIONS, "run": facts, "unfinished": unfinished, "verdicts": rows}
        write_whole(self.out / "verdict.json", as_json(document, indent=1).encode())
        for drawn in self._drawing:
            drawn.result()
        self.drawer.shutdown(wait=False)  # it ends while the report is written
        write_report(
            self.out / "index.html", results, title=TITLE, verdicts=rows, facts=facts, unfinished=unfinished,
            charts=self.charts, lead=lead,
        )  # fmt: skip
        return rows


def _load() -> None:
    """Load what is needed at the end too: Ctrl-C in the midst of an import would leave it half there."""
    import altair  # noqa: F401
    import jinja2  # noqa: F401
    import polars  # noqa: F401
    import scipy.special  # noqa: F401

    from assocmem.experiments import overview, verdict  # noqa: F401
    from assocmem.report import export, figures, html  # noqa: F401


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
