"""Ratio against M for the five activations of an MLP."""

from __future__ import annotations

from typing import Any

from assocmem.experiments.experiment import Experiment, Outcome, Progress, Settings, parts
from assocmem.lab.keys import key_curves
from assocmem.lab.similarities import similarity_curves
from assocmem.stores.lookup import make_store

D_K = 64
STORES = (
    ("linear", "outer-product"),
    ("ReLU", "relu"),
    ("squared ReLU", "squared-relu"),
    ("SwiGLU, shared gate", "swiglu"),
    ("cubed ReLU", "cubed-relu"),
)


def _answer(settings: Settings, progress: Progress) -> Outcome:
    part = parts(progress, 2)
    stores = [(label, make_store(key)) for label, key in STORES]
    shared = settings.shared("activations")
    counts = [2**k for k in range(4, settings.fewer(18, 13), settings.fewer(1, 2))]
    rows = similarity_curves(stores, D_K, counts, streams=settings.fewer(100, 20), progress=part(0), **shared)
    drawn = [2**k for k in range(4, settings.fewer(15, 11), 2)]
    few: dict[str, Any] = {"trials": settings.fewer(8, 4), "most": settings.fewer(192, 32)}
    rows += key_curves(stores, D_K, drawn, **few, progress=part(1), **shared)
    return Outcome(
        rows,
        {"kind": "curves", "x": "n_memories", "x_title": "memories M", "order": [label for label, _ in STORES],
         "dashes": {"SwiGLU, shared gate": [6, 6]}, "rule": 1.0,
         "rule_text": "recall fails: interference larger than signal"},
        "Nearly parallel lines: every activation of this kind keeps the signal and lowers each interference term, so "
        "the ratio stays about sqrt(M) times a constant. Squared ReLU and shared-gate SwiGLU all but coincide.",
        {"d_k": D_K},
    )  # fmt: skip


EXPERIMENT = Experiment(
    "activations",
    "Five activations",
    "What does reading through a nonlinearity buy?",
    _answer,
)
