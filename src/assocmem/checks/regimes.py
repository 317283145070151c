"""Contract: hard but legal input - duplicates, near duplicates, more pairs than dimensions, huge and tiny numbers."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from assocmem.checks.harness import Bench, Findings, Lot, promise
from assocmem.contract.errors import DivergedError, RecallOverflowError


@promise("hard-keys", "duplicated, nearly equal, collinear and too many keys give finite recalls without a warning")
def hard_keys(bench: Bench) -> Findings:
    """Write each kind and ask with what was written."""
    for what, lot in _hard(bench):
        out = bench.answer(lot, lot.keys[:5])
        if not np.all(np.isfinite(out)):
            yield f"{what} must give finite recalls; got NaN or infinity."


def _hard(bench: Bench) -> Iterator[tuple[str, Lot]]:
    yield "60 pairs", bench.lot(60)
    one = bench.keys(1)
    yield "one key written 30 times", bench.lot(30, keys=np.repeat(one, 30, axis=0))
    yield "values of zero", bench.lot(5, values=np.zeros((5, bench.d_v)))
    if bench.traits.keys in ("any", "unit"):
        near = one + 1e-9 * bench.rng.standard_normal((12, bench.d_k))
        near /= np.linalg.norm(near, axis=-1, keepdims=True)
        yield "12 nearly equal keys", bench.lot(12, keys=near)
        yield "a key and its negative", bench.lot(2, keys=np.concatenate([near[:1], -near[:1]]))
    if bench.traits.keys == "any":
        yield "collinear keys", bench.lot(8, keys=one * np.linspace(-1, 1, 8)[:, None])
        yield "keys of length 1e-30", bench.lot(5, keys=1e-30 * bench.keys(5))


@promise("large-numbers", "numbers too large for a recall raise RecallOverflowError or DivergedError, never NaN")
def large_numbers(bench: Bench) -> Findings:
    """Write huge values, and huge keys where any length is taken, in float64 and float32."""
    for dtype, top in (("float64", 1e308), ("float32", 1e38)):
        cases = [("values", bench.lot(12, values=top * np.sign(bench.values(12))))]
        if bench.traits.keys == "any":
            cases += [("keys", bench.lot(12, keys=size * bench.keys(12))) for size in (30, 3 * top**0.5, top)]
        for place, lot in cases:
            try:
                out = bench.recall(bench.write(lot, dtype=dtype), lot.keys[:5], dtype=dtype)
            except (RecallOverflowError, DivergedError):
                continue
            if not np.all(np.isfinite(out)):
                size = np.abs(lot.values if place == "values" else lot.keys).max()
                yield f"{dtype} {place} up to {size:.1g} must give finite recalls or RecallOverflowError; got NaN."
