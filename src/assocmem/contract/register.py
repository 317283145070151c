"""The register of stores: a key, the class it makes, the settings that make it.

A family registers its configurations at the end of its file; `assocmem.stores.lookup` finds them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from assocmem.contract.errors import InputError
from assocmem.contract.store import Store


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


entries: dict[str, Entry] = {}


def register(
    key: str,
    make: Callable[..., Store],
    *,
    summary: str,
    options: Mapping[str, str] | None = None,
    article: int = 0,
) -> None:
    """Add a store to the register under `key` (lower case, words joined by hyphens)."""
    if key in entries:
        raise InputError(f"the store key {key!r} is registered twice.")
    family = getattr(make, "__module__", "").rsplit(".", 1)[-1]
    entries[key] = Entry(key, make, summary, MappingProxyType(dict(options or {})), family, article)
