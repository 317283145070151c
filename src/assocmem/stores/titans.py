"""Titans' long-term memory: a model trained pair by pair with momentum and forgetting."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Annotated

import numpy as np

from assocmem.contract import arrays as ar
from assocmem.contract.arrays import Array, transpose
from assocmem.contract.cost import D_K, D_V, Cost
from assocmem.contract.form import Momentum
from assocmem.contract.recall import Ask
from assocmem.contract.register import register
from assocmem.contract.settings import COUNT, NOT_NEGATIVE, POSITIVE, SHARE, Help
from assocmem.contract.state import State
from assocmem.contract.traits import Extra, Overwrite, Source, Traits, extras_of
from assocmem.kernels.inner_model import InnerModel
from assocmem.kernels.momentum import gated_mixing, stable_rate, write_chunk
from assocmem.kernels.recurrent import Arrays, RecurrentStore, one_each
from assocmem.kernels.stability import warn_unstable

_TOLERANCE = 1e-5
_ADVICE = "Lower `base_rate` (None takes half the bound), `rate` or `momentum`, or scale the keys to unit length."


@dataclass(frozen=True)
class Titans(RecurrentStore):
    """M_t = (1 - alpha_t) M_(t-1) + S_t, S_t = eta_t S_(t-1) - theta_t grad |M_(t-1)(k_t) - v_t|^2; recall M_t(q).

    The gradient is taken at the memory before it forgets, and carries the factor 2 of |.|^2: a linear memory with
    eta = alpha = 0 is DeltaNet with strength 2 theta. Their symbols eta, alpha, theta are ours momentum, forgetting,
    base_rate times rate.

    Deeper than 1 the memory is an MLP with tanh-GELU and no biases, its hidden layers expansion d_k units wide and
    started with standard deviation 1/sqrt(fan-in); every layer has its own momentum and forgetting. A matrix starts
    at 0.

    write takes `rate` (..., n) as well. Where 2 theta |k|^2 exceeds
    `kernels.momentum.stable_rate` errors grow: `write` gives UnstableWarning, and DivergedError once the state
    leaves the range of its dtype.

    Notes
    -----
    State: the weights and as many numbers of momentum; 2 d_k d_v for depth 1. Cost: write 3 d_k d_v, recall d_k d_v
    (depth 1; many pairs go by chunks of 64), in general three times and once the number of weights.

    Examples
    --------
    >>> import numpy as np
    >>> store = Titans(base_rate=0.5, momentum=0.0)
    >>> state = store.write(store.empty(2, 1), np.eye(2), np.array([[3.0], [5.0]]))
    >>> store.recall(state, np.eye(2)).tolist()
    [[3.0], [5.0]]
    """

    base_rate: Annotated[
        float | None, POSITIVE, Help("step theta, times the extra `rate`", unit="1/|k|^2", none="half the bound below")
    ] = None
    momentum: Annotated[float, SHARE, Help("share eta of the last step that goes on", per_pair=True)] = 0.3
    forgetting: Annotated[float, SHARE, Help("share alpha of the memory that fades with each pair", per_pair=True)] = (
        0.0
    )
    depth: Annotated[int, COUNT, Help("layers of the memory; 1 is a matrix")] = field(default=1, kw_only=True)
    expansion: Annotated[int, COUNT, Help("hidden units per key dimension")] = field(default=4, kw_only=True)
    init_std: Annotated[float, NOT_NEGATIVE, Help("standard deviation of a deep memory's last layer")] = field(
        default=0.02, kw_only=True
    )
    seed: Annotated[int, NOT_NEGATIVE, Help("of the starting weights")] = field(default=0, kw_only=True)

    remedy = _ADVICE
    equation = "f(x) = M(x), M <- (1 - alpha) M + S, S <- eta S - theta grad |M(k) - v|^2"
    summary = "A matrix or MLP trained pair by pair by gradient descent with momentum and forgetting."
    source = Source(
        title="Titans: Learning to Memorize at Test Time",
        authors="Behrouz, Ali and Zhong, Peilin and Mirrokni, Vahab",
        year=2024,
        arxiv="2501.00663",
        equation="eqs. 12 (loss), 13-14 (memory and surprise), 15 (recall)",
        deviations=(
            "keys, values, queries and the three gates come as they are: no projections, convolutions or "
            "normalisation, no persistent memory",
            "the gradient is taken anew at every pair, also in chunks; eq. 16 of the paper takes it at a chunk's start",
            "base_rate=None sets theta to half its bound of stability",
            "a deep memory is an MLP with tanh-GELU, no biases and no residual; the paper leaves these open",
        ),
    )

    @property
    def cost(self) -> Cost:  # type: ignore[override]
        hidden = self.expansion * D_K
        weights = D_K * D_V if self.depth == 1 else hidden * (D_K + D_V) + (self.depth - 2) * hidden**2
        return Cost(3 * weights, weights)

    @cached_property
    def traits(self) -> Traits:
        """Bounded, order matters; linear in the values where the memory is a matrix."""
        overwrite: Overwrite = "mixes" if self.momentum else "decays"
        if self.momentum == 0 and self.forgetting == 0 and self.base_rate in (None, 0.5) and self.depth == 1:
            overwrite = "replaces"
        return Traits(
            linear_in_values="shared" if self.depth == 1 else "no",
            permutation_invariant=False,
            overwrite=overwrite,
            constant_size=True,
            extras=(
                Extra("rate", "how much each pair's gradient counts, times base_rate", default=1.0, low=0.0),
                *extras_of(self),
            ),
        )

    def form(self, d_k: int) -> Momentum | None:
        """Return the rule of a linear memory on unit keys, its step 2 theta."""
        if self.depth > 1:
            return None
        momentum, forgetting = float(self.momentum), float(self.forgetting)
        safe = 0.5 * float(stable_rate(d_k, np.asarray(momentum), np.asarray(forgetting)))
        return Momentum(safe if self.base_rate is None else 2 * self.base_rate, momentum, forgetting)

    def model(self, d_k: int) -> InnerModel:
        """Return the memory's architecture for keys of width d_k."""
        return InnerModel((self.expansion * d_k,) * (self.depth - 1), bias=False)

    def init(self, state: State) -> Arrays:
        weights = self.model(state.d_k).drawn(state, self.init_std if self.depth > 1 else 0.0, self.seed)
        return weights | {f"momentum_{name}": 0 * array for name, array in weights.items()}

    # ------------------------------------------------------------------ rates

    def resolved(self, state: State, keys: Array, extras: Arrays) -> dict[str, Array]:
        """Return rate, momentum and forgetting of every pair; warn where they let the state grow."""
        full = super().resolved(state, keys, {"rate": one_each(1.0, keys)} | dict(extras))
        if self.base_rate is not None:
            self._warn_where_unstable(state, keys, full)
        return full

    def _warn_where_unstable(self, state: State, keys: Array, full: Arrays) -> None:
        """Compare 2 theta |k|^2 (|activity|^2 in a deep memory, where it is a lower bound) with what is stable.

        A single pair must stay below the bound of a key that is written again and again, the mean over the pairs
        below that of random keys.
        """
        xp, model, d_k = state.xp, self.model(state.d_k), state.d_k
        inputs = model.last_inputs(model.plain(state.arrays), keys)
        steps = 2 * (self.base_rate or 0) * full["rate"] * xp.sum(inputs * inputs, axis=-1)
        bounds = stable_rate(1, full["momentum"], full["forgetting"])
        means = [xp.mean(x, axis=-1, keepdims=True) for x in (steps, full["momentum"], full["forgetting"])]
        steps = xp.concat([means[0], steps], axis=-1)
        bounds = xp.concat([stable_rate(d_k if self.depth == 1 else 1, *means[1:]), bounds], axis=-1)
        excess = ar.to_numpy(xp.reshape(steps - bounds * (1 + _TOLERANCE), (-1,)))
        if (excess > 0).any():
            worst = int(excess.argmax())
            step, bound = (float(ar.to_numpy(xp.reshape(x, (-1,)))[worst]) for x in (steps, bounds))
            warn_unstable(self, "2 theta |k|^2", step, bound, _ADVICE)

    def _doubled_rates(self, curvature: Array, d_k: int, rate: Array, momentum: Array, forgetting: Array) -> Array:
        """Return 2 theta of each pair, all arguments (..., n); curvature is |k|^2, or its bound in a deep memory."""
        if self.base_rate is not None:
            return 2 * self.base_rate * rate
        xp = ar.namespace(curvature)
        least = float(xp.finfo(curvature.dtype).smallest_normal)
        some = curvature > least
        safe = 0.5 * stable_rate(d_k, momentum, forgetting) / xp.where(some, curvature, xp.ones_like(curvature))
        return rate * xp.where(some, safe, xp.zeros_like(safe))

    # ------------------------------------------------------------------ one pair, many pairs, recall

    def put_pair(self, arrays: Arrays, key: Array, value: Array, **extras: Array) -> Arrays:
        """The rule for one pair."""
        d_k = int(key.shape[-1])
        model, rate, momentum, forgetting = self.model(d_k), extras["rate"], extras["momentum"], extras["forgetting"]
        factors = model.factors(arrays, key, value, rate)
        steps = self._doubled_rates(model.couplings(factors)[..., 0], d_k, rate, momentum, forgetting)
        after = {}
        for i in range(model.depth):
            name = model.name("W", i)
            gradient = transpose(factors.errors[i] * steps[..., None]) @ factors.inputs[i]
            pushed = momentum[..., None] * arrays[f"momentum_{name}"] - gradient
            after[name] = (1 - forgetting[..., None]) * arrays[name] + pushed
            after[f"momentum_{name}"] = pushed
        return after

    def put_chunk(
        self, arrays: Arrays, keys: Array, values: Array, queries: Array | None, read: str, **extras: Array
    ) -> tuple[Arrays, Array | None]:
        """The rule for a chunk at a time in a linear memory, pair by pair in a deep one."""
        xp, d_k = ar.namespace(keys), int(keys.shape[-1])
        recalls, mixing = [], None
        still = all(bool(xp.all(extras[name] == extras[name][..., :1])) for name in ("momentum", "forgetting"))
        width = self.chunk if self.depth == 1 else 1
        for start in range(0, int(keys.shape[-2]), width):
            at = slice(start, min(start + width, int(keys.shape[-2])))
            asked = None if queries is None else queries[..., at, :]
            own = {name: array[..., at] for name, array in extras.items()}
            if self.depth > 1:
                after = self.put_pair(arrays, keys[..., at, :], values[..., at, :], **own)
                if asked is not None:
                    recalls.append(self._read(after if read == "after" else arrays, asked))
                arrays = after
                continue
            squares = xp.sum(keys[..., at, :] * keys[..., at, :], axis=-1)
            steps = self._doubled_rates(squares, d_k, **own)
            if mixing is None or not still:
                mixing = gated_mixing(own["momentum"], 1 - own["forgetting"])
            part, old = mixing.first(at.stop - at.start), (arrays["W"], arrays["momentum_W"])
            matrix, step, out = write_chunk(
                *old, keys[..., at, :], values[..., at, :], steps, part, queries=asked, read=read
            )
            arrays = {"W": matrix, "momentum_W": step}
            recalls += [] if out is None else [out]
        return arrays, xp.concat(recalls, axis=-2) if recalls else None

    def scanned(
        self, state: State, keys: Array, values: Array, queries: Array, read: str, extras: dict[str, Array]
    ) -> tuple[Arrays, Array]:
        """Return the arrays after all pairs and the recalls; a deep memory that holds nothing recalls zeros."""
        after, out = super().scanned(state, keys, values, queries, read, extras)
        if self.depth > 1 and read == "before" and state.n == 0:
            out = state.xp.concat([0 * out[..., :1, :], out[..., 1:, :]], axis=-2)
        return after, out

    def get(self, state: State, queries: Array, ask: Ask) -> Array:
        if state.n == 0:
            return queries @ state.zeros(state.d_k, state.d_v)
        return self._read(state.arrays, queries)

    def _read(self, arrays: Arrays, queries: Array) -> Array:
        model = self.model(int(queries.shape[-1]))
        return model.forward(model.plain(arrays), queries)


register("titans", Titans, label="Titans", colour="#8A8A8A")
