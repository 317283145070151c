"""What is asked of a memory beside the queries, and what comes back: values, weights, mass and trace of a recall."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, Literal, TypeAlias

from assocmem.contract import arrays as ar
from assocmem.contract.arrays import Array, Namespace
from assocmem.contract.errors import InputError

Want = Literal["weights", "mass", "trace"]
WANTS: tuple[Want, ...] = ("weights", "mass", "trace")


@dataclass(frozen=True)
class Causal:
    """What the queries of a scan see: query i the pairs 0 .. first + i - 1."""

    first: int


Visible: TypeAlias = "Array | Causal | None"
"""A boolean mask (..., m, n), True where a query may see a pair; or Causal; or None for everything."""


@dataclass(frozen=True)
class Ask:
    """What is asked beside the queries.

    visible: which pairs each query sees. want: what is wanted beside the values. options: every option that the
    store's traits declare, by name, checked.
    """

    visible: Visible = None
    want: tuple[Want, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def mask(self) -> Array | None:
        """The mask, for a store that is scanned pair by pair."""
        assert not isinstance(self.visible, Causal)  # only stores that declare a causal form are asked causally
        return self.visible


@dataclass(frozen=True)
class Dense:
    """The weight of every pair in the recall of every query: rows (..., m, n); recall is rows @ values."""

    rows: Array

    def dense(self, n: int) -> Array:
        """Return the weights (..., m, n)."""
        return self.rows


@dataclass(frozen=True)
class TopK:
    """The weights of the few pairs that each query addresses; all others have none.

    ids: whole numbers in [0, n), (..., m, k), in any order, none twice unless its further weights are 0.
    weights: (..., m, k); recall is the sum over k of weights times the values of ids.
    """

    ids: Array
    weights: Array

    def dense(self, n: int) -> Array:
        """Return the weights of all n pairs (..., m, n). Cost: k passes over m n numbers."""
        xp = ar.namespace(self.weights)
        places = xp.arange(n, device=ar.device_of(self.ids))
        rows = xp.zeros((*self.ids.shape[:-1], n), dtype=self.weights.dtype, device=ar.device_of(self.weights))
        for j in range(int(self.ids.shape[-1])):
            rows = xp.where(self.ids[..., j : j + 1] == places, rows + self.weights[..., j : j + 1], rows)
        return rows


@dataclass(frozen=True)
class Mass:
    """The sum of each query's weights in logarithm, ln of it being peak + ln(share): what joins the recalls of shards.

    peak, share: (..., m), peak -inf where a query found nothing; share None for 1. Beside a large peak the logarithm
    of the share is lost to rounding, and with it how many pairs stand at the peak, so the two are kept apart.
    rule: how shards join. "mean": in proportion to their sums. "largest": those with the largest peak alone, in
    proportion to their shares (infinite sharpness: share counts the pairs that have the largest similarity). "sum":
    their recalls add, and the sum is that of the weights' absolute values.
    """

    peak: Array
    share: Array | None = None
    rule: Literal["mean", "largest", "sum"] = "mean"

    @classmethod
    def of_sum(cls, total: Array) -> Mass:
        """Return the mass by the rule "sum" of weights whose absolute values sum to `total` (..., m)."""
        xp = ar.namespace(total)
        zero = xp.zeros_like(total)
        return cls(xp.where(total > 0, zero, zero - float("inf")), total, "sum")

    @property
    def log(self) -> Array:
        """Logarithm of the weights' sum (..., m), by the rule "largest" the largest similarity; -inf for nothing."""
        if self.share is None or self.rule == "largest":
            return self.peak
        xp = ar.namespace(self.peak)
        some = self.peak > -float("inf")
        share = xp.where(some, self.share, xp.ones_like(self.share))
        return xp.where(some, _seen(self.peak, xp) + xp.log(share), self.peak)


class Outcome(IntEnum):
    """How an iterated recall ended."""

    FIXED_POINT = 0
    CYCLE = 1
    """It went back and forth between two points."""
    STEP_LIMIT = 2


