"""Recall over more pairs than memory should hold: rows in mapped files, written and gone through block by block.

    python benchmarks/mapped_slots.py [--json] [--pairs 10000000] [--queries 16] [--folder FOLDER]

Pairs of width 64 in float32 (10 million take 5.1 GB) are written 100,000 at a time, then recalled by softmax attention,
by its 32 nearest neighbours exactly, and by those that an index finds (1024 cells by faiss, of which 32 are read), all
at beta = 24. Reported are seconds, the most memory that was the process's own (without pages of the mapped files,
which the system takes back when it needs them), and how far recalls are from those of softmax attention in float64 over
the same files, summed in another order: the error, and beside it 2 m max |v| with the dropped mass m, as each recall
bounds it and as counted. Random keys are the worst that an index can meet: their cells hardly differ, so that the bound
through the index is that of no knowledge (2 max |v|), while the error is small where the nearest are found.
"""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import psutil

from assocmem import MappedSlots, Memory
from assocmem.contract.index_slots import IndexSlots
from assocmem.contract.numbers import stream
from assocmem.stores.knn import NearestNeighbours

WIDTH = 64
AT_ONCE = 100_000
BETA = 24.0
NEAREST, CELLS, PROBES = 32, 1024, 32
NOISE = 0.5
"""Length of what queries differ by from the stored keys of length one."""


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
        queries = keys[:m] + NOISE / WIDTH**0.5 * rng.standard_normal((m, WIDTH), dtype=np.float32)
        queries /= np.linalg.norm(queries, axis=-1, keepdims=True)
        begun = time.perf_counter()
        recalled = memory.recall(queries)
        row["seconds_recalled"] = time.perf_counter() - begun
        slots = memory.state.slots
        assert slots is not None  # softmax attention keeps its pairs
        begun = time.perf_counter()
        indexed = IndexSlots(slots, cells=min(CELLS, max(1, n // 1000)), probes=PROBES, least=1)
        row["seconds_indexed"] = time.perf_counter() - begun
        store = NearestNeighbours(NEAREST, BETA)
        found, counted = {}, {}
        for name, held in (("nearest", slots), ("index", indexed)):
            state = replace(memory.state, slots=held, kind=store.maker, memo={})
            begun = time.perf_counter()
            found[name] = store.ask(state, queries)
            row[f"seconds_{name}"] = time.perf_counter() - begun
            counted[name] = store.dropped_mass(state, queries)
    wanted = reference(memory, queries)
    most = max(float(np.linalg.norm(rows["values"], axis=-1).max()) for _, rows in slots.blocks())
    row["megabytes_on_disk"] = sum(f.stat().st_size for f in folder.glob("*.rows")) / 1e6
    row["most_own_megabytes"] = own.most
    row["error_recalled"] = float(np.linalg.norm(recalled - wanted, axis=-1).max())
    own_ids = n - len(keys) + np.arange(m)
    for name, recall in found.items():
        error = np.linalg.norm(recall.values - wanted, axis=-1)
        told, known = (2 * most * np.asarray(mass) for mass in (recall.dropped, counted[name]))
        if np.any(error > known + 1e-4 * most) or np.any(known > told + 1e-4 * most):
            raise AssertionError(f"{name}: an error is beyond its bound")
        row |= {
            f"error_{name}": float(error.max()),
            f"bound_{name}": float(known.max()),
            f"told_{name}": float(told.max()),
        }
        row[f"target_found_{name}"] = float(np.mean(np.any(recall.weights.ids == own_ids[:, None], axis=-1)))
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0] if __doc__ else None)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--pairs", type=int, default=10_000_000)
    parser.add_argument("--queries", type=int, default=16)
    parser.add_argument("--folder", type=Path, default=None, help="where the files are made; they are removed again")
    args = parser.parse_args()
    (row,) = rows(args.pairs, args.queries, args.folder)
    print(json.dumps(row) if args.json else "\n".join(f"{name:>22}  {value}" for name, value in row.items()))


if __name__ == "__main__":
    main()
