"""What a user gives of keys, queries and values, checked: heads by name, and how a store weighs their rows exactly."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from assocmem.contract.arrays import as_array, dtype_name, to_numpy
from assocmem.contract.errors import InputError
from assocmem.contract.store import Store
from assocmem.ruler import GivenRows, Preparation
from assocmem.ruler.whitening import Kind

FloatArray = np.ndarray[Any, Any]

ROWS = ("keys", "values", "gates")
"""What may come as columns of a linear layer, and be transposed."""


@dataclass(frozen=True, eq=False)
class Given:
    """All heads that were given.

    Attributes
    ----------
    rows : GivenRows
        Keys (..., h_k, n, d), queries (..., h, m, d), values, gates, who sees what and asks for what.
    asked : str
        "stored keys", where each key asks for itself; "own directions" of a layer's rows; or "queries" that were given.
    names : tuple of str
        Of the heads, in the order of `places`: "10.4" is head 4 of layer 10, "" a lone one.
    places : tuple
        Of the heads in the leading axes of the queries.
    came : str
        Name of the dtype in which the keys came.
    layer : bool
        Whether these are rows of a layer (gates, biases, a norm's gain), which are read as they are.
    """

    rows: GivenRows
    asked: str
    names: tuple[str, ...]
    places: tuple[tuple[int, ...], ...]
    came: str
    layer: bool

    def head(self, i: int) -> GivenRows:
        """Return the rows of one head."""
        return self.rows.head(*self.places[i])

    def key_head(self, i: int) -> int:
        """Return the number of the key store that a head asks, counted through all layers."""
        return i * int(np.prod(self.rows.keys.shape[:-2])) // len(self.places)

    def prepared(
        self, i: int, kind: Kind, *, fit_on: FloatArray | None = None, normalise: bool = False
    ) -> tuple[GivenRows, Preparation]:
        """Return the rows of one head, prepared, and the preparation.

        Parameters
        ----------
        kind : {"raw", "centred", "whitened"}
        fit_on : int array
            Rows that it is fitted on, which then count as absent; all rows where it is raw.
        normalise : bool
            Scale keys and queries to length one.
        """
        rows = self.head(i)
        aside = () if fit_on is None else tuple(int(row) for row in fit_on)
        fitting = rows.keys if kind == "raw" or fit_on is None else rows.keys[fit_on]
        fitted = Preparation.fit(
            fitting, kind, normalise=normalise, among=rows.keys, name="keys", came=self.came, keep_length=True
        )
        drop = (*rows.drop, *(row for row in aside if row not in rows.drop))
        if self.layer:
            return replace(rows, drop=drop), fitted
        queries = fitted.apply(rows.queries, "keys") if self.asked == "stored keys" else fitted.queries(rows.queries)
        return replace(rows, keys=fitted.apply(rows.keys, "keys"), queries=queries, drop=drop), fitted


def given(
    keys: Any, values: Any = None, *, queries: Any = None, targets: Any = None, gates: Any = None, biases: Any = None,
    gate_biases: Any = None, gain: Any = None, causal: bool = False, window: int | None = None, mask: Any = None,
    drop: Sequence[int] = (), names: Sequence[str] | None = None, transpose: str | Sequence[str] = (),
    came: str | None = None,
) -> Given:  # fmt: skip
    """Return what a user gives, checked; parameters as in `lab.measure.measure`."""
    turned = (transpose,) if isinstance(transpose, str) else tuple(transpose)
    if not set(turned) <= set(ROWS):
        raise InputError(f"`transpose` must be among {', '.join(ROWS)}; got {', '.join(map(repr, turned))}.")
    came = dtype_name(as_array(keys, "keys").dtype) if came is None else came
    arrays = {"keys": keys, "values": values, "gates": gates, "queries": queries}
    rows = {name: None if x is None else _rows(x, name, name in turned) for name, x in arrays.items()}
    stored = rows["keys"]
    assert stored is not None
    for name in ("values", "gates"):
        _require_rows(rows[name], name, stored)
    layer = not (gates is None and biases is None and gate_biases is None and gain is None)
    if gate_biases is not None and gates is None:
        raise InputError("`gate_biases` need `gates`.")
    asked = "queries" if queries is not None else "own directions" if layer else "stored keys"
    if layer:
        rows |= _layer(rows, biases, gate_biases, gain)
    if (queries is None) != (targets is None) and not isinstance(targets, str):
        raise InputError(
            "`queries` and `targets` go together: the target of a query is the row that it asks for, a number, 'own' "
            "or 'strongest'."
        )
    target = _targets(targets, rows["keys"] if queries is None else rows["queries"], stored.shape[-2], causal)
    read = GivenRows(
        rows["keys"], rows["queries"], rows["values"], rows["gates"], causal=causal, window=window, mask=mask,
        drop=tuple(drop), target=target,
        activation=None if gates is None else np.abs,  # a store brings its own
    )  # fmt: skip
    places = tuple(np.ndindex(read.queries.shape[:-2]))
    called = [".".join(map(str, place)) for place in places] if names is None else list(names)
    if len(called) != len(places) or len(set(called)) != len(called):
        raise InputError(f"`names` must be {len(places)} different ones, one for every head; got {len(called)}.")
    return Given(read, asked, tuple(called), places, came, layer)


# ---------------------------------------------------------------------- how a store weighs rows


def weighed(rows: GivenRows, store: Store, n_memories: float) -> GivenRows | None:
    """Return the rows as a store that holds so many of them weighs them; None where its form is none for such."""
    d_k = rows.keys.shape[-1]
    form = store.form(d_k)
    sigma = None if form is None else form.at(n_memories, d_k)
    if form is None or sigma is None or form.signs or sigma.exponent == math.inf or form.gated is (rows.gates is None):
        return None
    if sigma.exponent is None or form.gated:
        return replace(rows, activation=sigma)
    return replace(rows, activation=None, scaling=sigma.exponent)


# ---------------------------------------------------------------------- checks


def _rows(x: Any, name: str, turned: bool) -> FloatArray:
    """Return rows (..., n, d) in float32 or float64."""
    rows = np.asarray(to_numpy(as_array(x, name)))
    least = 2 if name in ROWS else 1
    if turned and rows.ndim >= 2:
        rows = np.swapaxes(rows, -1, -2)
    if rows.ndim not in (2, 3, 4) or rows.shape[-2] < least or rows.shape[-1] < 1:
        raise InputError(
            f"`{name}` must have shape (n, d), (heads, n, d) or (layers, heads, n, d) with n >= {least}; "
            f"got {rows.shape}."
        )
    return rows


def _require_rows(rows: FloatArray | None, name: str, keys: FloatArray) -> None:
    """Refuse values or gates without a row for each key; say what helps where their columns are as many as the keys."""
    if rows is None:
        return
    if rows.shape[:-1] != keys.shape[:-1]:
        turned = rows.shape[-1:] == keys.shape[-2:-1] and rows.shape[:-2] == keys.shape[:-2]
        hint = (
            f" Its columns are as many as the keys: the weight of a linear layer is (out, in), so transpose it "
            f"(transpose={name!r}, --transpose {name})." if turned else ""
        )  # fmt: skip
        raise InputError(f"`{name}` must have one row for each of the keys {keys.shape}; got {rows.shape}.{hint}")
    if name == "values":
        empty = np.argwhere(~rows.any(axis=(-2, -1)))
        if len(empty):
            where = f" of head {'.'.join(map(str, empty[0]))}" if rows.ndim > 2 else ""
            raise InputError(
                f"`values`{where} must not all be zero: a recall has no length to compare interference with."
            )


def _layer(rows: Mapping[str, FloatArray | None], biases: Any, gate_biases: Any, gain: Any) -> dict[str, FloatArray]:
    """Return keys, gates and queries of a layer's rows: the gain folded into them, biases as a last column.

    Without queries each row is asked by its own direction: an input along its key, with a gate midway between the two,
    as long as a norm makes one before its gain, sqrt(d).
    """
    read: dict[str, FloatArray] = {}
    keys, gates, queries = (rows[name] for name in ("keys", "gates", "queries"))
    assert keys is not None
    for name, x in (("keys", keys), ("gates", gates)):
        if x is not None:
            read[name] = np.asarray(x, np.float64) * (1.0 if gain is None else _vector(gain, "gain", x.shape[-1:]))
    along = read["keys"] if gates is None else _units(read["keys"]) + _units(read["gates"])
    asked = _units(along) * math.sqrt(keys.shape[-1]) if queries is None else np.asarray(queries, np.float64)
    if biases is not None or gate_biases is not None:
        asked = np.concatenate([asked, np.ones((*asked.shape[:-1], 1))], axis=-1)
        for name, bias in (("keys", biases), ("gates", gate_biases)):
            if name in read:
                shape = read[name].shape[:-1]
                column = np.zeros(shape) if bias is None else _vector(bias, _BIAS[name], shape)
                read[name] = np.concatenate([read[name], column[..., None]], axis=-1)
    return read | {"queries": asked}


_BIAS = {"keys": "biases", "gates": "gate_biases"}


def _vector(x: Any, name: str, shape: tuple[int, ...]) -> FloatArray:
    numbers = np.asarray(to_numpy(as_array(x, name)), np.float64)
    if numbers.shape != shape or not np.isfinite(numbers).all():
        raise InputError(f"`{name}` must be finite numbers of shape {shape}; got shape {numbers.shape}.")
    return numbers


def _units(rows: FloatArray) -> FloatArray:
    return np.asarray(rows / np.maximum(np.linalg.norm(rows, axis=-1, keepdims=True), 1e-300))


def _targets(targets: Any, queries: Any, n: int, causal: bool) -> Any:
    """Return what each query asks for as `GivenRows` takes it: its own row by default."""
    if targets is None or isinstance(targets, str):
        if targets not in (None, "own", "strongest"):
            raise InputError(f"`targets` must be 'own', 'strongest' or the rows asked for; got {targets!r}.")
        if targets == "own" and not (queries.shape[-2] == n or (causal and queries.shape[-2] < n)):
            raise InputError(
                f"`targets` must name rows, or be 'strongest': {queries.shape[-2]} queries are not at the positions of "
                f"{n} keys."
            )
        return targets or "own"
    rows, shape = np.asarray(targets if isinstance(targets, list | tuple) else to_numpy(targets)), queries.shape[:-1]
    if rows.shape not in (shape, shape[-1:]) or rows.dtype.kind not in "iu":
        raise InputError(
            f"`targets` must name a row for each of {shape[-1]} queries, in whole numbers, for all heads or for each; "
            f"got shape {rows.shape}, dtype {rows.dtype}."
        )
    if rows.min() < -1 or rows.max() >= n:
        raise InputError(f"`targets` must lie in [0, {n}), the stored pairs; got {rows.min()} to {rows.max()}.")
    return rows.astype(np.int64)
