"""A user's own arrays: ratios, choices, capacities, preparations, and the words about them."""

from __future__ import annotations

import numpy as np
import pytest

from assocmem.contract.errors import InputError, NonFiniteError
from assocmem.inputs import EqualCosine
from assocmem.lab.given import given
from assocmem.lab.measure import measure
from assocmem.lab.prepared import Prepared


def drawn(n=300, d=16, seed=0):
    return np.random.default_rng(seed).standard_normal((n, d))


def by(found, **columns):
    rows = [row for row in found.capacities if all(row[name] == value for name, value in columns.items())]
    assert len(rows) == 1
    return rows[0]


def test_random_keys_have_the_capacity_of_random_keys():
    found = measure(drawn(400, 24), stores=["outer-product", "softmax"], normalise=True, workers=1)
    outer = by(found, store="outer-product")
    assert outer["rms"] == pytest.approx(25, rel=0.05)
    assert outer["normalised"] is True
    soft = by(found, store="softmax")
    assert soft["value"] is None
    assert soft["beyond"] > 400
    ratios = {(r["store"], r["n_memories"]): r for r in found.curve}
    assert ratios["outer-product", 400]["value"] == pytest.approx(np.sqrt(399 / 24), rel=0.1)
    assert ratios["softmax", 400]["right"] > 0.9 > 0.5 > ratios["outer-product", 400]["right"]


def test_a_shared_mean_ruins_raw_keys_and_the_words_say_why():
    keys = EqualCosine(0.5).draw(np.random.default_rng(0), 500, 32)
    found = measure(keys, stores=["outer-product"], preparation=["raw", "centre"], normalise=True, workers=1)
    raw, centred = by(found, preparation="raw"), by(found, preparation="centred")
    assert raw["value"] < 6 < 25 < centred["value"]
    words = next(w for w in found.words if w.startswith("Raw"))
    assert "share a mean" in words
    assert "cosine 0.50 on average" in words
    assert "near M = 5 instead of 33" in words
    assert not any(w.startswith("Centred keys share") for w in found.words)
    assert found.geometry[0]["mean_cosine"] == pytest.approx(0.5, abs=0.01)


def test_whitening_is_fitted_on_other_rows_and_evens_directions_out():
    keys = drawn(900, 16) * np.linspace(0.1, 2, 16)
    found = measure(keys, stores=["outer-product"], preparation=["centre", "whiten"], normalise=True, workers=1)
    centred, whitened = by(found, preparation="centred"), by(found, preparation="whitened")
    assert whitened["value"] > 1.2 * centred["value"]
    assert whitened["n_fitted"] == 300
    assert whitened["n_rows"] == 600 == max(r["n_memories"] for r in found.curve)


def test_raw_alone_uses_every_row_and_several_use_the_same():
    keys = drawn(90)
    assert measure(keys, stores=["outer-product"], workers=1).capacities[0]["n_rows"] == 90
    both = measure(keys, stores=["outer-product"], preparation=["raw", "whiten"], workers=1)
    assert {row["n_rows"] for row in both.capacities} == {60}


def test_columns_without_variance_are_dropped_and_counted():
    keys = np.hstack([drawn(200, 8), np.zeros((200, 2)), np.full((200, 1), 3.0)])
    found = measure(keys, stores=["outer-product"], preparation=["raw", "centre"], workers=1)
    assert by(found, preparation="raw")["columns_dropped"] == 2
    assert by(found, preparation="centred")["columns_dropped"] == 3
    assert by(found, preparation="centred")["d_k"] == 8


def test_what_is_not_reached_is_said_with_the_ratio_there():
    found = measure(drawn(60, 32), stores=["softmax"], normalise=True, workers=1)
    row = found.capacities[0]
    assert row["value"] is None
    assert row["reason"].startswith("not reached below M = 60, all the rows there are; the ratio there is 0.")
    assert row["ratio_there"] < 1


