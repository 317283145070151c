"""Contract: what a recall gives beside its values - weights, mass, trace, what was not found - and its options."""

from __future__ import annotations

from typing import Any

import numpy as np

from assocmem.checks.harness import Findings, Harness, Numbers, check
from assocmem.contract.recall import Outcome, Recall, TopK, merge
from assocmem.contract.state import State


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


@check("nothing", "a recall tells which queries found nothing: all of an empty store, those from which all is hidden")
def nothing(harness: Harness) -> Findings:
    """Ask an empty store, one of five pairs, and with everything hidden from one of four queries; ask for opposites."""
    drawn = harness.draw(5)
    state = harness.write(drawn)
    queries = harness.queries(drawn.keys, 4)
    mask = np.ones((4, 5), dtype=bool)
    mask[1] = False
    for want in ("weights", "mass"):
        if want not in harness.can.gives:
            continue
        cases: list[tuple[str, Recall, list[bool]]] = [
            ("no pair is stored", _asked(harness, harness.empty(), queries, want), [True] * 4),
            ("every query is near a key", _asked(harness, state, queries, want), [False] * 4),
        ]
        if harness.can.masks:
            hidden = _asked(harness, state, queries, want, mask)
            cases.append(("everything is hidden from query 1", hidden, [False, True, False, False]))
        for where, found, told in cases:
            said = None if found.nothing is None else harness.read(found.nothing).tolist()
            if said != told:
                yield f"asked with want={want!r} where {where}, `nothing` must be {told}; got {said}."
    if {"weights", "mass"} <= set(harness.can.gives) and harness.traits.keys == "any":
        far = -drawn.keys[:4]
        by = [_asked(harness, state, far, want) for want in ("weights", "mass")]
        said = [harness.read(found.nothing).tolist() for found in by]
        if said[0] != said[1]:
            yield f"queries opposite to keys: weights say {said[0]} for `nothing`, the mass says {said[1]}."


def _asked(harness: Harness, state: State, queries: Numbers, want: Any, mask: Any = None) -> Recall:
    total = {"n_total": state.n} if any(option.name == "n_total" for option in harness.traits.options) else {}
    return harness.ask(state, queries, want=want, mask=mask, **total)


@check("top-k", "sparse weights name stored pairs, each at most once for a query")
def top_k(harness: Harness) -> Findings:
    """Look at the ids of nine pairs, with and without batch."""
    if "weights" not in harness.can.gives:
        return
    for batch in ((), (2,)):
        drawn = harness.draw(9, batch=batch)
        found = harness.ask(harness.write(drawn), harness.queries(drawn.keys, 5), want="weights").weights
        if not isinstance(found, TopK):
            return
        ids, weights = harness.read(found.ids), harness.read(found.weights)
        if ids.shape != weights.shape or ids.shape[:-1] != (*batch, 5) or ids.dtype.kind not in "iu":
            yield f"ids must be whole numbers of the weights' shape (..., 5, k); got {ids.dtype} {ids.shape}."
            return
        if ids.size and (ids.min() < 0 or ids.max() > 8):
            yield f"ids of nine pairs must lie in [0, 9); got {ids.min()} to {ids.max()}."
        for row, own in zip(ids.reshape(-1, ids.shape[-1]), weights.reshape(-1, ids.shape[-1]), strict=True):
            if len(set(row[own != 0])) != np.count_nonzero(own):
                yield f"a query must name a pair at most once; got ids {row.tolist()} with weights {own.tolist()}."
                return


