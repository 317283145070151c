"""The page's numbers: equal to what the ruler and theory say, and to what `assocmem reproduce` draws."""

from __future__ import annotations

import base64
import contextlib
import io
import json
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from assocmem import stores, theory
from assocmem.contract.errors import AssocmemError, InputError
from assocmem.contract.state import Pairs
from assocmem.experiments import activations, long_contexts
from assocmem.experiments.shown import CHOICES, HAND, OPTIMAL, OUTER, READING, SOFTMAX
from assocmem.inputs.glyphs import glyphs
from assocmem.maps.activations import Exp, ReLU
from assocmem.page import STATIC, data, told
from assocmem.page.charts import figure
from assocmem.page.declare import FILE, LIVE, SITE, Control
from assocmem.page.sections import bars, calculator, contexts, curves, hand, hero, model, streams, why
from assocmem.page.sections import stores as cards
from assocmem.ruler import by_weights, recall_weights

BY_ID = {choice.id: choice for choice in CHOICES}


@cache
def loaded(path):
    return json.loads(data.document(path))


@pytest.mark.parametrize("name", list(BY_ID))
def test_bars_are_the_rulers_weights_of_real_stores(name):
    choice = BY_ID[name]
    path = f"bars/{name}/32/0.9/1" + ("/4" if choice.sharp else "")
    shown, store = loaded(path), choice.at(4.0)
    at = bars.COUNTS.index(96)
    keys = bars.page_keys(32, 1)[:96]
    query = bars.page_query(keys, 0.9, 1)
    assert np.isclose(query[0] @ keys[0], 0.9)
    assert np.isclose(np.linalg.norm(query), 1)
    weights = recall_weights(store, Pairs(keys, np.zeros((96, 2))), query, by="one-hot")
    ratio = by_weights(weights, np.array([0]))[0]
    assert np.isclose(shown["ratio"][at], ratio, rtol=1e-4, atol=1e-9)
    row = shown["rows"][at] if name == "optimal" else shown["row"][:96]
    assert np.allclose(row, weights[0] / weights[0, 0], rtol=6e-4, atol=1e-9)
    assert np.isclose(shown["signal"][at], abs(weights[0, 0]), rtol=1e-4)
    expected = theory.ratio(store.form(32), 32, 96, cosine=0.9).value
    assert np.isclose(shown["expected"][at], expected, rtol=1e-4)


@pytest.mark.parametrize("name", list(BY_ID))
def test_a_ratio_is_the_norm_of_the_bars_row(name):
    shown = loaded(f"bars/{name}/64/1/0" + ("/8" if BY_ID[name].sharp else ""))
    for at, m in enumerate(bars.COUNTS):
        row = np.array(shown["rows"][at] if name == "optimal" else shown["row"][:m])
        assert row.size == m
        assert row[0] == 1
        assert np.isclose(np.linalg.norm(row[1:]), shown["ratio"][at], rtol=1e-3, atol=1e-9)
        assert np.isclose(shown["interference"][at], shown["ratio"][at] * shown["signal"][at], rtol=1e-3, atol=1e-12)


def test_capacities_are_theorys():
    assert loaded("bars/squared/64/1/0")["capacity"] == pytest.approx(1 + 64 * 66 * 2 / 3)
    assert loaded("bars/softmax/64/1/0/8")["capacity"] == pytest.approx(theory.capacity(Exp(8.0), 64).value)
    assert loaded("bars/optimal/64/1/0")["capacity"] == pytest.approx(128, rel=0.01)
    assert loaded("bars/softmax/16/0.5/0/16")["capacity"] is None or loaded("bars/softmax/16/0.5/0/16")["capacity"] > 1


def test_curves_hold_theory_and_measurements_that_agree_with_it():
    shown = loaded("curves/32/4") | {"optimal": loaded("optimal/32")}
    assert set(shown["theory"]) == set(BY_ID)
    for name, line in shown["theory"].items():
        statistic = theory.steady_statistic(BY_ID[name].at(4.0).form(32))
        for m, ratio in list(zip(line["m"], line["ratio"], strict=True))[::9]:
            assert np.isclose(
                ratio, theory.ratio(BY_ID[name].at(4.0).form(32), 32, m, statistic=statistic).value, rtol=1e-3
            )
    inside = total = 0
    for points in [*shown["measured"].values(), shown["optimal"]]:
        assert points["m"]
        assert all(
            low <= x <= high for low, x, high in zip(points["low"], points["ratio"], points["high"], strict=True)
        )
        pairs = zip(points["low"], points["theory"], points["high"], strict=True)
        inside += sum(low <= value <= high for low, value, high in pairs)
        total += len(points["m"])
    assert inside >= 0.8 * total  # one draw of 95 % intervals, points of a store share their streams


