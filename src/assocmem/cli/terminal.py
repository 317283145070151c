"""What commands take and how their answers look.

Taken: options that several share, settings of stores as these declare them, a user's own store. Shown: tables for
people that stay readable from 40 columns, JSON with definitions for programs.
"""

from __future__ import annotations

import json
import math
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand

from assocmem.contract.errors import AssocmemError, InputError, place_of
from assocmem.contract.tables import pair_lines, table_lines

if TYPE_CHECKING:
    from assocmem.contract.results import Results

StoreName = Annotated[
    str, typer.Argument(metavar="STORE", help="A store's key (see `assocmem list`) or your own MODULE:CLASS.")
]
Width = Annotated[int, typer.Option("--d-k", min=1, help="Key width.")]
Cosine = Annotated[float, typer.Option("--query-cosine", help="Cosine between queries and stored keys.")]
Ratio = Annotated[float, typer.Option("--ratio", help="The interference-to-signal ratio that counts as failure.")]


LARGEST_M = 10**15


def whole_number(text: str) -> int:
    """Return the whole number >= 2 that a text says, as 4096, 1e10 and 10M do; BadParameter for another."""
    with suppress(InputError):
        found = count("--max-memories", text)
        if found == int(found) and 2 <= found <= LARGEST_M:
            return int(found)
    raise typer.BadParameter(f"it must be a whole number from 2 to 1e15, such as 4096, 1e10 or 10M; got {text!r}.")


