"""The geometry of given keys: how many directions they really use, and how much they have in common."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from assocmem.contract.arrays import Array, dtype_name, rounding_unit
from assocmem.contract.errors import InputError
from assocmem.ruler.ratio import Floats, checked_numbers

_BLOCK = 1 << 21
_MEAN_ROUNDING = (8 * rounding_unit("float64")) ** 2
"""Square that computing a mean in float64 leaves in columns of one value, for numbers of at most one."""


@dataclass(frozen=True)
class Geometry:
    """Numbers about keys (n, d).

    Parameters
    ----------
    n, d : int
        Rows and columns.
    constant_columns : int
        Columns that have one value throughout.
    zero_rows : int
        Rows of length zero, whose cosine with any other counts as 0.
    duplicates : int
        Rows equal to an earlier row.
    norm_mean, norm_std, norm_min, norm_max : float
        Of the rows' lengths.
    effective_dimension : float or None
        1 / E cos^2 over pairs of distinct rows, the width d at which uniform unit keys would overlap as much; None
        where it is infinite (all cosines zero, to the rounding of the dtype in which the rows came) or there are
        fewer than two rows.
    mean_cosine : float or None
        E cos over pairs of distinct rows.
    participation_ratio, participation_ratio_centred : float or None
        (tr C)^2 / tr C^2 of the second moment C = K^T K / n, and of the covariance; None where all keys are zero (or
        all equal to rounding, for the centred one).
    shared_mean_share : float or None
        ||mean||^2 / mean ||k||^2 in [0, 1]; None where all keys are zero.
    reason : str
        Why something is None.
    """

    n: int
    d: int
    constant_columns: int
    zero_rows: int
    duplicates: int
    norm_mean: float
    norm_std: float
    norm_min: float
    norm_max: float
    effective_dimension: float | None
    mean_cosine: float | None
    participation_ratio: float | None
    participation_ratio_centred: float | None
    shared_mean_share: float | None
    reason: str = ""


def key_geometry(keys: Array, *, came: str | None = None) -> Geometry:
    """Return the geometry of keys.

    Parameters
    ----------
    keys : array (n, d)
        n and d >= 1, of any array library.
    came : str, optional
        Name of the dtype in which the numbers came, that of `keys` by default.

    Returns
    -------
    Geometry
        Numbers about them; all pairs of rows count.

    Raises
    ------
    InputError
        For other shapes.
    NonFiniteError
        Naming a row.

    Notes
    -----
    Through the d x d matrix of second moments (the n x n one where that is smaller): cost n d min(n, d), memory
    n d + min(n, d)^2.

    Examples
    --------
    >>> found = key_geometry(np.eye(4)[[0, 1, 2, 0]])
    >>> found.duplicates, found.effective_dimension
    (1, 6.0)
    """
    rows = checked_numbers(keys, "keys", 2)
    if rows.ndim != 2 or 0 in rows.shape:
        raise InputError(f"`keys` must have shape (n, d) with n and d at least 1; got {rows.shape}.")
    n, d = rows.shape
    unit = rounding_unit(dtype_name(getattr(keys, "dtype", rows.dtype)) if came is None else came)
    top = float(np.abs(rows).max())
    scale = top or 1.0
    norms = np.concatenate([np.linalg.norm(block, axis=1) for block in _blocks(rows, scale)])
    cosine, square = _cosines(rows, scale, norms)
    apart = square is not None and square > (8 * unit) ** 2 / d
    mean = sum((block.sum(axis=0) for block in _blocks(rows, scale)), np.zeros(d)) / n
    power = float(np.mean(norms**2))
    reasons = []
    if n < 2:
        reasons.append("one row has no pairs")
    elif not apart:
        reasons.append("all distinct rows are orthogonal, so the effective dimension is infinite")
    if not power:
        reasons.append("all keys are zero")
    return Geometry(
        n, d,
        constant_columns=int(np.sum(rows.min(axis=0) == rows.max(axis=0))),
        zero_rows=int(np.sum(norms == 0)),
        duplicates=n - _distinct(rows),
        norm_mean=float(norms.mean()) * scale, norm_std=float(norms.std()) * scale,
        norm_min=float(norms.min()) * scale, norm_max=float(norms.max()) * scale,
        effective_dimension=1 / square if square and apart else None,
        mean_cosine=cosine,
        participation_ratio=_participation(rows, scale, np.zeros(d), 0.0),
        participation_ratio_centred=_participation(rows, scale, mean, max(power * unit**2, d * _MEAN_ROUNDING)),
        shared_mean_share=min(1.0, float(mean @ mean) / power) if power else None,
        reason="; ".join(reasons),
    )  # fmt: skip


def _blocks(rows: Floats, scale: float) -> Iterator[Floats]:
    """Yield blocks of rows in float64, scaled to entries of at most one."""
    step = max(1, _BLOCK // rows.shape[1])
    for start in range(0, rows.shape[0], step):
        yield rows[start : start + step].astype(np.float64) / scale


def _cosines(rows: Floats, scale: float, norms: Floats) -> tuple[float | None, float | None]:
    """Return E cos and E cos^2 over ordered pairs of distinct rows."""
    n, d = rows.shape
    if n < 2:
        return None, None
    safe = np.where(norms > 0, norms, 1.0)
    if n <= d:
        units = np.concatenate(list(_blocks(rows, scale))) / safe[:, None]
        gram = units @ units.T
        np.fill_diagonal(gram, 0.0)
        return float(gram.sum()) / (n * (n - 1)), float(np.sum(gram**2)) / (n * (n - 1))
    moment, total, start = np.zeros((d, d)), np.zeros(d), 0
    for block in _blocks(rows, scale):
        units = block / safe[start : start + len(block), None]
        moment += units.T @ units
        total += units.sum(axis=0)
        start += len(block)
    own = int(np.sum(norms > 0))
    squares = max(0.0, float(np.sum(moment**2)) - own)
    return float(total @ total - own) / (n * (n - 1)), squares / (n * (n - 1))


def _participation(rows: Floats, scale: float, centre: Floats, rounding: float) -> float | None:
    """Return (tr C)^2 / tr C^2 of the second moment C about `centre`, None where tr C is at most `rounding`."""
    n, d = rows.shape
    if n <= d:
        shifted = np.concatenate(list(_blocks(rows, scale))) - centre
        moment = shifted @ shifted.T
    else:
        moment = np.zeros((d, d))
        for block in _blocks(rows, scale):
            moment += (block - centre).T @ (block - centre)
    trace = float(np.trace(moment))
    return trace**2 / float(np.sum(moment**2)) if trace > n * rounding else None


def _distinct(rows: Floats) -> int:
    """Return the number of different rows (zeros of both signs being equal)."""
    plain = np.ascontiguousarray(rows + 0.0)
    whole = plain.view(np.dtype((np.void, plain.dtype.itemsize * plain.shape[1])))
    return int(np.unique(whole.ravel()).size)
