"""Contract: bad input is refused in one sentence and leaves the state untouched."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from assocmem.checks.harness import Drawn, Findings, Harness, check
from assocmem.contract.errors import DTypeError, InputError, NonFiniteError
from assocmem.contract.recall import WANTS
from assocmem.contract.traits import Extra


class _Witness:
    """A written state whose recall is compared before and after a refusal."""

    def __init__(self, harness: Harness) -> None:
        self.harness = harness
        self.drawn = harness.draw(5)
        self.state = harness.write(self.drawn)
        self.queries = harness.queries(self.drawn.keys, 4)
        self.before = harness.recall(self.state, self.queries)

    def refuses(self, drawn: Drawn, what: str, *says: str, kind: type[Exception] = InputError) -> Findings:
        """Yield a sentence unless a write of `drawn` onto the state is refused."""
        return self.harness.refused(partial(self.harness.write, drawn, self.state), what, says=says, kind=kind)

    def untouched(self, after: str) -> Findings:
        """Yield a sentence where the state no longer recalls what it did."""
        now = self.harness.recall(self.state, self.queries)
        yield from self.harness.same(now, self.before, f"the state after {after} was refused")


@check("not-finite", "NaN and infinity in keys, values or queries are refused, naming the row")
def not_finite(harness: Harness) -> Findings:
    """Put NaN or infinity in row 3 of five, on its own and in item 1 of a batch."""
    witness = _Witness(harness)
    pairs = harness.draw(5)
    for bad in (float("nan"), float("inf"), -float("inf")):
        for place in ("keys", "values", "queries"):
            if place != "values" and harness.traits.keys == "ids":
                continue
            array = np.array({"keys": pairs.keys, "values": pairs.values, "queries": pairs.keys}[place])
            array[3, -1] = bad
            what = f"{bad} in row 3 of `{place}`"
            if place == "queries":
                for call in (
                    partial(harness.recall, witness.state, array),
                    partial(harness.scan, pairs, array, "after", witness.state),
                ):
                    yield from harness.refused(call, what, says=("queries", "3"), kind=NonFiniteError)
            else:
                spoilt = pairs.having(keys=array) if place == "keys" else pairs.having(values=array)
                yield from witness.refuses(spoilt, what, place, "3", kind=NonFiniteError)
    yield from witness.untouched("NaN or infinity")
    batch = harness.draw(4, batch=(2,))
    batch.values[1, 2, 0] = np.nan
    what, write = "NaN in row 2 of batch item 1 of `values`", partial(harness.write, batch)
    yield from harness.refused(write, what, says=("(1, 2)",), kind=NonFiniteError)


@check("wrong-shapes", "widths, lengths and batch axes that do not fit are refused, naming what came")
def wrong_shapes(harness: Harness) -> Findings:
    """Give wrong widths, lengths that differ, one axis, further axes."""
    witness = _Witness(harness)
    drawn, d_k, d_v = harness.draw(5), harness.d_k, harness.d_v
    wide = harness.draw(5, d_k=d_k + 1, d_v=d_v + 2)
    batched = harness.draw(5, batch=(3,))
    cases = (
        ("keys of the wrong width", drawn.having(keys=wide.keys), ("keys", str(d_k), str(d_k + 1))),
        ("values of the wrong width", drawn.having(values=wide.values), ("values", str(d_v), str(d_v + 2))),
        ("5 keys with 4 values", drawn.having(values=drawn.values[:4]), ("5", "4")),
        ("4 keys with 5 values", drawn.having(keys=drawn.keys[:4]), ("5", "4")),
        ("one key without an axis of pairs", drawn.having(keys=drawn.keys[0]), ("keys",)),
        ("a single number as keys", drawn.having(keys=drawn.keys[0, 0]), ("keys",)),
        ("pairs of batch (3,) for a state without batch", batched, ("keys", "3")),
    )
    for what, bad, says in cases:
        yield from witness.refuses(bad, what, *says)
    for what, bad_queries in (
        ("queries of the wrong width", wide.keys),
        ("one query without an axis", drawn.keys[0]),
    ):
        call = partial(harness.recall, witness.state, bad_queries)
        yield from harness.refused(call, what, says=("queries", str(d_k)), kind=InputError)
    state = harness.write(harness.draw(2, batch=(2,)))
    ask, write = partial(harness.recall, state, batched.keys), partial(harness.write, batched, state)
    yield from harness.refused(ask, "queries of batch (3,) for a state of batch (2,)", kind=InputError)
    yield from harness.refused(write, "pairs of batch (3,) for a state of batch (2,)", kind=InputError)
    sizes: tuple[Any, ...] = (-1, 2.5, True)
    for size in sizes:
        empty = partial(harness.store.empty, size, d_v)
        yield from harness.refused(empty, f"d_k = {size}", says=("d_k",), kind=InputError)
    yield from witness.untouched("a wrong shape")


@check("foreign-types", "objects, text, complex numbers and ragged rows are refused")
def foreign_types(harness: Harness) -> Findings:
    """Give keys that are no real numbers."""
    witness = _Witness(harness)
    drawn = witness.drawn
    extras = {name: harness.give(x) for name, x in drawn.extras.items()}
    values = harness.give(drawn.values)
    for what, bad in (
        ("an object array", drawn.keys.astype(object)),
        ("text", np.full(drawn.keys.shape, "one")),
        ("complex numbers", drawn.keys + 1j),
        ("None", None),
        ("ragged rows", [[1.0, 2.0], [3.0]]),
    ):
        write = partial(harness.store.write, witness.state, bad, values, **extras)
        yield from harness.refused(write, f"{what} as keys", says=("keys",))
        recall = partial(harness.store.recall, witness.state, bad)
        yield from harness.refused(recall, f"{what} as queries", says=("queries",))
    yield from witness.untouched("a foreign type")


@check("key-kinds", "keys, queries and values are taken as the traits say: any, signs or whole-number ids")
def key_kinds(harness: Harness) -> Findings:
    """Give keys and values just inside and well outside of what is wanted; ask with bits that are not known."""
    witness = _Witness(harness)
    drawn, kind = harness.draw(5), harness.traits.keys
    if harness.traits.values == "signs":
        for factor in (0.5, 0.0):
            values = drawn.values.copy()
            values[2] *= factor
            yield from witness.refuses(drawn.having(values=values), f"{factor:g} among values of signs", "values")
    if kind == "signs":
        harness.recall(witness.state, drawn.keys * (np.arange(harness.d_k) != 1))
        call = partial(harness.recall, witness.state, 0.5 * drawn.keys)
        yield from harness.refused(call, "queries of other numbers than signs and 0", says=("queries", "0.5"))
    if kind == "any":
        try:
            harness.write(drawn.having(keys=1.5 * drawn.keys), witness.state)
        except InputError as error:
            yield f"traits.keys = 'any' promises that keys of any length are taken; they were refused: {error}"
        return
    worse: dict[str, tuple[tuple[str, Any], ...]] = {
        "signs": (("numbers other than +1 and -1", 0.5), ("zeros", 0.0)),
        "ids": (("negative ids", -1), ("fractional ids", 0.5)),
    }
    for what, factor in worse[kind]:
        keys = drawn.keys.copy() if factor != 0.5 or kind != "ids" else drawn.keys.astype(float)
        keys[2] = keys[2] * factor if kind != "ids" else factor
        yield from witness.refuses(drawn.having(keys=keys), what, "keys")
    yield from witness.untouched("a key of the wrong kind")


@check("unknown-extras", "an extra that the traits do not declare is refused by write and scan, naming it")
def unknown_extras(harness: Harness) -> Findings:
    """Give an extra nobody declared."""
    witness = _Witness(harness)
    drawn = harness.draw(5)
    odd = drawn.having(extras={**drawn.extras, "phase_of_moon": np.ones(5)})
    yield from witness.refuses(odd, "an undeclared extra", "phase_of_moon")
    call = partial(harness.scan, odd, drawn.keys, "after", witness.state)
    yield from harness.refused(call, "an undeclared extra in scan", says=("phase_of_moon",), kind=InputError)
    yield from witness.untouched("an undeclared extra")


@check("declared-extras", "declared extras are held to their shape and range and required without a default")
def declared_extras(harness: Harness) -> Findings:
    """Leave each out, give it a wrong shape, NaN, and numbers beyond its range."""
    if not harness.traits.extras:
        return
    witness = _Witness(harness)
    for extra in harness.traits.extras:
        drawn = harness.placing(extra, harness.draw(5))
        if extra.instead_of:
            both = drawn.having(extras={**harness.draw(5).extras, **drawn.extras})
            what = f"`{extra.name}` together with `{extra.instead_of}`, whose place it takes,"
            yield from witness.refuses(both, what, extra.name, extra.instead_of)
        if extra.required:
            without = {k: x for k, x in drawn.extras.items() if k != extra.name}
            what = f"a write without `{extra.name}`, which has no default,"
            yield from witness.refuses(drawn.having(extras=without), what, extra.name)
        for what, bad in _spoilt(extra, drawn.extras[extra.name]):
            spoilt = drawn.having(extras={**drawn.extras, extra.name: bad})
            yield from witness.refuses(spoilt, f"`{extra.name}` {what}", extra.name)
    yield from witness.untouched("a wrong extra")


def _spoilt(extra: Extra, good: Any) -> list[tuple[str, Any]]:
    cases = [
        ("holding NaN", np.full_like(good, np.nan)),
        ("of the wrong shape", np.zeros((9, 9, *good.shape)) + good.mean()),
    ]
    if np.isfinite(extra.low):
        cases.append((f"below {extra.low:g}", np.full_like(good, extra.low - 1e-3)))
    if np.isfinite(extra.high):
        cases.append((f"above {extra.high:g}", np.full_like(good, extra.high + 1e-3)))
    return cases


@check("undeclared", "what the capabilities and traits do not declare is refused in a sentence that names it")
def undeclared(harness: Harness) -> Findings:
    """Hide pairs, want more than values, give an option, merge, forget and select where it is not declared."""
    witness = _Witness(harness)
    store, can, queries = harness.store, harness.can, witness.queries
    keys, values = harness.give(witness.drawn.keys), harness.give(witness.drawn.values)
    state = witness.state
    cases: list[tuple[bool, str, Callable[[], Any], str]] = [
        (can.masks, "a mask", partial(harness.recall, state, queries, np.ones((4, 5), dtype=bool)), "mask"),
        (can.merges != "no", "a merge of two states", partial(store.merge, state, state), "merge"),
        (can.forgets, "to forget a pair", partial(store.forget, state, keys, values), "forget"),
        (can.selects, "to select a pair", partial(store.select, state, [1]), "select"),
        (False, "the unknown option `phase`", partial(harness.ask, state, queries, phase=1), "phase"),
        (False, "want='moon'", partial(harness.ask, state, queries, want="moon"), "moon"),
    ]
    cases += [
        (want in can.gives, f"want={want!r}", partial(harness.ask, state, queries, want=want), want) for want in WANTS
    ]
    for declared, what, call, word in cases:
        if not declared:
            yield from harness.refused(call, what, says=(word,), kind=InputError)
    yield from witness.untouched("what is not declared")


@check("options-refused", "options out of range or of a wrong kind are refused by recall, naming them")
def options_refused(harness: Harness) -> Findings:
    """Give each option text, NaN, numbers beyond its range, fractions and rows where they do not belong."""
    witness = _Witness(harness)
    for option in harness.traits.options:
        good = harness.option(option)
        bad: list[Any] = ["many", float("nan"), [[good] * 9]]
        bad += [option.low - 1] if np.isfinite(option.low) else []
        bad += [option.high + 1] if np.isfinite(option.high) else []
        bad += [good + 0.5] if option.whole else []
        bad += [] if option.per_query else [[good] * 4]
        for wrong in bad:
            call = partial(harness.ask, witness.state, witness.queries, **{option.name: wrong})
            yield from harness.refused(call, f"{option.name}={wrong!r}", says=(option.name,), kind=InputError)
    yield from witness.untouched("a wrong option")


@check("wrong-masks", "a mask that is not boolean or does not fit is refused")
def wrong_masks(harness: Harness) -> Findings:
    """Give masks of numbers and of wrong shapes."""
    if not harness.can.masks:
        return
    witness = _Witness(harness)
    for what, bad, kind in (
        ("a mask of numbers", np.ones((2, 5)), DTypeError),
        ("a mask for 4 of 5 pairs", np.ones((2, 4), dtype=bool), InputError),
        ("a mask for 3 of 2 queries", np.ones((3, 5), dtype=bool), InputError),
    ):
        call = partial(harness.recall, witness.state, witness.drawn.keys[:2], bad)
        yield from harness.refused(call, what, says=("mask",), kind=kind)
    yield from witness.untouched("a wrong mask")
