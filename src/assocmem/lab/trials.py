"""Trials of the keys sampler: draw pairs, write them, ask for some of them, read the ratio."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from assocmem.contract.errors import InputError
from assocmem.contract.random import stream
from assocmem.contract.state import Pairs
from assocmem.contract.store import Store
from assocmem.inputs import Law, draw_pairs, key_law, noisy
from assocmem.lab.plans import Estimator, KeyPlan, KeyTask
from assocmem.ruler.ratio import by_channel_weights, by_projection, by_vectors, by_weights
from assocmem.ruler.weights import recall_weights, recall_with_own_weights
from assocmem.stores.function import FunctionStore

FloatArray = np.ndarray[Any, Any]
ROWS_UP_TO = 512
CHANNEL_ROWS_UP_TO = 128


def estimator_of(store: Store, n: int, estimator: Estimator = "auto") -> Estimator:
    """Return how the ratio of n pairs is read: by weights where that is cheap, else by vectors.

    Stores that are not linear in their values are read by projection, whatever is asked for.
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
    """Say whether the store itself gives a row of weights that is shared by all value channels, for one recall's work.

    A bare function does not: its n weights take n one-hot channels, n times n numbers.
    """
    return (
        not isinstance(store, FunctionStore)
        and "weights" in store.capabilities.gives
        and store.traits.linear_in_values == "shared"
        and not store.traits.affine
    )


def values_matter(store: Store, n: int, estimator: Estimator) -> bool:
    """Say whether the ratio depends on the values, so that they must be drawn in full width."""
    traits = store.traits
    return traits.linear_in_values != "shared" or traits.affine or estimator_of(store, n, estimator) != "weights"


def ratios(store: Store, pairs: Pairs, queries: FloatArray, targets: FloatArray, estimator: Estimator) -> FloatArray:
    """Return the ratio of every query (..., m) after one write of all pairs (..., n, d_k), targets (m,)."""
    estimator = estimator_of(store, pairs.n, estimator)
    if estimator == "weights":
        weights = recall_weights(store, pairs, queries)
        by_rows = by_channel_weights if store.traits.linear_in_values == "per-channel" else by_weights
        return by_rows(weights, targets)
    wanted = pairs.values[..., targets, :]
    if estimator == "vectors":
        recalls, own, zero = recall_with_own_weights(store, pairs, queries, targets)
        return by_vectors(recalls, wanted, own, zero_recall=zero)
    batch = tuple(pairs.keys.shape[:-2])
    state = store.empty(int(pairs.keys.shape[-1]), int(pairs.values.shape[-1]), batch=batch)
    return by_projection(store.recall(store.write(state, pairs.keys, pairs.values, **pairs.extras), queries), wanted)


def run_task(task: KeyTask) -> FloatArray:
    """Return the ratios (count, stores, cosines, targets) of the task's trials."""
    plan, n = task.plan, task.n
    targets = targets_of(plan, n, task.first)
    # Weights don't depend on the values, whose stream is their own: one number each will do.
    matter = any(values_matter(one.store, n, plan.estimator) for one in plan.stores)
    d_v, law = (plan.d_v, plan.values) if matter else (1, "gaussian")
    drawn = [
        draw_pairs(plan.seed, task.first + i, n, plan.d_k, d_v, keys=plan.keys, values=law, dtype=plan.dtype)
        for i in range(task.count)
    ]
    if task.batched and task.count > 1:
        keys, values = np.stack([pairs.keys for pairs in drawn]), np.stack([pairs.values for pairs in drawn])
    else:  # a single trial may be large, and a stack would be a copy
        lead = (None,) if task.batched else ()
        keys, values = drawn[0].keys[lead], drawn[0].values[lead]
    del drawn
    queries = queries_for(keys, targets, plan.cosines, stream(plan.seed, "noise", n, task.first))
    found = []
    for one in plan.stores:
        k, x = (_signs(plan, keys), _signs(plan, queries)) if one.store.traits.keys == "signs" else (keys, queries)
        extras = required_extras(one.store, k.shape, law=plan.keys, seed=plan.seed, trial=task.first, dtype=plan.dtype)
        pairs = Pairs(k, values, extras=extras)
        read = ratios(one.store, pairs, x, np.tile(targets, len(plan.cosines)), plan.estimator)
        found.append(read.reshape(task.count, len(plan.cosines), len(targets)))
    return np.stack(found, axis=1)


