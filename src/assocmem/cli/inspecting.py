"""`inspect`: a trained network opened, its heads, MLPs and embedding as memories on one screen."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer

from assocmem.cli.terminal import (
    Json,
    Stopped,
    Workers,
    count,
    print_json,
    print_pairs,
    print_table,
    progress_bar,
    writable,
)
from assocmem.contract.errors import InputError, MissingExtraError
from assocmem.contract.numbers import number

if TYPE_CHECKING:
    from assocmem.lab.heads import Heads
    from assocmem.lab.opened import Model

WHAT = ("attention", "mlp", "embedding")
TOKENS = 64
"""Random tokens that a network without tokeniser reads where it is given no text."""
SAMPLE = (
    "A memory holds pairs of keys and values. Asked with a key it gives back the value, and with it a little of every "
    "other value, because no two keys are quite apart. The more it holds, the louder the others grow, until the one "
    "that was asked for drowns. Attention asks of every word what goes with it: the name of a river, the year of "
    "a war, the sense of a pronoun. Some heads look one word back, some look for a word that was seen before, and many "
    "rest on the first word and do nothing at all. How many words could such a head tell apart?"
)


def inspect(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="A Hugging Face folder, .safetensors or .gguf file.")],
    text: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="A text; or .npy: tokens' numbers, or pixels (3, h, w). Default: a sample."),
    ] = None,
    tokens: Annotated[int | None, typer.Option(min=2, help="Read only so many of the first tokens.")] = None,
    layers: Annotated[str | None, typer.Option(metavar="8:12", help="These layers only: 3, or 8:12 (8 to 11).")] = None,
    what: Annotated[str | None, typer.Option(help="attention, mlp, embedding; several with commas.")] = None,
    contexts: Annotated[str, typer.Option(help="Numbers of keys that heads might serve; k is 1,024.")] = "4k,32k,128k",
    target: Annotated[str, typer.Option(help="The key a query asks for: strongest, own or next.")] = "strongest",
    drop: Annotated[str | None, typer.Option(metavar="0,1", help="Keys left out; default: key 0 where causal.")] = None,
    head: Annotated[str | None, typer.Option(metavar="10.4", help="One head in depth: LAYER.HEAD.")] = None,
    mlp: Annotated[int | None, typer.Option(min=0, help="One layer's MLP in depth.")] = None,
    out: Annotated[
        Path | None, typer.Option(help="Folder for heads.csv, contexts.csv and a page of all heads.")
    ] = None,
    workers: Workers = None,
    as_json: Json = False,
) -> None:
    """Open a trained model and see what its layers hold: heads, MLPs and embedding as memories."""
    from assocmem.lab.heads import COLUMNS, heads_of_trace
    from assocmem.lab.longer_texts import CONTEXT_COLUMNS
    from assocmem.lab.mlps import COLUMNS as MLP_COLUMNS
    from assocmem.lab.mlps import strongest_rows
    from assocmem.lab.opened import open_model

    opened = open_model(model)
    wanted = _wanted(what, head, mlp)
    chosen = _layers(layers, head, mlp, opened.n_layers)
    memories = [_memories(part.strip()) for part in contexts.split(",")]
    if out is not None:
        writable(out)
    read, note = _read(opened, text)
    facts = _facts(opened) | ({"note": note} if note else {})
    found: dict[str, Any] = {"model": facts}
    definitions: dict[str, str] = {}
    trace, heads = None, None
    if "attention" in wanted:
        try:
            with progress_bar("loading and reading", hidden=as_json):
                trace = opened.captured(read, length=tokens, mlp=[] if mlp is None else [mlp])
        except MissingExtraError as error:
            if what is not None or head is not None:
                raise
            facts["attention"] = str(error)
    if trace is not None:
        heads = heads_of_trace(trace, drop=_positions(drop), target=target, layers=chosen)
        found |= _attention(heads, memories, head, model.name, out, workers, as_json)
        definitions |= COLUMNS | CONTEXT_COLUMNS
    if "mlp" in wanted:
        inputs = None if trace is None or mlp is None else trace.inputs[mlp]
        found["mlp"] = _mlps(opened, chosen if mlp is None else [mlp], inputs, as_json)
        if trace is not None and mlp is not None:
            embedding = opened.embedding if opened.network.kind.embedding else None
            found["rows"] = strongest_rows(opened.mlp(mlp), inputs, trace.tokens, embedding)
        definitions |= MLP_COLUMNS
    if "embedding" in wanted and opened.network.kind.embedding:
        found["embedding"] = _embedding(opened)
    if as_json:
        print_json(found, definitions)
    else:
        _print(found, memories, out)


def _wanted(what: str | None, head: str | None, mlp: int | None) -> Sequence[str]:
    if head is not None or mlp is not None:
        return ["attention"] + ["mlp"] * (mlp is not None)
    named = list(WHAT) if what is None else [part.strip() for part in what.split(",")]
    wrong = [part for part in named if part not in WHAT]
    if wrong:
        raise InputError(f"`--what` must be among {', '.join(WHAT)}; got {wrong[0]!r}.")
    return named


def _memories(text: str) -> float:
    """Return a number of keys; as lengths of contexts are counted, k is 1,024."""
    if text[-1:].lower() != "k":
        return count("--contexts", text)
    return 1024 * count("--contexts", text[:-1])


def _layers(text: str | None, head: str | None, mlp: int | None, n: int) -> list[int]:
    """Return the layers that are meant by 3, 8:12, or by LAYER.HEAD."""
    if head is not None or mlp is not None:
        layer = str(mlp) if head is None else head.partition(".")[0]
        if not layer.isdigit() or not int(layer) < n or (head is not None and not head.partition(".")[2].isdigit()):
            raise InputError(
                f"`--head` must be LAYER.HEAD, such as 3.0, with a layer in [0, {n}); got {head or mlp!r}."
            )
        return [int(layer)]
    first, colon, last = (text or ":").partition(":")
    ends = [first or "0", last or str(n)] if colon else [first, str(int(first) + 1) if first.isdigit() else ""]
    if not all(end.isdigit() for end in ends) or not 0 <= int(ends[0]) < int(ends[1]) <= n:
        raise InputError(
            f"`--layers` must be a layer or FIRST:END within 0:{n}, the layers of the model; got {text!r}."
        )
    return list(range(int(ends[0]), int(ends[1])))


def _read(opened: Model, text: Path | None) -> tuple[Any, str]:
    """Return what the network reads, and a note where it is none of the user's."""
    from assocmem.inputs import read_array

    if text is not None and text.suffix == ".npy":
        return read_array(text), ""
    if text is not None:
        try:
            return text.read_text(encoding="utf-8"), ""
        except OSError as error:
            raise InputError(f"cannot read {text}: {error.strerror or error}.") from error
        except UnicodeDecodeError as error:
            raise InputError(f"{text} is no text in UTF-8.") from error
    settings, rng = opened.network.checkpoint.settings, np.random.default_rng(0)
    if not opened.network.kind.embedding:
        side = int(settings.get("image_size", 224))
        return rng.standard_normal((int(settings.get("num_channels", 3)), side, side)), "it sees an image of noise"
    if opened.network.checkpoint.vocabulary:
        return SAMPLE, "it reads a sample text; give one with --text"
    size = min(TOKENS, opened.network.context or TOKENS)
    return rng.integers(0, len(opened.embedding.rows), size), f"it has no tokeniser and reads {size} random tokens"


