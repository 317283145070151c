"""The keys sampler: keys and values are drawn, written and recalled, by any store and any law."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product

import numpy as np

from assocmem.contract.errors import (
    AssocmemError,
    DivergedError,
    InputError,
    NonFiniteError,
    RecallOverflowError,
    place_of,
)
from assocmem.contract.estimate import Statistic
from assocmem.contract.numbers import stream
from assocmem.contract.state import Pairs
from assocmem.contract.store import Store
from assocmem.inputs import draw_pairs, noisy
from assocmem.kernels import compute
from assocmem.kernels.compute import Progress, Workers, run_tasks
from assocmem.lab.extras import drawn_extras
from assocmem.lab.plan import Estimator, FloatArray, Plan, Trials
from assocmem.lab.probe import as_taken, of_kind, takes_batches
from assocmem.ruler.ratio import by_channel_weights, by_projection, by_vectors, by_weights
from assocmem.ruler.weights import recall_weights, recall_with_own_weights

SAMPLER = "keys"
NUMBERS_AT_ONCE, LARGE = 1 << 19, 1 << 17
ROWS_UP_TO, CHANNEL_ROWS_UP_TO = 512, 128
COPIES = 4
"""Pairs as drawn, with one-hot channels beside them, as written and as a function gets them."""
COPIES_IN_BLOCKS = 3
"""A state in a buffer of up to twice its size, and what a function gets or the buffer before."""


@dataclass(frozen=True)
class Batch:
    """Trials that are worked out together: `count` of them at M = n, from number `first`."""

    n: int
    first: int
    count: int


@dataclass(frozen=True)
class Read:
    """What some trials read of one store: ratios (trials, cosines, targets), infinite where a recall was not finite.

    lost: how many were not finite; why: what the first of them was, in words. error: what stopped the store, so that
    there are no numbers.
    """

    numbers: FloatArray
    lost: int = 0
    why: str = ""
    error: Exception | None = None

    @classmethod
    def joined(cls, parts: Sequence[Read]) -> Read:
        """Return what several batches of trials read."""
        stopped = next((part for part in parts if part.error is not None), None)
        if stopped is not None:
            return stopped
        why = next((part.why for part in parts if part.why), "")
        return cls(np.concatenate([part.numbers for part in parts]), sum(part.lost for part in parts), why)

    @property
    def failed(self) -> str:
        """How many recalls were not finite and why, "" for none."""
        return f"{self.lost:,} of {self.numbers.size:,} recalls are not finite: {self.why}" if self.lost else ""

    @property
    def refusal(self) -> str:
        """What stopped the store, in words, "" for nothing."""
        if self.error is None or isinstance(self.error, AssocmemError):
            return "" if self.error is None else str(self.error)
        return f"{type(self.error).__name__}: {self.error} ({place_of(self.error)})"


@dataclass(frozen=True)
class Keys:
    """Trials through write and ask: n pairs are drawn and written, some of them asked for, their ratio read.

    trials: at the largest M; smaller ones get in proportion more, at most `most`. targets: stored keys asked for in
    each trial (at most M). estimator: "auto" takes the weights where the store gives them or M <= 512, else vectors;
    the projection for stores that are not linear in their values. dtype: "float64" or "float32".
    Cost: for each M and trial one draw of M keys and values, and one write and one recall of each store.
    """

    trials: int = 16
    most: int = 256
    targets: int = 16
    estimator: Estimator = "auto"
    dtype: str = "float64"

    def __post_init__(self) -> None:
        if min(self.trials, self.most, self.targets) < 1:
            raise InputError("`trials`, `most` and `targets` must be whole numbers >= 1.")
        if self.dtype not in ("float64", "float32"):
            raise InputError(f"`dtype` must be float64 or float32; got {self.dtype!r}.")

    def draw(self, plan: Plan, workers: Workers, progress: Progress | None) -> Iterator[Trials]:
        """Yield the ratios of every store, M, cosine and statistic; by projection there is a median only."""
        read = self.read(plan, workers, progress)
        stopped = [one.error for reads in read.values() for one in reads if one.error is not None]
        if len(stopped) == len(plan.stores) * len(read):
            raise stopped[0]  # nothing was finished that could be kept
        for (i, one), n, (c, cosine) in product(enumerate(plan.stores), plan.memories, enumerate(plan.cosines)):
            estimator, found = estimator_of(one.store, n, self.estimator), read[n][i]
            statistics: tuple[Statistic, ...] = ("median",) if estimator == "projection" else plan.statistics
            for statistic in statistics:
                yield Trials(
                    one, n, found.numbers[:, c], statistic, estimator, SAMPLER,
                    {"cosine": cosine, "beta": one.beta(plan.d_k, n)},
                    predict=partial(plan.predicted, one, n, cosine, statistic), refusal=found.refusal,
                    failed=found.failed,
                )  # fmt: skip

    def ratios(self, plan: Plan, workers: Workers = None, progress: Progress | None = None) -> dict[int, FloatArray]:
        """Return for each M the ratios (trials, stores, cosines, targets), or raise what stopped a store."""
        read = self.read(plan, workers, progress)
        for error in (one.error for reads in read.values() for one in reads):
            if error is not None:
                raise error
        return {n: np.stack([one.numbers for one in reads], axis=1) for n, reads in read.items()}

    def read(self, plan: Plan, workers: Workers = None, progress: Progress | None = None) -> dict[int, list[Read]]:
        """Return for each M what was read of every store.

        Trials of little work go together as one batch. More than 2^17 pairs are drawn and written block by block, one
        trial after the other, so that memory holds one store. Fewer threads work where free memory does not hold a
        trial for each; InputError where it does not hold one.
        """
        from assocmem.lab.out_of_core import large_ratios

        batched = all(takes_batches(one.store) for one in plan.stores)
        tasks = [batch for n in plan.memories for batch in self.batches(plan, n, batched)]
        few, many = [t for t in tasks if t.n <= LARGE], [t for t in tasks if t.n > LARGE]
        self.workers_that_fit(1, plan, many)
        workers = self.workers_that_fit(workers, plan, few)
        here = partial(batch_ratios, self, plan, batched)
        done = run_tasks(here, few, workers=workers, progress=_part(progress, 0, len(tasks)))
        large = partial(large_ratios, self, plan)
        done += run_tasks(large, many, workers=1, progress=_part(progress, len(few), len(tasks)))
        found: dict[int, list[list[Read]]] = {n: [] for n in plan.memories}
        for task, reads in zip(few + many, done, strict=True):
            found[task.n].append(reads)
        return {n: [Read.joined(parts) for parts in zip(*tasks, strict=True)] for n, tasks in found.items()}

    def trials_at(self, n: int, largest: int) -> int:
        """Return the number of trials for n memories of a plan whose largest M is `largest`."""
        return max(self.trials, min(self.most, self.trials * largest // n))

    def batches(self, plan: Plan, n: int, batched: bool) -> list[Batch]:
        """Return the trials of one M in batches."""
        width = plan.d_k + plan.d_v + min(n, ROWS_UP_TO)
        size = max(1, min(64, NUMBERS_AT_ONCE // (n * width))) if batched and n <= LARGE else 1
        trials = self.trials_at(n, max(plan.memories))
        return [Batch(n, first, min(size, trials - first)) for first in range(0, trials, size)]

    def workers_that_fit(self, workers: Workers, plan: Plan, tasks: list[Batch]) -> Workers:
        """Return `workers`, or fewer threads where the memory that is free would not hold their tasks side by side.

        Raises InputError where it would not hold one task: a refusal is kinder than a kill.
        """
        if not tasks:
            return workers
        free, one, n = compute.free_bytes(), *max((self.bytes_of(plan, task), task.n) for task in tasks)
        if one > free:
            raise InputError(
                f"a trial of M = {n} memories at d_k = {plan.d_k} needs about {one / 1e9:.1f} GB of memory, of which "
                f"{free / 1e9:.1f} GB are free; measure fewer memories (--max-memories)."
            )
        if not (workers is None or isinstance(workers, int)) or one == 0 or math.isinf(free):
            return workers
        return min(compute.cores() if workers is None else workers, int(free // one))

    def bytes_of(self, plan: Plan, task: Batch) -> int:
        """Return about how many bytes a task's pairs take; drawn in blocks, only stores that keep pairs hold them all.

        What a store or a function allocates for itself is not known and not counted.
        """
        blocks = task.n > LARGE
        kept = [one.store for one in plan.stores if not blocks or one.store.traits.keeps_pairs]
        if not kept:
            return 0
        matter = any(values_matter(store, task.n, self.estimator) for store in kept)
        width = plan.d_k + (plan.d_v + min(self.targets, task.n) if matter else 1)
        copies = COPIES_IN_BLOCKS if blocks else COPIES
        return copies * task.count * task.n * width * int(np.dtype(self.dtype).itemsize)

    def targets_of(self, plan: Plan, n: int, trial: int) -> FloatArray:
        """Return the places that a trial (or the batch that begins with it) asks for, rising."""
        return np.sort(stream(plan.seed, "targets", n, trial).choice(n, min(self.targets, n), replace=False))


def _part(progress: Progress | None, before: int, total: int) -> Progress | None:
    return None if progress is None else lambda done, _: progress(before + done, total)


def batch_ratios(sampler: Keys, plan: Plan, batched: bool, batch: Batch) -> list[Read]:
    """Return what a batch of trials reads of each store."""
    n, first = batch.n, batch.first
    targets = sampler.targets_of(plan, n, first)
    # Weights don't depend on the values, whose stream is their own: one number each will do.
    matter = any(values_matter(one.store, n, sampler.estimator) for one in plan.stores)
    d_v, law = (plan.d_v, plan.values) if matter else (1, "gaussian")
    drawn = [
        draw_pairs(plan.seed, first + i, n, plan.d_k, d_v, keys=plan.keys, values=law, dtype=sampler.dtype)
        for i in range(batch.count)
    ]
    if batched and batch.count > 1:
        keys, values = np.stack([pairs.keys for pairs in drawn]), np.stack([pairs.values for pairs in drawn])
    else:  # a single trial may be large, and a stack would be a copy
        lead = (None,) if batched else ()
        keys, values = drawn[0].keys[lead], drawn[0].values[lead]
    del drawn
    queries = queries_for(keys, targets, plan.cosines, stream(plan.seed, "noise", n, first))
    everywhere = np.tile(targets, len(plan.cosines))
    reads = []
    for one in plan.stores:
        (k, v), x = as_taken(one.store, keys, values), _of_kind(plan, queries, one.store)

        def read(
            store: Store = one.store, k: FloatArray = k, v: FloatArray = v, x: FloatArray = x
        ) -> tuple[FloatArray, int, str]:
            extras = drawn_extras(store, k, d_v, plan.extras, law=plan.keys, seed=plan.seed, trial=first)
            return finite_ratios(store, Pairs(k, v, extras=extras), x, everywhere, sampler.estimator)

        reads.append(kept(read, (batch.count, len(plan.cosines), len(targets))))
    return reads


def kept(read: Callable[[], tuple[FloatArray, int, str]], shape: tuple[int, ...]) -> Read:
    """Return what is read of a store, in this shape; what stops it is kept as data, so that others go on."""
    try:
        numbers, lost, why = read()
    except Exception as error:  # noqa: BLE001  a user's store may raise anything
        return Read(np.empty((0, *shape[1:])), error=error)
    return Read(numbers.reshape(shape), lost, why)


def queries_for(
    keys: FloatArray, targets: FloatArray, cosines: tuple[float, ...], rng: np.random.Generator
) -> FloatArray:
    """Return the queries (..., cosines x targets, d_k): for each cosine one for each target."""
    asked = (noisy(keys, cosine, rng=rng, targets=targets).queries if cosine != 1 else None for cosine in cosines)
    parts = [keys[..., targets, :] if rows is None else rows.astype(keys.dtype) for rows in asked]
    return np.concatenate(parts, axis=-2)


def _of_kind(plan: Plan, rows: FloatArray, store: Store) -> FloatArray:
    if store.traits.keys != "any" and plan.cosines != (1.0,):
        raise InputError(f"stores of keys of kind {store.traits.keys!r} are measured at cosine 1; leave `cosines` out.")
    return of_kind(rows, store)


# ---------------------------------------------------------------------- the ratio of one store


def estimator_of(store: Store, n: int, estimator: Estimator = "auto") -> Estimator:
    """Return how the ratio of n pairs is read: by weights where that is cheap, else by vectors.

    Of stores that are not linear in their values it is the projection, whatever is asked for.
    """
    linear = store.traits.linear_in_values
    if linear == "no":
        return "projection"
    if estimator != "auto":
        return estimator
    if linear == "per-channel":
        return "weights" if n <= CHANNEL_ROWS_UP_TO else "vectors"
    return "weights" if n <= ROWS_UP_TO or has_weights(store) else "vectors"


def has_weights(store: Store) -> bool:
    """Say whether the store itself gives a row of weights that all value channels share, for one recall's work."""
    traits, can = store.traits, store.capabilities
    own = "weights" in can.gives and "weights" not in can.costly
    return own and traits.linear_in_values == "shared" and not traits.affine