def test_the_largest_m_may_be_named_and_the_rows_bound_it():
    found = measure(drawn(60, 8), stores=["relu"], largest=20, workers=1)
    assert [row["n_memories"] for row in found.curve] == [2, 3, 4, 6, 8, 11, 16, 20]
    assert "the largest that was measured" in found.capacities[0]["reason"] or found.capacities[0]["value"]
    assert measure(drawn(60, 8), stores=["relu"], largest=999, workers=1).curve[-1]["n_memories"] == 60


def test_every_head_has_a_row_of_its_own():
    keys = np.stack([drawn(100, 8), EqualCosine(0.8).draw(np.random.default_rng(1), 100, 8)])
    found = measure(keys, stores=["outer-product", "relu"], normalise=True, workers=1)
    assert [(row["head"], row["store"]) for row in found.capacities] == [
        (0, "outer-product"), (0, "relu"), (1, "outer-product"), (1, "relu"),
    ]  # fmt: skip
    assert by(found, head=1, store="relu")["value"] < by(found, head=0, store="relu")["value"]
    assert any(words.startswith("Head 1: Raw keys share a mean") for words in found.words)


def test_what_heads_agree_on_is_said_once():
    keys = np.stack([drawn(60, 32, seed) for seed in range(4)])
    keys[3] /= np.linalg.norm(keys[3], axis=1, keepdims=True)
    words = measure(keys, stores=["outer-product"], trials=2, workers=1).words
    assert len([w for w in words if "have a mean squared length of" in w]) == 1
    said = next(w for w in words if w.startswith("Heads 0 to 2: Raw keys have a mean squared length of "))
    squares = [float(np.mean(np.sum(keys[head] ** 2, axis=-1))) for head in range(3)]
    assert f"length of {min(squares):.3g}–{max(squares):.3g}." in said
    same = measure(np.stack([keys[0]] * 2), stores=["outer-product"], trials=2, workers=1).words
    assert any(w.startswith("Heads 0 and 1: Raw keys have lengths from") for w in same)


def test_long_keys_sharpen_softmax_and_the_words_and_the_note_say_by_how_much():
    keys = drawn(60, 64)
    found = measure(keys, stores=["softmax", "outer-product"], trials=4, workers=1)
    square = np.mean(np.sum(keys**2, axis=1))
    assert (
        f"mean squared length {square:.3g}, a beta of 8 is as sharp as {8 * square:.3g}" in found.capacities[0]["note"]
    )
    assert "as sharp as" not in found.capacities[1]["note"]
    advice = next(w for w in found.words if "sharpness beta" in w)
    assert f"here it acts as {square:.3g} times as much" in advice
    assert f"give beta = {8 / square:.3g} for what 8 is on unit keys" in advice
    assert f"a transformer's own 1/sqrt(d_k), 0.125, acts here as {square / 8:.3g}" in advice
    told = measure(keys, stores=["softmax"], beta=0.125, workers=1)
    assert not any("sharpness beta" in w for w in told.words)
    assert f"a beta of 0.125 is as sharp as {0.125 * square:.3g} is on unit keys" in told.capacities[0]["note"]
    asked = measure(keys, queries=0.5 * keys, targets="own", stores=["softmax"], beta=0.125, workers=1)
    assert f"as sharp as {0.0625 * square:.3g} is on unit keys" in asked.capacities[0]["note"]
    unit = measure(keys, stores=["softmax"], normalise=True, trials=4, workers=1)
    assert "as sharp as" not in unit.capacities[0]["note"]
    assert not any("beta" in w for w in unit.words)


def test_rows_of_length_zero_are_named_by_their_place_in_the_array():
    keys = drawn(40, 6)
    keys[[7, 31]] = 0
    found = measure(keys, stores=["softmax"], trials=2, workers=1)
    assert any("rows 7, 31 have length zero" in w for w in found.words)
    keys[31] = 1
    split = [
        measure(keys, stores=["softmax"], preparation=["raw", "centre"], trials=2, seed=seed, workers=1).words
        for seed in range(4)
    ]
    named = [w for words in split for w in words if w.startswith("Raw") and "length zero" in w]
    assert named
    assert all("row 7 has length zero" in w for w in named)
    with pytest.raises(InputError, match="row 7 of `keys` has length zero"):
        measure(keys, stores=["softmax"], normalise=True, workers=1)


