"""Real heads: how many keys of a text a trained network's attention tells apart, layer by layer."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

from assocmem.contract.results import Row
from assocmem.experiments.experiment import Experiment, Outcome, Run
from assocmem.experiments.trained import facts_of, trace_of
from assocmem.lab.heads import COLUMNS, heads_of_trace

TOKENS = 600
MEMORIES = (4096, 32768, 131072)
CAPACITY, SINK, WIDTH, FACTOR = "capacity", "sink mass", "effective dimension", "logit factor"
COLOURS = {"median head": "#0072B2", "90 % of heads below": "#9CC6E3", "10 % of heads below": "#D55E00",
           "4,096 keys": "#B7D7A8", "32,768 keys": "#5E9E4A", "131,072 keys": "#2C5E1A"}  # fmt: skip


def _answer(run: Run) -> Outcome:
    tokens = run.fewer(TOKENS, 48)
    heads = heads_of_trace(trace_of(run, tokens), layers=range(2) if run.quick else None)
    table = heads.results(workers=run.workers, progress=run.part(0, 2).progress).rows
    longer = heads.contexts(MEMORIES, workers=run.workers, progress=run.part(1, 2).progress).rows
    rows: list[Row] = []
    for layer in dict.fromkeys(row["layer"] for row in table):
        mine = [row for row in table if row["layer"] == layer]
        for quantity, column in ((CAPACITY, "capacity"), (SINK, "sink_mass"), (WIDTH, "effective_dimension")):
            for label, value in zip(list(COLOURS)[:3], _spread([row[column] for row in mine]), strict=True):
                rows.append(_row(run, layer, label, quantity, value))
        for m in MEMORIES:
            needed = [row["factor"] for row in longer
                      if (row["layer"], row["n_memories"], row["rule"]) == (layer, m, "needed")]  # fmt: skip
            rows.append(_row(run, layer, f"{m:,} keys", FACTOR, _spread(needed)[0]))
    panels = [
        {"where": {"quantity": CAPACITY}, "y_title": "capacity (keys)", "rule": tokens - 1.0,
         "rule_text": "keys there"},
        {"where": {"quantity": FACTOR}, "y_title": "factor on logits that M keys need", "rule": 1.0,
         "rule_text": "as is"},
        {"where": {"quantity": SINK}, "y_title": "weight on the first token", "y_log": False, "y_domain": (0, 1)},
        {"where": {"quantity": WIDTH}, "y_title": "effective dimension"},
    ]  # fmt: skip
    view = {"kind": "panels", "x": "layer", "x_title": "layer", "x_log": False, "join": True, "panels": panels,
            "order": list(COLOURS), "colours": COLOURS, "height": 180}  # fmt: skip
    words = {
        "value": f"by `quantity`: capacity, {COLUMNS['capacity']} ({COLUMNS['ratio']}); sink mass, "
        f"{COLUMNS['sink_mass']}; effective dimension, {COLUMNS['effective_dimension']}; logit factor, by which logits "
        "must be multiplied for the median query to serve the M keys of the label",
        "label": "of the layer's heads: the median one, and those that a tenth of them is beyond",
    }
    config = {**facts_of(run), "tokens": tokens, "notes": list(heads.notes)}
    return Outcome(rows, view, _caption(table, longer, tokens), config, words)


def _row(run: Run, layer: int, label: str, quantity: str, value: float | None) -> Row:
    return {"experiment": run.experiment, "label": label, "layer": layer, "quantity": quantity, "value": value,
            "statistic": "exact over the queries of this text", "sampler": "exact"}  # fmt: skip


def _spread(found: Sequence[float | None]) -> tuple[float | None, float | None, float | None]:
    """Return the median, and what 10 % are above and below; None stands for infinity."""
    numbers = sorted(math.inf if x is None else float(x) for x in found)
    last = len(numbers) - 1
    ends = (statistics.median_low(numbers), numbers[last - round(last / 10)], numbers[round(last / 10)])
    return tuple(None if math.isinf(x) else x for x in ends)  # type: ignore[return-value]


def _caption(table: Sequence[Row], longer: Sequence[Row], tokens: int) -> str:
    middle, high, low = _spread([row["capacity"] for row in table])
    needed = [row["factor"] for row in longer if (row["n_memories"], row["rule"]) == (32768, "needed")]
    factor, most, least = _spread(needed)
    sink = statistics.median(row["sink_mass"] for row in table)
    share = statistics.mean(row["past_capacity"] for row in table)
    return (
        f"{len(table)} heads on the first {tokens} tokens of Genesis, their own queries, each asking for its strongest "
        f"key among those it sees; the first token is left out, on which the median head lays {sink:.0%} of its "
        f"weight. The median query of the median head tells {_told(middle)} keys apart (worst of ten heads "
        f"{_told(low)}, best {_told(high)}); {share:.0%} of queries see more. For 32,768 keys of the same kind logits "
        f"would have to grow {_told(factor)} times ({_told(least)} to {_told(most)}). Exact, nothing is sampled; "
        "another text gives other numbers."
    )


def _told(value: float | None) -> str:
    return "any number of" if value is None else f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


EXPERIMENT = Experiment(
    "real-heads", 40, "Heads of a trained network", "How many keys does a trained head tell apart?", _answer,
    trained=True,
)  # fmt: skip
