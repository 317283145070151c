"""Stores whose pairs were written in an order: recall by age, of keys written twice, and after several passes.

Every number is over trials, each a sequence of its own; the trials of one task go through a store as one batch.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import product
from typing import Any

import numpy as np

from assocmem.contract.errors import InputError
from assocmem.contract.estimate import Statistic
from assocmem.contract.random import stream
from assocmem.contract.results import Row
from assocmem.contract.state import Pairs
from assocmem.contract.store import Store
from assocmem.inputs import key_law
from assocmem.kernels.compute import Progress, Workers, run_tasks
from assocmem.lab.labelled import subjects
from assocmem.lab.sequences import (
    SAMPLER,
    FloatArray,
    Numbers,
    SequenceTask,
    measured,
    part_of,
    ratio_row_of,
    row_of,
    run_sequence,
    tasks_of,
)
from assocmem.ruler import by_projection, by_vectors, by_weights, own_weights, recall_with_own_weights, summarise
from assocmem.theory import old_value_left, ratio, ratio_by_age, signal_by_age

SIGNAL = "root mean square over trials of a pair's weight in its own recall over that of the newest pair"
LEFT = (
    "median over trials of the old value's weight in the recall of a key that was written again, over what "
    "it was before the second writing"
)
DEFINITIONS = {
    "quantity": "signal: the weight of a pair in its own recall over that of the newest pair in the same recall "
    "(over channels where each has its own weights: root mean squares); left: the weight of a key's old value after "
    "half the keys were written again, over its weight before; ratio: interference over signal",
    "value": "what `quantity` names: a dimensionless amplitude ratio",
    "theory": "the same by theory, of the same statistic; null where there is none",
    "age": "pairs written after the pair that is asked for",
    "rewritten": "keys that were written a second time, with other values",
    "rho": "expected cosine of two keys",
    "passes": "times that the same pairs were written, in the same order",
    "theory_quotient": "root mean square interference over root mean square signal by theory, where the ratio's own "
    "mean square is infinite",
}


def age_curves(
    stores: Iterable[Any],
    d_k: int,
    n_memories: int,
    ages: Iterable[int],
    *,
    trials: int = 64,
    d_v: int = 64,
    seed: int = 0,
    workers: Workers = None,
    progress: Progress | None = None,
    experiment: str = "",
) -> list[Row]:
    """Return rows of signal and ratio of the pair written `age` pairs ago, M = n_memories pairs written one by one.

    Parameters: stores, keys, Stores or (label, Store); d_k; ages in [0, M); trials >= 6 (a median's interval needs
    them), 8 times fewer for stores with weights of each channel; d_v, of values of length one.

    The signal is in the root mean square, as is the ratio where the signal is the same in every trial; elsewhere the
    ratio is a median, because its mean square is infinite once the signal can vanish. Stores that are not linear in
    their values have the projection ratio alone. Columns: see DEFINITIONS here and in `rows`.

    >>> rows = age_curves(["mamba-2"], 16, 20, [0, 10], trials=8, workers=1)
    >>> [round(r["value"], 9) for r in rows if r["quantity"] == "signal"], round(0.99**10, 9)
    ([1.0, 0.904382075], 0.904382075)
    """
    asked = tuple(sorted({0, *(int(a) for a in ages)}))
    found = measured(_by_age, subjects(*stores), d_k, d_v, {n_memories: asked}, trials, seed, workers, progress)
    rows: list[Row] = []
    for one, n, numbers in found:
        shared = {"experiment": experiment, "n_memories": n, "seed": seed}
        for i, age in enumerate(asked):
            at = {"age": age, **shared}
            if "signal" in numbers:
                estimate = summarise(numbers["signal"][:, i], "rms", seed=seed, sampler=SAMPLER, definition=SIGNAL)
                theory = signal_by_age(one.form(d_k), d_k, age, d_v=d_v)
                rows.append(row_of(one, "signal", estimate, theory, d_k, d_v, "weights", **at))
            theory = ratio_by_age(one.form(d_k), d_k, n, age)
            statistic: Statistic = "rms" if theory.value is not None and theory.statistic == "rms" else "median"
            rows.append(ratio_row_of(one, numbers["ratio"][:, i], statistic, theory, d_k, d_v, **at))
    return rows


def rewrite_curves(
    stores: Iterable[Any],
    d_k: int,
    memories: Iterable[int],
    *,
    trials: int = 64,
    d_v: int = 64,
    targets: int = 8,
    seed: int = 0,
    workers: Workers = None,
    progress: Progress | None = None,
    experiment: str = "",
) -> list[Row]:
    """Return rows of what happens when M keys are written and then every second one again, with a new value.

    `left` is the old value's share of weight that is left, `ratio` that of the new value, whose interference counts the
    old one; both are medians over trials and `targets` of the rewritten keys. Parameters as in `age_curves`; memories,
    each M >= 1.

    >>> rows = rewrite_curves(["delta-net", "outer-product"], 16, [1], trials=8, workers=1)
    >>> [round(r["value"], 9) for r in rows if r["quantity"] == "left"]
    [0.0, 1.0]
    """
    chosen = {}
    for n in sorted({int(n) for n in memories}):
        again = (n + 1) // 2
        chosen[n] = tuple(2 * i for i in sorted({round(x) for x in np.linspace(0, again - 1, min(targets, again))}))
    found = measured(_rewritten, subjects(*stores), d_k, d_v, chosen, trials, seed, workers, progress)
    rows: list[Row] = []
    for one, n, numbers in found:
        at = {"experiment": experiment, "n_memories": n, "rewritten": (n + 1) // 2, "seed": seed}
        if "left" in numbers:
            estimate = summarise(numbers["left"], "median", seed=seed, sampler=SAMPLER, definition=LEFT)
            theory = old_value_left(one.form(d_k), d_k, n, (n + 1) // 2)
            rows.append(row_of(one, "left", estimate, theory, d_k, d_v, "weights", **at))
        rows.append(ratio_row_of(one, numbers["ratio"], "median", None, d_k, d_v, **at))
    return rows


def pass_curves(
    stores: Sequence[tuple[Any, int]],
    d_k: int,
    memories: Iterable[int],
    cosines: Iterable[float],
    *,
    trials: int = 64,
    seed: int = 0,
    workers: Workers = None,
    progress: Progress | None = None,
    experiment: str = "",
) -> list[Row]:
    """Return rows of the ratio by weights after M pairs were written `passes` times over, for keys that are alike.

    Parameters: stores, (store, passes) each, the store a key, Store or (label, Store), linear in its values with one
    row of weights; memories, each M >= 1; cosines, the keys' expected cosine rho in [0, 1); trials >= 6. All stored
    keys are asked. The root mean square with its theory where `theory.ratio` has one, else the median.

    >>> rows = pass_curves([("delta-net", 40)], 16, [4], [0.0], trials=8, workers=1)
    >>> rows[0]["value"] < 1e-3
    True
    """
    named, passes = subjects(*(store for store, _ in stores)), [int(times) for _, times in stores]
    for one in named:
        if one.store.traits.linear_in_values != "shared" or one.store.traits.affine:
            raise InputError(f"{one.label} has no one row of weights for all channels; measure it by age_curves.")
    counts, rhos = sorted({int(n) for n in memories}), [float(rho) for rho in cosines]
    points = list(product(zip(named, passes, strict=True), counts, rhos))
    rows: list[Row] = []
    for i, ((one, times), n, rho) in enumerate(points):
        law = key_law("equal-cosine", rho=rho)
        tasks = tasks_of(_passed, one.store, d_k, 1, n, trials, seed, law=law, passes=times)
        done = run_tasks(run_sequence, tasks, workers=workers, progress=part_of(progress, i, len(points)))
        numbers = np.concatenate([part["ratio"] for part in done])
        theory = ratio(one.form(d_k), d_k, n, law=law.name, **law.settings) if times == 1 else None
        statistic: Statistic = "rms" if theory is not None and theory.value is not None else "median"
        estimate = summarise(numbers, statistic, estimator="weights", seed=seed, sampler=SAMPLER)
        at = {"experiment": experiment, "n_memories": n, "rho": rho, "passes": times, "seed": seed}
        rows.append(row_of(one, "ratio", estimate, theory, d_k, 1, "weights", **at))
    return rows


def _by_age(task: SequenceTask, keys: FloatArray, values: FloatArray) -> Numbers:
    targets = task.n - 1 - np.asarray(task.chosen)
    return _asked(task.store, Pairs(keys, values), keys[..., targets, :], targets, values[..., targets, :])


def _rewritten(task: SequenceTask, keys: FloatArray, values: FloatArray) -> Numbers:
    old = np.asarray(task.chosen)
    again = keys[..., ::2, :]
    fresh = (
        key_law("sphere")
        .draw(stream(task.seed, "rewritten", task.first), int(np.prod(again.shape[:-1])), task.d_v)
        .reshape(*again.shape[:-1], task.d_v)
    )
    both = Pairs(np.concatenate([keys, again], axis=-2), np.concatenate([values, fresh], axis=-2))
    queries, new = keys[..., old, :], task.n + old // 2
    found = _asked(task.store, both, queries, new, fresh[..., old // 2, :])
    numbers = {"ratio": found["ratio"]}
    if "signal" in found:
        before = _length(own_weights(task.store, Pairs(keys, values), queries, old), queries.ndim - 1)
        after = _length(own_weights(task.store, both, queries, old), queries.ndim - 1)
        numbers["left"] = after / before
    return numbers


def _passed(task: SequenceTask, keys: FloatArray, _values: FloatArray) -> Numbers:
    """Write every pair with one channel of its own, so that recall is the weights over all its writings."""
    over, hot = np.concatenate([keys] * task.passes, axis=-2), np.concatenate([np.eye(task.n)] * task.passes)
    state = task.store.empty(task.d_k, task.n, batch=keys.shape[:-2])
    state = task.store.write(state, over, np.broadcast_to(hot, (*keys.shape[:-2], *hot.shape)))
    return {"ratio": by_weights(task.store.recall(state, keys), np.arange(task.n))}


def _asked(store: Store, pairs: Pairs, queries: FloatArray, targets: FloatArray, wanted: FloatArray) -> Numbers:
    """Return the ratio (..., m) by vectors, or by projection, and the signal over that of the first query (..., m)."""
    if store.traits.linear_in_values == "no":
        state = store.empty(queries.shape[-1], wanted.shape[-1], batch=queries.shape[:-2])
        return {"ratio": by_projection(store.recall(store.write(state, pairs.keys, pairs.values), queries), wanted)}
    recalls, own, zero = recall_with_own_weights(store, pairs, queries, targets)
    signal = _length(own, queries.ndim - 1)
    return {"ratio": by_vectors(recalls, wanted, own, zero_recall=zero), "signal": signal / signal[..., :1]}


def _length(own: FloatArray, axes: int) -> FloatArray:
    """Return |A_jj|, over the channels (one axis more) their root mean square."""
    return np.abs(own) if own.ndim == axes else np.sqrt(np.mean(own**2, axis=-1))
