"""Feature maps φ: the plug-in by which a linear store gets a similarity other than the plain inner product.

A store that keeps sum_i v_i φ(k_i)^T recalls with the similarity φ(q).φ(k). Each map is a frozen dataclass,
callable on arrays (..., d) of any namespace, giving (..., width(d)) in the same dtype.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, field, fields, is_dataclass
from functools import lru_cache
from itertools import combinations_with_replacement
from typing import Annotated, Any, ClassVar

import numpy as np

from assocmem.contract.arrays import Array, constant, device_of, namespace
from assocmem.contract.errors import InputError
from assocmem.contract.settings import COUNT, NOT_NEGATIVE, Help, Named, WithSettings
from assocmem.maps.activations import Activation, ExpSeries, Linear


class FeatureMap(WithSettings, ABC):
    """φ: rows of width d -> rows of width `width(d)`.

    nonnegative: φ(q).φ(k) is never negative, so that it can serve as a normalised weight. positive: it is above zero
    for all q and k, so that a sum of zero can only be an underflow.
    """

    nonnegative: ClassVar[bool] = False
    positive: ClassVar[bool] = False

    @abstractmethod
    def __call__(self, x: Array) -> Array:
        """Return φ(x), (..., d) -> (..., width(d))."""

    def width(self, d: int) -> int:
        """Return the number of features of a row of d numbers: d, but for maps that widen."""
        return d

    @property
    @abstractmethod
    def formula(self) -> str:
        """φ(x) as a plain-text formula."""

    @property
    def words(self) -> str:
        """The map and its settings: the same for equal maps, in every process."""
        if not is_dataclass(self):
            return f"{type(self).__name__}, φ(x) = {self.formula}"
        settings = (f"{f.name}={_word(getattr(self, f.name))}" for f in fields(self))
        return f"{type(self).__name__}({', '.join(settings)})"

    def sigma(self, d: int | None = None) -> Activation | None:
        """Return σ where φ(q).φ(k) = σ(q.k) for rows of d numbers, else None."""
        return None

    def up_to_scale(self, x: Array) -> tuple[Array, Array]:
        """Return φ(x) times a positive number a row, so that its largest feature is in range, and ln of it (..., 1).

        A normalised recall divides that number out of a query again.
        """
        return self(x), _zero_a_row(x)

    def support(self, x: Array) -> Array | None:
        """Return where φ(x) is above zero in exact arithmetic, so that a zero there is an underflow; None: unknown."""
        return None


def _zero_a_row(x: Array) -> Array:
    return namespace(x).zeros((*x.shape[:-1], 1), dtype=x.dtype, device=device_of(x))


def _word(value: Any) -> str:
    """Return a setting as text that does not change from process to process."""
    if isinstance(value, FeatureMap):
        return value.words
    if isinstance(value, int | float) and not isinstance(value, bool):
        return f"{value:.17g}"
    return repr(value) if isinstance(value, bool | str | None) else getattr(value, "__qualname__", type(value).__name__)


@dataclass(frozen=True)
class Identity(FeatureMap):
    """φ(x) = x: the outer product store."""

    formula = "x"

    def __call__(self, x: Array) -> Array:
        return x

    def sigma(self, d: int | None = None) -> Activation:
        return Linear()


@dataclass(frozen=True)
class EluPlusOne(FeatureMap):
    """φ(x) = elu(x) + 1, that is x + 1 above zero and e^x below (Katharopoulos et al. 2020, eq. 7)."""

    formula = "elu(x) + 1"
    nonnegative = True
    positive = True

    def __call__(self, x: Array) -> Array:
        xp = namespace(x)
        zero = xp.zeros_like(x)
        return xp.maximum(x, zero) + xp.exp(xp.minimum(x, zero))

    def up_to_scale(self, x: Array) -> tuple[Array, Array]:
        """Return φ(x), divided by its largest entry e^max(x) in rows that are negative throughout."""
        if x.shape[-1] == 0:
            return x, _zero_a_row(x)
        xp = namespace(x)
        zero = xp.zeros_like(x)
        peak = xp.max(x, axis=-1, keepdims=True)
        shift, scale = xp.minimum(peak, xp.zeros_like(peak)), _power_of_two(xp.maximum(peak, 1 + 0 * peak))
        features = (xp.maximum(x, zero) + xp.exp(xp.minimum(x, zero) - shift)) / scale
        return features, -shift - xp.log(scale)


@dataclass(frozen=True)
class Rectified(FeatureMap):
    """φ(x) = max(0, x), elementwise."""

    formula = "max(0, x)"
    nonnegative = True

    def __call__(self, x: Array) -> Array:
        return namespace(x).maximum(x, namespace(x).zeros_like(x))

    def up_to_scale(self, x: Array) -> tuple[Array, Array]:
        """Return φ(x / c), c a power of two near the row's largest entry."""
        near, log = _near_one(x)
        return self(near), -log

    def support(self, x: Array) -> Array:
        return x > 0


