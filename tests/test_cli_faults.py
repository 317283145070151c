"""Faults that were found at the command line: a user's code that leaves, prints or fails; a terminal without Σ."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from assocmem import Memory, Source
from assocmem.contract import files
from assocmem.contract.errors import FileFormatError, InputError
from assocmem.contract.form import LeastSquares
from assocmem.contract.results import Results
from assocmem.lab.capacity import capacity as measured_capacity
from assocmem.lab.measure import measure
from assocmem.maps.activations import Exp, as_sharpness
from assocmem.theory import best_sharpness, capacity, ratio

OWN = '''
import sys
from dataclasses import dataclass
import numpy as np
from assocmem import Store, Traits

print("hello from import")
KIND = Traits(linear_in_values="shared", permutation_invariant=True, overwrite="adds", constant_size=True)

@dataclass(frozen=True)
class Sum(Store):
    """Adds all pairs up.

    And more.
    """
    traits = KIND
    def init(self, state):
        return {"W": state.zeros(state.d_v, state.d_k)}
    def put(self, state, keys, values):
        print("writing")
        return {"W": state["W"] + values.mT @ keys}
    def get(self, state, queries, ask):
        return queries @ state["W"].mT

class Leaves(Sum):
    def put(self, state, keys, values):
        sys.exit(0)

class Fails(Sum):
    def put(self, state, keys, values):
        return {"W": state["W"]}
    def get(self, state, queries, ask):
        return np.linalg.inv(np.zeros((2, 2)))

class Untold(Sum):
    traits = None

class Unready(Sum):
    @property
    def traits(self):
        raise ValueError("not yet")

class Moody(Sum):
    def get(self, state, queries, ask):
        return queries @ state["W"].mT * np.random.default_rng().uniform(0.5, 2)

class Picky(Sum):
    def get(self, state, queries, ask):
        queries.max()
        return super().get(state, queries, ask)

class Greedy(Sum):
    def put(self, state, keys, values):
        keys.max()
        return super().put(state, keys, values)

def exits(keys, values, queries):
    raise SystemExit(0)

def recall(keys, values, queries):
    """Sums without normalising."""
    print("hi")
    return queries @ keys.T @ values

def by_name(*, keys, values, queries):
    return queries @ keys.T @ values

def of_two(keys, queries):
    return queries
'''


@pytest.fixture
def own(tmp_path, monkeypatch):
    """Put a module of stores into the current directory; return the module's name."""
    name = f"faults_{tmp_path.name}".replace("-", "_")
    (tmp_path / f"{name}.py").write_text(OWN)
    (tmp_path / f"{name}_left.py").write_text("import sys\nsys.exit(0)\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield name
    for module in (name, f"{name}_left"):
        sys.modules.pop(module, None)


@pytest.mark.parametrize("command", ["check", "show", "capacity", "cite"])
def test_a_module_that_leaves_is_no_pass(ask, own, command):
    said = ask(command, f"{own}_left:x")
    assert (said.status, said.out) == (2, "")
    assert "SystemExit: 0" in said.err
    assert f"{own}_left.py, line 2" in said.err


def test_a_store_that_leaves_fails_its_checks(ask, own):
    said = ask("check", f"{own}:Leaves")
    assert said.status == 1
    assert "stopped by SystemExit: 0" in said.out


@pytest.mark.parametrize("name", ["Leaves", "exits"])
def test_a_recall_that_leaves_is_one_sentence(ask, own, name):
    said = ask("capacity", f"{own}:{name}", "--d-k", 8, "--max-memories", 8)
    assert said.status == 2
    assert "SystemExit: 0" in said.err
    assert f"{own}.py, line" in said.err


@pytest.mark.parametrize("name", ["Sum", "recall"])
@pytest.mark.parametrize("command", ["show", "check", "capacity"])
def test_json_stays_json_when_a_store_prints(ask, own, command, name):
    more = ["--d-k", 8, "--max-memories", 16] if command == "capacity" else []
    said = ask(command, f"{own}:{name}", *more, "--json")
    assert said.json["definitions"]
    assert ("writing" if name == "Sum" else "hi") in said.err


@pytest.mark.parametrize("encoding", ["ascii", "cp1252"])
def test_a_terminal_without_sigma(encoding):
    command = [sys.executable, "-m", "assocmem", "show", "relu"]
    environment = {**os.environ, "PYTHONIOENCODING": encoding}
    said = subprocess.run(command, capture_output=True, timeout=60, check=False, env=environment)
    assert (said.returncode, said.stderr) == (0, b"")
    assert b"f(x) = V^T ?(K x)" in said.stdout
    said = subprocess.run([*command, "--json"], capture_output=True, timeout=60, check=False, env=environment)
    assert "σ" in json.loads(said.stdout.decode(encoding))["equation"]


def test_a_failing_store_names_the_users_line(ask, own):
    said = ask("capacity", f"{own}:Fails", "--d-k", 8, "--max-memories", 8)
    assert said.status == 2
    line = 1 + OWN.split("\n").index("        return np.linalg.inv(np.zeros((2, 2)))")
    assert f"({own}.py, line {line}). `assocmem check {own}:Fails`" in said.err


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("Untold", "must be an assocmem.Traits; got None"),
        ("Unready", "ValueError: not yet"),
        ("by_name", "must take keys, values and queries"),
        ("of_two", "must take keys, values and queries"),
    ],
)
@pytest.mark.parametrize("command", ["check", "show", "capacity"])
def test_what_is_no_store_is_said_so(ask, own, command, name, words):
    said = ask(command, f"{own}:{name}")
    assert (said.status, said.out) == (2, "")
    assert words in said.err


