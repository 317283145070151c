"""A checkpoint on disk (a Hugging Face folder, a .safetensors or .gguf file): its settings, and tensors on demand."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from assocmem.contract.errors import FileFormatError
from assocmem.models.tensors import Numbers, Tensor, gguf_of, safetensors_of

_PICKLES = (".bin", ".pt", ".pth", ".ckpt")
_GGUF_WORDS = {
    "block_count": "num_hidden_layers", "embedding_length": "hidden_size", "feed_forward_length": "intermediate_size",
    "attention.head_count": "num_attention_heads", "attention.head_count_kv": "num_key_value_heads",
    "attention.key_length": "head_dim", "context_length": "max_position_embeddings", "rope.freq_base": "rope_theta",
    "attention.sliding_window": "sliding_window", "attn_logit_softcapping": "attn_logit_softcapping",
    "attention.layer_norm_rms_epsilon": "rms_norm_eps", "attention.layer_norm_epsilon": "layer_norm_eps",
}  # fmt: skip


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """Settings and tensors of a trained network.

    Parameters
    ----------
    path : Path
        The folder or file that was opened.
    kind : {"Hugging Face", "GGUF"}
        The format.
    architecture : str
        `model_type` of config.json, or `general.architecture`.
    settings : mapping
        config.json; of a .gguf file its metadata in the words of config.json.
    tensors : mapping
        From name to Tensor.
    vocabulary : tuple of str
        Tokens in the order of the embedding's rows, as the tokeniser spells them; () where there is none.
    """

    path: Path
    kind: Literal["Hugging Face", "GGUF"]
    architecture: str
    settings: Mapping[str, Any]
    tensors: Mapping[str, Tensor]
    vocabulary: tuple[str, ...] = ()

    def tensor(self, name: str) -> Numbers:
        """Return a tensor in float32.

        Parameters
        ----------
        name : str
            As the checkpoint has it.

        Returns
        -------
        float32 array
            Decoded anew with every call.

        Raises
        ------
        FileFormatError
            Where there is none of this name.
        """
        if name not in self.tensors:
            raise FileFormatError(f"{self.path.name} holds no tensor {name!r}, which a {self.architecture} model has.")
        return self.tensors[name].read()


def open_checkpoint(path: str | os.PathLike[str]) -> Checkpoint:
    """Open a checkpoint: settings and names of its tensors; numbers stay in the file until they are asked for.

    Parameters
    ----------
    path : str or path
        A Hugging Face folder (also sharded), a .safetensors file beside its config.json, or a .gguf file.

    Returns
    -------
    Checkpoint
        What it holds.

    Raises
    ------
    FileFormatError
        For a path where nothing is, a folder without weights or settings, missing shards, truncated and foreign files,
        and weights packed by a quantiser.
    MissingExtraError
        For a .gguf file where the extra `models` is not installed.
    """
    place = Path(path)
    if place.is_dir():
        return _opened_folder(place)
    if not place.exists():
        raise FileFormatError(f"there is no file or folder {place}.")
    if place.suffix == ".gguf":
        return _opened_gguf(place)
    if place.suffix == ".safetensors":
        return _with_settings(place, place.parent, safetensors_of(place))
    hint = " Such files can run code when opened." if place.suffix in _PICKLES else ""
    raise FileFormatError(f"{place.name} is no Hugging Face folder, .safetensors or .gguf file.{hint}")


def _opened_folder(folder: Path) -> Checkpoint:
    index, single = folder / "model.safetensors.index.json", folder / "model.safetensors"
    if index.exists():
        placed = _json(index).get("weight_map")
        if not isinstance(placed, dict) or not placed:
            raise FileFormatError(f"{index.name} of {folder} names no shards.")
        shards = sorted(set(placed.values()))
        missing = [name for name in shards if not (folder / name).exists()]
        if missing:
            raise FileFormatError(
                f"{folder} lacks {len(missing)} of {len(shards)} shards that its index names: {missing[0]}"
                + ("." if len(missing) == 1 else " and others.")
            )
        tensors = {name: tensor for shard in shards for name, tensor in safetensors_of(folder / shard).items()}
        return _with_settings(folder, folder, tensors)
    if single.exists():
        return _with_settings(folder, folder, safetensors_of(single))
    ggufs = sorted(folder.glob("*.gguf"))
    if len(ggufs) == 1:
        return _opened_gguf(ggufs[0])
    pickles = [file.name for file in sorted(folder.iterdir()) if file.suffix in _PICKLES]
    what = f"its weights are in {pickles[0]}, which can run code when opened" if pickles else "it holds no weights"
    if ggufs:
        what = f"it holds {len(ggufs)} .gguf files, of which one must be named"
    raise FileFormatError(f"{folder} cannot be opened: {what}; a model.safetensors, its index or one .gguf is read.")


def _with_settings(path: Path, folder: Path, tensors: Mapping[str, Tensor]) -> Checkpoint:
    config = folder / "config.json"
    if not config.exists():
        raise FileFormatError(
            f"there is no config.json beside the weights in {folder}: it says what they are, and shapes never do."
        )
    settings = _json(config)
    architecture = settings.get("model_type")
    if not isinstance(architecture, str):
        raise FileFormatError(f"{config} names no `model_type`, so what the weights are is not known.")
    packed = settings.get("quantization_config")
    if packed:
        method = packed.get("quant_method", "a quantiser") if isinstance(packed, dict) else "a quantiser"
        raise FileFormatError(f"the weights in {folder} are packed by {method}; plain ones and .gguf files are read.")
    return Checkpoint(path, "Hugging Face", architecture, settings, tensors, _vocabulary(folder / "tokenizer.json"))


def _opened_gguf(file: Path) -> Checkpoint:
    fields, tensors = gguf_of(file)
    architecture = fields.get("general.architecture")
    if not isinstance(architecture, str):
        raise FileFormatError(f"{file.name} names no architecture, so what its tensors are is not known.")
    settings = {word: fields[f"{architecture}.{name}"] for name, word in _GGUF_WORDS.items()
                if f"{architecture}.{name}" in fields}  # fmt: skip
    return Checkpoint(file, "GGUF", architecture, settings, tensors, tuple(fields.get("tokenizer.ggml.tokens", ())))


def _vocabulary(file: Path) -> tuple[str, ...]:
    """Return the tokens of a tokenizer.json in the order of their numbers; () where there is none."""
    if not file.exists():
        return ()
    read = _json(file)
    model = read.get("model", {}).get("vocab", {})
    # Unigram models list [token, score]; the others map a token to its number.
    numbered = dict(model) if isinstance(model, dict) else {token: i for i, (token, _) in enumerate(model)}
    numbered |= {token["content"]: token["id"] for token in read.get("added_tokens", [])}
    words = dict(zip(numbered.values(), numbered.keys(), strict=True))
    return tuple(words.get(i, "") for i in range(max(words, default=-1) + 1))


def _json(file: Path) -> dict[str, Any]:
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise FileFormatError(f"{file} cannot be read: {error.strerror or error}.") from error
    except ValueError as error:
        raise FileFormatError(f"{file} is no readable JSON file; it is truncated or damaged.") from error
    if not isinstance(found, dict):
        raise FileFormatError(f"{file} does not hold settings by name.")
    return found
