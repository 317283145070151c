"""Recall against state size: the retrieval capacity of every registered store, without training."""

from collections.abc import Sequence

from assocmem import stores
from assocmem.contract.results import Row
from assocmem.experiments.experiment import Experiment, Outcome, Run
from assocmem.lab.retrieval import MeasuredRetrieval, retrieval_capacities, state_growth
from assocmem.stores import entry

WIDTHS = (16, 32, 64, 128)
SHOWN = (16, 64, 256, 1024)
GREYS = ("#cfcfcf", "#b0b0b0", "#8f8f8f", "#6f6f6f")
SHARE = 0.95


def _answer(run: Run) -> Outcome:
    widths = WIDTHS[: run.fewer(len(WIDTHS), 1)]
    keys = list(stores.names())
    if run.quick:
        keys = ["outer-product", "optimal-linear", "delta-net", "mamba-2", "softmax"]
    found = retrieval_capacities(
        keys, widths, share=SHARE, recalls=run.fewer(512, 256), largest=run.fewer(0, 64) or None, **run.lab
    )
    kept = [one for one in found if one.one.store.traits.keeps_pairs]
    fixed = [one for one in found if not one.one.store.traits.keeps_pairs]
    rows: list[Row] = [_row(one.row(), one) for one in found]
    rows += [_row(row, one) for one in kept for row in one.held() if row["n_memories"] in SHOWN]
    lines = [_line(d) for d in widths]
    drawn = {row["label"] for row in rows if row["value"] is not None}
    series = [label for label in dict.fromkeys(one.one.label for one in fixed) if label in drawn]
    view = {
        "kind": "curves", "x": "state_numbers", "x_title": "numbers in the state",
        "y_title": f"memories M with {SHARE:.0%} right recalls", "order": [*series, *lines],
        "colours": {key: entry(key).colour for key in series} | dict(zip(lines, GREYS, strict=False)), "join": True,
    }  # fmt: skip
    return Outcome(rows, view, _caption(found, widths), {"widths": widths, "share": SHARE, "stores": keys})


def _line(d: int) -> str:
    return f"pairs kept, d_k = {d}"


def _row(row: Row, one: MeasuredRetrieval) -> Row:
    label = _line(one.d_k) if one.one.store.traits.keeps_pairs else row["label"]
    return {"experiment": "recall-vs-state", **row, "label": label}


def _caption(found: Sequence[MeasuredRetrieval], widths: Sequence[int]) -> str:
    d = 64 if 64 in widths else max(widths)
    here = [one.row() for one in found if one.d_k == d and not one.one.store.traits.keeps_pairs]
    known = sorted((row for row in here if row["value"]), key=lambda row: -row["value"])
    table = "; ".join(f"{row['label']} {row['value']:.0f} ({row['state_numbers']:,})" for row in known)
    words = [
        f"Retrieval capacity: the largest M at which {SHARE:.0%} of recalls have their largest inner product with the "
        "right one of all M values (of length one); nothing is trained, and old pairs are asked for as often as new "
        f"ones. Points of one colour differ in d_k = d_v ({', '.join(map(str, widths))}). At d_k = {d}, memories "
        f"(state numbers): {table}."
    ]
    least = [row["label"] for row in here if row["value"] is None]
    if least:
        words.append(f"Not even two pairs: {', '.join(least)}.")
    slopes = [
        (one.label, state_growth([f for f in found if f.one == one]))
        for one in dict.fromkeys(f.one for f in found if not f.one.store.traits.keeps_pairs)
    ]
    said = [f"{label} {slope:.2f}" for label, slope in slopes if slope is not None]
    if said:
        words.append(f"Exponents of capacity against state numbers: {', '.join(said)}.")
    words.append(
        "Grey: stores that keep their pairs, M (d_k + d_v) numbers for M memories; a point stands where one of them "
        "still chooses well enough, or ends."
    )
    return " ".join(words)


EXPERIMENT = Experiment(
    "recall-vs-state", 24, "Recall against state size",
    "How many memories can each store tell apart, for the numbers it holds?", _answer, scripted=True,
)  # fmt: skip
