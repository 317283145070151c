"""How theory answers: the numbers it is asked about, checked; a value from its logarithm, or none with a reason."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from assocmem.contract.errors import InputError
from assocmem.contract.estimate import Prediction
from assocmem.contract.form import Form

EPS = 2.0**-52
_LOG_MAX = math.log(1.7976931348623157e308)


@dataclass(frozen=True)
class Asked:
    """A question with its numbers checked, which a form's answer takes and gives its answer by.

    n: memories M; of a capacity the largest M to look for. wanted: the ratio that a capacity is asked for. settings:
    of the law of keys. age: pairs written after the target; of old values the keys that were written again.
    """

    quantity: str
    d: float
    n: float = 1.0
    cosine: float = 1.0
    wanted: float = 1.0
    statistic: str = "rms"
    law: str = "sphere"
    settings: Mapping[str, Any] = field(default_factory=dict)
    age: int = 0
    d_v: int = 64

    @property
    def regime(self) -> str:
        """The setting of every exact prediction for uniform unit keys, in words."""
        query = "query = the stored key" if self.cosine == 1 else f"query at cosine {self.cosine:g} to its key"
        return f"independent uniform unit keys, d = {self.d:g}, {query}, random values; M counts the target"

    def none(self, reason: str, *, regime: str = "", source: str = "", statistic: str = "") -> Prediction:
        """Return the answer "none": no theory, or no finite value, and why."""
        return Prediction(self.quantity, None, statistic or self.statistic, regime, source, reason=reason)

    def unknown(self, form: Any) -> Prediction:
        """Return the answer of a form for which there is no formula; InputError for what is no form."""
        if not isinstance(form, Form | None):
            raise InputError(f"`form` must be a store's form, an Activation, a Sharpness or None; got {form!r}.")
        words = "this store" if form is None else form.words
        return self.none(f"there is no formula for {words} that gives the {self.quantity}")

    def known(self, value: float, source: str) -> Prediction:
        """Return a value that is the same in every trial, so its median too."""
        return Prediction(self.quantity, value, "median", "unit keys", source, log_of(value))

    def predict(
        self, log: float, *, source: str, regime: str = "", statistic: str = "", exact: bool = True, error: float = 0.0
    ) -> Prediction:
        """Return the Prediction whose value is e^log.

        Parameters: `log`, -inf for an exact 0; `error`, a bound on the absolute error of `log`, to which
        rounding is added (None in the answer where it is unknown). The value is given to the 15 digits that log space
        carries. Where it leaves the range of floats it is None (above) or 0.0 (below), and `log_value` still holds it.
        """
        what = (statistic or self.statistic, regime or self.regime, source)
        if log == -math.inf:
            return Prediction(self.quantity, 0.0, *what, exact=exact, error=0.0)
        error += 2 * EPS * (2 + abs(log)) + 5e-15
        bound = math.expm1(error) if error < 1 else None
        if log > _LOG_MAX:
            reason = f"the value, e^{log:.6g}, is beyond the range of floats; its logarithm is given"
            return Prediction(self.quantity, None, *what, log, exact, bound, reason)
        value = float(f"{math.exp(log):.15g}")
        return Prediction(self.quantity, value, *what, log, exact, bound)


def checked(
    d: float, n_memories: float = 1.0, cosine: float = 1.0, ratio: float = 1.0
) -> tuple[float, float, float, float]:
    """Return width, memories, cosine and ratio as floats; InputError for what is out of range.

    Parameters: d, 1 or any finite number >= 2 (keys of whole width are meant; a fractional one, an effective
    dimension, is accepted because every formula here holds for it); M in [1, 1e308], the target counted; the cosine
    between query and stored key, in [-1, 1], for d = 1 only 1 or -1; the wanted ratio, > 0.
    """
    width, n = _number("d", d), _number("n_memories", n_memories)
    c, wanted = _number("cosine", cosine), _number("ratio", ratio)
    if not (width == 1 or width >= 2):
        raise InputError(f"`d` must be 1 or a finite number >= 2; got {d!r}.")
    if n < 1:
        raise InputError(f"`n_memories` counts the target and must be >= 1; got {n_memories!r}.")
    if not -1 <= c <= 1:
        raise InputError(f"`cosine` must lie in [-1, 1]; got {cosine!r}.")
    if width == 1 and abs(c) != 1:
        raise InputError(f"`cosine` must be 1 or -1 where d = 1, as there are only two unit keys; got {cosine!r}.")
    if wanted <= 0:
        raise InputError(f"`ratio` must be > 0; got {ratio!r}.")
    return width, n, c, wanted


def checked_age(age: Any, n_memories: float | None = None) -> int:
    """Return `age`, a whole number >= 0 and below M where that is given."""
    if isinstance(age, bool) or not isinstance(age, int | np.integer) or age < 0:
        raise InputError(f"`age` must be a whole number >= 0; got {age!r}.")
    if n_memories is not None and age >= n_memories:
        raise InputError(f"`age` must be below n_memories = {n_memories:g}, the target counted; got {age}.")
    return int(age)


def _number(name: str, value: Any) -> float:
    try:
        number = float(value)
    except OverflowError as error:
        raise InputError(f"`{name}` must be below 1e308; got a larger whole number.") from error
    except (TypeError, ValueError) as error:
        raise InputError(f"`{name}` must be a number; got {value!r}.") from error
    if isinstance(value, bool | str) or not math.isfinite(number):
        raise InputError(f"`{name}` must be a finite number; got {value!r}.")
    return number


def log_others(n: float) -> float:
    """Return ln(M - 1), -inf for M = 1."""
    return math.log(n - 1) if n > 1 else -math.inf


def log_of(x: float) -> float:
    """Return ln x, -inf for x <= 0."""
    return math.log(x) if x > 0 else -math.inf


def plus_one(log_x: float) -> float:
    """Return ln(1 + x) from ln x, without overflow."""
    return log_x + math.log1p(math.exp(-log_x)) if log_x > 0 else math.log1p(math.exp(log_x))


def power(log: float) -> str:
    """Return e^log as sentences write it, to four digits, as a power of e where it leaves the range of floats."""
    return f"{math.exp(log):.4g}" if abs(log) < 700 else f"e^{log:.5g}"


def plain(value: float) -> str:
    """Return a number as sentences write it: whole with separators from a thousand, a power of ten from 1e15.

    >>> plain(1e6), plain(12.34567), plain(2.1e20)
    ('1,000,000', '12.3457', '2.1e20')
    """
    if 1000 <= abs(value) < 1e15:
        return f"{value:,.0f}"
    return f"{value:.6g}".replace("e+", "e").replace("e-0", "e-")
