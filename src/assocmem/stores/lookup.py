"""Stores found by name: the families by discovery, a user's own by their address MODULE:CLASS.

A new file in `assocmem/stores/` is listed, tested and documented without any other list being edited.
"""

from __future__ import annotations

import difflib
import importlib
import pkgutil
from dataclasses import fields
from typing import Any

from assocmem.contract.errors import InputError, UnknownNameError
from assocmem.contract.register import Entry, entries
from assocmem.contract.store import Store
from assocmem.stores.address import load_store

_discovered = False


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
    return tuple(sorted(entries, key=lambda key: (entries[key].article or len(entries), key)))


def entry(key: str) -> Entry:
    """Return the register's entry for `key`; UnknownNameError offers the nearest keys."""
    _discover()
    if key not in entries:
        near = difflib.get_close_matches(key, entries, n=3, cutoff=0.5)
        offer = f" Did you mean {' or '.join(near)}?" if near else ""
        raise UnknownNameError(f"there is no store called {key!r}.{offer} `assocmem list` shows all {len(entries)}.")
    return entries[key]


def make_store(key: str, **settings: Any) -> Store:
    """Return the store registered under `key`, or a user's own under MODULE:CLASS, with the given settings.

    Raises UnknownNameError for an unknown key, InputError for a setting it does not take; see
    `contract.address.load_store` for what MODULE:CLASS may name.

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
    for key in entries:
        try:
            if entries[key].make() == store:
                return key
        except TypeError:
            continue
    return type(store).__name__


def option_names(store_class: type[Store]) -> tuple[str, ...]:
    """Return the names of a store class's hyper-parameters."""
    return tuple(f.name for f in fields(store_class))
