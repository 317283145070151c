"""Capacity against key width, with the exponent of its growth beside the declared one."""

import math

from assocmem.experiments.experiment import Experiment, Outcome, Run
from assocmem.experiments.shown import Shown
from assocmem.lab.capacity import capacity
from assocmem.ruler import growth

WIDTHS = (16, 32, 64, 128, 256, 512)
STORES = (
    (Shown("outer-product"), 1), (Shown("relu"), 1), (Shown("squared-relu"), 2),
    (Shown("swiglu", "SwiGLU, shared gate"), 2), (Shown("cubed-relu"), 3),
)  # fmt: skip
WIDEST_FIT = 64


def _answer(run: Run) -> Outcome:
    widths = WIDTHS[: run.fewer(6, 2)]
    total, rows, words = len(STORES) * len(widths), [], []
    for i, (shown, declared) in enumerate(STORES):
        found = []
        for j, d in enumerate(widths):
            part = run.part(i * len(widths) + j, total)
            found.append(capacity((shown.label, shown.store), d, **part.lab, precision=run.rough(0.02)))
        wide = [one for one in found if one.d_k >= min(WIDEST_FIT, max(widths) // 2)]
        slope = growth([one.d_k for one in wide], [one.measured for one in wide]).value or math.nan
        more = {"experiment": "widths", "declared_exponent": declared, "fitted_exponent": slope}
        rows += [one.row() | more for one in found]
        words.append(f"{shown.label} {slope:.2f} ({declared})")
    return Outcome(
        rows,
        {"kind": "curves", "x": "d_k", "x_title": "key width d_k", "x_values": widths,
         "y_title": "capacity: memories at ratio 1", "order": [shown.label for shown, _ in STORES]},
        f"Fitted exponents over the wider half, in brackets theory's for very wide keys: {', '.join(words)}. Finite "
        "width lowers each a little: the exact capacity of squared ReLU is 2 d (d + 2)/3 + 1, not d^2.",
        {"widths": widths},
    )  # fmt: skip


EXPERIMENT = Experiment(
    "widths", 11, "Capacity against key width", "How fast does capacity grow with the width of the keys?", _answer
)
