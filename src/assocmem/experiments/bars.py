"""The bars: one bar a memory, its weight in one recall divided by the target's."""

import numpy as np

from assocmem import theory
from assocmem.contract.state import Pairs
from assocmem.experiments.experiment import Experiment, Outcome, Run
from assocmem.experiments.shown import Shown
from assocmem.inputs import draw_pairs
from assocmem.maps.activations import Constant
from assocmem.ruler import by_weights, recall_weights

D_K = 64
PANELS = (
    (Shown("outer-product"), 32), (Shown("outer-product"), 128), (Shown("optimal-linear"), 64), (Shown("relu"), 128),
    (Shown("squared-relu"), 1024), (Shown("exp-series", "exp, 2 terms", {"terms": 2, "beta": 8.0}), 48),
    (Shown("softmax", "softmax, beta = 2", {"beta": 2.0}), 64),
    (Shown("softmax", "softmax, beta = 8", {"beta": 8.0}), 1024),
)  # fmt: skip


def _answer(run: Run) -> Outcome:
    pairs = draw_pairs(run.seed, 0, 1024, D_K, 64)
    rows = []
    # Each bar takes its time to draw.
    panels = [(shown, min(m, run.fewer(m, 128))) for shown, m in PANELS]
    for done, (shown, m) in enumerate(panels):
        held = Pairs(pairs.keys[:m], pairs.values[:m])
        weights = recall_weights(shown.store, held, held.keys[:1])
        ratio = float(by_weights(weights, np.array([0]))[0])
        rows += [
            {"experiment": "bars", "store": shown.key, "panel": _title(shown, m), "n_memories": m, "index": i,
             "end": i + 0.9, "weight": float(w), "target": i == 0, "ratio": ratio}
            for i, w in enumerate(weights[0] / weights[0, 0])
        ]  # fmt: skip
        run.progress(done + 1, len(panels))
    blunt = theory.capacity(Constant(2.0), D_K).value or 0.0
    return Outcome(
        rows,
        {"kind": "bars", "order": [_title(*panel) for panel in panels], "columns": 2},
        "One draw of random unit keys, d_k = 64; heights are weights over the target's. The target is orange; every "
        "other bar is interference. Softmax at "
        f"beta = 2 fails after a few dozen memories (exactly {blunt:.1f}); at beta = 8 {panels[-1][1]} leave no trace.",
        {"d_k": D_K},
        {
            "panel": "the store, its sharpness and M",
            "index": "of the memory; 0 is the one asked for",
            "end": "where its bar ends: index + 0.9",
            "weight": "of the memory's value in the recall, over the target's",
            "target": "whether it is the memory asked for",
            "ratio": "interference over signal of the recall, by weights: sqrt(sum over i != j of A_ij^2)/|A_jj|",
        },
    )


def _title(shown: Shown, m: int) -> str:
    return f"{shown.label}, M = {m}"


EXPERIMENT = Experiment(
    "bars", 2, "One bar a memory", "How much does every other memory add to one recall?", _answer
)  # fmt: skip