@pytest.mark.parametrize("scale", [1e300, 1e-300])
def test_keys_of_any_length_may_be_prepared_and_normalised(scale):
    keys, kinds = drawn(90, 6), ["raw", "centre", "whiten"]
    settings = {"stores": ["outer-product"], "preparation": kinds, "normalise": True, "trials": 6, "workers": 1}
    plain, scaled = measure(keys, **settings), measure(keys * scale, **settings)
    for a, b in zip(plain.capacities, scaled.capacities, strict=True):
        assert a["value"] == pytest.approx(b["value"], rel=1e-6)
        assert (a["d_k"], b["d_k"]) == (6, 6)
    assert measure(keys * scale, stores=["softmax"], trials=2, workers=1).words  # in words, without a warning


def test_columns_constant_in_the_fitting_rows_alone_are_not_called_without_variance():
    found = measure(np.eye(40), stores=["outer-product"], preparation=["raw", "centre", "whiten"], trials=2, workers=1)
    dropped = {row["preparation"]: row["columns_dropped"] for row in found.capacities}
    assert dropped == {"raw": 0, "centred": 0, "whitened": 27}
    assert any("27 of 40 columns are constant in the rows it was fitted on" in w for w in found.words)
    aside = (
        "13 of the 40 rows, drawn at random, were set aside to fit the mean and the whitening; everything is measured"
    )
    assert any(w.startswith(aside) for w in found.words)
    assert not any("set aside" in w for w in measure(np.eye(9), stores=["relu"], trials=2, workers=1).words)


@pytest.mark.parametrize(("rows", "left"), [(2, 0), (3, 1)])
@pytest.mark.parametrize("kind", ["centre", "whiten"])
def test_too_few_rows_to_fit_and_to_measure_are_refused_in_a_sentence(rows, left, kind):
    with pytest.raises(InputError, match=f"which leaves {left} to measure; at least 2 must be left, so give more rows"):
        measure(drawn(rows, 4), preparation=["raw", kind], workers=1)
    assert measure(drawn(4, 4), stores=["relu"], preparation=["raw", kind], workers=1).capacities[0]["n_rows"] == 2


def test_own_values_are_read_by_vectors():
    keys, rng = drawn(100, 16), np.random.default_rng(3)
    random = measure(keys, rng.standard_normal((100, 12)), stores=["outer-product"], normalise=True, workers=1)
    alike = measure(keys, 1 + 0.1 * rng.standard_normal((100, 12)), stores=["outer-product"], normalise=True, workers=1)
    assert {row["estimator"] for row in random.curve} == {"vectors"}
    assert random.curve[-1]["value"] == pytest.approx(np.sqrt(99 / 16), rel=0.2)
    assert alike.curve[-1]["right"] < random.curve[-1]["right"] + 0.2


def test_own_queries_ask_for_their_targets():
    keys = drawn(200, 24)
    keys /= np.linalg.norm(keys, axis=1, keepdims=True)
    targets = np.arange(0, 200, 2)
    exact = measure(keys, queries=keys[targets], targets=targets, stores=["squared-relu"], workers=1)
    weak = measure(keys, queries=0.5 * keys[targets], targets=targets, stores=["squared-relu"], workers=1)
    wrong = measure(keys, queries=keys[targets + 1], targets=targets, stores=["squared-relu"], workers=1)
    assert weak.curve[-1]["value"] == pytest.approx(exact.curve[-1]["value"], rel=1e-9)  # ReLU² scales both alike
    assert exact.curve[-1]["right"] > 0.9
    assert wrong.curve[-1]["right"] < 0.1


def test_queries_keep_rows_to_themselves_when_a_preparation_is_fitted():
    keys, targets = drawn(120, 8), np.arange(30)
    given_rows = given(keys, queries=keys[targets], targets=targets)
    one = Prepared.of(given_rows, 0, "whitened", fit=40, normalise=False, seed=0)
    assert len(one.kept) == 80
    assert set(targets) <= set(one.kept)


