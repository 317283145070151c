"""`assocmem measure`: a user's own arrays in every form they come in."""

from __future__ import annotations

import numpy as np
import pytest
from safetensors.numpy import save_file

from assocmem.contract.results import Results
from commandline import strict_json

D = 16


@pytest.fixture
def arrays(tmp_path):
    """Write keys that share a mean and other arrays; return their folder."""
    rng = np.random.default_rng(0)
    keys = rng.standard_normal((400, D)) + 1.0
    heads = np.stack([rng.standard_normal((200, D)), rng.standard_normal((200, D)) + 2.0])
    targets = rng.permutation(400)[:60]
    noisy = keys[targets] + 0.8 * rng.standard_normal((60, D))
    np.save(tmp_path / "keys.npy", keys)
    np.save(tmp_path / "heads.npy", heads)
    np.save(tmp_path / "values.npy", rng.standard_normal((400, 8)))
    np.save(tmp_path / "queries.npy", noisy)
    np.save(tmp_path / "targets.npy", targets)
    np.savez(tmp_path / "many.npz", first=keys, second=2 * keys)
    save_file({"layer.0": keys.astype(np.float32), "layer.1": heads[0].astype(np.float16)}, tmp_path / "w.safetensors")
    return tmp_path


def capacities(data, **columns):
    return [row for row in data["capacities"] if all(row[name] == value for name, value in columns.items())]


def test_raw_keys_fail_where_centred_and_whitened_ones_hold_and_the_words_say_why(ask, arrays):
    data = ask(
        "measure", "--keys", arrays / "keys.npy", "--store", "outer-product", "--centre", "--whiten", "--normalise",
        "--json",
    ).json  # fmt: skip
    raw, centred, whitened = (
        capacities(data, preparation=name)[0]["value"] for name in ("raw", "centred", "whitened")
    )  # fmt: skip
    assert raw < 6 < 12 < centred
    assert whitened == pytest.approx(D + 1, rel=0.2)
    assert any("share a mean" in words for words in data["words"])
    shape = data["geometry"][0]
    assert shape["mean_cosine"] == pytest.approx(0.5, abs=0.1)
    assert {"value", "right", "effective_dimension", "participation_ratio"} <= set(data["definitions"])
    said = ask(
        "measure", "--keys", arrays / "keys.npy", "--store", "outer-product", "--centre", "--whiten", "--normalise"
    )
    assert (said.status, said.err) == (0, "")
    assert "keys of shape (400, 16)" in said.out
    for word in ("raw", "centred", "whitened", "effective dimension", "Raw keys share a mean"):
        assert word in said.out


def test_the_stores_default_to_three_and_are_chosen_by_name(ask, arrays):
    data = ask("measure", "--keys", arrays / "keys.npy", "--max-memories", 64, "--json").json
    assert [row["label"] for row in data["capacities"]] == ["outer-product", "squared-relu", "softmax"]
    assert max(row["n_memories"] for row in data["curve"]) == 64
    data = ask(
        "measure", "--keys", arrays / "keys.npy", "--store", "softmax", "--store", "relu", "--beta", "5e-1",
        "--max-memories", 32, "--json",
    ).json  # fmt: skip
    assert [(row["label"], row["beta"]) for row in data["capacities"]] == [("softmax", 0.5), ("relu", None)]


def test_heads_give_a_row_each(ask, arrays):
    data = ask("measure", "--keys", arrays / "heads.npy", "--store", "outer-product", "--normalise", "--json").json
    first, second = data["capacities"]
    assert (first["head"], second["head"]) == (0, 1)
    assert first["value"] == pytest.approx(D + 1, rel=0.2)
    assert second["value"] < 4
    assert any(words.startswith("Head 1: Raw keys share a mean") for words in data["words"])
    said = ask("measure", "--keys", arrays / "heads.npy", "--store", "outer-product", "--normalise")
    assert "head" in said.out


