"""How the ratio grows: theory on a fine grid of M, and measured points with intervals from the lab."""

from collections.abc import Iterable, Mapping
from typing import Any

from assocmem import theory
from assocmem.contract.form import LeastSquares
from assocmem.experiments.shown import CHOICES, EXP4, OPTIMAL, SWIGLU, Shown
from assocmem.lab import run
from assocmem.lab.keys import Keys
from assocmem.lab.similarities import Similarities
from assocmem.page.charts import CURVES, rounded, short
from assocmem.page.declare import Control, Endpoint, Part, Section
from assocmem.page.sections.bars import BETA, PAGE_SEED, STORE, WIDTH, expected, expected_capacity, sums

GRID = tuple(sorted({max(2, round(2 ** (k / 2))) for k in range(2, 41)}))
MEASURED = tuple(2**k for k in range(2, 15, 2))
TRIALS, KEY_TRIALS = 12, 12
COLUMNS = {"m": "n_memories", "ratio": "value", "low": "low", "high": "high", "trials": "n_trials",
           "theory": "theory", "sampler": "sampler"}  # fmt: skip


def curves(d_k: int, beta: float) -> dict[str, Any]:
    """Return theory, measured points, capacities and the expected ratio at the bars' M of all stores of the page.

    theory: for each store the lists m and ratio. measured: for each store but the optimal one (`optimal`) one list a
    column of COLUMNS; ratio, low and high are the statistic over trials and its 95 % interval.
    """
    labelled = [(one.id, one.at(beta)) for one in CHOICES if sums(one, d_k, beta)]
    rows = run.curves(labelled, d_k, MEASURED, Similarities(streams=TRIALS), seed=PAGE_SEED, workers=1)
    return {
        "theory": {one.id: _theory(one, d_k, beta) for one in CHOICES},
        "measured": {name: _columns(row for row in rows if row["label"] == name) for name, _ in labelled},
        "capacity": {one.id: expected_capacity(one, d_k, 1.0, beta) for one in CHOICES},
        "at": {one.id: [short(p.value, 4) for p in expected(one, d_k, 1.0, beta)] for one in CHOICES},
        "about": (
            f"Points: {TRIALS} or more trials each, from exactly drawn likenesses; optimal linear: medians over "
            f"{KEY_TRIALS} or more draws of keys. Seed {PAGE_SEED}; the figures of assocmem reproduce draw with "
            "another seed and more trials, their lines are the same."
        ),
    }


def _theory(shown: Shown, d_k: int, beta: float) -> dict[str, list[float]]:
    form = shown.at(beta).form(d_k)
    statistic = theory.steady_statistic(form)
    edge = (d_k + 1, d_k + 2, d_k + 4, d_k + 8, d_k + d_k // 4) if isinstance(form, LeastSquares) else ()
    line = {m: theory.ratio(form, d_k, m, statistic=statistic).value for m in sorted({*GRID, *edge})}
    return {"m": [m for m, ratio in line.items() if ratio], "ratio": rounded([r for r in line.values() if r], 4)}


def optimal(d_k: int) -> dict[str, list[Any]]:
    """Return the optimal store's measured points above d_k, in lists as in `curves`.

    It has no likenesses to draw: keys are drawn, written and asked. Cost: about a second.
    """
    counts = [round(d_k * factor) for factor in (1.25, 1.5, 2, 4, 8)]
    sampler, store = Keys(trials=KEY_TRIALS, most=2 * KEY_TRIALS, targets=8), (OPTIMAL.id, OPTIMAL.store)
    statistics = (theory.steady_statistic(OPTIMAL.store.form(d_k)),)
    rows = run.curves([store], d_k, counts, sampler, statistics=statistics, seed=PAGE_SEED, workers=1)
    return _columns(rows)


def _columns(rows: Iterable[Mapping[str, Any]]) -> dict[str, list[Any]]:
    kept = [row for row in rows if row["value"] is not None and row["value"] > 0]
    return {
        column: [short(row[name], 4) if isinstance(row[name], float) else row[name] for row in kept]
        for column, name in COLUMNS.items()
    }


HIDDEN = Control("hidden", STORE.values, "", many=True)
VIEW = CURVES | {
    "x_domain": (2, 2**20),
    "x_values": tuple(10**k for k in range(1, 7)),
    "y_domain": (1e-3, 300),
    "y_values": tuple(10.0**k for k in range(-3, 3)),
    "order": [one.label for one in CHOICES],
    "dashes": {OPTIMAL.label: [7, 4], SWIGLU.label: [7, 4], EXP4.label: [2, 3]},  # near others for long stretches
}
SECTION = Section(
    4,
    (Endpoint("curves", curves, (Part(WIDTH), Part(BETA))), Endpoint("optimal", optimal, (Part(WIDTH),))),
    more=(HIDDEN,),
    charts={"curves": (VIEW, 400)},
)
