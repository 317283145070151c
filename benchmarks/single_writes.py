"""A million single writes through `Memory`, and writes that alternate with recalls.

    python benchmarks/single_writes.py [--json] [--writes 1000000] [--turns 10000]

One pair of width 64 in float32 at a time, softmax attention and the outer product. Time per write is reported for
the first and the last tenth of the writes: a buffer that doubles keeps them equal, a copy per write would not. Then,
over 100,000 stored pairs, `turns` rounds of one write and one recall beside as many recalls alone, timed in blocks
that take turns.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from typing import Any

import numpy as np

from assocmem import Memory
from assocmem.contract.numbers import stream

WIDTH = 64
STORES = ("softmax", "outer-product")
STORED = 100_000
BLOCKS = 10


def pairs(n: int) -> tuple[Any, Any]:
    """Return n random keys (unit rows) and values (n, 64), float32."""
    rng = stream(0, "benchmark writes")
    keys, values = (rng.standard_normal((n, WIDTH), dtype=np.float32) for _ in range(2))
    return keys / np.linalg.norm(keys, axis=-1, keepdims=True), values


def writing(key: str, writes: int) -> dict[str, Any]:
    """Return one row: microseconds per single write over the first, the last and all tenths."""
    keys, values = pairs(4096)
    memory = Memory(key, d_k=WIDTH, d_v=WIDTH)
    tenths = []
    for tenth in range(10):
        count = writes // 10
        start = time.perf_counter()
        for i in range(count):
            memory.write(keys[i & 4095], values[i & 4095])
        tenths.append((time.perf_counter() - start) / count * 1e6)
        if len(memory) != (tenth + 1) * count:
            raise AssertionError(f"{key} holds {len(memory)} pairs after {(tenth + 1) * count} writes")
    return {
        "benchmark": "single_writes",
        "store": key,
        "writes": len(memory),
        "microseconds_first_tenth": tenths[0],
        "microseconds_last_tenth": tenths[-1],
        "microseconds_median_tenth": float(np.median(tenths)),
        "last_over_first": tenths[-1] / tenths[0],
        "numbers_held": memory.size,
    }


def alternating(key: str, turns: int) -> dict[str, Any]:
    """Return one row: seconds of `turns` recalls alone and of as many rounds of write and recall."""
    keys, values = pairs(STORED)
    resting, growing = (Memory(key, d_k=WIDTH, d_v=WIDTH) for _ in range(2))
    resting.write(keys, values)
    growing.write(keys, values)
    block = max(1, turns // BLOCKS)
    alone, both = [], []
    for _ in range(BLOCKS):
        start = time.perf_counter()
        for i in range(block):
            resting.recall(keys[i])
        middle = time.perf_counter()
        for i in range(block):
            growing.write(keys[i], values[i])
            growing.recall(keys[i])
        alone.append(middle - start)
        both.append(time.perf_counter() - middle)
    return {
        "benchmark": "write_and_recall",
        "store": key,
        "n_memories": STORED,
        "turns": block * BLOCKS,
        "seconds_recalls": sum(alone),
        "seconds_writes_and_recalls": sum(both),
        "times_recalls_alone": sum(both) / sum(alone),
        "times_recalls_alone_median": float(np.median(np.divide(both, alone))),
    }


def main(as_json: bool = False, writes: int = 1_000_000, turns: int = 10_000) -> dict[str, Any]:
    """Run everything, print a table (or JSON) and return the rows."""
    rows = [writing(key, writes) for key in STORES] + [alternating("softmax", turns)]
    result = {"benchmark": "single_writes", "load": list(os.getloadavg()), "rows": rows}
    if as_json:
        print(json.dumps(result))
        return result
    for row in rows[:-1]:
        print(
            f"{row['store']:>14}: {row['writes']} single writes, {row['microseconds_first_tenth']:.1f} us each at "
            f"first, {row['microseconds_last_tenth']:.1f} us at the end (x {row['last_over_first']:.2f})"
        )
    row = rows[-1]
    print(
        f"{row['store']:>14}: {row['turns']} recalls at M = {row['n_memories']} take {row['seconds_recalls']:.1f} s, "
        f"with a write before each {row['seconds_writes_and_recalls']:.1f} s "
        f"(x {row['times_recalls_alone_median']:.2f})"
    )
    return result


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.add_argument("--writes", type=int, default=1_000_000, help="single writes per store (default a million)")
    parser.add_argument("--turns", type=int, default=10_000, help="rounds of write and recall (default 10,000)")
    given = parser.parse_args()
    main(given.json, given.writes, given.turns)
