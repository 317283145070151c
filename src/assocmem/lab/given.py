"""Arrays and choices as a user gives them, checked at the door of a measurement."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from numbers import Real
from typing import Any

import numpy as np

from assocmem.contract.arrays import as_array, namespace, require_finite, to_numpy
from assocmem.contract.errors import InputError
from assocmem.contract.requirement import is_whole
from assocmem.ruler.whitening import Kind

FloatArray = np.ndarray[Any, Any]
KINDS: dict[str, Kind] = {
    "raw": "raw",
    "centre": "centred",
    "centred": "centred",
    "whiten": "whitened",
    "whitened": "whitened",
}


def kinds_of(preparation: str | Sequence[str]) -> list[Kind]:
    """Return the kinds of preparation that were named, each once."""
    named = [preparation] if isinstance(preparation, str) else list(preparation)
    for name in named:
        if name not in KINDS:
            raise InputError(f"`preparation` must be among raw, centre and whiten; got {name!r}.")
    if not named:
        raise InputError("`preparation` must name at least one of raw, centre and whiten; got none.")
    return list(dict.fromkeys(KINDS[name] for name in named))


def heads_of(array: Any, name: str, least: int) -> FloatArray:
    """Return an array as (heads, n, width) float64."""
    checked = as_array(array, name)
    if checked.ndim not in (2, 3) or checked.shape[-2] < least or checked.shape[-1] < 1:
        raise InputError(
            f"`{name}` must have shape (n, d) or (heads, n, d) with n >= {least}; got {tuple(checked.shape)}."
        )
    require_finite(checked, name, namespace(checked))
    rows = to_numpy(checked).astype(np.float64)
    return rows if rows.ndim == 3 else rows[None]


def check_arrays(
    keys: FloatArray, values: FloatArray | None, queries: FloatArray | None, targets: FloatArray | None, trials: int,
    asked: int, fit_share: float,
) -> None:  # fmt: skip
    """Raise InputError where heads, rows or widths do not fit together, or a number is out of range."""
    empty = [] if values is None else [head for head, rows in enumerate(values) if not rows.any()]
    if values is not None and empty:
        where = f" of head {empty[0]}" if len(values) > 1 else ""
        raise InputError(f"`values`{where} must not all be zero: a recall has no length to compare interference with.")
    if values is not None and values.shape[:2] != keys.shape[:2]:
        raise InputError(
            f"`values` must have one row for each of {keys.shape[1]} keys in {keys.shape[0]} heads; got {values.shape}."
        )
    if (queries is None) != (targets is None):
        raise InputError("`queries` and `targets` go together: the target of a query is the row that it asks for.")
    if queries is not None and targets is not None:
        if queries.shape[0] != keys.shape[0] or queries.shape[2] != keys.shape[2]:
            raise InputError(
                f"`queries` must have the heads and the width of the keys {keys.shape}; got {queries.shape}."
            )
        if len(targets) != queries.shape[1]:
            raise InputError(f"`targets` must name a row for each of {queries.shape[1]} queries; got {len(targets)}.")
    if not (is_whole(trials) and is_whole(asked)):
        raise InputError(f"`trials` and `asked` must be whole numbers >= 1; got {trials!r} and {asked!r}.")
    if not 0 < fit_share < 1:
        raise InputError(f"`fit_share` must lie between 0 and 1; got {fit_share!r}.")


def rows_to_fit(rows: int, fit_share: float, kinds: Sequence[Kind]) -> int:
    """Return how many of the rows are set aside to fit the preparations, at least 2 of which must be left."""
    if list(kinds) == ["raw"]:
        return 0
    count = max(2, round(fit_share * rows))
    if rows - count < 2:
        what = "the mean and the whitening" if "whitened" in kinds else "the mean"
        left = rows - count
        raise InputError(
            f"`keys` has {rows} rows: {count} are set aside to fit {what}, which leaves {max(0, left)} to measure; "
            "at least 2 must be left, so give more rows."
        )
    return count


def memories_of(memories: Iterable[int] | None, rows: int, largest: int | None = None) -> list[int]:
    """Return the M to measure, at most as many as there are rows and at most `largest`."""
    if memories is None:
        if largest is not None and not is_whole(largest, 2):
            raise InputError(f"`largest` must be a whole number >= 2; got {largest!r}.")
        top = rows if largest is None else min(rows, largest)
        steps = int(2 * np.log2(top))
        return sorted({min(top, round(2 ** (i / 2))) for i in range(2, steps + 1)} | {top})
    given = list(memories)
    if not given or not all(isinstance(n, Real) and float(n).is_integer() and 1 <= n <= rows for n in given):
        raise InputError(f"`memories` must be whole numbers from 1 to the {rows} rows that are measured; got {given}.")
    return sorted({int(n) for n in given})
