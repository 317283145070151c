"""Draw the glyphs of `assocmem.inputs.glyphs` from DejaVu Sans and pack them into its data file.

Run once, by hand; the result is committed, so neither the font nor Pillow is needed to use the package:

    pip install pillow
    python scripts/draw_glyphs.py /usr/share/fonts/truetype/dejavu/DejaVuSans.ttf

Characters are letters, digits, punctuation and symbols without accents, each drawn without grey levels in the
largest size that fits and centred in 16 x 16 pixels. One that is nearly empty or differs from an earlier one in
fewer than MIN_DIFFERENT pixels is passed over. The rest is shuffled, because neighbours in Unicode look alike.
"""

from __future__ import annotations

import sys
import unicodedata
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFont

SIDE = 16
POINTS = range(21, 13, -1)
COUNT = 1024
MIN_INK = 20
MIN_DIFFERENT = 10
SEED = 16
RANGES = (
    (0x41, 0x5B), (0x61, 0x7B), (0x30, 0x3A), (0x21, 0x7F), (0xA1, 0x250), (0x370, 0x530), (0x531, 0x590),
    (0x10A0, 0x1100), (0x2C60, 0x2C80),
    (0x2D30, 0x2D68), (0xA4D0, 0xA500), (0x20A0, 0x20C0), (0x2100, 0x2150), (0x2190, 0x2300), (0x25A0, 0x27C0),
    (0x250, 0x2B0), (0x1D00, 0x1D80), (0xA720, 0xA800), (0x1401, 0x1680), (0x2300, 0x2400), (0x27C0, 0x2800),
    (0x2900, 0x2C00),
)  # fmt: skip
TARGET = Path(__file__).resolve().parents[1] / "src" / "assocmem" / "inputs" / "data" / "glyphs.npz"


def wanted(char: str) -> bool:
    """Say whether a character stands for itself: a letter, digit, punctuation mark or symbol read left to right."""
    category = unicodedata.category(char)
    left_to_right = unicodedata.bidirectional(char) not in ("R", "AL")
    return category[0] in "LNPS" and category != "Lm" and left_to_right and not unicodedata.decomposition(char)


def drawn(char: str, fonts: list[ImageFont.FreeTypeFont]) -> np.ndarray | None:
    """Return the glyph as booleans (SIDE, SIDE), True for ink, in the first of `fonts` in which it fits, or None."""
    for font in fonts:
        image = Image.new("1", (4 * SIDE, 4 * SIDE))
        pen = ImageDraw.Draw(image)
        pen.fontmode = "1"
        pen.text((SIDE, SIDE), char, fill=1, font=font)
        box = image.getbbox()
        if box is not None and box[2] - box[0] <= SIDE and box[3] - box[1] <= SIDE:
            ink = np.asarray(image.crop(box), dtype=bool)
            cell = np.zeros((SIDE, SIDE), dtype=bool)
            top, left = (SIDE - ink.shape[0]) // 2, (SIDE - ink.shape[1]) // 2
            cell[top : top + ink.shape[0], left : left + ink.shape[1]] = ink
            return cell
    return None


def _mask(font: ImageFont.FreeTypeFont, char: str) -> bytes:
    return bytes(font.getmask(char, mode="1"))


def main(font_path: str) -> None:
    """Choose, draw, shuffle and write COUNT glyphs."""
    fonts = [ImageFont.truetype(font_path, points) for points in POINTS]
    missing = _mask(fonts[0], "\U0010fffe")
    chars: list[str] = []
    cells: list[np.ndarray] = []
    for first, stop in RANGES:
        for char in map(chr, range(first, stop)):
            if len(chars) == COUNT or not wanted(char):
                continue
            if _mask(fonts[0], char) == missing:
                continue
            cell = drawn(char, fonts)
            if cell is None or cell.sum() < MIN_INK:
                continue
            if cells and np.min(np.sum(np.stack(cells) != cell, axis=(1, 2))) < MIN_DIFFERENT:
                continue
            chars.append(char)
            cells.append(cell)
    if len(chars) < COUNT:
        sys.exit(f"only {len(chars)} of {COUNT} glyphs were found")
    order = np.random.default_rng(SEED).permutation(COUNT)
    bits = np.packbits(np.stack(cells)[order].reshape(COUNT, -1), axis=1)
    codes = np.array([ord(chars[i]) for i in order], dtype=np.uint32)
    np.savez_compressed(TARGET, bits=bits, codes=codes)
    print(f"{COUNT} glyphs, {TARGET.stat().st_size} bytes -> {TARGET}")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(sys.argv[1])
