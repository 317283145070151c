"""A memory you can hold in your hand: three pairs, every number of a write and a recall; its words are in hand.txt."""

from pathlib import Path
from typing import Any

import numpy as np

from assocmem.contract.state import Pairs
from assocmem.experiments.shown import HAND, Shown
from assocmem.page.charts import rounded, short
from assocmem.page.declare import Control, Endpoint, Option, Part, Section
from assocmem.ruler import by_weights, recall_weights

KEYS = np.array([[0.5, 0.5, 0.5, 0.5], [0.8, -0.6, 0.0, 0.0], [0.1, 0.1, 0.7, -0.7]])
VALUES = np.array([[9.0, 0.0, 3.0], [0.0, 5.0, 5.0], [4.0, 8.0, 0.0]])
BETA = HAND[1].settings["beta"]
PAIRS = ("pair 1", "pair 2", "pair 3")


def hand(shown: Shown, asked: int) -> dict[str, Any]:
    """Return the steps of writing three pairs and asking for pair `asked` (0, 1 or 2), each with its numbers.

    Every step is {title, text, tables}; a table is {name, rows} with, where it has them, names of its lines (labels)
    and columns, the line to mark, and role: "signal", "interference". In the file a step has its kind of memory and
    its title, then its text, then its tables by name, each with the words above it.
    """
    store, query = shown.store, KEYS[asked : asked + 1]
    kind, state = "list" if store.traits.keeps_pairs else "grid", store.empty(4, 3)
    grids = [np.zeros((3, 4))]
    for key, value in zip(KEYS, VALUES, strict=True):
        state = store.write(state, key[None], value[None])
        grids.append(np.asarray(state["W"]) if kind == "grid" else grids[0])
    answer, alike = store.recall(state, query)[0], KEYS @ query[0]
    weights = recall_weights(store, Pairs(KEYS, VALUES), query)[0]
    ratio = float(by_weights(weights[None, :], np.array([asked]))[0])
    signal = weights[asked] * VALUES[asked]
    columns = ("likeness", f"e^({BETA:g} × likeness)", "weight")
    tables = {
        "keys": _table(KEYS, labels=PAIRS),
        "values": _table(VALUES, labels=PAIRS),
        "query": _table(query),
        "answer": _table(answer),
        "stored": _table(VALUES[asked]),
        "likeness": _table(np.stack([alike, weights], axis=1), labels=PAIRS, columns=columns[::2]),
        "shares": _table(np.stack([alike, np.exp(BETA * alike), weights], axis=1), labels=PAIRS, columns=columns),
        "products": _table(np.vstack([weights[:, None] * VALUES, answer]), labels=(*PAIRS, "sum"), mark=asked),
        "signal": _table(signal, role="signal"),
        "interference": _table(answer - signal, role="interference"),
    }
    for i in range(3):
        written = {"key": KEYS[i], "value": VALUES[i], "added": grids[i + 1] - grids[i], "grid": grids[i + 1]}
        tables |= {f"{name} {i + 1}": _table(rows) for name, rows in written.items()}
    words = {"pair": asked + 1, "beta": BETA, "total": weights.sum(), "ratio": ratio}
    told = Path(__file__).with_suffix(".txt").read_text(encoding="utf-8").format(**words).strip().split("\n\n")
    steps = [_step(step.split("\n"), tables) for step in told if step.startswith((f"[{kind}]", "[both]"))]
    return {"store": shown.key, "asked": asked, "steps": steps, "recalled": rounded(answer), "ratio": short(ratio)}


def _step(lines: list[str], tables: dict[str, Any]) -> dict[str, Any]:
    title, text, *shown = lines
    named = [{"name": words.strip(), **tables[name.strip()]} for name, words in (s.split("=", 1) for s in shown)]
    return {"title": title.partition("] ")[2], "text": text, "tables": named}


def _table(rows: np.ndarray[Any, Any], **more: Any) -> dict[str, Any]:
    """Return a table of numbers; what is 0 but for rounding is shown as 0."""
    shown = np.where(np.abs(rows) < 1e-12, 0.0, rows)
    return {"rows": [rounded(row, 4) for row in np.atleast_2d(shown)], **more}


# code: the plain program beside it, in static/teach.
KIND = Control("hand", [Option(one.key, one.label, one, {"code": one.id}) for one in HAND], HAND[0].key)
ASKED = Control("asked", [Option(i, f"ask with key {i + 1}", i) for i in range(3)], 0)
CODE = Control("code", (), "", pattern="[\\w-]{1,8000}")
CHANGES = (
    {"label": "Add a fourth memory", "replace": [
        ["[0.1, 0.1, 0.7, -0.7]]", "[0.1, 0.1, 0.7, -0.7],\n        [0.5, -0.1, 0.1, 0.854]]"],
        ["[4, 8, 0]]", "[4, 8, 0], [7, 7, 7]]"]]},
    {"label": "Squared weights", "kind": HAND[1].key, "replace": [
        ["exp(beta * s) for s in alike", "max(0, s) ** 2 for s in alike"],
        ["total = sum(weights)", "total = 1"]]},
)  # fmt: skip
"""Changes that are ready to make in the program, of one kind of memory or of both."""
SECTION = Section(
    2,
    (Endpoint("hand", hand, (Part(KIND), Part(ASKED))),),
    more=(Control("step", range(10), 0), CODE),
    words={"changes": CHANGES},
)
