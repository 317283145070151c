"""MesaNet: a layer that solves its ridge regression for every query."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Annotated, Literal

from annotated_types import Interval

from assocmem.contract import arrays as ar
from assocmem.contract.arrays import Array, transpose
from assocmem.contract.cost import D_K, D_V, Cost
from assocmem.contract.errors import ConvergenceWarning, InputError, warn
from assocmem.contract.recall import Ask
from assocmem.contract.register import register
from assocmem.contract.settings import COUNT, NOT_NEGATIVE, POSITIVE, SHARE, Help
from assocmem.contract.state import State
from assocmem.contract.traits import Overwrite, Source, Traits, extras_of
from assocmem.kernels.blockwise import in_dtype, working_dtype
from assocmem.kernels.chunked import decay_products, later_decays
from assocmem.kernels.linear_systems import MARGIN, conjugate_gradient, gram_tolerance, solve_gram, warn_small_ridge
from assocmem.kernels.recurrent import Arrays, RecurrentStore, one_each

_LEAST_TOLERANCE = 1e-10
_LOST = 2e-5
"""Share of their digits that writes by recursive least squares may lose without a warning."""


@dataclass(frozen=True)
class MesaNet(RecurrentStore):
    """f(x) = G (H + ridge I)^-1 x with H <- a H + b k k^T and G <- a G + b v k^T.

    The weighted ridge regression sum_i w_i |W k_i - v_i|^2 + ridge |W|^2 with w_i = b_i times the decays after pair i,
    solved anew for each query. Their symbols gamma, beta, Lambda, phi are ours decay, strength, ridge, H; the paper
    learns a diagonal Lambda, from 1 at the start and never below 0.25.

    "cg" starts from x / (diag H + ridge). Queries that have not reached the tolerance after max_steps are solved
    directly, and ConvergenceWarning says how many: no recall is less accurate than the tolerance.

    Where ridge and eigenvalues of H come near its rounding (16 eps of the largest), directions below that get no
    weight: as the ridge goes to 0 recalls go to those of smallest norm. IllConditionedWarning says so.

    "rls" computes in float64 and rounds what it keeps once a write. It cannot leave directions out: entries of its
    inverse reach 1 / ridge, and where rounding times that adds up to more than 2e-5 IllConditionedWarning says so.

    With decay 1 the order of writes does not matter.

    "rls" forgets and keeps the inverse instead: the state starts at H = ridge I and lets the ridge decay with the
    pairs, so it equals the other two for decay 1 only; below 1 its ridge after n pairs is ridge a^n, and directions
    that no key comes back to lose it (their inverse grows like a^-n until DivergedError). Needs decay > 0.

    Notes
    -----
    State: H (d_k, d_k) and G (d_v, d_k); for "rls" R = H^-1 and W = G R in their place. Cost: write d_k^2 + d_k d_v
    ("rls": 3 d_k^2 + 2 d_k d_v); recall at most max_steps d_k^2 + d_k d_v a query ("rls": d_k d_v).
    Source: von Oswald et al. 2025 (2506.05233), H_t = gamma_t H_(t-1) + beta_t k_t k_t^T and o_t = G_t linsolve(H_t +
    Lambda, q_t); the mesa layer and its recursive form: von Oswald et al. 2023 (2309.05858).

    Examples
    --------
    >>> import numpy as np
    >>> store = MesaNet(ridge=1e-6)
    >>> keys = np.array([[1.0, 0.0], [0.6, 0.8]])
    >>> state = store.write(store.empty(2, 1), keys, np.array([[3.0], [5.0]]))
    >>> store.recall(state, keys).round(4).tolist()
    [[3.0], [5.0]]
    """

    ridge: Annotated[float, POSITIVE, Help("weight of |W|^2 (for 0 take optimal-linear)", unit="|k|^2")] = 1.0
    decay: Annotated[float, SHARE, Help("factor a on H and G before each pair", per_pair=True)] = 1.0
    strength: Annotated[float, NOT_NEGATIVE, Help("weight b of each pair", per_pair=True)] = 1.0
    solver: Annotated[
        Literal["cg", "direct", "rls"], Help("conjugate gradients, a linear solve, or recursive least squares")
    ] = "cg"
    max_steps: Annotated[int, COUNT, Help("steps of cg (30 in the paper)")] = field(default=30, kw_only=True)
    tolerance: Annotated[
        float | None,
        Interval(gt=0, lt=1),
        Help("relative residual that ends cg", none="1e-10, or 16 rounding units if more"),
    ] = field(default=None, kw_only=True)

    equation = "f(x) = G (H + ridge I)^-1 x, H <- a H + b k k^T, G <- a G + b v k^T"
    summary = "Solves a ridge regression over the stored pairs for every query."
    source = Source(
        title="MesaNet: Sequence Modeling by Locally Optimal Test-Time Training",
        authors="von Oswald, Johannes and Scherrer, Nino and Kobayashi, Seijin and Versari, Luca and Yang, Songlin and "
        "Schlegel, Maximilian and Maile, Kaitlin and Schimpf, Yanick and Sieberling, Oliver and Meulemans, Alexander "
        "and Saurous, Rif A. and Lajoie, Guillaume and Frenkel, Charlotte and Pascanu, Razvan and "
        "Agüera y Arcas, Blaise and Sacramento, João",
        year=2025,
        arxiv="2506.05233",
        equation="H_t = gamma_t H_(t-1) + beta_t k_t k_t^T, G_t likewise with v_t k_t^T, "
        "o_t = G_t (H_t + Lambda)^-1 q_t",
        deviations=(
            "one ridge for all dimensions and pairs in place of a learned diagonal Lambda",
            "keys, values, queries and gates come as they are: no projections, convolutions or normalisation",
            "conjugate gradients stop at a tolerance; what has not reached it by max_steps is solved directly",
        ),
    )

    def check_together(self) -> None:
        """Refuse recursive least squares that would divide by a decay of 0."""
        if self.solver == "rls" and self.decay == 0:
            raise InputError('`decay` of MesaNet must be a number in (0, 1] with solver="rls"; got 0.')

    @property
    def cost(self) -> Cost:  # type: ignore[override]
        if self.solver == "rls":
            return Cost(3 * D_K**2 + 2 * D_K * D_V, D_K * D_V)
        solve = D_K**3 if self.solver == "direct" else self.max_steps * D_K**2
        return Cost(D_K**2 + D_K * D_V, solve + D_K * D_V, note="recall at most")

    @cached_property
    def traits(self) -> Traits:
        """Linear and bounded; a key written twice is averaged, or weighted by its decays."""
        overwrite: Overwrite = "averages" if self.decay == 1 else "decays"
        return Traits("shared", False, overwrite, constant_size=True, extras=extras_of(self))

    # ------------------------------------------------------------------ writing

    def init(self, state: State) -> Arrays:
        if self.solver == "rls":
            return {"R": state.eye(state.d_k) / self.ridge, "W": state.zeros(state.d_v, state.d_k)}
        return {"H": state.zeros(state.d_k, state.d_k), "G": state.zeros(state.d_v, state.d_k)}

    def resolved(self, state: State, keys: Array, extras: Arrays) -> dict[str, Array]:
        full = super().resolved(state, keys, extras)
        if self.solver == "rls" and bool(state.xp.any(full["decay"] == 0)):
            raise InputError('`decay` of MesaNet.write must be > 0 with solver="rls", which divides by it; got 0.')
        return full | {"cut": one_each(gram_tolerance(state.dtype, state.io_dtype, state.xp), keys)}

    def put(self, state: State, keys: Array, values: Array, **extras: Array) -> Arrays:
        after = super().put(state, keys, values, **extras)
        self._warn_where_lost(state, after, keys, extras)
        return after

    def scanned(
        self, state: State, keys: Array, values: Array, queries: Array, read: str, extras: dict[str, Array]
    ) -> tuple[Arrays, Array]:
        after, recalls = super().scanned(state, keys, values, queries, read, extras)
        self._warn_where_lost(state, after, keys, extras)
        return after, recalls

    def put_pair(self, arrays: Arrays, key: Array, value: Array, **extras: Array) -> Arrays:
        """The rule for one pair."""
        strength, decay = extras["strength"][..., None], extras["decay"][..., None]
        if self.solver != "rls":
            weighted = strength * key
            return {
                "H": decay * arrays["H"] + transpose(weighted) @ key,
                "G": decay * arrays["G"] + transpose(value) @ weighted,
            }
        # In float64: what is left of R along a key comes of differences of numbers as large as 1 / ridge.
        xp = ar.namespace(key)
        wide = [in_dtype(a, xp.float64, xp) for a in (arrays["R"], arrays["W"], key, value, strength, decay)]
        after = zip(("R", "W"), _least_squares_step(*wide), strict=True)
        return {name: in_dtype(a, arrays[name].dtype, xp) for name, a in after}

    def put_chunk(
        self, arrays: Arrays, keys: Array, values: Array, queries: Array | None, read: str, **extras: Array
    ) -> tuple[Arrays, Array | None]:
        """The rule for many pairs: sums at once without queries, a chunk at a time with them, rls pair by pair."""
        if self.solver == "rls":
            return self._put_recursively(arrays, keys, values, queries, read, **extras)
        xp, recalls, count = ar.namespace(keys), [], int(keys.shape[-2])
        width = self.chunk if queries is not None else count
        for start in range(0, count, width):
            at = slice(start, min(start + width, count))
            key, value = keys[..., at, :], values[..., at, :]
            own = {name: array[..., at] for name, array in extras.items()}
            later = later_decays(own["decay"])
            kept = (later[..., :1] * own["decay"][..., :1])[..., None]
            weighted = (later * own["strength"])[..., None] * key
            if queries is not None:
                recalls.append(self._solved_along(arrays, key, value, queries[..., at, :], read == "before", **own))
            arrays = {
                "H": kept * arrays["H"] + transpose(weighted) @ key,
                "G": kept * arrays["G"] + transpose(value) @ weighted,
            }
        return arrays, xp.concat(recalls, axis=-2) if recalls else None

    def _put_recursively(
        self, arrays: Arrays, keys: Array, values: Array, queries: Array | None, read: str, **extras: Array
    ) -> tuple[Arrays, Array | None]:
        """The rule of "rls" for many pairs, in turn; what is kept is rounded once, at their end."""
        xp, recalls = ar.namespace(keys), []
        wide: Callable[[Array], Array] = lambda a: in_dtype(a, xp.float64, xp)  # noqa: E731
        R, W, rows, targets = wide(arrays["R"]), wide(arrays["W"]), wide(keys), wide(values)
        strengths, decays = wide(extras["strength"]), wide(extras["decay"])
        for i in range(int(keys.shape[-2])):
            at = slice(i, i + 1)
            before = W
            R, W = _least_squares_step(
                R, W, rows[..., at, :], targets[..., at, :], strengths[..., at, None], decays[..., at, None]
            )
            if queries is not None:
                recalls.append(wide(queries[..., at, :]) @ transpose(W if read == "after" else before))
        kept = {name: in_dtype(a, arrays[name].dtype, xp) for name, a in (("R", R), ("W", W))}
        return kept, in_dtype(xp.concat(recalls, axis=-2), queries.dtype, xp) if queries is not None else None

    # ------------------------------------------------------------------ recall

    def get(self, state: State, queries: Array, ask: Ask) -> Array:
        """Return G (H + ridge I)^-1 q."""
        xp, wide = state.xp, working_dtype(state.dtype, state.xp)
        queries = in_dtype(queries, wide, xp)
        if self.solver == "rls":
            return queries @ transpose(in_dtype(state["W"], wide, xp))
        H, G = (in_dtype(state[name], wide, xp) for name in ("H", "G"))
        diagonal = xp.linalg.diagonal(H)[..., None, :]
        scale, cut = self._scale(diagonal), gram_tolerance(wide, state.io_dtype, xp)
        matrix = H / scale
        found = self._solved(lambda x: x @ matrix, queries, diagonal, scale, cut, H, lambda: H)
        return found @ transpose(G)

    def _solved_along(
        self, arrays: Arrays, keys: Array, values: Array, queries: Array, early: bool, **extras: Array
    ) -> Array:
        """Return the recall of query i after (or before) pair i of a chunk; no H but the first is formed by "cg"."""
        xp, decay = ar.namespace(keys), extras["decay"]
        fading = decay_products(decay)
        kept = (decay[..., :1] * fading[..., :, 0])[..., None]
        if early:
            fading = xp.concat([xp.zeros_like(fading[..., :1, :]), fading[..., :-1, :]], axis=-2)
            kept = xp.concat([xp.ones_like(kept[..., :1, :]), kept[..., :-1, :]], axis=-2)
        shares = fading * extras["strength"][..., None, :]
        H, G, keys_t = arrays["H"], arrays["G"], transpose(keys)

        def each() -> Array:
            pairs = keys[..., :, :, None] * keys[..., :, None, :]
            flat = xp.reshape(pairs, (*keys.shape[:-1], int(keys.shape[-1]) ** 2))
            return kept[..., None] * H[..., None, :, :] + xp.reshape(shares @ flat, pairs.shape)

        diagonal = kept * xp.linalg.diagonal(H)[..., None, :] + shares @ (keys * keys)
        scale = self._scale(diagonal)
        matrix, rows = H / scale, keys / xp.sqrt(scale)
        rows_t = transpose(rows)
        product: Callable[[Array], Array] = lambda x: kept * (x @ matrix) + (shares * (x @ rows_t)) @ rows  # noqa: E731
        # What was there before the chunk is in every H, so that its least eigenvalue bounds theirs.
        least = H * xp.min(kept, axis=-2, keepdims=True)
        found = self._solved(product, queries, diagonal, scale, float(ar.to_numpy(xp.max(extras["cut"]))), least, each)
        return kept * (found @ transpose(G)) + (shares * (found @ keys_t)) @ values

    def _scale(self, diagonal: Array) -> Array:
        """Return the largest entry (*batch, 1, 1) of diag H + ridge, by which systems are divided."""
        xp = ar.namespace(diagonal)
        if diagonal.shape[-1] == 0:
            return xp.full(
                (*diagonal.shape[:-2], 1, 1), self.ridge, dtype=diagonal.dtype, device=ar.device_of(diagonal)
            )
        return xp.max(diagonal, axis=(-2, -1), keepdims=True) + self.ridge

    def _solved(
        self,
        product: Callable[[Array], Array],
        queries: Array,
        diagonal: Array,
        scale: Array,
        cut: float,
        least: Array,
        dense: Callable[[], Array],
    ) -> Array:
        """Return (H + ridge I)^-1 q for each query, in the directions of H that are not rounding.

        H is given by its products divided by `scale` (*batch, 1, 1), its diagonal, and, if asked for, itself: `dense`
        returns H (*batch, d, d), shared by all queries, or (*batch, m, d, d), one for each. least: (*batch, d, d), no
        greater than any H. cut: share of its largest eigenvalue below which one of H is rounding.
        """
        xp = ar.namespace(queries)
        rounding = cut * float(ar.to_numpy(xp.max(xp.sum(diagonal, axis=-1)))) if 0 not in diagonal.shape else 0.0
        if self.ridge < MARGIN * rounding:
            smallest = self.ridge + float(ar.to_numpy(xp.min(xp.linalg.eigvalsh(ar.constant(least)))))
            if smallest < MARGIN * rounding:
                what = f"directions in which the squares of keys sum to less than about {rounding:.0e} count as zero"
                warn_small_ridge(self.name, self.ridge, rounding / cut / self.ridge, queries.dtype, what)
                return solve_gram(dense(), queries, ridge=self.ridge, cut=cut)
        if self.solver == "direct":
            return self._direct(dense(), queries, diagonal)
        tolerance = self.tolerance or max(_LEAST_TOLERANCE, 16 * float(xp.finfo(queries.dtype).eps))
        size = _largest(queries)
        found, residuals = conjugate_gradient(
            lambda x: product(x) + (self.ridge / scale) * x,
            queries / size,
            diagonal / scale + self.ridge / scale,
            max_steps=self.max_steps,
            tolerance=tolerance,
        )
        found = found * (size / scale)
        left = ~(residuals <= tolerance)
        if not bool(xp.any(left)):
            return found
        worst, count = float(ar.to_numpy(xp.max(residuals))), int(ar.to_numpy(xp.sum(xp.astype(left, xp.int64))))
        warn(
            f"{self.name}: conjugate gradients left {count} of {math.prod(residuals.shape)} queries with a relative "
            f"residual of up to {worst:.2g} after {self.max_steps} steps (tolerance {tolerance:.2g}); they were solved "
            'directly. Raise `max_steps` or `ridge`, or take solver="direct".',
            ConvergenceWarning,
        )
        return xp.where(left[..., None], self._direct(dense(), queries, diagonal), found)

    def _warn_where_lost(self, state: State, after: Arrays, keys: Array, extras: Arrays) -> None:
        """Warn where an inverse that is kept loses digits: its entries reach 1 / ridge, and roundings add up.

        Those are of the inverse, once a write, and of the keys as they came, in directions that no key really has.
        """
        xp = state.xp
        if self.solver != "rls" or 0 in keys.shape or ar.is_half(state.dtype, xp):
            return
        squares = xp.max(xp.sum(keys * keys, axis=-1) * extras.get("strength", self.strength), axis=-1)
        eps, lost, worst = float(xp.finfo(state.io_dtype).eps), 0.0, 0.0
        for R, pairs in ((state["R"], state.n), (after["R"], state.n + int(keys.shape[-2]))):
            reached = float(ar.to_numpy(xp.max(squares * xp.max(xp.linalg.diagonal(R), axis=-1))))
            worst, lost = max(worst, reached), max(lost, reached * math.sqrt(pairs) * eps)
        if lost > max(_LOST, 16 * eps):
            what = "the inverse that is kept loses digits from write to write"
            warn_small_ridge(self.name, self.ridge, worst, state.io_dtype, what)

    def _direct(self, H: Array, queries: Array, diagonal: Array) -> Array:
        xp = ar.namespace(queries)
        matrix = H + self.ridge * xp.eye(int(H.shape[-1]), dtype=H.dtype, device=ar.device_of(H))
        if H.ndim > diagonal.ndim:
            return xp.linalg.solve(matrix, queries[..., None])[..., 0]
        return transpose(xp.linalg.solve(matrix, transpose(queries)))


def _least_squares_step(
    R: Array, W: Array, key: Array, value: Array, strength: Array, decay: Array
) -> tuple[Array, Array]:
    """Return H^-1 and G H^-1 after one pair (*batch, 1, width), by Sherman and Morrison."""
    R = R / decay
    image = key @ R
    gain = strength * image / (1 + strength * (image @ transpose(key)))
    R = R - transpose(gain) @ image
    return (R + transpose(R)) / 2, W + transpose(value - key @ transpose(W)) @ gain


def _largest(rows: Array) -> Array:
    """Return the largest absolute entry of each row, (..., 1); 1 for rows of zeros or without entries."""
    xp = ar.namespace(rows)
    if rows.shape[-1] == 0:
        return xp.ones((*rows.shape[:-1], 1), dtype=rows.dtype, device=ar.device_of(rows))
    largest = xp.max(xp.abs(rows), axis=-1, keepdims=True)
    return xp.where(largest > 0, largest, xp.ones_like(largest))


register("mesa-net", MesaNet, label="MesaNet", colour="#AA4499")
