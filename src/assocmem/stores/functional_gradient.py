"""A network that grows by one unit a pair: gradient descent in the space of functions of a kernel."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Annotated, Literal

from annotated_types import Interval

from assocmem.contract import arrays as ar
from assocmem.contract.arrays import Array, namespace, transpose
from assocmem.contract.cost import D_K, D_V, Cost, N
from assocmem.contract.form import DeltaRule
from assocmem.contract.recall import Ask
from assocmem.contract.register import register
from assocmem.contract.settings import COUNT, NOT_NEGATIVE, Help
from assocmem.contract.slots import Rows
from assocmem.contract.state import State
from assocmem.contract.store import Store
from assocmem.contract.traits import Capabilities, Overwrite, Source, Traits
from assocmem.kernels.blockwise import in_dtype, weighted_sum, working_dtype
from assocmem.kernels.chunked import CHUNK, inverse_unit_lower
from assocmem.kernels.stability import require_finite_rows, warn_unstable

ADVICE = "Lower `rate`, or scale the keys to unit length."


@dataclass(frozen=True)
class FunctionalGradient(Store):
    """f(x) = sum_s e_s κ(x_s, x), e_t = rate (v_t - f(x_t)): every pair adds a unit that moves f against its gradient.

    A step of gradient descent on 1/2 |f(x_t) - v_t|^2 over functions, not over weights: the gradient is κ(x_t, .) times
    the error, so that a step stores the pair (x_t, rate times error). With the linear kernel it is a linear layer
    trained by SGD, exactly. The other kernel, κ(x, y) = e^(-beta |x - y|^2 / 2), is e^(beta (x.y - 1)) on unit keys;
    pairs written again and again, f comes to go through all of them: the kernel's interpolation.

    Notes
    -----
    State: keys (n, d_k) and errors e (n, d_v). Cost: n (d_k + d_v) multiply-adds per write and per recall.
    Warns (UnstableWarning) where rate |x|^2 exceeds 2 with the linear kernel; raises DivergedError.

    Examples
    --------
    >>> import numpy as np
    >>> store, keys, values = FunctionalGradient(beta=1.0), np.array([[1.0, 0.0], [0.6, 0.8]]), np.array([[3.0], [5.0]])
    >>> state = store.empty(2, 1)
    >>> for _ in range(40):
    ...     state = store.write(state, keys, values)
    >>> store.recall(state, keys).round(6).tolist(), state.n
    ([[3.0], [5.0]], 80)
    """

    kernel: Annotated[Literal["rbf", "linear"], Help("κ, a Gaussian of the distance or the inner product")] = "rbf"
    beta: Annotated[float | None, NOT_NEGATIVE, Help("sharpness of the Gaussian", none="sqrt(d_k)")] = None
    rate: Annotated[float, Interval(gt=0, le=1), Help("step on the error of a pair")] = 1.0
    block: Annotated[int, COUNT, Help("pairs prepared together; changes speed and rounding only")] = field(
        default=CHUNK, repr=False, compare=False, kw_only=True
    )

    equation = "f(x) = sum_s e_s κ(x_s, x), e_t = rate (v_t - f(x_t))"
    summary = "A network that grows by one unit a pair, by gradient descent over functions."
    source = Source(
        title="Online Learning with Kernels",
        authors="Kivinen, Jyrki and Smola, Alexander J. and Williamson, Robert C.",
        year=2004,
        venue="IEEE Transactions on Signal Processing 52(8)",
        doi="10.1109/TSP.2004.830991",
        equation="f_(t+1) = (1 - eta lambda) f_t - eta l'(f_t(x_t), y_t) k(x_t, .)",
        deviations=(
            "no regularisation (lambda = 0) and the squared error",
            "one layer; the rule by which retrieval-centric deep learning (Schlegel et al., arXiv:2610.03858) trains "
            "stacks of such layers is not implemented",
        ),
    )
    cost = Cost(N * (D_K + D_V), N * (D_K + D_V))
    capabilities = Capabilities(not_merged="each error depends on all pairs before it")

    @property
    def traits(self) -> Traits:
        """Linear, growing; order matters; at rate 1 the second value of a unit key replaces the first."""
        overwrite: Overwrite = "replaces" if self.rate == 1 else "decays"
        return Traits("shared", False, overwrite, constant_size=False, keeps_pairs=True)

    def form(self, d_k: int) -> DeltaRule | None:
        return DeltaRule(self.rate) if self.kernel == "linear" else None

    def init(self, state: State) -> dict[str, Rows]:
        return {"keys": Rows(state.d_k), "errors": Rows(state.d_v)}

    def put(self, state: State, keys: Array, values: Array, **extras: Array) -> dict[str, Array]:
        """Return the rows of new pairs, block by block: (I + rate L) E = rate (V - f(X)), L their kernel below."""
        xp, count = state.xp, int(keys.shape[-2])
        wide = working_dtype(state.dtype, xp)
        if self.kernel == "linear":
            largest = self.rate * float(ar.to_numpy(xp.max(xp.sum(in_dtype(keys, wide, xp) ** 2, axis=-1))))
            if largest > 2 * (1 + 1e-5):
                warn_unstable(self, "rate |x|^2", largest, 2.0, ADVICE)
        parts: list[Array] = []
        with ar.overflow_unheard():
            before = self._sum(state, state["keys"], state["errors"], keys)
            for start in range(0, count, self.block):
                at = slice(start, min(start + self.block, count))
                key, old = in_dtype(keys[..., at, :], wide, xp), in_dtype(before[..., at, :], wide, xp)
                if parts:
                    own = self._sum(state, keys[..., :start, :], xp.concat(parts, axis=-2), key)
                    old = old + in_dtype(own, wide, xp)
                error = self.rate * (in_dtype(values[..., at, :], wide, xp) - old)
                fresh = inverse_unit_lower(self.rate * self._similar(state, key, key)) @ error
                parts.append(in_dtype(fresh, state.dtype, xp))
        rows = parts[0] if len(parts) == 1 else xp.concat(parts, axis=-2)
        require_finite_rows(self, state, rows, "its error", ADVICE)
        return {"keys": keys, "errors": rows}

    def get(self, state: State, queries: Array, ask: Ask) -> Array:
        return self._sum(state, state["keys"], state["errors"], queries)

    def _sum(self, state: State, keys: Array, errors: Array, x: Array) -> Array:
        """Return sum_s e_s κ(x_s, x), block by block."""

        def weigh(queries: Array, at: slice) -> Array:
            return self._similar(state, queries, in_dtype(keys[..., at, :], queries.dtype, state.xp))

        return weighted_sum(weigh, errors, x)

    def _similar(self, state: State, x: Array, keys: Array) -> Array:
        """Return κ (..., m, n) of queries (..., m, d_k) and keys (..., n, d_k)."""
        xp, products = namespace(x), x @ transpose(keys)
        if self.kernel == "linear":
            return products
        beta = math.sqrt(state.d_k) if self.beta is None else float(self.beta)
        lengths = xp.sum(x * x, axis=-1)[..., :, None], xp.sum(keys * keys, axis=-1)[..., None, :]
        squares = lengths[0] + lengths[1] - 2 * products
        return xp.exp(-0.5 * beta * xp.where(squares > 0, squares, xp.zeros_like(squares)))


register("functional-gradient", FunctionalGradient)
