"""`list`, `show`, `cite`, `check`: what the stores are, where they come from, whether one keeps the contract."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer

from assocmem.cli.terminal import (
    Json,
    Others,
    StoreName,
    made_store,
    print_json,
    print_pairs,
    print_results,
    print_table,
    settings_from,
    user_code,
)
from assocmem.contract.errors import InputError
from assocmem.contract.numbers import number

if TYPE_CHECKING:
    from collections.abc import Callable

    from assocmem.contract.store import Store
    from assocmem.contract.traits import Traits

WIDTH, PAIRS = 64, 1024
"""At which `list` counts numbers and multiply-adds."""


def list_stores(as_json: Json = False) -> None:
    """List every store: its key, what it does, the numbers that it holds, what a recall costs, and its source."""
    from assocmem import stores
    from assocmem.lab.requirements import numbers_held

    found = [(entry, entry.make()) for entry in map(stores.entry, stores.names())]
    if as_json:
        rows = [{"key": e.key, "summary": e.summary, "family": e.family, **_facts(s)} for e, s in found]
        print_json({"stores": rows}, DEFINITIONS)
        return
    lines = [
        [e.key, e.summary, _held(s, numbers_held), _recall_cost(s), s.source.short if s.source else "–"]
        for e, s in found
    ]
    print_table(["store", "what it does", "numbers held", "recall", "source"], lines)
    print(
        f"{len(found)} stores. Numbers held are counted at d_k = d_v = {WIDTH}; a recall is multiply-adds there, of "
        f"{PAIRS:,} pairs. `assocmem show STORE` for one of them, `assocmem capacity STORE` to measure it."
    )


def _held(store: Store, count: Callable[[Store, int, int, int], float]) -> str:
    """Return the numbers in a state that stays bounded, or those of each pair and what there is beside them."""
    one = count(store, WIDTH, WIDTH, 1)
    if store.traits.constant_size:
        return f"{one:,.0f}"
    each = count(store, WIDTH, WIDTH, 2) - one
    rest = f"{one - each:,.0f} + " if one > each else ""
    return f"{rest}{each:,.0f} a pair"


def _recall_cost(store: Store) -> str:
    known = store.cost.recall if store.cost else None
    return "–" if known is None else f"{known.at(WIDTH, WIDTH, PAIRS):,.0f}"


def show(store: StoreName, as_json: Json = False) -> None:
    """Show a store's card: equation, traits, state, cost, source, settings, capacity at d_k = 64."""
    from assocmem import theory
    from assocmem.stores import entry

    made = made_store(store)
    own = ":" in store
    options = {} if own else {s.name: s.told for s in entry(store).settings if not s.tuning}
    summary = _own_summary(made) if own else entry(store).summary
    with user_code(store):
        found = theory.capacity(made.form(64), 64)
        facts = _facts(made)
    kind = None if found.value is None else "exact" if found.exact else "approximate"
    if as_json:
        capacity = {"value": found.value, "statistic": found.statistic, "reason": found.reason, "kind": kind,
                    "theory_exact": kind and found.exact}  # fmt: skip
        told = {"key": store, "summary": summary, "options": options, "capacity_d_k_64": capacity}
        print_json(told | facts, DEFINITIONS)
        return
    held, bounded = facts["state_numbers"] or 0, made.traits.constant_size
    state = f"{held:,} numbers, whatever is written" if bounded else f"{held // 64:,} numbers a memory"
    card: dict[str, str] = {
        "store": f"{store} ({made.name})", "rule": summary, "equation": made.equation, **trait_words(made.traits),
        "state at d_k = d_v = 64": state if held else "–", "cost (multiply-adds)": facts["cost"] or "–",
        "capacity at d_k = 64": f"{number(found.value)} ({found.statistic}, {kind} theory)" if kind else found.reason,
    }  # fmt: skip
    if made.source:
        card["source"] = f"{made.source.authors} ({made.source.year}), {made.source.title}"
        card["equation there"] = made.source.equation or "–"
        card |= {f"deviation {i}": text for i, text in enumerate(made.source.deviations, 1)}
    print_pairs(card | {f"setting {name}": text for name, text in options.items()})


