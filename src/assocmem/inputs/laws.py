"""The laws that keys and values are drawn by.

A law is a frozen dataclass with one method, ``draw(rng, n, d)``. Its rows have length one, or one in the mean
square, so that a value's law never changes the ratio by its scale.
"""

from __future__ import annotations

import difflib
import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, fields
from typing import Any, ClassVar

import numpy as np

from assocmem.contract.errors import InputError, UnknownNameError
from assocmem.contract.numbers import checked_cosine
from assocmem.inputs.directions import Floats, at_cosine, unit_rows


@dataclass(frozen=True)
class Law(ABC):
    """The rule by which n vectors of width d are drawn.

    Class attributes: `name` (as in `key_law`); `unit`, whether every row has exactly length one; `described`, the law
    in words, with its settings as {0.setting}.
    """

    name: ClassVar[str] = ""
    unit: ClassVar[bool] = True
    described: ClassVar[str] = ""

    def draw(self, rng: np.random.Generator, n: int, d: int) -> Floats:
        """Return n rows of width d.

        Parameters
        ----------
        rng : Generator
            Of NumPy (see `contract.numbers.stream`); moved on.
        n : int
            A whole number >= 0.
        d : int
            A whole number >= 1.

        Returns
        -------
        float64 array (n, d)
            The rows.

        Raises
        ------
        InputError
            For other sizes and for sizes that the law does not have.
        """
        n, d = _whole("n", n, 0), _whole("d", d, 1)
        return self._draw(rng, n, d)

    @abstractmethod
    def _draw(self, rng: np.random.Generator, n: int, d: int) -> Floats:
        """Return the rows for checked sizes."""

    @property
    def words(self) -> str:
        """The law in words, as results name it."""
        return self.described.format(self)

    @property
    def settings(self) -> dict[str, Any]:
        """The law's own numbers by name, as `theory.ratio` takes them beside `name`."""
        return {f.name: getattr(self, f.name) for f in fields(self)}


@dataclass(frozen=True)
class Sphere(Law):
    """Independent, uniform on the unit sphere: E cos = 0, E cos^2 = 1/d. The default law of keys."""

    name: ClassVar[str] = "sphere"
    described: ClassVar[str] = "uniform on the unit sphere"

    def _draw(self, rng: np.random.Generator, n: int, d: int) -> Floats:
        return unit_rows(rng, n, d)


@dataclass(frozen=True)
class Gaussian(Law):
    """Independent N(0, I/d): the mean squared length is one. The default law of values."""

    name: ClassVar[str] = "gaussian"
    described: ClassVar[str] = "Gaussian N(0, I/d)"
    unit: ClassVar[bool] = False

    def _draw(self, rng: np.random.Generator, n: int, d: int) -> Floats:
        return rng.standard_normal((n, d)) / math.sqrt(d)


@dataclass(frozen=True)
class Orthonormal(Law):
    """The first n rows of a uniformly random orthogonal matrix; at most d of them. Cost: n^2 d."""

    name: ClassVar[str] = "orthonormal"
    described: ClassVar[str] = "random orthonormal"

    def _draw(self, rng: np.random.Generator, n: int, d: int) -> Floats:
        if n > d:
            raise InputError(f"only d = {d} orthonormal rows fit into {d} dimensions; got n = {n}.")
        columns, triangle = np.linalg.qr(rng.standard_normal((d, n)))
        return np.array((columns * np.sign(np.diagonal(triangle))).T, dtype=np.float64, order="C")


@dataclass(frozen=True)
class Signs(Law):
    """Independent entries +-1/sqrt(d), each sign with probability one half: E cos^2 = 1/d."""

    name: ClassVar[str] = "signs"
    described: ClassVar[str] = "random signs +-1/sqrt(d)"

    def _draw(self, rng: np.random.Generator, n: int, d: int) -> Floats:
        signs = 2.0 * rng.integers(0, 2, size=(n, d)) - 1.0
        return np.asarray(signs / math.sqrt(d), dtype=np.float64)


