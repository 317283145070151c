"""Contract: the dtype rule and the memory layouts of arrays."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from assocmem.checks.harness import Findings, Harness, Numbers, check
from assocmem.contract import arrays as ar
from assocmem.contract.arrays import Array

ROUNDING = {"float64": 1e-9, "float32": 1e-4, "float16": 1e-2, "bfloat16": 5e-2}
"""Largest relative gap that rounding to a dtype explains at the sizes tried here."""


def _dtype(x: Array) -> str:
    return ar.dtype_name(x.dtype)


def _halves(harness: Harness) -> list[str]:
    return [name for name in ("float16", "bfloat16") if hasattr(harness.xp, name)]


@check("dtype-kept", "float32 and float64 are kept, in the state and in the recall")
def dtype_kept(harness: Harness) -> Findings:
    """Write and recall in each."""
    yield from _kept(harness, ("float32", "float64"), {})


@check("dtype-half", "half precision gives a float32 state, and the recall is cast back")
def dtype_half(harness: Harness) -> Findings:
    """Write and recall in each half type that the library has."""
    yield from _kept(harness, _halves(harness), dict.fromkeys(("float16", "bfloat16"), "float32"))


def _kept(harness: Harness, dtypes: Iterator[str] | list[str] | tuple[str, ...], states: dict[str, str]) -> Findings:
    drawn = harness.exact(9)
    queries = drawn.keys[:4]
    want = harness.answer(drawn, queries)
    for dtype in dtypes:
        state = harness.write(drawn, dtype=dtype)
        wanted = states.get(dtype, dtype)
        if ar.dtype_name(state.dtype) != wanted:
            yield f"{dtype} pairs must give a {wanted} state; got {ar.dtype_name(state.dtype)}."
        for name, array in state.contents.items():
            if harness.xp.isdtype(array.dtype, "real floating") and _dtype(array) != wanted:
                yield f"{dtype} pairs must give the state's array {name!r} in {wanted}; got {_dtype(array)}."
        out = harness.store.recall(state, harness.give(queries, dtype))
        if _dtype(out) != dtype and not (harness.traits.keys == "ids" and _dtype(out) == wanted):
            yield f"{dtype} pairs and queries must be recalled in {dtype}; got {_dtype(out)}."
        yield from harness.same(harness.read(out), want, f"recall in {dtype} against float64", ROUNDING[dtype])
        nothing = harness.store.recall(harness.empty(), harness.give(queries, dtype))
        if _dtype(nothing) != dtype and harness.traits.keys != "ids":
            yield f"{dtype} queries of an empty store must be recalled in {dtype}; got {_dtype(nothing)}."


@check("dtype-whole", "whole numbers and bools are promoted: no wrapping, the answer of the same floats")
def dtype_whole(harness: Harness) -> Findings:
    """Write int8, int64 and bool pairs whose sums leave the range of int8."""
    n = 24
    keys = np.eye(harness.d_k)[np.arange(n) % harness.d_k]
    if harness.traits.keys in ("ids", "signs"):
        keys = harness.keys(n)
    values = harness.rng.choice([-100.0, 100.0], (n, harness.d_v)) * (np.arange(harness.d_v) % 2) + 100
    values = harness.values(n) if harness.traits.values == "signs" else np.clip(values, -100, 100)
    drawn = harness.draw(n, keys=keys, values=values, extras="plain")
    want = harness.answer(drawn, drawn.keys[:4])
    kinds: list[tuple[str, Numbers, Numbers]] = [
        (kind, drawn.keys.astype(kind), drawn.values.astype(kind)) for kind in ("int8", "int64")
    ]
    for kind, whole_keys, whole_values in kinds:
        state = harness.write(drawn.having(keys=whole_keys, values=whole_values))
        out = harness.store.recall(state, harness.give(whole_keys[:4]))
        default = ar.dtype_name(harness.xp.__array_namespace_info__().default_dtypes()["real floating"])
        if _dtype(out) != default:
            yield f"{kind} pairs must be recalled in the library's default floating dtype {default}; got {_dtype(out)}."
        yield from harness.same(
            harness.read(out), want, f"recall of {kind} pairs must equal that of the same floats", ROUNDING["float32"]
        )
    if harness.traits.keys == "any":
        truth = drawn.having(values=drawn.values > 0)
        want = harness.answer(truth.having(values=truth.values.astype(float)), drawn.keys[:4])
        out = harness.recall(harness.write(truth.having(keys=drawn.keys > 0)), drawn.keys[:4] > 0)
        yield from harness.same(
            out, want, "recall of bool pairs must equal that of zeros and ones", ROUNDING["float32"]
        )


@check("dtype-mixed", "mixed dtypes are promoted: keys, values, extras, queries and successive writes")
def dtype_mixed(harness: Harness) -> Findings:
    """Mix float32 with float64 in every place."""
    drawn = harness.exact(6)
    queries = drawn.keys[:3]
    want = harness.answer(drawn, queries)
    extras = {name: harness.give(x, "float32") for name, x in drawn.extras.items()}
    state = harness.store.write(
        harness.empty(), harness.give(drawn.keys, "float32"), harness.give(drawn.values), **extras
    )
    out = harness.store.recall(state, harness.give(queries, "float32"))
    if _dtype(out) != "float64":
        yield f"float32 keys with float64 values must be recalled in float64; got {_dtype(out)}."
    yield from harness.same(harness.read(out), want, "float32 keys with float64 values", ROUNDING["float32"])
    single = harness.write(drawn.rows(slice(3)), dtype="float32")
    out = harness.store.recall(single, harness.give(queries))
    if _dtype(out) != "float64" and harness.traits.keys != "ids":
        yield f"float64 queries of a float32 state must be recalled in float64; got {_dtype(out)}."
    state = harness.write(drawn.rows(slice(3, None)), single)
    out = harness.store.recall(state, harness.give(queries))
    if _dtype(out) != "float64":
        yield f"a float64 write onto a float32 state must be recalled in float64; got {_dtype(out)}."
    yield from harness.same(harness.read(out), want, "a float64 write onto a float32 state", ROUNDING["float32"])
    for half in _halves(harness):
        state = harness.store.write(
            harness.empty(), harness.give(drawn.keys, "float32"), harness.give(drawn.values, half), **extras
        )
        out = harness.store.recall(state, harness.give(queries, "float64"))
        yield from harness.same(harness.read(out), want, f"{half} values with float32 keys", ROUNDING[half])


@check("dtype-chosen", "empty(state_dtype=...) keeps the state in that dtype; empty(like=...) follows an array")
def dtype_chosen(harness: Harness) -> Findings:
    """Keep a float32 state of float64 pairs; follow a float32 array."""
    drawn = harness.exact(6)
    queries = drawn.keys[:3]
    want = harness.answer(drawn, queries)
    state = harness.write(drawn, harness.store.empty(harness.d_k, harness.d_v, state_dtype="float32"))
    for name, array in state.contents.items():
        if harness.xp.isdtype(array.dtype, "real floating") and _dtype(array) != "float32":
            yield f"state_dtype='float32' must keep the state's array {name!r} in float32; got {_dtype(array)}."
    out = harness.store.recall(state, harness.give(queries))
    if _dtype(out) != "float64":
        yield f"float64 pairs in a float32 state must be recalled in float64; got {_dtype(out)}."
    yield from harness.same(harness.read(out), want, "float64 pairs in a float32 state", ROUNDING["float32"])
    like = harness.store.empty(harness.d_k, harness.d_v, like=harness.give(np.zeros(1), "float32"))
    out = harness.store.recall(harness.write(drawn, like, "float32"), harness.give(queries, "float32"))
    if _dtype(out) != "float32":
        yield f"empty(like=a float32 array) must recall float32 pairs in float32; got {_dtype(out)}."
    yield from harness.same(harness.read(out), want, "float32 pairs after empty(like=...)", ROUNDING["float32"])


@check("layouts", "strided, transposed, reversed, read-only, Fortran, big-endian arrays give the copy's answer")
def layouts(harness: Harness) -> Findings:
    """Hand over the same numbers in every layout that the library has."""
    drawn = harness.draw(7)
    queries = harness.queries(drawn.keys, 5)
    want = harness.answer(drawn, queries)
    extras = {name: harness.give(x) for name, x in drawn.extras.items()}
    for name, layout in _layouts(harness):
        state = harness.store.write(harness.empty(), layout(drawn.keys), layout(drawn.values), **extras)
        out = harness.read(harness.store.recall(state, layout(queries)))
        yield from harness.same(out, want, f"recall with {name} keys, values and queries")


def _layouts(harness: Harness) -> Iterator[tuple[str, Callable[[Numbers], Array]]]:
    yield "strided", lambda x: harness.give(_spread(x))[::2, ::2]
    yield "transposed", lambda x: ar.transpose(harness.give(np.ascontiguousarray(x.T)))
    if type(harness.give(np.zeros(1))) is np.ndarray:
        yield "Fortran-ordered", np.asfortranarray
        yield "reversed", lambda x: np.ascontiguousarray(x[::-1, ::-1])[::-1, ::-1]
        yield "big-endian", lambda x: x.astype(x.dtype.newbyteorder(">"))
        yield "read-only", _read_only
        yield "list", lambda x: x.tolist()


def _spread(x: Numbers) -> Numbers:
    wide = np.full((2 * x.shape[0], 2 * x.shape[1]), 7, dtype=x.dtype)
    wide[::2, ::2] = x
    return wide


def _read_only(x: Numbers) -> Numbers:
    copy = x.copy()
    copy.flags.writeable = False
    return copy
