"""The section on a real head: its numbers are plain attention's, its file is small, and it fits a phone."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest

from assocmem.page import data
from assocmem.page.sections import real_head
from browsing import Tab, browser, live_page


def test_weights_and_what_comes_back_are_softmax_attention_of_the_kept_numbers():
    arrays, tokens, heads, _ = real_head.kept()
    assert len(tokens) == max(real_head.CONTEXT.values)
    for option in real_head.HEADS:
        keys, values, query = (arrays[f"{option.of}.{part}"] for part in ("keys", "values", "query"))
        for scale, context in ((1.0, len(tokens)), (4.0, 8)):
            found = json.loads(data.document(f"real-head/{option.id}/{scale:g}/{context}"))
            logits = scale * heads[option.of]["scaling"] * keys[-context:] @ query
            weights = np.exp(logits - logits.max()) / np.exp(logits - logits.max()).sum()
            shown = sorted((row["place"], row["weight"]) for name in ("bars", "target") for row in found["rows"][name])
            assert np.allclose([weight for _, weight in shown], weights, rtol=1e-3)
            assert np.allclose(found["recalled"], weights @ values[-context:], rtol=1e-3, atol=1e-4)
            at = int(np.argmax(weights))
            rest = np.linalg.norm((weights @ values[-context:]) - weights[at] * values[len(tokens) - context + at])
            signal = weights[at] * np.linalg.norm(values[len(tokens) - context + at])
            assert found["ratio"] == pytest.approx(rest / signal, rel=1e-6)
            assert not np.allclose(found["recalled"], weights @ keys[-context:], rtol=1e-2)
    answers = json.loads(data.document(f"real-head/answers/1/{len(tokens)}"))
    assert "finds “Rome”" in answers["said"]


def test_the_file_is_small():
    assert Path(real_head.__file__).with_suffix(".safetensors").stat().st_size < 150_000


def test_it_is_drawn_follows_its_sliders_and_fits():
    expect = pytest.importorskip("playwright.sync_api", reason="needs playwright").expect
    with live_page() as address, browser() as running:
        for width in (1280, 390):
            tab = Tab(running, width).open(address)
            assert "19 of 19 tokens are seen" in tab.text("#real_head-text")
            tab.press("#realcontext", "Home", "ArrowRight", "ArrowRight")
            expect(tab.page.locator("#real_head-text")).to_contain_text("8 of 19")
            tab.page.click("#real_head-realhead button[data-value=rests]")
            expect(tab.page.locator("#real_head-note")).to_contain_text("rests on the first token")
            assert tab.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
            if folder := os.environ.get("ASSOCMEM_SCREENSHOTS"):
                tab.page.locator("#real_head").screenshot(path=f"{folder}/real-head-{width}.png")
            tab.close()
