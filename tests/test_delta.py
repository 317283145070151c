"""DeltaNet and Gated DeltaNet: the rule, its chunk form, its identities with broken twins, its stability."""

from __future__ import annotations

import tracemalloc
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from assocmem.contract.errors import DivergedError, UnstableWarning
from assocmem.contract.store import Store
from assocmem.kernels.chunked import decay_products, inverse_unit_lower, later_decays
from assocmem.maps.features import DPFP, SumNormalised
from assocmem.stores.delta import DeltaNet, GatedDeltaNet
from assocmem.stores.mamba import Mamba2
from assocmem.stores.outer import OuterProduct
from recurrence import (
    DECAYS,
    DOUBLE,
    LENGTHS,
    SINGLE,
    STRENGTHS,
    ByOne,
    difference,
    key_rows,
    loop,
    unit,
    written,
)

D_K, D_V = 16, 12


def _rows(seed: int, n: int, keys: str = "random") -> tuple[Any, Any, Any]:
    rng = np.random.default_rng([seed, n])
    return key_rows(keys, rng, n, D_K), rng.standard_normal((2, n, D_V)), unit(rng, 2, n, D_K)


def _check_forms(store: Store, keys: Any, values: Any, queries: Any, tolerance: float, **extras: Any) -> None:
    """Compare `scan` both ways and one `write` with the float64 loop."""
    state = store.empty(D_K, D_V, batch=(2,))
    W, recalls = loop(keys, values, queries, **extras)
    for read, expected in recalls.items():
        after, found = store.scan(state, keys, values, queries, read=read, **extras)
        assert difference(found, expected) < tolerance
        assert difference(after["W"], W) < tolerance
    assert difference(store.write(state, keys, values, **extras)["W"], W) < tolerance


# ---------------------------------------------------------------------- chunk form = loop


@pytest.mark.parametrize("n", LENGTHS)
@pytest.mark.parametrize("strength", STRENGTHS)
def test_delta_chunks_equal_the_loop(n: int, strength: str) -> None:
    keys, values, queries = _rows(1, n)
    b = STRENGTHS[strength](np.random.default_rng(n), (2, n))
    _check_forms(DeltaNet(), keys, values, queries, DOUBLE, strength=b)
    single = [x.astype(np.float32) for x in (keys, values, queries)]
    _check_forms(DeltaNet(), *single, SINGLE * (10 if strength == "two" else 1), strength=b.astype(np.float32))


@pytest.mark.parametrize("n", LENGTHS)
@pytest.mark.parametrize("decay", DECAYS)
def test_gated_delta_chunks_equal_the_loop(n: int, decay: str) -> None:
    keys, values, queries = _rows(2, n)
    rng = np.random.default_rng(n)
    a, b = DECAYS[decay](rng, (2, n)), STRENGTHS["any"](rng, (2, n))
    _check_forms(GatedDeltaNet(), keys, values, queries, DOUBLE, decay=a, strength=b)
    single = [x.astype(np.float32) for x in (keys, values, queries)]
    extras = {"decay": a.astype(np.float32), "strength": b.astype(np.float32)}
    _check_forms(GatedDeltaNet(), *single, SINGLE, **extras)


@pytest.mark.parametrize("keys", ["duplicates", "nearly parallel"])
@pytest.mark.parametrize("strength", STRENGTHS)
@pytest.mark.parametrize("decay", ["exactly one", "mild", "log -200"])
def test_dependent_keys(keys: str, strength: str, decay: str) -> None:
    n = 300
    k, v, q = _rows(3, n, keys)
    rng = np.random.default_rng(4)
    a, b = DECAYS[decay](rng, (2, n)), STRENGTHS[strength](rng, (2, n))
    _check_forms(GatedDeltaNet(), k, v, q, DOUBLE, decay=a, strength=b)
    # A strength of 2 reflects: rounding errors are kept for ever instead of fading, so they add up over the pairs.
    single = [x.astype(np.float32) for x in (k, v, q)]
    extras = {"decay": a.astype(np.float32), "strength": b.astype(np.float32)}
    _check_forms(GatedDeltaNet(), *single, SINGLE * (20 if strength == "two" else 1), **extras)


