"""Every section of the live page, driven in headless Chromium by mouse and keyboard.

One file, because all of it shares one browser and one server. The `tab` fixture fails a test on
any console error or warning, page error, failed request or request elsewhere.
"""

from __future__ import annotations

import contextlib
import io
import re
from functools import partial

import numpy as np
import pytest

from assocmem import stores, theory
from assocmem.contract.state import Pairs
from assocmem.experiments.shown import CHOICES, HAND, READING
from assocmem.maps.activations import YaRN
from assocmem.page import STATIC
from assocmem.page.sections import bars, contexts, curves, hand, hero, model, picking, short, streams
from assocmem.page.words import GLOSSARY
from assocmem.ruler import by_weights, recall_weights
from browsing import Tab, browser, live_page, parsed

api = pytest.importorskip("playwright.sync_api", reason="needs playwright")
expect = api.expect
pytestmark = pytest.mark.xdist_group("page-browser")
BY_ID = {choice.id: choice for choice in CHOICES}


@pytest.fixture(scope="module")
def chrome():
    with browser() as running:
        yield running


@pytest.fixture(scope="module")
def address():
    with live_page() as where:
        yield where


@pytest.fixture(scope="module")
def shared(chrome, address):
    tab = Tab(chrome).open(address)
    yield tab
    tab.close()


@pytest.fixture
def tab(shared, address):
    shared.page.goto(address + "#")
    shared.settle()
    yield shared
    noted, shared.problems = shared.problems, []
    assert noted == []


def ratio_of(name, m, *, d_k=64, beta=8.0, cosine=1.0, draw=0):
    """Measure one recall of the page's keys with the library alone."""
    keys = bars.page_keys(d_k, draw)[:m]
    query = bars.page_query(keys, cosine, draw)
    weights = recall_weights(BY_ID[name].at(beta), Pairs(keys, np.zeros((m, 1))), query)
    return by_weights(weights, np.array([0]))[0]


def close(shown, value):
    assert shown == pytest.approx(value, rel=6e-3)


PIXELS = """(id) => {
  const context = new OffscreenCanvas(16, 16).getContext('2d', { willReadFrequently: true });
  context.drawImage(document.getElementById(id), 0, 0);
  return [...context.getImageData(0, 0, 16, 16).data];
}"""


def ink(tab, canvas):
    return np.array(tab.page.evaluate(PIXELS, canvas)).reshape(16, 16, 4)[..., 0]


def test_the_opening_picture_drowns_and_clears(tab):
    stored = ink(tab, "hero-true")
    assert np.array_equal(stored < 128, hero.wall().images[0] > 0.5)
    tab.press("#count", "End")
    assert tab.text("#hero-count") == "1,024"
    expect(tab.page.locator("#hero-readout")).to_contain_text("drowned")
    assert np.abs(ink(tab, "hero-recalled") - stored).mean() > 50
    tab.page.select_option("#hero-beside", "softmax")
    expect(tab.page.locator("#hero-readout")).to_contain_text("Beside it: The picture comes back.")
    assert np.abs(ink(tab, "hero-second") - stored).mean() < 12
    assert np.abs(ink(tab, "hero-recalled") - stored).mean() > 50
    tab.page.click("#hero-stores button[data-value=softmax]")
    expect(tab.page.locator("#hero-about")).to_contain_text(BY_ID["softmax"].about)
    expect(tab.page.locator("#hero-readout")).to_contain_text("The picture comes back. With the softmax")
    tab.page.click("#hero-letters button[data-value='&']")  # it asks, and stores nothing else
    expect(tab.page.locator("#hero-recalled")).to_have_attribute("data-picked", "3")
    assert not np.array_equal(ink(tab, "hero-true"), stored)
    assert np.abs(ink(tab, "hero-recalled") - ink(tab, "hero-true")).mean() < 12
    tab.press("#count", "Home")
    expect(tab.page.locator("#hero-readout")).to_contain_text("Picture 3 is not stored yet")


def test_any_picture_of_the_wall_can_be_asked_for_and_ones_own_stored(tab):
    cell = tab.page.locator("#hero-sheet").bounding_box()["width"] / 64
    tab.page.click("#hero-sheet", position={"x": 10.5 * cell, "y": 8 + 0.5 * cell})
    expect(tab.page.locator("#hero-recalled")).to_have_attribute("data-picked", "11")
    picture = hero.wall().images[10]
    assert np.array_equal(ink(tab, "hero-true") < 128, picture > 0.5)
    frame = np.tensordot(np.array(hero.pictures(BY_ID["outer"], 11)["row"][:64]), hero.wall().values[:64], 1)
    wanted = np.clip(hero.wall().picture(frame), 0, 1)
    low, high = ink(tab, "hero-true").min(), ink(tab, "hero-true").max()
    assert np.abs((high - ink(tab, "hero-recalled")) / (high - low) - wanted).max() < 0.02
    tab.press("#hero-own summary", "Enter")
    tab.page.fill("#own-letter", "X")
    tab.page.click("#own-canvas", position={"x": 7, "y": 7})
    tab.page.click("#own-store")
    expect(tab.page.locator("#hero-recalled")).to_have_attribute("data-picked", "1")
    mine = ink(tab, "hero-true") < 128
    assert mine[0, 0]
    assert 20 < mine.sum() < 150
    assert re.search(r"own=[\w-]{43}", tab.page.url)
    tab.page.click("#hero-letters button[data-value='A']")  # A is the second now
    expect(tab.page.locator("#hero-recalled")).to_have_attribute("data-picked", "2")
    tab.page.click("#own-clear")
    expect(tab.page.locator("#hero-recalled")).to_have_attribute("data-picked", "1")
    tab.press("#hero-own summary", "Enter")


