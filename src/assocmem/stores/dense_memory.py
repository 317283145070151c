"""Dense associative memories: energies steeper than a square, whose valleys are narrower and far more."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Annotated, Any

from annotated_types import Interval

from assocmem.contract import arrays as ar
from assocmem.contract.arrays import Array, transpose
from assocmem.contract.cost import D_K, D_V, Cost, N
from assocmem.contract.errors import RecallOverflowError
from assocmem.contract.form import Form, Iterated, KernelSum
from assocmem.contract.recall import Ask, Dense, Recall
from assocmem.contract.register import register
from assocmem.contract.settings import Help
from assocmem.contract.state import State
from assocmem.contract.store import Store
from assocmem.contract.traits import Capabilities, Source, Traits
from assocmem.kernels.attention import attend, attention_weights
from assocmem.kernels.attractors import (
    Readout,
    Sweeps,
    Updates,
    beyond_rounding,
    in_blocks,
    same_bits,
    settle,
    spread,
    sweep,
    unit_traits,
    unmoved,
)
from assocmem.kernels.weighted_sum import summed
from assocmem.maps.activations import Exp, PowerStep, power_step


@dataclass(frozen=True)
class _Dense(Store):
    """Units s in {+1, -1} in the energy -sum_i F(k_i.s), read by listening units."""

    updates: Updates = "asynchronous"
    readout: Readout = "sums"
    steps: Sweeps = 100

    cost = Cost(D_K + D_V, N * (2 * D_K + D_V), note="recall: every sweep, of which it takes a few")

    @cached_property
    def traits(self) -> Traits:
        """Keys of signs; recall is linear in the values unless their signs are taken."""
        return unit_traits(
            self.updates, self.readout, self.steps, "averages" if self._normalised() else "adds", keeps_pairs=True
        )

    @cached_property
    def capabilities(self) -> Capabilities:
        """Pairs stand each for itself; sums have weights."""
        gives: Any = ("weights", "trace") if self.readout == "sums" else ("trace",)
        return Capabilities(gives=gives, merges="appends", selects=True)

    def _normalised(self) -> bool:
        """Say whether the sums are divided by that of their weights."""
        return False

    @abstractmethod
    def _pull(self, overlaps: Array) -> Array:
        """Return how much patterns pull a unit not counted in their overlaps (..., m, n), up to a factor a query."""

    @abstractmethod
    def _energy(self, overlaps: Array, width: int) -> Array:
        """Return the energy (..., m) at these overlaps with the patterns (..., m, n)."""

    @abstractmethod
    def _sums(self, state: State, s: Array, ask: Ask) -> Recall:
        """Return the sums over the values, with weights where wanted."""

    def get(self, state: State, queries: Array, ask: Ask) -> Recall:
        """Return what belongs to s* and, where wanted, weights and trace."""
        start = spread(queries, state.batch)
        if not state.n:
            values = state.xp.zeros((*start.shape[:-1], state.d_v), dtype=start.dtype, device=state.device)
            return unmoved(values, start, "trace" in ask.want)
        network = _Pulls(ar.contiguous(transpose(state["keys"])), self._pull)
        return in_blocks(start, state.n, lambda x: self._settled(state, network, x, ask))

    def _settled(self, state: State, network: _Pulls, start: Array, ask: Ask) -> Recall:
        at_once, columns = self.updates == "synchronous", network.columns
        s, trace = settle(
            start,
            lambda s: sweep(s, network, at_once=at_once),
            same_bits,
            ask.options["steps"],
            (lambda s: self._energy(s @ columns, state.d_k)) if "trace" in ask.want else None,
        )
        if self.readout == "signs":
            xp, pulls = state.xp, self._pull(s @ columns)
            sums, absolute = pulls @ state["values"], xp.sum(xp.abs(pulls), axis=-1, keepdims=True)
            return Recall(xp.sign(beyond_rounding(sums, absolute, state.n)), trace=trace)
        return replace(self._sums(state, s, ask), mass=None, trace=trace)

    def form(self, d_k: int) -> Form | None:
        once = self._once(d_k)
        if self.readout == "signs" or once is None:
            return None
        return once if self.steps == 1 else Iterated(self.steps, once)

    @abstractmethod
    def _once(self, d_k: int) -> KernelSum | None:
        """Return the form of the sums read in one step."""


@dataclass(frozen=True)
class _Pulls:
    """Local fields sum_i k_i pull(overlap of the other units with k_i); columns (..., d, n): the keys, unit by unit."""

    columns: Array
    pull: Callable[[Array], Array]

    def carried(self, s: Array) -> Array:
        return s @ self.columns

    def field(self, carried: Array, i: int, bit: Array) -> Array:
        xp, own = ar.namespace(carried), self.columns[..., i, :]
        pulls = self.pull(carried - own[..., None, :] * bit[..., None])
        sums = (pulls @ own[..., None])[..., 0]
        return beyond_rounding(sums, xp.sum(xp.abs(pulls), axis=-1), int(own.shape[-1]))

    def moved(self, carried: Array, i: int, change: Array) -> Array:
        return carried + self.columns[..., None, i, :] * change[..., None]


@dataclass(frozen=True)
class DenseMemory(_Dense):
    """Units in the energy -sum_i F(k_i.s), F(z) = z^p or max(0, z)^p: each moves to where the energy is lower.

    Notes
    -----
    s_j <- sign(sum_i [F(k_ij + z_ij) - F(-k_ij + z_ij)]), z_ij the overlap of k_i with all units but j, sweep by sweep
    until none moves (s*); a field of exactly 0 keeps the old bit. Listening units recall what belongs to s*: their own
    fields are V^T σ(K s*), σ the difference that one unit makes (`maps.activations.PowerStep`, about (k.s/d_k)^(p-1)),
    or the signs of these. steps=1 reads the query itself: a rectified-polynomial MLP. p = 2 is `Hopfield`, p -> inf the
    nearest pattern. Patterns are completed with values = keys and readout="signs". Where p is even and not rectified, a
    pattern's negative is as deep a valley (`assocmem.ruler.patterns.match` says which came).

    Overlaps are taken in units of the largest one, a power of two, so that no power leaves the range of float32, and
    whole-number fields stay exact; the energy of a trace is in units of d_k^p, and never rises where units move one
    after the other. Keys: +1 and -1; queries may hold 0 for bits that are not known. Random patterns are recalled
    without error up to about d_k^(p-1) / (2 (2p-3)!! ln d_k) of them (`theory.error_free_capacity`).

    State: keys (n, d_k) and values (n, d_v). Cost: nothing but the copy per write; n (2 d_k + d_v) evaluations of σ and
    multiply-adds for every sweep of a recall.
    Source: Krotov & Hopfield 2016 (eqs. 1, 4, 6).

    Examples
    --------
    >>> import numpy as np
    >>> patterns = np.array([[1, 1, 1, 1, 1, 1, -1, -1], [1, -1, 1, -1, 1, -1, 1, -1.0]])
    >>> store = DenseMemory(power=3, readout="signs")
    >>> state = store.write(store.empty(8, 8), patterns, patterns)
    >>> (store.recall(state, patterns * np.array([-1, 1, 1, 1, 1, 1, 1, 1])) == patterns).all()
    np.True_
    """

    power: Annotated[int, Interval(ge=2, le=100), Help("exponent p of the energy")] = 3
    rectified: Annotated[bool, Help("F(z) = max(0, z)^p in the place of z^p")] = False

    equation = "f(x) = V^T σ(K s*), s* the end of s_j <- sign(F up - F down) from s = x, F(z) = sum_i (k_i.s)^p"
    summary = "Units that fall into valleys of a steep polynomial energy, one for each pattern."
    source = Source(
        title="Dense Associative Memory for Pattern Recognition",
        authors="Krotov, Dmitry and Hopfield, John J.",
        year=2016,
        venue="Advances in Neural Information Processing Systems 29",
        arxiv="1606.01164",
        equation="eq. 1: E = -sum F(x_i.s); eq. 4: the update by the difference of energies; eq. 6: capacity",
        deviations=(
            "a sweep moves the units in their order, not at random, so that a recall repeats",
            "values belong to further units that only listen",
        ),
    )

    def _pull(self, overlaps: Array) -> Array:
        xp = ar.namespace(overlaps)
        largest = xp.max(xp.abs(overlaps), axis=-1, keepdims=True)
        largest = xp.maximum(largest, xp.ones_like(largest))
        unit = xp.full_like(largest, 2.0) ** -xp.ceil(xp.log2(largest))
        return power_step(overlaps * unit, unit, self.power, rectified=self.rectified)

    def _energy(self, overlaps: Array, width: int) -> Array:
        xp, shares = ar.namespace(overlaps), overlaps * (1 / max(1, width))
        shares = xp.maximum(shares, xp.zeros_like(shares)) if self.rectified else shares
        return -xp.sum(shares**self.power, axis=-1)

    def _sums(self, state: State, s: Array, ask: Ask) -> Recall:
        sigma, share = PowerStep(self.power, max(1, state.d_k), self.rectified), 1 / max(1, state.d_k)
        across = transpose(state["keys"])
        found = summed(self.name, lambda x, at: sigma((x @ across[..., at]) * share), state["values"], s, ask)
        if share ** (self.power - 1) < float(state.xp.finfo(state.dtype).smallest_normal):
            self._require_weights(sigma((s @ across) * share), self._pull(s @ across))
        return found

    def _require_weights(self, weights: Array, pulls: Array) -> None:
        xp = ar.namespace(weights)
        if bool(xp.any(xp.all(weights == 0, axis=-1) & xp.any(pulls != 0, axis=-1))):
            raise RecallOverflowError(
                f"all weights of a query fell below the range of {ar.dtype_name(weights.dtype)} at power {self.power}; "
                "use float64, or readout='signs', which is scaled."
            )

    def _once(self, d_k: int) -> KernelSum | None:
        return KernelSum(PowerStep(self.power, d_k, self.rectified), signs=True) if d_k else None


@dataclass(frozen=True)
class ExponentialMemory(_Dense):
    """Units in the energy -sum_i e^(k_i.s): a dense associative memory of all powers at once.

    Notes
    -----
    s_j <- sign(sum_i k_ij e^(z_ij)), z_ij the overlap of k_i with all units but j, sweep by sweep until none moves
    (s*); a field of exactly 0 keeps the old bit. Listening units recall what belongs to s*: V^T softmax(K s*), their
    fields divided by a common sum, or the signs of these. steps=1 reads the query itself: softmax attention at
    sharpness 1 on sign vectors, d_k on unit ones. Patterns are completed with values = keys and readout="signs". A
    pattern's negative is no valley of its own.

    All is computed relative to the largest weight. The energy of a trace is its logarithm, -ln sum_i e^(k_i.s), and
    never rises where units move one after the other. Keys: +1 and -1; queries may hold 0 for bits that are not known.
    e^(alpha d_k) random patterns have valleys of radius rho d_k, alpha < I(1 - 2 rho)/2 (`theory.exponential_load`).

    State: keys (n, d_k) and values (n, d_v). Cost: nothing but the copy per write; n (2 d_k + d_v) exponentials and
    multiply-adds for every sweep of a recall.
    Source: Demircigil et al. 2017 (eq. 4, theorem 3).

    Examples
    --------
    >>> import numpy as np
    >>> patterns = np.array([[1, 1, 1, 1, 1, 1, -1, -1], [1, -1, 1, -1, 1, -1, 1, -1.0]])
    >>> store = ExponentialMemory(readout="signs")
    >>> state = store.write(store.empty(8, 8), patterns, patterns)
    >>> (store.recall(state, patterns * np.array([-1, 1, 1, 1, 1, 1, 1, 1])) == patterns).all()
    np.True_
    """

    equation = "f(x) = V^T softmax(K s*), s* the end of s_j <- sign(sum_i k_ij e^(overlap of the others)) from s = x"
    summary = "Units that fall into valleys of an exponential energy, one for each pattern."
    source = Source(
        title="On a Model of Associative Memory with Huge Storage Capacity",
        authors="Demircigil, Mete and Heusel, Judith and Löwe, Matthias and Upgang, Sven and Vermet, Franck",
        year=2017,
        venue="Journal of Statistical Physics 168:288-299",
        arxiv="1702.01929",
        doi="10.1007/s10955-017-1806-y",
        equation="eq. 4: the update of the polynomial model with F(z) = e^z; theorem 3: capacity e^(alpha N)",
        deviations=(
            "a sweep moves the units in their order, so that a recall repeats",
            "values belong to further units that only listen; their fields are divided by the sum of the weights",
        ),
    )

    def _normalised(self) -> bool:
        return True

    def _pull(self, overlaps: Array) -> Array:
        xp = ar.namespace(overlaps)
        return xp.exp(overlaps - xp.max(overlaps, axis=-1, keepdims=True))

    def _energy(self, overlaps: Array, width: int) -> Array:
        xp = ar.namespace(overlaps)
        largest = xp.max(overlaps, axis=-1, keepdims=True)
        return -largest[..., 0] - xp.log(xp.sum(xp.exp(overlaps - largest), axis=-1))

    def _sums(self, state: State, s: Array, ask: Ask) -> Recall:
        found = attend(state["keys"], state["values"], s, 1.0)
        weights = Dense(attention_weights(state["keys"], s, 1.0)) if "weights" in ask.want else None
        return Recall(found.values, weights)

    def _once(self, d_k: int) -> KernelSum | None:
        return KernelSum(Exp(float(d_k)), normalised=True, signs=True)


register("krotov-hopfield", DenseMemory, label="dense associative memory")
register("demircigil", ExponentialMemory, label="exponential Hopfield network")
