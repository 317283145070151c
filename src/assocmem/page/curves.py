"""Data of the curves: theory on a fine grid of M, and measured points with intervals from the lab."""

from __future__ import annotations

from typing import Any

from assocmem.lab.similarities import similarity_curves
from assocmem.page.bars import PAGE_SEED
from assocmem.page.offer import CHOICES, choice, rounded
from assocmem.theory import capacity, optimal_ratio, ratio

GRID = tuple(sorted({max(2, round(2 ** (k / 2))) for k in range(2, 41)}))
MEASURED = tuple(2**k for k in range(2, 15, 2))
TRIALS = 12


def curves(d_k: int, beta: float) -> dict[str, Any]:
    """Return theory, measured points and capacities of all stores of the page at one width and sharpness."""
    theory, ends = [], {}
    for option in CHOICES:
        for m in GRID:
            value = _theory(option.id, d_k, m, beta)
            if value is not None and value > 1e-9:
                theory.append({"label": option.label, "n_memories": m, "theory": rounded([value])[0]})
        ends[option.id] = _capacity(option.id, d_k, beta)
    measured = _measured(d_k, beta)
    spans = [row for row in measured if row["low"] is not None and row["low"] > 0]
    about = f"{TRIALS} trials each, from exactly drawn likenesses, seed {PAGE_SEED}"
    return {"theory": theory, "measured": measured, "spans": spans, "capacity": ends, "about": about}


def _theory(name: str, d_k: int, m: int, beta: float) -> float | None:
    if name == "optimal":
        return optimal_ratio(d_k, m, law="sphere").value
    similarity = choice(name).store(beta).similarity(d_k, m)
    return None if similarity is None else ratio(similarity, d_k, m).value


def _capacity(name: str, d_k: int, beta: float) -> float | None:
    if name == "optimal":
        return float(2 * d_k)
    similarity = choice(name).store(beta).similarity(d_k, 1024)
    value = None if similarity is None else capacity(similarity, d_k).value
    return None if value is None else rounded([value])[0]


def _measured(d_k: int, beta: float) -> list[dict[str, Any]]:
    labelled = [(c.label, c.store(beta)) for c in CHOICES if c.id != "optimal"]
    rows = similarity_curves(labelled, d_k, MEASURED, streams=TRIALS, seed=PAGE_SEED, workers=1)
    return [
        {name: (rounded([row[name]])[0] if isinstance(row[name], float) else row[name]) for name in
         ("label", "n_memories", "value", "low", "high", "n_trials", "theory", "sampler")}
        for row in rows
        if row["value"] is not None and row["value"] > 1e-9
    ]  # fmt: skip
