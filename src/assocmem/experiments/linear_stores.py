"""Ratio against M for the two linear stores, with the article's own points."""

from __future__ import annotations

from typing import Any

from assocmem.experiments.experiment import Experiment, Outcome, Progress, Settings, article, parts, with_article
from assocmem.lab.keys import key_curves
from assocmem.lab.similarities import similarity_curves
from assocmem.stores.lookup import make_store

D_K = 64
OUTER, OPTIMAL = "outer product (rms)", "optimal linear (median)"


def _answer(settings: Settings, progress: Progress) -> Outcome:
    printed = article()["linear_curves"]
    counts = [m for m, _ in printed["outer"]]
    optimal_counts = [m for m, _ in printed["optimal"]]
    if settings.quick:
        counts, optimal_counts = ([m for m in c if m <= 256] for c in (counts, optimal_counts))
    part = parts(progress, 3)
    shared = settings.shared("linear-stores")
    outer, optimal = (OUTER, make_store("outer-product")), (OPTIMAL, make_store("optimal-linear"))
    rows = similarity_curves([outer], D_K, counts, streams=settings.fewer(100, 20), progress=part(0), **shared)
    few: dict[str, Any] = {"trials": 6, "most": settings.fewer(80, 16)}
    # Where both are shown they are asked over the same draws, each for its own statistic.
    both = [m for m in counts if m in optimal_counts]
    apart = [m for m in optimal_counts if m not in counts]
    found = key_curves([outer, optimal], D_K, both, statistics=("rms", "median"), progress=part(1), **few, **shared)
    found += key_curves([optimal], D_K, apart, statistics=("median",), progress=part(2), **few, **shared)
    rows += [row for row in found if row["statistic"] == ("rms" if row["label"] == OUTER else "median")]
    points = {(OUTER, m): r for m, r in printed["outer"]} | {(OPTIMAL, m): r for m, r in printed["optimal"]}
    return Outcome(
        with_article(rows, points),
        {"kind": "curves", "x": "n_memories", "x_title": "memories M", "order": [OUTER, OPTIMAL], "rule": 1.0,
         "rule_text": "recall fails: interference larger than signal", "y_domain": (0.05, 30)},
        "The outer product follows sqrt((M-1)/d_k) and fails at 65 memories; least squares is exact up to 64 "
        "(ratio 0, not on a logarithmic axis) and fails at about 128. Near M = 64 the optimal store's ratio has a "
        "heavy tail over draws, so its median is shown, as the article's points suggest.",
        {"d_k": D_K, "trials": few["trials"]},
    )  # fmt: skip


EXPERIMENT = Experiment(
    "linear-stores",
    "Linear stores",
    "How does interference grow with the number of memories in a matrix?",
    _answer,
    slow=True,
)
