"""Contract: hard but legal input - duplicates, near duplicates, more pairs than dimensions, huge and tiny numbers."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from assocmem.checks.harness import Drawn, Findings, Harness, check
from assocmem.contract.errors import DivergedError, RecallOverflowError


@check("hard-keys", "duplicated, nearly equal, collinear and too many keys give finite recalls without a warning")
def hard_keys(harness: Harness) -> Findings:
    """Write each kind and ask with what was written."""
    for what, drawn in _hard(harness):
        out = harness.answer(drawn, drawn.keys[:5])
        if not np.all(np.isfinite(out)):
            yield f"{what} must give finite recalls; got NaN or infinity."


def _hard(harness: Harness) -> Iterator[tuple[str, Drawn]]:
    yield "60 pairs", harness.draw(60)
    one = harness.keys(1)
    yield "one key written 30 times", harness.draw(30, keys=np.repeat(one, 30, axis=0))
    if harness.traits.values == "any":
        yield "values of zero", harness.draw(5, values=np.zeros((5, harness.d_v)))
    if harness.traits.keys == "any":
        near = one + 1e-9 * harness.rng.standard_normal((12, harness.d_k))
        near /= np.linalg.norm(near, axis=-1, keepdims=True)
        yield "12 nearly equal keys", harness.draw(12, keys=near)
        yield "a key and its negative", harness.draw(2, keys=np.concatenate([near[:1], -near[:1]]))
        yield "collinear keys", harness.draw(8, keys=one * np.linspace(-1, 1, 8)[:, None])
        yield "keys of length 1e-30", harness.draw(5, keys=1e-30 * harness.keys(5))


@check("large-numbers", "numbers too large for a recall raise RecallOverflowError or DivergedError, never NaN")
def large_numbers(harness: Harness) -> Findings:
    """Write huge values, and huge keys where any length is taken, in float64 and float32."""
    for dtype, top in (("float64", 1e308), ("float32", 1e38)):
        wide = harness.traits.values == "any"
        cases = [("values", harness.draw(12, values=top * np.sign(harness.values(12))))] if wide else []
        if harness.traits.keys == "any":
            cases += [("keys", harness.draw(12, keys=size * harness.keys(12))) for size in (30, 3 * top**0.5, top)]
        for place, drawn in cases:
            try:
                out = harness.recall(harness.write(drawn, dtype=dtype), drawn.keys[:5], dtype=dtype)
            except (RecallOverflowError, DivergedError):
                continue
            if not np.all(np.isfinite(out)):
                size = np.abs(drawn.values if place == "values" else drawn.keys).max()
                yield f"{dtype} {place} up to {size:.1g} must give finite recalls or RecallOverflowError; got NaN."
