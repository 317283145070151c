"""The settings of a store in words that JSON knows, and back; only dataclasses that are at hand come back."""

from __future__ import annotations

import importlib
import math
import sys
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np

from assocmem._version import __version__
from assocmem.contract.errors import FileFormatError, InputError
from assocmem.contract.store import Store

MOVED = {
    "assocmem.core.activation": "assocmem.maps.activations",
    "assocmem.core.features": "assocmem.maps.features",
    "assocmem.core.sharpness": "assocmem.maps.activations",
}
"""Modules by the names that files of format 1 may hold (version 0.1.0), and what they are called now."""
RENAMED = {"init": "init_std", "hidden_init": "hidden_init_std", "value": "beta", "at_reference": "beta"}
NEGATED = {"threshold": "bias"}
"""Settings by the names that such files may hold, and what they, or their negatives, are called now."""


def class_name(kind: type) -> str:
    """Return module and name of a class."""
    return f"{kind.__module__}:{kind.__qualname__}"


def encoded(value: Any, store: Store, name: str) -> Any:
    """Return a setting in words that JSON knows."""
    if value is None or isinstance(value, bool | str | int):
        return value
    if isinstance(value, np.bool_ | np.integer):
        return value.item()
    if isinstance(value, float | np.floating):
        return float(value) if math.isfinite(value) else {"float": str(float(value))}
    if isinstance(value, tuple | list):
        return {"tuple" if isinstance(value, tuple) else "list": [encoded(v, store, name) for v in value]}
    if is_dataclass(value) and not isinstance(value, type):
        settings = {f.name: encoded(getattr(value, f.name), store, name) for f in fields(value)}
        return {"class": class_name(type(value)), "settings": settings}
    kind = "a Python function" if callable(value) else f"a {type(value).__name__}"
    raise InputError(
        f"{store.name} cannot be saved: its setting `{name}` holds {kind}, which a file cannot keep; use one of the "
        "package's own, or save the arrays of `state` yourself."
    )


def decoded(value: Any, kind: str | None, file: Path) -> Any:
    """Return the object that `encoded` described; `kind` names the class where `value` is its settings."""
    if kind is not None:
        found = _found_class(kind, file)
        known = {f.name for f in fields(found) if f.init}
        settings = {}
        for name, given in value.items():
            setting = decoded(given, None, file)
            if name not in known and name in NEGATED:
                settings[NEGATED[name]] = 0.0 - setting
            else:
                settings[name if name in known else RENAMED.get(name, name)] = setting
        if set(settings) - known:
            unknown = ", ".join(sorted(set(settings) - known))
            raise FileFormatError(f"{file.name} gives {kind} the settings {unknown}, which this version does not have.")
        return found(**settings)
    if not isinstance(value, dict):
        return value
    if "class" in value:
        return decoded(value["settings"], value["class"], file)
    if "float" in value:
        return float(value["float"])
    items = [decoded(v, None, file) for v in value["tuple" if "tuple" in value else "list"]]
    return tuple(items) if "tuple" in value else items


def _found_class(name: str, file: Path) -> Any:
    """Return a dataclass of this package or of a module that is already imported; a file imports nothing else."""
    module_name, _, qualified = name.partition(":")
    module_name = MOVED.get(module_name, module_name)
    if module_name.split(".")[0] == "assocmem":
        try:
            module = importlib.import_module(module_name)
        except ImportError:
            raise FileFormatError(f"{file.name} names {name}, which assocmem {__version__} does not have.") from None
    elif module_name in sys.modules:
        module = sys.modules[module_name]
    else:
        raise InputError(f"{file.name} holds a store of the class {name}; import {module_name} before loading it.")
    found: Any = module
    for part in qualified.split("."):
        found = getattr(found, part, None)
    if not (isinstance(found, type) and is_dataclass(found)):
        raise FileFormatError(f"{file.name} names {name}, which is no store or setting at hand.")
    return found