def values_matter(store: Store, n: int, estimator: Estimator) -> bool:
    """Say whether the ratio depends on the values, so that they must be drawn in full width."""
    traits = store.traits
    return traits.linear_in_values != "shared" or traits.affine or estimator_of(store, n, estimator) != "weights"


def finite_ratios(
    store: Store, pairs: Pairs, queries: FloatArray, targets: FloatArray, estimator: Estimator
) -> tuple[FloatArray, int, str]:
    """Return `ratios`, infinite where a recall is not finite, how many are not, and in words why the first is not.

    Where recalls of many queries fail together they are asked again, trial by trial and by halves.
    """
    try:
        return ratios(store, pairs, queries, targets, estimator), 0, ""
    except (RecallOverflowError, DivergedError, NonFiniteError) as error:
        why = placed(error, store)
        written = isinstance(error, DivergedError)
    if pairs.keys.ndim > 2:
        items = [
            (Pairs(pairs.keys[i], pairs.values[i], extras={name: x[i] for name, x in pairs.extras.items()}), queries[i])
            for i in range(len(pairs.keys))
        ]
        parts = [finite_ratios(store, own, asked, targets, estimator) for own, asked in items]
        numbers = np.stack([part[0] for part in parts])
    elif len(targets) > 1 and not written:
        half = len(targets) // 2
        cuts = (slice(None, half), slice(half, None))
        parts = [finite_ratios(store, pairs, queries[cut], targets[cut], estimator) for cut in cuts]
        numbers = np.concatenate([part[0] for part in parts])
    else:
        return np.full(len(targets), np.inf), len(targets), why
    return numbers, sum(part[1] for part in parts), next((part[2] for part in parts if part[2]), "")


def placed(error: Exception, store: Store) -> str:
    """Return an error's sentence with file and line of the store's recall, without its stop."""
    said = str(error).rstrip(".")
    return said if store.place in said else f"{said} ({store.place})"


def ratios(store: Store, pairs: Pairs, queries: FloatArray, targets: FloatArray, estimator: Estimator) -> FloatArray:
    """Return the ratio of every query (..., m) after one write of all pairs (..., n, d_k), targets (m,)."""
    estimator = estimator_of(store, pairs.n, estimator)
    if estimator == "weights":
        by_rows = by_channel_weights if store.traits.linear_in_values == "per-channel" else by_weights
        return by_rows(recall_weights(store, pairs, queries), targets)
    wanted = pairs.values[..., targets, :]
    if estimator == "vectors":
        recalls, own, zero = recall_with_own_weights(store, pairs, queries, targets)
        return by_vectors(recalls, wanted, own, zero_recall=zero)
    batch = tuple(pairs.keys.shape[:-2])
    state = store.empty(int(pairs.keys.shape[-1]), int(pairs.values.shape[-1]), batch=batch)
    return by_projection(store.recall(store.write(state, pairs.keys, pairs.values, **pairs.extras), queries), wanted)
