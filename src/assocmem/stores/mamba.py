"""Selective state spaces as memories: Mamba (a decay for every number of the state) and Mamba-2 (one for all)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Annotated

from annotated_types import Interval

from assocmem.contract import arrays as ar
from assocmem.contract.arrays import Array, Namespace, contiguous, namespace, transpose
from assocmem.contract.cost import D_K, D_V, Cost
from assocmem.contract.errors import InputError
from assocmem.contract.form import ChannelDecay, Decay, KernelSum
from assocmem.contract.recall import Ask
from assocmem.contract.register import register
from assocmem.contract.settings import NOT_NEGATIVE, POSITIVE, SHARE, Help
from assocmem.contract.state import State
from assocmem.contract.traits import Extra, Source, Traits, Widths, extras_of
from assocmem.kernels.chunked import Rows, outer_chunks
from assocmem.kernels.recurrent import Arrays, RecurrentStore
from assocmem.maps.activations import Linear

_BLOCK = 2**19
"""State numbers, over batch items and pairs, that Mamba's fast form holds at once."""

_EXTRAS = (
    Extra("step", "step D of each pair and channel", ("n", "d_v"), default="the store's `step`", low=0.0),
    Extra(
        "rates", "rate A of each channel and key coordinate", ("d_v", "d_k"), default="the store's `rates`", high=0.0
    ),
)


