"""Results files: whole or not at all, valid JSON, the same table back from every format."""

from __future__ import annotations

import json
import math
import os
from dataclasses import dataclass

import numpy as np
import pytest

from assocmem.contract import files, results
from assocmem.contract.errors import FileFormatError, InputError
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
