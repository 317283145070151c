"""What every experiment is: a name, a question, and a function from settings to results."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from typing import Any

from assocmem.contract.results import Results, Row, header_for
from assocmem.kernels.compute import Workers
from assocmem.lab.rows import DEFINITIONS

Progress = Callable[[int, int], None]

QUICK_PRECISION = 0.15
"""Relative precision of a capacity in a quick run."""


@dataclass(frozen=True)
class Settings:
    """How a run is made.

    seed: of all random streams. quick: fewer trials and smaller M, the same figures. workers: of the lab, see
    `kernels.compute.run_tasks`; results do not depend on it.
    """

    seed: int = 0
    quick: bool = False
    workers: Workers = None

    def shared(self, experiment: str) -> dict[str, Any]:
        """Return the keyword arguments that every call of the lab gets."""
        return {"seed": self.seed, "workers": self.workers, "experiment": experiment}

    def fewer(self, full: int, quick: int) -> int:
        """Return `full`, or `quick` in a quick run."""
        return quick if self.quick else full


@dataclass(frozen=True)
class Outcome:
    """What an experiment hands back: tidy rows, the view that draws them, and a caption in words.

    definitions: of columns that `lab.rows.DEFINITIONS` doesn't know, or gives another meaning.
    """

    rows: Iterable[Row]
    view: Mapping[str, Any]
    caption: str
    config: Mapping[str, Any]
    definitions: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Experiment:
    """A figure or table: its name (of the files), title, question, and what answers it.

    slow: it takes longer to measure than to draw, so a quick run measures it last, while the others are drawn.
    scripted: much of its time is Python's own, not NumPy's, so that threads don't help: measured in a process beside.
    """

    name: str
    title: str
    question: str
    answer: Callable[[Settings, Progress], Outcome]
    slow: bool = False
    scripted: bool = False

    def run(self, settings: Settings, progress: Progress | None = None) -> Results:
        """Run the experiment and return its results; `progress(done, total)` is told as it goes."""
        began = time.perf_counter()
        outcome = self.answer(settings, progress or _silent)
        seconds = time.perf_counter() - began
        config = {"quick": settings.quick, **outcome.config}
        rows = tuple(outcome.rows)
        known = {**DEFINITIONS, **outcome.definitions}
        words = {column: known[column] for column in dict.fromkeys(c for row in rows for c in row) if column in known}
        header = header_for(config=config, seed=settings.seed, seconds=seconds, definitions=words)
        header |= {"title": self.title, "question": self.question, "caption": outcome.caption, "view": outcome.view}
        return Results(self.name, rows, header)


def _silent(_done: int, _total: int) -> None:
    """Report nothing."""


def parts(progress: Progress, total: int) -> Callable[[int], Progress]:
    """Split a progress among `total` equal parts: ``parts(progress, 3)(1)`` reports the second third."""

    def of(part: int) -> Progress:
        def report(done: int, whole: int) -> None:
            progress(round(1000 * (part + done / max(1, whole))), 1000 * total)

        return report

    return of


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
