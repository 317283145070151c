"""Contract: the laws of write, recall and scan - splitting, batches, the causal form, purity, repeatability."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping

import numpy as np

from assocmem.checks.harness import Bench, Findings, Lot, Numbers, promise
from assocmem.contract import arrays as ar
from assocmem.contract.arrays import Array
from assocmem.contract.errors import InputError
from assocmem.contract.slots import DenseSlots
from assocmem.contract.state import State


@promise("split-law", "write(20) equals write(7) then write(13), at any position and one by one")
def split_law(bench: Bench) -> Findings:
    """Write twenty pairs in one call, in two, and in twenty."""
    lot = bench.lot(20)
    queries = bench.queries(lot.keys, 5)
    want = bench.answer(lot, queries)
    for cut in (1, 5, 7, 13, 19):
        state = bench.write(lot.rows(slice(cut, None)), bench.write(lot.rows(slice(cut))))
        yield from bench.same(
            bench.recall(state, queries), want, f"write({cut}) then write({20 - cut}) must equal write(20)"
        )
        if state.n != 20:
            yield f"write({cut}) then write({20 - cut}) must leave n = 20; got {state.n}."
    state = bench.empty()
    for i in range(20):
        state = bench.write(lot.rows(slice(i, i + 1)), state)
    yield from bench.same(bench.recall(state, queries), want, "twenty single writes must equal write(20)")


@promise("merge", "one state made of several holds what all of them hold, or the store refuses in words")
def merged_states(bench: Bench) -> Findings:
    """Merge states of 7, 1, 0 and 5 pairs, with and without batch; a store that refuses two full ones need do none."""
    lot = bench.lot(2)
    try:
        bench.store.merge(bench.write(lot.rows(slice(1))), bench.write(lot.rows(slice(1, 2))))
    except InputError:
        return
    for batch in ((), (2,)):
        lot = bench.lot(13, batch=batch)
        queries = bench.queries(lot.keys, 5)
        parts = [bench.write(lot.rows(slice(a, b)), bench.empty(batch)) for a, b in ((0, 7), (7, 8), (8, 8), (8, 13))]
        try:
            state = bench.store.merge(*parts)
        except InputError as error:
            yield f"a store that merges two states must merge four, one of them empty, batch {batch} too: {error}"
            continue
        want = bench.answer(lot, queries)
        yield from bench.same(bench.recall(state, queries), want, f"merged states, batch {batch}, must recall as one")
        if state.n != 13:
            yield f"merged states of 13 pairs must have n = 13; got {state.n}."


@promise("batch-law", "a batch equals the loop over its items, and items never mix")
def batch_law(bench: Bench) -> Findings:
    """Compare batches of 3 and of (2, 3) with their items, at sizes that all differ."""
    for batch in ((3,), (2, 3)):
        lot = bench.lot(5, batch=batch)
        queries = bench.queries(lot.keys, 7)
        state = bench.write(lot)
        out = bench.recall(state, queries)
        shared = bench.recall(state, queries[(0,) * len(batch)])
        wide = bench.recall(state, np.stack([queries, queries[..., ::-1, :]]))
        yield from bench.same(wide[0], out, f"recall with a further leading axis over batch {batch}")
        yield from bench.same(wide[1], out[..., ::-1, :], f"recall with a further leading axis over batch {batch}")
        for index in np.ndindex(batch):
            item = bench.write(lot.item(index))
            yield from bench.same(
                out[index], bench.recall(item, queries[index]), f"item {index} of batch {batch} must equal it alone"
            )
            yield from bench.same(
                shared[index],
                bench.recall(item, queries[(0,) * len(batch)]),
                f"queries (m, d_k) shared by batch {batch} must be asked of every item; item {index}",
            )


@promise("batch-queries", "queries with leading axes of their own are asked of a store without batch")
def batch_queries(bench: Bench) -> Findings:
    """Ask (3, m, d_k) queries of one store."""
    lot = bench.lot(5)
    state = bench.write(lot)
    queries = np.stack([bench.queries(lot.keys, 2) for _ in range(3)])
    want = np.stack([bench.recall(state, q) for q in queries])
    yield from bench.same(bench.recall(state, queries), want, "recall of queries (3, m, d_k) must equal three recalls")


@promise("batch-pairs", "pairs (n, d_k) given to a store with batch axes are written into every item")
def batch_pairs(bench: Bench) -> Findings:
    """Write unbatched pairs into a batch of 3."""
    if any(not e.per_pair for e in bench.traits.extras):
        return
    lot = bench.lot(5)
    queries = bench.queries(lot.keys, 4)
    out = bench.recall(bench.write(lot, bench.empty((3,))), queries)
    want = np.broadcast_to(bench.answer(lot, queries), out.shape)
    yield from bench.same(out, want, "pairs without batch axes must be written into every item")


@promise("scan-after", "scan equals the loop of write and recall, reading after each write")
def scan_after(bench: Bench) -> Findings:
    """Compare scan with the loop, from nothing and onto stored pairs, with and without batch."""
    yield from _scan(bench, "after")


@promise("scan-before", "scan equals the loop of recall and write, reading before each write")
def scan_before(bench: Bench) -> Findings:
    """Compare scan with the loop, from nothing and onto stored pairs, with and without batch."""
    yield from _scan(bench, "before")


def _scan(bench: Bench, read: str) -> Findings:
    for batch, stored in (((), 0), ((), 4), ((2,), 3)):
        lot = bench.lot(7, batch=batch)
        first = bench.lot(stored, batch=batch)
        queries = bench.queries(lot.keys, 7)
        state, out = bench.scan(lot, queries, read, bench.write(first))
        looped, want = _looped(bench, first, lot, queries, read)
        where = f"scan(read={read!r}) onto {stored} pairs, batch {batch}"
        yield from bench.same(out, want, f"{where} must equal the loop of write and recall")
        if state.n != stored + 7:
            yield f"{where} must leave n = {stored + 7}; got {state.n}."
        yield from bench.same(
            bench.recall(state, queries), bench.recall(looped, queries), f"the state that {where} leaves"
        )


def _looped(bench: Bench, first: Lot, lot: Lot, queries: Numbers, read: str) -> tuple[State, Numbers]:
    state = bench.write(first)
    rows = []
    for i in range(lot.n):
        if read == "before":
            rows.append(bench.recall(state, queries[..., i : i + 1, :]))
        state = bench.write(lot.rows(slice(i, i + 1)), state)
        if read == "after":
            rows.append(bench.recall(state, queries[..., i : i + 1, :]))
    return state, np.concatenate(rows, axis=-2)


@promise("scan-queries", "scan takes one query for every pair, refuses other counts and unknown words for `read`")
def scan_queries(bench: Bench) -> Findings:
    """Share queries over a batch; give too few; read at a time that does not exist."""
    lot = bench.lot(5, batch=(2,))
    queries = bench.queries(lot.item((0,)).keys, 5)
    want = bench.scan(lot, np.stack([queries, queries]), "after")[1]
    yield from bench.same(bench.scan(lot, queries, "after")[1], want, "scan with queries shared by the batch")
    yield from bench.refused(lambda: bench.scan(lot, queries[:3], "after"), "a scan of 5 pairs with 3 queries")
    yield from bench.refused(lambda: bench.scan(lot, queries, "now"), "read='now'", says=("after", "before"))


@promise("old-states", "a write leaves the old state valid, and two writes from one state are both right")
def old_states(bench: Bench) -> Findings:
    """Branch twice from one state, then once more from a branch."""
    lot = bench.lot(5)
    left, right = bench.lot(3), bench.lot(4)
    queries = bench.queries(lot.keys, 6)
    root = bench.write(lot)
    before = bench.recall(root, queries)
    first = bench.write(left, root)
    second = bench.write(right, root)
    third = bench.write(right, first)
    yield from bench.same(bench.recall(root, queries), before, "the old state after two writes from it")
    for state, parts, what in (
        (first, (lot, left), "the first of two writes from one state"),
        (second, (lot, right), "the second of two writes from one state"),
        (third, (lot, left, right), "a write onto the first of two branches"),
    ):
        fresh = bench.empty()
        for part in parts:
            fresh = bench.write(part, fresh)
        yield from bench.same(bench.recall(state, queries), bench.recall(fresh, queries), what)


@promise("inputs-kept", "write, recall and scan change none of the arrays they are given")
def inputs_kept(bench: Bench) -> Findings:
    """Compare every argument with a copy taken before the call."""
    lot = bench.lot(5)
    names = ("keys", "values", "queries", *lot.extras)
    numbers = (lot.keys, lot.values, bench.queries(lot.keys, 5), *lot.extras.values())
    given = dict(zip(names, (bench.give(x) for x in numbers), strict=True))
    extras = {name: given[name] for name in lot.extras}
    state = bench.store.write(bench.empty(), given["keys"], given["values"], **extras)
    bench.store.recall(state, given["queries"])
    bench.store.scan(state, given["keys"], given["values"], given["queries"], **extras)
    for name, before in zip(names, numbers, strict=True):
        if not np.array_equal(bench.read(given[name]), before):
            yield f"`{name}` was changed by the call it was given to."


@promise("no-aliasing", "a state shares no memory with the caller's arrays, a recall none with the state")
def no_aliasing(bench: Bench) -> Findings:
    """Overwrite what was written and what was recalled, then recall again."""
    lot = bench.lot(5)
    queries = bench.queries(lot.keys, 4)
    given = {name: bench.give(x) for name, x in (("keys", lot.keys), ("values", lot.values), *lot.extras.items())}
    state = bench.store.write(bench.empty(), **given)
    out = bench.store.recall(state, bench.give(queries))
    want = np.array(bench.read(out))
    for array in (*given.values(), out):
        if ar.can_write_in_place(array):
            array[...] = 0 * array
    yield from bench.same(
        bench.recall(state, queries), want, "recall after the caller overwrote the arrays given and returned"
    )


@promise("deterministic", "the same pairs give the same recall, in any process of any store with these settings")
def deterministic(bench: Bench) -> Findings:
    """Write the same pairs twice with other work in between, the second time into a copy of the store."""
    lot, other = bench.lot(7), bench.lot(3)
    queries = bench.queries(lot.keys, 5)
    state = bench.write(lot)
    want = bench.recall(state, queries)
    bench.write(other)
    yield from bench.same(bench.recall(state, queries), want, "recall after another state of the store was written")
    yield from bench.same(bench.answer(lot, queries), want, "the same pairs written again")
    twin = Bench(dataclasses.replace(bench.store), bench.xp, "deterministic")
    yield from bench.same(twin.answer(lot, queries), want, "the same pairs written into a copy of the store")


@promise("pure-reads", "recall changes nothing: the state's arrays stay, and the answer repeats")
def pure_reads(bench: Bench) -> Findings:
    """Recall three times with other queries in between; compare the state's arrays."""
    lot = bench.lot(7)
    state = bench.write(lot)
    queries = bench.queries(lot.keys, 5)
    before = dict(_copies(bench, state))
    first = bench.recall(state, queries)
    bench.recall(state, bench.queries(lot.keys, 9))
    yield from bench.same(bench.recall(state, queries), first, "the same queries asked again")
    for name, array in _copies(bench, state):
        if not np.array_equal(array, before[name], equal_nan=array.dtype.kind == "f"):
            yield f"recall changed the state's array {name!r}."