def test_many_more_pairs_than_coordinates() -> None:
    rng = np.random.default_rng(5)
    keys, values, queries = unit(rng, 2, 5000, 4), rng.standard_normal((2, 5000, 3)), unit(rng, 2, 5000, 4)
    state = DeltaNet().empty(4, 3, batch=(2,))
    _, found = DeltaNet().scan(state, keys, values, queries)
    assert difference(found, loop(keys, values, queries, strength=np.ones((2, 5000)))[1]["after"]) < DOUBLE


@pytest.mark.parametrize("chunk", [1, 2, 3, 16, 50, 64, 100, 1000])
def test_the_chunk_length_changes_rounding_only(chunk: int) -> None:
    keys, values, queries = _rows(6, 150)
    decay = DECAYS["uniform"](np.random.default_rng(7), (2, 150))
    _check_forms(GatedDeltaNet(chunk=chunk), keys, values, queries, DOUBLE, decay=decay, strength=np.ones((2, 150)))
    assert GatedDeltaNet(chunk=chunk) == GatedDeltaNet()


def test_large_scans_in_threads_equal_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ASSOCMEM_THREADS", "3")
    rng = np.random.default_rng(9)
    keys, values, queries = (unit(rng, 5, 300, 64) for _ in range(3))
    decay, strength = DECAYS["mild"](rng, (5, 300)), rng.random((5, 300))
    store = GatedDeltaNet()
    state, found = store.scan(
        store.empty(64, 64, batch=(5,)), keys, values, queries, decay=decay, strength=strength
    )  # fmt: skip
    W, recalls = loop(keys, values, queries, decay=decay, strength=strength)
    assert difference(found, recalls["after"]) < DOUBLE
    assert difference(state["W"], W) < DOUBLE


@pytest.mark.parametrize("decay", [0.6, 0.5, 0.3, 0.21, 0.2])
def test_decays_whose_product_leaves_the_digits_of_float32_equal_the_loop(decay: float) -> None:
    keys, values, queries = (x.astype(np.float32) for x in _rows(14, 130))
    extras = {
        "strength": np.ones((2, 130), np.float32),
        "decay": np.full((2, 130), decay, np.float32),
    }  # over 64 pairs down to 1e-45, which keeps no digit
    _check_forms(GatedDeltaNet(), keys, values, queries, SINGLE, **extras)


def test_log_decay_says_the_same_as_decay() -> None:
    keys, values, queries = _rows(10, 130)
    log_decay = np.random.default_rng(11).choice([0.0, -1e-4, -1.0, -200.0, -2000.0, -np.inf], (2, 130))
    store = GatedDeltaNet()
    state = store.empty(D_K, D_V, batch=(2,))
    _, by_log = store.scan(state, keys, values, queries, log_decay=log_decay)
    _, by_decay = store.scan(state, keys, values, queries, decay=np.exp(log_decay))
    assert np.array_equal(by_log, by_decay)


def test_extras_as_numbers_sequences_heads_and_pairs() -> None:
    keys, values, queries = _rows(12, 40)
    state = GatedDeltaNet().empty(D_K, D_V, batch=(2,))
    expected = loop(keys, values, queries, decay=np.full((2, 40), 0.9), strength=np.full((2, 40), 0.5))[1]["after"]
    ways = [
        (GatedDeltaNet(strength=0.5, decay=0.9), {}),
        (GatedDeltaNet(), {"strength": 0.5, "decay": 0.9}),
        (GatedDeltaNet(), {"strength": [0.5] * 40, "decay": [0.9] * 40}),
        (GatedDeltaNet(), {"strength": [[0.5], [0.5]], "decay": np.full((2, 40), 0.9)}),
    ]
    for store, extras in ways:
        assert difference(store.scan(state, keys, values, queries, **extras)[1], expected) < DOUBLE


