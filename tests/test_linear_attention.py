"""Linear attention: feature maps, normaliser, causal form, identities with broken twins."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from assocmem.contract.errors import DivergedError, InputError, RecallOverflowError
from assocmem.maps.activations import ExpSeries
from assocmem.maps.features import (
    DPFP,
    FEATURE_MAPS,
    EluPlusOne,
    ExpSeriesFeatures,
    FeatureMap,
    Identity,
    Rectified,
    SumNormalised,
)
from assocmem.stores import linear_attention as module
from assocmem.stores import make_store
from assocmem.stores.linear_attention import LinearAttention
from assocmem.stores.outer import OuterProduct
from recurrence import DOUBLE, LENGTHS, SINGLE, difference, unit, written

D_K, D_V = 6, 5
MAPS = {
    "elu": EluPlusOne(),
    "relu": Rectified(),
    "dpfp": DPFP(nu=2),
    "dpfp, sum": SumNormalised(DPFP(nu=3)),
    "exp-series": ExpSeriesFeatures(terms=3),
    "even terms": ExpSeriesFeatures(terms=4, beta=0.5),
    "identity": Identity(),
}
STORES = {
    **{f"{name}, normalised": LinearAttention(phi) for name, phi in MAPS.items() if name != "identity"},
    **{f"{name}, plain": LinearAttention(phi, normalise=False) for name, phi in MAPS.items()},
}


def _rows(seed: int, n: int) -> tuple[Any, Any, Any]:
    rng = np.random.default_rng([seed, n])
    return unit(rng, 2, n, D_K), rng.standard_normal((2, n, D_V)), unit(rng, 2, n, D_K)


def quadratic(store: LinearAttention, keys: Any, values: Any, queries: Any, shift: int = 0) -> Any:
    """Return (phi(Q) phi(K)^T o mask) V in float64, rows divided by their sums; query i sees pairs up to i + shift."""
    keys, values, queries = (np.asarray(x, np.float64) for x in (keys, values, queries))
    n = keys.shape[-2]
    weights = store.feature(queries) @ store.feature(keys).mT * np.tril(np.ones((n, n)), shift)
    if store.normalise:
        total = weights.sum(axis=-1, keepdims=True)
        weights = np.divide(weights, total, out=np.zeros_like(weights), where=total != 0)
    return weights @ values


# ---------------------------------------------------------------------- causal form = masked quadratic form


@pytest.mark.parametrize("n", LENGTHS)
@pytest.mark.parametrize("name", STORES)
def test_scan_is_the_masked_quadratic_form(name: str, n: int) -> None:
    store = STORES[name]
    keys, values, queries = _rows(1, n)
    state = store.empty(D_K, D_V, batch=(2,))
    for dtype, tolerance in ((np.float64, DOUBLE), (np.float32, SINGLE)):
        k, v, q = (x.astype(dtype) for x in (keys, values, queries))
        after, found = store.scan(state, k, v, q)
        assert difference(found, quadratic(store, k, v, q)) < tolerance
        _, before = store.scan(state, k, v, q, read="before")
        assert difference(before, quadratic(store, k, v, q, -1)) < tolerance
        first, _ = store.scan(state, k[:, : n // 2], v[:, : n // 2], q[:, : n // 2])
        _, rest = store.scan(first, k[:, n // 2 :], v[:, n // 2 :], q[:, n // 2 :])
        assert difference(rest, found[:, n // 2 :]) < tolerance
        at_once = store.write(state, k, v)
        for array in after.arrays:
            scale = max(1.0, np.abs(at_once[array]).max())
            assert difference(after[array] / scale, at_once[array] / scale) < tolerance
    if n > 1:  # a mask off by one pair is another memory
        assert difference(found, quadratic(store, k, v, q, -1)) > 1e-3


def test_wide_features_go_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    keys, values, queries = _rows(3, 200)
    for terms in (3, 4):
        store = LinearAttention(ExpSeriesFeatures(terms=terms, beta=0.5))
        state = store.empty(D_K, D_V, batch=(2,))
        _, one = store.scan(state, keys, values, queries)
        recalled = store.recall(store.write(state, keys, values), queries)
        for block in (1, 2000, 20000):
            monkeypatch.setattr(module, "_BLOCK", block)
            _, many = store.scan(state, keys, values, queries)
            assert difference(many, one) < DOUBLE
            assert difference(store.recall(store.write(state, keys, values), queries), recalled) < DOUBLE
        monkeypatch.undo()


# ---------------------------------------------------------------------- identities, each with a broken twin


def identity_is_outer(store: LinearAttention) -> float:
    """φ(x) = x without normaliser: the outer product store."""
    keys, values, queries = _rows(4, 80)
    return difference(written(store, keys, values, queries), written(OuterProduct(), keys, values, queries))


def series_is_truncated_exponential(store: LinearAttention) -> float:
    """Features of the exponential's series: V^T σ(K x) with the truncated exponential σ, from a state without M."""
    keys, values, queries = _rows(5, 80)
    weights = ExpSeries(4, math.sqrt(D_K))(queries @ keys.mT)
    return difference(written(store, keys, values, queries), weights @ values)


