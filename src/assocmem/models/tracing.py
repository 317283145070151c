"""Queries, keys and values of every attention layer of a live network, captured while it reads, and checked.

A function registered with transformers' `AttentionInterface` notes what each layer attends with and hands on to the
layer's own eager attention, so no architecture is touched. What was noted must give the model's own weights again to
CHECKED, in every layer, or the model is refused by name.
"""

from __future__ import annotations

import io
import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stderr
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from assocmem.contract.arrays import to_numpy
from assocmem.contract.errors import FileFormatError, InputError, MissingExtraError
from assocmem.models.architectures import HUGGING_FACE, Architecture
from assocmem.models.tensors import Numbers
from assocmem.models.words import readable

Bools: TypeAlias = np.ndarray[Any, np.dtype[np.bool_]]

CHECKED = 1e-5
"""The largest difference between the model's attention weights and those that the capture gives again."""
INTERFACE = "assocmem_capture"
_TOKENIZERS = ("tokenizer.json", "vocab.txt", "vocab.json", "tokenizer.model", "spiece.model")
_CALLS: ContextVar[list[_Call]] = ContextVar("calls")


@dataclass(frozen=True, eq=False)
class LayerTrace:
    """What one attention layer computed with: logits softcap(scaling q.k), soft-maxed over the keys that are seen.

    Attributes
    ----------
    layer : int
    queries : array (h, n, d_k)
    keys, values : arrays (h_k, n, d_k), (h_k, n, d_v)
        After norms and positions, as they meet; head i reads the keys of head i // (h / h_k). float32.
    scaling : float
    seen : bool array (n, n) or None
        Which keys a query sees; None: all.
    window, softcap : int or None, float or None
    sinks : array (h,) or None
        A logit of each head that takes part in the softmax and brings no value.
    """

    layer: int
    queries: Numbers
    keys: Numbers
    values: Numbers
    scaling: float
    seen: Bools | None
    window: int | None
    softcap: float | None
    sinks: Numbers | None


@dataclass(frozen=True, eq=False)
class Trace:
    """What a network's attention computed with while it read one text.

    Attributes
    ----------
    model : str
        The kind of model, in transformers' word.
    tokens : tuple of str
        The text as the network read it (the patches of an image are numbered).
    layers : tuple of LayerTrace
    inputs : mapping from layer to array (n, d)
        What the MLPs that were asked for read, after their norm.
    context : int or None
        The longest text that the model was made for.
    notes : tuple of str
        What to say beside numbers.
    """

    model: str
    tokens: tuple[str, ...]
    layers: tuple[LayerTrace, ...]
    inputs: Mapping[int, Numbers] = field(default_factory=dict)
    context: int | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class LiveModel:
    """A network in memory (transformers' `PreTrainedModel`) and its tokeniser, None where the checkpoint has none."""

    network: Any
    tokenizer: Any = None
    notes: tuple[str, ...] = ()


def load_live(path: Path, *, head: bool = False) -> LiveModel:
    """Load a folder, or a .gguf or .safetensors file, into transformers, in float32, without the network.

    `head`: as a causal language model, with what says the next token.

    Raises MissingExtraError without the extra `trace`, FileFormatError where transformers cannot load it.
    """
    transformers, torch = libraries()
    named = {"gguf_file": path.name} if path.suffix == ".gguf" else {}
    folder = path if path.is_dir() else path.parent
    with _quietly(transformers):
        try:
            auto = transformers.AutoModelForCausalLM if head else transformers.AutoModel
            network, told = auto.from_pretrained(
                folder, dtype=torch.float32, local_files_only=True, output_loading_info=True, **named
            )
            tokenizer = None
            if named or any((folder / name).exists() for name in _TOKENIZERS):
                tokenizer = transformers.AutoTokenizer.from_pretrained(folder, local_files_only=True, **named)
        except Exception as error:  # whatever a stranger's checkpoint sets off
            raise FileFormatError(f"transformers cannot load {path.name}: {_first_line(error)}") from error
    if head and not named and told["missing_keys"]:  # transformers would draw them at random
        lacks = min(told["missing_keys"])
        raise FileFormatError(
            f"{path.name} is no language model that says the next token: it lacks {len(told['missing_keys'])} of its "
            f"weights, such as {lacks}."
        )
    notes = ("the tokeniser is rebuilt from the .gguf file and may split numbers and blank lines otherwise",)
    return LiveModel(network, tokenizer, notes if named else ())


