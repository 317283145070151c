"""The ruler: estimators, recall weights, estimates, capacity, choice, information, held to slow truths."""

import math

import numpy as np
import pytest

import assocmem
from assocmem import Pairs, ruler, stores
from assocmem.contract.errors import InputError, NonFiniteError
from assocmem.contract.estimate import Estimate
from assocmem.contract.numbers import stream
from assocmem.inputs import draw_pairs, unit_rows
from assocmem.ruler.capacity import _dependence
from assocmem.stores.outer import OuterProduct

RNG = np.random.default_rng(11)


def slow_ratio(weights, target):
    return math.sqrt(sum(w * w for i, w in enumerate(weights) if i != target)) / abs(weights[target])


# ---------------------------------------------------------------- estimators of the ratio


def test_by_weights_is_the_definition():
    weights = RNG.standard_normal((3, 4, 9))
    targets = [8, 0, 0, 5]
    slow = [[slow_ratio(weights[b, q], targets[q]) for q in range(4)] for b in range(3)]
    np.testing.assert_allclose(ruler.by_weights(weights, targets), slow, rtol=1e-13)


def test_by_weights_in_blocks_equals_in_one_piece(monkeypatch):
    weights, targets = RNG.standard_normal((2, 7, 9)), RNG.integers(0, 9, 7)
    whole = ruler.by_weights(weights, targets)
    monkeypatch.setattr("assocmem.ruler.ratio._BLOCK", 20)
    np.testing.assert_array_equal(ruler.by_weights(weights, targets), whole)


@pytest.mark.parametrize("scale", [1e-200, 1.0, 1e200])
def test_the_ratio_does_not_depend_on_the_scale(scale):
    weights = np.array([[3.0, 4.0, 12.0]]) * scale
    np.testing.assert_allclose(ruler.by_weights(weights, [0]), math.sqrt(160) / 3, rtol=1e-14)


def test_small_interference_beside_a_large_signal_keeps_its_digits():
    assert ruler.by_weights(np.array([[1.0, 1e-12]]), [0])[0] == pytest.approx(1e-12, rel=1e-14)


def test_no_signal_is_infinite_and_no_interference_zero():
    found = ruler.by_weights(np.array([[0.0, 2.0], [0.0, 0.0], [5.0, 0.0]]), [0, 0, 0])
    assert found.tolist() == [math.inf, math.inf, 0.0]
    assert ruler.by_weights(np.array([[2.0]]), [0]).tolist() == [0.0]
    assert ruler.by_weights(np.zeros((0, 5)), []).shape == (0,)


def test_by_channel_weights_reduces_to_by_weights_and_is_the_definition():
    weights = RNG.standard_normal((4, 9))
    same = np.repeat(weights[:, :, None], 5, axis=2)
    np.testing.assert_allclose(ruler.by_channel_weights(same, [1, 2, 3, 8]), ruler.by_weights(weights, [1, 2, 3, 8]))
    own = RNG.standard_normal((2, 3, 2))
    slow = [
        math.sqrt(sum(own[q, i, c] ** 2 for i in range(3) if i != t for c in range(2)))
        / math.sqrt(sum(own[q, t, c] ** 2 for c in range(2)))
        for q, t in enumerate([2, 0])
    ]
    np.testing.assert_allclose(ruler.by_channel_weights(own, [2, 0]), slow, rtol=1e-13)


def test_by_vectors_is_the_definition():
    recalls, values, own = RNG.standard_normal((4, 6)), RNG.standard_normal((4, 6)), RNG.standard_normal(4)
    slow = [
        np.linalg.norm(f - a * v) / (abs(a) * np.linalg.norm(v)) for f, v, a in zip(recalls, values, own, strict=True)
    ]
    np.testing.assert_allclose(ruler.by_vectors(recalls, values, own), slow, rtol=1e-13)
    offset = RNG.standard_normal((4, 6))
    shifted = ruler.by_vectors(recalls + offset, values, own, zero_recall=offset)
    np.testing.assert_allclose(shifted, slow, rtol=1e-12)
    channels = np.repeat(own[:, None], 6, axis=1)
    np.testing.assert_allclose(ruler.by_vectors(recalls, values, channels), slow, rtol=1e-13)
    batched = ruler.by_vectors(np.stack([recalls, -recalls]), values, np.stack([own, -own]))
    np.testing.assert_allclose(batched, [slow, slow], rtol=1e-13)


def test_weights_and_vectors_have_the_same_mean_square_over_random_values():
    # Outer product at d_k = 16, M = 40: the keys stay, the values are drawn 1500 times.
    keys, m, d_v = unit_rows(stream(0, "k"), 40, 16), 40, 8
    store, target = OuterProduct(), 7
    weights = keys @ keys[target]
    by_weights = ruler.by_weights(weights[None], [target])[0]
    squares = []
    for i in range(1500):
        values = unit_rows(stream(0, "v", i), m, d_v)
        state = store.write(store.empty(16, d_v), keys, values)
        recall = store.recall(state, keys[target][None])
        squares.append(ruler.by_vectors(recall, values[target][None], np.ones(1))[0] ** 2)
    error = np.std(squares) / math.sqrt(len(squares))
    assert error < 0.03 * by_weights**2
    assert abs(np.mean(squares) - by_weights**2) < 4 * error


