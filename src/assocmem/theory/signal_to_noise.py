"""Signal to noise in the mean: the mean square of what is recalled of the value asked for over that of the rest.

Zhong et al. 2025 (arXiv 2505.19488) rank memories by it. For weights whose target is the same in every trial it is
1/ratio^2; where the target's own weight scatters, as in least squares, a quotient of two means is not the mean of the
quotient, and they part. And the codes of Dugan et al. (arXiv 2512.00207): a value told from others by its random
projections.
"""

from __future__ import annotations

from functools import singledispatch
from typing import Any

import numpy as np

from assocmem.contract.errors import InputError
from assocmem.contract.estimate import Prediction
from assocmem.contract.form import KernelSum, LeastSquares
from assocmem.contract.numbers import is_whole
from assocmem.theory import questions
from assocmem.theory.least_squares import weight_scatter
from assocmem.theory.questions import Asked, checked, log_of

NODES = 4000
"""Places at which the law of a cosine is read."""


def signal_to_noise(form: Any, d: float, n_memories: float, *, cosine: float = 1.0) -> Prediction:
    """Return E |signal|^2 / E |noise|^2 of one recall among M memories, values random and of one length.

    Parameters
    ----------
    form, d, n_memories
        As for the function `ratio`.
    cosine : float
        Between query and stored key, in [-1, 1].

    Returns
    -------
    Prediction
        Dimensionless. Exact for sums over the pairs, a divisor that signal and noise share being left out; for least
        squares asked with stored keys from M = d + 1 on, approximate. None, with a reason, where nothing interferes.

    Raises
    ------
    InputError
        For numbers out of range.

    Notes
    -----
    Recall is c v + r; signal |c v|^2, noise |r|^2. For least squares c = P_jj, the target's leverage, and |r|^2 =
    P_jj - P_jj^2 in the mean: E P^2 / (E P - E P^2) with E P = d/M, against a mean of (1 - P)/P in the ratio.

    Examples
    --------
    >>> from assocmem.contract.form import KernelSum, LeastSquares
    >>> from assocmem.maps.activations import Linear
    >>> signal_to_noise(KernelSum(Linear()), 64, 257).value
    0.25
    >>> round(signal_to_noise(LeastSquares(), 64, 128).value, 3)
    1.015
    """
    return answer_signal_to_noise(form, Asked("signal to noise", *checked(d, n_memories, cosine), "mean"))


@singledispatch
def answer_signal_to_noise(form: Any, asked: Asked) -> Prediction:
    """Answer by the form; every form that registers none, with a reason."""
    return asked.unknown(form)


@answer_signal_to_noise.register
def _(form: KernelSum, asked: Asked) -> Prediction:
    found = questions.ratio(form, asked.d, asked.n, cosine=asked.cosine)
    if found.log_value is None or found.value == 0:
        return asked.none(found.reason or "infinite: nothing interferes", regime=found.regime, source=found.source)
    return asked.predict(-2 * found.log_value, regime=found.regime, source=found.source, error=2 * (found.error or 0))


@answer_signal_to_noise.register
def _(form: LeastSquares, asked: Asked) -> Prediction:
    if form.ridge or asked.cosine != 1 or asked.d < 2:
        return asked.unknown(form)
    if asked.n <= asked.d:
        return asked.none("infinite: up to M = d memories independent keys are recalled exactly")
    mean = asked.d / asked.n
    square = mean**2 * (1 + weight_scatter(asked.d, asked.n))
    return asked.predict(
        log_of(square / (mean - square)), exact=False, error=1e-14,
        source="E P = d/M, E P^2 to first order in 1/M (docs/theory.md, section 7)",
    )  # fmt: skip


def code_retrieval(d: int, code: int, n_values: int) -> Prediction:
    """Return the share of values that a random code of `code` numbers tells from all others by their inner product.

    Parameters
    ----------
    d : int
        Width of the values, random and of length one, >= 2.
    code : int
        Numbers m in a code c = D^T v, D Gaussian, >= 1; the code is decoded as D c and compared with every value.
    n_values : int
        >= 2, among which the right one is sought.

    Returns
    -------
    Prediction
        A share, exact.

    Raises
    ------
    InputError
        For other numbers.

    Notes
    -----
    The decoded D c has m/(m + d - 1) of its mean square along v, its square cosine to it B ~ Beta(m/2, (d-1)/2), and
    other values are as random to it as to anything: E (1 - P(t > sqrt B))^(n-1), t the cosine of two random
    directions. So m = O(ln n) numbers serve n values: the log-factor of networks that store facts (after Dugan et al.
    2025; the law is derived in docs/theory.md, section 9).

    Examples
    --------
    >>> [round(code_retrieval(32, m, 256).value, 2) for m in (4, 12, 24)]
    [0.1, 0.66, 0.97]
    """
    from scipy.special import betainc, betaincinv

    for name, given, least in (("d", d, 2), ("code", code, 1), ("n_values", n_values, 2)):
        if not is_whole(given, least):
            raise InputError(f"`{name}` must be a whole number >= {least}; got {given!r}.")
    asked = Asked("share of codes told apart", *checked(d, n_values), statistic="share")
    square = betaincinv(code / 2, (d - 1) / 2, (np.arange(NODES) + 0.5) / NODES)
    beyond = 0.5 * betainc((d - 1) / 2, 0.5, 1 - square)
    log = log_of(float(np.mean(np.exp((n_values - 1) * np.log1p(-beyond)))))
    words = f"unit values, d = {d}, codes of {code} Gaussian projections, {n_values:,} values"
    return asked.predict(log, regime=words, source="cosine^2 of a decoded code ~ Beta(m/2, (d-1)/2)", error=1e-3)
