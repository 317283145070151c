"""Memories written while reading: how much of each of 128 pairs is still recalled, by its age."""

from typing import Any

import numpy as np

from assocmem.contract.numbers import stream
from assocmem.contract.state import Pairs
from assocmem.experiments.shown import READ_FIRST, READING, Shown
from assocmem.inputs import key_law
from assocmem.lab.probe import counted_state
from assocmem.page.charts import figure, rounded
from assocmem.page.declare import Control, Endpoint, Option, Part, Section
from assocmem.page.sections.bars import PAGE_SEED
from assocmem.ruler import by_weights, recall_weights

PAIRS, WIDTH, DRAWS = 128, 64, 32
EARLIER = 64
ROUNDING = 1e-12
"""A ratio below it is the rounding of an exact recall, and shown as 0."""
DECAYS, STRENGTHS = ("decay", "forgetting"), ("strength", "step", "rate")
"""Extras of a write that the sliders set, the first that a store takes; of forgetting they set what it leaves."""


def taken(shown: Shown) -> tuple[str, str]:
    """Return the extras of the store that decay and strength set, "" where it has none."""
    names = {extra.name for extra in shown.store.traits.extras}
    decay, strength = (next((name for name in known if name in names), "") for known in (DECAYS, STRENGTHS))
    return decay, strength


def _option(shown: Shown) -> Option:
    decay, strength = map(bool, taken(shown))
    return Option(shown.id, shown.label, shown, {"decays": decay, "strengths": strength})


RULE = Control("rule", [_option(one) for one in READING], READ_FIRST.id, "Rule of writing")
DECAYED, WEIGHED = ([setting for one in READING for setting in one.named(taken(one)[i])] for i in range(2))
DECAY = Control.of(
    "decay", DECAYED, (1.0, 0.999, 0.99, 0.97, 0.95, 0.9, 0.8), 0.99, "Kept at each write (decay)",
    special={1: ("1", "1, all of it")},
)  # fmt: skip
STRENGTH = Control.of("strength", WEIGHED, (0.1, 0.25, 0.5, 0.75, 1.0, 1.5), 1, "Writing strength")


def streams(shown: Shown, decay: float, strength: float) -> dict[str, Any]:
    """Return the recall weight of each of 128 pairs by its age, the newest first: the mean over 32 draws.

    A weight is the share of its value that comes back when a pair's own key is asked. ratio_newest, ratio_64: root
    mean square over draws of interference / signal of the newest pair and of the one 64 writes earlier.
    half_life: writes until the share first falls below half of the newest pair's, null where it doesn't.
    state: numbers held for d_k = d_v = 64, counted from the arrays.
    """
    names, store = taken(shown), shown.store
    chosen = (1 - decay if names[0] == DECAYS[1] else decay, strength)
    extras = {name: value for name, value in zip(names, chosen, strict=True) if name}
    keys = key_law("sphere").draw(stream(PAGE_SEED, "page streams"), DRAWS * PAIRS, WIDTH)
    keys = keys.reshape(DRAWS, PAIRS, WIDTH)
    everywhere = {name: np.full((DRAWS, PAIRS), value) for name, value in extras.items()}
    rows = recall_weights(store, Pairs(keys, np.zeros((DRAWS, PAIRS, 1)), extras=everywhere), keys)
    own = np.diagonal(rows, axis1=-2, axis2=-1).mean(axis=0)[::-1]
    below = np.flatnonzero(own < own[0] / 2)
    shares = rounded(own, 4)
    bars = [{"index": i, "end": i + 0.8, "weight": share} for i, share in enumerate(shares)]
    found = {
        "newest": shares[0],
        "half_life": int(below[0]) if below.size else None,
        "ratio_newest": _ratio(rows, PAIRS - 1),
        "ratio_64": _ratio(rows, PAIRS - 1 - EARLIER),
        "state": counted_state(store, WIDTH, WIDTH, PAIRS),
    }
    said = _sentence(shown.label, found)
    rest = (
        f"Interference is {figure(found['ratio_newest'])} times the signal for the newest pair, "
        f"{figure(found['ratio_64'])} for the one 64 writes earlier. The state holds {found['state']:,} numbers, "
        f"however many pairs are written. Mean of {DRAWS} draws, dₖ = {WIDTH}."
    )
    return {
        "rows": {"bars": bars[1:], "target": bars[:1]},
        "signals": {"top": max(1.05, *shares)},
        "note": f"{shown.about} {_twice(shown, extras)}",
        "said": said,
        "text": f"{said} {rest}",
        **found,
    }


def _twice(shown: Shown, extras: dict[str, float]) -> str:
    """Return in one sentence what is left of two values that were written under one key."""
    keys = key_law("sphere").draw(stream(PAGE_SEED, "page streams"), 1, WIDTH)
    every = {name: np.full(2, value) for name, value in extras.items()}
    pairs = Pairs(np.concatenate([keys, keys]), np.zeros((2, 1)), extras=every)
    first, second = recall_weights(shown.store, pairs, keys)[0]
    rest = figure(100 * first if abs(first) > ROUNDING else 0.0)
    back = f"{figure(100 * second)} % of the second comes back and {rest} % of the first"
    return f"Two values written under one key: {back}."


def _sentence(label: str, found: dict[str, Any]) -> str:
    fading = "The oldest keeps more than half of that"
    if found["half_life"] is not None:
        fading = f"Half of that is left after {found['half_life']} writes"
    return f"{label}: {figure(100 * found['newest'])} % of the newest value comes back. {fading}."


def _ratio(rows: np.ndarray[Any, Any], at: int) -> float:
    ratios = by_weights(rows[:, at], np.full(DRAWS, at))
    ratio = float(np.sqrt(np.mean(np.square(ratios))))
    return rounded([ratio], 4)[0] if ratio > ROUNDING else 0.0


SECTION = Section(
    9,
    (Endpoint("streams", streams, (
        Part(RULE),
        Part(DECAY, "decays", 1, "doesn't fade"),
        Part(STRENGTH, "strengths", 1, "writes every pair alike"),
    )),),
    (DECAY, STRENGTH),
    charts={"streams": (
        {"kind": "bars", "x_title": "writes ago", "y_title": "share of its value", "y_from": 0}, 230)},
    title="Memories written while reading",
    text="Attention's memory grows with every token. A state that doesn't grow has to choose what to let go. Here 128 "
    "pairs are written one after another, then each key is asked again: a bar is the share of its value that comes "
    "back, the newest pair at the left.",
    link="While reading",
)  # fmt: skip
