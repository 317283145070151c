"""Retrieval capacity of any store: up to how many pairs its recall still tells the right value from all others."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np

from assocmem.contract.errors import InputError, ToldOnce
from assocmem.contract.estimate import Estimate, Prediction
from assocmem.contract.numbers import is_number, is_whole, stream
from assocmem.contract.results import Row
from assocmem.contract.state import Pairs
from assocmem.contract.store import Store
from assocmem.inputs import draw_pairs
from assocmem.kernels.compute import Progress, Workers, run_tasks
from assocmem.lab.extras import NO_EXTRAS, Extras, check_names, drawn_extras, taken_by
from assocmem.lab.keys import NUMBERS_AT_ONCE, SAMPLER
from assocmem.lab.plan import FloatArray, LabelledStore, StoreLike, all_labelled, row
from assocmem.lab.probe import as_taken, takes_batches
from assocmem.ruler.capacity import Capacity, crossing_of_curve, growth
from assocmem.ruler.estimate import summarise_shares
from assocmem.ruler.retrieval import retrieval_definition, top1_right

LARGEST, LARGEST_KEPT = 1 << 13, 1 << 10
QUERIES = 128
FEWEST_TRIALS, MOST_TRIALS = 6, 128
LEAST_SHARED, MOST_SHARED = 4, 1 << 17
"""Log2 of the pairs that a kept draw has at least, and the numbers it has at most."""
FEW, NORMAL = 16, 1.96
STEPS = (-0.5, -0.25, 0.0, 0.25, 0.5)


@dataclass(frozen=True)
class MeasuredRetrieval:
    """A store's retrieval capacity at one width, the curve it was read from, and how many numbers the state has.

    numbers: (M, count) for every measured M and for the whole number nearest to the capacity, counted from the arrays.
    """

    one: LabelledStore
    d_k: int
    capacity: Capacity
    curve: tuple[tuple[int, Estimate], ...]
    numbers: tuple[tuple[int, int], ...]

    def row(self) -> Row:
        """Return one tidy row; M without a capacity is the largest measured."""
        found = self.capacity
        wanted = found.value or found.largest_m
        near = min((n for n, _ in self.curve), key=lambda n: abs(n - wanted))
        return self._row(found, near, round(wanted), quantity="retrieval capacity", note=found.note)

    def held(self) -> list[Row]:
        """Return a row for every measured M at which the share of right recalls is asked for or higher."""
        return [
            self._row(replace(self.capacity, value=n, low=None, high=None, n_trials=wrong.n_trials, reason=""), n, n,
                      quantity="held", note="")
            for n, wrong in self.curve
            if wrong.value is not None and wrong.value <= self.capacity.threshold
        ]  # fmt: skip

    def _row(self, found: Capacity, n: int, at: int, **columns: Any) -> Row:
        """Return a row with the recalls measured at n, the state's numbers counted at `at`."""
        wrong, held = dict(self.curve)[n], dict(self.numbers)[at]
        line = held / (2 * self.d_k) if self.one.store.traits.keeps_pairs else None
        right, low, high = (None if x is None else 1 - x for x in (wrong.value, wrong.high, wrong.low))
        return row(
            self.one, found, Prediction("capacity", line, found.statistic, "", ""), d_k=self.d_k, d_v=self.d_k,
            n_memories=n, state_numbers=held, right=right, right_low=low, right_high=high, definition=found.definition,
            **columns,
        )  # fmt: skip


