"""The function σ that a store applies to a similarity: the activation of an MLP, the exponential of attention.

Each is a frozen dataclass, callable on arrays of any namespace, shape in = shape out, dtype kept. They are
shared words: stores apply them, theory integrates them.

How sharp softmax attention is when it chooses among n memories: the policies beta(n). `beta` multiplies similarities of
UNIT keys. A transformer that divides q.k by sqrt(d_k) and whose queries and keys have length about sqrt(d_k) has
beta = sqrt(d_k). Logarithms are natural; a reference length L is a number of memories > 1. Every policy is a frozen
dataclass, called as policy(n, d_k) -> beta with n >= 1.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate
from typing import Annotated, Any, ClassVar

import numpy as np
from annotated_types import Interval

from assocmem.contract.arrays import Array, namespace
from assocmem.contract.errors import InputError
from assocmem.contract.settings import COUNT, NOT_NEGATIVE, POSITIVE, Help, Named, Setting, WithSettings


class Block:
    """A block of NumPy similarities, with the buffers and the powers that all activations applied to it share."""

    def __init__(self) -> None:
        self.s: np.ndarray[Any, Any] = np.empty(0)
        self._buffers: dict[tuple[Any, ...], np.ndarray[Any, Any]] = {}
        self._known: dict[tuple[float, int], np.ndarray[Any, Any]] = {}

    def load(self, s: np.ndarray[Any, Any]) -> Block:
        """Take the similarities `s` (n,) and forget what was worked out for the last ones."""
        self.s = s
        self._known.clear()
        return self

    def buffer(self, *name: Any) -> np.ndarray[Any, Any]:
        """Return the scratch array called `name`, of the similarities' length and dtype."""
        key = (*name, self.s.dtype.char, len(self.s))
        if key not in self._buffers:
            self._buffers[key] = np.empty_like(self.s)
        return self._buffers[key]

    def power(self, threshold: float, p: int) -> np.ndarray[Any, Any]:
        """Return max(0, s - threshold)^p for a whole p >= 1, each power from the one below."""
        key = (threshold, p)
        if key not in self._known:
            out = self.buffer("power", threshold, p)
            if p > 1:
                np.multiply(self.power(threshold, p - 1), self.power(threshold, 1), out=out)
            elif threshold:
                np.maximum(np.subtract(self.s, self.s.dtype.type(threshold), out=out), 0, out=out)
            else:
                np.maximum(self.s, 0, out=out)
            self._known[key] = out
        return self._known[key]


class Activation(WithSettings, ABC):
    """σ: similarity (any shape) -> weight (same shape), the same for every number of memories."""

    depends_on_n: ClassVar[bool] = False

    @abstractmethod
    def __call__(self, s: Array) -> Array:
        """Return σ(s), elementwise."""

    @property
    def exponent(self) -> float | None:
        """The c of a σ that is a multiple of e^(c s), whose ratios are those of logits c s; None for any other."""
        return None

    @property
    @abstractmethod
    def formula(self) -> str:
        """σ(s) as a plain-text formula in s."""

    @property
    def breaks(self) -> tuple[float, ...]:
        """Similarities at which σ or one of its derivatives jumps; quadrature splits there."""
        return ()

    def at(self, n: float, d_k: int) -> Activation:
        """Return σ for n memories: itself.

        Parameters
        ----------
        n : float
            The number of memories.
        d_k : int
            Width of the keys.

        Returns
        -------
        Activation
            Without a dependence on n.
        """
        return self

    def on(self, block: Block) -> np.ndarray[Any, Any]:
        """Return σ of a block's similarities.

        Parameters
        ----------
        block : Block
            Similarities (n,) of NumPy, with the buffers that activations share.

        Returns
        -------
        array (n,)
            It may be shared and must not be changed.
        """
        return np.asarray(self(block.s)).astype(block.s.dtype, copy=False)


@dataclass(frozen=True)
class Linear(Activation):
    """σ(s) = s."""

    formula = "s"

    def __call__(self, s: Array) -> Array:
        return s

    def on(self, block: Block) -> np.ndarray[Any, Any]:
        return block.s


