"""`explore`: the interactive page, live or written to files."""

from __future__ import annotations

from pathlib import Path

import typer

from assocmem.cli import app


@app.command()
def explore(
    port: int = typer.Option(8765, "--port", help="Port on this machine; 0 takes any free one."),
    browser: bool = typer.Option(True, "--browser/--no-browser", help="Open the page in the browser."),
    export: Path | None = typer.Option(
        None, "--export", metavar="DIR|FILE.html", help="Write the page instead: a folder of static files, or one file."
    ),
) -> None:
    """Open the interactive page: fill a memory, watch it drown, make it recover."""
    if export is not None:
        from assocmem.page import export as files

        files.export(export)
        return
    from assocmem.page.server import serve

    serve(port, browser=browser)
