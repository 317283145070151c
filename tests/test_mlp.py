"""MLP stores: every activation against its formula, gates, masks, blocks, scans and the numbers of the article."""

from __future__ import annotations

import math
import tracemalloc

import numpy as np
import pytest

from assocmem import stores
from assocmem.contract.arrays import to_numpy
from assocmem.contract.errors import InputError, RecallOverflowError
from assocmem.contract.form import GatedSum
from assocmem.kernels import blockwise
from assocmem.maps.activations import GELU, Custom, Linear, ReLU, SwiGLU, Swish
from assocmem.stores import key_of, make_store
from assocmem.stores.mlp import MLP, GatedMLP
from assocmem.theory import ratio
from batches import LIBRARIES, weights_of, written
from batches import drawn_pairs as drawn


def logistic(s):
    return 1 / (1 + np.exp(-s))


def normal_cdf(s):
    return np.vectorize(lambda t: 0.5 * (1 + math.erf(t / math.sqrt(2))))(s)


FORMULAS = {
    "linear": (MLP(Linear()), lambda s: s),
    "relu": (make_store("relu"), lambda s: np.where(s > 0, s, 0)),
    "relu with bias": (make_store("relu", bias=-0.2), lambda s: np.clip(s - 0.2, 0, None)),
    "squared-relu": (make_store("squared-relu"), lambda s: np.clip(s, 0, None) ** 2),
    "cubed-relu": (make_store("cubed-relu"), lambda s: np.clip(s, 0, None) ** 3),
    "relu-power": (make_store("relu-power", power=2.5, bias=0.1), lambda s: np.clip(s + 0.1, 0, None) ** 2.5),
    "gelu": (make_store("gelu"), lambda s: s * normal_cdf(s)),
    "gelu tanh": (
        make_store("gelu", tanh=True),
        lambda s: 0.5 * s * (1 + np.tanh(math.sqrt(2 / math.pi) * (s + 0.044715 * s**3))),
    ),
    "swiglu": (make_store("swiglu"), lambda s: s * s * logistic(s)),
    "callable": (MLP(abs), np.abs),
    "custom": (MLP(Custom(lambda s: s * s - 1, "square less one")), lambda s: s**2 - 1),
}


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("case", FORMULAS)
def test_recall_is_the_values_times_the_activation_of_the_similarities(case, library):
    xp, (store, formula) = pytest.importorskip(library), FORMULAS[case]
    keys, values = drawn(1, 17, 5, batch=(2,), scale=3.0)
    queries = np.random.default_rng(2).normal(size=(2, 4, 5))
    state = written(store, xp.asarray(keys), xp.asarray(values), cuts=(6,))
    weights = formula(queries @ np.swapaxes(keys, -1, -2))
    np.testing.assert_allclose(to_numpy(store.recall(state, xp.asarray(queries))), weights @ values, atol=1e-12)
    np.testing.assert_allclose(to_numpy(weights_of(store, state, xp.asarray(queries))), weights, atol=1e-12)
    sigma = store.form(5)
    np.testing.assert_allclose(to_numpy(sigma.sigma(xp.asarray(queries))), formula(queries), atol=1e-12)
    assert not sigma.normalised


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("activation", [Swish(), ReLU(), GELU(), Linear()])
def test_a_gate_of_its_own_multiplies_two_projections(activation, library):
    xp, store = pytest.importorskip(library), GatedMLP(activation)
    keys, values = drawn(3, 17, 5, batch=(2,), scale=2.0)
    gates, _ = drawn(4, 17, 5, batch=(2,), scale=2.0)
    queries = np.random.default_rng(5).normal(size=(2, 4, 5))
    state = written(store, *(xp.asarray(a) for a in (keys, values)), cuts=(6,), gate=xp.asarray(gates))
    into, opened = queries @ np.swapaxes(keys, -1, -2), queries @ np.swapaxes(gates, -1, -2)
    formula = {
        "Swish": lambda s: s * logistic(s),
        "ReLU": lambda s: np.clip(s, 0, None),
        "GELU": lambda s: s * normal_cdf(s),
        "Linear": lambda s: s,
    }[type(activation).__name__]
    expected = (formula(opened) * into) @ values
    np.testing.assert_allclose(to_numpy(store.recall(state, xp.asarray(queries))), expected, atol=1e-12)
    assert state.size == 2 * 17 * (5 + 5 + 3)


