"""Wrong bits against load: dense memories of power 2, 3, 4 and Hebb's network, beside published capacities."""

from collections.abc import Iterator

import numpy as np

from assocmem import theory
from assocmem.contract.numbers import stream
from assocmem.contract.results import Row
from assocmem.experiments.experiment import Experiment, Outcome, Run
from assocmem.experiments.shown import Shown
from assocmem.ruler import summarise

UNITS, WIDE = 60, 200
POWERS, LOADS = (2, 3, 4), (0.25, 0.5, 1, 2, 4)
CLASSICAL = (0.06, 0.1, 0.12, 0.14, 0.16, 0.2)
ONCE = {p: Shown("krotov-hopfield", f"power {p}", {"power": p, "updates": "synchronous", "steps": 1}) for p in POWERS}
HEBB = Shown("hopfield", "Hebb's network, until it rests", {"steps": 30})
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7")
PROBES = 12
DEFINITION = "bits of a stored pattern that the network changes, in percent, its own pattern being the query"


def _answer(run: Run) -> Outcome:
    capacities = {p: theory.error_free_capacity(UNITS, p).value or 0.0 for p in POWERS}
    rows: list[Row] = []
    for done, p in enumerate(POWERS):
        loads = LOADS[: run.fewer(5, 4 if p < 4 else 2)]
        counts = [max(2, round(x * capacities[p])) for x in loads]
        rows += _rows(run, ONCE[p], UNITS, counts, run.fewer(8 if p < 4 else 3, 3))
        run.progress(done + 1, len(POWERS) + 1)
    rows += _rows(run, HEBB, WIDE, [round(a * WIDE) for a in CLASSICAL[: run.fewer(6, 2)]], run.fewer(4, 2))
    for row in rows:
        row["load"] = row["n_memories"] / row["d_k"]
    lines = [(capacities[p], f"power {p}: {capacities[p]:,.1f}") for p in POWERS]
    panels = [
        {"where": {"d_k": UNITS}, "x": "n_memories", "x_title": f"patterns stored in {UNITS} units", "lines": lines},
        {"where": {"d_k": WIDE}, "x": "load", "x_title": f"patterns for each of {WIDE} units", "x_log": False,
         "lines": [(theory.CLASSICAL_LOAD, f"{theory.CLASSICAL_LOAD:g}")]},
    ]  # fmt: skip
    order = [one.label for one in (*ONCE.values(), HEBB)]
    view = {"kind": "panels", "join": True, "panels": panels, "order": order, "y_log": False, "y_within": (0, 100),
            "y_title": "wrong bits, percent", "colours": dict(zip(order, COLOURS, strict=True))}  # fmt: skip
    at = {row["label"]: row["value"] for row in rows if row["n_memories"] in [round(c) for c in capacities.values()]}
    told = "; ".join(f"{label}: {value * UNITS / 100:.2f}" for label, value in at.items())
    return Outcome(
        rows, view,
        f"Random patterns, each asked for with itself. Above: one update of all {UNITS} units; dashed, the published "
        f"capacities N^(p-1) / (2 (2p-3)!! ln N), where bits begin to turn wrong (wrong bits a pattern there, "
        f"{told}). Below: Hebb's network until it rests; dashed, 0.138 N, where in large networks the "
        "recall breaks down at once.",
        {"units": UNITS, "wide": WIDE, "probes": PROBES},
        {"value": f"mean over trials of: {DEFINITION}", "load": "patterns for each unit"},
    )  # fmt: skip


def _rows(run: Run, shown: Shown, units: int, counts: list[int], trials: int) -> Iterator[Row]:
    """Yield the wrong bits of a store at each number of patterns, over draws of all of them."""
    store = shown.store
    for n in counts:
        found = np.array([_wrong(run, shown, units, n, trial) for trial in range(max(2, trials))])
        told = summarise(found, "mean", seed=run.seed, sampler="keys", estimator="bits", definition=DEFINITION)
        yield {
            "experiment": run.experiment, "store": shown.key, "label": shown.label, "quantity": "wrong bits",
            "d_k": units, "n_memories": n, "value": told.value, "low": told.low, "high": told.high,
            "statistic": "mean", "n_trials": told.n_trials, "sampler": "keys", "seed": run.seed, "of": store.name,
        }  # fmt: skip


def _wrong(run: Run, shown: Shown, units: int, n: int, trial: int) -> float:
    keys = stream(run.seed, "patterns", units, n, trial).choice(np.array([-1.0, 1.0]), (n, units))
    store, asked = shown.store, keys[:PROBES]
    state = store.write(store.empty(units, 1), keys, keys[:, :1])
    trace = store.ask(state, asked, want="trace").trace
    assert trace is not None  # wanted
    return 100 * float(np.mean(np.asarray(trace.settled) != asked))


EXPERIMENT = Experiment(
    "dense-capacity", 27, "Steeper energies hold more patterns",
    "How many patterns of signs can a network hold before it changes them?", _answer, scripted=True,
)  # fmt: skip
