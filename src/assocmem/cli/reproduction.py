"""One run of all experiments: measured here and aside, drawn in a process of its own, put together in one folder."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from concurrent.futures import Future, wait
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from assocmem.contract.results import as_json

if TYPE_CHECKING:
    from rich.progress import Progress

    from assocmem.contract.results import Results
    from assocmem.experiments.experiment import Experiment, Run
    from assocmem.kernels.compute import Helpers

TITLE = "assocmem: how many memories fit, and what makes recall fail"
M_ARENA_MAX = -8
LISTEN = 0.2
"""Seconds after which Ctrl-C is noticed while another process measures."""

VERDICT_WORDS = {
    "group": "the part of the article: linear curves, capacities, bars (weights of single memories), sharpness rules",
    "name": "what the number is, and of which store",
    "printed": "the article's number; a text where it prints words; null where it shows a curve and prints no number",
    "value": "our measurement (of multiples: our capacity over the linear store's exact one); null for a capacity "
    "that was not reached",
    "low, high": "95 % interval over trials; null where there is none",
    "statistic": "of the ratio over trials: rms, its root mean square, or median; a capacity is where that statistic "
    "reaches 1",
    "sampler": "keys: keys and values are drawn, written to the store and recalled; similarities: only the "
    "similarities of a query to the other stored keys are drawn, by their exact law for random unit keys; "
    "similarities, tilted: the same, the large ones drawn more often and weighted back (importance sampling)",
    "n_trials": "independent trials behind the value; a trial is one store filled anew with M random pairs (or with "
    "their similarities) and asked for pairs that it holds; for a capacity the fewest at any M measured",
    "seed": "of the random streams; the same seed and version give the same numbers",
    "exact": "the value by theory for uniform unit keys at finite width, M counting the target; for the optimal "
    "linear store above M = d_k an approximation (error below 0.3 %); null where theory has none, or none up to the "
    "largest M looked at (reason then says where it is)",
    "exact_kind": "exact, or approximate (the optimal linear store above M = d_k); null where exact is null",
    "exact_in_interval": "whether the interval holds the exact value; one in twenty is false by the meaning of 95 %, "
    "and some rows share a measurement; null where that can't be asked: exact is approximate (the optimal linear "
    "store's medians), null, or 0 (recall without interference: what is measured, near 1e-15, is rounding)",
    "ratio": "length of the interference divided by the length of the signal, dimensionless",
    "capacity": "the number of memories, the target included, at which the named statistic of the ratio reaches 1",
    "verdict": "agrees: ours, or its interval, meets the printed number widened by half a unit of its last digit, "
    "which in a whole number is the last that is no zero (below a lone 1, as in 0.0001, by half a unit of the next "
    "digit), and 'a few dozen' is read as 24 to 72; what is printed as 'about' is held to the same rule; explained: "
    "it does not meet, and the reason accounts for the difference; not printed: there is no number to meet; differs: "
    "no reason accounts for the difference",
    "reason": "what accounts for the verdict; empty where the numbers simply agree",
    "unfinished": "experiments that were asked for and did not finish; their numbers have no rows",
}


@dataclass
class Reproduction:
    """Where a run writes, how it is made, the processes beside it, and what it has so far.

    drawer: makes pictures. aside: measures what is mostly Python's own (`Experiment.scripted`), which
    threads don't speed up, on one core while this process measures the rest.
    """

    out: Path
    settings: Run
    drawer: Helpers
    aside: Helpers
    results: list[Results] = field(default_factory=list)
    _drawing: list[Future[list[Path]]] = field(default_factory=list)
    _charts: dict[str, str] = field(default_factory=dict)
    _in_hand: Results | None = None

    def measure(self, wanted: Sequence[Experiment]) -> bool:
        """Measure, write and send to the drawer every experiment; return whether Ctrl-C stopped it."""
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

        from assocmem.kernels.compute import one_blas_thread

        _load()
        _one_arena()
        columns = (TextColumn("{task.description:16}"), BarColumn(), TimeElapsedColumn())
        # Measuring has threads of its own, so BLAS needs none, and charts are drawn beside.
        with one_blas_thread, Progress(*columns, console=Console(stderr=True)) as bars:
            waiting: dict[str, Future[Results]] = {}
            try:
                self._begin_aside(wanted, waiting)
                self._measure_here([e for e in wanted if e.name not in waiting], bars)
                self._gather(waiting, bars)
            except KeyboardInterrupt:
                self._end_aside(waiting)
                if self._in_hand is not None:  # it was measured, and only being written and laid out
                    self._keep(self._in_hand)
                return True
        return False

    def _begin_aside(self, wanted: Sequence[Experiment], waiting: dict[str, Future[Results]]) -> None:
        """Begin what is measured aside, by name: nothing in a quick run or with one worker."""
        if self.settings.quick or self.settings.workers == 1:
            return
        alone = replace(self.settings, workers=1)
        for experiment in wanted:
            if experiment.scripted:
                waiting[experiment.name] = self.aside.submit(experiment.run, alone)

    def _measure_here(self, wanted: Sequence[Experiment], bars: Progress) -> None:
        # A quick run is over when the last chart is drawn, so what is slow to measure and quick to draw goes last.
        for experiment in sorted(wanted, key=lambda one: self.settings.quick and one.slow):
            task = bars.add_task(experiment.name, total=1000)

            def report(done: int, total: int, task: Any = task) -> None:
                bars.update(task, completed=1000 * done / max(1, total))

            self._keep(experiment.run(self.settings, report))
            bars.update(task, completed=1000)
            _give_back()

    def _gather(self, waiting: dict[str, Future[Results]], bars: Progress) -> None:
        for name, measuring in waiting.items():
            task = bars.add_task(name, total=None)
            while not wait([measuring], timeout=LISTEN).done:
                pass  # polars takes signals over in a way that doesn't wake a wait without end
            self._keep(measuring.result())
            bars.update(task, total=1, completed=1)

    def _end_aside(self, waiting: dict[str, Future[Results]]) -> None:
        """Keep what is finished aside, and end the rest at once."""
        finished = [name for name, measuring in waiting.items() if measuring.done()]
        self.aside.end()  # what waits for it fails; to cancel that first would be an error in its executor
        for name, measuring in waiting.items():
            if name in finished and name not in self._charts:
                with suppress(Exception):  # it was ended, not wrong
                    self._keep(measuring.result())

    def _keep(self, found: Results) -> None:
        """Have a result drawn, and write it meanwhile; its chart is laid out here, for the report too."""
        from assocmem.report.export import FORMATS, PNG_SCALE, write_pictures
        from assocmem.report.figures import specification
        from assocmem.report.html import inline_chart

        self._in_hand = found
        formats, scale = (("png",), 1.0) if self.settings.quick else (FORMATS, PNG_SCALE)
        try:
            spec = specification(found)
            self._drawing.append(self.drawer.submit(write_pictures, spec, self.out, found.name, formats, scale))
        finally:  # a chart that fails takes no table with it
            found.write(self.out)
        self._charts[found.name] = inline_chart(spec)
        self.results.append(found)
        self._in_hand = None

    def finish(self, wanted: Sequence[Experiment], *, seconds: float) -> list[dict[str, Any]]:
        """Wait for the charts, then write verdict.json and index.html; return the verdicts."""
        from assocmem._version import __version__
        from assocmem.contract.files import write_whole
        from assocmem.experiments.verdict import verdicts
        from assocmem.report.html import write_report

        names = [e.name for e in wanted]
        self.results.sort(key=lambda found: names.index(found.name))
        rows = verdicts(self.results)
        unfinished = [name for name in names if name not in self._charts]
        facts = {
            "assocmem": __version__, "seed": self.settings.seed, "quick": self.settings.quick,
            "seconds measuring": round(seconds, 1), "python": platform.python_version(), "machine": platform.platform(),
        }  # fmt: skip
        document = {"definitions": VERDICT_WORDS, "run": facts, "unfinished": unfinished, "verdicts": rows}
        write_whole(self.out / "verdict.json", as_json(document, indent=1).encode())
        for done in self._drawing:
            done.result()
        self.drawer.shutdown(wait=False)  # it ends while the report is written
        write_report(
            self.out / "index.html", self.results, title=TITLE, verdicts=rows, facts=facts, unfinished=unfinished,
            charts=self._charts,
        )  # fmt: skip
        return rows


def _load() -> None:
    """Load what is needed at the end too: Ctrl-C in the midst of an import would leave it half there."""
    import altair  # noqa: F401
    import jinja2  # noqa: F401
    import polars  # noqa: F401
    import scipy.special  # noqa: F401

    from assocmem.experiments import verdict  # noqa: F401
    from assocmem.report import export, figures, html  # noqa: F401


def _one_arena() -> None:
    """Have threads share one heap where the C library can: with one each, freed memory would stay with each."""
    import ctypes

    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).mallopt(M_ARENA_MAX, 1)


def _give_back() -> None:
    """Give freed memory back to the system where the C library would keep it."""
    import ctypes

    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)
