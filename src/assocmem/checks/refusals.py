"""Contract: bad input is refused in one sentence and leaves the state untouched."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from assocmem.checks.harness import Bench, Findings, Lot, promise
from assocmem.contract.errors import DTypeError, InputError, NonFiniteError
from assocmem.contract.state import State
from assocmem.contract.traits import Extra
from assocmem.contract.validation import UNIT_TOLERANCE


class _Witness:
    """A written state whose recall is compared before and after a refusal."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self.lot = bench.lot(5)
        self.state = bench.write(self.lot)
        self.queries = bench.queries(self.lot.keys, 4)
        self.before = bench.recall(self.state, self.queries)

    def write(self, lot: Lot) -> Callable[[], State]:
        """Return the call that writes `lot` onto the state."""
        return lambda: self.bench.write(lot, self.state)

    def untouched(self, after: str) -> Findings:
        """Yield a sentence where the state no longer recalls what it did."""
        now = self.bench.recall(self.state, self.queries)
        yield from self.bench.same(now, self.before, f"the state after {after} was refused")


@promise("not-finite", "NaN and infinity in keys, values or queries are refused, naming the row")
def not_finite(bench: Bench) -> Findings:
    """Put NaN or infinity in row 3 of five, on its own and in item 1 of a batch."""
    witness = _Witness(bench)
    pairs = bench.lot(5)
    for bad in (float("nan"), float("inf"), -float("inf")):
        for place in ("keys", "values", "queries"):
            if place != "values" and bench.traits.keys == "ids":
                continue
            array = np.array({"keys": pairs.keys, "values": pairs.values, "queries": pairs.keys}[place])
            array[3, -1] = bad
            what = f"{bad} in row 3 of `{place}`"
            if place == "queries":
                for call in (
                    partial(bench.recall, witness.state, array),
                    partial(bench.scan, pairs, array, "after", witness.state),
                ):
                    yield from bench.refused(call, what, says=("queries", "3"), kind=NonFiniteError)
            else:
                spoilt = pairs.having(keys=array) if place == "keys" else pairs.having(values=array)
                yield from bench.refused(witness.write(spoilt), what, says=(place, "3"), kind=NonFiniteError)
    yield from witness.untouched("NaN or infinity")
    batch = bench.lot(4, batch=(2,))
    batch.values[1, 2, 0] = np.nan
    yield from bench.refused(
        lambda: bench.write(batch), "NaN in row 2 of batch item 1 of `values`", says=("(1, 2)",), kind=NonFiniteError
    )


@promise("wrong-shapes", "widths, lengths and batch axes that do not fit are refused, naming what came")
def wrong_shapes(bench: Bench) -> Findings:
    """Give wrong widths, lengths that differ, one axis, further axes."""
    witness = _Witness(bench)
    lot, d_k, d_v = bench.lot(5), bench.d_k, bench.d_v
    wide = bench.lot(5, d_k=d_k + 1, d_v=d_v + 2)
    batched = bench.lot(5, batch=(3,))
    cases = (
        ("keys of the wrong width", lot.having(keys=wide.keys), ("keys", str(d_k), str(d_k + 1))),
        ("values of the wrong width", lot.having(values=wide.values), ("values", str(d_v), str(d_v + 2))),
        ("5 keys with 4 values", lot.having(values=lot.values[:4]), ("5", "4")),
        ("4 keys with 5 values", lot.having(keys=lot.keys[:4]), ("5", "4")),
        ("one key without an axis of pairs", lot.having(keys=lot.keys[0]), ("keys",)),
        ("a single number as keys", lot.having(keys=lot.keys[0, 0]), ("keys",)),
        ("pairs of batch (3,) for a state without batch", batched, ("keys", "3")),
    )
    for what, bad, says in cases:
        yield from bench.refused(witness.write(bad), what, says=says, kind=InputError)
    for what, bad_queries in (
        ("queries of the wrong width", wide.keys),
        ("one query without an axis", lot.keys[0]),
    ):
        call = partial(bench.recall, witness.state, bad_queries)
        yield from bench.refused(call, what, says=("queries", str(d_k)), kind=InputError)
    state = bench.write(bench.lot(2, batch=(2,)))
    ask, write = partial(bench.recall, state, batched.keys), partial(bench.write, batched, state)
    yield from bench.refused(ask, "queries of batch (3,) for a state of batch (2,)", kind=InputError)
    yield from bench.refused(write, "pairs of batch (3,) for a state of batch (2,)", kind=InputError)
    sizes: tuple[Any, ...] = (-1, 2.5, True)
    for size in sizes:
        yield from bench.refused(partial(bench.store.empty, size, d_v), f"d_k = {size}", says=("d_k",), kind=InputError)
    yield from witness.untouched("a wrong shape")


@promise("foreign-types", "objects, text, complex numbers and ragged rows are refused")
def foreign_types(bench: Bench) -> Findings:
    """Give keys that are no real numbers."""
    witness = _Witness(bench)
    lot = witness.lot
    extras = {name: bench.give(x) for name, x in lot.extras.items()}
    values = bench.give(lot.values)
    for what, bad in (
        ("an object array", lot.keys.astype(object)),
        ("text", np.full(lot.keys.shape, "one")),
        ("complex numbers", lot.keys + 1j),
        ("None", None),
        ("ragged rows", [[1.0, 2.0], [3.0]]),
    ):
        write = partial(bench.store.write, witness.state, bad, values, **extras)
        yield from bench.refused(write, f"{what} as keys", says=("keys",))
        recall = partial(bench.store.recall, witness.state, bad)
        yield from bench.refused(recall, f"{what} as queries", says=("queries",))
    yield from witness.untouched("a foreign type")


