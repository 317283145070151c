"""The questions that theory answers, one function each, by the form of a store (`contract.form`).

A form answers a question where a file of this room registers an answer for it; every other form, and None for a store
without one, gets "none" with a reason.
"""

from __future__ import annotations

from functools import singledispatch
from typing import Any

from assocmem.contract.estimate import Prediction, Statistic
from assocmem.theory.answer import Asked, checked, checked_age

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
    statistic : "rms", "mean" or "median"
        Over draws of keys and values.
    law : str
        Law of the keys: "sphere" (independent, uniform, length one), or another with its `settings`, see
        `theory.key_laws`.

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
) -> Prediction:
    """Return the number of memories M (a float, counting the target) at which the ratio reaches `ratio`.

    Parameters as for the function `ratio`; `ratio` > 0; `largest`, the M up to which to look where the sharpness
    follows M. The value is None, with a reason, where the ratio never gets there and where there is no formula.

    >>> from assocmem.contract.form import KernelSum, LeastSquares
    >>> from assocmem.maps.activations import Exp, Linear
    >>> round(capacity(KernelSum(Linear()), 64).value, 9), round(capacity(Exp(8.0), 64).value)
    (65.0, 1272264)
    >>> [round(capacity(LeastSquares(), 64, statistic=s, law="gaussian").value) for s in ("mean", "rms", "median")]
    [127, 126, 128]
    """
    return answer_capacity(form, Asked("capacity", *checked(d, largest, cosine, ratio), statistic, law))


def signal_by_age(form: Any, d: int, age: int, *, statistic: Statistic = "rms", d_v: int = 64) -> Prediction:
    """Return the weight of the pair written `age` pairs ago over that of the newest one, for uniform unit keys.

    The query is the pair's own key. Parameters: d, width of the keys; `age`, a whole number n >= 0, the pairs written
    after it; d_v, which only a decay of every channel's own depends on. Exact where it is not None.

    >>> from assocmem.contract.form import Decay, DeltaRule
    >>> signal_by_age(Decay(0.99), 64, 100).value
    0.366032341273229
    >>> [round(signal_by_age(DeltaRule(), 64, 64, statistic=s).value, 4) for s in ("mean", "rms")]
    [0.365, 0.3726]
    """
    return answer_signal_by_age(form, Asked("signal left", *checked(d), statistic, age=checked_age(age), d_v=d_v))


def ratio_by_age(form: Any, d: int, n_memories: float, age: int) -> Prediction:
    """Return the ratio of the pair written `age` pairs ago among M, for uniform unit keys asked with the pair's own.

    Parameters as for `signal_by_age`; `age` below M. The root mean square where the signal is the same in every trial;
    elsewhere root mean square interference over root mean square signal (see the answer's `statistic`).

    >>> from assocmem.contract.form import Decay, DeltaRule
    >>> ratio_by_age(Decay(1.0), 64, 65, 10).value, round(ratio_by_age(DeltaRule(), 64, 1000, 30).value, 3)
    (1.0, 1.237)
    """
    numbers = checked(d, n_memories)
    return answer_ratio_by_age(form, Asked("ratio", *numbers, age=checked_age(age, numbers[1])))


def old_value_left(form: Any, d: int, n_memories: int, rewritten: int) -> Prediction:
    """Return what is left of an old value's weight after `rewritten` of M keys, its own among them, were written again.

    The same in every trial, so its median too. Known for matrices that only add and decay; for least squares of
    independent keys, which takes the mean of both values; for the delta rule and weighted means with a lone key.

    >>> from assocmem.contract.form import Decay, LeastSquares
    >>> old_value_left(Decay(1.0), 64, 10, 5).value, old_value_left(LeastSquares(), 64, 10, 5).value
    (1.0, 0.5)
    """
    asked = Asked("old value left", *checked(d, n_memories), "median", age=checked_age(rewritten))
    return answer_old_value_left(form, asked)


def retrieval_capacity(form: Any, d: int) -> Prediction:
    """Return the n at which all n recalls of a d x d store stop picking the right one of n values, d_k = d_v = d.

    Known for the outer product: d^2 = 8 n ln n. Asymptotic: at d of about 128 the chance that all n are right is near
    1/2 there, below that it is lower. `best_retrieval_capacity` has the conjecture for the best matrix there is.

    >>> from assocmem.contract.form import KernelSum
    >>> from assocmem.maps.activations import Linear
    >>> round(retrieval_capacity(KernelSum(Linear()), 128).value, 2)
    349.67
    """
    return answer_retrieval_capacity(form, Asked("retrieval capacity", *checked(d), statistic="threshold"))


def _unknown(form: Any, asked: Asked) -> Prediction:
    return asked.unknown(form)


answer_ratio, answer_capacity = singledispatch(_unknown), singledispatch(_unknown)
answer_signal_by_age, answer_ratio_by_age = singledispatch(_unknown), singledispatch(_unknown)
answer_old_value_left, answer_retrieval_capacity = singledispatch(_unknown), singledispatch(_unknown)
"""What a form's file registers its answers with: functions of the form and of what is asked."""


@singledispatch
def steady_statistic(form: Any, cosine: float = 1.0) -> Statistic:
    """Return the statistic of the ratio that draws of keys settle soonest: the root mean square.

    But for least squares asked with stored keys it is the median, as near M = d the ratio has a heavy tail.
    """
    return "rms"
