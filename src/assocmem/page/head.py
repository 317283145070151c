"""Data of "where this sits in a language model": one attention head and one feed-forward layer, every number.

Both are worked by the library's own stores. The embedding is made by hand so that each of its six numbers can be
named; a trained model's numbers cannot, but what happens to them is the same.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from assocmem.contract.state import Pairs
from assocmem.page.offer import rounded
from assocmem.ruler import by_weights, recall_weights
from assocmem.stores import make_store

FEATURES = ("is a thing", "is a colour", "asks for a colour", "content 1", "content 2", "content 3")
TOKENS = ("the", "red", "hat", "and", "its", "colour", "is")
EMBEDDING = np.array(
    [
        [0.0, 0.0, 0.0, 0.1, 0.0, 0.1],
        [0.0, 1.0, 0.0, 0.9, 0.1, 0.2],
        [1.0, 0.0, 0.0, 0.2, 0.8, 0.1],
        [0.0, 0.0, 0.0, 0.0, 0.1, 0.1],
        [0.3, 0.0, 0.2, 0.1, 0.2, 0.0],
        [0.3, 0.2, 0.5, 0.1, 0.1, 0.6],
        [0.0, 0.0, 1.0, 0.0, 0.1, 0.0],
    ]
)
# d_k = 2: a key says "thing" and "colour"; a query says which of the two it looks for.
W_K = np.array([[1.0, 0.0, 0.0, 0.0, 0.0, 0.0], [0.0, 1.0, 0.0, 0.0, 0.0, 0.0]])
W_Q = np.array([[0.2, 0.0, 0.0, 0.0, 0.0, 0.0], [0.0, 0.0, 1.0, 0.0, 0.0, 0.0]])
W_V = np.array([[0.0, 0.0, 0.0, 1.0, 0.0, 0.0], [0.0, 0.0, 0.0, 0.0, 1.0, 0.0], [0.0, 0.0, 0.0, 0.0, 0.0, 1.0]])
BETA = 6.0

# GPT-2 small (Radford et al. 2019): width of the model, of a head, heads and hidden units in a layer.
MODEL_WIDTH, HEAD_WIDTH, HEADS, HIDDEN = 768, 64, 12, 3072

MLP_KEYS = np.array([[0.7, 0.7, 0.0, 0.1], [0.0, 0.1, 0.9, 0.4], [-0.5, 0.5, 0.1, 0.5], [0.8, -0.6, 0.0, 0.0]])
MLP_VALUES = np.array([[1.0, 0.0, 0.0], [0.0, 2.0, 1.0], [1.0, 1.0, 1.0], [0.0, 0.0, 3.0]])
MLP_INPUT = np.array([[0.1, 0.2, 0.9, 0.4]])


def head() -> dict[str, Any]:
    """Return one head on one sentence: keys, values, query, likenesses, weights and what comes back, for each token."""
    store = make_store("softmax", beta=BETA)
    keys, values = EMBEDDING @ W_K.T, EMBEDDING @ W_V.T
    queries = EMBEDDING @ W_Q.T
    tokens = []
    for i in range(len(TOKENS)):
        seen = Pairs(keys[: i + 1], values[: i + 1])
        state = store.write(store.empty(2, 3), seen.keys, seen.values)
        query = queries[i : i + 1]
        tokens.append(
            {
                "query": rounded(query),
                "likeness": rounded(seen.keys @ query[0]),
                "weights": rounded(recall_weights(store, seen, query)[0], 3),
                "recalled": rounded(store.recall(state, query)[0], 3),
                "ratio": _ratio(recall_weights(store, seen, query)),
            }
        )
    return {
        "tokens": list(TOKENS),
        "features": list(FEATURES),
        "embedding": [rounded(row) for row in EMBEDDING],
        "keys": [rounded(row) for row in keys],
        "values": [rounded(row) for row in values],
        "w_k": [rounded(row) for row in W_K],
        "w_q": [rounded(row) for row in W_Q],
        "w_v": [rounded(row) for row in W_V],
        "beta": BETA,
        "at": tokens,
        "shapes": _shapes_of_attention(),
    }


def _ratio(weights: np.ndarray[Any, Any]) -> float:
    """Return interference / signal, the target being the memory of the largest weight."""
    return rounded(by_weights(weights, np.argmax(weights, axis=-1)), 3)[0]


def mlp() -> dict[str, Any]:
    """Return one feed-forward layer as a memory: rows of its first matrix are keys, columns of the second values."""
    store = make_store("relu")
    pairs = Pairs(MLP_KEYS, MLP_VALUES)
    state = store.write(store.empty(4, 3), pairs.keys, pairs.values)
    return {
        "input": rounded(MLP_INPUT),
        "keys": [rounded(row) for row in MLP_KEYS],
        "values": [rounded(row) for row in MLP_VALUES],
        "likeness": rounded(MLP_KEYS @ MLP_INPUT[0], 4),
        "weights": rounded(recall_weights(store, pairs, MLP_INPUT)[0], 4),
        "recalled": rounded(store.recall(state, MLP_INPUT)[0], 4),
        "shapes": _shapes_of_mlp(),
    }


def _shapes_of_attention() -> list[list[str]]:
    """Return what has which shape: in the picture, and in a real model of modest size."""
    n, real = 1024, make_store("softmax", beta=math.sqrt(HEAD_WIDTH))
    kept = np.zeros((n, HEAD_WIDTH))
    held = real.write(real.empty(HEAD_WIDTH, HEAD_WIDTH), kept, kept).size
    d_k, d_v, d = W_K.shape[0], W_V.shape[0], EMBEDDING.shape[1]
    return [
        ["", "in this picture", "GPT-2 small"],
        ["a token's list of numbers x", f"{d}", f"{MODEL_WIDTH}"],
        ["W_K and W_Q, one row a number of the key", f"{d_k} × {d}", f"{HEAD_WIDTH} × {MODEL_WIDTH}"],
        ["W_V, one row a number of the value", f"{d_v} × {d}", f"{HEAD_WIDTH} × {MODEL_WIDTH}"],
        ["a key, a query", f"{d_k} numbers", f"{HEAD_WIDTH} numbers"],
        ["a value, and what one head hands back", f"{d_v} numbers", f"{HEAD_WIDTH} numbers"],
        ["memories of one head after n tokens", "n keys, n values", f"n keys, n values; {held:,} numbers at n = {n:,}"],
        [
            "heads side by side in a layer",
            "1",
            f"{HEADS}, whose answers make {HEADS} × {HEAD_WIDTH} = {MODEL_WIDTH} numbers",
        ],
    ]


def _shapes_of_mlp() -> list[list[str]]:
    real = make_store("relu")
    kept = np.zeros((HIDDEN, MODEL_WIDTH), dtype=np.float32)
    held = real.write(real.empty(MODEL_WIDTH, MODEL_WIDTH), kept, kept).size
    (units, width), out = MLP_KEYS.shape, MLP_VALUES.shape[1]
    return [
        ["", "in this picture", "GPT-2 small"],
        ["the query: the layer's input", f"{width} numbers", f"{MODEL_WIDTH} numbers"],
        ["first matrix: one key a row", f"{units} × {width}", f"{HIDDEN:,} × {MODEL_WIDTH}"],
        ["weights: one a hidden unit", f"{units}", f"{HIDDEN:,}"],
        ["second matrix: one value a column", f"{out} × {units}", f"{MODEL_WIDTH} × {HIDDEN:,}"],
        ["memories", f"{units}", f"{HIDDEN:,} in each layer, {held:,} numbers"],
    ]
