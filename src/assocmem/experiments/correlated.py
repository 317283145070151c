"""Correlated keys: outer product, delta rule in one and in many passes, and least squares."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from assocmem.contract.results import Row
from assocmem.experiments.colours import colours
from assocmem.experiments.experiment import Experiment, Outcome, Progress, Settings
from assocmem.lab.recency import DEFINITIONS, pass_curves
from assocmem.stores.lookup import make_store

D_K = 64
FEW, MANY = 32, 96
COSINES = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95)


def _stores() -> list[tuple[tuple[str, Any], int]]:
    delta = make_store("delta-net")
    return [
        (("outer product", make_store("outer-product")), 1),
        (("softmax, beta 8", make_store("softmax", beta=8.0)), 1),
        (("DeltaNet, 1 pass", delta), 1),
        (("DeltaNet, 4 passes", delta), 4),
        (("DeltaNet, 16 passes", delta), 16),
        (("MesaNet, ridge 1", make_store("mesa-net", ridge=1.0)), 1),
        (("least squares", make_store("optimal-linear")), 1),
    ]


def _answer(settings: Settings, progress: Progress) -> Outcome:
    stores = _stores()
    cosines = COSINES[:: settings.fewer(1, 10)]
    rows = pass_curves(
        stores, D_K, (FEW, MANY), cosines, trials=settings.fewer(16, 4), progress=progress,
        **settings.shared("correlated"),
    )  # fmt: skip
    panels = [
        {"where": {"n_memories": n}, "y_title": f"interference / signal, M = {n}", "y_domain": (1e-3, 30), "rule": 1.0,
         "rule_text": "recall fails: interference larger than signal" if n == FEW else ""}
        for n in (FEW, MANY)
    ]  # fmt: skip
    view = {
        "colours": colours(label for (label, _), _ in stores if not label.startswith("DeltaNet")),
        "kind": "panels", "x": "rho", "x_title": "expected cosine of two keys", "x_log": False, "join": True,
        "order": [label for (label, _), _ in stores], "panels": panels,
    }  # fmt: skip
    return Outcome(
        rows, view, _caption(rows, max(cosines)), {"d_k": D_K, "cosines": cosines, "memories": (FEW, MANY)}, DEFINITIONS
    )


def _caption(rows: Sequence[Row], top: float) -> str:
    value = {(r["label"], r["n_memories"], r["rho"]): r["value"] for r in rows}
    rhos = sorted({r["rho"] for r in rows})
    worse = [rho for rho in rhos if value["DeltaNet, 1 pass", FEW, rho] > value["outer product", FEW, rho]]
    shared = [value["least squares", MANY, rho] for rho in rhos if rho > 0]
    square = " to ".join(sorted({f"{min(shared):.3f}", f"{max(shared):.3f}"}))
    words = (
        f"Keys share a direction, d_k = {D_K}. At M = {FEW} the outer product's ratio goes from "
        f"{value['outer product', FEW, 0.0]:.2f} to {value['outer product', FEW, top]:.2f} at cosine {top:g}; one pass "
        f"of the delta rule ends at {value['DeltaNet, 1 pass', FEW, top]:.2f}, sixteen passes at "
        f"{value['DeltaNet, 16 passes', FEW, top]:.2f}. Least squares is exact there for all cosines (largest ratio "
        f"{max(value['least squares', FEW, rho] for rho in rhos):.1g}, not on the axis); at M = {MANY} > d_k its ratio "
        f"is {value['least squares', MANY, 0.0]:.3f} at cosine 0, where the keys leave out the direction that they "
        f"would share and so vary in d_k - 1 = {D_K - 1} dimensions, and {square} at every larger cosine, because it "
        "doesn't change when all keys are stretched along their common direction."
    )
    if worse:
        words += (
            f" From cosine {min(worse):g} on a single pass of the delta rule does worse than the outer product: each "
            "write takes back most of what all the others wrote."
        )
    return words


EXPERIMENT = Experiment(
    "correlated",
    "Keys that are alike",
    "Which rules survive keys that share a direction?",
    _answer,
    scripted=True,
)
