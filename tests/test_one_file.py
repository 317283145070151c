"""One file is enough: an experiment is found everywhere without another line being edited."""

from __future__ import annotations

import importlib
import sys

import pytest

from assocmem.contract.results import Results
from assocmem.experiments.catalogue import chosen, experiments

EXPERIMENT = '''
"""How many pebbles lie on the beach."""

from assocmem.experiments.experiment import Experiment, Outcome, Run, over_memories
from assocmem.experiments.shown import Shown

STORES = (Shown("outer-product", "a heap"),)


def _answer(run: Run) -> Outcome:
    rows = [{"label": "a heap", "n_memories": m, "value": m**0.5, "sampler": "keys"} for m in (1, 4, 16)]
    return Outcome(rows, over_memories(STORES), "Many.", {"beach": 1}, {"value": "pebbles"})


EXPERIMENT = Experiment("pebbles", 4, "Pebbles", "How many pebbles are there?", _answer)
'''


@pytest.fixture
def another(tmp_path, monkeypatch):
    """Return a function that puts a module into a package of the library for the time of the test."""

    def put(package, name, text):
        folder = tmp_path / package
        folder.mkdir(exist_ok=True)
        (folder / f"{name}.py").write_text(text, encoding="utf-8")
        module = importlib.import_module(package)
        monkeypatch.setattr(module, "__path__", [*module.__path__, str(folder)])
        monkeypatch.delitem(sys.modules, f"{package}.{name}", raising=False)

    yield put
    for name in [name for name, module in sys.modules.items() if str(tmp_path) in str(getattr(module, "__file__", ""))]:
        del sys.modules[name]


def test_an_experiment_in_a_file_of_its_own_is_in_the_catalogue_and_in_the_report(another, ask, tmp_path):
    before = [one.name for one in experiments()]
    another("assocmem.experiments", "pebbles", EXPERIMENT)
    names = [one.name for one in experiments()]
    assert [name for name in names if name != "pebbles"] == before
    assert names[names.index("pebbles") - 1] == "activations"  # its place, then its name
    assert chosen(["pebbles"])[0].question == "How many pebbles are there?"
    said = ask("reproduce", "--quick", "--only", "pebbles", "--out", tmp_path / "run")
    assert said.status == 0, said.err
    assert Results.read(tmp_path / "run" / "pebbles.ndjson").header["definitions"]["value"] == "pebbles"
    page = (tmp_path / "run" / "index.html").read_text(encoding="utf-8")
    assert 'data-chart="pebbles"' in page
    assert "How many pebbles are there?" in page
    assert (tmp_path / "run" / "pebbles.png").stat().st_size > 5000


def test_without_its_file_there_is_no_such_experiment():
    assert "pebbles" not in [one.name for one in experiments()]
