"""Data of the bars and of the opening picture: rows of recall weights, read by the ruler from real stores."""

from __future__ import annotations

import base64
from functools import lru_cache
from typing import Any

import numpy as np

from assocmem import theory
from assocmem.contract.errors import InputError
from assocmem.contract.estimate import Prediction, Statistic
from assocmem.contract.form import KernelSum
from assocmem.contract.random import stream
from assocmem.contract.state import Pairs
from assocmem.inputs import at_cosine, glyph_pairs, key_law
from assocmem.inputs.glyphs import glyphs
from assocmem.page.offer import COUNTS, LETTERS, MEMORIES, PICTURES, choice, rounded
from assocmem.ruler import by_weights, recall_weights

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
    query, form = _query(pairs, cosine, draw), store.form(d_k)
    if isinstance(form, KernelSum):
        row = recall_weights(store, pairs, query)[0]
        return tuple(row[:m] / row[:m].sum() if form.normalised else row[:m] for m in COUNTS)
    return tuple(
        recall_weights(store, Pairs(pairs.keys[:m], pairs.values[:m]), query)[0] for m in COUNTS
    )  # fmt: skip


def bars(name: str, d_k: int, cosine: float, draw: int, beta: float) -> dict[str, Any]:
    """Return one store's bars and read-outs at every M of the slider.

    weights: relative to the target's own weight; `rows` (one a count) for the optimal store, else one row whose
    first M entries belong to M memories. ratio, expected, signal, interference: one number a count; signal is the
    target's weight |A_jj|, interference sqrt(sum of the others' squares), both lengths for unit values.
    """
    rows, sums = weight_rows(name, d_k, cosine, draw, beta), isinstance(choice(name).store(beta).form(d_k), KernelSum)
    own = [float(row[TARGET]) for row in rows]
    ratios = [float(by_weights(row[None, :], np.array([TARGET]))[0]) for row in rows]
    relative = [row / (row[TARGET] or 1.0) for row in rows]
    shared = {"row": rounded(relative[-1], 4)} if sums else {"rows": [rounded(r, 4) for r in relative]}
    predictions = expected(name, d_k, cosine, beta)
    return {
        **shared,
        "ratio": rounded(ratios),
        "expected": [None if p.value is None else rounded([p.value])[0] for p in predictions],
        "expected_reason": next((p.reason for p in predictions if p.value is None), ""),
        "statistic": statistic_of(name, d_k, cosine, beta),
        "signal": rounded([abs(x) for x in own]),
        "interference": rounded([r * abs(x) for r, x in zip(ratios, own, strict=True)]),
        "capacity": expected_capacity(name, d_k, cosine, beta),
    }


def statistic_of(name: str, d_k: int, cosine: float, beta: float) -> Statistic:
    """Return the statistic over draws that the page expects of a store's ratio."""
    return theory.steady_statistic(choice(name).store(beta).form(d_k), cosine)


@lru_cache(maxsize=1024)
def expected(name: str, d_k: int, cosine: float, beta: float) -> tuple[Prediction, ...]:
    """Return what theory says of the ratio at every M in COUNTS."""
    form, statistic = choice(name).store(beta).form(d_k), statistic_of(name, d_k, cosine, beta)
    return tuple(theory.ratio(form, d_k, m, cosine=cosine, statistic=statistic) for m in COUNTS)


@lru_cache(maxsize=1024)
def expected_capacity(name: str, d_k: int, cosine: float, beta: float) -> float | None:
    """Return the M at which the expected ratio reaches 1, None where theory has no answer."""
    form, statistic = choice(name).store(beta).form(d_k), statistic_of(name, d_k, cosine, beta)
    value = theory.capacity(form, d_k, cosine=cosine, statistic=statistic).value
    return None if value is None else rounded([value], 8)[0]


def pictures(name: str, letter: str, d_k: int = 64, beta: float = 8.0) -> dict[str, Any]:
    """Return what the store recalls for one glyph at every M of the slider, as bytes of ink (0..255) in base64.

    Each picture is 16 x 16; keys are random unit vectors of width d_k; values are glyphs minus their mean, which is
    added back to draw. The recall is divided by the target's own weight, so that its ink keeps its depth.
    """
    if name not in PICTURES:
        raise InputError(f"the opening picture offers {', '.join(PICTURES)}; got {name!r}.")
    font, store = glyphs(), choice(name).store(beta)
    pairs = glyph_pairs(PAGE_SEED, LETTERS.index(letter), MEMORIES, d_k, first=letter)
    frames, ratios = [], []
    for m in (1, *COUNTS):
        held = Pairs(pairs.keys[:m], pairs.values[:m])
        weights = recall_weights(store, held, held.keys[:1])
        recalled = store.recall(
            store.write(store.empty(d_k, pairs.values.shape[1]), held.keys, held.values), held.keys[:1]
        )
        frames.append(_inked(font.picture(recalled[0] / weights[0, TARGET])))
        ratios.append(float(by_weights(weights, np.array([TARGET]))[0]))
    return {"letter": letter, "counts": [1, *COUNTS], "frames": frames, "ratio": rounded(ratios, 4)}


def glyph_sheet() -> dict[str, Any]:
    """Return all stored pictures, one bit a pixel in base64 (32 bytes a picture), and where each letter stands."""
    font = glyphs()
    bits = np.packbits(font.images.reshape(len(font.chars), -1) > 0.5, axis=1)
    return {
        "bits": base64.b64encode(bits.tobytes()).decode(),
        "first": {letter: font.chars.index(letter) for letter in LETTERS},
    }


def _inked(picture: np.ndarray[Any, Any]) -> str:
    return base64.b64encode(np.clip(np.rint(255 * picture), 0, 255).astype(np.uint8).tobytes()).decode()
