"""What every store would need to serve M memories: whether it can, the numbers it holds, the cost of a recall."""

from __future__ import annotations

from typing import Any

import numpy as np

from assocmem import stores
from assocmem.contract.errors import InputError
from assocmem.contract.form import Form
from assocmem.contract.numbers import is_whole
from assocmem.contract.store import Store
from assocmem.lab.probe import counted_state
from assocmem.stores import entry
from assocmem.theory import requirement

WIDEST = 1 << 16
COUNTED_OUT = 256
_UNKNOWN = "there is no formula for this store; `assocmem capacity` measures it"
WIDTHS = ((16, 16), (16, 32), (32, 16), (32, 32), (48, 16), (16, 48), (64, 48), (48, 80), (80, 64))


def requirements(d_k: int, d_v: int, n_memories: float, ratio: float, cosine: float = 1.0) -> list[dict[str, Any]]:
    """Return a row for every registered store: feasible (None: no theory), ratio at M, largest M, numbers_held, cost.

    Parameters: d_k, d_v, widths from 1 to 65,536; n_memories, M >= 1, the target counted; ratio > 0; cosine of the
    query. Numbers held are counted from arrays: of a store that keeps its pairs the count per pair, times M. Cost is
    the formula of one recall's multiply-adds, multiply_adds its number here. Raises InputError for other widths.

    >>> found = {row["store"]: row for row in requirements(64, 64, 1000, 1.0)}
    >>> found["outer-product"]["feasible"], found["squared-relu"]["feasible"], found["outer-product"]["numbers_held"]
    (False, True, 4096)
    """
    for name, width in (("d_k", d_k), ("d_v", d_v)):
        if not is_whole(width) or width > WIDEST:
            raise InputError(f"`{name}` must be a whole number from 1 to {WIDEST:,}; got {width!r}.")
    rows = []
    for key in stores.names():
        store = entry(key).make()
        form = store.form(d_k)
        answer = requirement(form, d_k, n_memories, ratio, cosine)
        recall = store.cost.recall if store.cost else None
        rows.append(
            {
                "store": key,
                "label": _label(key, form, d_k, n_memories),
                "feasible": answer.feasible,
                "ratio": answer.reached.value,
                "largest": answer.largest.value,
                "numbers_held": numbers_held(store, d_k, d_v, n_memories),
                "cost": None if recall is None else str(recall),
                "multiply_adds": None if recall is None else recall.at(d_k, d_v, n_memories),
                "reason": _UNKNOWN if answer.feasible is None else _sentences(answer.sentence, answer.largest.reason),
            }
        )  # fmt: skip
    return rows


def _label(key: str, form: Form | None, d_k: int, n_memories: float) -> str:
    """Return the key, with σ where the store has settings that may change it."""
    sigma = form.of_keys(n_memories, d_k) if form is not None and entry(key).settings else None
    return key if sigma is None else f"{key}, σ = {sigma.formula}"


def _sentences(first: str, reason: str) -> str:
    return f"{first} {reason[0].upper()}{reason[1:]}." if reason else first


def numbers_held(store: Store, d_k: int, d_v: int, n_memories: float) -> float:
    """Return the numbers in the state with M memories, counted from the arrays of small states.

    Of a bounded store that is the empty state's size, pairs that wait to be folded in left out; of others the size
    with one pair and what a second one adds.
    """
    if store.traits.constant_size:
        return _bounded(store, d_k, d_v)
    one, two = (counted_state(store, d_k, d_v, n) for n in (1, 2))
    return one + (two - one) * (n_memories - 1)


def _bounded(store: Store, d_k: int, d_v: int) -> int:
    """Return the size of a bounded store's empty state.

    Wide states are not built: their size is read off the second-degree polynomial in d_k and d_v that meets the
    counts at nine small pairs of widths, six of which would fix it; without such a one the state is built.
    """
    if max(d_k, d_v) <= COUNTED_OUT:
        return store.empty(d_k, d_v).size
    terms = np.array([_terms(k, v) for k, v in WIDTHS], dtype=np.float64)
    counts = np.array([store.empty(k, v).size for k, v in WIDTHS], dtype=np.float64)
    found = np.round(np.linalg.lstsq(terms, counts, rcond=None)[0] * 2) / 2
    if not np.array_equal(terms @ found, counts):
        return store.empty(d_k, d_v).size
    return sum(int(2 * factor) * term for factor, term in zip(found, _terms(int(d_k), int(d_v)), strict=True)) // 2


def _terms(d_k: int, d_v: int) -> tuple[int, ...]:
    return 1, d_k, d_v, d_k * d_k, d_k * d_v, d_v * d_v
