"""The delta rule: a write first takes back what the matrix already recalls for the key (DeltaNet, Gated DeltaNet)."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Annotated

from annotated_types import Interval

from assocmem.contract import arrays as ar
from assocmem.contract.arrays import Array, contiguous, transpose
from assocmem.contract.cost import D_K, D_V, Cost
from assocmem.contract.form import DeltaRule
from assocmem.contract.recall import Ask
from assocmem.contract.register import register
from assocmem.contract.settings import SHARE, Help
from assocmem.contract.state import State
from assocmem.contract.traits import Source, Traits, extras_of
from assocmem.kernels.chunked import delta_chunks
from assocmem.kernels.recurrent import Arrays, RecurrentStore
from assocmem.kernels.stability import warn_unstable
from assocmem.maps.features import FEATURE, FeatureMap, Identity

_TOLERANCE = 1e-5
_ADVICE = "Use unit keys (normalise=True in Memory, --normalise) or a strength of at most 2 / |k|^2."


@dataclass(frozen=True)
class _DeltaRule(RecurrentStore):
    """W_t = a_t W_(t-1) + u_t k_t^T with u_t = b_t (v_t - a_t W_(t-1) k_t)."""

    strength: Annotated[
        float,
        Interval(ge=0, le=2),
        Help("b of a write: 1 replaces a unit key's recall, 0 writes nothing", per_pair=True),
    ] = 1.0

    remedy = _ADVICE

    @cached_property
    def traits(self) -> Traits:
        """Linear, bounded, order matters; with strength 1 a key written again replaces."""
        plain = isinstance(getattr(self, "feature", None), Identity | None)
        return Traits(
            linear_in_values="shared",
            permutation_invariant=False,
            overwrite="replaces" if self.strength == 1 and plain else "decays",
            constant_size=True,
            extras=extras_of(self),
        )

    def features(self, rows: Array) -> Array:
        """Return the rows (..., width) that stand for keys or queries."""
        return rows

    def init(self, state: State) -> Arrays:
        return {"W": state.zeros(state.d_v, state.d_k)}

    def resolved(self, state: State, keys: Array, extras: Arrays) -> dict[str, Array]:
        """Return strength and decay of every pair; warn where they let the state grow."""
        full = super().resolved(state, keys, extras)
        self._warn_where_unstable(state, keys, full["strength"], full.get("decay"))
        return full

    def _warn_where_unstable(self, state: State, keys: Array, strength: Array, decay: Array | None) -> None:
        """Warn where |a (1 - b |k|^2)| > 1, that is b |k|^2 > 1 + 1/a: such a key's own recall grows."""
        xp, rows = state.xp, self.features(keys)
        factor = strength * xp.vecdot(rows, rows, axis=-1)
        excess = factor - 2 if decay is None else decay * (factor - 1) - 1
        if not bool(xp.any(excess > _TOLERANCE)):
            return
        worst = int(xp.argmax(xp.reshape(excess, (-1,))))
        at = worst % int(keys.shape[-2])
        bound = 2.0 if decay is None else 1 + 1 / float(ar.to_numpy(xp.reshape(decay, (-1,))[worst]))
        advice = f"The worst is pair {at}. {_ADVICE}"
        largest = float(ar.to_numpy(xp.reshape(factor, (-1,))[worst]))
        warn_unstable(self, "strength times |k|^2", largest, bound, advice)

    def put_pair(self, arrays: Arrays, key: Array, value: Array, **extras: Array) -> Arrays:
        key = self.features(key)
        W = arrays["W"]
        if "decay" in extras:
            W = W * extras["decay"][..., None]
        change = extras["strength"][..., None] * (value - key @ transpose(W))
        return {"W": W + transpose(change) @ key}

    def put_chunk(
        self, arrays: Arrays, keys: Array, values: Array, queries: Array | None, read: str, **extras: Array
    ) -> tuple[Arrays, Array | None]:
        """The rule for a chunk at a time (kernels.chunked)."""
        state, recalls = delta_chunks(
            contiguous(transpose(arrays["W"])),
            self.features(keys),
            values,
            extras["strength"],
            decay=extras.get("decay"),
            queries=None if queries is None else self.features(queries),
            read=read,
            chunk=self.chunk,
        )
        return {"W": transpose(state)}, recalls

    def get(self, state: State, queries: Array, ask: Ask) -> Array:
        return self.features(queries) @ transpose(state["W"])


