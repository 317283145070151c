"""The similarities sampler: the law, the reading of streams, importance sampling, and the curves that come of them."""

from __future__ import annotations

import math
import multiprocessing
from concurrent.futures import ProcessPoolExecutor
from itertools import pairwise

import numpy as np
import pytest
from scipy import stats

from assocmem import theory
from assocmem.contract.errors import InputError
from assocmem.contract.numbers import stream
from assocmem.lab import similarities as tilt
from assocmem.lab.plan import labelled
from assocmem.lab.similarities import (
    BLOCK,
    TILTED,
    Similarities,
    SimilarityLaw,
    carried_by_few,
    dtype_for,
    sums_of_squares,
    sums_over_pieces,
    tilt_for,
    tilted_mean_squares,
)
from assocmem.lab.similarities import layout as layout_of
from assocmem.maps.activations import GELU, Block, Custom, Exp, ExpSeries, Linear, LogN, ReLU, SwiGLU, Swish, YaRN
from assocmem.stores.mlp import MLP
from assocmem.stores.softmax import SoftmaxAttention
from plans import plan_of, similarity_curves

FAST = (Linear(), ReLU(), ReLU(2), ReLU(3), ReLU(2.5), ReLU(2, -0.1), SwiGLU(), Exp(8.0), ExpSeries(4, 8.0))
PLAIN = (Swish(), GELU(), Custom(np.tanh, "tanh"))
BOX = (("softmax", SoftmaxAttention(8.0)), "outer-product", "squared-relu", "swiglu")


def cube(s):
    return s * s * s


# ---------------------------------------------------------------------- the law


@pytest.mark.parametrize("d", [2, 3, 4, 15, 16, 64, 512, 4096])
def test_similarities_have_the_law_of_the_sphere(d):
    # Kolmogorov-Smirnov on 2^15 draws a stream; each of the 14 tests errs with probability 1e-4.
    law = SimilarityLaw(d, size=1 << 15)
    a = (d - 1) / 2
    for s in law.draw(stream(1, "law", d)):
        assert stats.kstest((1 + s.astype(float)) / 2, stats.beta(a, a).cdf).pvalue > 1e-4


def test_in_one_dimension_similarities_are_signs():
    (s,) = SimilarityLaw(1, size=10_000).draw(stream(1, "signs"))
    assert set(np.unique(s)) == {-1.0, 1.0}
    assert abs(s.mean()) < 0.05


def test_low_widths_feed_one_stream_because_the_two_coordinates_depend():
    assert [SimilarityLaw(d, size=1).streams for d in (1, 2, 15, 16, 64)] == [1, 1, 1, 2, 2]


@pytest.mark.parametrize("d", [64, 4096])
def test_float32_draws_lose_nothing_that_a_sum_of_squares_could_show(d):
    narrow, wide = SimilarityLaw(d, np.float32), SimilarityLaw(d, np.float64)
    for s, t in zip(narrow.draw(stream(2, "x")), wide.draw(stream(2, "x")), strict=True):
        for square in (lambda x: x**2, lambda x: np.maximum(x, 0) ** 6, lambda x: np.exp(2 * math.sqrt(d) * x)):
            assert square(s.astype(float)).sum() == pytest.approx(square(t).sum(), rel=1e-5)


@pytest.mark.parametrize("d", [0, -1, 2.5, True])
def test_impossible_widths_are_refused(d):
    with pytest.raises(InputError, match="`d_k` must be a whole number >= 1"):
        SimilarityLaw(d)


# ---------------------------------------------------------------------- σ on blocks


@pytest.mark.parametrize("sigma", [*FAST, *PLAIN], ids=lambda sigma: sigma.formula)
@pytest.mark.parametrize(("dtype", "near"), [(np.float32, 3e-6), (np.float64, 1e-13)])
def test_fast_forms_equal_the_activation_as_written(sigma, dtype, near):
    s = np.linspace(-1, 1, 1001).astype(dtype)
    block = Block().load(s)
    block.power(0.0, 2)  # a shared power that is there already must not change the result
    got = sigma.on(block)
    assert got.dtype == dtype
    np.testing.assert_allclose(got, np.asarray(sigma(s.astype(float))), rtol=near, atol=near * 1e-2)
    np.testing.assert_array_equal(block.s, s)


