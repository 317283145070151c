"""Stores that learn by steps: a step beyond its bound is announced, a state that left the finite numbers is refused."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from assocmem.contract import arrays as ar
from assocmem.contract.arrays import Array
from assocmem.contract.errors import DivergedError, UnstableWarning, warn
from assocmem.contract.state import State
from assocmem.contract.store import Store


def warn_unstable(store: Store, quantity: str, largest: float, bound: float, advice: str) -> None:
    """Give UnstableWarning that `quantity` of these pairs reaches `largest`, above its `bound`."""
    warn(
        f"{store.name}: {quantity} reaches {largest:.4g} for these pairs, above the bound {bound:.4g}; beyond it "
        f"errors grow from write to write. {advice}",
        UnstableWarning,
    )


def require_finite_rows(store: Store, state: State, rows: Array, what: str, advice: str) -> None:
    """Raise DivergedError if `rows` (*batch, n, width) that follow those of `state` hold NaN or infinity."""
    xp = ar.namespace(rows)
    if not ar.all_finite(rows, xp):
        finite = ar.to_numpy(xp.all(xp.isfinite(rows), axis=-1)).reshape(-1, int(rows.shape[-2])).all(axis=0)
        _refuse(store, state, int(finite.argmin()), what, advice)


def _refuse(store: Store, state: State, pair: int, what: str, advice: str) -> None:
    step = state.n + pair
    raise DivergedError(
        f"{store.name} diverged at pair {step}: {what} left the range of {ar.dtype_name(state.dtype)}, and nothing "
        f"was changed. {advice}",
        step=step,
    )


def require_finite_arrays(
    store: Store,
    state: State,
    arrays: Mapping[str, Array],
    first: Callable[[int], Mapping[str, Array]],
    count: int,
    advice: str,
) -> None:
    """Raise DivergedError if `arrays`, the result of writing `count` pairs to `state`, hold NaN or infinity.

    first: returns the arrays after the first i of these pairs only. `step` of the error is the first pair that made
    them leave the finite numbers, counted from 0 over all pairs ever written; it is found by bisection.
    """  # fmt: skip
    if all(ar.trusted_finite(a, state.xp) for a in arrays.values()):
        return
    fine, bad = 0, count
    while bad - fine > 1:
        middle = (fine + bad) // 2
        if all(ar.all_finite(a, state.xp) for a in first(middle).values()):
            fine = middle
        else:
            bad = middle
    _refuse(store, state, bad - 1, "its state", advice)