@dataclass(frozen=True)
class Mamba(RecurrentStore):
    """y_c = sum_s C_s h_cs with h_cs <- exp(D_c A_cs) h_cs + D_c B_s u_c: S6, a decay for every number of the state.

    As a memory: key = B (d_k = N states), value = u (d_v = inner channels), query = C. Their D (step) and A are our
    `step` and `rates`; h is `state["h"]` (d_v, d_k). The default rates are the paper's, the same in every channel; 0
    switches the decay off. Of steps (low, high) the d_v channels take the midpoints of d_v equal parts of that range in
    logarithm, never its ends (one channel takes sqrt(low high)); the default is the range of the paper's initial steps.

    write takes `step` (..., n, d_v) >= 0 and `rates` (..., d_v, d_k) <= 0, the latter for all its pairs. The decay
    uses the exponential, the input Euler's step, as in the authors' code. Left out: the skip connection D u (it
    stores nothing), the convolution, and the projections that compute B, C and D from a token.

    Notes
    -----
    State: h. Cost: 3 d_k d_v multiply-adds and d_k d_v exponentials per write, d_k d_v per recall.

    Examples
    --------
    >>> import numpy as np
    >>> store = Mamba(rates=-np.log(2.0), step=1.0)
    >>> state = store.write(store.empty(2, 1), np.eye(2), np.array([[4.0], [6.0]]))
    >>> store.recall(state, np.eye(2)).round(6).tolist()
    [[2.0], [6.0]]
    """

    rates: Annotated[
        float | tuple[float, ...] | None,
        Interval(le=0),
        Help("A, one for all or one per key coordinate", none="-1, -2, ..., -d_k"),
    ] = None
    step: Annotated[
        float | tuple[float, float], POSITIVE, Help("D, one for all channels, or (low, high) spread over them")
    ] = (0.001, 0.1)

    equation = "f(x)_c = h_c . x, h_cs <- exp(D_c A_cs) h_cs + D_c k_s v_c"
    summary = "Adds every pair to a matrix each of whose numbers decays at its own rate (S6)."
    source = Source(
        title="Mamba: Linear-Time Sequence Modeling with Selective State Spaces",
        authors="Gu, Albert and Dao, Tri",
        year=2023,
        venue="COLM 2024",
        arxiv="2312.00752",
        equation="selective scan h_t = exp(D_t A) h_(t-1) + D_t B_t u_t, y_t = C_t h_t",
        deviations=(
            "B, C and D are given (key, query, step), not computed from the token",
            "no skip connection, convolution or gate",
            "default steps are spread over the channels, not drawn at random",
        ),
    )
    cost = Cost(3 * D_K * D_V, D_K * D_V, note="a write takes d_k d_v exponentials as well")

    @cached_property
    def traits(self) -> Traits:
        """Linear with a row of weights per channel, bounded, order matters; earlier pairs decay."""
        widths = None
        if isinstance(self.rates, tuple):
            count = len(self.rates)
            widths = Widths(lambda d_k, _: d_k == count, f"such that d_k={count}, one for each rate", ((count, 4),))
        return Traits("per-channel", False, "decays", constant_size=True, extras=_EXTRAS, widths=widths)

    def check_together(self) -> None:
        """Refuse a range of steps that begins above its end."""
        if isinstance(self.step, tuple) and self.step[0] > self.step[1]:
            raise InputError(f"`step` of Mamba must be (low, high) with low <= high; got {self.step!r}.")

    def init(self, state: State) -> Arrays:
        """Return the zero matrix."""
        return {"h": state.zeros(state.d_v, state.d_k)}

    def form(self, d_k: int) -> ChannelDecay:
        """Return the rates of d_k key coordinates and the range of the steps."""
        return _channel_decay(self, d_k)

    def resolved(self, state: State, keys: Array, extras: Arrays) -> dict[str, Array]:
        """Return step (*batch, n, d_v) and rates (*batch, d_v, d_k) of these pairs."""
        xp, device = namespace(keys), ar.device_of(keys)
        full = dict(extras)
        if "rates" not in full:
            rates = xp.asarray(list(self.form(state.d_k).rates), dtype=keys.dtype, device=device)
            full["rates"] = xp.broadcast_to(rates, (*state.batch, state.d_v, state.d_k))
        if "step" not in full:
            steps = xp.asarray(self.form(state.d_k).steps(state.d_v), dtype=keys.dtype, device=device)
            full["step"] = xp.broadcast_to(steps, (*keys.shape[:-1], state.d_v))
        return full

    def put_pair(self, arrays: Arrays, key: Array, value: Array, **extras: Array) -> Arrays:
        xp = namespace(key)
        steps = transpose(extras["step"])
        return {"h": xp.exp(steps * extras["rates"]) * arrays["h"] + (steps * transpose(value)) @ key}

    def put_chunk(
        self, arrays: Arrays, keys: Array, values: Array, queries: Array | None, read: str, **extras: Array
    ) -> tuple[Arrays, Array | None]:
        """The rule on a block of pairs at a time: the exponentials of a block at once, its states in turn."""
        xp = namespace(keys)
        n, per_pair = int(keys.shape[-2]), math.prod(keys.shape[:-2]) * int(keys.shape[-1] * values.shape[-1])
        size = max(1, min(self.chunk, _BLOCK // max(1, per_pair)))
        h, recalls = arrays["h"], Rows(n)
        for start in range(0, n, size):
            at = slice(start, min(start + size, n))
            steps, rates = extras["step"][..., at, :], extras["rates"][..., None, :, :]
            written = (steps * values[..., at, :])[..., None] * keys[..., at, None, :]
            if queries is None:
                later = _sum_after(steps, xp)
                kept = xp.exp(rates[..., 0, :, :] * xp.sum(steps, axis=-2)[..., None])
                h = kept * h + xp.sum(xp.exp(rates * later[..., None]) * written, axis=-3)
                continue
            decays = xp.exp(rates * steps[..., None])
            states = []
            for i in range(int(steps.shape[-2])):
                before, h = h, decays[..., i, :, :] * h + written[..., i, :, :]
                states.append(h if read == "after" else before)
            found = xp.stack(states, axis=-3) @ queries[..., at, :, None]
            recalls.add(found[..., 0])
        return {"h": h}, None if queries is None else recalls.joined()

    def get(self, state: State, queries: Array, ask: Ask) -> Array:
        return queries @ transpose(state["h"])


@dataclass(frozen=True)
class Mamba2(RecurrentStore):
    """f(x) = H x with H <- a H + (D v) k^T: one decay for the whole matrix of a head (SSD).

    As a memory: key = B (d_k = N), value = x (d_v = P), query = C. Their a_t = exp(dt_t A) is our `decay`, dt_t our
    `step`; the two are given apart. H is `state["H"]` (d_v, d_k). The skip connection D x stores nothing and is
    left out. The default decay 0.99 is exp(-0.01), the middle of the paper's initial steps at A = -1.

    Notes
    -----
    State: H. Cost: 2 d_k d_v multiply-adds per write, d_k d_v per recall; many pairs go by chunks of 64.

    Examples
    --------
    >>> import numpy as np
    >>> store = Mamba2(decay=0.5)
    >>> state = store.write(store.empty(2, 1), np.eye(2), np.array([[4.0], [6.0]]))
    >>> store.recall(state, np.eye(2)).tolist()
    [[2.0], [6.0]]
    """

    decay: Annotated[
        float,
        SHARE,
        Help("factor a on the state before each pair: 1 is the outer product store", per_pair=True, log=True),
    ] = 0.99
    step: Annotated[float, NOT_NEGATIVE, Help("factor D of every value", per_pair=True)] = 1.0

    equation = "f(x) = H x, H <- a H + (D v) k^T"
    summary = "Adds every pair to one matrix that decays as a whole (state space duality)."
    source = Source(
        title="Transformers are SSMs: Generalized Models and Efficient Algorithms "
        "Through Structured State Space Duality",
        authors="Dao, Tri and Gu, Albert",
        year=2024,
        venue="ICML",
        arxiv="2405.21060",
        equation="scalar-decay recurrence h_t = a_t h_(t-1) + B_t (dt_t x_t)^T, y_t = C_t^T h_t",
        deviations=(
            "decay and step are given apart; the paper ties them by a = exp(dt A)",
            "no skip connection, convolution or gate",
        ),
    )
    cost = Cost(2 * D_K * D_V, D_K * D_V)

    @cached_property
    def traits(self) -> Traits:
        """Linear, bounded, order matters; earlier pairs decay."""
        return Traits("shared", False, "decays", constant_size=True, extras=extras_of(self))

    def init(self, state: State) -> Arrays:
        return {"H": state.zeros(state.d_v, state.d_k)}

    def resolved(self, state: State, keys: Array, extras: Arrays) -> dict[str, Array]:
        """Return the decay of every pair (*batch, n) and its step, unless all steps are 1."""
        full = super().resolved(state, keys, extras)
        if "step" not in extras and self.step == 1:
            del full["step"]
        return full

    def put_pair(self, arrays: Arrays, key: Array, value: Array, **extras: Array) -> Arrays:
        return {"H": arrays["H"] * extras["decay"][..., None] + transpose(_scaled(value, extras)) @ key}

    def put_chunk(
        self, arrays: Arrays, keys: Array, values: Array, queries: Array | None, read: str, **extras: Array
    ) -> tuple[Arrays, Array | None]:
        """The rule for a chunk at a time (kernels.chunked)."""
        state, recalls = outer_chunks(
            contiguous(transpose(arrays["H"])),
            keys,
            _scaled(values, extras),
            decay=extras["decay"],
            queries=queries,
            read=read,
            chunk=self.chunk,
        )
        return {"H": transpose(state)}, recalls

    def get(self, state: State, queries: Array, ask: Ask) -> Array:
        return queries @ transpose(state["H"])

    def form(self, d_k: int) -> KernelSum | Decay | None:
        """Return the decay; σ(s) = s where nothing decays and no value is scaled; None where nothing is written."""
        if self.decay == 1 and self.step == 1:
            return KernelSum(Linear())
        return Decay(float(self.decay)) if self.step > 0 else None


@lru_cache(maxsize=64)
def _channel_decay(store: Mamba, d_k: int) -> ChannelDecay:
    rates = tuple(-float(i) for i in range(1, d_k + 1)) if store.rates is None else store.rates
    rates = rates if isinstance(rates, tuple) else (float(rates),) * d_k
    if len(rates) != d_k:
        raise InputError(f"`rates` of Mamba must hold d_k={d_k} numbers; got {len(rates)}.")
    return ChannelDecay(rates, *(store.step if isinstance(store.step, tuple) else (store.step, store.step)))


def _scaled(values: Array, extras: Arrays) -> Array:
    return values * extras["step"][..., None] if "step" in extras else values


def _sum_after(steps: Array, xp: Namespace) -> Array:
    """Return for each pair the sum of the steps after it, (..., n, d_v), the last row 0; never by subtraction."""
    none = xp.zeros_like(steps[..., :1, :])
    after = xp.concat([none, xp.flip(steps, axis=-2)[..., :-1, :]], axis=-2)
    return xp.flip(xp.cumulative_sum(after, axis=-2), axis=-2)


register("mamba", Mamba, label="Mamba", colour="#009E73")
register("mamba-2", Mamba2, label="Mamba-2", colour="#CC79A7")
