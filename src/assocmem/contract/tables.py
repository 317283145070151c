"""Tables as text and as HTML: words never break, and what a screen is too narrow for goes into blocks of lines."""

from __future__ import annotations

import html
import shutil
import textwrap
from collections.abc import Iterable, Mapping, Sequence

COLUMNS = 120
"""Width of tables where the output is no terminal and the environment's COLUMNS does not say."""
GAP = "  "
TEXT = 24
"""Characters a line that a text beside its name has at least."""


def table_lines(
    columns: Sequence[str], rows: Sequence[Sequence[str]], numeric: Sequence[str] = ()
) -> tuple[list[str], list[str]]:
    """Return a table's head and its other lines; where the screen is too narrow a block a row, and no head.

    The columns in `numeric` are set flush right.
    """
    flush = [name in numeric for name in columns]
    widths = _widths([columns, *rows], [True, *flush[1:]]) or _widths([columns, *rows], flush)
    if widths is None:
        blocks = [[*pair_lines(dict(zip(columns, row, strict=True))), ""] for row in rows]
        return [], [line for block in blocks for line in block]
    rule = " " + "─" * (sum(widths) + len(GAP) * (len(widths) - 1))
    body = [line for row in rows for line in _lines(row, widths, flush)]
    return _lines(columns, widths, flush), [rule, *body, ""]


def pair_lines(pairs: Mapping[str, str]) -> list[str]:
    """Return names and texts in two columns, or each text below its name where the screen is too narrow."""
    widths = _widths([("", ""), *pairs.items()], [True, False], readable=TEXT)
    lines: list[str] = []
    for name, text in pairs.items():
        if widths is None:
            lines += [*_wrapped(name, _screen()), *("    " + line for line in _wrapped(text, _screen() - 4))]
        else:
            lines += [line[1:] for line in _lines([name, text], widths, [False, False])]
    return lines


def wrapped(sentences: Iterable[str]) -> list[str]:
    """Return sentences as lines that fit the screen."""
    return [line for sentence in sentences for line in _wrapped(sentence, _screen())]


def html_table(columns: Sequence[str], rows: Sequence[Sequence[str]], numeric: Sequence[str] = ()) -> str:
    """Return a table as HTML, every text escaped."""
    sides = ["right" if name in numeric else "left" for name in columns]

    def line(tag: str, cells: Sequence[str]) -> str:
        made = (f'<{tag} style="text-align: {s}">{html.escape(c)}</{tag}>' for s, c in zip(sides, cells, strict=True))
        return f"<tr>{''.join(made)}</tr>"

    body = "".join(line("td", row) for row in rows)
    return f"<table><thead>{line('th', columns)}</thead><tbody>{body}</tbody></table>"


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
