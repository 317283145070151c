"""Stores that learn by steps: a step beyond its bound is announced, a state that left the finite numbers is refused."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

from assocmem.core import arrays as ar
from assocmem.core.arrays import Array
from assocmem.core.errors import DivergedError, UnstableWarning
from assocmem.core.store import Store
from assocmem.core.types import State


def warn_unstable(
    store: Store, quantity: str, largest: float, bound: float, advice: str, *, stacklevel: int = 5
) -> None:
    """Give UnstableWarning that `quantity` of these pairs reaches `largest`, above its `bound`."""
    warnings.warn(
        f"{store.name}: {quantity} reaches {largest:.4g} for these pairs, above the bound {bound:.4g}; beyond it "
        f"errors grow from write to write. {advice}",
        UnstableWarning,
        stacklevel=stacklevel,
    )


def finite_arrays(
    store: Store,
    state: State,
    arrays: Mapping[str, Array],
    keys: Array,
    values: Array,
    extras: Mapping[str, Any],
    advice: str,
) -> Mapping[str, Array]:
    """Return `arrays`, the result of writing these pairs to `state`, unless they hold NaN or infinity.

    Raises DivergedError whose `step` is the first pair that made them so, counted from 0 over all pairs ever
    written: the pairs are written again one by one to find it.
    """
    if all(ar.all_finite(a, state.xp) for a in arrays.values()):
        return arrays
    count, step = int(keys.shape[-2]), state.n
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnstableWarning)
        for i in range(count if count > 1 else 0):
            at, step = slice(i, i + 1), state.n
            try:
                state = store._write(state, keys[..., at, :], values[..., at, :], store._pairs_of(extras, at))
            except DivergedError:
                break
    raise DivergedError(
        f"{store.name} diverged at pair {step}: its state left the range of {ar.dtype_name(state.dtype)}, and nothing "
        f"was changed. {advice}",
        step=step,
    )
