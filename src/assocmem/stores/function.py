"""Any function recall(keys, values, queries) as a store, so that a rule can be measured without writing a class."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, ClassVar, Literal

import numpy as np

from assocmem.contract import arrays as ar
from assocmem.contract.arrays import Array
from assocmem.contract.cost import D_K, D_V, Cost
from assocmem.contract.errors import AssocmemError, InputError, RecallOverflowError, place_of
from assocmem.contract.numbers import stream
from assocmem.contract.recall import Ask, Dense, Recall
from assocmem.contract.settings import Help
from assocmem.contract.state import State
from assocmem.contract.store import Store
from assocmem.contract.traits import Capabilities, Overwrite, Traits

RecallFunction = Callable[[Array, Array, Array], Array]
ONE_HOT_AT_ONCE = 1 << 20


@dataclass(frozen=True)
class FunctionStore(Store):
    """f(x) = recall(K, V, x): a function of all stored keys (n, d_k), values (n, d_v) and queries (m, d_k).

    State: the pairs. Cost: one call of the function per recall and batch item (and per distinct mask row); its
    `weights` come from one-hot values, a million numbers at once, and so cost about n^2 / 10^6 calls. The function
    gets copies, sees n >= 1 pairs in the order of writing, and returns (m, d_v) in the library it was
    given. Traits are measured on a few random pairs in NumPy; declare them where the function takes other arrays only.

    Raises InputError where the function fails or returns another shape.

    >>> import numpy as np
    >>> def nearest(keys, values, queries):
    ...     return values[np.argmax(queries @ keys.T, axis=-1)]
    >>> store = FunctionStore(nearest)
    >>> store.traits.linear_in_values, store.traits.permutation_invariant
    ('shared', False)
    >>> state = store.write(store.empty(2, 1), np.eye(2), np.array([[3.0], [5.0]]))
    >>> store.recall(state, np.array([[0.0, 1.0]])).tolist()
    [[5.0]]
    """

    function: Annotated[RecallFunction, Help("the recall")]
    promises: Annotated[
        Traits | None, Help("its traits", none="those that `measured_traits` finds when the store is made")
    ] = None

    equation: ClassVar[str] = "f(x) = recall(K, V, x)"
    summary: ClassVar[str] = ""  # the function's own text says what it does
    cost = Cost(D_K + D_V, None, note="recall as the function takes")

    def check_together(self) -> None:
        """Measure the traits where none are given; refuse those that no store of this kind can have."""
        promises = measured_traits(self.function) if self.promises is None else self.promises
        if not promises.keeps_pairs or promises.constant_size or promises.extras:
            raise InputError(
                "`promises` of FunctionStore must say keeps_pairs=True, constant_size=False and no extras."
            )
        object.__setattr__(self, "promises", promises)

    @property
    def name(self) -> str:
        return function_name(self.function)

    @property
    def traits(self) -> Traits:
        assert self.promises is not None  # set in check_together
        return self.promises

    @property
    def capabilities(self) -> Capabilities:
        """Masks, and weights where the function is linear in the values with one row for all channels."""
        return Capabilities(
            masks=True,
            gives=("weights",) if self.traits.linear_in_values == "shared" else (),
            costly=("weights",),
            merges="appends",
            selects=True,
            not_merged="a bare function has no mass",
        )

    def get(self, state: State, queries: Array, ask: Ask) -> Recall:
        weights = Dense(self._weights(state, queries, ask.visible)) if "weights" in ask.want else None
        return Recall(self._each(state, state["values"], queries, ask.visible), weights)

    def _weights(self, state: State, queries: Array, mask: Array | None) -> Array:
        xp, n = state.xp, state.n
        step = max(1, ONE_HOT_AT_ONCE // max(1, n))
        rows = xp.arange(n, device=state.device)[:, None]
        parts = []
        for start in range(0, max(1, n), step):
            hot = rows == xp.arange(start, min(start + step, n), device=state.device)[None, :]
            onehot = xp.broadcast_to(xp.astype(hot, state.dtype), (*state.batch, *hot.shape))
            out = self._each(state, onehot, queries, mask)
            parts.append(out - self._each(state, 0 * onehot, queries, mask) if self.traits.affine else out)
        return xp.concat(parts, axis=-1)

    def _each(self, state: State, values: Array, queries: Array, mask: Array | None) -> Array:
        """Call the function for every item of the state's batch broadcast against the queries' leading axes."""
        xp = ar.namespace(queries)
        lead = np.broadcast_shapes(tuple(queries.shape[:-2]), state.batch)
        m, width = int(queries.shape[-2]), int(values.shape[-1])
        if state.n == 0 or m == 0 or 0 in lead:
            return xp.zeros((*lead, m, width), dtype=state.dtype, device=state.device)
        keys, values, queries = (xp.broadcast_to(x, (*lead, *x.shape[-2:])) for x in (state["keys"], values, queries))
        rows = []
        for index in np.ndindex(lead):
            at = (*index, ...)
            seen = None if mask is None else ar.to_numpy(mask[at])
            rows.append(self._masked(keys[at], values[at], queries[at], seen))
        return xp.reshape(xp.stack(rows), (*lead, m, width))

    def _masked(self, keys: Array, values: Array, queries: Array, mask: Any) -> Array:
        """Call the function once for every distinct row of the mask, with the pairs that it shows."""
        if mask is None or mask.all():
            return call(self.function, keys, values, queries)
        xp = ar.namespace(queries)
        distinct, which = np.unique(mask, axis=0, return_inverse=True)
        rows: list[Array] = [None] * int(queries.shape[0])
        for j, row in enumerate(distinct):
            asked, shown = np.flatnonzero(which.reshape(-1) == j), np.flatnonzero(row)
            out = xp.zeros((asked.size, int(values.shape[-1])), dtype=values.dtype, device=ar.device_of(values))
            if shown.size:
                pick = xp.asarray(shown)
                chosen = xp.take(queries, xp.asarray(asked), axis=0)
                out = call(self.function, xp.take(keys, pick, axis=0), xp.take(values, pick, axis=0), chosen)
            for place, i in enumerate(asked):
                rows[int(i)] = out[place : place + 1, :]
        return xp.concat(rows, axis=0)


def function_name(function: Any) -> str:
    """Return the name under which a function is reported."""
    inner = function.func if isinstance(function, partial) else function
    return str(getattr(inner, "__name__", type(inner).__name__))


def call(function: RecallFunction, keys: Array, values: Array, queries: Array) -> Array:
    """Call a recall function on copies; InputError where it fails or returns another shape or library."""
    name = function_name(function)
    try:
        # Adding zero copies and keeps the gradient, in every library.
        out = function(keys + 0, values + 0, queries + 0)
    except AssocmemError:
        raise
    except (Exception, SystemExit) as error:  # a stranger's function may do anything, even leave the program
        raise InputError(
            f"the function {name} failed on keys {tuple(keys.shape)}, values {tuple(values.shape)}, queries "
            f"{tuple(queries.shape)}: {type(error).__name__}: {error} ({place_of(error)})"
        ) from error
    wanted = (int(queries.shape[0]), int(values.shape[-1]))
    got = tuple(out.shape) if hasattr(out, "shape") else type(out).__name__
    if got != wanted or ar.namespace(out) is not ar.namespace(queries):
        raise InputError(
            f"the function {name} must return an array of shape (m, d_v) = {wanted} in the library of its queries; "
            f"got {got} of {type(out).__module__}."
        )
    xp = ar.namespace(out)
    if xp.isdtype(out.dtype, "real floating") and bool(xp.any(xp.isnan(out))):
        row = int(xp.argmax(xp.astype(xp.any(xp.isnan(out), axis=-1), xp.int8)))
        raise RecallOverflowError(
            f"the function {name} returned NaN for query {row}, given keys, values and queries without any; it may "
            "have divided zero by zero, or taken one infinity from another."
        )
    return out


def measured_traits(function: RecallFunction) -> Traits:
    """Return the traits that a recall function shows on seven random pairs in NumPy float64.

    Whether it is linear in the values (after the recall of zero values is subtracted), with which weights;
    whether the order of pairs matters; what a key written twice recalls. Cost: about a dozen calls.
    """
    rng = stream(0, "measured traits")
    keys = rng.standard_normal((7, 5))
    keys /= np.linalg.norm(keys, axis=-1, keepdims=True)
    queries = 0.7 * keys[:6] + 0.3 * keys[1:]
    first, second = rng.standard_normal((7, 3)), rng.standard_normal((7, 3))

    def recall(values: Any) -> Any:
        return ar.to_numpy(call(function, keys, values, queries))

    zero = recall(0 * first)
    linear = _equal(recall(2 * first - 3 * second) - zero, 2 * (recall(first) - zero) - 3 * (recall(second) - zero))
    shared: Literal["shared", "per-channel", "no"] = "no"
    if linear:
        rows = []
        for c in range(3):
            values = np.zeros((7, 3))
            values[:, c] = first[:, 0]
            rows.append((recall(values) - zero)[:, c])
        shared = "shared" if all(_equal(row, rows[0]) for row in rows) else "per-channel"
    overwrite = _rewrite(function, keys[:1], first[:2])
    back = ar.to_numpy(call(function, keys[::-1], first[::-1], queries))
    return Traits(
        linear_in_values=shared,
        permutation_invariant=_equal(back, recall(first)) and overwrite in ("adds", "averages"),
        overwrite=overwrite,
        constant_size=False,
        keeps_pairs=True,
        affine=linear and not _equal(zero, 0 * zero),
    )


def _rewrite(function: RecallFunction, key: Any, values: Any) -> Overwrite:
    alone = [ar.to_numpy(call(function, key, values[i : i + 1], key)) for i in (0, 1)]
    both = ar.to_numpy(call(function, np.concatenate([key, key]), values, key))
    if _equal(both, alone[0] + alone[1]):
        return "adds"
    if _equal(both, (alone[0] + alone[1]) / 2):
        return "averages"
    if _equal(both, alone[0]):
        return "keeps"
    return "replaces" if _equal(both, alone[1]) else "decays"


def _equal(a: Any, b: Any) -> bool:
    return bool(np.abs(a - b).max() <= 1e-7 * max(np.abs(b).max(), 1e-3))
