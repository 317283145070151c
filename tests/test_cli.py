"""Every command from its words to its answer: numbers, tables, JSON, exit status."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import numpy as np
import pytest

import assocmem
from assocmem import make_store, stores
from commandline import strict_json

OWN = '''
from dataclasses import dataclass
from assocmem import Source, Store, Traits

@dataclass(frozen=True)
class Sum(Store):
    """Adds every pair to one matrix, fading by `keep` at every pair."""
    keep: float = 1.0
    source = Source(title="Adding up", authors="Doe, Jane", year=2020)
    traits = Traits(linear_in_values="shared", permutation_invariant=True, overwrite="adds", constant_size=True)

    def init(self, state):
        return {"W": state.zeros(state.d_v, state.d_k)}

    def put(self, state, keys, values):
        return {"W": self.keep * state["W"] + values.mT @ keys}

    def get(self, state, queries, ask):
        return queries @ state["W"].mT

@dataclass(frozen=True)
class Forgetful(Sum):
    """Says that it keeps everything, and loses half of it at every call."""
    keep: float = 0.5

def mean(keys, values, queries):
    return values.mean(axis=0) + 0 * queries[:, :1]
'''


@pytest.fixture
def own_stores(tmp_path, monkeypatch):
    """Put a module with a right and a wrong store into the current directory; return the module's name."""
    name = f"own_{tmp_path.name}".replace("-", "_")
    (tmp_path / f"{name}.py").write_text(OWN)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield name
    sys.modules.pop(name, None)


@pytest.fixture
def keys_file(tmp_path):
    """Write 300 keys of width 16 that share a mean; return the path."""
    rng = np.random.default_rng(0)
    np.save(tmp_path / "keys.npy", rng.standard_normal((300, 16)) + 1.5)
    return tmp_path / "keys.npy"


def python(*words, **settings):
    """Run `python -m assocmem` in a process of its own."""
    command = [sys.executable, "-m", "assocmem", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, **settings)


@pytest.mark.parametrize(
    ("words", "exact"),
    [
        (["softmax"], 1.2723e6),
        (["squared-relu"], 2817.0),
        (["cubed-relu"], 38299.0),
        (["swiglu"], 2957.5),
        (["exp-series", "--terms", "4"], 3144.5),
        (["outer-product"], 65.0),
        (["relu"], 129.0),
    ],
)
def test_capacity_gives_the_exact_number_and_measures_it_within_two_per_cent(ask, words, exact):
    # The measured capacity scatters by 0.1 to 0.4 % about the exact one, so 2 % is at least five standard errors:
    # error rate below 1e-5 a store. Twice the interval is about four: below 1e-4.
    found = ask("capacity", *words, "--d-k", 64, "--json")
    assert (found.status, found.err) == (0, "")
    row = found.json
    assert row["theory"] == pytest.approx(exact, rel=2e-4)
    assert row["value"] == pytest.approx(exact, rel=0.02)
    assert row["low"] < row["value"] < row["high"]
    half = (row["high"] - row["low"]) / 2
    assert abs(row["value"] - row["theory"]) < 2 * half < 0.05 * exact
    assert (row["d_k"], row["seed"], row["statistic"]) == (64, 0, "rms")
    for name in ("value", "low", "high", "theory", "difference", "threshold", "cosine", "n_trials"):
        assert row["definitions"][name]


def test_capacity_answers_people_in_words(ask):
    said = ask("capacity", "softmax", "--d-k", 16, "--beta", 4, "--seed", 3)
    assert said.status == 0
    text = " ".join(said.out.split())
    assert "softmax, beta = 4" in text
    assert "rms ratio of 1, d_k = 16, query cosine 1" in text
    assert "similarities" in text
    assert "seed 3" in text
    assert re.search(r"capacity, measured [\d,.]+ \([\d,.]+ to [\d,.]+\)", text)