def test_a_block_forgets_the_powers_of_the_last_one():
    block = Block()
    first = ReLU(2).on(block.load(np.full(5, 0.5))).copy()
    second = ReLU(2).on(block.load(np.full(5, 0.25)))
    assert first.tolist() == [0.25] * 5
    assert second.tolist() == [0.0625] * 5


@pytest.mark.parametrize("cuts", [[0, 40_000], [0, 1, 2, 33_000], [0, *range(5, 40_000, 7)]])
def test_sums_of_squares_between_cuts(cuts):
    w = np.random.default_rng(0).random(40_000, dtype=np.float32) ** 4
    cuts = np.array(cuts)
    want = [np.sum(w[a:b].astype(float) ** 2) for a, b in pairwise(cuts)]
    np.testing.assert_allclose(sums_of_squares(w, cuts, np.empty_like(w)), want, rtol=1e-5)


def test_double_precision_is_taken_where_single_would_underflow():
    assert dtype_for(Exp(8.0), 64) == np.float32
    assert dtype_for(ReLU(3), 64) == np.float32
    assert dtype_for(Exp(90.0), 64) == np.float64
    assert dtype_for(ReLU(60), 64) == np.float64


def test_an_activation_that_gives_nan_is_refused_by_name():
    with pytest.raises(InputError, match="'root' returned NaN"), np.errstate(invalid="ignore"):
        sums_over_pieces({Custom(np.sqrt, "root"): layout_of([100])}, 64, seed=0, streams=2, workers=1)


# ---------------------------------------------------------------------- layouts


@pytest.mark.parametrize(("counts", "length"), [([2, 3, 17], 0), ([2, 5000], 100_000), ([1, 7, 64, 65, 1000], 3000)])
def test_no_number_is_used_twice_within_one_estimate(counts, length):
    layout = layout_of(counts, length=length, most=10_000)
    used = np.arange(layout.cuts[-1], dtype=np.int64)
    for n, count in layout.trials:
        own = layout.sums(np.ones((1, len(layout.cuts) - 1)) * np.diff(layout.cuts))[n]
        assert own.tolist() == [[n - 1] * count]
        assert count * (n - 1) <= used.size
    assert used.size <= max(max(counts) - 1, length)


def test_a_point_of_a_policy_reads_an_eighth_of_the_stream_that_a_curve_reads():
    sampler = tilt.Similarities(length=64, pieces=10_000)
    plan = plan_of(tilt.Similarities, ["softmax"], 8, [10, 80_001], length=64, pieces=10_000)
    assert sampler._layout(plan, {10}).cuts[-1] == 10_000 // 9 * 9
    assert sampler._layout(plan, {10, 80_001}).cuts[-1] == 80_000


def test_sums_over_pieces_equal_the_slow_truth():
    counts, d, streams = [2, 40, 5000, BLOCK + 77, 2 * BLOCK + 501], 64, 3
    sigmas = [Linear(), ReLU(2), Exp(8.0), ReLU(60)]
    layout = layout_of(counts, most=50)
    got = sums_over_pieces(dict.fromkeys(sigmas, layout), d, seed=4, streams=streams, workers=1)
    drawn = []
    for index in range(2):
        law, rng = SimilarityLaw(d), stream(4, "similarities", d, index)
        blocks = [[s.copy() for s in law.draw(rng)] for _ in range(3)]
        drawn += [np.concatenate([pair[i] for pair in blocks]).astype(float) for i in range(2)]
    for sigma in sigmas:
        squares = [np.asarray(sigma(s)) ** 2 for s in drawn[:streams]]
        for n, count in layout.trials:
            want = [one[i * (n - 1) : (i + 1) * (n - 1)].sum() for one in squares for i in range(count)]
            np.testing.assert_allclose(got[sigma, n], want, rtol=2e-5)


def test_a_large_sum_beside_a_small_one_does_not_swallow_it():
    layout = layout_of([2, 3], length=2)
    found = layout.sums(np.array([[1e30, 1.0]]))
    assert (found[2].tolist(), found[3].tolist()) == ([[1e30, 1.0]], [[1e30]])


