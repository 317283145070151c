"""Recall from a million slots by product keys beside dense softmax over the same slots.

    python benchmarks/sparse_slots.py [--json] [--sub-keys 1024] [--queries 64]

n sub-keys a half address n^2 slots; one head, k = 32, d_k = d_v = 64, float32, a filled table. The dense recall is our
own attention over n^2 keys and values: those keys are the pairs of sub-keys, whose products with a query are the very
scores. Blocks of both take turns, A B A B, and the median of their quotients counts; so do recalls of one query.
Before the clock starts, the sparse recall is held to softmax over the slots that it selects among all dense scores.
"""

from __future__ import annotations

import argparse
import json
import time
from typing import Any

import numpy as np

from assocmem.contract.numbers import stream
from assocmem.kernels.attention import attend
from assocmem.stores import make_store

WIDTH, CHOSEN = 64, 32


def rows(sub_keys: int = 1024, queries: int = 64, repeats: int = 7) -> list[dict[str, Any]]:
    """Return a row for recalls of many queries together and one for a single query."""
    rng = stream(0, "benchmark sparse slots")
    store: Any = make_store("product-key", sub_keys=sub_keys, k=CHOSEN, heads=1, scale=8.0)
    table = rng.standard_normal((sub_keys**2, WIDTH), dtype=np.float32)
    state = store.loaded(store.empty(WIDTH, WIDTH, like=table), values=table)
    first, second = state["first"][0], state["second"][0]
    pairs = np.concatenate([np.repeat(first, sub_keys, axis=0), np.tile(second, (sub_keys, 1))], axis=-1)
    asked = rng.standard_normal((queries, WIDTH), dtype=np.float32)
    asked /= np.linalg.norm(asked, axis=-1, keepdims=True)
    gap = difference(store, state, pairs, asked[:8])
    found = []
    for m in (queries, 1):
        x, quotients, sparse = asked[:m], [], []
        for turn in range(repeats + 1):
            ours = timed(lambda x=x: store.recall(state, x))
            dense = timed(lambda x=x: attend(pairs, table, x, 8.0), times=1)
            if turn:  # the first of each touches its memory
                quotients.append(dense / ours)
                sparse.append(ours)
        found.append(
            {
                "slots": sub_keys**2, "n_queries": m, "microseconds_a_query": 1e6 * float(np.median(sparse)) / m,
                "times_dense": float(np.median(quotients)), "largest_difference": gap,
            }
        )  # fmt: skip
    return found


def difference(store: Any, state: Any, pairs: Any, x: Any) -> float:
    """Return the largest gap between the recall and softmax over the selected slots, by all dense scores."""
    scores = 8.0 * (x @ pairs.T)
    ids = np.argpartition(-scores, CHOSEN, axis=-1)[:, :CHOSEN]
    own = np.take_along_axis(scores, ids, axis=-1)
    weights = np.exp(own - own.max(axis=-1, keepdims=True))
    weights /= weights.sum(axis=-1, keepdims=True)
    wanted = np.einsum("mk,mkv->mv", weights, state["values"][ids])
    gap = float(np.abs(store.recall(state, x) - wanted).max() / np.abs(wanted).max())
    if not gap < 1e-3:
        raise AssertionError(f"the sparse recall differs from softmax over the selected slots by {gap:.3g}")
    return gap


def timed(call: Any, times: int = 5) -> float:
    """Return the seconds of one call, the least of some."""
    taken = []
    for _ in range(times):
        start = time.perf_counter()
        call()
        taken.append(time.perf_counter() - start)
    return min(taken)


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print one JSON object a row instead of sentences")
    parser.add_argument("--sub-keys", type=int, default=1024, help="sub-keys of each half")
    parser.add_argument("--queries", type=int, default=64, help="queries asked together")
    given = parser.parse_args()
    for row in rows(given.sub_keys, given.queries):
        if given.json:
            print(json.dumps(row))
        else:
            print(
                f"{row['slots']:,} slots, {row['n_queries']} queries: {row['microseconds_a_query']:.0f} us a query, "
                f"{row['times_dense']:.0f} times as fast as dense softmax; largest difference on the selected slots "
                f"{row['largest_difference']:.1e}"
            )


if __name__ == "__main__":
    main()