def test_show_says_what_a_store_of_ones_own_does(ask, own):
    assert ask("show", f"{own}:Sum", "--json").json["summary"] == "Adds all pairs up."
    assert ask("show", f"{own}:recall", "--json").json["summary"] == "Sums without normalising."
    assert ask("show", f"{own}:of_two").status == 2


def test_approximate_theory_is_labelled(ask):
    words = ["--d-k", 16, "--max-memories", 64]
    assert ask("capacity", "optimal-linear", *words, "--json").json["theory_exact"] is False
    assert "(approximate)" in ask("capacity", "optimal-linear", *words).out
    assert ask("capacity", "relu", *words, "--json").json["theory_exact"] is True
    assert "approximate" not in ask("capacity", "relu", *words).out
    assert "approximate theory" in ask("show", "optimal-linear").out
    assert "exact theory" in ask("show", "relu").out
    assert ask("show", "optimal-linear", "--json").json["capacity_d_k_64"]["theory_exact"] is False


def test_an_error_leaves_no_empty_line_of_a_progress_bar(own):
    """A terminal that cannot move its cursor gets no bar, and so nothing before the error."""
    pty = pytest.importorskip("pty")
    screen, theirs = pty.openpty()
    command = [sys.executable, "-m", "assocmem", "capacity", f"{own}:Fails", "--d-k", "8", "--max-memories", "8"]
    environment = {**os.environ, "TERM": "dumb"}
    with os.fdopen(screen, "rb", buffering=0) as reader:
        subprocess.run(command, stderr=theirs, stdout=subprocess.PIPE, timeout=60, check=False, env=environment)
        os.close(theirs)
        shown = reader.read(4096).decode().splitlines()
    assert shown[0] == "hello from import"
    assert shown[1].startswith("assocmem: ")
    assert len(shown) == 2


def test_the_bare_command_shows_help_alone(ask):
    said = ask()
    assert (said.status, said.err) == (2, "")
    assert "Usage" in said.out


# --------------------------------------------------------------------------- numbers at the ends of the floats


@pytest.mark.parametrize(
    "words",
    ["--query-cosine 1e-300", "--query-cosine 1e-160", "--ratio 1e-300", "--ratio 1e300", "--ratio 1e-300 --d-k 2"],
)
def test_design_at_the_ends_of_the_floats(ask, words):
    said = ask("design", "--memories", "1e6", *words.split(), "--json")
    assert (said.status, said.err) == (0, "")
    assert len(said.json["stores"]) > 20


def test_capacity_at_the_ends_of_the_floats(ask):
    far = ask("capacity", "relu", "--ratio", "1e300")
    assert far.status == 2
    assert "is measured up to 1e+100" in far.err
    assert ask("capacity", "relu", "--ratio", "1e100", "--json").json["theory"] == pytest.approx(1.28e202)


