"""Only picking the right answer: the recalled vector against every stored value, and how many fit so."""

from functools import lru_cache
from typing import Any

import numpy as np

from assocmem import theory
from assocmem.contract.numbers import stream
from assocmem.experiments.shown import OUTER, SOFTMAX, Shown
from assocmem.inputs import key_law
from assocmem.lab.retrieval import MeasuredRetrieval, retrieval_capacities
from assocmem.page.charts import rounded
from assocmem.page.declare import Control, Endpoint, Option, Part, Section
from assocmem.page.sections.bars import MEMORIES, PAGE_SEED, page_keys
from assocmem.ruler import top1_right

WIDTH, BETA, RECALLS = 64, 8.0, 1024
COUNTS = (16, 32, 64, 96, 128, 192, 256, 384, 512, 768, 1024)
STORE = Control("picking", [Option(one.id, one.label, one) for one in (OUTER, SOFTMAX)], OUTER.id, "Store")
M = Control("candidates", COUNTS, 128, "Memories M, all candidates", "{} memories")


@lru_cache(maxsize=8)
def measured(shown: Shown, d: int) -> MeasuredRetrieval:
    """Return the number of memories up to which 95 % of recalls are nearest to the right value, d_k = d_v = d."""
    label = [(shown.label, shown.at(BETA))]
    return retrieval_capacities(label, [d], recalls=RECALLS, largest=MEMORIES, seed=PAGE_SEED, workers=1)[0]


def picking(shown: Shown, m: int) -> dict[str, Any]:
    """Return the inner product of one recall with each of M stored values, relative to the right one's."""
    store, keys = shown.at(BETA), page_keys(WIDTH, 0)[:m]
    values = key_law("sphere").draw(stream(PAGE_SEED, "page candidates"), MEMORIES, WIDTH)[:m]
    state = store.write(store.empty(WIDTH, WIDTH), keys, values)
    answers = store.recall(state, keys)
    scores = answers[0] @ values.T
    right = int(np.sum(top1_right(answers, values, np.arange(m))))
    relative = rounded(scores / scores[0], 4)
    bars = [{"index": i, "end": i + 0.9, "weight": x} for i, x in enumerate(relative)]
    nearest = int(np.argmax(scores))
    own = "the right one" if nearest == 0 else f"a wrong one, memory {nearest + 1}"
    said = (
        f"{shown.label}, {m:,} memories: the nearest value is {own}. Of all {m:,} keys {right:,} find their own value."
    )
    return {
        "rows": {"bars": bars[1:], "target": bars[:1]},
        "signals": {"top": max(1.05, *relative)},
        "note": shown.about,
        "said": said,
        "text": f"{said} {_counted(shown)}",
        "right": right,
    }


def _counted(shown: Shown) -> str:
    """Return how many memories fit if only the right one must be picked."""
    found = measured(shown, WIDTH).capacity
    if found.value is None:
        return (
            f"Measured at dₖ = dᵥ = {WIDTH} with β = {BETA:g}: at {found.largest_m:,.0f} memories, the most that were "
            f"tried, {100 * (1 - (found.ratio_there or 0)):.3g} % of recalls are right."
        )
    half = measured(shown, WIDTH // 2).capacity
    limit = theory.retrieval_capacity(shown.at(BETA).form(WIDTH), WIDTH)
    return (
        f"Measured: 95 % are right up to {found.value:.0f} memories ({found.low:.0f} to {found.high:.0f}, 95 % "
        f"interval) at dₖ = dᵥ = {WIDTH}, up to {half.value:.0f} at {WIDTH // 2}: twice the width, nearly four times "
        f"the memories. Theory for large widths has all of them right up to {limit.value:.0f}, where d² = 8 M ln M."
    )


SECTION = Section(
    4.5,
    (Endpoint("picking", picking, (Part(STORE), Part(M))),),
    (M,),
    charts={"picking": ({"kind": "bars", "x_title": "candidate value", "y_title": "likeness / the right one's"}, 230)},
    title="Only picking the right answer",
    text="So far the answer had to be a clean vector. Often it need not be: a model that chooses a word only has to be "
    "nearer to the right value than to every other candidate. Interference points in no direction in particular, so "
    "little of it lies along any one candidate, and the outer product then serves about d² memories, up to a "
    "logarithm, in place of d. A bar is the likeness of one recalled vector and a stored value; the answer is right "
    "while the orange one is the highest.",
    link="Picking",
)
