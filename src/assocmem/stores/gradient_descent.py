"""A linear layer trained by gradient descent in both of its forms: a matrix, and attention over its inputs."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Annotated

from assocmem.contract import arrays as ar
from assocmem.contract.arrays import Array, transpose
from assocmem.contract.cost import D_K, D_V, Cost, N
from assocmem.contract.recall import Ask, Causal, Dense, Recall
from assocmem.contract.register import Variant, register
from assocmem.contract.settings import COUNT, Help
from assocmem.contract.slots import Rows
from assocmem.contract.state import State
from assocmem.contract.traits import Capabilities, Source, Traits
from assocmem.kernels.blockwise import in_dtype, working_dtype
from assocmem.kernels.chunked import CHUNK, inverse_unit_lower
from assocmem.kernels.descent import ADVICE, Descent
from assocmem.kernels.momentum import age_shares, constant_mixing, like, write_chunk
from assocmem.kernels.recurrent import Arrays, RecurrentStore
from assocmem.kernels.stability import require_finite_rows
from assocmem.kernels.weighted_sum import summed

_TILE = 2**20
_SOURCE = Source(
    title="The Dual Form of Neural Networks Revisited: Connecting Test Time Predictions to Training Patterns via "
    "Spotlights of Attention",
    authors="Irie, Kazuki and Csordas, Robert and Schmidhuber, Juergen",
    year=2022,
    arxiv="2202.05798",
    equation="W_T = W_0 + sum_t e_t x_t^T with e_t = -eta_t dL/dy_t, so W_T x = W_0 x + sum_t e_t (x_t . x)",
    deviations=(
        "W_0 = 0 and one pair a step",
        "momentum and weight decay as well: the coefficient of a pair then depends on how many steps ago it was",
    ),
)


@dataclass(frozen=True)
class GradientDescent(Descent):
    """f(x) = sum_s c_s e_s (x_s.x): a layer y = W x trained by gradient descent, as attention over its inputs x_s.

    A pair is kept as (input, minus rate times the gradient of its loss at y): e_s = -rate dL/dy_s. With plain
    gradient descent c_s = 1; with momentum and weight decay it is a function of the steps since then (their sum over
    further steps, and the fading). Equal to `TrainedLayer`, which keeps W, for any loss; not for Adam, whose steps are
    scaled weight by weight.

    As in torch.optim.SGD with one pair a step from W = 0: u <- momentum u + (dL/dy x^T + weight_decay W),
    W <- W - rate u.

    Notes
    -----
    State: inputs (n, d_k) and errors e (n, d_v). Cost: write and recall n (d_k + d_v). Masks train on the visible
    pairs alone (n^3 per query unless it is a prefix); `weights` costs n^3.
    Warns (UnstableWarning) where rate |x|^2 exceeds its bound; raises DivergedError.
    Source: Irie, Csordas and Schmidhuber 2022; Aizerman et al. 1964 (the dual form of the perceptron).

    Examples
    --------
    >>> import numpy as np
    >>> store = GradientDescent()
    >>> state = store.write(store.empty(2, 1), np.eye(2), np.array([[3.0], [5.0]]))
    >>> store.recall(state, np.eye(2)).tolist(), store.layer(state).tolist()
    ([[3.0], [5.0]], [[3.0, 5.0]])
    """

    block: Annotated[int, COUNT, Help("pairs that are prepared together; changes speed and rounding only")] = field(
        default=CHUNK, repr=False, compare=False, kw_only=True
    )

    equation = "f(x) = sum_s c_s e_s (x_s.x), e_s = -rate dL/dy_s"
    summary = "A linear layer trained by gradient descent on the pairs, kept as attention over its training inputs."
    source = _SOURCE
    cost = Cost(N * (D_K + D_V), N * (D_K + D_V))

    @property
    def traits(self) -> Traits:
        return self.descent_traits(keeps_pairs=True)

    def init(self, state: State) -> dict[str, Rows]:
        return {"keys": Rows(state.d_k), "errors": Rows(state.d_v)}

    def layer(self, state: State) -> Array:
        """Return W = sum_s c_s e_s x_s^T (*batch, d_v, d_k)."""
        return transpose(self._counted(state)) @ state["keys"]

    def put(self, state: State, keys: Array, values: Array, **extras: Array) -> dict[str, Array]:
        """Return inputs and errors of new pairs, block by block."""
        self.warn_where_unstable(state, keys)
        if self.loss == "given":
            return {"keys": keys, "errors": self.rate * values}
        xp, count = state.xp, int(keys.shape[-2])
        inputs, errors = xp.concat([state["keys"], keys], axis=-2), state["errors"]
        wide = working_dtype(state.dtype, xp)
        with ar.overflow_unheard():
            for start in range(0, count, self.block):
                at = slice(start, min(start + self.block, count))
                first, key = state.n + start, in_dtype(keys[..., at, :], wide, xp)
                old = self._along(inputs[..., :first, :], errors, key, first)
                shares = self._shares(key, first, at.stop - start, first, at.stop - start)
                low = self.rate * shares * (key @ transpose(key))
                fresh = inverse_unit_lower(low) @ (self.rate * (in_dtype(values[..., at, :], wide, xp) - old))
                errors = xp.concat([errors, in_dtype(fresh, state.dtype, xp)], axis=-2)
        rows = errors[..., state.n :, :]
        require_finite_rows(self, state, rows, "its error", ADVICE)
        return {"keys": keys, "errors": rows}

    @property
    def capabilities(self) -> Capabilities:
        """Masks, weights and a causal form; states and shards join where their order does not matter."""
        can = Capabilities(masks=True, gives=("weights",), scan="causal")
        if self.traits.permutation_invariant:
            return replace(can, gives=("weights", "mass"), merges="appends")
        return replace(can, not_merged="each gradient depends on all pairs before it")

    # ------------------------------------------------------------------ recall

    def get(self, state: State, queries: Array, ask: Ask) -> Recall:
        """Return sum_s c_s e_s (x_s.x); under a mask, weights of a training on the visible pairs times the values."""
        if isinstance(ask.visible, Causal):  # errors never look ahead: each query sees its past
            return Recall(self._along(state["keys"], state["errors"], queries, ask.visible.first))
        if ask.visible is None and "weights" not in ask.want:
            keys, xp = state["keys"], state.xp

            def weigh(x: Array, at: slice) -> Array:
                return x @ transpose(in_dtype(keys[..., at, :], x.dtype, xp))

            return summed(self.name, weigh, self._counted(state), queries, ask)
        weights = self._weights(state, queries, ask.visible)
        return Recall(weights @ self._values(state), Dense(weights))

    def _weights(self, state: State, queries: Array, mask: Array | None) -> Array:
        """Return what each value has in the recall: c o Q K^T, times (I + rate strict(c o K K^T))^-1 if squared."""
        xp, wide = state.xp, working_dtype(state.dtype, state.xp)
        keys, queries = in_dtype(state["keys"], wide, xp), in_dtype(queries, wide, xp)
        similar, gram = queries @ transpose(keys), keys @ transpose(keys)
        places = xp.arange(1, state.n + 1, device=state.device)
        if mask is None:
            return self.rate * self._trained(similar, gram, places, xp.ones_like(places) > 0)
        rows = []
        for i in range(int(queries.shape[-2])):
            seen = mask[..., i, :]
            counts = xp.cumulative_sum(xp.astype(seen, places.dtype), axis=-1)
            rows.append(self.rate * self._trained(similar[..., i : i + 1, :], gram, counts, seen))
        return xp.concat(rows, axis=-2) if rows else similar

    def _trained(self, similar: Array, gram: Array, counts: Array, seen: Array) -> Array:
        """Return the weights over rate for similarities (..., r, n), trained on the pairs that are seen (..., n).

        counts: (..., n), how many of the seen pairs have come when each has.
        """
        xp = ar.namespace(similar)
        n = int(similar.shape[-1])
        if n == 0:
            return similar
        own = similar * self._at_ages(counts[..., -1:] - counts, similar, seen)[..., None, :]
        if self.loss == "given":
            return own
        ages = counts[..., :, None] - 1 - counts[..., None, :]
        past = (xp.arange(n, device=ar.device_of(gram))[:, None] > xp.arange(n, device=ar.device_of(gram))) & (
            seen[..., :, None] & seen[..., None, :]
        )
        return own @ inverse_unit_lower(self.rate * gram * self._at_ages(ages, gram, past))

    def _values(self, state: State) -> Array:
        """Return the values as they were written."""
        errors = state["errors"] / self.rate
        return (
            errors if self.loss == "given" else errors + self._along(state["keys"], state["errors"], state["keys"], 0)
        )

    # ------------------------------------------------------------------ coefficients

    def _counted(self, state: State) -> Array:
        """Return c_s e_s for each pair, (*batch, n, d_v)."""
        if (self.momentum == 0 and self.weight_decay == 0) or state.n == 0:
            return state["errors"]
        places = state.xp.arange(state.n, device=state.device)
        return state["errors"] * self._at_ages(state.n - 1 - places, state["errors"], places >= 0)[..., None]

    def _shares(self, x: Array, seen: int, rows: int, start: int, columns: int) -> Array:
        """Return c (rows, columns) of pairs start, start + 1, ... for queries that see seen, seen + 1, ... pairs."""
        xp, device = ar.namespace(x), ar.device_of(x)
        sees = xp.arange(seen, seen + rows, device=device)[:, None]
        places = xp.arange(start, start + columns, device=device)
        return self._at_ages(sees - 1 - places, x, places < sees)

    def _at_ages(self, ages: Array, x: Array, where: Array) -> Array:
        """Return c at whole-number ages, 0 where not `where`, in the dtype of `x`."""
        xp = ar.namespace(ages)
        if self.momentum == 0 and self.weight_decay == 0:
            return xp.astype(where, x.dtype) + xp.zeros_like(ages, dtype=x.dtype)
        ages = xp.where(where, ages, xp.zeros_like(ages))
        length = 1 << int(xp.max(ages)).bit_length() if math.prod(ages.shape) else 1
        table = xp.asarray(age_shares(self.momentum, self.pull, length), dtype=x.dtype, device=ar.device_of(x))
        found = xp.reshape(xp.take(table, xp.reshape(ages, (-1,)), axis=0), ages.shape)
        return xp.where(where, found, xp.zeros_like(found))

    def _along(self, keys: Array, errors: Array, queries: Array, first: int) -> Array:
        """Return the recall of query i over the first first + i pairs (at most all of them); in blocks of queries."""
        xp, n, count = ar.namespace(keys), int(keys.shape[-2]), int(queries.shape[-2])
        dtype = working_dtype(xp.result_type(keys.dtype, queries.dtype), xp)
        if n == 0:
            return xp.zeros((*queries.shape[:-1], int(errors.shape[-1])), dtype=dtype, device=ar.device_of(keys))
        keys, errors, queries = (in_dtype(a, dtype, xp) for a in (keys, errors, queries))
        width, parts = max(1, min(self.block, _TILE // n)), []
        for start in range(0, count, width):
            stop = min(start + width, count)
            past = min(n, first + stop)
            shares = self._shares(keys, first + start, stop - start, 0, past)
            similar = queries[..., start:stop, :] @ transpose(keys[..., :past, :])
            parts.append((shares * similar) @ errors[..., :past, :])
        return xp.concat(parts, axis=-2)


@dataclass(frozen=True)
class TrainedLayer(Descent, RecurrentStore):
    """f(x) = W x with W trained by gradient descent: the primal form of `GradientDescent`, with the same settings.

    Notes
    -----
    State: W (d_v, d_k), and the last step of the same shape where there is momentum. Cost: write 3 d_k d_v, recall
    d_k d_v; many pairs go by chunks of 64.
    Source: as GradientDescent; the rule is Widrow and Hoff's (1960) with momentum (Polyak 1964).

    Examples
    --------
    >>> import numpy as np
    >>> store = TrainedLayer(rate=0.5)
    >>> state = store.write(store.empty(2, 1), np.eye(2), np.array([[3.0], [5.0]]))
    >>> store.layer(state).tolist()
    [[1.5, 2.5]]
    """

    remedy = ADVICE
    equation = "f(x) = W x, u <- momentum u + dL/dy x^T + weight_decay W, W <- W - rate u"
    summary = "A linear layer trained by gradient descent on the pairs, kept as its matrix."
    source = _SOURCE
    cost = Cost(3 * D_K * D_V, D_K * D_V)

    @property
    def traits(self) -> Traits:
        return self.descent_traits(keeps_pairs=False)

    def layer(self, state: State) -> Array:
        return state["W"]

    def init(self, state: State) -> Arrays:
        """Return zero weights and, with momentum, a zero step."""
        names = ("W", "step") if self.momentum else ("W",)
        return {name: state.zeros(state.d_v, state.d_k) for name in names}

    def resolved(self, state: State, keys: Array, extras: Arrays) -> dict[str, Array]:
        self.warn_where_unstable(state, keys)
        return {}

    def put_pair(self, arrays: Arrays, key: Array, value: Array, **extras: Array) -> Arrays:
        W = arrays["W"]
        towards = value if self.loss == "given" else value - key @ transpose(W)
        step = self.rate * transpose(towards) @ key - self.pull * W
        if not self.momentum:
            return {"W": W + step}
        step = step + self.momentum * arrays["step"]
        return {"W": W + step, "step": step}

    def put_chunk(
        self, arrays: Arrays, keys: Array, values: Array, queries: Array | None, read: str, **extras: Array
    ) -> tuple[Arrays, Array | None]:
        """The rule for a chunk at a time."""
        xp, count, recalls = ar.namespace(keys), int(keys.shape[-2]), []
        matrix = arrays["W"]
        step = arrays["step"] if self.momentum else xp.zeros_like(matrix)
        mixing = like(constant_mixing(self.momentum, self.pull, min(self.chunk, count)), keys)
        for start in range(0, count, self.chunk):
            at = slice(start, min(start + self.chunk, count))
            key = keys[..., at, :]
            rates = xp.full(tuple(key.shape[:-1]), self.rate, dtype=key.dtype, device=ar.device_of(key))
            matrix, step, out = write_chunk(
                matrix, step, key, values[..., at, :], rates, mixing.first(at.stop - start),
                queries=None if queries is None else queries[..., at, :], read=read, given=self.loss == "given",
            )  # fmt: skip
            recalls += [] if out is None else [out]
        arrays = {"W": matrix, "step": step} if self.momentum else {"W": matrix}
        return arrays, xp.concat(recalls, axis=-2) if recalls else None

    def get(self, state: State, queries: Array, ask: Ask) -> Array:
        return queries @ transpose(state["W"])


register(
    "gradient-descent",
    Variant(GradientDescent, when="dual"),
    Variant(TrainedLayer, when="primal"),
    choice=("form", "dual: attention over the training inputs; primal: the matrix"),
)