@pytest.mark.parametrize("beta", ["inf", "1e400"])
def test_argmax_has_no_finite_capacity(ask, beta):
    found = ask("capacity", "softmax", "--beta", beta, "--d-k", 8, "--max-memories", 64, "--json")
    assert (found.status, found.err) == (0, "")
    assert found.json["theory"] is None
    assert found.json["theory_reason"].startswith("no finite capacity: ")
    assert found.json["ratio_there"] == 0


def test_ridge_theory_becomes_the_outer_products():
    for ridge in (0.0, 0.1, 1e300):
        assert ratio(LeastSquares(ridge), 2, 1e300).value == pytest.approx(math.sqrt(1e300 / 2))
        assert ratio(LeastSquares(ridge), 64, 1e18, cosine=0.5).value == pytest.approx(
            2 * math.sqrt(1e18 / 64), rel=1e-9
        )
        faint = ratio(LeastSquares(ridge), 64, 500, cosine=1e-50).value
        assert ratio(LeastSquares(ridge), 64, 500, cosine=1e-200).value == pytest.approx(1e150 * faint)
    for ridge in (1e19, 1e21):  # either side of where the short form begins
        assert ratio(LeastSquares(ridge), 64, 500, cosine=0.5).value == pytest.approx(
            2 * math.sqrt(500 / 64 * (1 - 1 / 500)), rel=1e-9
        )


@pytest.mark.parametrize("law", ["sphere", "gaussian"])
@pytest.mark.parametrize("statistic", ["mean", "rms", "median"])
def test_optimal_capacity_at_the_ends_of_the_floats(law, statistic):
    near = capacity(LeastSquares(), 64, ratio=1e-300, law=law, statistic=statistic).value
    assert near == pytest.approx(64.001006 if statistic == "median" else 64.0, rel=1e-8)
    far = capacity(LeastSquares(), 64, ratio=1e300, law=law, statistic=statistic).log_value
    step = capacity(LeastSquares(), 64, ratio=1e100, law=law, statistic=statistic).log_value
    assert far - step == pytest.approx(2 * math.log(1e200), rel=1e-9)


@pytest.mark.parametrize("law", ["sphere", "gaussian"])
def test_medians_of_few_degrees_of_freedom_meet(law):
    """The leading power takes over at 0.05 degrees of freedom, M - d."""
    below, above = (
        ratio(LeastSquares(), 64, 64 + x, law=law, statistic="median").log_value for x in (0.04999, 0.05001)
    )
    assert above - below == pytest.approx(0.00002 * math.log(2) / 0.05**2, rel=1e-3)


def test_best_sharpness_of_a_faint_query():
    assert best_sharpness(64, 1e-300).value == pytest.approx(3.2e-299)
    assert best_sharpness(64, 0.99e-9).value / 0.99 == pytest.approx(best_sharpness(64, 1.01e-9).value / 1.01)


# --------------------------------------------------------------------------- design


def test_design_answers_about_the_usual_scale(ask):
    enough = ask("design", "--d-k", 128, "--memories", "200k")
    assert "M = 200,000 memories" in enough.out
    assert "sqrt(d_k) = 11.3: it serves up to M = 935,890,000 at this ratio, so nothing needs to change" in enough.out
    short = ask("design", "--memories", "1e6", "--ratio", 0.1, "--json").json
    assert short["usual_sharpness"] == 8.0
    assert ratio(Exp(8.0), 64, short["usual_largest"]).value == pytest.approx(0.1)
    assert short["usual_ratio"] == pytest.approx(ratio(Exp(8.0), 64, 1e6).value)
    assert short["usual_sentence"].endswith(f"so raise it by a factor of {short['sharpness'] / 8:.3g}.")
    hopeless = ask("design", "--memories", "2e6", "--query-cosine", 0.6, "--json").json
    assert hopeless["usual_sentence"].endswith("at this ratio and cosine, and no other sharpness serves M.")
    blunter = ask("design", "--memories", 5000, "--query-cosine", 0.05, "--ratio", 100, "--json").json
    assert blunter["sharpness"] < 8
    assert "so lower it: a sharpness of" in blunter["usual_sentence"]


