"""The picture that a report opens with: six stores from several experiments on one axis, and three sentences."""

from collections.abc import Sequence

from assocmem import theory
from assocmem.contract.results import Results, Row
from assocmem.experiments.activations import D_K
from assocmem.experiments.experiment import RULE
from assocmem.experiments.exponential import BETA
from assocmem.experiments.linear_stores import STORES as MATRICES
from assocmem.experiments.shown import CUBED, OUTER, RELU, SOFTMAX, SQUARED

CURVES = {
    ("linear-stores", MATRICES[0].label): "outer product",
    ("linear-stores", MATRICES[1].label): "optimal linear",
    ("activations", "ReLU"): "ReLU",
    ("activations", "squared ReLU"): "squared ReLU",
    ("activations", "cubed ReLU"): "cubed ReLU",
    ("exponential", "softmax"): "softmax, beta 8",
}
"""The curves by experiment and label there, with their line of the table of capacities, which they are named after."""
STORES = {
    "outer product": OUTER,
    "ReLU": RELU,
    "squared ReLU": SQUARED,
    "cubed ReLU": CUBED,
    "softmax, beta 8": SOFTMAX,
}
SHOWN = (2e-3, 60.0)
"""Ratios on the axis."""
NAMED = ("outer product", "squared ReLU", "softmax, beta 8")


def overview(results: Sequence[Results]) -> Results | None:
    """Return six stores' ratios against M with the article's points; None where an experiment of theirs did not run.

    The article's points are those it gives along the curves of the matrices, and its capacities, where the ratio is 1.
    """
    found = {one.name: one for one in results}
    if not {"capacities", *(name for name, _ in CURVES)} <= set(found):
        return None
    rows: list[Row] = []
    for (name, label), shown in CURVES.items():
        # Root mean squares stand beside the optimal store's medians, as in the article.
        mine = found[name].where(label=label).rows
        rows += [{"article": None, **row, "label": shown, "definition": None} for row in mine]
    rows += _lines()
    capacities = {row["label"]: row for row in found["capacities"].rows}
    for shown in CURVES.values():
        printed = capacities[shown]["article"]
        if printed is not None:
            rows.append({"label": shown, "n_memories": printed, "article": 1.0})
    view = {"kind": "curves", "x": "n_memories", "x_title": "memories M", "order": list(CURVES.values()), **RULE,
            "y_within": SHOWN}  # fmt: skip
    outer, squared, softmax = (f"{capacities[name]['theory']:,.0f}" for name in NAMED)
    words = (
        "A memory store holds pairs of a key and a value; asked with a key, it recalls the value plus interference "
        f"from every other memory. Where interference outgrows the signal, recall fails: for keys of width {D_K} at "
        f"{outer} memories in an outer product, at {squared} read through squared ReLU, and at {softmax} with softmax "
        f"at beta = {BETA:g}. Points are measurements with 95 % intervals, lines are theory that was never fitted to "
        "them, and open diamonds are the article's own numbers."
    )
    return Results("overview", tuple(rows), {"title": "Six stores", "caption": words, "view": view})


def _lines() -> list[Row]:
    """Return theory from few memories to beyond softmax's capacity, as far as the axis shows it."""
    rows = []
    for label, shown in STORES.items():
        form = shown.at(BETA).form(D_K)
        for m in (2**k for k in range(4, 22)):
            ratio = theory.ratio(form, D_K, m).value
            if ratio is not None and ratio <= SHOWN[1]:
                rows.append({"label": label, "n_memories": m, "theory": ratio})
    return rows