def test_the_story_plays_skips_and_answers_a_guess(tab, chrome, address):
    tab.page.click("#hero-guess button[data-value='256']")  # motion is reduced: it ends at once
    expect(tab.page.locator("#hero-count")).to_have_text("1,024")
    ratios = [ratio_of("outer", m) for m in bars.COUNTS]
    first, second = (next(m for m, x in zip(bars.COUNTS, ratios, strict=True) if x > limit) for limit in (1, 2))
    expect(tab.page.locator("#hero-answer")).to_have_text(
        f"You guessed 256. Interference is larger than the signal from {first} pictures on, "
        f"twice as large from {second} on."
    )
    seconds = sum(step.get("wait", 0) + step.get("seconds", 0) for step in hero.STORY)
    assert 12 <= seconds <= 17
    moving = Tab(chrome, reduced_motion="no-preference")
    moving.page.clock.install()
    moving.open(address)
    expect(moving.page.locator("#hero-count")).to_have_text("64")
    met = []
    for _ in range(40):  # untouched, it begins by itself
        moving.page.clock.run_for(1000)
        moving.settle()
        met.append(f"{moving.text('#hero-play')}: {moving.text('#hero-story')} {moving.text('#hero-readout')}")
        if "Play" in met[-1] and len(met) > 10:
            break
    words = [
        next(i for i, seen in enumerate(met) if said in seen)
        for said in ("Skip: One grid", "The picture has drowned", "Skip: Now the same", "Play the story: 1,024")
    ]
    assert words == sorted(words)
    assert "The picture comes back. With the softmax" in met[-1]
    moving.page.click("#hero-play")
    moving.page.clock.run_for(2000)
    moving.press("#count", "Home")  # a touch takes over
    expect(moving.page.locator("#hero-play")).to_have_text("Play the story")
    moving.close()


def test_five_sentences_carry_a_number_and_lead_to_it(tab):
    sentences = short.sentences()
    assert len(sentences) == 5
    items = tab.page.locator("#short-list li")
    for at, one in enumerate(sentences):
        expect(items.nth(at)).to_contain_text(one["button"])
        assert re.search(r"\d", one["text"])
        items.nth(at).locator("> button").click()
        name = {"contexts": "longm", "bars": "m"}[one["to"]]
        tab.settle()
        assert int(tab.text(f"#{name}-out").replace(",", "")) == one["set"][name]
        assert tab.page.evaluate("document.activeElement.id") == name
    assert f"{theory.capacity(BY_ID['softmax'].at(8).form(64), 64).value:,.0f}" in sentences[3]["text"]


def test_terms_are_explained_by_keyboard_and_closed_again(tab):
    met = tab.page.locator("button.term").evaluate_all("(all) => all.map((one) => one.textContent.toLowerCase())")
    for name in GLOSSARY:
        assert {name.lower(), f"{name.lower()}s"} & set(met), name
    term = tab.page.locator("#hero button.term").first
    term.press("Enter")
    expect(tab.page.locator("#hero .meaning").first).to_have_text(GLOSSARY["interference"])
    term.press("Escape")
    expect(tab.page.locator("#hero .meaning").first).to_be_hidden()


def test_the_memory_in_the_hand_goes_step_by_step(tab):
    for kind in HAND:
        tab.page.click(f"#hand-stores button[data-value={kind.key}]")
        tab.page.click("#hand-asked button[data-value='1']")
        steps = hand.hand(kind, 1)["steps"]
        for at, step in enumerate(steps):
            expect(tab.page.locator("#hand-step h3")).to_have_text(step["title"])
            assert tab.text("#hand-where") == f"step {at + 1} of {len(steps)}"
            shown = [parsed(x) for x in tab.page.locator("#hand-step td:not(:empty)").all_text_contents()]
            wanted = [x for table in step["tables"] for row in table["rows"] for x in row]
            assert np.allclose(shown, wanted, rtol=6e-3, atol=1e-9)
            if at < len(steps) - 1:
                tab.page.click("#hand-next")
        assert tab.page.is_disabled("#hand-next")
        for _ in steps[1:]:
            tab.press("#hand-back", "Enter")


def printed(code):
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(compile(code, "code", "exec"), {})
    return out.getvalue().strip()


