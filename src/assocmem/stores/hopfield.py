"""Classical Hopfield networks: units +1 and -1 that fall into a stored pattern, by three rules of learning."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from assocmem.contract import arrays as ar
from assocmem.contract.arrays import Array, transpose
from assocmem.contract.cost import D_K, D_V, Cost
from assocmem.contract.form import Form, Iterated, KernelSum
from assocmem.contract.recall import Ask, Recall
from assocmem.contract.register import Variant, register
from assocmem.contract.state import State
from assocmem.contract.store import Store
from assocmem.contract.traits import Capabilities, Overwrite, Source, Traits
from assocmem.kernels.attractors import (
    Readout,
    Sweeps,
    Updates,
    beyond_rounding,
    same_bits,
    settle,
    spread,
    sweep,
    unit_traits,
)
from assocmem.kernels.least_squares import LeastSquaresStore
from assocmem.kernels.linear_systems import solve, tolerance
from assocmem.maps.activations import Linear

HOPFIELD = Source(
    title="Neural networks and physical systems with emergent collective computational abilities",
    authors="Hopfield, John J.",
    year=1982,
    venue="Proceedings of the National Academy of Sciences 79(8):2554-2558",
    doi="10.1073/pnas.79.8.2554",
    equation="eqs. 1-2: W_ij = sum over patterns of x_i x_j, W_ii = 0; s_i <- sign(sum_j W_ij s_j)",
    deviations=(
        "W is divided by d_k in fields and energies, which changes no sign",
        "a sweep moves the units in their order, not at random times, so that a recall repeats",
        "values belong to further units that only listen, so a pattern may be answered by another one; patterns "
        "recalled by themselves are those with values = keys",
    ),
)


@dataclass(frozen=True)
class _Network(Store):
    """Units s in {+1, -1} with symmetric weights W and none on themselves, read by listening units of weights U."""

    updates: Updates = "asynchronous"
    readout: Readout = "sums"
    steps: Sweeps = 100

    equation = "f(x) = U s*, s* the end of s <- sign(W s) from s = x"

    @cached_property
    def traits(self) -> Traits:
        """Keys of signs; recall is linear in the values unless their signs are taken."""
        return unit_traits(
            self.updates, self.readout, self.steps, self._overwrite(), permutation_invariant=self._any_order()
        )

    def _any_order(self) -> bool:
        """Say whether the order of the patterns doesn't matter."""
        return True

    @abstractmethod
    def _overwrite(self) -> Overwrite:
        """Return what writing a key again does to the sums."""

    @abstractmethod
    def _weights(self, state: State) -> tuple[Array, Array]:
        """Return W (*batch, d_k, d_k) and U^T (*batch, d_k, d_v), both without the factor of `_scale`."""

    def _scale(self, state: State) -> float:
        """Return the factor on both, which fields are left without: whole numbers have fields of exactly 0."""
        return 1.0

    def _exact(self) -> bool:
        """Say whether W and U hold whole numbers for whole values, so that what is 0 comes out as 0."""
        return False

    def get(self, state: State, queries: Array, ask: Ask) -> Recall:
        """Return U s* and, where wanted, the trace; energy -s.(W s)/2."""
        W, readout = self._weights(state)
        network, scale = _Fields(W, self._exact()), self._scale(state)
        at_once = self.updates == "synchronous"

        def energy(s: Array) -> Array:
            return -0.5 * scale * state.xp.sum(s * (s @ W), axis=-1)

        s, trace = settle(
            spread(queries, state.batch),
            lambda s: sweep(s, network, at_once=at_once),
            same_bits,
            ask.options["steps"],
            energy if "trace" in ask.want else None,
        )
        values = s @ readout
        if self.readout == "sums":
            return Recall(scale * values, trace=trace)
        if not self._exact():
            values = beyond_rounding(values, abs(s) @ abs(readout), state.d_k**2)
        return Recall(state.xp.sign(values), trace=trace)


@dataclass(frozen=True)
class _Fields:
    """The fields W s of a symmetric W about as large as a projection, 0 where rounding doesn't tell them from it."""

    W: Array
    exact: bool

    def carried(self, s: Array) -> Array:
        return s @ self.W

    def field(self, carried: Array, i: int, bit: Array) -> Array:
        field = carried[..., i]
        if self.exact:
            return field
        terms = 1 + ar.namespace(field).sum(abs(self.W[..., i, :]), axis=-1)[..., None]
        return beyond_rounding(field, terms, int(self.W.shape[-1]) ** 2)

    def moved(self, carried: Array, i: int, change: Array) -> Array:
        return carried + change[..., None] * self.W[..., None, i, :]