def retrieval_capacities(
    stores: Iterable[StoreLike],
    widths: Iterable[int],
    *,
    share: float = 0.95,
    recalls: int = 2048,
    largest: int | None = None,
    extras: Extras = NO_EXTRAS,
    seed: int = 0,
    workers: Workers = None,
    progress: Progress | None = None,
) -> list[MeasuredRetrieval]:
    """Return the retrieval capacity of each store at each width d_k = d_v >= 2, store by store.

    M = 2, 4, 8, ... pairs are written until the wrong recalls surely pass 1 - share, then M at five places around the
    crossing; the capacity is read by `ruler.crossing_of_curve`. One search is one task, so that results do not depend
    on the workers. Cost: seconds a store at d = 128. Stores are any but those of token ids.

    Parameters
    ----------
    share : float
        Of right recalls that is asked for, in (0, 1).
    recalls : int
        >= 1, about how many are made at each M around the capacity; half as many on the way there.
    largest : int, optional
        M >= 2 up to which to look; by default 2^13, and 2^10 for stores that keep their pairs.
    extras : mapping, optional
        Laws of the further arrays that writes take, by name, for the stores that take them.

    Examples
    --------
    >>> found = retrieval_capacities(["outer-product"], [16], workers=1)[0]
    >>> found.capacity.low < found.capacity.value < found.capacity.high, found.numbers[0]
    (True, (2, 256))
    """
    sizes = [_whole("widths", d, 2) for d in widths]
    if not is_number(share) or not 0 < share < 1:
        raise InputError(f"`share` must be a number between 0 and 1; got {share!r}.")
    recalls, largest = _whole("recalls", recalls, 1), None if largest is None else _whole("largest", largest, 2)
    searches = []
    chosen = all_labelled(stores)
    if extras:
        check_names([one.store for one in chosen], extras)
    for one in chosen:
        most = largest or (LARGEST_KEPT if one.store.traits.keeps_pairs else LARGEST)
        searches += [_Search(one, d, share, seed, recalls, most, taken_by([one.store], extras)) for d in sizes]
    # The slow ones first, so that no worker is left alone with one of them at the end.
    order = sorted(range(len(searches)), key=lambda i: -searches[i].d)
    with ToldOnce():
        done = run_tasks(_Search.run, [searches[i] for i in order], workers=workers, progress=progress)
    return [found for _, found in sorted(zip(order, done, strict=True), key=lambda pair: pair[0])]


def _whole(name: str, given: Any, least: int) -> int:
    """Return a whole number >= least, or refuse it by its name."""
    if not is_whole(given, least):
        what = "must hold whole numbers" if name == "widths" else "must be a whole number"
        raise InputError(f"`{name}` {what} >= {least}; got {given!r}.")
    return int(given)


