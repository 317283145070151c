"""`edit`: facts put into a trained language model, and a table of how each of them fares."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from assocmem.cli.terminal import Json, print_json, print_pairs, print_table, progress_bar, writable
from assocmem.contract.errors import InputError
from assocmem.contract.numbers import number


def edit(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="A Hugging Face folder, .safetensors or .gguf file.")],
    facts: Annotated[
        Path,
        typer.Option(metavar="F.csv", help="Columns prompt, subject, target; also paraphrases, neighbours (a | b)."),
    ],
    method: Annotated[
        Literal["rome", "memit", "delta", "sparse"], typer.Option(help="How facts are written.")
    ] = "rome",
    layer: Annotated[
        int | None,
        typer.Option(min=0, help="Layer of the MLP; for memit the last of five. Default: a quarter of the way up."),
    ] = None,
    background: Annotated[
        Path | None, typer.Option(metavar="FILE", help="A text that shall stay. Default: what the model itself says.")
    ] = None,
    weight: Annotated[float, typer.Option(min=0, help="memit: pairs that the second moment counts for.")] = 15000.0,
    seed: Annotated[int, typer.Option(min=0, help="Of what is sampled.")] = 0,
    out: Annotated[Path | None, typer.Option(help="New folder for the edited checkpoint and edits.csv.")] = None,
    as_json: Json = False,
) -> None:
    """Edit facts into a trained language model; each is judged after its own edit and after all of them."""
    from assocmem.editors.facts import read_facts
    from assocmem.editors.language_model import COLUMNS, edit_facts
    from assocmem.models import open_network
    from assocmem.models.tracing import load_live

    wanted = read_facts(facts)
    open_network(model)  # a file that is none is refused before anything is made
    if out is not None:
        writable(out)
        if out.is_dir() and any(out.iterdir()):
            raise InputError(f"`--out` must be a new or an empty folder; {out} is there already.")
    texts = None if background is None else _paragraphs(background)
    with progress_bar("loading", hidden=as_json):
        live = load_live(model, head=True)
    with progress_bar("editing", hidden=as_json) as report:
        edited = edit_facts(
            live, wanted, method, layer=layer, background=texts, weight=weight, seed=seed,
            progress=report,
        )  # fmt: skip
    if out is not None:
        edited.save(out)
        edited.results.write(out, ("csv",))
    if as_json:
        found = {"rows": edited.results.rows, "capacity": edited.capacity, "notes": edited.notes}
        print_json(found, COLUMNS)
        return
    _print(edited.results.rows, edited.capacity)
    for note in edited.notes:
        print(f"Note: {note}.")
    if out is not None:
        print(f"The edited checkpoint and edits.csv are in {out}.")


def _paragraphs(file: Path) -> list[str]:
    try:
        return [part for part in file.read_text(encoding="utf-8").split("\n\n") if part.strip()]
    except OSError as error:
        raise InputError(f"cannot read {file}: {error.strerror or error}.") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{file} is no text in UTF-8.") from error


def _print(rows: Sequence[dict[str, Any]], capacity: float) -> None:
    """Print a row a fact, and what came of them together."""
    columns = ["fact", "p before", "p own", "p all", "greedy", "paraphrases", "neighbours", "crosstalk", "predicted"]
    last = [row for row in rows if row["when"] == "all"]
    lines = []
    for row in last:
        before, own = (next(r for r in rows if r["when"] == w and r["fact"] == row["fact"]) for w in ("before", "own"))
        lines.append([
            f"{row['subject']}: {row['target']}", *(number(r["probability"]) for r in (before, own, row)),
            "yes" if row["greedy"] else "no", *(_share(row[x]) for x in ("paraphrase_greedy", "neighbours_kept")),
            *("" if row[x] is None else number(row[x]) for x in ("crosstalk_measured", "crosstalk_predicted")),
        ])  # fmt: skip
    print_table(columns, lines, title=f"{last[0]['method']}, layer {last[0]['layer']}", numeric=columns[1:])
    print_pairs({
        "said after all edits": f"{sum(row['greedy'] for row in last)} of {len(last)}, always the likeliest token",
        "change of the matrices": f"{last[0]['change']:.2%} of their norm",
        "edits that fit": "not said by one" if capacity != capacity else f"about {number(capacity)}",
    })  # fmt: skip


def _share(x: float | None) -> str:
    return "" if x is None else f"{x:.0%}"
