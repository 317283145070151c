"""The two kinds of answer: a measured number with its interval, and a number that theory gives."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

Statistic = Literal["rms", "median", "mean"]


@dataclass(frozen=True)
class Estimate:
    """A measured number with its 95 % interval (None where n_trials < 2) and everything needed to repeat it.

    heaviest: of a mean or rms, the share of the sum that comes from the one largest trial.
    """

    value: float | None
    low: float | None
    high: float | None
    n_trials: int
    seed: int
    definition: str
    statistic: str = "rms"
    sampler: str = ""
    method: str = ""
    level: float = 0.95
    reason: str = ""
    heaviest: float | None = None

    def renamed(self, **changes: Any) -> Estimate:
        """Return a copy with some fields replaced."""
        return replace(self, **changes)


@dataclass(frozen=True)
class Prediction:
    """A number that theory gives: its statistic, the regime it holds in, its source, and how exact it is.

    log_value: natural logarithm of the value, finite also where `value` over- or underflows.
    exact: False for labelled approximations. error: bound on the relative error of the numerical evaluation.
    value is None where there is no theory (or no finite answer); `reason` then says why.
    """

    quantity: str
    value: float | None
    statistic: str
    regime: str
    source: str
    log_value: float | None = None
    exact: bool = True
    error: float | None = None
    reason: str = ""
