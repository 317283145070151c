"""Ratio against M for the two linear stores, with the article's own points."""

from assocmem.experiments.experiment import Experiment, Outcome, Run, article, over_memories, with_article
from assocmem.experiments.shown import Shown
from assocmem.lab.keys import Keys
from assocmem.lab.run import curves
from assocmem.lab.similarities import Similarities

D_K = 64
STORES = (Shown("outer-product", "outer product (rms)"), Shown("optimal-linear", "optimal linear (median)"))


def _answer(run: Run) -> Outcome:
    outer, optimal = ((one.label, one.store) for one in STORES)
    printed = {outer[0]: article()["linear_curves"]["outer"], optimal[0]: article()["linear_curves"]["optimal"]}
    counts, optimal_counts = ([m for m, _ in points if m <= run.fewer(m, 256)] for points in printed.values())
    rows = curves([outer], D_K, counts, Similarities(streams=run.fewer(100, 20)), **run.part(0, 3).shared)
    few = Keys(trials=6, most=run.fewer(80, 16))
    # Where both are shown they are asked over the same draws, each for its own statistic.
    both = [m for m in counts if m in optimal_counts]
    apart = [m for m in optimal_counts if m not in counts]
    found = curves([outer, optimal], D_K, both, few, statistics=("rms", "median"), **run.part(1, 3).shared)
    found += curves([optimal], D_K, apart, few, statistics=("median",), **run.part(2, 3).shared)
    rows += [row for row in found if row["statistic"] == ("rms" if row["label"] == outer[0] else "median")]
    return Outcome(
        with_article(rows, {(label, m): ratio for label, points in printed.items() for m, ratio in points}),
        over_memories(STORES, y_within=(0.05, 30)),
        "The outer product follows sqrt((M-1)/d_k) and fails at 65 memories; least squares is exact up to 64 "
        "(ratio 0, not on a logarithmic axis) and fails at about 128. Near M = 64 the optimal store's ratio has a "
        "heavy tail over draws, so its median is shown, as the article's points suggest.",
        {"d_k": D_K, "trials": few.trials},
    )


EXPERIMENT = Experiment(
    "linear-stores", 3, "Linear stores", "How does interference grow with the number of memories in a matrix?",
    _answer, slow=True,
)  # fmt: skip
