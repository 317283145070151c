"""Intervals cover what they promise.

The slow tests draw 300 experiments (fixed beforehand: streams 0..299) whose true value is known and count how
often the 95 % interval holds it; 276 to 294 of 300 (92 to 98 %) pass. An interval that covers exactly 95 % fails
such a test with probability 1.2 %, one that covers 90 % passes with probability 14 %, one that covers 85 % with
probability 0.02 %.
"""

import math

import numpy as np
import pytest
from scipy import stats
from scipy.special import gammaln

from assocmem import ruler
from assocmem.contract.numbers import stream
from assocmem.lab.similarities import TAIL_LIMIT

EXPERIMENTS = 300


def covered(name, experiment):
    """Return how many of the fixed experiments cover: `experiment(rng)` returns (low, high, truth)."""
    hits = 0
    for i in range(EXPERIMENTS):
        low, high, truth = experiment(stream(i, "coverage", name))
        hits += low is not None and high is not None and low <= truth <= high
    return hits


def assert_covers(name, experiment):
    hits = covered(name, experiment)
    assert 0.92 * EXPERIMENTS <= hits <= 0.98 * EXPERIMENTS, f"{name}: {hits} of {EXPERIMENTS} cover"


def sphere_similarities(rng, shape, d):
    """Similarities of unit keys with a fixed one: s^2 is Beta(1/2, (d-1)/2)."""
    return np.sqrt(rng.beta(0.5, (d - 1) / 2, shape)) * rng.choice([-1.0, 1.0], shape)


# ---------------------------------------------------------------- rms


@pytest.mark.slow
@pytest.mark.parametrize(("m", "trials"), [(2, 8), (2, 20), (2, 100), (65, 5), (65, 20), (65, 100)])
def test_rms_of_the_outer_product_covers(m, trials):
    # M = 2 is the most skewed: the squared ratio is a single squared similarity. With five trials of it 270 of
    # these 300 cover (90 %; in a longer run 92.5 %), so fewer than eight are no part of the promise there.
    d = 64

    def experiment(rng):
        ratios = np.sqrt(np.sum(sphere_similarities(rng, (trials, m - 1), d) ** 2, axis=1))
        found = ruler.summarise(ratios, "rms")
        return found.low, found.high, math.sqrt((m - 1) / d)

    assert_covers(f"rms {m} {trials}", experiment)


@pytest.mark.slow
def test_rms_of_softmax_at_the_edge_of_plain_sampling_covers():
    # beta = 8, d = 64, M = 1024: E w^4 / (M (E w^2)^2) = 0.04, under the limit of 0.1.
    d, beta, m, trials = 64, 8.0, 1024, 40

    def moment(t):  # E e^(t s) on the sphere
        from scipy.special import ive

        return math.exp(gammaln(d / 2) + (d / 2 - 1) * math.log(2 / t) + math.log(ive(d / 2 - 1, t)) + t)

    truth = math.sqrt((m - 1) * moment(2 * beta)) * math.exp(-beta)
    assert moment(4 * beta) / (m * moment(2 * beta) ** 2) < TAIL_LIMIT

    def experiment(rng):
        weights = np.exp(beta * (sphere_similarities(rng, (trials, m - 1), d) - 1))
        found = ruler.summarise(np.sqrt(np.sum(weights**2, axis=1)), "rms")
        return found.low, found.high, truth

    assert_covers("rms softmax", experiment)


@pytest.mark.slow
def test_importance_sampling_covers_where_plain_sampling_does_not():
    # Weights e^(beta s), s ~ N(0, 1/d), beta = 24: the mean square lives where nothing is drawn.
    d, beta, m, trials = 64, 24.0, 256, 30
    truth = math.sqrt(m) * math.exp(beta**2 / d)

    def plain(rng):
        weights = np.exp(beta * rng.normal(0, d**-0.5, (trials, m)))
        found = ruler.summarise(np.sqrt(np.sum(weights**2, axis=1)), "rms")
        return found.low, found.high, truth

    def tilted(rng):
        s = rng.normal(1.6 * beta / d, d**-0.5, (trials, m))  # not the optimal tilt, which has no scatter
        likelihood = np.exp(-1.6 * beta * s + (1.6 * beta) ** 2 / (2 * d))
        found = ruler.summarise(np.sqrt(m * np.mean(np.exp(2 * beta * s) * likelihood, axis=1)))
        return found.low, found.high, truth

    assert covered("plain", plain) < 0.5 * EXPERIMENTS
    assert_covers("tilted", tilted)


