"""Data of the curves: theory on a fine grid of M, and measured points with intervals from the lab."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from assocmem import theory
from assocmem.contract.form import KernelSum, LeastSquares
from assocmem.lab.keys import Keys
from assocmem.lab.run import curves as measured_curves
from assocmem.lab.similarities import Similarities
from assocmem.page.bars import PAGE_SEED, expected, expected_capacity, statistic_of
from assocmem.page.offer import CHOICES, choice, rounded

GRID = tuple(sorted({max(2, round(2 ** (k / 2))) for k in range(2, 41)}))
MEASURED = tuple(2**k for k in range(2, 15, 2))
TRIALS, KEY_TRIALS = 12, 12
COLUMNS = ("m", "ratio", "low", "high", "trials", "theory", "sampler")


def curves(d_k: int, beta: float) -> dict[str, Any]:
    """Return theory, measured points, capacities and the expected ratio at the bars' M of all stores of the page.

    theory: for each store the lists m and ratio. measured: for each store but the optimal one (`optimal`) one list a
    column of COLUMNS; ratio, low and high are the statistic over trials and its 95 % interval.
    """
    measured = _measured(d_k, beta)
    return {
        "theory": {option.id: _theory(option.id, d_k, beta) for option in CHOICES},
        "measured": {name: _columns(rows) for name, rows in measured.items()},
        "capacity": {option.id: expected_capacity(option.id, d_k, 1.0, beta) for option in CHOICES},
        "at": {option.id: _at_counts(option.id, d_k, beta) for option in CHOICES},
        "about": (
            f"Points: {TRIALS} or more trials each, from exactly drawn likenesses; optimal linear: medians over "
            f"{KEY_TRIALS} or more draws of keys. Seed {PAGE_SEED}; the figures of assocmem reproduce draw with "
            "another seed and more trials, their lines are the same."
        ),
    }


def _theory(name: str, d_k: int, beta: float) -> dict[str, list[float]]:
    form, statistic = choice(name).store(beta).form(d_k), statistic_of(name, d_k, 1.0, beta)
    edge = (d_k + 1, d_k + 2, d_k + 4, d_k + 8, d_k + d_k // 4) if isinstance(form, LeastSquares) else ()
    found = []
    for m in sorted({*GRID, *edge}):
        value = theory.ratio(form, d_k, m, statistic=statistic).value
        if value:
            found.append((m, value))
    return {"m": [m for m, _ in found], "ratio": rounded([value for _, value in found], 4)}


def _at_counts(name: str, d_k: int, beta: float) -> list[float | None]:
    return [None if p.value is None else rounded([p.value], 4)[0] for p in expected(name, d_k, 1.0, beta)]


def _measured(d_k: int, beta: float) -> dict[str, list[Mapping[str, Any]]]:
    stores = [(c.id, c.store(beta)) for c in CHOICES]
    labelled = [(name, store) for name, store in stores if isinstance(store.form(d_k), KernelSum)]
    rows = measured_curves(labelled, d_k, MEASURED, Similarities(streams=TRIALS), seed=PAGE_SEED, workers=1)
    return {name: [row for row in rows if row["label"] == name] for name, _ in labelled}


def optimal(d_k: int) -> dict[str, list[Any]]:
    """Return the optimal store's measured points above d_k, in lists as in `curves`.

    It has no likenesses to draw: keys are drawn, written and asked. Cost: about a second.
    """
    counts = [round(d_k * factor) for factor in (1.25, 1.5, 2, 4, 8)]
    store = ("optimal", choice("optimal").store(1.0))
    sampler = Keys(trials=KEY_TRIALS, most=2 * KEY_TRIALS, targets=8)
    statistics = (statistic_of("optimal", d_k, 1.0, 1.0),)
    rows = measured_curves([store], d_k, counts, sampler, statistics=statistics, seed=PAGE_SEED, workers=1)
    return _columns(rows)


def _columns(rows: Iterable[Mapping[str, Any]]) -> dict[str, list[Any]]:
    names = ("n_memories", "value", "low", "high", "n_trials", "theory", "sampler")
    kept = [row for row in rows if row["value"] is not None and row["value"] > 0]
    return {
        column: [rounded([row[name]], 4)[0] if isinstance(row[name], float) else row[name] for row in kept]
        for column, name in zip(COLUMNS, names, strict=True)
    }
