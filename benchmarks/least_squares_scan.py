"""The causal scan of the optimal linear store beside its loop of write and recall, 8 heads of 512 tokens, d = 64.

The loop takes seconds, so it is timed over the last `LOOPED` tokens, and compared with the same tokens of the scan.

    python benchmarks/least_squares_scan.py
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from assocmem.contract.numbers import stream
from assocmem.stores import make_store

HEADS, WIDTH, TOKENS, LOOPED = 8, 64, 512, 32


def rows(tokens: int = TOKENS, repeats: int = 5) -> list[dict[str, Any]]:
    """Return a row for each dtype: median seconds a token of the scan and of the loop, in turns, and their gap.

    Raises AssertionError where the two differ by more than the dtype explains.
    """
    table = []
    for dtype, allowed in ((np.float32, 1e-4), (np.float64, 1e-9)):
        rng = stream(0, "benchmark least squares scan")
        keys, values, queries = (rng.standard_normal((HEADS, tokens, WIDTH)).astype(dtype) for _ in range(3))
        keys /= np.linalg.norm(keys, axis=-1, keepdims=True)
        store = make_store("optimal-linear")
        empty = store.empty(WIDTH, WIDTH, batch=(HEADS,), like=keys)
        first = tokens - LOOPED
        before = store.write(empty, keys[:, :first], values[:, :first])
        mine, other, gap = [], [], 0.0
        for _ in range(repeats):
            start = time.perf_counter()
            fast = store.scan(empty, keys, values, queries)[1]
            mine.append((time.perf_counter() - start) / tokens)
            state, start, slow = before, time.perf_counter(), []
            for i in range(first, tokens):
                state = store.write(state, keys[:, i : i + 1], values[:, i : i + 1])
                slow.append(store.recall(state, queries[:, i : i + 1]))
            other.append((time.perf_counter() - start) / LOOPED)
            gap = float(np.abs(fast[:, first:] - np.concatenate(slow, axis=1)).max())
        if not gap < allowed:
            raise AssertionError(f"scan and loop of {dtype.__name__} differ by {gap:.3g}")
        table.append(
            {
                "benchmark": "least_squares_scan", "dtype": dtype.__name__, "tokens": tokens, "heads": HEADS,
                "seconds": float(np.median(mine)) * tokens, "largest_difference": gap,
                "times_loop": float(np.median(other) / np.median(mine)),
            }
        )  # fmt: skip
    return table


if __name__ == "__main__":
    for row in rows():
        print(row)
