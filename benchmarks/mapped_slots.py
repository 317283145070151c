"""Recall over more pairs than memory should hold: rows in mapped files, written and gone through block by block.

    python benchmarks/mapped_slots.py [--json] [--pairs 10000000] [--queries 16] [--folder FOLDER]

Pairs of width 64 in float32 (10 million take 5.1 GB) are written 100,000 at a time, then recalled by softmax attention
at beta = 8 and searched for their 32 nearest. Reported are seconds, the most memory that was the process's own (without
pages of the mapped files, which the system takes back when it needs them), and how far recalls are from those of
float64 over the same files, summed in another order.
"""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import psutil

from assocmem import MappedSlots, Memory
from assocmem.contract.numbers import stream

WIDTH = 64
AT_ONCE = 100_000
BETA = 8.0
NEAREST = 32


class OwnMemory:
    """The most memory, without file pages, that the process had while this was open, in megabytes."""

    def __enter__(self) -> OwnMemory:
        self.most, self._ended = 0.0, threading.Event()
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()
        return self

    def _watch(self) -> None:
        process = psutil.Process()
        while not self._ended.wait(0.02):
            info = process.memory_info()
            self.most = max(self.most, (info.rss - getattr(info, "shared", 0)) / 1e6)

    def __exit__(self, *_: Any) -> None:
        self._ended.set()
        self._thread.join()


def reference(memory: Memory, queries: Any) -> Any:
    """Return the recalls in float64, from two passes over blocks of another size."""
    slots, wide = memory.state.slots, queries.astype(np.float64)
    assert slots is not None  # softmax attention keeps its pairs
    peak = np.max([(wide @ rows["keys"].T).max(axis=-1) for _, rows in slots.blocks(7777)], axis=0)
    total, sums = np.zeros(len(queries)), np.zeros((len(queries), WIDTH))
    for _, rows in slots.blocks(7777):
        weights = np.exp(BETA * (wide @ rows["keys"].T - peak[:, None]))
        total, sums = total + weights.sum(axis=-1), sums + weights @ rows["values"]
    return sums / total[:, None]


def rows(n: int = 10_000_000, m: int = 16, folder: Path | None = None) -> list[dict[str, Any]]:
    """Return the one row of results; the files are made below `folder` and removed again."""
    own = Path(tempfile.mkdtemp(prefix="mapped-", dir=folder))
    try:
        return [measured(n, m, own / "rows")]
    finally:
        shutil.rmtree(own)


def measured(n: int, m: int, folder: Path) -> dict[str, Any]:
    """Return the row of n pairs and m queries."""
    rng = stream(0, "benchmark mapped")
    memory = Memory("softmax", beta=BETA, slots=MappedSlots(folder))
    row: dict[str, Any] = {"benchmark": "mapped_slots", "pairs": n, "queries": m, "width": WIDTH}
    with OwnMemory() as own:
        spent = 0.0
        for start in range(0, n, AT_ONCE):
            keys, values = (rng.standard_normal((min(AT_ONCE, n - start), WIDTH), dtype=np.float32) for _ in range(2))
            keys /= np.linalg.norm(keys, axis=-1, keepdims=True)
            begun = time.perf_counter()
            memory.write(keys, values)
            spent += time.perf_counter() - begun
        row["seconds_written"] = spent
        queries = keys[:m]
        begun = time.perf_counter()
        recalled = memory.recall(queries)
        row["seconds_recalled"] = time.perf_counter() - begun
        begun = time.perf_counter()
        slots = memory.state.slots
        assert slots is not None  # softmax attention keeps its pairs
        ids, _ = slots.search(queries, NEAREST)
        row["seconds_searched"] = time.perf_counter() - begun
    row["found_themselves"] = float(np.mean(ids[:, 0] == n - len(keys) + np.arange(m)))
    row["megabytes_on_disk"] = sum(f.stat().st_size for f in folder.glob("*.rows")) / 1e6
    row["most_own_megabytes"] = own.most
    row["largest_error"] = float(np.abs(recalled - reference(memory, queries)).max())
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0] if __doc__ else None)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--pairs", type=int, default=10_000_000)
    parser.add_argument("--queries", type=int, default=16)
    parser.add_argument("--folder", type=Path, default=None, help="where the files are made; they are removed again")
    args = parser.parse_args()
    (row,) = rows(args.pairs, args.queries, args.folder)
    print(json.dumps(row) if args.json else "\n".join(f"{name:>20}  {value}" for name, value in row.items()))


if __name__ == "__main__":
    main()
