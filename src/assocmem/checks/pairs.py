"""Contract for stores that keep their pairs: masks, recall weights, shards that merge."""

from __future__ import annotations

import numpy as np

from assocmem.checks.harness import Drawn, Findings, Harness, Numbers, check
from assocmem.contract.form import KernelSum
from assocmem.contract.recall import merge


@check("mask-hides-all", "a query that sees nothing recalls zeros; the other queries are untouched")
def mask_hides_all(harness: Harness) -> Findings:
    """Hide everything from one of four queries, then from all."""
    if not harness.traits.keeps_pairs:
        return
    drawn = harness.draw(7)
    state = harness.write(drawn)
    queries = harness.queries(drawn.keys, 4)
    mask = np.ones((4, 7), dtype=bool)
    want = harness.recall(state, queries, mask)
    yield from harness.same(want, harness.recall(state, queries), "recall with a mask that hides nothing")
    mask[1] = False
    want[1] = 0
    yield from harness.same(
        harness.recall(state, queries, mask), want, "recall with everything hidden from query 1 of 4"
    )
    out = harness.recall(state, queries, np.zeros((4, 7), dtype=bool))
    yield from harness.same(out, 0 * want, "recall with everything hidden from every query")


@check("mask-is-absence", "a hidden pair is as good as one never written")
def mask_is_absence(harness: Harness) -> Findings:
    """Hide three of eight pairs; write only the other five."""
    if not harness.traits.keeps_pairs:
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
    if not isinstance(form, KernelSum) or form.at(drawn.n, harness.d_k) == form.at(len(seen), harness.d_k):
        return alone
    weights = harness.read(form.at(drawn.n, harness.d_k)(harness.give(queries @ drawn.keys[seen].T)))
    if form.normalised:
        weights = weights / weights.sum(axis=-1, keepdims=True)
    counted: Numbers = weights @ drawn.values[seen]
    return alone if harness.differ(counted, out) else counted


@check("mask-per-query", "every query has a mask row of its own; masks broadcast over queries and batch")
def mask_per_query(harness: Harness) -> Findings:
    """Give random masks to six queries, each compared with that query asked alone."""
    if not harness.traits.keeps_pairs:
        return
    drawn = harness.draw(8, batch=(2,))
    state = harness.write(drawn)
    queries = harness.queries(drawn.keys, 6)
    mask = harness.rng.random((2, 6, 8)) < 0.5
    alone = [harness.recall(state, queries[:, i : i + 1], mask[:, i : i + 1]) for i in range(6)]
    yield from harness.same(harness.recall(state, queries, mask), np.concatenate(alone, axis=1), "a mask row per query")
    row = mask[0, 0]
    full = np.broadcast_to(row, (2, 6, 8))
    want = harness.recall(state, queries, full)
    yield from harness.same(harness.recall(state, queries, row), want, "one mask (n,) shared by all queries")
    want = harness.recall(state, queries, np.broadcast_to(mask[0], (2, 6, 8)))
    yield from harness.same(harness.recall(state, queries, mask[0]), want, "one mask (m, n) shared by the batch")


@check("weights", "recall weights are the recall of one-hot values; where masked, they are zero")
def weights(harness: Harness) -> Findings:
    """Compare `weights` with one-hot values, with and without a mask."""
    if "weights" not in harness.can.gives:
        return
    drawn = harness.draw(8)
    queries = harness.queries(drawn.keys, 5)
    mask = harness.rng.random((5, 8)) < 0.6
    mask[2] = False
    onehot = harness.write(drawn.having(values=np.eye(8)))
    offset = harness.recall(harness.write(drawn.having(values=np.zeros((8, 8)))), queries)
    state = harness.write(drawn)
    for seen in (None, mask) if harness.can.masks else (None,):
        where = "" if seen is None else " under a mask"
        found = harness.ask(state, queries, want="weights", mask=seen)
        if found.weights is None:
            yield f"capabilities.gives has 'weights', but a recall{where} came without them."
            return
        got = harness.read(found.weights.dense(8))
        shown = offset if seen is None else np.where(np.any(seen, axis=-1, keepdims=True), offset, 0)
        law = f"weights{where} must be the recall of one-hot values"
        yield from harness.same(got, harness.recall(onehot, queries, seen) - shown, law)
        law = f"values asked for together with weights{where} must be the recall"
        yield from harness.same(harness.read(found.values), harness.recall(state, queries, seen), law)
        if seen is not None and np.count_nonzero(np.where(seen, 0, got)):
            yield "the weight of a hidden pair must be exactly zero."


@check("shards", "recalls of shards with their masses merge into the recall of the whole")
def shards(harness: Harness) -> Findings:
    """Split nine pairs into three shards, one of them empty, and merge."""
    if "mass" not in harness.can.gives:
        return
    drawn = harness.draw(9)
    queries = harness.queries(drawn.keys, 5)
    total = {"n_total": 9} if any(option.name == "n_total" for option in harness.traits.options) else {}
    want = harness.recall(harness.write(drawn), queries)
    whole = harness.ask(harness.write(drawn), queries, want="mass", **total)
    yield from harness.same(
        harness.read(whole.values), want, "values asked for together with a mass must be the recall"
    )
    for cuts in ((3, 5), (0, 4), (1, 9)):
        parts = [drawn.rows(slice(a, b)) for a, b in zip((0, *cuts), (*cuts, 9), strict=True)]
        found = [harness.ask(harness.write(part), queries, want="mass", **total) for part in parts]
        if whole.mass is None or any(part.mass is None for part in found):
            yield "capabilities.gives has 'mass', but a recall came without it."
            return
        joined = merge(found)
        where = f"shards of {', '.join(str(p.n) for p in parts)} pairs"
        yield from harness.same(harness.read(joined.values), want, f"merged recalls of {where} must equal the whole")
        assert joined.mass is not None  # merge always gives one
        yield from harness.same(harness.read(joined.mass.log), harness.read(whole.mass.log), f"merged mass of {where}")
