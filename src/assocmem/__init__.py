"""assocmem: associative memory stores in neural networks, measured on one ruler beside exact theory.

The public names below are loaded on first touch, so that `import assocmem` stays fast and loads neither scipy
nor torch nor any plotting.
"""

from __future__ import annotations

import importlib
from typing import Any

from assocmem._version import __version__

_NAMES = {
    "assocmem.memory": ("Memory",),
    "assocmem.contract.store": ("Store",),
    "assocmem.contract.slots": (
        "GrowingStore",
        "Recall",
        "merge",
    ),
    "assocmem.contract.estimate": ("Estimate", "Prediction"),
    "assocmem.contract.form": ("Similarity",),
    "assocmem.contract.register": ("register",),
    "assocmem.contract.state": ("Pairs", "State"),
    "assocmem.contract.traits": ("Extra", "Source", "Traits"),
    "assocmem.stores.lookup": ("make_store", "stores"),
    "assocmem.stores.address": ("load_store",),
    "assocmem.stores.function": ("FunctionStore",),
    "assocmem.maps.activations": (
        "GELU",
        "Activation",
        "Custom",
        "Exp",
        "ExpSeries",
        "Linear",
        "ReLU",
        "SwiGLU",
        "Swish",
    ),
    "assocmem.maps.sharpness": (
        "Constant",
        "LogN",
        "QwenLogN",
        "ScalableSoftmax",
        "Sharpness",
        "YaRN",
    ),
    "assocmem.contract.results": ("Results",),
    "assocmem.stores.outer": ("OuterProduct",),
    "assocmem.stores.optimal": ("OptimalLinear",),
    "assocmem.stores.mlp": (
        "MLP",
        "GatedMLP",
    ),
    "assocmem.stores.superposed": (
        "SuperposedMLP",
        "WhitenedMLP",
    ),
    "assocmem.stores.series": (
        "TruncatedExp",
        "TruncatedExpFeatures",
    ),
    "assocmem.stores.softmax": ("SoftmaxAttention",),
    "assocmem.stores.linear_attention": ("LinearAttention",),
    "assocmem.stores.mamba": (
        "Mamba",
        "Mamba2",
    ),
    "assocmem.stores.delta": (
        "DeltaNet",
        "GatedDeltaNet",
    ),
    "assocmem.stores.ttt": (
        "TTTMLP",
        "TTTLinear",
    ),
    "assocmem.stores.titans": ("Titans",),
    "assocmem.stores.mesa": ("MesaNet",),
    "assocmem.stores.delta_former": ("DeltaFormer",),
    "assocmem.stores.gradient_descent": (
        "GradientDescent",
        "TrainedLayer",
    ),
    "assocmem.stores.regression": ("WeightedRegression",),
}
_HOMES = {name: home for home, names in _NAMES.items() for name in names}

__all__ = ["__version__", *_HOMES]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'assocmem' has no attribute {name!r}")
    value = getattr(importlib.import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
