"""A trained network as people use it: layers as memories, texts as traces that are measured."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from assocmem.lab.heads import Heads, heads_of_trace
from assocmem.lab.mlps import memory_of
from assocmem.memory import Memory
from assocmem.models import AttentionLayer, Embedding, MLPLayer, Network, open_network
from assocmem.models.tracing import LiveModel, Trace, load_live, trace_text


@dataclass(frozen=True, eq=False)
class Model:
    """A trained network that was opened by `open_model`.

    Layers are numbered from 0. Weights are read when asked for, and nothing but the live network is kept.
    """

    network: Network

    @property
    def n_layers(self) -> int:
        """How many layers it has."""
        return self.network.n_layers

    @property
    def note(self) -> str:
        """What to say beside numbers about the types in which the weights are stored; "" for float32."""
        return self.network.note

    @property
    def embedding(self) -> Embedding:
        """The table of tokens and the output's."""
        return self.network.embedding

    def mlp(self, layer: int) -> MLPLayer:
        """Return the keys, gates, biases, values, norm and activation of a layer's MLP, one row a memory."""
        return self.network.mlp(layer)

    def memory(self, layer: int) -> Memory:
        """Return a layer's MLP as a Memory; ask it with `mlp(layer).queries(x)`."""
        return memory_of(self.network.mlp(layer))

    def attention(self, layer: int) -> AttentionLayer:
        """Return W_Q, W_K, W_V, W_O of each head of a layer."""
        return self.network.attention(layer)

    @cached_property
    def live(self) -> LiveModel:
        """The network in transformers (extra `trace`), loaded on first touch and kept."""
        return load_live(self.network.checkpoint.path)

    def captured(self, text: Any, *, length: int | None = None, mlp: Sequence[int] = ()) -> Trace:
        """Return what attention computes with while the network reads a text (see `models.tracing.trace_text`)."""
        return trace_text(self.live, text, length=length, mlp=mlp)

    def trace(
        self, text: Any, *, length: int | None = None, layers: Sequence[int] | None = None,
        drop: Sequence[int] | None = None, target: Any = "strongest", values: bool = False, threshold: float = 1.0,
    ) -> Heads:  # fmt: skip
        """Let the network read a text and return its heads, measured when asked.

        Parameters
        ----------
        text : str, whole numbers (n,) or array (3, height, width)
            A text, the numbers of its tokens, or the pixels of an image for a network that sees.
        length : int
            Read only so many of the first tokens.
        layers : sequence of int
            Measure these only.
        drop, target, threshold
            As in `measure_attention`.
        values : bool
            Take the interference of the heads' own values, not of random ones.

        Returns
        -------
        heads : Heads

        Raises
        ------
        InputError, FileFormatError, MissingExtraError
            For texts that are empty or too long, networks that cannot be traced or loaded, without the extra `trace`.
        """
        found = self.captured(text, length=length)
        return heads_of_trace(found, drop=drop, target=target, layers=layers, values=values, threshold=threshold)


def open_model(path: str | os.PathLike[str]) -> Model:
    """Open a trained network for reading.

    Parameters
    ----------
    path : str or path
        A Hugging Face folder (also sharded), a .safetensors file beside its config.json, or a .gguf file (extra
        `models`). Weights stay in the file until they are asked for.

    Returns
    -------
    Model
        Its layers, and texts that it reads.

    Raises
    ------
    FileFormatError
        For a truncated or foreign file, missing shards, and an architecture that is not known, by name.
    MissingExtraError
        Without the extra `models`, for a .gguf file.
    """
    return Model(open_network(path))
