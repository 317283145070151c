"""Charts and the report page from results alone: every kind is valid, files are what they say, text is text."""

from __future__ import annotations

import json
import re

import pytest
import vl_convert

from assocmem.contract.errors import InputError, UnknownNameError
from assocmem.contract.results import Results
from assocmem.report.axes import limits, ticks
from assocmem.report.curves import SAMPLERS
from assocmem.report.export import FORMATS, script_bundle, write_pictures
from assocmem.report.figures import chart, specification
from assocmem.report.heads import MAPPED, map_of
from assocmem.report.html import as_printed, inline_chart, significant, span, write_report
from browsing import Tab, browser

CURVES = {"kind": "curves", "x": "n_memories", "x_title": "M", "order": ["a", "b"], "rule": 1.0, "rule_text": "fails"}


def curve_rows():
    return [
        {"label": label, "n_memories": m, "value": scale * m**0.5, "low": 0.9 * scale * m**0.5,
         "high": 1.1 * scale * m**0.5, "theory": scale * m**0.5, "sampler": sampler, "n_trials": 5, "article": None}
        for label, scale in (("a", 0.1), ("b", 0.2))
        for sampler in SAMPLERS
        for m in (16, 64, 256)
    ]  # fmt: skip


def bar_rows():
    return [
        {"panel": panel, "index": i, "end": i + 0.9, "weight": 1.0 if i == 0 else 0.1 * (-1) ** i, "target": i == 0,
         "ratio": ratio}
        for panel, ratio in (("few", 0.5), ("many", 1.5))
        for i in range(8)
    ]  # fmt: skip


def glyph_rows():
    return [
        {"label": label, "n_memories": m, "row": r, "column": c, "ink": (r + c) / 8}
        for label in ("a", "b") for m in (1, 16) for r in range(4) for c in range(4)
    ]  # fmt: skip


def capacity_rows():
    return [
        {"label": "a", "value": 65.2, "low": 64.0, "high": 66.0, "theory": 65.0, "article": 64},
        {"label": "b", "value": None, "low": None, "high": None, "theory": None, "article": None, "largest_m": 4096.0},
        {"label": "c", "value": None, "low": None, "high": None, "theory": 12345.6, "article": None},
    ]


def token_rows():
    return [{"token": f"{i} a", "place": i, "weight": i / 8, "words": "b", "target": i == 4} for i in range(5)]


def panel_rows():
    rows = curve_rows()
    return [row | {"quantity": name} for row in rows for name in ("signal", "ratio")]


KINDS = {
    "curves": (curve_rows, CURVES),
    "joined curves": (curve_rows, CURVES | {"join": True, "x_log": False, "y_log": False}),
    "panels": (panel_rows, CURVES | {"kind": "panels", "panels": [
        {"where": {"quantity": "signal"}, "y_title": "signal"}, {"where": {"quantity": "ratio"}, "rule": 1.0}]}),
    "bars": (bar_rows, {"kind": "bars", "order": ["few", "many"], "columns": 2}),
    "glyphs": (glyph_rows, {"kind": "glyphs", "order": ["a", "b"]}),
    "capacities": (capacity_rows, {"kind": "capacities"}),
    "tokens": (token_rows, {"kind": "tokens", "x_title": "weight"}),
}  # fmt: skip


def result(kind, name="demo", **header):
    rows, view = KINDS[kind]
    texts = {"title": "Demo", "question": "What?", "caption": "So."}
    return Results(name, tuple(rows()), {"view": view, **texts, **header})


@pytest.mark.parametrize("mode", ["report", "paper"])
@pytest.mark.parametrize("kind", KINDS)
def test_every_chart_is_a_valid_specification_and_holds_its_rows(kind, mode):
    found = result(kind)
    validated = chart(found, mode=mode).to_dict()  # Altair checks it against the schema of Vega-Lite
    quick = specification(found, mode=mode)
    assert quick["config"]["axis"] == validated["config"]["axis"]
    named = set(re.findall(r'"data": \{"name": "([^"]+)"\}', json.dumps(quick)))
    assert named
    assert named <= set(quick["datasets"])
    assert all(quick["datasets"][name] for name in named)
    assert vl_convert.vegalite_to_svg(validated).startswith("<svg")
    assert ("params" in json.dumps(quick)) == (mode == "report" and kind in ("curves", "joined curves", "panels"))