@dataclass(frozen=True)
class DPFP(FeatureMap):
    """Deterministic parameter-free projection: r_j r_(j-m) for m = 1..nu, with r = max(0, [x, -x]).

    A row of d numbers gives 2 d nu features. Shifts wrap around.
    Source: Schlag, Irie and Schmidhuber 2021 (section 5.3, there with r_(j+m): the same features in another order).

    >>> import numpy as np
    >>> DPFP(nu=1)(np.array([[1.0, 2.0]])).tolist()
    [[0.0, 2.0, 0.0, 0.0]]
    """

    nonnegative = True

    nu: Annotated[int, COUNT, Help("shifts")] = 1

    def __call__(self, x: Array) -> Array:
        """Return the products of the rectified row with its nu shifts."""
        xp = namespace(x)
        r = xp.concat([x, -x], axis=-1)
        r = xp.maximum(r, xp.zeros_like(r))
        return xp.concat([r * xp.roll(r, m, axis=-1) for m in range(1, self.nu + 1)], axis=-1)

    def up_to_scale(self, x: Array) -> tuple[Array, Array]:
        """Return φ(x / c), c a power of two near the row's largest entry."""
        near, log = _near_one(x)
        return self(near), -2 * log

    def support(self, x: Array) -> Array:
        return self(namespace(x).sign(x)) > 0

    def width(self, d: int) -> int:
        return 2 * d * self.nu

    @property
    def formula(self) -> str:
        return f"r_j r_(j-m), m = 1..{self.nu}, r = max(0, [x, -x])"


@dataclass(frozen=True)
class SumNormalised(FeatureMap):
    """φ(x) = inner(x) / sum of inner(x); rows whose features sum to zero stay zero.

    With it a store needs no normaliser (Schlag et al. 2021).
    """

    nonnegative = True

    inner: Annotated[FeatureMap, Help("the map, whose features must not be negative")] = field(default_factory=DPFP)

    def check_together(self) -> None:
        """Refuse an inner map that can be negative."""
        if not self.inner.nonnegative:
            raise InputError(f"`inner` of SumNormalised must be a non-negative feature map; got {self.inner!r}.")

    def __call__(self, x: Array) -> Array:
        xp = namespace(x)
        features, _ = self.inner.up_to_scale(x)
        total = xp.sum(features, axis=-1, keepdims=True)
        return features / xp.where(total > 0, total, xp.ones_like(total))

    def support(self, x: Array) -> Array | None:
        return self.inner.support(x)

    def width(self, d: int) -> int:
        return self.inner.width(d)

    @property
    def formula(self) -> str:
        return f"f / sum f, f = {self.inner.formula}"


