"""Write the generated parts of the documents, or check that they are true.

python docs/generate.py           rewrites them
python docs/generate.py --check   exits 1 and says what differs, which public name has no docstring,
                                  which link leads nowhere
"""

from __future__ import annotations

import importlib
import inspect
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import assocmem
from assocmem import stores
from assocmem.stores import entry

ROOT = Path(__file__).resolve().parent.parent
PAGES = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "docs")


def store_table() -> str:
    """Return the table of all stores as Markdown."""
    lines = ["| store | what it does | recall | state | source |", "|---|---|---|---|---|"]
    for key in stores.names():
        made = entry(key).make()
        source = made.source
        paper = f"{source.authors.split(' and ')[0].split(',')[0]} {source.year}" if source else ""
        if source and source.arxiv:
            paper += f", arXiv:{source.arxiv}"
        state = "bounded" if made.traits.constant_size else "grows"
        cells = [f"`{key}`", entry(key).summary, f"`{made.equation}`", state, paper]
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(lines)


def command_help() -> str:
    """Return `assocmem --help` and the help of every command as Markdown."""
    environment = {**os.environ, "COLUMNS": "100", "NO_COLOR": "1", "TERM": "dumb"}

    def ask(*words: str) -> str:
        command = [sys.executable, "-m", "assocmem", *words, "--help"]
        done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
        text = "\n".join(line.rstrip() for line in done.stdout.replace("python -m assocmem", "assocmem").splitlines())
        return f"```\n{text.strip()}\n```"

    from typer.main import get_command

    from assocmem.cli import app

    names = sorted(get_command(app).commands)  # type: ignore[attr-defined]
    parts = [ask()] + [f"## {name}\n\n{ask(name)}" for name in names]
    return "\n\n".join(parts)


GENERATED: dict[tuple[str, str], Callable[[], str]] = {
    ("README.md", "stores"): store_table,
    ("docs/commands.md", "commands"): command_help,
}


def with_generated(text: str, name: str, content: str) -> str:
    """Return `text` with the part between the markers of `name` replaced."""
    start, end = f"<!-- generated: {name} -->", f"<!-- end: {name} -->"
    if start not in text or end not in text:
        raise SystemExit(f"the markers {start} and {end} are missing.")
    head, rest = text.split(start, 1)
    return f"{head}{start}\n{content}\n{end}{rest.split(end, 1)[1]}"


def undocumented() -> list[str]:
    """Return the public names, and public methods of public classes, that have no docstring."""
    missing = []
    for name in assocmem.__all__:
        thing = getattr(assocmem, name)
        if name.startswith("__"):
            continue
        if not inspect.getdoc(thing):
            missing.append(f"assocmem.{name}")
        if inspect.isclass(thing) and thing.__module__.startswith("assocmem"):
            for method, function in vars(thing).items():
                plain = inspect.isfunction(function) or isinstance(function, property)
                if not method.startswith("_") and plain and not inspect.getdoc(function):
                    missing.append(f"assocmem.{name}.{method}")
    for room in ("inputs", "theory", "ruler", "lab", "experiments", "report", "page"):
        module = importlib.import_module(f"assocmem.{room}")
        for name in getattr(module, "__all__", ()):
            thing = getattr(module, name)
            if callable(thing) and not inspect.getdoc(thing):
                missing.append(f"assocmem.{room}.{name}")
    return missing


def broken_links() -> list[str]:
    """Return the relative links of the documents that lead to no file."""
    pages = [p for name in PAGES for p in ([ROOT / name] if (ROOT / name).is_file() else (ROOT / name).rglob("*.md"))]
    broken = []
    for page in pages:
        for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
            if "://" not in target and not target.startswith("mailto:") and not (page.parent / target).exists():
                broken.append(f"{page.relative_to(ROOT)} -> {target}")  # noqa: PERF401  (two conditions read better so)
    return broken


def main(check: bool) -> int:
    """Write or check; return the exit status."""
    faults = []
    for (file, name), make in GENERATED.items():
        path = ROOT / file
        old = path.read_text(encoding="utf-8")
        new = with_generated(old, name, make())
        if check and new != old:
            faults.append(f"{file}: the part {name!r} is not what the code says; run python docs/generate.py")
        elif new != old:
            path.write_text(new, encoding="utf-8")
            print(f"wrote {file}: {name}")
    if check:
        faults += [f"{name} has no docstring" for name in undocumented()]
        faults += [f"broken link: {link}" for link in broken_links()]
        print("\n".join(faults) if faults else "documents are true")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main("--check" in sys.argv[1:]))
