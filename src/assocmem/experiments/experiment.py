"""What every experiment is: a question, a function from a run to its results, and its place in the report."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

from assocmem.contract.columns import meanings
from assocmem.contract.results import Results, Row, header_for
from assocmem.experiments.shown import Shown, labelled
from assocmem.kernels.compute import Progress, Workers
from assocmem.lab.keys import Keys
from assocmem.lab.run import curves
from assocmem.lab.similarities import Similarities

View = dict[str, Any]

RULE: View = {"rule": 1.0, "rule_text": "recall fails"}


def _silent(_done: int, _total: int) -> None:
    """Report nothing."""


@dataclass(frozen=True)
class Run:
    """How an experiment is run.

    seed: of all random streams. quick: fewer trials and smaller M, the same figures. workers: of the lab; results do
    not depend on it. model: a checkpoint for the experiments on trained networks. experiment: whose run it is.
    progress: told (done, total) as it goes.
    """

    seed: int = 0
    quick: bool = False
    workers: Workers = None
    model: Path | None = None
    experiment: str = ""
    progress: Progress = field(default=_silent, compare=False)

    @property
    def lab(self) -> dict[str, Any]:
        """The keyword arguments that the lab's measurements get; those of rows get `shared`."""
        return {"seed": self.seed, "workers": self.workers, "progress": self.progress}

    @property
    def shared(self) -> dict[str, Any]:
        """The keyword arguments that the lab's rows get."""
        return self.lab | {"experiment": self.experiment}

    def fewer(self, full: int, quick: int) -> int:
        """Return `full`, or `quick` in a quick run."""
        return quick if self.quick else full

    def rough(self, full: float) -> float:
        """Return the relative precision of a capacity: `full`, or 0.15 in a quick run."""
        return 0.15 if self.quick else full

    def part(self, at: int, total: int) -> Run:
        """Return the same run whose progress is that of one of `total` equal parts, counted from 0."""

        def report(done: int, whole: int) -> None:
            self.progress(round(1000 * (at + done / max(1, whole))), 1000 * total)

        return replace(self, progress=report)


@dataclass(frozen=True)
class Outcome:
    """What an experiment hands back: tidy rows, the view that draws them, and a caption in words.

    definitions: of columns that `contract.columns` doesn't know, or gives another meaning.
    """

    rows: Iterable[Row]
    view: View
    caption: str
    config: Mapping[str, Any]
    definitions: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Experiment:
    """A figure or table: its name (of the files), place in the report, title, question, and what answers it.

    slow: it takes longer to measure than to draw, so a quick run measures it last, while the others are drawn.
    scripted: much of its time is Python's own, not NumPy's, so that threads don't help: measured in a process beside.
    trained: it reads a trained network, `Run.model`, with the extra `trace`; run where one is named, for minutes.
    """

    name: str
    place: int
    title: str
    question: str
    answer: Callable[[Run], Outcome]
    slow: bool = False
    scripted: bool = False
    trained: bool = False

    def run(self, run: Run, progress: Progress = _silent) -> Results:
        """Run the experiment and return its results; `progress(done, total)` is told as it goes."""
        began = time.perf_counter()
        outcome = self.answer(replace(run, experiment=self.name, progress=progress))
        seconds = time.perf_counter() - began
        rows = tuple(outcome.rows)
        words = meanings(rows) | dict(outcome.definitions)
        config = {"quick": run.quick, **outcome.config}
        header = header_for(config=config, seed=run.seed, seconds=seconds, definitions=words)
        header |= {"title": self.title, "question": self.question, "caption": outcome.caption, "view": outcome.view}
        return Results(self.name, rows, header)


def over_memories(shown: Sequence[Shown], **more: Any) -> View:
    """Return the view of ratios over M: curves in the order of the stores, with the line at which recall fails."""
    order = [one.label for one in shown]
    return {"kind": "curves", "x": "n_memories", "x_title": "memories M", "order": order, **RULE, **more}


def in_panels(shown: Sequence[Shown], x: str, x_title: str, *panels: View, **more: Any) -> View:
    """Return the view of charts below each other: a store's line in its colour, joined where there is no theory."""
    order = {one.label: one.colour for one in shown}
    return {"kind": "panels", "x": x, "x_title": x_title, "join": True, "panels": list(panels),
            "order": list(order), "colours": order, **more}  # fmt: skip


def both_ways(
    run: Run, shown: Sequence[Shown], d_k: int, *, top: tuple[int, int], streams: tuple[int, int], most: int,
    parts: int = 2,
) -> list[Row]:  # fmt: skip
    """Return the ratios of stores by both samplers: similarities below M = 2^top, and keys below 2^15.

    top, streams: in a full and in a quick run. most: trials by keys. parts: of the run, whose first two these are.
    """
    stores = labelled(shown)
    counts = [2**k for k in range(4, run.fewer(*top), run.fewer(1, 2))]
    rows = curves(stores, d_k, counts, Similarities(streams=run.fewer(*streams)), **run.part(0, parts).shared)
    drawn = [2**k for k in range(4, run.fewer(15, 11), 2)]
    by_keys = Keys(trials=run.fewer(8, 4), most=run.fewer(most, 32))
    return rows + curves(stores, d_k, drawn, by_keys, **run.part(1, parts).shared)


@cache
def article() -> dict[str, Any]:
    """Return the numbers that the article prints."""
    text = resources.files("assocmem.experiments").joinpath("article.json").read_text(encoding="utf-8")
    found: dict[str, Any] = json.loads(text)
    return found


def with_article(rows: Iterable[Row], points: Mapping[tuple[str, int], float]) -> list[Row]:
    """Return the rows with a column `article`, filled once for each (label, M) that the article shows."""
    left = dict(points)
    return [{**row, "article": left.pop((row["label"], row["n_memories"]), None)} for row in rows]
