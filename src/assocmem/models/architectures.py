"""Which tensor of a checkpoint is what: one entry an architecture, told by its metadata and never by shapes.

Names are those of Hugging Face folders (`model_type` of config.json) and of .gguf files (`general.architecture`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeAlias

from assocmem.maps.activations import GELU, Activation, Linear, ReLU, Swish

NormKind: TypeAlias = Literal["rms", "rms, gain 1 + w", "layer"]
Rope: TypeAlias = Literal["none", "halves", "adjacent"]


@dataclass(frozen=True)
class Architecture:
    """Names and conventions of one kind of checkpoint.

    Parameters
    ----------
    prefix, layer : str
        What every name begins with, unless the checkpoint is of the bare model, and a layer's names, with its number.
    embedding, unembedding : str
        The table of tokens, after the prefix ("": none), and the output's, a whole name (absent: the same table).
    query, key, value, output : str
        Modules of the attention, after the layer. query = key = value: one matrix, cut as `fused` says.
    up, gate, down : str
        Modules of the MLP; gate "": it has none; gate = up: one matrix, gate rows first.
    attention_norm, mlp_norm : str
        The norms that attention and MLP get their input from ("": none; or, for the attention of BERT, the norm that
        ends the layer before).
    mlp_after : str
        A norm applied to what the MLP gives, before it is added.
    query_norm, key_norm : str
        Norms of queries and keys.
    norm : {"rms", "rms, gain 1 + w", "layer"}
        What the norms do.
    inputs_first : bool
        Whether matrices are (in, out), as in GPT-2's Conv1D, rather than (out, in).
    fused : "thirds" or "heads"
        One matrix holds all queries, then all keys, then all values; or those of the first head, then the next.
    rope : "halves", "adjacent" or "none"
        Which coordinates rotary positions turn together: i and i + d/2, 2i and 2i + 1, or no rotation.
    causal : bool
        Whether a token sees none after it.
    activation : (str, str)
        The setting that names σ, and its value where it is not set.
    settings : mapping
        This kind's own words for settings.
    defaults : mapping
        Settings that are not written where they have this value.
    required : mapping
        Settings that are read for this value only.
    full_every : int
        Every how many layers attention has no window; 0: all have one, where the settings name one.
    embedding_scaled : bool
        Whether embeddings are multiplied by sqrt(d), as in Gemma.
    reserved : int
        Rows of the table of positions that no token stands at.
    live_up : str
        The whole name of `up` in a live network, with the layer's number, where it is another than in the checkpoint.
    """

    prefix: str = "model."
    layer: str = "layers.{}."
    embedding: str = "embed_tokens"
    unembedding: str = "lm_head"
    query: str = "self_attn.q_proj"
    key: str = "self_attn.k_proj"
    value: str = "self_attn.v_proj"
    output: str = "self_attn.o_proj"
    up: str = "mlp.up_proj"
    gate: str = "mlp.gate_proj"
    down: str = "mlp.down_proj"
    attention_norm: str = "input_layernorm"
    mlp_norm: str = "post_attention_layernorm"
    mlp_after: str = ""
    query_norm: str = ""
    key_norm: str = ""
    norm: NormKind = "rms"
    inputs_first: bool = False
    fused: Literal["thirds", "heads"] = "thirds"
    rope: Rope = "halves"
    causal: bool = True
    activation: tuple[str, str] = ("hidden_act", "silu")
    settings: Mapping[str, str] = field(default_factory=dict)
    defaults: Mapping[str, Any] = field(default_factory=dict)
    required: Mapping[str, Any] = field(default_factory=dict)
    full_every: int = 0
    embedding_scaled: bool = False
    reserved: int = 0
    live_up: str = ""


_LLAMA = Architecture()
_QWEN3 = replace(_LLAMA, query_norm="self_attn.q_norm", key_norm="self_attn.k_norm")
_GEMMA = replace(
    _LLAMA, norm="rms, gain 1 + w", activation=("hidden_activation", "gelu_pytorch_tanh"), embedding_scaled=True
)
_GEMMA2 = replace(_GEMMA, mlp_norm="pre_feedforward_layernorm", mlp_after="post_feedforward_layernorm", full_every=2)
_BERT = Architecture(
    prefix="bert.", layer="encoder.layer.{}.", embedding="embeddings.word_embeddings",
    unembedding="cls.predictions.decoder", query="attention.self.query", key="attention.self.key",
    value="attention.self.value", output="attention.output.dense", up="intermediate.dense", gate="",
    down="output.dense", attention_norm="", mlp_norm="attention.output.LayerNorm", norm="layer", rope="none",
    causal=False, activation=("hidden_act", "gelu"), required={"is_decoder": False},
)  # fmt: skip
_GPT2_WORDS = {
    "num_hidden_layers": "n_layer", "num_attention_heads": "n_head", "hidden_size": "n_embd",
    "intermediate_size": "n_inner", "max_position_embeddings": "n_positions",
}  # fmt: skip

HUGGING_FACE: dict[str, Architecture] = {
    "llama": _LLAMA,
    "mistral": _LLAMA,
    "qwen2": replace(_LLAMA, required={"use_sliding_window": False}, full_every=1),
    "qwen3": replace(_QWEN3, required={"use_sliding_window": False}, full_every=1),
    "gemma": _GEMMA,
    "gemma2": _GEMMA2,
    "gemma3_text": replace(_GEMMA2, query_norm="self_attn.q_norm", key_norm="self_attn.k_norm", full_every=6),
    "phi3": replace(_LLAMA, query="self_attn.qkv_proj", key="self_attn.qkv_proj", value="self_attn.qkv_proj",
                    up="mlp.gate_up_proj", gate="mlp.gate_up_proj"),
    "olmo2": replace(_QWEN3, attention_norm="", mlp_norm="", mlp_after="post_feedforward_layernorm"),
    "gpt2": Architecture(
        prefix="transformer.", layer="h.{}.", embedding="wte", query="attn.c_attn", key="attn.c_attn",
        value="attn.c_attn", output="attn.c_proj", up="mlp.c_fc", gate="", down="mlp.c_proj", attention_norm="ln_1",
        mlp_norm="ln_2", norm="layer", inputs_first=True, rope="none", activation=("activation_function", "gelu_new"),
        settings=_GPT2_WORDS),
    "gpt_neox": Architecture(
        prefix="gpt_neox.", embedding="embed_in", unembedding="embed_out", query="attention.query_key_value",
        key="attention.query_key_value", value="attention.query_key_value", output="attention.dense",
        up="mlp.dense_h_to_4h", gate="", down="mlp.dense_4h_to_h", norm="layer", fused="heads",
        activation=("hidden_act", "gelu")),
    "opt": Architecture(
        prefix="model.decoder.", output="self_attn.out_proj", up="fc1", gate="", down="fc2",
        attention_norm="self_attn_layer_norm", mlp_norm="final_layer_norm", norm="layer", rope="none",
        activation=("activation_function", "relu"), settings={"intermediate_size": "ffn_dim"},
        required={"do_layer_norm_before": True}),
    "bert": _BERT,
    "roberta": replace(_BERT, prefix="roberta.", unembedding="lm_head.decoder", reserved=2),
    "distilbert": replace(
        _BERT, prefix="distilbert.", layer="transformer.layer.{}.", unembedding="vocab_projector",
        query="attention.q_lin", key="attention.k_lin", value="attention.v_lin", output="attention.out_lin",
        up="ffn.lin1", down="ffn.lin2", mlp_norm="sa_layer_norm", activation=("activation", "gelu"), required={},
        settings={"num_hidden_layers": "n_layers", "num_attention_heads": "n_heads", "hidden_size": "dim",
                  "intermediate_size": "hidden_dim"},
        defaults={"layer_norm_eps": 1e-12}),
    "vit": replace(
        _BERT, prefix="vit.", embedding="", unembedding="", query="attention.attention.query",
        key="attention.attention.key", value="attention.attention.value", attention_norm="layernorm_before",
        mlp_norm="layernorm_after", required={}, live_up="layers.{}.mlp.fc1"),
}  # fmt: skip

_GGUF_LLAMA = Architecture(
    prefix="", layer="blk.{}.", embedding="token_embd", unembedding="output", query="attn_q", key="attn_k",
    value="attn_v", output="attn_output", up="ffn_up", gate="ffn_gate", down="ffn_down", attention_norm="attn_norm",
    mlp_norm="ffn_norm", rope="adjacent",
)  # fmt: skip
_GGUF_QWEN = replace(_GGUF_LLAMA, rope="halves")

# Files of this format hold GPT-2's matrices as (out, in).
GGUF: dict[str, Architecture] = {
    "llama": _GGUF_LLAMA,
    "qwen2": _GGUF_QWEN,
    "qwen3": replace(_GGUF_QWEN, query_norm="attn_q_norm", key_norm="attn_k_norm"),
    "gpt2": replace(_GGUF_LLAMA, query="attn_qkv", key="attn_qkv", value="attn_qkv", gate="", norm="layer", rope="none",
                    activation=("hidden_act", "gelu_new")),
    "bert": replace(_GGUF_LLAMA, gate="", attention_norm="", mlp_norm="attn_output_norm", norm="layer", rope="none",
                    causal=False, activation=("hidden_act", "gelu")),
}  # fmt: skip

ARCHITECTURES = {"Hugging Face": HUGGING_FACE, "GGUF": GGUF}

ACTIVATIONS: dict[str, Activation] = {
    "silu": Swish(),
    "swish": Swish(),
    "gelu": GELU(),
    "gelu_new": GELU(tanh=True),
    "gelu_fast": GELU(tanh=True),
    "gelu_pytorch_tanh": GELU(tanh=True),
    "relu": ReLU(),
    "relu2": ReLU(power=2),
    "linear": Linear(),
}
