"""A corrupted letter is cleaned step by step: networks whose recall runs downhill in an energy, seen at work."""

from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import numpy as np

from assocmem.contract.numbers import stream
from assocmem.contract.state import State
from assocmem.contract.store import Store
from assocmem.experiments.shown import NETWORKS, Shown
from assocmem.inputs.glyphs import SIDE, glyphs
from assocmem.page.charts import figure, rounded, short
from assocmem.page.declare import FILE, Control, Endpoint, Option, Part, Section
from assocmem.page.sections.bars import PAGE_SEED
from assocmem.report.frames import APART
from assocmem.ruler.patterns import match

LETTER, BITS = "A", SIDE * SIDE
QUARTERS, MOST = 4, 30
FRAMES = QUARTERS + 3
CLOSE = 1e-3
"""Largest move of a coordinate that counts as rest."""
STORE = Control(
    "network", [Option(one.id, one.label, one, {"title": one.about}) for one in NETWORKS], "hebb", "Network"
)
LOAD = Control("load", (2, 4, 8, 16, 32, 64, 128, 256, 512), 8, "Pictures stored", "{} pictures",
               kept={FILE: (2, 8, 32, 128)}, noun="loads of the networks")  # fmt: skip
FLIPPED = Control("flipped", (10, 20, 30, 40), 30, "Pixels turned, percent", "{} percent of the pixels",
                  kept={FILE: (10, 30, 40)}, noun="shares of turned pixels")  # fmt: skip
Signs = np.ndarray[Any, Any]


@lru_cache(maxsize=1)
def pictures() -> Signs:
    """Return all pictures (1024, 256) as signs, the letter asked for first; ink is 1."""
    font = glyphs()
    at = font.chars.index(LETTER)
    order = np.concatenate([[at], np.delete(np.arange(len(font.chars)), at)])
    return np.where(font.images[order].reshape(len(order), -1) > 0.5, 1.0, -1.0)


def asked(flipped: int) -> Signs:
    """Return the letter with that many percent of its pixels turned, (256,)."""
    turned = stream(PAGE_SEED, "page corrupted").permutation(BITS)[: round(flipped * BITS / 100)]
    query: Signs = pictures()[0].copy()
    query[turned] *= -1
    return query


