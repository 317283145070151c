"""Capacity against the noise of the query: what a query that isn't quite the key costs each store."""

from __future__ import annotations

from assocmem.contract.store import Store
from assocmem.experiments.experiment import QUICK_PRECISION, Experiment, Outcome, Progress, Settings, parts
from assocmem.lab.capacity import DEFINITIONS, capacity
from assocmem.stores.lookup import make_store

D_K = 64
COSINES = (1.0, 0.9, 0.8, 0.7, 0.6, 0.5)


def _stores() -> list[tuple[str, Store]]:
    return [
        ("outer product", make_store("outer-product")),
        ("squared ReLU", make_store("squared-relu")),
        ("cubed ReLU", make_store("cubed-relu")),
        ("softmax, beta 8", make_store("softmax", beta=8.0)),
    ]


def _answer(settings: Settings, progress: Progress) -> Outcome:
    cosines = COSINES[:: settings.fewer(1, 4)]
    stores = _stores()
    part, rows = parts(progress, len(stores) * len(cosines)), []
    for i, one in enumerate(stores):
        for j, cosine in enumerate(cosines):
            found = capacity(
                one, D_K, seed=settings.seed, cosine=cosine, workers=settings.workers,
                progress=part(i * len(cosines) + j), precision=QUICK_PRECISION if settings.quick else 0.02,
            )  # fmt: skip
            rows.append(found.row() | {"experiment": "query-noise", "label": one[0]})
    softmax = {r["cosine"]: r["theory"] for r in rows if r["label"] == "softmax, beta 8"}
    return Outcome(
        rows,
        {"kind": "curves", "x": "cosine", "x_title": "cosine between query and stored key", "x_log": False,
         "x_values": cosines, "y_title": "capacity: memories at ratio 1", "order": [label for label, _ in stores]},
        f"A noisy query lowers the signal to σ(cosine) and leaves the interference as it was. It costs softmax most: "
        f"from {softmax[1.0]:,.0f} memories with a clean query to {softmax[0.6]:,.0f} at cosine 0.6.",
        {"d_k": D_K, "cosines": cosines},
        DEFINITIONS,
    )  # fmt: skip


EXPERIMENT = Experiment(
    "query-noise",
    "Noisy queries",
    "What does it cost when the query is only close to the key?",
    _answer,
)
