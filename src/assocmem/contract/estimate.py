"""The two kinds of answer: a measured number with its interval, and a number that theory gives."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

Statistic = Literal["rms", "median", "mean"]


@dataclass(frozen=True)
class Estimate:
    """A measured number with its 95 % interval and everything needed to repeat it.

    Parameters
    ----------
    value : float or None
        None where there is none; `reason` says why.
    low, high : float or None
        Limits of the interval; None where n_trials < 2.
    n_trials, seed : int
        How often it was measured, and by which streams.
    definition : str
        The quantity in words; numbers of two definitions never share a column.
    statistic : str
        Over trials: "rms", "median", "mean", "share" and others.
    sampler, method : str
        How trials were drawn, and how the interval was found.
    level : float
        Of the interval.
    reason : str
        Why a number is missing.
    heaviest : float or None
        Of a mean or rms, the share of the sum that comes from the one largest trial.
    failed : str
        How many recalls count with an infinite ratio because they were not finite, and why; "" for none.
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
    failed: str = ""

    def renamed(self, **changes: Any) -> Estimate:
        """Return a copy with some fields replaced.

        Parameters
        ----------
        **changes
            Fields by name.

        Returns
        -------
        Estimate
            The copy.
        """
        return replace(self, **changes)


@dataclass(frozen=True)
class Prediction:
    """A number that theory gives: its statistic, the regime it holds in, its source, and how exact it is.

    Parameters
    ----------
    quantity : str
        What is predicted.
    value : float or None
        None where there is no theory (or no finite answer); `reason` then says why.
    statistic, regime, source : str
        Over draws of what; where it holds; where it comes from.
    log_value : float or None
        Natural logarithm of the value, finite also where `value` over- or underflows.
    exact : bool
        False for labelled approximations.
    error : float or None
        Bound on the relative error of the numerical evaluation.
    reason : str
        Why there is no value.
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
