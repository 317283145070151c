"""In short: five sentences, each with a number and what shows it, written in short.txt."""

from pathlib import Path
from typing import Any

from assocmem.page.declare import Endpoint, Section
from assocmem.page.told import filled


def sentences() -> list[dict[str, Any]]:
    """Return the sentences, each {text, set, to, button}: settings and the section that show its number.

    In the file they are apart by an empty line, with settings as "set: store outer, m 128".
    """
    return [
        _sentence(*part.split("\n"))
        for part in filled(Path(__file__).with_suffix(".txt").read_text("utf-8")).strip().split("\n\n")
    ]


def _sentence(text: str, *more: str) -> dict[str, Any]:
    words = dict(line.split(": ", 1) for line in more)
    pairs = (pair.split() for pair in words["set"].split(", "))
    settings = {name: int(value) if value.isdigit() else value for name, value in pairs}
    return {"text": text, "set": settings, "to": words["to"], "button": words["button"]}


SECTION = Section(1.5, (Endpoint("short", sentences),))