@pytest.mark.parametrize(("kind", "file"), [("outer-product", "outer"), ("softmax", "softmax")])
def test_the_code_runs_as_it_stands_and_edited(tab, kind, file):
    tab.page.click(f"#hand-stores button[data-value={kind}]")
    code = (STATIC / "teach" / f"{file}.py").read_text(encoding="utf-8")
    expect(tab.page.locator("#code")).to_have_value(code)
    tab.page.click("#code-run")
    expect(tab.page.locator("#code-output")).to_have_text(printed(code))
    edited = code.replace("[9, 0, 3]", "[7, 0, 3]")
    tab.page.fill("#code", edited)
    tab.press("#code", "Control+Enter")
    expect(tab.page.locator("#code-output")).to_have_text(printed(edited))
    tab.page.click("#code-reset")
    expect(tab.page.locator("#code")).to_have_value(code)


def test_programs_that_fail_ask_print_on_or_never_end_get_a_sentence(tab):
    output = expect(tab.page.locator("#code-output"))
    for code, *said in (
        ("x = 1\nprint(undefined)", "line 2", "NameError"),
        ("input('your name? ')", "input() has no one to ask here"),
        ("while True:\n    print(1)", "Stopped after 2,000 lines"),
        ("print(round(9.1412, 2), [9.14, 1e-05], (0.1 + 0.2,), {1: 2.5}, 1e20, 3.0, 'a')",
         "9.14 [9.14, 1e-05] (0.30000000000000004,) {1: 2.5} 1e+20 3.0 a"),
    ):  # fmt: skip
        tab.page.fill("#code", code)
        tab.press("#code", "Control+Enter")
        for words in said:
            output.to_contain_text(words)
    tab.page.fill("#code", "while True:\n    pass")
    tab.page.click("#code-run")
    expect(tab.page.locator("#code-run")).to_have_text("Stop")
    tab.page.click("#code-run")
    output.to_have_text("Stopped.")
    tab.page.click("#code-run")
    tab.press("#m", "End")  # the page answers meanwhile
    assert tab.text("#m-out") == "1,024"
    output.to_contain_text("Stopped after 5 seconds", timeout=12000)
    tab.page.click("#code-reset")


@pytest.mark.parametrize("kind", ["outer-product", "softmax"])
def test_ready_made_changes_run_and_edits_survive_a_switch_and_travel_in_a_link(tab, chrome, kind):
    tab.page.click(f"#hand-stores button[data-value={kind}]")
    for label in ("Add a fourth memory", "Squared weights")[: 1 + (kind == "softmax")]:
        tab.page.locator("#code-changes button", has_text=label).click()
        expect(tab.page.locator("#code-output")).to_contain_text("stored [7, 7, 7]")
        expect(tab.page.locator("#code-run")).to_have_text("Run")
    code = tab.page.input_value("#code")
    expect(tab.page.locator("#code-output")).to_have_text(printed(code))
    other = next(one.key for one in HAND if one.key != kind)
    tab.page.click(f"#hand-stores button[data-value={other}]")
    expect(tab.page.locator("#code")).not_to_have_value(code)
    tab.page.click(f"#hand-stores button[data-value={kind}]")
    expect(tab.page.locator("#code")).to_have_value(code)
    tab.page.locator("#hand").scroll_into_view_if_needed()
    tab.page.evaluate("() => document.getElementById('hand').scrollIntoView()")
    tab.page.locator("#share").evaluate("(one) => one.click()")  # without the scrolling of a driver's click
    tab.page.wait_for_url(re.compile(r"#hand&.*code=[\w-]+"))
    if kind == "softmax":
        opened = Tab(chrome).open(tab.page.url)
        expect(opened.page.locator("#code")).to_have_value(code)
        expect(opened.page.locator("#code-output")).to_contain_text("came with the link")
        assert abs(opened.page.locator("#hand").bounding_box()["y"]) < 120
        opened.close()
    tab.page.click("#code-reset")


def test_bars_follow_mouse_and_keyboard_and_agree_with_the_library(tab):
    tab.shows("#ratio", ratio_of("outer", 32))
    tab.slide("#m", 1.0)
    assert tab.text("#m-out") == "1,024"
    tab.shows("#ratio", ratio_of("outer", 1024))
    tab.shows("#expected", theory.ratio(BY_ID["outer"].at(8).form(64), 64, 1024).value)
    assert tab.text("#verdict") == "recall fails"
    expect(tab.page.locator("#bars-about")).to_have_text(f"outer product: {BY_ID['outer'].about}")
    assert tab.page.get_attribute("#m", "aria-valuetext") == "1024 memories"
    tab.press("#m", "ArrowLeft", "ArrowLeft", "PageDown")
    m = int(tab.text("#m-out").replace(",", ""))
    assert m < 640
    tab.shows("#ratio", ratio_of("outer", m))
    expect(tab.page.locator("#bars-chart")).to_have_attribute("data-rows", f"bars {m - 1}, target 1")
    expect(tab.page.locator("#announcer")).to_contain_text(f"outer product, {m} memories")


