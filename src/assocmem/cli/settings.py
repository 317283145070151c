"""Settings of a store from the command line: each is an option, `--strength 0.5`, or `--set strength=0.5`."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from typer.core import TyperCommand

from assocmem.contract.errors import InputError

SET_HELP = "A setting of the store, as NAME=VALUE or as an option, --NAME VALUE (`assocmem show STORE` lists them)."


class StoreCommand(TyperCommand):
    """A command whose options include the settings of all stores; they come as NAME=VALUE of `--set`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Turn `--name value` into `--set name=value` where a store has a setting of that name."""
        own = {option for param in self.get_params(ctx) for option in (*param.opts, *param.secondary_opts)}
        given, left = iter(args), []
        for word in given:
            name, sign, value = word.partition("=")
            if name not in own and name[:2] == "--" and _is_setting(name[2:].replace("-", "_"), args):
                if not sign and (value := next(given, "")) == "":
                    raise InputError(f"`{name}` needs a value.")
                word = f"--set={name[2:]}={value}"
            left.append(word)
        return super().parse_args(ctx, left)


def _is_setting(name: str, args: Sequence[str]) -> bool:
    """Say whether a store has a setting called `name`; a user's own store may have any."""
    from assocmem import stores

    known = (setting.name for key in stores.names() for setting in stores.entry(key).settings)
    return name.isidentifier() and (any(":" in word for word in args) or name in known)


def parse(text: str) -> Any:
    """Return the value that a setting's text stands for: a number (also 1e3, inf), true, false, none, or the text.

    >>> parse("1e3"), parse("2"), parse("outer"), parse("true")
    (1000.0, 2, 'outer', True)
    """
    words = {"true": True, "false": False, "none": None, "null": None}
    if text.lower() in words:
        return words[text.lower()]
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    if text.startswith(("[", "{")):
        try:
            return json.loads(text)
        except json.JSONDecodeError as error:
            raise InputError(f"`--set` holds {text!r}, which is not valid JSON: {error.msg}.") from error
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
    at_least_one(option, number)
    return number


OPTIONS = {
    "threshold": "--ratio", "ratio": "--ratio", "n_memories": "--memories", "cosine": "--query-cosine", "d": "--d-k",
    "d_k": "--d-k", "d_v": "--d-v", "largest": "--max-memories", "sampler": "--sampler", "workers": "--workers",
    "seed": "--seed",
}  # fmt: skip
"""What the arguments that errors name are called at the command line."""


def as_options(sentence: str) -> str:
    """Return an error's sentence with arguments' names in backticks turned into the options that stand for them.

    >>> as_options("`cosine` must lie in [-1, 1]; got 2.")
    '`--query-cosine` must lie in [-1, 1]; got 2.'
    """
    return re.sub(r"`(\w+)`", lambda found: f"`{OPTIONS.get(found[1], found[1])}`", sentence)


def settings_from(others: Sequence[str]) -> dict[str, Any]:
    """Return the settings that were given as NAME=VALUE."""
    given: dict[str, Any] = {}
    for text in others:
        name, sign, value = text.partition("=")
        if not sign or not name.strip():
            raise InputError(f"`--set` wants NAME=VALUE, such as ridge=0.1; got {text!r}.")
        given[name.strip().replace("-", "_")] = parse(value.strip())
    for name, value in given.items():
        if isinstance(value, float) and math.isnan(value):
            raise InputError(f"`{name}` must be a number; got nan.")
    return given


def positive(option: str, value: float) -> None:
    """Refuse an option's number unless it is finite and above zero."""
    if not (math.isfinite(value) and value > 0):
        raise InputError(f"`{option}` must be a finite number > 0; got {value:g}.")


def measurable(option: str, value: float) -> None:
    """Refuse an option's ratio unless it is above zero and its square, and that of any M with it, is a float."""
    positive(option, value)
    if value > 1e100:
        raise InputError(f"`{option}` is measured up to 1e100; got {value:g}.")


def at_least_one(option: str, value: float) -> None:
    """Refuse an option's count unless it is finite and at least 1."""
    if not (math.isfinite(value) and value >= 1):
        raise InputError(f"`{option}` counts the target and must be a finite number >= 1; got {value:g}.")


def within_one(option: str, value: float) -> None:
    """Refuse an option's cosine unless it lies in [-1, 1]."""
    if not -1 <= value <= 1:
        raise InputError(f"`{option}` must lie in [-1, 1]; got {value:g}.")


def writable(out: Path) -> None:
    """Refuse an output folder that cannot be written before anything is measured."""
    from assocmem.contract.files import write_whole

    if out.exists() and not out.is_dir():
        raise InputError(f"`--out` must name a folder; {out} is a file.")
    probe = out / ".writable"
    write_whole(probe, b"")
    with suppress(OSError):
        probe.unlink()
