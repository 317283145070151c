"""Stores that train a small model on their pairs, in mini-batches of gradient steps."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import numpy as np

from assocmem.contract import arrays as ar
from assocmem.contract.arrays import Array
from assocmem.contract.errors import RecallOverflowError
from assocmem.contract.recall import Ask
from assocmem.contract.settings import COUNT, NOT_NEGATIVE, POSITIVE, Help
from assocmem.contract.state import State
from assocmem.contract.store import Store
from assocmem.contract.traits import Capabilities, Extra, Widths
from assocmem.kernels.blockwise import in_dtype, working_dtype
from assocmem.kernels.inner_model import Factors, InnerModel
from assocmem.kernels.stability import require_finite_arrays, warn_unstable

RATE = Extra("rate", "how much each pair's gradient counts, times the store's own step", default=1.0, low=0.0)
_EQUAL = Widths(lambda d_k, d_v: d_k == d_v, "equal with residual=True, which recalls q + f(q)", ((6, 6),))
_STABLE = 2.0
"""Gradient descent on a quadratic contracts while its rate times the largest curvature stays below 2."""
_ADVICE = "Lower `base_rate` (None takes the safe step), or scale the keys to unit length."


@dataclass(frozen=True)
class InnerTraining(Store):
    """A store that recalls f(q), f a model trained on 1/2 |f(k) - v|^2 while pairs are written.

    Pairs are taken in mini-batches of `mini_batch` in the order they come. All gradients of a batch are taken at
    the weights W_0 it started with, and after its pair t the weights are

        W_t = W_0 - step_t sum_{s <= t} rate_s grad_s.

    The safe step is 1/L, L the largest row sum of |k_r.k_s| over the batch so far: every error shrinks or stays,
    whatever the keys. With `norm` the output has length sqrt(d_v) whatever was stored.

    A write may end inside a batch: the state keeps W_0 and the open batch's gradients (as outer products), and the
    next write goes on with it.
    """

    mini_batch: Annotated[int, COUNT, Help("pairs per gradient step")] = 16
    base_rate: Annotated[
        float | None, POSITIVE, Help("step of all pairs", unit="1/|k|^2", none="the safe step of each batch")
    ] = None
    bias: Annotated[bool, Help("whether layers have biases (the paper's have)")] = False
    norm: Annotated[bool, Help("LayerNorm on the output (as in the paper)")] = False
    residual: Annotated[bool, Help("train towards v - k and recall q + f(q) (as in the paper), for d_k = d_v")] = False
    init_std: Annotated[
        float, NOT_NEGATIVE, Help("standard deviation of the last layer's starting weights (the paper: 0.02)")
    ] = 0.0
    seed: Annotated[int, NOT_NEGATIVE, Help("seed of the starting weights")] = 0

    capabilities = Capabilities(scan="own")

    @abstractmethod
    def model(self, d_k: int) -> InnerModel:
        """Return the model that is trained for keys of width d_k."""

    @property
    def widths(self) -> Widths | None:
        """Equal widths of keys and values where q + f(q) is recalled."""
        return _EQUAL if self.residual else None

    def start(self, state: State) -> dict[str, Array]:
        """Return the weights of a model that has learned nothing."""
        return self.model(state.d_k).drawn(state, self.init_std, self.seed)

    # ------------------------------------------------------------------ hooks

    def init(self, state: State) -> Mapping[str, Array]:
        """Return the starting weights and an open batch without pairs."""
        return self._arrays(state, self.start(state), None)

    def put(self, state: State, keys: Array, values: Array, **extras: Array) -> Mapping[str, Array]:
        """Train on the pairs in order."""
        arrays, _ = self._write_pairs(state, keys, values, extras)
        return arrays

    def get(self, state: State, queries: Array, ask: Ask) -> Array:
        """Return f(q) with the weights after the last pair; zeros where nothing was written."""
        if state.n == 0:
            return queries @ state.zeros(state.d_k, state.d_v)
        model, xp = self.model(state.d_k), state.xp
        queries = in_dtype(queries, working_dtype(state.dtype, xp), xp)
        weights, batch = self._held(state)
        if batch is None:
            return model.forward(model.plain(weights), queries)
        steps = self._steps(model, batch)[..., -1:]
        return model.forward(model.trained(weights, batch, steps[..., None]), queries)

    def scanned(
        self, state: State, keys: Array, values: Array, queries: Array, read: str, extras: dict[str, Array]
    ) -> tuple[Mapping[str, Array], Array]:
        """Train block by block and read each block's queries in dual form."""
        arrays, out = self._write_pairs(state, keys, values, extras, queries, early=read == "before")
        if read == "before" and state.n == 0:
            out = state.xp.concat([state.xp.zeros_like(out[..., :1, :]), out[..., 1:, :]], axis=-2)
        return arrays, out

    # ------------------------------------------------------------------ training

    def _write_pairs(
        self,
        state: State,
        keys: Array,
        values: Array,
        extras: Mapping[str, Array],
        queries: Array | None = None,
        early: bool = False,
    ) -> tuple[Mapping[str, Array], Any]:
        """Return the arrays after the pairs and, given queries, their recalls (before their own pair if `early`)."""
        xp, count = state.xp, int(keys.shape[-2])
        wide = working_dtype(state.dtype, xp)
        keys, values = in_dtype(keys, wide, xp), in_dtype(values, wide, xp)
        queries = None if queries is None else in_dtype(queries, wide, xp)
        rates = extras.get("rate")
        if rates is None:
            rates = xp.ones((*state.batch, count), dtype=wide, device=state.device)
        rates = in_dtype(rates, wide, xp)
        with ar.overflow_unheard():
            arrays, out, worst = self._train(state, keys, values, rates, queries, early)
            if worst > _STABLE:
                what = "base_rate times rate times the curvature of a mini-batch (of one pair: squared key length)"
                warn_unstable(self, what, worst, _STABLE, _ADVICE)

            def first(i: int) -> Mapping[str, Array]:
                return self._train(state, keys[..., :i, :], values[..., :i, :], rates[..., :i], None, False)[0]

            require_finite_arrays(self, state, arrays, first, count, _ADVICE)
        return arrays, out

    def _train(
        self, state: State, keys: Array, values: Array, rates: Array, queries: Array | None, early: bool
    ) -> tuple[Mapping[str, Array], Any, float]:
        """Return the arrays, the recalls, and the largest product of fixed rate and curvature."""
        xp, model, count = state.xp, self.model(state.d_k), int(keys.shape[-2])
        weights, batch = self._held(state)
        out, start, worst = [], 0, 0.0
        while start < count:
            seen = 0 if batch is None else batch.n
            at = slice(start, min(count, start + self.mini_batch - seen))
            fresh = model.factors(weights, keys[..., at, :], values[..., at, :], rates[..., at])
            batch = fresh if batch is None else batch.then(fresh)
            steps = self._steps(model, batch)
            if self.base_rate is not None and not self.norm:
                moving = self.init_std != 0 or state.n + start - seen > 0
                worst = max(worst, self.base_rate * _curvature(batch, self.bias, seen, moving, self.base_rate))
            if queries is not None:
                shares = _shares(steps, seen, at.stop - at.start, early)
                out.append(model.forward(model.trained(weights, batch, shares), queries[..., at, :]))
            if batch.n == self.mini_batch:
                weights, batch = model.moved(weights, batch, steps[..., -1:]), None
                weights = {name: in_dtype(in_dtype(a, state.dtype, xp), keys.dtype, xp) for name, a in weights.items()}
            start = at.stop
        return self._arrays(state, weights, batch), xp.concat(out, axis=-2) if out else None, worst

    def _steps(self, model: InnerModel, batch: Factors) -> Array:
        """Return step_t for the batch's pairs t = 1..n, (n,) or (*batch, n).

        The safe step is 1/L, L the largest row sum of the couplings between the batch's pairs so far: no
        eigenvalue of their (Gauss-Newton) curvature lies above it.
        """
        xp = ar.namespace(batch.rates)
        if self.base_rate is not None:
            return xp.full((batch.n,), self.base_rate, dtype=batch.rates.dtype, device=ar.device_of(batch.rates))
        upto = xp.tril(xp.ones((batch.n, batch.n), dtype=batch.rates.dtype, device=ar.device_of(batch.rates)))
        sums = model.couplings(batch) @ ar.transpose(upto)
        largest = xp.max(sums * ar.transpose(upto), axis=-2)
        if bool(xp.any(xp.isinf(largest))):
            raise RecallOverflowError(
                f"the inner products of the keys that {self.name} trains on together leave the range of "
                f"{ar.dtype_name(largest.dtype)}, so there is no safe step; scale the keys down (unit length)."
            )
        least = float(xp.finfo(batch.rates.dtype).smallest_normal)
        steps = xp.where(largest > least, 1 / xp.where(largest > least, largest, xp.ones_like(largest)), 0 * largest)
        return steps if model.depth == 1 or model.norm else xp.minimum(steps, model.bilinear_bound(batch))

    def rewrite(self) -> Literal["adds", "averages", "replaces", "decays"]:
        """Return what a key written twice does: inside a batch both gradients are taken at the same weights."""
        if self.mini_batch == 1:
            return "replaces" if self.base_rate in (None, 1) else "decays"
        return "averages" if self.base_rate is None else "adds"

    # ------------------------------------------------------------------ the state's arrays

    def _open(self, state: State) -> dict[str, tuple[int, ...]]:
        """Return name and row shape of the arrays that hold the open batch."""
        model = self.model(state.d_k)
        widths = (state.d_k, *model.hidden, state.d_v)
        rows: dict[str, tuple[int, ...]] = {}
        for i in range(model.depth):
            rows[f"open_{model.name('inputs', i)}"] = (widths[i],)
            rows[f"open_{model.name('errors', i)}"] = (widths[i + 1],)
        rows["open_rates"] = ()
        if self.norm or model.depth > 1:
            rows["open_gains"] = (model.depth,)
        return rows if self.mini_batch > 1 else {}

    def _arrays(self, state: State, weights: Mapping[str, Array], batch: Factors | None) -> dict[str, Array]:
        """Return the state's arrays: the batch's starting weights, and its gradients padded to mini_batch - 1 rows."""
        arrays, model, room = dict(weights), self.model(state.d_k), self.mini_batch - 1
        rows: dict[str, Array] = {}
        if batch is not None:
            for i in range(model.depth):
                rows[f"open_{model.name('inputs', i)}"] = batch.inputs[i]
                rows[f"open_{model.name('errors', i)}"] = batch.errors[i]
            rows |= {"open_rates": batch.rates, "open_gains": batch.gains}
        for name, shape in self._open(state).items():
            if batch is None:
                arrays[name] = state.zeros(room, *shape)
            else:
                rest = in_dtype(state.zeros(room - batch.n, *shape), rows[name].dtype, state.xp)
                arrays[name] = state.xp.concat([rows[name], rest], axis=len(state.batch))
        return {name: in_dtype(a, state.dtype, state.xp) for name, a in arrays.items()}

    def _held(self, state: State) -> tuple[dict[str, Array], Factors | None]:
        """Return the weights that the open batch started with, and the batch (None where none is open).

        Both are in the dtype to compute in: float32 where the state is kept in 16 bits, rounded once a batch.
        """
        model, seen, xp = self.model(state.d_k), state.n % self.mini_batch, state.xp
        held = {name: in_dtype(a, working_dtype(state.dtype, xp), xp) for name, a in state.arrays.items()}
        weights = {name: held[name] for name in model.shapes(state.d_k, state.d_v)}
        if not seen:
            return weights, None
        inputs, errors = (
            tuple(held[f"open_{model.name(kind, i)}"][..., :seen, :] for i in range(model.depth))
            for kind in ("inputs", "errors")
        )
        gains = held["open_gains"][..., :seen, :] if "open_gains" in held else None
        return weights, Factors(inputs, errors, held["open_rates"][..., :seen], gains)


