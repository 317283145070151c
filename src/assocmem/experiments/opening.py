"""The opening picture: a character drowns as more are stored, and clears as the store gets better."""

from typing import Any

import numpy as np

from assocmem.contract.state import Pairs
from assocmem.experiments.experiment import Experiment, Outcome, Run
from assocmem.inputs import glyph_pairs
from assocmem.inputs.glyphs import SIDE, glyphs
from assocmem.ruler import by_weights, recall_weights
from assocmem.stores import make_store

COUNTS = (1, 16, 64, 256, 1024)
STORES = ("outer-product", "optimal-linear", "relu", "squared-relu", "softmax")
D_K, LETTER = 64, "A"


def _answer(run: Run) -> Outcome:
    pairs = glyph_pairs(run.seed, 0, max(COUNTS), D_K, first=LETTER)
    counts = COUNTS[:: run.fewer(1, 2)]
    rows: list[dict[str, Any]] = []
    for i, key in enumerate(STORES):
        for j, m in enumerate(counts):
            held = Pairs(pairs.keys[:m], pairs.values[:m])
            rows += _picture(key, held)
            run.progress(i * len(counts) + j + 1, len(STORES) * len(counts))
    worst = max(float(r["ratio"]) for r in rows if r["label"] == STORES[0])
    return Outcome(
        rows,
        {"kind": "glyphs", "order": list(STORES), "column_title": "characters stored"},
        f"One recall of the letter {LETTER} from each store. With {max(COUNTS)} characters in the outer product "
        f"the interference is {worst:.1f} times the signal; softmax at beta = 8 still shows the letter.",
        {"d_k": D_K, "letter": LETTER, "n_memories": counts},
        {
            "ratio": "interference over signal of this recall, by weights: sqrt(sum over i != j of A_ij^2)/|A_jj|",
            "row": "of the picture, from the top",
            "column": "of the picture, from the left",
            "ink": "the recalled value there, divided by the target's weight and cut to 0 (white) .. 1 (black)",
        },
    )


def _picture(key: str, held: Pairs) -> list[dict[str, Any]]:
    """Return the picture that the store recalls for the first of the pairs, a row a pixel."""
    store = make_store(key)
    weights = recall_weights(store, held, held.keys[:1])
    state = store.write(store.empty(D_K, SIDE * SIDE), held.keys, held.values)
    picture = glyphs().picture(store.recall(state, held.keys[:1])[0] / weights[0, 0])
    ratio = float(by_weights(weights, np.array([0]))[0])
    shared = {
        "experiment": "opening", "store": key, "label": key, "d_k": D_K, "n_memories": len(held.keys), "ratio": ratio
    }  # fmt: skip
    ink = np.clip(picture, 0, 1).round(3)
    return [shared | {"row": r, "column": c, "ink": float(ink[r, c])} for r, c in np.ndindex(SIDE, SIDE)]


EXPERIMENT = Experiment(
    "opening", 1, "A character is recalled from memory",
    "What does a recall look like as more memories share one store?", _answer,
)  # fmt: skip