# ---------------------------------------------------------------------- importance sampling


@pytest.mark.parametrize(("d", "beta"), [(2, 8.0), (3, 30.0), (64, 25.0), (512, math.sqrt(512))])
def test_tilted_draws_are_unbiased(d, beta):
    # Mean of 400 trials within 4 standard errors: errs with probability 6e-5 each.
    found = tilted_mean_squares(Exp(beta), d, seed=9, trials=400)
    want = theory.ratio(Exp(beta), d, 2).value ** 2
    assert abs(found.mean() - want) < 4 * found.std() / 20
    assert found.std() / 20 < 2e-3 * want


def test_the_weights_of_moved_similarities_average_to_one():
    d, moved = 64, tilt.Tilt(0.3, 0.0, 0.0)
    s = SimilarityLaw(d, np.float64, size=1 << 17).draw(stream(3, "moved"))[0]
    s = (s + moved.c) / (1 + moved.c * s)
    weights = np.exp(moved.log_weight(s, d))
    assert abs(weights.mean() - 1) < 4 * weights.std() / math.sqrt(len(s))


@pytest.mark.parametrize("sigma", [Exp(25.0), ReLU(3), SwiGLU()], ids=lambda sigma: sigma.formula)
def test_the_tilt_spreads_no_more_than_plain_draws(sigma):
    found = tilt_for(sigma, 64)
    assert found.spread <= found.tail * (1 + 1e-9)
    s = SimilarityLaw(64, np.float64, size=1 << 19).draw(stream(5, "tail"))[0]
    if found.tail < 100:
        w = np.asarray(sigma(s)) ** 2
        assert found.tail == pytest.approx(np.mean(w**2) / np.mean(w) ** 2, rel=0.15)


def test_tails_decide_who_is_tilted():
    assert carried_by_few(Exp(25.0), 64, 2**21)
    assert not carried_by_few(Exp(8.0), 64, 2**21)
    assert carried_by_few(Exp(8.0), 64, 100)
    assert not carried_by_few(Exp(8.0), 64, 100, trials=6400)
    assert not carried_by_few(Linear(), 64, 1)


def test_a_sharp_store_is_measured_at_two_million_by_tilted_draws():
    (row,) = similarity_curves([("sharp", SoftmaxAttention(25.0))], 64, [2**21], seed=2, workers=1)
    assert row["sampler"] == "similarities, tilted"
    assert row["low"] < row["theory"] < row["high"]
    assert row["high"] / row["low"] < 1.005


# ---------------------------------------------------------------------- curves


def test_curves_meet_theory_at_every_m():
    # 4 stores x 4 M, each within 4.5 standard errors: errs with probability 1e-4.
    rows = similarity_curves(BOX, 64, [16, 65, 2048, 40_000], streams=40, seed=3)
    assert len(rows) == 16
    for row in rows:
        error = (row["high"] - row["low"]) / 3.9
        assert abs(row["value"] - row["theory"]) < 4.5 * error + 1e-12
        assert row["n_trials"] >= 40
        assert row["low"] < row["value"] < row["high"]


def test_policies_are_another_activation_at_every_m():
    stores = [("su", SoftmaxAttention(LogN())), ("yarn", SoftmaxAttention(YaRN())), ("flat", SoftmaxAttention(8.0))]
    rows = similarity_curves(stores, 64, [1024, 2**16], streams=20, seed=1)
    beta = {(r["label"], r["n_memories"]): r["beta"] for r in rows}
    assert beta["su", 1024] == beta["yarn", 1024] == beta["flat", 2**16] == 8.0
    assert beta["yarn", 2**16] > beta["su", 2**16] > 8
    for row in rows:
        assert row["value"] == pytest.approx(row["theory"], rel=0.03)
    values = {(r["label"], r["n_memories"]): r["value"] for r in rows}
    assert values["yarn", 2**16] == pytest.approx(0.0010554, rel=0.03)


def test_one_memory_meets_no_interference():
    (row,) = similarity_curves(["outer-product"], 64, [1], streams=2, workers=1)
    assert row["value"] == 0.0


