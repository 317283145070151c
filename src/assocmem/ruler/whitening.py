"""Preparing keys before they are stored: raw, centred or whitened, fitted on other rows than those measured."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeAlias

import numpy as np

from assocmem.contract.arrays import Array, dtype_name, rounding_unit, unit_rows
from assocmem.contract.errors import InputError
from assocmem.ruler.ratio import Floats, checked_numbers

_EPS = float(np.finfo(np.float64).eps)
Kind: TypeAlias = Literal["raw", "centred", "whitened"]


@dataclass(frozen=True, eq=False)
class Preparation:
    """What is done to keys before a store sees them, as `Preparation.fit` makes it.

    Parameters
    ----------
    kind : {"raw", "centred", "whitened"}
        "raw" leaves rows as they are, "centred" subtracts the mean of the fitted rows, "whitened" also turns them to
        the axes of their covariance and gives every axis the same variance.
    normalise : bool
        Whether rows are then scaled to length one.
    columns : int array
        The columns that are kept; of the others raw drops those that are zero in every fitted row, centring those that
        are constant in all rows (`among`), whitening those that are constant in the fitted rows.
    mean, axes : float64 arrays
        What is taken from the kept columns, and what then turns them, if anything.
    d : int
        The width of the rows.
    rank : int
        Number of directions that come out.
    directions_dropped : int
        How many more the kept columns have, whose variance is at most `tolerance` times the largest.
    tolerance : float
        Relative to the largest variance.
    shrinkage : float
        Share in [0, 1] of the mean variance that is mixed into every direction's variance before whitening.
    n_fitted : int
        Rows that it was fitted on.
    note : str
        What else to know.
    scale : float
        What rows are divided by before `axes` turn them, so that no square leaves the range.
    span : float64 array (columns, r) or None
        The directions that raw and centred rows are projected on where all others are the rounding of the dtype in
        which they came; None where there are none.
    length : float
        What prepared rows are multiplied by, so that logits keep their mean scale.
    """

    kind: str
    normalise: bool
    columns: np.ndarray[Any, np.dtype[np.int64]] = field(repr=False)
    mean: Floats = field(repr=False)
    axes: Floats | None = field(repr=False)
    d: int
    rank: int
    directions_dropped: int
    tolerance: float
    shrinkage: float
    n_fitted: int
    note: str = ""
    scale: float = 1.0
    span: Floats | None = field(default=None, repr=False)
    length: float = 1.0

    @property
    def dropped(self) -> int:
        """Number of columns that are not kept."""
        return self.d - int(self.columns.size)

    @property
    def words(self) -> str:
        """The preparation in words, as results name it."""
        text = self.kind if self.kind == "raw" else f"{self.kind} (fitted on {self.n_fitted} other rows)"
        return text + (", scaled to length one" if self.normalise else "")

    @classmethod
    def fit(
        cls,
        rows: Array,
        kind: Kind = "raw",
        *,
        normalise: bool = False,
        tolerance: float | None = None,
        shrinkage: float = 0.0,
        among: Array | None = None,
        name: str = "rows",
        came: str | None = None,
        keep_length: bool = False,
    ) -> Preparation:
        """Return the preparation fitted on rows, which should not be the rows that are then measured.

        Parameters
        ----------
        rows : array (n, d)
            Of any array library.
        kind : {"raw", "centred", "whitened"}
            What is done.
        normalise : bool
            Scale prepared rows to length one.
        tolerance : float, optional
            Directions whose variance is at most this times the largest are dropped when whitening; max(n, d) times the
            float64 rounding unit (2.2e-16) by default, and at least the square of 2 rounding units of `came` relative
            to the rows before their mean was taken off.
        shrinkage : float
            In [0, 1], for whitening from few rows: variances become (1 - shrinkage) times themselves plus shrinkage
            times their mean over the directions that are kept.
        among : array (n', d), optional
            All rows that will be prepared, for centring: columns that vary in them stay, though they be constant in the
            fitted rows. The fitted rows by default.
        name : str
            What refusals call the rows.
        came : str, optional
            Name of the dtype in which the numbers came, that of `rows` by default.
        keep_length : bool
            Give prepared rows the mean squared length that the fitted ones had as they came, so that a sharpness means
            what it meant; nothing where they are scaled to length one.

        Returns
        -------
        Preparation
            To be applied.

        Raises
        ------
        InputError
            For other shapes, fewer than two rows (one suffices for raw), rows without any variance (without any number
            but zero, for raw) and settings out of range.
        NonFiniteError
            Naming a bad row.

        Notes
        -----
        Cost: n d^2 + d^3 for whitening, n d otherwise.

        Examples
        --------
        >>> rows = np.random.default_rng(0).standard_normal((500, 3)) * [1.0, 5.0, 0.0]
        >>> fitted = Preparation.fit(rows, "whitened")
        >>> fitted.rank, fitted.dropped
        (2, 1)
        """
        data = np.asarray(checked_numbers(rows, name, 2), dtype=np.float64)
        unit = rounding_unit(dtype_name(getattr(rows, "dtype", data.dtype)) if came is None else came)
        least = 1 if kind == "raw" else 2
        if kind not in ("raw", "centred", "whitened"):
            raise InputError(f"`kind` of a preparation must be 'raw', 'centred' or 'whitened'; got {kind!r}.")
        if data.ndim != 2 or data.shape[0] < least or data.shape[1] < 1:
            raise InputError(
                f"`rows` to fit a {kind} preparation on must have shape (n >= {least}, d); got {data.shape}."
            )
        if not 0 <= shrinkage <= 1:
            raise InputError(f"`shrinkage` must lie in [0, 1]; got {shrinkage!r}.")
        n, d = data.shape
        limit = max(n, d) * float(np.finfo(np.float64).eps) if tolerance is None else float(tolerance)
        if not 0 <= limit < 1:
            raise InputError(f"`tolerance` must lie in [0, 1); got {tolerance!r}.")
        wider = data
        if among is not None and kind == "centred":
            wider = np.asarray(checked_numbers(among, "among", 2), dtype=np.float64)
            if wider.ndim != 2 or wider.shape[0] < 1 or wider.shape[1] != d:
                raise InputError(f"`among` must have shape (n', d={d}); got {wider.shape}.")
        lowest, highest = wider.min(axis=0), wider.max(axis=0)
        kept = (lowest != 0) | (highest != 0) if kind == "raw" else lowest != highest
        columns = np.flatnonzero(kept).astype(np.int64)
        if columns.size == 0:
            raise InputError(
                f"`{name}` are {'zero' if kind == 'raw' else 'constant'} in every column; nothing is left."
            )
        mean = np.zeros(columns.size) if kind == "raw" else _mean(data[:, columns])
        axes, span, notes, scale = None, None, [], 1.0
        if kind == "whitened":
            if columns.size < d:
                notes.append(f"{d - columns.size} of {d} columns are constant in the rows it was fitted on")
            centred = data[:, columns] - mean
            scale = float(np.abs(centred).max())
            axes = _whitening(centred / scale, limit, shrinkage, mean / scale, 0.0 if tolerance is not None else unit)
            if n <= columns.size:
                notes.append(f"{n} rows fix at most {n - 1} of {columns.size} directions; fit on more rows")
        elif unit > _EPS:
            span = _spanned(wider[:, columns] - mean, mean, unit)
        rank = int(columns.size) if axes is None else axes.shape[1]
        fitted = cls(
            kind, normalise, columns, mean, axes, d, rank, int(columns.size) - rank, limit, float(shrinkage), n,
            "; ".join(notes), scale, span,
        )  # fmt: skip
        if not keep_length or normalise or kind == "raw":
            return fitted
        return replace(fitted, length=_root_mean_square(data) / (_root_mean_square(fitted.apply(data)) or 1.0))

    def apply(self, rows: Array, name: str = "rows", places: Sequence[int] | None = None) -> Floats:
        """Return prepared rows; whitened ones have mean squared length one over the fitted rows.

        Parameters
        ----------
        rows : array (..., n, d)
            Of any array library.
        name : str
            What sentences about the rows call them.
        places : sequence of int, optional
            Each row's number in the larger array that these are rows of.

        Returns
        -------
        float64 array (..., n, rank)
            The prepared rows.

        Raises
        ------
        InputError
            For another width, for raw rows that use a column which was zero throughout the fitted rows, and for rows of
            length zero where they are to be normalised, naming the first.
        """
        data = np.asarray(checked_numbers(rows, name, 2), dtype=np.float64)
        if data.shape[-1] != self.d:
            raise InputError(f"`{name}` must have the width {self.d} of the fitted rows; got {data.shape[-1]}.")
        if self.kind == "raw" and self.dropped:
            left = np.delete(data, self.columns, axis=-1)
            if left.any():
                column = int(np.setdiff1d(np.arange(self.d), self.columns)[np.argwhere(left)[0][-1]])
                raise InputError(
                    f"column {column} was zero in every fitted row and is not here; fit on these rows too."
                )
        prepared: Floats = data[..., self.columns] - self.mean
        if self.axes is not None:
            prepared = prepared / self.scale @ self.axes
        if self.span is not None:
            prepared = prepared @ self.span @ self.span.T
        return _unit(prepared, name, places) if self.normalise else prepared * self.length

    def queries(self, rows: Array, name: str = "queries") -> Floats:
        """Return queries (..., m, rank) for the prepared keys, whose logits are what they were, float64.

        A whitening P of the keys takes its inverse transpose on queries, a centring leaves them: q.P^-T P (k - mean) is
        q.k less a number that all keys share. Directions that keys do not have fall away. Where keys are scaled
        to length one, queries are too, and logits are cosines.
        """
        data = np.asarray(checked_numbers(rows, name, 2), dtype=np.float64)
        if data.shape[-1] != self.d:
            raise InputError(f"`{name}` must have the width {self.d} of the fitted rows; got {data.shape[-1]}.")
        asked: Floats = data[..., self.columns]
        if self.axes is not None:
            asked = asked @ np.linalg.pinv(self.axes).T * self.scale
        return _unit(asked, name, None) if self.normalise else asked / self.length


def _whitening(centred: Floats, limit: float, shrinkage: float, mean: Floats, unit: float) -> Floats:
    """Return the map (d, rank) to uncorrelated axes of equal variance 1/rank; entries are at most one."""
    singular, axes = _axes(centred)
    kept = singular**2 > max(limit * singular[0] ** 2, _rounding(singular[0], mean, len(centred), unit))
    variances, axes = singular[kept] ** 2 / (centred.shape[0] - 1), axes[kept]
    mixed = (1 - shrinkage) * variances + shrinkage * variances.mean()
    return np.asarray(axes.T / np.sqrt(mixed * variances.size), dtype=np.float64)


def _spanned(rows: Floats, mean: Floats, unit: float) -> Floats | None:
    """Return the directions (d, r) of rows (n, d) less their mean that are more than rounding; None for all."""
    scale = float(np.abs(rows).max()) or 1.0
    singular, axes = _axes(rows / scale)
    kept = singular**2 > _rounding(singular[0], mean / scale, len(rows), unit)
    return None if kept.all() else np.asarray(axes[kept].T)


def _rounding(largest: float, mean: Floats, n: int, unit: float) -> float:
    """Return the square of the singular value below which rows are rounding: 2 units of that with their mean."""
    return (2 * unit) ** 2 * (largest**2 + n * float(mean @ mean))


def _axes(rows: Floats) -> tuple[Floats, Floats]:
    """Return singular values (r,), largest first, and directions (r, d) of rows (n, d)."""
    _, singular, axes = np.linalg.svd(np.linalg.qr(rows, mode="r"), full_matrices=False)
    return singular, axes


def _mean(rows: Floats) -> Floats:
    """Return the mean row, without overflow of the sum."""
    scale = float(np.abs(rows).max()) or 1.0
    return np.asarray((rows / scale).mean(axis=0) * scale, dtype=np.float64)


def _root_mean_square(rows: Floats) -> float:
    """Return the root of the mean squared length of rows, without overflow."""
    scale = float(np.abs(rows).max()) or 1.0
    return scale * float(np.sqrt(np.mean(np.sum((rows / scale) ** 2, axis=-1))))


def _unit(rows: Floats, name: str, places: Sequence[int] | None) -> Floats:
    zero = ~rows.any(axis=-1)
    if zero.any():
        at = np.argwhere(zero)[0]
        place: object = int(at[0]) if at.size == 1 else tuple(int(i) for i in at)
        if places is not None:
            place = places[int(at[-1])]
        which = "" if name == "rows" else f" of `{name}`"
        raise InputError(f"row {place}{which} has length zero after preparation and cannot be scaled to length one.")
    return np.asarray(unit_rows(rows, "rows"), dtype=np.float64)
