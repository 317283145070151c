"""`capacity` and `measure`: how many memories a store holds, on random keys and on a user's own."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from assocmem.cli.terminal import (
    Cosine,
    ExtraLaws,
    Json,
    MaxMemories,
    Others,
    Ratio,
    Seed,
    StoreName,
    Width,
    Workers,
    called,
    count,
    laws_from,
    made_store,
    print_json,
    print_pairs,
    print_table,
    progress_bar,
    settings_from,
    user_code,
    writable,
    written,
)
from assocmem.contract.columns import meanings
from assocmem.contract.errors import InputError
from assocmem.contract.numbers import interval, number
from assocmem.contract.settings import WithSettings


def capacity(
    store: StoreName,
    others: Others = [],  # noqa: B006  (typer reads it)
    d_k: Width = 64,
    ratio: Ratio = 1.0,
    cosine: Cosine = 1.0,
    sampler: Annotated[str, typer.Option(help="auto, similarities or keys.")] = "auto",
    statistic: Annotated[str | None, typer.Option(help="Of the ratio over trials: rms, mean or median.")] = None,
    max_memories: MaxMemories = None,
    extra: ExtraLaws = [],  # noqa: B006  (typer reads it)
    precision: Annotated[
        float, typer.Option(help="Wanted half-width of the interval, as a share of the capacity.")
    ] = 0.01,
    budget: Annotated[
        float | None, typer.Option(min=0, help="Seconds in which to reach it by keys (without: within a few of them).")
    ] = None,
    seed: Seed = 0,
    workers: Workers = None,
    as_json: Json = False,
) -> None:
    """Give the capacity of a store for random unit keys: theory beside a measurement with its interval."""
    from assocmem.contract.results import setting
    from assocmem.lab.capacity import capacity as measure_capacity

    settings = settings_from(others)
    made = made_store(store, **settings)
    laws, start = laws_from(extra), time.perf_counter()
    if made.traits.extras:
        from assocmem.lab.extras import in_words as extras_in_words
    with user_code(store), progress_bar("measuring", hidden=as_json) as report:
        found = measure_capacity(
            (store, made), d_k, seed=seed, threshold=ratio, cosine=cosine, sampler=sampler, largest=max_memories,
            statistic=statistic,  # type: ignore[arg-type]
            precision=precision, budget=budget, extras=laws, workers=workers, progress=report,
        )  # fmt: skip
        drawn = extras_in_words(made, laws) if made.traits.extras else ""
    row = found.row() | {"theory_exact": None if found.prediction.value is None else found.prediction.exact}
    if as_json:
        words = meanings([row]) | {"statistic": row["definition"], "settings_used": "all of the store's"}
        words["extras_drawn"] = "the laws of what write takes beside keys and values; all others have their default"
        given = {name: setting(value) for name, value in settings.items()}
        used = {name: _plainly(setting, value) for name, value in made.settings().items()}
        print_json({"settings": given, "settings_used": used, "extras_drawn": drawn, **row}, words)
        return
    theory = row["theory_reason"] if row["theory"] is None else number(row["theory"])
    if row["theory_exact"] is False:
        other = found.prediction.statistic
        theory += "  (approximate)" if other == row["statistic"] else f"  (approximate: {other})"
    measured = f"{number(row['value'])}  ({interval(row['low'], row['high'])})" if row["value"] else row["reason"]
    print_pairs(
        {
            "store": store + "".join(f", {k} = {v}" for k, v in settings.items()),
            "settings used": _settings_words(made, d_k),
            "capacity, theory": theory,
            "capacity, measured": measured,
            "counts as failure": f"{row['statistic']} ratio of {ratio:g}, d_k = {d_k}, query cosine {cosine:g}",
            "measured by": f"{row['sampler']}, {row['n_trials']:,} trials at the M with fewest, seed {seed}",
        }
        | ({} if made.traits.permutation_invariant else {"asked for": "pairs at random among all M, old and new alike"})
        | ({"extras": drawn} if drawn else {})
        | ({"note": row["note"]} if row["note"] else {})
        | ({"cost": f"{time.perf_counter() - start:.1f} s, {found.drawn}"} if max_memories and found.drawn else {})
    )


def measure(
    keys: Annotated[
        str,
        typer.Option(
            metavar="FILE",
            help="(n, d), (heads, n, d) or (layers, heads, n, d). "
            ".npy, .npz or .safetensors; FILE:NAME picks an array.",
        ),
    ],
    values: Annotated[str | None, typer.Option(metavar="FILE", help="Values; random ones by default.")] = None,
    queries: Annotated[str | None, typer.Option(metavar="FILE", help="Queries; the stored keys by default.")] = None,
    targets: Annotated[
        str | None, typer.Option(metavar="FILE", help="For each query the row it asks for; or own, or strongest.")
    ] = None,
    causal: Annotated[bool, typer.Option("--causal", help="Queries see no later key.")] = False,
    window: Annotated[int | None, typer.Option(min=1, help="With --causal: the last keys that a query sees.")] = None,
    mask: Annotated[
        str | None, typer.Option(metavar="FILE", help="True where a query sees a key, (..., m, n).")
    ] = None,
    drop: Annotated[str | None, typer.Option(metavar="0,1", help="Positions of keys that count as absent.")] = None,
    gates: Annotated[
        str | None, typer.Option(metavar="FILE", help="Gate rows of a gated MLP, beside its keys.")
    ] = None,
    biases: Annotated[str | None, typer.Option(metavar="FILE", help="A bias for each key, (..., n).")] = None,
    gate_biases: Annotated[str | None, typer.Option(metavar="FILE", help="A bias for each gate row, (..., n).")] = None,
    gain: Annotated[str | None, typer.Option(metavar="FILE", help="The gain (d,) of the norm before the MLP.")] = None,
    transpose: Annotated[
        list[str], typer.Option(help="keys, values or gates: pairs are columns, as in a linear layer's weight.")
    ] = [],  # noqa: B006  (typer reads it)
    names: Annotated[str | None, typer.Option(metavar="A,B", help="Names of the heads; by default places.")] = None,
    stores: Annotated[
        list[str], typer.Option("--store", help="A store's key or MODULE:CLASS; may be given several times.")
    ] = [],  # noqa: B006  (typer reads it)
    beta: Annotated[
        str | None, typer.Option(metavar="8,11,16", help="Sharpness of the stores that have one; several with commas.")
    ] = None,
    centre: Annotated[
        bool, typer.Option("--centre", "--center", help="Also measure the keys minus their mean.")
    ] = False,
    whiten: Annotated[bool, typer.Option("--whiten", help="Also measure the keys whitened.")] = False,
    normalise: Annotated[bool, typer.Option("--normalise", help="Scale keys and queries to length 1.")] = False,
    fit_share: Annotated[
        float, typer.Option(help="Share of the rows that means and whitenings are fitted on, and left out after.")
    ] = 1 / 3,
    ratio: Ratio = 1.0,
    statistic: Annotated[str, typer.Option(help="Of the ratio over queries: median, rms or mean.")] = "median",
    memories: Annotated[
        str | None, typer.Option(metavar="64,1k", help="The M to measure; by default steps of sqrt(2) up to all rows.")
    ] = None,
    max_memories: MaxMemories = None,
    trials: Annotated[int, typer.Option(min=1, help="Random subsets at each M, where stores are sampled.")] = 24,
    asked: Annotated[int, typer.Option(min=1, help="Pairs asked for in each of them.")] = 32,
    extra: ExtraLaws = [],  # noqa: B006  (typer reads it)
    seed: Seed = 0,
    workers: Workers = None,
    out: Annotated[Path | None, typer.Option(help="Folder for the whole curve as CSV and NDJSON.")] = None,
    as_json: Json = False,
) -> None:
    """Measure your own keys: ratio, capacity and geometry, raw and (if asked) centred and whitened."""
    from assocmem.contract.results import Results, header_for
    from assocmem.inputs import read_array, read_matrix, read_targets
    from assocmem.inputs.files import came_as
    from assocmem.lab.measure import measure as measure_keys
    from assocmem.stores import entry

    if queries is not None and targets is None:
        raise InputError("`--queries` and `--targets` go together: a file, own or strongest. What does each ask for?")
    if out is not None:
        writable(out)
    for store in stores:
        if ":" not in store:
            entry(store)  # a key that is none is refused before anything is read
    chosen = [(store, made_store(store)) if ":" in store else store for store in stores] or None
    betas = None if beta is None else _listed("--beta", beta, float)
    dropped = () if drop is None else _listed("--drop", drop, int)
    array = read_matrix(keys, "keys")
    n = array.shape[-1 if "keys" in transpose else -2]
    preparations = ["raw"] + ["centre"] * centre + ["whiten"] * whiten
    rows = {"values": values, "queries": queries, "gates": gates}
    numbers = {"biases": biases, "gate_biases": gate_biases, "gain": gain, "mask": mask}
    files: dict[str, Any] = {name: path and read_matrix(path, name) for name, path in rows.items()}
    files |= {name: path and read_array(path) for name, path in numbers.items()}
    files["targets"] = targets if targets in (None, "own", "strongest") else read_targets(targets, n)
    with user_code(*stores), progress_bar("measuring", hidden=as_json) as report:
        found = measure_keys(
            array, **files, causal=causal, window=window, drop=dropped, beta=betas, transpose=transpose,
            names=None if names is None else names.split(","),
            stores=chosen, preparation=preparations, normalise=normalise, statistic=statistic, trials=trials,  # type: ignore[arg-type]
            asked=asked, fit_share=fit_share, extras=laws_from(extra),
            memories=None if memories is None else [int(count("--memories", part)) for part in memories.split(",")],
            largest=max_memories, threshold=ratio, seed=seed, workers=workers, progress=report, came=came_as(keys),
        )  # fmt: skip
    if out is not None:
        config = {"keys": written(Path(keys).name), "preparations": preparations, "normalise": normalise}
        header = header_for(config=config, seed=seed, definitions=meanings(found.curve)) | {"words": list(found.words)}
        Results("measured", tuple(found.curve), header).write(out)
    heads = found.over_heads()
    if as_json:
        data = {"capacities": found.capacities, "geometry": found.geometry, "curve": found.curve, "over_heads": heads,
                "words": found.words}  # fmt: skip
        print_json(data, meanings([*found.capacities, *found.geometry, *found.curve, *heads]))
        return
    print(f"keys of shape {array.shape}")
    many = len({row["name"] for row in found.capacities}) > SHOWN
    (_print_heads if many else _print_measurement)(found)
    for sentence in [*found.words, _measured_words(found)]:
        print(sentence)
    for note in [] if many else dict.fromkeys(c["note"] for c in found.capacities if c.get("note")):
        print(f"note: {note}")
    if out is not None:
        print(f"The whole curve is in {out / 'measured.csv'}.")


def _plainly(setting: Callable[[Any], Any], value: Any) -> Any:
    """Return a setting in words that JSON knows, a function by its name."""
    return called(value) if callable(value) and not isinstance(value, WithSettings) else setting(value)


def _listed(option: str, text: str, kind: Callable[[str], Any]) -> list[Any]:
    """Return the numbers of a list with commas."""
    try:
        return [kind(part) for part in text.split(",") if part.strip()]
    except ValueError:
        raise InputError(f"`{option}` must be numbers with commas, such as 8,11; got {text!r}.") from None


def _settings_words(store: Any, d_k: int) -> str:
    """Return all settings that a store has, given or not, and what its sharpness comes to where it is a number."""
    from assocmem.cli.describe import trait_words
    from assocmem.contract.traits import Traits
    from assocmem.lab.plan import labelled

    def in_words(value: Any) -> str:  # as it would be written, without what was left open
        if isinstance(value, Traits):
            return "(" + "; ".join(f"{what}: {said}" for what, said in list(trait_words(value).items())[:3]) + ")"
        if isinstance(value, WithSettings):
            own = value.settings()
            told = ", ".join(f"{name}={x!r}" for name, x in own.items() if x is not None)
            return type(value).__name__ + (f"({told})" if told else "")
        return called(value) if callable(value) else repr(value)

    words = [f"{name} = {in_words(value)}" for name, value in store.settings().items() if value is not None]
    one = labelled(store)
    beta = None if one.changes_with_n(d_k) else one.beta(d_k, 1)
    return ", ".join(words + ([] if beta is None else [f"beta = {beta:.4g}"])) or "none"


SHOWN = 6
"""Heads that are shown one by one; of more, the spread over them."""


def _print_measurement(found: Any) -> None:
    """Print the geometry and the capacities of every head."""
    heads = len({row["name"] for row in found.capacities}) > 1

    def used(row: dict[str, Any]) -> str:
        dropped = row["columns_dropped"]
        return f"{row['d_k']}" + (f" ({dropped} constant, left out)" if dropped else "")

    columns = ["head"] * heads + ["keys", "rows", "columns used", "effective dimension", "mean cosine", "shared mean"]
    print_table(
        columns,
        [
            [g["name"]] * heads
            + [g["preparation"], f"{g['n_rows']:,}", used(g), number(g["effective_dimension"]),
               number(g["mean_cosine"]), "–" if g["shared_mean_share"] is None else f"{g['shared_mean_share']:.1%}"]
            for g in found.geometry
        ],
        numeric=columns,
    )  # fmt: skip
    columns = ["head"] * heads + ["keys", "store", "capacity", "10 to 90 % of queries", "by rms", "95 % interval",
                                  "right choices"]  # fmt: skip
    print_table(
        columns,
        [
            [c["name"]] * heads
            + [c["preparation"], _label(c), number(c["value"]) if c["value"] else c["reason"],
               _queries(c), number(c["rms"]),
               "exact" if c["sampler"] == "exact" else interval(c["low"], c["high"]),
               "–" if c.get("right_there") is None else f"{c['right_there']:.0%}"]
            for c in found.capacities
        ],
        numeric=columns[-4:],
    )  # fmt: skip


def _print_heads(found: Any) -> None:
    """Print what many heads have in common: quantiles over them, and the worst by name."""
    dimensions: dict[str, list[float]] = {}
    for g in found.geometry:
        dimensions.setdefault(g["preparation"], []).append(g["effective_dimension"] or math.inf)
    for kind, numbers in dimensions.items():
        middle = sorted(numbers)[len(numbers) // 2]
        print(f"{kind} keys: effective dimension from {number(min(numbers))} to {number(max(numbers))}, "
              f"median head {number(middle)}")  # fmt: skip
    columns = ["keys", "store", "heads", "capacity of the median head", "10 % of heads below", "90 % below", "worst"]
    print_table(
        columns,
        [[*(r[name] for name in ("preparation", "label")), str(r["heads"]),
          *(number(r[name]) for name in ("value", "p10", "p90")), r["worst"]] for r in found.over_heads()],
        numeric=columns[2:-1],
    )  # fmt: skip


def _label(row: dict[str, Any]) -> str:
    plain = row["beta"] is None or "beta" in row["label"]
    return str(row["label"]) if plain else f"{row['label']}, beta {row['beta']:.4g}"


def _queries(row: dict[str, Any]) -> str:
    """Return the capacities that 10 % and 90 % of queries have reached, open where they were not measured."""
    if row["p10"] is None and row["p90"] is None:
        return "–"
    return f"{'< 2' if row['p10'] is None else number(row['p10'])} to {_end(row)}"


def _end(row: dict[str, Any]) -> str:
    return f"> {number(row['largest_m'])}" if row["p90"] is None else number(row["p90"])


def _measured_words(found: Any) -> str:
    """Return what the columns of both tables mean, with the numbers that hold for all rows."""
    largest = {row["largest_m"] for row in found.capacities if "largest_m" in row}
    end = f" ({max(largest):,.0f})" if len(largest) == 1 else ""
    ratios = {(row["statistic"], row["threshold"], row["sampler"] == "exact") for row in found.capacities
              if "threshold" in row}  # fmt: skip
    reached = " or ".join(
        f"{threshold:g} ({statistic} over {'queries' if exact else 'trials'})"
        for statistic, threshold, exact in sorted(ratios)
    )
    read = {row["estimator"] for row in found.curve}
    values = {"weights": "random values, root mean square over them", "vectors": "the values given",
              "projection": "random values, by projection"}  # fmt: skip
    return (
        "Capacity: the M, the pair asked for counted, at which the length of the interference over that of the signal "
        f"reaches {reached or 'what was asked'}; {' or '.join(values[name] for name in sorted(read)) or 'no values'}. "
        "Exact numbers are over all subsets of these rows. Right choices: recalls whose largest inner product is with "
        f"the right one of all M values, at the largest M measured{end}. Effective dimension: 1 / E cos² "
        "of two different keys, which is the width of uniform random keys that overlap as much. Shared mean: "
        "||mean||² over mean ||key||². σ: what a store makes of an inner product, for softmax exp(beta k.x)."
    )
