"""Traces of live networks against the networks' own attention, and refusals by name."""

from pathlib import Path

import numpy as np
import pytest

from assocmem.contract.errors import FileFormatError, InputError, MissingExtraError
from assocmem.models import open_network, tracing
from assocmem.models.tracing import LiveModel, capture, load_live, trace_text
from trained import live_smollm2, minilm, needed, random_network, smollm2

TRACED = ["llama", "mistral", "qwen2", "qwen3", "gemma", "gemma2", "gemma3_text", "phi3", "olmo2", "gpt2", "gpt_neox",
          "opt", "bert", "roberta", "distilbert", "vit", "gpt_oss"]  # fmt: skip
IDS = np.arange(3, 27)
SENTENCE = "The capital of France is Paris, and the capital of Italy is Rome; both lie on rivers."


def read(name):
    return np.random.default_rng(0).standard_normal((3, 16, 16)) if name == "vit" else IDS


def run(network, name, attention="eager"):
    """Output and attention weights of the network with an attention of this name."""
    torch = needed("torch")
    x = read(name)
    inputs = {"pixel_values": torch.as_tensor(x, dtype=torch.float32)[None]} if x.ndim == 3 else {
        "input_ids": torch.as_tensor(x)[None]}  # fmt: skip
    network.set_attn_implementation(attention)
    with torch.no_grad():
        out = network(**inputs, output_attentions=True)
    first = out.logits if hasattr(out, "logits") else out.last_hidden_state
    return first.numpy(), [a[0].numpy() for a in out.attentions]


def weights_of(layer):
    """Attention weights (h, n, n) out of a trace, in float64."""
    keys = layer.keys.astype(np.float64).repeat(len(layer.queries) // len(layer.keys), axis=0)
    logits = layer.scaling * layer.queries.astype(np.float64) @ keys.mT
    if layer.softcap:
        logits = layer.softcap * np.tanh(logits / layer.softcap)
    if layer.seen is not None:
        logits = np.where(layer.seen, logits, -np.inf)
    top = logits.max(axis=-1, keepdims=True)
    e = np.exp(logits - top)
    beside = 0 if layer.sinks is None else np.exp(layer.sinks[:, None, None] - top)
    return e / (e.sum(axis=-1, keepdims=True) + beside)


@pytest.mark.parametrize("name", TRACED)
def test_a_trace_gives_the_networks_own_attention_weights(name):
    network = random_network(name)
    found = trace_text(LiveModel(network), read(name))
    out, attentions = run(network, name)
    assert len(found.layers) == len(attentions) == 3
    for layer, truth in zip(found.layers, attentions, strict=True):
        assert weights_of(layer) == pytest.approx(truth, abs=2e-5)
        assert layer.queries.dtype == layer.keys.dtype == np.float32
        if layer.seen is not None and layer.window:
            assert layer.seen.sum(axis=1).max() == layer.window
    assert (found.model, len(found.tokens)) == (name, 17 if name == "vit" else 24)
    # What was read out changed nothing: attending through the capture gives the same output.
    token = tracing._CALLS.set([])
    assert np.array_equal(run(network, name, tracing.INTERFACE)[0], out)
    tracing._CALLS.reset(token)


@pytest.mark.parametrize("name", ["llama", "qwen3", "gemma2", "olmo2", "gpt2", "gpt_neox", "bert", "opt"])
def test_a_trace_and_the_checkpoint_tell_the_same(name, tmp_path):
    network = random_network(name)
    network.save_pretrained(tmp_path)
    opened, found = open_network(tmp_path), trace_text(LiveModel(network), IDS, mlp=(0, 2))
    hidden = {}
    for layer in range(3):
        module = tracing._mlp_module(network, layer)
        module.register_forward_pre_hook(lambda _m, given, at=layer: hidden.__setitem__(at, given[0].detach()))
    run(network, name)
    assert sorted(found.inputs) == [0, 2]
    for layer in (0, 2):
        assert np.array_equal(found.inputs[layer], hidden[layer].reshape(24, -1).numpy())
        attention, traced = opened.attention(layer), found.layers[layer]
        assert (attention.window, attention.softcap) == (traced.window, traced.softcap)
        if name != "opt":  # which scales its queries before it attends
            assert attention.scaling == pytest.approx(traced.scaling)
    if name in ("bert", "olmo2"):
        return
    # Rotary positions turn a query and a key at one place alike, so that their product is the checkpoint's.
    attention, traced = opened.attention(0), found.layers[0]
    x = opened.embedding.scale * opened.embedding.rows[IDS]
    if name in ("gpt2", "opt"):
        offset, table = (0, "transformer.wpe.weight") if name == "gpt2" else (2, "model.decoder.embed_positions.weight")
        x = x + opened.checkpoint.tensor(table)[np.arange(len(IDS)) + offset]
    x = attention.norm(x)
    q, k = attention.queries(x), attention.keys(x).repeat(attention.grouped, axis=0)
    own = np.einsum("hnd,hnd->hn", traced.queries, traced.keys.repeat(attention.grouped, axis=0))
    factor = attention.scaling if name == "opt" else 1.0
    assert factor * np.einsum("hnd,hnd->hn", q, k) == pytest.approx(own, rel=1e-3, abs=1e-3)
    assert attention.values(x) == pytest.approx(traced.values, rel=1e-4, abs=1e-4)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("falcon", "falcon models cannot be traced: none of 3 layers attend through"),
        ("bloom", "bloom models cannot be traced: none of 3 layers attend through"),
        ("t5", "t5 models cannot be traced: they have two stacks"),
    ],
)
def test_a_network_that_cannot_be_traced_is_refused_by_name(name, words):
    network = random_network(name)
    before, training = network.config._attn_implementation, network.training
    with pytest.raises(InputError, match=words):
        trace_text(LiveModel(network), IDS)
    assert (network.config._attn_implementation, network.training) == (before, training)


