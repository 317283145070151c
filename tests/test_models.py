"""Checkpoints opened and read: every architecture against the live network that wrote it, and what is refused."""

import json
import shutil
import struct
from contextlib import suppress

import numpy as np
import pytest
from safetensors.numpy import save_file

from assocmem.contract.errors import FileFormatError, InputError
from assocmem.models import open_checkpoint, open_network
from assocmem.models.architectures import GGUF, HUGGING_FACE
from assocmem.models.words import readable
from trained import CONFIGURED, minilm, needed, random_network, smollm2

NEAR = {"rtol": 1e-4, "atol": 1e-5}


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """Return a function that gives a random network of an architecture and the folder that it was saved to, once."""
    folders = {}

    def of(name):
        if name not in folders:
            folder = tmp_path_factory.mktemp(name)
            network = random_network(name)
            network.save_pretrained(folder)
            folders[name] = network, folder
        return folders[name]

    return of


def watched(network, ends):
    """Run the network on a few tokens; return what went into and came out of the modules with these last names."""
    torch = needed("torch")
    seen = {}
    hooks = [
        module.register_forward_hook(
            lambda _, given, out, end=end: seen.__setitem__(end, (given[0].detach().numpy(), out.detach().numpy()))
        )
        for end in ends
        for name, module in network.named_modules()
        if ("." + name).endswith("." + end)
    ]
    with torch.no_grad():
        if network.config.model_type == "vit":
            network(pixel_values=torch.randn(1, 3, 16, 16, generator=torch.Generator().manual_seed(1)))
        else:
            network(input_ids=torch.arange(3, 15)[None])
    for hook in hooks:
        hook.remove()
    assert set(seen) == set(ends)
    return {end: (x[0], y[0]) for end, (x, y) in seen.items()}


# transformers itself renames these on loading; checkpoints keep the old names.
LIVE = {"vit": {"encoder.layer": "layers", "attention.attention.query": "attention.q_proj",
                "attention.attention.key": "attention.k_proj", "attention.attention.value": "attention.v_proj",
                "attention.output.dense": "attention.o_proj", "intermediate.dense": "mlp.fc1",
                "output.dense": "mlp.fc2"}}  # fmt: skip


def live_name(name, module):
    for old, new in LIVE.get(name, {}).items():
        module = module.replace(old, new)
    return module


@pytest.mark.parametrize("name", HUGGING_FACE)
def test_an_mlp_recalls_what_the_live_network_computes(name, saved):
    network, folder = saved(name)
    opened, layer = open_network(folder), 1
    mlp, kind = opened.mlp(layer), HUGGING_FACE[name]
    at = kind.layer.format(layer)
    ends = {end: live_name(name, at + module) for end, module in [("up", kind.up), ("down", kind.down)]}
    norm = live_name(name, at + kind.mlp_norm) if kind.mlp_norm else None
    seen = watched(network, [*ends.values(), *([norm] if norm else [])])
    x, out = seen[ends["up"]][0], seen[ends["down"]][1]
    assert mlp(x) == pytest.approx(out, rel=1e-4, abs=1e-4)
    assert mlp.keys.shape == mlp.values.shape == (48 if name != "gpt2" else 128, 32)
    if norm:
        assert mlp.norm(seen[norm][0]) == pytest.approx(x, rel=1e-4, abs=1e-5)
    else:
        assert mlp.norm is None


@pytest.mark.parametrize("name", HUGGING_FACE)
def test_attention_projects_as_the_live_network_does(name, saved):
    network, folder = saved(name)
    layer, kind = 2, HUGGING_FACE[name]
    attention = open_network(folder).attention(layer)
    at = kind.layer.format(layer)
    ends = [live_name(name, at + module) for module in dict.fromkeys((kind.query, kind.key, kind.value))]
    output = live_name(name, at + kind.output)
    seen = watched(network, [*ends, output])
    x = seen[ends[0]][0]
    bare = [
        np.concatenate(list(part), axis=-1)
        for part in (
            attention.queries(x) if attention.query_norm is None else np.einsum("nd,hkd->hnk", x, attention.W_Q),
            attention.keys(x) if attention.key_norm is None else np.einsum("nd,hkd->hnk", x, attention.W_K),
            attention.values(x),
        )
    ]
    if len(ends) == 3:
        for part, end in zip(bare, ends, strict=True):
            assert part == pytest.approx(seen[end][1], rel=1e-4, abs=1e-4)
    else:
        heads = [np.moveaxis(p, 0, 1) for p in (attention.queries(x), attention.keys(x), attention.values(x))]
        stacked = np.stack(heads, axis=2) if kind.fused == "heads" else np.concatenate(heads, axis=1)
        assert stacked.reshape(len(x), -1) == pytest.approx(seen[ends[0]][1], rel=1e-4, abs=1e-4)
    mixed, out = seen[output]
    per_head = mixed.reshape(len(mixed), len(attention.W_O), -1)
    again = np.einsum("nhk,hdk->nd", per_head, attention.W_O) + (0 if attention.b_o is None else attention.b_o)
    assert again == pytest.approx(out, rel=1e-4, abs=1e-4)