def test_projection_agrees_far_below_one_and_parts_company_above():
    d_v = 64
    found = {}
    for m in (4, 16384):
        pairs = draw_pairs(0, 0, m, 64, d_v)
        store = OuterProduct()
        targets = np.arange(min(m, 200))
        recalls = store.recall(store.write(store.empty(64, d_v), pairs.keys, pairs.values), pairs.keys[targets])
        found[m] = (
            np.median(ruler.by_vectors(recalls, pairs.values[targets], np.ones(targets.size))),
            np.median(ruler.by_projection(recalls, pairs.values[targets])),
        )
    assert found[4][1] == pytest.approx(found[4][0], rel=0.05)
    assert found[16384][0] == pytest.approx(16, rel=0.05)
    assert found[16384][1] == pytest.approx(10, rel=0.15)


def test_projection_is_the_definition():
    recalls, values = RNG.standard_normal((3, 5)), RNG.standard_normal((3, 5))
    c = np.sum(recalls * values, axis=1) / np.sum(values**2, axis=1)
    rest = recalls - c[:, None] * values
    slow = np.linalg.norm(rest, axis=1) / (abs(c) * np.linalg.norm(values, axis=1))
    np.testing.assert_allclose(ruler.by_projection(recalls, values), slow, rtol=1e-13)
    assert ruler.by_projection([[0.0, 1.0]], [[2.0, 0.0]]).tolist() == [math.inf]


def test_estimators_take_torch_and_half_precision():
    torch = pytest.importorskip("torch")
    weights = RNG.standard_normal((2, 5))
    truth = ruler.by_weights(weights, [0, 4])
    gradient = torch.tensor(weights, requires_grad=True)
    np.testing.assert_allclose(ruler.by_weights(gradient, torch.tensor([0, 4])), truth)
    half = ruler.by_weights(torch.tensor(weights).to(torch.bfloat16), [0, 4])
    np.testing.assert_allclose(half, truth, rtol=0.02)


# ---------------------------------------------------------------- recall weights of every registered store

KEYS = tuple(key for key in stores.names() if assocmem.make_store(key).traits.keys in ("any", "unit"))


def drawn(store, n=9, d=6):
    pairs = draw_pairs(4, 0, n, d, d)
    extras = {}
    for extra in store.traits.extras:
        if extra.default is None:
            shape = tuple({"n": n, "d_k": d, "d_v": d}.get(axis, axis) for axis in extra.shape)
            extras[extra.name] = np.clip(stream(4, extra.name).uniform(0.3, 0.8, shape), extra.low, extra.high)
    return Pairs(pairs.keys, pairs.values, pairs.law, extras)


def recalled(store, pairs, values):
    d = pairs.keys.shape[-1]
    return store.recall(store.write(store.empty(d, d), pairs.keys, values, **pairs.extras), pairs.keys)


@pytest.mark.parametrize("key", KEYS)
def test_weights_rebuild_the_recall_and_own_weights_are_their_diagonal(key):
    store = assocmem.make_store(key)
    pairs = drawn(store)
    if store.traits.linear_in_values == "no":
        for read in (ruler.recall_weights, lambda s, p, q: ruler.own_weights(s, p, q, range(9))):
            with pytest.raises(InputError, match="not linear in its values"):
                read(store, pairs, pairs.keys)
        return
    weights = ruler.recall_weights(store, pairs, pairs.keys, by="one-hot", block=4)
    equation = "mnc,nc->mc" if weights.ndim == 3 else "mn,nc->mc"
    rebuilt = np.einsum(equation, weights, pairs.values)
    if store.traits.affine:
        rebuilt = rebuilt + recalled(store, pairs, 0 * pairs.values)
    full = recalled(store, pairs, pairs.values)
    scale = abs(full).max()
    np.testing.assert_allclose(rebuilt, full, atol=1e-12 * scale)
    top = abs(weights).max()
    np.testing.assert_allclose(ruler.recall_weights(store, pairs, pairs.keys), weights, atol=1e-12 * top)
    targets = [3, 0, 3, 8]
    diagonal = weights[targets, targets]
    queries = pairs.keys[targets]
    np.testing.assert_allclose(ruler.own_weights(store, pairs, queries, targets), diagonal, atol=1e-12 * top)
    recalls, own, zero = ruler.recall_with_own_weights(store, pairs, queries, targets)
    np.testing.assert_allclose(recalls, full[targets], atol=1e-12 * scale)
    np.testing.assert_allclose(own, diagonal, atol=1e-12 * top)
    assert (zero is not None) == store.traits.affine


def test_affine_stores_and_stores_of_one_width_are_read_too():
    from assocmem.stores.ttt import TTTLinear

    store = TTTLinear(residual=True, mini_batch=4)  # only d_k = d_v, and recalls x of an empty memory
    assert store.traits.affine
    pairs = drawn(store)
    weights = ruler.recall_weights(store, pairs, pairs.keys)
    zero = recalled(store, pairs, 0 * pairs.values)
    assert abs(zero).max() > 0.1
    np.testing.assert_allclose(weights @ pairs.values + zero, recalled(store, pairs, pairs.values), atol=1e-12)
    targets = np.arange(9)
    recalls, own, given = ruler.recall_with_own_weights(store, pairs, pairs.keys, targets)
    np.testing.assert_allclose(own, np.diagonal(weights), atol=1e-12)
    np.testing.assert_allclose(given, zero, atol=1e-12)
    signal = ruler.by_vectors(recalls, pairs.values, own, zero_recall=given) * abs(own)
    direct = np.linalg.norm(weights @ pairs.values - own[:, None] * pairs.values, axis=1)
    np.testing.assert_allclose(signal, direct / np.linalg.norm(pairs.values, axis=1), rtol=1e-9, atol=1e-13)