def orthogonal_features_are_exact(store: LinearAttention) -> float:
    """Keys whose features are orthogonal are recalled exactly: here the 2 d signed axes under ReLU features."""
    keys = np.concatenate([np.eye(D_K), -np.eye(D_K)]) + 0.0
    values = np.random.default_rng(6).standard_normal((2 * D_K, D_V))
    return difference(written(store, keys, values, keys), values)


def weighted_mean(store: LinearAttention) -> float:
    """Normalised weights sum to one: a common value is recalled whatever the query."""
    keys, _, queries = _rows(7, 40)
    return difference(written(store, keys, np.ones((2, 40, D_V)), queries), np.ones((2, 40, D_V)))


def one_row_average(store: LinearAttention) -> float:
    """A key written twice recalls the mean of its two values."""
    keys, values, _ = (x[0] for x in _rows(8, 2))
    return difference(written(store, np.stack([keys[0]] * 2), values, keys[:1]), values.mean(axis=0, keepdims=True))


@dataclass(frozen=True)
class NoCoefficients(ExpSeriesFeatures):
    """Twin: monomials without the multinomial coefficients."""

    def __call__(self, x: Any) -> Any:
        features = super().__call__(x)
        return features / np.abs(super().__call__(np.ones_like(x[..., :1, :])))


@dataclass(frozen=True)
class SignedAxes(FeatureMap):
    """max(0, [x, -x]): ReLU features of both signs, as inside DPFP."""

    signed: bool = True

    def __call__(self, x: Any) -> Any:
        r = np.concatenate([x, -x], axis=-1)
        return np.maximum(r, 0) if self.signed else np.abs(r)

    def width(self, d: int) -> int:
        return 2 * d

    @property
    def formula(self) -> str:
        return "max(0, [x, -x])"

    @property
    def nonnegative(self) -> bool:
        return True


IDENTITIES = {
    identity_is_outer: (LinearAttention(Identity(), normalise=False), LinearAttention(Rectified(), normalise=False)),
    series_is_truncated_exponential: (
        LinearAttention(ExpSeriesFeatures(terms=4), normalise=False),
        LinearAttention(NoCoefficients(terms=4), normalise=False),
    ),
    orthogonal_features_are_exact: (LinearAttention(SignedAxes()), LinearAttention(SignedAxes(signed=False))),
    weighted_mean: (LinearAttention(), LinearAttention(normalise=False)),
    one_row_average: (LinearAttention(DPFP()), LinearAttention(DPFP(), normalise=False)),
}


@pytest.mark.parametrize("identity", IDENTITIES, ids=lambda x: x.__name__)
def test_identities_hold_and_reject_a_twin(identity: Any) -> None:
    true, twin = IDENTITIES[identity]
    assert identity(true) < 1e-11
    assert identity(twin) > 1e-3


# ---------------------------------------------------------------------- feature maps