# ---------------------------------------------------------------- mean and median: the optimal store, P_jj ~ Beta


def beta_ratios(rng, trials, d, m):
    p = rng.beta(d / 2, (m - d) / 2, trials)
    return np.sqrt((1 - p) / p)


@pytest.mark.slow
@pytest.mark.parametrize(("m", "trials"), [(65, 10), (65, 50), (128, 10), (128, 50)])
def test_mean_of_the_optimal_store_covers(m, trials):
    d = 64
    parts = gammaln(d / 2 - 0.5) + gammaln((m - d) / 2 + 0.5) - gammaln(d / 2) - gammaln((m - d) / 2)

    def experiment(rng):
        found = ruler.summarise(beta_ratios(rng, trials, d, m), "mean")
        return found.low, found.high, math.exp(parts)

    assert_covers(f"mean {m} {trials}", experiment)


@pytest.mark.slow
@pytest.mark.parametrize("trials", [6, 7, 10, 25, 100])
def test_median_of_the_optimal_store_covers(trials):
    d, m = 64, 66
    p = stats.beta(d / 2, (m - d) / 2).median()

    def experiment(rng):
        found = ruler.summarise(beta_ratios(rng, trials, d, m), "median")
        return found.low, found.high, math.sqrt((1 - p) / p)

    assert_covers(f"median {trials}", experiment)


# ---------------------------------------------------------------- shares


@pytest.mark.slow
@pytest.mark.parametrize(("trials", "recalls", "scatter"), [(100, 1, 0.0), (20, 32, 0.0), (20, 32, 0.03), (50, 8, 0.1)])
def test_a_share_covers_also_where_recalls_of_a_trial_depend_on_each_other(trials, recalls, scatter):
    truth = 0.95

    def experiment(rng):
        if scatter:
            total = truth * (1 - truth) / scatter**2 - 1
            p = rng.beta(truth * total, (1 - truth) * total, trials)
        else:
            p = np.full(trials, truth)
        found = ruler.summarise_shares(rng.binomial(recalls, p) / recalls, recalls, definition="right")
        return found.low, found.high, truth

    assert_covers(f"share {trials} {recalls} {scatter}", experiment)


# ---------------------------------------------------------------- capacity


@pytest.mark.slow
@pytest.mark.parametrize("shared", [True, False])
def test_the_capacity_of_the_outer_product_covers(shared):
    # Exact rms capacity at d = 64: M = 65. Points of one trial share their keys, or every M has its own.
    d, trials, memories = 64, 20, np.array([8, 16, 32, 48, 64, 96, 128, 256])

    def experiment(rng):
        if shared:
            squares = np.cumsum(sphere_similarities(rng, (trials, 255), d) ** 2, axis=1)
            ratios = np.sqrt(squares[:, memories - 2])
        else:
            ratios = np.stack(
                [np.sqrt(np.sum(sphere_similarities(rng, (trials, m - 1), d) ** 2, axis=1)) for m in memories], axis=1
            )
        found = ruler.crossing(memories, ratios)
        return found.low, found.high, 65.0

    assert_covers(f"capacity {shared}", experiment)


@pytest.mark.slow
def test_the_capacity_covers_on_a_grid_finer_than_its_interval():
    # Independent noise at every M, three points within the interval's width.
    memories = 100 * 1.2 ** np.arange(-8, 9)

    def experiment(rng):
        ratios = (memories / 100) ** 0.5 * rng.lognormal(-(0.3**2), 0.3, (20, memories.size))
        found = ruler.crossing(memories, ratios)
        return found.low, found.high, 100.0

    assert_covers("fine grid", experiment)


@pytest.mark.slow
@pytest.mark.parametrize("shared", [True, False])
def test_the_capacity_of_a_median_covers(shared):
    memories = np.array([10, 30, 80, 240, 700])

    def experiment(rng):
        noise = rng.lognormal(0, 0.4, (30, 1 if shared else memories.size))
        found = ruler.crossing(memories, (memories / 100) ** 0.5 * noise, statistic="median")
        return found.low, found.high, 100.0

    assert_covers(f"median capacity {shared}", experiment)


