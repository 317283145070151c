"""The single file, opened from disk: it does what the live page does for the values it holds, and asks no one."""

from __future__ import annotations

import pytest

from assocmem.page import STATIC, export
from browsing import Tab, browser
from test_page_browser import ratio_of

api = pytest.importorskip("playwright.sync_api", reason="needs playwright")
expect = api.expect
pytestmark = pytest.mark.xdist_group("page-file")
FEW = (
    *("head", "mlp", "why", "stores", "glyphs", "pictures/outer/1", "pictures/softmax/1", "hand/outer-product/0"),
    *("hand/softmax/0", "bars/outer/64/1/0", "bars/optimal/64/1/0", "bars/outer/32/1/0", "bars/softmax/64/1/0/8"),
    *("curves/64/8", "curves/32/8", "optimal/64", "optimal/32", "contexts/64/8/1024", "calculator/64/1"),
    *("streams/delta-net/1/1", "streams/mamba-2/1/1", "short", "picking/outer/128"),
)


@pytest.fixture(scope="module")
def tab(tmp_path_factory):
    file = export.export_file(tmp_path_factory.mktemp("page") / "page.html", chosen=FEW, workers=1)
    with browser() as running:
        tab = Tab(running).open(file.as_uri())
        yield tab
        tab.close()


def test_bars_and_curves_work_from_disk(tab):
    tab.shows("#ratio", ratio_of("outer", 32))
    tab.press("#m", "End")
    tab.shows("#ratio", ratio_of("outer", 1024))
    tab.page.click("#bars-stores button[data-value=optimal]")
    tab.shows("#ratio", ratio_of("optimal", 1024))
    tab.page.click("#bars-stores button[data-value=softmax]")
    tab.shows("#ratio", ratio_of("softmax", 1024))
    tab.page.click("#bars-stores button[data-value=outer]")
    tab.press("#width", "Home")
    assert tab.text("#width-out") == "32"
    tab.shows("#ratio", ratio_of("outer", 1024, d_k=32))
    expect(tab.page.locator("#curves-text")).to_contain_text("= 32")
    tab.press("#width", "End")
    expect(tab.page.locator("#curves-chart g.mark-line path")).to_have_count(10)
    expect(tab.page.locator("#stores-table tbody th[scope=row]").first).to_be_visible()


def test_what_this_file_lacks_is_said_once_and_no_control_is_dead(tab):
    assert tab.page.get_attribute("#width", "max") == "1"
    assert tab.page.get_attribute("#picked", "max") == "15"
    assert tab.page.locator("#draw").is_hidden()
    assert "16 and 128" in tab.text("#copy-note")
    assert "100 draws" in tab.text("#copy-note")
    assert tab.page.locator("body").inner_text().count("assocmem explore") == 1
    assert tab.page.locator("button:visible:disabled").all_text_contents() == ["Back"]


def test_code_runs_and_is_ended_from_disk(tab):
    tab.page.fill("#code", "print(sum(range(10)))")
    tab.page.click("#code-run")
    expect(tab.page.locator("#code-output")).to_have_text("45")
    tab.page.click("#hand-stores button[data-value=softmax]")
    expect(tab.page.locator("#code")).to_have_value(teaching_code("softmax"))
    tab.page.click("#hand-stores button[data-value=outer-product]")


def teaching_code(name):
    return (STATIC / "teach" / f"{name}.py").read_text(encoding="utf-8")


def test_what_is_not_inside_is_a_sentence(tab):
    tab.page.click("#bars-stores button[data-value=cubed]")
    expect(tab.page.locator("#bars-text")).to_contain_text("This file does not hold bars/cubed/64")
    tab.page.click("#bars-stores button[data-value=outer]")
    expect(tab.page.locator("#bars-text")).to_contain_text("outer product")


def test_the_state_of_the_controls_is_in_the_address(tab):
    tab.press("#m", "Home")
    assert tab.page.url.endswith("#bars&m=2")
    tab.page.go_back()
    expect(tab.page.locator("#m-out")).not_to_have_text("2")
