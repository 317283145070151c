"""Softmax recall over many pairs: plain NumPy beside PyTorch's fused attention on the same CPU.

    env -u OPENBLAS_CORETYPE -u OPENBLAS_L2_SIZE python benchmarks/recall_softmax.py [--json] [--repeats 9] [--quick]

Keys, values and queries of width 64 in float32; `torch.nn.functional.scaled_dot_product_attention` gets the same
memory as tensors (1, 1, n, 64), its fused form, with all of torch's threads. The two are timed in turns (A B A B), so
that whatever else the machine does meets both; medians and their ratio are printed, with the largest difference of
the outputs. Between the calls is a pause, because torch's threads go on turning for a while after their work and would
take a core from whoever comes next. In turn with them comes the least that NumPy can do: the two matrix products of
the recall alone, without maximum, exponential and sum. The peak is the process's resident memory above what it was
before the recall, the output included. Then time against M with 64 queries: the slope of log time over log M.

Both environment variables change which kernels OpenBLAS picks, and the ratios with them, so the benchmark refuses to
run while one is set. ASSOCMEM_THREADS sets the threads of our side.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from assocmem import make_store
from assocmem.contract.numbers import stream
from assocmem.kernels.compute import in_threads, one_blas_thread, thread_count

WIDTH = 64
BETA = 8.0
SHAPES = ((2**20, 1), (2**20, 8), (2**20, 64), (2**17, 1024))
SLOPE_QUERIES = 64
SLOPE_MEMORIES = tuple(2**p for p in range(17, 23))
PAUSE = 0.03
"""Seconds of rest before every timed call."""
TILE, SLAB, STACK = 192, 80, 16
"""Queries and pairs in one product of `products`, and how many of them one call makes."""
FORBIDDEN = ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE")


def drawn(n: int, seed: int = 0) -> tuple[Any, Any]:
    """Return a softmax store and a state of n random pairs: unit keys, Gaussian values, float32."""
    rng = stream(seed, "benchmark recall", n)
    keys, values = (rng.standard_normal((n, WIDTH), dtype=np.float32) for _ in range(2))
    keys /= np.linalg.norm(keys, axis=-1, keepdims=True)
    store = make_store("softmax", beta=BETA)
    return store, store.write(store.empty(WIDTH, WIDTH), keys, values)


def fused(state: Any, queries: Any) -> Callable[[], Any]:
    """Return the call of PyTorch's fused attention on the state's own memory."""
    import torch

    keys, values, asked = (torch.from_numpy(a)[None, None] for a in (state["keys"], state["values"], queries))
    attention = torch.nn.functional.scaled_dot_product_attention
    return lambda: attention(asked, keys, values, scale=BETA)[0, 0].numpy()


def products(state: Any, queries: Any) -> Callable[[], None]:
    """Return a call of the recall's two matrix products alone: logits = K x, then V^T logits, block by block.

    Pairs that fill no whole stack, less than a hundredth, are left out.
    """
    keys, values, threads = np.asarray(state["keys"]), np.asarray(state["values"]), thread_count()
    tiles = [np.ascontiguousarray(queries[i : i + TILE].T) for i in range(0, len(queries), TILE)]
    stacks = len(keys) // (SLAB * STACK)
    shape = (stacks, STACK, SLAB, WIDTH)
    k, v = (a[: stacks * STACK * SLAB].reshape(shape) for a in (keys, values))

    def run(worker: int) -> None:
        logits, sums = (np.empty(STACK * TILE * size, np.float32) for size in (SLAB, WIDTH))
        for i in range(worker, stacks, threads):
            for tile in tiles:
                rows = tile.shape[1]
                found = logits[: STACK * SLAB * rows].reshape(STACK, SLAB, rows)
                np.matmul(k[i], tile, out=found)
                np.matmul(found.mT, v[i], out=sums[: STACK * rows * WIDTH].reshape(STACK, rows, WIDTH))

    def call() -> None:
        with one_blas_thread:
            in_threads(run, threads)

    return call


def in_turns(calls: tuple[Callable[[], Any], ...], repeats: int) -> list[list[float]]:
    """Return the seconds of each call, `repeats` of each, taken in turns after one round that is not counted."""
    times: list[list[float]] = [[] for _ in calls]
    for turn in range(repeats + 1):
        for i, call in enumerate(calls):
            time.sleep(PAUSE)
            start = time.perf_counter()
            call()
            if turn:
                times[i].append(time.perf_counter() - start)
    return times


def peak_megabytes(call: Callable[[], Any]) -> float | None:
    """Return how far resident memory rises above its level before the call, None where the system does not say."""
    status, reset = Path("/proc/self/status"), Path("/proc/self/clear_refs")
    if not reset.exists():
        return None
    gc.collect()

    def kilobytes(name: str) -> int:
        line = next(row for row in status.read_text().splitlines() if row.startswith(name + ":"))
        return int(line.split()[1])

    reset.write_text("5")
    before = kilobytes("VmRSS")
    call()
    return (kilobytes("VmHWM") - before) / 1024


def comparison(n: int, m: int, repeats: int) -> dict[str, Any]:
    """Return one row: medians, ratio, difference and peak memory of n pairs and m queries."""
    import torch

    store, state = drawn(n)
    queries = np.ascontiguousarray(state["keys"][:m])
    ours, theirs = (lambda: store.recall(state, queries)), fused(state, queries)
    peak = peak_megabytes(ours)
    difference = float(np.abs(ours() - theirs()).max())
    if not difference < 1e-4:
        raise AssertionError(f"the recalls of {m} queries over {n} pairs differ by {difference:.3g}")
    mine, other, least = in_turns((ours, theirs, products(state, queries)), repeats)
    return {
        "benchmark": "recall_softmax",
        "n_memories": n,
        "n_queries": m,
        "seconds": float(np.median(mine)),
        "torch_seconds": float(np.median(other)),
        "products_seconds": float(np.median(least)),
        "times_as_fast": float(np.median(other) / np.median(mine)),
        "times_as_fast_best": min(other) / min(mine),
        "peak_megabytes": peak,
        "largest_difference": difference,
        "threads": thread_count(),
        "torch_threads": torch.get_num_threads(),
        "repeats": repeats,
    }


def growth(memories: tuple[int, ...], repeats: int) -> dict[str, Any]:
    """Return one row: seconds for each M with 64 queries, all M in turns, and the slope of log time over log M."""
    calls = []
    for n in memories:
        store, state = drawn(n)
        queries = np.ascontiguousarray(state["keys"][:SLOPE_QUERIES])
        calls.append(partial(store.recall, state, queries))
    seconds = [float(np.median(times)) for times in in_turns(tuple(calls), repeats)]
    slope = float(np.polyfit(np.log(memories), np.log(seconds), 1)[0])
    return {
        "benchmark": "recall_softmax_growth",
        "n_memories": list(memories),
        "n_queries": SLOPE_QUERIES,
        "seconds": seconds,
        "slope": slope,
    }


def main(as_json: bool = False, repeats: int = 9, quick: bool = False) -> dict[str, Any]:
    """Run everything, print a table (or JSON) and return the rows; `quick` takes an eighth of the pairs."""
    for name in FORBIDDEN:
        if name in os.environ:
            raise SystemExit(f"unset {name} first: it changes the kernels that are compared.")
    shrink = 8 if quick else 1
    rows = [comparison(n // shrink, m, repeats) for n, m in SHAPES]
    rows.append(growth(tuple(n // shrink for n in SLOPE_MEMORIES), repeats))
    result = {"benchmark": "recall_softmax", "load": list(os.getloadavg()), "rows": rows}
    if as_json:
        print(json.dumps(result))
        return result
    print(f"softmax recall, d = {WIDTH}, float32, {rows[0]['threads']} threads; load before and now {result['load']}")
    titles = {"M": 9, "queries": 8, "ours": 10, "torch": 10, "products": 10, "ratio": 6, "best": 6, "peak MB": 8}
    print(*(f"{title:>{width}}" for title, width in (titles | {"differ": 8}).items()))
    for row in rows[:-1]:
        peak = "?" if row["peak_megabytes"] is None else f"{row['peak_megabytes']:.1f}"
        print(
            f"{row['n_memories']:>9} {row['n_queries']:>8} {row['seconds'] * 1e3:>7.1f} ms "
            f"{row['torch_seconds'] * 1e3:>7.1f} ms {row['products_seconds'] * 1e3:>7.1f} ms "
            f"{row['times_as_fast']:>6.2f} {row['times_as_fast_best']:>6.2f} "
            f"{peak:>8} {row['largest_difference']:>8.1e}"
        )
    print(f"time grows as M^{rows[-1]['slope']:.3f} from {rows[-1]['n_memories'][0]} to {rows[-1]['n_memories'][-1]}")
    return result


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.add_argument("--repeats", type=int, default=9, help="timed runs of each side (default 9)")
    parser.add_argument("--quick", action="store_true", help="an eighth of the pairs")
    given = parser.parse_args()
    main(given.json, given.repeats, given.quick)