def test_a_capture_that_does_not_give_the_models_weights_is_refused(monkeypatch):
    network = random_network("gemma2", attn_logit_softcapping=0.5)
    right = tracing._again
    monkeypatch.setattr(tracing, "_again", lambda q, k, mask, scale, _cap, sinks: right(q, k, mask, scale, None, sinks))
    with pytest.raises(InputError, match="gemma2 models cannot be traced: something beside queries and keys moves"):
        trace_text(LiveModel(network), IDS)


def test_a_position_bias_in_the_mask_is_refused(monkeypatch):
    call = tracing._CALLS
    network = random_network("llama")
    plain = tracing._noted

    def biased(module, query, key, value, attention_mask, **settings):
        return plain(module, query, key, value, attention_mask - 0.1 * (attention_mask == 0), **settings)

    monkeypatch.setattr(tracing, "_noted", biased)
    with pytest.raises(InputError, match="they add a position bias to the logits"):
        trace_text(LiveModel(network), IDS)
    assert call.get(None) is None


def test_a_network_is_left_as_it_was():
    network = random_network("llama").train()
    network.set_attn_implementation("sdpa")
    hooks = sum(len(m._forward_pre_hooks) for m in network.modules())
    capture(network, {"input_ids": needed("torch").as_tensor(IDS)[None]}, mlp=[1])
    assert network.training
    assert network.config._attn_implementation == "sdpa"
    assert sum(len(m._forward_pre_hooks) for m in network.modules()) == hooks
    with pytest.raises(InputError, match="the llama model failed on what it was given"):
        trace_text(LiveModel(network), np.array([1, 1000]))
    assert network.config._attn_implementation == "sdpa"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "the checkpoint has no tokeniser"),
        (np.array([], int), "the text is empty"),
        ([5], "the text is one token"),
        (np.arange(50).repeat(2), "the text is 100 tokens long and the context of this llama model 64; give less"),
        (np.ones((3, 4)), r"must be a text, numbers of tokens \(n,\) or pixels"),
        (np.array([0.5, 1.0]), "must be a text"),
    ],
)
def test_what_cannot_be_read_is_refused_in_a_sentence(text, words):
    with pytest.raises(InputError, match=words):
        trace_text(LiveModel(random_network("llama")), text)


def test_a_long_text_can_be_cut_and_a_layers_inputs_must_exist():
    live = LiveModel(random_network("llama"))
    assert len(trace_text(live, np.arange(50).repeat(2), length=20).tokens) == 20
    with pytest.raises(InputError, match=r"has no module 'layers\.7\.mlp\.up_proj'"):
        trace_text(live, IDS, mlp=[7])
    with pytest.raises(InputError, match="the MLPs of gpt_oss models are not known"):
        trace_text(LiveModel(random_network("gpt_oss")), IDS, mlp=[0])


def test_a_folder_that_transformers_cannot_load_is_refused(tmp_path):
    needed("transformers")
    (tmp_path / "config.json").write_text('{"model_type": "llama"}')
    with pytest.raises(FileFormatError, match="transformers cannot load"):
        load_live(tmp_path)


def test_without_the_extra_its_name_is_said(monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'assocmem\[trace\]'"):
        load_live(Path("anywhere"))


def test_minilm_is_traced_with_its_tokeniser_and_without_padding():
    needed("transformers")
    live = load_live(minilm())
    found = trace_text(live, SENTENCE)
    assert found.tokens[:4] == ("[CLS]", "the", "capital", "of")
    assert found.tokens[-1] == "[SEP]"
    assert (found.context, found.notes, len(found.layers)) == (512, (), 6)
    assert found.layers[0].queries.shape == (12, len(found.tokens), 32)
    assert all(layer.seen is None for layer in found.layers)
    attention = open_network(minilm()).attention(0)
    assert attention.scaling == pytest.approx(found.layers[0].scaling)
    with pytest.raises(InputError, match="the context of this bert model 512"):
        trace_text(live, SENTENCE * 40)


@pytest.mark.slow
@pytest.mark.xdist_group("smollm2")
def test_smollm2_is_traced_from_its_gguf():
    live = live_smollm2()
    found = trace_text(live, SENTENCE)
    assert found.tokens[:5] == ("The", " capital", " of", " France", " is")
    assert (len(found.layers), found.context, found.model) == (30, 8192, "llama")
    assert found.layers[0].queries.shape[0] == 9
    assert found.layers[0].keys.shape[0] == 3
    assert found.notes[0].startswith("the tokeniser is rebuilt from the .gguf file")
    opened = open_network(smollm2())
    embedding, attention = opened.embedding, opened.attention(0)
    ids = live.tokenizer(SENTENCE)["input_ids"]
    x = attention.norm(embedding.rows[ids])
    assert attention.values(x) == pytest.approx(found.layers[0].values, rel=1e-4, abs=1e-4)
    own = np.einsum("hnd,hnd->hn", found.layers[0].queries, found.layers[0].keys.repeat(3, axis=0))
    q, k = attention.queries(x), attention.keys(x).repeat(3, axis=0)
    assert np.einsum("hnd,hnd->hn", q, k) == pytest.approx(own, rel=1e-3, abs=1e-2)