def test_noisy_queries_other_ratios_and_other_samplers(ask):
    clean = ask("capacity", "squared-relu", "--d-k", 16, "--json").json
    noisy = ask("capacity", "squared-relu", "--d-k", 16, "--query-cosine", 0.6, "--json").json
    loose = ask("capacity", "squared-relu", "--d-k", 16, "--ratio", 2, "--json").json
    by_keys = ask("capacity", "squared-relu", "--d-k", 16, "--sampler", "keys", "--json").json
    assert noisy["theory"] < clean["theory"] / 5
    assert loose["theory"] == pytest.approx(4 * (clean["theory"] - 1) + 1)
    assert (loose["threshold"], noisy["cosine"], by_keys["sampler"]) == (2.0, 0.6, "keys")
    for row in (clean, noisy, loose, by_keys):
        assert row["value"] == pytest.approx(row["theory"], rel=0.15)


def test_a_capacity_that_is_not_reached_is_a_sentence_and_null(ask):
    words = ("capacity", "softmax", "--d-k", 64, "--max-memories", 256)
    row = ask(*words, "--json").json
    assert (row["value"], row["low"], row["largest_m"]) == (None, None, 256)
    assert "not reached below M = 256" in row["reason"]
    assert 0 < row["ratio_there"] < 1
    assert "not reached below M = 256" in " ".join(ask(*words).out.split())


def test_capacities_of_thousands_of_millions_are_measured_and_say_what_they_cost(ask):
    words = ("capacity", "softmax", "--beta", 14, "--d-k", 64, "--max-memories", "1e10")
    row = ask(*words, "--json").json
    assert row["low"] < row["theory"] < row["high"]
    assert 5.0e9 < row["value"] < 5.1e9
    said = " ".join(ask(*words).out.split())
    assert "similarities drawn for one M; memory does not grow with M" in said
    for wrong in ("1.5", "1", "many", "1e99", "nan"):
        assert "whole number from 2 to 1e15" in " ".join(
            ask("capacity", "softmax", "--max-memories", wrong).err.split()
        )


@pytest.mark.parametrize(
    ("words", "settings"),
    [
        (["softmax", "--beta", "1e1"], {"beta": 10.0}),
        (["softmax", "--sharpness", "yarn", "--reference", "1e3"], {"sharpness": "yarn", "reference": 1000.0}),
        (["optimal-linear", "--set", "ridge=1e-3"], {"ridge": 0.001}),
        (["relu-power", "--power", "1.5e0"], {"power": 1.5}),
        (["exp-series", "--terms", "3", "--beta", "2e0"], {"terms": 3, "beta": 2.0}),
    ],
)
def test_settings_reach_the_store(ask, words, settings):
    row = ask("capacity", *words, "--d-k", 8, "--max-memories", 64, "--json").json
    assert row["settings"] == settings


def test_list_tells_numbers_cost_and_source(ask, monkeypatch):
    monkeypatch.setenv("COLUMNS", "250")
    said = ask("list").out
    for key, numbers, cost, source in (
        ("outer-product", "4,096", "4,096", "Kohonen 1972"), ("softmax", "128 a pair", "131,072", "Vaswani 2017"),
        ("product-key", "73,728", "10,496", "Lample 2019"),
    ):  # fmt: skip
        assert re.search(rf"^ {key} .* {numbers} +{cost} +{source}$", said, re.M), key
        assert make_store(key).empty(64, 64).size in (0, int(numbers.replace(",", "").split()[0]))


def test_list_names_every_store_once(ask):
    said = ask("list")
    listed = ask("list", "--json").json
    assert [row["key"] for row in listed["stores"]] == list(stores.names())
    for row in listed["stores"]:
        assert re.search(rf"^ {re.escape(row['key'])} ", said.out, re.M), row["key"]
        assert row["summary"]
        assert row["equation"]
        assert set(row) - {"key", "summary", "family", "class", "equation", "extras", "keys", "source"} <= set(
            listed["definitions"]
        )


