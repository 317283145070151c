"""Results files: whole or not at all, valid JSON, the same table back from every format."""

from __future__ import annotations

import json
import math
import os
import sys
from dataclasses import dataclass

import numpy as np
import pytest

from assocmem.contract import files, results
from assocmem.contract.errors import FileFormatError, InputError, MissingExtraError
from assocmem.contract.results import Results, header_for, plain


@dataclass(frozen=True)
class Plan:
    stores: tuple[str, ...] = ("softmax",)
    beta: float = math.inf


def example() -> Results:
    rows = (
        {"store": "softmax", "label": "64", "n_memories": 16, "value": 0.5, "low": None, "note": 'a "b", c\nd'},
        {
            "store": "relu",
            "label": "7e3",
            "n_memories": np.int64(32),
            "value": np.float32(0.25),
            "low": 0.1,
            "extra": 1,
        },
    )
    return Results("curve", rows, header_for(config=Plan(), seed=3, seconds=1.23456, definitions={"value": "ratio"}))


def test_the_header_names_config_seed_versions_machine_and_seconds():
    header = example().header
    assert header["config"] == {"is": "Plan", "stores": ["softmax"], "beta": "inf"}
    assert header["seed"] == 3
    assert header["seconds"] == 1.235
    assert header["versions"]["numpy"] == np.__version__
    assert set(header) == {
        "config", "seed", "versions", "commit", "machine", "python", "seconds", "definitions",
    }  # fmt: skip


@pytest.mark.parametrize("kind", ["ndjson", "csv"])
def test_what_is_written_reads_back(tmp_path, kind):
    table = example()
    (path,) = table.write(tmp_path / "deep" / "folder", [kind])
    again = Results.load(path)
    assert again.name == "curve"
    assert again.header == plain(table.header)
    assert [r["label"] for r in again.rows] == ["64", "7e3"]
    assert [r["value"] for r in again.rows] == [0.5, 0.25]
    assert again.rows[0]["note"] == table.rows[0]["note"]
    assert again.rows[0]["extra"] is None
    assert again.rows[1]["extra"] == 1
    assert isinstance(again.rows[1]["n_memories"], int)


@pytest.mark.parametrize("kind", ["ndjson", "csv"])
def test_an_empty_table_reads_back(tmp_path, kind):
    (path,) = Results("none", (), {"seed": 1}).write(tmp_path, [kind])
    assert Results.load(path) == Results("none", (), {"seed": 1})


def test_ndjson_holds_no_nan_and_its_first_line_is_the_header(tmp_path):
    (path,) = Results("bad", ({"value": math.nan}, {"value": math.inf}), {"x": math.nan}).write(tmp_path, ["ndjson"])

    def refuse(word):
        raise AssertionError(word)

    first, *rest = [json.loads(line, parse_constant=refuse) for line in path.read_text().splitlines()]
    assert list(first) == ["header"]
    assert [r["value"] for r in rest] == [None, None]


def test_a_frame_joins_rows_of_different_columns_and_mixed_kinds():
    frame = Results("t", ({"a": 1, "b": "x"}, {"a": 2.5, "c": [1, 2]})).frame()
    assert frame.columns == ["a", "b", "c"]
    assert frame["a"].to_list() == [1.0, 2.5]
    assert frame["c"].to_list() == [None, "[1, 2]"]


@pytest.mark.parametrize("kind", ["ndjson", "csv"])
@pytest.mark.parametrize("keep", [0.0, 0.4, 0.8])
def test_a_truncated_file_is_refused(tmp_path, kind, keep):
    rows = tuple({"n": i, "value": i / 7} for i in range(40))
    (path,) = Results("cut", rows, {"seed": 1}).write(tmp_path, [kind])
    content = path.read_bytes()
    path.write_bytes(content[: int(keep * len(content))])
    with pytest.raises(FileFormatError, match="truncated"):
        Results.load(path)


def test_files_that_are_missing_or_of_another_kind_are_refused_in_one_sentence(tmp_path):
    with pytest.raises(FileFormatError, match="cannot read"):
        Results.load(tmp_path / "absent.ndjson")
    with pytest.raises(FileFormatError, match=r"must end in \.ndjson"):
        Results.load(tmp_path / "table.txt")
    with pytest.raises(InputError, match=r"end in one of .ndjson, .csv, .png, .svg, .pdf; got .*xls"):
        example().write(tmp_path, ["xls"])


