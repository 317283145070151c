"""The ways through the package are short: counted once more than they are walked (benchmarks/hops.py)."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest


@pytest.fixture
def hops(monkeypatch):
    """Return the benchmark as a module."""
    monkeypatch.syspath_prepend(str(Path(__file__).parents[1] / "benchmarks"))
    monkeypatch.setattr(sys, "argv", ["hops"])
    return __import__("hops")


def test_two_pairs_written_and_one_recalled_make_at_most_110_calls_into_our_code(hops):
    assert hops.counted(hops.memory)["calls"] <= 110


def test_the_capacity_command_walks_through_at_most_22_of_our_modules(hops):
    walked = hops.counted(hops.capacity)["through"]
    assert "assocmem.theory.questions" in walked  # it was answered, not refused
    assert len(walked) <= 22, walked