def test_the_curves_at_the_bars_counts_are_what_the_bars_expect():
    shown = loaded("curves/64/8")
    for name in ("outer", "squared", "softmax"):
        one = loaded(f"bars/{name}/64/1/0" + ("/8" if name == "softmax" else ""))
        assert np.allclose(shown["at"][name], one["expected"], rtol=1e-3)


def test_lines_are_those_of_the_reproduced_figures():
    shown = loaded("curves/64/8")
    names = {
        "linear": "outer",
        "ReLU": "relu",
        "squared ReLU": "squared",
        "SwiGLU, shared gate": "swiglu",
        "cubed ReLU": "cubed",
    }
    for store in activations.STORES:
        line = shown["theory"][names[store.label]]
        figure = [theory.ratio(store.store.form(activations.D_K), activations.D_K, m).value for m in line["m"]]
        assert np.allclose(line["ratio"], figure, rtol=1e-3)
    rules = loaded("contexts/64/8/1024")
    for label, policy in long_contexts.RULES.items():
        figure = [theory.ratio(policy, long_contexts.D_K, m).value for m in rules["m"]]
        assert np.allclose(rules["rules"][label]["ratio"], figure, rtol=1e-3)


def test_long_contexts_and_the_calculator_are_theorys():
    rules = loaded("contexts/64/8/1024")["rules"]
    assert rules["fixed"]["ratio"][-1] == pytest.approx(1.2839, rel=1e-3)
    assert rules["YaRN"]["ratio"][-1] == pytest.approx(6.477e-5, rel=1e-3)
    table = loaded("calculator/64/0.9")["table"]
    for m, ratio in ((1024, 0.1), (2**20, 1.0)):
        cell = table[calculator.M.values.index(m)][calculator.RATIO.values.index(ratio)]
        answer = theory.design(64, m, ratio, 0.9)
        assert cell["beta"] == pytest.approx(answer.sharpness, rel=1e-3)
        assert theory.ratio(Exp(cell["beta"]), 64, m, cosine=0.9).value == pytest.approx(ratio, rel=5e-3)
        assert cell["scale"] == pytest.approx(answer.sharpness / 64, rel=1e-3)
    assert "No" not in loaded("calculator/64/1")["table"][0][0]["sentence"]
    hopeless = loaded("calculator/16/0.5")["table"][-1][-1]
    assert hopeless["beta"] is None
    assert "within reach" in hopeless["sentence"]


@pytest.mark.parametrize("asked", [0, 1, 2])
@pytest.mark.parametrize("name", [one.key for one in HAND])
def test_every_number_in_the_hand_follows_from_the_one_before(name, asked):
    steps = {step["title"]: step["tables"] for step in loaded(f"hand/{name}/{asked}")["steps"]}
    titles = list(steps)
    weighing = steps[next(t for t in titles if "likeness" in t or "alike" in t)][-1]
    alike, weights = np.array(weighing["rows"])[:, 0], np.array(weighing["rows"])[:, -1]
    assert np.allclose(alike, hand.KEYS @ hand.KEYS[asked], rtol=1e-3)
    assert np.allclose(
        weights, alike if name == "outer-product" else np.exp(8 * alike) / np.exp(8 * alike).sum(), rtol=1e-3
    )
    *products, total = np.array(steps["Weigh every value and add up"][0]["rows"])
    assert np.allclose(products, weights[:, None] * hand.VALUES, rtol=2e-3, atol=1e-3)
    assert np.allclose(np.sum(products, axis=0), total, rtol=2e-3, atol=1e-3)
    stored, signal, noise, recalled = (np.array(t["rows"][0]) for t in steps[titles[-1]])
    assert np.allclose(signal + noise, recalled, rtol=2e-3, atol=1e-3)
    assert np.allclose(recalled, total, rtol=1e-3, atol=1e-3)
    assert stored.tolist() == hand.VALUES[asked].tolist()
    if name == "outer-product":
        grids = [np.array(steps[f"Write pair {i}"][3]["rows"]) for i in (1, 2, 3)]
        assert np.allclose(grids[-1], hand.VALUES.T @ hand.KEYS, rtol=1e-3)
        assert np.allclose(steps["Ask"][2]["rows"][0], recalled)


