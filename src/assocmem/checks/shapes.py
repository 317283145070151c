"""Contract: shapes and types, and every size from nothing at all to more pairs than dimensions."""

from __future__ import annotations

import dataclasses

import numpy as np

from assocmem.checks.harness import Bench, Findings, promise
from assocmem.contract import arrays as ar
from assocmem.contract.errors import InputError
from assocmem.contract.state import State
from assocmem.contract.traits import Traits


@promise("frozen", "a store is a frozen dataclass of hyper-parameters, equal to its copy, with traits that stay")
def frozen(bench: Bench) -> Findings:
    """Try to change a hyper-parameter; compare a copy."""
    store = bench.store
    parameters = getattr(type(store), "__dataclass_params__", None)
    if parameters is None or not parameters.frozen or "__dataclass_params__" not in vars(type(store)):
        yield f"{store.name} must be decorated with @dataclass(frozen=True), so that nothing is hidden in the store."
        return
    if dataclasses.replace(store) != store:
        yield f"a copy of {store.name} with the same settings must be equal to it."
    if not isinstance(store.traits, Traits) or store.traits != store.traits:
        yield f"`traits` of {store.name} must be one and the same Traits each time; got {store.traits!r}."


@promise("shapes", "write returns a State that counts its pairs; recall returns (..., m, d_v) in the caller's library")
def shapes(bench: Bench) -> Findings:
    """Write one, two and nine pairs; recall none, one, two and five queries."""
    for n in (1, 2, 9):
        lot = bench.lot(n)
        state = bench.write(lot)
        if not isinstance(state, State):
            yield f"write must return a State; got {type(state).__name__}."
            return
        facts, wanted = (state.n, state.d_k, state.d_v, tuple(state.batch)), (n, bench.d_k, bench.d_v, ())
        if facts != wanted:
            yield f"the state after {n} pairs must say n, d_k, d_v, batch = {wanted}; got {facts}."
        for m in (0, 1, 2, 5):
            out = bench.store.recall(state, bench.give(bench.queries(lot.keys, m)))
            if ar.namespace(out) is not bench.xp:
                yield f"recall must return an array of the caller's library; got {type(out).__name__}."
            if tuple(out.shape) != (m, bench.d_v):
                yield f"recall of {m} queries must have shape {(m, bench.d_v)}; got {tuple(out.shape)}."


@promise("state-arrays", "a state's arrays are of the caller's library, batch axes first, floating ones of its dtype")
def state_arrays(bench: Bench) -> Findings:
    """Look at the arrays of an empty and of a written state with batch axes."""
    lot = bench.lot(3, batch=(2,))
    like = bench.store.empty(bench.d_k, bench.d_v, batch=(2,), like=bench.give(np.zeros(1), "float32"))
    for state, when in ((like, "empty"), (bench.write(lot, dtype="float32"), "written")):
        for name, array in state.contents.items():
            what = f"the array {name!r} of an {when} state"
            if not hasattr(array, "shape") or ar.namespace(array) is not bench.xp:
                yield f"{what} must be of the caller's library; got {type(array).__name__}."
            elif tuple(array.shape[:1]) != (2,):
                yield f"{what} must have the batch axes (2,) first; got shape {tuple(array.shape)}."
            elif bench.xp.isdtype(array.dtype, "real floating") and array.dtype != state.dtype:
                yield f"{what} must have the state's dtype {state.dtype}; got {array.dtype}."


@promise("empty", "a store that holds nothing recalls zeros, however many queries are asked")
def empty(bench: Bench) -> Findings:
    """Recall 1, 19, 20 and 1000 queries from nothing."""
    for m in (1, 19, 20, 1000):
        out = bench.recall(bench.empty(), bench.keys(m))
        yield from bench.same(out, np.zeros((m, bench.d_v)), f"recall of {m} queries from an empty store")
    out = bench.recall(bench.empty((2,)), bench.keys(3))
    yield from bench.same(out, np.zeros((2, 3, bench.d_v)), "recall from an empty store of batch (2,)")


@promise("one-pair", "a single stored pair is recalled in its value's direction when asked with its key")
def one_pair(bench: Bench) -> Findings:
    """Store one pair and ask with its key."""
    for trial in range(3):
        lot = bench.lot(1, extras="plain" if trial == 0 else "drawn")
        # A gate row of its own may close the pair it belongs to; with the key as its gate it cannot.
        gates = {e.name: lot.keys for e in bench.traits.extras if e.shape == ("n", "d_k") and not np.isfinite(e.low)}
        lot = lot.having(extras={**lot.extras, **gates})
        out = bench.answer(lot, lot.keys)
        if not np.all(np.isfinite(out)):
            yield "recall of a single stored pair must be finite."
        elif float(np.sum(out * lot.values)) <= 0:
            yield (
                "recall of a single stored pair by its own key must point along its value; "
                f"the inner product was {float(np.sum(out * lot.values)):.3g}."
            )


