"""The modern Hopfield network: softmax attention whose query goes to what it recalls of the keys, step by step."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import Annotated

from assocmem.contract import arrays as ar
from assocmem.contract.arrays import Array
from assocmem.contract.cost import D_K, D_V, Cost, N
from assocmem.contract.form import Form, Iterated, KernelSum
from assocmem.contract.recall import Ask, Dense, Recall
from assocmem.contract.register import register
from assocmem.contract.settings import COUNT, POSITIVE, Help
from assocmem.contract.state import State
from assocmem.contract.store import Store
from assocmem.contract.traits import Capabilities, Option, Source, Traits
from assocmem.kernels.attention import attend, attention_weights
from assocmem.kernels.attractors import settle, spread, unmoved
from assocmem.maps.activations import SHARPNESS, Constant, Sharpness


@dataclass(frozen=True)
class ModernHopfield(Store):
    """f(x) = V^T softmax(beta K x*), x* the end of x <- K^T softmax(beta K x): attention asked again with its answer.

    Notes
    -----
    A step moves the query to what attention recalls of the keys; the values are recalled by the last step that is
    taken, so steps=1 is `SoftmaxAttention` and, with values = keys, a recall is where the query ends. It ends at rest
    (no coordinate moved by more than `tolerance`) or after `steps` steps: near a single key, in the mean of several
    that are alike (a metastable state), or in the mean of all. The energy of the trace, -ln(mean_i e^(beta k_i.x)) /
    beta + |x|^2/2 + max_i |k_i|^2 / 2, never rises; it is 0 or above.

    beta multiplies similarities of unit keys; at beta = 0 every query goes to the mean, at inf to the nearest key.

    State: keys (n, d_k) and values (n, d_v). Cost: nothing but the copy per write; 2 n d_k multiply-adds for every step
    of a recall and n (d_k + d_v) for the values.
    Source: Ramsauer et al. 2021 (eq. 3, energy eq. 2).

    Examples
    --------
    >>> import numpy as np
    >>> store = ModernHopfield(8.0)
    >>> state = store.write(store.empty(2, 1), np.eye(2), np.array([[3.0], [5.0]]))
    >>> found = store.ask(state, np.array([[0.5, 0.6]]), want="trace")
    >>> found.values.round(2).tolist(), found.trace.settled.round(2).tolist(), found.trace.steps.tolist()
    ([[5.0]], [[0.0, 1.0]], [5])
    >>> store.recall(state, np.array([[0.5, 0.6]]), steps=1).round(2).tolist()
    [[4.38]]
    """

    sharpness: Annotated[Sharpness, SHARPNESS, Help("how beta follows n; also a number")] = field(
        default_factory=Constant
    )
    steps: Annotated[int, COUNT, Help("most steps of a recall; its option `steps` takes another number")] = 100
    tolerance: Annotated[
        float, POSITIVE, Help("largest move of a coordinate that counts as rest", unit="key length")
    ] = 1e-4

    equation = "f(x) = V^T softmax(beta K x*), x* the end of x <- K^T softmax(beta K x)"
    summary = "Softmax attention whose query goes to what it recalls, until it stays."
    source = Source(
        title="Hopfield Networks is All You Need",
        authors="Ramsauer, Hubert and Schäfl, Bernhard and Lehner, Johannes and Seidl, Philipp and Widrich, Michael "
        "and Gruber, Lukas and Holzleitner, Markus and Adler, Thomas and Kreil, David and Kopp, Michael K. and "
        "Klambauer, Günter and Brandstetter, Johannes and Hochreiter, Sepp",
        year=2021,
        venue="International Conference on Learning Representations",
        arxiv="2008.02217",
        equation="eq. 3: ξ_new = X softmax(beta X^T ξ); eq. 2: the energy",
        deviations=("values of their own are recalled by the last step's weights",),
    )
    cost = Cost(D_K + D_V, N * (2 * D_K + D_V), note="recall: every step, and the values once")
    capabilities = Capabilities(gives=("weights", "trace"), merges="appends", selects=True)

    @cached_property
    def traits(self) -> Traits:
        """Linear with shared weights, permutation-invariant, averaging, growing."""
        steps = Option("steps", "most steps of the query", self.steps, low=1, whole=True)
        meaning = "largest move of a coordinate that counts as rest, in units of key length"
        tolerance = Option("tolerance", meaning, self.tolerance, low=0.0, idle=self.steps == 1)
        return Traits(
            "shared", True, "averages", constant_size=False, keeps_pairs=True, energy_falls=True,
            options=(steps, tolerance),
        )  # fmt: skip

    def get(self, state: State, queries: Array, ask: Ask) -> Recall:
        """Return V^T softmax(beta K x*) and, where wanted, weights and trace."""
        start, xp = spread(queries, state.batch), state.xp
        if not state.n:
            values = xp.zeros((*start.shape[:-1], state.d_v), dtype=start.dtype, device=state.device)
            return unmoved(values, start, "trace" in ask.want)
        keys, values, beta = state["keys"], state["values"], self.sharpness.checked(state.n, state.d_k)
        close = ask.options["tolerance"]

        def step(x: Array) -> Array:
            return xp.astype(attend(keys, keys, x, beta).values, start.dtype)

        def near(a: Array, b: Array) -> Array:
            return xp.all(xp.abs(a - b) <= close, axis=-1)

        def energy(x: Array) -> Array:
            return _energy(keys, x, beta)

        wanted = energy if "trace" in ask.want else None
        x, trace = settle(start, step, near, ask.options["steps"], wanted)
        weights = Dense(attention_weights(keys, x, beta)) if "weights" in ask.want else None
        return Recall(attend(keys, values, x, beta).values, weights, None, trace)

    def form(self, d_k: int) -> Form:
        once = KernelSum(self.sharpness, normalised=True)
        return once if self.steps == 1 else Iterated(self.steps, once)


def _energy(keys: Array, x: Array, beta: float) -> Array:
    """Return the energy (..., m) of points x (..., m, d_k); at beta = 0 and inf its limits."""
    xp = ar.namespace(x)
    half = 0.5 * xp.sum(x * x, axis=-1) + 0.5 * xp.max(xp.sum(keys * keys, axis=-1), axis=-1)[..., None]
    if beta == 0:
        return half - (x @ ar.transpose(xp.mean(keys, axis=-2, keepdims=True)))[..., 0]
    mass = attend(keys, xp.ones_like(keys[..., :1]), x, beta).mass
    assert mass is not None  # attend always gives one
    if math.isinf(beta):
        return half - xp.astype(mass.log, half.dtype)
    return half - xp.astype((mass.log - math.log(int(keys.shape[-2]))) / beta, half.dtype)


register("modern-hopfield", ModernHopfield, label="modern Hopfield network")
