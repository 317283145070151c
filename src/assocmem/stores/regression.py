"""Test-time regression: the frame in which a memory is a choice of weights, function class and optimiser."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, Literal

from annotated_types import Interval

from assocmem.contract import arrays as ar
from assocmem.contract.arrays import Array, transpose
from assocmem.contract.cost import D_K, D_V, Cost, N
from assocmem.contract.errors import InputError, RecallOverflowError
from assocmem.contract.recall import Ask, Dense, Mass, Recall
from assocmem.contract.register import register
from assocmem.contract.settings import NOT_NEGATIVE, POSITIVE, Help
from assocmem.contract.state import State
from assocmem.contract.store import Store
from assocmem.contract.traits import Capabilities, Overwrite, Source, Traits
from assocmem.kernels.attention import attend
from assocmem.kernels.blockwise import in_dtype, item_count, working_dtype
from assocmem.kernels.chunked import inverse_unit_lower
from assocmem.kernels.linear_systems import solve, tolerance

_TILE = 2**20


@dataclass(frozen=True)
class WeightedRegression(Store):
    """min over f of 1/2 sum_i gamma_i |v_i - f(k_i)|^2 over the stored pairs, asked at each query: recall f(x).

    Three choices name a memory: how much each pair weighs, which functions f may be, and how the minimum is sought.

    | function       | optimiser    | decay | equals |
    |----------------|--------------|-------|--------|
    | "linear"       | "first-step" | 1     | outer product, linear attention without normaliser |
    | "linear"       | "first-step" | < 1   | Mamba-2 with one decay for all pairs |
    | "linear"       | "online"     | 1     | DeltaNet with strength `step` |
    | "linear"       | "online"     | < 1   | Gated DeltaNet |
    | "linear"       | "exact"      | 1     | optimal linear store, with ridge MesaNet |
    | "linear"       | "exact"      | < 1   | MesaNet with decay |
    | "constant"     | "exact"      | 1     | softmax attention (Nadaraya-Watson regression) |
    | "local-linear" | "exact"      | 1     | the next order of softmax attention; exact for values affine in the key |

    A fit around each query has kernel weights e^(beta k.x): constant, or f(k) = c + B (k - x), recalled as c. The first
    step is taken over all pairs, which ignores how the keys overlap; online is one step for each pair in turn.

    Notes
    -----
    State: keys (n, d_k) and values (n, d_v): a frame to compare with, not to be fast. Cost: a copy per write; per
    recall n d_k + n d_v after a fit of n d_k^2 ("linear", once), n^3 ("online"), or n d_k^2 per query ("local-linear",
    and under masks).

    Examples
    --------
    >>> import numpy as np
    >>> keys = np.array([[1.0, 0.0], [0.0, 1.0], [0.6, 0.8], [0.8, -0.6]])
    >>> values = keys @ np.array([[2.0], [-1.0]]) + 3
    >>> store = WeightedRegression("local-linear")
    >>> state = store.write(store.empty(2, 1), keys, values)
    >>> store.recall(state, np.array([[0.5, 0.5]])).round(6).tolist()
    [[3.5]]
    """

    function: Annotated[
        Literal["linear", "constant", "local-linear"], Help("f(x) = W x, or a fit around each query by a kernel")
    ] = "linear"
    optimiser: Annotated[
        Literal["exact", "first-step", "online"], Help("exact, or for linear f gradient steps from W = 0")
    ] = "exact"
    decay: Annotated[float, Interval(gt=0, le=1), Help("gamma_i = decay^(pairs written after i)")] = 1.0
    step: Annotated[float, POSITIVE, Help("rate of gradient steps")] = 1.0
    ridge: Annotated[float, NOT_NEGATIVE, Help("weight of |W|^2 in exact linear fits, 0 for the smallest W")] = 0.0
    beta: Annotated[float | None, NOT_NEGATIVE, Help("sharpness of the kernel on unit keys", none="sqrt(d_k)")] = None

    equation = "f(x), f = argmin 1/2 sum_i gamma_i |v_i - f(k_i)|^2"
    summary = "Fits a regression to the stored pairs for every query; its choices give five other stores."
    source = Source(
        title="Test-time regression: a unifying framework for designing sequence models with associative memory",
        authors="Wang, Ke Alexander and Shi, Jiaxin and Fox, Emily B.",
        year=2025,
        arxiv="2501.12352",
        equation="min over f in F of 1/2 sum_i gamma_i |v_i - f(k_i)|^2",
        deviations=(
            "decays are one number for all pairs",
            "kernels are e^(beta k.x), which on unit keys is the Gaussian kernel up to a common factor",
            "where the fit is not unique the smallest coefficients are taken",
        ),
    )
    cost = Cost(D_K + D_V, N * D_K**2 + N * (D_K + D_V), note="a write copies the pair; n d_k^2 is the fit")

    def check_together(self) -> None:
        """Refuse gradient steps for anything but linear functions."""
        if self.function != "linear" and self.optimiser != "exact":
            raise InputError(
                f"`optimiser` of {self.name} must be exact for function={self.function!r}; got {self.optimiser!r}."
            )

    @property
    def traits(self) -> Traits:
        """Linear in the values with shared weights, growing; order and rewrites follow the choices."""
        overwrite: Overwrite = "averages" if self.optimiser == "exact" else "adds"
        if self.optimiser == "online":
            overwrite = "replaces" if self.step == 1 else "decays"
        elif self.decay < 1:
            overwrite = "decays"
        return Traits(
            linear_in_values="shared",
            permutation_invariant=self.decay == 1 and self.optimiser != "online",
            overwrite=overwrite,
            constant_size=False,
            keeps_pairs=True,
        )

    @property
    def capabilities(self) -> Capabilities:
        """Masks and weights; recalls of shards join where each pair's share is its own. States of all pairs join."""
        apart = self.decay == 1 and (self.function == "constant" or self.optimiser == "first-step")
        return Capabilities(
            masks=True,
            gives=("weights", "mass") if apart else ("weights",),
            merges="appends",
            selects=True,
            not_merged="with these choices a pair's share depends on the other pairs",
        )

    # ------------------------------------------------------------------ recall

    def get(self, state: State, queries: Array, ask: Ask) -> Recall:
        """Return weights times values, in blocks of queries; with the mass of the undivided weights."""
        xp, wide = state.xp, working_dtype(state.dtype, state.xp)
        values, count = in_dtype(state["values"], wide, xp), int(queries.shape[-2])
        items = item_count(state.batch, tuple(queries.shape[:-2]))
        width = max(1, _TILE // max(1, state.n * items))
        values_of, kept = [], []
        for start in range(0, max(1, count), width):
            at = slice(start, min(start + width, count))
            seen = None if ask.mask is None else ask.mask[..., at, :]
            weights = self._weights(state, queries[..., at, :], seen)
            values_of.append(weights @ values)
            kept.append(weights)
        recalled, rows = (x[0] if len(x) == 1 else xp.concat(x, axis=-2) for x in (values_of, kept))
        mass = None
        if "mass" in ask.want and self.function == "constant":
            mass = attend(state["keys"], state["values"], queries, self._beta(state.d_k), ask.visible).mass
        elif "mass" in ask.want:
            mass = Mass.of_sum(xp.sum(xp.abs(rows), axis=-1))
        return Recall(recalled, Dense(rows) if "weights" in ask.want else None, mass)

    def _weights(self, state: State, queries: Array, mask: Array | None) -> Array:
        """Return the row of weights over the pairs that the fit gives to each query."""
        xp, wide, m = state.xp, working_dtype(state.dtype, state.xp), int(queries.shape[-2])
        keys, queries = (in_dtype(x, wide, xp) for x in (state["keys"], queries))
        if state.n == 0 or m == 0:
            lead = ar.broadcast_shapes(state.batch, tuple(queries.shape[:-2]))
            return xp.zeros((*lead, m, state.n), dtype=wide, device=state.device)
        seen = xp.ones((1, state.n), dtype=xp.bool, device=state.device) if mask is None else mask
        counts = xp.cumulative_sum(xp.astype(seen, xp.int64), axis=-1)
        gamma = xp.where(seen, xp.astype(self.decay ** xp.astype(counts[..., -1:] - counts, xp.float64), wide), 0.0)
        if self.function == "linear" and self.optimiser == "first-step":
            return self.step * gamma * (queries @ transpose(keys))
        if self.function == "linear" and self.optimiser == "online":
            return self._online(keys, queries, gamma, seen, counts)
        if self.function == "linear":
            return self._fit(state, keys[..., None, :, :], queries[..., None, :], gamma, self.ridge)
        ages = xp.where(seen, xp.astype(counts[..., -1:] - counts, xp.float64), float("inf"))
        return self._around(state, keys, queries, ages)

    def _fit(self, state: State, features: Array, asked: Array, gamma: Array, ridge: float) -> Array:
        """Return what each pair has in the fit at x, (..., m, n).

        Parameters: features X (..., m or 1, n, d), asked x (..., m, 1, d) or (1, d), gamma (..., m or 1, n). With
        A = sqrt(gamma) X it is x^T (A^T A + ridge I)^-1 A^T sqrt(gamma) over the directions of A that count.
        """
        xp, root = ar.namespace(features), ar.namespace(features).sqrt(gamma)
        n, width = int(features.shape[-2]), int(features.shape[-1])
        if width == 0:
            return 0 * root + xp.sum(0 * asked, axis=(-2, -1))[..., None]
        inverse = solve(root[..., None] * features, None, ridge=ridge, cut=tolerance(n, width, state))
        return (asked @ inverse)[..., 0, :] * root

    def _around(self, state: State, keys: Array, queries: Array, ages: Array) -> Array:
        """Return the weights of a fit around each query, with kernel weights e^(beta k.x) decay^age, 0 at age inf."""
        xp = ar.namespace(keys)
        logits = self._beta(state.d_k) * (queries @ transpose(keys))
        # Decays join the logits before the peak is taken off: alone they may underflow where all near keys are old.
        fading = xp.astype(xp.where(ages < float("inf"), ages * math.log(self.decay), -float("inf")), logits.dtype)
        logits = logits + fading
        peak = xp.max(logits, axis=-1, keepdims=True)
        if not bool(xp.all(peak < float("inf"))):
            raise RecallOverflowError(
                f"a logit of {self.name} left the range of {ar.dtype_name(logits.dtype)}; scale keys and queries to "
                "unit length or lower beta."
            )
        some = peak > -float("inf")
        kernel = xp.exp(logits - xp.where(some, peak, xp.zeros_like(peak)))
        total = xp.sum(kernel, axis=-1, keepdims=True)
        kernel = kernel / xp.where(some, total, xp.ones_like(total))
        if self.function == "constant":
            return kernel
        shifted = keys[..., None, :, :] - queries[..., :, None, :]
        features = xp.concat(
            [xp.ones_like(shifted[..., :1] if shifted.shape[-1] else kernel[..., None]), shifted], axis=-1
        )
        first = xp.eye(int(features.shape[-1]), dtype=keys.dtype, device=ar.device_of(keys))[:1, :]
        return self._fit(state, features, first, kernel, 0.0)

    def _online(self, keys: Array, queries: Array, gamma: Array, seen: Array, counts: Array) -> Array:
        """Return the weights after one gradient step per visible pair: D o Q K^T times (I + step D o K K^T)^-1 step."""
        xp, n = ar.namespace(keys), int(keys.shape[-2])
        similar, gram = queries @ transpose(keys), keys @ transpose(keys)
        places = xp.arange(n, device=ar.device_of(keys))
        rows = []
        for i in range(int(seen.shape[-2])):
            own, at = seen[..., i, :], slice(None) if seen.shape[-2] == 1 else slice(i, i + 1)
            past = (places[:, None] > places) & own[..., :, None] & own[..., None, :]
            ages = xp.where(past, counts[..., i, :, None] - counts[..., i, None, :], 0)
            between = xp.where(past, xp.astype(self.decay ** xp.astype(ages, xp.float64), gram.dtype), 0.0)
            solve = inverse_unit_lower(self.step * between * gram)
            rows.append(self.step * ((similar[..., at, :] * gamma[..., i : i + 1, :]) @ solve))
        return rows[0] if len(rows) == 1 else xp.concat(rows, axis=-2)

    def _beta(self, d_k: int) -> float:
        return math.sqrt(d_k) if self.beta is None else float(self.beta)


register("test-time-regression", WeightedRegression)
