"""Numbers within the page's texts: between « and » stands what to compute, with its format."""

import re
from collections.abc import Callable
from typing import Any

import numpy as np

from assocmem.experiments.long_contexts import REFERENCE
from assocmem.experiments.shown import CHOICES
from assocmem.page.charts import figure
from assocmem.page.sections import contexts, picking
from assocmem.page.sections.bars import COUNTS, MEMORIES, bars, page_keys
from assocmem.ruler import by_weights

D, BETA, KEYS = 64, 8.0, 32


def filled(text: str) -> str:
    """Return a text with its numbers, for d_k = 64, β = 8 and the bars' first draw: "«capacity outer .0f»".

    The format "figure" is the one that the page's script writes numbers in.
    """

    def number(found: re.Match[str]) -> str:
        kind, *words, form = found[1].split()
        value = NUMBERS[kind](*words)
        return figure(value) if form == "figure" else format(value, form)

    return re.sub(r"«([^»]+)»", number, text)


def column(name: str) -> Callable[[str, str], float]:
    """Return what finds a column of the bars of a store at M."""
    return lambda store, m: float(_bars(store)[name][COUNTS.index(int(m))])


def _bars(store: str) -> dict[str, Any]:
    return bars(next(one for one in CHOICES if one.id == store), D, 1.0, 0, BETA)


def _rule(name: str, quantity: str, m: str) -> float:
    rules = contexts.long_contexts(D, BETA, REFERENCE)["rules"]
    found = next(rule for label, rule in rules.items() if label.lower().startswith(name))
    return float(found[quantity][contexts.LONG_COUNTS.index(int(m))])


def overlap() -> float:
    """Return the mean square likeness of the first keys."""
    keys = page_keys(D, 0)[:KEYS]
    return float(np.mean((keys @ keys.T)[~np.eye(KEYS, dtype=bool)] ** 2))


def exponentials(m: int) -> np.ndarray[Any, Any]:
    """Return e^(β s) of the first key with each of M keys, before softmax divides them by their sum."""
    keys = page_keys(D, 0)[:m]
    return np.asarray(np.exp(BETA * keys @ keys[0]))


def gradient(beta: float) -> float:
    """Return by how much the target's softmax weight p grows with its likeness among 1024 memories: β p (1 - p)."""
    keys = page_keys(D, 0)
    p = 1 / np.exp(beta * (keys @ keys[0] - 1)).sum()
    rest = np.exp(beta * (keys[1:] @ keys[0] - 1)).sum() * p
    return float(beta * p * rest)


def _picked(store: str, d: str) -> float:
    return picking.measured(next(one for one in CHOICES if one.id == store), int(d)).capacity.value or float(MEMORIES)


NUMBERS: dict[str, Callable[..., float]] = {
    "shown": column("ratio"),
    "expected": column("expected"),
    "signal": column("signal"),
    "interference": column("interference"),
    "capacity": lambda store: float(_bars(store)["capacity"]),
    "overlap": overlap,
    "rule": _rule,
    "picked": _picked,
    "undivided": lambda m: float(np.sqrt(np.sum(exponentials(int(m))[1:] ** 2))),
    "undivided_ratio": lambda m: float(by_weights(exponentials(int(m))[None, :], np.array([0]))[0]),
    "gradient": lambda beta: gradient(float(beta)),
}
"""What finds each kind of number."""
