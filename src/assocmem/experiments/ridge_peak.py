"""The optimal store's peak at M = d_k under noisy queries, and the ridge that removes it."""

from __future__ import annotations

from assocmem.experiments.experiment import Experiment, Outcome, Progress, Settings
from assocmem.lab.keys import key_curves
from assocmem.stores.lookup import make_store

D_K, COSINE, RIDGE = 64, 0.9, 0.5
COUNTS = (8, 16, 24, 32, 40, 48, 56, 60, 62, 64, 66, 68, 72, 80, 96, 128, 192, 256, 512)


def _answer(settings: Settings, progress: Progress) -> Outcome:
    stores = [
        ("outer product", make_store("outer-product")),
        ("least squares", make_store("optimal-linear")),
        (f"least squares, ridge {RIDGE:g}", make_store("optimal-linear", ridge=RIDGE)),
    ]
    counts = COUNTS[:: settings.fewer(1, 4)]
    rows = key_curves(
        stores, D_K, counts, cosines=(COSINE,), statistics=("median",), trials=settings.fewer(12, 4),
        most=settings.fewer(64, 12), progress=progress, **settings.shared("ridge-peak"),
    )  # fmt: skip
    peak = max((r["value"], r["n_memories"]) for r in rows if r["label"] == "least squares")
    return Outcome(
        rows,
        {"kind": "curves", "x": "n_memories", "x_title": "memories M", "y_title": "median interference / signal",
         "order": [label for label, _ in stores], "join": True, "rule": 1.0,
         "rule_text": "recall fails: interference larger than signal"},
        f"Asked with queries at cosine {COSINE:g}, exact least squares does worst where it just fits: the measured "
        f"median peaks at {peak[0]:.1f} for M = {peak[1]}, because its solution there amplifies whatever is not a "
        "stored key. A ridge gives up exactness and takes the peak away.",
        {"d_k": D_K, "cosine": COSINE, "ridge": RIDGE},
    )  # fmt: skip


EXPERIMENT = Experiment(
    "ridge-peak",
    "Least squares and noisy queries",
    "What happens to the exact store when the query is not exact?",
    _answer,
)
