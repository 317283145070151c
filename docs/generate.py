"""Write the generated parts of the documents, or check that they are true.

python docs/generate.py           rewrites them
python docs/generate.py --check   exits 1 and says what differs, which public name is not told as docstrings.py
                                  asks (with numpydoc, of the extra dev), which link leads nowhere
"""

from __future__ import annotations

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

sys.path.insert(0, str(Path(__file__).parent))  # for whoever loads this file by its path

from docstrings import ill_told

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


HELP = """
import sys
from assocmem.cli import run
names, sys.argv = sys.argv[1:], ["assocmem"]
run(["--help"])
for name in names:
    print(end="\\f")
    run([name, "--help"])
"""


def command_help() -> str:
    """Return `assocmem --help` and the help of every command as Markdown."""
    from typer.main import get_command

    from assocmem.cli import app

    names = sorted(get_command(app).commands)  # type: ignore[attr-defined]
    environment = {**os.environ, "COLUMNS": "100", "NO_COLOR": "1", "TERM": "dumb"}
    command = [sys.executable, "-c", HELP, *names]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    first, *others = ("\n".join(map(str.rstrip, part.strip().splitlines())) for part in done.stdout.split("\f"))
    parts = [f"## {name}\n\n```\n{text}\n```" for name, text in zip(names, others, strict=True)]
    return "\n\n".join([f"```\n{first}\n```", *parts])


def settings_stub() -> str:
    """Return a TypedDict of all settings that registered stores take, for checkers and editors of `Memory(...)`."""
    own = inspect.signature(assocmem.Memory).parameters
    plain = {int: "int", float: "float", bool: "bool", tuple: "Sequence[float]", str: "str"}
    types: dict[str, set[str]] = {}
    choices: dict[str, list[str]] = {}
    imports: dict[str, set[str]] = {}
    for setting in (setting for key in stores.names() for setting in entry(key).settings if setting.name not in own):
        found, named = types.setdefault(setting.name, set()), setting.named.table if setting.named else ()
        choices.setdefault(setting.name, []).extend([*setting.choices, *named])
        found |= {"float"} if setting.named and setting.named.bare else set()
        found |= {"None"} if setting.optional else set()
        for kind in (kind for kind in setting.kinds if kind is not str or not setting.choices):
            if kind not in plain and kind is not object:
                imports.setdefault(kind.__module__, set()).add(kind.__name__)
            found.add(plain.get(kind, "Any" if kind is object else kind.__name__))
    lines = ["# Written by docs/generate.py from what stores declare.", "from collections.abc import Sequence"]
    names = ["Any"] * any("Any" in found for found in types.values()) + ["Literal", "TypedDict"]
    lines += [f"from typing import {', '.join(names)}", ""]
    lines += [f"from {module} import {', '.join(sorted(kinds))}" for module, kinds in sorted(imports.items())] + [""]
    lines += ["class AllSettings(TypedDict, total=False):"]
    for name, found in sorted(types.items()):
        if words := sorted(set(choices[name])):
            found.add("Literal[" + ", ".join(f'"{word}"' for word in words) + "]")
        lines.append(f"    {name}: {' | '.join(sorted(found, key=lambda kind: (kind == 'None', kind)))}")
    return "\n".join(lines) + "\n"


def store_classes() -> str:
    """Return the imports by which checkers and editors know the classes of registered stores."""
    kinds = {variant.kind for key in stores.names() for variant in entry(key).variants}
    by_module = sorted((kind.__module__, not kind.__name__.isupper(), kind.__name__) for kind in kinds)  # isort's order
    return "\n".join(f"    from {module} import {name} as {name}" for module, _, name in by_module)


STUB = "src/assocmem/stores/all_settings.pyi"

GENERATED: dict[tuple[str, str], Callable[[], str]] = {
    ("README.md", "stores"): store_table,
    ("docs/commands.md", "commands"): command_help,
    ("src/assocmem/stores/__init__.py", "classes"): store_classes,
}


def with_generated(text: str, name: str, content: str) -> str:
    """Return `text` with the part between the markers of `name` replaced."""
    start, end = f"<!-- generated: {name} -->", f"<!-- end: {name} -->"
    if start not in text:  # the markers of Python
        start, end = f"    # generated: {name}", f"    # end: {name}"
    if start not in text or end not in text:
        raise SystemExit(f"the markers {start} and {end} are missing.")
    head, rest = text.split(start, 1)
    return f"{head}{start}\n{content}\n{end}{rest.split(end, 1)[1]}"


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
    stub, wanted = ROOT / STUB, settings_stub()
    if check and stub.read_text(encoding="utf-8") != wanted:
        faults.append(f"{STUB} is not what stores declare; run python docs/generate.py")
    elif not check:
        stub.write_text(wanted, encoding="utf-8")
    if check:
        faults += ill_told()
        faults += [f"broken link: {link}" for link in broken_links()]
        print("\n".join(faults) if faults else "documents are true")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main("--check" in sys.argv[1:]))