def trace_text(live: LiveModel, text: Any, *, length: int | None = None, mlp: Sequence[int] = ()) -> Trace:
    """Return the trace of a text.

    Parameters
    ----------
    live : LiveModel
    text : str, whole numbers (n,) or array (3, height, width)
        A text, the numbers of its tokens, or the pixels of an image for a network that sees.
    length : int
        Read only so many of the first tokens.
    mlp : sequence of int
        Layers whose MLP's inputs are kept as well.

    Returns
    -------
    trace : Trace

    Raises
    ------
    InputError
        For an empty text, a single token, more tokens than the model's context, text for a network without tokeniser,
        and a network whose attention cannot be captured, by name.
    """
    _, torch = libraries()
    if isinstance(text, str):
        if live.tokenizer is None:
            raise InputError("the checkpoint has no tokeniser; give the numbers of tokens in place of a text.")
        ids = np.asarray(live.tokenizer(text, verbose=False)["input_ids"], np.int64)
    else:
        ids = np.asarray(text)
    if ids.ndim == 3 and ids.dtype.kind == "f":
        pixels = torch.as_tensor(ids, dtype=torch.float32)[None]
        return capture(live.network, {"pixel_values": pixels}, notes=live.notes, mlp=mlp)
    if ids.ndim != 1 or (ids.size and ids.dtype.kind not in "iu"):
        raise InputError(f"`text` must be a text, numbers of tokens (n,) or pixels (3, h, w); got shape {ids.shape}.")
    ids = ids[:length]
    _require_length(len(ids), _context(live.network), live.network.config.model_type)
    tokens = tuple(str(i) for i in ids)
    if live.tokenizer is not None:
        tokens = readable(live.tokenizer.convert_ids_to_tokens(ids.tolist()), live.tokenizer.get_vocab())
    inputs = {"input_ids": torch.as_tensor(ids)[None]}
    return capture(live.network, inputs, notes=live.notes, mlp=mlp, tokens=tokens)


def capture(
    network: Any, inputs: Mapping[str, Any], *, tokens: Sequence[str] = (), notes: Sequence[str] = (),
    mlp: Sequence[int] = (),
) -> Trace:  # fmt: skip
    """Return the trace of a live network (transformers' `PreTrainedModel`) on inputs with a batch of one.

    Its mode, its attention and its hooks are as before afterwards. Parameters and errors otherwise as `trace_text`.
    """
    transformers, torch = libraries()
    name = network.config.model_type
    if getattr(network.config, "is_encoder_decoder", False):
        raise InputError(f"{name} models cannot be traced: they have two stacks, an encoder and a decoder.")
    before, training, calls = network.config._attn_implementation, network.training, _CALLS.set([])
    with mlp_inputs(network, mlp) as inputs_of:
        try:
            with _quietly(transformers), torch.no_grad():
                transformers.AttentionInterface.register(INTERFACE, _noted)
                transformers.AttentionMaskInterface.register(INTERFACE, transformers.masking_utils.eager_mask)
                network.set_attn_implementation(INTERFACE)
                network.eval()(**inputs, **({"use_cache": False} if _caches(network) else {}))
            found = _CALLS.get()
        except Exception as error:  # whatever a stranger's network sets off
            raise InputError(f"the {name} model failed on what it was given: {_first_line(error)}") from error
        finally:
            _CALLS.reset(calls)
            with _quietly(transformers):
                network.set_attn_implementation(before)
            network.train(training)
    count = network.config.get_text_config().num_hidden_layers
    if len(found) != count:
        raise InputError(
            f"{name} models cannot be traced: {len(found) or 'none'} of {count} layers attend through transformers' "
            "attention interface."
        )
    layers = tuple(call.checked(layer, name) for layer, call in enumerate(found))
    spelt = tuple(tokens) or tuple(str(i) for i in range(layers[0].queries.shape[1]))
    return Trace(name, spelt, layers, inputs_of, _context(network), tuple(notes))


@contextmanager
def mlp_inputs(network: Any, layers: Sequence[int]) -> Iterator[dict[int, Numbers]]:
    """Keep what the MLPs of these layers read while the network runs inside the `with`, (n, d) float32 each.

    Raises InputError where the network's MLPs are not known.
    """
    inputs: dict[int, Numbers] = {}
    hooks = [_mlp_module(network, layer).register_forward_pre_hook(_keeper(inputs, layer)) for layer in layers]
    try:
        yield inputs
    finally:
        for hook in hooks:
            hook.remove()


@dataclass(frozen=True, eq=False)
class _Call:
    """One layer's attention as it was noted, batch of one, and how far its weights are from the model's."""

    query: Any
    key: Any
    value: Any
    mask: Any
    scaling: float
    settings: Mapping[str, Any]
    difference: float

    def checked(self, layer: int, name: str) -> LayerTrace:
        """Return it as arrays; InputError where it does not account for the model's weights."""
        if not self.difference <= CHECKED:
            bias = "a position bias" if self.settings.get("position_bias") is not None else "something"
            raise InputError(
                f"{name} models cannot be traced: {bias} beside queries and keys moves the attention weights of layer "
                f"{layer} by {self.difference:.2g}."
            )
        sinks = self.settings.get("s_aux")
        queries, keys, values = (to_numpy(x[0]).astype(np.float32) for x in (self.query, self.key, self.value))
        return LayerTrace(
            layer, queries, keys, values, self.scaling,
            _seen(self.mask, name), self.settings.get("sliding_window"), self.settings.get("softcap"),
            None if sinks is None else to_numpy(sinks).astype(np.float32),
        )  # fmt: skip


