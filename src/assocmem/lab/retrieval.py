"""Choice capacity of any store: up to how many pairs its recall still tells the right value from all others."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np

from assocmem.contract.errors import InputError
from assocmem.contract.estimate import Estimate
from assocmem.contract.random import stream
from assocmem.contract.requirement import is_whole
from assocmem.contract.results import Row
from assocmem.contract.state import Pairs
from assocmem.contract.store import Store
from assocmem.inputs import draw_pairs
from assocmem.kernels.compute import Progress, Workers, run_tasks
from assocmem.lab.labelled import Subject, subjects
from assocmem.lab.trials import required_extras, takes_batches
from assocmem.ruler import Capacity, crossing_of_curve, retrieval_definition, summarise_shares, top1_right

FloatArray = np.ndarray[Any, Any]
SAMPLER = "keys"
LARGEST = 1 << 13
LARGEST_KEPT = 1 << 10
QUERIES = 128
NUMBERS_AT_ONCE = 1 << 19
FEWEST_TRIALS, MOST_TRIALS = 6, 128
LEAST_SHARED, MOST_SHARED = 4, 1 << 17
"""Log2 of the pairs that a kept draw has at least, and the numbers it has at most."""
FEW, NORMAL = 16, 1.96
STEPS = (-0.5, -0.25, 0.0, 0.25, 0.5)

DEFINITIONS = {
    "value": "choice capacity, see `definition`; where quantity is `held`, the M that was written",
    "quantity": "capacity: the M at which the share of wrong choices crosses what is allowed; held: an M at which a "
    "store that keeps its pairs still chooses well enough",
    "low": "lower end of the 95 % interval over trials of the capacity, null where there is none",
    "high": "upper end of the 95 % interval over trials of the capacity, null where there is none",
    "state_numbers": "numbers in the state after `value` writes (rounded; the largest M measured where there is no "
    "capacity), counted from its arrays",
    "right": "share of right choices at n_memories",
    "right_low": "lower end of the 95 % interval of that share",
    "right_high": "upper end of the 95 % interval of that share",
    "statistic": "share of right choices over all recalls of all trials",
    "note": "what to know about the capacity, empty where there is nothing",
    "n_memories": "M, the measured number of pairs nearest to `value`",
    "theory": "for stores that keep their pairs: state_numbers/(d_k + d_v)",
    "definition": "of the capacity; C = M, values of length one, keys uniform on the sphere (signs where a store wants "
    "them), every query a stored key",
}


@dataclass(frozen=True)
class MeasuredRetrieval:
    """A store's choice capacity at one width, the curve it was read from, and how many numbers the state has.

    numbers: (M, count) for every measured M and for the whole number nearest to the capacity, counted from the arrays.
    """

    one: Subject
    d_k: int
    d_v: int
    capacity: Capacity
    curve: tuple[tuple[int, Estimate], ...]
    numbers: tuple[tuple[int, int], ...]

    def row(self) -> Row:
        """Return one tidy row (columns: see DEFINITIONS); M without a capacity is the largest measured."""
        found = self.capacity
        wanted = found.value or found.largest_m
        near = min((n for n, _ in self.curve), key=lambda n: abs(n - wanted))
        return self._common(near, round(wanted)) | {
            "quantity": "capacity", "value": found.value, "low": found.low, "high": found.high,
            "n_trials": found.n_trials, "reason": found.reason, "note": found.note,
        }  # fmt: skip

    def held(self) -> list[Row]:
        """Return a row for every measured M at which the share of right choices is asked for or higher."""
        allowed = self.capacity.threshold
        return [
            self._common(n, n) | {
                "quantity": "held", "value": n, "low": None, "high": None, "n_trials": wrong.n_trials, "reason": "",
                "note": "",
            }
            for n, wrong in self.curve
            if wrong.value is not None and wrong.value <= allowed
        ]  # fmt: skip

    def _common(self, n: int, at: int) -> Row:
        """Return the columns of both kinds of row: choices measured at n, the state's numbers counted at `at`."""
        wrong, found, held = dict(self.curve)[n], self.capacity, dict(self.numbers)[at]
        line = held / (self.d_k + self.d_v) if self.one.store.traits.keeps_pairs else None
        return {
            "store": self.one.key, "label": self.one.label, "d_k": self.d_k, "d_v": self.d_v, "n_memories": n,
            "state_numbers": held, "theory": line, "right": _left(wrong.value), "right_low": _left(wrong.high),
            "right_high": _left(wrong.low), "statistic": "share", "sampler": found.sampler, "seed": found.seed,
            "definition": found.definition,
        }  # fmt: skip