@pytest.mark.slow
def test_the_retrieval_capacity_covers():
    memories, trials, recalls = np.array([10, 30, 60, 100, 200, 400]), 40, 32

    def experiment(rng):
        wrong = 0.05 * (memories / 100) ** 1.3
        right = 1 - rng.binomial(recalls, wrong, (trials, memories.size)) / recalls
        found = ruler.retrieval_capacity(memories, right, recalls_per_trial=recalls)
        return found.low, found.high, 100.0

    assert_covers("choice", experiment)


# ---------------------------------------------------------------- fast facts


def test_the_mean_s_interval_is_wider_above_for_skewed_numbers_and_never_below_zero():
    numbers = stream(0, "skew").lognormal(0, 1, 20)
    low, high = ruler.mean_interval(numbers)
    assert high - numbers.mean() > 1.2 * (numbers.mean() - low)
    assert ruler.mean_interval(np.array([1e-9, 1e-9, 5.0]))[0] >= 0


def test_the_mean_s_interval_holds_hall_s_and_that_of_the_logarithm():
    numbers = np.array([0.2, 0.3, 0.3, 0.4, 0.5, 0.7, 1.0, 3.5])
    n, mean, spread = 8, numbers.mean(), numbers.std(ddof=1)
    t = stats.t.ppf(0.975, n - 1)
    skew = np.mean(((numbers - mean) / spread) ** 3)

    def hall(limit):  # g + g^2 skew/3 + g^3 skew^2/27 + skew/(6n) is sqrt(n) t at the limit
        w = (mean - limit) / spread
        return math.sqrt(n) * (w + skew * w**2 / 3 + skew**2 * w**3 / 27 + skew / (6 * n))

    low, high = ruler.mean_interval(numbers)
    assert (hall(low), hall(high)) == (pytest.approx(t), pytest.approx(-t))
    assert high > mean * math.exp(t * spread / math.sqrt(n) / mean)
    even = np.array([1.0, 1.1, 1.2, 1.3])  # without skew: Student's below, that of the logarithm above
    step = stats.t.ppf(0.975, 3) * even.std(ddof=1) / 2
    assert ruler.mean_interval(even) == (pytest.approx(1.15 - step), pytest.approx(1.15 * math.exp(step / 1.15)))


def test_the_mean_s_interval_is_student_s_for_many_numbers_without_skew():
    numbers = 10 + stream(0, "even").standard_normal(5000)
    t = stats.t.ppf(0.975, 4999) * numbers.std(ddof=1) / math.sqrt(5000)
    low, high = ruler.mean_interval(numbers)
    assert (numbers.mean() - low) / t == pytest.approx(1, abs=0.02)
    assert (high - numbers.mean()) / t == pytest.approx(1, abs=0.02)


def test_equal_numbers_have_an_interval_of_no_width():
    assert ruler.mean_interval(np.full(5, 0.3)) == (pytest.approx(0.3), pytest.approx(0.3))
    assert ruler.mean_interval(np.zeros(5)) == (0.0, 0.0)


@pytest.mark.parametrize("n", [6, 9, 10, 25, 1000])
def test_the_median_s_interval_lies_between_the_exact_ones_around_its_level(n):
    x = np.arange(1.0, n + 1)
    low, high = ruler.median_interval(x)
    depth = max(k for k in range(1, n // 2 + 1) if 1 - 2 * stats.binom.cdf(k - 1, n, 0.5) >= 0.95)
    assert x[depth - 1] <= low <= x[depth]
    assert low + high == pytest.approx(n + 1)


def test_the_median_s_interval_is_none_where_no_ranks_reach_the_level():
    assert ruler.median_interval(np.arange(5.0)) is None
    assert ruler.median_interval(np.arange(5.0), level=0.9) is not None


def test_the_share_s_interval_is_wilson_s_for_single_recalls():
    shares = np.array([1.0] * 90 + [0.0] * 10)
    wilson = stats.binomtest(90, 100).proportion_ci(method="wilson")
    assert ruler.share_interval(shares, 1) == pytest.approx((wilson.low, wilson.high))


def test_the_share_s_interval_counts_trials_where_recalls_stand_or_fall_together():
    together = np.array([1.0] * 18 + [0.0] * 2)
    apart = np.full(20, 0.9)
    wide, narrow = ruler.share_interval(together, 50), ruler.share_interval(apart, 50)
    assert wide[1] - wide[0] > 3 * (narrow[1] - narrow[0])
    low, high = ruler.share_interval(np.ones(20), 50)
    assert high == 1.0
    assert 0.8 < low < 0.9