@pytest.mark.parametrize(("across", "kind"), [(True, "log"), (False, "linear")])
def test_a_live_chart_of_a_view_without_limits_takes_them_from_its_rows(across, kind):
    view = {"kind": "curves", "x": "n_memories", "order": ["a"], "x_log": across}
    spec = specification(Results("demo", curve_rows(), {"view": view}), mode="live")
    places = [row["n_memories"] for row in curve_rows()]
    assert next(p["value"] for p in spec["params"] if p["name"] == "room") == max(places)
    axis = next(layer["encoding"]["x"]["scale"] for layer in spec["layer"] if "x" in layer.get("encoding", {}))
    assert (axis["type"], axis["domain"][0]) == (kind, min(places))


def test_a_broken_chart_does_not_pass_the_schema():
    drawn = chart(result("curves"), mode="paper")
    drawn.layer[0].mark = {"type": "no such mark"}
    with pytest.raises(Exception, match="no such mark"):
        drawn.to_dict()


def test_the_page_of_a_curve_has_log_axes_a_dashed_line_intervals_theory_and_a_legend():
    text = json.dumps(specification(result("curves")))
    assert text.count('"type": "log"') >= 2
    assert '"strokeDash": [5, 4]' in text
    assert '"bind": "legend"' in text
    for words in ("measured", "95 % from", "trials", "theory", "sampler"):
        assert f'"title": "{words}"' in text


LINE = ("line", "theory", {"x": "n_memories", "y": "theory", "color": "label"})
SPAN = ("rule", "spans", {"x": "n_memories", "y": "low", "y2": "high", "color": "label"})
POINT = ("point", "measured", {"x": "n_memories", "y": "value", "color": "label", "shape": "sampler"})
JOINED = ("line", "joined", {"x": "n_memories", "y": "value", "color": "label"})
PRINTED = ("point", "article", {"x": "n_memories", "y": "article", "color": "label"})
LEVEL = ("rule", "data", {"y": "level"})
TEXT = ("text", "data", {"y": "level", "text": "text"})
STROKE = ("point", "theory", {"x": "n_memories", "y": "theory", "color": "label"})
BAR = {"x": "index", "x2": "end", "y": "weight"}
BARS = [("bar", "bars", BAR), ("bar", "target", BAR), ("rule", "target", {"x": "index", "y": "weight"})]
LIVE = [
    ("rule", "marker", {"x": "n_memories"}),
    ("point", "labels", {"x": "n_memories", "y": "at", "color": "label"}),
    ("text", "labels", {"x": "n_memories", "y": "at", "text": "label"}),
    ("point", "theory", {"x": "n_memories", "y": "theory", "color": "label"}),
    ("point", "here", {"x": "n_memories", "y": "value"}),
]
ENCODED = {
    ("curves", "report"): [LINE, SPAN, POINT, LEVEL, TEXT],
    ("lone curves", "paper"): [LINE, JOINED, SPAN, POINT, PRINTED, LEVEL],
    ("two places", "report"): [STROKE, SPAN, POINT, LEVEL, TEXT],
    ("panels", "report"): 2 * [LINE, SPAN, POINT, LEVEL, TEXT],
    ("bars", "report"): 2 * BARS,
    ("bars", "live"): BARS,
    ("curves", "live"): [LINE, SPAN, POINT, LEVEL, TEXT, *LIVE],
    ("glyphs", "report"): [("rect", "ink", {
        "x": "column", "y": "row", "color": "ink", "column": "n_memories", "row": "label"})],
    ("capacities", "report"): [
        ("rule", "spans", {"x": "low", "x2": "high", "y": "label"}),
        ("point", "capacities", {"x": "capacity", "y": "label", "color": "what", "shape": "what"}),
        ("text", "numbers", {"x": "at", "y": "label", "text": "text"})],
}  # fmt: skip


def lone_rows():
    """Return curves of which one has no theory, with the article's points."""
    return [row | {"theory": None if row["label"] == "b" else row["theory"], "article": 1.0} for row in curve_rows()]


def short_rows():
    """Return curves measured at two places only, which no line joins."""
    return [row for row in curve_rows() if row["n_memories"] < 256]


MORE = {
    "lone curves": (lone_rows, CURVES | {"join": True, "rule_text": ""}),
    "two places": (short_rows, CURVES | {"join": True}),
}


def encoded(spec):
    """Return what each layer of a chart draws: its mark, the dataset, and the column behind each channel."""
    parts = spec.get("vconcat") or spec.get("concat") or [spec]
    for layer in [layer for part in parts for layer in part.get("layer", [part])]:
        columns = {channel: words["field"] for channel, words in layer["encoding"].items() if "field" in words}
        name = layer["data"]["name"]
        yield layer["mark"]["type"], name.rpartition("-")[0] or name, columns


