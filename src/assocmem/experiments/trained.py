"""What experiments on trained networks read: the network that a run names, and a text."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

from assocmem.experiments.experiment import Run
from assocmem.models import open_network
from assocmem.models.tracing import LiveModel, load_live, trace_text

if TYPE_CHECKING:
    from assocmem.models.tracing import Trace


@lru_cache(maxsize=1)
def live_network(path: Path) -> LiveModel:
    """Return a causal language model, loaded once."""
    open_network(path)  # whose sentences on files that are none are better than those of the loader
    return load_live(path, head=True)


def network_of(run: Run) -> LiveModel:
    """Return the network that the run names."""
    assert run.model is not None  # `reproduce` refuses a run without one
    return live_network(run.model)


def text() -> str:
    """Return the first 24 chapters of Genesis in the King James version, a paragraph each."""
    return _file("genesis.txt")


def capitals() -> Mapping[str, str]:
    """Return countries and their capitals."""
    found: dict[str, str] = json.loads(_file("capitals.json"))
    return found


def trace_of(run: Run, tokens: int) -> Trace:
    """Return what the network's attention computes with over the first tokens of the text."""
    return trace_text(network_of(run), text(), length=tokens)


def facts_of(run: Run) -> dict[str, Any]:
    """Return what a result's header says of the network."""
    assert run.model is not None
    return {"model": run.model.name, "weights": open_network(run.model).note or "float32"}


@contextmanager
def steps(run: Run, total: int) -> Iterator[Any]:
    """Hand out a function that says that one more of `total` steps is done."""
    done = 0

    def one_more() -> None:
        nonlocal done
        done += 1
        run.progress(done, total)

    yield one_more


def _file(name: str) -> str:
    return resources.files("assocmem.experiments").joinpath(name).read_text(encoding="utf-8")