@dataclass(frozen=True)
class Hopfield(_Network):
    """f(x) = U s*, W = sum_i k_i k_i^T without its diagonal, U = sum_i v_i k_i^T, both over d_k: Hebb's rule.

    Notes
    -----
    From s = x every unit takes the sign of its local field W s, sweep by sweep, until none moves (s*), one of `steps`
    sweeps is the last, or, moving all at once, they go to and fro between two points. A field of exactly 0 keeps the
    old bit. Listening units then recall what belongs to s*: the values are read by the sweep that moves the keys'
    units last, so steps=1 is the outer product store of sign keys. Patterns are completed with values = keys and
    readout="signs": +1, -1, and 0 where values say neither. A pattern's negative is as deep a valley as the pattern:
    what it recalls has the opposite sign (`assocmem.ruler.patterns.match` says which came).

    Keys: +1 and -1; queries may hold 0 for bits that are not known. The energy -s.(W s)/2 never rises where units move
    one after the other. Capacity for random patterns: about 0.138 d_k with a few wrong bits (Amit et al. 1985),
    d_k / (2 ln d_k) without any in a typical pattern.

    State: W (d_k, d_k), U (d_v, d_k), whole numbers where the values are. Cost: d_k^2 + d_k d_v multiply-adds per write
    and for every sweep of a recall; a recall takes a few.
    Source: Hopfield 1982 (eqs. 1-2); energy eq. 7.

    Examples
    --------
    >>> import numpy as np
    >>> patterns = np.array([[1, 1, 1, 1, 1, 1, -1, -1], [1, -1, 1, -1, 1, -1, 1, -1.0]])
    >>> store = Hopfield(readout="signs")
    >>> state = store.write(store.empty(8, 8), patterns, patterns)
    >>> corrupted = patterns * np.array([-1, 1, 1, 1, 1, 1, 1, 1])
    >>> found = store.ask(state, corrupted, want="trace")
    >>> (found.values == patterns).all(), found.trace.steps.tolist(), found.trace.outcome.tolist()
    (np.True_, [2, 2], [0, 0])
    >>> found.trace.energy[0].tolist()
    [-1.5, -3.0, -3.0]
    """

    summary = "Units that fall into the nearest valley of an energy; the weights are Hebb's sums."
    source = HOPFIELD
    cost = Cost(D_K * (D_K + D_V), D_K * (D_K + D_V), note="recall: every sweep, of which it takes a few")
    capabilities = Capabilities(gives=("trace",), merges="adds", forgets=True)

    def _overwrite(self) -> Overwrite:
        return "adds"

    def init(self, state: State) -> Mapping[str, Array]:
        return {"W": state.zeros(state.d_k, state.d_k), "U": state.zeros(state.d_v, state.d_k)}

    def put(self, state: State, keys: Array, values: Array, **extras: Array) -> Mapping[str, Array]:
        own = state.eye(state.d_k) * int(keys.shape[-2])
        return {"W": state["W"] + (transpose(keys) @ keys - own), "U": state["U"] + transpose(values) @ keys}

    def _weights(self, state: State) -> tuple[Array, Array]:
        return state["W"], transpose(state["U"])

    def _scale(self, state: State) -> float:
        return 1 / max(1, state.d_k)

    def _exact(self) -> bool:
        return True

    def form(self, d_k: int) -> Form | None:
        if self.readout == "signs":
            return None
        once = KernelSum(Linear(), signs=True)
        return once if self.steps == 1 else Iterated(self.steps, once)


@dataclass(frozen=True)
class ProjectionHopfield(_Network, LeastSquaresStore):
    """f(x) = U s*, W = K^+ K without its diagonal, U^T = K^+ V: the pseudo-inverse (projection) rule.

    Notes
    -----
    K^+ K projects on the space of the stored keys, so every one of up to d_k independent keys is a fixed point, however
    much they resemble each other; W without its diagonal (Kanter & Sompolinsky 1987) has the wider valleys and an
    energy that falls. Sweeps, readout, patterns and energy are those of `Hopfield`. From d_k independent keys on W is
    0, and every query stays where it is. steps=1 is the optimal linear store of sign keys.

    State: R (d_k, d_k) and Q^T V of a QR factorisation of the keys, with pending pairs (kernels.least_squares). Cost:
    about 4 d_k^2 multiply-adds per pair written, two singular value decompositions (d_k x d_k) at the first recall
    after a write, then d_k^2 + d_k d_v for every sweep.
    Source: Personnaz, Guyon & Dreyfus 1985 (eq. 5).

    Examples
    --------
    >>> import numpy as np
    >>> alike = np.array([[1, 1, 1, 1, 1, 1, 1, 1], [1, 1, 1, 1, 1, 1, -1, -1], [1, 1, 1, 1, 1, -1, 1, -1.0]])
    >>> store = ProjectionHopfield(readout="signs")
    >>> state = store.write(store.empty(8, 8), alike, alike)
    >>> (store.recall(state, alike) == alike).all()
    np.True_
    """

    summary = "A Hopfield network whose weights project on the stored keys: alike patterns stay apart."
    source = Source(
        title="Information storage and retrieval in spin-glass like neural networks",
        authors="Personnaz, Léon and Guyon, Isabelle and Dreyfus, Gérard",
        year=1985,
        venue="Journal de Physique Lettres 46(8):359-365",
        doi="10.1051/jphyslet:01985004608035900",
        equation="C = Σ Σ^I, the projection on the space of the prototypes",
        deviations=("the diagonal is left out of W, as Kanter & Sompolinsky 1987 do, so that the energy falls",),
    )
    cost = Cost(4 * D_K**2, D_K * (D_K + D_V), first_recall=2 * D_K**3, note="writes amortised; recall: every sweep")
    capabilities = Capabilities(gives=("trace",))

    def _overwrite(self) -> Overwrite:
        return "averages"

    def _width(self, state: State) -> int:
        return state.d_k

    def _features(self, state: State, x: Array) -> Array:
        return x

    def _ridge(self, state: State) -> float:
        return 0.0

    def _weights(self, state: State) -> tuple[Array, Array]:
        if "projection" not in state.memo:
            projection = state.zeros(state.d_k, state.d_k)
            if state.n and state.d_k:
                system = self._system(state)[0]
                projection = solve(system, system, ridge=0.0, cut=tolerance(state.n, state.d_k, state))
                projection = 0.5 * (projection + transpose(projection))
            state.memo["projection"] = projection * (1 - state.eye(state.d_k))
        return state.memo["projection"], self.solution(state)


