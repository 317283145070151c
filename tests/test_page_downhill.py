"""The page's spoilt letter and its table of slots: numbers beside the stores themselves, and both in a browser."""

from __future__ import annotations

import json

import numpy as np
import pytest

from assocmem import make_store
from assocmem.experiments.shown import NETWORKS, TABLES
from assocmem.page import data
from assocmem.page.sections import cleaning
from browsing import Tab, browser, live_page


def loaded(path):
    return json.loads(data.document(path))


def drawn(found, at):
    """Return the picture at a place, decoded from what is drawn: (16, 16) of ink or not."""
    ink = np.zeros((16, 16), dtype=bool)
    for run in found["rows"]["ink"]:
        left = run["x"] - (at + 1) * 18
        if 0 <= left < 16 and run["kind"] != "missing":
            ink[int(run["y"]), int(left) : int(run["x2"] - (at + 1) * 18)] = True
    return ink


@pytest.mark.parametrize("network", [one.id for one in NETWORKS])
@pytest.mark.parametrize("load", [2, 32])
def test_energies_fall_and_the_end_is_where_the_store_ends(network, load):
    found = loaded(f"cleaning/{network}/{load}/20")
    fell = np.array(found["fell"])
    assert np.all(np.diff(fell) <= 1e-4 * np.abs(fell).max())
    assert fell[-1] < fell[0]
    (shown,) = [one for one in NETWORKS if one.id == network]
    length = 16.0 if network == "modern" else 1.0
    stored, store = cleaning.pictures()[:load] / length, shown.store
    state = store.write(store.empty(256, 256), stored, stored)
    end = np.sign(store.recall(state, cleaning.asked(20)[None] / length)[0])
    places = [row["x"] / 18 - 1 for row in found["rows"]["words"]]
    np.testing.assert_array_equal(drawn(found, places[0]), cleaning.pictures()[0].reshape(16, 16) > 0)
    np.testing.assert_array_equal(drawn(found, places[1]), cleaning.asked(20).reshape(16, 16) > 0)
    if found["right"]:
        np.testing.assert_array_equal(end, cleaning.pictures()[0])
        np.testing.assert_array_equal(drawn(found, places[-1]), drawn(found, places[0]))
    else:
        assert not np.array_equal(drawn(found, places[-1]), drawn(found, places[0]))
        assert found["wrong"] > 0 or "another stored picture" in found["said"]


def test_a_walk_uphill_would_be_seen():
    """The broken twin: with its weights turned round a network climbs."""
    store, start = make_store("hopfield", readout="signs"), cleaning.asked(20)
    stored = cleaning.pictures()[:2]
    state = store.write(store.empty(256, 256), stored, stored)
    turned = state.after({"W": -state["W"], "U": state["U"]}, 2)
    walk = list(cleaning._steps(store, turned, start))
    energies = cleaning._energies(store, state, np.stack([start, walk[0]]))
    assert energies[1] > energies[0]


def test_what_wins_is_said():
    assert "the letter comes back, pixel by pixel" in loaded("cleaning/hebb/2/30")["said"]
    assert "none of the stored pictures" in loaded("cleaning/hebb/32/30")["said"]
    assert "another stored picture has won, pixel by pixel" in loaded("cleaning/exponential/512/40")["said"]


def test_slots_fill_and_are_shared_as_even_addressing_says_or_sooner():
    for table in [one.id for one in TABLES]:
        rows = loaded(f"sparse/{table}/4")["rows"]
        line = {(r["label"], r["n_memories"]): r["theory"] for r in rows["theory"]}
        for r in rows["measured"]:
            expected = line.get((r["label"], r["n_memories"]))
            if r["label"] == "slots in use":
                assert r["value"] <= expected + 0.02
            elif expected is not None:
                assert r["value"] >= expected - 0.03
    few, many = (
        {r["n_memories"]: r["value"] for r in loaded(f"sparse/product-key/{k}")["rows"]["measured"]
         if r["label"] == "slots shared"} for k in (1, 16)
    )  # fmt: skip
    assert all(few[m] <= many[m] for m in few)
    assert few[4] < 0.5 < many[64]


def test_both_sections_answer_in_a_browser():
    with browser() as running, live_page() as where:
        tab = Tab(running).open(where)
        for width in (1280, 390):
            tab.page.set_viewport_size({"width": width, "height": 800})
            tab.page.click("#cleaning-network button[data-value=exponential]")
            tab.page.locator("#cleaning-text:has-text('exponential: the letter comes back')").wait_for()
            tab.page.click("#cleaning-network button[data-value=hebb]")
            tab.page.locator("#cleaning-text:has-text('nearest is another stored picture')").wait_for()
            tab.press("#read", "End")
            tab.page.locator("#sparse-text:has-text('16 of 256 slots')").wait_for()
            tab.press("#read", "Home")
            tab.page.locator("#sparse-text:has-text('1 of 256 slots')").wait_for()
            assert tab.page.evaluate("document.documentElement.scrollWidth") <= width
        rows = tab.page.get_attribute("#cleaning-chart", "data-rows")
        assert "ink 0" not in rows
        assert tab.problems == []
        tab.close()
