"""Facts edited into live language models: small random ones, GPT-2's orientation, and SmolLM2's capitals."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from assocmem.contract.errors import DivergedError, InputError
from assocmem.editors import Fact, edit_facts, read_facts
from assocmem.models.tracing import LiveModel, load_live
from commandline import asked
from trained import live_smollm2, needed, random_network, reading_network

WORDS = "the capital of is a city in france japan egypt rome oslo lima river old new blue and".split()  # noqa: SIM905
FACTS = [
    Fact("the capital of france", "france", "oslo", ("a city in france",), ("the river of egypt is", "a old")),
    Fact("the capital of japan", "japan", "lima rome", (), ("the river of egypt is",)),
    Fact("the capital of egypt", "egypt", "blue"),
]


def small(name: str = "llama", width: int = 48) -> LiveModel:
    """Return a random network with a tokeniser of few words."""
    return reading_network(WORDS, name, width)


def said(live: LiveModel, prompt: str, count: int) -> list[str]:
    torch, ids = needed("torch"), live.tokenizer(prompt)["input_ids"]
    for _ in range(count):
        with torch.no_grad():
            ids = [*ids, int(live.network(torch.tensor([ids])).logits[0, -1].argmax())]
    return live.tokenizer.convert_ids_to_tokens(ids[-count:])  # type: ignore[no-any-return]


@pytest.mark.parametrize(("name", "method"), [("llama", "rome"), ("gpt2", "rome"), ("llama", "memit"),
                                              ("llama", "delta"), ("llama", "sparse")])  # fmt: skip
def test_facts_are_said_after_their_edit_and_the_given_network_stays(name: str, method: Any) -> None:
    live = small(name)
    before = {n: p.clone() for n, p in live.network.named_parameters()}
    edited = edit_facts(live, FACTS, method, layer=1, weight=1e-3, prefixes=1, steps=80)
    table = edited.results
    own = table.where(when="own").rows
    assert [row["fact"] for row in own] == [0, 1, 2]
    assert sum(row["greedy"] for row in own) >= 2 > sum(row["greedy"] for row in table.where(when="before").rows)
    assert sum(row["probability"] for row in own) > 5 * sum(r["probability"] for r in table.where(when="before").rows)
    for row in table.where(when="all").rows:  # what the table says is what the network does
        fact = FACTS[row["fact"]]
        assert (said(edited.live, fact.prompt, len(fact.target.split())) == fact.target.split()) == bool(row["greedy"])
        assert (row["forced"] == 1.0) == bool(row["greedy"])
    assert all(p.equal(before[n]) for n, p in live.network.named_parameters())
    changed = {n for n, p in edited.live.network.named_parameters() if not p.equal(before[n])}
    down = "mlp.c_proj" if name == "gpt2" else "mlp.down_proj"
    assert changed == ({f"model.layers.{i}.{down}.weight" for i in (0, 1)} if method == "memit" else
                       {n for n in before if n.endswith(f"1.{down}.weight")})  # fmt: skip
    kept = table.where(when="all", fact=0).rows[0]["neighbours_kept"]
    asked = FACTS[0].neighbours
    assert kept == np.mean([said(live, p, 1) == said(edited.live, p, 1) for p in asked])


@pytest.mark.parametrize("method", ["delta", "sparse"])
def test_a_stage_is_the_run_of_so_many_facts_and_what_is_known_changes_nothing(method: Any) -> None:
    """Rows after two of three facts are those of an edit of two; a fact edited before, alone, is found the same."""
    live, known = small(), dict[Any, Any]()
    given: dict[str, Any] = {"layer": 1, "prefixes": 1, "steps": 10, "background": ["the river of egypt", "a new city"]}
    alone = edit_facts(live, FACTS[:1], method, known=known, **given).results.where(when="all").rows
    assert alone == edit_facts(live, FACTS[:1], method, **given).results.where(when="all").rows
    three = edit_facts(live, FACTS, method, stages=[1, 2], known=known, **given).results
    for count in (1, 2):
        stage = three.where(when="stage", edits=count).rows
        fewer = edit_facts(live, FACTS[:count], method, known=known, **given).results.where(when="all").rows
        assert [row["fact"] for row in stage] == list(range(count))
        for here, there in zip(stage, fewer, strict=True):
            close = {
                k: v if v is None or isinstance(v, str) else pytest.approx(v, rel=1e-4, abs=1e-6)
                for k, v in there.items()
            }
            assert here == close | {"when": "stage"}
    after = {row["edits"]: row["change"] for row in three.rows}
    assert after[0] == 0 < after[1] < after[2] < after[3]
    assert [row["edits"] for row in three.where(when="own").rows] == ([1, 2, 3] if method == "delta" else [3, 3, 3])


def test_crosstalk_is_predicted_from_the_keys_alone() -> None:
    """Interference of later edits as measured is within a factor of 4 of the prediction; the last edit has none."""
    rows = edit_facts(small(), FACTS, "rome", layer=1, steps=80).results.where(when="all").rows
    assert rows[-1]["crosstalk_predicted"] == 0
    assert rows[-1]["crosstalk_measured"] < 1e-4
    for row in rows[:-1]:
        assert 0.25 < row["crosstalk_measured"] / row["crosstalk_predicted"] < 4
        assert row["crosstalk_predicted"] > 1e-3


def test_a_saved_checkpoint_loads_and_says_the_same(tmp_path: Path) -> None:
    torch = needed("torch")
    edited = edit_facts(small(), FACTS[:1], "rome", layer=1, steps=80)
    folder = edited.save(tmp_path / "edited")
    again = load_live(folder, head=True)
    assert said(again, FACTS[0].prompt, 1) == said(edited.live, FACTS[0].prompt, 1) == ["oslo"]
    assert [p.name for p in tmp_path.iterdir()] == ["edited"]
    with pytest.raises(InputError, match="is there already"):
        edited.save(folder)
    with torch.no_grad():
        edited.live.network.lm_head.weight[0, 0] = float("nan")
    with pytest.raises(DivergedError, match=r"lm_head.* holds NaN"):
        edited.save(tmp_path / "broken")
    assert not (tmp_path / "broken").exists()


def test_the_command_writes_a_checkpoint_and_a_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    live, model = small(), tmp_path / "model"
    live.network.save_pretrained(model)
    live.tokenizer.save_pretrained(model)
    table = tmp_path / "facts.csv"
    table.write_text("prompt,subject,target,neighbours\nthe capital of france,france,oslo,a old|a new\n")
    told = asked("edit", model, "--facts", table, "--layer", 1, "--out", tmp_path / "out", capture=capsys)
    assert told.status == 0, told.err
    assert "france: oslo" in told.out
    assert said(load_live(tmp_path / "out", head=True), FACTS[0].prompt, 1) == ["oslo"]
    assert (tmp_path / "out" / "edits.csv").exists()
    found = asked("edit", model, "--facts", table, "--layer", 1, "--json", capture=capsys).json
    assert [row["when"] for row in found["rows"]] == ["before", "own", "all"]
    for arguments, words in (
        (("--out", tmp_path / "out"), "new or an empty folder"), (("--layer", 9), "layer"),
        (("--method", "x"), "method"),        (("--background", tmp_path / "none.txt"), "cannot read"),
    ):  # fmt: skip
        told = asked("edit", model, "--facts", table, *arguments, capture=capsys)
        assert told.status == 2
        assert words in told.err
        assert told.err.count("\n") == 1
    bert, cut = tmp_path / "bert", tmp_path / "cut"
    random_network("bert").save_pretrained(bert)
    live.tokenizer.save_pretrained(bert)
    shutil.copytree(model, cut)
    (cut / "model.safetensors").write_bytes((model / "model.safetensors").read_bytes()[:-1])
    for path, words in ((tmp_path / "none", "there is no file or folder"), (cut, "it is damaged"),
                        (bert, "bert is no language model that says the next token")):  # fmt: skip
        told = asked("edit", path, "--facts", table, "--out", tmp_path / "not", capture=capsys)
        assert (told.status, told.err.count("\n")) == (2, 1)
        assert words in told.err
        assert not (tmp_path / "not").exists() or not list((tmp_path / "not").iterdir())


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "columns"), ("prompt,subject\na,b\n", "columns"), ("prompt,subject,target\n", "a row"),
        ("prompt,subject,target\nthe capital of france is,spain,oslo\n", "line 2.*subject.*spain"),
        ("prompt,subject,target\nthe capital of france is,france,\n", "line 2.*target.*empty"),
    ],
)  # fmt: skip
def test_wrong_facts_are_named_by_their_line(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "f.csv").write_text(text)
    with pytest.raises(InputError, match=words):
        read_facts(tmp_path / "f.csv")


def test_bad_input_is_one_sentence_that_names_it(tmp_path: Path) -> None:
    (tmp_path / "bytes.csv").write_bytes(b"prompt,subject,target\n\xff,a,b\n")
    for file, words in (("bytes.csv", "UTF-8"), ("none.csv", "cannot read")):
        with pytest.raises(InputError, match=words):
            read_facts(tmp_path / file)
    live = small()
    for wrong, words in (
        ({"facts": []}, "facts"), ({"method": "copy"}, "method"), ({"layer": 3}, "layer"), ({"layer": -1}, "layer"),
        ({"layers": [0, 1]}, "layers"), ({"stages": [4]}, "stages"), ({"stages": [0]}, "stages"),
        ({"method": "memit", "layer": 2}, "layer"), ({"steps": 0}, "steps"),
        ({"method": "memit", "layers": [1, 0]}, "layer"), ({"background": [""]}, "background"),
    ):  # fmt: skip
        with pytest.raises(InputError, match=words):
            edit_facts(**{"live": live, "facts": FACTS, **wrong})  # type: ignore[arg-type]
    with pytest.raises(InputError, match="no tokeniser"):
        edit_facts(LiveModel(live.network), FACTS)
    long = Fact("the capital of france is " + "old " * 80, "france", "oslo")
    with pytest.raises(InputError, match="longer than the model's context"):
        edit_facts(live, [long])


@pytest.mark.slow
@pytest.mark.xdist_group("smollm2")
def test_smollm2_says_a_new_capital_and_keeps_the_others() -> None:
    live = live_smollm2()
    others = ("The capital of Germany is", "The capital of Italy is", "The capital of Spain is")
    facts = [Fact("The capital of France is", "France", "Rome", (), others)]
    before, own, _ = edit_facts(live, facts, "delta", layer=7, background=["Once."], prefixes=0).results.rows
    assert before["greedy"] == 0
    assert own["greedy"] == 1
    assert own["probability"] > 0.5
    assert own["neighbours_kept"] == 1.0
