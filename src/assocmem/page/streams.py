"""Data of "memories written while reading": how much of each of 128 pairs is still recalled, by its age."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from assocmem import stores
from assocmem.contract.errors import InputError
from assocmem.contract.random import stream
from assocmem.contract.state import Pairs
from assocmem.inputs import key_law
from assocmem.lab.probe import counted_state
from assocmem.page.bars import PAGE_SEED
from assocmem.page.offer import rounded
from assocmem.ruler import by_weights, recall_weights
from assocmem.stores import entry, make_store

PAIRS, WIDTH, DRAWS = 128, 64, 32
DECAYS = (1.0, 0.999, 0.99, 0.97, 0.95, 0.9, 0.8)
STRENGTHS = (0.1, 0.25, 0.5, 0.75, 1.0, 1.5)
EARLIER = 64
ROUNDING = 1e-12
"""A ratio below it is the rounding of an exact recall, and shown as 0."""


@dataclass(frozen=True)
class Rule:
    """A rule of writing on the page: its store's key, the words on its button, the extras that its sliders set.

    decay, strength: name of the extra that the slider sets, "" where the rule has none. turned: the extra is what
    the slider leaves, 1 - decay.
    """

    key: str
    label: str
    about: str
    decay: str = ""
    strength: str = ""
    turned: bool = False


RULES = (
    Rule("outer-product", "outer product", "Adds every pair to one grid. Nothing is let go, so old and new are kept "
         "alike, and all of them drown alike."),
    Rule("linear-attention", "linear attention", "Adds every pair over positive features (elu + 1) and divides by the "
         "sum of weights. Every likeness is positive, so every memory gets nearly the same share."),
    Rule("mamba-2", "Mamba-2", "Lets the whole grid fade a little, then adds the new pair.", decay="decay",
         strength="step"),
    Rule("delta-net", "DeltaNet", "First takes back what the grid already says for the key, then writes the "
         "difference. Each write disturbs the others less, and the newest pair is recalled exactly at strength 1.",
         strength="strength"),
    Rule("gated-delta-net", "Gated DeltaNet", "Fades first, then writes the difference.", decay="decay",
         strength="strength"),
    Rule("ttt-linear", "TTT-Linear", "A small linear model, trained by gradient descent on each mini-batch of pairs as "
         "it is read; the strength scales the learning rate.", strength="rate"),
    Rule("titans", "Titans", "Gradient descent with momentum and forgetting, pair by pair. The last step goes on a "
         "while, so the newest pair isn't yet fully written.", decay="forgetting", strength="rate", turned=True),
    Rule("mesa-net", "MesaNet", "Keeps two grids and solves a ridge regression over all pairs, faded by age, for every "
         "question. It is the optimal linear store of what it has read.", decay="decay", strength="strength"),
)  # fmt: skip


def rules() -> list[Rule]:
    """Return the rules whose stores are registered, linear in their values, and take the extras named here."""
    found = []
    for rule in RULES:
        if rule.key not in stores.names():
            continue
        traits = entry(rule.key).make().traits
        names = {extra.name for extra in traits.extras}
        if traits.linear_in_values == "shared" and {rule.decay, rule.strength} - {""} <= names:
            found.append(rule)
    return found


def offered() -> dict[str, Any]:
    """Return what the section's controls offer."""
    listed = [
        {"id": r.key, "label": r.label, "decays": bool(r.decay), "strengths": bool(r.strength), "about": r.about}
        for r in rules()
    ]
    return {"rules": listed, "decays": list(DECAYS), "strengths": list(STRENGTHS), "draws": DRAWS}


def streams(key: str, decay: float, strength: float) -> dict[str, Any]:
    """Return the recall weight of each of 128 pairs by its age, the newest first: the mean over 32 draws.

    A weight is the share of its value that comes back when a pair's own key is asked. ratio_newest, ratio_64: root
    mean square over draws of interference / signal of the newest pair and of the one 64 writes earlier.
    half_life: writes until the share first falls below half of the newest pair's, null where it doesn't.
    state: numbers held for d_k = d_v = 64, counted from the arrays.
    """
    rule = next((r for r in rules() if r.key == key), None)
    if rule is None:
        raise InputError(f"`rule` must be one of {', '.join(r.key for r in rules())}; got {key!r}.")
    for name, value, slider in (("decay", decay, rule.decay), ("strength", strength, rule.strength)):
        if value != 1 and not slider:
            raise InputError(f"{rule.label} has no {name}; its path holds 1 there.")
    store, extras = make_store(key), _extras(rule, decay, strength)
    keys = key_law("sphere").draw(stream(PAGE_SEED, "page streams"), DRAWS * PAIRS, WIDTH)
    keys = keys.reshape(DRAWS, PAIRS, WIDTH)
    everywhere = {name: np.full((DRAWS, PAIRS), value) for name, value in extras.items()}
    rows = recall_weights(store, Pairs(keys, np.zeros((DRAWS, PAIRS, 1)), extras=everywhere), keys)
    own = np.diagonal(rows, axis1=-2, axis2=-1).mean(axis=0)[::-1]
    below = np.flatnonzero(own < own[0] / 2)
    return {
        "bars": rounded(own, 4),
        "newest": rounded([own[0]], 4)[0],
        "half_life": int(below[0]) if below.size else None,
        "ratio_newest": _ratio(rows, PAIRS - 1),
        "ratio_64": _ratio(rows, PAIRS - 1 - EARLIER),
        "state": counted_state(store, WIDTH, WIDTH, PAIRS),
    }


def _extras(rule: Rule, decay: float, strength: float) -> dict[str, float]:
    extras = {rule.strength: strength} if rule.strength else {}
    return extras | ({rule.decay: 1 - decay if rule.turned else decay} if rule.decay else {})


def _ratio(rows: np.ndarray[Any, Any], at: int) -> float:
    ratios = by_weights(rows[:, at], np.full(DRAWS, at))
    ratio = float(np.sqrt(np.mean(np.square(ratios))))
    return rounded([ratio], 4)[0] if ratio > ROUNDING else 0.0
