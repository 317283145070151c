"""The sequences sampler: pairs written in an order and asked for by age, after keys were written twice, after passes.

>>> from assocmem.lab.run import curves
>>> rows = curves(["mamba-2"], 16, [20], Sequences(Ages((0, 10)), trials=8), workers=1)
>>> [round(r["value"], 9) for r in rows if r["quantity"] == "signal"], round(0.99**10, 9)
([1.0, 0.904382075], 0.904382075)
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import Any, Protocol

import numpy as np

from assocmem import theory
from assocmem.contract.errors import InputError
from assocmem.contract.estimate import Statistic
from assocmem.contract.numbers import stream
from assocmem.contract.state import Pairs
from assocmem.contract.store import Store
from assocmem.inputs import draw_pairs, key_law
from assocmem.kernels.compute import Progress, Workers, run_tasks
from assocmem.lab.extras import drawn_extras, part
from assocmem.lab.keys import SAMPLER, Batch
from assocmem.lab.plan import FloatArray, LabelledStore, Plan, Trials
from assocmem.lab.probe import as_taken, takes_batches
from assocmem.ruler.ratio import by_projection, by_vectors, by_weights
from assocmem.ruler.weights import own_weights, recall_with_own_weights

Numbers = dict[str, FloatArray]
AT_ONCE, FEWEST = 8, 6
PER_CHANNEL = 8
"""Trials of a store with weights of each value channel are this many times fewer: each target costs a write."""


class Question(Protocol):
    """What is asked of a store once a sequence was written."""

    def ask(self, store: Store, keys: FloatArray, values: FloatArray, plan: Plan, batch: Batch) -> Numbers:
        """Write pairs (count, n, d), ask, and return numbers (count, m) by what they are."""
        ...

    def trials(self, plan: Plan, one: LabelledStore, n: int, numbers: Numbers) -> Iterator[Trials]:
        """Yield the numbers of all trials, (trials, m) each, place by place."""
        ...


@dataclass(frozen=True)
class Sequences:
    """Trials of n pairs in an order, which `question` writes and asks for.

    trials: >= 6, as a median's interval needs them; 8 times fewer for stores with weights of each value channel.
    """

    question: Question
    trials: int = 64

    def draw(self, plan: Plan, workers: Workers, progress: Progress | None) -> Iterator[Trials]:
        """Yield the question's trials, store by store, then M."""
        points, tasks = list(product(plan.stores, plan.memories)), []
        for one, n in points:
            each = one.store.traits.linear_in_values == "per-channel"
            trials = max(FEWEST, self.trials // PER_CHANNEL) if each else self.trials
            size = AT_ONCE if takes_batches(one.store) else 1
            tasks.append([(one.store, Batch(n, first, min(size, trials - first))) for first in range(0, trials, size)])
        flat = [task for group in tasks for task in group]
        done = iter(run_tasks(partial(_ask, self.question, plan), flat, workers=workers, progress=progress))
        for (one, n), group in zip(points, tasks, strict=True):
            parts = [next(done) for _ in group]
            yield from self.question.trials(
                plan, one, n, {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
            )


def _ask(question: Question, plan: Plan, task: tuple[Store, Batch]) -> Numbers:
    """Draw a batch and return its numbers, (count, m) each; one by one for a store that takes no batches."""
    store, batch = task
    drawn = [
        draw_pairs(plan.seed, batch.first + i, batch.n, plan.d_k, plan.d_v, keys=plan.keys, values=plan.values)
        for i in range(batch.count)
    ]
    keys, values = as_taken(store, np.stack([p.keys for p in drawn]), np.stack([p.values for p in drawn]))
    if takes_batches(store):
        return question.ask(store, keys, values, plan, batch)
    return {name: part[None] for name, part in question.ask(store, keys[0], values[0], plan, batch).items()}


# ---------------------------------------------------------------------- what is asked

SIGNAL = "root mean square over trials of a pair's weight in its own recall over that of the newest pair"
LEFT = (
    "median over trials of the old value's weight in the recall of a key that was written again, over what "
    "it was before the second writing"
)


@dataclass(frozen=True)
class Ages(Question):
    """Ask for the pairs written `ages` pairs before the end, the newest (age 0) among them; ages lie in [0, M).

    The signal is in the root mean square, as is the ratio where the signal is the same in every trial; elsewhere the
    ratio is a median, because its mean square is infinite once the signal can vanish. Stores that are not linear in
    their values have the projection ratio alone.
    """

    ages: tuple[int, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "ages", tuple(sorted({0, *(int(age) for age in self.ages)})))

    def ask(self, store: Store, keys: FloatArray, values: FloatArray, plan: Plan, batch: Batch) -> Numbers:
        targets = batch.n - 1 - np.asarray(self.ages)
        pairs = _pairs(store, keys, values, plan, batch)
        return _asked(store, pairs, keys[..., targets, :], targets, values[..., targets, :])

    def trials(self, plan: Plan, one: LabelledStore, n: int, numbers: Numbers) -> Iterator[Trials]:
        form = None if plan.extras else one.store.form(plan.d_k)
        for i, age in enumerate(self.ages):
            if "signal" in numbers:
                known = partial(theory.signal_by_age, form, plan.d_k, age, d_v=plan.d_v)
                yield _trials(one, n, numbers["signal"][:, i], "rms", {"age": age}, known, "signal", SIGNAL)
            found = theory.ratio_by_age(form, plan.d_k, n, age)
            statistic: Statistic = "rms" if found.value is not None and found.statistic == "rms" else "median"
            yield _trials(one, n, numbers["ratio"][:, i], statistic, {"age": age}, lambda found=found: found)


@dataclass(frozen=True)
class Rewrites(Question):
    """Write every second key again with a new value, and ask for `targets` of those.

    `left` is the old value's share of weight that is left, `ratio` that of the new value, whose interference counts the
    old one; both are medians over trials and targets.

    >>> from assocmem.lab.run import curves
    >>> rows = curves(["delta-net", "outer-product"], 16, [1], Sequences(Rewrites(), trials=8), workers=1)
    >>> [round(r["value"], 9) for r in rows if r["quantity"] == "left"]
    [0.0, 1.0]
    """

    targets: int = 8

    def ask(self, store: Store, keys: FloatArray, values: FloatArray, plan: Plan, batch: Batch) -> Numbers:
        again = keys[..., ::2, :]
        count = again.shape[-2]
        old = 2 * np.array(sorted({round(x) for x in np.linspace(0, count - 1, min(self.targets, count))}))
        rng = stream(plan.seed, "rewritten", batch.first)
        fresh = key_law("sphere").draw(rng, int(np.prod(again.shape[:-1])), plan.d_v)
        fresh = as_taken(store, again, fresh.reshape(*again.shape[:-1], plan.d_v))[1]
        rows = np.concatenate([keys, again], axis=-2), np.concatenate([values, fresh], axis=-2)
        both = _pairs(store, *rows, plan, batch)
        queries = keys[..., old, :]
        found = _asked(store, both, queries, batch.n + old // 2, fresh[..., old // 2, :])
        if "signal" not in found:
            return found
        before = _length(own_weights(store, part(store, both, slice(batch.n)), queries, old), queries.ndim - 1)
        after = _length(own_weights(store, both, queries, old), queries.ndim - 1)
        return {"ratio": found["ratio"], "left": after / before}

    def trials(self, plan: Plan, one: LabelledStore, n: int, numbers: Numbers) -> Iterator[Trials]:
        where = {"rewritten": (n + 1) // 2}
        if "left" in numbers:
            known = partial(
                theory.old_value_left,
                None if plan.extras else one.store.form(plan.d_k),
                plan.d_k,
                n,
                where["rewritten"],
            )
            yield _trials(one, n, numbers["left"], "median", where, known, "left", LEFT)
        yield _trials(one, n, numbers["ratio"], "median", where)


@dataclass(frozen=True)
class Passes(Question):
    """Write all pairs `times` over and ask for every one, by weights; for stores with one row of weights.

    The root mean square with its theory where `theory.ratio` has one, else the median.
    """

    times: int = 1

    def ask(self, store: Store, keys: FloatArray, values: FloatArray, plan: Plan, batch: Batch) -> Numbers:
        if store.traits.linear_in_values != "shared" or store.traits.affine:
            raise InputError(f"{store.name} has no one row of weights for all channels; ask it by age.")
        # Every pair has one channel of its own, so that recall is the weights over all its writings.
        over, hot = np.concatenate([keys] * self.times, axis=-2), np.concatenate([np.eye(batch.n)] * self.times)
        state = store.empty(plan.d_k, batch.n, batch=keys.shape[:-2])
        pairs = _pairs(store, over, np.broadcast_to(hot, (*keys.shape[:-2], *hot.shape)), plan, batch)
        state = store.write(state, over, pairs.values, **pairs.extras)
        return {"ratio": by_weights(store.recall(state, keys), np.arange(batch.n))}

    def trials(self, plan: Plan, one: LabelledStore, n: int, numbers: Numbers) -> Iterator[Trials]:
        found = plan.predicted(one, n) if self.times == 1 else None
        statistic: Statistic = "rms" if found is not None and found.value is not None else "median"
        where = {"passes": self.times, "estimator": "weights", "d_v": 1} | key_law(plan.keys).settings
        yield _trials(one, n, numbers["ratio"], statistic, where, lambda: found)


def _trials(
    one: LabelledStore, n: int, numbers: FloatArray, statistic: Statistic, where: dict[str, Any],
    predict: Any = lambda: None, quantity: str = "ratio", definition: str | None = None,
) -> Trials:  # fmt: skip
    """Return trials by vectors, or by projection for stores that are not linear in their values."""
    linear = one.store.traits.linear_in_values != "no"
    estimator = "weights" if definition else where.get("estimator", "vectors" if linear else "projection")
    return Trials(one, n, numbers, statistic, estimator, SAMPLER, where, quantity, definition, predict=predict)


def _asked(store: Store, pairs: Pairs, queries: FloatArray, targets: FloatArray, wanted: FloatArray) -> Numbers:
    """Return the ratio (..., m) by vectors, or by projection, and the signal over that of the first query (..., m)."""
    if store.traits.linear_in_values == "no":
        state = store.empty(queries.shape[-1], wanted.shape[-1], batch=queries.shape[:-2])
        return {
            "ratio": by_projection(
                store.recall(store.write(state, pairs.keys, pairs.values, **pairs.extras), queries), wanted
            )
        }
    recalls, own, zero = recall_with_own_weights(store, pairs, queries, targets)
    signal = _length(own, queries.ndim - 1)
    return {"ratio": by_vectors(recalls, wanted, own, zero_recall=zero), "signal": signal / signal[..., :1]}


def _pairs(store: Store, keys: FloatArray, values: FloatArray, plan: Plan, batch: Batch) -> Pairs:
    """Return the pairs with the extras that the store takes."""
    given: dict[str, Any] = {"law": plan.keys, "seed": plan.seed, "trial": batch.first}
    return Pairs(keys, values, extras=drawn_extras(store, keys, values.shape[-1], plan.extras, **given))


def _length(own: FloatArray, axes: int) -> FloatArray:
    """Return |A_jj|, over the channels (one axis more) their root mean square."""
    return np.abs(own) if own.ndim == axes else np.sqrt(np.mean(own**2, axis=-1))
