"""Contract: the dtype rule and the memory layouts of arrays."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from assocmem.checks.harness import Bench, Findings, Numbers, promise
from assocmem.contract import arrays as ar
from assocmem.contract.arrays import Array

ROUNDING = {"float64": 1e-9, "float32": 1e-4, "float16": 1e-2, "bfloat16": 5e-2}
"""Largest relative gap that rounding to a dtype explains at the sizes tried here."""


def _dtype(x: Array) -> str:
    return ar.dtype_name(x.dtype)


def _halves(bench: Bench) -> list[str]:
    return [name for name in ("float16", "bfloat16") if hasattr(bench.xp, name)]


@promise("dtype-kept", "float32 and float64 are kept, in the state and in the recall")
def dtype_kept(bench: Bench) -> Findings:
    """Write and recall in each."""
    yield from _kept(bench, ("float32", "float64"), {})


@promise("dtype-half", "half precision gives a float32 state, and the recall is cast back")
def dtype_half(bench: Bench) -> Findings:
    """Write and recall in each half type that the library has."""
    yield from _kept(bench, _halves(bench), dict.fromkeys(("float16", "bfloat16"), "float32"))


def _kept(bench: Bench, dtypes: Iterator[str] | list[str] | tuple[str, ...], states: dict[str, str]) -> Findings:
    lot = bench.lot(9, keys=bench.exact_keys(9), values=np.round(bench.values(9) * 8) / 8, extras="plain")
    queries = lot.keys[:4]
    want = bench.answer(lot, queries)
    for dtype in dtypes:
        state = bench.write(lot, dtype=dtype)
        wanted = states.get(dtype, dtype)
        if ar.dtype_name(state.dtype) != wanted:
            yield f"{dtype} pairs must give a {wanted} state; got {ar.dtype_name(state.dtype)}."
        for name, array in state.contents.items():
            if bench.xp.isdtype(array.dtype, "real floating") and _dtype(array) != wanted:
                yield f"{dtype} pairs must give the state's array {name!r} in {wanted}; got {_dtype(array)}."
        out = bench.store.recall(state, bench.give(queries, dtype))
        if _dtype(out) != dtype and not (bench.traits.keys == "ids" and _dtype(out) == wanted):
            yield f"{dtype} pairs and queries must be recalled in {dtype}; got {_dtype(out)}."
        yield from bench.same(bench.read(out), want, f"recall in {dtype} against float64", ROUNDING[dtype])
        nothing = bench.store.recall(bench.empty(), bench.give(queries, dtype))
        if _dtype(nothing) != dtype and bench.traits.keys != "ids":
            yield f"{dtype} queries of an empty store must be recalled in {dtype}; got {_dtype(nothing)}."


@promise("dtype-whole", "whole numbers and bools are promoted: no wrapping, the answer of the same floats")
def dtype_whole(bench: Bench) -> Findings:
    """Write int8, int64 and bool pairs whose sums leave the range of int8."""
    n = 24
    keys = np.eye(bench.d_k)[np.arange(n) % bench.d_k]
    if bench.traits.keys in ("ids", "signs"):
        keys = bench.keys(n)
    values = bench.rng.choice([-100.0, 100.0], (n, bench.d_v)) * (np.arange(bench.d_v) % 2) + 100
    lot = bench.lot(n, keys=keys, values=np.clip(values, -100, 100), extras="plain")
    want = bench.answer(lot, lot.keys[:4])
    kinds: list[tuple[str, Numbers, Numbers]] = [
        (kind, lot.keys.astype(kind), lot.values.astype(kind)) for kind in ("int8", "int64")
    ]
    for kind, whole_keys, whole_values in kinds:
        state = bench.write(lot.having(keys=whole_keys, values=whole_values))
        out = bench.store.recall(state, bench.give(whole_keys[:4]))
        default = ar.dtype_name(bench.xp.__array_namespace_info__().default_dtypes()["real floating"])
        if _dtype(out) != default:
            yield f"{kind} pairs must be recalled in the library's default floating dtype {default}; got {_dtype(out)}."
        yield from bench.same(
            bench.read(out), want, f"recall of {kind} pairs must equal that of the same floats", ROUNDING["float32"]
        )
    if bench.traits.keys in ("any", "unit"):
        truth = lot.having(values=lot.values > 0)
        want = bench.answer(truth.having(values=truth.values.astype(float)), lot.keys[:4])
        out = bench.recall(bench.write(truth.having(keys=lot.keys > 0)), lot.keys[:4] > 0)
        yield from bench.same(out, want, "recall of bool pairs must equal that of zeros and ones", ROUNDING["float32"])


@promise("dtype-mixed", "mixed dtypes are promoted: keys, values, extras, queries and successive writes")
def dtype_mixed(bench: Bench) -> Findings:
    """Mix float32 with float64 in every place."""
    lot = bench.lot(6, keys=bench.exact_keys(6), values=np.round(bench.values(6) * 8) / 8, extras="plain")
    queries = lot.keys[:3]
    want = bench.answer(lot, queries)
    extras = {name: bench.give(x, "float32") for name, x in lot.extras.items()}
    state = bench.store.write(bench.empty(), bench.give(lot.keys, "float32"), bench.give(lot.values), **extras)
    out = bench.store.recall(state, bench.give(queries, "float32"))
    if _dtype(out) != "float64":
        yield f"float32 keys with float64 values must be recalled in float64; got {_dtype(out)}."
    yield from bench.same(bench.read(out), want, "float32 keys with float64 values", ROUNDING["float32"])
    single = bench.write(lot.rows(slice(3)), dtype="float32")
    out = bench.store.recall(single, bench.give(queries))
    if _dtype(out) != "float64" and bench.traits.keys != "ids":
        yield f"float64 queries of a float32 state must be recalled in float64; got {_dtype(out)}."
    state = bench.write(lot.rows(slice(3, None)), single)
    out = bench.store.recall(state, bench.give(queries))
    if _dtype(out) != "float64":
        yield f"a float64 write onto a float32 state must be recalled in float64; got {_dtype(out)}."
    yield from bench.same(bench.read(out), want, "a float64 write onto a float32 state", ROUNDING["float32"])
    for half in _halves(bench):
        state = bench.store.write(
            bench.empty(), bench.give(lot.keys, "float32"), bench.give(lot.values, half), **extras
        )
        out = bench.store.recall(state, bench.give(queries, "float64"))
        yield from bench.same(bench.read(out), want, f"{half} values with float32 keys", ROUNDING[half])


@promise("dtype-chosen", "empty(state_dtype=...) keeps the state in that dtype; empty(like=...) follows an array")
def dtype_chosen(bench: Bench) -> Findings:
    """Keep a float32 state of float64 pairs; follow a float32 array."""
    lot = bench.lot(6, keys=bench.exact_keys(6), values=np.round(bench.values(6) * 8) / 8, extras="plain")
    queries = lot.keys[:3]
    want = bench.answer(lot, queries)
    state = bench.write(lot, bench.store.empty(bench.d_k, bench.d_v, state_dtype="float32"))
    for name, array in state.contents.items():
        if bench.xp.isdtype(array.dtype, "real floating") and _dtype(array) != "float32":
            yield f"state_dtype='float32' must keep the state's array {name!r} in float32; got {_dtype(array)}."
    out = bench.store.recall(state, bench.give(queries))
    if _dtype(out) != "float64":
        yield f"float64 pairs in a float32 state must be recalled in float64; got {_dtype(out)}."
    yield from bench.same(bench.read(out), want, "float64 pairs in a float32 state", ROUNDING["float32"])
    like = bench.store.empty(bench.d_k, bench.d_v, like=bench.give(np.zeros(1), "float32"))
    out = bench.store.recall(bench.write(lot, like, "float32"), bench.give(queries, "float32"))
    if _dtype(out) != "float32":
        yield f"empty(like=a float32 array) must recall float32 pairs in float32; got {_dtype(out)}."
    yield from bench.same(bench.read(out), want, "float32 pairs after empty(like=...)", ROUNDING["float32"])


@promise("layouts", "strided, transposed, reversed, read-only, Fortran, big-endian arrays give the copy's answer")
def layouts(bench: Bench) -> Findings:
    """Hand over the same numbers in every layout that the library has."""
    lot = bench.lot(7)
    queries = bench.queries(lot.keys, 5)
    want = bench.answer(lot, queries)
    extras = {name: bench.give(x) for name, x in lot.extras.items()}
    for name, layout in _layouts(bench):
        state = bench.store.write(bench.empty(), layout(lot.keys), layout(lot.values), **extras)
        out = bench.read(bench.store.recall(state, layout(queries)))
        yield from bench.same(out, want, f"recall with {name} keys, values and queries")


def _layouts(bench: Bench) -> Iterator[tuple[str, Callable[[Numbers], Array]]]:
    yield "strided", lambda x: bench.give(_spread(x))[::2, ::2]
    yield "transposed", lambda x: ar.transpose(bench.give(np.ascontiguousarray(x.T)))
    if type(bench.give(np.zeros(1))) is np.ndarray:
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
