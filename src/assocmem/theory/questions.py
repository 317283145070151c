"""The questions that theory answers, one function each, by the form of a store (`contract.form`).

What is asked is checked, and answered by a value from its logarithm, or by none with a reason. A form answers a
question where a file of this room registers an answer for it; every other form, and None for a store without one, gets
"none" with a reason.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import singledispatch
from typing import Any

import numpy as np

from assocmem.contract.errors import InputError
from assocmem.contract.estimate import Prediction, Statistic
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


LARGEST = 1e300
"""The M up to which a capacity is looked for where the sharpness follows M."""


def ratio(
    form: Any,
    d: float,
    n_memories: float,
    *,
    cosine: float = 1.0,
    statistic: Statistic = "rms",
    law: str = "sphere",
    **settings: Any,
) -> Prediction:
    """Return the interference-to-signal ratio over M memories (dimensionless).

    Parameters
    ----------
    form : Form, Activation, Sharpness or None
        A store's form; an activation stands for the kernel sum over it, a sharpness for softmax with beta(M).
    d : float
        Width of the keys, 1 or >= 2 (verified to 4096).
    n_memories : float
        M >= 1, the target counted; any size a float holds.
    cosine : float
        ρ between the query and its key, in [-1, 1].
    statistic : {"rms", "mean", "median"}
        Over draws of keys and values.
    law : str
        Law of the keys: "sphere" (independent, uniform, length one), or another, see `theory.key_laws`.
    **settings
        Of the law.

    Returns
    -------
    Prediction
        The value is 0 where nothing interferes, None where nothing is recalled, the statistic is infinite or has no
        formula. Exact for kernel sums over unit keys; the optimal store's is a labelled approximation.

    Raises
    ------
    InputError
        For numbers out of range and for an activation that is not finite on [-1, 1].

    Examples
    --------
    >>> from assocmem.contract.form import KernelSum, LeastSquares
    >>> from assocmem.maps.activations import Linear, ReLU
    >>> ratio(KernelSum(Linear()), 64, 257).value, round(ratio(ReLU(2), 64, 2817).value, 12)
    (2.0, 1.0)
    >>> round(ratio(LeastSquares(), 64, 1024, statistic="mean").value, 4)  # measured 3.8756
    3.8758
    >>> ratio(None, 64, 10).reason
    'there is no formula for this store that gives the ratio'
    """
    return answer_ratio(form, Asked("ratio", *checked(d, n_memories, cosine), statistic, law, settings))


def capacity(
    form: Any,
    d: float,
    *,
    ratio: float = 1.0,
    cosine: float = 1.0,
    statistic: Statistic = "rms",
    law: str = "sphere",
    largest: float = LARGEST,
    **settings: Any,
) -> Prediction:
    """Return the number of memories M (counting the target) at which the ratio reaches `ratio`.

    Parameters
    ----------
    form, d
        As for the function `ratio`.
    ratio : float
        > 0.
    cosine, statistic, law
        As for the function `ratio`.
    largest : float
        The M up to which to look where the sharpness follows M.
    **settings
        Of the law of keys, as for `ratio`.

    Returns
    -------
    Prediction
        M as a float; None, with a reason, where the ratio never gets there and where there is no formula.

    Examples
    --------
    >>> from assocmem.contract.form import KernelSum, LeastSquares
    >>> from assocmem.maps.activations import Exp, Linear
    >>> round(capacity(KernelSum(Linear()), 64).value, 9), round(capacity(Exp(8.0), 64).value)
    (65.0, 1272264)
    >>> [round(capacity(LeastSquares(), 64, statistic=s, law="gaussian").value) for s in ("mean", "rms", "median")]
    [127, 126, 128]
    """
    return answer_capacity(form, Asked("capacity", *checked(d, largest, cosine, ratio), statistic, law, settings))


def signal_by_age(form: Any, d: int, age: int, *, statistic: Statistic = "rms", d_v: int = 64) -> Prediction:
    """Return the weight of the pair written `age` pairs ago over that of the newest one, for uniform unit keys.

    The query is the pair's own key.

    Parameters
    ----------
    form, d
        As for the function `ratio`; d a whole number.
    age : int
        The pairs written after it, >= 0.
    statistic : {"rms", "mean", "median"}
        Over draws of the keys.
    d_v : int
        Width of the values, which only a decay of every channel's own depends on.

    Returns
    -------
    Prediction
        Exact where it is not None.

    Examples
    --------
    >>> from assocmem.contract.form import Decay, DeltaRule
    >>> signal_by_age(Decay(0.99), 64, 100).value
    0.366032341273229
    >>> [round(signal_by_age(DeltaRule(), 64, 64, statistic=s).value, 4) for s in ("mean", "rms")]
    [0.365, 0.3726]
    """
    return answer_signal_by_age(form, Asked("signal left", *checked(d), statistic, age=checked_age(age), d_v=d_v))


def ratio_by_age(form: Any, d: int, n_memories: float, age: int) -> Prediction:
    """Return the ratio of the pair written `age` pairs ago among M, for uniform unit keys asked with the pair's own.

    Parameters
    ----------
    form, d, n_memories
        As for the function `ratio`; n_memories a whole number.
    age : int
        As for `signal_by_age`; below M.

    Returns
    -------
    Prediction
        The root mean square where the signal is the same in every trial; elsewhere root mean square interference over
        root mean square signal (see its `statistic`).

    Examples
    --------
    >>> from assocmem.contract.form import Decay, DeltaRule
    >>> ratio_by_age(Decay(1.0), 64, 65, 10).value, round(ratio_by_age(DeltaRule(), 64, 1000, 30).value, 3)
    (1.0, 1.237)
    """
    numbers = checked(d, n_memories)
    return answer_ratio_by_age(form, Asked("ratio", *numbers, age=checked_age(age, numbers[1])))


def old_value_left(form: Any, d: int, n_memories: int, rewritten: int) -> Prediction:
    """Return what is left of an old value's weight after some of M keys, its own among them, were written again.

    Parameters
    ----------
    form, d, n_memories
        As for the function `ratio`; n_memories a whole number.
    rewritten : int
        How many keys were written again, >= 0.

    Returns
    -------
    Prediction
        The same in every trial, so its median too. Known for matrices that only add and decay; for least squares of
        independent keys, which takes the mean of both values; for the delta rule and weighted means with a lone key.

    Examples
    --------
    >>> from assocmem.contract.form import Decay, LeastSquares
    >>> old_value_left(Decay(1.0), 64, 10, 5).value, old_value_left(LeastSquares(), 64, 10, 5).value
    (1.0, 0.5)
    """
    asked = Asked("old value left", *checked(d, n_memories), "median", age=checked_age(rewritten))
    return answer_old_value_left(form, asked)


def retrieval_capacity(form: Any, d: int, *, share: float | None = None) -> Prediction:
    """Return the n up to which a store picks the right one of its n values, keys and values of width d, length one.

    Parameters
    ----------
    form
        As for the function `ratio`.
    d : int
        Width of keys and values.
    share : float, optional
        Of recalls that must be right, in (0, 1), queries being stored keys. By default all n at once, as d grows.

    Returns
    -------
    Prediction
        All at once: known for the outer product, d^2 = 8 n ln n; at d of about 128 the chance that all n are right is
        near 1/2 there, below that it is lower. `best_retrieval_capacity` has the conjecture for the best matrix there
        is. For a share: an approximation for kernel sums and least squares at finite d (docs/theory.md, section 9).

    Raises
    ------
    InputError
        For another width or share.

    Examples
    --------
    >>> from assocmem.contract.form import KernelSum, LeastSquares
    >>> from assocmem.maps.activations import Linear
    >>> round(retrieval_capacity(KernelSum(Linear()), 128).value, 2)
    349.67
    >>> [round(retrieval_capacity(form, 64, share=0.95).value) for form in (KernelSum(Linear()), LeastSquares())]
    [151, 216]
    """
    numbers, statistic = checked(d), "threshold" if share is None else "share"
    if share is not None and not 0 < _number("share", share) < 1:
        raise InputError(f"`share` must lie in (0, 1); got {share!r}.")
    asked = Asked("retrieval capacity", numbers[0], wanted=1.0 if share is None else float(share), statistic=statistic)
    return answer_retrieval_capacity(form, asked)


def _unknown(form: Any, asked: Asked) -> Prediction:
    return asked.unknown(form)


answer_ratio, answer_capacity = singledispatch(_unknown), singledispatch(_unknown)
answer_signal_by_age, answer_ratio_by_age = singledispatch(_unknown), singledispatch(_unknown)
answer_old_value_left, answer_retrieval_capacity = singledispatch(_unknown), singledispatch(_unknown)
"""What a form's file registers its answers with: functions of the form and of what is asked."""


@singledispatch
def steady_statistic(form: Any, cosine: float = 1.0) -> Statistic:
    """Return the statistic of the ratio that draws of keys settle soonest.

    Parameters
    ----------
    form, cosine
        As for the function `ratio`.

    Returns
    -------
    {"rms", "median"}
        The root mean square; but for least squares asked with stored keys the median, as near M = d the ratio has a
        heavy tail.
    """
    return "rms"
