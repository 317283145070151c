"""Data of the table of all stores and their cards, generated from the register."""

from __future__ import annotations

import inspect
from typing import Any

from assocmem import stores, theory
from assocmem.contract.store import Store
from assocmem.kernels.recurrent import RecurrentStore
from assocmem.lab.probe import counted_state
from assocmem.page.offer import rounded
from assocmem.stores import entry

WIDTH, PAIRS = 64, 1000
RULE = ("put_pair", "_folded", "_train", "put", "solution", "get")
"""Methods that say what a store does, as far as it has them, in the order of reading."""
COMMON = (Store, RecurrentStore, *Store.__mro__[1:])
"""Classes that say nothing of one store's rule."""


def cards() -> dict[str, Any]:
    """Return every store with its one-line rule, capacity at d_k = 64, state, and a card of texts and code."""
    about = (
        f"Capacity: memories at which interference equals the signal, by theory where there is one, dₖ = {WIDTH}. "
        f"Numbers held: counted after {PAIRS:,} pairs with dₖ = dᵥ = {WIDTH}; a state is of fixed size or grows with "
        "every pair."
    )
    return {"about": about, "stores": [_card(key) for key in stores.names()]}


def _card(key: str) -> dict[str, Any]:
    found = entry(key)
    store = found.make()
    form = store.form(WIDTH)
    prediction = theory.capacity(form, WIDTH, statistic=theory.steady_statistic(form))
    capacity = None if prediction.value is None else rounded([prediction.value], 8)[0]
    source = store.source
    words = {
        "equation": store.equation,
        "rule": found.summary,
        "cost": str(store.cost or "–"),
        "writing a key again": f"the value {store.traits.overwrite}"
        if store.traits.overwrite != "adds"
        else "the values add",
        "order of writes": "does not matter" if store.traits.permutation_invariant else "matters",
        "capacity at dₖ = 64": f"{prediction.value:,.1f} ({prediction.statistic})" if capacity else prediction.reason,
        "source": f"{source.authors} ({source.year}), {source.title}" if source else "–",
    }
    words |= {f"setting {s.name}": s.told for s in found.settings if not s.tuning}
    return {
        "key": key,
        "summary": found.summary,
        "equation": store.equation,
        "capacity": capacity,
        "article": bool(found.article),
        "held": counted_state(store, WIDTH, WIDTH, PAIRS),
        "state": "fixed" if store.traits.constant_size else "grows",
        "card": words,
        "code": _code(store),
    }


def _code(store: Store) -> str:
    """Return the source of the methods that are the rule, its own and its family's, without their indentation."""
    family = [base for base in type(store).__mro__ if base not in COMMON]
    parts = []
    for name in RULE:
        maker = next((base for base in family if name in vars(base)), None)
        if maker is not None:
            parts.append(inspect.getsource(vars(maker)[name]))
    return inspect.cleandoc("\n".join(parts))
