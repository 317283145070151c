"""Exact ratios, capacities and choices of a store on given rows, wherever its recall is a sum over the pairs.

Statistics are over queries; of each query the ratio is the root mean square over the subsets of M rows that it may
see (`ruler.GivenRows`), and over random values where none are given.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from assocmem.lab.extrapolation import Known, capacity_logs, capacity_of
from assocmem.lab.given import weighed
from assocmem.lab.plan import LabelledStore
from assocmem.ruler import GivenRows, RowRatios, quantile

FloatArray = np.ndarray[Any, Any]

FARTHEST = 1e12
"""The largest M that rows of the same kind are thought on to."""
STEEPEST = 1e3
"""Logarithms of ratios beyond which one is as good as infinite (or zero) when a crossing is looked for."""


def _log_mean(logs: FloatArray, power: float) -> float:
    """Return the log of the power mean of ratios over queries, from the logs of their squares."""
    known = 0.5 * logs[~np.isnan(logs)]
    top = float(np.max(known, initial=-math.inf))
    if not math.isfinite(top):
        return top if known.size else math.nan
    return top + math.log(float(np.mean(np.exp(power * (known - top))))) / power


def _log_quantile(share: float) -> Callable[[FloatArray], float]:
    return lambda logs: 0.5 * float(quantile(logs, share))


STATISTICS: Mapping[str, Callable[[FloatArray], float]] = {
    "median": _log_quantile(0.5),
    "p10": _log_quantile(0.1),
    "p90": _log_quantile(0.9),
    "rms": lambda logs: _log_mean(logs, 2.0),
    "mean": lambda logs: _log_mean(logs, 1.0),
}
"""The log of a statistic over queries, from the logs of their mean square ratios (m,), NaN where one asks nothing."""


@dataclass(eq=False)
class Exact:
    """The ratios of one store on the rows of one head as functions of M."""

    rows: GivenRows
    one: LabelledStore
    _known: dict[float, tuple[RowRatios, FloatArray]] = field(default_factory=dict)

    @classmethod
    def of(cls, rows: GivenRows, one: LabelledStore) -> Exact | None:
        """Return them; None where the store is no sum over the pairs, whose ratios must be sampled."""
        return None if weighed(rows, one.store, 2) is None else cls(rows, one)

    def ratios(self, m: float) -> RowRatios:
        """Return the ratios of all queries, as the store weighs rows when it holds m."""
        return self._at(m)[0]

    def log_ratio(self, m: float, statistic: str) -> float:
        """Return the log of a statistic over queries (one of STATISTICS) of the ratio among m rows."""
        return STATISTICS[statistic](self.ratios(m).log_mean_square(m))

    def ratio(self, m: float, statistic: str) -> float:
        """Return the same, infinity where it is beyond the range of numbers."""
        log = self.log_ratio(m, statistic)
        return math.exp(log) if log < math.log(np.finfo(np.float64).max) else math.inf

    def heaviest(self, m: float) -> float:
        """Return the share of the mean square over queries that one query holds."""
        return float(self.ratios(m).rms(m)[1])

    def past(self, m: float, threshold: float) -> float:
        """Return the share of queries whose ratio among m rows is above the threshold."""
        found = self.ratios(m)
        above = found.log_mean_square(m) > 2 * math.log(threshold)
        return float(np.sum(above) / np.maximum(np.sum(found.asked), 1))

    def loudest(self, m: float) -> float:
        """Return the mean over queries of the share of subsets of m rows where none is as loud as the one asked for.

        With b of N others as loud a subset leaves out all of them in C(N - b, m - 1) of C(N, m - 1) cases; a query that
        sees fewer than m rows has them all.
        """
        from scipy.special import gammaln

        found, louder = self._at(m)
        others, b = found.others[found.asked], louder[found.asked]
        if not others.size:
            return math.nan
        taken = np.minimum(m - 1.0, others)
        left = np.maximum(others - b - taken, -1.0)
        with np.errstate(invalid="ignore"):
            logs = gammaln(others - b + 1) - gammaln(left + 1) - gammaln(others + 1) + gammaln(others - taken + 1)
        return float(np.mean(np.where(left < 0, 0.0, np.exp(logs))))

    def right(self, values: FloatArray, m: int) -> float:
        """Return the share of queries whose recall is nearest to the right one of the values (n, d_v) that they see."""
        rows = weighed(replace(self.rows, values=values), self.one.store, m)
        assert rows is not None
        return float(np.sum(rows.right()) / np.maximum(np.sum(self.ratios(m).asked), 1))

    def crossing(self, threshold: float, statistic: str, low: float, high: float) -> float | None:
        """Return the M between `low` and `high` at which a statistic of the ratio rises to the threshold, or None."""
        from scipy.optimize import brentq

        def excess(log_others: float) -> float:
            found = self.log_ratio(1 + math.exp(log_others), statistic) - math.log(threshold)
            return float(np.clip(found, -STEEPEST, STEEPEST))

        ends = math.log(low - 1), math.log(high - 1)
        if not (low < high and excess(ends[0]) <= 0 < excess(ends[1])):
            return None
        return 1 + math.exp(brentq(excess, *ends, xtol=1e-13, rtol=1e-14))

    def extrapolated(self, threshold: float, statistic: str) -> tuple[Known, list[str]]:
        """Return the interval of the M at which more rows of one kind reach the threshold, and what speaks against it.

        Without one where σ changes with M, of another statistic than the rms and the median, and of fewer than 4 rows.
        """
        n, d_k = self.rows.keys.shape
        rows = weighed(self.rows, self.one.store, 2)
        if rows is None or n < 4 or statistic not in capacity_logs(threshold) or self.one.changes_with_n(d_k):
            return Known(None, None, None), []
        return capacity_of(rows, threshold, statistic)

    def _at(self, m: float) -> tuple[RowRatios, FloatArray]:
        place = m if self.one.changes_with_n(self.rows.keys.shape[-1]) else 0.0
        if place not in self._known:
            rows = weighed(self.rows, self.one.store, m)
            assert rows is not None
            self._known[place] = rows.ratios(), rows.louder()
        return self._known[place]
