"""Ratio against M for the exponential and its power series cut to 2, 3 and 4 terms, at beta = 8."""

from __future__ import annotations

from typing import Any

from assocmem import theory
from assocmem.experiments.experiment import Experiment, Outcome, Progress, Settings, parts
from assocmem.experiments.long_contexts import FIXED, at_a_million
from assocmem.lab.keys import key_curves
from assocmem.lab.similarities import similarity_curves
from assocmem.maps.sharpness import Constant
from assocmem.stores.lookup import make_store

D_K, BETA = 64, 8.0
ORDER = ("2 terms", "3 terms", "4 terms", "softmax")


def _answer(settings: Settings, progress: Progress) -> Outcome:
    part = parts(progress, 3)
    stores = [(f"{n} terms", make_store("exp-series", terms=n, beta=BETA)) for n in (2, 3, 4)]
    softmax = ("softmax", make_store("softmax", beta=BETA))
    shared = settings.shared("exponential")
    counts = [2**k for k in range(4, settings.fewer(22, 15), settings.fewer(1, 2))]
    rows = similarity_curves(
        [*stores, softmax], D_K, counts, streams=settings.fewer(24, 12), progress=part(0), **shared
    )
    drawn = [2**k for k in range(4, settings.fewer(15, 11), 2)]
    few: dict[str, Any] = {"trials": settings.fewer(8, 4), "most": settings.fewer(128, 32)}
    rows += key_curves([*stores, softmax], D_K, drawn, **few, progress=part(1), **shared)
    if not settings.quick:
        far = next(row for row in at_a_million(settings, part(2)) if row["label"] == FIXED)
        rows.append(far | {"label": "softmax", "experiment": "exponential"})
    whole = theory.softmax_capacity(Constant(BETA), D_K).value or 0.0
    return Outcome(
        rows,
        {"kind": "curves", "x": "n_memories", "x_title": "memories M", "order": list(ORDER), "rule": 1.0,
         "rule_text": "recall fails: interference larger than signal"},
        "Two terms do worse than a straight line, because the constant gives every memory a weight near 1; every "
        f"further term adds a higher power. The whole exponential reaches 1 only at {whole:,.0f} memories.",
        {"d_k": D_K, "beta": BETA},
    )  # fmt: skip


EXPERIMENT = Experiment(
    "exponential",
    "The exponential, cut short and whole",
    "Why does softmax hold so many more memories?",
    _answer,
)