@pytest.mark.parametrize("name", list(BY_ID))
def test_every_store_has_its_bars(tab, name):
    tab.page.click(f"#bars-stores button[data-value={name}]")
    tab.press("#m", "End", "ArrowLeft", "ArrowLeft", "ArrowLeft")
    expect(tab.page.locator("#m-out")).to_have_text("512")
    beta = expect(tab.page.locator("#beta"))  # waits until the store's bars have come
    if BY_ID[name].sharp:
        beta.to_be_enabled()
    else:
        beta.to_be_disabled()
    tab.shows("#ratio", ratio_of(name, 512))
    signal, noise = tab.number("#signal"), tab.number("#interference")
    assert noise / signal == pytest.approx(tab.number("#ratio"), rel=2e-2)
    lengths = [tab.page.locator(s).bounding_box()["width"] for s in ("#interference-length", "#signal-length")]
    assert lengths[0] / lengths[1] == pytest.approx(min(noise / signal, 500), rel=0.1, abs=0.02)


def test_noise_width_and_draw_change_the_bars(tab):
    tab.page.click("#bars-stores button[data-value=softmax]")
    tab.press("#cosine", "End")
    assert tab.text("#cosine-out") == "0.5"
    tab.shows("#ratio", ratio_of("softmax", 32, cosine=0.5))
    tab.press("#width", "Home")
    tab.shows("#ratio", ratio_of("softmax", 32, cosine=0.5, d_k=16))
    tab.page.click("#draw")
    tab.settle()
    tab.shows("#ratio", ratio_of("softmax", 32, cosine=0.5, d_k=16, draw=1))
    tab.press("#beta", "Home")
    tab.shows("#ratio", ratio_of("softmax", 32, cosine=0.5, d_k=16, draw=1, beta=0.5))


def test_presets_show_what_they_say(tab):
    said = {"fails": ("β 2 fails", "Past 64", "Two terms", "vague"), "clear": ("β 8 doesn't", "nothing leaks"),
            "noisy": ("Squaring", "32 memories")}  # fmt: skip
    for words, verdict in [(words, verdict) for verdict, every in said.items() for words in every]:
        tab.page.locator("#presets button", has_text=words).click()
        expect(tab.page.locator("#verdict")).to_have_text(re.compile(f"^recall (is )?{verdict}$"))
    expect(tab.page.locator("#limit-pictures canvas")).to_have_count(4)
    expect(tab.page.locator("#limit-pictures span").last).to_contain_text("recall fails")


def test_ten_fast_drags_end_where_the_last_one_did(tab):
    tab.page.click("#bars-stores button[data-value=optimal]")
    for share in (1, 0, 0.9, 0.1, 0.8, 0.2, 0.7, 0.3):
        tab.slide("#m", share, steps=3)
    tab.slide("#cosine", 1.0, steps=2)
    tab.slide("#cosine", 0.0, steps=2)
    tab.press("#m", "Home", *["ArrowRight"] * 17)
    expect(tab.page.locator("#m-out")).to_have_text("128")
    expect(tab.page.locator("#bars-chart")).to_have_attribute("data-rows", "bars 127, target 1")
    tab.shows("#ratio", ratio_of("optimal", 128))
    assert "m=128" in tab.page.url
    assert "cosine" not in tab.page.url


def test_curves_are_hidden_shown_and_in_step_with_the_bars(tab):
    lines = tab.page.locator("#curves-chart g.mark-line path")
    expect(lines).to_have_count(10)
    tab.page.click("#curves-shown button[data-value=outer]")
    tab.press("#curves-shown button[data-value=exp2]", "Space")
    expect(lines).to_have_count(8)
    expect(tab.page.locator("#curves-text")).not_to_contain_text("outer product")
    assert "hidden=outer.exp2" in tab.page.url
    tab.page.click("#curves-shown button[data-value=outer]")
    expect(lines).to_have_count(9)
    tab.page.click("#bars-stores button[data-value=softmax]")
    tab.press("#m", "End")
    tab.page.click("#curves summary")
    row = tab.page.locator("#curves-table tbody tr", has_text="softmax").locator("td").all_text_contents()
    close(float(row[0]), theory.ratio(BY_ID["softmax"].at(8).form(64), 64, 1024).value)
    assert row[1] == "1,272,264"
    expect(tab.page.locator("#curves-chart")).to_have_attribute("data-rows", re.compile("marker 1, here 1"))
    tab.page.click("#curves summary")


def test_a_curve_tells_its_value_on_hover(tab):
    tab.page.locator("#curves-chart").scroll_into_view_if_needed()
    box = tab.page.locator("#curves-chart g.mark-symbol path[aria-label*='cubed ReLU']").nth(9).bounding_box()
    tab.page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    tip = tab.page.locator("#vg-tooltip-element.visible")
    expect(tip).to_contain_text("expected")
    expect(tip).to_contain_text("M")