def test_an_unwritable_folder_gives_one_sentence(tmp_path):
    blocker = tmp_path / "file"
    blocker.write_text("a file where a folder is wanted")
    with pytest.raises(InputError, match="choose a folder that can be written") as caught:
        example().write(blocker / "out")
    assert "\n" not in str(caught.value)


def test_a_failed_write_leaves_the_old_file_and_no_remains(tmp_path, monkeypatch):
    table = example()
    (path,) = table.write(tmp_path, ["csv"])
    before = path.read_bytes()

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(InputError, match="No space left"):
        Results("curve", (), {}).write(tmp_path, ["csv"])
    assert path.read_bytes() == before
    assert sorted(p.name for p in tmp_path.iterdir()) == ["curve.csv"]


def test_the_commit_is_given_only_from_an_own_checkout(tmp_path, monkeypatch):
    stranger = tmp_path / "site" / "results.py"
    stranger.parent.mkdir()
    stranger.write_text("")
    monkeypatch.setattr(results, "__file__", str(stranger))
    assert header_for()["commit"] is None


# ---------------------------------------------------------------------- what may stand at the target


def test_only_a_regular_file_is_written_over(tmp_path):
    pipe, folder = tmp_path / "pipe", tmp_path / "folder"
    os.mkfifo(pipe)
    folder.mkdir()
    for target in (pipe, folder):
        with pytest.raises(InputError, match="no regular file"):
            files.write_whole(target, b"new")
    assert pipe.is_fifo()
    assert sorted(x.name for x in tmp_path.iterdir()) == ["folder", "pipe"]


def test_a_link_is_followed_and_a_file_keeps_its_mode(tmp_path):
    real, link = tmp_path / "there" / "real", tmp_path / "link"
    real.parent.mkdir()
    real.write_bytes(b"old")
    real.chmod(0o640)
    link.symlink_to(real)
    assert files.write_whole(link, b"new") == link
    assert link.is_symlink()
    assert real.read_bytes() == b"new"
    assert real.stat().st_mode & 0o777 == 0o640
    dangling = tmp_path / "dangling"
    dangling.symlink_to(tmp_path / "later")
    files.write_whole(dangling, b"x")
    assert (tmp_path / "later").read_bytes() == b"x"


def test_a_new_file_has_the_usual_mode_and_the_umask_is_not_touched(tmp_path, monkeypatch):
    (tmp_path / "usual").touch()

    def refuse(_mask):
        raise AssertionError("the umask belongs to the whole process")

    monkeypatch.setattr(os, "umask", refuse)
    path = files.write_whole(tmp_path / "new", b"x")
    assert path.stat().st_mode == (tmp_path / "usual").stat().st_mode


@pytest.mark.parametrize("kind", ["ndjson", "csv"])
@pytest.mark.parametrize("sign", ["\u2028", "\x85", "\x0b", "\x1c", "\r\n"])
def test_signs_at_which_texts_may_be_split_read_back(tmp_path, kind, sign):
    table = Results("signs", ({"# a": f"x{sign}y", "b": 1},), {"note": f"x{sign}y"})
    again = Results.load(table.write(tmp_path, [kind])[0])
    assert again.rows == table.rows
    assert again.header == table.header


# ---------------------------------------------------------------------- shown, drawn, handed on


def capacities(**header: object) -> Results:
    rows = tuple(
        {"label": label, "quantity": "capacity", "d_k": d, "value": v, "low": v and v - 1, "high": v and v + 2,
         "theory": None, "reason": "" if v else "no <pairs>", "seed": 0}
        for label, d, v in (("relu", 16, 33.0), ("relu", 32, 65.0), ("mine", 16, None), ("mine", 32, 20.0))
    )  # fmt: skip
    behind = ({"label": "relu", "quantity": "ratio", "d_k": 16, "n_memories": 4, "value": 0.5},)
    return Results("capacity", rows + behind, header)


