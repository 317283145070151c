"""Compression: what a trained network's caches lose when a share of them is kept."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from assocmem.compressors import (
    AttentionMatching,
    CaM,
    Compressor,
    HeavyHitters,
    KVzip,
    RandomRows,
    RecencyWindow,
    SinksAndWindow,
    compare,
    split,
)
from assocmem.contract.results import Row
from assocmem.experiments.experiment import Experiment, Outcome, Run
from assocmem.experiments.trained import facts_of, steps, trace_of

CONTEXT, LATER = 384, 160
LAYERS = (2, 8, 14, 20, 26)
SHARES = (0.05, 0.1, 0.2, 0.4, 0.7)
COMPRESSORS: dict[str, Compressor] = {
    "recency window": RecencyWindow(), "sinks and window": SinksAndWindow(), "random rows": RandomRows(),
    "heavy hitters": HeavyHitters(), "KVzip": KVzip(), "CaM": CaM(), "attention matching": AttentionMatching(),
}  # fmt: skip
COLOURS = dict(
    zip(COMPRESSORS, ("#8A8A8A", "#56B4E9", "#BBBBBB", "#E69F00", "#0072B2", "#009E73", "#D55E00"), strict=True)
)
WHOLE = "whole cache"
ERROR, WORST, RATIO = "error", "error, 90 %", "ratio"


def _answer(run: Run) -> Outcome:
    context, later = run.fewer(CONTEXT, 24), run.fewer(LATER, 12)
    trace = trace_of(run, context + later)
    layers = [layer for layer in LAYERS if layer < len(trace.layers)] or [0]
    layers, shares = (layers[:1], SHARES[2:3]) if run.quick else (layers, SHARES)
    found: list[Row] = []
    with steps(run, len(layers)) as done:
        for layer in layers:
            cache, held_out = split(trace.layers[layer], context)
            found += [{**row, "layer": layer} for row in compare(cache, held_out, COMPRESSORS, shares).rows]
            done()
    rows = list(_rows(run, found, shares))
    view = {
        "kind": "panels", "x": "kept", "x_title": "share of the cache that is kept", "join": True,
        "order": [*COMPRESSORS, WHOLE], "colours": {**COLOURS, WHOLE: "#222222"}, "x_values": list(shares),
        "panels": [
            {"where": {"quantity": ERROR}, "y_title": "error of the median query"},
            {"where": {"quantity": WORST}, "y_title": "of nine in ten below"},
            {"where": {"quantity": RATIO}, "y_title": "interference / signal"},
        ],
    }  # fmt: skip
    words = {
        "label": "the compressor, or the whole cache",
        "kept": "rows held, as a share of the cache's",
        "value": "by `quantity`, mean over layers: error, distance of what the smaller cache recalls from what the "
        "whole one does over the length of that, of the median held-out query of a layer; error, 90 %, of the query "
        "that 90 % do better than; ratio, interference-to-signal ratio of the strongest row among those held, of the "
        "median query",
        "low": "the same of the layer where it is smallest", "high": "of the layer where it is largest",
    }  # fmt: skip
    config = {**facts_of(run), "context": context, "later": later, "layers": list(layers)}
    return Outcome(rows, view, _caption(rows, context, layers, shares), config, words)


def _rows(run: Run, found: Sequence[Row], shares: Sequence[float]) -> list[Row]:
    def over(mine: Sequence[Row], column: str, label: str, quantity: str, kept: float) -> Row:
        numbers = [row[column] for row in mine]
        return {"experiment": run.experiment, "label": label, "kept": kept, "quantity": quantity,
                "value": float(np.mean(numbers)), "low": min(numbers), "high": max(numbers), "n_trials": len(numbers),
                "sampler": "exact"}  # fmt: skip

    rows = []
    each = len(COMPRESSORS) * len(shares)
    for at, share in enumerate(shares):
        for i, label in enumerate(COMPRESSORS):
            mine = found[at * len(COMPRESSORS) + i :: each]
            for quantity, column in ((ERROR, "error"), (WORST, "error_p90"), (RATIO, "ratio")):
                rows.append(over(mine, column, label, quantity, share))
        rows.append(over(found[::each], "ratio_whole", WHOLE, RATIO, share))
    return rows


def _caption(rows: Sequence[Row], context: int, layers: Sequence[int], shares: Sequence[float]) -> str:
    share = min(shares, key=lambda kept: abs(kept - 0.2))

    def at(quantity: str) -> list[str]:
        mine = sorted((r for r in rows if (r["quantity"], r["kept"]) == (quantity, share)), key=lambda r: r["value"])
        return [f"{r['label']} {r['value']:.2g}" for r in mine]

    return (
        f"Keys and values of the first {context:,} tokens of Genesis in layers {', '.join(map(str, layers))}; later "
        f"queries ask, every second of which the compressors see and the others judge. With {share:.0%} kept the "
        f"median query is off by {', '.join(at(ERROR))}. Interference over signal: {', '.join(at(RATIO))}: where rows "
        "are left out the others interfere less, though what comes back may be wrong. Points are means over the "
        "layers, bars the smallest and largest of them."
    )


EXPERIMENT = Experiment(
    "compression", 42, "Smaller caches of a trained network", "What is lost when a share of a context is kept?",
    _answer, trained=True,
)  # fmt: skip