@dataclass(frozen=True)
class ReLU(Activation):
    """σ(s) = max(0, s + bias)^power."""

    power: Annotated[float, POSITIVE, Help("exponent: 1 ReLU, 2 Primer's squared ReLU, 3 cubed")] = 1.0
    bias: Annotated[float, Help("added to every similarity; a negative one is a threshold", unit="similarity")] = 0.0

    def __call__(self, s: Array) -> Array:
        """Return max(0, s + bias)^power."""
        xp = namespace(s)
        if self.bias:
            s = s + self.bias
        positive = xp.maximum(s, xp.zeros_like(s))
        if self.power == 1:
            return positive
        if self.power == 2:
            return positive * s
        if self.power == 3:
            return positive * s * s
        return positive**self.power

    def on(self, block: Block) -> np.ndarray[Any, Any]:
        if self.power == int(self.power) and self.power <= 8:
            return block.power(-self.bias, int(self.power))
        out = block.buffer("weights")
        np.power(block.power(-self.bias, 1), self.power, out=out)
        return out

    @property
    def breaks(self) -> tuple[float, ...]:
        return (0.0 - self.bias,)

    @property
    def formula(self) -> str:
        inner = "s" if not self.bias else f"s {'+' if self.bias > 0 else '-'} {abs(self.bias):g}"
        return f"max(0, {inner})" + ("" if self.power == 1 else f"^{self.power:g}")


@dataclass(frozen=True)
class Swish(Activation):
    """σ(s) = s / (1 + e^-s), also called SiLU."""

    formula = "s / (1 + exp(-s))"

    def __call__(self, s: Array) -> Array:
        return s * logistic(s)


@dataclass(frozen=True)
class SwiGLU(Activation):
    """σ(s) = s Swish(s) = s^2 / (1 + e^-s): SwiGLU whose gate shares the keys' weights."""

    formula = "s^2 / (1 + exp(-s))"

    def __call__(self, s: Array) -> Array:
        return s * s * logistic(s)

    def on(self, block: Block) -> np.ndarray[Any, Any]:
        divisor, out = block.buffer("divisor"), block.buffer("weights")
        np.add(np.exp(np.negative(block.s, out=divisor), out=divisor), 1, out=divisor)
        np.divide(np.multiply(block.s, block.s, out=out), divisor, out=out)
        return out


@dataclass(frozen=True)
class GELU(Activation):
    """σ(s) = s Φ(s), Φ the normal distribution function."""

    tanh: Annotated[bool, Help("take GPT-2's tanh approximation")] = False

    def __call__(self, s: Array) -> Array:
        xp = namespace(s)
        if self.tanh:
            return 0.5 * s * (1 + xp.tanh(math.sqrt(2 / math.pi) * (s + 0.044715 * s**3)))
        return s * _normal_cdf(s)

    @property
    def formula(self) -> str:
        if self.tanh:
            return "s/2 (1 + tanh(sqrt(2/pi) (s + 0.044715 s^3)))"
        return "s Phi(s)"


@dataclass(frozen=True)
class ExpSeries(Activation):
    """σ(s) = sum over p < terms of (beta s)^p / p!: the first terms of the exponential's power series."""

    terms: Annotated[int, COUNT, Help("terms of the power series; an even number can make σ negative")]
    beta: Annotated[float, NOT_NEGATIVE, Help("sharpness on unit keys")]

    def __call__(self, s: Array) -> Array:
        total = namespace(s).ones_like(s)
        for p in range(self.terms - 1, 0, -1):
            total = total * s * (self.beta / p) + 1
        return total

    def on(self, block: Block) -> np.ndarray[Any, Any]:
        out, scaled = block.buffer("weights"), block.buffer("scaled")
        np.multiply(block.s, block.s.dtype.type(self.beta), out=scaled)
        out.fill(1)
        for p in range(self.terms - 1, 0, -1):
            np.multiply(np.multiply(out, scaled, out=out), block.s.dtype.type(1 / p), out=out)
            np.add(out, 1, out=out)
        return out

    @property
    def formula(self) -> str:
        return f"sum_{{p<{self.terms}}} ({self.beta:g} s)^p / p!"


@dataclass(frozen=True)
class Exp(Activation):
    """σ(s) = e^(beta (s - 1)): the softmax numerator, scaled so that the weight at s = 1 is one.

    The common factor e^-beta cancels in every ratio and keeps the weight of a unit key's own similarity at 1.
    """

    beta: Annotated[
        float, Interval(ge=0, le=math.inf), Help("sharpness on unit keys; a call needs a finite one, theory takes inf")
    ]

    @property
    def exponent(self) -> float:
        return self.beta

    def __call__(self, s: Array) -> Array:
        if math.isinf(self.beta):
            raise InputError("`beta` of Exp must be finite when it is applied to similarities; got inf.")
        return namespace(s).exp(self.beta * (s - 1))

    def on(self, block: Block) -> np.ndarray[Any, Any]:
        out = block.buffer("weights")
        np.multiply(np.subtract(block.s, 1, out=out), block.s.dtype.type(self.beta), out=out)
        np.exp(out, out=out)
        return out

    @property
    def formula(self) -> str:
        return f"exp({self.beta:g} (s - 1))"