def test_own_weights_in_blocks_keep_their_order(monkeypatch):
    pairs = drawn(OuterProduct(), n=20)
    targets = stream(0, "t").integers(0, 20, 30)
    queries = unit_rows(stream(0, "q"), 30, 6)
    truth = np.sum(queries * pairs.keys[targets], axis=1)
    monkeypatch.setattr("assocmem.ruler.weights._BLOCK", 150)
    recalls, own, _ = ruler.recall_with_own_weights(OuterProduct(), pairs, queries, targets)
    np.testing.assert_allclose(own, truth, atol=1e-14)
    np.testing.assert_allclose(recalls, queries @ pairs.keys.T @ pairs.values, atol=1e-14)


def test_own_weights_of_own_rows_of_weights_by_channel():
    store = assocmem.make_store("mamba")
    pairs = drawn(store)
    recalls, own, _ = ruler.recall_with_own_weights(store, pairs, pairs.keys, np.arange(9))
    assert own.shape == (9, 6)
    weights = ruler.recall_weights(store, pairs, pairs.keys)
    assert abs(weights[..., 0] - weights[..., 5]).max() > 1e-6 * abs(weights).max()
    by_vectors = ruler.by_vectors(recalls, pairs.values, own)
    interference = np.einsum("mnc,nc->mc", weights * (1 - np.eye(9))[:, :, None], pairs.values)
    signal = np.einsum("mmc,mc->mc", weights, pairs.values)
    direct = np.linalg.norm(interference, axis=1) / np.linalg.norm(signal, axis=1)
    np.testing.assert_allclose(by_vectors, direct, rtol=1e-9)


def test_batches_and_array_libraries_are_read():
    keys = unit_rows(stream(0, "b"), 10, 4).reshape(2, 5, 4)
    values = RNG.standard_normal((2, 5, 3))
    weights = ruler.recall_weights(OuterProduct(), Pairs(keys, values), keys, block=2)
    np.testing.assert_allclose(weights, keys @ np.swapaxes(keys, 1, 2), atol=1e-14)
    own = ruler.own_weights(OuterProduct(), Pairs(keys, values), keys, np.arange(5))
    np.testing.assert_allclose(own, np.ones((2, 5)), atol=1e-14)
    torch = pytest.importorskip("torch")
    there = Pairs(torch.from_numpy(keys), torch.from_numpy(values))
    got = ruler.recall_weights(OuterProduct(), there, there.keys)
    assert type(got) is np.ndarray
    np.testing.assert_allclose(got, weights, atol=1e-14)
    np.testing.assert_allclose(ruler.own_weights(OuterProduct(), there, there.keys, np.arange(5)), own, atol=1e-14)


def test_half_precision_values_do_not_round_the_weights():
    keys = unit_rows(stream(0, "h"), 5, 4).astype(np.float16)
    pairs = Pairs(keys, np.ones((5, 2), dtype=np.float16))
    truth = keys.astype(np.float64) @ keys.T.astype(np.float64)
    np.testing.assert_allclose(ruler.recall_weights(OuterProduct(), pairs, keys), truth, rtol=1e-5, atol=1e-6)


def test_no_pairs_and_no_queries():
    nothing = Pairs(np.zeros((0, 4)), np.zeros((0, 3)))
    assert ruler.recall_weights(OuterProduct(), nothing, np.eye(4)).shape == (4, 0)
    pairs = draw_pairs(0, 0, 5, 4, 3)
    assert ruler.recall_weights(OuterProduct(), pairs, np.zeros((0, 4))).shape == (0, 5)
    assert ruler.own_weights(OuterProduct(), pairs, np.zeros((0, 4)), []).shape == (0,)


# ---------------------------------------------------------------- estimates and definitions


def test_statistics_are_what_they_say():
    numbers = [0.5, 1.5, 2.0, 4.0]
    assert ruler.summarise(numbers, "rms").value == pytest.approx(math.sqrt(np.mean(np.square(numbers))))
    assert ruler.summarise(numbers, "mean").value == pytest.approx(2.0)
    assert ruler.summarise(numbers, "median").value == pytest.approx(1.75)
    assert ruler.summarise([1e300, 2e300], "rms").value == pytest.approx(math.sqrt(2.5) * 1e300)


def test_targets_of_one_trial_become_one_number():
    table = RNG.uniform(0.1, 2, (7, 40))
    for statistic, rule in (("mean", np.mean), ("median", np.median), ("rms", lambda x: np.sqrt(np.mean(x * x)))):
        inner = [rule(row) for row in table]
        whole, single = ruler.summarise(table, statistic), ruler.summarise(inner, statistic)
        assert whole.n_trials == 7
        assert whole.value == pytest.approx(single.value)
        assert whole.low == pytest.approx(single.low, rel=1e-12)


@pytest.mark.parametrize("statistic", ["rms", "mean", "median"])
def test_no_trial_and_one_trial_have_no_interval(statistic):
    none = ruler.summarise([], statistic)
    assert (none.value, none.low, none.high, none.n_trials) == (None, None, None, 0)
    assert "no trials" in none.reason
    one = ruler.summarise([0.7], statistic)
    assert one.value == pytest.approx(0.7)
    assert (one.low, one.high) == (None, None)
    assert "two trials" in one.reason
    two = ruler.summarise([0.7, 0.8], statistic)
    assert (two.low is None) == (statistic == "median")


