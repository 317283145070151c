"""The interactive explorer, live or as files."""

from pathlib import Path

STATIC = Path(__file__).parent / "static"
