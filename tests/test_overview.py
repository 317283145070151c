"""The picture that a report opens with, from results that say where each of its points comes from."""

from __future__ import annotations

import pytest

from assocmem import theory
from assocmem.contract.results import Results
from assocmem.experiments.experiment import article
from assocmem.experiments.overview import CURVES, SHOWN, STORES, overview
from assocmem.maps.activations import Constant
from assocmem.report.figures import specification


@pytest.fixture(scope="module")
def found():
    """Return results like those of a run: two points a curve, and the article's capacities."""
    made: dict[str, list[dict[str, object]]] = {}
    for i, (name, label) in enumerate(CURVES):
        made.setdefault(name, []).extend(
            {"label": label, "n_memories": m, "value": 0.1 + i, "theory": None, "article": None, "sampler": "keys",
             "definition": f"d{i % 2}"} for m in (16, 64)
        )  # fmt: skip
    printed = {one["store"]: one["printed"] for one in article()["capacities"]}
    made["capacities"] = [
        {"label": label, "theory": 1000.4 + i, "article": printed[label]} for i, label in enumerate(CURVES.values())
    ]
    return [Results(name, tuple(rows)) for name, rows in made.items()]


def test_it_has_every_curve_the_articles_capacities_at_ratio_1_and_three_sentences(found):
    lead = overview(found)
    measured = {(row["label"], row["value"]) for row in lead.rows if row.get("value") is not None}
    assert measured == {(label, 0.1 + i) for i, label in enumerate(CURVES.values())}
    printed = {one["store"]: one["printed"] for one in article()["capacities"]}
    diamonds = {row["label"]: (row["n_memories"], row["article"]) for row in lead.rows if row.get("article")}
    assert diamonds == {label: (printed[label], 1.0) for label in CURVES.values()}
    words = lead.header["caption"]
    assert words.count(". ") == 2
    assert all(number in words for number in ("1,000", "1,003", "1,005"))
    assert set(specification(lead)["layer"][0]["encoding"]["color"]["scale"]["domain"]) == set(CURVES.values())


def test_its_lines_are_theory_as_far_as_the_axis_goes(found):
    lines = [row for row in overview(found).rows if row.get("theory") is not None]
    assert {row["label"] for row in lines} == set(STORES)
    assert max(row["theory"] for row in lines) <= SHOWN[1]
    at = {(row["label"], row["n_memories"]): row["theory"] for row in lines}
    assert at["outer product", 1024] == pytest.approx((1023 / 64) ** 0.5)
    assert at["softmax, beta 8", 2**20] == pytest.approx(theory.ratio(Constant(8.0), 64, 2**20).value)


def test_without_an_experiment_of_its_own_there_is_none(found):
    for i in range(len(found)):
        assert overview(found[:i] + found[i + 1 :]) is None