def cleaning(shown: Shown, load: int, flipped: int) -> dict[str, Any]:
    """Return pictures of a recall from the corrupted letter to where it rests, and its energy on the way.

    Units that move one after the other are shown after every quarter of the first sweep, with an energy for each line
    of pixels; what moves at once, after each step. fell: the energies, never rising. wrong: pixels that are off at the
    end, of the nearest stored picture. right: whether that is the letter, pixel by pixel.
    """
    store, start = shown.store, asked(flipped)
    at_once, length = "updates" not in store.settings(), float(np.sqrt(BITS)) if shown.id == "modern" else 1.0
    stored = pictures()[:load] / length
    state = store.write(store.empty(BITS, BITS), stored, stored)
    walk = list(_steps(store, state, start / length))
    shots: list[tuple[str, Signs, float]] = [("stored", pictures()[0], -1.0), ("asked", start, 0.0)]
    marks: list[tuple[float, Signs]] = [(0.0, start / length)]
    if at_once:
        # The last step moves nothing that is seen.
        for i, s in enumerate(walk[:QUARTERS], 1):
            shots.append((f"step {i}", s, float(i)))
        marks += [(float(min(i, QUARTERS + 1)), s) for i, s in enumerate(walk, 1)]
    elif walk:
        # Units take their turn in order, so that after n of them the first n are new and the others old.
        for line in range(1, SIDE + 1):
            moved = np.concatenate([walk[0][: line * SIDE], start[line * SIDE :]])
            marks.append((line * QUARTERS / SIDE, moved))
            if line % QUARTERS == 0:
                shots.append((f"{line * SIDE}", moved, float(line // QUARTERS)))
    if len(walk) > (QUARTERS if at_once else 1):
        shots.append(("rest", walk[-1], QUARTERS + 1.0))
        marks.append((QUARTERS + 1.0, walk[-1]))
    energies = _energies(store, state, np.stack([s for _, s in marks]))
    end = match(np.sign((walk or [start])[-1])[None], pictures()[:load])
    found, wrong = int(end.ids[0]), round(float(end.wrong_bits[0]) * BITS)
    said = _ended(found, wrong)
    times = f"{len(walk)} {'step' if at_once else 'sweep'}{'s' if len(walk) != 1 else ''}"
    rest = (
        f"It rests after {times}, and its energy has fallen from {figure(energies[0])} to {figure(energies[-1])}. "
        f"{load} pictures of {BITS} pixels are stored, and {round(flipped * BITS / 100)} of the query are turned. "
        "Red: ink that the letter doesn't have; blue: ink of the letter that is missing"
        f"{'' if at_once else '; the numbers count the pixels that have had their turn'}."
    )
    return {
        "rows": {
            "ink": [run for word, s, at in shots for run in _runs(np.sign(s), at)],
            "words": [{"x": (at + 1) * APART, "text": word} for word, _, at in shots],
            "energy": [
                {"x": (at + 1) * APART + SIDE / 2, "energy": short(e)}
                for (at, _), e in zip(marks, energies, strict=True)
            ],
        },
        "note": shown.about,
        "said": f"{shown.label}: {said}",
        "text": f"{shown.label}: {said} {rest}",
        "fell": rounded(energies),
        "wrong": wrong,
        "right": found == 0 and wrong == 0,
    }


def _steps(store: Store, state: State, start: Signs) -> Iterator[Signs]:
    """Yield where each step leads, up to the one after which nothing moves."""
    at = start
    for _ in range(MOST):
        trace = store.ask(state, at[None], want="trace", steps=1).trace
        assert trace is not None  # wanted
        after = np.asarray(trace.settled)[0]
        if np.max(np.abs(after - at)) <= CLOSE:
            return
        at = after
        yield at


def _energies(store: Store, state: State, places: Signs) -> list[float]:
    trace = store.ask(state, places, want="trace", steps=1).trace
    assert trace is not None  # wanted
    return [float(e) for e in np.asarray(trace.energy)[:, 0]]


def _ended(found: int, wrong: int) -> str:
    if wrong > BITS / 2:
        return f"the negative of a stored picture has won, with {BITS - wrong} pixels off."
    if not wrong:
        return (
            "the letter comes back, pixel by pixel." if not found else "another stored picture has won, pixel by pixel."
        )
    nearest = "the letter" if not found else "another stored picture"
    return f"what is left is none of the stored pictures; nearest is {nearest}, with {wrong} pixels off."


def _runs(signs: Signs, at: float) -> Iterator[dict[str, Any]]:
    """Yield the pixels of a picture that are drawn, runs of one kind in a line as one rectangle."""
    wanted = pictures()[0]
    kinds = np.select([(signs > 0) & (wanted > 0), (signs > 0), (wanted > 0)], ["ink", "wrong", "missing"], "")
    for y, line in enumerate(kinds.reshape(SIDE, SIDE)):
        begin = 0
        for x in range(1, SIDE + 1):
            if x == SIDE or line[x] != line[begin]:
                if line[begin]:
                    left = (at + 1) * APART
                    yield {"x": left + begin, "x2": left + x, "y": y, "y2": y + 1, "kind": str(line[begin])}
                begin = x


SECTION = Section(
    9.3,
    (Endpoint("cleaning", cleaning, (Part(STORE), Part(LOAD), Part(FLIPPED))),),
    (LOAD, FLIPPED),
    charts={"cleaning": ({
        "kind": "frames", "count": FRAMES, "height": 330,
        "first": {"ink": [{"x": 0, "x2": 1, "y": 0, "y2": 1, "kind": "ink"}], "words": [{"x": 0, "text": ""}],
                  "energy": [{"x": APART + 8, "energy": -1.0}, {"x": APART + 9, "energy": 0.0}]},
    }, 330)},
    title="A spoilt letter, cleaned step by step",
    text="A letter is stored as 256 pixels among others, some of its pixels are turned, and the network lets "
    "each pixel follow the others. Each move lowers an energy. Where the valley of the letter is still there, the "
    "letter comes back; where too much is stored, or too much is turned, something else wins.",
    link="Cleaning",
)  # fmt: skip
