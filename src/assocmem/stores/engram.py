"""Engram: a memory of n-grams of token ids, hashed into tables of prime size."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

from annotated_types import Interval

from assocmem.contract import arrays as ar
from assocmem.contract.arrays import Array
from assocmem.contract.cost import D_V, Cost, Count
from assocmem.contract.errors import InputError
from assocmem.contract.form import Hashed
from assocmem.contract.register import register
from assocmem.contract.settings import COUNT, NOT_NEGATIVE, Help
from assocmem.contract.state import State
from assocmem.contract.traits import Source, Traits
from assocmem.kernels.hashing import mixed, next_primes, odd_multipliers
from assocmem.kernels.slot_table import SlotTableStore

LEAST_GATE = 1e-6
"""Below this the inner product of a gate counts as this large."""
DILATION = 3
"""Tokens between the taps of the convolution."""


@dataclass(frozen=True)
class Engram(SlotTableStore):
    """f(t) = mean of the rows that hash the last 2, 3, ..., N ids of t, one for each n-gram length and head.

    A key is the last d_k token ids, the newest last; those before the first are a padding id of their own. The hash of
    an n-gram is (t_0 a_0 xor t_1 a_1 xor ...) mod p with odd multipliers a_i and a prime p of its own for every table;
    no two tables have the same. A value is added to every row that its key hashes to. Two keys share a row where their
    hashes collide, or where they end in the same n-gram.

    Notes
    -----
    State: "values" (sum of the primes, d_v), one table below the other. Cost: one hash and d_v additions a table,
    whatever the tables' size. `gated` is the paper's whole layer, whose gate sees the hidden state beside the ids.
    Source: DeepSeek 2026 and its demonstration code.

    Examples
    --------
    >>> import numpy as np
    >>> store = Engram(rows=64)
    >>> ids = np.array([[5, 17, 9]])
    >>> state = store.write(store.empty(3, 1), ids, np.array([[3.0]]))
    >>> store.recall(state, ids).tolist(), store.addresses(state, ids).ids[0, :2].tolist()
    ([[3.0]], [7, 75])
    """

    rows: Annotated[int, Interval(ge=2), Help("least rows of a table; its size is the next prime not yet taken")] = 256
    heads: Annotated[int, COUNT, Help("tables for each length of n-gram")] = 8
    longest: Annotated[int, Interval(ge=2), Help("longest n-gram N; the shortest has two ids")] = 3
    vocabulary: Annotated[int, Interval(ge=1, le=2**40), Help("token ids lie below this number")] = 2**17
    seed: Annotated[int, NOT_NEGATIVE, Help("names the multipliers")] = 0

    equation = "f(t) = 1/H sum_h E_h[(t_0 a_0 xor t_1 a_1 xor ...) mod p_h]"
    summary = "Hashes the last token ids into tables of prime size."
    source = Source(
        title="Conditional Memory via Scalable Lookup: A New Axis of Sparsity for Large Language Models",
        authors="DeepSeek-AI",
        year=2026,
        arxiv="2601.07372",
        equation="e = concat of E_{n,k}[φ_{n,k}(g_n)], φ a multiplicative xor hash modulo a prime",
        deviations=(
            "rows are written, not trained, and as wide as the values; their projection W_v is the mean over tables",
            "token ids are taken as they come, not mapped to canonical ones",
            "the store recalls the memory alone; gate and convolution, which need the hidden state, are `gated`",
        ),
    )
    traits = Traits("shared", permutation_invariant=True, overwrite="adds", constant_size=True, keys="ids")

    @property
    def cost(self) -> Cost:  # type: ignore[override]
        tables = self.heads * (self.longest - 1)
        hashes = Count("", lambda *_: 1, tables + sum(range(2, self.longest + 1)))
        return Cost(hashes + tables * D_V, hashes + tables * D_V)

    @property
    def primes(self) -> tuple[int, ...]:
        """Rows of each table: those of the 2-grams first."""
        return next_primes(self.rows, self.heads * (self.longest - 1))

    def form(self, d_k: int) -> Hashed:
        return Hashed(self.primes)

    def slot_count(self, state: State) -> int:
        return sum(self.primes)

    def drawn(self, state: State) -> Mapping[str, Array]:
        return {}

    def check_ids(self, x: Array, name: str) -> None:
        """Refuse ids beyond the vocabulary, and negative ones."""
        xp = ar.namespace(x)
        if not x.size or (xp.isdtype(x.dtype, "integral") and self._known(xp.astype(x, xp.int64))):
            return
        raise InputError(
            f"`{name}` of Engram must be whole-number token ids in [0, vocabulary={self.vocabulary}); "
            f"got {float(xp.min(x)):g} to {float(xp.max(x)):g}."
        )

    def _known(self, ids: Array) -> bool:
        xp = ar.namespace(ids)
        return bool(xp.all((ids >= 0) & (ids < self.vocabulary)))

    def addressed(self, state: State, x: Array) -> tuple[Array, Array]:
        xp, begin, parts = state.xp, 0, []
        multipliers = odd_multipliers(self.seed, self.longest, self.vocabulary + 1)
        ids = xp.astype(x, xp.int64)
        lead, given = tuple(int(n) for n in ids.shape[:-1]), int(ids.shape[-1])
        if given < self.longest:
            padding = xp.full((*lead, self.longest - given), self.vocabulary, dtype=ids.dtype, device=ar.device_of(ids))
            ids = xp.concat([padding, ids], axis=-1)
        for length in range(2, self.longest + 1):
            hashed = mixed(ids[..., int(ids.shape[-1]) - length :], multipliers)
            for prime in self.primes[(length - 2) * self.heads : (length - 1) * self.heads]:
                parts.append(hashed % prime + begin)
                begin += prime
        found = xp.stack(parts, axis=-1)
        weight = xp.full((*lead, len(parts), 1), 1 / len(parts), dtype=state.dtype, device=state.device)
        return found, weight

    def gated(
        self,
        state: State,
        ids: Array,
        hidden: Array,
        *,
        key_map: Array | None = None,
        kernel: Array | None = None,
    ) -> Array:
        """Return what the paper's layer adds to the hidden states of a sequence: value, gate and convolution.

        With e the recall for the last ids up to each token, gate = sigmoid(sign(g) sqrt(max(|g|, 1e-6))), g =
        rms(W_k e).rms(h) / sqrt(d); the layer adds gate e and the SiLU of a causal depthwise convolution of rms(gate e)
        over every third token. Not linear in the values: the gate sees what is recalled.

        Parameters
        ----------
        state : State
            Of this store.
        ids : array (..., T, d_k)
            The last d_k ids up to each of T tokens.
        hidden : array (..., T, d_v)
            Hidden states h.
        key_map : array (d_v, d_v), optional
            W_k, the identity by default.
        kernel : array (d_v, taps), optional
            Of the convolution, the present token's tap last; zeros by default, which leave gate e.

        Returns
        -------
        array (..., T, d_v)

        Raises
        ------
        InputError
            For shapes that do not fit.

        Examples
        --------
        >>> import numpy as np
        >>> store = Engram(rows=64)
        >>> ids = np.array([[5, 17, 9]])
        >>> state = store.write(store.empty(3, 2), ids, np.array([[3.0, 4.0]]))
        >>> store.gated(state, ids, np.array([[3.0, 4.0]])).round(3).tolist()
        [[2.3, 3.066]]
        """
        e = self.recall(state, ids)
        xp, d_v = ar.namespace(e), state.d_v
        hidden = ar.as_array(hidden, "hidden", like=e)
        for name, given, wanted in (("hidden", hidden, e.shape), ("key_map", key_map, (d_v, d_v))):
            if given is not None and tuple(given.shape) != tuple(wanted):
                raise InputError(f"`{name}` of Engram.gated must have shape {tuple(wanted)}; got {tuple(given.shape)}.")
        if kernel is not None and (kernel.ndim != 2 or int(kernel.shape[0]) != d_v):
            raise InputError(f"`kernel` of Engram.gated must have shape (d_v={d_v}, taps); got {tuple(kernel.shape)}.")
        ar.require_finite(hidden, "hidden", xp)
        mapped = e if key_map is None else e @ ar.transpose(key_map)
        g = xp.sum(_rms(mapped) * _rms(hidden), axis=-1, keepdims=True) / d_v**0.5
        size = xp.sqrt(xp.where(xp.abs(g) > LEAST_GATE, xp.abs(g), xp.full_like(g, LEAST_GATE)))
        value = e / (1 + xp.exp(-xp.sign(g) * size))
        if kernel is None:
            return value
        scaled, taps, total = _rms(value), int(kernel.shape[1]), xp.zeros_like(value)
        for tap in range(taps):
            back = (taps - 1 - tap) * DILATION
            late = scaled[..., : max(0, int(value.shape[-2]) - back), :]
            early = xp.zeros_like(scaled[..., : int(value.shape[-2]) - int(late.shape[-2]), :])
            total = total + xp.concat([early, late], axis=-2) * kernel[:, tap]
        return value + total / (1 + xp.exp(-total))


def _rms(x: Array) -> Array:
    """Return rows over the root of their mean square."""
    xp = ar.namespace(x)
    return x / xp.sqrt(xp.mean(x * x, axis=-1, keepdims=True) + float(xp.finfo(x.dtype).eps))


register("engram", Engram, label="Engram")