def test_design_compares_policies_of_sharpness(ask):
    found = ask("design", "--memories", "1e6", "--ratio", 0.1, "--json").json
    rows = {row["label"]: row for row in found["sharpness_policies"]}
    assert next(row["ratio"] for row in rows.values()) == pytest.approx(0.1)
    for name in ("log-n", "qwen", "yarn"):
        row = rows[f"softmax, {name} from 1024"]
        assert row["ratio"] == ratio(as_sharpness(name), 64, 1e6).value
        assert row["feasible"] is (row["ratio"] <= 0.1)
        assert row["numbers_held"] == 128e6
    assert "softmax, yarn from 1024" in ask("design", "--memories", "1e6").out


@pytest.mark.parametrize(("text", "value"), [("200k", 2e5), ("2e5", 2e5), ("1.5M", 1.5e6), ("2G", 2e9), ("7", 7)])
def test_memories_as_people_write_them(ask, text, value):
    assert ask("design", "--memories", text, "--json").json["memories"] == value


@pytest.mark.parametrize(
    ("words", "option"),
    [
        ("design --memories k", "--memories"),
        ("design --memories 0.5k --ratio -1", "--ratio"),
        ("design --memories 5 --d-k 1 --query-cosine 0.5", "--query-cosine"),
        ("capacity relu --d-k 1 --query-cosine 0.5", "--query-cosine"),
        ("capacity relu --sampler dice", "--sampler"),
    ],
)
def test_refusals_name_the_option_that_was_given(ask, words, option):
    said = ask(*words.split())
    assert said.status == 2
    assert f"`{option}`" in said.err
    for name in ("`cosine`", "`n_memories`", "`threshold`", "`sampler`", "`ratio`"):
        assert name not in said.err


def test_large_numbers_are_plain(ask):
    said = ask("design", "--memories", "2.1e20").out
    assert "M = 2.1e20 memories" in said
    assert "e+" not in said


# --------------------------------------------------------------------------- check


def test_a_moody_store_is_told_its_cause_first(ask, own):
    said = ask("check", f"{own}:Moody")
    assert said.status == 1
    blocks = said.out.strip().split("\n\n")
    assert blocks[1].startswith("deterministic: ")
    assert blocks[2].startswith("pure-reads: ")
    assert len(blocks) == 4
    assert blocks[3].startswith("Also failed, which may follow from this; mend it and check again: ")
    assert "split-law" in blocks[3]
    assert "Also failed" not in ask("check", f"{own}:Leaves").out


def test_a_call_with_nothing_in_it_is_said_so(ask, own):
    line = 1 + OWN.split("\n").index("        queries.max()")
    found = {f["check"]: f["message"] for f in ask("check", f"{own}:Picky", "--json").json["failures"]}
    assert found["shapes"].endswith(f"({own}.py, line {line}); the call had 0 queries")
    found = {f["check"]: f["message"] for f in ask("check", f"{own}:Greedy", "--json").json["failures"]}
    assert found["widths"].endswith("; the call had keys of width 0")


# ---------------------------------------------------------------------- what a tester found


def test_reproduce_leaves_a_page_of_somebody_else_alone(ask, tmp_path):
    (tmp_path / "index.html").write_text("precious")
    said = ask("reproduce", "--quick", "--only", "bars", "--out", tmp_path)
    assert said.status == 2
    assert "not from a run of assocmem" in said.err
    assert [path.name for path in tmp_path.iterdir()] == ["index.html"]
    assert (tmp_path / "index.html").read_text() == "precious"


def test_infinite_settings_are_words_in_json(ask):
    said = ask("capacity", "softmax", "--beta", "inf", "--d-k", "8", "--max-memories", "8", "--json")
    assert said.json["settings"] == {"beta": "inf"}
    assert said.json["settings_used"]["sharpness"] == {"is": "Constant", "beta": "inf"}


def test_ratios_near_the_ends_of_the_floats_have_a_capacity(ask):
    said = ask("capacity", "outer-product", "--d-k", "8", "--ratio", "1e-200", "--json")
    assert said.status == 0
    assert said.json["value"] == pytest.approx(1)
    words = ask("design", "--memories", "1e6", "--ratio", "1e300", "--query-cosine", "0.5").out
    assert "it serves up to M = e^1387.61 at this ratio" in " ".join(words.split())