def test_work_memory_does_not_grow_with_the_number_of_pairs() -> None:
    def peak(n: int) -> float:
        rng = np.random.default_rng(13)
        rows = [unit(rng, n, 32) for _ in range(3)]
        store = GatedDeltaNet()
        state = store.empty(32, 32)
        tracemalloc.start()
        _, out = store.scan(state, *rows)
        used = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return (used - 2 * out.nbytes) / 2**20

    few, many = peak(4096), peak(32768)
    # Beside two copies of the recalls only flags and a few numbers per pair grow: well under one more copy.
    assert many < few + 32768 * 32 * 8 * 0.6 / 2**20


# ---------------------------------------------------------------------- parts of the chunk form


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 8, 9, 31, 64, 65])
def test_inverse_of_unit_lower_matrices(n: int) -> None:
    low = np.random.default_rng(n).standard_normal((3, n, n))  # what stands on and above the diagonal is ignored
    true = np.linalg.inv(np.eye(n) + np.tril(0.3 * low, -1))
    assert np.allclose(inverse_unit_lower(0.3 * low), true, rtol=1e-9, atol=1e-9 * np.abs(true).max())


@pytest.mark.parametrize("decay", DECAYS)
def test_decay_products_are_the_exponential_of_masked_sums(decay: str) -> None:
    a = DECAYS[decay](np.random.default_rng(14), (2, 20))
    true = np.array(
        [[[np.prod(row[j + 1 : i + 1]) if j <= i else 0.0 for j in range(20)] for i in range(20)] for row in a]
    )
    assert np.allclose(decay_products(a), true, rtol=1e-13, atol=0)
    assert np.allclose(later_decays(a), true[:, -1, :], rtol=1e-13, atol=0)


# ---------------------------------------------------------------------- identities, each with a broken twin


@dataclass(frozen=True)
class HalfError(ByOne, DeltaNet):
    """Twin: forgets to take back what was recalled before."""

    def put_pair(self, arrays: Any, key: Any, value: Any, **extras: Any) -> Any:
        return {"W": arrays["W"] + extras["strength"][..., None] * value.mT @ key}


@dataclass(frozen=True)
class FullErase(ByOne, DeltaNet):
    """Twin: takes back all that was recalled before, whatever the strength."""

    def put_pair(self, arrays: Any, key: Any, value: Any, **extras: Any) -> Any:
        W = arrays["W"]
        return {"W": W + (extras["strength"][..., None] * value - key @ W.mT).mT @ key}


@dataclass(frozen=True)
class StaleError(ByOne, DeltaNet):
    """Twin: takes the error of every second pair at the matrix of the pair before it."""

    def put_chunk(self, arrays: Any, keys: Any, values: Any, queries: Any, read: str, **extras: Any) -> Any:
        W = arrays["W"]
        for i in range(0, keys.shape[-2], 2):
            k, v = keys[..., i : i + 2, :], values[..., i : i + 2, :]
            b = extras["strength"][..., i : i + 2, None]
            W = W + (b * (v - k @ W.mT)).mT @ k
        return {"W": W}, None


@dataclass(frozen=True)
class DecayLast(ByOne, GatedDeltaNet):
    """Twin: takes the error at the undecayed matrix, then decays (as Titans does)."""

    def put_pair(self, arrays: Any, key: Any, value: Any, **extras: Any) -> Any:
        W = arrays["W"]
        change = extras["strength"][..., None] * (value - key @ W.mT)
        return {"W": W * extras["decay"][..., None] + change.mT @ key}


@dataclass(frozen=True)
class DecayAll(ByOne, GatedDeltaNet):
    """Twin: lets the new pair decay too."""

    def put_pair(self, arrays: Any, key: Any, value: Any, **extras: Any) -> Any:
        W = arrays["W"]
        change = extras["strength"][..., None] * (value - key @ W.mT)
        return {"W": (W + change.mT @ key) * extras["decay"][..., None]}


