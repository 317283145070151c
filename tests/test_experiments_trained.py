"""The experiments on trained networks: run where one is named, refused in a sentence without, numbers as they come."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from assocmem.contract.results import Results
from assocmem.experiments.catalogue import chosen, experiments
from assocmem.experiments.edits import swapped
from assocmem.experiments.trained import capitals, text
from trained import reading_network

TRAINED = [one.name for one in experiments() if one.trained]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a random network that knows the words of the experiments' texts."""
    facts = [word for fact in swapped(capitals(), 20) for word in f"{fact.prompt} {fact.target}".split()]
    live = reading_network(list(dict.fromkeys([*facts, *text()[:4000].split()])))
    path: Path = tmp_path_factory.mktemp("reading")
    live.network.save_pretrained(path)
    live.tokenizer.save_pretrained(path)
    return path


@pytest.fixture(scope="module")
def folder(model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a quick run of all of them."""
    from assocmem.cli import run

    out: Path = tmp_path_factory.mktemp("trained")
    only = [word for name in TRAINED for word in ("--only", name)]
    assert run(["reproduce", "--quick", *only, "--model", str(model), "--out", str(out)]) == 0
    return out


def table(folder: Path, name: str) -> Results:
    return Results.load(folder / f"{name}.ndjson")


def test_they_are_run_only_where_a_network_is_named(ask: Any, tmp_path: Path) -> None:
    assert {"real-heads", "edits", "compression"} <= set(TRAINED)
    assert not set(TRAINED) & {one.name for one in chosen([])}
    assert set(TRAINED) <= {one.name for one in chosen([], trained=True)}
    for model, words in (((), "name one with --model"), (("--model", tmp_path / "none"), "none")):
        told = ask("reproduce", "--only", "edits", *model, "--out", tmp_path / "out")
        assert told.status == 2
        assert words in told.err
        assert told.err.count("\n") == 1
        assert not (tmp_path / "out").exists()


def test_each_has_a_table_a_picture_and_a_caption(folder: Path) -> None:
    for name in TRAINED:
        found = table(folder, name)
        assert (folder / f"{name}.png").stat().st_size > 5000
        assert set(found.header["definitions"]) >= set(found.columns), name
        assert found.header["config"]["weights"]
        assert name in (folder / "index.html").read_text(encoding="utf-8")


def test_single_edits_stand_at_one_and_crosstalk_begins_with_the_second(folder: Path) -> None:
    rows = table(folder, "edits").where(quantity="crosstalk").rows
    assert {row["edits"] for row in rows} == {2, 3}
    assert all(0 < row["theory"] < 10 * row["value"] for row in rows)
    said = table(folder, "edits").where(quantity="said").rows
    assert {row["edits"] for row in said} == {1, 2, 3}


def test_facts_are_another_countrys_capital_and_neighbours_none_of_the_edited() -> None:
    known = capitals()
    facts = swapped(known, 20)
    assert len({fact.target for fact in facts}) == 20
    edited = {fact.subject for fact in facts}
    for fact in facts:
        assert known[fact.subject] != fact.target
        assert fact.target in known.values()
        assert not any(name in near for near in fact.neighbours for name in edited)


def test_more_kept_is_less_lost_and_the_whole_cache_is_among_them(folder: Path) -> None:
    rows = table(folder, "compression").rows
    assert {"whole cache", "KVzip", "attention matching"} <= {row["label"] for row in rows}
    errors = {row["label"]: row["value"] for row in rows if row["quantity"] == "error"}
    assert all(0 < value < 2 for value in errors.values())
    assert len(set(errors.values())) == len(errors)


def test_heads_are_summed_up_layer_by_layer(folder: Path) -> None:
    rows = table(folder, "real-heads").rows
    for layer in (0, 1):
        low, middle, high = (
            next(r["value"] for r in rows if (r["layer"], r["quantity"], r["label"]) == (layer, "capacity", label))
            for label in ("10 % of heads below", "median head", "90 % of heads below")
        )
        assert low <= middle <= high
