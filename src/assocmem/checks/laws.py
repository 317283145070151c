"""Contract: the laws of write, recall and scan - splitting, batches, the causal form, purity, repeatability."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator, Mapping
from functools import partial

import numpy as np

from assocmem.checks.harness import Drawn, Findings, Harness, Numbers, check
from assocmem.contract import arrays as ar
from assocmem.contract.arrays import Array
from assocmem.contract.slots import DenseSlots
from assocmem.contract.state import State


@check("split-law", "write(20) equals write(7) then write(13), at any position and one by one")
def split_law(harness: Harness) -> Findings:
    """Write twenty pairs in one call, in two, and in twenty."""
    drawn = harness.draw(20)
    queries = harness.queries(drawn.keys, 5)
    want = harness.answer(drawn, queries)
    for cut in (1, 5, 7, 13, 19):
        state = harness.write(drawn.rows(slice(cut, None)), harness.write(drawn.rows(slice(cut))))
        yield from harness.recalls(state, queries, want, f"write({cut}) then write({20 - cut}) must equal write(20)")
        if state.n != 20:
            yield f"write({cut}) then write({20 - cut}) must leave n = 20; got {state.n}."
    state = harness.empty()
    for i in range(20):
        state = harness.write(drawn.rows(slice(i, i + 1)), state)
    yield from harness.recalls(state, queries, want, "twenty single writes must equal write(20)")


@check("merge", "one state made of several holds what all of them hold")
def merged_states(harness: Harness) -> Findings:
    """Merge states of 7, 1, 0 and 5 pairs, with and without batch."""
    if harness.can.merges == "no":
        return
    for batch in ((), (2,)):
        drawn = harness.draw(13, batch=batch)
        queries = harness.queries(drawn.keys, 5)
        cuts = ((0, 7), (7, 8), (8, 8), (8, 13))
        state = harness.store.merge(*(harness.write(drawn.rows(slice(*cut)), harness.empty(batch)) for cut in cuts))
        want = harness.answer(drawn, queries)
        yield from harness.recalls(state, queries, want, f"merged states, batch {batch}, must recall as one")
        if state.n != 13:
            yield f"merged states of 13 pairs must have n = 13; got {state.n}."


@check("forget", "pairs that are forgotten leave the state as if they had never been written")
def forgotten(harness: Harness) -> Findings:
    """Forget three of eight pairs, with and without batch; ask to forget more than there are."""
    if not harness.can.forgets:
        return
    for batch in ((), (2,)):
        drawn = harness.draw(8, batch=batch)
        queries, gone = harness.queries(drawn.keys, 5), drawn.rows([1, 4, 5])
        whole = harness.write(drawn)
        state = harness.store.forget(whole, harness.give(gone.keys), harness.give(gone.values))
        want = harness.answer(drawn.rows([0, 2, 3, 6, 7]), queries)
        yield from harness.recalls(state, queries, want, f"after three of eight pairs were forgotten, batch {batch}")
        if state.n != 5:
            yield f"eight pairs less three must have n = 5; got {state.n}."
        twice = (harness.give(np.concatenate([x, x], axis=-2)) for x in (drawn.keys, drawn.values))
        yield from harness.refused(
            partial(harness.store.forget, whole, *twice), "to forget 16 of 8 pairs", says=("8", "16")
        )


@check("batch-law", "a batch equals the loop over its items, and items never mix")
def batch_law(harness: Harness) -> Findings:
    """Compare batches of 3 and of (2, 3) with their items, at sizes that all differ."""
    for batch in ((3,), (2, 3)):
        drawn = harness.draw(5, batch=batch)
        queries = harness.queries(drawn.keys, 7)
        state = harness.write(drawn)
        out = harness.recall(state, queries)
        shared = harness.recall(state, queries[(0,) * len(batch)])
        wide = harness.recall(state, np.stack([queries, queries[..., ::-1, :]]))
        yield from harness.same(wide[0], out, f"recall with a further leading axis over batch {batch}")
        yield from harness.same(wide[1], out[..., ::-1, :], f"recall with a further leading axis over batch {batch}")
        for index in np.ndindex(batch):
            item = harness.write(drawn.item(index))
            yield from harness.same(
                out[index], harness.recall(item, queries[index]), f"item {index} of batch {batch} must equal it alone"
            )
            yield from harness.same(
                shared[index],
                harness.recall(item, queries[(0,) * len(batch)]),
                f"queries (m, d_k) shared by batch {batch} must be asked of every item; item {index}",
            )


@check("batch-queries", "queries with leading axes of their own are asked of a store without batch")
def batch_queries(harness: Harness) -> Findings:
    """Ask (3, m, d_k) queries of one store."""
    drawn = harness.draw(5)
    state = harness.write(drawn)
    queries = np.stack([harness.queries(drawn.keys, 2) for _ in range(3)])
    want = np.stack([harness.recall(state, q) for q in queries])
    yield from harness.recalls(state, queries, want, "recall of queries (3, m, d_k) must equal three recalls")


@check("batch-pairs", "pairs (n, d_k) given to a store with batch axes are written into every item")
def batch_pairs(harness: Harness) -> Findings:
    """Write unbatched pairs into a batch of 3."""
    if any(not e.per_pair for e in harness.traits.extras):
        return
    drawn = harness.draw(5)
    queries = harness.queries(drawn.keys, 4)
    out = harness.recall(harness.write(drawn, harness.empty((3,))), queries)
    want = np.broadcast_to(harness.answer(drawn, queries), out.shape)
    yield from harness.same(out, want, "pairs without batch axes must be written into every item")


@check("scan-after", "scan equals the loop of write and recall, reading after each write")
def scan_after(harness: Harness) -> Findings:
    """Compare scan with the loop, from nothing and onto stored pairs, with and without batch."""
    yield from _scan(harness, "after")


@check("scan-before", "scan equals the loop of recall and write, reading before each write")
def scan_before(harness: Harness) -> Findings:
    """Compare scan with the loop, from nothing and onto stored pairs, with and without batch."""
    yield from _scan(harness, "before")


def _scan(harness: Harness, read: str) -> Findings:
    for batch, stored in (((), 0), ((), 4), ((2,), 3)):
        drawn = harness.draw(7, batch=batch)
        first = harness.draw(stored, batch=batch)
        queries = harness.queries(drawn.keys, 7)
        state, out = harness.scan(drawn, queries, read, harness.write(first))
        looped, want = _looped(harness, first, drawn, queries, read)
        where = f"scan(read={read!r}) onto {stored} pairs, batch {batch}"
        yield from harness.same(out, want, f"{where} must equal the loop of write and recall")
        if state.n != stored + 7:
            yield f"{where} must leave n = {stored + 7}; got {state.n}."
        yield from harness.recalls(state, queries, harness.recall(looped, queries), f"the state that {where} leaves")


def _looped(harness: Harness, first: Drawn, drawn: Drawn, queries: Numbers, read: str) -> tuple[State, Numbers]:
    state = harness.write(first)
    rows = []
    for i in range(drawn.n):
        if read == "before":
            rows.append(harness.recall(state, queries[..., i : i + 1, :]))
        state = harness.write(drawn.rows(slice(i, i + 1)), state)
        if read == "after":
            rows.append(harness.recall(state, queries[..., i : i + 1, :]))
    return state, np.concatenate(rows, axis=-2)


@check("scan-queries", "scan takes one query for every pair, refuses other counts and unknown words for `read`")
def scan_queries(harness: Harness) -> Findings:
    """Share queries over a batch; give too few; read at a time that does not exist."""
    drawn = harness.draw(5, batch=(2,))
    queries = harness.queries(drawn.item((0,)).keys, 5)
    want = harness.scan(drawn, np.stack([queries, queries]), "after")[1]
    yield from harness.same(harness.scan(drawn, queries, "after")[1], want, "scan with queries shared by the batch")
    yield from harness.refused(lambda: harness.scan(drawn, queries[:3], "after"), "a scan of 5 pairs with 3 queries")
    yield from harness.refused(lambda: harness.scan(drawn, queries, "now"), "read='now'", says=("after", "before"))


@check("scan-reset", "a scan with resets equals a store for every part of the sequence")
def scan_reset(harness: Harness) -> Findings:
    """Reset in the middle and at the start, over stored pairs; refuse places that do not exist."""
    drawn = harness.draw(9)
    queries = harness.queries(drawn.keys, 9)
    for read in ("after", "before"):
        for starts in ((4,), (0, 1, 6)):
            cuts = [slice(a, b) for a, b in itertools.pairwise(dict.fromkeys((0, *starts, 9)))]
            given = (harness.give(drawn.keys), harness.give(drawn.values), harness.give(queries))
            extras = {name: harness.give(x) for name, x in drawn.extras.items()}
            parts = [harness.scan(drawn.rows(at), queries[at], read) for at in cuts]
            state, out = harness.store.scan(harness.empty(), *given, read=read, reset=starts, **extras)
            want = np.concatenate([part[1] for part in parts])
            yield from harness.same(harness.read(out), want, f"scan(read={read!r}, reset={starts})")
            last = harness.recall(parts[-1][0], queries)
            yield from harness.recalls(state, queries, last, f"the state after reset={starts}")
    for wrong in ((9,), (-1,), (3, 3), (0.5,)):

        def call(reset: tuple[float, ...] = wrong) -> object:
            return harness.store.scan(harness.empty(), *given, reset=reset, **extras)

        yield from harness.refused(call, f"reset={wrong} for 9 pairs")


@check("old-states", "a write leaves the old state valid, and two writes from one state are both right")
def old_states(harness: Harness) -> Findings:
    """Branch twice from one state, then once more from a branch."""
    drawn = harness.draw(5)
    left, right = harness.draw(3), harness.draw(4)
    queries = harness.queries(drawn.keys, 6)
    root = harness.write(drawn)
    before = harness.recall(root, queries)
    first = harness.write(left, root)
    second = harness.write(right, root)
    third = harness.write(right, first)
    yield from harness.recalls(root, queries, before, "the old state after two writes from it")
    for state, parts, what in (
        (first, (drawn, left), "the first of two writes from one state"),
        (second, (drawn, right), "the second of two writes from one state"),
        (third, (drawn, left, right), "a write onto the first of two branches"),
    ):
        fresh = harness.empty()
        for part in parts:
            fresh = harness.write(part, fresh)
        yield from harness.recalls(state, queries, harness.recall(fresh, queries), what)


@check("inputs-kept", "write, recall and scan change none of the arrays they are given")
def inputs_kept(harness: Harness) -> Findings:
    """Compare every argument with a copy taken before the call."""
    drawn = harness.draw(5)
    names = ("keys", "values", "queries", *drawn.extras)
    numbers = (drawn.keys, drawn.values, harness.queries(drawn.keys, 5), *drawn.extras.values())
    given = dict(zip(names, (harness.give(x) for x in numbers), strict=True))
    extras = {name: given[name] for name in drawn.extras}
    state = harness.store.write(harness.empty(), given["keys"], given["values"], **extras)
    harness.store.recall(state, given["queries"])
    harness.store.scan(state, given["keys"], given["values"], given["queries"], **extras)
    for name, before in zip(names, numbers, strict=True):
        if not np.array_equal(harness.read(given[name]), before):
            yield f"`{name}` was changed by the call it was given to."


@check("no-aliasing", "a state shares no memory with the caller's arrays, a recall none with the state")
def no_aliasing(harness: Harness) -> Findings:
    """Overwrite what was written and what was recalled, then recall again."""
    drawn = harness.draw(5)
    queries = harness.queries(drawn.keys, 4)
    given = {
        name: harness.give(x) for name, x in (("keys", drawn.keys), ("values", drawn.values), *drawn.extras.items())
    }
    state = harness.store.write(harness.empty(), **given)
    out = harness.store.recall(state, harness.give(queries))
    want = np.array(harness.read(out))
    for array in (*given.values(), out):
        if ar.can_write_in_place(array):
            array[...] = 0 * array
    yield from harness.recalls(state, queries, want, "recall after the caller overwrote the arrays given and returned")


@check("deterministic", "the same pairs give the same recall, in any process of any store with these settings")
def deterministic(harness: Harness) -> Findings:
    """Write the same pairs twice with other work in between, the second time into a copy of the store."""
    drawn, other = harness.draw(7), harness.draw(3)
    queries = harness.queries(drawn.keys, 5)
    state = harness.write(drawn)
    want = harness.recall(state, queries)
    harness.write(other)
    yield from harness.recalls(state, queries, want, "recall after another state of the store was written")
    yield from harness.same(harness.answer(drawn, queries), want, "the same pairs written again")
    twin = Harness(dataclasses.replace(harness.store), harness.xp, "deterministic")
    yield from harness.same(twin.answer(drawn, queries), want, "the same pairs written into a copy of the store")


@check("pure-reads", "recall changes nothing: the state's arrays stay, and the answer repeats")
def pure_reads(harness: Harness) -> Findings:
    """Recall three times with other queries in between; compare the state's arrays."""
    drawn = harness.draw(7)
    state = harness.write(drawn)
    queries = harness.queries(drawn.keys, 5)
    before = dict(_copies(harness, state))
    first = harness.recall(state, queries)
    harness.recall(state, harness.queries(drawn.keys, 9))
    yield from harness.recalls(state, queries, first, "the same queries asked again")
    for name, array in _copies(harness, state):
        if not np.array_equal(array, before[name], equal_nan=array.dtype.kind == "f"):
            yield f"recall changed the state's array {name!r}."