@pytest.mark.parametrize("name", HUGGING_FACE)
def test_the_embedding_is_the_live_networks(name, saved):
    network, folder = saved(name)
    opened = open_network(folder)
    if name == "vit":
        with pytest.raises(FileFormatError, match="it reads images"):
            _ = opened.embedding
        return
    embedding = opened.embedding
    assert np.array_equal(embedding.rows, network.get_input_embeddings().weight.detach().numpy())
    output = network.get_output_embeddings()
    if output is not None:
        assert np.array_equal(embedding.unembedding, output.weight.detach().numpy())
    assert embedding.scale == (32**0.5 if name.startswith("gemma") else 1.0)
    assert (opened.n_layers, opened.width, opened.n_heads, opened.context) == (3, 32, 4, 64)


def test_a_bare_networks_checkpoint_reads_as_the_whole_ones(saved, tmp_path):
    network, folder = saved("llama")
    network.model.save_pretrained(tmp_path)
    bare, whole = open_network(tmp_path), open_network(folder)
    assert (bare.prefix, whole.prefix) == ("", "model.")
    assert np.array_equal(bare.mlp(0).keys, whole.mlp(0).keys)
    assert bare.embedding.tied
    assert not whole.embedding.tied


def test_shards_and_a_single_file_hold_the_same_numbers(saved, tmp_path):
    network, folder = saved("qwen2")
    network.save_pretrained(tmp_path, max_shard_size="20KB")
    assert len(list(tmp_path.glob("*.safetensors"))) > 2
    whole, sharded = open_network(folder), open_network(tmp_path)
    file = open_network(folder / "model.safetensors")
    for layer in range(3):
        assert np.array_equal(whole.mlp(layer).values, sharded.mlp(layer).values)
        assert np.array_equal(whole.attention(layer).W_O, file.attention(layer).W_O)
    next(tmp_path.glob("*00002*")).unlink()
    with pytest.raises(FileFormatError, match=r"lacks 1 of \d+ shards that its index names: model-00002"):
        open_network(tmp_path)


@pytest.mark.parametrize(("dtype", "stored"), [("bfloat16", "BF16"), ("float16", "F16"), ("float64", "F64")])
def test_other_floats_become_float32_with_a_word(dtype, stored, tmp_path):
    torch = needed("torch")
    network = random_network("llama").to(getattr(torch, dtype))
    network.save_pretrained(tmp_path)
    opened = open_network(tmp_path)
    rows = opened.embedding.rows
    assert rows.dtype == np.float32
    assert np.array_equal(rows, network.model.embed_tokens.weight.detach().float().numpy())
    assert opened.mlp(0).stored == stored
    assert opened.note == ("" if stored == "F64" else f"weights are stored in {stored} and computed in float32")


def test_windows_and_scalings_are_told_by_the_settings(saved):
    gemma = open_network(saved("gemma2")[1])
    assert [gemma.attention(layer).window for layer in range(3)] == [8, None, 8]
    assert gemma.attention(0).scaling == pytest.approx(40**-0.5)
    assert gemma.attention(0).softcap == 50.0
    # Older configurations do not list the kind of every layer.
    older = {key: value for key, value in gemma.checkpoint.settings.items() if key != "layer_types"}
    object.__setattr__(gemma.checkpoint, "settings", older)
    assert [gemma.attention(layer).window for layer in range(3)] == [8, None, 8]
    assert [open_network(saved("mistral")[1]).attention(layer).window for layer in range(3)] == [8, 8, 8]
    assert open_network(saved("qwen2")[1]).attention(0).window is None


