"""Contract: the further arrays that `write` takes do what the traits say."""

from __future__ import annotations

import numpy as np

from assocmem.checks.harness import Bench, Findings, promise


@promise("extras-default", "an extra that is left out has its declared default")
def extras_default(bench: Bench) -> Findings:
    """Leave each extra with a default out; give the default in full."""
    lot = bench.lot(7)
    queries = bench.queries(lot.keys, 5)
    for extra in bench.traits.extras:
        if extra.default is None or isinstance(extra.default, str):
            continue
        given = {**lot.extras, extra.name: np.full_like(lot.extras[extra.name], extra.default)}
        left_out = {name: x for name, x in lot.extras.items() if name != extra.name}
        want = bench.answer(lot.having(extras=given), queries)
        law = f"leaving `{extra.name}` out must equal giving its default {extra.default:g}"
        yield from bench.same(bench.answer(lot.having(extras=left_out), queries), want, law)


@promise("extras-matter", "every declared extra has an effect, in write and in scan")
def extras_matter(bench: Bench) -> Findings:
    """Draw each extra anew: the recall must change."""
    plain = bench.lot(7)
    queries = bench.queries(plain.keys, 7)
    for extra in bench.traits.extras:
        lot = bench.placing(extra, plain)
        drawn = bench.extra(extra, lot.extras[extra.name].shape)
        other = lot.having(extras={**lot.extras, extra.name: drawn})
        if not bench.differ(bench.answer(other, queries), bench.answer(lot, queries)):
            yield f"`{extra.name}` is declared, but other numbers for it left every recall the same."
        if not bench.differ(bench.scan(other, queries, "after")[1], bench.scan(lot, queries, "after")[1]):
            yield f"`{extra.name}` is declared, but other numbers for it left every recall of a scan the same."


@promise("extras-broadcast", "one number given for an extra stands for all of its entries")
def extras_broadcast(bench: Bench) -> Findings:
    """Give each extra as a single number and as a full array."""
    plain = bench.lot(7)
    queries = bench.queries(plain.keys, 5)
    for extra in bench.traits.extras:
        lot = bench.placing(extra, plain)
        number = bench.extra(extra, ())
        full = {**lot.extras, extra.name: np.full_like(lot.extras[extra.name], number)}
        single = {**lot.extras, extra.name: np.asarray(number)}
        want = bench.answer(lot.having(extras=full), queries)
        got = bench.answer(lot.having(extras=single), queries)
        yield from bench.same(got, want, f"one number for `{extra.name}` must stand for all its entries")
