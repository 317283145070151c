"""The command line: parse, call, print; one sentence on failure.

Exit status: 0 all well, 1 a check failed, 2 bad input, 130 interrupted.
"""

from __future__ import annotations

import gc
import io
import os
import re
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TextIO

import typer
from typer.exceptions import Abort, Exit, TyperException

from assocmem.contract.errors import (
    AssocmemError,
    ConvergenceWarning,
    IllConditionedWarning,
    RoundingWarning,
    UnstableWarning,
)

INTERRUPTED = 130
NEW_OBJECTS = 50_000
"""How many more objects than before make Python look for cycles among them: ours are few, and mostly tables."""
OWN_WARNINGS = (UnstableWarning, IllConditionedWarning, ConvergenceWarning, RoundingWarning)

app = typer.Typer(
    name="assocmem",
    help="Associative memory stores: recall, capacity and theory on one ruler.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)


class Stopped(Exception):  # noqa: N818  (no error: the user's wish)
    """Ctrl-C came and was dealt with; the text says what is left of the work."""


def _version(wanted: bool) -> None:
    if wanted:
        from assocmem._version import __version__

        typer.echo(f"assocmem {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: bool = typer.Option(
        False, "--version", help="Print the version and stop.", callback=_version, is_eager=True
    ),
) -> None:
    pass


from assocmem.cli import describe, designing, exploring, inspecting, measuring, reproducing  # noqa: E402, F401  (commands register themselves on `app`)


def run(arguments: list[str] | None = None) -> int:
    """Run one command and return its exit status; whatever fails becomes one sentence on stderr.

    With ASSOCMEM_TRACEBACK set in the environment an error that is none of assocmem's own shows where it arose.
    """
    try:
        with _warnings_as_notes():
            status = app(args=arguments, standalone_mode=False)
        sys.stdout.flush()
        if status == INTERRUPTED:  # typer met Ctrl-C first
            raise KeyboardInterrupt
        return int(status) if isinstance(status, int) else 0
    except Stopped as stop:
        return _failed(str(stop), INTERRUPTED)
    except AssocmemError as error:
        from assocmem.cli.settings import as_options

        return _failed(as_options(str(error)))
    except TyperException as error:
        words = getattr(error, "format_message", error.__str__)()
        if not words.strip():  # no command at all: the help was shown
            return 2
        return _failed(f"{words.rstrip('.')}. See assocmem --help.")
    except Exit as stop:
        return int(stop.exit_code)
    except (Abort, KeyboardInterrupt):
        return _failed("stopped.", INTERRUPTED)
    except BrokenPipeError:
        return _enough()
    except SystemExit as stop:
        if isinstance(stop.__context__, BrokenPipeError):  # typer met it first
            return _enough()
        return _failed(f"the program was asked to stop here (SystemExit: {stop.code}).")
    except MemoryError as error:
        return _failed(f"there is not enough memory for this: {error or 'an array did not fit'}; ask for less.")
    except Exception as error:
        if isinstance(error.__cause__, KeyboardInterrupt):  # it came while a class was made
            return _failed("stopped.", INTERRUPTED)
        if os.environ.get("ASSOCMEM_TRACEBACK"):
            raise
        return _failed(f"{type(error).__name__}: {error} (ASSOCMEM_TRACEBACK=1 shows where).")


@contextmanager
def _warnings_as_notes() -> Iterator[None]:
    """Print assocmem's own warnings as one line each, once whatever their numbers; others stay as they are."""
    seen: set[str] = set()
    with warnings.catch_warnings():
        for category in OWN_WARNINGS:
            warnings.filterwarnings("always", category=category)
        shown = warnings.showwarning

        def note(message: Warning | str, category: type[Warning], *place: Any, **more: Any) -> None:
            if not issubclass(category, OWN_WARNINGS):
                shown(message, category, *place, **more)
            elif (form := re.sub(r"\d\S*", "#", str(message))) not in seen:
                seen.add(form)
                print(f"assocmem: note: {message}", file=sys.stderr)

        warnings.showwarning = note
        yield


def _nowhere() -> TextIO:
    """Return a stream for what is printed where the caller closed ours."""
    return open(os.devnull, "w", encoding="utf-8")


def _enough() -> int:
    """Whoever reads our output has enough of it; what is left must not fail again when Python closes."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    return 0


def _failed(sentence: str, status: int = 2) -> int:
    print(f"assocmem: {' '.join(sentence.split())}", file=sys.stderr)
    return status


def main() -> None:
    """Entry point of the `assocmem` command; what the terminal's encoding lacks is shown as "?"."""
    sys.stdout = sys.stdout or _nowhere()
    sys.stderr = sys.stderr or _nowhere()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    gc.set_threshold(NEW_OBJECTS)
    status = run()
    gc.freeze()  # nothing needs to be collected any more: with charts in memory Python closes 0.2 s sooner
    sys.exit(status)