def test_squared_relu_is_a_glu_with_a_shared_gate_to_rounding():
    keys, values = drawn(6, 40, 8)
    queries = np.random.default_rng(7).normal(size=(9, 8))
    squared = make_store("squared-relu")
    plain = squared.recall(written(squared, keys, values), queries)
    gated = GatedMLP(ReLU())
    np.testing.assert_allclose(gated.recall(written(gated, keys, values, gate=keys), queries), plain, rtol=4e-15)
    other = np.roll(keys, 1, axis=0)
    assert not np.allclose(gated.recall(written(gated, keys, values, gate=other), queries), plain, atol=1e-3)


def test_swiglu_with_a_gate_of_its_own_equal_to_the_keys_is_the_shared_one():
    keys, values = drawn(8, 40, 8, scale=4.0)
    queries = np.random.default_rng(9).normal(size=(9, 8))
    shared, own = make_store("swiglu"), make_store("swiglu", gate="own")
    assert (shared, own) == (MLP(SwiGLU()), GatedMLP(Swish()))
    expected = shared.recall(written(shared, keys, values), queries)
    np.testing.assert_allclose(own.recall(written(own, keys, values, gate=keys), queries), expected, atol=1e-11)
    assert own.form(8) == GatedSum(Swish())
    assert ratio(own.form(8), 8, 9).value is None


def test_relu_halves_the_squared_interference_of_keys_and_their_negatives():
    keys, _ = drawn(10, 25, 6)
    both = np.concatenate([keys, -keys])
    queries, _ = drawn(11, 5, 6)
    relu, linear = make_store("relu"), MLP(Linear())
    ones = np.ones((50, 1))
    halved = weights_of(relu, written(relu, both, ones), queries)
    whole = weights_of(linear, written(linear, both, ones), queries)
    np.testing.assert_allclose((halved**2).sum(1), (whole**2).sum(1) / 2, rtol=1e-13)


def test_a_high_power_picks_the_nearest_key_and_a_threshold_sets_the_share_of_active_units():
    keys, values = drawn(12, 8, 4)
    store = make_store("relu-power", power=3000.0)
    np.testing.assert_allclose(store.recall(written(store, keys, values), keys), values, atol=1e-9)
    d, n = 64, 40_000
    rng = np.random.default_rng(13)
    keys = rng.normal(size=(n, d)) / math.sqrt(d)
    query = np.zeros((1, d))
    query[0, 0] = 1.0
    sparse = make_store("relu", bias=-2.33 / math.sqrt(d))
    share = (weights_of(sparse, written(sparse, keys, np.ones((n, 1))), query) > 0).mean()
    # Phi(-2.33) = 0.99 %; the share of 40,000 units has standard error 0.05 %.
    assert abs(share - 0.0099) < 0.002


@pytest.mark.parametrize("own", [False, True])
def test_blocks_masks_and_weights_agree_with_the_whole_matrix(own, monkeypatch):
    for name, value in (("TILE_NUMBERS", 64), ("MAX_ROWS", 6), ("MIN_COLUMNS", 5)):
        monkeypatch.setattr(blockwise, name, value)
    store = GatedMLP() if own else make_store("squared-relu")
    keys, values = drawn(14, 53, 4, batch=(2,))
    gates, _ = drawn(15, 53, 4, batch=(2,))
    queries = np.random.default_rng(16).normal(size=(2, 13, 4))
    mask = np.random.default_rng(17).random(size=(2, 13, 53)) < 0.4
    mask[1, 3] = False
    state = written(store, keys, values, **({"gate": gates} if own else {}))
    s, g = (queries @ np.swapaxes(a, -1, -2) for a in (keys, gates))
    weights = g * logistic(g) * s if own else np.clip(s, 0, None) ** 2
    np.testing.assert_allclose(store.recall(state, queries), weights @ values, atol=1e-12)
    hidden = np.where(mask, weights, 0)
    np.testing.assert_allclose(store.recall(state, queries, mask=mask), hidden @ values, atol=1e-12)
    np.testing.assert_allclose(weights_of(store, state, queries, mask=mask), hidden, atol=1e-12)
    assert not store.recall(state, queries, mask=mask)[1, 3].any()


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("read", ["after", "before"])
@pytest.mark.parametrize("own", [False, True])
def test_the_scan_in_blocks_equals_the_loop(own, read, library, monkeypatch):
    for name, value in (("TILE_NUMBERS", 64), ("MAX_ROWS", 6), ("MIN_COLUMNS", 5)):
        monkeypatch.setattr(blockwise, name, value)
    xp = pytest.importorskip(library)
    store = GatedMLP() if own else make_store("relu")
    keys, values = (xp.asarray(a) for a in drawn(18, 23, 3, batch=(2,)))
    gates, queries = (xp.asarray(drawn(seed, 23, 3, batch=(2,))[0]) for seed in (19, 20))
    extras = {"gate": gates} if own else {}
    start = written(store, keys, values, **extras)
    state, out = store.scan(start, keys, values, queries, read=read, **extras)
    slow, expected = store._loop(start, keys, values, queries, read, extras)
    assert state.n == slow.n == 46
    np.testing.assert_allclose(to_numpy(out), to_numpy(expected), atol=1e-13)


