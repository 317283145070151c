"""A memory you can hold in your hand: three pairs, every number of a write and of a recall."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

from assocmem.contract.state import Pairs
from assocmem.contract.store import Store
from assocmem.experiments.shown import HAND, Shown
from assocmem.page.charts import rounded, short
from assocmem.page.declare import Control, Endpoint, Option, Part, Section
from assocmem.ruler import by_weights, recall_weights

KEYS = np.array([[0.5, 0.5, 0.5, 0.5], [0.8, -0.6, 0.0, 0.0], [0.1, 0.1, 0.7, -0.7]])
VALUES = np.array([[9.0, 0.0, 3.0], [0.0, 5.0, 5.0], [4.0, 8.0, 0.0]])
BETA = HAND[1].settings["beta"]
PAIR_NAMES = ("pair 1", "pair 2", "pair 3")

Numbers: TypeAlias = np.ndarray[Any, Any]
Step: TypeAlias = dict[str, Any]


def hand(shown: Shown, asked: int) -> dict[str, Any]:
    """Return the steps of writing three pairs and asking for pair `asked` (0, 1 or 2), each with its numbers.

    Every step is {title, text, tables}; a table is {name, rows} with, where it has them, names of its lines (labels)
    and columns, the line to mark, and role: "signal", "interference".
    """
    store, query = shown.store, KEYS[asked : asked + 1]
    state = store.write(store.empty(4, 3), KEYS, VALUES)
    answer = store.recall(state, query)[0]
    weights = recall_weights(store, Pairs(KEYS, VALUES), query)[0]
    ratio = float(by_weights(weights[None, :], np.array([asked]))[0])
    if store.traits.keeps_pairs:
        steps = [_keeping(), _weighing_by_softmax(query, weights)]
    else:
        grid = np.asarray(state["W"])
        steps = [*_writing(store), _asking(grid, query, answer, asked), _weighing_by_likeness(query, weights)]
    steps += [_adding(weights, answer, asked), _parting(weights, answer, asked, ratio)]
    return {"store": shown.key, "asked": asked, "steps": steps, "recalled": rounded(answer), "ratio": short(ratio)}


def _writing(store: Store) -> list[Step]:
    steps, state = [], store.empty(4, 3)
    for i in range(len(KEYS)):
        before = np.asarray(state["W"])
        state = store.write(state, KEYS[i : i + 1], VALUES[i : i + 1])
        grid = np.asarray(state["W"])
        where = "The grid was empty." if i == 0 else "The grid keeps its size: the new numbers land on the old ones."
        steps.append(_step(
            f"Write pair {i + 1}",
            f"Multiply every number of the value by every number of the key and add the results to the grid. {where}",
            _table(f"key {i + 1}", KEYS[i]),
            _table(f"value {i + 1}", VALUES[i]),
            _table("added: value × key", grid - before),
            _table("the grid now: 3 rows of 4 numbers", grid),
        ))  # fmt: skip
    return steps


def _keeping() -> Step:
    return _step(
        "Write all three pairs",
        "This memory keeps the pairs as they are, in a list. Writing is appending; the list grows with every pair.",
        _table("keys", KEYS, labels=PAIR_NAMES),
        _table("values", VALUES, labels=PAIR_NAMES),
    )


def _asking(grid: Numbers, query: Numbers, answer: Numbers, asked: int) -> Step:
    return _step(
        "Ask",
        f"The query is key {asked + 1} again. Multiply each row of the grid with it, number by number, and add up: one "
        "number a row. Close to the stored value, but not it.",
        _table("query", query),
        _table("the grid", grid),
        _table("recalled", answer),
        _table(f"value {asked + 1}, as stored", VALUES[asked]),
    )


def _weighing_by_likeness(query: Numbers, weights: Numbers) -> Step:
    return _step(
        "Look inside: how alike are the keys?",
        "The same answer, memory by memory. The likeness of two keys is the sum of their products, number by number. "
        "A key is 1 like itself and never quite 0 like the others; that is where the trouble starts. "
        "In this memory the weight of a value simply is the likeness of its key.",
        _table("query", query),
        _table("", np.stack([KEYS @ query[0], weights], axis=1), labels=PAIR_NAMES, columns=("likeness", "weight")),
    )


def _weighing_by_softmax(query: Numbers, weights: Numbers) -> Step:
    alike = KEYS @ query[0]
    columns = ("likeness", f"e^({BETA:g} × likeness)", "weight")
    return _step(
        "Ask: likeness, then softmax",
        "The likeness of two keys is the sum of their products, number by number. Softmax raises e to 8 times the "
        f"likeness and divides by the total, so that the weights add up to {weights.sum():.3g}. A likeness a little "
        "higher becomes a weight much higher.",
        _table("query", query),
        _table("", np.stack([alike, np.exp(BETA * alike), weights], axis=1), labels=PAIR_NAMES, columns=columns),
    )


def _adding(weights: Numbers, answer: Numbers, asked: int) -> Step:
    rows = np.vstack([weights[:, None] * VALUES, answer])
    table = _table("weight × value", rows, labels=(*PAIR_NAMES, "sum"), mark=asked)
    return _step("Weigh every value and add up", "Each value times its weight; the sum is what comes back.", table)


def _parting(weights: Numbers, answer: Numbers, asked: int, ratio: float) -> Step:
    signal = weights[asked] * VALUES[asked]
    return _step(
        "What you wanted, and what came along",
        f"Signal is the part that value {asked + 1} itself sent. Interference is everything the others added. Measured "
        f"by weights, interference is {ratio:.3g} times the signal; above 1, recall fails.",
        _table(f"value {asked + 1}, as stored", VALUES[asked]),
        _table("signal", signal, role="signal"),
        _table("interference", answer - signal, role="interference"),
        _table("signal + interference = recalled", answer),
    )


def _step(title: str, text: str, *tables: dict[str, Any]) -> Step:
    return {"title": title, "text": text, "tables": list(tables)}


def _table(name: str, rows: Numbers, **more: Any) -> dict[str, Any]:
    """Return a table of numbers; what is 0 but for rounding is shown as 0."""
    shown = np.where(np.abs(rows) < 1e-12, 0.0, rows)
    return {"name": name, "rows": [rounded(row, 4) for row in np.atleast_2d(shown)], **more}


# code: the plain program beside it, in static/teach.
KIND = Control("hand", [Option(one.key, one.label, one, {"code": one.id}) for one in HAND], HAND[0].key)
ASKED = Control("asked", [Option(i, f"ask with key {i + 1}", i) for i in range(3)], 0)
SECTION = Section(2, (Endpoint("hand", hand, (Part(KIND), Part(ASKED))),), more=(Control("step", range(10), 0),))