@check("trace", "the trace of an iterated recall says how it went; once a query has ended, more steps change nothing")
def trace(harness: Harness) -> Findings:
    """Ask for the trace at the default and at other limits of `steps`."""
    if "trace" not in harness.can.gives:
        return
    drawn = harness.draw(9)
    state, queries = harness.write(drawn), harness.queries(drawn.keys, 5)
    limits: list[Any] = [None, 1, 2, 40] if any(o.name == "steps" for o in harness.traits.options) else [None]
    told: dict[Any, tuple[Numbers, Numbers, Numbers]] = {}
    for limit in limits:
        found = harness.ask(state, queries, want="trace", **({"steps": limit} if limit else {}))
        if found.trace is None:
            yield "capabilities.gives has 'trace', but a recall came without it."
            return
        steps, outcome, energy = (harness.read(x) for x in (found.trace.steps, found.trace.outcome, found.trace.energy))
        most = int(steps.max(initial=0))
        if (steps.shape, outcome.shape, energy.shape) != ((5,), (5,), (5, most + 1)):
            yield (
                f"a trace of 5 queries and {most} steps must have steps (5,), outcome (5,) and energy (5, {most + 1}); "
                f"got {steps.shape}, {outcome.shape} and {energy.shape}."
            )
            return
        if steps.dtype.kind not in "iu" or not set(outcome.tolist()) <= set(Outcome):
            yield f"steps must be whole numbers and outcomes those of `Outcome`; got {steps.dtype}, {outcome.tolist()}."
        if limit and np.any((steps > limit) | ((outcome == Outcome.STEP_LIMIT) & (steps != limit))):
            yield f"with steps={limit} no query may take more, one stopped there no fewer; got {steps.tolist()}."
        rises = np.diff(energy, axis=-1) > 1e-9 * np.maximum(np.abs(energy[:, 1:]), 1)
        if harness.traits.energy_falls and np.any(rises):
            yield f"traits.energy_falls = True, but the energy of a query rose: {energy[rises.any(-1)][0].tolist()}."
        rested = outcome == Outcome.FIXED_POINT
        if np.any(energy[rested, -1] > energy[rested, 0] + 1e-9 * np.abs(energy[rested, 0])):
            yield "a query that came to rest must not have more energy than it began with."
        told[limit] = steps, outcome, harness.read(found.values)
        yield from _stays(harness, state, found, rested)
    yield from harness.same(told[None][2], harness.recall(state, queries), "values asked for with a trace")
    if 40 in told:
        for limit in (None, 1, 2):
            steps, outcome, values = told[limit]
            ended = outcome != Outcome.STEP_LIMIT
            where = f"queries that ended with steps={limit}, given 40"
            yield from harness.same(told[40][2][ended], values[ended], f"values of {where}")
            yield from harness.same(told[40][0][ended].astype(float), steps[ended].astype(float), f"steps of {where}")


def _stays(harness: Harness, state: State, found: Recall, rested: Numbers) -> Findings:
    """Ask the queries that came to rest again from where they rest, as far as the trace says where."""
    if found.trace is None or found.trace.settled is None or not rested.any():
        return
    settled = harness.read(found.trace.settled)
    if settled.shape != (5, harness.d_k):
        yield f"a trace must have `settled` (5, {harness.d_k}), where each query ended; got {settled.shape}."
        return
    again = harness.ask(state, settled[rested], want="trace").trace
    if again is None or np.any(harness.read(again.steps) > 1):
        yield "a query that begins where another came to rest must be at rest after one step."


@check("options-default", "an option of a recall that is left out has its declared default")
def options_default(harness: Harness) -> Findings:
    """Leave each out; give its default."""
    drawn = harness.draw(7)
    state, queries = harness.write(drawn), harness.queries(drawn.keys, 5)
    for option in harness.traits.options:
        if option.default is not None:
            given = harness.read(harness.ask(state, queries, **{option.name: option.default}).values)
            law = f"leaving `{option.name}` out must equal giving its default {option.default:g}"
            yield from harness.recalls(state, queries, given, law)


@check("options-matter", "every declared option has an effect on recalls, or none where it is declared idle")
def options_matter(harness: Harness) -> Findings:
    """Try each at its least and draw it three times; give an option of every query as one number and as a row.

    Nine pairs may fill a memory so that nothing moves any more: where there is no effect three are tried.
    """
    for option in harness.traits.options:
        others = [harness.option(option, but=option.default, least=i == 0) for i in range(4)]
        effect = False
        for n in (9, 3):
            drawn = harness.draw(n)
            state, queries = harness.write(drawn), harness.queries(drawn.keys, 5)
            plain = harness.recall(state, queries)
            found = [harness.read(harness.ask(state, queries, **{option.name: x}).values) for x in others]
            effect = effect or any(harness.differ(x, plain) for x in found)
        if effect is option.idle:
            words = "an effect; declare idle=False" if option.idle else "no effect; declare idle=True, or leave it out"
            yield f"the option `{option.name}` had {words}."
        if option.per_query:
            rows = harness.ask(state, queries, **{option.name: np.full(5, others[0])}).values
            yield from harness.same(harness.read(rows), found[0], f"one number for `{option.name}` and a row of it")
