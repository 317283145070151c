"""Ratio against M for four ways to set attention's sharpness in a long context."""

from dataclasses import replace
from functools import lru_cache

from assocmem import theory
from assocmem.contract.results import Row
from assocmem.experiments.experiment import Experiment, Outcome, Run, both_ways, over_memories
from assocmem.experiments.shown import Shown, labelled
from assocmem.lab.keys import Keys
from assocmem.lab.run import curves
from assocmem.maps.activations import Constant, LogN, QwenLogN, Sharpness, YaRN

D_K, BETA, REFERENCE, FAR = 64, 8.0, 1024, 2**21
FIXED, SU, QWEN, YARN = "fixed", "Su / Scalable-Softmax", "Qwen LogN", "YaRN"
DASHES = {QWEN: [8, 8], YARN: [5, 5]}
"""Where rules coincide, the dashes of the later leave the earlier to be seen."""


def policies(reference: int, beta: float) -> dict[str, Sharpness]:
    """Return the four rules by name, each with sharpness `beta` at the reference length."""
    rules = {SU: LogN(reference, beta), QWEN: QwenLogN(reference, beta), YARN: YaRN(reference, beta)}
    return {FIXED: Constant(beta), **rules}


RULES = policies(REFERENCE, BETA)
STORES = tuple(Shown("softmax", label, {"sharpness": policy}) for label, policy in RULES.items())


def _answer(run: Run) -> Outcome:
    rows = both_ways(run, STORES, D_K, top=(22, 15), streams=(24, 10), most=128, parts=3)
    if not run.quick:
        rows += at_a_million(run.part(2, 3))
    return Outcome(
        rows,
        over_memories(STORES, dashes=DASHES),
        _caption(),
        {"d_k": D_K, "beta": BETA, "reference": REFERENCE},
    )


def at_a_million(run: Run) -> list[Row]:
    """Return the rows of all four rules at M = 2^20, measured through write and recall.

    To draw a million keys takes longer than to ask all rules, so a run does it once for every figure that shows them.
    """
    return [dict(row) for row in _far_rows(replace(run, experiment="long-contexts"))]


@lru_cache(maxsize=1)
def _far_rows(run: Run) -> list[Row]:
    return curves(labelled(STORES), D_K, [2**20], Keys(trials=3, targets=8, dtype="float32"), **run.shared)


def _caption() -> str:
    fails = theory.capacity(RULES[FIXED], D_K).value or 0.0
    su, yarn = (theory.ratio(RULES[label], D_K, FAR).value or 0.0 for label in (SU, YARN))
    return (
        f"All rules have beta = {BETA:g} at M = {REFERENCE}. With beta fixed recall fails at {fails:,.0f} memories; "
        f"with beta growing like log M the ratio falls as M grows. At M = {FAR:,} YaRN's (log M)^2 leaves "
        f"{su / yarn:.0f} times less than Su's and Qwen's log M. Far right, few similarities carry "
        "the mean square, so they are drawn tilted."
    )


EXPERIMENT = Experiment(
    "long-contexts", 6, "Sharpness rules for long contexts",
    "How should sharpness grow with the number of memories?", _answer,
)  # fmt: skip