def test_a_noisy_query_weakens_the_signal_alone():
    plain, noisy = similarity_curves(["squared-relu"], 64, [500], streams=4, cosines=(1.0, 0.6), workers=1)
    assert noisy["value"] == pytest.approx(plain["value"] / 0.6**2, rel=1e-12)
    (lost,) = similarity_curves(["squared-relu"], 64, [500], streams=4, cosines=(-0.5,), workers=1)
    assert lost["value"] == math.inf
    assert lost["theory"] is None


def test_the_reading_by_vectors_draws_gaussian_values():
    rows = similarity_curves(
        ["outer-product"], 64, [400, 25_600], streams=50, estimators=("weights", "vectors"), d_v=10, seed=5, workers=1
    )
    weights, vectors = (row["value"] for row in rows[:2])
    # E chi2(10) E 1/chi2(10) = 10/8; 3200 trials, scatter of the quotient 0.97.
    assert (vectors / weights) ** 2 == pytest.approx(1.25, abs=4 * 0.97 / math.sqrt(3200))
    assert [row["d_v"] for row in rows] == [None, 10] * 2


def test_medians_are_drawn_plainly_and_lie_below_the_rms_of_a_heavy_tail():
    rms, median = similarity_curves(
        [("sharp", SoftmaxAttention(16.0))], 64, [1000], streams=100, statistics=("rms", "median"), workers=1
    )
    assert rms["sampler"] == "similarities, tilted"
    assert median["sampler"] == "similarities"
    assert median["value"] < rms["value"]
    assert median["theory"] is None


def test_any_activation_can_be_drawn_and_equals_its_fast_form():
    stores = [("cube", MLP(Custom(cube, "cube"))), ("fast", MLP(ReLU(3)))]
    cubed, fast = similarity_curves(stores, 64, [3000], streams=6, workers=1)
    assert cubed["value"] == pytest.approx(fast["value"] * math.sqrt(2), rel=0.05)


def test_results_do_not_depend_on_the_number_of_workers():
    settings = {"streams": 7, "seed": 6}
    alone = similarity_curves(BOX, 64, [16, 3000], workers=1, **settings)
    assert similarity_curves(BOX, 64, [16, 3000], workers=3, **settings) == alone
    with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("spawn")) as pool:
        assert similarity_curves(BOX, 64, [16, 3000], workers=pool, **settings) == alone


def test_a_curve_does_not_change_when_a_store_is_added():
    alone = similarity_curves(["outer-product"], 64, [100, 3000], streams=4, workers=1)
    assert similarity_curves(["outer-product", "swiglu"], 64, [100, 3000], streams=4, workers=1)[:2] == alone


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"stores": ["optimal-linear"]}, "not of the form"),
        ({"memories": []}, "`memories` must be"),
        ({"memories": [0]}, "`memories` must be"),
        ({"streams": 0}, "`streams` and `pieces`"),
        ({"estimators": ("projection",)}, "`estimators` must be among"),
        ({"stores": ["relu", "relu"]}, "two stores are labelled 'relu'"),
        ({"stores": [3]}, "a store must be given by its key"),
        ({"memories": [2**30], "statistics": ("median",)}, "only the rms can be measured beyond"),
    ],
)
def test_plans_that_cannot_be_are_refused(settings, words):
    given = {"stores": ["relu"], "d_k": 64, "memories": [10]} | settings
    with pytest.raises(InputError, match=words):
        similarity_curves(given.pop("stores"), given.pop("d_k"), given.pop("memories"), workers=1, **given)


def test_beyond_four_million_the_mean_square_stands_for_the_sum():
    (row,) = similarity_curves(["cubed-relu"], 64, [10**12], streams=30, workers=1)
    assert row["sampler"] == TILTED
    assert row["low"] < row["theory"] < row["high"]


def test_labelled_stores_know_their_sharpness():
    assert labelled("softmax").beta(64, 100) == 8.0
    assert labelled("outer-product").beta(64, 100) is None
    assert labelled(("su", SoftmaxAttention(LogN()))).changes_with_n(64)
    assert not labelled("softmax").changes_with_n(64)


