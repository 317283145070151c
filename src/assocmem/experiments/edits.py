"""Edits: how many facts one layer of a trained network takes before they drown each other."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from assocmem.contract.results import Row
from assocmem.editors import Edited, Fact, edit_facts
from assocmem.editors.language_model import METHODS, Method
from assocmem.experiments.experiment import Experiment, Outcome, Run
from assocmem.experiments.trained import capitals, facts_of, network_of, steps, text

EDITS, NEIGHBOURS = 20, 2
TOGETHER = (2, 5, 10, 20)
CROSSTALK, SAID, KEPT, CHANCE = "crosstalk", "said", "kept", "chance"
COLOURS = {"rome": "#0072B2", "delta": "#D55E00", "memit": "#009E73", "sparse": "#8A6BBE"}


def _answer(run: Run) -> Outcome:
    count = run.fewer(EDITS, 3)
    methods: list[Method] = ["delta"] if run.quick else list(METHODS)
    facts, live = swapped(capitals(), count), network_of(run)
    background = [part for part in text().split("\n\n") if part][: run.fewer(4, 1)]
    background = [part[: run.fewer(800, 300)] for part in background]
    stages = [*(n for n in TOGETHER if n < count), count]
    rows: list[Row] = []
    found: dict[str, Edited] = {}
    known: dict[Any, Any] = {}
    with steps(run, len(methods) * (count + 1)) as done:
        for method in methods:
            given: Any = {"background": background, "prefixes": 0, "seed": run.seed, "afresh": False,
                          "known": known}  # fmt: skip
            found[method] = edit_facts(live, facts, method, stages=stages, **given)
            done()
            single: list[Row] = []
            for fact in facts:
                single += edit_facts(live, [fact], method, **given).results.where(when="all").rows
                done()
            rows += _rows(run, method, 1, single)
            table = found[method].results
            for n in stages:
                rows += _rows(run, method, n, table.where(when="all" if n == count else "stage", edits=n).rows)
    one = {"y_log": False, "y_domain": (0, 1)}
    view = {
        "kind": "panels", "x": "edits", "x_title": "facts edited into one network", "join": True,
        "order": list(COLOURS), "colours": COLOURS, "height": 190, "x_values": [1, *stages],
        "x_domain": (1, count),
        "panels": [
            {"where": {"quantity": CROSSTALK}, "y_title": "interference / own change", "rule": 1.0,
             "rule_text": "edit drowns"},
            {"where": {"quantity": SAID}, "y_title": "edited facts that are said", **one},
            {"where": {"quantity": CHANCE}, "y_title": "probability of the new answer", **one},
            {"where": {"quantity": KEPT}, "y_title": "other capitals kept", **one},
        ],
    }  # fmt: skip
    words = {
        "label": "the editor",
        "edits": "facts in the network; at 1 every fact is by itself in a network of its own, the mean over them",
        "value": "by `quantity`: crosstalk, interference of the other edits over the edit's own change, root mean "
        "square over the facts; said, share of the facts that the network says, its likeliest token at every step; "
        "chance, mean probability of the new answer; kept, share of other countries' capitals whose likeliest token is "
        "what it was before",
        "theory": "crosstalk from the edits' keys alone, over random changes of one length",
    }
    config = {**facts_of(run), "facts": count, "layer": rows[0]["layer"]}
    return Outcome(rows, view, _caption(found, rows, count), config, words)


def swapped(known: Mapping[str, str], count: int) -> list[Fact]:
    """Return facts that give a country the capital of another one, and as neighbours capitals that stay."""
    names = list(known)
    edited, others = names[:count], names[count:]
    facts = []
    for i, name in enumerate(edited):
        near = [others[(NEIGHBOURS * i + j) % len(others)] for j in range(NEIGHBOURS)]
        asked = [f"The capital of {country} is" for country in (name, *near)]
        target = known[edited[(i + 1) % count]]
        facts.append(Fact(asked[0], name, target, (), tuple(asked[1:])))
    return facts


def _rows(run: Run, label: str, edits: int, table: Sequence[Row]) -> list[Row]:
    """Return what the facts of one network fared like, a row for each quantity."""

    def mean(column: str, square: bool = False) -> float | None:
        numbers = [row[column] for row in table if row[column] is not None]
        if not numbers:
            return None
        return math.sqrt(float(np.mean(np.square(numbers)))) if square else float(np.mean(numbers))

    measured = {CROSSTALK: mean("crosstalk_measured", True) if edits > 1 else None, SAID: mean("greedy"),
                CHANCE: mean("probability"), KEPT: mean("neighbours_kept")}  # fmt: skip
    return [
        {"experiment": run.experiment, "label": label, "layer": table[0]["layer"], "edits": edits, "quantity": quantity,
         "value": value, "theory": mean("crosstalk_predicted", True) if quantity == CROSSTALK and edits > 1 else None,
         "n_trials": len(table), "sampler": "these facts"}
        for quantity, value in measured.items() if value is not None
    ]  # fmt: skip


def _caption(found: Mapping[str, Edited], rows: Sequence[Row], count: int) -> str:
    def at(label: str, quantity: str, edits: int = count, column: str = "value") -> float | None:
        mine = [row for row in rows if (row["label"], row["quantity"], row["edits"]) == (label, quantity, edits)]
        value: float | None = mine[0][column] if mine else None
        return value

    words = []
    for method, edited in found.items():
        predicted, measured = at(method, CROSSTALK, column="theory"), at(method, CROSSTALK)
        drowned = f", interference {measured:.2g} (from the keys {predicted:.2g})" if measured and predicted else ""
        fit = f", room for about {edited.capacity:.2g} edits" if edited.capacity == edited.capacity else ""
        words.append(f"{method} {at(method, SAID, 1):.0%} alone, {at(method, SAID):.0%} together, "
                     f"{at(method, KEPT):.0%} of other capitals kept{drowned}{fit}")  # fmt: skip
    return (
        f"{count} countries are given each other's capitals in the MLP of layer {rows[0]['layer']}. Said: "
        f"{'; '.join(words)}. Points are measured; lines of ROME and delta steps are predicted from the edits' keys "
        "alone, before any value is known. MEMIT and sparse finetuning fit all facts together, so that none of them "
        "writes over another and no crosstalk is defined. These facts and no others: there is no interval."
    )


EXPERIMENT = Experiment(
    "edits", 41, "Facts edited into one layer", "How many edits does a layer hold before they drown each other?",
    _answer, trained=True,
)  # fmt: skip