@dataclass(frozen=True)
class Trace:
    """How an iterated recall went, query by query. The option `steps` of such a recall is the most that it takes.

    steps: whole numbers (..., m), steps taken. outcome: (..., m), an Outcome each. energy: (..., m, s + 1), s the most
    steps taken by any of them: before the first step and after each; a query that has ended keeps its last energy.
    settled: (..., m, d_k), what the query has become by its last step, where the store tells.
    """

    steps: Array
    outcome: Array
    energy: Array
    settled: Array | None = None


Weights: TypeAlias = Dense | TopK


@dataclass(frozen=True)
class Recall:
    """What a memory answers.

    Parameters
    ----------
    values : array (..., m, d_v)
        Zeros for a query that finds nothing.
    weights, mass, trace : Weights, Mass, Trace or None
        As far as they were wanted and the store has them (a store may add what costs it nothing).
    dropped : array (..., m) or None
        From a store that leaves pairs out of a normalised sum: the most of the sum's mass that they can have, a share
        in [0, 1]. The recall is off from that of the whole sum by at most 2 dropped max |v|.
    """

    values: Array
    weights: Weights | None = None
    mass: Mass | None = None
    trace: Trace | None = None
    dropped: Array | None = None

    @property
    def nothing(self) -> Array | None:
        """Which queries found nothing, (..., m): everything was hidden, or no pair has a weight.

        None where neither mass nor weights are at hand: ask with want="mass", or "weights".
        """
        if self.mass is not None:
            return self.mass.log == -float("inf")
        if self.weights is None:
            return None
        weights = self.weights.rows if isinstance(self.weights, Dense) else self.weights.weights
        return ~ar.namespace(weights).any(weights != 0, axis=-1)


def merge(shards: Sequence[Recall]) -> Recall:
    """Join the recalls of disjoint shards of one memory into the recall of the whole: its values and its mass.

    By masses, o = sum_i e^(l_i - l) o_i with l = log sum_i e^(l_i): exact, associative and commutative (`Mass` has the
    other rules). Where recall depends on the number of pairs, ask every shard with that of all of them (the option
    `n_total` of SoftmaxAttention). Whether two logits are equal is decided in floating point: a matrix product may
    round equal keys otherwise in shards of another size.

    Parameters
    ----------
    shards : sequence of Recall
        At least one, of one shape, each asked with want="mass".

    Raises
    ------
    InputError
        Where one has no mass, or shapes or rules differ.

    Cost: one pass over the values.
    """
    if not shards:
        raise InputError("`shards` of merge must hold at least one recall; got none.")
    masses = [s.mass for s in shards if s.mass is not None]
    if len(masses) < len(shards):
        raise InputError('`shards` of merge must all have a mass; ask each with want="mass".')
    if len({m.rule for m in masses}) != 1:
        raise InputError("`shards` of merge must all come from the same store with the same settings.")
    shapes = {tuple(s.values.shape) for s in shards}
    if len(shapes) != 1:
        raise InputError(f"`shards` of merge must have one shape; got {sorted(shapes)}.")
    first, rule = shards[0].values, masses[0].rule
    xp = ar.namespace(first)
    peaks = xp.stack([m.peak for m in masses])
    peak = xp.max(peaks, axis=0)
    shares = xp.stack([xp.ones_like(m.peak) if m.share is None else m.share for m in masses])
    if rule == "largest":
        shares = shares * xp.astype(peaks == peak, shares.dtype)
    else:
        shares = shares * xp.astype(xp.exp(peaks - _seen(peak, xp)), shares.dtype)
    total = xp.sum(shares, axis=0)
    mass = Mass(peak, total, rule)
    if rule == "sum":
        return Recall(sum((s.values for s in shards[1:]), first), mass=mass)
    divisor = xp.where(peak > -float("inf"), total, xp.ones_like(total))
    values = xp.zeros_like(first)
    for i, shard in enumerate(shards):
        values = values + shard.values * xp.astype(shares[i, ...] / divisor, first.dtype)[..., None]
    return Recall(values, mass=mass)


def _seen(peak: Array, xp: Namespace) -> Array:
    """Return `peak` with 0 where a query found nothing."""
    return xp.where(peak > -float("inf"), peak, xp.zeros_like(peak))