def test_labelled_stores_find_their_key():
    assert labelled(("sharp", SoftmaxAttention(3.0))).key == "softmax"
    assert labelled(SoftmaxAttention(3.0)).label == "SoftmaxAttention"
    assert labelled(MLP(ReLU(2))).key == "squared-relu"
    assert labelled(MLP(ReLU(2.5))).key == "MLP"


@pytest.mark.slow
@pytest.mark.parametrize("beta", [4.0, 25.0])
def test_intervals_cover(beta):
    # 300 seeds, plain draws at beta 4 and tilted ones at beta 25: the share of intervals that hold the exact value lies
    # in 92-98 %; for a true coverage of 95 % the test errs with probability 0.02.
    store, hits = ("store", SoftmaxAttention(beta)), []
    for seed in range(300):
        plan = plan_of(Similarities, [store], 64, [2001], seed=seed, streams=20)
        (estimate,) = (trials.estimate(seed) for trials in plan.sampler.draw(plan, 1, None))
        hits.append(estimate.low < theory.ratio(Exp(beta), 64, 2001).value < estimate.high)
    assert 0.92 <= np.mean(hits) <= 0.98


@pytest.mark.parametrize(
    ("d", "sigma"),
    [
        (2, Exp(1e8)), (2, Exp(3e6)), (3, Exp(1e10)), (7, Exp(1e9)), (64, Exp(1e9)), (7, Exp(1e11)),
        (2, ReLU(bias=-0.9999999)), (4, ReLU(bias=-0.99999999)), (2, ReLU(power=3e6)),
    ],
)  # fmt: skip
def test_very_sharp_functions_are_measured_as_theory_has_them(d, sigma):
    squares = tilted_mean_squares(sigma, d, seed=3, trials=32)
    log = 2 * theory.ratio(sigma, d, 2).log_value + 2 * np.log(float(np.asarray(sigma(np.array([1.0])))[0]))
    share = squares / np.exp(log)
    error = share.std(ddof=1) / np.sqrt(len(share))
    assert abs(share.mean() - 1) < 5 * error  # fails by chance once in 40,000 (t law of 31 degrees), nine cases
    assert error < 0.02
    assert carried_by_few(sigma, d, 10**6, 10**6)


def test_a_function_too_sharp_for_doubles_is_refused_in_words():
    with pytest.raises(InputError, match="too sharp to be measured"):
        tilted_mean_squares(Exp(1e14), 3, seed=0, trials=2)


@pytest.mark.parametrize("statistic", ["median", "mean"])
def test_other_statistics_of_very_sharp_functions_are_read_from_doubles(statistic):
    n, beta, trials = 40_000, 1e8, 400
    rows = similarity_curves([("sharp", SoftmaxAttention(beta))], 2, [n], streams=trials, statistics=(statistic,))
    angles = stream(0, "angles").uniform(0, 2 * np.pi, (trials, n - 1))
    ratios = np.sqrt(np.exp(-4 * beta * np.sin(angles / 2) ** 2).sum(axis=1))
    want = np.median(ratios) if statistic == "median" else ratios.mean()
    # Both carry errors of sampling, about 0.03 of each; in float32 the ratio would be near 1.9.
    assert rows[0]["value"] == pytest.approx(want, abs=0.2)


@pytest.mark.parametrize("sigma", [Exp(2.0), ReLU(), Linear()], ids=str)
def test_theory_says_how_far_one_trial_is_off(sigma) -> None:
    d, n, trials = 24, 50, 4000
    s = SimilarityLaw(d, np.float64, size=(n - 1) * trials).draw(stream(4, "one trial"))[0].reshape(trials, n - 1)
    sums = np.sum(np.asarray(sigma(s)) ** 2, axis=1)
    found, expected = float(sums.std() / sums.mean()), theory.trial_deviation(sigma, d, n)
    # Four standard errors of a standard deviation are 0.045 where sums are normal; these have heavier tails.
    assert abs(found / expected - 1) < 0.06
    assert abs(found / math.hypot(expected, (n - 1) ** -0.5) - 1) > 0.07  # E σ^4 without its mean squared
    assert theory.trial_deviation(sigma, d, 4 * n - 3) == pytest.approx(expected / 2)