def test_derivations_unfold_by_keyboard_and_lead_to_the_bars(tab):
    assert tab.page.locator("#why-list details").count() == 4
    tab.press("#why-list details:nth-of-type(3) summary", "Enter")
    assert tab.page.locator("#why-list details:nth-of-type(3) .katex").count() > 8
    tab.page.locator("#why-list details:nth-of-type(3) .check button").last.click()
    expect(tab.page.locator("#m-out")).to_have_text("1,024")
    tab.shows("#ratio", ratio_of("squared", 1024))
    tab.press("#why-list details:nth-of-type(3) summary", "Enter")


def test_long_contexts_and_the_calculator(tab):
    rows = tab.page.locator("#long-table tbody tr")
    cell = lambda row, at: parsed(rows.nth(row).locator("td").nth(at).text_content())  # noqa: E731
    tab.press("#longm", "End")
    close(cell(0, 2), theory.ratio(BY_ID["softmax"].at(8).form(64), 64, 2**21).value)
    yarn = YaRN(1024, 8.0)
    for m, keys in ((2**21, ()), (2**20, ("ArrowLeft",))):
        tab.press("#longm", *keys)
        close(cell(3, 1), yarn(m, 64))
        close(cell(3, 2), theory.ratio(yarn, 64, m).value)
        close(cell(3, 4), theory.ratio(yarn, 64, m, cosine=contexts.VAGUE).value)
    assert (
        rows.nth(1).locator("td").nth(0).text_content() == "grows as the logarithm of M, below L too: βL · ln M / ln L"
    )
    tab.press("#longbeta", "Home")
    expect(tab.page.locator("#long-text")).to_contain_text("β = 0.5")
    close(cell(0, 2), theory.ratio(BY_ID["softmax"].at(0.5).form(64), 64, 2**20).value)
    tab.press("#longbeta", "End")
    assert tab.text("#longbeta-out") == "32"
    tab.press("#reference", "End")
    expect(tab.page.locator("#long-text")).to_contain_text("8,192")
    tab.slide("#needm", 0.0)
    m = int(tab.text("#needm-out"))
    answer = theory.design(64, m, 1.0, 1.0)
    close(float(re.search(r"β ≥ ([\d.]+)", tab.text("#need-answer"))[1]), answer.sharpness)
    tab.press("#needcosine", "End")
    tab.press("#needm", "End")
    tab.press("#needwidth", "Home")
    expect(tab.page.locator("#need-answer")).to_have_text("No sharpness is enough.")
    expect(tab.page.locator("#need-sentence")).to_contain_text("within reach")


def test_the_head_and_the_layer_show_their_numbers(tab):
    data = model.head()
    for at, token in ((2, "hat"), (6, "is")):
        tab.page.click(f"#head-tokens button[data-value='{at}']")
        expect(tab.page.locator("#head-picture tbody tr.current th").first).to_have_text(token)
        assert tab.page.locator("#head-picture > table tbody tr").count() == at + 1
        weights = tab.page.locator("#head-picture > table tbody tr td:last-child").all_text_contents()
        assert np.allclose([float(w) for w in weights], data["at"][at]["weights"], rtol=6e-3)
    expect(tab.page.locator("#head-picture")).to_contain_text("mostly the value of “red”")
    tab.press("#head-picture details summary", "Enter")
    grids = tab.page.locator("#head-picture details[open] table.numbers")
    assert grids.count() == 9
    expect(tab.page.locator("#head-picture")).to_contain_text("131,072 numbers")
    expect(tab.page.locator("#mlp-picture")).to_contain_text("4,718,592 numbers")


def test_what_is_written_while_reading_fades(tab):
    rules = {shown.key: shown for shown in READING}
    for rule, decay, strength in (("mamba-2", 0.8, 1.5), ("delta-net", 1.0, 0.1), ("outer-product", 1.0, 1.0)):
        tab.page.click(f"#streams-rule button[data-value={rule}]")
        decays, strengths = map(bool, streams.taken(rules[rule]))
        expect(tab.page.locator("#streams-text")).to_contain_text(rules[rule].label)
        assert tab.page.is_disabled("#decay") != decays
        assert tab.page.is_disabled("#strength") != strengths
        assert tab.page.get_attribute("#decay", "title") == ("" if decays else f"{rules[rule].label} doesn't fade.")
        if decays:
            tab.press("#decay", "End")
        if strengths:
            tab.press("#strength", "End" if strength > 1 else "Home")
        found = streams.streams(rules[rule], decay if decays else 1.0, strength if strengths else 1.0)
        expect(tab.page.locator("#streams-text")).to_have_text(found["text"])
        expect(tab.page.locator("#streams-note")).to_contain_text(rules[rule].about)
        expect(tab.page.locator("#streams-note")).to_contain_text("Two values written under one key: ")
        share = f"{float(format(100 * found['newest'], '.3g')):g} % of the newest value"
        expect(tab.page.locator("#streams-text")).to_contain_text(share)
        expect(tab.page.locator("#streams-text")).to_contain_text(f"{found['state']:,} numbers")


