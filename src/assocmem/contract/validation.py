"""What `Store` asks of its arguments before they reach a family's hooks.

Shapes, libraries, dtypes, finite numbers, kinds of keys, masks, extras, options. Each function refuses with one
sentence that names the argument, what was wanted and what came, before anything changes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from assocmem.contract import arrays as ar
from assocmem.contract.arrays import Array
from assocmem.contract.errors import DTypeError, InputError
from assocmem.contract.recall import WANTS, Ask
from assocmem.contract.state import State
from assocmem.contract.traits import Option, Traits

if TYPE_CHECKING:
    from assocmem.contract.store import Store


def checked_pairs(
    store: Store, state: State, keys: Array, values: Array, extras: Mapping[str, Array], call: str = "write"
) -> tuple[Array, Array, dict[str, Array]]:
    """Return keys, values and extras of a write, checked and in one shape, in the dtypes that they came in."""
    check_own(store, state, call)
    like = None if state.xp is np else _any_array(state)
    keys = ar.as_array(keys, "keys", like=like)
    values = ar.as_array(values, "values", like=keys)
    if type(keys) is not np.ndarray or type(values) is not np.ndarray:
        ar.namespace(keys, values)
    keys = _shaped(store, state, keys, "keys", state.d_k, call)
    values = _shaped(store, state, values, "values", state.d_v, call)
    if keys.shape[-2] != values.shape[-2]:
        raise InputError(
            f"`keys` and `values` of {store.name}.{call} must hold the same number of pairs; "
            f"got {keys.shape[-2]} keys and {values.shape[-2]} values."
        )
    xp = ar.namespace(keys)
    if state.pinned or state.n:
        _same_library(store, state, keys, "keys", call)
    ar.require_finite(keys, "keys", xp)
    ar.require_finite(values, "values", xp)
    traits = store.traits
    if traits.keys != "any":
        _check_kind(store, keys, "keys", traits.keys, call)
    if traits.values != "any":
        _check_kind(store, values, "values", traits.values, call)
    if extras or traits.extras:
        extras = _checked_extras(store, state, keys, extras, traits, call)
    return keys, values, dict(extras)


def check_own(store: Store, state: State, call: str) -> None:
    """Refuse what is no state, and the state of another store: of another class or another feature map."""
    made = store.maker
    if isinstance(state, State) and state.kind in (made, ""):
        return
    got = f"it is a state of {state.kind}" if isinstance(state, State) else f"got {type(state).__name__}"
    raise InputError(f"`state` of {store.name}.{call} must come from the `empty` of {made}; {got}.")


def _shaped(store: Store, state: State, x: Array, name: str, width: int, call: str) -> Array:
    shape = x.shape
    if len(shape) >= 2 and shape[-1] == width:
        if shape[:-2] == state.batch:
            return x
        if len(shape) == 2:
            return ar.namespace(x).broadcast_to(x, (*state.batch, *shape))
    label = "d_k" if name in ("keys", "queries") else "d_v"
    wanted = ", ".join([*(str(b) for b in state.batch), "n", f"{label}={width}"])
    hint = ""
    if len(shape) == 1 and shape[0] == width:
        hint = f" For a single pair add an axis: {name}[None, :]."
    elif len(shape) > 2 and not state.batch:
        hint = f" For batched data make the state with empty(..., batch={tuple(int(b) for b in shape[:-2])})."
    raise InputError(
        f"`{name}` of {store.name}.{call} must have shape ({wanted}); got {tuple(int(n) for n in shape)}.{hint}"
    )


def _same_library(store: Store, state: State, x: Array, name: str, call: str) -> None:
    if ar.namespace(x) is not state.xp:
        raise DTypeError(
            f"`{name}` of {store.name}.{call} must be arrays of {library_name(state.xp)}, as the state is; "
            f"got {type(x).__module__}.{type(x).__name__}."
        )


def checked_queries(store: Store, state: State, queries: Array, call: str = "recall") -> Array:
    """Return the queries of a recall, checked."""
    check_own(store, state, call)
    if type(queries) is np.ndarray and state.xp is np and queries.dtype == state.dtype:
        fits = queries.ndim == 2 and queries.shape[1] == state.d_k
        if fits and store.traits.keys != "signs" and ar.quickly_finite(queries):
            return queries
    like = None if state.xp is np else _any_array(state)
    queries = ar.as_array(queries, "queries", like=like)
    if queries.ndim < 2 or queries.shape[-1] != state.d_k:
        hint = " For a single query add an axis: queries[None, :]." if queries.ndim == 1 else ""
        raise InputError(
            f"`queries` of {store.name}.{call} must have shape (..., m, d_k={state.d_k}); "
            f"got {tuple(int(n) for n in queries.shape)}.{hint}"
        )
    try:
        np.broadcast_shapes(tuple(queries.shape[:-2]), state.batch)
    except ValueError:
        raise InputError(
            f"`queries` of {store.name}.{call} must have leading axes that broadcast against the state's batch "
            f"{state.batch}; got {tuple(int(n) for n in queries.shape[:-2])}."
        ) from None
    if state.n or state.pinned:
        _same_library(store, state, queries, "queries", call)
    ar.require_finite(queries, "queries", ar.namespace(queries))
    if store.traits.keys == "signs":
        _check_kind(store, queries, "queries", "signs or 0", call)
    return queries


def checked_ask(
    store: Store, state: State, queries: Array, mask: Array | None, want: Any, options: Mapping[str, Any]
) -> Ask:
    """Return mask, wants and options of a recall of checked queries, checked."""
    if mask is None and not want and not options:
        return store._plain_ask()
    wanted = (want,) if isinstance(want, str) else tuple(want)
    gives = store.capabilities.gives
    for name in wanted:
        if name not in WANTS:
            raise InputError(f"`want` of {store.name}.ask must be out of {', '.join(WANTS)}; got {name!r}.")
        if name not in gives:
            raise InputError(f"{store.name} gives no {name}: {_why_no(store, name)}. Leave it out of `want`.")
    seen = None if mask is None else _checked_mask(store, state, queries, mask)
    return Ask(seen, wanted, _checked_options(store, state, queries, options))


def _why_no(store: Store, name: str) -> str:
    """Return, as the end of a sentence, why the store gives no weights, mass or trace."""
    if name == "trace":
        return "its recall takes no steps"
    if name == "weights":
        return "it does not keep its pairs apart" if not store.traits.keeps_pairs else "its pairs have none"
    return store.capabilities.not_merged or "recalls of shards of it do not merge"


def _checked_options(store: Store, state: State, queries: Array, options: Mapping[str, Any]) -> dict[str, Any]:
    known = {option.name: option for option in store.traits.options}
    for name in options:
        if name not in known:
            takes = f"it takes {', '.join(known)}" if known else "it takes no options"
            raise InputError(f"a recall of {store.name} has no option `{name}`; {takes}. Leave it out.")
    shape = tuple(int(n) for n in queries.shape[:-1])
    wanted = (*ar.broadcast_shapes(shape[:-1], state.batch), shape[-1])
    return {
        name: option.default if given is None else checked_option(option, given, store.name, wanted)
        for name, option in known.items()
        for given in (options.get(name),)
    }


def _checked_mask(store: Store, state: State, queries: Array, mask: Array) -> Array:
    if not store.capabilities.masks:
        why = "which does not keep its pairs apart: a memory mixed into the state cannot be hidden from one query"
        if store.traits.keeps_pairs:
            why = "whose capabilities say nothing of masks"
        raise InputError(f"`mask` cannot be used with {store.name}, {why}. Leave `mask` out.")
    mask = ar.as_array(mask, "mask", like=queries)
    if ar.namespace(mask) is not ar.namespace(queries):
        raise DTypeError(f"`mask` of {store.name}.recall must be an array of the queries' library or a list.")
    if not ar.namespace(mask).isdtype(mask.dtype, "bool"):
        raise DTypeError(f"`mask` of {store.name}.recall must be boolean (True = visible); got dtype {mask.dtype}.")
    batch = np.broadcast_shapes(tuple(queries.shape[:-2]), state.batch)
    wanted = (*batch, int(queries.shape[-2]), state.n)
    try:
        return ar.namespace(mask).broadcast_to(mask, wanted)
    except (ValueError, RuntimeError):
        raise InputError(
            f"`mask` of {store.name}.recall must have shape (..., m={wanted[-2]}, n={state.n}), "
            f"broadcasting to {wanted}; got {tuple(int(n) for n in mask.shape)}."
        ) from None


def _check_kind(store: Store, rows: Array, name: str, kind: str, call: str) -> None:
    xp = ar.namespace(rows)
    if kind == "ids":
        if not xp.isdtype(rows.dtype, "integral") or bool(xp.any(rows < 0)):
            raise InputError(f"`{name}` of {store.name}.{call} must be whole-number token ids >= 0; got {rows.dtype}.")
        return
    rows = ar.as_floating(rows, xp)
    other = (xp.abs(rows) != 1) & (rows != 0) if kind == "signs or 0" else xp.abs(rows) != 1
    if bool(xp.any(other)):
        found = float(xp.reshape(rows, (-1,))[int(xp.argmax(xp.astype(xp.reshape(other, (-1,)), xp.int8)))])
        words = "only +1 and -1, and 0 for what is not known" if kind == "signs or 0" else "only +1 and -1"
        raise InputError(f"`{name}` of {store.name}.{call} must hold {words}; got {found:g}.")


def _checked_extras(
    store: Store, state: State, keys: Array, extras: Mapping[str, Array], traits: Traits, call: str
) -> dict[str, Array]:
    known = {e.name: e for e in traits.extras}
    for name in extras:
        if name not in known:
            takes = f"it takes {', '.join(known)}" if known else "it takes no extras"
            raise InputError(f"{store.name}.{call} has no use for `{name}`; {takes}. Leave it out.")
    xp = ar.namespace(keys)
    sizes = {"n": int(keys.shape[-2]), "d_k": state.d_k, "d_v": state.d_v}
    checked = {}
    for name, extra in known.items():
        given = extras.get(name)
        if given is not None and extra.instead_of and extras.get(extra.instead_of) is not None:
            raise InputError(f"{store.name}.{call} takes `{extra.instead_of}` or `{name}`, not both; leave one out.")
        if given is None:
            placed = any(other.instead_of == name and extras.get(other.name) is not None for other in traits.extras)
            if extra.required and not placed:
                raise InputError(f"{store.name}.{call} needs `{name}`: {extra.meaning}.")
            continue
        array = ar.as_array(given, name, like=keys)
        if ar.namespace(array) is not xp:
            raise DTypeError(
                f"`{name}` of {store.name}.{call} must be an array of the keys' library, {library_name(xp)}."
            )
        shape = tuple(sizes[a] if isinstance(a, str) else a for a in extra.shape)
        try:
            array = xp.broadcast_to(array, (*state.batch, *shape))
        except (ValueError, RuntimeError):
            words = ", ".join([*(str(b) for b in state.batch), *(str(a) for a in extra.shape)])
            raise InputError(
                f"`{name}` of {store.name}.{call} must have shape ({words}) = {(*state.batch, *shape)}; "
                f"got {tuple(int(n) for n in array.shape)}."
            ) from None
        # The logarithm of a number may be minus infinity: the number is 0.
        log = name == f"log_{extra.instead_of}"
        if not ar.all_finite(xp.exp(ar.as_floating(array, xp)) if log else array, xp):
            raise InputError(f"`{name}` of {store.name}.{call} must be finite; it holds NaN or infinity.")
        if array.size and (bool(xp.any(array < extra.low)) or bool(xp.any(array > extra.high))):
            raise InputError(
                f"`{name}` of {store.name}.{call} must lie in [{extra.low:g}, {extra.high:g}]; "
                f"got {float(xp.min(array)):g} to {float(xp.max(array)):g}."
            )
        checked[name] = array
    return checked


def same_dtype(
    store: Store, state: State, keys: Array, values: Array, extras: dict[str, Array]
) -> tuple[Array, Array, dict[str, Array], State]:
    """Bring pairs and state to one dtype by the rule of contract.arrays."""
    dtype = state.dtype
    if keys.dtype == dtype and values.dtype == dtype and not extras and state.io_dtype == dtype:
        return keys, values, extras, state
    xp = state.xp
    ids = store.traits.keys == "ids"
    keys = keys if ids else ar.as_floating(keys, xp)
    values = ar.as_floating(values, xp)
    written = values.dtype if ids else xp.result_type(keys.dtype, values.dtype)
    io = written if not state.n and not state.pinned else xp.result_type(state.io_dtype, written)
    if state.state_dtype is None:
        dtype = (
            xp.result_type(state.dtype, ar.state_dtype_for(io, xp))
            if state.n or state.pinned
            else (ar.state_dtype_for(io, xp))
        )
    if io != state.io_dtype or dtype != state.dtype:
        state = state.astype(dtype, io)
    cast: Callable[[Array], Array] = lambda a: a if a.dtype == dtype else xp.astype(a, dtype)  # noqa: E731
    return keys if ids else cast(keys), cast(values), {k: cast(a) for k, a in extras.items()}, state


def as_state_dtype(store: Store, state: State, queries: Array) -> Array:
    """Return the queries in the state's dtype; token ids as they are."""
    if store.traits.keys == "ids":
        return queries
    return queries if queries.dtype == state.dtype else ar.namespace(queries).astype(queries, state.dtype)