def test_arrays_are_picked_from_containers(ask, arrays):
    lone = ask("measure", "--keys", arrays / "keys.npy", "--store", "relu", "--normalise", "--json").json
    picked = ask("measure", "--keys", f"{arrays / 'many.npz'}:second", "--store", "relu", "--normalise", "--json").json
    single = ask(
        "measure", "--keys", f"{arrays / 'w.safetensors'}:layer.0", "--store", "relu", "--normalise", "--json"
    ).json
    half = ask("measure", "--keys", f"{arrays / 'w.safetensors'}:layer.1", "--store", "relu", "--json")
    assert picked["capacities"][0]["value"] == pytest.approx(lone["capacities"][0]["value"], rel=1e-9)
    assert single["capacities"][0]["value"] == pytest.approx(lone["capacities"][0]["value"], rel=1e-4)
    assert half.json["geometry"][0]["n_rows"] == 200


def test_values_and_queries_of_ones_own(ask, arrays):
    words = ["measure", "--keys", arrays / "keys.npy", "--store", "softmax", "--beta", 4, "--normalise"]
    clean = ask(*words, "--values", arrays / "values.npy", "--json").json
    noisy = ask(*words, "--queries", arrays / "queries.npy", "--targets", arrays / "targets.npy", "--json").json
    assert {row["estimator"] for row in clean["curve"]} == {"vectors"}
    at = max(row["n_memories"] for row in noisy["curve"])
    ratio = {
        name: next(row["value"] for row in data["curve"] if row["n_memories"] == at)
        for name, data in (("clean", clean), ("noisy", noisy))
    }
    assert ratio["noisy"] > 1.2 * ratio["clean"]


def test_the_whole_curve_goes_to_a_folder(ask, arrays, tmp_path):
    out = tmp_path / "found"
    said = ask("measure", "--keys", arrays / "keys.npy", "--store", "relu", "--out", out, "--seed", 5)
    assert said.status == 0
    assert str(out / "measured.csv") in "".join(said.out.split("\n"))
    assert sorted(path.name for path in out.iterdir()) == ["measured.csv", "measured.ndjson"]
    for name in ("measured.csv", "measured.ndjson"):
        found = Results.load(out / name)
        assert found.header["seed"] == 5
        assert found.header["config"]["keys"] == "keys.npy"
        assert found.header["definitions"]["right"]
        assert found.header["words"]
        assert len(found.rows) > 5


def test_the_same_seed_gives_the_same_numbers_whatever_the_workers(ask, arrays):
    words = ["measure", "--keys", arrays / "keys.npy", "--store", "relu", "--max-memories", 64, "--json"]
    first, again, other = (ask(*words, "--seed", seed, "--workers", n).json for seed, n in ((1, 1), (1, 2), (2, 1)))
    assert first == again
    assert first["curve"] != other["curve"]


def test_digit_images_as_keys(ask, tmp_path):
    datasets = pytest.importorskip("sklearn.datasets")
    np.save(tmp_path / "digits.npy", datasets.load_digits().data)
    said = ask("measure", "--keys", tmp_path / "digits.npy", "--centre", "--whiten", "--normalise", "--json")
    assert said.status == 0
    data = said.json
    assert {row["label"] for row in data["capacities"]} == {"outer-product", "squared-relu", "softmax"}
    raw = {row["label"]: row for row in capacities(data, preparation="raw")}
    assert raw["outer-product"]["value"] < 4
    whitened = {row["label"]: row for row in capacities(data, preparation="whitened")}
    assert whitened["outer-product"]["value"] > 30
    dropped = {row["preparation"]: row["columns_dropped"] for row in data["geometry"]}
    assert 0 < dropped["raw"] <= dropped["whitened"]
    assert any(words.startswith("Raw keys share a mean") for words in data["words"])
    for row in data["capacities"]:
        assert row["value"] is not None or row["reason"].startswith("not reached below M = ")


def test_a_ratio_without_end_is_null_in_json_and_said(ask, tmp_path):
    keys = np.random.default_rng(0).standard_normal((40, 8))
    keys[3] = 0
    np.save(tmp_path / "keys.npy", keys)
    words = ["measure", "--keys", tmp_path / "keys.npy", "--store", "outer-product", "--statistic", "rms"]
    data = ask(*words, "--json").json
    assert any(row["value"] is None and row["n_memories"] > 2 for row in data["curve"])
    assert "infinite" in data["capacities"][0]["reason"]
    assert data["geometry"][0]["zero_rows"] == 1
    out = tmp_path / "out"
    assert ask("measure", "--keys", tmp_path / "keys.npy", "--store", "outer-product", "--out", out).status == 0
    for line in (out / "measured.ndjson").read_text().splitlines():
        strict_json(line)
