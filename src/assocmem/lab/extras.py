"""The further arrays that a store's `write` takes, drawn for measurements inside their ranges."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isfinite
from typing import Any

import numpy as np

from assocmem.contract.errors import AssocmemError, InputError, defined_at, place_of
from assocmem.contract.numbers import is_number, stream
from assocmem.contract.state import Pairs
from assocmem.contract.store import Store
from assocmem.contract.traits import Extra, ExtraLaw
from assocmem.inputs import Law, key_law

FloatArray = np.ndarray[Any, Any]
Extras = Mapping[str, ExtraLaw]
NO_EXTRAS: Extras = {}
LIKE_KEYS = "rows like the keys"


def drawn_extras(
    store: Store, keys: FloatArray, d_v: int, given: Extras = NO_EXTRAS, *, law: str | Law = "sphere",
    seed: int, trial: int | tuple[int, ...],
) -> dict[str, FloatArray]:  # fmt: skip
    """Return the extras that a write of these keys is given, by the law that each has.

    An extra that neither the user nor the store gives a law is left out where it has a default; else it is uniform in
    [low, high], or rows of the keys' law, but independent, where it has the keys' shape and no bounds.

    Parameters
    ----------
    store, keys, d_v
        What is written: keys (*batch, n, d_k), values of width d_v.
    given : mapping
        The user's laws by name, before the store's own; those of other stores' extras are passed over.
    law, seed, trial
        Law of the keys, and the random stream: of a trial, or of a part of one.

    Returns
    -------
    dict
        Arrays (*batch, *shape) in the keys' dtype.

    Raises
    ------
    InputError
        For an extra that must be given and has no law, and for a function that fails or returns another shape.
    """
    sizes = {"n": keys.shape[-2], "d_k": keys.shape[-1], "d_v": d_v}
    found = {}
    for extra in store.traits.extras:
        how = law_of(store, extra, given)
        if how is None:
            continue
        shape = (*keys.shape[:-2], *(sizes[axis] if isinstance(axis, str) else axis for axis in extra.shape))
        rng = stream(seed, extra.name, *(trial if isinstance(trial, tuple) else (trial,)))
        if how == LIKE_KEYS:
            rows = key_law(law).draw(rng, int(np.prod(shape[:-1])), shape[-1]).reshape(shape)
        elif callable(how):
            rows = _called(extra, how, keys, shape)
        else:
            rows = rng.uniform(*how, shape) if isinstance(how, tuple) else np.full(shape, float(how))
        found[extra.name] = rows.astype(keys.dtype)
    return found


def part(store: Store, pairs: Pairs, at: slice) -> Pairs:
    """Return some of the pairs, with their extras; those of a whole write stay as they are."""
    axes = {e.name: len(e.shape) for e in store.traits.extras if e.per_pair}
    extras = {
        name: x[(..., at, *(slice(None),) * (axes[name] - 1))] if name in axes else x
        for name, x in pairs.extras.items()
    }
    return Pairs(pairs.keys[..., at, :], pairs.values[..., at, :], extras=extras)


def law_of(store: Store, extra: Extra, given: Extras = NO_EXTRAS) -> ExtraLaw | str | None:
    """Return how an extra is drawn, None where it is left out; InputError where it must be given and has no law."""
    how = given.get(extra.name, extra.law)
    if how is not None:
        return _checked(extra, how)
    if not extra.required:
        return None
    if isfinite(extra.low) and isfinite(extra.high):
        return (extra.low, extra.high)
    if extra.shape == ("n", "d_k") and not (isfinite(extra.low) or isfinite(extra.high)):
        return LIKE_KEYS
    raise InputError(
        f"{store.name} needs `{extra.name}` ({extra.meaning}), and its range [{extra.low:g}, {extra.high:g}] has no "
        f"uniform law: give one for this measurement (--extra {extra.name}=..., `extras`), or declare bounds, a law or "
        "a default."
    )


def check_names(stores: Sequence[Store], given: Extras) -> None:
    """Refuse a law for an extra that none of the stores takes."""
    known = list(dict.fromkeys(extra.name for store in stores for extra in store.traits.extras))
    for name in given:
        if name not in known:
            takes = f"it takes {', '.join(known)}" if known else "it takes no extras"
            names = " or ".join(dict.fromkeys(store.name for store in stores))
            raise InputError(f"`extras` names {name!r}, which {names} has no use for; {takes}.")


def taken_by(stores: Sequence[Store], given: Extras) -> Extras:
    """Return the given laws of those extras that some of the stores take."""
    taken = {extra.name for store in stores for extra in store.traits.extras}
    return {name: law for name, law in given.items() if name in taken}


def in_words(store: Store, given: Extras = NO_EXTRAS) -> str:
    """Return how the store's extras are drawn, "" where none is.

    >>> from assocmem import make_store
    >>> in_words(make_store("delta-net"), {"strength": (0.5, 1.0)})
    'strength uniform in [0.5, 1]'
    """
    words = []
    for extra in store.traits.extras:
        how = law_of(store, extra, given)
        if isinstance(how, tuple):
            words.append(f"{extra.name} uniform in [{how[0]:g}, {how[1]:g}]")
        elif callable(how):
            words.append(f"{extra.name} by {getattr(how, '__name__', type(how).__name__)} of the keys")
        elif how is not None:
            words.append(f"{extra.name} {how}" if isinstance(how, str) else f"{extra.name} = {how:g}")
    return ", ".join(words)


def _checked(extra: Extra, how: Any) -> ExtraLaw:
    numbers = how if isinstance(how, tuple | list) else (how,)
    pair = isinstance(how, tuple | list) and len(how) == 2
    if not callable(how) and not ((pair or is_number(how)) and all(map(is_number, numbers)) and _rising(numbers)):
        raise InputError(
            f"the law of `{extra.name}` must be a number, (low, high) with low <= high, or a function of the keys; got "
            f"{how!r}."
        )
    if not callable(how) and not (extra.low <= numbers[0] and numbers[-1] <= extra.high):
        raise InputError(
            f"the law of `{extra.name}` must stay in its range [{extra.low:g}, {extra.high:g}]; got {how!r}."
        )
    return tuple(how) if pair else how


def _rising(numbers: Any) -> bool:
    return all(isfinite(x) for x in numbers) and numbers[0] <= numbers[-1]


def _called(extra: Extra, how: Any, keys: FloatArray, shape: tuple[int, ...]) -> FloatArray:
    try:
        given = np.asarray(how(keys + 0))
        if np.iscomplexobj(given):
            raise ValueError("it gave complex ones")
        rows = given.astype(np.float64)
        return np.broadcast_to(rows, shape)
    except AssocmemError:
        raise
    except ValueError as error:
        raise InputError(
            f"the law of `{extra.name}` must return numbers of shape {shape} for keys {keys.shape}: {error} "
            f"({defined_at(how)})."
        ) from error
    except Exception as error:
        raise InputError(
            f"the law of `{extra.name}` failed on keys {keys.shape}: {type(error).__name__}: {error} "
            f"({place_of(error)})."
        ) from error
