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
    "assocmem.core.store": ("Store",),
    "assocmem.core.growing": (
        "GrowingStore",
        "Recalled",
        "merge",
    ),
    "assocmem.core.types": (
        "Estimate",
        "Extra",
        "Pairs",
        "Prediction",
        "Similarity",
        "Source",
        "State",
        "Traits",
    ),
    "assocmem.core.register": (
        "make_store",
        "register",
        "stores",
    ),
    "assocmem.core.address": ("load_store",),
    "assocmem.core.function": ("FunctionStore",),
    "assocmem.core.activation": (
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
    "assocmem.core.sharpness": (
        "Constant",
        "LogN",
        "QwenLogN",
        "ScalableSoftmax",
        "Sharpness",
        "YaRN",
    ),
    "assocmem.core.results": ("Results",),
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
