"""The register of stores: a key, the class it makes, the settings that make it.

A family registers its configurations at the end of its file; `stores()` finds the families by discovery, so a
new file in `assocmem/stores/` is listed, tested and documented without any other list being edited.
"""

from __future__ import annotations

import difflib
import importlib
import pkgutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from types import MappingProxyType
from typing import Any

from assocmem.core.address import load_store
from assocmem.core.errors import InputError, UnknownNameError
from assocmem.core.store import Store


@dataclass(frozen=True)
class Entry:
    """One registered store.

    key: its public name. make: callable that builds it from keyword settings. options: the settings that may be
    given, each with one line of help. family: the file's noun. article: its place among the stores
    whose figures the article shows (1, 2, ...), 0 for all others.
    """

    key: str
    make: Callable[..., Store]
    summary: str
    options: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    family: str = ""
    article: int = 0


_entries: dict[str, Entry] = {}
_discovered = False


def register(
    key: str,
    make: Callable[..., Store],
    *,
    summary: str,
    options: Mapping[str, str] | None = None,
    article: int = 0,
) -> None:
    """Add a store to the register under `key` (lower case, words joined by hyphens)."""
    if key in _entries:
        raise InputError(f"the store key {key!r} is registered twice.")
    family = getattr(make, "__module__", "").rsplit(".", 1)[-1]
    _entries[key] = Entry(key, make, summary, MappingProxyType(dict(options or {})), family, article)


def _discover() -> None:
    global _discovered
    if _discovered:
        return
    package = importlib.import_module("assocmem.stores")
    for info in pkgutil.iter_modules(package.__path__):
        importlib.import_module(f"assocmem.stores.{info.name}")
    _discovered = True


def stores() -> tuple[str, ...]:
    """Return the keys of all stores, in the order of the article and then by name.

    >>> "softmax" in stores()
    True
    """
    _discover()
    return tuple(sorted(_entries, key=lambda key: (_entries[key].article or len(_entries), key)))


def entry(key: str) -> Entry:
    """Return the register's entry for `key`; UnknownNameError offers the nearest keys."""
    _discover()
    if key not in _entries:
        near = difflib.get_close_matches(key, _entries, n=3, cutoff=0.5)
        offer = f" Did you mean {' or '.join(near)}?" if near else ""
        raise UnknownNameError(f"there is no store called {key!r}.{offer} `assocmem list` shows all {len(_entries)}.")
    return _entries[key]


def make_store(key: str, **settings: Any) -> Store:
    """Return the store registered under `key`, or a user's own under MODULE:CLASS, with the given settings.

    Raises UnknownNameError for an unknown key, InputError for a setting it does not take; see
    `core.address.load_store` for what MODULE:CLASS may name.

    >>> make_store("softmax", beta=4.0).name
    'SoftmaxAttention'
    """
    if not isinstance(key, str):
        raise InputError(f"`key` of make_store must be a text such as 'softmax' or 'MODULE:CLASS'; got {key!r}.")
    if ":" in key:
        return load_store(key, **settings)
    found = entry(key)
    unknown = [name for name in settings if name not in found.options]
    if unknown:
        takes = ", ".join(found.options) or "no settings"
        raise InputError(f"the store {key!r} has no setting {unknown[0]!r}; it takes {takes}.")
    return found.make(**settings)


def key_of(store: Store) -> str:
    """Return the shortest registered key whose default settings give `store`, else its class name."""
    _discover()
    for key in _entries:
        try:
            if _entries[key].make() == store:
                return key
        except TypeError:
            continue
    return type(store).__name__


def option_names(store_class: type[Store]) -> tuple[str, ...]:
    """Return the names of a store class's hyper-parameters."""
    return tuple(f.name for f in fields(store_class))
