"""All curves of six activations to M = 2^21 by similarities, beside the plain script and the keys sampler.

    env -u OPENBLAS_CORETYPE -u OPENBLAS_L2_SIZE python benchmarks/curves.py [--json] [--repeats 3] [--quick]

Six stores (linear, ReLU, squared ReLU, shared-gate SwiGLU, cubed ReLU, exponential with beta = 8), M = 16, 32, ...,
2^21, 100 streams a store. The similarities sampler, the plain script (`baseline_plain.py`) and the keys sampler run in
turns (A B C A B C) and medians are compared. The plain script and the keys sampler run at small M and are scaled by
their linear cost in stores x memories x trials; a second size of the plain script shows how linear that is. The keys
sampler asks for 16 targets in every trial, the others for one; it is scaled by trials, not by targets.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from functools import partial
from statistics import median
from typing import Any

from assocmem.kernels.compute import cores
from assocmem.lab.keys import Keys
from assocmem.lab.run import curves
from assocmem.lab.similarities import Similarities
from assocmem.maps.activations import Exp
from assocmem.stores.mlp import MLP
from baseline_plain import seconds_per_memory

WIDTH = 64
STORES: list[Any] = [
    "outer-product", "relu", "squared-relu", "swiglu", "cubed-relu", ("exp, beta 8", MLP(Exp(8.0))),
]  # fmt: skip
STREAMS = 100
SMALL, SMALL_TRIALS = 2**12, 8


def memories(largest: int) -> list[int]:
    """Return M = 16, 32, ..., largest."""
    return [2**i for i in range(4, largest.bit_length())]


def timed(call: Callable[[], Any]) -> float:
    """Return the seconds of one call."""
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def rows(*, repeats: int = 3, quick: bool = False) -> list[dict[str, Any]]:
    """Return the measured seconds and ratios; `quick` draws curves to 2^17 with 20 streams, once."""
    largest, streams, repeats = (2**17, 20, 1) if quick else (2**21, STREAMS, repeats)
    counts = memories(largest)
    times: dict[str, list[float]] = {"similarities": [], "plain": [], "keys": [], "plain at twice M": []}
    curves(STORES, WIDTH, [16, 32], Similarities(streams=2))
    curves(STORES, WIDTH, [16], Keys(trials=1))
    for turn in range(repeats):
        times["similarities"].append(
            timed(partial(curves, STORES, WIDTH, counts, Similarities(streams=streams), seed=turn))
        )
        times["plain"].append(seconds_per_memory(SMALL, SMALL_TRIALS))
        drawn = timed(partial(curves, STORES, WIDTH, [SMALL], Keys(trials=SMALL_TRIALS), seed=turn))
        times["keys"].append(drawn / (SMALL * SMALL_TRIALS * len(STORES)))
        times["plain at twice M"].append(seconds_per_memory(2 * SMALL, SMALL_TRIALS))
    found = {name: median(seconds) for name, seconds in times.items()}
    work = len(STORES) * sum(counts) * streams
    return [
        {
            "benchmark": "curves", "what": f"six curves to M = {largest}, {streams} streams", "cores": cores(),
            "repeats": repeats, "seconds": found["similarities"], "plain_seconds_scaled": work * found["plain"],
            "keys_seconds_scaled": work * found["keys"], "ratio": work * found["plain"] / found["similarities"],
            "keys_ratio": found["plain"] / found["keys"], "plain_microseconds_a_memory": 1e6 * found["plain"],
            "plain_linearity": found["plain at twice M"] / found["plain"], "target_seconds": None if quick else 6.0,
            "target_ratio": None if quick else 500.0,
        }
    ]  # fmt: skip


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of sentences")
    parser.add_argument("--repeats", type=int, default=3, help="rounds that the medians are taken over")
    parser.add_argument("--quick", action="store_true", help="smaller curves, one round")
    args = parser.parse_args()
    for row in rows(repeats=args.repeats, quick=args.quick):
        if args.json:
            print(json.dumps(row))
            continue
        print(f"{row['what']} on {row['cores']} cores: {row['seconds']:.2f} s (median of {row['repeats']})")
        print(
            f"the plain script: {row['plain_microseconds_a_memory']:.2f} microseconds a memory, store and trial, so "
            f"{row['plain_seconds_scaled']:.0f} s for the same curves (at twice this M "
            f"a memory costs {row['plain_linearity']:.2f} times as much)"
        )
        print(f"similarities sampler: {row['ratio']:.0f} times faster; keys sampler: {row['keys_ratio']:.2f} times")


if __name__ == "__main__":
    main()