@pytest.mark.parametrize(("kind", "mode"), ENCODED)
def test_each_layer_draws_the_columns_it_is_for(kind, mode):
    rows, view = (KINDS | MORE)[kind]
    spec = specification(Results("demo", tuple(rows()), {"view": view}), mode=mode)
    assert list(encoded(spec)) == ENCODED[kind, mode]


def test_a_map_of_heads_is_coloured_by_the_rank_of_the_column_that_is_picked():
    rows = [{"layer": 1, "head": h, **dict.fromkeys(MAPPED, 0.5 * h), MAPPED[-1]: None} for h in range(3)]
    drawn = map_of(rows)
    marks = {name: channel["field"] for name, channel in drawn["encoding"].items() if "field" in channel}
    assert marks == {"x": "head", "y": "layer", "color": "rank"}
    steps = drawn["transform"]
    assert (steps[0]["calculate"], steps[0]["as"]) == ("datum[quantity]", "shown")
    assert [step for step in steps if "window" in step] == [
        {"window": [{"op": "rank", "as": "rank"}], "sort": [{"field": "shown"}]}
    ]
    picked = next(p for p in drawn["params"] if p["name"] == "quantity")
    assert picked["bind"]["options"] == [*MAPPED[:-1]]  # a column without any number is not offered
    assert [t["field"] for t in drawn["encoding"]["tooltip"]] == ["layer", "head", *MAPPED[:-1]]
    assert drawn["data"]["values"] == rows


def test_a_layers_rows_are_those_of_its_result():
    rows = curve_rows()
    data = {name.rpartition("-")[0]: rows for name, rows in specification(result("curves"))["datasets"].items()}
    assert [[row[c] for c in ("value", "low", "high")] for row in data["spans"]] == [
        [row[c] for c in ("value", "low", "high")] for row in rows
    ]
    assert all(row["low"] < row["value"] < row["high"] for row in data["spans"])
    assert {(row["label"], row["n_memories"]): row["theory"] for row in data["theory"]} == {
        (row["label"], row["n_memories"]): row["theory"] for row in rows
    }
    data = {name.rpartition("-")[0]: rows for name, rows in specification(result("capacities"))["datasets"].items()}
    assert [(row["what"], row["capacity"]) for row in data["capacities"]] == [
        ("printed in the article", 64), ("exact theory", 65.0), ("exact theory", 12345.6),
        ("measured, 95 % interval", 65.2)]  # fmt: skip
    assert [(row["label"], row["at"], row["text"]) for row in data["numbers"]] == [
        ("a", 66.0, "65.2"), ("b", 4096.0, "over 4,096"), ("c", 12345.6, "12,346")]  # fmt: skip
    assert [(row["low"], row["high"]) for row in data["spans"]] == [(64.0, 66.0)]


@pytest.mark.parametrize("log", [True, False])
def test_axes_fit_what_is_drawn_and_its_ends_are_inside(log):
    view = CURVES | {"y_log": log, "x_log": log, "y_within": (0.5, 100.0), "join": True}
    spec = specification(Results("demo", tuple(curve_rows()), {"view": view}))
    across, up = (spec["layer"][0]["encoding"][channel]["scale"] for channel in ("x", "y"))
    low, high = across["domain"]
    assert low < 16 < 256 < high
    if log:  # within a tenth of the axis
        assert low > 16 / 1.4
        assert high < 256 * 1.4
        assert 0.5 < up["domain"][0] < 0.72  # the lowest interval above 0.5 begins there; points below aren't drawn
    assert 3.52 < up["domain"][1] < 4.2  # the highest interval ends at 3.52
    ticks = spec["layer"][0]["encoding"]["x"]["axis"]["values"] if log else [low]
    assert all(low <= tick <= high for tick in ticks)


@pytest.mark.parametrize(
    ("low", "high", "wanted"),
    [(10, 3e5, [10, 100, 1000, 10000, 100000]), (14, 4500, [100, 1000]), (0.2, 6, [0.3, 1, 3]),
     (1e-17, 10, [1e-15, 1e-12, 1e-9, 1e-6, 1e-3, 1]), (16, 32, None)],
)  # fmt: skip
def test_ticks_are_few_and_round(low, high, wanted):
    found = ticks(low, high)
    if wanted is None:
        assert found is None
    elif len(wanted) < 3:  # too few whole powers: others beside them
        assert found == pytest.approx([30, 100, 300, 1000, 3000])
    else:
        assert found == pytest.approx(wanted)


def test_limits_of_one_value_and_of_none_at_zero_have_a_width():
    for values, log in (((5.0,), True), ((0.0,), False), ((-2.0,), False)):
        low, high = limits(values, log)
        assert low < values[0] < high


