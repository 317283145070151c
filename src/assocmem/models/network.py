"""A trained network opened for reading: its layers and its embedding, decoded to float32 when asked for."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from assocmem.contract.errors import FileFormatError, InputError
from assocmem.contract.numbers import is_whole
from assocmem.models.architectures import ACTIVATIONS, ARCHITECTURES, Architecture
from assocmem.models.checkpoint import Checkpoint, open_checkpoint
from assocmem.models.layers import AttentionLayer, Embedding, MLPLayer, Norm
from assocmem.models.tensors import Numbers
from assocmem.models.words import readable


def open_network(path: str | os.PathLike[str]) -> Network:
    """Open a checkpoint and say what its tensors are.

    Parameters
    ----------
    path : str or path
        As for `open_checkpoint`.

    Returns
    -------
    Network
        Its layers, read when asked for.

    Raises
    ------
    FileFormatError
        As `open_checkpoint`, and for an architecture that is not known, by name.
    """
    checkpoint = open_checkpoint(path)
    known = ARCHITECTURES[checkpoint.kind]
    if checkpoint.architecture not in known:
        raise FileFormatError(
            f"{checkpoint.path.name} is a {checkpoint.architecture} model; those of {checkpoint.kind} that are read: "
            f"{', '.join(known)}."
        )
    return Network(checkpoint, known[checkpoint.architecture])


@dataclass(frozen=True, eq=False)
class Network:
    """A checkpoint and what its tensors are.

    Reading a layer reads, decodes and hands out copies: nothing is kept. Layers are numbered from 0.

    Parameters
    ----------
    checkpoint : Checkpoint
        Settings and tensors.
    kind : Architecture
        The names and conventions by which they are read.
    """

    checkpoint: Checkpoint
    kind: Architecture

    def __post_init__(self) -> None:
        for name, value in self.kind.required.items():
            if self.checkpoint.settings.get(name, value) != value:
                raise FileFormatError(
                    f"{self.checkpoint.path.name} is a {self.checkpoint.architecture} model with {name} = "
                    f"{self.checkpoint.settings[name]}; only those with {value} are read."
                )
        _ = self.prefix, self.n_layers, self.width, self.n_heads, self.n_key_heads, self.head_width

    @property
    def n_layers(self) -> int:
        """How many layers it has."""
        return self._whole("num_hidden_layers")

    @property
    def width(self) -> int:
        """The width d of the residual stream."""
        return self._whole("hidden_size")

    @property
    def hidden(self) -> int:
        """Rows n of an MLP."""
        return self._whole("intermediate_size", 4 * self.width)

    @property
    def n_heads(self) -> int:
        """Query heads of a layer."""
        return self._whole("num_attention_heads")

    @property
    def n_key_heads(self) -> int:
        """Key heads of a layer."""
        return self._whole("num_key_value_heads", self.n_heads)

    @property
    def head_width(self) -> int:
        """The width d_k of a key."""
        return self._whole("head_dim", self.width // self.n_heads)

    @property
    def context(self) -> int | None:
        """The longest text that it takes, in tokens; None where the settings do not say."""
        return self._whole("max_position_embeddings", 0) - self.kind.reserved or None

    @property
    def note(self) -> str:
        """What to say beside numbers about the types in which the weights are stored; "" for float32."""
        kinds = {tensor.stored for tensor in self.checkpoint.tensors.values() if len(tensor.shape) > 1}
        packed = sorted(kinds - {"F64", "F32", "F16", "BF16"})
        if packed:
            return f"weights are quantised ({', '.join(packed)}): numbers are those of the decoded weights"
        halves = sorted(kinds & {"F16", "BF16"})
        return f"weights are stored in {', '.join(halves)} and computed in float32" if halves else ""

    @cached_property
    def prefix(self) -> str:
        """What the names of this checkpoint begin with."""
        probe = self.kind.layer.format(0) + self.kind.query + ".weight"
        for prefix in (self.kind.prefix, ""):
            if prefix + probe in self.checkpoint.tensors:
                return prefix
        raise FileFormatError(
            f"{self.checkpoint.path.name} holds no tensor {self.kind.prefix + probe!r}, which a "
            f"{self.checkpoint.architecture} model has; it is of another kind, or damaged."
        )

    def mlp(self, layer: int) -> MLPLayer:
        """Return the MLP of a layer, one row a memory.

        Parameters
        ----------
        layer : int
            From 0.

        Returns
        -------
        MLPLayer
            Its matrices in float32.
        """
        at, kind, n, d = self._layer(layer), self.kind, self.hidden, self.width
        gates, gate_bias = None, None
        if kind.gate == kind.up:
            gates, keys = np.split(self._matrix(at + kind.up, (2 * n, d)), 2)
            both = self._bias(at + kind.up)
            gate_bias, key_bias = (None, None) if both is None else np.split(both, 2)
        else:
            keys, key_bias = self._matrix(at + kind.up, (n, d)), self._bias(at + kind.up)
            if kind.gate:
                gates, gate_bias = self._matrix(at + kind.gate, (n, d)), self._bias(at + kind.gate)
        return MLPLayer(
            layer, keys, np.ascontiguousarray(self._matrix(at + kind.down, (d, n)).T), gates, key_bias, gate_bias,
            self._bias(at + kind.down), self._activation(), self._norm(at, kind.mlp_norm),
            self._norm(at, kind.mlp_after), self._stored(at + kind.up, at + kind.gate, at + kind.down),
        )  # fmt: skip

    def attention(self, layer: int) -> AttentionLayer:
        """Return the attention of a layer, head by head.

        Parameters
        ----------
        layer : int
            From 0.

        Returns
        -------
        AttentionLayer
            Its matrices in float32.
        """
        at, kind = self._layer(layer), self.kind
        h, h_k, d_k, d = self.n_heads, self.n_key_heads, self.head_width, self.width
        if kind.query == kind.key:
            whole = self._matrix(at + kind.query, ((h + 2 * h_k) * d_k, d))
            q, k, v = self._cut(whole)
            bias = self._bias(at + kind.query)
            b_q, b_k, b_v = (None, None, None) if bias is None else self._cut(bias)
        else:
            q, k, v = (self._matrix(at + name, (heads * d_k, d)).reshape(heads, d_k, d)
                       for name, heads in ((kind.query, h), (kind.key, h_k), (kind.value, h_k)))  # fmt: skip
            biases = [self._bias(at + name) for name in (kind.query, kind.key, kind.value)]
            b_q, b_k, b_v = (None if b is None else b.reshape(-1, d_k) for b in biases)
        out = self._matrix(at + kind.output, (d, h * d_k)).reshape(d, h, d_k).transpose(1, 0, 2)
        return AttentionLayer(
            layer, q, k, v, np.ascontiguousarray(out), b_q, b_k, b_v, self._bias(at + kind.output),
            self._norm(at, kind.query_norm), self._norm(at, kind.key_norm), self._scaling(layer),
            self._setting("attn_logit_softcapping"), self._window(layer), kind.causal, kind.rope, self._theta(),
            self._norm(at, kind.attention_norm), self._stored(at + kind.query, at + kind.key, at + kind.value),
        )  # fmt: skip

    @property
    def embedding(self) -> Embedding:
        """The table of tokens and the output's; FileFormatError where the network reads no tokens."""
        if not self.kind.embedding:
            raise FileFormatError(f"a {self.checkpoint.architecture} model has no table of tokens: it reads images.")
        name = self.prefix + self.kind.embedding + ".weight"
        rows = self.checkpoint.tensor(name)
        if rows.ndim != 2 or rows.shape[1] != self.width:
            raise FileFormatError(f"{name!r} must have the width {self.width} of the settings; got {rows.shape}.")
        output = self.kind.unembedding + ".weight"
        tied = output not in self.checkpoint.tensors
        return Embedding(
            rows, rows if tied else self.checkpoint.tensor(output), tied,
            math.sqrt(self.width) if self.kind.embedding_scaled else 1.0,
            readable(self.checkpoint.vocabulary), self._stored(name.removesuffix(".weight")),
        )  # fmt: skip

    def _layer(self, layer: int) -> str:
        if not is_whole(layer, 0) or layer >= self.n_layers:
            raise InputError(f"`layer` must lie in [0, {self.n_layers}), the layers of the model; got {layer!r}.")
        return self.prefix + self.kind.layer.format(layer)

    def _setting(self, name: str, otherwise: Any = None) -> Any:
        found = self.checkpoint.settings.get(self.kind.settings.get(name, name))
        return self.kind.defaults.get(name, otherwise) if found is None else found

    def _whole(self, name: str, otherwise: int | None = None) -> int:
        found = self._setting(name, otherwise)
        if not is_whole(found, 0):
            raise FileFormatError(f"the settings of {self.checkpoint.path.name} must give {name}; got {found!r}.")
        return int(found)

    def _bias(self, module: str) -> Numbers | None:
        name = module + ".bias"
        return self.checkpoint.tensor(name) if name in self.checkpoint.tensors else None

    def _matrix(self, module: str, shape: tuple[int, int]) -> Numbers:
        """Return a module's matrix as (out, in), whose shape the settings give."""
        matrix = self.checkpoint.tensor(module + ".weight")
        wanted = shape[::-1] if self.kind.inputs_first else shape
        if matrix.shape != wanted:
            raise FileFormatError(f"{module}.weight must have the shape {wanted} of the settings; got {matrix.shape}.")
        return np.ascontiguousarray(matrix.T) if self.kind.inputs_first else matrix

    def _cut(self, whole: Numbers) -> tuple[Numbers, Numbers, Numbers]:
        """Return queries, keys and values (heads, d_k, ...) out of one matrix or bias."""
        h, h_k, d_k = self.n_heads, self.n_key_heads, self.head_width
        if self.kind.fused == "heads":
            q, k, v = np.moveaxis(whole.reshape(h, 3, d_k, *whole.shape[1:]), 1, 0)
            return q, k, v
        parts = np.split(whole, [h * d_k, (h + h_k) * d_k])
        q, k, v = (part.reshape(-1, d_k, *whole.shape[1:]) for part in parts)
        return q, k, v

    def _norm(self, at: str, name: str) -> Norm | None:
        if not name:
            return None
        gain = self.checkpoint.tensor(at + name + ".weight")
        if self.kind.norm == "layer":
            return Norm("layer", gain, self._bias(at + name), float(self._epsilon("layer_norm_eps", 1e-5)))
        one = np.float32(1) if self.kind.norm == "rms, gain 1 + w" else np.float32(0)
        return Norm("rms", gain + one, None, float(self._epsilon("rms_norm_eps", 1e-6)))

    def _epsilon(self, name: str, otherwise: float) -> Any:
        return self._setting(name, self._setting("layer_norm_epsilon", otherwise))

    def _activation(self) -> Any:
        name, otherwise = self.kind.activation
        found = self.checkpoint.settings.get(name, otherwise)
        if found not in ACTIVATIONS:
            raise FileFormatError(f"the activation {found!r} is not known; those that are: {', '.join(ACTIVATIONS)}.")
        return ACTIVATIONS[found]

    def _scaling(self, layer: int) -> float:
        scaling = 1 / math.sqrt(self._setting("query_pre_attn_scalar", self.head_width))
        return scaling / (layer + 1) if self._setting("scale_attn_by_inverse_layer_idx") else scaling

    def _window(self, layer: int) -> int | None:
        kinds, window = self._setting("layer_types"), self._setting("sliding_window")
        if kinds is not None:
            return window if kinds[layer] == "sliding_attention" else None
        return None if self.kind.full_every and (layer + 1) % self.kind.full_every == 0 else window

    def _theta(self) -> float | None:
        if self.kind.rope == "none":
            return None
        return float((self._setting("rope_parameters") or {}).get("rope_theta") or self._setting("rope_theta", 1e4))

    def _stored(self, *modules: str) -> str:
        kinds = {self.checkpoint.tensors[name].stored for name in (m + ".weight" for m in modules)
                 if name in self.checkpoint.tensors}  # fmt: skip
        return ", ".join(sorted(kinds))