@pytest.mark.parametrize(("file", "name"), [("outer", "outer-product"), ("softmax", "softmax")])
def test_the_teaching_code_gives_what_the_steps_say(file, name):
    code = (STATIC / "teach" / f"{file}.py").read_text(encoding="utf-8")
    assert len(code.splitlines()) <= 28
    assert "import" not in code.replace("from math import exp", "")
    printed = io.StringIO()
    scope: dict[str, object] = {}
    with contextlib.redirect_stdout(printed):
        exec(compile(code, file, "exec"), scope)
    lines = printed.getvalue().splitlines()
    assert len(lines) == 3
    for asked, line in enumerate(lines):
        stored, recalled = (json.loads(part) for part in line.removeprefix("stored ").split(" recalled "))
        assert stored == hand.VALUES[asked].tolist()
        assert np.allclose(recalled, loaded(f"hand/{name}/{asked}")["recalled"], atol=6e-3)


def test_the_head_follows_from_its_matrices():
    shown = model.head()
    x, keys, values = (np.array(shown[name]) for name in ("embedding", "keys", "values"))
    assert np.allclose(keys, x @ np.array(shown["w_k"]).T)
    assert np.allclose(values, x @ np.array(shown["w_v"]).T)
    for at, now in enumerate(shown["at"]):
        query = x[at] @ np.array(shown["w_q"]).T
        raw = np.exp(shown["beta"] * keys[: at + 1] @ query)
        assert np.allclose(now["query"], query)
        assert len(now["weights"]) == at + 1
        assert np.allclose(now["weights"], raw / raw.sum(), atol=2e-3)
        assert np.allclose(now["recalled"], (raw / raw.sum()) @ values[: at + 1], atol=2e-3)
    assert shown["tokens"][int(np.argmax(shown["at"][-1]["weights"]))] == "red"
    assert "131,072" in shown["shapes"][6][2]
    assert 2 * 1024 * 64 == 131072


def test_the_layer_is_relu_of_the_first_matrix_times_the_second():
    shown = model.layer()
    keys, values = np.array(shown["keys"]), np.array(shown["values"])
    weights = np.maximum(keys @ np.array(shown["input"]), 0)
    assert np.allclose(shown["weights"], weights, atol=1e-3)
    assert np.allclose(shown["recalled"], weights @ values, atol=1e-3)
    assert f"{2 * 3072 * 768:,}" in shown["shapes"][-1][2]


@pytest.mark.parametrize("shown", [OUTER, OPTIMAL, SOFTMAX], ids=lambda shown: shown.key)
def test_pictures_by_their_weights_are_what_the_store_recalls(shown):
    font, picked = hero.wall(), 3
    found = loaded(f"pictures/{shown.id}/{picked}")
    keys, store = bars.page_keys(64, 0), shown.at(hero.BETA)
    assert found["counts"] == [m for m in bars.COUNTS if m >= picked]
    for at in (0, 14, -1):
        m = found["counts"][at]
        weights = np.array((found["row"] if "row" in found else found["rows"][at])[:m])
        state = store.write(store.empty(64, 256), keys[:m], font.values[:m])
        recall = store.recall(state, keys[picked - 1 : picked])[0]
        own = recall_weights(store, Pairs(keys[:m], font.values[:m]), keys[picked - 1 : picked])[0, picked - 1]
        assert np.allclose(weights @ font.values[:m], recall / own, atol=2e-2)
        rest = np.delete(weights, picked - 1)
        assert np.linalg.norm(rest) == pytest.approx(found["ratio"][at], rel=2e-3, abs=1e-12)
    assert loaded("pictures/outer/1")["counts"][0] == 1


def test_the_sheet_holds_every_glyph_the_letters_first():
    sheet, font = loaded("glyphs"), hero.wall()
    bits = np.frombuffer(base64.b64decode(sheet["bits"]), np.uint8)
    assert np.array_equal(np.unpackbits(bits).reshape(-1, 16, 16), font.images > 0.5)
    assert sheet["chars"].startswith("".join(hero.LETTERS))
    assert sorted(sheet["chars"]) == sorted(glyphs().chars)


def shares(path):
    rows = loaded(path)["rows"]
    return np.array([row["weight"] for row in rows["target"] + rows["bars"]])


