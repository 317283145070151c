"""The table of all stores and their cards, generated from the register."""

import inspect
from typing import Any

from assocmem import stores, theory
from assocmem.contract.store import Store
from assocmem.lab.probe import counted_state
from assocmem.page.charts import short
from assocmem.page.declare import Endpoint, Section

WIDTH, PAIRS = 64, 1000
HOOKS = ("put_pair", "put", "get")
"""Hooks of the contract whose bodies are a store's rule; one that writes pair by pair says it in the first."""


def cards() -> dict[str, Any]:
    """Return every store with its one-line rule, capacity at d_k = 64, state, and a card of texts and code."""
    about = (
        f"Capacity: memories at which interference equals the signal, by theory where there is one, dₖ = {WIDTH}. "
        f"Numbers held: counted after {PAIRS:,} pairs with dₖ = dᵥ = {WIDTH}; a state is of fixed size or grows with "
        "every pair."
    )
    return {"about": about, "stores": [_card(key) for key in stores.names()]}


def _card(key: str) -> dict[str, Any]:
    found = stores.entry(key)
    store = found.make()
    form, traits, source = store.form(WIDTH), store.traits, store.source
    reached = theory.capacity(form, WIDTH, statistic=theory.steady_statistic(form))
    words = {
        "equation": store.equation,
        "rule": found.summary,
        "cost": str(store.cost or "–"),
        "writing a key again": "the values add" if traits.overwrite == "adds" else f"the value {traits.overwrite}",
        "order of writes": "does not matter" if traits.permutation_invariant else "matters",
        f"capacity at dₖ = {WIDTH}": f"{reached.value:,.1f} ({reached.statistic})" if reached.value else reached.reason,
        "source": f"{source.authors} ({source.year}), {source.title}" if source else "–",
    }
    return {
        "key": key,
        "summary": found.summary,
        "equation": store.equation,
        "capacity": short(reached.value, 8),
        "article": bool(found.article),
        "held": counted_state(store, WIDTH, WIDTH, PAIRS),
        "state": "fixed" if traits.constant_size else "grows",
        "card": words | {f"setting {one.name}": one.told for one in found.settings if not one.tuning},
        "code": _code(type(store)),
    }


def _code(kind: type[Store]) -> str:
    """Return the source of the hooks that are a store's rule, its own or its family's, without their indentation."""
    found = {name: next((base for base in kind.__mro__ if name in vars(base)), Store) for name in HOOKS}
    if found["put_pair"] is not Store:
        del found["put"]
    parts = [inspect.getsource(vars(base)[name]) for name, base in found.items() if base is not Store]
    return inspect.cleandoc("\n".join(parts))


SECTION = Section(10, (Endpoint("stores", cards),))
