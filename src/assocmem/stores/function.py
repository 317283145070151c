"""Any function recall(keys, values, queries) as a store, so that a rule can be measured without writing a class."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Annotated, Any, ClassVar

import numpy as np

from assocmem.contract import arrays as ar
from assocmem.contract.arrays import Array
from assocmem.contract.cost import D_K, D_V, Cost
from assocmem.contract.errors import AssocmemError, InputError, RecallOverflowError, defined_at, place_of
from assocmem.contract.numbers import stream
from assocmem.contract.recall import Ask, Dense, Recall
from assocmem.contract.settings import Help
from assocmem.contract.state import State
from assocmem.contract.store import Store
from assocmem.contract.traits import SIZES, Capabilities, Linear, Overwrite, Traits, crowded

RecallFunction = Callable[[Array, Array, Array], Array]
WeightsFunction = Callable[[Array, Array], Array]
FEW, DRAWS = 7, 3
ONE_HOT_AT_ONCE = 1 << 20


@dataclass(frozen=True)
class FunctionStore(Store):
    """f(x) = recall(K, V, x): a function of all stored keys (n, d_k), values (n, d_v) and queries (m, d_k).

    State: the pairs. Cost: one call of the function per recall and batch item (and per distinct mask row). Its
    `weights` come from the function of that name, which gives the weight (m, n) of every pair, so that measurements
    need no values and have the tight intervals of a store; without one from one-hot values, a million numbers at once,
    at about n^2 / 10^6 calls. The function gets copies, sees n >= 1 pairs in the order of writing, and returns
    (m, d_v) in the library it was given. Traits are measured on random pairs in NumPy (`measured_traits`); declare them
    where a rule's window is wider than what is tried, or the function takes other arrays only.

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
    weights: Annotated[
        WeightsFunction | None, Help("the weights (m, n) of its recall from keys and queries", none="one-hot values")
    ] = None

    equation: ClassVar[str] = "f(x) = recall(K, V, x)"
    summary: ClassVar[str] = ""  # the function's own text says what it does
    cost = Cost(D_K + D_V, None, note="recall as the function takes")

    def check_together(self) -> None:
        """Measure the traits where none are given; refuse those that no store of this kind can have."""
        promises = self._measured() if self.promises is None else self.promises
        if not promises.keeps_pairs or promises.constant_size or promises.extras:
            raise InputError(
                "`promises` of FunctionStore must say keeps_pairs=True, constant_size=False and no extras."
            )
        if self.weights is not None and (promises.linear_in_values != "shared" or promises.affine):
            raise InputError(
                f"`weights` of FunctionStore are for a recall that is weights @ values; {self.name} is not linear in "
                "its values with one row of weights for all channels. Leave `weights` out."
            )
        object.__setattr__(self, "promises", promises)

    def _measured(self) -> Traits:
        try:
            return measured_traits(self.function)
        except (InputError, RecallOverflowError) as error:
            # A rule may be sound on other pairs than the few on which it is tried.
            end = "" if str(error).endswith(".") else "."
            raise type(error)(
                f"{error}{end} If only some pairs do that, say what it promises: FunctionStore({self.name}, "
                "promises=Traits(...))."
            ) from error

    @property
    def name(self) -> str:
        return function_name(self.function)

    @property
    def place(self) -> str:
        return defined_at(self.function)

    @property
    def advice(self) -> str:
        return (
            f"What {self.name} promises was measured on at most {max(SIZES):,} random pairs, or given; if it promises "
            f"something else, say so: FunctionStore({self.name}, promises=Traits(...))."
        )

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
            costly=() if self.weights else ("weights",),
            merges="appends",
            selects=True,
            not_merged="a bare function has no mass",
        )

    def get(self, state: State, queries: Array, ask: Ask) -> Recall:
        weights = Dense(self._weights(state, queries, ask.visible)) if "weights" in ask.want else None
        return Recall(self._each(state, state["values"], queries, ask.visible), weights)

    def _weights(self, state: State, queries: Array, mask: Array | None) -> Array:
        if self.weights is not None and mask is None:
            return self._own_weights(state, queries, self.weights)
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

    def _own_weights(self, state: State, queries: Array, weights: WeightsFunction) -> Array:
        xp, m = state.xp, int(queries.shape[-2])
        lead = ar.broadcast_shapes(tuple(queries.shape[:-2]), state.batch)
        if state.n == 0 or m == 0 or 0 in lead:
            return xp.zeros((*lead, m, state.n), dtype=state.dtype, device=state.device)
        keys, queries = (xp.broadcast_to(x, (*lead, *x.shape[-2:])) for x in (state["keys"], queries))
        rows = [call_weights(weights, keys[(*at, ...)], queries[(*at, ...)]) for at in np.ndindex(lead)]
        return xp.reshape(xp.stack(rows), (*lead, m, state.n))

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
    wanted = (int(queries.shape[0]), int(values.shape[-1]))
    return _called(function, {"keys": keys, "values": values, "queries": queries}, wanted, "(m, d_v)")