def test_only_picking_right_has_its_bars_and_its_number(tab):
    for name, keys in (("outer", ("End",)), ("softmax", ("End",)), ("outer", ("Home",))):
        tab.page.click(f"#picking-picking button[data-value={name}]")
        tab.press("#candidates", *keys)
        found = picking.picking(BY_ID[name], picking.COUNTS[-1 if keys == ("End",) else 0])
        expect(tab.page.locator("#picking-text")).to_have_text(found["text"])
    wanted = f"95 % are right up to {picking.measured(BY_ID['outer'], 64).capacity.value:.0f} memories"
    expect(tab.page.locator("#picking-text")).to_contain_text(wanted)


def test_a_card_opens_under_its_store_and_closes(tab):
    names = tab.page.locator("#stores-table tbody th[scope=row]").all_text_contents()
    assert sorted(names) == sorted(stores.names())
    button, card = (
        tab.page.locator("#stores-table button", has_text=re.compile("^delta-net$")),
        tab.page.locator("#card-delta-net"),
    )
    button.press("Enter")
    expect(card.locator("a")).to_have_attribute("href", "https://arxiv.org/abs/2406.06484")
    expect(card).to_contain_text('assocmem.Memory("delta-net")')
    assert card.bounding_box()["y"] - button.bounding_box()["y"] < 200
    button.press("Enter")
    expect(card).to_be_hidden()


def test_an_address_carries_a_case_and_back_goes_back(tab, address):
    tab.page.goto(address + "#store=softmax&m=1024&beta=2&token=2&step=3&hidden=outer.relu")
    expect(tab.page.locator("#verdict")).to_have_text("recall fails")
    tab.shows("#ratio", ratio_of("softmax", 1024, beta=2.0))
    assert tab.page.get_attribute("#curves-shown button[data-value=relu]", "aria-pressed") == "false"
    expect(tab.page.locator("#hand-where")).to_contain_text("step 4")
    tab.page.click("#bars-stores button[data-value=cubed]")
    tab.press("#m", "Home")
    assert "store=cubed" in tab.page.url
    tab.page.go_back()
    expect(tab.page.locator("#m-out")).to_have_text("1,024")
    tab.page.go_back()
    expect(tab.page.locator("#bars-stores button[data-value=softmax]")).to_have_attribute("aria-pressed", "true")
    tab.shows("#ratio", ratio_of("softmax", 1024, beta=2.0))
    tab.page.go_forward()
    tab.page.go_forward()
    expect(tab.page.locator("#m-out")).to_have_text("2")


def test_sections_are_steps_of_their_own_and_a_drag_is_one(tab):
    tab.page.evaluate(
        "() => { const push = history.pushState; window.steps = 0;"
        "history.pushState = (...words) => (steps++, push.apply(history, words)); }"
    )
    steps = lambda: tab.page.evaluate("steps")  # noqa: E731
    tab.page.evaluate("() => document.getElementById('bars').scrollIntoView()")
    before = steps()
    tab.press("#m", *["ArrowRight"] * 10)
    tab.slide("#beta", 0.2)
    tab.page.click("#bars-stores button[data-value=softmax]")
    tab.slide("#beta", 0.9, steps=12)
    assert steps() == before + 3  # β had no part yet in the outer product
    assert "#bars&" in tab.page.url
    kept = tab.text("#m-out"), tab.text("#beta-out")
    tab.page.locator("header nav a", has_text="Why").click()
    assert tab.page.url.split("#")[1].startswith("why&")
    expect(tab.page.locator("header nav a[aria-current]")).to_have_text("Why")
    tab.page.go_back()
    tab.settle()
    assert (tab.text("#m-out"), tab.text("#beta-out")) == kept
    assert "#bars&" in tab.page.url
    tab.page.go_back()
    expect(tab.page.locator("#beta-out")).to_have_text("8")
    tab.page.go_back()
    tab.page.go_back()
    expect(tab.page.locator("#m-out")).to_have_text("32")


def test_m_is_dragged_in_the_curves_and_the_ring_stays_on_the_curve(tab):
    tab.page.click("#bars-stores button[data-value=squared]")
    chart = tab.page.locator("#curves-chart")
    chart.scroll_into_view_if_needed()
    tab.settle()
    box = chart.bounding_box()
    tab.page.mouse.move(box["x"] + 0.3 * box["width"], box["y"] + 100)
    tab.page.mouse.down()
    tab.page.mouse.move(box["x"] + 0.4 * box["width"], box["y"] + 120, steps=5)
    tab.page.mouse.up()
    tab.settle()
    m = int(tab.text("#m-out").replace(",", ""))
    assert m not in (2, 32, 1024)
    expect(chart).to_have_attribute("data-rows", re.compile("marker 1, here 1"))
    ring = tab.page.locator("#curves-chart g.mark-symbol.layer_12_marks path").get_attribute("aria-label")
    place = dict(part.split(": ", 1) for part in ring.split("; "))
    assert plain(place["memories M"]) == m
    expected = theory.ratio(BY_ID["squared"].at(8).form(64), 64, m).value
    assert plain(place["interference / signal"]) == pytest.approx(expected, rel=2e-3)


