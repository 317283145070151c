"""Precision: what it costs to keep a state in fewer bits, beside the interference that is there anyway."""

import math
import warnings
from collections.abc import Sequence

from assocmem.contract.errors import RoundingWarning
from assocmem.contract.results import Row
from assocmem.experiments.experiment import Experiment, Outcome, Run
from assocmem.experiments.shown import Shown, labelled
from assocmem.lab.precision import INTERFERENCE, Rounding, measurable_dtypes
from assocmem.lab.run import curves

D_K = 32
STORES = (
    Shown("outer-product"), Shown("linear-attention"), Shown("delta-net"), Shown("optimal-linear", "least squares"),
)  # fmt: skip


def _answer(run: Run) -> Outcome:
    dtypes = measurable_dtypes(fast=run.quick)
    counts = [2**k for k in range(2, run.fewer(12, 7))]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RoundingWarning)  # to see it is the question
        rows = curves(labelled(STORES), D_K, counts, Rounding(dtypes, trials=run.fewer(6, 4)), d_v=D_K, **run.shared)
    view = {
        "kind": "panels",
        "x": "n_memories",
        "x_title": "pairs written one by one",
        "y_within": (1e-17, 1e3),
        "y_values": (1e-16, 1e-12, 1e-8, 1e-4, 1.0),
        "order": [INTERFERENCE, *dtypes],
        "colours": {INTERFERENCE: "#8A8A8A"},
        "join": True,
        "height": 180,
        "panels": [{"where": {"of": one.label}, "y_title": f"{one.label}: error / signal"} for one in STORES],
    }
    caption = _caption(rows, dtypes, run.quick)
    return Outcome(rows, view, caption, {"d_k": D_K, "memories": counts, "dtypes": dtypes})


def _caption(rows: Sequence[Row], dtypes: Sequence[str], quick: bool) -> str:
    over, under = [], []
    for of in dict.fromkeys(row["of"] for row in rows):
        for dtype in dtypes:
            counts, most = passed(rows, of, dtype)
            if counts:
                over.append(f"{of} in {dtype} (M = {counts[0]} to {counts[-1]})")
            else:
                under.append((most, f"{of} in {dtype}"))
    words = [
        f"The newest pairs are asked for, d_k = {D_K}. Rounding, the distance from the float64 store, is larger than "
        f"interference here: {'; '.join(over) or 'nowhere'}."
    ]
    if under:
        most, where = max(under)
        words.append(f"Elsewhere it stays below, at most {most:.2g} of it ({where}).")
    words.append(
        "Where a sum only grows, small terms are lost against it in the end; the delta rule's matrix stops growing, "
        "and so does its rounding. A store without interference is as good as its rounding. A "
        "point is missing where a recall equals that of the float64 store to the last bit."
    )
    if "bfloat16" not in dtypes:
        why = "a quick run leaves it out" if quick else "it needs torch, which was not installed"
        words.append(f"bfloat16 is missing: {why}.")
    return " ".join(words)


def passed(rows: Sequence[Row], of: str, dtype: str) -> tuple[list[int], float]:
    """Return the measured M at which rounding is larger than interference, and its largest share of it."""
    noise = {r["n_memories"]: r["value"] for r in rows if r["of"] == of and r["label"] == INTERFERENCE}
    shares = {
        r["n_memories"]: r["value"] / noise[r["n_memories"]] if noise[r["n_memories"]] else math.inf
        for r in rows
        if r["of"] == of and r["label"] == dtype and r["value"]
    }
    return sorted(n for n, share in shares.items() if share > 1), max(shares.values(), default=0.0)


EXPERIMENT = Experiment(
    "precision", 25, "A state in fewer bits", "When does rounding cost more than interference?", _answer, scripted=True
)
