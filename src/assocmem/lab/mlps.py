"""MLPs of trained networks as memories: do rows come back when asked for, how many act on a text, what do they say.

Rows are asked by their own direction: an input along the key, or between key and gate, as long as the norm lets one be.
Ratios are exact (`ruler.GivenRows`), over random values and over the layer's own.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from assocmem.contract.errors import InputError
from assocmem.contract.numbers import is_whole
from assocmem.contract.results import Row
from assocmem.lab.longer_texts import finite
from assocmem.memory import Memory
from assocmem.models.layers import AttentionLayer, Embedding, MLPLayer
from assocmem.ruler import GivenRows, key_geometry, quantile
from assocmem.stores.mlp import MLP, GatedMLP

FloatArray = np.ndarray[Any, Any]

ASKED = 512
ENERGY = 0.9
COLUMNS = {
    "layer": "number of the layer, from 0",
    "rows": "memories: hidden units",
    "asked": "rows that were asked for by their own direction, evenly spaced",
    "recalled": "share of them whose own weight is the largest in size",
    "ratio": "interference-to-signal ratio of the median row, values random",
    "ratio_values": "the same with the layer's own values",
    "effective_dimension": "1 / E cos^2 of pairs of keys (the up rows)",
    "gate_dimension": "the same of the gates, null without",
    "active": "share of rows with a gate (or key) above zero, on the text; null without one",
    "rows_90": "rows that hold 90 % of the squared length that the median token is given",
}


def memory_of(layer: MLPLayer) -> Memory:
    """Return an MLP as a memory that holds its rows.

    Asked with `layer.queries(x)` it recalls f(x) without the bias of the values.
    """
    pairs = layer.pairs()
    memory = Memory(MLP(layer.activation) if layer.gates is None else GatedMLP(layer.activation))
    memory.write(pairs.keys, pairs.values, **pairs.extras)
    return memory


def own_directions(layer: MLPLayer, rows: Any = slice(None)) -> FloatArray:
    """Return the input that asks for each row: along its key, with a gate midway between the two, float64.

    Its length is what the layer's norm gives, |gain|, or sqrt(d) without a norm.
    """
    keys = _units(layer.keys[rows])
    if layer.gates is not None:
        keys = _units(keys + _units(layer.gates[rows]))
    length = math.sqrt(keys.shape[1]) if layer.norm is None else float(np.linalg.norm(layer.norm.gain))
    return keys * length


def measure_mlp(layer: MLPLayer, inputs: Any = None, *, asked: int = ASKED) -> Row:
    """Return what an MLP is as a memory.

    Parameters
    ----------
    layer : MLPLayer
    inputs : array (n, d)
        What it read on a text, after its norm (`Trace.inputs`).
    asked : int
        How many rows to ask for; all where there are fewer.

    Returns
    -------
    row : dict
        Columns: COLUMNS. Cost: `asked` n (2 d + d_v) multiply-adds.
    """
    if not is_whole(asked):
        raise InputError(f"`asked` must be a whole number >= 1; got {asked!r}.")
    n = len(layer.keys)
    chosen = np.unique(np.linspace(0, n - 1, min(asked, n)).round().astype(np.int64))
    pairs, queries = layer.pairs(), layer.queries(own_directions(layer, chosen))
    given = GivenRows(pairs.keys, queries, gates=pairs.extras.get("gate"), activation=layer.activation, target=chosen)
    weights = np.abs(layer.weights(own_directions(layer, chosen)))
    row: Row = {
        "layer": layer.layer, "rows": n, "asked": len(chosen),
        "recalled": float(np.mean(np.argmax(weights, axis=1) == chosen)),
        "ratio": _median(given.ratios().ratio()),
        "ratio_values": _median(_with_values(given, pairs.values).ratios().ratio()),
        "effective_dimension": key_geometry(layer.keys).effective_dimension,
        "gate_dimension": None if layer.gates is None else key_geometry(layer.gates).effective_dimension,
        "active": None, "rows_90": None,
    }  # fmt: skip
    if inputs is not None:
        x = np.asarray(inputs)
        acting = layer.keys if layer.gates is None else layer.gates
        bias = layer.key_bias if layer.gates is None else layer.gate_bias
        row["active"] = float(np.mean(x @ acting.T + (0 if bias is None else bias) > 0))
        energy = np.sort((layer.weights(x) * np.linalg.norm(layer.values, axis=1)) ** 2, axis=1)[:, ::-1]
        held = np.cumsum(energy, axis=1) / energy.sum(axis=1, keepdims=True)
        row["rows_90"] = float(np.median(1 + np.sum(held < ENERGY, axis=1)))
    return row


def strongest_rows(
    layer: MLPLayer, inputs: Any, tokens: Sequence[str], embedding: Embedding | None, count: int = 10
) -> list[Row]:
    """Return the rows that add most to the stream on a text, what triggers them and what they say.

    Parameters
    ----------
    layer : MLPLayer
    inputs : array (n, d)
        What it read on the text.
    tokens : sequence of str
        The text, one for every input.
    embedding : Embedding or None
        Whose output reads the values (Geva et al. 2021); None: values are not read.
    count : int
        How many rows.

    Returns
    -------
    rows : list of dict
        row; share (of the squared length that all rows gave a token, mean over tokens); triggers: the three places
        where its weight was largest, each with the two tokens before; says: the tokens that its value points to,
        signed as it was used there.
    """
    weights = layer.weights(np.asarray(inputs))
    energy = (weights * np.linalg.norm(layer.values, axis=1)) ** 2
    shares = np.mean(energy / energy.sum(axis=1, keepdims=True), axis=0)
    found = []
    for i in np.argsort(-shares, kind="stable")[:count]:
        places = np.argsort(-np.abs(weights[:, i]), kind="stable")[:3]
        sign = float(np.sign(weights[places[0], i])) or 1.0
        said = [] if embedding is None else [token for token, _ in embedding.nearest(sign * layer.values[i], 5)]
        found.append({
            "row": int(i), "share": float(shares[i]),
            "triggers": ["".join(tokens[max(0, p - 2) : p + 1]) for p in places], "says": said,
        })  # fmt: skip
    return found


def copying_share(layer: AttentionLayer, head: int, embedding: Embedding, *, asked: int = 200) -> float:
    """Return the share of tokens that a head writes back as themselves: the memory probe of Bietti et al. 2023.

    A token's embedding goes through the layer's norm and the head's W_O W_V; it counts where the output reads that same
    token first among all. `asked` tokens, evenly spaced. Cost: asked d (d + vocabulary) multiply-adds.
    """
    if not is_whole(head, 0) or head >= len(layer.W_Q):
        raise InputError(f"`head` must lie in [0, {len(layer.W_Q)}), the heads of the layer; got {head!r}.")
    count = len(embedding.rows)
    chosen = np.unique(np.linspace(0, count - 1, min(asked, count)).round().astype(np.int64))
    x = embedding.scale * embedding.rows[chosen]
    out = (x if layer.norm is None else layer.norm(x)) @ layer.ov(head).T
    return float(np.mean(np.argmax(out @ embedding.unembedding.T, axis=1) == chosen))


def mlp_words(row: Mapping[str, Any]) -> str:
    """Return the sentences on an MLP, out of its row."""
    gates = "" if row["gate_dimension"] is None else f", gates of {row['gate_dimension']:.3g}"
    ratios = ["infinite" if row[name] is None else f"{row[name]:.3g}" for name in ("ratio", "ratio_values")]
    text = (
        f"Layer {row['layer']}: {row['rows']} rows; keys overlap like random ones of width "
        f"{row['effective_dimension'] or math.inf:.3g}{gates}.\nAsked by their own direction, {row['recalled']:.1%} of "
        f"{row['asked']} rows come first; ratio {ratios[0]} with random values, {ratios[1]} with its own."
    )
    if row["active"] is None:
        return text
    return f"{text}\nOn the text {row['active']:.0%} of rows act, and {row['rows_90']:.0f} of {row['rows']} hold 90 %."


def _with_values(given: GivenRows, values: FloatArray) -> GivenRows:
    return GivenRows(given.keys, given.queries, values, given.gates, given.activation, target=given.target)


def _units(rows: FloatArray) -> FloatArray:
    wide = np.asarray(rows, np.float64)
    return np.asarray(wide / np.maximum(np.linalg.norm(wide, axis=1, keepdims=True), 1e-300))


def _median(numbers: FloatArray) -> float | None:
    return finite(quantile(numbers, 0.5))
