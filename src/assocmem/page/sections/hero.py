"""The opening picture: one glyph asked of a memory that fills up. The memory is the bars' first draw."""

import base64
from functools import lru_cache
from typing import Any

import numpy as np

from assocmem.experiments.shown import OUTER, PICTURES, SOFTMAX, Shown
from assocmem.inputs.glyphs import Glyphs, glyphs
from assocmem.page.charts import rounded
from assocmem.page.declare import FILE, SITE, Control, Endpoint, Option, Part, Section
from assocmem.page.sections.bars import COUNTS, MEMORIES, options, sums, weight_rows
from assocmem.ruler import by_weights

LETTERS = ("A", "g", "&", "Ω")
"""The first pictures of the wall."""
WIDTH, BETA = 64, 8.0
PICTURE = Control("picture", options(PICTURES), OUTER.id)
ASKED = Control(
    "picked", range(1, MEMORIES + 1), 1, "Picture asked for", "picture {}",
    kept={SITE: range(1, 65), FILE: range(1, 17)}, noun="pictures to ask for",
)  # fmt: skip
BESIDE = Control("beside", [Option("", "nothing"), *options(PICTURES)], "")
COUNT = Control("count", (1, *COUNTS), 64, "Pictures stored", "{} pictures")
OWN = Control("own", (), "", pattern="[\\w-]{43}")

STORY = [
    {"say": "One grid of numbers. Every picture is added to it, one on top of the other.",
     "set": {"picture": OUTER.id, "count": 1}, "wait": 1.5},
    {"fill": 256, "seconds": 5.0},
    {"say": "256 pictures: A has drowned in the others.", "set": {"count": 256}, "wait": 2.0, "answer": True},
    {"say": "Now the same 256 pictures, read by softmax, as attention reads them.", "set": {"picture": SOFTMAX.id},
     "wait": 2.5},
    {"fill": 1024, "seconds": 2.0},
    {"say": "1,024 pictures, and A still comes back. Now it is yours: store, ask, draw.", "set": {"count": 1024},
     "wait": 1.0},
]  # fmt: skip
"""What the opening plays: settings, words, seconds to wait after them, and where a guess is answered; or the number to
fill up to."""
GUESSES = (16, 64, 256, 1024)


@lru_cache(maxsize=1)
def wall() -> Glyphs:
    """Return the stored pictures in the order of their memories, `LETTERS` first."""
    font = glyphs()
    front = [font.chars.index(letter) for letter in LETTERS]
    order = [*front, *(i for i in range(MEMORIES) if i not in front)]
    return Glyphs([font.chars[i] for i in order], font.images[order])


def pictures(shown: Shown, picked: int) -> dict[str, Any]:
    """Return what every picture weighs when memory `picked` (1 to 1024) is asked for with its own key, at every M.

    counts: the M of the slider from which on it is stored. weights: relative to its own weight, as the bars have them:
    `row` (its first M numbers belong to M pictures), or `rows`, one a count. ratio: one a count.
    """
    at = picked - 1
    made = weight_rows(shown, WIDTH, 1.0, 0, BETA, at)
    rows = [np.ones(1), *made] if not at else [row for row in made if len(row) > at]
    relative = [row / (row[at] or 1.0) for row in rows]
    ratios = [float(by_weights(row[None, :], np.array([at]))[0]) for row in rows]
    many = (
        {"row": rounded(relative[-1], 4)} if sums(shown, WIDTH, BETA) else {"rows": [rounded(r, 4) for r in relative]}
    )
    return {"counts": [len(row) for row in rows], **many, "ratio": rounded(ratios, 4)}


def glyph_sheet() -> dict[str, Any]:
    """Return all pictures in the order of their memories, a bit a pixel in base64 (32 bytes each), and their names."""
    font = wall()
    bits = np.packbits(font.images.reshape(MEMORIES, -1) > 0.5, axis=1)
    return {"bits": base64.b64encode(bits.tobytes()).decode(), "chars": "".join(font.chars)}


SECTION = Section(
    1,
    (
        Endpoint("glyphs", glyph_sheet, first=True),
        Endpoint("pictures", pictures, (Part(PICTURE), Part(ASKED)), first=True),
    ),
    (COUNT, ASKED),
    more=(BESIDE, OWN),
    words={"story": STORY, "guesses": GUESSES, "letters": LETTERS},
)
