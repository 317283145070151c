"""Contract for stores that keep their pairs: masks, the rows of the slots, selection."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from assocmem.checks.harness import Drawn, Findings, Harness, Numbers, check


@check("mask-hides-all", "a query that sees nothing recalls zeros; the other queries are untouched")
def mask_hides_all(harness: Harness) -> Findings:
    """Hide everything from one of four queries, then from all."""
    if not harness.can.masks:
        return
    drawn = harness.draw(7)
    state = harness.write(drawn)
    queries = harness.queries(drawn.keys, 4)
    mask = np.ones((4, 7), dtype=bool)
    want = harness.recall(state, queries, mask)
    yield from harness.same(want, harness.recall(state, queries), "recall with a mask that hides nothing")
    mask[1] = False
    want[1] = 0
    out = harness.recall(state, queries, mask)
    yield from harness.same(out, want, "recall with everything hidden from query 1 of 4")
    out = harness.recall(state, queries, np.zeros((4, 7), dtype=bool))
    yield from harness.same(out, 0 * want, "recall with everything hidden from every query")


@check("mask-is-absence", "a hidden pair is as good as one never written")
def mask_is_absence(harness: Harness) -> Findings:
    """Hide three of eight pairs; write only the other five."""
    if not harness.can.masks:
        return
    drawn = harness.draw(8)
    queries = harness.queries(drawn.keys, 5)
    for seen in ([0, 2, 3, 5, 7], [4], list(range(8))):
        mask = np.zeros((5, 8), dtype=bool)
        mask[:, seen] = True
        out = harness.recall(harness.write(drawn), queries, mask)
        want = _as_if_stored(harness, drawn, seen, queries, out)
        yield from harness.same(out, want, f"only pairs {seen} of 8 visible")


def _as_if_stored(harness: Harness, drawn: Drawn, seen: list[int], queries: Numbers, out: Numbers) -> Numbers:
    """Return the recall of the visible pairs written alone.

    A store whose σ follows the number of memories may count all stored ones instead of the visible ones; where
    the recall is that of σ at the stored number, that is returned.
    """
    alone = harness.answer(drawn.rows(seen), queries)
    form = harness.store.form(harness.d_k)
    sigma = None if form is None else form.of_keys(drawn.n, harness.d_k)
    if form is None or sigma is None or sigma == form.of_keys(len(seen), harness.d_k):
        return alone
    weights = harness.read(sigma(harness.give(queries @ drawn.keys[seen].T)))
    if form.normalised:
        weights = weights / weights.sum(axis=-1, keepdims=True)
    counted: Numbers = weights @ drawn.values[seen]
    return alone if harness.differ(counted, out) else counted


@check("mask-per-query", "every query has a mask row of its own; masks broadcast over queries and batch")
def mask_per_query(harness: Harness) -> Findings:
    """Give random masks to six queries, each compared with that query asked alone."""
    if not harness.can.masks:
        return
    drawn = harness.draw(8, batch=(2,))
    state = harness.write(drawn)
    queries = harness.queries(drawn.keys, 6)
    mask = harness.rng.random((2, 6, 8)) < 0.5
    alone = [harness.recall(state, queries[:, i : i + 1], mask[:, i : i + 1]) for i in range(6)]
    yield from harness.same(harness.recall(state, queries, mask), np.concatenate(alone, axis=1), "a mask row per query")
    for part, law in ((mask[0, 0], "one mask (n,) shared by all queries"), (mask[0], "one mask (m, n) of the batch")):
        want = harness.recall(state, queries, np.broadcast_to(part, (2, 6, 8)))
        yield from harness.same(harness.recall(state, queries, part), want, law)


@check("slots", "rows kept for pairs come back by name, block, id, search and selection, and are counted")
def slots(harness: Harness) -> Findings:
    """Read the rows of eleven pairs in every way, with and without batch."""
    for batch in ((), (2,)):
        state = harness.write(harness.draw(11, batch=batch))
        rows = state.slots
        if harness.traits.keeps_pairs and (rows is None or rows.count != state.n):
            yield "traits.keeps_pairs = True, but the state has no slots with a row for every pair."
        if rows is None or not rows.count:
            continue
        ids = harness.rng.integers(0, rows.count, (*batch, 3, 2))
        pick = harness.give(np.array([rows.count - 1, 0]))
        blocks = list(rows.blocks(4))
        for name in rows.names:
            whole = harness.read(rows[name])
            law = f"rows {name!r}, batch {batch},"
            parts = [harness.read(block[name]) for _, block in blocks]
            yield from harness.same(np.concatenate(parts, axis=-2), whole, f"{law} in blocks")
            want = np.take_along_axis(whole[..., None, :, :], ids[..., None], axis=-2)
            yield from harness.same(harness.read(rows.take(name, harness.give(ids))), want, f"{law} taken by id")
            chosen = harness.read(rows.select(pick)[name])
            yield from harness.same(chosen, whole[..., [rows.count - 1, 0], :], f"{law} selected")
        if harness.traits.keys == "any" and "keys" in rows.names:
            queries = harness.queries(harness.read(rows["keys"]), 3)
            found, similarity = (harness.read(x) for x in rows.search(harness.give(queries), 4))
            products = queries @ np.swapaxes(harness.read(rows["keys"]), -1, -2)
            want = -np.sort(-products, axis=-1)[..., :4]
            yield from harness.same(similarity, want, f"the four largest similarities, batch {batch}")
            yield from harness.same(np.take_along_axis(products, found, axis=-1), want, "similarities of the ids found")


@check("select", "a state of some of the pairs recalls as if they alone had been written, in that order")
def selected(harness: Harness) -> Findings:
    """Select three of eight pairs, none, and pairs that do not exist; write onto the selection."""
    if not harness.can.selects:
        return
    drawn, more = harness.draw(8), harness.draw(2)
    queries = harness.queries(drawn.keys, 5)
    state = harness.write(drawn)
    before = harness.recall(state, queries)
    for ids in ([5, 0, 3], [], [7]):
        chosen = harness.store.select(state, harness.give(np.array(ids, dtype=np.int64)))
        want = harness.answer(drawn.rows(ids), queries)
        yield from harness.recalls(chosen, queries, want, f"pairs {ids} of eight, selected")
        if chosen.n != len(ids):
            yield f"a selection of {len(ids)} pairs must have n = {len(ids)}; got {chosen.n}."
        want = harness.recall(harness.write(more, harness.write(drawn.rows(ids))), queries)
        yield from harness.recalls(harness.write(more, chosen), queries, want, f"a write onto the selection {ids}")
    wrong: tuple[Any, ...] = ([8], [-1], [0.5], [[1]], 2)
    for ids in wrong:
        yield from harness.refused(partial(harness.store.select, state, ids), f"ids {ids!r} of 8 pairs", says=("ids",))
    yield from harness.recalls(state, queries, before, "the state from which pairs were selected")