@dataclass(frozen=True)
class ExpSeriesFeatures(FeatureMap):
    """Features whose inner product is the truncated exponential: φ(q).φ(k) = sum over p < terms of (beta q.k)^p / p!.

    One feature for every monomial x^a of degree |a| < terms, with coefficient sqrt(beta^|a| / a!) by the
    multinomial theorem, in the order of degree: the constant 1 first, then x_1..x_d, ...

    width: C(d + terms - 1, terms - 1). An odd number of terms makes φ(q).φ(k) positive everywhere, an even one can make
    it negative.

    >>> import numpy as np
    >>> phi = ExpSeriesFeatures(terms=3, beta=2.0)
    >>> q, k = np.array([0.6, 0.8]), np.array([1.0, 0.0])
    >>> round(float(phi(q) @ phi(k)), 6), phi.width(2)
    (2.92, 6)
    """

    terms: Annotated[int, COUNT, Help("terms of the power series (odd ones keep all weights positive)")] = 3
    beta: Annotated[float | None, NOT_NEGATIVE, Help("sharpness on unit keys", none="sqrt(d)")] = None

    def __call__(self, x: Array) -> Array:
        """Return the scaled monomials of x, lowest degree first."""
        xp = namespace(x)
        d = int(x.shape[-1])
        x = x * math.sqrt(self._sharpness(d))
        powers = [xp.ones_like(xp.sum(x, axis=-1, keepdims=True))]
        for p in range(1, self.terms):
            powers.append(_times_each(x, powers[-1], p, xp))
        together = xp.concat(powers, axis=-1) if len(powers) > 1 else powers[0]
        if self.terms < 3:
            return together
        return together * xp.asarray(_inverse_roots(d, self.terms), dtype=x.dtype, device=device_of(x))

    def width(self, d: int) -> int:
        """Return the number of monomials of degree below `terms` in d variables."""
        return math.comb(d + self.terms - 1, self.terms - 1)

    @property
    def formula(self) -> str:
        beta = "sqrt(d)" if self.beta is None else f"{self.beta:g}"
        return f"sqrt({beta}^|a| / a!) x^a, |a| < {self.terms}"

    @property
    def nonnegative(self) -> bool:  # type: ignore[override]
        """Whether the number of terms is odd (a truncated exponential of even degree has no real root)."""
        return self.terms % 2 == 1

    @property
    def positive(self) -> bool:  # type: ignore[override]
        return self.nonnegative

    def sigma(self, d: int | None = None) -> Activation:
        """Return the truncated exponential; without a beta of its own the map needs the width d."""
        if self.beta is None and d is None:
            raise InputError("`d` of ExpSeriesFeatures.sigma is needed where beta is left to be sqrt(d).")
        return ExpSeries(self.terms, self._sharpness(d or 0))

    def _sharpness(self, d: int) -> float:
        return math.sqrt(d) if self.beta is None else self.beta


def _near_one(x: Array) -> tuple[Array, Array]:
    """Return rows of `x` divided by a power of two near their largest entry, and its log; rows of zeros as they are."""
    if x.shape[-1] == 0:
        return x, _zero_a_row(x)
    xp = namespace(x)
    scale = _power_of_two(xp.max(xp.abs(x), axis=-1, keepdims=True))
    return x / scale, xp.log(scale)


def _power_of_two(x: Array) -> Array:
    """Return the power of two next below x >= 0 (to rounding), 1 for numbers that are not normal; no gradient."""
    xp = namespace(x)
    x = constant(x)
    normal = x >= float(xp.finfo(x.dtype).smallest_normal)
    return 2.0 ** xp.floor(xp.log2(xp.where(normal, x, xp.ones_like(x))))


def _times_each(x: Array, lower: Array, degree: int, xp: Any) -> Array:
    """Return all monomials of `degree` from those of one degree less, `lower`.

    Monomials are sorted by their smallest index, so those in x_j..x_d alone are the end of `lower`.
    """
    d, count = int(x.shape[-1]), int(lower.shape[-1])
    blocks = []
    for j in range(d):
        tail = math.comb(d - j + degree - 2, degree - 1)
        blocks.append(x[..., j : j + 1] * lower[..., count - tail :])
    return xp.concat(blocks, axis=-1) if blocks else x


@lru_cache(maxsize=8)
def _inverse_roots(d: int, terms: int) -> np.ndarray[Any, Any]:
    """Return 1 / sqrt(a!) for every monomial, in the order of ExpSeriesFeatures."""
    roots = []
    for p in range(terms):
        for chosen in combinations_with_replacement(range(d), p):
            run, product = 0, 1
            for i, index in enumerate(chosen):
                run = run + 1 if i and chosen[i - 1] == index else 1
                product *= run
            roots.append(1 / math.sqrt(product))
    return np.asarray(roots)


FEATURE_MAPS: dict[str, type[FeatureMap]] = {
    "identity": Identity,
    "elu": EluPlusOne,
    "relu": Rectified,
    "dpfp": DPFP,
    "exp-series": ExpSeriesFeatures,
}
FEATURE = Named(FEATURE_MAPS)
"""What the settings of a store take for a feature map: its name."""