def test_beta_goes_to_the_stores_that_take_one():
    keys = drawn(60, 8)
    found = measure(keys, stores=["softmax", "relu"], beta=3.0, normalise=True, workers=1)
    assert by(found, store="softmax")["beta"] == 3.0
    assert by(found, store="relu")["beta"] is None
    with pytest.raises(InputError, match="none of the stores takes a sharpness"):
        measure(keys, stores=["relu"], beta=3.0, workers=1)


def test_a_store_that_refuses_the_keys_says_why():
    found = measure(drawn(40, 8) * 1e200, stores=["cubed-relu", "softmax"], memories=[4, 8], workers=1)
    row = by(found, store="cubed-relu")
    assert row["value"] is None
    assert "left the range" in row["reason"]
    assert not [r for r in found.curve if r["store"] == "cubed-relu"]


def test_results_do_not_depend_on_the_number_of_workers():
    keys = drawn(80, 8)
    assert measure(keys, workers=1, seed=4) == measure(keys, workers=3, seed=4)


def test_any_array_library_may_bring_the_keys():
    torch = pytest.importorskip("torch")
    keys = drawn(50, 8)
    assert measure(torch.tensor(keys), workers=1).capacities == measure(keys, workers=1).capacities


@pytest.mark.parametrize(
    ("settings", "error", "words"),
    [
        ({"keys": np.ones(5)}, InputError, r"`keys` must have shape \(n, d\), \(heads, n, d\)"),
        ({"keys": np.ones((1, 4))}, InputError, "n >= 2"),
        ({"keys": np.full((9, 4), np.nan)}, NonFiniteError, "row 0"),
        ({"values": np.ones((7, 3))}, InputError, "`values` must have one row for each"),
        ({"queries": np.ones((3, 4))}, InputError, "go together"),
        ({"queries": np.ones((3, 5)), "targets": [0, 1, 2]}, InputError, "the width of the keys"),
        ({"queries": np.ones((3, 4)), "targets": [0, 1]}, InputError, "row for each of 3 queries"),
        ({"queries": np.ones((1, 4)), "targets": [99]}, InputError, r"lie in \[0, 20\)"),
        ({"preparation": "bleach"}, InputError, "raw, centre and whiten"),
        ({"preparation": []}, InputError, "at least one"),
        ({"memories": [30]}, InputError, "from 1 to the 20 rows"),
        ({"largest": 1}, InputError, "`largest` must be"),
        ({"keys": np.ones((20, 3)), "preparation": "centre"}, InputError, "`keys` are constant in every column"),
        ({"fit_share": 1.0}, InputError, "`fit_share` must lie"),
        ({"trials": 0}, InputError, "`trials` and `asked`"),
    ],
)
def test_arrays_that_do_not_fit_are_refused(settings, error, words):
    given = {"keys": drawn(20, 4)} | settings
    with pytest.raises(error, match=words):
        measure(given.pop("keys"), given.pop("values", None), workers=1, **given)


def test_digit_images_raw_centred_and_whitened():
    digits = pytest.importorskip("sklearn.datasets").load_digits().data
    assert digits.shape == (1797, 64)
    found = measure(digits, preparation=["raw", "centre", "whiten"], normalise=True, trials=8, asked=16)
    value = {(r["preparation"], r["store"]): r["value"] for r in found.capacities}
    assert value["raw", "outer-product"] < 5 < value["centred", "outer-product"] < 30
    assert value["raw", "squared-relu"] < 10 < value["centred", "squared-relu"] < value["whitened", "squared-relu"]
    assert value["raw", "softmax"] < 60
    assert value["centred", "softmax"] is value["whitened", "softmax"] is None
    assert (
        by(found, preparation="raw", store="softmax")["rms"] < by(found, preparation="centred", store="softmax")["rms"]
    )
    assert by(found, preparation="whitened", store="softmax")["ratio_there"] < 0.5
    assert by(found, preparation="raw", store="softmax")["columns_dropped"] == 3
    assert found.words[0].startswith("Raw keys share a mean")


