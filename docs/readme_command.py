"""Print the README's install-and-run command ("run") or test command ("test"), so that CI runs what people read."""

from __future__ import annotations

import re
import sys
from pathlib import Path


def command(name: str) -> str:
    """Return the one line in the code block that follows the marker `<!-- command: name -->`."""
    text = (Path(__file__).resolve().parent.parent / "README.md").read_text(encoding="utf-8")
    found = re.search(rf"<!-- command: {name} -->\s*```\w*\n([^\n]+)\n```", text)
    if not found:
        raise SystemExit(f"README.md has no one-line command marked {name!r}.")
    return found.group(1)


if __name__ == "__main__":
    print(command(sys.argv[1]))
