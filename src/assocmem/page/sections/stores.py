"""The table of all stores and their cards, generated from the register."""

from typing import Any

from assocmem import stores, theory
from assocmem.contract.traits import Source, Traits
from assocmem.lab.probe import counted_state
from assocmem.page.charts import short
from assocmem.page.declare import Endpoint, Section

WIDTH, PAIRS = 64, 1000
KEYS = {
    "any": "random.standard_normal((8, 64)) / 8",
    "signs": "random.choice([-1.0, 1.0], (8, 64))",
    "ids": "random.integers(0, 1000, (8, 64))",
}
"""Keys of each kind that a store may want, as one draws them."""


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
        "paper": paper(source),
        "article": bool(found.article),
        "held": counted_state(store, WIDTH, WIDTH, PAIRS),
        "state": "fixed" if traits.constant_size else "grows",
        "card": words | {f"setting {one.name}": one.told for one in found.settings if not one.tuning},
        "code": code(key, traits),
    }


def paper(source: Source | None) -> str:
    """Return the address of a paper, "" where it has no number of arXiv or of a DOI."""
    if source and source.arxiv:
        return f"https://arxiv.org/abs/{source.arxiv}"
    return f"https://doi.org/{source.doi}" if source and source.doi else ""


def code(key: str, traits: Traits) -> str:
    """Return a program that writes eight pairs to a store and asks for one."""
    values = KEYS["signs"] if traits.values == "signs" else "random.standard_normal((8, 64))"
    return (
        "import numpy as np\nimport assocmem\n\nrandom = np.random.default_rng(0)\n"
        f"keys = {KEYS[traits.keys]}\nvalues = {values}\n\n"
        f'memory = assocmem.Memory("{key}")\nmemory.write(keys, values)\nprint(memory.recall(keys[0]))'
    )


SECTION = Section(10, (Endpoint("stores", cards),))
