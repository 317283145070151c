"""How sharp must it be? The design rule on a grid that the controls step through."""

from typing import Any

from assocmem.page.charts import short
from assocmem.page.declare import Control, Endpoint, Part, Section
from assocmem.page.sections.bars import cosine, width
from assocmem.theory import Design, design

M = Control("needm", tuple(2**k for k in range(4, 31)), 2**20, "Memories M", "{} memories")
RATIO = Control("needratio", (1.0, 0.5, 0.2, 0.1, 0.05, 0.02, 0.01), 1, "Ratio you accept")
COSINE, WIDTH = cosine("needcosine"), width("needwidth")


def calculator(d_k: int, cosine: float) -> dict[str, Any]:
    """Return, for every M and wanted ratio, the smallest sharpness that serves, or why none does.

    table: a line for each M, in it {beta, scale, sentence} for each ratio; scale is the factor on q.k for queries and
    keys of length sqrt(d_k). best: the sharpness of the lowest ratio, null where sharper is always better.
    """
    table = [[_cell(design(d_k, m, ratio, cosine)) for ratio in RATIO.values] for m in M.values]
    return {"table": table, "best": short(design(d_k, M.values[0], RATIO.values[0], cosine).best_sharpness.value, 4)}


def _cell(answer: Design) -> dict[str, Any]:
    return {
        "beta": short(answer.sharpness, 4),
        "scale": short(answer.logit_scale, 4),
        "sentence": _sentence(answer),
    }


def _sentence(answer: Design) -> str:
    best, most, reached = answer.best_sharpness.value, answer.largest.value, answer.reached.value
    if answer.feasible and best is None:
        return "The query is clean: anything sharper serves too."
    limit = "" if best is None or most is None else (
        f"With this noise the best sharpness is {best:.3g}; it serves up to {_count(most)} at this ratio."
    )  # fmt: skip
    return limit if answer.feasible or reached is None else f"The lowest ratio within reach is {reached:.3g}. {limit}"


def _count(m: float) -> str:
    whole = int(m)
    return f"{whole:,} {'memory' if whole == 1 else 'memories'}" if m < 1e12 else f"{m:.2g} memories"


SECTION = Section(
    7,
    (Endpoint("calculator", calculator, (Part(WIDTH), Part(COSINE))),),
    (M, RATIO, COSINE, WIDTH),
)
