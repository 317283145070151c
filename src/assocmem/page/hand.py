"""Data of "a memory you can hold in your hand": three pairs, every number of a write and of a recall."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

from assocmem.contract.errors import InputError
from assocmem.contract.state import Pairs
from assocmem.page.offer import rounded
from assocmem.ruler import by_weights, recall_weights
from assocmem.stores import make_store

KEYS = np.array([[0.5, 0.5, 0.5, 0.5], [0.8, -0.6, 0.0, 0.0], [0.1, 0.1, 0.7, -0.7]])
VALUES = np.array([[9.0, 0.0, 3.0], [0.0, 5.0, 5.0], [4.0, 8.0, 0.0]])
BETA = 8.0
STORES = ("outer-product", "softmax")
PAIR_NAMES = ("pair 1", "pair 2", "pair 3")

Numbers: TypeAlias = np.ndarray[Any, Any]


def hand(name: str, asked: int) -> dict[str, Any]:
    """Return the steps of writing three pairs and asking for pair `asked` (0, 1 or 2), each with its numbers.

    name: "outer-product" or "softmax" (beta = 8). Every step is {title, text, tables}; a table is {name, rows} with,
    where it has them, names of its lines (labels) and columns, the line to mark, and role: "signal", "interference".
    """
    if name not in STORES or asked not in range(len(KEYS)):
        raise InputError(f"the hand-held memory offers {', '.join(STORES)} and pairs 0, 1, 2.")
    outer = name == "outer-product"
    store = make_store(name) if outer else make_store(name, beta=BETA)
    query = KEYS[asked : asked + 1]
    state = store.write(store.empty(4, 3), KEYS, VALUES)
    answer = store.recall(state, query)[0]
    weights = recall_weights(store, Pairs(KEYS, VALUES), query)[0]
    steps = [*_writing(store), _asking(np.asarray(state["W"]), query, answer, asked)] if outer else [_keeping()]
    steps += [
        _weighing_by_likeness(query, weights) if outer else _weighing_by_softmax(query, weights),
        _adding(weights, answer, asked),
    ]
    ratio = float(by_weights(weights[None, :], np.array([asked]))[0])
    steps.append(_parting(weights, answer, asked, ratio))
    return {"store": name, "asked": asked, "steps": steps, "recalled": rounded(answer), "ratio": rounded([ratio])[0]}


def _writing(store: Any) -> list[dict[str, Any]]:
    steps, state = [], store.empty(4, 3)
    for i in range(len(KEYS)):
        before = np.asarray(state["W"])
        state = store.write(state, KEYS[i : i + 1], VALUES[i : i + 1])
        grid = np.asarray(state["W"])
        where = "The grid was empty." if i == 0 else "The grid keeps its size: the new numbers land on the old ones."
        steps.append(
            _step(
                f"Write pair {i + 1}",
                "Multiply every number of the value by every number of the key and add the results to the grid. "
                + where,
                _table(f"key {i + 1}", KEYS[i]),
                _table(f"value {i + 1}", VALUES[i]),
                _table("added: value × key", grid - before),
                _table("the grid now: 3 rows of 4 numbers", grid),
            )
        )
    return steps


def _keeping() -> dict[str, Any]:
    return _step(
        "Write all three pairs",
        "This memory keeps the pairs as they are, in a list. Writing is appending; the list grows with every pair.",
        _table("keys", KEYS, labels=PAIR_NAMES),
        _table("values", VALUES, labels=PAIR_NAMES),
    )


def _asking(grid: Numbers, query: Numbers, answer: Numbers, asked: int) -> dict[str, Any]:
    return _step(
        "Ask",
        f"The query is key {asked + 1} again. Multiply each row of the grid with it, number by number, and add up: one "
        "number a row. Close to the stored value, but not it.",
        _table("query", query),
        _table("the grid", grid),
        _table("recalled", answer),
        _table(f"value {asked + 1}, as stored", VALUES[asked]),
    )


def _weighing_by_likeness(query: Numbers, weights: Numbers) -> dict[str, Any]:
    return _step(
        "Look inside: how alike are the keys?",
        "The same answer, memory by memory. The likeness of two keys is the sum of their products, number by number. "
        "A key is 1 like itself and never quite 0 like the others; that is where the trouble starts. "
        "In this memory the weight of a value simply is the likeness of its key.",
        _table("query", query),
        _table("", np.stack([KEYS @ query[0], weights], axis=1), labels=PAIR_NAMES, columns=("likeness", "weight")),
    )


def _weighing_by_softmax(query: Numbers, weights: Numbers) -> dict[str, Any]:
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


def _adding(weights: Numbers, answer: Numbers, asked: int) -> dict[str, Any]:
    products = weights[:, None] * VALUES
    return _step(
        "Weigh every value and add up",
        "Each value times its weight; the sum is what comes back.",
        _table("weight × value", np.vstack([products, answer]), labels=(*PAIR_NAMES, "sum"), mark=asked),
    )


def _parting(weights: Numbers, answer: Numbers, asked: int, ratio: float) -> dict[str, Any]:
    signal = weights[asked] * VALUES[asked]
    return _step(
        "What you wanted, and what came along",
        f"Signal is the part that value {asked + 1} itself sent. Interference is everything the others added. Measured "
        f"by weights, interference is {ratio:.3g} times the signal; above 1, recall fails.",
        _table(f"value {asked + 1}, as stored", VALUES[asked]),
        _table("signal", signal) | {"role": "signal"},
        _table("interference", answer - signal) | {"role": "interference"},
        _table("signal + interference = recalled", answer),
    )


def _step(title: str, text: str, *tables: dict[str, Any]) -> dict[str, Any]:
    return {"title": title, "text": text, "tables": list(tables)}


def _table(name: str, rows: Numbers, **more: Any) -> dict[str, Any]:
    """Return a table of numbers; what is 0 but for rounding is shown as 0."""
    shown = np.where(np.abs(rows) < 1e-12, 0.0, rows)
    return {"name": name, "rows": [rounded(row, 4) for row in np.atleast_2d(shown)], **more}
