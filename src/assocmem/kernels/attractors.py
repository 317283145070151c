"""Iterated recall: a query goes from step to step of its memory until it stays, goes to and fro, or steps are used up.

`settle` is that loop, for any step. Networks of units +1 and -1 have a step of their own, a sweep over all bits
(`sweep`): one after the other, each seeing those that moved before it, or all at once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Annotated, Any, Literal, Protocol, TypeAlias

import numpy as np

from assocmem.contract import arrays as ar
from assocmem.contract.arrays import Array
from assocmem.contract.recall import Dense, Outcome, Recall, Trace
from assocmem.contract.settings import COUNT, Help
from assocmem.contract.traits import Option, Overwrite, Traits

BLOCK_NUMBERS = 2**16
"""Overlaps of queries with patterns that are held at once: they stay in a core's cache from unit to unit."""

Updates: TypeAlias = Annotated[
    Literal["asynchronous", "synchronous"], Help("units move one after the other in a sweep, or all at once")
]
Readout: TypeAlias = Annotated[
    Literal["sums", "signs"], Help("recall the sums over the values, or their signs (values +1 and -1)")
]
Sweeps: TypeAlias = Annotated[int, COUNT, Help("most sweeps of a recall; its option `steps` takes another number")]
"""The settings that networks of units +1 and -1 have."""


def unit_traits(
    updates: str, readout: str, steps: int, overwrite: Overwrite, *, permutation_invariant: bool = True,
    keeps_pairs: bool = False,
) -> Traits:  # fmt: skip
    """Return the traits of a network of units: keys of signs, linear in the values unless their signs are recalled.

    overwrite: of its sums; signs average.
    """
    sums = readout == "sums"
    return Traits(
        linear_in_values="shared" if sums else "no", permutation_invariant=permutation_invariant,
        overwrite=overwrite if sums else "averages", constant_size=not keeps_pairs, keeps_pairs=keeps_pairs,
        keys="signs", values="any" if sums else "signs", energy_falls=updates == "asynchronous",
        options=(Option("steps", "most sweeps over the units", steps, low=1, whole=True),),
    )  # fmt: skip


def settle(
    start: Array,
    step: Callable[[Array], Array],
    near: Callable[[Array, Array], Array],
    most: int,
    energy: Callable[[Array], Array] | None = None,
) -> tuple[Array, Trace | None]:
    """Move queries by `step` until each is at rest, goes to and fro between two points, or has taken `most` steps.

    Parameters
    ----------
    start : array (..., m, d)
    step : function of points (..., m, d) that returns where they go
    near : function of two sets of points that says which of them are the same (..., m)
    most : most steps, >= 1
    energy : energies (..., m) of points (..., m, d), where the trace is wanted

    Returns
    -------
    The points (..., m, d) at which each query's last step began, and the trace where energies are given. A step that
    finds a query at rest counts as one.
    """
    xp, shape, device = ar.namespace(start), tuple(start.shape[:-1]), ar.device_of(start)
    at, before, origin = start, None, start
    steps = xp.zeros(shape, dtype=xp.int64, device=device)
    outcome = xp.full(shape, int(Outcome.STEP_LIMIT), dtype=xp.int64, device=device)
    fixed, cycle = xp.full_like(steps, int(Outcome.FIXED_POINT)), xp.full_like(steps, int(Outcome.CYCLE))
    moving = xp.ones(shape, dtype=xp.bool, device=device)
    energies = [] if energy is None else [energy(start)]
    for _ in range(most):
        if not bool(xp.any(moving)):
            break
        fresh = xp.where(moving[..., None], step(at), at)
        origin = xp.where(moving[..., None], at, origin)
        rest = moving & near(fresh, at)
        back = moving & ~rest & (xp.zeros_like(rest) if before is None else near(fresh, before))
        steps = steps + xp.astype(moving, xp.int64)
        outcome = xp.where(rest, fixed, xp.where(back, cycle, outcome))
        moving = moving & ~rest & ~back
        before, at = at, fresh
        energies += [] if energy is None else [energy(at)]
    trace = None if energy is None else Trace(steps, outcome, xp.stack(energies, axis=-1), at)
    return origin, trace


