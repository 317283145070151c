"""Contract: the further arrays that `write` takes do what the traits say."""

from __future__ import annotations

import numpy as np

from assocmem.checks.harness import Findings, Harness, check


@check("extras-default", "an extra that is left out has its declared default")
def extras_default(harness: Harness) -> Findings:
    """Leave each extra with a default out; give the default in full."""
    drawn = harness.draw(7)
    queries = harness.queries(drawn.keys, 5)
    for extra in harness.traits.extras:
        if extra.default is None or isinstance(extra.default, str):
            continue
        given = {**drawn.extras, extra.name: np.full_like(drawn.extras[extra.name], extra.default)}
        left_out = {name: x for name, x in drawn.extras.items() if name != extra.name}
        want = harness.answer(drawn.having(extras=given), queries)
        law = f"leaving `{extra.name}` out must equal giving its default {extra.default:g}"
        yield from harness.same(harness.answer(drawn.having(extras=left_out), queries), want, law)


@check("extras-matter", "every declared extra has an effect, in write and in scan")
def extras_matter(harness: Harness) -> Findings:
    """Draw each extra anew: the recall must change."""
    plain = harness.draw(7)
    queries = harness.queries(plain.keys, 7)
    for extra in harness.traits.extras:
        drawn = harness.placing(extra, plain)
        fresh = harness.extra(extra, drawn.extras[extra.name].shape)
        other = drawn.having(extras={**drawn.extras, extra.name: fresh})
        if not harness.differ(harness.answer(other, queries), harness.answer(drawn, queries)):
            yield f"`{extra.name}` is declared, but other numbers for it left every recall the same."
        if not harness.differ(harness.scan(other, queries, "after")[1], harness.scan(drawn, queries, "after")[1]):
            yield f"`{extra.name}` is declared, but other numbers for it left every recall of a scan the same."


@check("extras-broadcast", "one number given for an extra stands for all of its entries")
def extras_broadcast(harness: Harness) -> Findings:
    """Give each extra as a single number and as a full array."""
    plain = harness.draw(7)
    queries = harness.queries(plain.keys, 5)
    for extra in harness.traits.extras:
        drawn = harness.placing(extra, plain)
        number = harness.extra(extra, ())
        full = {**drawn.extras, extra.name: np.full_like(drawn.extras[extra.name], number)}
        single = {**drawn.extras, extra.name: np.asarray(number)}
        want = harness.answer(drawn.having(extras=full), queries)
        got = harness.answer(drawn.having(extras=single), queries)
        yield from harness.same(got, want, f"one number for `{extra.name}` must stand for all its entries")
