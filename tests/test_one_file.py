"""One file is enough: an experiment and a section of the page are found everywhere, no other line being edited."""

from __future__ import annotations

import importlib
import json
import sys

import pytest

from assocmem.contract.errors import InputError
from assocmem.contract.results import Results
from assocmem.experiments.catalogue import chosen, experiments
from assocmem.page import data, server
from assocmem.page.declare import SITE
from browsing import Tab, browser, live_page

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
    assert Results.load(tmp_path / "run" / "pebbles.ndjson").header["definitions"]["value"] == "pebbles"
    page = (tmp_path / "run" / "index.html").read_text(encoding="utf-8")
    assert 'data-chart="pebbles"' in page
    assert "How many pebbles are there?" in page
    assert (tmp_path / "run" / "pebbles.png").stat().st_size > 5000


def test_without_its_file_there_is_no_such_experiment():
    assert "pebbles" not in [one.name for one in experiments()]


SECTION = '''
"""Tides: a section of the page that is a chart with controls."""

from assocmem.page.declare import SITE, Control, Endpoint, Option, Part, Section

SHORE = Control("shore", [Option("north", "North", 10, {"windy": True}), Option("south", "South", 2, {"windy": False})],
                "north", "Shore")
HEIGHT = Control("height", (1, 2, 3), 2, "Height h_t", "{} feet", kept={SITE: (1, 2)})
WIND = Control("wind", (0.5, 1.5), 1.5, "Wind")


def tides(shore, height, wind):
    waves = [{"index": i, "end": i + 0.9, "weight": wind * height / (shore + i)} for i in range(5)]
    return {"rows": {"target": waves[:1], "bars": waves[1:]}, "text": f"{shore} {height} {wind}"}


SECTION = Section(
    9, (Endpoint("tides", tides, (Part(SHORE), Part(HEIGHT), Part(WIND, "windy", 0, "has no wind"))),), (HEIGHT, WIND),
    charts={"tides": ({"kind": "bars"}, 200)}, title="High water", text="See it rise.", link="Tides",
)
'''


@pytest.fixture
def tides(another):
    another("assocmem.page.sections", "tides", SECTION)


@pytest.mark.usefixtures("tides")
def test_a_section_in_a_file_of_its_own_has_its_routes_files_controls_and_checks():
    assert json.loads(data.document("tides/north/3/0.5"))["text"] == "10 3 0.5"
    assert json.loads(data.document("tides/south/1/0"))["text"] == "2 1 0"
    for path, words in (
        ("tides/north/4/0.5", "`height` of tides must be one of 1, 2, 3; got '4'."),
        ("tides/east/1/0.5", "`shore` of tides must be one of north, south; got 'east'."),
        ("tides/south/1/0.5", "South has no wind; its path holds 0 there."),
        ("tides/north/1/0.5/0", "a path of tides has at most 3 parts; got 'north/1/0.5/0'."),
        ("tides/north/1", "`wind` of tides must be one of 0.5, 1.5; got ''."),
    ):
        with pytest.raises(InputError) as caught:
            data.document(path)
        assert str(caught.value) == words
    mine = [path for path in data.paths(SITE) if path.startswith("tides/")]
    north = [f"tides/north/{height}/{wind}" for height in (1, 2) for wind in (0.5, 1.5)]
    assert mine == [*north, "tides/south/1/0", "tides/south/2/0"]
    offer = data.offered(SITE)
    assert [offer["controls"][name]["usual"] for name in ("shore", "height", "wind")] == ["north", 2, 1.5]
    assert offer["controls"]["height"]["values"] == [1, 2]
    assert offer["sections"]["tides"]["sliders"] == ["height", "wind"]
    assert offer["charts"]["tides"]["height"] == 200
    client = pytest.importorskip("starlette.testclient").TestClient(server.application(), base_url="http://localhost")
    assert client.get("/data/tides/north/3/0.5.json").json()["text"] == "10 3 0.5"


def test_without_its_file_the_page_has_no_such_section():
    with pytest.raises(InputError, match="the page has no data called 'tides"):
        data.document("tides/north/3/0.5")
    assert "tides" not in data.offered()["charts"]


@pytest.mark.usefixtures("tides")
def test_the_page_shows_a_section_that_is_a_file_alone():
    api = pytest.importorskip("playwright.sync_api", reason="needs playwright")
    with live_page() as where, browser() as running:
        tab = Tab(running).open(where)
        said = api.expect(tab.page.locator("#tides-text"))
        assert tab.text("#tides h2") == "High water"
        assert tab.page.locator("header nav a[href='#tides']").text_content() == "Tides"
        tab.press("#height", "End")
        said.to_have_text("10 3 1.5")
        assert tab.page.get_attribute("#height", "aria-valuetext") == "3 feet"
        assert tab.page.get_attribute("#tides-chart", "data-rows") == "target 1, bars 4"
        tab.page.click("#tides-shore button[data-value=south]")
        said.to_have_text("2 3 0")
        assert tab.page.is_disabled("#wind")
        assert tab.page.get_attribute("#wind", "title") == "South has no wind."
        assert tab.page.url.endswith("#tides&height=3&shore=south")
        tab.page.goto(where + "#shore=nowhere&height=9")
        said.to_have_text("10 2 1.5")
        tab.close()
