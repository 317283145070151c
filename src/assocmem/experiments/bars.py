"""The bars: one bar a memory, its weight in one recall divided by the target's."""

from __future__ import annotations

from typing import Any

import numpy as np

from assocmem import theory
from assocmem.contract.state import Pairs
from assocmem.experiments.experiment import Experiment, Outcome, Progress, Settings
from assocmem.inputs import draw_pairs
from assocmem.maps.sharpness import Constant
from assocmem.ruler import by_weights, recall_weights
from assocmem.stores.lookup import make_store

D_K = 64
PANELS: tuple[tuple[str, str, dict[str, Any], int], ...] = (
    ("outer product, M = 32", "outer-product", {}, 32),
    ("outer product, M = 128", "outer-product", {}, 128),
    ("optimal linear, M = 64", "optimal-linear", {}, 64),
    ("ReLU, M = 128", "relu", {}, 128),
    ("squared ReLU, M = 1024", "squared-relu", {}, 1024),
    ("exp, 2 terms, M = 48", "exp-series", {"terms": 2, "beta": 8.0}, 48),
    ("softmax, beta = 2, M = 64", "softmax", {"beta": 2.0}, 64),
    ("softmax, beta = 8, M = 1024", "softmax", {"beta": 8.0}, 1024),
)


def _answer(settings: Settings, progress: Progress) -> Outcome:
    pairs = draw_pairs(settings.seed, 0, 1024, D_K, 64)
    rows = []
    panels = [_fewer(*panel) if settings.quick else panel for panel in PANELS]
    for done, (panel, key, options, m) in enumerate(panels):
        held = Pairs(pairs.keys[:m], pairs.values[:m])
        weights = recall_weights(make_store(key, **options), held, held.keys[:1])
        ratio = float(by_weights(weights, np.array([0]))[0])
        relative = weights[0] / weights[0, 0]
        rows += [
            {"experiment": "bars", "store": key, "panel": panel, "n_memories": m, "index": i, "end": i + 0.9,
             "weight": float(w), "target": i == 0, "ratio": ratio}
            for i, w in enumerate(relative)
        ]  # fmt: skip
        progress(done + 1, len(panels))
    blunt = theory.softmax_capacity(Constant(2.0), D_K).value or 0.0
    return Outcome(
        rows,
        {"kind": "bars", "order": [p[0] for p in panels], "columns": 2},
        "One draw of random unit keys, d_k = 64; heights are weights over the target's. The target is orange; every "
        "other bar is interference. Softmax at "
        f"beta = 2 fails after a few dozen memories (exactly {blunt:.1f}); at beta = 8 {panels[-1][3]} leave no trace.",
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


def _fewer(panel: str, key: str, options: dict[str, Any], m: int) -> tuple[str, str, dict[str, Any], int]:
    """Return the panel with at most 128 bars: each takes its time to draw."""
    few = min(m, 128)
    return panel.replace(f"M = {m}", f"M = {few}"), key, options, few


EXPERIMENT = Experiment(
    "bars",
    "One bar a memory",
    "How much does every other memory add to one recall?",
    _answer,
)