@dataclass(frozen=True)
class StorkeyHopfield(_Network):
    """f(x) = U s*, W += (k k^T - k h^T - h k^T) / d_k with the fields h of what is stored: Storkey's rule.

    Notes
    -----
    W_ij += (k_i k_j - k_i h_ji - h_ij k_j) / d_k, where h_ij is the field of unit i without those of units i and j, so
    that a pattern adds only what the others do not say yet: local and incremental as Hebb's rule, with a capacity of
    about d_k / sqrt(2 ln d_k). A listening unit of value v learns by the same rule, U_j += (v k_j - v h_j - g_j k_j) /
    d_k, with its own field g_j without unit j's. The order of the patterns matters. Sweeps, readout, patterns and
    energy are those of `Hopfield`.

    State: W (d_k, d_k), U (d_v, d_k). Cost: about 5 d_k (d_k + d_v) multiply-adds per write, d_k (d_k + d_v) for every
    sweep of a recall.
    Source: Storkey 1997 (eq. 3).

    Examples
    --------
    >>> import numpy as np
    >>> patterns = np.array([[1, 1, 1, 1, 1, 1, -1, -1], [1, -1, 1, -1, 1, -1, 1, -1.0]])
    >>> store = StorkeyHopfield(readout="signs")
    >>> state = store.write(store.empty(8, 8), patterns, patterns)
    >>> (store.recall(state, patterns * np.array([-1, 1, 1, 1, 1, 1, 1, 1])) == patterns).all()
    np.True_
    """

    summary = "A Hopfield network that learns from each pattern what the others do not say yet."
    source = Source(
        title="Increasing the capacity of a Hopfield network without sacrificing functionality",
        authors="Storkey, Amos",
        year=1997,
        venue="Artificial Neural Networks - ICANN'97, Lecture Notes in Computer Science 1327:451-456",
        doi="10.1007/BFb0020196",
        equation="w_ij += (x_i x_j - x_i h_ji - h_ij x_j) / n, h_ij = sum over k other than i, j of w_ik x_k",
        deviations=("listening units, whose values belong to the patterns, learn by the same rule",),
    )
    cost = Cost(5 * D_K * (D_K + D_V), D_K * (D_K + D_V), note="recall: every sweep, of which it takes a few")
    capabilities = Capabilities(gives=("trace",))

    def _any_order(self) -> bool:
        return False

    def _overwrite(self) -> Overwrite:
        return "mixes"

    def init(self, state: State) -> Mapping[str, Array]:
        return {"W": state.zeros(state.d_k, state.d_k), "U": state.zeros(state.d_v, state.d_k)}

    def put(self, state: State, keys: Array, values: Array, **extras: Array) -> Mapping[str, Array]:
        W, U, share, others = state["W"], state["U"], 1 / max(1, state.d_k), 1 - state.eye(state.d_k)
        for i in range(int(keys.shape[-2])):
            k, v = keys[..., i, :], values[..., i, :]
            h = (W @ k[..., None])[..., 0]  # W has no diagonal, so unit i is left out already
            rest = h[..., :, None] - W * k[..., None, :]  # h_ij = h_i - w_ij k_j
            term = rest * k[..., None, :]
            own = (U @ k[..., None])[..., 0]
            read = own[..., :, None] - U * k[..., None, :]
            W = W + share * others * (k[..., :, None] * k[..., None, :] - term - transpose(term))
            U = U + share * (v[..., :, None] * (k - h)[..., None, :] - read * k[..., None, :])
        return {"W": W, "U": U}

    def _weights(self, state: State) -> tuple[Array, Array]:
        return state["W"], transpose(state["U"])


register(
    "hopfield",
    Variant(Hopfield, when="hebbian"),
    Variant(ProjectionHopfield, when="pseudo-inverse"),
    Variant(StorkeyHopfield, when="storkey"),
    choice=("rule", "how the weights are learned"),
    label="Hopfield network",
)
