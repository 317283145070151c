"""Contract: shapes and types, and every size from nothing at all to more pairs than dimensions."""

from __future__ import annotations

import dataclasses
from functools import partial

import numpy as np

from assocmem.checks.harness import Findings, Harness, check
from assocmem.contract import arrays as ar
from assocmem.contract.errors import InputError
from assocmem.contract.state import State
from assocmem.contract.traits import Traits


@check("frozen", "a store is a frozen dataclass of hyper-parameters, equal to its copy, with traits that stay")
def frozen(harness: Harness) -> Findings:
    """Try to change a hyper-parameter; compare a copy."""
    store = harness.store
    parameters = getattr(type(store), "__dataclass_params__", None)
    if parameters is None or not parameters.frozen or "__dataclass_params__" not in vars(type(store)):
        yield f"{store.name} must be decorated with @dataclass(frozen=True), so that nothing is hidden in the store."
        return
    if dataclasses.replace(store) != store:
        yield f"a copy of {store.name} with the same settings must be equal to it."
    if not isinstance(store.traits, Traits) or store.traits != store.traits:
        yield f"`traits` of {store.name} must be one and the same Traits each time; got {store.traits!r}."


@check("shapes", "write returns a State that counts its pairs; recall returns (..., m, d_v) in the caller's library")
def shapes(harness: Harness) -> Findings:
    """Write one, two and nine pairs; recall none, one, two and five queries."""
    for n in (1, 2, 9):
        drawn = harness.draw(n)
        state = harness.write(drawn)
        if not isinstance(state, State):
            yield f"write must return a State; got {type(state).__name__}."
            return
        facts, wanted = (state.n, state.d_k, state.d_v, tuple(state.batch)), (n, harness.d_k, harness.d_v, ())
        if facts != wanted:
            yield f"the state after {n} pairs must say n, d_k, d_v, batch = {wanted}; got {facts}."
        for m in (0, 1, 2, 5):
            out = harness.store.recall(state, harness.give(harness.queries(drawn.keys, m)))
            if ar.namespace(out) is not harness.xp:
                yield f"recall must return an array of the caller's library; got {type(out).__name__}."
            if tuple(out.shape) != (m, harness.d_v):
                yield f"recall of {m} queries must have shape {(m, harness.d_v)}; got {tuple(out.shape)}."


@check("state-arrays", "a state's arrays are of the caller's library, batch axes first, floating ones of its dtype")
def state_arrays(harness: Harness) -> Findings:
    """Look at the arrays of an empty and of a written state with batch axes."""
    drawn = harness.draw(3, batch=(2,))
    like = harness.store.empty(harness.d_k, harness.d_v, batch=(2,), like=harness.give(np.zeros(1), "float32"))
    for state, when in ((like, "empty"), (harness.write(drawn, dtype="float32"), "written")):
        for name, array in state.contents.items():
            what = f"the array {name!r} of an {when} state"
            if not hasattr(array, "shape") or ar.namespace(array) is not harness.xp:
                yield f"{what} must be of the caller's library; got {type(array).__name__}."
            elif tuple(array.shape[:1]) != (2,):
                yield f"{what} must have the batch axes (2,) first; got shape {tuple(array.shape)}."
            elif harness.xp.isdtype(array.dtype, "real floating") and array.dtype != state.dtype:
                yield f"{what} must have the state's dtype {state.dtype}; got {array.dtype}."


@check("empty", "a store that holds nothing recalls zeros, however many queries are asked")
def empty(harness: Harness) -> Findings:
    """Recall 1, 19, 20 and 1000 queries from nothing."""
    for m in (1, 19, 20, 1000):
        out = harness.recall(harness.empty(), harness.keys(m))
        yield from harness.same(out, np.zeros((m, harness.d_v)), f"recall of {m} queries from an empty store")
    out = harness.recall(harness.empty((2,)), harness.keys(3))
    yield from harness.same(out, np.zeros((2, 3, harness.d_v)), "recall from an empty store of batch (2,)")


@check("one-pair", "a single stored pair is recalled in its value's direction when asked with its key")
def one_pair(harness: Harness) -> Findings:
    """Store one pair and ask with its key."""
    for trial in range(3):
        drawn = harness.draw(1, extras="plain" if trial == 0 else "drawn")
        # A gate row of its own may close the pair it belongs to; with the key as its gate it cannot.
        gates = {
            e.name: drawn.keys for e in harness.traits.extras if e.shape == ("n", "d_k") and not np.isfinite(e.low)
        }
        drawn = drawn.having(extras={**drawn.extras, **gates})
        out = harness.answer(drawn, drawn.keys)
        if not np.all(np.isfinite(out)):
            yield "recall of a single stored pair must be finite."
        elif float(np.sum(out * drawn.values)) <= 0:
            yield (
                "recall of a single stored pair by its own key must point along its value; "
                f"the inner product was {float(np.sum(out * drawn.values)):.3g}."
            )


