"""What given rows say about more rows of the same kind: the law in M, an interval, and what speaks against it.

The mean square ratio of memories of one kind is E = (M - 1) θ, θ the mean square of one other memory's weight over the
target's, whatever the kind: the mean over pairs of given rows is free of bias for it. So ratios and capacities beyond
the rows there are need θ alone. Its interval holds out the rows part by part (the jackknife of a mean over pairs).

That all M are of one kind cannot be seen from the rows. What can be seen is whether near rows are another kind than far
ones (the growth of θ over nested runs of neighbours), whether rows equal others, and whether few of them carry the mean
square. Each is said in a sentence.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from assocmem.contract.errors import InputError
from assocmem.contract.numbers import number
from assocmem.ruler import GivenRows, RowRatios, quantile
from assocmem.ruler.ratio import Floats, Indices

PARTS = 16
"""Runs of neighbouring rows that are held out in turn."""
LEVEL = 0.95
SURE = 4.0
"""Standard errors by which near rows must differ from far ones to be called another kind."""
MATTERS = 0.05
"""Departure of the fitted power of M from one that is worth a sentence."""
FEW = 200.0
"""Pairs as many of which must carry the mean square for its interval to be taken at its word."""


@dataclass(frozen=True)
class Known:
    """A number of given rows with its interval, None where there is none; `extrapolated`: it speaks of more rows.

    error: the standard error of its logarithm.
    """

    value: float | None
    low: float | None
    high: float | None
    extrapolated: bool = False
    error: float | None = None


def parts_for(n: int) -> int:
    """Return how many parts n rows are cut into: PARTS, or fewer so that each has two rows; InputError below 4 rows."""
    if n < 4:
        raise InputError(f"`keys` must have at least 4 rows to say anything of others; got {n}.")
    return min(PARTS, n // 2)


def held_out(found: RowRatios, part: Indices) -> RowRatios:
    """Return folds (..., 1 + parts, m) without the queries of the part that is held out; part (m,) of each query."""
    folds = found.others.shape[-2]
    away = np.arange(folds)[:, None] - 1 == part
    return replace(found, others=np.where(away, 0, found.others))


def jackknife(logs: Floats) -> float:
    """Return the standard error of a logarithm from itself and its values without each part (1 + parts,)."""
    parts = len(logs) - 1
    left = logs[1:]
    if not np.isfinite(logs).all():
        return math.nan
    return math.sqrt((parts - 1) / parts * float(np.sum((left - left.mean()) ** 2)))


def known(logs: Floats, extrapolated: bool = False) -> Known:
    """Return the number whose logarithm and its values without each part (1 + parts,) are given, with its interval."""
    from scipy.special import stdtrit

    if np.isnan(logs[0]) or logs[0] > 700:
        return Known(None, None, None, extrapolated)
    value, error = float(np.exp(logs[0])), jackknife(logs)
    if math.isnan(error):
        return Known(value, None, None, extrapolated)
    wide = float(stdtrit(len(logs) - 2, 0.5 + LEVEL / 2)) * error
    low, high = (float(x) for x in np.exp(np.clip(logs[0] + np.array([-wide, wide]), -745, 709)))
    return Known(value, low, high, extrapolated, error)


def estimate(found: RowRatios, of: Callable[[RowRatios], Any], extrapolated: bool = False) -> Known:
    """Return the number whose logarithm `of` takes from the ratios of each fold (1 + parts, m)."""
    with np.errstate(divide="ignore"):
        return known(np.asarray(of(found), np.float64), extrapolated)


def capacity_logs(threshold: float) -> dict[str, Callable[[RowRatios], Any]]:
    """Return what takes ln M at the threshold from the ratios of each fold: over queries, and of the median query."""
    return {
        "rms": lambda r: np.log(r.over_queries().capacity(threshold)[..., 0]),
        "median": lambda r: np.log(quantile(r.capacity(threshold), 0.5)),
    }


def capacity_of(rows: GivenRows, threshold: float = 1.0, statistic: str = "rms") -> tuple[Known, list[str]]:
    """Return the M at which the ratio of one head's rows reaches a threshold, and what speaks against it.

    Parameters
    ----------
    rows : GivenRows
        Keys (n, d), n >= 4.
    threshold : float
        > 0.
    statistic : "rms" or "median"
        Over queries.

    Returns
    -------
    capacity : Known
        `extrapolated` where it is more than the rows that there are.
    warnings : list of str
        None where it is not extrapolated.
    """
    parts = parts_for(rows.keys.shape[0])
    part, whole = rows.part_of(parts), rows.folds(parts)[0]
    said = estimate(held_out(whole, part), capacity_logs(threshold)[statistic])
    said = replace(said, extrapolated=said.value is None or said.value > int(whole.others[0].max()) + 1)
    return said, [words for words in [growth(whole, part).words] if words and said.extrapolated]


@dataclass(frozen=True)
class Growth:
    """How the mean square grows over nested runs of neighbours: as M^power; errors: by how many standard errors near
    rows interfere more (less, below zero) than far ones."""

    power: float
    errors: float

    @property
    def words(self) -> str:
        """What speaks against extrapolating, "" where nothing does."""
        if abs(self.errors) < SURE or abs(self.power - 1) < MATTERS:
            return ""
        more = "more" if self.errors > 0 else "less"
        end = "too large" if self.errors > 0 else "too small"
        return (
            f"rows near each other interfere {more} than rows far apart ({abs(self.errors):.1f} standard errors): over "
            f"nested runs of rows the mean square grows as M^{self.power:.2f}, not as M - 1, so that extrapolated "
            f"ratios may be {end}; the rows' order says that they are not of one kind"
        )


def growth(found: RowRatios, part: Indices) -> Growth:
    """Return the growth of the mean square over nested runs of parts, from one scale's folds (1 + parts, m).

    Only queries with a target count, and only interference by random values. Each run's mean square is the mean over
    all pairs within it, and that of each length the mean over its runs: one and the same for rows of one kind.
    """
    parts = found.others.shape[0] - 1
    asked = np.flatnonzero((found.others[0] > 0) & np.isfinite(found.log_scale[0]) & (part >= 0))
    scale = found.log_scale[0][asked]
    weight = np.exp(scale - scale.max(initial=-np.inf))
    total, n = found.first[0][asked] * found.others[0][asked], found.others[0][asked]
    counts = n - found.others[1:, asked]
    sums = np.maximum(total - found.first[1:, asked] * found.others[1:, asked], 0.0) * weight
    own = part[asked]
    pairs, squares = np.zeros((parts, parts)), np.zeros((parts, parts))  # (of the query, of the row)
    for g in range(parts):
        pairs[g], squares[g] = counts[:, own == g].sum(axis=1), sums[:, own == g].sum(axis=1)
    inside = np.eye(parts, dtype=bool)
    near = np.diagonal(squares) / np.maximum(np.diagonal(pairs), 1)
    far = squares.sum(axis=1, where=~inside) / np.maximum(pairs.sum(axis=1, where=~inside), 1)
    if not (far.all() and near.all()):
        return Growth(1.0, 0.0)
    lengths, means = [], []
    length = 1
    while length <= parts:
        runs = [slice(a, a + length) for a in range(0, parts - length + 1, length)]
        means.append(np.mean([squares[r, r].sum() / pairs[r, r].sum() for r in runs]))
        lengths.append(length)
        length *= 2
    slope = float(np.polyfit(np.log(lengths), np.log(means), 1)[0]) if len(lengths) > 1 else 0.0
    apart = near / far - 1  # of the same queries, so that queries that fare badly everywhere cancel
    spread = float(np.std(apart, ddof=1)) / math.sqrt(parts)
    return Growth(1.0 + slope, float(apart.mean()) / spread if spread > 0 else 0.0)


def equal_rows(keys: Floats) -> Indices:
    """Return the places of rows (n, d) that equal an earlier one."""
    plain = np.ascontiguousarray(keys + 0.0)
    whole = plain.view(np.dtype((np.void, plain.dtype.itemsize * plain.shape[1]))).ravel()
    first = np.unique(whole, return_index=True)[1]
    return np.setdiff1d(np.arange(len(plain)), first)


def copies_words(rows: GivenRows, share: float, copies: int) -> str:
    """Return what equal rows do, of which there are `copies` and which bring this share of the mean square."""
    return (
        f"{copies:,} of {rows.keys.shape[-2]:,} rows equal an earlier one and bring {share:.0%} of the mean square; "
        "extrapolation takes it that more rows bring more copies of each"
    )


def carried_words(found: RowRatios, doubled: RowRatios) -> str:
    """Return a warning where few pairs carry the mean square, from the ratios (m,) at a scale and at twice the scale.

    As many equal pairs as (sum a^2)^2 / sum a^4 would give a mean square that is as sure.
    """
    pairs = float(np.sum(found.others[found.asked]))
    one, two = (float(r.over_queries().log_mean_square(2.0)[0]) for r in (found, doubled))
    carried = math.exp(min(2 * one - two + math.log(max(pairs, 1.0)), 700.0))
    if carried >= FEW:
        return ""
    return (
        f"about {number(max(1.0, carried))} of {pairs:,.0f} pairs of rows carry the mean square: rarer and stronger "
        "ones that these rows do not show may matter among more, so that extrapolated ratios are rather too small"
    )