def _noted(module: Any, query: Any, key: Any, value: Any, attention_mask: Any, **settings: Any) -> Any:
    """Attend as the module would, and note with what."""
    given = {name: value for name, value in settings.items() if name != "scaling" or value is not None}
    eager = sys.modules[type(module).__module__].eager_attention_forward
    output, weights = eager(module, query, key, value, attention_mask, **given)
    scaling = float(given.get("scaling", query.shape[-1] ** -0.5))
    again = _again(query, key, attention_mask, scaling, settings.get("softcap"), settings.get("s_aux"))
    difference = float((again - weights).abs().max()) if again.shape == weights.shape else float("nan")
    _CALLS.get().append(_Call(query, key, value, attention_mask, scaling, settings, difference))
    return output, weights


def _again(query: Any, key: Any, mask: Any, scaling: float, softcap: float | None, sinks: Any) -> Any:
    """Return the attention weights that the noted tensors give."""
    torch = sys.modules["torch"]
    logits = query @ key.repeat_interleave(query.shape[1] // key.shape[1], dim=1).mT * scaling
    if softcap:
        logits = softcap * torch.tanh(logits / softcap)
    if mask is not None:
        logits = logits + mask
    if sinks is None:
        return torch.softmax(logits.float(), dim=-1)
    beside = sinks.reshape(1, -1, 1, 1).expand(*logits.shape[:-1], 1)
    return torch.softmax(torch.cat([logits, beside], dim=-1).float(), dim=-1)[..., :-1]


def _seen(mask: Any, name: str) -> Bools | None:
    """Return which keys a query sees out of what is added to the logits: zero, or a very negative number."""
    if mask is None:
        return None
    added = to_numpy(mask[0])
    seen = added > -1e4
    if added[seen].any() or (seen != seen[:1]).any():
        raise InputError(f"{name} models cannot be traced: they add a position bias to the logits of their heads.")
    return None if seen.all() else seen[0]


def mlp_down(network: Any, layer: int) -> tuple[Any, bool]:
    """Return the module that turns a layer's hidden units into its MLP's output, and whether it is (in, out)."""
    kind = _known(network)
    return _module(network, kind.layer.format(layer) + kind.down, layer), kind.inputs_first


def _mlp_module(network: Any, layer: int) -> Any:
    """Return the module that reads what the MLP of a layer reads."""
    kind = _known(network)
    return _module(network, (kind.live_up or kind.layer + kind.up).format(layer), layer)


def _known(network: Any) -> Architecture:
    name = network.config.model_type
    if name not in HUGGING_FACE:
        raise InputError(f"the MLPs of {name} models are not known.")
    return HUGGING_FACE[name]


def _module(network: Any, wanted: str, layer: int) -> Any:
    for found, module in network.named_modules():
        if found.endswith(wanted):
            return module
    raise InputError(f"this {network.config.model_type} model has no module {wanted!r} for the MLP of layer {layer}.")


def _keeper(inputs: dict[int, Numbers], layer: int) -> Any:
    def keep(_module: Any, given: tuple[Any, ...]) -> None:
        inputs[layer] = to_numpy(given[0].reshape(-1, given[0].shape[-1])).astype(np.float32)

    return keep


def _context(network: Any) -> int | None:
    config = network.config.get_text_config()
    found = getattr(config, "max_position_embeddings", None)
    return found and found - HUGGING_FACE[config.model_type].reserved if config.model_type in HUGGING_FACE else found


def _require_length(count: int, context: int | None, name: str) -> None:
    if count < 2:
        raise InputError(
            "the text is empty: there is nothing to trace."
            if count == 0
            else "the text is one token, which sees nothing beside itself; give two or more."
        )
    if context is not None and count > context:
        raise InputError(
            f"the text is {count} tokens long and the context of this {name} model {context}; give less of it, or "
            f"length={context}."
        )


def _caches(network: Any) -> bool:
    """Say whether the network would keep its keys for later tokens, which takes memory for nothing."""
    return hasattr(network.config.get_text_config(), "use_cache")


@contextmanager
def _quietly(transformers: Any) -> Iterator[None]:
    """Silence transformers' warnings and progress bars, and set them back."""
    logging = transformers.utils.logging
    before, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        # What is left are the bars of libraries that ask nobody, and warnings.
        with warnings.catch_warnings(), redirect_stderr(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.set_verbosity(before)
        if bars:
            logging.enable_progress_bar()


def libraries() -> tuple[Any, Any]:
    """Return transformers and torch; MissingExtraError without the extra `trace`."""
    try:
        import torch
        import transformers
        import transformers.masking_utils
    except ImportError as error:
        raise MissingExtraError("live networks need torch and transformers: pip install 'assocmem[trace]'.") from error
    return transformers, torch


def _first_line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0][:200]