TOUCHED = """() => [...document.querySelectorAll('button, select, summary, header a, input')]
  .filter((one) => one.checkVisibility() && !one.matches('.term'))
  .map((one) => [one.outerHTML.slice(0, 70), one.getBoundingClientRect()])
  .filter(([, box]) => box.height > 0 && (box.height < 43.5 || box.width < 20)).map(([words]) => words)"""


@pytest.mark.parametrize("height", [664, 844])
def test_a_phone_keeps_the_picture_in_view_and_everything_is_big_enough_to_touch(tab, height):
    tab.page.set_viewport_size({"width": 390, "height": height})
    tab.settle()
    assert tab.page.evaluate(TOUCHED) == []
    for picture, slider in (("#hero-recalled", "#picked"), ("#bars-chart", "#width"), ("#verdict", "#beta"),
                            ("#long-chart", "#longwidth"), ("#streams-chart", "#strength")):  # fmt: skip
        tab.page.locator(slider).evaluate("(one) => one.scrollIntoView({ block: 'end' })")
        tab.settle()
        shown, control = tab.page.locator(picture).bounding_box(), tab.page.locator(slider).bounding_box()
        assert 0 <= shown["y"] < height, picture
        assert shown["y"] + shown["height"] <= control["y"] <= height - 20, picture
    for table in ("#stores-table", "#long-table", "#head-picture table", "#mlp-picture table"):
        wide = tab.page.locator(table).first.evaluate(
            "(one) => one.scrollWidth - innerWidth + one.getBoundingClientRect().x"
        )
        assert wide <= 0, table
    tab.page.locator("#why").evaluate("(one) => one.scrollIntoView()")
    here = expect(tab.page.locator("header nav a[aria-current]"))
    here.to_have_text("Why")
    here.to_be_in_viewport()
    assert tab.page.locator("#long-chart").text_content().count("YaRN") == 1  # names stand at their lines
    tab.page.set_viewport_size({"width": 1280, "height": 900})
    tab.settle()


def test_a_link_has_a_preview(tab, address):
    said = tab.page.locator("meta[property^='og:']").evaluate_all("(all) => all.map((one) => one.content)")
    assert len(said) == 4
    answer = tab.page.request.get(address + said[-1])
    assert answer.ok
    assert answer.headers["content-type"] == "image/png"
    assert int.from_bytes(answer.body()[16:20], "big") == 1200


@pytest.mark.parametrize(
    "bad", ["m=33", "m=1e3", "store=nope", "beta=abc", "%E0%A4%A=%", "m", "&&==", "hidden=x.y", "step=-1", "draw=1e9",
            "width=65",
            "letter=<script>", "token=99", "rule=constructor", "m=32&m=64&__proto__=1"],
)  # fmt: skip
def test_a_bad_address_falls_back(tab, address, bad):
    tab.page.goto(address + "#" + bad)
    tab.settle()
    assert tab.text("#m-out") in ("32", "64")
    assert tab.text("#verdict").startswith("recall")
    tab.press("#m", "End")
    assert tab.text("#m-out") == "1,024"


STOPS = """() => {
  const stops = [...document.querySelectorAll('a[href], button, input, textarea, summary, [tabindex="0"]')];
  const reachable = stops.filter((e) => !e.disabled && e.checkVisibility());
  document.met = {};
  reachable.forEach((e, i) => e.addEventListener('focus', () => (document.met[i] = getComputedStyle(e).outlineStyle)));
  return reachable.length;
}"""


def test_everything_is_reached_by_keyboard_with_a_visible_focus(tab):
    count = tab.page.evaluate(STOPS)
    tab.page.evaluate("() => { document.activeElement.blur(); scrollTo(0, 0); }")
    for _ in range(count + 5):
        tab.page.keyboard.press("Tab")
    met = tab.page.evaluate("() => document.met")
    assert set(range(count)) - {int(stop) for stop in met} == set()
    assert set(met.values()) <= {"solid", "auto"}


def test_every_control_has_a_name_and_every_figure_a_text(tab):
    for slider in tab.page.locator("input[type=range]").all():
        assert slider.get_attribute("aria-valuetext")
        assert tab.page.locator(f"label[for={slider.get_attribute('id')}]").count() == 1
    for picture in tab.page.locator("[role=img]").all():
        name = picture.get_attribute("aria-labelledby")
        assert tab.text(f"#{name}") if name else picture.get_attribute("aria-label")


