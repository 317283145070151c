"""`compare`: one table of a grid, resumed after a stop, extended later, and the sentences where it cannot be."""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from assocmem import Results, Store, compare, make_store
from assocmem.contract.errors import FileFormatError, InputError, UnknownNameError
from assocmem.lab import compare as comparing
from assocmem.lab.capacity import capacity
from assocmem.lab.plan import labelled
from assocmem.stores import entry

RULES, WIDTHS = ["outer-product", "relu", "squared-relu"], [8, 16]
QUICK = {"quick": True, "workers": 1}


def mean(keys, values, queries):  # noqa: ARG001  (a recall is called with all three)
    """Give back the mean of all values, whatever is asked for."""
    return np.broadcast_to(values.mean(axis=0), (len(queries), values.shape[1]))


def scaled(keys, values, queries, gain=2.0):
    """Add every pair to one matrix, times a gain that no ratio sees."""
    return gain * queries @ keys.T @ values


class Linear(Store):
    """The outer product once more."""

    traits = make_store("outer-product").traits

    def init(self, state):
        return {"W": state.zeros(state.d_v, state.d_k)}

    def put(self, state, keys, values):
        return {"W": state["W"] + values.mT @ keys}

    def get(self, state, queries, ask):
        return queries @ state["W"].mT


class Failing(Linear):
    """The same, but it fails wherever it is written."""

    def put(self, state, keys, values):
        raise ValueError("too many for me")


@pytest.fixture(scope="module")
def found():
    return compare(RULES, WIDTHS, **QUICK)


@pytest.fixture
def counted(monkeypatch):
    """Count the cells that are measured, and stop at one where a test says so."""
    seen: list[tuple[str, int, float]] = []
    own = comparing.MEASURED["capacity"]

    def measured(cell, how):
        if getattr(measured, "stop_at", None) == len(seen):
            raise KeyboardInterrupt
        seen.append(cell.place)
        return own(cell, how)

    monkeypatch.setitem(comparing.MEASURED, "capacity", measured)
    return seen, measured


def test_a_cell_is_what_capacity_says_with_theory_cost_and_growth_beside_it(found):
    assert [(row["label"], row["d_k"]) for row in found] == [(label, d) for label in RULES for d in WIDTHS]
    row = found.where(label="relu", d_k=16).rows[0]
    alone = capacity("relu", 16, precision=0.15, workers=1).row()
    assert {name: row[name] for name in alone} == alone
    assert row["theory"] == pytest.approx(33, abs=1e-6)
    n = row["value"]
    assert row["multiply_adds"] == entry("relu").make().cost.recall.at(16, 64, n)
    assert row["state_numbers"] == round(n * (16 + 64))
    assert found.where(label="outer-product", d_k=8).rows[0]["state_numbers"] == 8 * 64
    slope = math.log(found.where(label="squared-relu", d_k=16).value / found.where(label="squared-relu", d_k=8).value)
    for row in found.where(label="squared-relu"):
        assert row["fitted_exponent"] == pytest.approx(slope / math.log(2))
        assert row["fitted_low"] < row["theory_exponent"] < row["fitted_high"]
    assert any(words.startswith("Fitted exponent") and "squared-relu" in words for words in found.words)
    assert {"fitted_exponent", "code", "value", "multiply_adds"} <= set(found.header["definitions"])


def test_workers_and_the_order_of_asking_change_nothing_but_the_seed_does(found):
    with ThreadPoolExecutor(2) as pool:
        assert compare(RULES, WIDTHS, quick=True, workers=pool).rows == found.rows
    grown = compare(RULES[:2], WIDTHS[:1], **QUICK)
    grown = compare(RULES[1:], WIDTHS, extend=grown, **QUICK)
    grown = compare(RULES[:1], WIDTHS[1:], extend=grown, **QUICK)
    assert grown.rows == found.rows
    assert compare(RULES, WIDTHS, seed=1, **QUICK).rows != found.rows


def test_what_was_finished_before_a_stop_is_not_measured_again(tmp_path, found, counted):
    seen, measured = counted
    measured.stop_at = 4
    with pytest.raises(KeyboardInterrupt):
        compare(RULES, WIDTHS, out=tmp_path, **QUICK)
    kept = Results.load(tmp_path / "comparison.ndjson")
    assert [(row["label"], row["d_k"]) for row in kept] == [(x, d) for x, d, _ in sorted(seen)]
    measured.stop_at = None
    again = compare(RULES, WIDTHS, out=tmp_path, **QUICK)
    assert len(seen) == len(set(seen)) == 6
    assert again.rows == found.rows
    assert "4 of 6 cells were there already." in again.words
    more = compare(["cubed-relu"], 8, out=tmp_path, **QUICK)
    assert (len(seen), len(more)) == (7, 7)
    assert Results.load(tmp_path / "comparison.csv").rows == more.rows
    assert (tmp_path / "comparison.png").read_bytes()[:4] == b"\x89PNG"
    assert "<svg" in (tmp_path / "comparison.svg").read_text()


