"""Overwriting: what a store still says of a key's old value once the key was written again."""

from __future__ import annotations

from collections.abc import Sequence

from assocmem.contract.results import Row
from assocmem.contract.store import Store
from assocmem.experiments.colours import colours
from assocmem.experiments.experiment import Experiment, Outcome, Progress, Settings
from assocmem.lab.recency import DEFINITIONS, rewrite_curves
from assocmem.stores.lookup import make_store

D_K, D_V = 64, 32


def _stores() -> list[tuple[str, Store]]:
    return [
        ("outer product", make_store("outer-product")),
        ("linear attention", make_store("linear-attention")),
        ("softmax", make_store("softmax")),
        ("least squares", make_store("optimal-linear")),
        ("Mamba-2, decay 0.99", make_store("mamba-2", decay=0.99)),
        ("DeltaNet", make_store("delta-net")),
        ("Gated DeltaNet, decay 0.99", make_store("gated-delta-net", decay=0.99)),
        ("TTT-Linear", make_store("ttt-linear")),
        ("Titans", make_store("titans")),
        ("DeltaFormer", make_store("delta-former")),
    ]


def _answer(settings: Settings, progress: Progress) -> Outcome:
    stores = _stores()
    counts = [2**k for k in range(0, settings.fewer(9, 6), settings.fewer(1, 2))]
    rows = rewrite_curves(
        stores, D_K, counts, d_v=D_V, trials=settings.fewer(32, 4), progress=progress, **settings.shared("overwrite")
    )
    view = {
        "kind": "panels",
        "x": "n_memories",
        "x_title": "keys written, every second one again with a new value",
        "order": [label for label, _ in stores],
        "colours": colours(label for label, _ in stores),
        "join": True,
        "panels": [
            {"where": {"quantity": "left"}, "y_title": "old value's weight left", "y_log": False, "y_domain": (0, 1.1)},
            {
                "where": {"quantity": "ratio"},
                "y_title": "interference / signal, new value",
                "y_domain": (0.01, 100),
                "rule": 1.0,
                "rule_text": "recall fails: interference larger than signal",
            },
        ],
    }
    return Outcome(rows, view, _caption(rows, counts), {"d_k": D_K, "d_v": D_V, "memories": counts}, DEFINITIONS)


def _caption(rows: Sequence[Row], counts: Sequence[int]) -> str:
    at = max(n for n in counts if n <= D_K // 2)
    value = {(r["label"], r["n_memories"], r["quantity"]): r["value"] for r in rows}
    labels = list(dict.fromkeys(r["label"] for r in rows))
    lone = "; ".join(f"{label}: {value[label, 1, 'left']:.2f}" for label in labels)
    ratios = "; ".join(f"{label}: {value[label, at, 'ratio']:.2f}" for label in labels)
    return (
        f"Of a lone key's old value this share of weight is left after it was written again: {lone}. With other keys "
        f"in between, the ratio decides whether the new value can be read, the old one counting as interference: at "
        f"{at} keys its median is {ratios}."
    )


EXPERIMENT = Experiment(
    "overwrite",
    "Writing a key again",
    "Does a new value replace the old one, and what does that do to recall?",
    _answer,
    scripted=True,
)
