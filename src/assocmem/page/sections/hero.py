"""The opening picture: one glyph asked of a memory that fills up."""

import base64
from typing import Any

import numpy as np

from assocmem.contract.state import Pairs
from assocmem.experiments.shown import OUTER, PICTURES, Shown
from assocmem.inputs import glyph_pairs
from assocmem.inputs.glyphs import glyphs
from assocmem.page.charts import rounded
from assocmem.page.declare import Control, Endpoint, Option, Part, Section
from assocmem.page.sections.bars import COUNTS, MEMORIES, PAGE_SEED, TARGET, options
from assocmem.ruler import by_weights, recall_weights

LETTERS = ("A", "g", "&", "Ω")
PICTURE = Control("picture", options(PICTURES), OUTER.id)
LETTER = Control("letter", [Option(x, x, x, {"title": f"Ask for {x}"}) for x in LETTERS], "A")
COUNT = Control("count", (1, *COUNTS), 64, "Pictures stored", "{} pictures")


def pictures(shown: Shown, letter: str, d_k: int = 64, beta: float = 8.0) -> dict[str, Any]:
    """Return what the store recalls for one glyph at every M of the slider, as bytes of ink (0..255) in base64.

    Each picture is 16 x 16; keys are random unit vectors of width d_k; values are glyphs minus their mean, which is
    added back to draw. The recall is divided by the target's own weight, so that its ink keeps its depth.
    """
    font, store = glyphs(), shown.at(beta)
    pairs = glyph_pairs(PAGE_SEED, LETTERS.index(letter), MEMORIES, d_k, first=letter)
    frames, ratios = [], []
    for m in COUNT.values:
        held = Pairs(pairs.keys[:m], pairs.values[:m])
        weights = recall_weights(store, held, held.keys[:1])
        state = store.write(store.empty(d_k, pairs.values.shape[1]), held.keys, held.values)
        frames.append(_inked(font.picture(store.recall(state, held.keys[:1])[0] / weights[0, TARGET])))
        ratios.append(float(by_weights(weights, np.array([TARGET]))[0]))
    return {"letter": letter, "counts": list(COUNT.values), "frames": frames, "ratio": rounded(ratios, 4)}


def glyph_sheet() -> dict[str, Any]:
    """Return all stored pictures, one bit a pixel in base64 (32 bytes a picture), and where each letter stands."""
    font = glyphs()
    bits = np.packbits(font.images.reshape(len(font.chars), -1) > 0.5, axis=1)
    first = {letter: font.chars.index(letter) for letter in LETTERS}
    return {"bits": base64.b64encode(bits.tobytes()).decode(), "first": first}


def _inked(picture: np.ndarray[Any, Any]) -> str:
    return base64.b64encode(np.clip(np.rint(255 * picture), 0, 255).astype(np.uint8).tobytes()).decode()


SECTION = Section(
    1,
    (
        Endpoint("glyphs", glyph_sheet, first=True),
        Endpoint("pictures", pictures, (Part(PICTURE), Part(LETTER, index=True)), first=True),
    ),
    (COUNT,),
)
