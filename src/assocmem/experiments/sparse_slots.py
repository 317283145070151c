"""Sparse slots: how a table of a thousand rows fills, and what that does to recall."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from assocmem.contract.estimate import Estimate
from assocmem.contract.results import Row
from assocmem.contract.store import Store
from assocmem.experiments.experiment import RULE, Experiment, Outcome, Run, in_panels
from assocmem.experiments.shown import Shown, labelled
from assocmem.inputs import draw_pairs
from assocmem.lab.keys import Keys
from assocmem.lab.plan import LabelledStore, all_labelled, row
from assocmem.lab.probe import counted_state, of_kind
from assocmem.lab.run import curves
from assocmem.ruler import bits_per_recall
from assocmem.ruler.estimate import summarise_shares
from assocmem.ruler.retrieval import top1_right

D, SLOTS = 32, 256
FEW: dict[str, Any] = {"sub_keys": 16, "k": 4}
STORES = (
    Shown("product-key", settings={**FEW, "heads": 1}),
    Shown("product-key", "product keys, k = 1", {**FEW, "k": 1, "heads": 1}),
    Shown("memory-layers", settings={**FEW, "heads": 1, "layers": 1}), Shown("ultramem", settings=FEW),
    Shown("peer", settings={**FEW, "heads": 1}), Shown("engram", settings={"rows": 24, "heads": 4}),
    Shown("attention-over-parameters", settings={"heads": 4, "rows": 64}),
)  # fmt: skip
NEAREST = (Shown("outer-product"), Shown("softmax"))
"""Of other families, beside them."""
LOAD, SHARED, BITS, RIGHT = "load", "shared", "bits per number", "right"


def _answer(run: Run) -> Outcome:
    counts = [4**k for k in range(2, run.fewer(6, 4))]
    shown = (*STORES, *NEAREST)
    sampler = Keys(trials=run.fewer(3, 2), most=run.fewer(6, 2), targets=8, estimator="vectors")
    rows: list[Row] = curves(labelled(shown), D, counts, sampler, d_v=D, **run.shared)
    held = {(label, m): counted_state(store, D, D, m) for label, store in labelled(shown) for m in counts}
    rows += [_bits(one, held[one["label"], one["n_memories"]]) for one in rows]
    for one in all_labelled(labelled(shown)):
        rows += [found for m in counts for found in _of_slots(run, one, m)]
    view = in_panels(
        shown, "n_memories", "memories M",
        {"where": {"quantity": "ratio"}, "y_title": "interference / signal", "y_within": (0.01, 30), **RULE},
        {"where": {"quantity": RIGHT}, "y_title": "right of all M recalled", "y_log": False, "y_domain": (0, 1)},
        {"where": {"quantity": LOAD}, "y_title": "slots in use", "y_log": False, "y_domain": (0, 1)},
        {"where": {"quantity": SHARED}, "y_title": "addressed slots shared", "y_log": False, "y_domain": (0, 1)},
        {"where": {"quantity": BITS}, "y_title": "bits per number of state"},
    )  # fmt: skip
    view["colours"] = {one.label: one.colour for one in NEAREST}
    words = {
        "value": "by `quantity`: ratio, interference over signal; right, share of recalls whose largest inner product "
        "is with the right one of all M values; load, share of the table's rows that some pair addresses; shared, of "
        "the rows that a pair addresses the share that others address too; bits per number, M d_v/2 log2(1 + "
        "1/ratio^2) over the numbers held"
    }
    return Outcome(rows, view, _caption(rows), {"d_k": D, "d_v": D, "memories": counts}, words)


def shares_of(store: Store, m: int, seed: int, trials: int) -> Iterator[tuple[str, Estimate]]:
    """Yield the share of right recalls, of rows in use, and of addressed rows that pairs share, of m pairs written.

    trials: draws of the pairs; up to 64 of them are asked for.
    """
    found: dict[str, list[float]] = {RIGHT: [], LOAD: [], SHARED: []}
    asked = min(m, 64)
    counted = {RIGHT: asked}
    for trial in range(trials):
        pairs = draw_pairs(seed, trial, m, D, D, values="sphere")
        keys = of_kind(pairs.keys, store)
        state = store.write(store.empty(D, D), keys, pairs.values)
        right = top1_right(store.recall(state, keys[:asked]), pairs.values, np.arange(asked))
        found[RIGHT].append(float(right.mean()))
        if hasattr(store, "addresses"):
            ids = np.sort(store.addresses(state, keys).ids, axis=-1)
            own = ids[np.concatenate([np.ones_like(ids[:, :1], dtype=bool), ids[:, 1:] != ids[:, :-1]], axis=-1)]
            uses = np.bincount(own, minlength=len(state["values"]))
            counted |= {LOAD: len(uses), SHARED: m}
            found[LOAD].append(float(np.mean(uses > 0)))
            found[SHARED].append(float(np.mean(uses[own] > 1)))
    for quantity, shares in found.items():
        if shares:
            words = f"share of all trials: {quantity}"
            yield quantity, summarise_shares(shares, counted[quantity], definition=words, seed=seed, sampler="keys")


def _of_slots(run: Run, one: LabelledStore, m: int) -> Iterator[Row]:
    """Yield a row for each of these shares."""
    for quantity, said in shares_of(one.store, m, run.seed, run.fewer(3, 2)):
        yield row(one, said, None, experiment=run.experiment, d_k=D, n_memories=m, quantity=quantity)


def _bits(one: Row, size: int) -> Row:
    """Return a row of ratios as one of bits a number."""

    def bits(ratio: float | None) -> float | None:
        value = None if ratio is None or ratio < 1e-9 else bits_per_recall(ratio, D).value
        return None if value is None else value * one["n_memories"] / size

    return {
        **one, "value": bits(one["value"]), "low": bits(one["high"]), "high": bits(one["low"]),
        "theory": bits(one["theory"]), "ratio": one["value"], "quantity": BITS, "state_numbers": size,
    }  # fmt: skip


def _caption(rows: list[Row]) -> str:
    costs = []
    for one in STORES:
        cost = one.store.cost
        if cost is not None and cost.recall is not None:
            costs.append(f"{one.label} {cost.recall.at(D, D, 0):,.0f}")
    most = max(found["n_memories"] for found in rows)
    full = [f"{r['label']} {r['value']:.0%}" for r in rows if r["quantity"] == LOAD and r["n_memories"] == most]
    return (
        f"Random keys, d_k = d_v = {D}; tables of {SLOTS} rows or a few more, of which a recall reads 4 (hashed: "
        "8). A pair is alone as long as no other one addresses its rows. At M = "
        f"{most:,} the rows in use are {'; '.join(full)}. Multiply-adds of one recall: {'; '.join(costs)}; softmax "
        f"over {SLOTS} rows {SLOTS * 2 * D:,}. Thick lines: exact theory, of hashed tables by the chance that two keys "
        "share a row."
    )


EXPERIMENT = Experiment(
    "sparse-slots", 16, "A table of slots fills up",
    "How much does a table hold of which every recall reads a few rows?", _answer,
)  # fmt: skip
