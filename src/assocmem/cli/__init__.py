"""The command line: parse, call, print; one sentence on failure.

Exit status: 0 all well, 1 a check failed, 2 bad input, 130 interrupted.
"""

from __future__ import annotations

import sys

import typer
from typer.exceptions import Abort, Exit, TyperException

from assocmem.core.errors import AssocmemError

app = typer.Typer(
    name="assocmem",
    help="Associative memory stores: recall, capacity and theory on one ruler.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)


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


from assocmem.cli import describe, designing, exploring, measuring, reproducing  # noqa: E402, F401  (commands register themselves on `app`)


def run(arguments: list[str] | None = None) -> int:
    """Run one command and return its exit status; errors of the caller become one sentence on stderr."""
    try:
        status = app(args=arguments, standalone_mode=False)
        return int(status) if isinstance(status, int) else 0
    except AssocmemError as error:
        print(f"assocmem: {error}", file=sys.stderr)
        return 2
    except Abort:
        print("assocmem: stopped.", file=sys.stderr)
        return 130
    except TyperException as error:
        words = getattr(error, "format_message", error.__str__)()
        print(f"assocmem: {words} See assocmem --help.", file=sys.stderr)
        return 2
    except Exit as stop:
        return int(stop.exit_code)
    except KeyboardInterrupt:
        print("assocmem: stopped.", file=sys.stderr)
        return 130
    except BrokenPipeError:
        sys.stderr.close()
        return 0


def main() -> None:
    """Entry point of the `assocmem` command."""
    sys.exit(run())