@promise("explicit-state", "everything a store learns is in the arrays of its state")
def explicit_state(bench: Bench) -> Findings:
    """Rebuild the state from copies of its arrays alone; it must recall and go on writing as before."""
    lot, more = bench.lot(7), bench.lot(4)
    queries = bench.queries(lot.keys, 5)
    state = bench.write(lot)
    arrays = {name: bench.xp.asarray(array, copy=True) for name, array in state.contents.items()}
    rebuilt = rebuilt_of(state, arrays)
    yield from bench.same(
        bench.recall(rebuilt, queries), bench.recall(state, queries), "recall of a state rebuilt from its arrays"
    )
    yield from bench.same(
        bench.recall(bench.write(more, rebuilt), queries),
        bench.recall(bench.write(more, state), queries),
        "a write onto a state rebuilt from its arrays",
    )


def rebuilt_of(state: State, contents: Mapping[str, Array]) -> State:
    """Return the state made anew from its arrays by name."""
    rows = None if state.slots is None else DenseSlots({name: contents[name] for name in state.slots.names})
    return dataclasses.replace(state, arrays={name: contents[name] for name in state.arrays}, slots=rows, memo={})


def _copies(bench: Bench, state: State) -> Iterator[tuple[str, Numbers]]:
    for name, array in state.contents.items():
        yield name, np.array(bench.read(array))
