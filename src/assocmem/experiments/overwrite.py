"""Overwriting: what a store still says of a key's old value once the key was written again."""

from collections.abc import Sequence

from assocmem.contract.results import Row
from assocmem.experiments.experiment import RULE, Experiment, Outcome, Run, in_panels
from assocmem.experiments.shown import Shown, labelled
from assocmem.lab.recency import Rewrites, Sequences
from assocmem.lab.run import curves

D_K, D_V = 64, 32
STORES = (
    Shown("outer-product"), Shown("linear-attention"), Shown("softmax"), Shown("optimal-linear", "least squares"),
    Shown("mamba-2", "Mamba-2, decay 0.99", {"decay": 0.99}), Shown("delta-net"),
    Shown("gated-delta-net", "Gated DeltaNet, decay 0.99", {"decay": 0.99}), Shown("ttt-linear"), Shown("titans"),
    Shown("delta-former"),
)  # fmt: skip


def _answer(run: Run) -> Outcome:
    counts = [2**k for k in range(0, run.fewer(9, 6), run.fewer(1, 2))]
    rows = curves(labelled(STORES), D_K, counts, Sequences(Rewrites(), run.fewer(32, 6)), d_v=D_V, **run.shared)
    view = in_panels(
        STORES, "n_memories", "keys written, every second one again with a new value",
        {"where": {"quantity": "left"}, "y_title": "old value's weight left", "y_log": False, "y_domain": (0, 1.1)},
        {"where": {"quantity": "ratio"}, "y_title": "interference / signal, new value", "y_within": (0.01, 100),
         **RULE},
    )  # fmt: skip
    return Outcome(rows, view, _caption(rows, counts), {"d_k": D_K, "d_v": D_V, "memories": counts})


def _caption(rows: Sequence[Row], counts: Sequence[int]) -> str:
    at = max(n for n in counts if n <= D_K // 2)
    value = {(r["label"], r["n_memories"], r["quantity"]): r["value"] for r in rows}
    lone = "; ".join(f"{one.label}: {value[one.label, 1, 'left']:.2f}" for one in STORES)
    ratios = "; ".join(f"{one.label}: {value[one.label, at, 'ratio']:.2f}" for one in STORES)
    return (
        f"Of a lone key's old value this share of weight is left after it was written again: {lone}. With other keys "
        f"in between, the ratio decides whether the new value can be read, the old one counting as interference: at "
        f"{at} keys its median is {ratios}."
    )


EXPERIMENT = Experiment(
    "overwrite", 22, "Writing a key again",
    "Does a new value replace the old one, and what does that do to recall?", _answer, scripted=True,
)  # fmt: skip