def cite(store: StoreName) -> None:
    """Print the BibTeX entry of the paper a store comes from."""
    made = made_store(store)
    if made.source is None:
        raise InputError(f"the store {store!r} names no source; give its class an attribute `source`.")
    print(made.source.bibtex())


def check(store: StoreName, others: Others = [], as_json: Json = False) -> None:  # noqa: B006  (typer reads it)
    """Run the store contract on a store; exit status 1 and the reasons in words where it fails."""
    from assocmem.lab.answers import check as checked

    made = made_store(store, **settings_from(others))
    with user_code(store):
        found = checked((store, made))
    if as_json:
        failures = [{name: row[name] for name in ("check", "message")} for row in found if not row["passed"]]
        passed = [row["check"] for row in found if row["passed"]]
        print_json({"store": store, "passed": passed, "failures": failures}, DEFINITIONS)
    else:
        print_results(found)
    if not found.ok:
        raise typer.Exit(1)


DEFINITIONS = {
    "linear_in_values": "recall is a weighted sum of the stored values: one row of weights for all channels "
    "(shared), one for each (per-channel), or not (no)",
    "permutation_invariant": "the same pairs in another order give the same recall",
    "overwrite": "what writing a key again does: the values add, average, the second replaces the first, "
    "the first one's share decays, or the first stays",
    "constant_size": "the state stops growing however many pairs are written",
    "keeps_pairs": "the state holds the pairs themselves: masks and recall weights are available",
    "state_numbers": "numbers held after 64 writes at d_k = d_v = 64, counted from the arrays",
    "capacity_d_k_64": "number of memories, the target included, at which interference equals signal (rms ratio 1), "
    "random unit keys of width 64, from theory",
    "theory_exact": "whether theory is exact (in the mean square, for uniform unit keys) or a labelled approximation",
    "cost": "multiply-adds",
}


def _facts(store: Store) -> dict[str, Any]:
    from assocmem.lab.probe import counted_state

    named = ("linear_in_values", "permutation_invariant", "overwrite", "constant_size", "keeps_pairs", "keys")
    return {
        "class": store.name, "equation": store.equation, **{name: getattr(store.traits, name) for name in named},
        "extras": [{"name": e.name, "shape": list(e.shape), "meaning": e.meaning} for e in store.traits.extras],
        "state_numbers": counted_state(store, 64, 64, 64),
        "cost": store.cost and str(store.cost), "source": store.source.bibtex() if store.source else None,
    }  # fmt: skip


def trait_words(traits: Traits) -> dict[str, str]:
    """Return a store's traits as short sentences."""
    linear = {
        "shared": "yes, one row of weights for all value channels",
        "per-channel": "yes, a row of weights for every value channel", "no": "no",
    }  # fmt: skip
    rewrite = {
        "adds": "the two values add", "averages": "the two values average",
        "replaces": "the second value replaces the first", "mixes": "both values keep shares by no simple law",
        "decays": "the first value's share decays", "keeps": "the first value stays, the second is ignored",
    }  # fmt: skip
    return {
        "linear in values": linear[traits.linear_in_values],
        "order of writes": "does not matter" if traits.permutation_invariant else "matters",
        "a key written twice": rewrite[traits.overwrite],
        "keys it wants": traits.keys,
        "extras": ", ".join(f"{e.name} (..., {', '.join(map(str, e.shape))})" for e in traits.extras) or "none",
    }


def _own_summary(store: Store) -> str:
    """Return what a user's store says of itself: its summary, or the first line of its class's or function's text."""
    if store.summary:
        return store.summary
    about: Any = store.settings().get("function", type(store))
    first = (getattr(about, "func", about).__doc__ or "").strip().partition("\n")[0]
    made_by_dataclass = first.startswith(f"{type(store).__name__}(")
    return "–" if made_by_dataclass or not first else first