@dataclass(frozen=True)
class _Search:
    """The search for one capacity: M doubled until the wrong recalls surely pass what is allowed, then around there."""

    one: LabelledStore
    d: int
    share: float
    seed: int
    recalls: int
    largest: int
    extras: Extras

    def run(self) -> MeasuredRetrieval:
        allowed = 1 - self.share
        n, curve = 2, {2: self._measured(2, self.recalls // 2)}
        while n < self.largest and not ((low := curve[n].low) is not None and low > allowed):
            n = min(2 * n, self.largest)
            curve[n] = self._measured(n, self.recalls // 2)
        found = self._crossing(curve, allowed)
        if found.value is not None:
            around = (max(2, min(self.largest, round(found.value * 2**step))) for step in STEPS)
            curve |= {n: self._measured(n, self.recalls) for n in around}
            found = self._crossing(curve, allowed)
        places = sorted({*curve, round(found.value or found.largest_m)})
        numbers = tuple((n, self._state_numbers(n)) for n in places)
        return MeasuredRetrieval(self.one, self.d, found, tuple(sorted(curve.items())), numbers)

    def _measured(self, n: int, recalls: int) -> Estimate:
        trials = max(FEWEST_TRIALS, min(MOST_TRIALS, -(-recalls // min(n, QUERIES))))
        if n <= FEW:  # where all of fewer trials are right, the interval still reaches beyond what is allowed
            trials = max(trials, min(MOST_TRIALS, math.ceil(NORMAL**2 * (1 / (1 - self.share) - 1))))
        return wrong_share(
            self.one.store, self.d, n, trials=trials, extras=self.extras, seed=self.seed, share=self.share
        )

    def _crossing(self, curve: dict[int, Estimate], allowed: float) -> Capacity:
        counts = sorted(curve)
        found = crossing_of_curve(counts, [curve[n] for n in counts], allowed, unit="share of wrong recalls")
        return replace(found, statistic="share")

    def _state_numbers(self, n: int) -> int:
        store, pairs = self.one.store, _pairs(self.one.store, self.seed, 0, n, self.d, self.extras)
        return store.write(store.empty(self.d, self.d), pairs.keys, pairs.values, **pairs.extras).size


def wrong_share(
    store: Store, d: int, n: int, *, trials: int, extras: Extras = NO_EXTRAS, seed: int = 0, share: float = 0.95
) -> Estimate:  # fmt: skip
    """Return the share of recalls whose largest inner product is not with the right one of all M = n values.

    Parameters: d, width of keys and values; n >= 2; trials, each of n pairs, at most QUERIES of which are asked for;
    share, of right recalls asked for, for the definition alone. Interval over trials, see `ruler.summarise_shares`.
    """
    batch = max(1, min(trials, NUMBERS_AT_ONCE // (2 * n * d))) if takes_batches(store) else 1
    shares: list[float] = []
    for first in range(0, trials, batch):
        shares += _wrong_recalls(store, d, n, extras, seed, range(first, min(first + batch, trials)))
    words = retrieval_definition(None, share)
    return summarise_shares(shares, min(n, QUERIES), definition=words, seed=seed, sampler=SAMPLER)


def _wrong_recalls(store: Store, d: int, n: int, extras: Extras, seed: int, trials: range) -> list[float]:
    """Return the share of wrong recalls of each of some trials, written as one batch."""
    drawn = [_pairs(store, seed, trial, n, d, extras) for trial in trials]
    targets = np.stack([_asked(seed, n, trial) for trial in trials])
    keys, values = (np.stack([getattr(pairs, name) for pairs in drawn]) for name in ("keys", "values"))
    further = {name: np.stack([pairs.extras[name] for pairs in drawn]) for name in drawn[0].extras}
    queries = np.take_along_axis(keys, targets[..., None], axis=-2)
    if len(trials) == 1:  # also for stores that take no batches
        keys, values, queries, targets = keys[0], values[0], queries[0], targets[0]
        further = {name: rows[0] for name, rows in further.items()}
    state = store.write(store.empty(d, d, batch=keys.shape[:-2]), keys, values, **further)
    right = top1_right(store.recall(state, queries), values, targets)
    return [float(1 - share) for share in right.mean(axis=-1, keepdims=len(trials) == 1)]


def _asked(seed: int, n: int, trial: int) -> FloatArray:
    if n <= QUERIES:
        return np.arange(n)
    return np.sort(stream(seed, "asked", n, trial).choice(n, QUERIES, replace=False))


@lru_cache(maxsize=256)
def _drawn(seed: int, trial: int, n: int, d: int) -> Pairs:
    return draw_pairs(seed, trial, n, d, d, values="sphere", dtype="float32")


def _pairs(store: Store, seed: int, trial: int, n: int, d: int, given: Extras) -> Pairs:
    """Return a trial's pairs; few ones are the first of a longer draw, which all stores and sizes share."""
    shared = 1 << max(LEAST_SHARED, (n - 1).bit_length())
    whole = _drawn.__wrapped__(seed, trial, n, d) if 2 * shared * d > MOST_SHARED else _drawn(seed, trial, shared, d)
    keys, values = as_taken(store, whole.keys[:n], whole.values[:n])
    extras = drawn_extras(store, keys, d, given, seed=seed, trial=trial)
    return Pairs(keys, values, extras=extras)


def state_growth(found: Sequence[MeasuredRetrieval]) -> float | None:
    """Return the slope of log capacity against log state numbers over the widths, None for fewer than two."""
    return growth([one.row()["state_numbers"] for one in found], [one.capacity for one in found]).value
