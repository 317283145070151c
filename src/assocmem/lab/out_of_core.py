"""Trials of very many pairs: drawn and written block by block, once for all stores that hold them alike."""

from __future__ import annotations

from functools import partial

import numpy as np

from assocmem.contract.errors import InputError, NonFiniteError, RecallOverflowError
from assocmem.contract.numbers import stream
from assocmem.contract.state import State
from assocmem.contract.store import Store
from assocmem.inputs import Law, Normalised, key_law, value_law
from assocmem.lab import keys
from assocmem.lab.extras import drawn_extras
from assocmem.lab.plan import FloatArray, Plan
from assocmem.lab.probe import holds_alike
from assocmem.ruler.ratio import by_vectors, by_weights
from assocmem.ruler.weights import weights_of

WRITTEN_AT_ONCE = 1 << 16
WEIGHTS_AT_ONCE = 1 << 22


def large_ratios(sampler: keys.Keys, plan: Plan, batch: keys.Batch) -> list[keys.Read]:
    """Return what one trial reads of each store.

    Stores of one class whose settings do not change what they hold (softmax with several sharpnesses) read one state,
    so that the pairs are drawn and written once for them. Memory is one state and a block of 65,536 pairs.
    """
    targets = sampler.targets_of(plan, batch.n, batch.first)
    shape = (1, len(plan.cosines), len(targets))
    found: dict[int, keys.Read] = {}
    stores = [one.store for one in plan.stores]
    for i, store in enumerate(stores):
        if i not in found:
            alike = [j for j in range(i, len(stores)) if j not in found and holds_alike(store, stores[j])]
            try:
                written = _Written(sampler, plan, store, batch, targets)
            except Exception as error:  # noqa: BLE001  a user's store may raise anything
                found |= dict.fromkeys(alike, keys.Read(np.empty((0, *shape[1:])), error=error))
                continue
            for j in alike:
                found[j] = keys.kept(partial(written.finite_ratios, stores[j]), shape)
            del written
    return [found[i] for i in range(len(stores))]


class _Written:
    """A state of many pairs with what is needed to ask for some of them.

    For stores that give their own weights the values are one number wide; for the others a one-hot channel for every
    target stands beside the values and tells its weight.
    """

    def __init__(self, sampler: keys.Keys, plan: Plan, store: Store, batch: keys.Batch, targets: FloatArray) -> None:
        n, trial = batch.n, batch.first
        laws = key_law(plan.keys), value_law(plan.values)
        for law in laws:
            if not _rows_are_independent(law):
                raise InputError(
                    f"the law {law.name!r} cannot be drawn in blocks; measure at most {keys.LARGE} memories with it."
                )
        traits = store.traits
        any_pairs = traits.keys == traits.values == "any"
        whole = any(not extra.per_pair for extra in traits.extras)
        if whole or not any_pairs or traits.linear_in_values != "shared" or traits.affine:
            raise InputError(f"{store.name} can be measured with at most {keys.LARGE} memories; got {n}.")
        self.plan, self.n, self.targets = plan, n, targets
        self.by_rows = keys.has_weights(store) and keys.estimator_of(store, n, sampler.estimator) == "weights"
        self.d_v = 1 if self.by_rows else plan.d_v
        rng, paid = stream(plan.seed, "keys", trial), stream(plan.seed, "values", trial)
        state = store.empty(plan.d_k, self.d_v if self.by_rows else self.d_v + len(targets))
        asked, wanted = [], []
        for start in range(0, n, WRITTEN_AT_ONCE):
            rows = min(WRITTEN_AT_ONCE, n - start)
            drawn = laws[0].draw(rng, rows, plan.d_k).astype(sampler.dtype)
            values = laws[1].draw(paid, rows, self.d_v).astype(sampler.dtype)
            here = targets[(targets >= start) & (targets < start + rows)] - start
            asked.append(drawn[here])
            wanted.append(values[here])
            if not self.by_rows:
                hot = np.equal.outer(np.arange(start, start + rows), targets).astype(sampler.dtype)
                values = np.hstack([values, hot])
            given = drawn_extras(
                store, drawn, values.shape[1], plan.extras, law=plan.keys, seed=plan.seed, trial=(trial, start)
            )
            state = store.write(state, drawn, values, **given)
        self.state: State = state
        noise = stream(plan.seed, "noise", n, trial)
        self.values = np.concatenate(wanted)
        self.queries = keys.queries_for(np.concatenate(asked), np.arange(len(targets)), plan.cosines, noise)

    def finite_ratios(self, store: Store) -> tuple[FloatArray, int, str]:
        """Return the ratios, all infinite where recalls are not finite, with how many are not and why."""
        try:
            return self.ratios(store), 0, ""
        except (RecallOverflowError, NonFiniteError) as error:
            lost = len(self.queries)
            return np.full(lost, np.inf), lost, keys.placed(error, store)

    def ratios(self, store: Store) -> FloatArray:
        """Return the ratios (cosines, targets) that `store` reads from the state."""
        queries, times = self.queries, len(self.plan.cosines)
        places = np.tile(self.targets, times)
        if self.by_rows:
            step = max(1, WEIGHTS_AT_ONCE // self.n)
            spans = [slice(i, i + step) for i in range(0, len(queries), step)]
            parts = [by_weights(weights_of(store, self.state, queries[span]), places[span]) for span in spans]
            return np.concatenate(parts).reshape(times, -1)
        recalls = store.recall(self.state, queries)
        own = recalls[np.arange(len(queries)), self.d_v + np.tile(np.arange(len(self.targets)), times)]
        return by_vectors(recalls[:, : self.d_v], np.tile(self.values, (times, 1)), own).reshape(times, -1)


def _rows_are_independent(law: Law) -> bool:
    inner = law.law if isinstance(law, Normalised) else law
    return inner.name in ("sphere", "gaussian", "signs", "spectrum")