def test_the_median_s_interval_needs_six_trials():
    five = ruler.summarise([1.0, 2, 3, 4, 5], "median")
    assert five.low is None
    assert "needs more trials than 5" in five.reason
    assert ruler.summarise([1.0, 2, 3, 4, 5, 6], "median").low is not None


def test_an_infinite_ratio_is_said_so():
    found = ruler.summarise([0.5, math.inf, 0.6], "rms")
    assert found.value == math.inf
    assert found.low is None
    assert "no weight in 1 of 3 trials" in found.reason
    middle = ruler.summarise([0.5] * 8 + [math.inf], "median")
    assert middle.value == 0.5
    assert middle.high == 0.5
    assert ruler.summarise([0.5, 0.6, 0.7, 0.8, math.inf, math.inf], "median").high is None


def test_an_estimate_carries_what_repeats_it():
    found = ruler.summarise([0.9, 1.1], "rms", estimator="vectors", seed=5, sampler="keys")
    assert (found.seed, found.sampler, found.statistic, found.level) == (5, "keys", "rms", 0.95)
    assert found.definition.startswith("root mean square over trials of the interference-to-signal ratio by vectors")
    assert "Hall" in found.method
    narrow = ruler.summarise([0.9, 1.1, 1.0], "mean", level=0.5)
    wide = ruler.summarise([0.9, 1.1, 1.0], "mean", level=0.99)
    assert wide.low < narrow.low < narrow.high < wide.high


def test_two_definitions_are_not_put_together():
    rms = ruler.summarise([1.0, 1.1], "rms")
    again = ruler.summarise([2.0, 2.1], "rms", seed=9)
    assert ruler.same_definition([rms, again]) == rms.definition
    others = [
        ruler.summarise([1.0, 1.1], "mean"),
        ruler.summarise([1.0, 1.1], "rms", estimator="vectors"),
        ruler.retrieval_capacity([10, 20], [[1.0, 0.5]] * 3, recalls_per_trial=10),
    ]
    for other in others:
        with pytest.raises(InputError, match="different definitions"):
            ruler.same_definition([rms, other])
    with pytest.raises(InputError, match="different definitions"):
        ruler.crossing_of_curve([1, 2], [rms, others[0]])
    with pytest.raises(InputError, match="no results"):
        ruler.same_definition([])


def test_importance_sampling_gives_the_value_of_plain_sampling():
    # Weights w = e^(beta s), s ~ N(0, 1/d): E w^2 = e^(2 beta^2 / d); tilting shifts the mean of s by 2 beta / d.
    d, beta, m, generator = 64, 20.0, 1000, stream(0, "tilt")
    tilted = generator.normal(2 * beta / d, d**-0.5, (40, m))
    likelihood = np.exp(-2 * beta * tilted + 2 * beta**2 / d)
    found = ruler.summarise(np.sqrt(m * np.mean(np.exp(2 * beta * tilted) * likelihood, axis=1)))
    assert found.value == pytest.approx(math.sqrt(m) * math.exp(beta**2 / d), rel=1e-6)
    plain = np.exp(2 * beta * generator.normal(0, d**-0.5, m))
    assert np.mean(plain**2) / (m * np.mean(plain) ** 2) > 0.1


# ---------------------------------------------------------------- capacity

SPREAD = np.array([0.98, 1.0, 1.02, 1.01, 0.99])[:, None]


def power_curve(memories, slope=0.5, at=100.0):
    # The M - 1 others make the ratio: sqrt((M - 1)/99) passes 1 at M = 100.
    return ((np.asarray(memories) - 1) / (at - 1)) ** slope


def test_crossing_of_a_power_law_is_exact_between_points():
    memories = [16, 64, 256, 1024]
    ratios = np.ones((5, 1)) * power_curve(memories)
    found = ruler.crossing(memories, ratios)
    assert found.value == pytest.approx(100, rel=1e-12)
    assert found.low == pytest.approx(100, rel=1e-12)
    assert (found.reason, found.note, found.statistic, found.n_trials) == ("", "", "rms", 5)
    assert ruler.crossing(memories, ratios, threshold=0.5).value == pytest.approx(1 + 99 / 4, rel=1e-12)


def test_the_interval_of_the_crossing_is_that_of_the_ratio_turned_round():
    memories = [16, 64, 256, 1024]
    found = ruler.crossing(memories, SPREAD * power_curve(memories))
    ratio = ruler.summarise((SPREAD * 1.0).ravel())
    # A ratio off by a factor c moves the crossing of a curve of slope 1/2 by c^-2.
    assert found.value == pytest.approx(1 + 99 / ratio.value**2)
    assert found.low == pytest.approx(1 + 99 / ratio.high**2, rel=1e-9)
    assert found.high == pytest.approx(1 + 99 / ratio.low**2, rel=1e-9)