def test_ctrl_c_is_one_sentence_and_the_same_command_goes_on(ask, tmp_path, counted):
    seen, measured = counted
    measured.stop_at = 1
    words = ["compare", "outer-product", "relu", "--d-k", "8", "--quick", "--workers", "1", "--out", tmp_path]
    said = ask(*words)
    assert (said.status, said.out) == (130, "")
    assert said.err == (f"assocmem: stopped by Ctrl-C: 1 new cells are kept in {tmp_path}; the same command goes on "
                        "from there.\n")  # fmt: skip
    measured.stop_at = None
    said = ask(*words, "--json")
    assert (said.status, said.err, len(seen)) == (0, "", 2)
    assert [row["label"] for row in said.json["rows"]] == ["outer-product", "relu"]
    assert said.json["definitions"]["value"].startswith("M at which")


def test_settings_are_swept_where_a_store_has_them():
    found = compare(["softmax", "outer-product", scaled], 8, beta=[1, 2.0], gain=[2.0, 3.0], **QUICK)
    labels = ["softmax, beta 1", "softmax, beta 2", "outer-product", "scaled, gain 2", "scaled, gain 3"]
    assert [row["label"] for row in found] == labels
    assert found.where(label="softmax, beta 2").value > found.where(label="softmax, beta 1").value
    assert found.where(label="scaled, gain 2").value == pytest.approx(found.where(label="scaled, gain 3").value)
    assert found.words[-3:] == (
        "These take no gain, and are measured without: softmax.",
        "These take no beta and no gain, and are measured without: outer-product.",
        "These take no beta, and are measured without: scaled.",
    )


def test_ratios_and_retrievals_are_compared_too():
    ratios = compare(["outer-product", mean], [8, 16], quantity="ratio", memories=[4, 16], cosine=[1, 0.5], **QUICK)
    assert len(ratios) == 16
    one = ratios.where(label="outer-product", d_k=16, n_memories=16)
    assert one.where(cosine=1.0).theory == pytest.approx(math.sqrt(15 / 16))
    assert one.where(cosine=0.5).value > 1.5 * one.where(cosine=1.0).value
    assert {row["state_numbers"] for row in ratios.where(label="mean", d_k=8)} == {4 * 72, 16 * 72}
    right = compare(["outer-product"], [8, 16], quantity="retrieval", largest=64, **QUICK)
    assert right.where(d_k=8).value < right.where(d_k=16).value
    assert right.where(d_k=16).low < right.where(d_k=16).value < right.where(d_k=16).high


def test_rules_of_ones_own_count_like_registered_ones_and_one_that_fails_takes_none_with_it(tmp_path):
    rules = [Linear, Failing, ("mine", make_store("relu")), "test_compare:scaled"]
    found = compare(rules, 8, out=tmp_path, **QUICK)
    assert [row["label"] for row in found] == ["Linear", "Failing", "mine", "test_compare:scaled"]
    assert all(
        found.where(label=label).value == pytest.approx(9, rel=0.2) for label in ("Linear", "test_compare:scaled")
    )
    (row,) = found.where(label="Failing")
    assert row["value"] is None
    assert "too many for me" in row["reason"]
    assert "test_compare.py, line" in row["reason"]
    assert "1 cells failed" in found.words[0]
    assert "too many for me" in str(found)


def test_a_rule_that_was_changed_or_failed_is_measured_anew(tmp_path, counted):
    seen, _ = counted
    compare([Failing, ("mine", make_store("relu"))], 8, out=tmp_path, **QUICK)
    again = compare([Failing, ("mine", make_store("squared-relu"))], 8, out=tmp_path, **QUICK)
    assert [label for label, *_ in seen] == ["Failing", "mine", "Failing", "mine"]
    assert "mine is not what it was when it was saved, and is measured anew." in again.words
    assert (again.where(label="mine").value or 0) > 40
    compare([("mine", make_store("squared-relu"))], 8, out=tmp_path, **QUICK)
    assert len(seen) == 4


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"stores": []}, "`stores` must hold at least one value: the grid is empty"),
        ({"d_k": []}, "`d_k` must hold at least one value"),
        ({"beta": []}, "`beta` must hold at least one value"),
        ({"d_k": [8, 8]}, "two cells of the grid are the same, outer-product at d_k = 8 and query cosine 1"),
        ({"stores": ["softmax"], "beta": [2, 2.0]}, "two cells of the grid are the same, softmax, beta 2"),
        ({"d_k": [0]}, "`d_k` must hold whole numbers >= 1; got 0"),
        ({"d_k": [8.5]}, "`d_k` must hold whole numbers >= 1; got 8.5"),
        ({"cosine": 2}, r"`cosine` must be a number in \[-1, 1\]; got 2"),
        ({"cosine": 0.5, "quantity": "retrieval"}, "`cosine` of a retrieval must be 1"),
        ({"quantity": "size"}, "`quantity` must be capacity, ratio or retrieval; got 'size'"),
        ({"quantity": "ratio", "memories": [1.5]}, "`memories` must be whole numbers >= 1"),
        ({"beta": 4}, "none of the stores takes a setting `beta`"),
        ({"stores": ["softmax"], "beta": -1}, "`beta` of Constant must be a number >= 0"),
        (
            {"stores": [3]},
            "a store must be given by its key, as a Store, class or function, or as .label, Store.; got 3",
        ),
    ],
)
def test_a_grid_that_makes_no_sense_is_refused_before_anything_is_measured(given, words, counted):
    with pytest.raises(InputError, match=words):
        compare(**{"stores": ["outer-product"], "d_k": 8} | QUICK | given)
    assert counted[0] == []