class Network(Protocol):
    """Units that move by the sign of their local field, whose common part is carried through a sweep."""

    def carried(self, s: Array) -> Array:
        """Return what the fields of units s (..., m, N) are worked out from."""

    def field(self, carried: Array, i: int, bit: Array) -> Array:
        """Return the field of unit i (..., m), up to a positive factor; bit: that unit as it is."""

    def moved(self, carried: Array, i: int, change: Array) -> Array:
        """Return what is carried after unit i has changed by `change` (..., m)."""


def sweep(s: Array, network: Network, *, at_once: bool) -> Array:
    """Return units s (..., m, N) after each took the sign of its field; a field of exactly 0 keeps the old bit."""
    xp, carried, bits = ar.namespace(s), network.carried(s), []
    for i in range(int(s.shape[-1])):
        bit = s[..., i]
        field = network.field(carried, i, bit)
        bits.append(xp.where(field == 0, bit, xp.sign(field)))
        if not at_once:
            carried = network.moved(carried, i, bits[-1] - bit)
    return xp.stack(bits, axis=-1) if bits else s


def same_bits(a: Array, b: Array) -> Array:
    """Say which rows of units are the same in all of them."""
    return ar.namespace(a).all(a == b, axis=-1)


def beyond_rounding(sums: Array, absolute: Array, terms: int) -> Array:
    """Return sums of `terms` terms, 0 where rounding doesn't tell them from it; absolute: of the absolute terms."""
    xp = ar.namespace(sums)
    slack = 4 * (4 + math.log2(max(1, terms))) * float(xp.finfo(sums.dtype).eps)
    return xp.where(xp.abs(sums) <= slack * absolute, xp.zeros_like(sums), sums)


def spread(queries: Array, batch: tuple[int, ...]) -> Array:
    """Return queries (..., m, d) with leading axes that are those of the recall: theirs broadcast against `batch`."""
    lead = ar.broadcast_shapes(tuple(queries.shape[:-2]), batch)
    return ar.namespace(queries).broadcast_to(queries, (*lead, *queries.shape[-2:]))


def unmoved(values: Array, queries: Array, trace: bool) -> Recall:
    """Return the recall of a memory that holds nothing: every query rests where it is, without a step."""
    xp, shape = ar.namespace(queries), tuple(queries.shape[:-1])
    steps = xp.zeros(shape, dtype=xp.int64, device=ar.device_of(queries))
    energy = xp.zeros((*shape, 1), dtype=queries.dtype, device=ar.device_of(queries))
    rows = xp.zeros((*shape, 0), dtype=queries.dtype, device=ar.device_of(queries))
    return Recall(values, Dense(rows), None, Trace(steps, steps, energy, queries) if trace else None)


def in_blocks(queries: Array, n_patterns: int, recall: Callable[[Array], Recall]) -> Recall:
    """Return the recall of queries (..., m, d), so many of them at a time as overlaps with the patterns fit a block."""
    m, items = int(queries.shape[-2]), int(np.prod(queries.shape[:-2], dtype=np.int64))
    rows = max(1, BLOCK_NUMBERS // max(1, n_patterns * items))
    parts = [recall(queries[..., start : min(start + rows, m), :]) for start in range(0, max(1, m), rows)]
    return parts[0] if len(parts) == 1 else _joined(parts)


def _joined(parts: Sequence[Recall]) -> Recall:
    xp = ar.namespace(parts[0].values)
    values = xp.concat([part.values for part in parts], axis=-2)
    rows = [part.weights.rows for part in parts if isinstance(part.weights, Dense)]
    traces = [part.trace for part in parts if part.trace is not None]
    weights = Dense(xp.concat(rows, axis=-2)) if rows else None
    return Recall(values, weights, None, _joined_traces(traces) if traces else None)


def _joined_traces(traces: Sequence[Trace]) -> Trace:
    xp = ar.namespace(traces[0].energy)
    longest = max(int(trace.energy.shape[-1]) for trace in traces)
    energies: list[Any] = []
    for trace in traces:
        last, more = trace.energy[..., -1:], longest - int(trace.energy.shape[-1])
        energies.append(xp.concat([trace.energy, *[last] * more], axis=-1))
    return Trace(
        xp.concat([trace.steps for trace in traces], axis=-1),
        xp.concat([trace.outcome for trace in traces], axis=-1),
        xp.concat(energies, axis=-2),
        xp.concat([trace.settled for trace in traces], axis=-2),
    )
