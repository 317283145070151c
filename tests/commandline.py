"""The command line as the tests call it, and JSON as strictly as its standard has it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import pytest

from assocmem.cli import run


@dataclass(frozen=True)
class Said:
    """What one command answered."""

    status: int
    out: str
    err: str

    @property
    def json(self) -> dict[str, Any]:
        """The output as JSON, refusing NaN and infinity."""
        return strict_json(self.out)


def strict_json(text: str) -> Any:
    """Return the data of a JSON text; NaN and Infinity, which Python would take, fail the test."""

    def refuse(constant: str) -> None:
        pytest.fail(f"{constant} is no JSON")

    return json.loads(text, parse_constant=refuse)


def asked(*words: Any, capture: pytest.CaptureFixture[str]) -> Said:
    """Run a command in this process and return what it said."""
    capture.readouterr()
    status = run([str(word) for word in words])
    said = capture.readouterr()
    return Said(status, said.out, said.err)
