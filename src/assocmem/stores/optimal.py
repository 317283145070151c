"""The optimal linear store: least squares."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from assocmem.contract.arrays import Array
from assocmem.contract.cost import D_K, D_V, Cost, N, larger
from assocmem.contract.form import LeastSquares
from assocmem.contract.register import register
from assocmem.contract.settings import NOT_NEGATIVE, Help
from assocmem.contract.state import State
from assocmem.contract.traits import Capabilities, Source, Traits
from assocmem.kernels.least_squares import MIN_BLOCK, LeastSquaresStore
from assocmem.kernels.least_squares_scan import least_squares_scan
from assocmem.kernels.linear_systems import tolerance

FIRST_BLOCK = 4
"""Pairs in a block of a scan that starts with as many pairs as keys have numbers."""


@dataclass(frozen=True)
class OptimalLinear(LeastSquaresStore):
    """f(x) = W x with the W that minimises sum_i |W k_i - v_i|^2 + ridge |W|^2, the smallest such W at ridge 0.

    At ridge 0 this is V^T pinv(K^T) x: recall is exact for linearly independent keys (M <= d_k), where K K^T is
    invertible and W = V^T (K K^T)^-1 K; above, W = V^T K (K^T K)^-1 and the ratio is about sqrt(M/d_k - 1).
    A key written twice is recalled as the mean of its values. Keys may have any length and any dependence; see
    `rank` and `condition`.

    Notes
    -----
    State: R (d_k, d_k) and Q^T V (d_k, d_v) of a QR factorisation of the keys, and fewer than max(d_k, 16) pending
    pairs. Cost: about 4 d_k^2 + 2 d_k d_v multiply-adds per pair written; the first recall after a write takes a
    singular value decomposition of min(M, d_k)^2 max(M, d_k), the others d_k d_v per query. float16 and bfloat16
    are solved in float32.
    Source: Kohonen and Ruohonen 1973 (M = Y X^+, X and Y holding one pair a column: X^T -> K, Y^T -> V).

    Examples
    --------
    >>> import numpy as np
    >>> store = OptimalLinear()
    >>> keys = np.array([[1.0, 0.0], [0.6, 0.8]])
    >>> state = store.write(store.empty(2, 1), keys, np.array([[3.0], [5.0]]))
    >>> store.recall(state, keys).round(12).tolist()
    [[3.0], [5.0]]
    >>> store.rank(state), round(store.condition(state), 6)
    (2, 2.0)
    """

    ridge: Annotated[
        float, NOT_NEGATIVE, Help("weight of |W|^2; 0 is the limit from above, the smallest W", unit="|k|^2")
    ] = 0.0

    equation = "f(x) = V^T pinv(K^T) x"
    summary = "The linear store with least squared error (pseudo-inverse); exact up to d_k pairs."
    source = Source(
        title="Representation of Associated Data by Matrix Operators",
        authors="Kohonen, Teuvo and Ruohonen, Matti",
        year=1973,
        venue="IEEE Transactions on Computers C-22(7):701-702",
        doi="10.1109/TC.1973.5009138",
        equation="M = Y X^+, one pair a column",
        deviations=(
            "the pseudo-inverse is taken of a QR factor of the keys",
            "singular values below 4 eps sqrt(d_k max(M, d_k)) (at most sqrt(eps)) times the largest count as zero, "
            "and so do those below 2 eps of the dtype in which the keys came",
            "optional ridge",
        ),
    )
    cost = Cost(
        4 * D_K**2 + 2 * D_K * D_V, D_K * D_V, first_recall=D_K**2 * larger(N, D_K),
        note="writes amortised, the first recall at most",
    )  # fmt: skip
    traits = Traits(linear_in_values="shared", permutation_invariant=True, overwrite="averages", constant_size=True)

    capabilities = Capabilities(scan="own")

    def form(self, d_k: int) -> LeastSquares:
        return LeastSquares(float(self.ridge))

    def scanned(
        self, state: State, keys: Array, values: Array, queries: Array, read: str, extras: dict[str, Array]
    ) -> tuple[State, Array]:
        """Return the state after all pairs and the recalls after (or before) each, block by block.

        The first block ends with d_k pairs. Where a little more are known, a direction may be poorly known: blocks are
        short there. Where keys depend on each other (or nearly), a block is gone through pair by pair.
        """
        if not (state.d_k and state.d_v):
            return self._loop(state, keys, values, queries, read, extras)
        n, parts, start, least = int(keys.shape[-2]), [], 0, None
        while start < n:
            beyond = state.n - state.d_k
            stop = min(
                n, start + (-beyond if beyond < 0 else min(max(FIRST_BLOCK, 3 * beyond), max(MIN_BLOCK, state.d_k)))
            )
            k, v, x = (a[..., start:stop, :] for a in (keys, values, queries))
            cut = tolerance(state.n + stop - start, state.d_k, state)
            known = self._system(state) if state.n else (state.zeros(0, state.d_k), state.zeros(0, state.d_v))
            own = read == "after"
            out, least = least_squares_scan(known, (k, v), x, ridge=self.ridge, cut=cut, own=own, least=least)
            if out is None:
                state, out = self._loop(state, k, v, x, read, {})
            else:
                state = self._write(state, k, v, {})
            parts.append(out)
            start = stop
        return state, state.xp.concat(parts, axis=-2)

    def _width(self, state: State) -> int:
        return state.d_k

    def _features(self, state: State, x: Array) -> Array:
        return x

    def _ridge(self, state: State) -> float:
        return float(self.ridge)


register("optimal-linear", OptimalLinear, label="optimal linear", colour="#332288", article=2)
