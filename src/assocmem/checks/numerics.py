"""Contract: small ridges, rounding of what came, torch's autocast."""

from __future__ import annotations

import itertools
import sys
import warnings
from collections.abc import Iterator
from dataclasses import fields, replace
from typing import Any

import array_api_compat
import numpy as np

from assocmem.checks.harness import Drawn, Findings, Harness, Numbers, check
from assocmem.contract.arrays import Array, rounding_unit

RIDGES = (1e-2, 1e-4, 1e-6, 1e-8)
"""Ridges that fall towards none, times the squared length of keys."""
NEAR = 1e-3
"""Largest gap, relative to the largest number recalled, between a small ridge and the truth without a warning."""


@check("small-ridge", "as a ridge goes to 0 recalls go smoothly to those of smallest norm, or a warning says why not")
def small_ridge(harness: Harness) -> Findings:
    """Write dependent keys at falling ridges, in float64 and float32, for every store that has a ridge."""
    if "ridge" not in {f.name for f in fields(harness.store)} or harness.traits.keys != "any":
        return
    plain = Harness(harness.store, np, "small-ridge")
    for what, drawn in _dependent(harness):
        queries = harness.keys(4)
        truth = [_recalled(plain, drawn, queries, ridge, "float64")[0] for ridge in RIDGES]
        gaps = [np.abs(a - b).max() / np.abs(truth[0]).max() for a, b in itertools.pairwise(truth)]
        for ridge, wide, narrow in zip(RIDGES[1:], gaps, gaps[1:], strict=False):
            if narrow > max(wide / 5, NEAR / 10):
                yield (
                    f"{what}: from ridge {ridge:g} to a hundredth of it recalls must change less than before "
                    f"({wide:.2g} of their size); they changed by {narrow:.2g}."
                )
        for dtype in ("float64", "float32"):
            for ridge, want in zip(RIDGES, truth, strict=True):
                got, warned = _recalled(harness, drawn, queries, ridge, dtype)
                if not warned:
                    yield from harness.same(got, want, f"{what} at ridge {ridge:g} in {dtype}", NEAR)


def _dependent(harness: Harness) -> Iterator[tuple[str, Drawn]]:
    one, few = harness.keys(1), harness.keys(3)
    yield "one key written 30 times", harness.draw(30, extras="plain", keys=np.repeat(one, 30, axis=0))
    yield "collinear keys", harness.draw(12, extras="plain", keys=one * np.linspace(-1, 1, 12)[:, None])
    yield "three keys written 10 times each", harness.draw(30, extras="plain", keys=np.concatenate([few] * 10))
    yield "keys of a plane", harness.draw(30, extras="plain", keys=harness.rng.standard_normal((30, 2)) @ few[:2])


def _recalled(harness: Harness, drawn: Drawn, queries: Numbers, ridge: float, dtype: str) -> tuple[Numbers, bool]:
    """Return the recall at a ridge, and whether a warning of the package came with it."""
    settings: dict[str, Any] = {"ridge": ridge}
    tried = Harness(replace(harness.store, **settings), harness.xp, "small-ridge")
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        out = tried.recall(tried.write(drawn, dtype=dtype), queries, dtype=dtype)
    return out, any(w.category.__module__.startswith("assocmem.") for w in heard)


@check("rounded-keys", "keys that were rounded before they came are recalled as they were, not along their rounding")
def rounded_keys(harness: Harness) -> Findings:
    """Write keys of a plane in every dtype that the library has, and ask in all directions."""
    if harness.traits.keys != "any":
        return
    axes = harness.keys(2)
    plane = harness.rng.standard_normal((30, 2)) @ axes
    drawn = harness.draw(30, extras="plain", keys=plane / np.linalg.norm(plane, axis=-1, keepdims=True))
    queries = harness.keys(8)
    want = harness.recall(harness.write(drawn), queries)
    for dtype in ("float32", "float16", "bfloat16"):
        if hasattr(harness.xp, dtype):
            unit = rounding_unit(dtype)
            moved = [drawn.keys + unit * harness.rng.standard_normal((30, 2)) @ axes for _ in range(8)]
            near = [harness.answer(drawn.having(keys=keys), queries) for keys in moved]
            if max(np.abs(x - want).max() for x in near) > 8 * unit * np.abs(want).max() + NEAR:
                return  # a store that picks: keys moved as little inside their plane are recalled otherwise, too
            got = harness.recall(harness.write(drawn, dtype=dtype), queries, dtype=dtype)
            yield from harness.same(got, want, f"keys of a plane in {dtype}", max(32 * rounding_unit(dtype), NEAR))


@check("autocast", "inside torch.autocast states and recalls are of the documented dtypes, with the same numbers")
def autocast(harness: Harness) -> Findings:
    """Write, recall and scan inside and outside; in other libraries there is nothing to check."""
    if not array_api_compat.is_torch_namespace(harness.xp):
        return
    torch = sys.modules["torch"]
    drawn = harness.draw(20)
    queries = harness.queries(drawn.keys, 20)
    for dtype in ("float32", "float64"):

        def calls(dtype: str = dtype) -> dict[str, Array]:
            state = harness.write(drawn, dtype=dtype)
            given = [harness.give(x, dtype) for x in (drawn.keys, drawn.values, queries)]
            extras = {name: harness.give(x, dtype) for name, x in drawn.extras.items()}
            after, recalls = harness.store.scan(harness.empty(), *given, **extras)
            held = {f"the state's {name!r}": x for name, x in state.contents.items()}
            scanned = {f"the scanned state's {name!r}": x for name, x in after.contents.items()}
            return held | scanned | {"the scan": recalls, "the recall": harness.store.recall(state, given[2])}

        outside = calls()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            inside = calls()
        for what, want in outside.items():
            if inside[what].dtype != want.dtype:
                yield f"inside autocast {what} must be {want.dtype}, as outside; got {inside[what].dtype}."
            yield from harness.same(harness.read(inside[what]), harness.read(want), f"{what} inside autocast", 1e-6)