def call_weights(function: WeightsFunction, keys: Array, queries: Array) -> Array:
    """Call a function of weights on copies; InputError where it fails or returns another shape or library."""
    return _called(function, {"keys": keys, "queries": queries}, (int(queries.shape[0]), int(keys.shape[0])), "(m, n)")


def _called(function: Callable[..., Array], given: Mapping[str, Array], wanted: tuple[int, int], words: str) -> Array:
    name = function_name(function)
    try:
        # Adding zero copies and keeps the gradient, in every library.
        out = function(*(x + 0 for x in given.values()))
    except AssocmemError:
        raise
    except (Exception, SystemExit) as error:  # a stranger's function may do anything, even leave the program
        shapes = ", ".join(f"{what} {tuple(x.shape)}" for what, x in given.items())
        raise InputError(
            f"the function {name} failed on {shapes}: {type(error).__name__}: {error} ({place_of(error)})"
        ) from error
    got = tuple(out.shape) if hasattr(out, "shape") else type(out).__name__
    if got != wanted or ar.namespace(out) is not ar.namespace(given["queries"]):
        raise InputError(
            f"the function {name} must return an array of shape {words} = {wanted} in the library of its queries; "
            f"got {got} of {type(out).__module__}."
        )
    xp = ar.namespace(out)
    if xp.isdtype(out.dtype, "complex floating"):
        raise InputError(f"the function {name} must return real numbers; it returned {ar.dtype_name(out.dtype)} ones.")
    if not xp.isdtype(out.dtype, "real floating") or bool(xp.all(xp.isfinite(out))):
        return out
    nan = bool(xp.any(xp.isnan(out)))
    bad = xp.any(xp.isnan(out) if nan else ~xp.isfinite(out), axis=-1)
    row, dtype = int(xp.argmax(xp.astype(bad, xp.int8))), ar.dtype_name(out.dtype)
    if nan:
        raise RecallOverflowError(
            f"the function {name} returned NaN for query {row}, given keys, values and queries without any; it may "
            f"have divided zero by zero, or taken one infinity from another ({defined_at(function)})."
        )
    raise RecallOverflowError(
        f"the function {name} returned infinity for query {row}: its numbers left the range of {dtype} "
        f"({defined_at(function)})."
    )