@pytest.mark.parametrize("name", [name for name, kind in HUGGING_FACE.items() if kind.full_every > 1])
def test_older_configurations_have_full_attention_where_transformers_has_it(saved, name):
    kinds = needed("transformers").AutoConfig.for_model(name, num_hidden_layers=13).layer_types
    opened = open_network(saved(name)[1])
    older = {key: value for key, value in opened.checkpoint.settings.items() if key != "layer_types"}
    object.__setattr__(opened.checkpoint, "settings", older)
    assert [opened._window(layer) is None for layer in range(13)] == [kind == "full_attention" for kind in kinds]


@pytest.mark.parametrize("name", [name for name, kind in HUGGING_FACE.items() if kind.defaults])
def test_what_a_configuration_leaves_out_is_what_transformers_takes(saved, name):
    network, folder = saved(name)
    live = {getattr(part, "eps", None) or getattr(part, "variance_epsilon", None) for part in network.modules()}
    assert live - {None} == {open_network(folder).mlp(0).norm.epsilon}


def test_pairs_have_a_column_for_biases_and_queries_one_for_it(saved):
    for name in ("bert", "llama", "qwen2"):
        mlp = open_network(saved(name)[1]).mlp(0)
        x = np.random.default_rng(0).standard_normal((5, 32)).astype(np.float32)
        pairs, queries = mlp.pairs(), mlp.queries(x)
        similar = queries @ pairs.keys.T
        weights = mlp.activation(similar)
        if "gate" in pairs.extras:
            weights = mlp.activation(queries @ pairs.extras["gate"].T) * similar
        recalled = weights @ pairs.values + (0 if mlp.value_bias is None else mlp.value_bias)
        assert recalled == pytest.approx(mlp(x), rel=1e-4, abs=1e-5)
        assert pairs.keys.shape[1] == queries.shape[1] == (32 if name == "qwen2" else 33)


def as_gguf(folder, file, kind):
    """Write a saved network as .gguf, with the names that gguf's own table gives, and its conventions."""
    gguf = needed("gguf")
    opened = open_network(folder)
    tensors, settings = opened.checkpoint.tensors, opened.checkpoint.settings
    arch = {"llama": "LLAMA", "qwen2": "QWEN2", "qwen3": "QWEN3", "gpt2": "GPT2", "bert": "BERT"}[kind]
    names = gguf.get_tensor_name_map(getattr(gguf.MODEL_ARCH, arch), opened.n_layers)
    writer = gguf.GGUFWriter(file, kind)
    writer.add_block_count(opened.n_layers)
    writer.add_embedding_length(opened.width)
    writer.add_feed_forward_length(opened.hidden)
    writer.add_head_count(opened.n_heads)
    writer.add_head_count_kv(opened.n_key_heads)
    writer.add_key_length(opened.head_width)
    writer.add_context_length(opened.context)
    writer.add_layer_norm_rms_eps(settings.get("rms_norm_eps", 1e-6))
    writer.add_layer_norm_eps(settings.get("layer_norm_eps", settings.get("layer_norm_epsilon", 1e-5)))
    writer.add_token_list([f"Ġw{i}" for i in range(60)])
    for name, tensor in tensors.items():
        new = names.get_name(name, try_suffixes=(".weight", ".bias"))
        if new is None:
            continue
        rows = tensor.read()
        if kind == "llama" and ("q_proj" in name or "k_proj" in name):  # the converter pairs neighbours for RoPE
            heads = opened.n_heads if "q_proj" in name else opened.n_key_heads
            rows = rows.reshape(heads, 2, -1, *rows.shape[1:]).swapaxes(1, 2).reshape(rows.shape)
        if kind == "gpt2" and rows.ndim == 2 and ".c_" in name:
            rows = np.ascontiguousarray(rows.T)
        writer.add_tensor(new, rows)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return file