@check("every-pair", "every pair of a write counts, the first, the last and those beyond d_k")
def every_pair(harness: Harness) -> Findings:
    """Turn one value of nine around and ask with its key: the recall must change.

    Of signs there are three pairs, of 16 bits: a network that is full may lead a key elsewhere.
    """
    few = harness.traits.keys == "signs" and harness.fits(16, harness.d_v)
    keys = harness.keys(3, d_k=16) if few else harness.keys(9)
    if harness.traits.keys == "any":
        keys /= np.linalg.norm(keys, axis=-1, keepdims=True)
    drawn = harness.draw(len(keys), keys=keys)
    whole = harness.answer(drawn, drawn.keys)
    for i in range(drawn.n):
        values = drawn.values.copy()
        values[i] *= -1
        changed = harness.answer(drawn.having(values=values), drawn.keys)
        if not harness.differ(changed[i], whole[i]):
            yield f"pair {i} of {drawn.n} has no effect on the recall of its own key: it was not stored."


@check("widths", "keys and values of width one work, those of none too or in a sentence; others as declared")
def widths(harness: Harness) -> Findings:
    """Write and recall with d_k and d_v of 1 and of 0, at the widths that the store declares and at one beside."""
    declared = harness.traits.widths
    d_k, d_v = harness.d_k, harness.d_v
    samples = declared.samples if declared else ()
    for wide, tall in ((1, d_v), (d_k, 1), (1, 1), (0, d_v), (d_k, 0), (d_k + 1, d_v), *samples):
        drawn = harness.draw(5, d_k=wide, d_v=tall)
        where = f"d_k = {wide}, d_v = {tall}"
        if not harness.fits(wide, tall):
            yield from harness.refused(partial(harness.empty, (), wide, tall), where, says=(str(wide), str(tall)))
            continue
        try:
            out = harness.answer(drawn, drawn.keys[:3])
        except InputError:
            if wide and tall:
                yield f"{where} must work; it was refused."
            continue
        if out.shape != (3, tall) or not np.all(np.isfinite(out)):
            yield f"{where} must recall finite numbers of shape {(3, tall)}; got shape {out.shape}."


@check("zero-vectors", "zero-norm queries and, where any key will do, zero-norm keys give finite recalls")
def zero_vectors(harness: Harness) -> Findings:
    """Ask with zeros; store a zero key."""
    if harness.traits.keys in ("ids", "signs"):
        return
    drawn = harness.draw(5)
    zeros = np.zeros((2, harness.d_k))
    out = harness.answer(drawn, zeros)
    if not np.all(np.isfinite(out)):
        yield "a zero-norm query must recall finite numbers; got NaN or infinity."
    if harness.traits.keys == "any":
        drawn.keys[2] = 0
        out = harness.answer(drawn, np.concatenate([zeros, drawn.keys]))
        if not np.all(np.isfinite(out)):
            yield "a stored zero-norm key must leave every recall finite; got NaN or infinity."


@check("no-pairs", "writing no pairs changes nothing; no queries give an empty answer")
def no_pairs(harness: Harness) -> Findings:
    """Write n = 0 before and after others, scan n = 0."""
    drawn = harness.draw(5)
    nothing = harness.draw(0)
    queries = harness.queries(drawn.keys, 4)
    want = harness.answer(drawn, queries)
    after = harness.write(nothing, harness.write(drawn))
    before = harness.write(drawn, harness.write(nothing))
    for state, when in ((after, "after"), (before, "before")):
        if state.n != 5:
            yield f"writing no pairs {when} five must leave n = 5; got {state.n}."
        yield from harness.recalls(state, queries, want, f"recall with no pairs written {when} five")
    state, out = harness.scan(nothing, harness.keys(0), "after", harness.write(drawn))
    yield from harness.same(out, np.zeros((0, harness.d_v)), "scan of no pairs")
    yield from harness.recalls(state, queries, want, "recall after a scan of no pairs")


@check("queries-apart", "a query's answer depends on no other query of the call")
def queries_apart(harness: Harness) -> Findings:
    """Ask five queries together, one by one and in reverse."""
    drawn = harness.draw(9)
    state = harness.write(drawn)
    queries = harness.queries(drawn.keys, 5)
    together = harness.recall(state, queries)
    alone = np.concatenate([harness.recall(state, queries[i : i + 1]) for i in range(5)])
    yield from harness.same(together, alone, "recall of five queries together must equal each asked alone")
    yield from harness.same(harness.recall(state, queries[::-1])[::-1], together, "recall in reverse order of queries")
