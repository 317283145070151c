"""Contract: a state that was saved to a file and loaded recalls and goes on writing as before."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np

from assocmem.checks.harness import Findings, Harness, check
from assocmem.contract import serialization as archive
from assocmem.contract.errors import InputError
from assocmem.contract.state import State
from assocmem.contract.store import Store


@check("save-load", "a saved and loaded state recalls the same and writes on the same, empty, half full and batched")
def save_load(harness: Harness) -> Findings:
    """Send states through a file; a store that holds a Python function may refuse."""
    more = harness.draw(4)
    for n in (0, 7):
        drawn = harness.draw(n)
        queries = harness.queries(more.keys, 5)
        state = harness.write(drawn)
        try:
            store, loaded = _round_trip(harness, state)
        except InputError:
            return
        if store != harness.store:
            yield f"the store that was loaded must equal the one that was saved, {harness.store!r}; got {store!r}."
        if loaded.n != n or loaded.size != state.size:
            yield f"a loaded state must hold {n} pairs in {state.size} numbers; got {loaded.n} in {loaded.size}."
        want = harness.recall(state, queries)
        yield from harness.recalls(loaded, queries, want, f"recall of {n} pairs after save and load")
        want = harness.recall(harness.write(more, state), queries)
        got = harness.recall(harness.write(more, loaded), queries)
        yield from harness.same(got, want, f"a write onto {n} pairs after save and load")
    drawn = harness.draw(3, batch=(2,))
    queries = harness.queries(drawn.keys, 4)
    state = harness.write(drawn)
    loaded = _round_trip(harness, state)[1]
    yield from harness.recalls(loaded, queries, harness.recall(state, queries), "a batch after save and load")


def _round_trip(harness: Harness, state: State) -> tuple[Store, State]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "state.safetensors"
        archive.save(path, harness.store, state)
        store, loaded, _ = archive.load(path, like=harness.give(np.zeros(1)))
    return store, loaded