def _positions(text: str | None) -> list[int] | None:
    try:
        return None if text is None else [int(part) for part in text.split(",") if part.strip()]
    except ValueError:
        raise InputError(f"`--drop` must be positions such as 0,1; got {text!r}.") from None


def _attention(
    heads: Heads, memories: Sequence[float], one: str | None, name: str, out: Path | None, workers: int | None,
    quiet: bool,
) -> dict[str, Any]:  # fmt: skip
    """Return the rows of the heads, and write them with their page where a folder is given."""
    if one is not None:
        layer, number_ = (int(part) for part in one.split("."))
        chosen = heads.head(layer, number_)
    try:
        with progress_bar("measuring heads", hidden=quiet) as report:
            table = heads.results(workers=workers, progress=report)
        with progress_bar("longer texts", hidden=quiet) as report:
            longer = heads.contexts(memories, workers=workers, progress=report)
    except KeyboardInterrupt:
        if out is None:
            raise
        done = heads.kept()
        done.write(out, ("csv",))
        raise Stopped(f"stopped by Ctrl-C: {len(done.rows)} heads are in {out / 'heads.csv'}.") from None
    found: dict[str, Any] = {"notes": heads.notes, "heads": table.rows, "contexts": longer.rows}
    if one is not None:
        found |= {
            "head": chosen.report(), "collisions": chosen.collisions().to_dicts(),
            "heads": table.where(layer=layer, head=number_).rows,
            "contexts": longer.where(layer=layer, head=number_).rows,
        }  # fmt: skip
    if out is not None:
        from assocmem.report.heads import write_heads_page

        with progress_bar("page", hidden=quiet) as report:
            details = heads.details(workers=workers, progress=report)
        table.write(out, ("csv",))
        longer.write(out, ("csv",))
        write_heads_page(out / "heads.html", table, longer, details, title=f"The heads of {name}", tokens=heads.tokens)
    return found


def _mlps(opened: Model, layers: Sequence[int], inputs: Any, quiet: bool) -> list[dict[str, Any]]:
    from assocmem.lab.mlps import measure_mlp

    rows = []
    with progress_bar("measuring MLPs", hidden=quiet) as report:
        for done, layer in enumerate(layers, 1):
            rows.append(measure_mlp(opened.mlp(layer), inputs))
            report(done, len(layers))
    return rows


