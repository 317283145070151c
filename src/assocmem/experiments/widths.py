"""Capacity against key width, with the exponent of its growth beside the declared one."""

from __future__ import annotations

import math

import numpy as np

from assocmem.experiments.experiment import Experiment, Outcome, Run, Shown
from assocmem.lab.capacity import DEFINITIONS, capacity

WIDTHS = (16, 32, 64, 128, 256, 512)
STORES = (
    (Shown("outer-product", "outer product"), 1),
    (Shown("relu", "ReLU"), 1),
    (Shown("squared-relu", "squared ReLU"), 2),
    (Shown("swiglu", "SwiGLU, shared gate"), 2),
    (Shown("cubed-relu", "cubed ReLU"), 3),
)
WIDEST_FIT = 64


def _answer(run: Run) -> Outcome:
    widths = WIDTHS[: run.fewer(6, 2)]
    total, rows, words = len(STORES) * len(widths), [], []
    for i, (shown, declared) in enumerate(STORES):
        mine = []
        for j, d in enumerate(widths):
            part = run.part(i * len(widths) + j, total)
            found = capacity((shown.label, shown.store), d, **part.lab, precision=run.rough(0.02))
            mine.append({**found.row(), "experiment": "widths", "label": shown.label, "declared_exponent": declared})
        slope = exponent([(r["d_k"], r["value"]) for r in mine if r["d_k"] >= min(WIDEST_FIT, max(widths) // 2)])
        rows += [r | {"fitted_exponent": slope} for r in mine]
        words.append(f"{shown.label} {slope:.2f} ({declared})")
    return Outcome(
        rows,
        {"kind": "curves", "x": "d_k", "x_title": "key width d_k", "y_title": "capacity: memories at ratio 1",
         "order": [shown.label for shown, _ in STORES]},
        f"Fitted exponents over the wider half, in brackets theory's for very wide keys: {', '.join(words)}. Finite "
        "width lowers each a little: the exact capacity of squared ReLU is 2 d (d + 2)/3 + 1, not d^2.",
        {"widths": widths},
        DEFINITIONS | {
            "declared_exponent": "of the capacity's growth with d_k at large width, by theory",
            "fitted_exponent": "slope of log capacity over log d_k, least squares over the wider half",
        },
    )  # fmt: skip


def exponent(points: list[tuple[int, float | None]]) -> float:
    """Return the slope of log capacity against log width by least squares, over the points that have a capacity."""
    known = [(math.log(d), math.log(value)) for d, value in points if value]
    widths, heights = np.array(known).T
    return float(np.polyfit(widths, heights, 1)[0])


EXPERIMENT = Experiment(
    "widths", 11, "Capacity against key width", "How fast does capacity grow with the width of the keys?", _answer
)
