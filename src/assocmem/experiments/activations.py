"""Ratio against M for the five activations of an MLP."""

from assocmem.experiments.experiment import Experiment, Outcome, Run, both_ways, over_memories
from assocmem.experiments.shown import Shown

D_K = 64
STORES = (
    Shown("outer-product", "linear"), Shown("relu"), Shown("squared-relu"), Shown("swiglu", "SwiGLU, shared gate"),
    Shown("cubed-relu"),
)  # fmt: skip


def _answer(run: Run) -> Outcome:
    return Outcome(
        both_ways(run, STORES, D_K, top=(18, 13), streams=(100, 20), most=192),
        over_memories(STORES, dashes={"SwiGLU, shared gate": [6, 6]}),
        "Nearly parallel lines: every activation of this kind keeps the signal and lowers each interference term, so "
        "the ratio stays about sqrt(M) times a constant. Squared ReLU and shared-gate SwiGLU all but coincide.",
        {"d_k": D_K},
    )


EXPERIMENT = Experiment(
    "activations", 4, "Five activations", "What does reading through a nonlinearity buy?", _answer
)  # fmt: skip
