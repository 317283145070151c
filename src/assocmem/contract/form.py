"""The form of a store: how its recall depends on the pairs, as data. It is all that theory sees of a store.

A family declares it with `Store.form(d_k)`; `assocmem.theory` has one function for every question (ratio, capacity,
signal by age, ...), each of which answers by the form, or with "none" and a reason. Requirements, results, cards and
the page ask the same functions.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import numpy as np
from annotated_types import Interval

from assocmem.contract.errors import InputError
from assocmem.contract.settings import COUNT, NOT_NEGATIVE, POSITIVE, SHARE, WithSettings


@dataclass(frozen=True)
class Form(WithSettings):
    """How recall depends on the pairs; `words` names it in reasons, `gated` says that pairs have gates of their own."""

    words: ClassVar[str] = "stores of this form"
    gated: ClassVar[bool] = False

    def at(self, n: float, d_k: int) -> Any:
        """Return the σ by which pairs are weighed in a sum over n of them, keys of width d_k; None for other forms."""
        return None

    def of_keys(self, n: float, d_k: int) -> Any:
        """Return the same σ where it is that of the similarity with the key alone: recall is V^T σ(K x)."""
        return None if self.gated else self.at(n, d_k)

    @property
    def normalised(self) -> bool:
        """Whether a sum is divided by that of the weights."""
        return False

    @property
    def signs(self) -> bool:
        """Whether keys and queries are vectors of signs, σ being of their cosine."""
        return False

    @property
    def depends_on_n(self) -> bool:
        """Whether σ changes with the number of memories."""
        return False


@dataclass(frozen=True)
class KernelSum(Form):
    """V^T σ(K x), every pair weighted by its similarity to the query, divided by the weights' sum where `normalised`.

    sigma: σ, a `maps.activations.Activation`; or a `maps.activations.Sharpness`, which stands for e^(beta(n) (s - 1))
        with the beta of n memories; or None where the weights are no function of the inner products k.x.
    normalised: the divisor is common to all memories, so it cancels in the interference-to-signal ratio.
    signs: keys and queries are vectors of signs; σ is then of their cosine k.x / d_k, as if they had length one.
    """

    sigma: Any
    normalised: bool = False
    signs: bool = False

    words: ClassVar[str] = "sums over the pairs whose weights are no function of the keys' inner products"

    def at(self, n: float, d_k: int) -> Any:
        return None if self.sigma is None else self.sigma.at(n, d_k)

    @property
    def depends_on_n(self) -> bool:
        """Whether σ changes with the number of memories."""
        return self.sigma is not None and bool(self.sigma.depends_on_n)


@dataclass(frozen=True)
class GatedSum(Form):
    """V^T (σ(G x) * K x): every pair weighted by its similarity times σ of that of a gate row of its own."""

    sigma: Any

    words: ClassVar[str] = "sums over the pairs with a gate of their own"
    gated: ClassVar[bool] = True

    def at(self, n: float, d_k: int) -> Any:
        return self.sigma


@dataclass(frozen=True)
class LeastSquares(Form):
    """W x with the W that minimises sum_i |W k_i - v_i|^2 + ridge |W|^2, the smallest such W at ridge 0.

    ridge is in units of squared key length.
    """

    ridge: Annotated[float, NOT_NEGATIVE] = 0.0

    words: ClassVar[str] = "least squares"


@dataclass(frozen=True)
class Decay(Form):
    """W x with W <- decay W + c v k^T, one weight c > 0 for all pairs."""

    decay: Annotated[float, SHARE]

    words: ClassVar[str] = "a matrix that decays"


@dataclass(frozen=True)
class DeltaRule(Form):
    """W x with W <- decay W (I - strength k k^T) + strength v k^T."""

    strength: Annotated[float, Interval(ge=0, le=2)] = 1.0
    decay: Annotated[float, SHARE] = 1.0

    words: ClassVar[str] = "the delta rule"


@dataclass(frozen=True)
class Momentum(Form):
    """W x with S <- momentum S + step (v - W k) k^T, W <- (1 - forgetting) W + S: trained pair by pair.

    The step is on the gradient of 1/2 |W k - v|^2.
    """

    step: Annotated[float, POSITIVE]
    momentum: Annotated[float, SHARE] = 0.0
    forgetting: Annotated[float, SHARE] = 0.0

    words: ClassVar[str] = "training pair by pair with momentum"


@dataclass(frozen=True)
class ChannelDecay(Form):
    """h x with h_cs <- e^(D_c A_s) h_cs + D_c k_s v_c: every channel c and key coordinate s decays by itself.

    rates: A, one for each key coordinate. The steps D of d_v channels are the midpoints of d_v equal parts of
        [low, high] in logarithm.
    """

    rates: Annotated[tuple[float, ...], Interval(le=0)]
    low: Annotated[float, POSITIVE]
    high: Annotated[float, POSITIVE]

    words: ClassVar[str] = "a matrix whose numbers decay at rates of their own"

    def check_together(self) -> None:
        """Refuse a range that begins above its end."""
        if self.low > self.high:
            raise InputError(f"`low` of ChannelDecay must be at most `high`; got {self.low!r} and {self.high!r}.")

    def steps(self, d_v: int) -> np.ndarray[Any, Any]:
        """Return the steps D (d_v,), float64."""
        places = (np.arange(d_v) + 0.5) / max(1, d_v)
        return np.exp(math.log(self.low) + places * (math.log(self.high) - math.log(self.low)))


@dataclass(frozen=True)
class TopK(Form):
    """The form `of`, over the k pairs most similar to the query alone."""

    k: Annotated[int, COUNT]
    of: Form

    words: ClassVar[str] = "recall from the pairs most similar to the query alone"


@dataclass(frozen=True)
class Iterated(Form):
    """The form `of`, asked again `steps` times with what it recalled."""

    steps: Annotated[int, COUNT]
    of: Form

    words: ClassVar[str] = "recall that asks again with what it recalled"


@dataclass(frozen=True)
class Hashed(Form):
    """The mean of one row from each of several tables, chosen by independent hashes of the key.

    rows: of each table.
    """

    rows: Annotated[tuple[int, ...], COUNT]

    words: ClassVar[str] = "tables that keys are hashed into"
