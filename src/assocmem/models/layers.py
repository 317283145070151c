"""What a layer of a trained network holds, as float32 arrays: one row a memory, whatever the checkpoint's layout."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from assocmem.contract.state import Pairs
from assocmem.maps.activations import Activation
from assocmem.models.architectures import Rope
from assocmem.models.tensors import Numbers


@dataclass(frozen=True, eq=False)
class Norm:
    """RMSNorm or LayerNorm: rows (..., d) to rows, divided by their length, times the gain, plus the bias.

    Parameters
    ----------
    kind : "rms" or "layer"
        A layer norm takes the rows' mean away first.
    gain, bias : arrays (d,)
        What multiplies (Gemma's 1 + w is added up), and what is added, or None.
    epsilon : float
        Added to the mean square before its root is taken.
    """

    kind: Literal["rms", "layer"]
    gain: Numbers
    bias: Numbers | None
    epsilon: float

    def __call__(self, rows: Any) -> Numbers:
        """Return the rows normalised, in the dtype of their product with the gain."""
        rows = np.asarray(rows)
        if self.kind == "layer":
            rows = rows - rows.mean(axis=-1, keepdims=True)
        scaled = rows / np.sqrt(np.mean(rows * rows, axis=-1, keepdims=True) + self.epsilon) * self.gain
        return np.asarray(scaled if self.bias is None else scaled + self.bias)


@dataclass(frozen=True, eq=False)
class MLPLayer:
    """f(x) = V^T (σ(G x + b_g) * (K x + b_k)) + b_v, or without gates V^T σ(K x + b_k) + b_v: one row a memory.

    Parameters
    ----------
    layer : int
        Its number, from 0.
    keys, values : arrays (n, d)
        n = d_ff rows: the rows of the first matrix and the columns of the last.
    gates, key_bias, gate_bias : array (n, d), arrays (n,), or None
        Rows of the gate's matrix, and what is added before σ; None where there are none.
    value_bias : array (d,) or None
        Added to every recall: no part of any memory.
    activation : Activation
        σ.
    norm : Norm or None
        What its input x comes from; f takes x as it comes out of the norm.
    after : Norm or None
        A norm applied to f(x) before it is added to the residual stream.
    stored : str
        The types in which the checkpoint holds these matrices.
    """

    layer: int
    keys: Numbers
    values: Numbers
    gates: Numbers | None
    key_bias: Numbers | None
    gate_bias: Numbers | None
    value_bias: Numbers | None
    activation: Activation
    norm: Norm | None
    after: Norm | None
    stored: str

    def __call__(self, x: Any) -> Numbers:
        """Return f(x) for inputs (..., d) that came out of the norm."""
        out = self.weights(x) @ self.values
        return out if self.value_bias is None else out + self.value_bias

    def weights(self, x: Any) -> Numbers:
        """Return the weight of each memory in the recalls of inputs.

        Parameters
        ----------
        x : array (..., d)
            Inputs, after the norm.

        Returns
        -------
        array (..., n)
            σ(k.x), or with gates σ(g.x) (k.x), biases added.
        """
        x = np.asarray(x)
        keyed = _affine(x, self.keys, self.key_bias)
        if self.gates is None:
            return np.asarray(self.activation(keyed))
        return np.asarray(self.activation(_affine(x, self.gates, self.gate_bias)) * keyed)

    @property
    def biased(self) -> bool:
        """Whether keys or gates have a bias, so that `pairs` has a column for it."""
        return self.key_bias is not None or self.gate_bias is not None

    def pairs(self) -> Pairs:
        """Return the memories as pairs, a bias as a last column of the keys.

        A store that is asked with `queries(x)` then recalls f(x) without the bias of the values.

        Returns
        -------
        Pairs
            Keys and values, gates as `extras["gate"]`.
        """
        keys = _with_column(self.keys, self.key_bias, self.biased)
        gates = {} if self.gates is None else {"gate": _with_column(self.gates, self.gate_bias, self.biased)}
        return Pairs(keys, self.values, f"MLP of layer {self.layer}", gates)

    def queries(self, x: Any) -> Numbers:
        """Return inputs with a last column of ones where `pairs` has a column for the bias.

        Parameters
        ----------
        x : array (..., d)
            Inputs, after the norm.

        Returns
        -------
        array (..., d) or (..., d + 1)
            What to ask a store of `pairs` with.
        """
        x = np.asarray(x)
        return np.concatenate([x, np.ones((*x.shape[:-1], 1), x.dtype)], axis=-1) if self.biased else x


@dataclass(frozen=True, eq=False)
class AttentionLayer:
    """The matrices of one attention layer: q = W_Q x + b_q, logits scaling q.k, out = sum over heads of W_O o + b_o.

    Parameters
    ----------
    layer : int
        Its number, from 0.
    W_Q, W_K, W_V : arrays (h, d_k, d), (h_k, d_k, d), (h_k, d_v, d)
        Grouped heads: head i reads the keys of head i // (h / h_k).
    W_O : array (h, d, d_v)
        What each head adds to the stream is W_O times what it reads.
    b_q, b_k, b_v, b_o : arrays (h, d_k), (h_k, d_k), (h_k, d_v), (d,) or None
        What is added to queries, keys, values and output.
    query_norm, key_norm : Norm or None
        Of each head's queries and keys (gain (d_k,)), or of all heads' together (gain (h d_k,)).
    scaling, softcap, window : float, float or None, int or None
        As in `ruler.GivenRows`.
    causal : bool
        Whether a token sees none after it.
    rope : "halves", "adjacent" or "none"
        The coordinates that rotary positions turn together; matrices are as they are before it.
    theta : float or None
        The base of the rotary frequencies.
    norm : Norm or None
        What its input x comes from; None also where that is the norm that ends the layer before.
    stored : str
        The types in which the checkpoint holds these matrices.
    """

    layer: int
    W_Q: Numbers
    W_K: Numbers
    W_V: Numbers
    W_O: Numbers
    b_q: Numbers | None
    b_k: Numbers | None
    b_v: Numbers | None
    b_o: Numbers | None
    query_norm: Norm | None
    key_norm: Norm | None
    scaling: float
    softcap: float | None
    window: int | None
    causal: bool
    rope: Rope
    theta: float | None
    norm: Norm | None
    stored: str

    @property
    def grouped(self) -> int:
        """How many heads ask one key store."""
        return len(self.W_Q) // len(self.W_K)

    def queries(self, x: Any) -> Numbers:
        """Return the queries of inputs, before rotary positions.

        Parameters
        ----------
        x : array (n, d)
            Inputs, after the norm.

        Returns
        -------
        float32 array (h, n, d_k)
            Of every head.
        """
        return _per_head(np.asarray(x), self.W_Q, self.b_q, self.query_norm)

    def keys(self, x: Any) -> Numbers:
        """Return the keys of inputs, before rotary positions.

        Parameters
        ----------
        x : array (n, d)
            Inputs, after the norm.

        Returns
        -------
        float32 array (h_k, n, d_k)
            Of every key head.
        """
        return _per_head(np.asarray(x), self.W_K, self.b_k, self.key_norm)

    def values(self, x: Any) -> Numbers:
        """Return the values of inputs.

        Parameters
        ----------
        x : array (n, d)
            Inputs, after the norm.

        Returns
        -------
        float32 array (h_k, n, d_v)
            Of every key head.
        """
        return _per_head(np.asarray(x), self.W_V, self.b_v, None)

    def ov(self, head: int) -> Numbers:
        """Return W_O W_V of a head: what it adds to the stream for an input that it reads.

        Parameters
        ----------
        head : int
            A query head, from 0.

        Returns
        -------
        float32 array (d, d)
            The product.
        """
        return np.asarray(self.W_O[head] @ self.W_V[head // self.grouped])


@dataclass(frozen=True, eq=False)
class Embedding:
    """The table of tokens, read as keys, and the output's table.

    Parameters
    ----------
    rows : array (vocabulary, d)
        As stored; the network's input is `scale` times a row.
    unembedding : array (vocabulary, d)
        The output's rows; the same array where `tied`.
    tied : bool
        Whether the output has no table of its own.
    scale : float
        Of the input; 1 but in Gemma.
    tokens : tuple of str
        The vocabulary's words, readable; () where the checkpoint has none.
    stored : str
        The types in which the checkpoint holds these matrices.
    """

    rows: Numbers
    unembedding: Numbers
    tied: bool
    scale: float
    tokens: tuple[str, ...]
    stored: str

    def nearest(self, direction: Any, count: int = 10) -> list[tuple[str, float]]:
        """Return the tokens that the output reads from a direction.

        Parameters
        ----------
        direction : array (d,)
            Of the residual stream.
        count : int
            How many tokens.

        Returns
        -------
        list of (str, float)
            Tokens with their logits, largest first.
        """
        logits = self.unembedding @ np.asarray(direction)
        best = np.argsort(-logits, kind="stable")[:count]
        return [(self.tokens[i] if self.tokens else str(i), float(logits[i])) for i in best]


def _affine(x: Numbers, rows: Numbers, bias: Numbers | None) -> Numbers:
    out = x @ rows.T
    return out if bias is None else out + bias


def _with_column(rows: Numbers, bias: Numbers | None, wanted: bool) -> Numbers:
    if not wanted:
        return rows
    column = np.zeros((len(rows), 1), rows.dtype) if bias is None else bias[:, None]
    return np.concatenate([rows, column], axis=1)


def _per_head(x: Numbers, matrices: Numbers, bias: Numbers | None, norm: Norm | None) -> Numbers:
    rows = np.einsum("nd,hkd->nhk", x, matrices)
    if bias is not None:
        rows = rows + bias
    if norm is not None:
        whole = norm.gain.shape[0] != rows.shape[-1]
        rows = norm(rows.reshape(len(rows), -1)).reshape(rows.shape) if whole else norm(rows)
    return np.moveaxis(rows, 1, 0)
