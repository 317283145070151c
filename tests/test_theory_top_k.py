"""Theory of recall from the k most similar pairs, and of hashed tables: against draws, limits and another integral.

Each comparison has a wrong variant that it rejects.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import integrate, stats

from assocmem.contract.form import Hashed, KernelSum, LeastSquares, TopK
from assocmem.maps.activations import Constant, Exp, Linear, ReLU
from assocmem.theory import capacity, ratio


def drawn_ratio(sigma, d, n, k, trials, seed):
    """Return the root mean square ratio of drawn unit keys and its standard error: the k - 1 nearest others weigh."""
    rng = np.random.default_rng(seed)
    s = rng.beta((d - 1) / 2, (d - 1) / 2, (trials, n - 1)) * 2 - 1
    near = -np.sort(-s, axis=-1)[:, : k - 1]
    squares = (sigma(near) ** 2).sum(axis=-1) / float(sigma(np.ones(1))[0]) ** 2
    mean, error = squares.mean(), squares.std(ddof=1) / math.sqrt(trials)
    return math.sqrt(mean), error / (2 * math.sqrt(mean))


@pytest.mark.parametrize(
    ("sigma", "d", "n", "k"),
    [
        (Exp(4.0), 16, 200, 5),
        (Exp(8.0), 64, 1000, 32),
        (Linear(), 8, 60, 10),
        (ReLU(2.0), 3, 40, 39),
        (Exp(1.0), 2, 30, 2),
    ],
)
def test_the_ratio_is_that_of_drawn_keys(sigma, d, n, k):
    value = ratio(TopK(k, KernelSum(sigma)), d, n).value
    found, error = drawn_ratio(sigma, d, n, k, 4000, 1)
    assert abs(value - found) < 4 * error  # five cases: a false alarm in 3,000
    assert abs(ratio(TopK(k, KernelSum(sigma)), d, 3 * n).value - found) > 4 * error


def test_the_integral_is_an_independent_one():
    d, n, k, beta = 16, 300, 6, 5.0
    law = stats.beta((d - 1) / 2, (d - 1) / 2, loc=-1, scale=2)

    def integrand(s, others):
        return math.exp(2 * beta * (s - 1)) * law.pdf(s) * stats.binom.cdf(k - 2, others, law.sf(s))

    want, wrong = (
        math.sqrt((n - 1) * integrate.quad(integrand, -1, 1, args=(m,), points=[0.3, 0.6], limit=200)[0])
        for m in (n - 2, n - 1)
    )
    found = ratio(TopK(k, KernelSum(Exp(beta))), d, n)
    assert found.value == pytest.approx(want, rel=1e-9)
    assert found.value != pytest.approx(wrong, rel=1e-4)
    assert found.error < 1e-9


def test_all_pairs_are_the_form_itself_and_one_pair_is_without_interference():
    whole = KernelSum(Exp(4.0), normalised=True)
    for n in (2, 7, 8):
        assert ratio(TopK(8, whole), 16, n).value == ratio(whole, 16, n).value
    assert ratio(TopK(8, whole), 16, 9).value < ratio(whole, 16, 9).value
    assert ratio(TopK(1, whole), 16, 1000).value == 0
    near = [ratio(TopK(k, whole), 16, 1000).value for k in (2, 10, 100, 999, 1000)]
    assert near == sorted(near)
    assert near[-2] == pytest.approx(near[-1], rel=1e-3)
    sharp = KernelSum(Constant(3.0), normalised=True)
    assert ratio(TopK(5, sharp), 16, 100).value == pytest.approx(ratio(TopK(5, KernelSum(Exp(3.0))), 16, 100).value)


def test_a_capacity_is_where_the_ratio_is_reached_or_a_sentence():
    form = TopK(8, KernelSum(Exp(4.0)))
    found = capacity(form, 16, ratio=0.5)
    assert ratio(form, 16, found.value).value == pytest.approx(0.5, rel=1e-8)
    assert found.value > capacity(KernelSum(Exp(4.0)), 16, ratio=0.5).value
    assert "never more than k - 1 = 7" in capacity(form, 16, ratio=3.0).reason
    small = capacity(TopK(100, KernelSum(Linear())), 4, ratio=1.0)
    assert small.value == pytest.approx(5.0)


@pytest.mark.parametrize(
    ("form", "asked", "says"),
    [
        (TopK(4, KernelSum(Exp(4.0))), {"cosine": 0.9}, "infinite: with a noisy query 4 other keys"),
        (TopK(4, KernelSum(Exp(4.0))), {"statistic": "median"}, "not the median"),
        (TopK(4, KernelSum(Exp(4.0))), {"law": "signs"}, "no formula for the most similar keys by the law 'signs'"),
        (TopK(4, LeastSquares()), {}, "there is no formula for recall from the pairs most similar"),
        (TopK(4, KernelSum(None)), {}, "there is no formula for recall from the pairs most similar"),
        (Hashed((7,)), {"cosine": 0.9}, "finds other rows"),
        (Hashed((7,)), {"statistic": "mean"}, "not the mean"),
    ],
)
def test_where_there_is_no_theory_the_reason_is_given(form, asked, says):
    found = ratio(form, 16, 100, **asked)
    assert found.value is None
    assert says in found.reason


def test_hashed_tables_have_the_ratio_of_drawn_hashes():
    rows, n, trials = (11, 13, 17, 19), 30, 4000
    rng = np.random.default_rng(2)
    share = np.mean([rng.integers(0, p, (trials, n - 1)) == 0 for p in rows], axis=0)
    squares = (share**2).sum(axis=-1)
    found, error = squares.mean(), squares.std(ddof=1) / math.sqrt(trials)
    assert abs(ratio(Hashed(rows), 4, n).value ** 2 - found) < 4 * error
    assert abs((n - 1) * np.mean([1 / p for p in rows]) - found) > 4 * error  # as if all tables collided together
    assert ratio(Hashed(rows), 4, capacity(Hashed(rows), 4).value).value == pytest.approx(1)
    assert capacity(Hashed((100,)), 4).value == pytest.approx(101)
