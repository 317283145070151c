"""assocmem: associative memory stores in neural networks, measured on one ruler beside exact theory.

The public names below are loaded on first touch, so that `import assocmem` stays fast and loads neither scipy
nor torch nor any plotting.
"""

from __future__ import annotations

import importlib
from typing import Any

from assocmem._version import __version__

_HOMES = {
    "Memory": "assocmem.memory",
    "Store": "assocmem.core.store",
    "GrowingStore": "assocmem.core.growing",
    "Traits": "assocmem.core.types",
    "Extra": "assocmem.core.types",
    "Source": "assocmem.core.types",
    "State": "assocmem.core.types",
    "Similarity": "assocmem.core.types",
    "Pairs": "assocmem.core.types",
    "Estimate": "assocmem.core.types",
    "Prediction": "assocmem.core.types",
    "stores": "assocmem.core.register",
    "make_store": "assocmem.core.register",
    "load_store": "assocmem.core.address",
    "FunctionStore": "assocmem.core.function",
    "register": "assocmem.core.register",
    "merge": "assocmem.core.growing",
    "OuterProduct": "assocmem.stores.outer",
    "SoftmaxAttention": "assocmem.stores.softmax",
}

__all__ = ["__version__", *_HOMES]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'assocmem' has no attribute {name!r}")
    value = getattr(importlib.import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