@pytest.mark.parametrize(("rows", "width"), [(2000, 64), (900, 128)])
def test_the_words_say_what_a_whitening_from_few_rows_costs(rows, width):
    keys = np.random.default_rng(5).standard_normal((rows, width))
    found = measure(keys, stores=["outer-product"], preparation=["whiten"], largest=32, trials=2, workers=1)
    count = int(found.words[-1].split()[0])
    said = int(found.words[-1].split("worth ")[1].split()[0])
    assert said == round(width * (1 - width / count))
    assert said == pytest.approx(found.geometry[0]["effective_dimension"], rel=0.03)


def test_a_whitening_from_many_rows_is_not_called_uncertain():
    keys = np.random.default_rng(6).standard_normal((3000, 8))
    found = measure(keys, stores=["outer-product"], preparation=["whiten"], largest=32, trials=2, workers=1)
    assert not any("uncertain" in words for words in found.words)


def test_rows_of_length_zero_are_named_head_by_head_and_never_as_a_range():
    keys = np.random.default_rng(0).standard_normal((3, 60, 8))
    for head, rows in enumerate(([3, 10], [7, 50], [7, 50])):
        keys[head, rows] = 0
    words = measure(keys, stores=["relu"], trials=2, workers=1, largest=8).words
    named = [w for w in words if "have length zero" in w]
    assert [w.partition(" have")[0] for w in named] == [
        "Head 0: Raw keys: rows 3, 10",
        "Heads 1 and 2: Raw keys: rows 7, 50",
    ]


def test_a_whitening_is_judged_by_the_columns_that_vary():
    keys = np.random.default_rng(1).standard_normal((800, 64))
    keys[:, 32:] = 1.0
    found = measure(keys, stores=["relu"], preparation=["whiten"], largest=8, trials=2, workers=1)
    assert "worth 28 of their 32 dimensions" in found.words[-1]


def test_values_of_a_head_that_are_all_zero_are_refused():
    keys = np.random.default_rng(2).standard_normal((2, 20, 8))
    values = np.ones((2, 20, 3))
    values[1] = 0
    with pytest.raises(InputError, match="`values` of head 1 must not all be zero"):
        measure(keys, values, stores=["relu"], workers=1)


@pytest.mark.parametrize("wrong", [["a", 2], [[2]], [2.5], [0], []])
def test_memories_are_whole_numbers(wrong):
    keys = np.random.default_rng(3).standard_normal((20, 8))
    with pytest.raises(InputError, match="`memories` must be whole numbers"):
        measure(keys, stores=["relu"], memories=wrong, trials=2, workers=1)
    found = measure(keys, stores=["relu"], memories=np.array([8.0, 4.0]), trials=2, workers=1)
    assert [type(row["n_memories"]) for row in found.curve] == [int, int]


@pytest.mark.parametrize("dtype", ["float16", "float32", "bfloat16"])
def test_directions_of_a_narrow_dtype_are_its_rounding(dtype):
    rng = np.random.default_rng(5)
    rows = rng.normal(size=(300, 8)) @ rng.normal(size=(8, 64)) + 3
    if dtype == "bfloat16":
        given = (rows.astype(np.float32).view(np.uint32) & 0xFFFF0000).view(np.float32)
    else:
        given = rows.astype(dtype)
    found = measure(
        given, stores=["optimal-linear"], preparation=["raw", "whiten"], trials=4, came=dtype, workers=1, d_v=16
    )
    assert [row["d_k"] for row in found.geometry] == [64, 8]
    exact = measure(rows, stores=["optimal-linear"], preparation=["raw", "whiten"], trials=4, workers=1, d_v=16)
    for one, other in zip(found.capacities, exact.capacities, strict=True):
        assert abs(one["value"] - other["value"]) < 0.02 * other["value"]
    assert found.capacities[0]["value"] < 40