def test_a_legend_lists_what_is_drawn_in_the_colours_that_it_has_beside_the_rest():
    whole = specification(result("curves"))["layer"][0]["encoding"]["color"]["scale"]
    rows = [row | {"value": None, "theory": None} if row["label"] == "a" else row for row in curve_rows()]
    part = specification(Results("demo", tuple(rows), {"view": CURVES}))["layer"][0]["encoding"]["color"]["scale"]
    assert (whole["domain"], part["domain"]) == (["a", "b"], ["b"])
    assert part["range"] == whole["range"][1:]
    rows = [row | {"value": None, "theory": None} if row["quantity"] == "signal" and row["label"] == "a" else row
            for row in panel_rows()]  # fmt: skip
    both = specification(Results("demo", tuple(rows), {"view": KINDS["panels"][1]}))["vconcat"]
    assert [part["layer"][0]["encoding"]["color"]["scale"] for part in both] == [whole, whole]  # panels share theirs


def test_points_off_a_log_axis_are_left_out_and_an_interval_that_reaches_zero_too():
    rows = ({"label": "a", "n_memories": 4, "value": 0.0, "low": 0.0, "high": 0.1, "sampler": "keys"},
            {"label": "a", "n_memories": 8, "value": 0.5, "low": 0.0, "high": 0.9, "sampler": "keys"},
            {"label": "a", "n_memories": 9, "value": None, "low": None, "high": None, "sampler": "keys"})  # fmt: skip
    data = specification(Results("demo", rows, {"view": CURVES}))["datasets"]
    points = next(rows for name, rows in data.items() if name.startswith("measured"))
    assert [row["n_memories"] for row in points] == [8]
    assert not any(name.startswith("spans") for name in data)


def test_two_definitions_do_not_share_an_axis():
    rows = [row | {"definition": f"d{i % 2}"} for i, row in enumerate(curve_rows())]
    with pytest.raises(InputError, match="one axis holds one quantity; these rows mix definitions: d0; d1"):
        specification(Results("demo", tuple(rows), {"view": CURVES}))


def test_an_unknown_chart_is_refused_by_name_and_so_is_a_table_without_numbers():
    with pytest.raises(UnknownNameError, match="known are curves, panels, bars, glyphs, capacities"):
        specification(Results("demo", (), {"view": {"kind": "pie"}}))
    rows = ({"label": "a", "quantity": "ratio", "value": None}, {"label": "a", "quantity": "capacity", "value": 3.0})
    for found in (Results("demo", ()), Results("demo", rows)):
        with pytest.raises(InputError, match="nothing to draw"):
            specification(found)


def test_pictures_are_what_their_names_say(tmp_path):
    spec = specification(result("curves"), mode="paper")
    paths = write_pictures(spec, tmp_path, "demo")
    assert [path.name for path in paths] == [f"demo.{kind}" for kind in FORMATS]
    starts = {"png": b"\x89PNG\r\n\x1a\n", "svg": b"<svg", "pdf": b"%PDF-"}
    for path in paths:
        assert path.read_bytes().startswith(starts[path.suffix[1:]]), path
    small = write_pictures(spec, tmp_path / "small", "demo", ("png",), 1.0)[0]
    width = [int.from_bytes(path.read_bytes()[16:20], "big") for path in (paths[0], small)]
    assert width[0] == pytest.approx(2 * width[1], abs=2)


def test_an_unknown_format_writes_nothing(tmp_path):
    with pytest.raises(InputError, match="`formats` must be among png, svg, pdf; got 'gif'"):
        write_pictures(specification(result("curves")), tmp_path, "demo", ("png", "gif"))
    assert list(tmp_path.iterdir()) == []


def test_text_from_results_stays_text(tmp_path):
    evil = "</script><script>alert(1)</script><img src=x onerror=alert(2)>"
    rows = [row | {"label": evil} for row in curve_rows()]
    made = Results(
        "demo", tuple(rows), {"view": CURVES | {"order": [evil]}, "title": evil, "question": evil, "caption": evil}
    )
    verdict = {
        "name": evil, "printed": evil, "value": 1.0, "low": None, "high": None, "exact": None, "exact_kind": None,
        "statistic": "rms", "sampler": "keys", "verdict": "agrees", "reason": evil,
    }  # fmt: skip
    page = write_report(
        tmp_path / "index.html", [made], title=evil, verdicts=[verdict], facts={evil: evil}, unfinished=[evil]
    )
    text = page.read_text(encoding="utf-8")
    assert "<img src=x" not in text
    outside = text.replace(script_bundle().replace("</script", "<\\/script"), "")
    assert outside.count("<script") == outside.count("</script>") == 3
    assert "alert(1)" in outside
    held = re.search(r'<script type="application/json" data-chart="demo">(.*?)</script>', text, re.S)
    assert json.loads(held[1])["datasets"]