def test_an_unknown_store_is_refused_with_an_offer(ask):
    with pytest.raises(UnknownNameError, match="Did you mean softmax"):
        compare(["softmx"], 8)
    for words, told in (
        (["--d-k", "8,x"], "`--d-k` must be whole numbers with commas between them; got '8,x'"),
        (["--set", "beta"], "`--set` wants NAME=VALUE"),
        (["--set", "seed=3"], "`--set` is for settings of stores, and seed is none"),
        (["--memories", "1.5"], "`--memories` must be whole numbers; got '1.5'"),
        (["--query-cosine", "3"], r"`--query-cosine` must be a number in [-1, 1]"),
    ):
        said = ask("compare", "softmax", *words)
        assert (said.status, said.out) == (2, "")
        assert told in said.err


def test_a_saved_comparison_is_extended_by_its_like_alone(tmp_path, found):
    with pytest.raises(InputError, match="`extend` was measured with seed = 0, and this asks for 1: ask for the same"):
        compare(["gelu"], 8, extend=found, seed=1, **QUICK)
    with pytest.raises(InputError, match=r"measured with precision = 0\.15, and this asks for 0\.02"):
        compare(["gelu"], 8, extend=found)
    with pytest.raises(InputError, match="`extend` is no comparison, so that it cannot be extended: <Results 'other'"):
        compare(["gelu"], 8, extend=Results("other", found.rows), **QUICK)
    path = found.save(tmp_path / "comparison.ndjson")
    assert len(compare(["gelu"], 8, extend=path, **QUICK)) == 7
    assert len(found) == 6
    with pytest.raises(InputError, match=r"comparison\.ndjson was measured with quantity = capacity"):
        compare(["gelu"], 8, out=tmp_path, quantity="retrieval", **QUICK)
    path.write_bytes(path.read_bytes()[:-400])
    with pytest.raises(
        FileFormatError, match=r"comparison\.ndjson is not a results file of assocmem, or it is truncated"
    ):
        compare(["gelu"], 8, out=tmp_path, **QUICK)


def test_chosen_settings_are_columns_and_made_stores_keep_theirs():
    made = ("w3", make_store("softmax", beta=3.0))
    found = compare(["softmax", made, "relu"], 16, beta=[4.0, 8.0], quick=True, workers=1)
    assert [row["label"] for row in found.where(beta=8.0)] == ["softmax, beta 8"]
    words = " ".join(found.words)
    assert "These take no beta, and are measured without: relu." in words
    assert "Stores that were made already keep their settings: w3." in words
    with pytest.raises(InputError, match="there is no column 'nonsense'"):
        found.where(nonsense=3)
    named = compare(
        [made, ("mine", lambda keys, values, queries: queries @ keys.T @ values)], 16, quick=True, workers=1
    )
    assert [row["label"] for row in named] == ["w3", "mine"]


def test_a_rule_whose_constants_helpers_or_closure_changed_is_measured_anew(monkeypatch, tmp_path):
    def to_the(power):
        return lambda keys, values, queries: (queries @ keys.T) ** power @ values

    first = compare([("rule", to_the(1))], 16, **QUICK)
    same, other = (compare([("rule", to_the(power))], 16, extend=first, **QUICK) for power in (1, 3))
    assert same.value == first.value
    assert other.value > 5 * first.value
    assert "rule is not what it was" in " ".join(other.words)
    text = "POWER = {}\ndef rule(keys, values, queries):\n    return (queries @ keys.T) ** POWER @ values\n"
    marks = []
    for power in (1, 3):
        (tmp_path / f"mine{power}.py").write_text(text.format(power))
        monkeypatch.syspath_prepend(str(tmp_path))
        marks.append(comparing.code_of(labelled(f"mine{power}:rule")))
    assert marks[0] != marks[1]


def test_a_saved_comparison_with_a_damaged_row_is_refused():
    found = compare(["relu"], 8, **QUICK)
    for row in ({"label": "relu"}, {"label": "relu", "d_k": "eight", "cosine": 1.0}):
        with pytest.raises(FileFormatError, match="its row 0 has no label, d_k and cosine"):
            compare(["relu"], 8, extend=Results(found.name, (row,), found.header), **QUICK)
    with pytest.raises(InputError, match="is no comparison"):
        compare(["relu"], 8, extend=Results(found.name, found.rows, {"config": 5}), **QUICK)


def test_why_a_capacity_is_missing_is_printed_also_where_all_are():
    found = compare(["relu"], 16, largest=4, **QUICK)
    assert "not reached below M = 4" in " ".join(str(found).split())
    assert "(1 cell)" in str(found)
