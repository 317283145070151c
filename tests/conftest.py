"""Tests are stricter than use: fresh memory is NaN where a test asks for it, and CI counts a skip as a failure."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Generator
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

# torch, imported later by some tests, would otherwise run every small product on all cores, against other workers.
os.environ.setdefault("OMP_NUM_THREADS", "1")
# Tables follow the width of the screen, of which test runners set one of their own.
os.environ["COLUMNS"] = "120"
NO_SKIPS = bool(os.environ.get("ASSOCMEM_NO_SKIPS"))


@pytest.fixture
def nan_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fill what numpy.empty and torch.empty hand out with NaN, so that reading before writing shows."""
    for name in ("empty", "empty_like"):
        monkeypatch.setattr(np, name, _filled(getattr(np, name), lambda x: x.dtype.kind == "f"))
        if "torch" in sys.modules:
            torch = sys.modules["torch"]
            monkeypatch.setattr(torch, name, _filled(getattr(torch, name), lambda x: x.dtype.is_floating_point))


@pytest.fixture
def ask(capsys: pytest.CaptureFixture[str]) -> Callable[..., Any]:
    """Return a function that runs a command of `assocmem` in this process: ask("list", "--json").json."""
    from commandline import asked

    return partial(asked, capture=capsys)


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Return a function that gives the folder of a random network, saved once."""
    from trained import random_network

    @cache
    def of(name: str) -> Path:
        path = tmp_path_factory.mktemp(name)
        random_network(name).save_pretrained(path)
        return path

    return of


def _filled(make: Callable[..., Any], floating: Callable[[Any], bool]) -> Callable[..., Any]:
    def fresh(*args: Any, **settings: Any) -> Any:
        x = make(*args, **settings)
        if floating(x):
            x[...] = float("nan")
        return x

    return fresh


def _refuse_skip(report: pytest.TestReport | pytest.CollectReport) -> None:
    if NO_SKIPS and report.outcome == "skipped" and not hasattr(report, "wasxfail"):
        report.outcome = "failed"
        report.longrepr = f"skipped where ASSOCMEM_NO_SKIPS counts a skip as a failure: {report.longrepr}"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Turn a skipped test into a failed one where no skips are allowed."""
    report = yield
    _refuse_skip(report)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Turn a skipped test file into a failed one where no skips are allowed."""
    report = yield
    _refuse_skip(report)
    return report