def test_weights_beyond_the_floats_are_refused_in_words(ask):
    said = ask("capacity", "exp-series", "--terms", "250", "--beta", "400", "--d-k", "4")
    assert said.status == 2
    assert "its square leaves the range of floats" in said.err


def test_a_number_that_hangs_on_one_trial_says_so_and_the_median_does_not(ask):
    heavy = ask("capacity", "delta-net", "--d-k", "5", "--json").json
    assert "carries" in heavy["note"]
    assert "the median does not" in heavy["note"]
    median = ("capacity", "delta-net", "--d-k", "5", "--statistic", "median", "--json", "--seed")
    steady = [ask(*median, seed).json for seed in (0, 1)]
    assert all(found["statistic"] == "median" and "carries" not in found["note"] for found in steady)
    assert steady[0]["value"] == pytest.approx(steady[1]["value"], rel=0.15)
    assert ask("capacity", "relu", "--statistic", "mode").status == 2


def test_keys_too_small_are_named_and_values_of_zero_refused(ask, tmp_path):
    rows = np.random.default_rng(0).standard_normal((40, 8))
    np.save(tmp_path / "tiny.npy", rows * 1e-200)
    np.save(tmp_path / "rows.npy", rows)
    np.save(tmp_path / "zero.npy", np.zeros((40, 3)))
    assert "Raw keys: no entry is larger than" in ask("measure", "--keys", tmp_path / "tiny.npy").out
    assert "no entry is larger" not in ask("measure", "--keys", tmp_path / "tiny.npy", "--normalise").out
    said = ask("measure", "--keys", tmp_path / "rows.npy", "--values", tmp_path / "zero.npy")
    assert "must not all be zero" in said.err


@pytest.mark.parametrize(
    "wrong", [{"largest": 0}, {"d_v": 0}, {"d_k": "8"}, {"largest": 2.5}], ids=["largest", "d_v", "d_k", "fraction"]
)
def test_the_lab_asks_for_whole_numbers(wrong):
    with pytest.raises(InputError, match=f"`{next(iter(wrong))}` must be a whole number"):
        measured_capacity("outer-product", **({"d_k": 8} | wrong))
    rows = np.random.default_rng(0).standard_normal((40, 8))
    for more in ({"trials": 2.5}, {"memories": [2.5]}, {"largest": 2.5}):
        with pytest.raises(InputError, match="whole number"):
            measure(rows, stores=["outer-product"], **more)


# ---------------------------------------------------------------------- outputs, names and folders


def shell(line, **more):
    """Run a line of bash in which $A is the command."""
    environment = {**os.environ, "A": f"{sys.executable} -m assocmem", **more}
    return subprocess.run(["bash", "-c", line], capture_output=True, timeout=120, check=False, env=environment)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="the system has no full device")
@pytest.mark.parametrize(
    "words", ["list", "show relu --json", "cite softmax", "design --memories 9", "--help", "--version"]
)
def test_an_output_that_cannot_be_written_is_one_sentence(words):
    done = shell(f"$A {words} >/dev/full")
    assert (done.returncode, done.stderr.count(b"\n")) == (2, 1)
    assert done.stderr.startswith(b"assocmem: the output cannot be written: ")
    assert shell(f"$A {words} >/dev/full 2>&1").returncode == 2


@pytest.mark.parametrize("words", ["cite dpfp", "show relu --json", "design --memories 9 --json"])
def test_what_other_programs_read_is_right_under_any_encoding(words):
    said = {code: shell(f"$A {words}", PYTHONIOENCODING=code).stdout for code in ("utf-8", "ascii", "cp1252", "utf-16")}
    texts = {code: data.decode(code) for code, data in said.items()}
    if "--json" in words:
        assert len({json.dumps(json.loads(text)) for text in texts.values()}) == 1
    else:
        assert len(set(texts.values())) == 1
        assert 'J{\\"{u}}rgen' in texts["ascii"]


def test_letters_with_accents_are_cited_in_tex():
    source = Source("Café ∞", "Mańke, Wojciech and Øye, Ł. and Ç, Ř.", 2020)
    assert "Caf{\\'{e}} {\\symbol{\"221E}}" in source.bibtex()
    assert "Ma{\\'{n}}ke, Wojciech and {\\O}ye, {\\L}. and {\\c{C}}, {\\v{R}}." in source.bibtex()
    assert source.cite_key == "manke2020cafe"


