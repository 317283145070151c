"""One bar for every memory: rows of recall weights, read by the ruler from real stores."""

from functools import lru_cache
from typing import Any

import numpy as np

from assocmem import theory
from assocmem.contract.estimate import Prediction
from assocmem.contract.numbers import stream
from assocmem.contract.state import Pairs
from assocmem.experiments.shown import CHOICES, EXP2, OPTIMAL, OUTER, SOFTMAX, SQUARED, Shown
from assocmem.inputs import at_cosine, key_law
from assocmem.lab.plan import labelled
from assocmem.page.charts import rounded, short
from assocmem.page.declare import FILE, SITE, Control, Endpoint, Option, Part, Section
from assocmem.report.canvas import PALETTE
from assocmem.ruler import by_weights, recall_weights

PAGE_SEED = 7
TARGET = 0
MEMORIES = 1024
"""The largest number of memories that the bars and the opening picture reach."""

COUNTS = (
    *(2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 24, 32, 40, 48, 64, 80, 96),
    *(128, 160, 192, 256, 320, 384, 512, 640, 768, 1024),
)
"""The numbers of memories that the slider steps through."""
BETAS = (
    *(0.5, 0.75, 1.0, 1.25, 1.5, 1.75, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5),
    *(5.0, 5.5, 6.0, 7.0, 8.0, 9.0, 10.0, 11.0, 12.0, 13.0, 14.0, 16.0),
)
COSINES = (1.0, 0.9, 0.8, 0.65, 0.5)
WIDTHS, FILE_WIDTHS = (16, 32, 64, 128), (32, 64)


def options(stores: tuple[Shown, ...]) -> tuple[Option, ...]:
    """Return stores as what buttons offer, in the colours that they have on the page."""
    colours = {one: PALETTE[i % len(PALETTE)] for i, one in enumerate(CHOICES)}
    return tuple(
        Option(one.id, one.label, one, {"sharp": one.sharp, "colour": colours[one], "about": one.about})
        for one in stores
    )


def width(name: str) -> Control:
    """Return a slider of the keys' width."""
    return Control(name, WIDTHS, 64, "Key width d_k", "{} numbers", kept={FILE: FILE_WIDTHS})


def cosine(name: str) -> Control:
    """Return a slider of how near the query is to its key."""
    clean = {1: ("1 (clean)", "1, a clean query")}
    return Control(name, COSINES, 1, "Likeness of query and key", "{}, a vague query", clean)


STORE = Control("store", options(CHOICES), OUTER.id)
M = Control("m", COUNTS, 32, "Memories M", "{} memories")
SHARPNESS = [setting for one in CHOICES for setting in one.named("beta")]
BETA = Control.of("beta", SHARPNESS, BETAS, 8, "Sharpness β", say="sharpness {}")
COSINE, WIDTH = cosine("cosine"), width("width")
DRAW = Control("draw", range(100), 0, kept={SITE: range(2), FILE: range(1)}, noun="draws of the bars' keys")


def page_keys(d_k: int, draw: int) -> np.ndarray[Any, Any]:
    """Return the 1024 random unit keys (1024, d_k) of one draw of the bars."""
    return key_law("sphere").draw(stream(PAGE_SEED, "page keys", d_k, draw), MEMORIES, d_k)


def page_query(keys: np.ndarray[Any, Any], cosine: float, draw: int, target: int = TARGET) -> np.ndarray[Any, Any]:
    """Return the query (1, d_k) at a cosine with the key of the target."""
    key = keys[target : target + 1]
    return key if cosine == 1.0 else at_cosine(stream(PAGE_SEED, "page query", key.shape[1], draw), key, cosine)


def sums(shown: Shown, d_k: int, beta: float) -> bool:
    """Say whether recall is V^T σ(K x), what a pair weighs being its own affair, up to the normaliser."""
    return labelled(shown.at(beta)).sigma(d_k, MEMORIES) is not None