@dataclass(frozen=True)
class DeltaNet(_DeltaRule):
    """f(x) = W x with W <- W + b (v - W k) k^T: the pair's own error is written, not the pair.

    Their symbols S, beta_t are ours W (d_v, width), strength.

    Keys should be unit vectors. Where strength times |k|^2 is above 2 the key's own
    error grows from write to write: `write` gives UnstableWarning with the worst value, and DivergedError once
    the state leaves the range of its dtype.

    Notes
    -----
    State: W. Cost: 2 d_k d_v multiply-adds per write, d_k d_v per recall; many pairs go by chunks of 64.
    Source: Widrow and Hoff 1960; Schlag et al. 2021 (2102.11174, delta rule for fast weights); chunk form: Yang et
    al. 2024 (2406.06484, WY representation and UT transform).

    Examples
    --------
    >>> import numpy as np
    >>> store = DeltaNet()
    >>> key = np.array([[0.6, 0.8]])
    >>> state = store.write(store.empty(2, 1), key, np.array([[3.0]]))
    >>> state = store.write(state, key, np.array([[5.0]]))
    >>> store.recall(state, key).round(6).tolist()
    [[5.0]]
    """

    feature: Annotated[FeatureMap, FEATURE, Help("of keys and queries; Schlag et al. take DPFP over its sum")] = field(
        default_factory=Identity
    )

    equation = "f(x) = W x, W <- W + b (v - W k) k^T"
    summary = "Writes the difference to what is already recalled for the key (the delta rule)."
    source = Source(
        title="Parallelizing Linear Transformers with the Delta Rule over Sequence Length",
        authors="Yang, Songlin and Wang, Bailin and Zhang, Yu and Shen, Yikang and Kim, Yoon",
        year=2024,
        venue="NeurIPS",
        arxiv="2406.06484",
        equation="delta rule S_t = S_(t-1) - beta_t (S_(t-1) k_t - v_t) k_t^T, in chunks by the UT transform",
        deviations=("keys are not normalised and no short convolution is applied", "queries are not scaled"),
    )
    cost = Cost(2 * D_K * D_V, D_K * D_V)

    @cached_property
    def maker(self) -> str:
        """The class with its feature map: sums over other features mean nothing to it."""
        return f"{type(self).__name__} with {self.feature.words}"

    def form(self, d_k: int) -> DeltaRule | None:
        return DeltaRule(float(self.strength)) if isinstance(self.feature, Identity) else None

    def init(self, state: State) -> Arrays:
        return {"W": state.zeros(state.d_v, self.feature.width(state.d_k))}

    def features(self, rows: Array) -> Array:
        """Return φ of the rows."""
        return self.feature(rows)


@dataclass(frozen=True)
class GatedDeltaNet(_DeltaRule):
    """f(x) = W x with W <- a W (I - b k k^T) + b v k^T: everything decays first, then the delta rule writes.

    Their symbols S, alpha_t, beta_t are ours W (d_v, d_k), decay, strength.

    The state grows where strength times |k|^2 is above 1 + 1/decay: UnstableWarning, DivergedError as for DeltaNet.

    Notes
    -----
    State: W. Cost: 2 d_k d_v multiply-adds per write, d_k d_v per recall; many pairs go by chunks of 64.

    Examples
    --------
    >>> import numpy as np
    >>> store = GatedDeltaNet(decay=0.5)
    >>> state = store.write(store.empty(2, 1), np.eye(2), np.array([[4.0], [6.0]]))
    >>> store.recall(state, np.eye(2)).tolist()
    [[2.0], [6.0]]
    """

    decay: Annotated[
        float, SHARE, Help("factor a on the state: 1 is DeltaNet, 0 keeps the last pair alone", per_pair=True, log=True)
    ] = 0.99

    equation = "f(x) = W x, W <- a W (I - b k k^T) + b v k^T"
    summary = "Lets the matrix decay, then writes by the delta rule."
    source = Source(
        title="Gated Delta Networks: Improving Mamba2 with Delta Rule",
        authors="Yang, Songlin and Kautz, Jan and Hatamizadeh, Ali",
        year=2024,
        venue="ICLR 2025",
        arxiv="2412.06464",
        equation="gated delta rule S_t = S_(t-1) alpha_t (I - beta_t k_t k_t^T) + beta_t v_t k_t^T",
        deviations=(
            "decay and strength are given, not computed from the token",
            "keys are not normalised and no short convolution is applied",
        ),
    )
    cost = Cost(2 * D_K * D_V, D_K * D_V)

    def form(self, d_k: int) -> DeltaRule:
        return DeltaRule(float(self.strength), float(self.decay))


register("delta-net", DeltaNet, label="DeltaNet", colour="#E69F00")
register("gated-delta-net", GatedDeltaNet, label="Gated DeltaNet", colour="#56B4E9")