@pytest.mark.parametrize("statistic", ["mean", "median"])
def test_errors_of_two_points_are_put_together_with_their_dependence(statistic):
    # Halfway between two points whose errors are independent the curve's error is that of one over sqrt(2).
    signs = np.array([[1, 1], [1, -1], [-1, 1], [-1, -1]] * 4)
    memories, values, noise = [25, 400], np.array([0.5, 2.0]), 0.2
    apart = ruler.crossing(memories, values * np.exp(noise * signs), statistic=statistic)
    together = ruler.crossing(memories, values * np.exp(noise * signs[:, :1]), statistic=statistic)
    points = [ruler.summarise(column, statistic) for column in (values * np.exp(noise * signs)).T]
    lines = ruler.crossing_of_curve(memories, points)
    assert (together.low, together.high) == (pytest.approx(lines.low), pytest.approx(lines.high))
    whole, part = math.log(lines.high / lines.low), math.log(apart.high / apart.low)
    assert part / whole == pytest.approx(1 / math.sqrt(2), rel=0.03)


@pytest.mark.parametrize("statistic", ["rms", "mean", "median"])
def test_the_statistic_of_the_crossing_is_the_one_named(statistic):
    memories = [10, 100, 1000]
    noise = stream(0, "noise").lognormal(0, 0.4, (400, 1))
    found = ruler.crossing(memories, noise * power_curve(memories), statistic=statistic)
    factor = {"rms": math.exp(0.4**2), "mean": math.exp(0.4**2 / 2), "median": 1.0}[statistic]
    assert found.low < 100 / factor**2 < found.high
    assert found.high / found.low < 1.6
    assert found.statistic == statistic


def test_a_curve_that_does_not_cross_says_so():
    found = ruler.crossing([16, 64, 4096], np.ones((3, 1)) * [0.1, 0.2, 0.75])
    assert (found.value, found.low, found.largest_m, found.ratio_there) == (None, None, 4096, 0.75)
    assert found.reason == "not reached below M = 4096; the ratio there is 0.75; raise --max-memories"
    above = ruler.crossing([16, 64], np.ones((3, 1)) * [1.5, 2.0])
    assert above.value is None
    assert above.reason.startswith("already above 1 at the smallest M = 16, where the ratio is 1.5")


def test_limits_beyond_what_was_measured_are_none():
    rising = ruler.crossing([10, 50, 101], SPREAD * power_curve([10, 50, 101]))
    assert rising.value is not None
    assert rising.low is not None
    assert rising.high is None
    short = ruler.crossing([10, 50, 99], SPREAD * power_curve([10, 50, 99]))
    assert short.value is None
    assert "not reached" in short.reason
    assert short.low is not None


def test_exact_zeros_below_the_crossing_are_no_obstacle():
    found = ruler.crossing([32, 64, 128, 256], SPREAD * [0.0, 0.0, 2.0, 3.0])
    assert 64 < found.value < 128
    assert found.low < found.value < found.high
    rounding = ruler.crossing([32, 64, 128, 256], SPREAD * [1e-16, 1e-15, 2.0, 3.0])
    assert rounding.value == pytest.approx(found.value, rel=1e-9)


def test_a_single_trial_has_a_crossing_without_interval():
    found = ruler.crossing([17, 65, 257], [[0.4, 0.8, 1.6]])
    assert found.value == pytest.approx(101, rel=1e-9)
    assert found.note == ""
    assert (found.low, found.high, found.n_trials) == (None, None, 1)


def test_noise_around_the_threshold_takes_the_middle_crossing():
    up_and_down = [0.5, 0.98, 1.02, 0.97, 1.03, 2.0]
    memories = [10, 20, 30, 40, 50, 100]
    noisy = stream(0, "wide").lognormal(0, 0.3, (6, 1)) * up_and_down
    noisy = noisy / ruler.summarise(noisy[:, 0]).value * 0.5  # the measured curve is exactly up_and_down
    found = ruler.crossing(memories, noisy)
    assert 30 < found.value < 40
    assert found.low < found.value < found.high


def test_a_true_dip_below_the_threshold_is_noted_and_the_first_crossing_kept():
    # With noisy queries the optimal store peaks at M = d and recovers.
    found = ruler.crossing([16, 64, 128, 512, 2048], SPREAD * [0.3, 3.0, 0.8, 0.9, 2.0])
    assert 16 < found.value < 64
    assert found.note == "the curve is below the threshold again at M = 128"


def test_a_curve_of_estimates_may_have_different_trials():
    curve = [ruler.summarise(np.full(10, 0.5)), ruler.summarise(np.full(4, 2.0))]
    found = ruler.crossing_of_curve([17, 257], curve)
    assert found.value == pytest.approx(65)
    assert found.n_trials == 4


def test_a_jump_to_infinity_is_no_capacity():
    found = ruler.crossing([1, 2, 3], [[0.0, 0.0, math.inf]] * 4)
    assert (found.value, found.ratio_there) == (None, None)
    assert found.reason.startswith("between 2 and 3: the ratio jumps from 0 at M = 2 to infinity at M = 3")
    assert ruler.crossing([16, 64, 256], [[0.5, 0.9, math.inf]] * 4).reason.startswith("between 64 and 256")
    later = ruler.crossing([17, 65, 257, 900], [[0.5, 0.8, 1.6, math.inf]] * 4)
    assert later.value == pytest.approx(1 + 64 * 1.25**2)


@pytest.mark.parametrize("m", [1.05, 1.5, 2.3, 4.8])
def test_small_capacities_follow_the_sum_of_the_others(m):
    memories = [1, 2, 3, 4, 5, 6]
    found = ruler.crossing(memories, SPREAD * np.sqrt((np.asarray(memories) - 1) / (m - 1)))
    assert found.value == pytest.approx(1 + (m - 1) / np.mean(SPREAD**2), rel=1e-9)
    assert found.low < m < found.high
    assert found.note == ("between 1 and 2 memories: no other memory fits beside the target" if m < 2 else "")