def _embedding(opened: Model) -> dict[str, Any]:
    from dataclasses import asdict

    from assocmem.ruler import key_geometry

    embedding = opened.embedding
    return {"tied": embedding.tied, "stored": embedding.stored, **asdict(key_geometry(embedding.rows))}


def _facts(opened: Model) -> dict[str, Any]:
    network = opened.network
    facts = {
        "architecture": network.checkpoint.architecture,
        "layers": f"{network.n_layers} of width {network.width}",
        "heads": f"{network.n_heads} on {network.n_key_heads} key stores of width {network.head_width}",
        "MLP rows": f"{network.hidden:,}",
        "context": "not said" if network.context is None else f"{network.context:,}",
    }
    return facts | ({"weights": network.note} if network.note else {})


def _print(found: dict[str, Any], memories: Sequence[float], out: Path | None) -> None:
    from assocmem.lab.mlps import mlp_words

    print_pairs({name: str(text) for name, text in found["model"].items()})
    if "head" in found:
        print(f"\n{found['head']}")
        _print_contexts(found["contexts"])
        _print_collisions(found["collisions"])
    elif "heads" in found and "rows" not in found:
        _print_layers(found, memories)
    if "rows" in found:
        print(f"\n{mlp_words(found['mlp'][0])}")
        print_table(
            ["row", "share", "is triggered by", "says"],
            [[str(r["row"]), f"{r['share']:.1%}", " | ".join(map(repr, r["triggers"])), " ".join(map(repr, r["says"]))]
             for r in found["rows"]], title="Rows that add most", numeric=["row", "share"],
        )  # fmt: skip
    elif "mlp" in found:
        _print_mlps(found["mlp"])
    if "embedding" in found:
        e = found["embedding"]
        print(
            f"Embedding: {e['n']:,} tokens of width {e['d']}, which overlap like random ones of width "
            f"{number(e['effective_dimension'])}; {'tied to' if e['tied'] else 'apart from'} the output."
        )
    for note in found.get("notes", ()):
        print(f"Note: {note}.")
    if out is not None and "heads" in found:
        print(f"Every head is in {out / 'heads.csv'}, and on the page {out / 'heads.html'}.")


def _print_layers(found: dict[str, Any], memories: Sequence[float]) -> None:
    """Print a row a layer: the median head and the worst."""
    rows = []
    for layer in dict.fromkeys(row["layer"] for row in found["heads"]):
        heads = [row for row in found["heads"] if row["layer"] == layer]
        worst = min(heads, key=lambda row: _high(row["capacity"]))
        needed = [[row["factor"] for row in found["contexts"] if row["layer"] == layer and row["n_memories"] == m
                   and row["rule"] == "needed"] for m in memories]  # fmt: skip
        rows.append([
            str(layer), number(_median(heads, "ratio")), number(_median(heads, "capacity")),
            f"{number(worst['capacity'])} ({worst['head']})", f"{_median(heads, 'past_capacity'):.0%}",
            f"{_median(heads, 'sink_mass'):.0%}", number(_median(heads, "effective_dimension")),
            *(number(statistics.median(map(_high, factors))) for factors in needed),
        ])  # fmt: skip
    columns = ["layer", "ratio", "capacity", "worst head", "past it", "sink", "eff. d", *(_short(m) for m in memories)]
    print_table(columns, rows, title="Heads: median of each layer, and the factor on logits that M keys need",
                numeric=columns)  # fmt: skip


def _print_contexts(rows: Sequence[dict[str, Any]]) -> None:
    print_table(
        ["keys", "rule", "factor", "ratio", "random keys"],
        [[number(r["n_memories"]), r["rule"], number(r["factor"]), number(r["ratio"]), number(r["random_keys"])]
         for r in rows], title="Longer texts", numeric=["keys", "factor", "ratio", "random keys"],
    )  # fmt: skip


def _print_collisions(rows: Sequence[dict[str, Any]]) -> None:
    print_table(
        ["query", "asks for", "meets", "weight"],
        [[*(f"{r[name]} {r[name + '_token']!r}" for name in ("query", "asks", "meets")), number(r["weight"])]
         for r in rows], title="Strongest interference", numeric=["weight"],
    )  # fmt: skip


def _print_mlps(rows: Sequence[dict[str, Any]]) -> None:
    columns = ["layer", "rows", "recalled", "ratio", "own values", "eff. d", "gates"]
    print_table(
        columns,
        [[str(r["layer"]), str(r["rows"]), f"{r['recalled']:.1%}", number(r["ratio"]), number(r["ratio_values"]),
          number(r["effective_dimension"]), number(r["gate_dimension"])] for r in rows],
        title="MLPs: rows asked by their own direction", numeric=columns,
    )  # fmt: skip


def _median(rows: Sequence[dict[str, Any]], name: str) -> float:
    return statistics.median(_high(row[name]) for row in rows)


def _high(value: float | None) -> float:
    return float("inf") if value is None else float(value)


def _short(m: float) -> str:
    return f"{m / 1024:g}k" if m >= 1024 and m % 1024 == 0 else f"{m:g}"
