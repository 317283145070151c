"""Bits recalled per number of state: what each store gets out of the memory it takes."""

from __future__ import annotations

from assocmem.experiments.experiment import Experiment, Outcome, Progress, Settings
from assocmem.inputs import draw_pairs
from assocmem.lab.keys import key_curves
from assocmem.ruler import bits_per_recall
from assocmem.stores.lookup import make_store

D_K = D_V = 64
OPTIMAL = "optimal linear"
STORES = (
    ("outer product", "outer-product"),
    (OPTIMAL, "optimal-linear"),
    ("squared ReLU", "squared-relu"),
    ("softmax", "softmax"),
)

WORDS = {
    "value": "bits recalled per number of state: M d_v/2 log2(1 + 1/ratio^2) / state_numbers; null at ratio 0",
    "theory": "the same at the ratio that theory gives; null where there is none and at ratio 0",
    "quantity": "what value, low, high and theory are",
    "ratio": "measured interference-to-signal ratio, a dimensionless amplitude ratio",
    "statistic": "of the ratio over trials: rms or median",
    "state_numbers": "numbers held after M writes, counted from the arrays",
}


def _answer(settings: Settings, progress: Progress) -> Outcome:
    stores = [(label, make_store(key)) for label, key in STORES]
    counts = [2**k for k in range(4, settings.fewer(13, 10))]
    curve = key_curves(
        stores, D_K, counts, trials=settings.fewer(8, 4), most=settings.fewer(64, 16), statistics=("rms", "median"),
        progress=progress, **settings.shared("state-bits"),
    )  # fmt: skip
    sizes = {
        (label, m): store.write(store.empty(D_K, D_V), pairs.keys, pairs.values).size
        for m in counts
        for pairs in [draw_pairs(settings.seed, 0, m, D_K, D_V)]
        for label, store in stores
    }
    rows = []
    for row in curve:
        if row["statistic"] != ("median" if row["label"] == OPTIMAL else "rms"):
            continue
        scale = row["n_memories"] / sizes[row["label"], row["n_memories"]]
        bits = {name: _bits(row[name], scale) for name in ("value", "low", "high", "theory")}
        rows.append(
            row | bits | {"low": bits["high"], "high": bits["low"], "ratio": row["value"],
                          "quantity": "bits per number", "state_numbers": sizes[row["label"], row["n_memories"]]}
        )  # fmt: skip
    return Outcome(
        rows,
        {"kind": "curves", "x": "n_memories", "x_title": "memories M", "y_title": "bits recalled per number of state",
         "order": [label for label, _ in STORES]},
        "Bits of one recall, d_v/2 log2(1 + 1/ratio^2) at the root mean square ratio (least squares: the median), "
        "times M, divided by the numbers held (counted from the arrays). A matrix is shared by all its memories: the "
        "more it holds, the more its numbers tell, up to a limit, though each recall gets worse. A store that keeps "
        "its pairs pays for every one of them and is worth it while recall is clean. At ratio 0 (least squares up to "
        "M = 64) bits are not defined.",
        {"d_k": D_K, "d_v": D_V},
        WORDS,
    )  # fmt: skip


def _bits(ratio: float | None, scale: float) -> float | None:
    if ratio is None or ratio < 1e-9:
        return None
    value = bits_per_recall(ratio, D_V).value
    return None if value is None else value * scale


EXPERIMENT = Experiment(
    "state-bits",
    "What a number of state is worth",
    "How much information does each store give back for the numbers it holds?",
    _answer,
)
