"""Why: four derivations, written in why.txt, each with numbers that the bars show too."""

from pathlib import Path
from typing import Any

from assocmem.page.declare import Endpoint, Section
from assocmem.page.sections.bars import BETAS, PAGE_SEED
from assocmem.page.told import BETA, filled, gradient

SHARP = (*BETAS[BETAS.index(1.0) :], 20.0, 24.0, 28.0, 32.0, 40.0)


def derivations() -> dict[str, Any]:
    """Return the derivations for d_k = 64; text between $ signs is TeX.

    In the file a derivation begins with its title, and its steps are apart by an empty line: what is said, a check,
    the bars that show it (store and M), and "Picture: gradient" for the chart of `gradients`.
    """
    parts = filled(Path(__file__).with_suffix(".txt").read_text(encoding="utf-8")).strip().split("# ")[1:]
    return {
        "seed": PAGE_SEED,
        "derivations": [_derivation(*part.strip().split("\n\n")) for part in parts],
        "gradient": gradients(),
    }


def gradients() -> dict[str, Any]:
    """Return the size of the gradient against sharpness as bars, the one of the page's usual β as the target."""
    ends = [*SHARP[1:], SHARP[-1] + 4]
    rows = [
        {"index": beta, "end": beta + 0.85 * (end - beta), "weight": float(f"{gradient(beta):.3g}")}
        for beta, end in zip(SHARP, ends, strict=True)
    ]
    own = [row for row in rows if row["index"] == BETA]
    return {
        "rows": {"bars": [row for row in rows if row not in own], "target": own},
        "top": max(r["weight"] for r in rows),
    }


def _derivation(title: str, *steps: str) -> dict[str, Any]:
    return {"title": title, "steps": [_step(*step.split("\n")) for step in steps]}


def _step(text: str, *more: str) -> dict[str, Any]:
    """Return one step, with a check and, where the bars show it, the settings that do."""
    words = dict(line.split(": ", 1) for line in more)
    step: dict[str, Any] = {"text": text, "check": words.get("Check", ""), "picture": words.get("Picture", "")}
    if "Bars" in words:
        store, m = words["Bars"].split()
        step["bars"] = {"store": store, "m": int(m)}
    return step


VIEW = {"kind": "bars", "x_title": "sharpness β", "y_title": "gradient's size", "y_from": 0}
SECTION = Section(5, (Endpoint("why", derivations),), charts={"gradient": (VIEW, 150)})