@dataclass(frozen=True)
class EqualCosine(Law):
    """k_i = sqrt(rho) m + sqrt(1 - rho) u_i: a shared mean direction that makes keys alike.

    m is one uniform unit vector for the whole draw, u_i are independent, uniform among the unit vectors
    orthogonal to m. So every key has length one and exactly the cosine sqrt(rho) with m, and two keys have
    cosine rho + (1 - rho) u_i.u_j: rho in expectation, standard deviation (1 - rho)/sqrt(d - 1).

    Parameters
    ----------
    rho : float
        In [0, 1], dimensionless; 1 makes all keys equal, less needs d >= 2.
    """

    rho: float
    name: ClassVar[str] = "equal-cosine"
    described: ClassVar[str] = "unit keys with a shared mean, expected cosine {0.rho:g}"

    def __post_init__(self) -> None:
        checked_cosine(self.rho, "rho", 0.0)

    def _draw(self, rng: np.random.Generator, n: int, d: int) -> Floats:
        mean = unit_rows(rng, 1, d)
        return at_cosine(rng, np.broadcast_to(mean, (n, d)), math.sqrt(self.rho))


@dataclass(frozen=True)
class Spectrum(Law):
    """Independent N(0, C), C diagonal with the given eigenvalues scaled to sum to one.

    The mean squared length is one; 1/E(cos^2) is about (sum)^2 / (sum of squares), the participation ratio.

    Parameters
    ----------
    eigenvalues : tuple of float
        d numbers >= 0, not all zero, in the order of the coordinates.
    """

    eigenvalues: tuple[float, ...]
    name: ClassVar[str] = "spectrum"
    unit: ClassVar[bool] = False

    def __post_init__(self) -> None:
        try:
            values = tuple(float(x) for x in self.eigenvalues)
        except (TypeError, ValueError):
            raise InputError(f"`eigenvalues` must be a sequence of numbers; got {self.eigenvalues!r}.") from None
        if not values or not all(math.isfinite(x) and x >= 0 for x in values) or not any(values):
            raise InputError("`eigenvalues` must be finite numbers >= 0, at least one of them above zero.")
        object.__setattr__(self, "eigenvalues", values)

    @classmethod
    def power(cls, d: int, exponent: float) -> Spectrum:
        """Return the spectrum with eigenvalues 1, 2^-exponent, ..., d^-exponent.

        Parameters
        ----------
        d : int
            The width of the rows.
        exponent : float
            Of the power law.

        Returns
        -------
        Spectrum
            The law.
        """
        return cls(tuple(float(i) ** -exponent for i in range(1, _whole("d", d, 1) + 1)))

    def _draw(self, rng: np.random.Generator, n: int, d: int) -> Floats:
        if d != len(self.eigenvalues):
            raise InputError(f"the spectrum has {len(self.eigenvalues)} eigenvalues, so d must be that; got {d}.")
        values = np.array(self.eigenvalues)
        shares: Floats = values / values.max()
        return np.asarray(rng.standard_normal((n, d)) * np.sqrt(shares / shares.sum()), dtype=np.float64)

    @property
    def words(self) -> str:
        """The law in words."""
        top = max(self.eigenvalues) / sum(self.eigenvalues)
        return f"Gaussian with {len(self.eigenvalues)} given eigenvalues, the largest {top:.3g} of their sum"


@dataclass(frozen=True)
class Clustered(Law):
    """k_i = sqrt(1 - spread^2) c + spread u_i, c the centre of a cluster that key i falls into at random.

    u_i is uniform among the unit vectors orthogonal to c. So every key has length one and two keys of one
    cluster have cosine 1 - spread^2 in expectation.

    Parameters
    ----------
    clusters : int
        Number of centres, uniform unit vectors, >= 1.
    spread : float
        In [0, 1]: sine of the angle to the centre.
    """

    clusters: int
    spread: float
    name: ClassVar[str] = "clustered"
    described: ClassVar[str] = "{0.clusters} clusters of spread {0.spread:g} on the unit sphere"

    def __post_init__(self) -> None:
        _whole("clusters", self.clusters, 1)
        checked_cosine(self.spread, "spread", 0.0)

    def _draw(self, rng: np.random.Generator, n: int, d: int) -> Floats:
        centres = unit_rows(rng, int(self.clusters), d)
        chosen = centres[rng.integers(0, int(self.clusters), size=n)]
        return at_cosine(rng, chosen, math.sqrt((1 - self.spread) * (1 + self.spread)))


