"""`reproduce`: every figure and number of the article, and ours beyond it, into one folder."""

from __future__ import annotations

import json
import multiprocessing
import platform
import time
from collections.abc import Sequence
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from assocmem.cli import Stopped, app
from assocmem.cli.output import clean, interval, number, print_table
from assocmem.cli.settings import writable

if TYPE_CHECKING:
    from assocmem.core.results import Results
    from assocmem.experiments.experiment import Experiment, Settings

OUT = Path("reproduced")
TITLE = "assocmem: how many memories fit, and what makes recall fail"


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
    from assocmem.experiments import catalogue
    from assocmem.experiments.experiment import Settings

    if only:
        catalogue.chosen(only)  # an unknown name is refused before anything starts
    writable(out)
    if quick and workers is None:
        workers = 1  # its tasks are small, and charts are drawn beside
    # A fresh process: charts take memory of their own, which goes back when they are drawn.
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=spawn, initializer=_ready) as drawer:
        drawer.submit(_warm)  # what draws is loaded while what measures is
        wanted = catalogue.chosen(only)
        run = Run(out, Settings(seed=seed, quick=quick, workers=workers), drawer)
        interrupted = run.experiments(wanted)
        rows = run.finish(wanted, seconds=time.perf_counter() - began)
    _print_verdicts(rows)
    done = len(run.results)
    print(f"{done} of {len(wanted)} experiments, {time.perf_counter() - began:.1f} s. Open {out / 'index.html'}")
    if interrupted:
        raise Stopped("stopped by Ctrl-C: what was finished is written, and the report names the rest.")
    if any(row["verdict"] == "differs" for row in rows):
        raise typer.Exit(1)


@dataclass
class Run:
    """One run: where it writes, how it is made, and what it has so far."""

    out: Path
    settings: Settings
    drawer: Executor
    results: list[Results] = field(default_factory=list)
    _drawing: dict[str, Future[str]] = field(default_factory=dict)

    def experiments(self, wanted: Sequence[Experiment]) -> bool:
        """Run and write the experiments one by one, drawing beside; return whether Ctrl-C stopped them."""
        import numpy.linalg  # noqa: F401  only a BLAS that is loaded can be limited
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
        from threadpoolctl import threadpool_limits

        columns = (TextColumn("{task.description:16}"), BarColumn(), TimeElapsedColumn())
        # Measuring has threads of its own, so BLAS needs none, and charts are drawn beside.
        with threadpool_limits(1, "blas"), Progress(*columns, console=Console(stderr=True)) as bars:
            # A quick run is over when the last chart is drawn, so what is slow to measure and quick to draw goes last.
            for experiment in sorted(wanted, key=lambda one: self.settings.quick and one.slow):
                task = bars.add_task(experiment.name, total=1000)

                def report(done: int, total: int, task: Any = task) -> None:
                    bars.update(task, completed=1000 * done / max(1, total))

                try:
                    found = experiment.run(self.settings, report)
                    found.write(self.out)
                    self._drawing[found.name] = self.drawer.submit(_draw, found, self.out, self.settings.quick)
                except KeyboardInterrupt:
                    return True
                self.results.append(found)
                bars.update(task, completed=1000)
        return False

    def finish(self, wanted: Sequence[Experiment], *, seconds: float) -> list[dict[str, Any]]:
        """Wait for the charts, then write verdict.json and index.html; return the verdicts."""
        from assocmem._version import __version__
        from assocmem.core.results import write_whole
        from assocmem.experiments.verdict import verdicts
        from assocmem.report.html import write_report

        names = [e.name for e in wanted]
        self.results.sort(key=lambda found: names.index(found.name))
        rows = verdicts(self.results)
        unfinished = [name for name in names if name not in self._drawing]
        facts = {
            "assocmem": __version__, "seed": self.settings.seed, "quick": self.settings.quick,
            "seconds measuring": round(seconds, 1), "python": platform.python_version(), "machine": platform.platform(),
        }  # fmt: skip
        document = {"definitions": VERDICT_WORDS, "run": facts, "unfinished": unfinished, "verdicts": rows}
        write_whole(self.out / "verdict.json", json.dumps(clean(document), indent=1, ensure_ascii=False).encode())
        charts = {name: drawing.result() for name, drawing in self._drawing.items()}
        page = self.out / "index.html"
        write_report(page, self.results, title=TITLE, verdicts=rows, facts=facts, unfinished=unfinished, charts=charts)
        return rows


VERDICT_WORDS = {
    "printed": "the number in the article",
    "value": "our measurement; null where the statistic has none",
    "low, high": "95 % interval over trials",
    "exact": "the value for uniform unit keys at finite width; M counts the target",
    "exact_in_interval": "whether the interval holds the exact value; one in twenty is false by the meaning of 95 %",
    "ratio": "length of the interference divided by the length of the signal, dimensionless",
    "capacity": "the number of memories, the target included, at which the named statistic of the ratio reaches 1",
    "verdict": "agrees: ours, or its interval, meets the printed number widened by half a unit of its last digit; "
    "explained: the reason accounts for the difference; differs: it does not",
}


def _ready() -> None:
    """Leave Ctrl-C to the main process."""
    import signal

    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _warm() -> None:
    """Load what draws while the first experiment runs."""
    import altair  # noqa: F401
    import vl_convert

    vl_convert.vega_to_svg({})


def _draw(results: Results, folder: Path, quick: bool) -> str:
    """Write a result's pictures; return its chart for the report page."""
    from assocmem.report.export import FORMATS, draw
    from assocmem.report.figures import specification
    from assocmem.report.html import inline_chart

    spec = specification(results)
    if quick:
        draw(results, folder, ("png",), spec=spec, scale=1)
    else:
        draw(results, folder, FORMATS, spec=spec)
    return inline_chart(spec)


def _print_verdicts(rows: Sequence[dict[str, Any]]) -> None:
    if not rows:
        return
    notes: list[str] = []
    lines = []
    for r in rows:
        verdict = r["verdict"]
        if verdict != "agrees" and r["reason"]:
            notes += [r["reason"]] * (r["reason"] not in notes)
            verdict += f" ({notes.index(r['reason']) + 1})"
        printed = r["printed"] if isinstance(r["printed"], str) else number(r["printed"])
        span = interval(r["low"], r["high"])
        lines.append([r["name"], printed, number(r["value"]), span, number(r["exact"]), verdict])
    columns = ["number", "printed", "measured", "95 % interval", "exact", "verdict"]
    print_table(columns, lines, title="Every printed number, repeated", numeric=columns[1:5])
    for i, note in enumerate(notes):
        print(f"({i + 1}) {note}")
    covered = [r["exact_in_interval"] for r in rows if r["exact_in_interval"] is not None]
    kinds = {v: sum(r["verdict"] == v for r in rows) for v in ("agrees", "explained", "differs")}
    print(
        f"{kinds['agrees']} agree, {kinds['explained']} are explained, {kinds['differs']} differ; "
        f"{sum(covered)} of {len(covered)} intervals hold the exact value (95 % are meant to)."
    )