def test_nobody_is_sent_below_two_memories():
    none = ruler.crossing([1, 2], [[math.inf, math.inf]] * 3)
    assert none.reason.endswith("M = 1, where the ratio is infinite: a query may give its own memory no weight")
    assert ruler.crossing([2, 3], SPREAD * [1.5, 2.0]).reason.endswith("no other memory fits")
    assert ruler.crossing([1, 3], SPREAD * [1.5, 2.0]).reason.endswith("not even one memory fits")
    assert ruler.crossing([3, 4], SPREAD * [1.5, 2.0]).reason.endswith("measure smaller M")


def test_an_interval_without_an_end_says_why():
    rising = ruler.crossing([10, 50, 101], SPREAD * power_curve([10, 50, 101]))
    assert rising.note == "the upper end of the interval lies beyond the measured M = 101"
    few = ruler.crossing([16, 256], SPREAD * [0.5, 2.0], statistic="median")
    assert few.low is None
    assert few.note.startswith("the interval is open; M = 16: ")


def test_measured_capacity_of_the_outer_product_is_65():
    # d_k = 64, through write and recall; exact rms capacity M - 1 = d_k.
    store, memories, targets = OuterProduct(), [16, 32, 64, 128, 256], np.arange(16)
    table = []
    for trial in range(30):
        pairs = draw_pairs(7, trial, 256, 64, 4)
        row = []
        for m in memories:
            part = Pairs(pairs.keys[:m], pairs.values[:m])
            weights = ruler.recall_weights(store, part, pairs.keys[targets])
            row.append(np.sqrt(np.mean(ruler.by_weights(weights, targets) ** 2)))
        table.append(row)
    found = ruler.crossing(memories, table, seed=7, sampler="keys")
    assert found.low < 65 < found.high
    assert found.high / found.low < 1.08


# ---------------------------------------------------------------- retrieval


def test_right_recalls_are_the_argmax():
    recalls, candidates = RNG.standard_normal((5, 4)), RNG.standard_normal((7, 4))
    best = np.argmax(recalls @ candidates.T, axis=1)
    assert ruler.top1_right(recalls, candidates, best).all()
    assert not ruler.top1_right(recalls, candidates, (best + 1) % 7).any()


def test_right_recalls_in_blocks_and_batches(monkeypatch):
    recalls, candidates = RNG.standard_normal((2, 5, 4)), RNG.standard_normal((7, 4))
    targets = RNG.integers(0, 7, 5)
    whole = ruler.top1_right(recalls, candidates, targets)
    assert whole.shape == (2, 5)
    monkeypatch.setattr("assocmem.ruler.retrieval._BLOCK", 14)
    np.testing.assert_array_equal(ruler.top1_right(recalls, candidates, targets), whole)
    np.testing.assert_array_equal(whole, np.argmax(recalls @ candidates.T, axis=-1) == targets)


def test_right_recalls_among_candidates_of_each_item(monkeypatch):
    recalls, candidates = RNG.standard_normal((3, 2, 5, 4)), RNG.standard_normal((3, 2, 7, 4))
    targets = RNG.integers(0, 7, (3, 2, 5))
    targets[0] = np.argmax(recalls[0] @ np.swapaxes(candidates[0], -1, -2), axis=-1)
    alone = [
        ruler.top1_right(r, c, t)
        for r, c, t in zip(recalls.reshape(6, 5, 4), candidates.reshape(6, 7, 4), targets.reshape(6, 5), strict=True)
    ]
    for block in (1 << 22, 80, 3):
        monkeypatch.setattr("assocmem.ruler.retrieval._BLOCK", block)
        right = ruler.top1_right(recalls, candidates, targets)
        np.testing.assert_array_equal(right.reshape(6, 5), alone)
        assert right[0].all()
        assert not right.all()
    with pytest.raises(InputError, match=r"shape \(C, d_v=4\) or \(3, 2, C, d_v=4\), C >= 1; got \(2, 7, 4\)"):
        ruler.top1_right(recalls, candidates[0], targets)


@pytest.mark.parametrize(
    ("recalls", "candidates", "right"),
    [((2, 0), (4, 0), [False, False]), ((0, 3), (4, 3), []), ((0, 0), (4, 0), []), ((2, 0, 3), (2, 4, 3), [[], []]),
     ((1, 2, 0), (1, 4, 0), [[False, False]]), ((0, 2, 3), (0, 4, 3), [])],
)  # fmt: skip
def test_recalls_of_nothing_or_by_nothing(recalls, candidates, right):
    found = ruler.top1_right(np.zeros(recalls), np.zeros(candidates), list(range(recalls[-2])))
    assert found.shape == recalls[:-1]
    assert found.tolist() == right


def test_ties_and_negatives_are_not_right():
    assert not ruler.top1_right([[1.0, 0.0]], [[1.0, 0.0], [1.0, 0.0]], [0])[0]
    assert not ruler.top1_right([[-1.0, 0.0]], [[1.0, 0.0], [0.0, 1.0]], [0])[0]
    assert not ruler.top1_right([[0.0, 0.0]], [[1.0, 0.0], [0.0, 1.0]], [0])[0]