@dataclass(frozen=True)
class _Task:
    one: Subject
    d_k: int
    d_v: int
    share: float
    seed: int
    recalls: int
    largest: int


def retrieval_capacities(
    stores: Iterable[Any],
    widths: Iterable[int],
    *,
    share: float = 0.95,
    recalls: int = 2048,
    largest: int | None = None,
    seed: int = 0,
    workers: Workers = None,
    progress: Progress | None = None,
) -> list[MeasuredRetrieval]:
    """Return the choice capacity of each store at each width d_k = d_v, store by store.

    Parameters
    ----------
    stores: keys, Stores (a user's own too) or (label, Store); any but those of token ids.
    widths: d_k = d_v, whole numbers >= 2.
    share: of right choices that is asked for, in (0, 1).
    recalls: >= 1, about how many choices are made at each M around the capacity; half as many on the way there.
    largest: M >= 2 up to which to look; by default 2^13, and 2^10 for stores that keep their pairs.

    M = 2, 4, 8, ... pairs are written until the wrong choices surely pass 1 - share, then M at five places around the
    crossing; the capacity is read by `ruler.crossing_of_curve`. One search is one task, so that results do not depend
    on the workers. Cost: seconds a store at d = 128.

    >>> found = retrieval_capacities(["outer-product"], [16], workers=1)[0]
    >>> found.capacity.low < found.capacity.value < found.capacity.high, found.numbers[0]
    (True, (2, 256))
    """
    named, sizes = subjects(*stores), [_whole("widths", d, 2) for d in widths]
    if isinstance(share, bool) or not isinstance(share, float | int | np.floating) or not 0 < share < 1:
        raise InputError(f"`share` must be a number between 0 and 1; got {share!r}.")
    recalls = _whole("recalls", recalls, 1)
    largest = None if largest is None else _whole("largest", largest, 2)
    for one in named:
        if one.store.traits.keys == "ids":
            raise InputError(
                f"{one.label} takes token ids for keys, which have no similarity; it is not measured here."
            )
    tasks = [
        _Task(one, d, d, share, seed, recalls, largest or (LARGEST_KEPT if one.store.traits.keeps_pairs else LARGEST))
        for one in named
        for d in sizes
    ]
    # The slow ones first, so that no worker is left alone with one of them at the end.
    order = sorted(range(len(tasks)), key=lambda i: -tasks[i].d_k)
    done = run_tasks(_search, [tasks[i] for i in order], workers=workers, progress=progress)
    found = dict(zip(order, done, strict=True))
    return [found[i] for i in range(len(tasks))]


def _whole(name: str, given: Any, least: int) -> int:
    """Return a whole number >= least, or refuse it by its name."""
    if not is_whole(given, least):
        what = "must hold whole numbers" if name == "widths" else "must be a whole number"
        raise InputError(f"`{name}` {what} >= {least}; got {given!r}.")
    return int(given)


