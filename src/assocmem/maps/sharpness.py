"""How sharp softmax attention is when it chooses among n memories: the policies beta(n).

`beta` multiplies similarities of UNIT keys. A transformer that divides q.k by sqrt(d_k) and whose queries and
keys have length about sqrt(d_k) has beta = sqrt(d_k). Logarithms are natural; a reference length L is a number
of memories > 1. Every policy is a frozen dataclass, called as policy(n, d_k) -> beta with n >= 1.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from annotated_types import Interval

from assocmem.contract.errors import InputError
from assocmem.contract.settings import NOT_NEGATIVE, Help, Named, Setting, WithSettings
from assocmem.maps.activations import Exp


class Sharpness(WithSettings, ABC):
    """The rule beta(n) by which softmax attention scales its logits for n memories.

    depends_on_n: beta changes with the number of memories.
    """

    depends_on_n: ClassVar[bool] = True

    @abstractmethod
    def __call__(self, n: float, d_k: int) -> float:
        """Return the sharpness for n memories of key width d_k (dimensionless, on unit keys)."""

    def checked(self, n: float, d_k: int) -> float:
        """Return beta for n memories, none counting as one; InputError where the rule gives one below 0 or NaN."""
        beta = self(max(n, 1), d_k)
        if n <= 1 and math.isnan(beta):
            return 0.0  # inf * ln 1: a single memory has weight 1 at any sharpness
        if not beta >= 0:
            raise InputError(f"the sharpness must be >= 0; {self} gave {beta} at n = {n:g}.")
        return beta

    def at(self, n: float, d_k: int) -> Exp:
        """Return σ(s) = e^(beta (s - 1)) for n memories."""
        return Exp(self.checked(n, d_k))


Beta = Annotated[
    float | None,
    Interval(ge=0, le=math.inf),
    Help("sharpness on unit keys, inf for argmax; with a reference length the sharpness there", none="sqrt(d_k)"),
]


@dataclass(frozen=True)
class Constant(Sharpness):
    """The same beta for every n: 0 is the plain mean, inf argmax."""

    depends_on_n = False
    beta: Beta = None

    def __call__(self, n: float, d_k: int) -> float:
        return math.sqrt(d_k) if self.beta is None else float(self.beta)


@dataclass(frozen=True)
class _Referenced(Sharpness):
    """A policy whose sharpness is `beta` when n is the reference length L."""

    reference: Annotated[
        float, Interval(gt=1), Help("length L, a number of memories, at which the sharpness is beta")
    ] = 1024
    beta: Beta = None

    def base(self, d_k: int) -> float:
        return math.sqrt(d_k) if self.beta is None else float(self.beta)


@dataclass(frozen=True)
class LogN(_Referenced):
    """beta_L ln n / ln L: Su's rule, which keeps attention's entropy constant; Scalable-Softmax with s = beta_L / ln L.

    Identity: n = L gives beta_L; n = 1 gives 0 (one memory has weight 1 whatever beta is).
    """

    def __call__(self, n: float, d_k: int) -> float:
        return self.base(d_k) * math.log(n) / math.log(self.reference)


@dataclass(frozen=True)
class QwenLogN(_Referenced):
    """beta_L max(1, ln n / ln L): Su's rule above the training length L, constant below."""

    def __call__(self, n: float, d_k: int) -> float:
        return self.base(d_k) * max(1.0, math.log(n) / math.log(self.reference))


@dataclass(frozen=True)
class YaRN(_Referenced):
    """beta_L (0.1 ln(n/L) + 1)^2 above L, constant below: YaRN's temperature, applied to both q and k."""

    def __call__(self, n: float, d_k: int) -> float:
        """Return beta_L (0.1 ln(n/L) + 1)^2 for n > L, else beta_L."""
        return self.base(d_k) * (0.1 * max(0.0, math.log(n / self.reference)) + 1.0) ** 2


@dataclass(frozen=True)
class ScalableSoftmax(Sharpness):
    """s ln n with a learned scale s (Nakanishi 2025)."""

    s: Annotated[float, NOT_NEGATIVE, Help("scale of s ln n")]

    def __call__(self, n: float, d_k: int) -> float:
        return self.s * math.log(n)


POLICIES: dict[str, type[Sharpness]] = {
    "constant": Constant,
    "log-n": LogN,
    "qwen": QwenLogN,
    "yarn": YaRN,
    "ssmax": ScalableSoftmax,
}
SHARPNESS = Named(POLICIES, bare=Constant)
"""What the settings of a store take for a sharpness: a policy's name, or a number."""


def as_sharpness(value: Any) -> Sharpness:
    """Return a Sharpness from a policy, a number, None (sqrt(d_k)) or the name of a policy with defaults.

    >>> as_sharpness("log-n")
    LogN(reference=1024, beta=None)
    """
    setting = Setting("sharpness", (Sharpness,), None, named=SHARPNESS)
    found: Sharpness = setting.checked(value, "theory")
    return found
