"""How sharp softmax attention is when it chooses among n memories: the policies beta(n).

`beta` multiplies similarities of UNIT keys. A transformer that divides q.k by sqrt(d_k) and whose queries and
keys have length about sqrt(d_k) has beta = sqrt(d_k). Logarithms are natural; a reference length L is a number
of memories > 1. Every policy is a frozen dataclass with `beta(n, d_k) -> float`, n >= 1.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np

from assocmem.contract.errors import InputError
from assocmem.contract.requirement import is_number, with_python_numbers
from assocmem.maps.activations import Exp


class Sharpness(ABC):
    """The rule beta(n) by which softmax attention scales its logits for n memories."""

    @abstractmethod
    def beta(self, n: float, d_k: int) -> float:
        """Return the sharpness for n memories of key width d_k (dimensionless, on unit keys)."""

    @property
    def depends_on_n(self) -> bool:
        """Whether beta changes with the number of memories."""
        return True

    def checked(self, n: float, d_k: int) -> float:
        """Return beta for n memories, none counting as one; InputError where the rule gives one below 0 or NaN."""
        beta = self.beta(max(n, 1), d_k)
        if n <= 1 and math.isnan(beta):
            return 0.0  # inf * ln 1: a single memory has weight 1 at any sharpness
        if not beta >= 0:
            raise InputError(f"the sharpness must be >= 0; {self} gave {beta} at n = {n:g}.")
        return beta

    def at(self, n: float, d_k: int) -> Exp:
        """Return σ(s) = e^(beta (s - 1)) for n memories."""
        return Exp(self.checked(n, d_k))


def _check_beta(beta: float | None, name: str) -> None:
    if beta is None:
        return
    if not ((is_number(beta) and beta >= 0) or (isinstance(beta, float) and beta == math.inf)):
        raise InputError(f"`{name}` must be a number >= 0 (inf for argmax), or None for sqrt(d_k); got {beta!r}.")


def _check_length(length: float) -> None:
    if not (is_number(length) and length > 1):
        raise InputError(f"`reference` must be a finite number of memories > 1; got {length!r}.")


@dataclass(frozen=True)
class Constant(Sharpness):
    """The same beta for every n; None means sqrt(d_k), 0 the plain mean, inf argmax."""

    value: float | None = None

    def __post_init__(self) -> None:
        with_python_numbers(self)
        _check_beta(self.value, "beta")

    def beta(self, n: float, d_k: int) -> float:
        """Return the constant, or sqrt(d_k)."""
        return math.sqrt(d_k) if self.value is None else float(self.value)

    @property
    def depends_on_n(self) -> bool:
        """False."""
        return False


@dataclass(frozen=True)
class _Referenced(Sharpness):
    """A policy that equals `at_reference` (None: sqrt(d_k)) when n is the reference length L."""

    reference: float = 1024
    at_reference: float | None = None

    def __post_init__(self) -> None:
        with_python_numbers(self)
        _check_length(self.reference)
        _check_beta(self.at_reference, "at_reference")

    def base(self, d_k: int) -> float:
        """Return the sharpness at the reference length."""
        return math.sqrt(d_k) if self.at_reference is None else float(self.at_reference)


@dataclass(frozen=True)
class LogN(_Referenced):
    """beta_L ln n / ln L: Su's rule, which keeps attention's entropy constant; Scalable-Softmax with s = beta_L / ln L.

    Identity: n = L gives beta_L; n = 1 gives 0 (one memory has weight 1 whatever beta is).
    """

    def beta(self, n: float, d_k: int) -> float:
        """Return beta_L ln n / ln L."""
        return self.base(d_k) * math.log(n) / math.log(self.reference)


@dataclass(frozen=True)
class QwenLogN(_Referenced):
    """beta_L max(1, ln n / ln L): Su's rule above the training length L, constant below."""

    def beta(self, n: float, d_k: int) -> float:
        """Return beta_L max(1, ln n / ln L)."""
        return self.base(d_k) * max(1.0, math.log(n) / math.log(self.reference))


@dataclass(frozen=True)
class YaRN(_Referenced):
    """beta_L (0.1 ln(n/L) + 1)^2 above L, constant below: YaRN's temperature, applied to both q and k."""

    def beta(self, n: float, d_k: int) -> float:
        """Return beta_L (0.1 ln(n/L) + 1)^2 for n > L, else beta_L."""
        return self.base(d_k) * (0.1 * max(0.0, math.log(n / self.reference)) + 1.0) ** 2


@dataclass(frozen=True)
class ScalableSoftmax(Sharpness):
    """s ln n with the learned scale s given as a number >= 0 (Nakanishi 2025)."""

    s: float

    def __post_init__(self) -> None:
        with_python_numbers(self)
        if not (is_number(self.s) and self.s >= 0):
            raise InputError(f"`s` of ScalableSoftmax must be a finite number >= 0; got {self.s!r}.")

    def beta(self, n: float, d_k: int) -> float:
        """Return s ln n."""
        return self.s * math.log(n)


POLICIES: dict[str, type[Sharpness]] = {
    "constant": Constant,
    "log-n": LogN,
    "qwen": QwenLogN,
    "yarn": YaRN,
    "ssmax": ScalableSoftmax,
}


def as_sharpness(value: Any) -> Sharpness:
    """Return a Sharpness from a policy, a number, None (sqrt(d_k)) or the name of a policy with defaults."""
    if isinstance(value, Sharpness):
        return value
    if isinstance(value, str):
        if value not in POLICIES or value == "ssmax":
            names = ", ".join(n for n in POLICIES if n != "ssmax")
            raise InputError(f"`sharpness` must be one of {names}, a number or a Sharpness; got {value!r}.")
        return POLICIES[value]()
    if value is None or (isinstance(value, int | float | np.number) and not isinstance(value, bool)):
        return Constant(value)  # type: ignore[arg-type]  # a NumPy scalar becomes a number there
    raise InputError(f"`sharpness` must be a number >= 0, a policy's name or a Sharpness; got {value!r}.")