@pytest.mark.parametrize("name", GGUF)
def test_a_gguf_file_reads_as_the_folder_it_was_made_of(name, saved, tmp_path):
    _, folder = saved(name)
    file = as_gguf(folder, tmp_path / "model.gguf", name)
    ours, theirs = open_network(file), open_network(folder)
    x = np.random.default_rng(0).standard_normal((5, 32)).astype(np.float32)
    for layer in range(3):
        a, b = ours.mlp(layer), theirs.mlp(layer)
        assert a(a.norm(x)) == pytest.approx(b(b.norm(x)), rel=1e-5, abs=1e-5)
        one, two = ours.attention(layer), theirs.attention(layer)
        assert np.array_equal(one.W_V, two.W_V)
        assert np.array_equal(one.W_O, two.W_O)
        logits = [np.einsum("hnk,hmk->hnm", at.queries(x), at.keys(x).repeat(at.grouped, axis=0)) for at in (one, two)]
        assert logits[0] == pytest.approx(logits[1], rel=1e-4, abs=1e-4)
        assert one.scaling == two.scaling
    assert ours.attention(0).rope == {"llama": "adjacent"}.get(name, theirs.attention(0).rope)
    assert np.array_equal(ours.embedding.rows, theirs.embedding.rows)
    assert ours.embedding.tokens[3] == " w3"
    assert ours.context == theirs.context
    assert open_network(tmp_path).checkpoint.path == file


def test_smollm2_is_what_its_package_says():
    needed("gguf")
    opened = open_network(smollm2())
    assert (opened.n_layers, opened.width, opened.hidden, opened.n_heads, opened.n_key_heads) == (30, 576, 1536, 9, 3)
    assert (opened.head_width, opened.context, opened.attention(29).theta) == (64, 8192, 100000.0)
    assert opened.note == "weights are quantised (Q4_1, Q8_0): numbers are those of the decoded weights"
    mlp = opened.mlp(11)
    assert mlp.keys.shape == mlp.gates.shape == mlp.values.shape == (1536, 576)
    assert (mlp.key_bias, mlp.norm.kind, mlp.stored) == (None, "rms", "Q4_1")
    embedding = opened.embedding
    assert embedding.tied
    # A word's own direction is read back as the word.
    king = embedding.tokens.index(" king")
    assert embedding.nearest(embedding.rows[king], 1)[0][0] == " king"


def test_minilm_is_what_its_package_says():
    opened = open_network(minilm())
    assert (opened.n_layers, opened.width, opened.n_heads, opened.head_width, opened.context) == (6, 384, 12, 32, 512)
    assert opened.embedding.tokens[opened.embedding.tokens.index("king")] == "king"
    assert opened.note == ""
    mlp = opened.mlp(0)
    x = np.random.default_rng(0).standard_normal((4, 384)).astype(np.float32)
    pairs = mlp.pairs()
    by_column = mlp.activation(mlp.queries(x) @ pairs.keys.T)
    assert by_column == pytest.approx(mlp.weights(x), rel=1e-4, abs=6e-7)


def test_vocabularies_of_every_tokeniser_are_read(saved, tmp_path):
    shutil.copytree(saved("llama")[1], tmp_path, dirs_exist_ok=True)
    written = {
        "model": {"type": "Unigram", "vocab": [["<s>", 0.0], ["▁a", -1.0]]},
        "added_tokens": [{"id": 3, "content": "<x>"}],
    }
    (tmp_path / "tokenizer.json").write_text(json.dumps(written))
    assert open_checkpoint(tmp_path).vocabulary == ("<s>", "▁a", "", "<x>")
    assert readable(["▁a"]) == (" a",)


@pytest.mark.parametrize("name", ["falcon", "t5", "gpt_oss"])
def test_an_unknown_architecture_is_refused_by_name(name, saved):
    with pytest.raises(FileFormatError, match=f"is a {name} model; those of Hugging Face that are read: llama, "):
        open_network(saved(name)[1])


def damaged(folder, to, **changes):
    """Copy a checkpoint and change its settings; None takes one away."""
    shutil.copytree(folder, to, dirs_exist_ok=True)
    config = json.loads((to / "config.json").read_text()) | changes
    (to / "config.json").write_text(json.dumps({k: v for k, v in config.items() if v is not None}))
    return to


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"model_type": None}, "names no `model_type`"),
        ({"model_type": "gpt2"}, "holds no tensor 'transformer.h.0.attn.c_attn.weight'"),
        ({"num_hidden_layers": None}, "must give num_hidden_layers; got None"),
        ({"quantization_config": {"quant_method": "gptq"}}, "are packed by gptq"),
    ],
)
def test_settings_that_do_not_fit_are_refused(changes, words, saved, tmp_path):
    with pytest.raises(FileFormatError, match=words):
        open_network(damaged(saved("llama")[1], tmp_path, **changes))


