"""Stores that solve a least-squares problem: min over W of sum_i |W φ(k_i) - v_i|^2 + ridge |W|^2.

The state is not the Gram matrix of the keys, whose condition number is the square of theirs, but the factor R of a
QR factorisation of the matrix of keys, with Q^T V. New pairs wait in a pending block; a full block is folded in by
one more QR, so the answer is the same, to rounding, however the pairs are split into writes.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from assocmem.contract import arrays as ar
from assocmem.contract.arrays import Array
from assocmem.contract.errors import IllConditionedWarning, RecallOverflowError, warn
from assocmem.contract.recall import Ask
from assocmem.contract.slots import Rows
from assocmem.contract.state import State
from assocmem.contract.store import Store
from assocmem.kernels.linear_systems import solve, tolerance, wide

MIN_BLOCK = 16
"""Least number of pairs that are folded in together."""
MAX_FOLD = 4096
"""Rows that one QR takes at most, unless the features are wider than a quarter of that."""


@dataclass(frozen=True)
class LeastSquaresStore(Store):
    """A store that recalls W φ(x) with the least-squares W of all its pairs, of smallest norm where many are best.

    A family names the features φ (`_width`, `_features`) and the weight of |W|^2 (`_ridge`).

    State: "R" (width, width), upper triangular, R^T R = Φ^T Φ of the folded pairs; "QtV" (width, d_v);
    "pending_keys" (p, d_k) and "pending_values" (p, d_v), p < max(width, 16).

    Rank: a direction of feature space counts only if its singular value exceeds
    `linear_systems.tolerance` times the largest; all others are left out of W, at every ridge. This one rule
    holds for batches, streams and reports, on every array library, so duplicate, collinear and zero keys give the
    minimum-norm answer, and a ridge that goes to 0 ends there without a jump.
    """

    @abstractmethod
    def _width(self, state: State) -> int:
        """Return the number of features."""

    @abstractmethod
    def _features(self, state: State, x: Array) -> Array:
        """Return φ(x), (..., n, d_k) -> (..., n, width)."""

    @abstractmethod
    def _ridge(self, state: State) -> float:
        """Return the weight of |W|^2 in the sum of squares over the state's pairs."""

    def init(self, state: State) -> Mapping[str, Array | Rows]:
        """Return an empty factor and no pending pairs."""
        width = self._width(state)
        return {
            "R": state.zeros(width, width),
            "QtV": state.zeros(width, state.d_v),
            "pending_keys": Rows(state.d_k),
            "pending_values": Rows(state.d_v),
        }

    def put(self, state: State, keys: Array, values: Array, **extras: Array) -> State:
        """Return the state with the new pairs pending, or folded in where the block is full."""
        total, slots = state.n + int(keys.shape[-2]), state.slots
        assert slots is not None  # made by init
        if not self._width(state):
            return state.after(state.arrays, total, slots)
        if slots.count + int(keys.shape[-2]) < max(MIN_BLOCK, self._width(state)):
            return state.after(state.arrays, total, slots.append({"pending_keys": keys, "pending_values": values}))
        xp = state.xp
        keys = xp.concat([state["pending_keys"], keys], axis=-2)
        values = xp.concat([state["pending_values"], values], axis=-2)
        matrix, targets = self._folded(state, keys, values)
        short = self._width(state) - int(matrix.shape[-2])
        if short:
            matrix = xp.concat([matrix, state.zeros(short, self._width(state))], axis=-2)
            targets = xp.concat([targets, state.zeros(short, state.d_v)], axis=-2)
        none = slots.select(xp.zeros(0, dtype=xp.int64, device=state.device))
        return state.after({**state.arrays, "R": matrix, "QtV": targets}, total, none)

    def _factor_rows(self, state: State) -> int:
        """Return how many rows of R are taken; the others are zero."""
        return min(state.n - int(state["pending_keys"].shape[-2]), self._width(state))

    def _folded(self, state: State, keys: Array, values: Array) -> tuple[Array, Array]:
        """Return R (r, width) and Q^T V (r, d_v) of the state's folded pairs and the given ones, r <= width."""
        xp, taken = state.xp, self._factor_rows(state)
        matrix, targets = state["R"][..., :taken, :], state["QtV"][..., :taken, :]
        step = max(MAX_FOLD, 4 * self._width(state))
        count = int(keys.shape[-2])
        for start in range(0, count, step):
            at = slice(start, min(start + step, count))
            matrix = xp.concat([matrix, self._features(state, keys[..., at, :])], axis=-2)
            targets = xp.concat([targets, values[..., at, :]], axis=-2)
            q, matrix = xp.linalg.qr(wide(self._in_range(matrix)), mode="reduced")
            matrix = xp.astype(matrix, state.dtype)
            targets = ar.transpose(xp.astype(q, state.dtype)) @ targets
        return matrix, targets

    def _system(self, state: State) -> tuple[Array, Array]:
        """Return a matrix (r, width) and targets (r, d_v) with the least-squares problem of all pairs, n >= 1."""
        taken = self._factor_rows(state)
        if taken == 0:
            return self._in_range(self._features(state, state["pending_keys"])), state["pending_values"]
        if state["pending_keys"].shape[-2] == 0:
            return state["R"][..., :taken, :], state["QtV"][..., :taken, :]
        return self._folded(state, state["pending_keys"], state["pending_values"])

    def _in_range(self, matrix: Array) -> Array:
        """Return the rows of a system; RecallOverflowError where their singular values may leave the dtype's range."""
        xp = ar.namespace(matrix)
        if 0 in matrix.shape:
            return matrix
        largest = float(ar.to_numpy(xp.max(xp.abs(matrix))))
        if largest * math.sqrt(matrix.shape[-2] * matrix.shape[-1]) < float(xp.finfo(matrix.dtype).max):
            return matrix
        raise RecallOverflowError(
            f"the keys written to {self.name} are too long for {ar.dtype_name(matrix.dtype)}; "
            "scale them down (unit length), or use float64."
        )

    def solution(self, state: State) -> Array:
        """Return W^T (*batch, width, d_v), the matrix by which features recall; zeros where nothing is stored.

        Cost: one QR of the pending pairs and one singular value decomposition of width^2 max(n, width) at the
        first call after a write; the state remembers the answer (but not where it carries gradients).
        """
        if not state.n or not self._width(state) or not state.d_v:
            return state.zeros(self._width(state), state.d_v)
        if "solution" in state.memo:
            return state.memo["solution"]
        cut = tolerance(state.n, self._width(state), state)
        with ar.own_arithmetic(state.xp, state.device):
            solution = solve(*self._system(state), ridge=self._ridge(state), cut=cut)
        if not ar.carries_gradient(solution):
            state.memo["solution"] = solution
        return solution

    def get(self, state: State, queries: Array, ask: Ask) -> Array:
        """Return W φ(x)."""
        return self._features(state, queries) @ self.solution(state)

    def rank(self, state: State) -> int | Array:
        """Return how many independent directions the stored keys' features span: an int, or integers (*batch)."""
        return _plain(self._spectrum(state)[1], state)

    def condition(self, state: State, *, warn_above: float | None = None) -> float | Array:
        """Return the largest singular value of the stored features over the smallest that counts, per batch item.

        1 where nothing (or only zero) is stored. Recalls of stored keys carry a relative error of about this
        number times the dtype's rounding unit. With `warn_above` (> 0), IllConditionedWarning is given where
        the number exceeds it.
        """
        singular, rank = self._spectrum(state)
        xp = state.xp
        if singular.shape[-1] == 0:
            return _plain(state.zeros() + 1, state)
        places = xp.arange(singular.shape[-1], device=state.device)
        last = xp.where(places < rank[..., None], singular, xp.full_like(singular, math.inf))
        least = xp.min(last, axis=-1)
        number = xp.where(rank > 0, singular[..., 0] / least, xp.ones_like(least))
        if warn_above is not None and bool(xp.any(number > warn_above)):
            warn(
                f"the keys stored in {self.name} have condition number {ar.to_numpy(number).max():.3g}, above "
                f"{warn_above:g}; recalls lose that factor in precision. Centre or whiten the keys, or use a ridge.",
                IllConditionedWarning,
            )
        return _plain(number, state)

    def _spectrum(self, state: State) -> tuple[Array, Array]:
        """Return the singular values (*batch, r), largest first, and how many of them count (*batch)."""
        xp, width = state.xp, self._width(state)
        if not state.n or not width:
            return state.zeros(0), xp.zeros(state.batch, dtype=xp.int64, device=state.device)
        with ar.own_arithmetic(xp, state.device):
            singular = xp.linalg.svdvals(wide(self._system(state)[0]))
        above = singular > tolerance(state.n, width, state) * singular[..., :1]
        return singular, xp.sum(xp.astype(above, xp.int64), axis=-1)


def _plain(x: Array, state: State) -> Any:
    """Return a Python number where the state has no batch axes."""
    return x if state.batch else ar.to_numpy(x).item()