def _shares(steps: Array, seen: int, take: int, early: bool) -> Array:
    """Return the share (..., take, n) of each of the batch's n pairs in the weights that `take` queries read.

    The queries belong to the pairs from number `seen` on, and see their own pair unless `early`.
    """
    xp = ar.namespace(steps)
    first = seen if early else seen + 1
    if first:
        rows = steps[..., first - 1 : first - 1 + take]
    else:
        rows = xp.concat([steps[..., :1], steps[..., : take - 1]], axis=-1)
    counts = xp.arange(first, first + take, device=ar.device_of(steps))
    sees = xp.arange(int(steps.shape[-1]), device=ar.device_of(steps)) < counts[:, None]
    return rows[..., None] * xp.astype(sees, steps.dtype)


def _curvature(batch: Factors, bias: bool, first: int, moving: bool, base_rate: float) -> float:
    """Return the largest eigenvalue of the curvature that the batch's last layer has, weighted by its rates.

    From weights that hold nothing yet (not `moving`) a batch has nothing to amplify, and single pairs count.
    Where the row sums already show that base_rate times it is at most 2, their bound is returned.
    """
    inputs = ar.to_numpy(batch.inputs[-1]).astype(np.float64)
    weights = np.sqrt(ar.to_numpy(batch.rates).astype(np.float64))[..., None]
    gram = (inputs @ np.swapaxes(inputs, -1, -2) + bias) * weights * np.swapaxes(weights, -1, -2)
    if not np.isfinite(gram).all():
        return 0.0
    if moving:
        bound = float(np.abs(gram).sum(axis=-1).max(initial=0.0))
        return bound if base_rate * bound <= _STABLE else float(np.linalg.eigvalsh(gram).max(initial=0.0))
    return float(np.diagonal(gram, axis1=-2, axis2=-1)[..., first:].max(initial=0.0))
