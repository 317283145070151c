"""Why: four derivations, written in why.txt, each with numbers that the bars show too."""

import re
from pathlib import Path
from typing import Any

import numpy as np

from assocmem.experiments.shown import CHOICES
from assocmem.page.declare import Endpoint, Section
from assocmem.page.sections.bars import COUNTS, PAGE_SEED, bars, page_keys

D, BETA, KEYS = 64, 8.0, 32


def derivations() -> dict[str, Any]:
    """Return the derivations for d_k = 64; text between $ signs is TeX.

    In the file a derivation begins with its title, and its steps are apart by an empty line: what is said, a check,
    and the bars that show it (store and M). Between « and » stands a number to be computed, with its format:
    "shown STORE M" and "expected STORE M", ratios of the page's first draw; "capacity STORE"; "overlap", the mean
    square overlap of 32 keys.
    """
    text = Path(__file__).with_suffix(".txt").read_text(encoding="utf-8")
    parts = re.sub(r"«([^»]+)»", lambda found: _number(*found[1].split()), text).strip().split("# ")[1:]
    return {"seed": PAGE_SEED, "derivations": [_derivation(*part.strip().split("\n\n")) for part in parts]}


def _derivation(title: str, *steps: str) -> dict[str, Any]:
    return {"title": title, "steps": [_step(*step.split("\n")) for step in steps]}


def _step(text: str, *more: str) -> dict[str, Any]:
    """Return one step, with a check and, where the bars show it, the settings that do."""
    words = dict(line.split(": ", 1) for line in more)
    step: dict[str, Any] = {"text": text, "check": words.get("Check", "")}
    if "Bars" in words:
        store, m = words["Bars"].split()
        step["bars"] = {"store": store, "m": int(m)}
    return step


def _number(kind: str, *words: str) -> str:
    *which, form = words
    if kind == "overlap":
        keys = page_keys(D, 0)[:KEYS]
        value = float(np.mean((keys @ keys.T)[~np.eye(KEYS, dtype=bool)] ** 2))
    else:
        found = bars(next(one for one in CHOICES if one.id == which[0]), D, 1.0, 0, BETA)
        column = {"shown": "ratio"}.get(kind, kind)
        value = found[column] if kind == "capacity" else found[column][COUNTS.index(int(which[1]))]
    return format(value, form)


SECTION = Section(5, (Endpoint("why", derivations),))