MaxMemories = Annotated[
    int | None,
    typer.Option(
        "--max-memories", parser=whole_number, metavar="M", help="Largest M to look at, such as 4096, 1e10 or 10M."
    ),
]
ExtraLaws = Annotated[
    list[str],
    typer.Option(
        "--extra",
        metavar="NAME=LAW",
        help="How an extra of write is drawn: a number, LOW:HIGH for uniform, or MODULE:FUNCTION of the keys.",
    ),
]
Seed = Annotated[int, typer.Option("--seed", min=0, help="Seed of all random streams.")]
Workers = Annotated[int | None, typer.Option("--workers", min=1, help="Threads; by default all cores.")]
Others = Annotated[
    list[str],
    typer.Option("--set", metavar="NAME=VALUE", help="A setting of the store; as an option too, --NAME VALUE."),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON with the definition of every quantity, not a table.")]

OPTIONS = {
    "threshold": "--ratio", "ratio": "--ratio", "n_memories": "--memories", "cosine": "--query-cosine", "d": "--d-k",
    "d_k": "--d-k", "d_v": "--d-v", "largest": "--max-memories", "sampler": "--sampler", "workers": "--workers",
    "seed": "--seed", "statistic": "--statistic", "precision": "--precision", "budget": "--budget", "extras": "--extra",
    "fit_share": "--fit-share", "gate_biases": "--gate-biases",
    **{name: f"--{name}" for name in ("queries", "targets", "gates", "biases", "gain", "mask", "window", "drop",
                                      "names", "transpose", "trials", "asked", "memories", "reference")},
}  # fmt: skip
"""What the arguments that errors name are called at the command line."""


def as_options(sentence: str) -> str:
    """Return an error's sentence with arguments' names in backticks turned into the options that stand for them.

    >>> as_options("`cosine` must lie in [-1, 1]; got 2.")
    '`--query-cosine` must lie in [-1, 1]; got 2.'
    """
    return re.sub(r"`(\w+)`", lambda found: f"`{OPTIONS.get(found[1], found[1])}`", sentence)


class StoreCommand(TyperCommand):
    """A command that takes the settings of its store as options too: `--name value` is `--set name=value`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Turn the options that are settings of registered stores, or any of a user's own, into those of `--set`."""
        own = {option for param in self.get_params(ctx) for option in (*param.opts, *param.secondary_opts)}
        anything = any(":" in word for word in args)
        given, left = iter(args), []
        for word in given:
            flag, sign, value = word.partition("=")
            name = flag[2:].replace("-", "_")
            if flag[:2] == "--" and flag not in own and name.isidentifier() and (anything or name in _declared([])):
                if not sign and (value := next(given, "")) == "":
                    raise InputError(f"`{flag}` needs a value.")
                word = f"--set={name}={value}"
            left.append(word)
        return super().parse_args(ctx, left)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Print the help, and the settings that are options."""
        super().format_help(ctx, formatter)
        own = {option for param in self.get_params(ctx) for option in param.opts}
        flags = {f"--{name.replace('_', '-')}": text for name, text in _declared(sys.argv).items()}
        print("Settings of the store, as options:")
        print_pairs({flag: text for flag, text in flags.items() if flag not in own})


def _declared(words: Sequence[str]) -> dict[str, str]:
    """Return what is said of every setting that the store named in `words` takes, or which stores take it."""
    from assocmem import stores

    every = {key: stores.entry(key).settings for key in stores.names()}
    named = next((every[word] for word in words if word in every), None)
    if named is not None:
        return {setting.name: setting.told for setting in named}
    takers: dict[str, list[str]] = {}
    for key, settings in every.items():
        for setting in settings:
            takers.setdefault(setting.name, []).append(key)
    return {name: f"of {', '.join(keys)}" for name, keys in sorted(takers.items())}


def settings_from(others: Sequence[str]) -> dict[str, Any]:
    """Return the settings that were given as NAME=VALUE."""
    given: dict[str, Any] = {}
    for text in others:
        name, sign, value = text.partition("=")
        if not sign or not name.strip():
            raise InputError(f"`--set` wants NAME=VALUE, such as ridge=0.1; got {text!r}.")
        given[name.strip().replace("-", "_")] = parse(value.strip())
    return given


def laws_from(texts: Sequence[str]) -> dict[str, Any]:
    """Return the laws of extras that were given as NAME=NUMBER, NAME=LOW:HIGH or NAME=MODULE:FUNCTION."""
    given: dict[str, Any] = {}
    for text in texts:
        name, sign, law = text.partition("=")
        parts = [parse(part) for part in law.split(":")]
        if not (sign and name.strip() and law.strip()) or (len(parts) == 1 and isinstance(parts[0], str)):
            raise InputError(
                f"`--extra` wants NAME=NUMBER, NAME=LOW:HIGH or NAME=MODULE:FUNCTION, such as decay=0.99; got {text!r}."
            )
        if any(isinstance(part, str) for part in parts):
            from assocmem.stores.address import found_at

            found = found_at(law)
            if not callable(found):
                raise InputError(f"{law} must be a function of the keys; got {type(found).__name__}.")
            given[name.strip()] = found
        else:
            given[name.strip().replace("-", "_")] = parts[0] if len(parts) == 1 else tuple(parts)
    return given


def called(function: Any) -> str:
    """Return the name under which a function, a partial or an object that is called is shown."""
    inner = getattr(function, "func", function)
    return str(getattr(inner, "__name__", type(inner).__name__))


def parse(text: str) -> Any:
    """Return the value that a setting's text stands for: a number (also 1e3, inf), true, false, none, or the text.

    >>> parse("1e3"), parse("2"), parse("outer"), parse("true")
    (1000.0, 2, 'outer', True)
    """
    words = {"true": True, "false": False, "none": None, "null": None}
    if text.lower() in words:
        return words[text.lower()]
    for kind in (int, float):
        with suppress(ValueError):
            return kind(text)
    if text.startswith(("[", "{")):
        try:
            return json.loads(text)
        except json.JSONDecodeError as error:
            raise InputError(f"a setting holds {text!r}, which is not valid JSON: {error.msg}.") from error
    return text


def count(option: str, text: str) -> float:
    """Return the number of memories that a text stands for: 200000, 2e5 or 200k (k, M, G: 1e3, 1e6, 1e9).

    >>> count("--memories", "200k"), count("--memories", "2e5")
    (200000.0, 200000.0)
    """
    factor = {"k": 1e3, "m": 1e6, "g": 1e9}.get(text[-1:].lower(), 1.0)
    try:
        number = float(text[:-1] if factor > 1 else text) * factor
    except ValueError as error:
        raise InputError(f"`{option}` must be a number such as 200000, 2e5 or 200k; got {text!r}.") from error
    if not (math.isfinite(number) and number >= 1):
        raise InputError(f"`{option}` counts the target and must be a finite number >= 1; got {number:g}.")
    return number


@contextmanager
def user_code(*stores: str) -> Iterator[None]:
    """Run code that may be a user's: its prints go to stderr; an accident in it names file and line.

    `stores` are the words the user gave; registered keys among them need no such care. SystemExit counts as an
    accident, so that no store can end a command as if all were well.
    """
    own = [store for store in stores if ":" in store]
    try:
        with redirect_stdout(sys.stderr):
            yield
    except (AssocmemError, MemoryError):
        raise
    except (Exception, SystemExit) as error:
        if not own or os.environ.get("ASSOCMEM_TRACEBACK"):
            raise
        what = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        raise InputError(
            f"{' or '.join(own)} failed: {what} ({place_of(error)}). `assocmem check {own[0]}` tries it step by step."
        ) from error


def made_store(address: str, **settings: Any) -> Any:
    """Return the store of a key or of a MODULE:CLASS, whose traits are there and are Traits."""
    from assocmem.contract.traits import Traits
    from assocmem.stores import make_store

    with user_code(address):
        store = make_store(address, **settings)
        traits: Any = store.traits
    if not isinstance(traits, Traits):
        raise InputError(f"`traits` of {address} must be an assocmem.Traits; got {traits!r}.")
    return store


def writable(out: Path) -> None:
    """Refuse an output folder that cannot be written before anything is measured."""
    from assocmem.contract.files import write_whole

    try:
        if out.exists() and not out.is_dir():
            raise InputError(f"`--out` must name a folder; {out} is a file.")
    except OSError as error:
        raise InputError(f"`--out` must name a folder; {out}: {error.strerror}.") from error
    probe = write_whole(out / ".writable", b"")
    with suppress(OSError):
        probe.unlink()


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
    head, lines = table_lines(columns, rows, numeric)
    if head:
        typer.secho("\n".join(head), bold=True)
    print("\n".join(lines))


def print_pairs(pairs: Mapping[str, str]) -> None:
    """Print names and texts in two columns, or each text below its name where the terminal is too narrow."""
    for line in pair_lines(pairs):
        print(line)


def print_results(found: Results, *, as_json: bool = False) -> None:
    """Print what was found as Python prints it, or as one JSON document: rows, facts, words and definitions."""
    if not as_json:
        print(found)
        return
    facts = {"facts": dict(found.facts)} if found.facts else {}
    print_json({"rows": found.rows, **facts, "words": found.words}, found.header.get("definitions") or {})


@contextmanager
def progress_bar(words: str, *, hidden: bool = False) -> Iterator[Callable[[int, int], None]]:
    """Show a progress bar on stderr while something runs; yields what it is told with: (done, total)."""
    from rich.console import Console
    from rich.progress import Progress

    console = Console(stderr=True)
    with Progress(console=console, transient=True, disable=hidden or not console.is_interactive) as bars:
        task = bars.add_task(words, total=1.0)
        yield lambda done, total: bars.update(task, completed=done / max(1, total))
