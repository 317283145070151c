"""Every column of a table: its meaning, unit and format. All tables are read by this one.

Headers of results, the commands' tables and JSON, the report and the page take their words from here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from assocmem.contract.numbers import interval, number


@dataclass(frozen=True)
class Column:
    """A column's meaning; unit, "" where it has none; format: "number", "count", "share" or "text".

    heading: over the column of a printed table and on the axis of a chart; by default the column's name.
    """

    meaning: str
    unit: str = ""
    format: str = "text"
    heading: str = ""


RATIO = "dimensionless amplitude ratio"

QUANTITIES = {
    "ratio": "interference-to-signal ratio",
    "capacity": "M at which the statistic of the ratio crosses the threshold, the target counted",
    "retrieval capacity": "M at which the share of wrong recalls crosses what is allowed, see `definition`; C = M, "
    "values of length one, keys uniform on the sphere (signs where a store wants them), every query a stored key",
    "held": "an M at which a store that keeps its pairs still recalls the right value often enough",
    "sharpness": "beta at which M memories have the ratio of `threshold`, for keys of mean length one",
    "signal": "the weight of a pair in its own recall over that of the newest pair in the same recall (over channels "
    "where each has its own weights: root mean squares)",
    "left": "the weight of a key's old value after half the keys were written again, over its weight before",
    "interference": "of the float64 store, over the signal |A_jj| ||v_j||",
    "rounding": "the distance of recalls from those of the float64 store, over the signal |A_jj| ||v_j||",
    "bits per number": "bits recalled per number of state: M d_v/2 log2(1 + 1/ratio^2) / state_numbers; null where the "
    "ratio is 0",
}
"""What `value`, with its interval and its theory, is: by the name in the column `quantity`."""

COLUMNS = {
    # what was measured, and where
    "experiment": Column("the figure or table that the row belongs to"),
    "store": Column("the store's key, or the class of one that has none"),
    "label": Column("the store with its settings, as a chart names it; of rounding the dtype", heading="store"),
    "of": Column("the store, where the label is a dtype"),
    "quantity": Column("what value, low, high and theory are"),
    "d_k": Column("width of keys and queries", "numbers", "count", heading="d_k"),
    "d_v": Column("width of the values, null where only similarities are drawn", "numbers", "count"),
    "n_memories": Column("M, stored pairs, counting the target; of a retrieval capacity the M measured next to it",
                         "memories", "count", heading="M"),
    "cosine": Column("between a query and the stored key that it asks for", "", "number", heading="query cosine"),
    "beta": Column("sharpness on unit keys, where the store has one", "", "number"),
    "rho": Column("expected cosine of two keys", "", "number", heading="key cosine"),
    "age": Column("pairs written after the pair that is asked for", "pairs", "count"),
    "shown_age": Column("age + 1", "pairs", "count"),
    "rewritten": Column("keys that were written a second time, with other values", "pairs", "count"),
    "passes": Column("times that the same pairs were written, in the same order", "", "count"),
    "state_dtype": Column("of the state; every pair is written by itself. The float64 store that all are compared with "
                          "is written in large blocks, so that its own row shows what the order of sums alone changes"),
    # the number, and what it takes to repeat it
    "value": Column("the measured number: what `quantity` says", "", "number", heading="measured"),
    "low": Column("lower end of the 95 % interval over trials, null where there is none", "", "number"),
    "high": Column("upper end of the 95 % interval over trials, null where there is none", "", "number"),
    "statistic": Column("over trials: rms, mean or median; share, of all recalls of all trials"),
    "estimator": Column("of the ratio. weights: sqrt(sum over i != j of A_ij^2)/|A_jj|; vectors: ||f(k_j) - A_jj v_j||/"
                        "(|A_jj| ||v_j||); projection: the same with the least-squares coefficient of f(k_j) on v_j in "
                        "place of A_jj. Without given values weights are the root mean square over random ones"),
    "sampler": Column("keys: keys and values are drawn, written and recalled. similarities: the similarities of "
                      "independent random unit keys are drawn exactly and σ is applied; tilted: by importance "
                      "sampling. exact: nothing is sampled. subsets of given keys: random ones are written"),
    "n_trials": Column("independent trials behind the value; of a capacity at the measured M with the fewest",
                       "trials", "count", heading="trials"),
    "seed": Column("of the random streams", "", "count"),
    "reason": Column("why there is no value or no interval, empty where there is"),
    "note": Column("what to know about it, empty where there is nothing"),
    "definition": Column("of the statistic, or of the capacity, in words"),
    # theory and the article beside it
    "theory": Column("the same by theory, null where there is none; of stores that keep their pairs, as a retrieval "
                     "capacity, state_numbers/(d_k + d_v)", "", "number"),
    "theory_log": Column("natural logarithm of the same, finite where the number is not", "nats", "number"),
    "theory_source": Column("what theory rests on"),
    "theory_statistic": Column("the statistic that theory is of"),
    "theory_reason": Column("why theory gives none, empty where it does"),
    "theory_exact": Column("whether theory is exact (in the mean square, for uniform unit keys) or a labelled "
                           "approximation"),
    "theory_quotient": Column("root mean square interference over root mean square signal by theory, where the ratio's "
                              "own mean square is infinite", RATIO, "number"),
    "difference": Column("measured over predicted, less one; null where their statistics differ", "", "share"),
    "article": Column("the article's number, null where it prints words or nothing", "", "number"),
    "article_name": Column("the store in the article's words"),
    "gaussian": Column("capacity by the Gaussian approximation of similarities, null where there is none", "memories",
                       "number"),
    "formula": Column("f(x), K and V the stored keys and values as rows"),
    "declared_exponent": Column("of the capacity's growth with d_k at large width, by theory", "", "number"),
    "fitted_exponent": Column("slope of log capacity over log d_k, least squares over the wider half", "", "number",
                              heading="fitted exponent"),
    "fitted_low": Column("lower end of the 95 % interval of that slope", "", "number"),
    "fitted_high": Column("upper end of the 95 % interval of that slope", "", "number"),
    "theory_exponent": Column("slope of theory's capacities over the same widths", "", "number",
                              heading="by theory"),
    # capacities and retrieval
    "threshold": Column("interference-to-signal ratio that counts as failure", RATIO, "number"),
    "largest_m": Column("the largest M that was measured", "memories", "count"),
    "ratio_there": Column("the ratio at largest_m", RATIO, "number"),
    "state_numbers": Column("numbers in the state after `value` writes (rounded; the largest M measured where there is "
                            "no capacity), counted from its arrays; of a card after 64", "numbers", "count",
                            heading="numbers held"),
    "multiply_adds": Column("multiply-adds of one recall there, null where the store does not say", "", "count",
                            heading="multiply-adds"),
    "extras": Column("how the further arrays of its writes were drawn, empty where there are none"),
    "code": Column("mark of the store's class, settings and own source"),
    "right": Column("share of recalls whose largest inner product is with the right one of all M stored values (random "
                    "ones where none are given); of exact rows at the largest M only", "", "share"),
    "right_low": Column("lower end of the 95 % interval of that share", "", "share"),
    "right_high": Column("upper end of the 95 % interval of that share", "", "share"),
    "right_there": Column("that share at largest_m", "", "share"),
    # a user's own keys
    "name": Column("of the head: its place among the given ones, 10.4 for head 4 of layer 10, or the name given"),
    "layer": Column("place of the head's layer, null where there is but one", "", "count"),
    "head": Column("place of the head in its layer", "", "count"),
    "heads": Column("heads that the row sums up: value, p10 and p90 are of their capacities, thought on beyond the "
                    "rows where they are not reached", "heads", "count"),
    "worst": Column("the heads with the smallest capacities, smallest first"),
    "p10": Column("of a ratio: that of the query that 10 % of queries stay below; of a capacity: the M at which 10 % "
                  "of queries have reached the threshold", "", "number"),
    "p90": Column("the same of 90 %", "", "number"),
    "rms": Column("of a ratio: its root mean square over queries; of a capacity: the M at which that reaches the "
                  "threshold", "", "number"),
    "heaviest": Column("share of the mean square over queries that one of them holds: near 1 the rms speaks of it "
                       "alone", "", "share"),
    "past": Column("share of queries whose ratio is above the threshold", "", "share"),
    "loudest": Column("share of queries, mean over subsets of M rows, for which no other row has as large a weight as "
                      "the one asked for; null where it is sampled", "", "share"),
    "beyond": Column("the M at which rows of the same kind would reach the threshold, where these do not", "memories",
                     "number"),
    "beyond_low": Column("lower end of the 95 % interval of that, over held-out runs of rows", "memories", "number"),
    "beyond_high": Column("upper end of it", "memories", "number"),
    "preparation": Column("raw, centred or whitened keys", heading="keys"),
    "n_rows": Column("rows that were measured", "rows", "count"),
    "columns_dropped": Column("columns that are constant in the rows (whitened: in the rows fitted on), left out",
                              "columns", "count"),
    "effective_dimension": Column("1 / E cos^2 over pairs of distinct rows: random unit keys of that width overlap as "
                                  "much", "numbers", "number"),
    "mean_cosine": Column("mean cosine over pairs of distinct rows", "", "number"),
    "shared_mean_share": Column("||mean||^2 / mean ||key||^2", "", "share"),
    "participation_ratio": Column("(tr C)^2 / tr C^2 of the second moment C of the keys", "numbers", "number"),
    "rule": Column("needed: the least sharpness that serves M; as it is: a given one; log-n (Su), qwen (log-n above "
                   "L), yarn (its temperature), ssmax (s ln n with the s that serves L): as the rule has it at M"),
    "logit_scale": Column("factor on q.k of the vectors as given that has this sharpness", "", "number"),
    "extrapolated": Column("whether the number speaks of more rows than there are: the mean square ratio of memories "
                           "of one kind grows as M - 1"),
    "uniform": Column("the same for keys uniform on the sphere, of that width, by theory", "", "number"),
    # pictures and bars
    "ratio": Column("interference over signal, by weights: sqrt(sum over i != j of A_ij^2)/|A_jj|", RATIO, "number"),
    "panel": Column("the store, its sharpness and M"),
    "index": Column("of the memory; 0 is the one asked for", "", "count"),
    "end": Column("where its bar ends: index + 0.9", "", "number"),
    "weight": Column("of the memory's value in the recall, over the target's", RATIO, "number"),
    "target": Column("whether it is the memory asked for"),
    "row": Column("of the picture, from the top", "pixels", "count"),
    "column": Column("of the picture, from the left", "pixels", "count"),
    "ink": Column("the recalled value there, divided by the target's weight and cut to 0 (white) .. 1 (black)", "",
                  "number"),
}  # fmt: skip


def meanings(rows: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """Return what each column of the rows means, with its unit; of `value`, what its quantities are.

    >>> meanings([{"d_k": 64, "quantity": "ratio", "value": 1.0}])["value"]
    'interference-to-signal ratio'
    """
    table = list(rows)
    found = {}
    for name in dict.fromkeys(name for row in table for name in row if name in COLUMNS):
        column = COLUMNS[name]
        found[name] = column.meaning + (f" ({column.unit})" if column.unit else "")
    named = [q for q in dict.fromkeys(row.get("quantity") for row in table) if q in QUANTITIES]
    if len(named) == 1:
        found["value"] = QUANTITIES[named[0]]
    elif named:
        found["value"] = "; ".join(f"{name}: {QUANTITIES[name]}" for name in named)
    return found


def shown(name: str, value: Any) -> str:
    """Return a column's value in its format.

    >>> shown("right", 0.951), shown("n_memories", 2048), shown("label", "softmax")
    ('95.1%', '2,048', 'softmax')
    """
    kind = COLUMNS[name].format if name in COLUMNS else "text"
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if name not in COLUMNS and isinstance(value, int | float):
        kind = "count" if isinstance(value, int) else "number"
    if kind == "text" or isinstance(value, str):
        return str(value)
    return number(value) if kind == "number" else f"{value:,.0f}" if kind == "count" else f"{value:.1%}"


def cell(name: str, row: Mapping[str, Any]) -> str:
    """Return what a printed table shows of a row in one column; "interval" is low and high.

    A value that is missing is its reason.

    >>> cell("interval", {"low": 1.5, "high": 2.0}), cell("value", {"value": None, "reason": "no pairs"})
    ('1.5 to 2', 'no pairs')
    """
    if name == "interval":
        return interval(row.get("low"), row.get("high"))
    if name == "value" and row.get("value") is None and row.get("reason"):
        return str(row["reason"])
    return shown(name, row.get(name))


def heading(name: str) -> str:
    """Return what stands over a column.

    >>> heading("state_numbers"), heading("low")
    ('numbers held', 'low')
    """
    if name == "interval":
        return "95 % interval"
    return (COLUMNS[name].heading if name in COLUMNS else "") or name.replace("_", " ")


def is_numeric(name: str) -> bool:
    """Say whether a column holds numbers, which are set flush right; `value` may hold a sentence."""
    return name == "interval" or (name != "value" and name in COLUMNS and COLUMNS[name].format != "text")
