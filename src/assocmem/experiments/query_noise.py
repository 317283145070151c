"""Capacity against the noise of the query: what a query that isn't quite the key costs each store."""

from assocmem.experiments.experiment import Experiment, Outcome, Run
from assocmem.experiments.shown import Shown
from assocmem.lab.capacity import capacity

D_K = 64
COSINES = (1.0, 0.9, 0.8, 0.7, 0.6, 0.5)
SOFTMAX = Shown("softmax", "softmax, beta 8", {"beta": 8.0})
STORES = (
    Shown("outer-product"), Shown("squared-relu"), Shown("cubed-relu"), SOFTMAX,
)  # fmt: skip


def _answer(run: Run) -> Outcome:
    cosines = COSINES[:: run.fewer(1, 4)]
    rows = []
    for i, shown in enumerate(STORES):
        for j, cosine in enumerate(cosines):
            part = run.part(i * len(cosines) + j, len(STORES) * len(cosines))
            one = (shown.label, shown.store)
            found = capacity(one, D_K, cosine=cosine, precision=run.rough(0.02), **part.lab)
            rows.append({**found.row(), "experiment": "query-noise", "label": shown.label})
    softmax = {r["cosine"]: r["theory"] for r in rows if r["label"] == SOFTMAX.label}
    return Outcome(
        rows,
        {"kind": "curves", "x": "cosine", "x_title": "cosine between query and stored key", "x_log": False,
         "x_values": cosines, "y_title": "capacity: memories at ratio 1", "order": [one.label for one in STORES]},
        f"A noisy query lowers the signal to σ(cosine) and leaves the interference as it was. It costs softmax most: "
        f"from {softmax[1.0]:,.0f} memories with a clean query to {softmax[0.6]:,.0f} at cosine 0.6.",
        {"d_k": D_K, "cosines": cosines},
    )  # fmt: skip


EXPERIMENT = Experiment(
    "query-noise", 12, "Noisy queries", "What does it cost when the query is only close to the key?", _answer
)