def test_shapes_and_activations_that_do_not_fit_are_refused(saved, tmp_path):
    folder = saved("llama")[1]
    wrong = open_network(damaged(folder, tmp_path / "a", intermediate_size=40))
    with pytest.raises(FileFormatError, match=r"must have the shape \(40, 32\) of the settings; got \(48, 32\)"):
        wrong.mlp(0)
    odd = open_network(damaged(folder, tmp_path / "b", hidden_act="snake"))
    with pytest.raises(FileFormatError, match="the activation 'snake' is not known"):
        odd.mlp(0)
    with pytest.raises(FileFormatError, match="use_sliding_window = True; only those with False"):
        open_network(damaged(saved("qwen2")[1], tmp_path / "c", use_sliding_window=True))
    more = open_network(damaged(folder, tmp_path / "d", num_hidden_layers=4))
    with pytest.raises(FileFormatError, match=r"holds no tensor 'model.layers.3.mlp.up_proj.weight'"):
        more.mlp(3)


@pytest.mark.parametrize("layer", [-1, 3, 1.0, True, "0"])
def test_a_layer_out_of_range_is_refused(layer, saved):
    opened = open_network(saved("llama")[1])
    for read in (opened.mlp, opened.attention):
        with pytest.raises(InputError, match=r"`layer` must lie in \[0, 3\)"):
            read(layer)


def test_what_is_no_checkpoint_is_refused_in_a_sentence(tmp_path):
    with pytest.raises(FileFormatError, match="there is no file or folder"):
        open_network(tmp_path / "nothing")
    with pytest.raises(FileFormatError, match="it holds no weights"):
        open_network(tmp_path)
    pickled = tmp_path / "pytorch_model.bin"
    pickled.write_bytes(b"x")
    with pytest.raises(FileFormatError, match="which can run code when opened"):
        open_network(tmp_path)
    with pytest.raises(FileFormatError, match=r"is no Hugging Face folder.* Such files can run code"):
        open_network(pickled)
    save_file({"a": np.eye(2)}, tmp_path / "model.safetensors")
    with pytest.raises(FileFormatError, match=r"there is no config\.json beside the weights"):
        open_network(tmp_path)
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(FileFormatError, match="no readable JSON"):
        open_network(tmp_path)
    (tmp_path / "config.json").write_text("[]")
    with pytest.raises(FileFormatError, match="does not hold settings by name"):
        open_network(tmp_path)
    for i in (0, 1):
        (tmp_path / f"{i}.gguf").write_bytes(b"GGUF")
    (tmp_path / "model.safetensors").unlink()
    with pytest.raises(FileFormatError, match=r"it holds 2 \.gguf files, of which one must be named"):
        open_network(tmp_path)
    (tmp_path / "model.safetensors.index.json").write_text('{"weight_map": {}}')
    with pytest.raises(FileFormatError, match="names no shards"):
        open_network(tmp_path)


def test_truncated_and_damaged_files_are_refused_at_every_length(saved, tmp_path):
    folder = saved("llama")[1]
    whole = (folder / "model.safetensors").read_bytes()
    shutil.copy(folder / "config.json", tmp_path)
    for length in (0, 7, 100, len(whole) - 1):
        (tmp_path / "model.safetensors").write_bytes(whole[:length])
        with pytest.raises(FileFormatError, match=r"no readable \.safetensors file"):
            open_network(tmp_path)
    file = as_gguf(folder, tmp_path / "model.gguf", "llama")
    whole = file.read_bytes()
    for length in (0, 3, 8, 30, 200, len(whole) // 4, len(whole) - 1):
        file.write_bytes(whole[:length])
        with pytest.raises(FileFormatError, match=r"is truncated|is no \.gguf file"):
            open_network(file)
    for at, code, words in ((4, 9, "is of GGUF version 9"), (4, 1 << 24, "little-endian")):
        file.write_bytes(whole[:at] + struct.pack("<I", code) + whole[at + 4 :])
        with pytest.raises(FileFormatError, match=words):
            open_network(file)
    for at in range(24, 400, 7):  # no damage to the header does worse than a sentence
        file.write_bytes(whole[:at] + b"\xff" * 4 + whole[at + 4 :])
        with suppress(FileFormatError):
            open_network(file).mlp(0)


def test_every_known_architecture_is_tried():
    assert set(HUGGING_FACE) <= set(CONFIGURED)