@dataclass(frozen=True)
class SoftGate(ByOne, GatedDeltaNet):
    """Twin: a gate that never quite opens (decay 1 is not exactly 1)."""

    def put_pair(self, arrays: Any, key: Any, value: Any, **extras: Any) -> Any:
        return super().put_pair(arrays, key, value, **(extras | {"decay": extras["decay"] * (1 - 1e-6)}))


def _pairs(seed: int, n: int, keys: str = "random") -> tuple[Any, Any]:
    k, v, _ = _rows(seed, n, keys)
    return k[0], v[0]


def _orthonormal(n: int = 10) -> tuple[Any, Any]:
    keys = np.linalg.qr(np.random.default_rng(15).standard_normal((D_K, D_K)))[0][:n]
    return keys, np.random.default_rng(16).standard_normal((n, D_V))


def exact_after_a_write(store: Store) -> float:
    """Strength 1, unit key: recall of the pair just written is its value, whatever was written before."""
    keys, values = _pairs(17, 60)
    last = written(store, keys, values, keys[-1:], strength=np.ones(60))
    return difference(last, values[-1:])


def overwrite(store: Store) -> float:
    """Orthonormal keys: a second pass with other values leaves nothing of the first ones."""
    keys, values = _orthonormal()
    state = store.write(store.empty(D_K, D_V), np.concatenate([keys, keys]), np.concatenate([-values, values]))
    return difference(store.recall(state, keys), values)


def orthonormal_is_outer(store: Store) -> float:
    """Orthonormal keys, strength 1, nothing stored yet: the outer product store."""
    keys, values = _orthonormal()
    probes = unit(np.random.default_rng(18), 30, D_K)
    return difference(written(store, keys, values, probes), written(OuterProduct(), keys, values, probes))


def sweeps_reach_the_pseudo_inverse(store: Store) -> float:
    """Sweeps of the delta rule with strength 1 are Kaczmarz's method: they end at W = V^T pinv(K^T) for M <= d."""
    rng = np.random.default_rng(19)
    keys, values = unit(rng, 6, 8), rng.standard_normal((6, 5))
    state = store.empty(8, 5)
    for _ in range(600):
        state = store.write(state, keys, values)
    return difference(state["W"], values.T @ np.linalg.pinv(keys.T))


def ut_transform(store: Store) -> float:
    """W = U^T K with U = (I + strict_lower(diag(b) K K^T))^-1 diag(b) V."""
    keys, values = _pairs(20, 100)
    b = 2 * np.random.default_rng(21).random(100)
    system = np.eye(100) + np.tril(b[:, None] * (keys @ keys.T), -1)
    U = np.linalg.solve(system, b[:, None] * values)
    return difference(store.write(store.empty(D_K, D_V), keys, values, strength=b)["W"], U.T @ keys)


def gradient_descent(store: Store) -> float:
    """A write of strength b is a step of length b down the gradient of |W k - v|^2 / 2."""
    keys, values = _pairs(22, 40)
    W = np.zeros((D_V, D_K))
    for k, v in zip(keys, values, strict=True):
        W = W - 0.7 * np.outer(W @ k - v, k)
    return difference(store.write(store.empty(D_K, D_V), keys, values, strength=np.full(40, 0.7))["W"], W)


def strength_zero_writes_nothing(store: Store) -> float:
    """Pairs of strength 0 in between change nothing of what the others write."""
    keys, values = _pairs(23, 90)
    b = (np.arange(90) % 3 == 0).astype(np.float64)
    sparse = store.write(store.empty(D_K, D_V), keys, values, strength=b)["W"]
    return difference(sparse, loop(keys[::3], values[::3], keys[::3], strength=np.ones(30))[0])


DELTA_IDENTITIES = {
    exact_after_a_write: HalfError(),
    overwrite: HalfError(),
    orthonormal_is_outer: DeltaNet(strength=0.99),
    sweeps_reach_the_pseudo_inverse: HalfError(),
    ut_transform: StaleError(),
    gradient_descent: FullErase(),
    strength_zero_writes_nothing: FullErase(),
}