def test_streams_are_what_their_rules_leave():
    assert np.allclose(shares("streams/mamba-2/0.97/0.5"), 0.5 * 0.97 ** np.arange(128), rtol=1e-3)
    assert loaded("streams/mamba-2/0.97/0.5")["half_life"] == 23  # ln 2 / -ln 0.97 = 22.8
    assert shares("streams/outer-product/1/1").tolist() == [1] * 128
    delta = loaded("streams/delta-net/1/1")
    assert delta["newest"] == 1
    assert delta["ratio_newest"] == 0
    assert delta["state"] == 64 * 64
    means = shares("streams/delta-net/1/1").reshape(8, 16).mean(axis=1)
    assert (np.diff(means) < 0).all()
    # a random unit key takes a share 1/d_k away from what another holds: (1 - 1/64)^age on average
    assert np.allclose(shares("streams/delta-net/1/1"), (1 - 1 / 64) ** np.arange(128), atol=0.08)
    assert np.array_equal(shares("streams/gated-delta-net/1/0.5"), shares("streams/delta-net/1/0.5"))


def test_what_streams_say_is_what_they_found():
    found = loaded("streams/mamba-2/0.97/0.5")
    assert found["said"] == "Mamba-2: 50 % of the newest value comes back. Half of that is left after 23 writes."
    assert found["text"].startswith(found["said"])
    assert f"{figure(found['ratio_64'])} for the one 64 writes earlier" in found["text"]
    assert "The oldest keeps more than half of that." in loaded("streams/outer-product/1/1")["said"]
    assert found["signals"] == {"top": 1.05}
    assert loaded("streams/mamba-2/0.97/1.5")["signals"] == {"top": 1.5}


@pytest.mark.parametrize("shown", READING, ids=lambda shown: shown.key)
def test_all_named_rules_of_writing_are_offered(shown):
    decay, strength = streams.taken(shown)
    found = loaded(f"streams/{shown.key}/{'0.95' if decay else '1'}/{'0.75' if strength else '1'}")
    assert len(found["rows"]["bars"]) == 127
    assert found["state"] > 0
    assert found["note"].startswith(shown.about)
    if decay:
        assert 0 < found["half_life"] < 40
    else:
        with pytest.raises(InputError, match="has no decay; its path holds 1 there"):
            data.document(f"streams/{shown.key}/0.95/1")


def test_the_table_lists_every_store_with_its_counted_state():
    cards = {card["key"]: card for card in loaded("stores")["stores"]}
    assert tuple(cards) == stores.names()
    assert cards["outer-product"]["held"] == 64 * 64
    assert cards["softmax"]["held"] == 1000 * 128
    assert cards["softmax"]["capacity"] == pytest.approx(theory.capacity(Exp(8.0), 64).value)
    for card in cards.values():
        assert card["equation"]
        assert card["card"]["source"]
        assert card["code"]


def test_each_check_of_the_derivations_names_what_the_bars_show():
    found = why.derivations()["derivations"]
    assert len(found) == 4
    steps = [step for item in found for step in item["steps"]]
    shown = [step for step in steps if "bars" in step]
    assert len(shown) >= 8
    assert all(step["check"] for step in shown)
    for step in steps:
        assert step["text"].count("$") % 2 == 0
        assert step["check"].count("$") % 2 == 0
    squared = theory.capacity(ReLU(2.0), 64).value
    assert any(f"{squared:,.0f}" in step["check"] for step in steps)


def test_the_offer_names_what_a_copy_leaves_out():
    live, site, file = (data.offered(copy) for copy in (LIVE, SITE, FILE))
    assert live["note"] == ""
    assert "key widths of 16 and 128" in file["note"]
    assert "100 draws of the bars' keys in place of 2" in site["note"]
    assert "1,024 pictures to ask for in place of 64" in site["note"]
    assert [len(live["controls"][name]["values"]) for name in ("beta", "cosine", "width", "draw")] == [24, 5, 4, 100]
    reach = [live["controls"][name]["values"][i] for name, i in (("m", 0), ("m", -1), ("count", 0), ("picked", -1))]
    assert reach == [2, 1024, 1, 1024]


def test_the_range_of_a_slider_is_that_of_the_settings_that_it_sets():
    set_by = {"beta": bars.SHARPNESS, "longbeta": contexts.OF_RULES, "reference": contexts.OF_RULES,
              "decay": streams.DECAYED, "strength": streams.WEIGHED}  # fmt: skip
    for name, settings in set_by.items():
        values = data.offered(LIVE)["controls"][name]["values"]
        ranged = [s for s in settings if s.name in (name.removeprefix("long"), "forgetting", "step")]
        assert ranged
        assert all(s.takes(v) for s in ranged for v in values)
    strength = next(s for s in streams.WEIGHED if s.name == "strength")
    narrow = replace(strength, low=0.5, high=1.0, open_high=True)
    assert Control.of("s", [strength, narrow], (0.1, 0.5, 0.75, 1.0), 0.5, "S").values == (0.5, 0.75)
    for held, usual in (([narrow], 1.0), ([], 0.5)):
        with pytest.raises(InputError, match="`usual` of the slider s must be in the range of what it sets"):
            Control.of("s", held, (0.1, 0.5, 1.0), usual, "S")