def test_retrieval_capacity_names_its_candidates_and_share():
    shares = np.ones((20, 1)) * [1.0, 0.99, 0.9, 0.5]
    found = ruler.retrieval_capacity([10, 100, 1000, 10000], shares, recalls_per_trial=50, candidates=1000)
    assert found.definition.startswith("retrieval capacity (95 % right of C = 1000 candidates)")
    assert 100 < found.value < 1000
    assert found.low < found.value < found.high
    assert found.statistic == "share"
    strict = ruler.retrieval_capacity([10, 100, 1000, 10000], shares, recalls_per_trial=50, share=0.99)
    assert strict.value == pytest.approx(100)
    assert "99 % right of C = M" in strict.definition


def test_retrieval_capacity_not_reached_is_said():
    found = ruler.retrieval_capacity([10, 100], [[1.0, 0.97]] * 3, recalls_per_trial=100)
    assert found.value is None
    assert found.reason == "not reached below M = 100; the share of wrong recalls there is 0.03; raise --max-memories"


def test_retrieval_capacity_is_far_above_that_of_the_vector():
    # A 48 x 48 matrix reads back about 49 clean vectors and picks the right one of far more.
    store, memories, d = OuterProduct(), [8, 16, 32, 64, 128, 256, 512], 48
    vector, right = [], []
    for trial in range(20):
        pairs = draw_pairs(1, trial, 512, d, d, values="sphere")
        state_rows, choice_rows = [], []
        for m in memories:
            keys, values, targets = pairs.keys[:m], pairs.values[:m], np.arange(8)
            recalls = store.recall(store.write(store.empty(d, d), keys, values), keys[targets])
            state_rows.append(np.sqrt(np.mean(ruler.by_vectors(recalls, values[targets], np.ones(8)) ** 2)))
            choice_rows.append(np.mean(ruler.top1_right(recalls, values, targets)))
        vector.append(state_rows)
        right.append(choice_rows)
    clean = ruler.crossing(memories, vector, estimator="vectors")
    choice = ruler.retrieval_capacity(memories, right, recalls_per_trial=8)
    assert clean.value == pytest.approx(49, rel=0.15)
    assert choice.value > 2 * clean.value


# ---------------------------------------------------------------- information


def test_bits_are_the_formula():
    assert ruler.bits_per_recall(0.5, 64).value == pytest.approx(32 * math.log2(5))
    assert ruler.bits_per_state(0.5, 64, 100, 4096).value == pytest.approx(100 * 32 * math.log2(5) / 4096)
    assert ruler.bits_per_recall(1e-200, 2).value == pytest.approx(400 * math.log2(10))
    assert ruler.bits_per_recall(1e200, 2).value == pytest.approx(0, abs=1e-300)
    assert ruler.bits_per_recall(math.inf, 2).value == 0.0


def test_bits_at_ratio_zero_are_none_with_a_reason():
    found = ruler.bits_per_recall(0.0, 64)
    assert found.value is None
    assert "ratio is 0" in found.reason
    assert ruler.bits_per_state(0.0, 64, 10, 100).value is None


def test_bits_carry_the_interval_over_upside_down():
    ratio = ruler.summarise([0.9, 1.1, 1.0, 1.05], "rms")
    bits = ruler.bits_per_recall(ratio, 8)
    assert bits.low == pytest.approx(ruler.bits_per_recall(ratio.high, 8).value)
    assert bits.high == pytest.approx(ruler.bits_per_recall(ratio.low, 8).value)
    assert bits.low < bits.value < bits.high
    assert bits.n_trials == 4
    assert "bits per recall" in bits.definition
    assert "root mean square" in bits.definition
    unmeasured = Estimate(None, None, None, 0, 0, "a ratio", reason="no trials were measured")
    assert ruler.bits_per_recall(unmeasured, 8).reason == "no trials were measured"


def test_a_curve_that_begins_at_infinity_is_above_whatever_follows():
    inf = math.inf
    trials = ([inf, 0.3, 0.4], [inf, 0.2, 0.1], [inf, 0.3, 0.2], [0.7, 0.8, 0.75], [inf, 1.0, 1.0])
    found = ruler.crossing_of_curve([2, 3, 4, 6, 8], [ruler.summarise(one) for one in trials])
    assert (found.value, found.low, found.high) == (None, None, None)
    assert "already above 1 at the smallest M = 2, where the ratio is infinite" in found.reason
    later = ruler.crossing_of_curve([2, 3], [ruler.summarise(trials[3]), ruler.summarise(trials[4])])
    assert "jumps from 0.7511 at M = 2 to infinity at M = 3" in later.reason


def test_the_share_of_the_heaviest_trial_is_told():
    assert ruler.summarise([1.0, 1.0, 1.0, 1.0]).heaviest == pytest.approx(0.25)
    assert ruler.summarise([3.0, 1.0]).heaviest == pytest.approx(0.9)
    assert ruler.summarise([3.0, 1.0], "mean").heaviest == pytest.approx(0.75)
    assert ruler.summarise([3.0, 1.0, 2.0], "median").heaviest is None
    assert ruler.summarise([0.0, 0.0]).heaviest == 0


# ---------------------------------------------------------------- what is refused