@pytest.mark.parametrize("columns", [40, 50, 80, 120])
@pytest.mark.parametrize(
    "words", ["list", "show delta-net", "design --memories 1e6 --ratio 0.1", "capacity relu --d-k 8"]
)
def test_tables_stay_readable_on_narrow_screens(ask, monkeypatch, columns, words):
    monkeypatch.setenv("COLUMNS", "1000")
    wide = set(ask(*words.split()).out.split())
    monkeypatch.setenv("COLUMNS", str(columns))
    said = ask(*words.split()).out
    assert wide - {"─" * n for n in range(1000)} <= set(said.split()), "a name or a number was broken or lost"
    prose = words.startswith(("design", "list"))  # sentences, which the terminal wraps
    assert prose or all(len(line) <= columns for line in said.splitlines())


def test_a_file_name_that_is_no_text_is_escaped_in_what_is_written(tmp_path):
    folder = os.fsencode(tmp_path)
    np.save(tmp_path / "keys.npy", np.random.default_rng(0).standard_normal((40, 8)))
    os.rename(folder + b"/keys.npy", folder + b"/ke\xffys.npy")
    command = [sys.executable, "-m", "assocmem", "measure", "--store", "outer-product", "--keys", b"ke\xffys.npy"]
    done = subprocess.run([*command, "--out", "found"], cwd=tmp_path, capture_output=True, timeout=120, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
    for name in ("measured.csv", "measured.ndjson"):
        assert Results.load(tmp_path / "found" / name).header["config"]["keys"] == "ke\\udcffys.npy"
    missing = subprocess.run([*command[:-1], b"\xff.npy"], cwd=tmp_path, capture_output=True, timeout=60, check=False)
    assert (missing.returncode, missing.stderr.count(b"\n")) == (2, 1)


def test_a_name_that_is_too_long_is_one_sentence(ask, tmp_path):
    for words in (("reproduce", "--quick", "--out", "a" * 300), ("measure", "--keys", "a" * 300 + ".npy")):
        said = ask(*words)
        assert (said.status, said.out) == (2, "")
        assert "File name too long" in said.err
    with pytest.raises(FileFormatError, match="File name too long"):
        Memory.load("a" * 300)
    memory = Memory("softmax", d_k=2, d_v=2)
    assert memory.save(tmp_path / ("a" * 243 + ".safetensors")).is_file()  # 255 characters, as long as names may be


@pytest.mark.parametrize("path", [None, 3, b"x"])
def test_a_path_that_is_none_is_refused_in_words(path):
    with pytest.raises(InputError, match=r"`path` of Memory\.load must be a text or a path"):
        Memory.load(path)


def test_what_a_kill_left_is_swept_by_the_next_run_there_and_nothing_else(tmp_path):
    old, new, folder = (tmp_path / f".assocmem-{digit * 16}" for digit in "abc")
    others = [tmp_path / name for name in (".assocmem-xyz", ".assocmem", "assocmem-" + "a" * 16, ".other." + "a" * 16)]
    folder.mkdir()
    for path in (old, new, folder / "data.json", *others):
        path.write_bytes(b"left")
    for path in (old, folder, *others):
        os.utime(path, (1, 1))
    files.write_whole(tmp_path / "result", b"whole")
    assert {path.name for path in tmp_path.iterdir()} == {"result", new.name, *(path.name for path in others)}


def test_two_runs_do_not_mix_in_one_folder(ask, tmp_path):
    holder = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    claim = tmp_path / f"{files.CLAIM}{holder.pid}"
    claim.touch()
    words = ("reproduce", "--quick", "--only", "opening", "--out", tmp_path)
    said = ask(*words)
    assert (said.status, said.out) == (2, "")
    assert f"another run of assocmem, process {holder.pid}, is writing to" in said.err
    assert list(tmp_path.iterdir()) == [claim]
    os.utime(claim, (1, 1))  # from before that process began: its number belonged to another
    assert ask(*words).status == 0
    claim.touch()
    holder.communicate(b"\n")
    assert ask(*words).status == 0  # it has ended
    assert not list(tmp_path.glob(f"{files.CLAIM}*"))
