"""The harness on which the contract checks try a store: drawn pairs that it accepts, comparisons that speak in words.

A check is a generator over a `Harness` that yields one sentence for every fault it finds. All data are drawn in
NumPy float64 and handed over in the array library under test; all comparisons are made in NumPy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

from assocmem.contract import arrays as ar
from assocmem.contract.arrays import Array, Namespace
from assocmem.contract.errors import AssocmemError
from assocmem.contract.numbers import stream
from assocmem.contract.recall import Recall
from assocmem.contract.state import State
from assocmem.contract.store import Store
from assocmem.contract.traits import Extra, Option

Numbers: TypeAlias = "np.ndarray[Any, Any]"
Findings: TypeAlias = Iterator[str]

TOLERANCE = 1e-9
"""Largest gap, relative to the largest expected number, that float64 rounding explains."""
WITNESS = 1e-6
"""Smallest relative gap that counts as a witness of a difference."""
N_IDS = 10
"""Token ids drawn for stores that want them lie below this number."""


@dataclass(frozen=True)
class Check:
    """One named promise of the contract: `about` states it, `run` yields a sentence for every breach."""

    name: str
    about: str
    run: Callable[[Harness], Findings]


def check(name: str, about: str) -> Callable[[Callable[[Harness], Findings]], Check]:
    """Make a check of a generator function."""
    return lambda run: Check(name, about, run)


@dataclass(frozen=True)
class Drawn:
    """Keys (*batch, n, d_k) and values (*batch, n, d_v) with their extras, as NumPy arrays.

    `per_pair` names the extras that have one entry for every pair.
    """

    keys: Numbers
    values: Numbers
    extras: Mapping[str, Numbers] = field(default_factory=dict)
    per_pair: frozenset[str] = frozenset()

    @property
    def n(self) -> int:
        """Number of pairs."""
        return int(self.keys.shape[-2])

    def rows(self, which: Any) -> Drawn:
        """Return the pairs `which` (a slice or a list of rows), in that order."""
        at = (slice(None),) * (self.keys.ndim - 2) + (which,)
        extras = {name: x[at] if name in self.per_pair else x for name, x in self.extras.items()}
        return Drawn(self.keys[at], self.values[at], extras, self.per_pair)

    def item(self, index: tuple[int, ...]) -> Drawn:
        """Return one batch item."""
        extras = {name: x[index] for name, x in self.extras.items()}
        return Drawn(self.keys[index], self.values[index], extras, self.per_pair)

    def having(self, *, keys: Any = None, values: Any = None, extras: Mapping[str, Numbers] | None = None) -> Drawn:
        """Return a copy with other keys, values or extras."""
        return Drawn(
            self.keys if keys is None else np.asarray(keys),
            self.values if values is None else np.asarray(values),
            self.extras if extras is None else extras,
            self.per_pair,
        )


class Harness:
    """A store under test in one array library, with a random stream of its own for every check."""

    def __init__(self, store: Store, xp: Namespace, name: str) -> None:
        self.store = store
        self.xp = xp
        self.traits = store.traits
        self.can = store.capabilities
        self.rng = stream(0, "contract", name)
        self.d_k, self.d_v = self.traits.widths.samples[0] if self.traits.widths else (6, 4)

    # ------------------------------------------------------------------ drawing what the store accepts

    def keys(self, n: int, *, batch: tuple[int, ...] = (), d_k: int | None = None) -> Numbers:
        """Draw keys (*batch, n, d_k) of the kind the traits ask for; lengths 0.7 to 1.2 where any will do."""
        shape = (*batch, n, self.d_k if d_k is None else d_k)
        kind = self.traits.keys
        if kind == "ids":
            return self.rng.integers(0, N_IDS, shape)
        if kind == "signs":
            return self.rng.choice([-1.0, 1.0], shape)
        return _unit(self.rng.standard_normal(shape)) * self.rng.uniform(0.7, 1.2, (*shape[:-1], 1))

    def values(self, n: int, *, batch: tuple[int, ...] = (), d_v: int | None = None) -> Numbers:
        """Draw values (*batch, n, d_v): standard normal, or signs where the traits ask for them."""
        drawn = self.rng.standard_normal((*batch, n, self.d_v if d_v is None else d_v))
        return np.where(drawn < 0, -1.0, 1.0) if self.traits.values == "signs" else drawn

    def queries(self, keys: Numbers, m: int) -> Numbers:
        """Draw m queries (*batch, m, d_k) near stored keys (near unrelated ones where nothing is stored).

        Of stores of signs every second one has a bit turned, where there are four of them or more.
        """
        if keys.shape[-2] == 0:
            return self.keys(m, batch=keys.shape[:-2], d_k=keys.shape[-1])
        near = keys[..., self.rng.integers(0, keys.shape[-2], m), :]
        if self.traits.keys == "ids" or keys.shape[-1] == 0:
            return near
        if self.traits.keys == "signs":
            turned = np.arange(keys.shape[-1]) == self.rng.integers(0, keys.shape[-1], (*near.shape[:-1], 1))
            odd = (np.arange(m) % 2 == 1)[:, None] & (keys.shape[-1] >= 4)
            return np.where(turned & odd, -near, near)
        length = np.linalg.norm(near, axis=-1, keepdims=True)
        return _unit(near / length + 0.4 * _unit(self.rng.standard_normal(near.shape)))

    def draw(
        self,
        n: int,
        *,
        batch: tuple[int, ...] = (),
        d_k: int | None = None,
        d_v: int | None = None,
        keys: Any = None,
        values: Any = None,
        extras: str = "drawn",
    ) -> Drawn:
        """Draw n pairs with their extras: "drawn" inside their ranges, or "plain" at default or upper bound.

        Extras that take another's place are left out.
        """
        keys = self.keys(n, batch=batch, d_k=d_k) if keys is None else np.asarray(keys)
        values = self.values(n, batch=batch, d_v=d_v) if values is None else np.asarray(values)
        sizes = {"n": n, "d_k": keys.shape[-1], "d_v": values.shape[-1]}
        named = {}
        for extra in self.traits.extras:
            shape = (*batch, *(sizes[a] if isinstance(a, str) else a for a in extra.shape))
            if extra.instead_of or (extras == "plain" and isinstance(extra.default, str)):
                continue
            named[extra.name] = self.extra(extra, shape) if extras == "drawn" else np.full(shape, _plain(extra))
        return Drawn(keys, values, named, frozenset(e.name for e in self.traits.extras if e.per_pair))

    def exact(self, n: int) -> Drawn:
        """Draw n pairs that every floating dtype holds exactly: keys of unit length (signs, ids), plain extras."""
        keys = self.keys(n) if self.traits.keys in ("ids", "signs") else np.zeros((n, self.d_k))
        for row in keys if self.traits.keys == "any" else ():
            row[self.rng.choice(self.d_k, 4, replace=False)] = self.rng.choice([-0.5, 0.5], 4)
        return self.draw(n, keys=keys, values=np.round(self.values(n) * 8) / 8, extras="plain")

    def placing(self, extra: Extra, drawn: Drawn) -> Drawn:
        """Return the pairs with `extra` in the place of the one it can stand for (itself, if there is none)."""
        if not extra.instead_of:
            return drawn
        given = {name: x for name, x in drawn.extras.items() if name != extra.instead_of}
        sizes = {"n": drawn.n, "d_k": drawn.keys.shape[-1], "d_v": drawn.values.shape[-1]}
        shape = tuple(sizes[a] if isinstance(a, str) else a for a in extra.shape)
        return drawn.having(extras={**given, extra.name: self.extra(extra, (*drawn.keys.shape[:-2], *shape))})

    def extra(self, extra: Extra, shape: tuple[int, ...]) -> Numbers:
        """Draw an extra uniformly from the middle half of its range (of length 1 where it is unbounded)."""
        low, high = _range(extra)
        return self.rng.uniform(low + (high - low) / 4, high - (high - low) / 4, shape)

    def option(self, option: Option, *, but: float | None = None, least: bool = False) -> float:
        """Draw an option inside its range, other than `but`; or return the least of those that may be drawn."""
        low = option.low if np.isfinite(option.low) else min(0.0, option.high - 1)
        high = option.high if np.isfinite(option.high) else low + 9
        found = [float(x) for x in np.linspace(low, high, 5)[1:-1] if not option.whole]
        found += [int(x) for x in range(int(np.ceil(low)), int(high) + 1) if option.whole]
        found = [x for x in found if x != but]
        return found[0] if least else found[int(self.rng.integers(0, len(found)))]

    def fits(self, d_k: int, d_v: int) -> bool:
        """Say whether the store takes these widths."""
        return self.traits.widths is None or self.traits.widths.fits(d_k, d_v)

    # ------------------------------------------------------------------ handing over, calling, reading back

    def give(self, x: Any, dtype: str | None = None) -> Array:
        """Return a fresh copy of a NumPy array in the library under test; `dtype` recasts floating arrays."""
        x = np.array(x)
        array = self.xp.asarray(x)
        if dtype is not None and x.dtype.kind == "f":
            array = self.xp.astype(array, getattr(self.xp, dtype))
        return array

    def empty(self, batch: tuple[int, ...] = (), d_k: int | None = None, d_v: int | None = None) -> State:
        """Return an empty state of the harness's sizes."""
        return self.store.empty(self.d_k if d_k is None else d_k, self.d_v if d_v is None else d_v, batch=batch)

    def write(self, drawn: Drawn, state: State | None = None, dtype: str | None = None) -> State:
        """Write pairs, into a fresh state of its sizes where none is given."""
        if state is None:
            state = self.empty(drawn.keys.shape[:-2], drawn.keys.shape[-1], drawn.values.shape[-1])
        extras = {name: self.give(x, dtype) for name, x in drawn.extras.items()}
        return self.store.write(state, self.give(drawn.keys, dtype), self.give(drawn.values, dtype), **extras)

    def recall(self, state: State, queries: Numbers, mask: Any = None, dtype: str | None = None) -> Numbers:
        """Recall and return the answer in NumPy."""
        if mask is None:
            return self.read(self.store.recall(state, self.give(queries, dtype)))
        return self.read(self.store.recall(state, self.give(queries, dtype), mask=self.give(mask)))

    def ask(self, state: State, queries: Numbers, mask: Any = None, **asked: Any) -> Recall:
        """Ask, and return the recall in the library under test."""
        mask = None if mask is None else self.give(mask)
        return self.store.ask(state, self.give(queries), mask=mask, **asked)

    def answer(self, drawn: Drawn, queries: Numbers) -> Numbers:
        """Write pairs into a fresh state and recall."""
        return self.recall(self.write(drawn), queries)

    def scan(self, drawn: Drawn, queries: Numbers, read: str, state: State | None = None) -> tuple[State, Numbers]:
        """Scan pairs, from a fresh state where none is given."""
        state = self.empty(drawn.keys.shape[:-2]) if state is None else state
        extras = {name: self.give(x) for name, x in drawn.extras.items()}
        given = (self.give(drawn.keys), self.give(drawn.values), self.give(queries))
        state, out = self.store.scan(state, *given, read=read, **extras)  # type: ignore[arg-type]  # both words tried
        return state, self.read(out)

    def read(self, x: Array) -> Numbers:
        """Return an array of the library under test in NumPy."""
        return ar.to_numpy(x)

    # ------------------------------------------------------------------ comparing and demanding, in words

    def same(self, got: Numbers, want: Numbers, law: str, tolerance: float = TOLERANCE) -> Findings:
        """Yield a sentence unless `got` equals `want` to `tolerance` of its largest number."""
        if got.shape != want.shape:
            yield f"{law}: expected shape {want.shape}, got {got.shape}."
        elif got.size and not np.all(np.isfinite(got)):
            yield f"{law}: got NaN or infinity where {_short(want)} was expected."
        elif got.size:
            far = np.abs(got.astype(np.float64) - want)
            if far.max() > tolerance * max(np.abs(want).max(), 1e-3):
                at = tuple(int(i) for i in np.unravel_index(far.argmax(), far.shape))
                yield f"{law}: at {at} expected {want[at]:.6g}, got {got[at]:.6g} (they may differ by rounding only)."

    def recalls(self, state: State, queries: Numbers, want: Numbers, law: str) -> Findings:
        """Yield a sentence unless the state recalls `want`."""
        yield from self.same(self.recall(state, queries), want, law)

    def differ(self, got: Numbers, other: Numbers) -> bool:
        """Say whether two answers differ by more than rounding could explain."""
        return bool(np.abs(got - other).max(initial=0) > WITNESS * max(np.abs(other).max(initial=0), 1e-3))

    def refused(
        self, call: Callable[[], Any], what: str, *, says: tuple[str, ...] = (), kind: type[Exception] | None = None
    ) -> Findings:
        """Yield a sentence unless `call` raises an error of the package whose text contains each of `says`."""
        try:
            call()
        except AssocmemError as error:
            if kind is not None and not isinstance(error, kind):
                yield f"{what} must be refused with {kind.__name__}; got {type(error).__name__}: {error}"
            for word in says:
                if word not in str(error):
                    yield f"the refusal of {what} must name {word!r}; it says: {error}"
        except Exception as error:  # noqa: BLE001  a stranger's store may raise anything; that is what is reported
            yield f"{what} must be refused with one sentence (InputError); got {type(error).__name__}: {error}"
        else:
            yield f"{what} must be refused; it was accepted."


def _unit(x: Numbers) -> Numbers:
    length = np.linalg.norm(x, axis=-1, keepdims=True)
    return x / np.where(length == 0, 1, length)


def _range(extra: Extra) -> tuple[float, float]:
    low, high = extra.low, extra.high
    if np.isfinite(low) and np.isfinite(high):
        return low, high
    if np.isfinite(low):
        return low, low + 1
    return (high - 1, high) if np.isfinite(high) else (-1.0, 1.0)


def _plain(extra: Extra) -> float:
    if extra.default is not None and not isinstance(extra.default, str):
        return extra.default
    return next((bound for bound in (extra.high, extra.low) if np.isfinite(bound)), 1.0)


def _short(x: Numbers) -> str:
    flat = x.reshape(-1)
    return ", ".join(f"{v:.4g}" for v in flat[:4]) + (", ..." if flat.size > 4 else "")