@pytest.mark.parametrize(("scheme", "rules"), [("light", None), ("dark", ["color-contrast"])])
def test_axe_finds_nothing_serious(tab, scheme, rules):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="needs axe-playwright-python")
    tab.page.emulate_media(color_scheme=scheme)
    tab.page.evaluate("() => document.querySelectorAll('details').forEach((d, i) => (d.open = i < 8))")
    tab.settle()
    options = {"resultTypes": ["violations"]} | ({"runOnly": rules} if rules else {})
    skipped = {"exclude": [[".katex"]]}  # KaTeX's own markup takes most of the time
    found = axe.Axe().run(tab.page, context=skipped, options=options).response["violations"]
    tab.page.emulate_media(color_scheme="light")
    tab.page.evaluate("() => document.querySelectorAll('details').forEach((d) => (d.open = false))")
    bad = [
        (v["id"], [n["html"][:120] for n in v["nodes"][:3]]) for v in found if v["impact"] in ("serious", "critical")
    ]
    assert bad == []


@pytest.mark.parametrize("width", [390, 640, 900, 1024, 1280, 1920])
def test_nothing_overflows(tab, width):
    tab.page.set_viewport_size({"width": width, "height": 800})
    tab.page.evaluate(
        "() => document.querySelectorAll('main section:not(#stores) details').forEach((d) => (d.open = true))"
    )
    tab.settle()
    over = tab.page.evaluate("() => document.documentElement.scrollWidth - innerWidth")
    tab.page.evaluate("() => document.querySelectorAll('details').forEach((d) => (d.open = false))")
    tab.page.set_viewport_size({"width": 1280, "height": 900})
    tab.settle()
    assert over <= 0


def test_an_answer_that_does_not_come_is_a_sentence(chrome, address):
    tab = Tab(chrome).open(address)
    sentence = "the server is busy elsewhere."
    failing = [True]

    def answer(route):
        route.fulfill(status=404, json={"error": sentence}) if failing else route.continue_()

    tab.page.route("**/data/bars/cubed/**", answer)
    tab.page.click("#bars-stores button[data-value=cubed]")
    expect(tab.page.locator("#bars-text")).to_have_text(sentence)
    failing.clear()
    tab.page.click("#bars-stores button[data-value=relu]")
    tab.page.click("#bars-stores button[data-value=cubed]")
    expect(tab.page.locator("#bars-text")).to_contain_text("cubed ReLU")
    noted, tab.problems = tab.problems, []
    assert noted
    assert all("404" in problem for problem in noted)
    tab.close()


def test_the_first_load_is_light(chrome, address):
    tab = Tab(chrome).open(address)
    loaded = tab.page.evaluate(
        "() => [...performance.getEntriesByType('resource'), ...performance.getEntriesByType('navigation')]"
        ".reduce((sum, entry) => sum + entry.transferSize, 0)"
    )
    assert 100_000 < loaded < 1_500_000
    assert not tab.page.evaluate(
        "() => performance.getEntriesByType('resource').some((e) => e.name.includes('micropython'))"
    )
    tab.close()


SAID = "(marks) => marks.map((mark) => mark.getAttribute('aria-label'))"


def drawn(tab, marks, *names):
    """Return what the marks of a layer of the curves say they are drawn from: of each the label and these numbers."""
    said = tab.page.locator(f"#curves-chart g.{marks}").locator("line, path").evaluate_all(SAID)
    words = [dict(part.split(": ", 1) for part in text.split("; ")) for text in said]
    return {(one["label"], *(plain(one[name]) for name in names)) for one in words}


def plain(text):
    """Return the number that Vega writes as 1,024, 1.024k or 0.5."""
    digits, unit = re.fullmatch(r"([\d.e-]+)([kMmµ]?)", text.replace(",", "").replace("−", "-")).groups()
    return float(digits) * {"": 1, "k": 1e3, "M": 1e6, "m": 1e-3, "µ": 1e-6}[unit]


def test_curves_draw_the_measured_points_their_intervals_and_theory(tab):
    data, m, y = curves.curves(64, 8.0), "memories M", "interference / signal"
    measured = {BY_ID[name].label: columns for name, columns in data["measured"].items()}
    measured["optimal linear"] = curves.optimal(64)
    points = sum(len(columns["m"]) for columns in measured.values())
    expect(tab.page.locator("#curves-chart")).to_have_attribute("data-rows", re.compile(f"measured {points},"))
    rows = [(label, *row) for label, c in measured.items() for row in zip(*map(c.get, COLUMNS), strict=True)]
    near = partial(np.allclose, rtol=2e-3)  # labels have four digits
    for marks, names, wanted in (
        ("mark-rule.layer_4_marks", (m, y, "high"), {(name, n, low, high) for name, n, _, low, high in rows}),
        ("mark-symbol.layer_5_marks", (m, y), {(name, n, ratio) for name, n, ratio, *_ in rows}),
        ("mark-symbol.layer_11_marks", (m, y), {
            (choice.label, n, ratio) for name, choice in BY_ID.items()
            for n, ratio in zip(data["theory"][name]["m"], data["theory"][name]["ratio"], strict=True)}),
    ):  # fmt: skip
        found = drawn(tab, marks, *names)
        for one, other in zip(sorted(found), sorted(wanted), strict=True):
            assert one[0] == other[0]
            assert near(one[1:], other[1:])


COLUMNS = ("m", "ratio", "low", "high")