@pytest.mark.parametrize(("identity", "twin"), DELTA_IDENTITIES.items(), ids=lambda x: getattr(x, "__name__", ""))
def test_delta_identities_hold_and_reject_a_twin(identity: Any, twin: Store) -> None:
    assert identity(DeltaNet()) < 1e-9
    assert identity(twin) > 1e-3


def test_one_pair_of_strength_zero_is_bit_equal_to_no_write() -> None:
    keys, values = _pairs(24, 30)
    store = DeltaNet()
    state = store.write(store.empty(D_K, D_V), keys, values)
    after = store.write(state, keys[:1], 7 + values[:1], strength=[0.0])
    assert np.array_equal(after["W"], state["W"])
    assert not np.array_equal(store.write(state, keys[:1], 7 + values[:1], strength=[1e-3])["W"], state["W"])


def _gated_as_plain(store: Store) -> float:
    """Decay 1: DeltaNet."""
    keys, values = _pairs(25, 200)
    b = 2 * np.random.default_rng(26).random(200)
    gated = written(store, keys, values, keys, strength=b, decay=np.ones(200))
    return difference(gated, written(DeltaNet(), keys, values, keys, strength=b))


def _decay_zero_keeps_the_last(store: Store) -> float:
    """Decay 0 at the last pair: what is recalled is b v k^T x, exactly."""
    keys, values = _pairs(27, 100)
    found = written(
        store, keys, values, keys, decay=(np.arange(100) < 99).astype(np.float64), strength=np.full(100, 0.8)
    )
    return difference(found, 0.8 * np.outer(keys @ keys[-1], values[-1]))


def _orthonormal_is_mamba_2(store: Store) -> float:
    """Where no key was recalled anything yet, the delta term drops out: Mamba-2 with step b."""
    keys, values = _orthonormal()
    rng = np.random.default_rng(28)
    a, b = rng.random(10), 2 * rng.random(10)
    probes = unit(rng, 30, D_K)
    mamba = written(Mamba2(), keys, values, probes, decay=a, step=b)
    return difference(written(store, keys, values, probes, decay=a, strength=b), mamba)


def _householder(store: Store) -> float:
    """W <- a W (I - b k k^T) + b v k^T, multiplied out."""
    keys, values = _pairs(29, 70)
    rng = np.random.default_rng(30)
    a, b = rng.random(70), 2 * rng.random(70)
    W = np.zeros((D_V, D_K))
    for i in range(70):
        W = a[i] * W @ (np.eye(D_K) - b[i] * np.outer(keys[i], keys[i])) + b[i] * np.outer(values[i], keys[i])
    return difference(store.write(store.empty(D_K, D_V), keys, values, decay=a, strength=b)["W"], W)


GATED_IDENTITIES = {
    _gated_as_plain: SoftGate(),
    _decay_zero_keeps_the_last: DecayLast(),
    _orthonormal_is_mamba_2: DecayAll(),
    _householder: DecayLast(),
}


@pytest.mark.parametrize(("identity", "twin"), GATED_IDENTITIES.items(), ids=lambda x: getattr(x, "__name__", ""))
def test_gated_identities_hold_and_reject_a_twin(identity: Any, twin: Store) -> None:
    assert identity(GatedDeltaNet()) < 1e-12
    assert identity(twin) > 1e-7


def test_decay_one_is_bit_equal_to_delta_net() -> None:
    for n in (1, 64, 200):
        keys, values, queries = _rows(31, n)
        b = np.random.default_rng(32).random((2, n))
        plain, gated = DeltaNet(), GatedDeltaNet(decay=1.0)
        for dtype in (np.float32, np.float64):
            rows = [x.astype(dtype) for x in (keys, values, queries)]
            _, one = plain.scan(plain.empty(D_K, D_V, batch=(2,)), *rows, strength=b)
            for extras in ({}, {"decay": np.ones((2, n))}, {"log_decay": np.zeros((2, n))}):
                _, other = gated.scan(gated.empty(D_K, D_V, batch=(2,)), *rows, strength=b, **extras)
                assert np.array_equal(one, other)