PAIRS, ONES = draw_pairs(0, 0, 5, 4, 3), np.ones((3, 2))
REFUSED = [
    (ruler.by_weights, [np.ones(4), [0]], {}, "at least 2 axes"),
    (ruler.by_weights, [np.ones((2, 4)), [0]], {}, "2 whole numbers"),
    (ruler.by_weights, [np.ones((1, 4)), [4]], {}, r"\[0, 4\)"),
    (ruler.by_weights, [np.ones((1, 4)), [-1]], {}, r"\[0, 4\)"),
    (ruler.by_weights, [np.ones((1, 4)), [0.5]], {}, "whole numbers"),
    (ruler.by_weights, [np.array([[1.0], [np.nan]]), [0, 0]], {}, "row 1 holds"),
    (ruler.by_weights, [np.array([["a"]]), [0]], {}, "real numbers"),
    (ruler.by_vectors, [np.ones((2, 3)), np.ones((2, 4)), np.ones(2)], {}, "target_values"),
    (ruler.by_vectors, [np.ones((2, 3)), np.ones((2, 3)), np.ones(3)], {}, "own_weights"),
    (ruler.by_projection, [np.ones((2, 3)), np.array([[1.0, 0, 0], [0, 0, 0]])], {}, "row 1 is zero"),
    (ruler.recall_weights, [OuterProduct(), PAIRS, PAIRS.keys], {"by": "magic"}, "`by` must be"),
    (ruler.recall_weights, [OuterProduct(), PAIRS, PAIRS.keys], {"by": "store"}, "no weights of its own"),
    (ruler.recall_weights, [OuterProduct(), Pairs(np.eye(4), ONES), np.eye(4)], {}, "same leading axes"),
    (ruler.own_weights, [OuterProduct(), PAIRS, PAIRS.keys, [0, 1]], {}, "`targets`"),
    (ruler.summarise, [[0.5, -0.1]], {}, "trial 1 is negative"),
    (ruler.summarise, [[0.5, math.nan]], {}, "trial 1 is negative or NaN"),
    (ruler.summarise, [[[[1.0]]]], {}, "shape"),
    (ruler.summarise, [np.zeros((3, 0))], {}, "at least one target"),
    (ruler.summarise, [[1.0]], {"statistic": "mode"}, "`statistic`"),
    (ruler.summarise, [[1.0]], {"estimator": "tea leaves"}, "`estimator`"),
    (ruler.summarise, [[1.0]], {"estimator": "projection", "statistic": "mean"}, "median only"),
    (ruler.summarise, [[1.0]], {"level": 1.0}, "`level`"),
    (ruler.crossing, [[], np.zeros((3, 0))], {}, "at least one number"),
    (ruler.crossing, [[10, 10], ONES], {}, "increasing"),
    (ruler.crossing, [[0, 10], ONES], {}, "at least 1"),
    (ruler.crossing, [[10, 20], np.ones((3, 3))], {}, "one column for each M; got"),
    (ruler.crossing, [[10, 20], ONES], {"threshold": 0}, "`threshold`"),
    (ruler.crossing, [[10, 20], ONES], {"threshold": math.inf}, "`threshold`"),
    (ruler.crossing, [[10, 20], np.zeros((0, 2))], {}, "without a measurement: 10"),
    (ruler.top1_right, [np.ones((2, 3)), np.ones((4, 2)), [0, 0]], {}, "`candidates`"),
    (ruler.top1_right, [np.ones((2, 3)), np.ones((4, 3)), [0, 4]], {}, "`targets`"),
    (ruler.retrieval_capacity, [[1, 2], [[1.0, 1.2]]], {"recalls_per_trial": 5}, "shares"),
    (ruler.retrieval_capacity, [[1, 2], [[1.0, 0.5]]], {"recalls_per_trial": 0}, "`recalls_per_trial`"),
    (ruler.retrieval_capacity, [[1, 2], [[1.0, 0.5]]], {"recalls_per_trial": [3]}, "`recalls_per_trial`"),
    (ruler.retrieval_definition, [1], {}, "`candidates`"),
    (ruler.retrieval_definition, [None, 1.0], {}, "`share`"),
    (ruler.bits_per_recall, [-1.0, 4], {}, "`ratio` must be"),
    (ruler.bits_per_recall, [math.nan, 4], {}, "`ratio` must be"),
    (ruler.bits_per_recall, [1.0, 0], {}, "`d_v` must be"),
    (ruler.bits_per_state, [1.0, 4, 0, 10], {}, "`n_memories` must be"),
    (ruler.bits_per_state, [1.0, 4, 10, 0], {}, "`state_size` must be"),
]


@pytest.mark.parametrize(("function", "given", "settings", "words"), REFUSED)
def test_what_cannot_be_measured_is_refused_in_words(function, given, settings, words):
    with pytest.raises((InputError, NonFiniteError), match=words):
        function(*given, **settings)


def test_the_dependence_of_neighbouring_points_is_that_of_what_the_statistic_averages():
    a = np.array([0.1, 0.2, 0.4, 3.0, 1.0, 0.3, 0.5])
    b = np.array([0.2, 0.1, 0.9, 2.0, 2.5, 0.1, 0.4])
    wanted = {
        "rms": np.corrcoef(a**2, b**2)[0, 1],
        "mean": np.corrcoef(a, b)[0, 1],
        "median": np.corrcoef(np.sign(a - np.median(a)), np.sign(b - np.median(b)))[0, 1],
    }
    for statistic, correlation in wanted.items():
        found = _dependence(np.stack([a, b, np.full(7, 2.0)], axis=1), statistic)
        assert found == [pytest.approx(correlation), 1.0]  # without scatter the numbers do not tell: 1
    assert len({round(x, 3) for x in wanted.values()}) == 3
    assert _dependence(np.stack([a, 3 - b], axis=1), "mean") == [0.0]
