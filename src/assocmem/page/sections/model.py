"""Where this sits in a language model: one attention head and one feed-forward layer, every number.

Both are worked by the library's own stores. The embedding is made by hand so that each of its six numbers can be
named; a trained model's numbers cannot, but what happens to them is the same.
"""

from pathlib import Path
from typing import Any

import numpy as np

from assocmem.contract.state import Pairs
from assocmem.experiments.shown import HEAD, LAYER
from assocmem.lab.probe import counted_state
from assocmem.page.charts import rounded
from assocmem.page.declare import Control, Endpoint, Option, Section
from assocmem.ruler import by_weights, recall_weights

FEATURES = ("is a thing", "is a colour", "asks for a colour", "content 1", "content 2", "content 3")
EMBEDDING = {
    "the": (0.0, 0.0, 0.0, 0.1, 0.0, 0.1),
    "red": (0.0, 1.0, 0.0, 0.9, 0.1, 0.2),
    "hat": (1.0, 0.0, 0.0, 0.2, 0.8, 0.1),
    "and": (0.0, 0.0, 0.0, 0.0, 0.1, 0.1),
    "its": (0.3, 0.0, 0.2, 0.1, 0.2, 0.0),
    "colour": (0.3, 0.2, 0.5, 0.1, 0.1, 0.6),
    "is": (0.0, 0.0, 1.0, 0.0, 0.1, 0.0),
}
# d_k = 2: a key says "thing" and "colour"; a query says which of the two it looks for.
W_K = np.array([[1.0, 0.0, 0.0, 0.0, 0.0, 0.0], [0.0, 1.0, 0.0, 0.0, 0.0, 0.0]])
W_Q = np.array([[0.2, 0.0, 0.0, 0.0, 0.0, 0.0], [0.0, 0.0, 1.0, 0.0, 0.0, 0.0]])
W_V = np.eye(6)[3:]

LAYER_KEYS = np.array([[0.7, 0.7, 0.0, 0.1], [0.0, 0.1, 0.9, 0.4], [-0.5, 0.5, 0.1, 0.5], [0.8, -0.6, 0.0, 0.0]])
LAYER_VALUES = np.array([[1.0, 0.0, 0.0], [0.0, 2.0, 1.0], [1.0, 1.0, 1.0], [0.0, 0.0, 3.0]])
LAYER_INPUT = np.array([[0.1, 0.2, 0.9, 0.4]])


def head() -> dict[str, Any]:
    """Return one head on one sentence: keys, values, query, likenesses, weights and what comes back, for each token."""
    x = np.array(list(EMBEDDING.values()))
    keys, values, queries = x @ W_K.T, x @ W_V.T, x @ W_Q.T
    return {
        "tokens": list(EMBEDDING),
        "features": list(FEATURES),
        "embedding": _rows(x),
        "keys": _rows(keys),
        "values": _rows(values),
        "w_k": _rows(W_K),
        "w_q": _rows(W_Q),
        "w_v": _rows(W_V),
        "beta": HEAD.settings["beta"],
        "at": [_token(Pairs(keys[: i + 1], values[: i + 1]), queries[i : i + 1]) for i in range(len(x))],
        "shapes": _shapes(0),
    }


def _token(seen: Pairs, query: np.ndarray[Any, Any]) -> dict[str, Any]:
    """Return what one token asks and what comes back; the target of its ratio is the memory of the largest weight."""
    store = HEAD.store
    weights = recall_weights(store, seen, query)
    state = store.write(store.empty(2, 3), seen.keys, seen.values)
    return {
        "query": rounded(query),
        "likeness": rounded(seen.keys @ query[0]),
        "weights": rounded(weights[0], 3),
        "recalled": rounded(store.recall(state, query)[0], 3),
        "ratio": rounded(by_weights(weights, np.argmax(weights, axis=-1)), 3)[0],
    }


def layer() -> dict[str, Any]:
    """Return one feed-forward layer as a memory: rows of its first matrix are keys, columns of the second values."""
    store, pairs = LAYER.store, Pairs(LAYER_KEYS, LAYER_VALUES)
    state = store.write(store.empty(4, 3), pairs.keys, pairs.values)
    return {
        "input": rounded(LAYER_INPUT),
        "keys": _rows(LAYER_KEYS),
        "values": _rows(LAYER_VALUES),
        "likeness": rounded(LAYER_KEYS @ LAYER_INPUT[0], 4),
        "weights": rounded(recall_weights(store, pairs, LAYER_INPUT)[0], 4),
        "recalled": rounded(store.recall(state, LAYER_INPUT)[0], 4),
        "shapes": _shapes(1),
    }


def _rows(table: np.ndarray[Any, Any]) -> list[list[float]]:
    return [rounded(row) for row in table]


def _shapes(which: int) -> list[list[str]]:
    """Return what has which shape in the head (0) or the layer (1): in the picture, and in a real model."""
    # GPT-2 small (Radford et al. 2019): a context of 1,024, heads of width 64, layers of 3,072 units of width 768.
    sizes = {"head": counted_state(HEAD.store, 64, 64, 1024), "layer": counted_state(LAYER.store, 768, 768, 3072)}
    text = Path(__file__).with_suffix(".txt").read_text(encoding="utf-8").format(**sizes)
    return [[cell.strip() for cell in line.split("|")] for line in text.split("\n\n")[which].strip("\n").split("\n")]


TOKEN = Control("token", [Option(i, token) for i, token in enumerate(EMBEDDING)], len(EMBEDDING) - 1)
SECTION = Section(8, (Endpoint("head", head), Endpoint("mlp", layer)), more=(TOKEN,))
