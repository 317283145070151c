"""The command line: parse, call, print; one sentence on failure. A command is a function with typed arguments.

Exit status: 0 all well, 1 a check failed, 2 bad input, 130 interrupted.
"""

from __future__ import annotations

import io
import os
import re
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Annotated, Any

import typer
from typer.exceptions import Abort, Exit, TyperException

from assocmem.cli import comparing, describe, designing, editing, exploring, inspecting, measuring, reproducing
from assocmem.cli.terminal import Stopped, StoreCommand, as_options
from assocmem.contract.errors import (
    AssocmemError,
    ConvergenceWarning,
    IllConditionedWarning,
    RoundingWarning,
    UnstableWarning,
)

INTERRUPTED = 130
OWN_WARNINGS = (UnstableWarning, IllConditionedWarning, ConvergenceWarning, RoundingWarning)

app = typer.Typer(
    name="assocmem", help="Associative memory stores: recall, capacity and theory on one ruler.", no_args_is_help=True,
    add_completion=False, pretty_exceptions_enable=False, rich_markup_mode="rich",
)  # fmt: skip
COMMANDS: dict[str, Callable[..., None]] = {
    "list": describe.list_stores, "show": describe.show, "cite": describe.cite, "check": describe.check,
    "capacity": measuring.capacity, "measure": measuring.measure, "compare": comparing.compare,
    "design": designing.design,
    "inspect": inspecting.inspect, "edit": editing.edit, "reproduce": reproducing.reproduce,
    "explore": exploring.explore,
}  # fmt: skip
for name, command in COMMANDS.items():
    app.command(name, cls=StoreCommand if name in ("check", "capacity", "compare") else None)(command)


def _version(wanted: bool) -> None:
    if wanted:
        from assocmem._version import __version__

        typer.echo(f"assocmem {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and stop.", callback=_version, is_eager=True)
    ] = False,
) -> None:
    pass


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
        return _failed(as_options(str(error)))
    except TyperException as error:
        told = getattr(error, "format_message", error.__str__)()
        if not told.strip():  # no command at all: the help was shown
            return 2
        return _failed(f"{told.rstrip('.')}. See assocmem --help.")
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
        if isinstance(error, OSError) and error.filename is None:
            _enough()  # else Python fails once more when it closes
            return _failed(f"the output cannot be written: {error.strerror}.")
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


def _enough() -> int:
    """Let what is left of the output go nowhere: whoever reads it has enough of it, or it cannot be written."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    return 0


def _failed(sentence: str, status: int = 2) -> int:
    with suppress(OSError):
        print(f"assocmem: {' '.join(sentence.split())}", file=sys.stderr, flush=True)
    return status


def main() -> None:
    """Entry point of the `assocmem` command; what the terminal's encoding lacks is shown as "?"."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # the caller closed it
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115  (for as long as this process)
        if isinstance(stream := getattr(sys, name), io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    sys.exit(run())
