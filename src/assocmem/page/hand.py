"""Data of "a memory you can hold in your hand": three pairs, every number of a write and of a recall."""

from __future__ import annotations

from typing import Any

import numpy as np

from assocmem.core.register import make_store
from assocmem.core.types import Pairs
from assocmem.page.offer import rounded
from assocmem.ruler import by_weights, recall_weights

KEYS = np.array([[0.5, 0.5, 0.5, 0.5], [0.8, -0.6, 0.0, 0.0], [0.1, 0.1, 0.7, -0.7]])
VALUES = np.array([[9.0, 0.0, 3.0], [0.0, 5.0, 5.0], [4.0, 8.0, 0.0]])
BETA = 8.0
STORES = ("outer-product", "softmax")


def hand(name: str, asked: int) -> dict[str, Any]:
    """Return the steps of writing three pairs and asking for pair `asked` (0, 1 or 2), each with its numbers.

    name: "outer-product" or "softmax" (beta = 8). Every step is {title, text, tables: [{name, rows, mark}]}.
    """
    if name not in STORES or asked not in range(3):
        raise ValueError(f"the hand-held memory offers {', '.join(STORES)} and pairs 0, 1, 2.")
    outer = name == "outer-product"
    store = make_store(name) if outer else make_store(name, beta=BETA)
    steps = _writing(store) if outer else [_keeping()]
    query = KEYS[asked : asked + 1]
    state = store.write(store.empty(4, 3), KEYS, VALUES)
    answer = store.recall(state, query)[0]
    weights = recall_weights(store, Pairs(KEYS, VALUES), query)[0]
    similarities = KEYS @ KEYS[asked]
    products = weights[:, None] * VALUES
    signal, noise = products[asked], products.sum(axis=0) - products[asked]
    ratio = float(by_weights(weights[None, :], np.array([asked]))[0])
    like = _table("likeness of the query to each key (multiply number by number, add up)", similarities[:, None], asked)
    shares = _table("weight of each value", weights[:, None], asked)
    parts = _table("weight × value", products, asked)
    steps.append(
        _step(
            "Ask",
            f"The query is key {asked + 1} again. How alike is it to each stored key? Itself: 1. The others: "
            "not quite 0, and that is where the trouble starts.",
            _table("query", query, None),
            like,
        )
    )
    if outer:
        words = "For this memory the weight of a value simply is the likeness of its key."
    else:
        words = (
            f"Softmax takes e^(8 × likeness) and divides by the total, so the weights add up to {weights.sum():.3g}."
        )
    steps.append(_step("Weigh", words, shares))
    steps.append(
        _step(
            "Add up",
            "Each value times its weight; the sum is what comes back.",
            parts,
            _table("recalled", answer[None, :], None),
        )
    )
    steps.append(
        _step(
            "What you wanted, and what came along",
            f"Signal is the part of value {asked + 1} itself; interference is everything the others added. "
            f"By weights, interference divided by signal is {ratio:.3g}.",
            _table("stored value", VALUES[asked][None, :], None),
            _table("signal", signal[None, :], None),
            _table("interference", noise[None, :], None),
        )
    )
    return {"store": name, "asked": asked, "steps": steps, "recalled": rounded(answer), "ratio": rounded([ratio])[0]}


def _writing(store: Any) -> list[dict[str, Any]]:
    steps, state = [], store.empty(4, 3)
    for i in range(3):
        state = store.write(state, KEYS[i : i + 1], VALUES[i : i + 1])
        steps.append(
            _step(
                f"Write pair {i + 1}",
                "Every number of the value times every number of the key, added to the grid."
                + (" The grid was empty." if i == 0 else " The grid keeps its size."),
                _table(f"key {i + 1}", KEYS[i][None, :], None),
                _table(f"value {i + 1}", VALUES[i][None, :], None),
                _table("memory: 3 rows of 4 numbers", np.asarray(state["W"]), None),
            )
        )
    return steps


def _keeping() -> dict[str, Any]:
    return _step(
        "Write all three pairs",
        "This memory keeps the pairs as they are, in a list. Writing is appending; the list grows.",
        _table("keys", KEYS, None),
        _table("values", VALUES, None),
    )


def _step(title: str, text: str, *tables: dict[str, Any]) -> dict[str, Any]:
    return {"title": title, "text": text, "tables": list(tables)}


def _table(name: str, rows: np.ndarray[Any, Any], mark: int | None) -> dict[str, Any]:
    return {"name": name, "rows": [rounded(row, 4) for row in np.atleast_2d(rows)], "mark": mark}