def wrong_share(
    store: Store, d_k: int, d_v: int, n: int, *, trials: int, seed: int = 0, queries: int = QUERIES, share: float = 0.95
) -> Estimate:
    """Return the share of recalls whose largest inner product is not with the right one of all M = n values.

    Parameters: n >= 2; trials, each of n pairs and `queries` of them asked for (all, where there are fewer); share,
    of right choices asked for, for the definition alone. Interval over trials, see `ruler.summarise_shares`.
    """
    batch = max(1, min(trials, NUMBERS_AT_ONCE // (n * (d_k + d_v)))) if takes_batches(store) else 1
    asked = min(n, queries)
    shares = [
        wrong
        for first in range(0, trials, batch)
        for wrong in _wrong_choices(store, d_k, d_v, n, seed, first, min(batch, trials - first), asked)
    ]
    return summarise_shares(shares, asked, definition=retrieval_definition(None, share), seed=seed, sampler=SAMPLER)


def _wrong_choices(
    store: Store, d_k: int, d_v: int, n: int, seed: int, first: int, count: int, asked: int
) -> list[float]:
    """Return the share of wrong choices of `count` trials, written as one batch."""
    drawn = [_pairs(store, seed, first + i, n, d_k, d_v) for i in range(count)]
    targets = np.stack([_asked(seed, n, first + i, asked) for i in range(count)])
    keys, values = (np.stack([getattr(pairs, name) for pairs in drawn]) for name in ("keys", "values"))
    extras = {name: np.stack([pairs.extras[name] for pairs in drawn]) for name in drawn[0].extras}
    queries = np.take_along_axis(keys, targets[..., None], axis=-2)
    if count == 1:  # also for stores that take no batches
        keys, values, queries, targets = keys[0], values[0], queries[0], targets[0]
        extras = {name: rows[0] for name, rows in extras.items()}
    state = store.write(store.empty(d_k, d_v, batch=keys.shape[:-2]), keys, values, **extras)
    right = top1_right(store.recall(state, queries), values, targets)
    return [float(1 - share) for share in right.mean(axis=-1, keepdims=count == 1)]


def _asked(seed: int, n: int, trial: int, asked: int) -> FloatArray:
    if asked == n:
        return np.arange(n)
    return np.sort(stream(seed, "asked", n, trial).choice(n, asked, replace=False))


@lru_cache(maxsize=256)
def _drawn(seed: int, trial: int, n: int, d_k: int, d_v: int) -> Pairs:
    return draw_pairs(seed, trial, n, d_k, d_v, values="sphere", dtype="float32")


def _pairs(store: Store, seed: int, trial: int, n: int, d_k: int, d_v: int) -> Pairs:
    """Return a trial's pairs; few ones are the first of a longer draw, which all stores and sizes share."""
    shared = 1 << max(LEAST_SHARED, (n - 1).bit_length())
    if shared * (d_k + d_v) > MOST_SHARED:
        drawn = draw_pairs(seed, trial, n, d_k, d_v, values="sphere", dtype="float32")
    else:
        whole = _drawn(seed, trial, shared, d_k, d_v)
        drawn = replace(whole, keys=whole.keys[:n], values=whole.values[:n])
    keys = np.where(drawn.keys >= 0, np.float32(1), np.float32(-1)) if store.traits.keys == "signs" else drawn.keys
    return replace(drawn, keys=keys, extras=required_extras(store, keys.shape, seed=seed, trial=trial, dtype="float32"))


def _search(task: _Task) -> MeasuredRetrieval:
    """Double M until the wrong choices surely pass what is allowed, then measure around the crossing."""
    allowed = 1 - task.share
    curve: dict[int, Estimate] = {}

    # Where all of fewer trials are right, the interval still reaches beyond what is allowed.
    sure = math.ceil(NORMAL**2 * (1 / allowed - 1)) if allowed else 0

    def measure(n: int, recalls: int) -> None:
        trials = max(FEWEST_TRIALS, min(MOST_TRIALS, -(-recalls // min(n, QUERIES))))
        if n <= FEW:
            trials = max(trials, min(MOST_TRIALS, sure))
        curve[n] = wrong_share(task.one.store, task.d_k, task.d_v, n, trials=trials, seed=task.seed, share=task.share)

    n = 2
    measure(n, task.recalls // 2)
    while n < task.largest and not _surely_above(curve[n], allowed):
        n = min(2 * n, task.largest)
        measure(n, task.recalls // 2)
    found = _crossing(curve, allowed)
    if found.value is not None:
        for step in STEPS:
            measure(max(2, min(task.largest, round(found.value * 2**step))), task.recalls)
        found = _crossing(curve, allowed)
    places = {*curve, round(found.value or found.largest_m)}
    numbers = tuple((n, _state_numbers(task, n)) for n in sorted(places))
    return MeasuredRetrieval(task.one, task.d_k, task.d_v, found, tuple(sorted(curve.items())), numbers)


def _crossing(curve: dict[int, Estimate], allowed: float) -> Capacity:
    counts = sorted(curve)
    found = crossing_of_curve(counts, [curve[n] for n in counts], allowed, unit="share of wrong choices")
    return replace(found, statistic="share")


def _state_numbers(task: _Task, n: int) -> int:
    store, pairs = task.one.store, _pairs(task.one.store, task.seed, 0, n, task.d_k, task.d_v)
    return store.write(store.empty(task.d_k, task.d_v), pairs.keys, pairs.values, **pairs.extras).size


def _surely_above(estimate: Estimate, allowed: float) -> bool:
    return estimate.low is not None and estimate.low > allowed


def _left(wrong: float | None) -> float | None:
    return None if wrong is None else 1 - wrong


def state_exponent(found: Sequence[MeasuredRetrieval]) -> float | None:
    """Return the slope of log capacity against log state numbers over the widths, None for fewer than two points."""
    rows = [one.row() for one in found]
    known = [(math.log(row["state_numbers"]), math.log(row["value"])) for row in rows if row["value"]]
    if len({x for x, _ in known}) < 2:
        return None
    numbers, capacities = np.array(known).T
    return float(np.polyfit(numbers, capacities, 1)[0])
