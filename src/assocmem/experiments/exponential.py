"""Ratio against M for the exponential and its power series cut to 2, 3 and 4 terms, at beta = 8."""

from assocmem import theory
from assocmem.experiments.experiment import Experiment, Outcome, Run, both_ways, over_memories
from assocmem.experiments.long_contexts import FIXED, at_a_million
from assocmem.experiments.shown import Shown
from assocmem.maps.activations import Constant

D_K, BETA = 64, 8.0
STORES = (
    *(Shown("exp-series", f"{n} terms", {"terms": n, "beta": BETA}) for n in (2, 3, 4)),
    Shown("softmax", "softmax", {"beta": BETA}),
)


def _answer(run: Run) -> Outcome:
    rows = both_ways(run, STORES, D_K, top=(22, 15), streams=(24, 12), most=128, parts=3)
    if not run.quick:
        far = next(row for row in at_a_million(run.part(2, 3)) if row["label"] == FIXED)
        rows.append({**far, "label": "softmax", "experiment": run.experiment})
    whole = theory.capacity(Constant(BETA), D_K).value or 0.0
    return Outcome(
        rows,
        over_memories(STORES),
        "Two terms do worse than a straight line, because the constant gives every memory a weight near 1; every "
        f"further term adds a higher power. The whole exponential reaches 1 only at {whole:,.0f} memories.",
        {"d_k": D_K, "beta": BETA},
    )


EXPERIMENT = Experiment(
    "exponential", 5, "The exponential, cut short and whole", "Why does softmax hold so many more memories?", _answer
)