def targets_of(plan: KeyPlan, n: int, trial: int) -> FloatArray:
    """Return the places that a trial (or the batch that begins with it) asks for, rising."""
    return np.sort(stream(plan.seed, "targets", n, trial).choice(n, min(plan.targets, n), replace=False))


def queries_for(
    keys: FloatArray, targets: FloatArray, cosines: tuple[float, ...], rng: np.random.Generator
) -> FloatArray:
    """Return the queries (..., cosines x targets, d_k): for each cosine one for each target."""
    parts = [
        keys[..., targets, :]
        if cosine == 1
        else noisy(keys, cosine, rng=rng, targets=targets).queries.astype(keys.dtype)
        for cosine in cosines
    ]
    return np.concatenate(parts, axis=-2)


def _signs(plan: KeyPlan, rows: FloatArray) -> FloatArray:
    if plan.cosines != (1.0,):
        raise InputError("stores of sign keys are measured at cosine 1; leave `cosines` at its default.")
    return np.where(rows >= 0, 1.0, -1.0).astype(rows.dtype)


def required_extras(
    store: Store, shape: tuple[int, ...], *, law: str | Law = "sphere", seed: int, trial: int, dtype: str = "float64"
) -> dict[str, FloatArray]:
    """Return the extras that the store cannot do without: rows of width d_k, drawn like keys but independent.

    Parameters: shape of the keys (..., n, d_k); law of the rows. Raises InputError for an extra without a law.
    """
    found = {}
    for extra in store.traits.extras:
        if not extra.required:
            continue
        if extra.shape != ("n", "d_k"):
            raise InputError(
                f"{store.name} needs `{extra.name}` ({extra.meaning}), which has no law; give it a default."
            )
        rows = key_law(law).draw(stream(seed, extra.name, trial), int(np.prod(shape[:-1])), shape[-1])
        found[extra.name] = rows.reshape(shape).astype(dtype)
    return found


def takes_batches(store: Store) -> bool:
    """Say whether the store answers a batch of two as it answers each alone; a user's own may not."""
    try:
        hash(store)
    except TypeError:  # it holds an array or a list: equal stores cannot be looked up
        return _takes_batches(store)
    return _known_to_take_batches(store)


@lru_cache(maxsize=256)
def _known_to_take_batches(store: Store) -> bool:
    return _takes_batches(store)


def _takes_batches(store: Store) -> bool:
    rng = stream(0, "batches")
    keys, values = rng.standard_normal((2, 5, 6)), rng.standard_normal((2, 5, 6))
    keys /= np.linalg.norm(keys, axis=-1, keepdims=True)
    if store.traits.keys == "signs":
        keys = np.sign(keys)
    extras = {e.name: keys for e in store.traits.extras if e.required and e.shape == ("n", "d_k")}
    try:
        both = store.recall(store.write(store.empty(6, 6, batch=(2,)), keys, values, **extras), keys)
    except Exception:  # noqa: BLE001  whatever a user's store raises, it is then measured trial by trial
        return False
    alone = [
        store.recall(
            store.write(store.empty(6, 6), keys[i], values[i], **{n: x[i] for n, x in extras.items()}), keys[i]
        )
        for i in range(2)
    ]
    return both.shape == (2, 5, 6) and bool(np.allclose(both, np.stack(alone), rtol=1e-9, atol=1e-12))
