"""One step against iterated recall: what attention gains, or loses, by asking again with what it recalled."""

from collections.abc import Sequence

from assocmem.contract.results import Row
from assocmem.experiments.experiment import RULE, Experiment, Outcome, Run, in_panels
from assocmem.experiments.shown import Shown, labelled
from assocmem.lab.keys import Keys
from assocmem.lab.run import curves

D_K, BETA = 64, 8.0
COSINES = (0.9, 0.7, 0.5)
WORDS = {1: "one step: attention", 2: "two steps", 100: "until it rests"}
STORES = tuple(Shown("modern-hopfield", words, {"beta": BETA, "steps": n}) for n, words in WORDS.items())
COLOURS = ("#0072B2", "#E69F00", "#D55E00")


def _answer(run: Run) -> Outcome:
    counts, cosines = [2**k for k in range(2, run.fewer(11, 7), run.fewer(1, 2))], COSINES[:: run.fewer(1, 2)]
    sampler = Keys(trials=run.fewer(8, 6), most=run.fewer(16, 6), targets=run.fewer(16, 8))
    rows = curves(labelled(STORES), D_K, counts, sampler, cosines=cosines, statistics=("median",), **run.shared)
    panels = [
        {"where": {"cosine": cosine}, "y_title": f"interference / signal, query at cosine {cosine:g}",
         "y_within": (1e-3, 1e3), **RULE}
        for cosine in cosines
    ]  # fmt: skip
    view = in_panels(STORES, "n_memories", "memories M", *panels)
    view["colours"] = dict(zip(view["order"], COLOURS, strict=True))
    return Outcome(rows, view, _caption(rows, cosines), {"d_k": D_K, "beta": BETA, "cosines": cosines})


def _caption(rows: Sequence[Row], cosines: Sequence[float]) -> str:
    value = {(r["label"], r["cosine"], r["n_memories"]): r["value"] for r in rows}
    words = []
    for cosine in cosines:
        counts = sorted({n for _, c, n in value if c == cosine})
        better = [n for n in counts if value[WORDS[100], cosine, n] < value[WORDS[1], cosine, n]]
        words.append(
            f"at cosine {cosine:g} up to M = {max(better)}" if better else f"at cosine {cosine:g} at no M tried"
        )
    return (
        f"Softmax attention at beta = {BETA:g}, d_k = {D_K}, asked once, twice, and until the query rests (a modern "
        "Hopfield network); medians over trials, random unit keys. Asking again lowers the interference "
        f"{'; '.join(words)}. Where one step is clear, more make it clearer; with more memories the query drifts "
        "to the mean of all of them (ratio sqrt(M - 1)), and the right one is lost for good."
    )


EXPERIMENT = Experiment(
    "steps", 26, "One step or many", "Does attention gain by asking again with what it recalled?", _answer,
)  # fmt: skip