@pytest.mark.parametrize("key", stores.names())
def test_every_store_shows_its_card_and_cites_a_valid_entry(ask, key):
    card = ask("show", key)
    assert card.status == 0
    for word in ("equation", "linear in values", "state at d_k = d_v = 64", "capacity at d_k = 64", "source"):
        assert re.search(rf"^{re.escape(word)}\s+\S", card.out, re.M), word
    data = ask("show", key, "--json").json
    assert data["capacity_d_k_64"]["value"] or data["capacity_d_k_64"]["reason"]
    assert_bibtex(ask("cite", key).out)


def assert_bibtex(text):
    """Fail unless the text is one BibTeX entry: type, key, fields in balanced braces, separated by commas."""
    entry = re.fullmatch(r"@(article|inproceedings|misc|book)\{([a-z0-9:_-]+),\n(.*)\n\}\n", text, re.S)
    assert entry, text
    fields = {}
    for line in entry[3].split("\n"):
        name, value = re.fullmatch(r"  ([a-z]+)\s+= \{(.*)\},?", line).groups()
        depth = 0
        for letter in value:
            depth += {"{": 1, "}": -1}.get(letter, 0)
            assert depth >= 0, line
        assert depth == 0, line
        assert name not in fields
        fields[name] = value
    assert {"title", "author", "year"} <= set(fields)
    assert re.fullmatch(r"\d{4}", fields["year"])
    assert all("&" not in v.replace(r"\&", "") and "%" not in v.replace(r"\%", "") for v in fields.values()), fields
    assert text.count(",\n") == len(fields)


def test_the_capacities_on_the_cards_are_those_of_theory(ask):
    known = {"outer-product": 65, "relu": 129, "squared-relu": 2817, "swiglu": 2957.5, "softmax": 1272264.4}
    for key, value in known.items():
        assert ask("show", key, "--json").json["capacity_d_k_64"]["value"] == pytest.approx(value, rel=1e-4)


def test_check_passes_a_right_store_and_rejects_a_wrong_one_in_words(ask, own_stores):
    assert ask("check", "outer-product").status == 0
    right = ask("check", f"{own_stores}:Sum", "--json")
    assert right.status == 0
    assert right.json["failures"] == []
    assert len(right.json["passed"]) > 20
    wrong = ask("check", f"{own_stores}:Forgetful")
    assert wrong.status == 1
    assert re.search(r"write\(\d+\) then write\(\d+\)|split", wrong.out), wrong.out
    failures = ask("check", f"{own_stores}:Forgetful", "--json").json["failures"]
    assert failures
    assert all(len(f["message"].split()) > 5 for f in failures)


def test_a_store_of_ones_own_goes_through_every_command(ask, own_stores, keys_file):
    row = ask("capacity", f"{own_stores}:Sum", "--d-k", 16, "--json").json
    assert row["sampler"] == "keys"
    assert row["value"] == pytest.approx(17, rel=0.1)  # an outer product by another name
    assert row["theory"] is None
    assert row["theory_reason"]
    card = ask("show", f"{own_stores}:Sum")
    assert "Adds every pair" in card.out
    assert_bibtex(ask("cite", f"{own_stores}:Sum").out)
    measured = ask("measure", "--keys", keys_file, "--store", f"{own_stores}:Sum", "--json").json
    assert measured["capacities"][0]["label"] == f"{own_stores}:Sum"
    faded = ask("capacity", f"{own_stores}:Sum", "--d-k", 8, "--set", "keep=0.9", "--max-memories", 32, "--json").json
    assert faded["settings"] == {"keep": 0.9}
    function = ask("capacity", f"{own_stores}:mean", "--d-k", 8, "--max-memories", 16, "--json")
    assert function.status == 0


