"""A user's own store at work: what it prints stays out of our output, what it raises becomes one sentence."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from typing import Any

from assocmem.contract.errors import AssocmemError, InputError, place_of
from assocmem.contract.store import Store
from assocmem.contract.traits import Traits
from assocmem.stores import make_store


@contextmanager
def user_code(*stores: str) -> Iterator[None]:
    """Run code that may be a user's: its prints go to stderr; an accident in it names file and line.

    `stores` are the words the user gave; registered keys among them need no such care. SystemExit counts as an
    accident, so that no store can end a command as if all were well.
    """
    own = [store for store in stores if ":" in store]
    try:
        with redirect_stdout(sys.stderr):
            yield
    except (AssocmemError, MemoryError):
        raise
    except (Exception, SystemExit) as error:
        if not own or os.environ.get("ASSOCMEM_TRACEBACK"):
            raise
        what = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        raise InputError(
            f"{' or '.join(own)} failed: {what} ({place_of(error)}). `assocmem check {own[0]}` tries it step by step."
        ) from error


def made_store(address: str, **settings: Any) -> Store:
    """Return the store of a key or of a MODULE:CLASS, whose traits are there and are Traits."""
    with user_code(address):
        store = make_store(address, **settings)
        traits: Any = store.traits
    if not isinstance(traits, Traits):
        raise InputError(f"`traits` of {address} must be an assocmem.Traits; got {traits!r}.")
    return store


def own_summary(store: Store) -> str:
    """Return what a user's store says of itself: its summary, or the first line of its class's or function's text."""
    if store.summary:
        return store.summary
    about: Any = store.settings().get("function", type(store))
    first = (getattr(about, "func", about).__doc__ or "").strip().partition("\n")[0]
    made_by_dataclass = first.startswith(f"{type(store).__name__}(")
    return "–" if made_by_dataclass or not first else first