def measured_traits(function: RecallFunction) -> Traits:
    """Return the traits that a recall function shows on random pairs in NumPy float64.

    Whether it is linear in the values (after the recall of zero values is subtracted), with which weights, on three
    draws of 7 pairs and one of 300; whether the order matters, on 7, 40, 300 and 2,100 pairs, and on 40 that share
    three keys, as rules that look at the nearest pairs tell them apart by their order; what a key written twice
    recalls. Of a function that fails on many pairs the order is said to matter: where it fails is then measured. Cost:
    about 50 calls, two of them with 2,100 pairs.
    """
    few = [_Tried(function, seed, FEW) for seed in range(DRAWS)]
    many = [one for n in SIZES if (one := _Tried(function, 0, n)).works()]
    zero = few[0].zero
    linear = all(one.superposes() for one in (*few, *many[1:2]))
    shared: Linear = "no"
    if linear:
        shared = "shared" if all(one.channels_alike() for one in few) else "per-channel"
    overwrite = _rewrite(function, few[0].keys[:1])
    tried = overwrite in ("adds", "averages") and len(many) == len(SIZES)
    invariant = tried and all(one.same_reversed() for one in (*few, *many))
    return Traits(
        linear_in_values=shared,
        permutation_invariant=invariant and _Tried(function, 0, SIZES[0], crowded(SIZES[0])).same_reversed(),
        overwrite=overwrite,
        constant_size=False,
        keeps_pairs=True,
        affine=linear and not _equal(zero, 0 * zero),
    )


class _Tried:
    """A function on n random pairs: keys (n, 5) of unit length, two sets of values (n, 3), six queries near keys."""

    def __init__(self, function: RecallFunction, seed: int, n: int, rows: tuple[int, ...] = ()) -> None:
        rng = stream(seed, "measured traits", n)
        keys = rng.standard_normal((n, 5))
        self.keys = keys / np.linalg.norm(keys, axis=-1, keepdims=True)
        self.queries = 0.7 * self.keys[:6] + 0.3 * self.keys[1:7]
        if rows:
            self.keys = self.keys[list(rows)]
        self.first, self.second = rng.standard_normal((n, 3)), rng.standard_normal((n, 3))
        self.function = function

    def recall(self, values: Any) -> Any:
        return ar.to_numpy(call(self.function, self.keys, values, self.queries))

    def works(self) -> bool:
        """Say whether the function recalls finite numbers from so many pairs."""
        try:
            self.recall(self.first)
        except Exception:  # noqa: BLE001  a user's function may raise anything
            return False
        return True

    @cached_property
    def zero(self) -> Any:
        return self.recall(0 * self.first)

    def superposes(self) -> bool:
        """Say whether the recall of 2 V1 - 3 V2 is 2 recall(V1) - 3 recall(V2), less what zeros recall."""
        apart = 2 * (self.recall(self.first) - self.zero) - 3 * (self.recall(self.second) - self.zero)
        return _equal(self.recall(2 * self.first - 3 * self.second) - self.zero, apart)

    def channels_alike(self) -> bool:
        """Say whether the same numbers in any one channel are recalled alike."""
        rows = []
        for c in range(3):
            values = np.zeros_like(self.first)
            values[:, c] = self.first[:, 0]
            rows.append((self.recall(values) - self.zero)[:, c])
        return all(_equal(row, rows[0]) for row in rows)

    def same_reversed(self) -> bool:
        """Say whether the same pairs in the reverse order are recalled alike."""
        back = call(self.function, self.keys[::-1], self.first[::-1], self.queries)
        return _equal(ar.to_numpy(back), self.recall(self.first))


def _rewrite(function: RecallFunction, key: Any) -> Overwrite:
    """Return by which law a key (1, d_k) that was written twice is recalled, by the shares of both values."""

    def share(*values: float) -> float:
        column = np.array(values)[:, None]
        keys = np.repeat(key, len(values), axis=0)
        found = call(function, keys, column, key), call(function, keys, 0 * column, key)
        return float(ar.to_numpy(found[0])[0, 0] - ar.to_numpy(found[1])[0, 0])

    alone, one, two = share(1.0), share(1.0, 0.0), share(0.0, 1.0)
    near = 1e-7 * max(abs(alone), 1e-3)
    if abs(one - alone) <= near:
        return "adds" if abs(two - alone) <= near else "keeps" if abs(two) <= near else "mixes"
    if abs(one) <= near:
        return "replaces"
    if abs(one - two) <= near:
        return "averages"
    return "decays" if 0 < one < two else "mixes"


def _equal(a: Any, b: Any) -> bool:
    return bool(np.abs(a - b).max() <= 1e-7 * max(np.abs(b).max(), 1e-3))
