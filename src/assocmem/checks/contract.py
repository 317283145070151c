"""The store contract as library code: small named checks that any store, ours or a stranger's, is held to."""

from __future__ import annotations

import difflib
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from assocmem.checks import (
    arrays,
    derivatives,
    extras,
    laws,
    numerics,
    pairs,
    recalls,
    refusals,
    regimes,
    saving,
    shapes,
    traits,
)
from assocmem.checks.harness import Check, Harness
from assocmem.contract import arrays as ar
from assocmem.contract.errors import InputError, UnknownNameError, place_of
from assocmem.contract.store import Store

__all__ = ["Check", "Finding", "Report", "check", "checks"]

_ROOMS = (shapes, traits, laws, arrays, refusals, pairs, recalls, extras, regimes, numerics, derivatives, saving)
_CAUSES = ("deterministic", "pure-reads")
_STOPPED = "stopped by"
_GIVEN = (("keys", "pairs"), ("values", "pairs"), ("queries", "queries"))
MOST_FINDINGS = 5
"""Findings reported per check; the rest repeat the first ones."""


@dataclass(frozen=True)
class Finding:
    """One breach of the contract: the check that found it, and in words what was expected and what came."""

    check: str
    message: str


@dataclass(frozen=True)
class Report:
    """What the contract found: names of the checks that passed, every finding of those that did not, and advice."""

    store: str
    passed: tuple[str, ...]
    failures: tuple[Finding, ...]
    advice: str = ""

    @property
    def ok(self) -> bool:
        """Whether nothing was found."""
        return not self.failures

    def text(self) -> str:
        """Return the report in sentences: one line a finding, the promise before it.

        Where a recall does not repeat, hardly another promise can be kept: that comes first, and the other checks
        are named alone.
        """
        if self.ok:
            return f"{self.store} keeps the contract: {_count(len(self.passed), 'check')} passed."
        broken = dict.fromkeys(f.check for f in self.failures)
        lines = [f"{self.store} breaks the contract: {_count(len(broken), 'check')} failed, {len(self.passed)} passed."]
        about = {c.name: c.about for c in checks()}
        told_apart = {f.check for f in self.failures if not f.message.startswith(_STOPPED)}
        causes = [name for name in _CAUSES if name in told_apart]
        others = [name for name in broken if name not in causes]
        told: set[str] = set()
        again = []
        for name in causes or broken:
            found = [f.message for f in self.failures if f.check == name]
            if told.issuperset(found):
                again.append(name)
                continue
            lines.append(f"\n{name}: {about[name]}.")
            lines += [f"  - {message}" for message in found if message not in told]
            told.update(found)
        if again:
            lines.append(f"\nFor the same reasons: {', '.join(again)}.")
        if causes and others:
            lines.append(f"\nAlso failed, which may follow from this; mend it and check again: {', '.join(others)}.")
        if self.advice:
            lines.append(f"\n{self.advice}")
        return "\n".join(lines)


def checks() -> tuple[Check, ...]:
    """Return every check of the contract, in the order in which they are run."""
    return tuple(c for room in _ROOMS for c in vars(room).values() if isinstance(c, Check))


def check(store: Store, *, xp: Any = None, only: str | tuple[str, ...] | None = None) -> Report:
    """Hold a store to the contract and say in words where it fails.

    Everything is drawn from fixed streams, so a report repeats. Checks that do not apply (masks for a store that
    does not keep its pairs) pass.

    Parameters
    ----------
    store : Store
        Any instance. Its traits decide which keys and extras are drawn.
    xp : namespace, optional
        Array library to try it in (numpy, torch, array_api_strict, or any of the array API standard); NumPy by default.
    only : str or tuple of str, optional
        The checks to run; all by default.

    Returns
    -------
    Report
        The checks that passed, and every finding of those that did not.

    Raises
    ------
    InputError
        Where `store` is no Store.
    UnknownNameError
        For an unknown check.

    Notes
    -----
    Cost: a few hundred writes and recalls of a few pairs, about 0.1 s in NumPy.

    Examples
    --------
    >>> from assocmem import make_store
    >>> report = check(make_store("outer-product"), only=("split-law", "order"))
    >>> report.passed
    ('order', 'split-law')
    >>> print(report.text())
    OuterProduct keeps the contract: 2 checks passed.
    """
    if not isinstance(store, Store):
        raise InputError(
            f"`store` of check must be an instance of a class that derives from assocmem.Store; got {store!r}."
        )
    library = ar.namespace((np if xp is None else xp).asarray([0.0]))
    passed, failures = [], []
    for one in _chosen(only):
        found = tuple(_run(one, store, library))
        failures += [Finding(one.name, message) for message in found]
        if not found:
            passed.append(one.name)
    return Report(store.name, tuple(passed), tuple(failures), store.advice)


def _chosen(only: str | tuple[str, ...] | None) -> tuple[Check, ...]:
    every = checks()
    if only is None:
        return every
    wanted = (only,) if isinstance(only, str) else tuple(only)
    names = [c.name for c in every]
    for name in wanted:
        if name not in names:
            near = difflib.get_close_matches(name, names, n=3)
            offer = f" Did you mean {' or '.join(near)}?" if near else ""
            raise UnknownNameError(f"the contract has no check called {name!r}.{offer}")
    return tuple(c for c in every if c.name in wanted)


def _run(one: Check, store: Store, library: Any) -> Iterator[str]:
    """Yield the findings of one check; an exception or a warning that the store lets out is a finding too."""
    count = 0
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        try:
            for message in one.run(Harness(store, library, one.name)):
                count += 1
                if count <= MOST_FINDINGS:
                    yield message
        except (Exception, SystemExit) as error:  # noqa: BLE001  a stranger's store may do anything; that is what is reported
            yield f"{_STOPPED} {type(error).__name__}: {error} ({place_of(error)}){_with_none(error)}"
    # The package's own warnings are outcomes in words; any other is an accident.
    loud = [w for w in heard if not w.category.__module__.startswith("assocmem.")]
    for text in dict.fromkeys(f"{w.category.__name__}: {w.message}" for w in loud):
        yield f"must raise no warning on legal input; got {text}"


def _with_none(error: BaseException) -> str:
    """Say where the call that failed had no pairs, no queries or no width, which a store's author may not think of."""
    calls = {method.__code__ for method in (Store.write, Store.recall, Store.scan)}
    trace, words = error.__traceback__, ""
    while trace is not None:
        if trace.tb_frame.f_code in calls:
            given: dict[str, Any] = trace.tb_frame.f_locals
            none = []
            for name, noun in _GIVEN:
                shape = tuple(getattr(given.get(name), "shape", ()))
                none += [f"0 {noun}"] if shape[-2:-1] == (0,) else []
                none += [f"{name} of width 0"] if shape[-1:] == (0,) else []
            words = f"; the call had {' and '.join(dict.fromkeys(none))}" if none else ""
        trace = trace.tb_next
    return words


def _count(n: int, noun: str) -> str:
    return f"{n} {noun}" if n == 1 else f"{n} {noun}s"
