"""Ratio against M for four ways to set attention's sharpness in a long context."""

from __future__ import annotations

from typing import Any

from assocmem import theory
from assocmem.contract.results import Row
from assocmem.experiments.experiment import Experiment, Outcome, Progress, Settings, parts
from assocmem.lab.keys import key_curves
from assocmem.lab.similarities import similarity_curves
from assocmem.maps.sharpness import Constant, LogN, QwenLogN, YaRN
from assocmem.stores.softmax import SoftmaxAttention

D_K, BETA, REFERENCE, FAR = 64, 8.0, 1024, 2**21
FIXED = "fixed"
RULES = (
    (FIXED, Constant(BETA)),
    ("Su / Scalable-Softmax", LogN(REFERENCE, BETA)),
    ("Qwen LogN", QwenLogN(REFERENCE, BETA)),
    ("YaRN", YaRN(REFERENCE, BETA)),
)
DASHES = {"Qwen LogN": [8, 8], "YaRN": [5, 5]}
"""Where rules coincide, the dashes of the later leave the earlier to be seen."""
_FAR_ROWS: dict[Settings, list[Row]] = {}


def _answer(settings: Settings, progress: Progress) -> Outcome:
    part = parts(progress, 3)
    stores = [(label, SoftmaxAttention(policy)) for label, policy in RULES]
    shared = settings.shared("long-contexts")
    counts = [2**k for k in range(4, settings.fewer(22, 15), settings.fewer(1, 2))]
    rows = similarity_curves(stores, D_K, counts, streams=settings.fewer(24, 10), progress=part(0), **shared)
    drawn = [2**k for k in range(4, settings.fewer(15, 11), 2)]
    few: dict[str, Any] = {"trials": settings.fewer(8, 4), "most": settings.fewer(128, 32)}
    rows += key_curves(stores, D_K, drawn, **few, progress=part(1), **shared)
    if not settings.quick:
        rows += at_a_million(settings, part(2))
    return Outcome(
        rows,
        {"kind": "curves", "x": "n_memories", "x_title": "memories M", "order": [label for label, _ in RULES],
         "dashes": DASHES, "rule": 1.0, "rule_text": "recall fails: interference larger than signal"},
        _caption(),
        {"d_k": D_K, "beta": BETA, "reference": REFERENCE},
    )  # fmt: skip


def at_a_million(settings: Settings, progress: Progress) -> list[Row]:
    """Return the rows of all four rules at M = 2^20, measured through write and recall.

    To draw a million keys takes longer than to ask all rules, so a run does it once for every figure that shows them.
    """
    if settings not in _FAR_ROWS:
        stores = [(label, SoftmaxAttention(policy)) for label, policy in RULES]
        _FAR_ROWS[settings] = key_curves(
            stores, D_K, [2**20], trials=3, targets=8, dtype="float32", progress=progress,
            **settings.shared("long-contexts"),
        )  # fmt: skip
    return [dict(row) for row in _FAR_ROWS[settings]]


def _caption() -> str:
    fails = theory.softmax_capacity(Constant(BETA), D_K).value or 0.0
    su, yarn = (
        theory.softmax_ratio(policy, D_K, FAR).value or 0.0 for label, policy in RULES if label in (RULES[1][0], "YaRN")
    )
    return (
        f"All rules have beta = {BETA:g} at M = {REFERENCE}. With beta fixed recall fails at {fails:,.0f} memories; "
        f"with beta growing like log M the ratio falls as M grows. At M = {FAR:,} YaRN's (log M)^2 leaves "
        f"{su / yarn:.0f} times less than Su's and Qwen's log M. Far right, few similarities carry "
        "the mean square, so they are drawn tilted."
    )


EXPERIMENT = Experiment(
    "long-contexts",
    "Sharpness rules for long contexts",
    "How should sharpness grow with the number of memories?",
    _answer,
)