def test_memory_does_not_grow_with_pairs_times_queries():
    n, m, d = 20_000, 2_000, 8
    keys, values = (a.astype(np.float32) for a in drawn(21, n, d, 4))
    store = make_store("squared-relu")
    state = written(store, keys, values)
    tracemalloc.start()
    store.recall(state, keys[:m])
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 40e6 < 4 * n * m


@pytest.mark.parametrize(("key", "pre_activation", "fits"), [("squared-relu", 256, 255), ("cubed-relu", 41, 40)])
def test_half_precision_is_computed_in_single_and_never_silently_infinite(key, pre_activation, fits):
    store = make_store(key)
    state = written(store, np.ones((1, 1), np.float16), np.ones((1, 1), np.float16))
    assert state["keys"].dtype == np.float32
    power = 2 if key == "squared-relu" else 3
    inside = store.recall(state, np.full((1, 1), fits, np.float16))
    assert inside.dtype == np.float16
    assert float(inside[0, 0]) == float(np.float16(float(fits) ** power))
    with pytest.raises(RecallOverflowError, match="left the range of float16"):
        store.recall(state, np.full((1, 1), pre_activation, np.float16))
    small = written(store, np.ones((1, 1), np.float16), np.full((1, 1), 1e-3, np.float16))
    out = float(store.recall(small, np.full((1, 1), pre_activation, np.float16))[0, 0])
    assert math.isclose(out, 1e-3 * float(pre_activation) ** power, rel_tol=2e-3)


@pytest.mark.parametrize("library", LIBRARIES)
def test_overflow_in_single_precision_is_an_error_of_recall_and_of_weights(library):
    xp = pytest.importorskip(library)
    store = make_store("cubed-relu")
    keys = xp.asarray(np.full((2, 2), 1e10, np.float32))
    state = written(store, keys, xp.asarray(np.array([[1.0], [-1.0]], np.float32)))
    query = xp.asarray(np.full((1, 2), 1e10, np.float32))
    with pytest.raises(RecallOverflowError, match="float32"):
        store.recall(state, query)
    with pytest.raises(RecallOverflowError, match="the weights of MLP left the range of float32"):
        weights_of(store, state, query)
    hidden = xp.asarray(np.zeros((1, 2), dtype=bool))
    assert float(store.recall(state, query, mask=hidden)[0, 0]) == 0


def test_logistic_activations_do_not_overflow_at_either_end():
    keys = np.array([[1e4], [-1e4]])
    store = make_store("swiglu")
    out = weights_of(store, written(store, keys, np.ones((2, 1))), np.ones((1, 1)))
    np.testing.assert_array_equal(out, [[1e8, 0.0]])


def test_what_is_no_activation_is_refused():
    store = MLP(lambda s: s.sum())
    with pytest.raises(InputError, match="must return an array of its input's shape"):
        store.recall(written(store, *drawn(30, 4, 3)), np.ones((1, 3)))


def test_keys_sources_and_equations_belong_to_the_activation():
    keys = ("relu", "squared-relu", "cubed-relu", "relu-power", "swiglu", "gelu")
    assert set(keys) <= set(stores.names())
    for key in keys:
        assert key_of(make_store(key)) == key
    arxiv = {key: make_store(key).source.arxiv for key in keys}
    assert arxiv["squared-relu"] == "2109.08668"
    assert arxiv["swiglu"] == make_store("swiglu", gate="own").source.arxiv == "2002.05202"
    assert arxiv["gelu"] == "1606.08415"
    assert arxiv["relu"] == arxiv["cubed-relu"] == "2012.14913"
    assert make_store("relu", bias=-0.25).equation == "f(x) = V^T σ(K x), σ(s) = max(0, s - 0.25)"
    assert MLP(np.tanh).activation.formula == "tanh(s)"
    assert MLP(lambda s: s).activation.name == "lambda"