@promise("every-pair", "every pair of a write counts, the first, the last and those beyond d_k")
def every_pair(bench: Bench) -> Findings:
    """Turn one value of nine around and ask with its key: the recall must change."""
    keys = bench.keys(9)
    if bench.traits.keys == "any":
        keys /= np.linalg.norm(keys, axis=-1, keepdims=True)
    lot = bench.lot(9, keys=keys)
    whole = bench.answer(lot, lot.keys)
    for i in range(lot.n):
        values = lot.values.copy()
        values[i] *= -1
        changed = bench.answer(lot.having(values=values), lot.keys)
        if not bench.differ(changed[i], whole[i]):
            yield f"pair {i} of {lot.n} has no effect on the recall of its own key: it was not stored."


@promise("narrow", "keys and values of width one work")
def narrow(bench: Bench) -> Findings:
    """Write five pairs of d_k = 1, of d_v = 1 and of both."""
    for d_k, d_v in ((1, bench.d_v), (bench.d_k, 1), (1, 1)):
        lot = bench.lot(5, d_k=d_k, d_v=d_v)
        try:
            out = bench.answer(lot, lot.keys[:3])
        except InputError:
            if d_k == d_v or bench.d_k != bench.d_v:
                yield f"d_k = {d_k}, d_v = {d_v} must work; it was refused."
            continue
        if out.shape != (3, d_v) or not np.all(np.isfinite(out)):
            yield f"d_k = {d_k}, d_v = {d_v} must recall finite numbers of shape {(3, d_v)}; got shape {out.shape}."


@promise("no-width", "d_k = 0 and d_v = 0 are defined: finite recalls of the right shape, or one sentence")
def no_width(bench: Bench) -> Findings:
    """Write and recall with keys or values that have no entries."""
    for d_k, d_v in ((0, 3), (6, 0)):
        lot = bench.lot(4, d_k=d_k, d_v=d_v)
        try:
            out = bench.answer(lot, lot.keys[:2])
        except InputError:
            continue
        if out.shape != (2, d_v) or not np.all(np.isfinite(out)):
            yield f"d_k = {d_k}, d_v = {d_v} must recall finite numbers of shape {(2, d_v)}; got shape {out.shape}."


@promise("zero-vectors", "zero-norm queries and, where any key will do, zero-norm keys give finite recalls")
def zero_vectors(bench: Bench) -> Findings:
    """Ask with zeros; store a zero key."""
    if bench.traits.keys in ("ids", "signs"):
        return
    lot = bench.lot(5)
    zeros = np.zeros((2, bench.d_k))
    out = bench.answer(lot, zeros)
    if not np.all(np.isfinite(out)):
        yield "a zero-norm query must recall finite numbers; got NaN or infinity."
    if bench.traits.keys == "any":
        lot.keys[2] = 0
        out = bench.answer(lot, np.concatenate([zeros, lot.keys]))
        if not np.all(np.isfinite(out)):
            yield "a stored zero-norm key must leave every recall finite; got NaN or infinity."


@promise("no-pairs", "writing no pairs changes nothing; no queries give an empty answer")
def no_pairs(bench: Bench) -> Findings:
    """Write n = 0 before and after others, scan n = 0."""
    lot = bench.lot(5)
    nothing = bench.lot(0)
    queries = bench.queries(lot.keys, 4)
    want = bench.answer(lot, queries)
    after = bench.write(nothing, bench.write(lot))
    before = bench.write(lot, bench.write(nothing))
    for state, when in ((after, "after"), (before, "before")):
        if state.n != 5:
            yield f"writing no pairs {when} five must leave n = 5; got {state.n}."
        yield from bench.same(bench.recall(state, queries), want, f"recall with no pairs written {when} five")
    state, out = bench.scan(nothing, bench.keys(0), "after", bench.write(lot))
    yield from bench.same(out, np.zeros((0, bench.d_v)), "scan of no pairs")
    yield from bench.same(bench.recall(state, queries), want, "recall after a scan of no pairs")


@promise("queries-apart", "a query's answer depends on no other query of the call")
def queries_apart(bench: Bench) -> Findings:
    """Ask five queries together, one by one and in reverse."""
    lot = bench.lot(9)
    state = bench.write(lot)
    queries = bench.queries(lot.keys, 5)
    together = bench.recall(state, queries)
    alone = np.concatenate([bench.recall(state, queries[i : i + 1]) for i in range(5)])
    yield from bench.same(together, alone, "recall of five queries together must equal each asked alone")
    yield from bench.same(bench.recall(state, queries[::-1])[::-1], together, "recall in reverse order of queries")
