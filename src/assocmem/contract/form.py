"""The form of a store: how its recall depends on the pairs, as data. It is all that theory sees of a store.

A family declares it with `Store.form(d_k)`; `assocmem.theory` has one function for every question (ratio, capacity,
signal by age, ...), each of which answers by the form, or with "none" and a reason. Requirements, results, cards and
the page ask the same functions.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from assocmem.contract.errors import InputError
from assocmem.contract.requirement import is_number, is_whole, require


@dataclass(frozen=True)
class Form:
    """How recall depends on the pairs; `words` names it in reasons."""

    words: ClassVar[str] = "stores of this form"


@dataclass(frozen=True)
class KernelSum(Form):
    """V^T σ(K x), every pair weighted by its similarity to the query, divided by the weights' sum where `normalised`.

    sigma: σ, a `maps.activations.Activation`; or a `maps.sharpness.Sharpness`, which stands for e^(beta(n) (s - 1))
        with the beta of n memories; or None where the weights are no function of the inner products k.x.
    normalised: the divisor is common to all memories, so it cancels in the interference-to-signal ratio.
    """

    sigma: Any
    normalised: bool = False

    words: ClassVar[str] = "sums over the pairs whose weights are no function of the keys' inner products"

    def at(self, n: float, d_k: int) -> Any:
        """Return the activation σ for n memories of width d_k, None where there is none."""
        return None if self.sigma is None else self.sigma.at(n, d_k)

    @property
    def depends_on_n(self) -> bool:
        """Whether σ changes with the number of memories."""
        return self.sigma is not None and bool(self.sigma.depends_on_n)


@dataclass(frozen=True)
class LeastSquares(Form):
    """W x with the W that minimises sum_i |W k_i - v_i|^2 + ridge |W|^2, the smallest such W at ridge 0.

    ridge: a finite number >= 0, in units of squared key length.
    """

    ridge: float = 0.0

    words: ClassVar[str] = "least squares"

    def __post_init__(self) -> None:
        require(is_number(self.ridge) and self.ridge >= 0, "ridge", self, "a finite number >= 0", self.ridge)


@dataclass(frozen=True)
class Decay(Form):
    """W x with W <- decay W + c v k^T, one weight c > 0 for all pairs; decay in [0, 1]."""

    decay: float

    words: ClassVar[str] = "a matrix that decays"

    def __post_init__(self) -> None:
        _require_share(self, "decay", self.decay)


@dataclass(frozen=True)
class DeltaRule(Form):
    """W x with W <- decay W (I - strength k k^T) + strength v k^T; strength in [0, 2], decay in [0, 1]."""

    strength: float = 1.0
    decay: float = 1.0

    words: ClassVar[str] = "the delta rule"

    def __post_init__(self) -> None:
        fits = is_number(self.strength) and 0 <= self.strength <= 2
        require(fits, "strength", self, "a number in [0, 2]", self.strength)
        _require_share(self, "decay", self.decay)


@dataclass(frozen=True)
class Momentum(Form):
    """W x with S <- momentum S + step (v - W k) k^T, W <- (1 - forgetting) W + S: trained pair by pair.

    step: a finite number > 0, on the gradient of 1/2 |W k - v|^2; momentum and forgetting in [0, 1].
    """

    step: float
    momentum: float = 0.0
    forgetting: float = 0.0

    words: ClassVar[str] = "training pair by pair with momentum"

    def __post_init__(self) -> None:
        require(is_number(self.step) and self.step > 0, "step", self, "a finite number > 0", self.step)
        _require_share(self, "momentum", self.momentum)
        _require_share(self, "forgetting", self.forgetting)


@dataclass(frozen=True)
class ChannelDecay(Form):
    """h x with h_cs <- e^(D_c A_s) h_cs + D_c k_s v_c: every channel c and key coordinate s decays by itself.

    rates: A, d_k finite numbers <= 0. low, high: 0 < low <= high; the steps D of d_v channels are the midpoints of
        d_v equal parts of that range in logarithm.
    """

    rates: tuple[float, ...]
    low: float
    high: float

    words: ClassVar[str] = "a matrix whose numbers decay at rates of their own"

    def __post_init__(self) -> None:
        rates = np.asarray(self.rates, dtype=np.float64)
        fits = rates.ndim == 1 and bool(np.isfinite(rates).all() and (rates <= 0).all())
        require(fits, "rates", self, "finite numbers <= 0, one for each key coordinate", self.rates)
        if not (is_number(self.low) and is_number(self.high) and 0 < self.low <= self.high):
            raise InputError(
                f"`low` and `high` of ChannelDecay must be finite, 0 < low <= high; got {self.low!r} and {self.high!r}."
            )

    def steps(self, d_v: int) -> np.ndarray[Any, Any]:
        """Return the steps D (d_v,), float64."""
        places = (np.arange(d_v) + 0.5) / max(1, d_v)
        return np.exp(math.log(self.low) + places * (math.log(self.high) - math.log(self.low)))


@dataclass(frozen=True)
class TopK(Form):
    """The form `of`, over the k pairs most similar to the query alone; k a whole number >= 1."""

    k: int
    of: Form

    words: ClassVar[str] = "recall from the pairs most similar to the query alone"

    def __post_init__(self) -> None:
        require(is_whole(self.k), "k", self, "a whole number >= 1", self.k)


@dataclass(frozen=True)
class Iterated(Form):
    """The form `of`, asked again `steps` times with what it recalled; steps a whole number >= 1."""

    steps: int
    of: Form

    words: ClassVar[str] = "recall that asks again with what it recalled"

    def __post_init__(self) -> None:
        require(is_whole(self.steps), "steps", self, "a whole number >= 1", self.steps)


def _require_share(form: Form, name: str, value: object) -> None:
    require(is_number(value) and 0 <= value <= 1, name, form, "a number in [0, 1]", value)  # type: ignore[operator]