def test_a_gate_of_exactly_one_keeps_float32_accuracy() -> None:
    rng = np.random.default_rng(33)
    rows = [unit(rng, 1024, 64).astype(np.float32) for _ in range(3)]
    plain, gated = DeltaNet(), GatedDeltaNet()
    _, one = plain.scan(plain.empty(64, 64), *rows)
    _, other = gated.scan(gated.empty(64, 64), *rows, log_decay=np.zeros(1024, np.float32))
    assert difference(other, one) < 1e-6


def test_the_second_value_replaces_the_first() -> None:
    keys, values = _pairs(34, 2)
    store = DeltaNet()
    twice = np.stack([keys[0], keys[0]])
    assert difference(written(store, twice, values, keys[:1]), values[1:]) < 1e-12
    weaker = written(DeltaNet(strength=0.25), twice, values, keys[:1])
    assert difference(weaker, 0.75 * 0.25 * values[:1] + 0.25 * values[1:]) < 1e-12
    assert DeltaNet(strength=0.25).traits.overwrite == "decays"


# ---------------------------------------------------------------------- stability


def test_keys_too_long_for_the_strength_are_announced_with_the_bound() -> None:
    rng = np.random.default_rng(35)
    keys, values = unit(rng, 20, 8), rng.standard_normal((20, 4))
    keys[7] *= 1.5
    store = DeltaNet()
    with pytest.warns(UnstableWarning, match=r"reaches 2\.25 .* bound 2\b.*pair 7"):
        store.write(store.empty(8, 4), keys, values)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        store.write(store.empty(8, 4), keys, values, strength=0.8)  # 0.8 * 2.25 is below 2
        state = store.write(store.empty(8, 4), unit(rng, 500, 8).astype(np.float32), rng.random((500, 4)), strength=2.0)
        assert np.isfinite(state["W"]).all()
        # A decay of 1/2 allows 1 + 1/a = 3.
        gated = GatedDeltaNet(decay=0.5)
        gated.write(gated.empty(8, 4), keys, values)
    keys[7] *= 1.3
    with pytest.warns(UnstableWarning, match=r"bound 3\b"):
        gated.write(gated.empty(8, 4), keys, values)


def test_the_bound_is_where_errors_begin_to_grow() -> None:
    key = np.array([[1.0, 0.0]])

    def after(strength: float, length: float) -> float:
        store = DeltaNet(strength=strength)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UnstableWarning)
            state = store.write(store.empty(2, 1), length * key, np.ones((1, 1)))
            state = store.write(state, np.repeat(length * key, 200, axis=0), np.zeros((200, 1)))
        return float(np.abs(state["W"]).max())

    assert after(2.0, 0.999) < 2
    assert after(2.0, 1.02) > 100


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_state_that_leaves_its_range_names_the_pair_and_is_not_kept(dtype: Any) -> None:
    rng = np.random.default_rng(36)
    keys = rng.uniform(-1, 1, (2000, 64)).astype(dtype)
    values = rng.standard_normal((2000, 4)).astype(dtype)
    store = DeltaNet()
    state = store.write(store.empty(64, 4), unit(rng, 3, 64).astype(dtype), values[:3])
    before = state["W"].copy()
    with pytest.warns(UnstableWarning), pytest.raises(DivergedError, match="nothing was changed") as caught:
        store.write(state, keys, values)
    step = caught.value.step
    assert 3 < step < 2003
    assert np.array_equal(state["W"], before)
    with pytest.warns(UnstableWarning):
        almost = store.write(state, keys[: step - 3], values[: step - 3])
    assert np.isfinite(almost["W"]).all()
    with pytest.warns(UnstableWarning), pytest.raises(DivergedError) as again:
        store.scan(state, keys, values, keys)
    assert again.value.step == step


