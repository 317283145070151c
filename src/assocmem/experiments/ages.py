"""Recall by age: what a store that is written while reading keeps of the pair it read n pairs ago."""

from collections.abc import Sequence

from assocmem.contract.results import Row
from assocmem.experiments.experiment import RULE, Experiment, Outcome, Run, in_panels
from assocmem.experiments.shown import Shown, labelled
from assocmem.lab.recency import Ages, Sequences
from assocmem.lab.run import curves
from assocmem.theory import ratio_by_age

D_K, D_V = 64, 32
AGES = (0, 1, 2, 4, 8, 16, 32, 64, 96, 128, 192, 255)
DELTA = Shown("delta-net")
STORES = (
    Shown("outer-product"), Shown("linear-attention"), Shown("mamba"),
    Shown("mamba-2", "Mamba-2, decay 0.99", {"decay": 0.99}), DELTA,
    Shown("gated-delta-net", "Gated DeltaNet, decay 0.99", {"decay": 0.99}), Shown("ttt-linear"), Shown("titans"),
    Shown("mesa-net"), Shown("delta-former"),
)  # fmt: skip


def _answer(run: Run) -> Outcome:
    ages = [age for age in AGES if age < run.fewer(256, 32)]
    n = max(ages) + 1
    sampler = Sequences(Ages(tuple(ages)), run.fewer(96, 8))
    rows: list[Row] = curves(labelled(STORES), D_K, [n], sampler, d_v=D_V, **run.shared)
    view = in_panels(
        STORES, "shown_age", "age + 1: how many pairs ago it was written",
        {"where": {"quantity": "signal"}, "y_title": "signal left (newest pair = 1)", "y_within": (1e-3, 2)},
        {"where": {"quantity": "ratio"}, "y_title": "interference / signal", "y_within": (0.01, 300), **RULE},
    )  # fmt: skip
    rows = [row | {"shown_age": row["age"] + 1} for row in rows]
    return Outcome(rows, view, _caption(rows, n), {"d_k": D_K, "d_v": D_V, "n_memories": n})


def _caption(rows: Sequence[Row], n: int) -> str:
    ages = {label: readable_ages(rows, label) for label in dict.fromkeys(row["label"] for row in rows)}
    count = len({row["age"] for row in rows})
    some = [f"{label}: {max(found)}" for label, found in ages.items() if 0 < len(found) < count]
    always = [label for label, found in ages.items() if len(found) == count]
    never = [label for label, found in ages.items() if not found]
    words = [
        f"{n} random unit pairs, d_k = {D_K}, each asked for with its own key at the end. Thick lines: exact theory, "
        "decay^age, and what later writes of the delta rule take from an older pair. The oldest measured pairs whose "
        f"signal exceeds their interference have the age {'; '.join(some) or '(no store draws a line)'}."
    ]
    if always:
        words.append(f"Read at every age: {'; '.join(always)}.")
    if never:
        words.append(f"Read at no age, so many pairs being stored: {'; '.join(never)}.")
    rule = DELTA.store.form(D_K)
    crossing = next((a for a in range(n) if (ratio_by_age(rule, D_K, n, a).value or 0) > 1), None)
    if crossing is not None:
        words.append(f"By theory DeltaNet's interference outgrows its signal at age {crossing} (root mean squares).")
    return " ".join([*words, "Ratios are medians where the signal can vanish, else root mean squares."])


def readable_ages(rows: Sequence[Row], label: str) -> list[int]:
    """Return the measured ages at which a store's ratio is below 1."""
    mine = [row for row in rows if row["label"] == label and row["quantity"] == "ratio"]
    return [row["age"] for row in mine if row["value"] is not None and row["value"] < 1]


EXPERIMENT = Experiment(
    "ages", 21, "Recall by age", "How long does a memory that is written while reading keep a pair?", _answer
)
