"""`assocmem reproduce --quick`: its folder, its report, its numbers, and what it leaves when it is stopped."""

from __future__ import annotations

import contextlib
import io
import math
import os
import re
import signal
import subprocess
import sys
import time
from types import SimpleNamespace

import pytest

from assocmem.cli import run
from assocmem.cli.reproducing import TITLE
from assocmem.contract.results import Results
from assocmem.experiments.catalogue import chosen
from assocmem.experiments.experiment import Run, article
from assocmem.report.html import as_printed, significant, span
from browsing import Tab, browser
from commandline import strict_json

pytestmark = pytest.mark.xdist_group("reproduce")
NAMES = [e.name for e in chosen([])]
RATIOS = {"correlated", "linear-stores", "activations", "exponential", "long-contexts", "ridge-peak", "steps"}
HEADER = {
    "config", "seed", "versions", "commit", "machine", "python", "seconds", "definitions", "title", "question",
    "caption", "view",
}  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Run the quick reproduction once; return its folder, exit status and what it said."""
    out = tmp_path_factory.mktemp("quick") / "deep" / "er"
    said, told = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(told):
        status = run(["reproduce", "--quick", "--out", str(out)])
    return SimpleNamespace(out=out, status=status, said=said.getvalue(), told=told.getvalue())


def measured(results):
    """Return the rows of a result without what depends on the clock."""
    return [dict(row) for row in results.rows]


def test_the_folder_holds_a_picture_and_two_tables_for_every_experiment_and_nothing_else(folder):
    assert folder.status == 0, folder.said + folder.told
    expected = {f"{name}.{kind}" for name in NAMES for kind in ("png", "csv", "ndjson")}
    assert {path.name for path in folder.out.iterdir()} == expected | {"index.html", "verdict.json", "overview.png"}
    for name in NAMES:
        assert (folder.out / f"{name}.png").read_bytes().startswith(b"\x89PNG\r\n\x1a\n")
        assert (folder.out / f"{name}.png").stat().st_size > 5000
    assert f"{len(NAMES)} of {len(NAMES)} experiments" in folder.said


@pytest.mark.parametrize("name", NAMES)
def test_tables_say_how_they_were_made_and_agree_with_each_other(folder, name):
    lines, table = (Results.load(folder.out / f"{name}.{kind}") for kind in ("ndjson", "csv"))
    assert set(lines.header) >= HEADER
    assert lines.header["seed"] == 0
    assert lines.header["config"]["quick"] is True
    assert {"assocmem", "numpy", "scipy"} <= set(lines.header["versions"])
    assert lines.header["seconds"] > 0
    assert lines.header["caption"].endswith(".")
    assert lines.header["question"].endswith("?")
    assert measured(lines)
    assert len(table.rows) == len(lines.rows)
    assert set(table.columns) == set(lines.columns)
    for written, read in zip(lines.rows, table.rows, strict=True):
        for column, value in written.items():
            if isinstance(value, int | float):
                assert read[column] == value or math.isclose(read[column], value, rel_tol=1e-12), column
    for line in (folder.out / f"{name}.ndjson").read_text().splitlines():
        strict_json(line)


def test_every_printed_number_that_a_quick_run_reaches_has_an_explained_verdict(folder):
    document = strict_json((folder.out / "verdict.json").read_text())
    rows = document["verdicts"]
    names = [row["name"] for row in rows]
    assert len(set(names)) == len(names)
    curves = article()["linear_curves"]
    expected = [f"outer product, ratio at M = {m}" for m, _ in curves["outer"] if m <= 256]
    expected += [f"optimal linear, ratio at M = {m}" for m, _ in curves["optimal"] if m <= 256]
    expected += [f"capacity, {item['store']}" for item in article()["capacities"]]
    expected += [f"{words} holds so many times the linear store" for words in article()["multiples_of_linear"]]
    expected += ["softmax at beta 2 fails after"]
    assert sorted(names) == sorted(expected)
    for row in rows:
        assert row["verdict"] in ("agrees", "explained"), row
        assert row["verdict"] == "agrees" or len(row["reason"].split()) > 5, row
        assert row["statistic"] in ("rms", "median"), row
        assert row["sampler"], row
        assert row["seed"] == 0
        if row["value"] is not None:
            assert row["low"] <= row["value"] <= row["high"], row
    assert document["unfinished"] == []
    defined = {word for words in document["definitions"] for word in words.split(", ")}
    assert {*rows[0], "unfinished", "capacity", "ratio"} == defined
    for column in ("verdict", "sampler"):
        words = document["definitions"][column]
        assert all(f"{row[column]}: " in words for row in rows), column
    assert "not printed: " in document["definitions"]["verdict"]
    assert "tilted: " in document["definitions"]["sampler"]
    assert {"seed", "quick", "assocmem", "python", "machine"} <= set(document["run"])
    for row in rows:
        assert row["name"][:12] in folder.said  # longer names are broken into lines
    for m in (16, 256):
        assert f"outer product, ratio at M = {m} " in folder.said


def test_the_terminal_and_the_page_write_numbers_alike(folder):
    rows = strict_json((folder.out / "verdict.json").read_text())["verdicts"]
    page = (folder.out / "index.html").read_text(encoding="utf-8")
    for row in rows:
        written = [as_printed(row["printed"]), significant(row["value"]), span(row["low"], row["high"])]
        for text in written:
            assert f'<td class="number">{text}</td>' in page
            assert text.replace(", ", ",") in folder.said or "not reached" in text
    assert "e-15" not in folder.said


def test_the_caption_of_the_table_says_which_statistic_a_row_is(folder):
    rows = strict_json((folder.out / "verdict.json").read_text())["verdicts"]
    for row in rows:
        assert row["statistic"] == ("median" if "optimal linear" in row["name"] else "rms"), row
    assert "root mean squares over trials; of the optimal linear store medians" in folder.said


def test_the_last_lines_count_every_row_once(folder):
    rows = strict_json((folder.out / "verdict.json").read_text())["verdicts"]
    counts = re.search(r"(\d+) agree, (\d+) are explained, (\d+) not printed, (\d+) differ", folder.said)
    held = re.search(r"(\d+) of (\d+) intervals hold the exact value.*; (\d+) more rows", folder.said)
    assert sum(map(int, counts.groups())) == len(rows)
    assert int(held[2]) + int(held[3]) == len(rows)


def test_intervals_hold_the_exact_value_about_as_often_as_they_say(folder):
    rows = strict_json((folder.out / "verdict.json").read_text())["verdicts"]
    covered = [row["exact_in_interval"] for row in rows if row["exact_in_interval"] is not None]
    # 95 % of about twenty, not all independent: fewer than three quarters has a chance below 1e-3.
    assert len(covered) >= 15
    assert sum(covered) >= 0.75 * len(covered)


def test_the_report_is_one_file_that_loads_nothing(folder):
    page = (folder.out / "index.html").read_text(encoding="utf-8")
    markup = re.sub(r"<script.*?</script>", "", page, flags=re.S)
    for attribute, value in re.findall(r"\b(src|href|action|poster|data)\s*=\s*[\"']([^\"']*)", markup):
        local = value.startswith(("#", "data:")) or (folder.out / value).is_file()
        assert local, f"{attribute}={value}"
    assert "@import" not in markup
    assert not re.search(r"url\((?!['\"]?data:)", markup)
    assert "<script src" not in page
    assert not re.search(r"https?://", markup)
    for name in NAMES:
        assert f'id="{name}"' in page
        assert f'data-chart="{name}"' in page
    for row in strict_json((folder.out / "verdict.json").read_text())["verdicts"]:
        assert row["name"] in page


def test_the_report_draws_itself_from_a_file_without_an_error_or_an_outside_request(folder):
    pytest.importorskip("playwright.sync_api", reason="needs playwright")
    with browser() as running:
        tab = Tab(running)
        tab.page.goto((folder.out / "index.html").as_uri())
        charts = len(NAMES) + 1  # the overview, which opens the page
        tab.page.wait_for_function(
            f"document.querySelectorAll('.chart[data-drawn]').length === {charts}", timeout=30_000
        )
        assert tab.page.locator(".chart").first.get_attribute("id") == "chart-overview"
        tab.settle()
        room = "(e) => e.clientWidth - 28 - e.querySelector('svg').getBoundingClientRect().width"
        left = {chart.get_attribute("id"): chart.evaluate(room) for chart in tab.page.locator(".chart").all()}
        assert all(left.pop(f"chart-{name}") >= 0 for name in ("opening", "energy"))  # pictures keep their shape
        assert all(0 <= free < 4 for free in left.values()), left  # all others take the width that there is
        shown = tab.page.locator("#chart-activations svg")
        before = shown.locator("path[aria-roledescription='point']").count()
        assert before > 20
        shown.locator("g.role-legend-entry text").first.click()  # one series alone
        tab.settle()
        faded = shown.locator("path[aria-roledescription='point'][opacity='0.08']").count()
        assert 0 < faded < before
        shown.locator("path[aria-roledescription='point']").first.hover(force=True)
        tab.page.wait_for_selector("#vg-tooltip-element.visible", timeout=5000)
        assert "measured" in tab.page.text_content("#vg-tooltip-element")
        tab.close()


def test_the_caption_of_keys_that_are_alike_says_what_its_rows_say(folder):
    found = Results.load(folder.out / "correlated.ndjson")
    square = {r["rho"]: r["value"] for r in found.rows if r["label"] == "least squares" and r["n_memories"] == 96}
    caption = found.header["caption"]
    apart, *rest = (f"{square[rho]:.3f}" for rho in sorted(square))
    assert apart not in rest
    assert f"is {apart} at cosine 0, where" in caption
    assert f"and {' to '.join(sorted({min(rest), max(rest)}))} at every larger cosine" in caption


@pytest.mark.parametrize("name", NAMES)
def test_numbers_depend_on_the_seed_and_not_on_the_workers(folder, name):
    first = Results.load(folder.out / f"{name}.ndjson")
    again = chosen([name])[0].run(Run(seed=0, quick=True, workers=1))
    written = Results(name, again.rows, again.header)
    written.write(folder.out.parent / "again", ("ndjson",))
    assert measured(Results.load(folder.out.parent / "again" / f"{name}.ndjson")) == measured(first)


def test_another_seed_gives_other_numbers():
    for name in ("opening", "bars", "linear-stores", "state-bits"):
        first, other = (chosen([name])[0].run(Run(seed=seed, quick=True, workers=2)) for seed in (1, 2))
        assert measured(first) != measured(other), name


def test_only_the_named_experiments_run(ask, tmp_path):
    said = ask("reproduce", "--quick", "--only", "bars", "--only", "opening", "--out", tmp_path, "--seed", 4)
    assert said.status == 0
    names = {f"{name}.{kind}" for name in ("bars", "opening") for kind in ("png", "csv", "ndjson")}
    assert {path.name for path in tmp_path.iterdir()} == names | {"index.html", "verdict.json"}
    assert "2 of 2 experiments" in said.out
    document = strict_json((tmp_path / "verdict.json").read_text())
    assert (document["verdicts"], document["unfinished"], document["run"]["seed"]) == ([], [], 4)
    assert Results.load(tmp_path / "bars.ndjson").header["seed"] == 4


def test_ctrl_c_leaves_what_is_finished_and_names_the_rest(ask, tmp_path, monkeypatch):
    first, second, third = chosen(["bars", "opening", "state-bits"])

    def stop(_settings, _progress):
        raise KeyboardInterrupt

    stopping = SimpleNamespace(name=third.name, run=stop, slow=False, scripted=False)
    wanted = (first, second, stopping, SimpleNamespace(name="never", run=stop, slow=True, scripted=False))
    monkeypatch.setattr("assocmem.experiments.catalogue.chosen", lambda *_, **__: wanted)
    said = ask("reproduce", "--quick", "--out", tmp_path)
    assert said.status == 130
    assert said.err.splitlines()[-1].startswith("assocmem: stopped by Ctrl-C: what was finished is written")
    assert "Traceback" not in said.err
    names = {f"{name}.{kind}" for name in ("bars", "opening") for kind in ("png", "csv", "ndjson")}
    assert {path.name for path in tmp_path.iterdir()} == names | {"index.html", "verdict.json"}
    assert strict_json((tmp_path / "verdict.json").read_text())["unfinished"] == ["state-bits", "never"]
    assert "Not run, so not shown: state-bits, never." in (tmp_path / "index.html").read_text()


@pytest.mark.parametrize("to_all", [True, False])
def test_ctrl_c_at_the_terminal_ends_what_is_measured_aside(tmp_path, to_all):
    command = [sys.executable, "-m", "assocmem", "reproduce", "--out", str(tmp_path), "--workers", "2"]
    command += ["--only", "opening", "--only", "recall-vs-state"]
    running = subprocess.Popen(
        command, start_new_session=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    deadline = time.monotonic() + 60
    while not (tmp_path / "opening.csv").exists():
        assert time.monotonic() < deadline
        time.sleep(0.05)
    time.sleep(1)
    if to_all:
        os.killpg(running.pid, signal.SIGINT)  # as a terminal does
    else:
        running.send_signal(signal.SIGINT)
    _, told = running.communicate(timeout=30)
    assert running.returncode == 130
    assert told.splitlines()[-1].startswith("assocmem: stopped by Ctrl-C"), told
    assert "Traceback" not in told
    assert "Not run, so not shown: recall-vs-state." in (tmp_path / "index.html").read_text()
    assert not list(tmp_path.glob("recall-vs-state.*"))
    assert (tmp_path / "opening.pdf").read_bytes().startswith(b"%PDF-")
    assert (tmp_path / "opening.svg").read_bytes().startswith(b"<svg")


def test_ctrl_c_while_a_result_is_written_keeps_it(ask, tmp_path, monkeypatch):
    written = Results.write
    calls = []

    def write(self, *words):
        calls.append(self.name)
        paths = written(self, *words)
        if len(calls) == 1:
            raise KeyboardInterrupt
        return paths

    monkeypatch.setattr(Results, "write", write)
    said = ask("reproduce", "--quick", "--only", "bars", "--only", "ages", "--out", tmp_path)
    assert said.status == 130
    assert calls == ["bars", "bars"]
    assert (tmp_path / "bars.png").is_file()
    assert not list(tmp_path.glob("ages.*"))
    assert "Not run, so not shown: ages." in (tmp_path / "index.html").read_text()


def test_ctrl_c_before_anything_is_finished_still_reports(ask, tmp_path, monkeypatch):
    def stop(_settings, _progress):
        raise KeyboardInterrupt

    lone = SimpleNamespace(name="bars", run=stop, slow=False, scripted=False)
    monkeypatch.setattr("assocmem.experiments.catalogue.chosen", lambda *_, **__: (lone,))
    said = ask("reproduce", "--quick", "--out", tmp_path)
    assert said.status == 130
    assert {path.name for path in tmp_path.iterdir()} == {"index.html", "verdict.json"}


def test_a_number_that_differs_is_exit_status_one(ask, tmp_path, monkeypatch):
    wrong = {
        "name": "a number", "printed": 1, "value": 2.0, "low": 1.9, "high": 2.1, "exact": 2.0, "verdict": "differs",
        "reason": "nothing accounts for it", "exact_kind": "exact", "exact_in_interval": True, "statistic": "rms",
        "sampler": "keys",
    }  # fmt: skip
    monkeypatch.setattr("assocmem.experiments.verdict.verdicts", lambda _results: [wrong])
    said = ask("reproduce", "--quick", "--only", "bars", "--out", tmp_path)
    assert said.status == 1
    assert "1 differ" in said.out
    assert 'class="differs"' in (tmp_path / "index.html").read_text()


def test_a_row_without_a_printed_number_is_not_counted_as_agreeing(ask, tmp_path, monkeypatch):
    row = {
        "name": "a curve", "printed": None, "value": 2.0, "low": 1.9, "high": 2.1, "exact": 2.0,
        "verdict": "not printed", "reason": "no number here", "exact_kind": "exact", "exact_in_interval": True,
        "statistic": "rms", "sampler": "keys",
    }  # fmt: skip
    monkeypatch.setattr("assocmem.experiments.verdict.verdicts", lambda _results: [row])
    said = ask("reproduce", "--quick", "--only", "bars", "--out", tmp_path)
    assert said.status == 0
    assert "0 agree, 0 are explained, 1 not printed, 0 differ." in said.out
    assert "not printed (1)" in said.out
    page = (tmp_path / "index.html").read_text()
    assert '<span class="not-printed">not printed</span> <a href="#reason-1">(1)</a>' in page
    assert '<li id="reason-1">no number here</li>' in page
    assert "<th>statistic, sampler</th>" in page


def test_a_chart_that_fails_is_reported_and_tables_stay(ask, tmp_path, monkeypatch):
    bars = chosen(["bars"])[0]

    def unknown(settings, progress):
        found = bars.run(settings, progress)
        return Results(found.name, found.rows, {**found.header, "view": {"kind": "no such chart"}})

    lone = SimpleNamespace(name="bars", run=unknown, slow=False, scripted=False)
    monkeypatch.setattr("assocmem.experiments.catalogue.chosen", lambda *_, **__: (lone,))
    said = ask("reproduce", "--quick", "--out", tmp_path)
    assert said.status == 2
    assert "asks for the chart 'no such chart'" in said.err.splitlines()[-1]
    assert Results.load(tmp_path / "bars.ndjson").rows
    assert not (tmp_path / "index.html").exists()


@pytest.mark.parametrize("name", NAMES)
def test_every_column_of_a_result_is_defined_and_nothing_else(folder, name):
    found = Results.load(folder.out / f"{name}.ndjson")
    words = found.header["definitions"]
    assert set(words) == set(found.columns)
    assert all(words.values())
    assert words.get("value", "").startswith("interference-to-signal ratio") == (name in RATIOS)


def test_progress_goes_to_stderr_and_the_table_to_stdout(folder):
    assert "Every printed number, repeated" in folder.said
    assert "━" not in folder.said
    for name in NAMES:
        assert name in folder.told
    assert TITLE in (folder.out / "index.html").read_text()
