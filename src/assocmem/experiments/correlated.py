"""Correlated keys: outer product, delta rule in one and in many passes, and least squares."""

from collections.abc import Sequence
from itertools import product

from assocmem.contract.results import Row
from assocmem.experiments.experiment import RULE, Experiment, Outcome, Run, in_panels
from assocmem.experiments.shown import Shown, labelled
from assocmem.inputs import EqualCosine
from assocmem.lab.recency import Passes, Sequences
from assocmem.lab.run import curves

D_K = 64
FEW, MANY = 32, 96
COSINES = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95)
OUTER, LEAST = Shown("outer-product"), Shown("optimal-linear", "least squares")
ONE, SIXTEEN = Shown("delta-net", "DeltaNet, 1 pass"), Shown("delta-net", "DeltaNet, 16 passes")
PASSES = {ONE: 1, Shown("delta-net", "DeltaNet, 4 passes"): 4, SIXTEEN: 16}
STORES = (
    OUTER, Shown("softmax", "softmax, beta 8", {"beta": 8.0}), *PASSES,
    Shown("mesa-net", "MesaNet, ridge 1", {"ridge": 1.0}), LEAST,
)  # fmt: skip


def _answer(run: Run) -> Outcome:
    cosines = COSINES[:: run.fewer(1, 10)]
    points = list(product(STORES, (FEW, MANY), cosines))
    rows: list[Row] = []
    for i, (one, n, rho) in enumerate(points):
        sampler = Sequences(Passes(PASSES.get(one, 1)), run.fewer(16, 4))
        rows += curves(labelled([one]), D_K, [n], sampler, keys=EqualCosine(rho), **run.part(i, len(points)).shared)
    panels = [
        {"where": {"n_memories": n}, "y_title": f"interference / signal, M = {n}", "y_within": (1e-3, 30), **RULE}
        for n in (FEW, MANY)
    ]
    panels[1]["rule_text"] = ""
    view = in_panels(STORES, "rho", "expected cosine of two keys", *panels, x_log=False)
    view["colours"] = {one.label: one.colour for one in STORES if one not in PASSES}
    return Outcome(rows, view, _caption(rows, max(cosines)), {"d_k": D_K, "cosines": cosines, "memories": (FEW, MANY)})


def _caption(rows: Sequence[Row], top: float) -> str:
    value = {(r["label"], r["n_memories"], r["rho"]): r["value"] for r in rows}
    rhos = sorted({r["rho"] for r in rows})
    outer, one, sixteen, least = (
        {(n, rho): value[shown.label, n, rho] for n in (FEW, MANY) for rho in rhos}
        for shown in (OUTER, ONE, SIXTEEN, LEAST)
    )
    worse = [rho for rho in rhos if one[FEW, rho] > outer[FEW, rho]]
    shared = [least[MANY, rho] for rho in rhos if rho > 0]
    square = " to ".join(sorted({f"{min(shared):.3f}", f"{max(shared):.3f}"}))
    words = (
        f"Keys share a direction, d_k = {D_K}. At M = {FEW} the outer product's ratio goes from {outer[FEW, 0.0]:.2f} "
        f"to {outer[FEW, top]:.2f} at cosine {top:g}; one pass of the delta rule ends at {one[FEW, top]:.2f}, sixteen "
        f"passes at {sixteen[FEW, top]:.2f}. Least squares is exact there for all cosines (largest ratio "
        f"{max(least[FEW, rho] for rho in rhos):.1g}, not on the axis); at M = {MANY} > d_k its ratio "
        f"is {least[MANY, 0.0]:.3f} at cosine 0, where the keys leave out the direction that they "
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
    "correlated", 23, "Keys that are alike", "Which rules survive keys that share a direction?", _answer, scripted=True
)
