"""Contract: a state that was saved to a file and loaded recalls and goes on writing as before."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np

from assocmem.checks.harness import Bench, Findings, promise
from assocmem.contract import serialization as archive
from assocmem.contract.errors import InputError
from assocmem.contract.state import State
from assocmem.contract.store import Store


@promise("save-load", "a saved and loaded state recalls the same and writes on the same, empty, half full and batched")
def save_load(bench: Bench) -> Findings:
    """Send states through a file; a store that holds a Python function may refuse."""
    more = bench.lot(4)
    for n in (0, 7):
        lot = bench.lot(n)
        queries = bench.queries(more.keys, 5)
        state = bench.write(lot)
        try:
            store, loaded = _round_trip(bench, state)
        except InputError:
            return
        if store != bench.store:
            yield f"the store that was loaded must equal the one that was saved, {bench.store!r}; got {store!r}."
        if loaded.n != n or loaded.size != state.size:
            yield f"a loaded state must hold {n} pairs in {state.size} numbers; got {loaded.n} in {loaded.size}."
        want = bench.recall(state, queries)
        yield from bench.same(bench.recall(loaded, queries), want, f"recall of {n} pairs after save and load")
        want = bench.recall(bench.write(more, state), queries)
        got = bench.recall(bench.write(more, loaded), queries)
        yield from bench.same(got, want, f"a write onto {n} pairs after save and load")
    lot = bench.lot(3, batch=(2,))
    queries = bench.queries(lot.keys, 4)
    state = bench.write(lot)
    loaded = _round_trip(bench, state)[1]
    yield from bench.same(bench.recall(loaded, queries), bench.recall(state, queries), "a batch after save and load")


def _round_trip(bench: Bench, state: State) -> tuple[Store, State]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "state.safetensors"
        archive.save(path, bench.store, state)
        store, loaded, _ = archive.load(path, like=bench.give(np.zeros(1)))
    return store, loaded
