"""Retrieval capacity against width: how many known answers a store tells apart, with the exponents of its growth."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from assocmem import theory
from assocmem.contract.estimate import Estimate, Prediction
from assocmem.contract.results import Row
from assocmem.experiments.experiment import Experiment, Outcome, Run
from assocmem.experiments.shown import OPTIMAL, OUTER, SOFTMAX, SQUARED, Shown
from assocmem.lab.retrieval import MeasuredRetrieval, retrieval_capacities
from assocmem.ruler import growth

SHARE = 0.95
LARGEST = 1 << 13


@dataclass(frozen=True)
class _Line:
    """A store, the widths at which it is measured, and how fast it should grow where that is known for wide keys."""

    shown: Shown
    widths: tuple[int, ...]
    declared: str


LINES = (
    _Line(OUTER, (16, 32, 64, 128), "2, but for a logarithm: d^2 = 8 n ln n"),
    _Line(OPTIMAL, (16, 32, 64), "2, but for a logarithm: the best matrix of all has d^2 = 2 n ln n"),
    _Line(SQUARED, (12, 16, 24, 32), "3, but for a logarithm, as its pairs are kept"),
    _Line(SOFTMAX, (12, 16, 20), "no power: at beta = sqrt(d) it grows as e^(2 sqrt d)"),
)


def _answer(run: Run) -> Outcome:
    rows, told = [], []
    for i, line in enumerate(LINES):
        widths = line.widths[: run.fewer(4, 2)]
        found = retrieval_capacities(
            [(line.shown.label, line.shown.store)], widths, share=SHARE, recalls=run.fewer(384, 96), largest=LARGEST,
            **run.part(i, len(LINES)).lab,
        )  # fmt: skip
        predicted = [theory.retrieval_capacity(line.shown.store.form(d), d, share=SHARE) for d in widths]
        slope, by_theory = (
            growth(widths, [one.capacity for one in found]),
            growth(widths, [_known(p) for p in predicted]),
        )
        for one, expected in zip(found, predicted, strict=True):
            rows.append({
                **one.row(), "experiment": run.experiment, "store": line.shown.key, "theory": expected.value,
                "theory_quotient": None, "theory_source": expected.source, "theory_exact": expected.exact,
                "fitted_exponent": slope.value, "fitted_low": slope.low, "fitted_high": slope.high,
                "theory_exponent": by_theory.value, "bits": _bits(one.row()),
            })  # fmt: skip
        told.append(_words(line, slope, by_theory, found))
    every = sorted({row["d_k"] for row in rows})
    return Outcome(
        rows,
        {"kind": "curves", "x": "d_k", "x_title": "key width d_k = value width d_v", "x_values": every,
         "y_title": f"memories M with {SHARE:.0%} right recalls", "order": [line.shown.label for line in LINES]},
        f"If you only need the right one among known answers: the largest M at which {SHARE:.0%} of recalls have "
        "their largest inner product with the right one of all M values (of length one). Fitted exponents, in square "
        f"brackets their 95 % intervals: {'; '.join(told)}. Lines: theory at finite width, approximate and not "
        "fitted (the interference at its mean square); it is low at the narrowest keys. Bits of M answers among M, "
        f"over the numbers held: {'; '.join(_bits_told(rows))}; a threshold unit can be taught exactly "
        f"{theory.BITS_PER_WEIGHT}.",
        {"share": SHARE, "widths": {line.shown.key: list(line.widths[: run.fewer(4, 2)]) for line in LINES}},
        {"theory": "the same by theory at finite width, approximate, null where there is none",
         "bits": "M log2 M over the numbers held at that M", "fitted_exponent": "slope of ln capacity over ln width"},
    )  # fmt: skip


def _bits(row: Row) -> float | None:
    return None if row["value"] is None else row["value"] * math.log2(row["value"]) / row["state_numbers"]


def _bits_told(rows: Sequence[Row]) -> Iterator[str]:
    widest = {row["label"]: row for row in rows}
    return (
        f"{label} {row['bits']:.2f} at d = {row['d_k']}" for label, row in widest.items() if row["bits"] is not None
    )


def _known(predicted: Prediction) -> Estimate:
    return Estimate(predicted.value, predicted.value, predicted.value, 0, 0, "by theory")


def _words(line: _Line, slope: Estimate, by_theory: Estimate, found: Sequence[MeasuredRetrieval]) -> str:
    most = found[-1]
    holds = "none" if most.capacity.value is None else f"{most.capacity.value:,.0f}"
    said = "none" if slope.value is None else f"{slope.value:.2f}"
    interval = "" if slope.low is None or slope.high is None else f" [{slope.low:.2f}, {slope.high:.2f}]"
    expected = "" if by_theory.value is None else f", theory at these widths {by_theory.value:.2f}"
    return f"{line.shown.label} {said}{interval}{expected} (for wide keys {line.declared}; {holds} at d = {most.d_k})"


EXPERIMENT = Experiment(
    "retrieval-widths", 29, "Telling known answers apart",
    "If you only need the right one among known answers, how many fit?", _answer,
)  # fmt: skip