def _any_array(state: State) -> Array | None:
    return next(iter(state.contents.values()), None)


def library_name(xp: Any) -> str:
    """Return the plain name of an array library's namespace."""
    return str(xp.__name__).removeprefix("array_api_compat.")


def checked_option(option: Option, given: Any, store: str, shape: tuple[int, ...]) -> Any:
    """Return an option of a recall as a Python number, or as a NumPy array of `shape` where it is one for each query.

    Raises InputError where it is of another kind, out of range, or does not broadcast.
    """
    kind = "whole number" if option.whole else "number"
    bounds = [f">= {option.low:g}"] if np.isfinite(option.low) else []
    bounds += [f"<= {option.high:g}"] if np.isfinite(option.high) else []
    words = " ".join([f"{kind}s" if option.per_query else f"a {kind}", " and ".join(bounds)]).strip()
    refusal = InputError(f"`{option.name}` of a recall of {store} must be {words}; got {given!r}.")
    try:
        numbers = ar.to_numpy(ar.as_array(given, option.name))
    except (DTypeError, InputError):
        raise refusal from None
    if numbers.dtype.kind not in ("iu" if option.whole else "iuf") or (numbers.ndim and not option.per_query):
        raise refusal
    if not np.all(np.isfinite(numbers) & (numbers >= option.low) & (numbers <= option.high)):
        raise refusal
    if numbers.ndim == 0:
        return numbers.item()
    try:
        return np.broadcast_to(numbers, shape)
    except ValueError:
        raise InputError(
            f"`{option.name}` of a recall of {store} must broadcast to {shape}; got shape {numbers.shape}."
        ) from None
