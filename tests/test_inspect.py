"""`assocmem inspect`: one screen, tables and an offline page; bad input is one sentence and writes nothing."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from assocmem.contract.results import Results
from assocmem.lab.heads import COLUMNS
from browsing import browser
from trained import live_smollm2, minilm, needed, smollm2

NETWORKS = ["llama", "qwen2", "gemma2", "gpt2", "bert", "vit"]


@pytest.mark.parametrize("name", NETWORKS)
def test_a_random_network_is_inspected_whole(name, folder, ask, tmp_path):
    said = ask("inspect", folder(name), "--out", tmp_path, "--contexts", "4k")
    assert said.status == 0, said.err
    assert f"architecture  {name}" in said.out
    assert "Heads: median of each layer" in said.out
    assert "MLPs: rows asked by their own direction" in said.out
    assert ("Embedding: 60 tokens" in said.out) == (name != "vit")
    heads = Results.load(tmp_path / "heads.csv")
    assert len(heads.rows) == 12
    assert set(heads.columns) == set(COLUMNS)
    assert len(Results.load(tmp_path / "contexts.csv").rows) == 12 * 6
    assert sorted(path.name for path in tmp_path.iterdir()) == ["contexts.csv", "heads.csv", "heads.html"]


def test_json_holds_the_same_numbers_with_definitions(folder, ask):
    found = ask("inspect", folder("llama"), "--layers", "1:3", "--contexts", "4k,1000", "--json").json
    assert [row["layer"] for row in found["heads"]] == [1] * 4 + [2] * 4
    assert {row["n_memories"] for row in found["contexts"]} == {4096, 1000}
    assert [row["layer"] for row in found["mlp"]] == [1, 2]
    assert found["definitions"]["sink_mass"] == COLUMNS["sink_mass"]
    assert found["model"]["note"] == "it has no tokeniser and reads 64 random tokens"


def test_one_head_and_one_mlp_go_deep(folder, ask, tmp_path):
    np.save(tmp_path / "text.npy", np.arange(3, 30))
    said = ask("inspect", folder("llama"), "--text", tmp_path / "text.npy", "--head", "1.3", "--contexts", "4k")
    assert "Layer 1, head 3 (key store 1): 25 queries on 26 keys" in said.out
    assert "Strongest interference" in said.out
    assert "ssmax" in said.out
    assert "Rows that add most" in ask("inspect", folder("vit"), "--mlp", 0).out
    said = ask("inspect", folder("llama"), "--text", tmp_path / "text.npy", "--mlp", 2)
    assert "Layer 2: 48 rows" in said.out
    assert "Rows that add most" in said.out
    found = ask("inspect", folder("llama"), "--text", tmp_path / "text.npy", "--mlp", 2, "--json").json
    assert len(found["rows"]) == 10
    assert found["mlp"][0]["active"] > 0


def test_minilm_reads_the_sample_text(ask):
    needed("transformers")
    said = ask("inspect", minilm(), "--layers", 2, "--what", "attention", "--contexts", "4k")
    assert "it reads a sample text; give one with --text" in said.out
    assert "MLPs" not in said.out


@pytest.mark.slow
@pytest.mark.xdist_group("smollm2")
def test_smollm2_is_inspected_from_its_gguf(ask, tmp_path, monkeypatch):
    live = live_smollm2()
    monkeypatch.setattr("assocmem.lab.opened.load_live", lambda _: live)
    (tmp_path / "text.txt").write_text("The capital of France is Paris, and that of Italy is Rome.")
    words = ["--text", tmp_path / "text.txt", "--layers", "10:12", "--contexts", "32k", "--json"]
    found = ask("inspect", smollm2(), *words).json
    assert len(found["heads"]) == 18
    assert found["model"]["weights"].startswith("weights are quantised (Q4_1, Q8_0)")
    assert found["embedding"]["n"] == 49152


def test_the_page_works_offline_and_shows_the_head_that_is_picked(folder, ask, tmp_path):
    ask("inspect", folder("llama"), "--what", "attention", "--out", tmp_path, "--contexts", "4k")
    with browser() as chrome:
        tab = chrome.new_page()
        wrong = []
        tab.on("pageerror", lambda error: wrong.append(str(error)))
        tab.on("request", lambda request: wrong.append(request.url) if not request.url.startswith("file:") else None)
        tab.goto((tmp_path / "heads.html").as_uri())
        tab.wait_for_selector("#map canvas, #map svg")
        tab.wait_for_selector("#ratios canvas, #ratios svg")
        assert tab.inner_text("#words").startswith("Layer 0, head 0")
        tab.select_option("#layer", "2")
        tab.select_option("#number", "3")
        assert tab.inner_text("#words").startswith("Layer 2, head 3")
        assert tab.locator("#contexts tr").count() == 7
        assert tab.locator("#collisions tr").count() == 13
        wrong = [what for what in wrong if not what.startswith(("blob:", "data:"))]
        assert wrong == []


def test_ctrl_c_keeps_the_heads_that_are_done(folder, ask, tmp_path, monkeypatch):
    from assocmem.lab.heads import Heads

    def interrupted(self, **_):
        self._measured(self.layers[0])
        raise KeyboardInterrupt

    monkeypatch.setattr(Heads, "results", interrupted)
    said = ask("inspect", folder("llama"), "--what", "attention", "--out", tmp_path)
    assert said.status == 130
    assert "4 heads are in" in said.err
    assert len(Results.load(tmp_path / "heads.csv").rows) == 4


def test_without_the_extra_everything_else_is_shown(folder, ask, monkeypatch):
    import sys

    path = folder("llama")
    for name in ("transformers", *(loaded for loaded in sys.modules if loaded.startswith("transformers."))):
        monkeypatch.setitem(sys.modules, name, None)
    said = ask("inspect", path)
    assert said.status == 0
    assert "pip install 'assocmem[trace]'" in said.out
    assert "MLPs: rows asked" in said.out
    assert ask("inspect", path, "--what", "attention").status == 2


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--what", "soul"], "`--what` must be among attention, mlp, embedding; got 'soul'."),
        (["--layers", "2:9"], "`--layers` must be a layer or FIRST:END within 0:3"),
        (["--layers", "x"], "`--layers` must be a layer or FIRST:END within 0:3"),
        (["--head", "7.0"], "`--head` must be LAYER.HEAD"),
        (["--head", "1"], "`--head` must be LAYER.HEAD"),
        (["--head", "1.9"], "`head` must lie in [0, 4), the heads of layer 1; got 9."),
        (["--mlp", "5"], "a layer in [0, 3)"),
        (["--contexts", "many"], "`--contexts` must be a number"),
        (["--drop", "x"], "`--drop` must be positions such as 0,1"),
        (["--drop", "99"], "`--drop` must hold positions in [0, 64)"),
        (["--target", "weakest"], "`target` must be 'own', 'strongest'"),
        (["--text", "nowhere.txt"], "cannot read nowhere.txt"),
        (["--text", "words.txt"], "the checkpoint has no tokeniser"),
        (["--text", "one.npy"], "the text is one token"),
        (["--text", "long.npy"], "the text is 65 tokens long and the context of this llama model 64"),
        (["--text", "latin.txt"], "is no text in UTF-8"),
    ],
)
def test_bad_input_is_one_sentence_and_writes_nothing(words, sentence, folder, ask, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("words.txt").write_text("A few words.")
    Path("latin.txt").write_bytes(b"caf\xe9")
    np.save("one.npy", np.array([3]))
    np.save("long.npy", np.full(65, 3))
    said = ask("inspect", folder("llama"), *words, "--out", tmp_path / "out")
    assert said.status == 2, said.out
    assert sentence in said.err
    assert said.err.count("\n") == 1
    assert not (tmp_path / "out").exists() or not list((tmp_path / "out").iterdir())


def test_foreign_and_damaged_models_are_one_sentence(folder, ask, tmp_path):
    shutil.copytree(folder("llama"), tmp_path / "cut")
    weights = tmp_path / "cut" / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1])
    config = json.loads((folder("llama") / "config.json").read_text())
    shutil.copytree(folder("llama"), tmp_path / "odd")
    (tmp_path / "odd" / "config.json").write_text(json.dumps(config | {"model_type": "perceiver"}))
    for path, sentence in (
        (tmp_path / "cut", "it is damaged"),
        (tmp_path / "odd", "is a perceiver model; those of Hugging Face that are read"),
        (tmp_path / "none", "there is no file or folder"),
    ):
        said = ask("inspect", path, "--out", tmp_path / "out")
        assert (said.status, said.err.count("\n")) == (2, 1)
        assert sentence in said.err
    assert not (tmp_path / "out").exists()