@lru_cache(maxsize=256)
def weight_rows(
    shown: Shown, d_k: int, cosine: float, draw: int, beta: float, target: int = TARGET
) -> tuple[np.ndarray[Any, Any], ...]:
    """Return the recall weights (M,) of one query for every M in COUNTS.

    For stores whose weights do not depend on M all rows are prefixes of one row (softmax up to its normaliser).
    """
    store, keys = shown.at(beta), page_keys(d_k, draw)
    query, values, form = page_query(keys, cosine, draw, target), np.zeros((MEMORIES, 1)), store.form(d_k)
    if sums(shown, d_k, beta):
        row = recall_weights(store, Pairs(keys, values), query)[0]
        return tuple(row[:m] / row[:m].sum() if form and form.normalised else row[:m] for m in COUNTS)
    return tuple(recall_weights(store, Pairs(keys[:m], values[:m]), query)[0] for m in COUNTS)


def bars(shown: Shown, d_k: int, cosine: float, draw: int, beta: float) -> dict[str, Any]:
    """Return one store's bars and read-outs at every M of the slider.

    weights: relative to the target's own weight; `rows` (one a count) for the optimal store, else one row whose
    first M entries belong to M memories. ratio, expected, signal, interference: one number a count; signal is the
    target's weight |A_jj|, interference sqrt(sum of the others' squares), both lengths for unit values.
    """
    rows = weight_rows(shown, d_k, cosine, draw, beta)
    own = [float(row[TARGET]) for row in rows]
    ratios = [float(by_weights(row[None, :], np.array([TARGET]))[0]) for row in rows]
    relative = [row / (row[TARGET] or 1.0) for row in rows]
    predictions = expected(shown, d_k, cosine, beta)
    return {
        **(
            {"row": rounded(relative[-1], 4)} if sums(shown, d_k, beta) else {"rows": [rounded(r, 4) for r in relative]}
        ),
        "ratio": rounded(ratios),
        "expected": [short(p.value) for p in predictions],
        "expected_reason": next((p.reason for p in predictions if p.value is None), ""),
        "statistic": predictions[0].statistic,
        "signal": rounded([abs(x) for x in own]),
        "interference": rounded([r * abs(x) for r, x in zip(ratios, own, strict=True)]),
        "capacity": expected_capacity(shown, d_k, cosine, beta),
    }


@lru_cache(maxsize=1024)
def expected(shown: Shown, d_k: int, cosine: float, beta: float) -> tuple[Prediction, ...]:
    """Return what theory says of the ratio at every M in COUNTS, in the statistic that draws settle soonest."""
    form = shown.at(beta).form(d_k)
    statistic = theory.steady_statistic(form, cosine)
    return tuple(theory.ratio(form, d_k, m, cosine=cosine, statistic=statistic) for m in COUNTS)


@lru_cache(maxsize=1024)
def expected_capacity(shown: Shown, d_k: int, cosine: float, beta: float) -> float | None:
    """Return the M at which the expected ratio reaches 1, None where theory has no answer."""
    form = shown.at(beta).form(d_k)
    return short(theory.capacity(form, d_k, cosine=cosine, statistic=theory.steady_statistic(form, cosine)).value, 8)


PRESETS = [
    {"label": label, "set": {"store": shown.id, "m": m, **more}}
    for label, shown, m, more in (
        ("Outer product, 32 memories", OUTER, 32, {}),
        ("Past 64 the outer product fails", OUTER, 128, {}),
        ("Optimal linear: nothing leaks at 64", OPTIMAL, 64, {}),
        ("Squaring turns 0.1 into 0.01", SQUARED, 768, {}),
        ("Two terms of exp lose to the outer product", EXP2, 48, {}),
        ("Softmax at β 2 fails after a few dozen", SOFTMAX, 64, {"beta": 2}),
        ("Softmax at β 8 doesn't", SOFTMAX, 1024, {"beta": 8}),
        ("A vague query makes softmax fail again", SOFTMAX, 1024, {"beta": 8, "cosine": 0.5}),
    )
]
SECTION = Section(
    3,
    (Endpoint("bars", bars, (Part(STORE), Part(WIDTH), Part(COSINE), Part(DRAW), Part(BETA, needs="sharp")), True),),
    (M, BETA, COSINE, WIDTH),
    charts={"bars": ({"kind": "bars", "y_title": "weight / target's weight"}, 250)},
    words={"presets": PRESETS},
)
