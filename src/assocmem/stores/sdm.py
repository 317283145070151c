"""Sparse distributed memory: counters at hard addresses, of which those near a key are written and read."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Annotated, Any, Literal

import numpy as np

from assocmem.contract.arrays import Array, transpose
from assocmem.contract.cost import D_K, D_V, Cost, Count
from assocmem.contract.errors import InputError
from assocmem.contract.form import KernelSum
from assocmem.contract.numbers import stream
from assocmem.contract.recall import Ask
from assocmem.contract.register import register
from assocmem.contract.settings import COUNT, NOT_NEGATIVE, Help
from assocmem.contract.state import State
from assocmem.contract.store import Store
from assocmem.contract.traits import Capabilities, Source, Traits
from assocmem.maps.activations import BallOverlap

MOST_BITS = 20
"""Widest keys of which all addresses are held: a million."""
REACHED = 1 / 50
"""Share of all addresses that the radius reaches at least, where none is given."""


@dataclass(frozen=True)
class SparseDistributedMemory(Store):
    """f(x) = sum of the counters C_a at all hard addresses a within `radius` bits of x; a write adds v there.

    Notes
    -----
    Hard addresses are vertices of the cube {+1, -1}^d_k, drawn once (or all there are): C_a = sum of the values of all
    keys within `radius` bits of a. So pair i weighs as the addresses common to the balls around x and k_i, of which
    there are on the average `maps.activations.ball_overlap` times the share of the vertices that are hard addresses;
    with all vertices exactly so. That falls about exponentially with the distance (Bricken & Pehlevan 2021): softmax
    attention by another machine. A recall is the sums or their signs; a query that reaches no address recalls zeros.
    Patterns are cleaned with values = keys, readout="signs" and each recall as the next query.

    Keys: +1 and -1; a 0 in a query is half a bit away from both.

    State: "addresses" (R, d_k), as drawn, the same in every batch item; counters (R, d_v), whole numbers where the
    values are. Cost: R (d_k + d_v) multiply-adds per write and per recall.
    Source: Kanerva 1988 (chapters 4 and 5). Kanerva's own example: d_k = 1000, R = 10^6, radius 451.

    Examples
    --------
    >>> import numpy as np
    >>> store = SparseDistributedMemory(locations=None, radius=4)
    >>> keys = np.ones((5, 10))
    >>> for i, distance in enumerate((0, 2, 4, 5, 8)):
    ...     keys[i, :distance] = -1
    >>> state = store.write(store.empty(10, 5), keys, np.eye(5))
    >>> store.recall(state, np.ones((1, 10))).tolist()
    [[386.0, 260.0, 190.0, 130.0, 70.0]]
    """

    locations: Annotated[int | None, COUNT, Help("hard addresses R, drawn at random", none="all 2^d_k")] = 1024
    radius: Annotated[
        int | None, NOT_NEGATIVE, Help("bits that an address may differ by", none="the least that reaches a fiftieth")
    ] = None
    readout: Annotated[
        Literal["sums", "signs"], Help("recall the sums of counters, or their signs (values +1 and -1)")
    ] = "sums"
    seed: Annotated[int, NOT_NEGATIVE, Help("names the random addresses")] = 0

    equation = "f(x) = sum over addresses a near x of C_a, C_a = sum of v_i over keys k_i near a"
    summary = "Counters at random addresses; a pair is written to those near its key, a query reads those near it."
    source = Source(
        title="Sparse Distributed Memory",
        authors="Kanerva, Pentti",
        year=1988,
        venue="MIT Press",
        equation="chapters 4 and 5: writing to and reading from the hard locations within a circle",
        deviations=("a smaller number of hard locations by default, and a radius that reaches more of them",),
    )
    capabilities = Capabilities(not_merged="its addresses would be added up with its counters")

    @property
    def cost(self) -> Cost:  # type: ignore[override]
        rows = (
            Count("2^d_k", lambda *sizes: 2 ** sizes[0]) if self.locations is None else Count("", _one, self.locations)
        )
        return Cost(rows * (D_K + D_V), rows * (D_K + D_V))

    @cached_property
    def traits(self) -> Traits:
        """Keys of signs; recall is linear in the values unless their signs are taken."""
        sums = self.readout == "sums"
        return Traits(
            linear_in_values="shared" if sums else "no",
            permutation_invariant=True,
            overwrite="adds" if sums else "averages",
            constant_size=True,
            keys="signs",
            values="any" if sums else "signs",
        )

    def init(self, state: State) -> Mapping[str, Array]:
        addresses = _addresses(self.seed, self.locations, state.d_k)
        array = state.xp.astype(state.xp.asarray(addresses.copy(), device=state.device), state.dtype)
        return {
            "addresses": state.xp.broadcast_to(array, (*state.batch, *addresses.shape)),
            "counters": state.zeros(addresses.shape[0], state.d_v),
        }

    def put(self, state: State, keys: Array, values: Array, **extras: Array) -> Mapping[str, Array]:
        return {**state.arrays, "counters": state["counters"] + transpose(self._near(state, keys)) @ values}

    def get(self, state: State, queries: Array, ask: Ask) -> Array:
        sums = self._near(state, queries) @ state["counters"]
        return sums if self.readout == "sums" else state.xp.sign(sums)

    def _near(self, state: State, x: Array) -> Array:
        """Return 1 for every address within the radius of x (..., m, d_k), else 0: (..., m, R)."""
        reach = state.d_k - 2 * self._radius(state.d_k)
        return state.xp.astype(x @ transpose(state["addresses"]) >= reach, state.dtype)

    def _radius(self, d_k: int) -> int:
        return least_radius(d_k) if self.radius is None else self.radius

    def form(self, d_k: int) -> KernelSum | None:
        if self.readout == "signs":
            return None
        exact = self.locations is None and 0 < d_k <= MOST_BITS
        return KernelSum(BallOverlap(d_k, self._radius(d_k)) if exact else None, signs=True)


@lru_cache(maxsize=256)
def least_radius(d_k: int) -> int:
    """Return the least number of bits within which a fiftieth of all addresses of d_k bits lies."""
    reached, radius = 1, 0
    while reached < REACHED * 2**d_k:
        radius += 1
        reached += math.comb(d_k, radius)
    return radius


@lru_cache(maxsize=8)
def _addresses(seed: int, locations: int | None, d_k: int) -> np.ndarray[Any, Any]:
    if locations is not None:
        return stream(seed, "sparse-distributed-memory").choice(np.array([-1.0, 1.0]), (locations, d_k))
    if d_k > MOST_BITS:
        raise InputError(
            f"`locations` of SparseDistributedMemory must be given for keys of more than {MOST_BITS} bits, of which "
            f"not all addresses can be held; got None at d_k={d_k}."
        )
    return 1.0 - 2.0 * (np.arange(2**d_k)[:, None] >> np.arange(d_k) & 1)


def _one(*_sizes: float) -> int:
    return 1


register("sdm", SparseDistributedMemory, label="sparse distributed memory")
