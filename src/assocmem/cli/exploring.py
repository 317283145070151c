"""`explore`: the interactive page, live or written to files."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def explore(
    port: Annotated[int, typer.Option(help="Port on this machine; 0 takes any free one.")] = 8765,
    browser: Annotated[bool, typer.Option(help="Open the page in the browser.")] = True,
    export: Annotated[
        Path | None,
        typer.Option(metavar="DIR|FILE.html", help="Write the page instead: a folder of static files, or one file."),
    ] = None,
) -> None:
    """Open the interactive page: fill a memory, watch it drown, make it recover."""
    if export is None:
        from assocmem.page.server import serve

        serve(port, browser=browser)
        return
    from assocmem.page import export as files

    files.export(export)