@promise("key-kinds", "keys are taken as the traits say: any, unit rows, signs or whole-number ids")
def key_kinds(bench: Bench) -> Findings:
    """Give keys just inside and well outside of what is wanted."""
    witness = _Witness(bench)
    lot, kind = bench.lot(5), bench.traits.keys
    if kind == "any":
        try:
            bench.write(lot.having(keys=1.5 * lot.keys), witness.state)
        except InputError as error:
            yield f"traits.keys = 'any' promises that keys of any length are taken; they were refused: {error}"
        return
    worse: dict[str, tuple[tuple[str, Any], ...]] = {
        "unit": (("rows 1 % too long", 1.01), ("rows of length zero", 0.0)),
        "signs": (("numbers other than +1 and -1", 0.5), ("zeros", 0.0)),
        "ids": (("negative ids", -1), ("fractional ids", 0.5)),
    }
    for what, factor in worse[kind]:
        keys = lot.keys.copy() if factor != 0.5 or kind != "ids" else lot.keys.astype(float)
        keys[2] = keys[2] * factor if kind != "ids" else factor
        yield from bench.refused(witness.write(lot.having(keys=keys)), what, says=("keys",), kind=InputError)
    if kind == "unit":
        try:
            bench.write(lot.having(keys=lot.keys * (1 + UNIT_TOLERANCE / 2)), witness.state)
        except InputError as error:
            yield f"unit keys off by half the tolerance {UNIT_TOLERANCE} must be taken; they were refused: {error}"
    yield from witness.untouched("a key of the wrong kind")


@promise("unknown-extras", "an extra that the traits do not declare is refused by write and scan, naming it")
def unknown_extras(bench: Bench) -> Findings:
    """Give an extra nobody declared."""
    witness = _Witness(bench)
    lot = bench.lot(5)
    odd = lot.having(extras={**lot.extras, "phase_of_moon": np.ones(5)})
    yield from bench.refused(witness.write(odd), "an undeclared extra", says=("phase_of_moon",), kind=InputError)
    yield from bench.refused(
        lambda: bench.scan(odd, lot.keys, "after", witness.state),
        "an undeclared extra in scan",
        says=("phase_of_moon",),
        kind=InputError,
    )
    yield from witness.untouched("an undeclared extra")


@promise("declared-extras", "declared extras are held to their shape and range and required without a default")
def declared_extras(bench: Bench) -> Findings:
    """Leave each out, give it a wrong shape, NaN, and numbers beyond its range."""
    if not bench.traits.extras:
        return
    witness = _Witness(bench)
    for extra in bench.traits.extras:
        lot = bench.placing(extra, bench.lot(5))
        if extra.instead_of:
            both = lot.having(extras={**bench.lot(5).extras, **lot.extras})
            what = f"`{extra.name}` together with `{extra.instead_of}`, whose place it takes,"
            yield from bench.refused(witness.write(both), what, says=(extra.name, extra.instead_of), kind=InputError)
        if extra.required:
            without = {k: x for k, x in lot.extras.items() if k != extra.name}
            yield from bench.refused(
                witness.write(lot.having(extras=without)),
                f"a write without `{extra.name}`, which has no default,",
                says=(extra.name,),
                kind=InputError,
            )
        for what, bad in _spoilt(extra, lot.extras[extra.name]):
            yield from bench.refused(
                witness.write(lot.having(extras={**lot.extras, extra.name: bad})),
                f"`{extra.name}` {what}",
                says=(extra.name,),
                kind=InputError,
            )
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


@promise("mask-refused", "a store that does not keep its pairs apart refuses a mask")
def mask_refused(bench: Bench) -> Findings:
    """Give a mask to a store that mixes its pairs."""
    if bench.traits.keeps_pairs:
        return
    lot = bench.lot(5)
    state = bench.write(lot)
    yield from bench.refused(
        lambda: bench.recall(state, lot.keys[:2], np.ones((2, 5), dtype=bool)),
        "a mask for a store that does not keep its pairs",
        says=("mask",),
        kind=InputError,
    )


@promise("wrong-masks", "a mask that is not boolean or does not fit is refused")
def wrong_masks(bench: Bench) -> Findings:
    """Give masks of numbers and of wrong shapes."""
    if not bench.traits.keeps_pairs:
        return
    witness = _Witness(bench)
    for what, bad, kind in (
        ("a mask of numbers", np.ones((2, 5)), DTypeError),
        ("a mask for 4 of 5 pairs", np.ones((2, 4), dtype=bool), InputError),
        ("a mask for 3 of 2 queries", np.ones((3, 5), dtype=bool), InputError),
    ):
        call = partial(bench.recall, witness.state, witness.lot.keys[:2], bad)
        yield from bench.refused(call, what, says=("mask",), kind=kind)
    yield from witness.untouched("a wrong mask")
