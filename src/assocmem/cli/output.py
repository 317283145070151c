"""How answers look: tables for people that stay readable from 40 columns, JSON with definitions for programs."""

from __future__ import annotations

import shutil
import sys
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import typer

COLUMNS = 120
"""Width of tables where the output is no terminal and COLUMNS does not say."""
GAP = "  "
TEXT = 24
"""Characters a line that a text beside its name has at least."""


class Stopped(Exception):  # noqa: N818  (no error: the user's wish)
    """Ctrl-C came and was dealt with; the text says what is left of the work."""


def written(text: str) -> str:
    """Return a text that can be written to any file: what is no character, as in names of files, is escaped."""
    return text.encode("utf-8", "backslashreplace").decode()


def print_json(data: Mapping[str, Any], definitions: Mapping[str, str]) -> None:
    """Print one JSON document: the data and, under "definitions", what each quantity means."""
    from assocmem.contract.results import as_json

    escape = "utf" not in (getattr(sys.stdout, "encoding", None) or "utf-8").lower()
    print(as_json({**data, "definitions": dict(definitions)}, indent=2, escape=escape))


def print_table(
    columns: Sequence[str], rows: Sequence[Sequence[str]], *, title: str = "", numeric: Sequence[str] = ()
) -> None:
    """Print a table whose words never break; a block of lines for each row where the terminal is too narrow.

    The columns in `numeric` are set flush right.
    """
    if title:
        typer.secho(title, bold=True)
    flush = [name in numeric for name in columns]
    widths = _widths([columns, *rows], [True, *flush[1:]]) or _widths([columns, *rows], flush)
    if widths is None:
        for row in rows:
            print_pairs(dict(zip(columns, row, strict=True)))
            print()
        return
    typer.secho("\n".join(_lines(columns, widths, flush)), bold=True)
    print(" " + "─" * (sum(widths) + len(GAP) * (len(widths) - 1)))
    for row in rows:
        print("\n".join(_lines(row, widths, flush)))
    print()


def print_pairs(pairs: Mapping[str, str]) -> None:
    """Print names and texts in two columns, or each text below its name where the terminal is too narrow."""
    widths = _widths([("", ""), *pairs.items()], [True, False], readable=TEXT)
    for name, text in pairs.items():
        if widths is None:
            print("\n".join([*_wrapped(name, _screen()), *("    " + line for line in _wrapped(text, _screen() - 4))]))
        else:
            print("\n".join(line[1:] for line in _lines([name, text], widths, [False, False])))


def _widths(rows: Sequence[Sequence[str]], whole: Sequence[bool], readable: int = 0) -> list[int] | None:
    """Return the widths of columns side by side, the first row being their heads; None where words would break.

    The lines of columns that are `whole` stay whole; a column of long texts gets `readable` characters at least.
    """
    least, most = [], []
    for keep, (head, *cells) in zip(whole, zip(*rows, strict=True), strict=True):
        lines = [line for cell in cells for line in cell.split("\n")]
        parts = lines if keep else [word for line in lines for word in line.split()]
        longest = max(map(len, lines), default=0)
        least.append(max(map(len, [*parts, *head.split(), "-" * min(longest, readable)])))
        most.append(max(longest, len(head)))
    room = _screen() - 1 - len(GAP) * (len(least) - 1)
    shares = ([max(low, min(m, share)) for low, m in zip(least, most, strict=True)] for share in range(room, -1, -1))
    return next((widths for widths in shares if sum(widths) <= room), None)


def _lines(cells: Sequence[str], widths: Sequence[int], flush: Sequence[bool]) -> list[str]:
    """Return a row of a table as lines of text."""
    parts = [_wrapped(cell, width) for cell, width in zip(cells, widths, strict=True)]
    lines = []
    for i in range(max(map(len, parts))):
        texts = [part[i] if i < len(part) else "" for part in parts]
        placed = (t.rjust(w) if right else t.ljust(w) for t, w, right in zip(texts, widths, flush, strict=True))
        lines.append((" " + GAP.join(placed)).rstrip())
    return lines


def _wrapped(text: str, width: int) -> list[str]:
    wrap = textwrap.TextWrapper(max(1, width), break_long_words=False, break_on_hyphens=False)
    return [line for part in text.split("\n") for line in wrap.wrap(part) or [""]]


def _screen() -> int:
    return shutil.get_terminal_size((COLUMNS, 0)).columns


@contextmanager
def progress_bar(words: str, *, hidden: bool = False) -> Iterator[Callable[[int, int], None]]:
    """Show a progress bar on stderr while something runs; yields what it is told with: (done, total)."""
    from rich.console import Console
    from rich.progress import Progress

    console = Console(stderr=True)
    with Progress(console=console, transient=True, disable=hidden or not console.is_interactive) as bars:
        task = bars.add_task(words, total=1.0)
        yield lambda done, total: bars.update(task, completed=done / max(1, total))