def test_unnormalised_half_precision_keys_warn_and_never_give_nan() -> None:
    rng = np.random.default_rng(37)
    keys, values = rng.standard_normal((64, 64)).astype(np.float16), rng.standard_normal((64, 64)).astype(np.float16)
    store = DeltaNet()
    with pytest.warns(UnstableWarning):
        state = store.write(store.empty(64, 64), keys[:12], values[:12])
    assert np.isfinite(state["W"]).all()
    assert state["W"].dtype == np.float32
    with pytest.warns(UnstableWarning), pytest.raises(DivergedError):
        store.write(state, keys[12:], values[12:])


# ---------------------------------------------------------------------- dtypes and libraries


def test_bfloat16_inputs_are_computed_in_float32() -> None:
    torch = pytest.importorskip("torch")
    keys, values, queries = _rows(38, 200)
    rows = [torch.tensor(x).to(torch.bfloat16) for x in (keys, values, queries)]
    store = GatedDeltaNet(strength=0.9)
    state, out = store.scan(store.empty(D_K, D_V, batch=(2,)), *rows)
    assert state["W"].dtype == torch.float32
    assert out.dtype == torch.bfloat16
    wide = [x.to(torch.float64).numpy() for x in rows]
    W, recalls = loop(*wide, strength=np.full((2, 200), 0.9), decay=np.full((2, 200), 0.99))
    assert difference(state["W"].numpy(), W) < SINGLE
    assert difference(out.to(torch.float64).numpy(), recalls["after"]) < 2**-8


@pytest.mark.parametrize("name", ["float16", "bfloat16"])
def test_a_sixteen_bit_state_is_rounded_after_every_pair(name: str) -> None:
    torch = pytest.importorskip("torch")
    keys, values, queries = (torch.tensor(x[0]).to(getattr(torch, name)) for x in _rows(39, 70))
    store = DeltaNet()
    empty = store.empty(D_K, D_V, like=keys, state_dtype=name)
    at_once = store.write(empty, keys, values)
    W = torch.zeros(D_V, D_K)
    for k, v in zip(keys.float(), values.float(), strict=True):
        W = (W + torch.outer(v - W @ k, k)).to(getattr(torch, name)).float()
    assert at_once["W"].dtype == getattr(torch, name)
    assert torch.equal(at_once["W"].float(), W)
    scanned, _ = store.scan(empty, keys, values, queries)
    assert torch.equal(scanned["W"], at_once["W"])
    exact = loop(*(x.double().numpy() for x in (keys, values, queries)), strength=np.ones(70))[0]
    assert 1e-5 < difference(W.numpy(), exact) < 0.1


def test_gradients_are_finite_where_the_decay_is_zero() -> None:
    torch = pytest.importorskip("torch")
    keys, values, queries = (torch.tensor(x[0]) for x in _rows(44, 70))
    decay = torch.tensor(DECAYS["zeros"](np.random.default_rng(45), (70,))).requires_grad_()
    store = GatedDeltaNet()
    _, out = store.scan(store.empty(D_K, D_V), keys, values, queries, decay=decay)
    (out**2).sum().backward()
    assert torch.isfinite(decay.grad).all()
    by_hand = decay.detach().clone()
    at = int((by_hand == 0).nonzero()[0])
    by_hand[at] = 1e-6
    _, moved = store.scan(store.empty(D_K, D_V), keys, values, queries, decay=by_hand)
    slope = ((moved**2).sum() - (out.detach() ** 2).sum()) / 1e-6
    assert float(slope) == pytest.approx(float(decay.grad[at]), rel=1e-3, abs=1e-3)


# ---------------------------------------------------------------------- feature maps, register, settings


def test_delta_net_over_features_is_delta_net_on_featured_keys() -> None:
    keys, values = _pairs(46, 50)
    phi = SumNormalised(DPFP(nu=2))
    featured = phi(keys)
    W, _ = loop(featured, values, featured, strength=np.ones(50))
    assert difference(written(DeltaNet(feature=phi), keys, values, keys), featured @ W.T) < DOUBLE
