"""How answers look: rich tables for people, JSON with definitions for programs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

JSON_HELP = "Print JSON with the definition of every quantity instead of a table."


def print_json(data: Mapping[str, Any], definitions: Mapping[str, str]) -> None:
    """Print one JSON document: the data and, under "definitions", what each quantity means."""
    import sys

    from assocmem.contract.results import as_json

    escape = "utf" not in (getattr(sys.stdout, "encoding", None) or "utf-8").lower()
    print(as_json({**data, "definitions": dict(definitions)}, indent=2, escape=escape))


def print_table(
    columns: Sequence[str], rows: Sequence[Sequence[str]], *, title: str = "", numeric: Sequence[str] = ()
) -> None:
    """Print a table to the terminal; the columns in `numeric` are set flush right."""
    from rich import box
    from rich.table import Table

    table = Table(title=title or None, box=box.SIMPLE_HEAD, title_justify="left", title_style="bold", pad_edge=False)
    for column in columns:
        table.add_column(column, justify="right" if column in numeric else "left", overflow="fold")
    for row in rows:
        table.add_row(*row)
    _console().print(table)


def _console() -> Any:
    """Return a console as wide as the terminal, or 120 columns where the output goes elsewhere."""
    import sys

    from rich.console import Console

    class Quiet(Console):
        def on_broken_pipe(self) -> None:
            """Leave it to `cli.run`; rich would end the program with an error."""
            raise

    return Quiet(highlight=False, markup=False, width=None if sys.stdout.isatty() else 120)


@contextmanager
def progress_bar(words: str, *, hidden: bool = False) -> Iterator[Callable[[int, int], None]]:
    """Show a progress bar on stderr while something runs; yields what it is told with: (done, total)."""
    from rich.console import Console
    from rich.progress import Progress

    console = Console(stderr=True)
    with Progress(console=console, transient=True, disable=hidden or not console.is_interactive) as bars:
        task = bars.add_task(words, total=1.0)
        yield lambda done, total: bars.update(task, completed=done / max(1, total))


def print_pairs(pairs: Mapping[str, str]) -> None:
    """Print names and texts in two columns."""
    from rich.table import Table

    table = Table.grid(padding=(0, 2))
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for name, text in pairs.items():
        table.add_row(name, text)
    _console().print(table)