@dataclass(frozen=True)
class PowerStep(Activation):
    """σ(s) = (F(d s + 1) - F(d s - 1)) / (2 p d^(p-1)), F(z) = z^p: what one unit changes in the p-th power of d s.

    The local field of a dense associative memory's unit, given d other ones; about s^(p-1) for large d, exactly s at
    p = 2.
    """

    power: Annotated[int, Interval(ge=2, le=100), Help("exponent p of the energy")]
    width: Annotated[int, COUNT, Help("units d that the similarity is taken over")]
    rectified: Annotated[bool, Help("take max(0, z)^p in the place of z^p")] = False

    def __call__(self, s: Array) -> Array:
        return power_step(s, 1 / self.width, self.power, rectified=self.rectified) / self.power

    @property
    def breaks(self) -> tuple[float, ...]:
        return (-1 / self.width, 1 / self.width) if self.rectified else ()

    @property
    def formula(self) -> str:
        z = f"{self.width} s"
        ahead, behind = (f"max(0, {z} {x} 1)" if self.rectified else f"({z} {x} 1)" for x in "+-")
        return f"({ahead}^{self.power} - {behind}^{self.power}) / (2 {self.power} {self.width}^{self.power - 1})"


def power_step(z: Array, unit: Any, power: int, *, rectified: bool = False) -> Array:
    """Return (F(z + unit) - F(z - unit)) / (2 unit), F(z) = z^power, without a difference of near numbers.

    The odd terms of the binomial series, all of one sign and with whole coefficients. With |z| and unit at most 1
    nothing leaves the range of float32 up to power 100. rectified: F(z) = max(0, z)^power.
    """
    xp, square = namespace(z), z * z
    total = power * (square if power > 2 else xp.ones_like(z))
    for j in range(3, power + 1, 2):
        total = (total if j == 3 else total * square) + math.comb(power, j) * unit ** (j - 1)
    if power % 2 == 0:
        total = total * z
    if not rectified:
        return total
    edge = xp.maximum(z + unit, xp.zeros_like(z)) ** power / (2 * unit)
    return xp.where(z >= unit, total, edge)


@dataclass(frozen=True)
class BallOverlap(Activation):
    """σ(s) = number of vertices of the d-cube within Hamming distance r of both of two that differ in d (1 - s)/2 bits.

    The sum over i, j with i + j <= r and i + h - j <= r of C(d - h, i) C(h, j), h = d (1 - s)/2 rounded to a whole
    number.
    """

    width: Annotated[int, COUNT, Help("bits d")]
    radius: Annotated[int, NOT_NEGATIVE, Help("radius r of the balls", unit="bits")]

    def __call__(self, s: Array) -> Array:
        xp = namespace(s)
        h = xp.round((1 - s) * (self.width / 2))
        total = xp.zeros_like(s)
        for apart in range(self.width + 1):
            count = float(ball_overlap(self.width, self.radius, apart))
            total = xp.where(h == apart, xp.full_like(s, count), total)
        return total

    @property
    def formula(self) -> str:
        return f"points of the {self.width}-cube within {self.radius} bits of both, at {self.width} (1 - s)/2 bits"


@lru_cache(maxsize=4096)
def ball_overlap(width: int, radius: int, apart: int) -> int:
    """Return the points common to two balls of the width-cube whose centres are `apart` bits apart, exactly.

    >>> [ball_overlap(10, 4, h) for h in (0, 2, 4, 5, 8)]
    [386, 260, 190, 130, 70]
    """
    within = list(accumulate(math.comb(width - apart, i) for i in range(width - apart + 1)))
    total = 0
    for j in range(apart + 1):
        most = min(radius - j, radius - apart + j, width - apart)
        total += math.comb(apart, j) * within[most] if most >= 0 else 0
    return total