@pytest.mark.parametrize("terms", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("d", [1, 2, 5])
def test_series_features_multiply_to_the_series(terms: int, d: int) -> None:
    rng = np.random.default_rng(terms)
    x, y = rng.standard_normal((7, d)), rng.standard_normal((9, d))
    phi = ExpSeriesFeatures(terms, 1.7)
    true = ExpSeries(terms, 1.7)(x @ y.T)
    assert phi(x).shape == (7, phi.width(d)) == (7, math.comb(d + terms - 1, terms - 1))
    assert np.allclose(phi(x) @ phi(y).T, true, rtol=1e-12, atol=1e-12 * np.abs(true).max())
    assert phi.nonnegative == bool((ExpSeries(terms, 1.7)(np.linspace(-9, 9, 1000)) >= 0).all())
    assert phi.sigma(d) == ExpSeries(terms, 1.7)


def test_dpfp_is_the_papers_loop() -> None:
    x = np.random.default_rng(10).standard_normal((4, 3))
    r = np.maximum(np.concatenate([x, -x], axis=-1), 0)
    by_hand = [[row[j] * row[j - m] for m in (1, 2, 3) for j in range(6)] for row in r]
    assert np.allclose(DPFP(nu=3)(x), by_hand)
    assert DPFP(nu=3).width(3) == 18


def test_elu_plus_one_is_x_plus_one_above_zero_and_e_to_the_x_below() -> None:
    x = np.array([-800.0, -2.0, -1e-9, 0.0, 1e-9, 3.0, 800.0])
    assert np.allclose(EluPlusOne()(x), [0.0, np.exp(-2), 1, 1, 1, 4, 801])


@pytest.mark.parametrize("phi", [EluPlusOne(), Rectified(), DPFP(2), SumNormalised(DPFP(2)), ExpSeriesFeatures(3)])
def test_up_to_scale_is_the_map_times_a_positive_number_per_row(phi: FeatureMap) -> None:
    x = np.random.default_rng(11).standard_normal((50, 4)) * 3
    plain, (scaled, log_factor) = phi(x), phi.up_to_scale(x)
    rows = plain.max(axis=-1) > 0
    factor = scaled[rows].max(axis=-1) / plain[rows].max(axis=-1)
    assert (factor > 0).all()
    assert np.allclose(scaled[rows], plain[rows] * factor[:, None])
    assert np.allclose(np.exp(log_factor[rows, 0]), factor)
    assert phi.nonnegative
    assert (plain >= 0).all() or isinstance(phi, ExpSeriesFeatures)


def test_names_and_settings_of_feature_maps() -> None:
    assert set(FEATURE_MAPS) == {"identity", "elu", "relu", "dpfp", "exp-series"}
    for make in (
        lambda: SumNormalised(Identity()),
        lambda: ExpSeriesFeatures().sigma(),
        lambda: LinearAttention(Identity()),
        lambda: make_store("linear-attention", feature="identity"),
    ):
        with pytest.raises(InputError):
            make()
    for phi in MAPS.values():
        assert phi.formula


def test_registered_under_their_keys() -> None:
    assert make_store("linear-attention") == LinearAttention(EluPlusOne())
    assert make_store("linear-attention", feature="relu", normalise=False) == LinearAttention(
        Rectified(), normalise=False
    )
    assert make_store("linear-attention", feature="exp-series", terms=5).feature == ExpSeriesFeatures(5)
    assert make_store("dpfp", nu=3) == LinearAttention(DPFP(3))
    assert make_store("dpfp", sum_normalise=True) == LinearAttention(SumNormalised(DPFP()))


# ---------------------------------------------------------------------- the denominator


def test_a_query_that_shares_no_feature_recalls_zeros() -> None:
    store = LinearAttention(Rectified())
    state = store.write(store.empty(2, 1), np.array([[1.0, 0.0]]), np.array([[3.0]]))
    assert store.recall(state, np.array([[0.0, 1.0], [2.0, 0.0], [-1.0, -1.0], [0.0, 0.0]]))[:, 0].tolist() == [
        0,
        3,
        0,
        0,
    ]
    _, causal = store.scan(
        store.empty(2, 1), np.array([[1.0, 0.0], [0.0, 1.0]]), np.array([[3.0], [5.0]]), np.array([[0.0, 1.0]] * 2)
    )  # fmt: skip
    assert causal[:, 0].tolist() == [0, 5]


@pytest.mark.parametrize("form", ["recall", "scan"])
def test_a_sum_of_weights_that_is_not_positive_is_refused(form: str) -> None:
    """Two terms at similarity -2: 1 + s < 0; at s = -1 exactly zero."""
    store = LinearAttention(ExpSeriesFeatures(terms=2, beta=1.0))
    keys, values = np.array([[1.0, 0.0]]), np.array([[1.0]])
    for query, refused in ((-2.0, True), (-1.0, True), (-0.9, False), (1.0, False)):
        queries = np.array([[query, 0.0]])

        def ask(q: Any = queries) -> Any:
            if form == "recall":
                return store.recall(store.write(store.empty(2, 1), keys, values), q)
            return store.scan(store.empty(2, 1), keys, values, q)[1]

        if refused:
            with pytest.raises(InputError, match=r"query 0 .* odd number of terms"):
                ask()
        else:
            assert difference(ask(), values) < 1e-12
    odd = LinearAttention(ExpSeriesFeatures(terms=3, beta=1.0))
    assert difference(written(odd, keys, values, np.array([[-2.0, 0.0]])), values) < 1e-12


def test_a_refusal_names_the_query() -> None:
    store = LinearAttention(ExpSeriesFeatures(terms=2, beta=1.0))
    state = store.write(store.empty(1, 1), np.ones((1, 1)), np.ones((1, 1)))
    with pytest.raises(InputError, match="query 2 "):
        store.recall(state, np.array([[0.5], [1.0], [-3.0], [2.0]]))


def test_exponential_features_of_long_keys_stay_finite() -> None:
    rng = np.random.default_rng(12)
    for dtype in (np.float16, np.float32):
        keys, values = (20 * unit(rng, 50, 8)).astype(dtype), rng.standard_normal((50, 4)).astype(dtype)
        for feature in ("elu", "exp-series"):
            out = written(make_store("linear-attention", feature=feature), keys, values, keys)
            assert np.isfinite(out).all()
            assert out.dtype == dtype
    # All entries far below zero: e^x is no float32, and the query's largest feature is scaled to one instead.
    store = LinearAttention()
    state = store.write(store.empty(2, 1), np.array([[0.0, 1.0]], np.float32), np.array([[3.0]], np.float32))
    assert store.recall(state, np.array([[-500.0, -900.0]], np.float32)).tolist() == [[3.0]]


# ---------------------------------------------------------------------- range, dtypes, libraries


def test_sums_of_many_half_precision_keys_are_kept_in_float32() -> None:
    store = LinearAttention(Rectified())
    state = store.write(store.empty(4, 2), np.ones((70_000, 4), np.float16), np.ones((70_000, 2), np.float16))
    assert state["z"].dtype == np.float32
    assert float(state["z"][0]) == 70_000
    assert store.recall(state, np.ones((1, 4), np.float16)).tolist() == [[1.0, 1.0]]
    plain = LinearAttention(Rectified(), normalise=False)
    many = plain.write(plain.empty(4, 2), np.full((70_000, 4), 10, np.float16), np.ones((70_000, 2), np.float16))
    with pytest.raises(OverflowError, match="float16"):
        plain.recall(many, np.ones((1, 4), np.float16))


def test_a_state_that_leaves_its_range_names_the_pair() -> None:
    store = LinearAttention(ExpSeriesFeatures(terms=5, beta=1.0), normalise=False)
    keys = np.ones((9, 2), np.float32)
    keys[4] = 1e12
    with pytest.raises(DivergedError, match="float32") as caught:
        store.write(store.empty(2, 1), keys, np.ones((9, 1), np.float32))
    assert caught.value.step == 4


def test_the_declared_similarity() -> None:
    found = LinearAttention(ExpSeriesFeatures(3)).form(16)
    assert found is not None
    assert found.sigma == ExpSeries(3, 4.0)
    assert found.normalised
    assert LinearAttention().form(16).sigma is None


@pytest.mark.parametrize("key", ["linear-attention", "dpfp"])
@pytest.mark.parametrize("scale", [1e15, 1e-15])
def test_the_normaliser_of_long_and_short_keys_stays_in_range(key: str, scale: float) -> None:
    rng = np.random.default_rng(0)
    keys, values = (rng.standard_normal((64, 8)) * scale).astype("f4"), rng.standard_normal((64, 3)).astype("f4")
    store = make_store(key) if key == "dpfp" else LinearAttention(Rectified())
    state = store.write(store.empty(8, 3), keys, values)
    exact = store.write(store.empty(8, 3), keys.astype("f8"), values.astype("f8"))
    want = store.recall(exact, keys.astype("f8"))
    np.testing.assert_allclose(store.recall(state, keys), want, rtol=1e-4, atol=1e-5)
    _, scanned = store.scan(store.empty(8, 3), keys, values, keys)
    np.testing.assert_allclose(scanned[-1], want[-1], rtol=1e-4, atol=1e-5)


def test_elu_features_of_very_long_keys_recall_the_weighted_mean() -> None:
    keys = (np.random.default_rng(0).standard_normal((64, 8)) * 1e19).astype("f4")
    values = np.ones((64, 2), dtype="f4")
    store = LinearAttention()
    state = store.write(store.empty(8, 2), keys, values)
    np.testing.assert_allclose(store.recall(state, keys), 1.0, rtol=1e-5)
    np.testing.assert_allclose(store.scan(store.empty(8, 2), keys, values, keys)[1], 1.0, rtol=1e-5)


@pytest.mark.parametrize("size", [3e38, 1e-42])
def test_a_sum_of_weights_out_of_range_is_refused_not_recalled_as_zero(size: float) -> None:
    store = LinearAttention(Rectified())
    keys = np.full((1, 8), size, dtype="f4")
    state = store.write(store.empty(8, 1), keys, np.zeros((1, 1), dtype="f4"))
    for ask in (
        lambda: store.recall(state, np.ones((1, 8), dtype="f4")),
        lambda: store.scan(store.empty(8, 1), keys, np.zeros((1, 1), dtype="f4"), np.ones((1, 8), dtype="f4")),
    ):
        with pytest.raises(RecallOverflowError, match="sum of the weights of query 0 of LinearAttention"):
            ask()


def test_a_16_bit_state_is_read_in_float32():
    keys = np.random.default_rng(3).standard_normal((4096, 32)).astype(np.float32)
    keys /= np.linalg.norm(keys, axis=1, keepdims=True)
    values = np.ones((4096, 1), dtype=np.float32)
    store = LinearAttention()
    state = store.write(store.empty(32, 1, state_dtype="float16"), keys, values)
    assert state["z"].astype(np.float32).sum() > np.finfo(np.float16).max / 2
    np.testing.assert_allclose(store.recall(state, keys[:4]), 1.0, rtol=2e-2)


def test_states_with_and_without_a_sum_of_weights_do_not_mix():
    keys = np.eye(3)
    plain, mean = LinearAttention(normalise=False), LinearAttention()
    with pytest.raises(InputError, match="not normalised; it is a state of"):
        plain.recall(mean.write(mean.empty(3, 3), keys, keys), keys)
    with pytest.raises(InputError, match=r"it is a state of .* not normalised"):
        mean.merge(mean.empty(3, 3), plain.write(plain.empty(3, 3), keys, keys))


def test_merged_states_overflow_unheard():
    store = LinearAttention()
    huge = np.full((1, 2), 3e38, dtype=np.float32)
    state = store.write(store.empty(4, 2), np.ones((1, 4), dtype=np.float32), huge / 2)
    store.merge(state, state, state, state)  # warnings are errors here


@pytest.mark.parametrize(
    ("feature", "entry", "dtype", "kept"),
    [
        *(("dpfp", 2.0**-100, dtype, None) for dtype in ("float32", "bfloat16")),
        ("dpfp", 2.0**-13, "float16", "float16"),
    ],
)
def test_keys_whose_features_all_underflow_are_refused(
    feature: str, entry: float, dtype: str, kept: str | None
) -> None:
    torch = pytest.importorskip("torch")
    rows = torch.cat([torch.ones(1, 4), torch.full((1, 4), entry)]).to(getattr(torch, dtype))
    store = make_store("linear-attention", feature=feature)
    for given in (rows, rows[1:]):
        with pytest.raises(RecallOverflowError, match=rf"row {len(given) - 1} of `keys`"):
            store.write(store.empty(4, 2, state_dtype=kept), given, torch.ones(len(given), 2))
    with pytest.raises(RecallOverflowError, match="are below the range of float"):
        store.scan(store.empty(4, 2, state_dtype=kept), rows, torch.ones(2, 2), rows)
    wide = rows.to(torch.float64)
    state = store.write(store.empty(4, 2), wide, torch.tensor([[1.0, 0.0], [0.0, 1.0]], dtype=torch.float64))
    assert bool(torch.isfinite(store.recall(state, wide)).all())


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_keys_whose_positive_features_all_underflow_are_refused_where_they_are_recalled(dtype: str) -> None:
    torch = pytest.importorskip("torch")
    store, far = LinearAttention(), torch.full((1, 4), -200.0).to(getattr(torch, dtype))
    state = store.write(store.empty(4, 2), far, torch.ones(1, 2))
    for queries in (torch.ones(1, 4), far):
        with pytest.raises(RecallOverflowError, match="the sum of the weights of query 0"):
            store.recall(state, queries)
    with pytest.raises(RecallOverflowError, match="the sum of the weights of query 0"):
        store.scan(store.empty(4, 2), far, torch.ones(1, 2), far)
    both = store.write(state, torch.ones(1, 4), torch.tensor([[3.0, 4.0]]))
    assert store.recall(both, far).tolist() == [[3.0, 4.0]]


def test_a_sum_of_positive_weights_that_underflowed_is_refused_and_not_zero() -> None:
    store = LinearAttention()
    keys, values = np.array([[0.0, -200.0]], np.float32), np.ones((1, 1), np.float32)
    state = store.write(store.empty(2, 1), keys, values)
    with pytest.raises(RecallOverflowError, match="the sum of the weights of query 1"):
        store.recall(state, np.array([[0.0, 0.0], [-300.0, 0.0]], np.float32))
    wide = store.write(store.empty(2, 1), keys.astype(np.float64), values.astype(np.float64))
    assert np.allclose(store.recall(wide, np.array([[-300.0, 0.0]])), 1)


@pytest.mark.parametrize("feature", ["relu", "dpfp"])
def test_a_recall_says_which_queries_found_nothing(feature: str) -> None:
    store = make_store("linear-attention", feature=feature)
    state = store.write(store.empty(4, 1), np.array([[1.0, 0.5, 0.0, 0.0]]), np.array([[3.0]]))
    queries = np.array([[1.0, 1.0, 0.0, 0.0], [0.0, 0.0, 2.0, 2.0], [-1.0, -1.0, 0.0, 0.0], [8.0, 3.0, 1.0, 0.0]])
    found = store.ask(state, queries)
    assert found.values[:, 0].tolist() == [3.0, 0.0, 0.0, 3.0]
    assert found.nothing.tolist() == [False, True, True, False]
    weights = store.feature(queries) @ store.feature(np.array([1.0, 0.5, 0.0, 0.0]))
    assert np.allclose(np.exp(found.mass.log), weights)
    assert store.ask(store.empty(4, 1), queries).nothing.all()


@pytest.mark.parametrize("settings", [{}, {"nu": 2}, {"sum_normalise": True}], ids=str)
@pytest.mark.parametrize(("dtype", "tiny"), [(np.float32, 1e-25), (np.float64, 1e-170)])
def test_a_feature_that_underflows_beside_others_is_refused_where_only_it_would_be_found(dtype, tiny, settings) -> None:
    store, value = make_store("dpfp", **settings), np.array([[5.0]], dtype)
    row = lambda *x: np.array([x], dtype)  # noqa: E731
    state = store.write(store.empty(4, 1), row(1, tiny, tiny, 0), value)
    plain = store.write(store.empty(4, 1), row(0, 1, 1, 0), value)
    lost = RecallOverflowError, "the sum of the weights of query 0 of"
    for held, query in ((state, row(0, 0, 1, 0) + row(0, 1, 0, 0)), (plain, row(1, tiny, tiny, 0))):
        with pytest.raises(lost[0], match=lost[1]):
            store.recall(held, query)
    with pytest.raises(lost[0], match=lost[1]):
        store.scan(store.empty(4, 1), row(1, tiny, tiny, 0), value, row(0, 1, 1, 0))
    assert store.recall(state, row(1, 1, 0, 0)).item() == pytest.approx(5)
    found = store.ask(state, row(-1, -1, 0, 0))
    assert found.nothing.item()
    assert not found.values.any()


def test_a_feature_below_a_16_bit_state_is_found_again() -> None:
    torch = pytest.importorskip("torch")
    store = make_store("dpfp")
    state = store.write(
        store.empty(3, 1, state_dtype="float16"), torch.tensor([[1, 1e-5, 1e-5]]), torch.tensor([[5.0]])
    )
    assert not store.ask(state, torch.tensor([[0.0, 1.0, 1.0]])).nothing.any()
    assert store.ask(state, torch.tensor([[-1.0, -1.0, 0.0]])).nothing.all()