def test_the_report_lists_files_that_are_there_and_results_that_are_not(tmp_path):
    found = result("curves", name="first")
    found.write(tmp_path)
    text = write_report(tmp_path / "index.html", [found], title="T", unfinished=["second"]).read_text()
    assert 'href="first.csv"' in text
    assert 'href="first.ndjson"' in text
    assert 'href="first.png"' not in text
    assert "Not run, so not shown: second." in text
    assert 'id="verdict"' not in text


def test_the_report_opens_with_its_lead_and_ends_with_the_table(tmp_path):
    verdict = {
        "name": "n", "printed": 1, "value": 1.0, "low": None, "high": None, "exact": None, "exact_kind": None,
        "statistic": "rms", "sampler": "keys", "verdict": "agrees", "reason": "",
    }  # fmt: skip
    found = [result("curves", name=name) for name in ("best", "first", "second")]
    text = write_report(tmp_path / "i.html", found[1:], title="T", verdicts=[verdict], lead=found[0]).read_text()
    places = [text.index(f'id="{name}"') for name in ("chart-best", "chart-first", "chart-second", "verdict")]
    assert places == sorted(places)
    assert 'href="#best"' not in text
    assert text.index("</h1>") < places[0] < text.index('<p class="lead">So.</p>') < places[1]


def test_charts_made_before_are_taken_as_they_are(tmp_path):
    found = result("curves")
    text = write_report(tmp_path / "i.html", [found], title="T", charts={"demo": '{"mine":1}'}).read_text()
    assert 'data-chart="demo">{"mine":1}</script>' in text


def test_inline_charts_are_safe_inside_a_script_and_hold_no_nan():
    assert inline_chart({"a": "</script>\u2028"}) == '{"a":"\\u003c/script>\\u2028"}'
    with pytest.raises(ValueError, match="JSON"):
        inline_chart({"a": float("nan")})


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, "–"), (0, "0"), (1.299e-15, "0"), (1272264.445, "1,272,264"), (0.00038, "3.800e-04"), (65, "65.00"),
     (2.5, "2.500"), (1.0003, "1.000"), (1.23456, "1.235"), (999.94, "999.9"), (999.96, "1,000"), (-2000.4, "-2,000")],
)  # fmt: skip
def test_measured_numbers_keep_four_digits(value, text):
    assert significant(value) == text


def test_intervals_and_printed_numbers():
    assert (span(0.9953, 1.005), span(None, 1.0), span(1.0, None)) == ("0.9953 to 1.005", "–", "–")
    printed = [as_printed(x) for x in (None, "a few dozen", 1.0, 0.0, 0.0001, 15.9, 64, 1200000)]
    assert printed == ["–", "a few dozen", "1.0", "0.0", "0.0001", "15.9", "64", "1,200,000"]


def test_on_a_phone_charts_tables_and_links_stay_inside_the_page(tmp_path):
    pytest.importorskip("playwright.sync_api", reason="needs playwright")
    names = ("a-rather-long-name", "another-long-name")
    results = [result("curves", name=name) for name in names]
    for name in names:
        for kind in ("png", "svg", "pdf", "csv", "ndjson"):
            (tmp_path / f"{name}.{kind}").touch()
    verdict = {
        "name": "a number", "printed": 2000000, "value": 1e6, "low": 1e6, "high": 1e6, "exact": 1e6,
        "exact_kind": "exact", "statistic": "rms", "sampler": "keys", "verdict": "agrees", "reason": "",
    }  # fmt: skip
    facts = {"machine": "Linux-6.1.0-x86_64-with-glibc2.36" * 3}
    page = write_report(tmp_path / "index.html", results, title="T", verdicts=[verdict], facts=facts)
    with browser() as running:
        tab = Tab(running, width=400)
        tab.page.goto(page.as_uri())
        tab.page.wait_for_function("document.querySelectorAll('.chart[data-drawn]').length === 2", timeout=30_000)
        tab.settle()
        assert tab.page.evaluate("document.documentElement.scrollWidth") == 400
        assert tab.page.locator(".chart").first.evaluate("(e) => e.scrollWidth === e.clientWidth")
        assert tab.page.locator(".chart svg").first.evaluate("(e) => e.getBoundingClientRect().width") > 300
        inside = "(e) => e.scrollWidth > e.clientWidth && e.getBoundingClientRect().right <= 400"
        assert tab.page.locator(".wide").first.evaluate(inside)  # a table scrolls in its own box
        tab.close()
