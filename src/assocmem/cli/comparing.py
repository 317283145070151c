"""`compare`: stores side by side over widths, settings and query cosines."""

from __future__ import annotations

from inspect import signature
from pathlib import Path
from typing import Annotated, Any

import typer

from assocmem.cli.terminal import (
    ExtraLaws,
    Json,
    MaxMemories,
    Ratio,
    Seed,
    Stopped,
    Workers,
    count,
    laws_from,
    made_store,
    parse,
    print_results,
    progress_bar,
    user_code,
    writable,
)
from assocmem.contract.errors import InputError


def compare(
    stores: Annotated[list[str], typer.Argument(metavar="STORE...", help="Keys of stores, or your own MODULE:CLASS.")],
    d_k: Annotated[str, typer.Option("--d-k", metavar="32,64", help="Key widths.")] = "64",
    cosine: Annotated[
        str, typer.Option("--query-cosine", metavar="1,0.8", help="Cosines between queries and stored keys.")
    ] = "1",
    others: Annotated[
        list[str],
        typer.Option("--set", metavar="NAME=V,V", help="Values of a setting; as an option too, --beta 4,8."),
    ] = [],  # noqa: B006  (typer reads it)
    quantity: Annotated[
        str, typer.Option(help="capacity, ratio (at every M) or retrieval (right recalls).")
    ] = "capacity",
    memories: Annotated[str | None, typer.Option(metavar="16,1k", help="The M of ratios; 2, 4, ... 8,192.")] = None,
    ratio: Ratio = 1.0,
    max_memories: MaxMemories = None,
    extra: ExtraLaws = [],  # noqa: B006  (typer reads it)
    quick: Annotated[bool, typer.Option("--quick", help="Fewer trials: capacities to about 15 %, not 2 %.")] = False,
    seed: Seed = 0,
    out: Annotated[
        Path | None,
        typer.Option(
            help="Folder for table and chart, kept as it grows: the same again goes on, more stores are added."
        ),
    ] = None,
    workers: Workers = None,
    as_json: Json = False,
) -> None:
    """Compare stores: capacity, ratio or retrieval over widths and settings, with theory, cost and numbers held."""
    from assocmem.lab.compare import compare as compared

    for store in stores:
        if ":" in store:
            with user_code(store):
                made_store(store)
    if out is not None:
        writable(out)
    settings: dict[str, Any] = {name: [parse(text) for text in texts] for name, texts in _swept(others).items()}
    finished = 0

    try:
        with user_code(*stores), progress_bar("comparing", hidden=as_json) as bar:

            def report(done: int, total: int) -> None:
                nonlocal finished
                finished = done
                bar(done, total)

            found = compared(
                stores, _numbers("--d-k", d_k, whole=True), cosine=_numbers("--query-cosine", cosine),
                quantity=quantity,  # type: ignore[arg-type]
                memories=None if memories is None else [_whole(text) for text in memories.split(",")],
                threshold=ratio, largest=max_memories, extras=laws_from(extra), quick=quick, seed=seed, out=out,
                workers=workers, progress=report, **settings,
            )  # fmt: skip
    except KeyboardInterrupt as stop:
        left = (
            f"{finished} new cells are kept in {out}; the same command goes on from there" if out else "nothing is kept"
        )
        raise Stopped(f"stopped by Ctrl-C: {left}{'' if out else ', which --out FOLDER would do'}.") from stop
    print_results(found, as_json=as_json)
    if out is not None and not as_json:
        print(f"Table and chart are in {out}.")


def _swept(others: list[str]) -> dict[str, list[str]]:
    """Return the values of each setting given as NAME=V,V; what begins with a bracket is one value."""
    from assocmem.lab.compare import compare as compared

    found: dict[str, list[str]] = {}
    for text in others:
        name, sign, values = text.partition("=")
        if not sign or not name.strip():
            raise InputError(f"`--set` wants NAME=VALUE or NAME=VALUE,VALUE, such as window=16,32; got {text!r}.")
        whole = values.strip().startswith(("[", "{"))
        name = name.strip().replace("-", "_")
        if name in signature(compared).parameters:
            raise InputError(
                f"`--set` is for settings of stores, and {name} is none; `assocmem compare --help` has it."
            )
        found[name] = [values.strip()] if whole else [v.strip() for v in values.split(",")]
    return found


def _numbers(option: str, text: str, *, whole: bool = False) -> list[Any]:
    found = [parse(part.strip()) for part in text.split(",")]
    if any(isinstance(x, bool) or not isinstance(x, int if whole else int | float) for x in found):
        what = "whole numbers" if whole else "numbers"
        raise InputError(f"`{option}` must be {what} with commas between them; got {text!r}.")
    return found


def _whole(text: str) -> int:
    n = count("--memories", text.strip())
    if n != int(n):
        raise InputError(f"`--memories` must be whole numbers; got {text!r}.")
    return int(n)