@dataclass(frozen=True)
class Normalised(Law):
    """The rows of another law, each divided by its length.

    Parameters
    ----------
    law : Law
        The other law.
    """

    law: Law
    name: ClassVar[str] = "normalised"
    described: ClassVar[str] = "{0.law.words}, scaled to length one"

    def _draw(self, rng: np.random.Generator, n: int, d: int) -> Floats:
        rows = self.law.draw(rng, n, d)
        norms = np.linalg.norm(rows, axis=1, keepdims=True)
        if not norms.all():
            raise InputError(f"a row of the law {self.law.name!r} is zero and has no direction.")
        return np.asarray(rows / norms, dtype=np.float64)


_LAWS: dict[str, type[Law]] = {
    law.name: law for law in (Sphere, Gaussian, Orthonormal, Signs, EqualCosine, Spectrum, Clustered)
}


def law_names() -> tuple[str, ...]:
    """Return the names of all laws.

    Returns
    -------
    tuple of str
        What `key_law` takes.
    """
    return tuple(_LAWS)


def key_law(law: str | Law = "sphere", *, normalise: bool = False, **settings: Any) -> Law:
    """Return a law of keys by its name and settings.

    Parameters
    ----------
    law : str or Law
        One of `law_names()`; a Law is returned as it is.
    normalise : bool
        Scale every row to length one.
    **settings
        The law's own: rho; eigenvalues; clusters and spread.

    Returns
    -------
    Law
        The law, or it with its rows scaled.

    Raises
    ------
    UnknownNameError
        For a name that is not known, with the nearest.
    InputError
        For settings that the law does not have, or out of range.

    Examples
    --------
    >>> key_law("equal-cosine", rho=0.5).draw(np.random.default_rng(0), 4, 8).shape
    (4, 8)
    """
    if isinstance(law, Law):
        if settings:
            raise InputError(f"a law that is already made takes no settings; got {', '.join(settings)}.")
        made = law
    else:
        made = _made(law, settings)
    return Normalised(made) if normalise and not made.unit else made


def value_law(law: str | Law = "gaussian", *, normalise: bool = False, **settings: Any) -> Law:
    """Return a law of values: the same laws as for keys, Gaussian unless told otherwise.

    Parameters
    ----------
    law : str or Law
        One of `law_names()`; a Law is returned as it is.
    normalise : bool
        Scale every row to length one.
    **settings
        The law's own.

    Returns
    -------
    Law
        As `key_law` gives it, with its errors.
    """
    return key_law(law, normalise=normalise, **settings)


def _made(name: str, settings: dict[str, Any]) -> Law:
    if not isinstance(name, str) or name not in _LAWS:
        near = difflib.get_close_matches(str(name), _LAWS, n=2, cutoff=0.5)
        offer = f" Did you mean {' or '.join(near)}?" if near else ""
        raise UnknownNameError(f"there is no law called {name!r}.{offer} The laws are {', '.join(_LAWS)}.")
    wanted = [field.name for field in fields(_LAWS[name])]
    if sorted(settings) != sorted(wanted):
        takes = ", ".join(wanted) or "no settings"
        raise InputError(f"the law {name!r} takes {takes}; got {', '.join(sorted(settings)) or 'none'}.")
    return _LAWS[name](**settings)


def _whole(name: str, value: int, low: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < low:
        raise InputError(f"`{name}` must be a whole number >= {low}; got {value!r}.")
    return int(value)