@dataclass(frozen=True)
class Custom(Activation):
    """σ given as any Python function of an array of similarities."""

    function: Annotated[Callable[[Array], Array], Help("σ: an array of similarities to one of the same shape")]
    name: Annotated[str, Help("its name in tables")] = "custom"
    kinks: Annotated[
        tuple[float, ...],
        Help("similarities at which the function or its slope jumps; naming them makes theory faster and surer"),
    ] = ()

    @property
    def breaks(self) -> tuple[float, ...]:
        return self.kinks

    def __call__(self, s: Array) -> Array:
        """Return function(s), refusing a result of another shape."""
        result = self.function(s)
        if getattr(result, "shape", None) != s.shape:
            raise InputError(
                f"the activation {self.name!r} must return an array of its input's shape {tuple(s.shape)}; "
                f"got {getattr(result, 'shape', type(result).__name__)}."
            )
        xp = namespace(s)
        bad = xp.isnan(result) & xp.isfinite(s) if xp.isdtype(result.dtype, "real floating") else None
        if bad is not None and bool(xp.any(bad)):
            first = int(xp.argmax(xp.astype(xp.reshape(bad, (-1,)), xp.int8)))
            raise InputError(
                f"the activation {self.name!r} returned NaN for a similarity of "
                f"{float(xp.reshape(s, (-1,))[first]):.6g}; it must return a number for every similarity that occurs."
            )
        return result

    @property
    def formula(self) -> str:
        return f"{self.name}(s)"


def logistic(s: Array) -> Array:
    """Return 1 / (1 + e^-s) without overflow at either end."""
    xp = namespace(s)
    decay = xp.exp(-xp.abs(s))
    return xp.where(s >= 0, xp.ones_like(s), decay) / (1 + decay)


def _normal_cdf(s: Array) -> Array:
    xp = namespace(s)
    if hasattr(xp, "special"):
        return 0.5 * xp.special.erfc(-s / math.sqrt(2))
    from scipy.special import ndtr

    from assocmem.contract.arrays import to_numpy

    return xp.asarray(ndtr(to_numpy(s)), dtype=s.dtype)


ACTIVATIONS: dict[str, type[Activation]] = {
    "linear": Linear,
    "relu": ReLU,
    "swish": Swish,
    "swiglu": SwiGLU,
    "gelu": GELU,
    "exp-series": ExpSeries,
    "exp": Exp,
}


def _custom(function: Any) -> Any:
    return Custom(function, getattr(function, "__name__", "custom").strip("<>")) if callable(function) else function


ACTIVATION = Named(ACTIVATIONS, bare=_custom)
"""What the settings of a store take for an activation: its name, or any function of an array."""


class Sharpness(WithSettings, ABC):
    """The rule beta(n) by which softmax attention scales its logits for n memories."""

    @property
    def depends_on_n(self) -> bool:
        """Whether beta changes with the number of memories, of two or more."""
        return True

    @abstractmethod
    def __call__(self, n: float, d_k: int) -> float:
        """Return the sharpness for n memories of key width d_k (dimensionless, on unit keys)."""

    def checked(self, n: float, d_k: int) -> float:
        """Return beta for n memories, none counting as one.

        Parameters
        ----------
        n : float
            The number of memories.
        d_k : int
            Width of the keys.

        Returns
        -------
        float
            >= 0, dimensionless on unit keys.

        Raises
        ------
        InputError
            Where the rule gives one below 0 or NaN.
        """
        beta = self(max(n, 1), d_k)
        if n <= 1 and math.isnan(beta):
            return 0.0  # inf * ln 1: a single memory has weight 1 at any sharpness
        if not beta >= 0:
            raise InputError(f"the sharpness must be >= 0; {self} gave {beta} at n = {n:g}.")
        return beta

    def at(self, n: float, d_k: int) -> Exp:
        """Return σ(s) = e^(beta (s - 1)) for n memories.

        Parameters
        ----------
        n : float
            The number of memories.
        d_k : int
            Width of the keys.

        Returns
        -------
        Exp
            With that beta.
        """
        return Exp(self.checked(n, d_k))


Beta = Annotated[
    float | None,
    Interval(ge=0, le=math.inf),
    Help("sharpness on unit keys, inf for argmax; with a reference length the sharpness there", none="sqrt(d_k)"),
]


@dataclass(frozen=True)
class Constant(Sharpness):
    """The same beta for every n: 0 is the plain mean, inf argmax."""

    beta: Beta = None

    @property
    def depends_on_n(self) -> bool:
        """No."""
        return False

    def __call__(self, n: float, d_k: int) -> float:
        return math.sqrt(d_k) if self.beta is None else float(self.beta)


@dataclass(frozen=True)
class _Referenced(Sharpness):
    """A policy whose sharpness is `beta` when n is the reference length L."""

    reference: Annotated[
        float, Interval(gt=1), Help("length L, a number of memories, at which the sharpness is beta")
    ] = 1024
    beta: Beta = None

    @property
    def depends_on_n(self) -> bool:
        """Whether beta is above 0 and finite: what n scales else is the same for any two memories or more."""
        return self.beta is None or 0 < self.beta < math.inf

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

    @property
    def depends_on_n(self) -> bool:
        """Whether s is above 0."""
        return self.s > 0

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