def test_every_usual_choice_is_offered_in_every_copy():
    for copy in (LIVE, SITE, FILE):
        for name, control in data.offered(copy)["controls"].items():
            assert control["usual"] in control["values"] or (
                (control["many"] or control["pattern"]) and control["usual"] == ""
            ), name
    assert data.first_paths() == ["offer", "glyphs", "pictures/outer/1", "bars/outer/64/1/0"]


def test_every_path_of_an_export_is_answered_or_offered():
    names = list(data.paths(SITE))
    assert len(set(names)) == len(names)
    bars_paths = [name for name in names if name.startswith("bars/")]
    assert len(bars_paths) == 4 * 5 * 2 * (6 + 4 * 24)
    assert set(data.paths(FILE)) < set(names) < set(data.paths(LIVE))
    for name in names[:: len(names) // 40]:
        assert loaded(name)


BAD = """
  nothing bars bars/outer/64/1 bars/nope/64/1/0 bars/outer/63/1/0 bars/outer/64/0.7/0 bars/outer/64/1/100
  bars/outer/64/1/-1 bars/outer/64/1/0/8 bars/softmax/64/1/0 bars/softmax/64/1/0/8.1 bars/softmax/64/1/0/nan
  bars/softmax/64/1/0/1e1 bars/outer/064/1/0 bars/outer/64/1/0/ curves/64 curves/64/0 curves/inf/8 contexts/64/8/1000
  calculator/64/2 pictures/outer/0 pictures/outer/1025 pictures/exp2/1 picking/relu/16 picking/outer/17
  hand/softmax/3 hand/relu/0 streams/delta-net/0.9/1
  streams/outer-product/1/0.5 streams/softmax/1/1 streams/mamba-2/2/1 optimal/1 ../offer stores/outer-product head/0
"""


@pytest.mark.parametrize("path", ["", *BAD.split()])
def test_nonsense_is_refused_in_a_sentence(path):
    with pytest.raises(AssocmemError) as caught:
        data.document(path)
    assert str(caught.value).endswith(".")
    assert len(str(caught.value).split()) > 4


def test_specifications_name_the_datasets_that_the_page_swaps():
    charts = data.offered()["charts"]
    for name, wanted in (
        ("bars", {"bars", "target"}),
        ("streams", {"bars", "target"}),
        ("curves", {"theory", "measured", "spans", "marker", "here", "labels"}),
        ("contexts", {"theory", "measured", "spans", "marker", "here", "labels"}),
    ):
        spec = charts[name]
        assert wanted <= set(spec["datasets"])
        assert all(spec["datasets"][key] for key in wanted)
        used = {layer["data"]["name"] for layer in spec["layer"] if "name" in layer["data"]}
        assert wanted <= used
    colours = [option["colour"] for option in data.offered()["controls"]["store"]["options"]]
    assert len(set(colours)) == len(CHOICES)


def test_the_optimal_points_are_medians_of_the_measured_store():
    points = curves.optimal(32)
    assert points["m"] == [40, 48, 64, 128, 256]
    assert set(points["sampler"]) == {"keys"}
    assert np.allclose(points["ratio"], points["theory"], rtol=0.08)


@pytest.mark.parametrize("key", ["softmax", "engram", "hopfield", "sdm", "delta-net"])
def test_the_program_of_a_card_runs_as_it_stands(key, capsys):
    exec(compile(cards.code(key, stores.entry(key).make().traits), key, "exec"), {})
    assert "[" in capsys.readouterr().out


def test_two_values_under_one_key_and_the_gradient_are_what_they_say():
    said = {key: loaded(f"streams/{key}/1/1")["note"] for key in ("outer-product", "delta-net")}
    assert said["outer-product"].endswith("100 % of the second comes back and 100 % of the first.")
    assert said["delta-net"].endswith("100 % of the second comes back and 0 % of the first.")
    keys = bars.page_keys(64, 0)
    p = lambda s: 1 / (1 + np.exp(8 * (keys[1:] @ keys[0] - s)).sum())  # noqa: E731
    assert told.gradient(8.0) == pytest.approx((p(1 + 1e-6) - p(1 - 1e-6)) / 2e-6, rel=1e-4)
    assert told.gradient(32.0) < 1e-6 < told.gradient(2.0) < told.gradient(8.0)
