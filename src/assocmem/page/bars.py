"""Data of the bars and of the opening picture: rows of recall weights, read by the ruler from real stores."""

from __future__ import annotations

import base64
from functools import lru_cache
from typing import Any

import numpy as np

from assocmem.core.random import stream
from assocmem.core.types import Pairs
from assocmem.inputs import at_cosine, glyph_pairs, key_law
from assocmem.page.offer import COUNTS, LETTERS, MEMORIES, choice, rounded
from assocmem.ruler import by_weights, recall_weights
from assocmem.theory import capacity, none, optimal_ratio, ratio

PAGE_SEED = 7
TARGET = 0


def page_keys(d_k: int, draw: int) -> np.ndarray[Any, Any]:
    """Return the 1024 random unit keys (1024, d_k) of one draw of the bars."""
    return key_law("sphere").draw(stream(PAGE_SEED, "page keys", d_k, draw), MEMORIES, d_k)


def _pairs(d_k: int, draw: int) -> Pairs:
    keys = page_keys(d_k, draw)
    return Pairs(keys, np.zeros((MEMORIES, 1)), law="uniform on the sphere")


def _query(pairs: Pairs, cosine: float, draw: int) -> np.ndarray[Any, Any]:
    key = pairs.keys[TARGET : TARGET + 1]
    if cosine == 1.0:
        return np.asarray(key)
    return at_cosine(stream(PAGE_SEED, "page query", key.shape[1], draw), key, cosine)


@lru_cache(maxsize=256)
def weight_rows(name: str, d_k: int, cosine: float, draw: int, beta: float) -> tuple[np.ndarray[Any, Any], ...]:
    """Return the recall weights (M,) of one query for every M in COUNTS, the target's first.

    For stores whose weights do not depend on M all rows are prefixes of one row (softmax up to its normaliser).
    """
    store, pairs = choice(name).store(beta), _pairs(d_k, draw)
    query = _query(pairs, cosine, draw)
    if name != "optimal":
        row = recall_weights(store, pairs, query)[0]
        if name == "softmax":
            return tuple(row[:m] / row[:m].sum() for m in COUNTS)
        return tuple(row[:m] for m in COUNTS)
    return tuple(
        recall_weights(store, Pairs(pairs.keys[:m], pairs.values[:m]), query)[0] for m in COUNTS
    )  # fmt: skip


def bars(name: str, d_k: int, cosine: float, draw: int, beta: float) -> dict[str, Any]:
    """Return one store's bars and read-outs at every M of the slider.

    weights: relative to the target's own weight; `rows` (one a count) for the optimal store, else one row whose
    first M entries belong to M memories. ratio, expected, signal, interference: one number a count; signal is the
    target's weight |A_jj|, interference sqrt(sum of the others' squares), both lengths for unit values.
    """
    rows = weight_rows(name, d_k, cosine, draw, beta)
    own = [float(row[TARGET]) for row in rows]
    ratios = [float(by_weights(row[None, :], np.array([TARGET]))[0]) for row in rows]
    relative = [row / (row[TARGET] or 1.0) for row in rows]
    shared = {"rows": [rounded(r, 4) for r in relative]} if name == "optimal" else {"row": rounded(relative[-1], 4)}
    predictions = [_expected(name, d_k, m, cosine, beta) for m in COUNTS]
    return {
        **shared,
        "ratio": rounded(ratios),
        "expected": [None if p.value is None else rounded([p.value])[0] for p in predictions],
        "expected_reason": next((p.reason for p in predictions if p.value is None), ""),
        "signal": rounded([abs(x) for x in own]),
        "interference": rounded([r * abs(x) for r, x in zip(ratios, own, strict=True)]),
        "capacity": _capacity(name, d_k, cosine, beta),
    }


def _expected(name: str, d_k: int, m: int, cosine: float, beta: float) -> Any:
    if name == "optimal":
        if cosine != 1.0:
            return none("ratio", "there is no closed form for the optimal store asked with a noisy query")
        return optimal_ratio(d_k, m, law="sphere")
    similarity = choice(name).store(beta).similarity(d_k, m)
    if similarity is None:
        return none("ratio", "this store has no similarity form")
    return ratio(similarity, d_k, m, cosine=cosine)


def _capacity(name: str, d_k: int, cosine: float, beta: float) -> float | None:
    if name == "optimal":
        return float(2 * d_k) if cosine == 1.0 else None
    similarity = choice(name).store(beta).similarity(d_k, MEMORIES)
    value = capacity(similarity, d_k, cosine=cosine).value if similarity else None
    return None if value is None else rounded([value])[0]


def pictures(name: str, letter: str, d_k: int = 64, beta: float = 8.0) -> dict[str, Any]:
    """Return what the store recalls for one glyph at every M of the slider, as bytes of ink (0..255) in base64.

    Each picture is 16 x 16; keys are random unit vectors of width d_k; values are glyphs minus their mean, which is
    added back to draw.
    """
    if letter not in LETTERS:
        raise ValueError(f"the opening picture offers {', '.join(LETTERS)}; got {letter!r}.")
    from assocmem.inputs.glyphs import glyphs

    font, store = glyphs(), choice(name).store(beta)
    pairs = glyph_pairs(PAGE_SEED, LETTERS.index(letter), MEMORIES, d_k, first=letter)
    frames, ratios = [], []
    for m in (1, *COUNTS):
        held = Pairs(pairs.keys[:m], pairs.values[:m])
        recalled = store.recall(
            store.write(store.empty(d_k, pairs.values.shape[1]), held.keys, held.values), held.keys[:1]
        )
        weights = recall_weights(store, held, held.keys[:1])
        own = weights[0, TARGET]
        picture = font.picture(recalled[0] / own)
        frames.append(base64.b64encode(np.clip(np.rint(255 * picture), 0, 255).astype(np.uint8).tobytes()).decode())
        ratios.append(float(by_weights(weights, np.array([TARGET]))[0]))
    truth = np.rint(255 * font.images[font.chars.index(letter)]).astype(np.uint8)
    return {
        "letter": letter,
        "counts": [1, *COUNTS],
        "frames": frames,
        "truth": base64.b64encode(truth.tobytes()).decode(),
        "ratio": rounded(ratios, 4),
    }
