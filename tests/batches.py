"""What many tests draw and read: pairs of a fixed stream, written states, recall weights."""

from __future__ import annotations

from typing import Any

from assocmem.contract.state import State
from assocmem.contract.store import Store


def weights_of(store: Store, state: State, queries: Any, mask: Any = None) -> Any:
    """Return the store's own recall weights (..., m, n)."""
    found = store.ask(state, queries, mask=mask, want="weights").weights
    assert found is not None
    return found.dense(state.n)
