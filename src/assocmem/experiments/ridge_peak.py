"""The optimal store's peak at M = d_k under noisy queries, and the ridge that removes it."""

from assocmem.experiments.experiment import Experiment, Outcome, Run, over_memories
from assocmem.experiments.shown import Shown, labelled
from assocmem.lab.keys import Keys
from assocmem.lab.run import curves

D_K, COSINE, RIDGE = 64, 0.9, 0.5
COUNTS = (8, 16, 24, 32, 40, 48, 56, 60, 62, 64, 66, 68, 72, 80, 96, 128, 192, 256, 512)
EXACT = Shown("optimal-linear", "least squares")
STORES = (
    Shown("outer-product"), EXACT, Shown("optimal-linear", f"least squares, ridge {RIDGE:g}", {"ridge": RIDGE}),
)  # fmt: skip


def _answer(run: Run) -> Outcome:
    rows = curves(
        labelled(STORES), D_K, COUNTS[:: run.fewer(1, 4)], Keys(trials=run.fewer(12, 4), most=run.fewer(64, 12)),
        cosines=(COSINE,), statistics=("median",), **run.shared,
    )  # fmt: skip
    peak = max((r["value"], r["n_memories"]) for r in rows if r["label"] == EXACT.label)
    return Outcome(
        rows,
        over_memories(STORES, y_title="median interference / signal", join=True),
        f"Asked with queries at cosine {COSINE:g}, exact least squares does worst where it just fits: the measured "
        f"median peaks at {peak[0]:.1f} for M = {peak[1]}, because its solution there amplifies whatever is not a "
        "stored key. A ridge gives up exactness and takes the peak away.",
        {"d_k": D_K, "cosine": COSINE, "ridge": RIDGE},
    )


EXPERIMENT = Experiment(
    "ridge-peak", 13, "Least squares and noisy queries",
    "What happens to the exact store when the query is not exact?", _answer,
)  # fmt: skip
