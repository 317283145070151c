"""DeltaFormer: softmax attention whose values had what was already recalled for their key taken out."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import Annotated

from assocmem.contract import arrays as ar
from assocmem.contract.arrays import Array
from assocmem.contract.cost import D_K, D_V, Cost, N
from assocmem.contract.recall import Ask, Causal, Dense, Recall
from assocmem.contract.register import register
from assocmem.contract.settings import COUNT, NOT_NEGATIVE, SHARE, Help
from assocmem.contract.slots import Rows
from assocmem.contract.state import State
from assocmem.contract.store import Store
from assocmem.contract.traits import Capabilities, Overwrite, Source, Traits, extras_of
from assocmem.kernels.attention import attend, attention_weights
from assocmem.kernels.blockwise import in_dtype, working_dtype
from assocmem.kernels.chunked import CHUNK, inverse_unit_lower
from assocmem.kernels.recurrent import one_each
from assocmem.kernels.stability import require_finite_rows


@dataclass(frozen=True)
class DeltaFormer(Store):
    """f(x) = U^T softmax(beta K x) with u_t = v_t - b_t sum_(s<t) p_ts u_s, p_t = softmax over s < t of beta k_t.k_s.

    A pair is stored as the difference to what the store recalls for its key so far, as in the delta rule, but with
    softmax weights. Strength 0 is softmax attention; 1 takes all of it out: where a key is written again with sharp
    weights, nothing of the old value is recalled (and half of the new one, which shares the softmax with its first
    writing). Their symbols w (the key that reads at write time), beta_t are ours k, strength.

    Notes
    -----
    State: keys (n, d_k), the corrected values U (n, d_v) and strengths (n, 1).
    Cost: n (d_k + d_v) multiply-adds per write (by blocks of 64) and per recall; memory does not grow with pairs
    times queries. A mask that hides a pair under a later visible one asks for the corrections of the visible pairs
    alone: n^2 (n + d_k) per query. `weights` costs n^3. Shards do not merge: a correction sees all pairs before.

    Examples
    --------
    >>> import numpy as np
    >>> store = DeltaFormer(beta=200.0)
    >>> key = np.array([[0.6, 0.8]])
    >>> state = store.write(store.empty(2, 1), key, np.array([[3.0]]))
    >>> state = store.write(state, key, np.array([[5.0]]))
    >>> store.recall(state, key).round(6).tolist()
    [[2.5]]
    """

    beta: Annotated[float | None, NOT_NEGATIVE, Help("sharpness on unit keys", none="sqrt(d_k)")] = None
    strength: Annotated[
        float, SHARE, Help("share b of what is recalled for its key that a pair takes out", per_pair=True)
    ] = 1.0
    block: Annotated[int, COUNT, Help("pairs corrected together; changes speed and rounding only")] = field(
        default=CHUNK, repr=False, compare=False, kw_only=True
    )

    equation = "f(x) = U^T softmax(beta K x), u_t = v_t - b_t sum_(s<t) softmax(beta k_t.k_s) u_s"
    summary = "Softmax attention that stores the difference to what it already recalls for a key."
    source = Source(
        title="Understanding Transformer from the Perspective of Associative Memory",
        authors="Zhong, Shu and Xu, Mingyu and Ao, Tenglong and Shi, Guang",
        year=2025,
        arxiv="2505.19488",
        equation="DeltaFormer: u_t = v_t - beta_t sum_(i<t) kappa(k_i, w_t) u_i, o_t = sum_(i<=t) kappa(k_i, q_t) u_i",
        deviations=(
            "the key itself reads at write time (w = k)",
            "beta multiplies similarities of unit keys; their 1/sqrt(d_k) is beta = sqrt(d_k), the default",
        ),
    )
    cost = Cost(N * (D_K + D_V), N * (D_K + D_V))
    capabilities = Capabilities(
        masks=True,
        gives=("weights",),
        scan="causal",
        not_merged="each value is corrected by all pairs written before it",
    )

    @cached_property
    def traits(self) -> Traits:
        """Linear, growing; order matters; at strength 1 nothing is left of a value whose key is written again."""
        overwrite: Overwrite = "averages" if self.strength == 0 else "replaces" if self.strength == 1 else "decays"
        return Traits("shared", False, overwrite, constant_size=False, keeps_pairs=True, extras=extras_of(self))

    # ------------------------------------------------------------------ writing

    def init(self, state: State) -> dict[str, Rows]:
        """Return rows of keys, corrected values and strengths."""
        return {"keys": Rows(state.d_k), "corrected": Rows(state.d_v), "strengths": Rows(1)}

    def put(self, state: State, keys: Array, values: Array, **extras: Array) -> dict[str, Array]:
        """Return the rows of new pairs, their values corrected block by block."""
        xp, beta = state.xp, self._beta(state.d_k)
        strengths = (extras["strength"] if "strength" in extras else one_each(self.strength, keys))[..., None]
        known, corrected = xp.concat([state["keys"], keys], axis=-2), [state["corrected"]]
        with ar.overflow_unheard():
            for start in range(0, int(keys.shape[-2]), self.block):
                at = slice(start, min(start + self.block, int(keys.shape[-2])))
                before = corrected[0] if len(corrected) == 1 else xp.concat(corrected, axis=-2)
                seen = known[..., : state.n + start, :]
                fresh = _corrected(seen, before, keys[..., at, :], values[..., at, :], strengths[..., at, :], beta)
                corrected = [before, in_dtype(fresh, state.dtype, xp)]
        rows = corrected[-1] if len(corrected) == 1 else xp.concat(corrected, axis=-2)[..., state.n :, :]
        require_finite_rows(self, state, rows, "its corrected value", "Scale the values down, or use float64.")
        return {"keys": keys, "corrected": rows, "strengths": strengths}

    # ------------------------------------------------------------------ recall

    def get(self, state: State, queries: Array, ask: Ask) -> Recall:
        """Return U^T softmax(beta K x); under a mask with gaps, the weights of what is visible times values."""
        hides = ask.visible is not None and not isinstance(ask.visible, Causal) and not _is_prefix(ask.visible, state)
        if "weights" in ask.want or hides:
            weights = self._weights(state, queries, ask.visible)
            return Recall(weights @ self._values(state), Dense(weights))
        return Recall(attend(state["keys"], state["corrected"], queries, self._beta(state.d_k), ask.visible).values)

    def _weights(self, state: State, queries: Array, mask: Array | None) -> Array:
        """Return softmax weights times (I + diag(b) P)^-1: what each original value has in the recall."""
        xp, beta = state.xp, self._beta(state.d_k)
        own = attention_weights(state["keys"], queries, beta, mask)
        if state.n == 0:
            return own
        strengths = in_dtype(state["strengths"], own.dtype, xp)
        if mask is None or _is_prefix(mask, state):
            earlier = attention_weights(state["keys"], state["keys"], beta, Causal(0))
            return own @ inverse_unit_lower(strengths * earlier)
        rows = []
        past = xp.tril(xp.ones((state.n, state.n), dtype=own.dtype, device=state.device), k=-1) > 0
        for i in range(int(queries.shape[-2])):
            visible = mask[..., i, None, :] & past
            keys = xp.broadcast_to(state["keys"], (*visible.shape[:-2], state.n, state.d_k))
            earlier = attention_weights(keys, keys, beta, visible)
            rows.append(own[..., i : i + 1, :] @ inverse_unit_lower(strengths * earlier))
        return xp.concat(rows, axis=-2) if rows else own

    def _values(self, state: State) -> Array:
        """Return the values as they were written: v_t = u_t + b_t sum_(s<t) p_ts u_s."""
        xp = state.xp
        recalled = attend(state["keys"], state["corrected"], state["keys"], self._beta(state.d_k), Causal(0)).values
        return (
            in_dtype(state["corrected"], recalled.dtype, xp)
            + in_dtype(state["strengths"], recalled.dtype, xp) * recalled
        )

    def _beta(self, d_k: int) -> float:
        return math.sqrt(d_k) if self.beta is None else float(self.beta)


def _corrected(known: Array, before: Array, keys: Array, values: Array, strengths: Array, beta: float) -> Array:
    """Return the corrected values of a block after the pairs (known, before).

    (I + diag(b) P) U = V - diag(b) P' U', P the softmax weights inside the block and P' those on the pairs before it,
    under one common sum.
    """
    xp = ar.namespace(keys)
    dtype = working_dtype(values.dtype, xp)
    keys, values, strengths = (in_dtype(a, dtype, xp) for a in (keys, values, strengths))
    inside = attend(keys, values, keys, beta, Causal(0))
    own = in_dtype(attention_weights(keys, keys, beta, Causal(0)), dtype, xp)
    if known.shape[-2]:
        old = attend(known, before, keys, beta)
        masses = [found.mass for found in (inside, old) if found.mass is not None]
        peak = xp.maximum(masses[0].peak, masses[1].peak)
        parts = [xp.exp(mass.peak - peak) * mass.share for mass in masses]
        shares = [in_dtype(part / (parts[0] + parts[1]), dtype, xp)[..., None] for part in parts]
        own = own * shares[0]
        values = values - strengths * shares[1] * in_dtype(old.values, dtype, xp)
    return inverse_unit_lower(strengths * own) @ values


def _is_prefix(mask: Array, state: State) -> bool:
    """Say whether every query sees the first pairs up to some one, and none after it."""
    if state.n < 2:
        return True
    return not bool(state.xp.any(mask[..., 1:] & ~mask[..., :-1]))


register("delta-former", DeltaFormer, label="DeltaFormer", colour="#000000")