@check("explicit-state", "everything a store learns is in the arrays of its state")
def explicit_state(harness: Harness) -> Findings:
    """Rebuild the state from copies of its arrays alone; it must recall and go on writing as before."""
    drawn, more = harness.draw(7), harness.draw(4)
    queries = harness.queries(drawn.keys, 5)
    state = harness.write(drawn)
    arrays = {name: harness.xp.asarray(array, copy=True) for name, array in state.contents.items()}
    rebuilt = rebuilt_of(state, arrays)
    yield from harness.recalls(
        rebuilt, queries, harness.recall(state, queries), "recall of a state rebuilt from its arrays"
    )
    yield from harness.same(
        harness.recall(harness.write(more, rebuilt), queries),
        harness.recall(harness.write(more, state), queries),
        "a write onto a state rebuilt from its arrays",
    )


def rebuilt_of(state: State, contents: Mapping[str, Array]) -> State:
    """Return the state made anew from its arrays by name."""
    rows = None if state.slots is None else DenseSlots({name: contents[name] for name in state.slots.names})
    return dataclasses.replace(state, arrays={name: contents[name] for name in state.arrays}, slots=rows, memo={})


def _copies(harness: Harness, state: State) -> Iterator[tuple[str, Numbers]]:
    for name, array in state.contents.items():
        yield name, np.array(harness.read(array))