def test_it_prints_sentences_answers_and_the_table_of_the_answer():
    found = capacities(
        words=["A sentence."], facts={"sharpness": 11.31371, "feasible": True}, notes=["A note."],
        table=["label", "d_k", "value", "interval", "theory", "seed"],
    )  # fmt: skip
    assert str(found).split("\n") == [
        "A sentence.", "sharpness  11.31", "feasible   yes", " store  d_k  capacity    95 % interval",
        " ─────────────────────────────────────", " relu    16  33               32 to 35",
        " relu    32  65               64 to 67", " mine    16  no <pairs>              –",
        " mine    32  20               19 to 22", "In all rows seed = 0.", "A note.",
    ]  # fmt: skip
    assert repr(found) == "<Results 'capacity': 5 rows>"
    assert repr(found.where(label="relu", d_k=16)) == "<Results 'capacity': relu, d_k = 16, 33 (32 to 35)>"
    html = found._repr_html_()
    assert "no &lt;pairs&gt;" in html
    assert html.count("<tr>") == 1 + 2 + 1 + 4
    assert str(Results("none", ())) == ""


def test_the_numbers_of_an_answer_of_one_row_and_no_other():
    one = capacities().where(label="relu", d_k=16)
    assert (one.value, one.low, one.high, one.theory, one.ok, len(one.answer)) == (33.0, 32.0, 35.0, None, True, 1)
    assert capacities().where(label="mine", d_k=16).value is None
    with pytest.raises(InputError, match="`value` wants an answer of one row; this one has 4"):
        _ = capacities().value
    assert not Results("check", ({"check": "a", "passed": True}, {"check": "b", "passed": False})).ok


def test_other_libraries_take_it_and_pandas_needs_nothing_else(monkeypatch):
    found, frame = capacities(), capacities().frame()
    arrow = pytest.importorskip("pyarrow", reason="needs pyarrow")
    assert found.to_arrow().equals(arrow.table(frame))
    pytest.importorskip("pandas", reason="needs pandas")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    table = found.to_pandas()
    assert table["value"].tolist()[:2] == frame["value"].to_list()[:2] == [33.0, 65.0]
    assert np.isnan(table["value"][2])
    assert (list(table.columns), len(table)) == (frame.columns, 5)
    with pytest.raises(MissingExtraError, match=r"pyarrow is not installed; `pip install pyarrow` adds it"):
        found.to_arrow()


def test_it_draws_what_differs_and_saves_it_by_its_ending(tmp_path):
    found = capacities()
    layers = found.plot().to_dict()
    assert layers["title"] == "Capacity against key width d_k"
    assert layers["layer"][0]["encoding"]["y"]["title"] == "capacity (memories)"
    assert layers["layer"][0]["encoding"]["color"]["scale"]["domain"] == ["relu", "mine"]
    wider = Results("capacity", (*found.rows, dict(found.rows[1]) | {"d_k": 64, "value": 129.0}))
    for drawn, lines in ((layers, []), (wider.plot().to_dict(), ["line"])):  # two places are no line
        assert [layer["mark"]["type"] for layer in drawn["layer"]] == [*lines, "rule", "point"]
    assert found.plot(title="Mine", x_title="width").to_dict()["layer"][0]["encoding"]["x"]["title"] == "width"
    rows = tuple(row | {"theory": 40.0} for row in found.rows)
    one = Results("capacity", rows).where(d_k=16, quantity="capacity").plot().to_dict()
    assert one["title"] == "Capacity, d_k = 16"
    assert {row["what"] for rows in one["datasets"].values() for row in rows if "what" in row} == {
        "exact theory", "measured, 95 % interval",
    }  # fmt: skip
    with pytest.raises(
        InputError, match="nothing to draw of 'retrieval': no row has a number of it; there are rows of"
    ):
        found.plot("retrieval")
    kinds = {"a.png": b"\x89PNG", "a.svg": b"<svg", "a.pdf": b"%PDF", "a.csv": b"# {", "a.ndjson": b'{"he'}
    for name, begins in kinds.items():
        assert found.save(tmp_path / name).read_bytes().startswith(begins)
    width = int.from_bytes((tmp_path / "a.png").read_bytes()[16:20], "big")
    assert width > 2 * 620  # two dots for a unit of length
    assert Results.load(tmp_path / "a.csv").rows == Results.load(tmp_path / "a.ndjson").rows