def test_design_says_what_serves(ask):
    data = ask("design", "--memories", "1e6", "--ratio", 0.1, "--d-k", 64, "--json").json
    assert data["feasible"] is True
    assert 8 < data["sharpness"] < 20
    assert data["logit_scale"] == pytest.approx(data["sharpness"] / 64)
    assert data["reached"] == pytest.approx(0.1, rel=1e-6)
    rows = {row["store"]: row for row in data["stores"]}
    assert rows["outer-product"]["feasible"] is False
    assert rows["outer-product"]["numbers_held"] == 64 * 64
    assert rows["squared-relu"]["numbers_held"] == 128e6
    assert set(rows) == set(stores.names())
    for name in ("sharpness", "best_sharpness", "largest", "numbers_held", "cost"):
        assert data["definitions"][name]
    text = " ".join(ask("design", "--memories", "1e6", "--ratio", 0.1).out.split())
    assert text.startswith("With keys uniform on the sphere M = 1,000,000 memories at a ratio of 0.1 need a sharpness")
    hopeless = ask("design", "--memories", "1e6", "--ratio", 0.1, "--query-cosine", 0.3)
    assert hopeless.status == 0
    assert "no sharpness serves" in hopeless.out
    assert "none is enough" in hopeless.out


def test_help_version_and_no_arguments():
    from assocmem._version import __version__

    assert python("--version").stdout == f"assocmem {__version__}\n"
    assert assocmem.__version__ == __version__
    helped = python("--help")
    assert helped.returncode == 0
    for command in ("capacity", "measure", "design", "reproduce", "list", "show", "cite", "check", "explore"):
        assert command in helped.stdout


def test_no_colours_when_piped_and_nothing_on_stderr():
    listed = python("list", env={**os.environ, "TERM": "xterm-256color"})
    assert (listed.returncode, listed.stderr) == (0, "")
    assert "\x1b" not in listed.stdout
    measured = python("capacity", "relu", "--d-k", "8")
    assert (measured.returncode, measured.stderr) == (0, "")
    assert "\x1b" not in measured.stdout


def test_a_reader_that_has_enough_ends_the_command_quietly():
    line = f"{sys.executable} -m assocmem list | head -n 2; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    closed = f"{sys.executable} -m assocmem list --json | true; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", closed], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(("closing", "status"), [("list >&-", 0), ("list >&- 2>&-", 0), ("nonsense 2>&-", 2)])
def test_a_closed_output_is_nowhere_and_no_fault(closing, status):
    done = subprocess.run(
        ["bash", "-c", f"{sys.executable} -m assocmem {closing}"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (status, "", "")


def test_dpfp_is_cited_by_its_own_paper():
    assert "2102.11174" in python("cite", "dpfp").stdout
    assert "2006.16236" in python("cite", "linear-attention").stdout
    assert "width is 128 at d_k = 64" in " ".join(python("show", "dpfp").stdout.split())


def test_capacity_says_with_which_settings_and_who_was_asked():
    fading = python("capacity", "mamba-2", "--d-k", "8", "--max-memories", "16").stdout
    assert "decay = 0.99" in fading
    assert "pairs at random among all M, old and new alike" in fading
    softmax = python("capacity", "softmax", "--d-k", "16", "--max-memories", "16").stdout
    assert "sharpness = Constant, count = 'visible', beta = 4" in softmax
    assert "old and new" not in softmax
    used = strict_json(python("capacity", "exp-series", "--d-k", "8", "--json").stdout)["settings_used"]
    assert used == {"terms": 4, "beta": None}


def test_check_takes_settings():
    assert "GatedDeltaNet keeps the contract" in python("check", "gated-delta-net", "--set", "decay=0.5").stdout
    wrong = python("check", "gated-delta-net", "--set", "decay=2")
    assert (wrong.returncode, wrong.stdout) == (2, "")
    assert "`decay` of GatedDeltaNet must be a number in [0, 1]; got 2." in wrong.stderr
