"""The page's words: terms with a sentence each, and what a ratio is called, the same in all sections."""

from pathlib import Path

_LINES = Path(__file__).with_name("glossary.txt").read_text(encoding="utf-8").splitlines()
GLOSSARY: dict[str, str] = {term: sentence for term, _, sentence in (line.partition(": ") for line in _LINES)}
"""Terms of `glossary.txt`, explained where they first stand in a section."""

VERDICTS = (
    (2.0, "fails", {"words": "recall fails", "picture": "The picture has drowned."}),
    (1.0, "fails", {"words": "recall fails", "picture": "Recall fails: more of this is the others than the picture."}),
    (0.5, "noisy", {"words": "recall is noisy", "picture": "Recall is noisy: the picture is getting hard to read."}),
    (-1.0, "clear", {"words": "recall is clear", "picture": "The picture comes back."}),
)
"""What a ratio above a number is called, the largest number first."""
