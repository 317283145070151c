"""Mamba and Mamba-2: the rules, their fast forms, their identities with broken twins."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from assocmem.contract.errors import DivergedError, InputError
from assocmem.contract.form import ChannelDecay, Decay, KernelSum
from assocmem.contract.store import Store
from assocmem.kernels.chunked import outer_chunks
from assocmem.maps.activations import Linear
from assocmem.stores.mamba import Mamba, Mamba2
from assocmem.stores.outer import OuterProduct
from recurrence import DECAYS, DOUBLE, LENGTHS, SINGLE, ByOne, difference, key_rows, loop, unit, written

D_K, D_V = 8, 6


def _rows(seed: int, n: int) -> tuple[Any, Any, Any]:
    rng = np.random.default_rng([seed, n])
    return key_rows("random", rng, n, D_K), rng.standard_normal((2, n, D_V)), unit(rng, 2, n, D_K)


def _selective_loop(
    keys: Any, values: Any, queries: Any, steps: Any, rates: Any
) -> tuple[Any, dict[str, Any]]:  # fmt: skip
    """Return h and the recalls of S6 in float64: h <- exp(D A) h + D u B^T."""
    keys, values, queries, steps = (np.asarray(x, np.float64) for x in (keys, values, queries, steps))
    h = np.zeros((*keys.shape[:-2], values.shape[-1], keys.shape[-1]))
    recalls = {"after": np.empty(values.shape), "before": np.empty(values.shape)}
    for i in range(keys.shape[-2]):
        D = steps[..., i, :, None]
        recalls["before"][..., i, :] = (h @ queries[..., i, :, None])[..., 0]
        h = np.exp(D * rates) * h + D * values[..., i, :, None] * keys[..., i, None, :]
        recalls["after"][..., i, :] = (h @ queries[..., i, :, None])[..., 0]
    return h, recalls


# ---------------------------------------------------------------------- fast form = loop


@pytest.mark.parametrize("n", LENGTHS)
@pytest.mark.parametrize("decay", DECAYS)
def test_mamba_2_chunks_equal_the_loop(n: int, decay: str) -> None:
    rng = np.random.default_rng(n)
    keys, values, queries = _rows(1, n)
    a, b = DECAYS[decay](rng, (2, n)), rng.exponential(1.0, (2, n))
    store = Mamba2()
    state = store.empty(D_K, D_V, batch=(2,))
    for dtype, tolerance in ((np.float64, DOUBLE), (np.float32, SINGLE)):
        k, v, q, decays, steps = (x.astype(dtype) for x in (keys, values, queries, a, b))
        H, recalls = loop(k, np.asarray(v, np.float64) * np.asarray(steps, np.float64)[..., None], q, decay=decays)
        for read, expected in recalls.items():
            after, found = store.scan(state, k, v, q, read=read, decay=decays, step=steps)
            assert difference(found, expected) < tolerance
            assert difference(after["H"], H) < tolerance
        assert difference(store.write(state, k, v, decay=decays, step=steps)["H"], H) < tolerance


STEPS = {
    "default": lambda *_: None,
    "initial": lambda rng, n: np.exp(rng.uniform(np.log(1e-3), np.log(0.1), (2, n, D_V))),
    "tiny": lambda _, n: np.full((2, n, D_V), 1e-9),
    "huge": lambda rng, n: rng.choice([0.01, 200.0], (2, n, D_V)),
    "some zero": lambda rng, n: rng.choice([0.0, 0.5], (2, n, D_V)),
}


@pytest.mark.parametrize("n", LENGTHS)
@pytest.mark.parametrize("steps", STEPS)
def test_mamba_blocks_equal_the_loop(n: int, steps: str) -> None:
    rng = np.random.default_rng(n)
    keys, values, queries = _rows(2, n)
    rates = -rng.exponential(1.0, (2, D_V, D_K))
    store = Mamba()
    state = store.empty(D_K, D_V, batch=(2,))
    given = STEPS[steps](rng, n)
    extras = {} if given is None else {"step": given, "rates": rates}
    if given is None:
        places = (np.arange(D_V) + 0.5) / D_V
        given = np.broadcast_to(1e-3 * 100**places, (2, n, D_V))
        rates = np.broadcast_to(-np.arange(1.0, D_K + 1), (2, D_V, D_K))
    for dtype, tolerance in ((np.float64, DOUBLE), (np.float32, SINGLE)):
        k, v, q = (x.astype(dtype) for x in (keys, values, queries))
        cast = {name: x.astype(dtype) for name, x in extras.items()}
        h, recalls = _selective_loop(k, v, q, given.astype(dtype), rates.astype(dtype).astype(np.float64))
        for read, expected in recalls.items():
            after, found = store.scan(state, k, v, q, read=read, **cast)
            assert difference(found, expected) < tolerance
            assert difference(after["h"], h) < tolerance
        assert difference(store.write(state, k, v, **cast)["h"], h) < tolerance


@pytest.mark.parametrize("chunk", [1, 3, 16, 64, 200])
@pytest.mark.parametrize("decay", ["mild", "uniform", "log -200"])
def test_the_chunk_length_changes_rounding_only(chunk: int, decay: str) -> None:
    keys, values, queries = _rows(4, 150)
    a = DECAYS[decay](np.random.default_rng(5), (2, 150))
    _, recalls = loop(keys, values, queries, decay=a)
    for read, expected in recalls.items():
        store = Mamba2(chunk=chunk)
        _, found = store.scan(store.empty(D_K, D_V, batch=(2,)), keys, values, queries, read=read, decay=a)
        assert difference(found, expected) < DOUBLE
    plain = Mamba().scan(Mamba().empty(D_K, D_V, batch=(2,)), keys, values, queries)[1]
    blocks = Mamba(chunk=chunk).scan(Mamba().empty(D_K, D_V, batch=(2,)), keys, values, queries)[1]
    assert difference(blocks, plain) < DOUBLE


def test_threads_over_the_batch_equal_one(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(6)
    keys, values, queries = (unit(rng, 3, 300, 64) for _ in range(3))
    for store in (Mamba(), Mamba2()):
        found = []
        for threads in ("1", "2", "3"):
            monkeypatch.setenv("ASSOCMEM_THREADS", threads)
            found.append(store.scan(store.empty(64, 64, batch=(3,)), keys, values, queries)[1])
        assert difference(found[1], found[0]) < 1e-13
        assert difference(found[2], found[0]) < 1e-13


# ---------------------------------------------------------------------- identities, each with a broken twin


@dataclass(frozen=True)
class DecayAll(ByOne, Mamba2):
    """Twin: lets the new pair decay too."""

    def put_pair(self, arrays: Any, key: Any, value: Any, **extras: Any) -> Any:
        return {"H": (arrays["H"] + value.mT @ key) * extras["decay"][..., None]}


@dataclass(frozen=True)
class DecayRows(ByOne, Mamba2):
    """Twin: a decay for every key coordinate instead of one."""

    def put_pair(self, arrays: Any, key: Any, value: Any, **extras: Any) -> Any:
        decays = extras["decay"][..., None] ** np.arange(1, key.shape[-1] + 1)
        return {"H": arrays["H"] * decays + value.mT @ key}


@dataclass(frozen=True)
class EulerDecay(ByOne, Mamba):
    """Twin: takes Euler's step for the decay too, 1 + D A in place of exp(D A)."""

    def put_pair(self, arrays: Any, key: Any, value: Any, **extras: Any) -> Any:
        steps = extras["step"].mT
        return {"h": (1 + steps * extras["rates"]) * arrays["h"] + (steps * value.mT) @ key}


@dataclass(frozen=True)
class OwnRates(ByOne, Mamba):
    """Twin: takes its default rates whatever it is given."""

    def resolved(self, state: Any, keys: Any, extras: Any) -> Any:
        return super().resolved(state, keys, {name: a for name, a in extras.items() if name != "rates"})


@dataclass(frozen=True)
class NoStep(ByOne, Mamba):
    """Twin: does not multiply the input by the step."""

    def put_pair(self, arrays: Any, key: Any, value: Any, **extras: Any) -> Any:
        return {"h": np.exp(extras["step"].mT * extras["rates"]) * arrays["h"] + value.mT @ key}


def _pairs(seed: int, n: int) -> tuple[Any, Any, Any]:
    return tuple(x[0] for x in _rows(seed, n))


def dual_form(store: Store) -> float:
    """SSD: recalls after each write are (L o (C B^T)) X with L_ts = a_(s+1) ... a_t (1-semiseparable)."""
    keys, values, queries = _pairs(7, 90)
    a = np.random.default_rng(8).uniform(0.3, 1, 90)
    L = np.array([[np.prod(a[s + 1 : t + 1]) if s <= t else 0.0 for s in range(90)] for t in range(90)])
    expected = (L * (queries @ keys.T)) @ values
    state, worst = store.empty(D_K, D_V), 0.0
    for i in range(90):
        state = store.write(state, keys[i : i + 1], values[i : i + 1], decay=a[i : i + 1])
        worst = max(worst, difference(store.recall(state, queries[i : i + 1]), expected[i : i + 1]))
    return max(worst, difference(written(store, keys, values, queries[-1:], decay=a), expected[-1:]))


def age(store: Store) -> float:
    """A pair written n steps ago has weight a^n."""
    keys = np.eye(20)
    values = np.random.default_rng(9).standard_normal((20, D_V))
    found = written(store, keys, values, keys, decay=np.full(20, 0.7))
    return difference(found, values * 0.7 ** np.arange(19, -1, -1)[:, None])


def decay_one_is_outer(store: Store) -> float:
    """Decay 1 (and step 1): the outer product store."""
    keys, values, queries = _pairs(10, 90)
    return difference(
        written(store, keys, values, queries, decay=np.ones(90)), written(OuterProduct(), keys, values, queries)
    )  # fmt: skip


@dataclass(frozen=True)
class NearlyOne(Mamba2):
    """Twin: a decay that never reaches 1."""

    def resolved(self, state: Any, keys: Any, extras: Any) -> Any:
        full = super().resolved(state, keys, extras)
        return full | {"decay": full["decay"] * (1 - 1e-6)}


MAMBA_2_IDENTITIES = {dual_form: DecayAll(), age: DecayRows(), decay_one_is_outer: NearlyOne()}


@pytest.mark.parametrize(("identity", "twin"), MAMBA_2_IDENTITIES.items(), ids=lambda x: getattr(x, "__name__", ""))
def test_mamba_2_identities_hold_and_reject_a_twin(identity: Any, twin: Store) -> None:
    assert identity(Mamba2()) < 1e-12
    assert identity(twin) > 1e-6


def rates_to_zero_is_outer(store: Store) -> float:
    """A -> 0, step 1: the outer product store."""
    keys, values, queries = _pairs(11, 90)
    found = written(store, keys, values, queries, rates=np.full((D_V, D_K), -1e-14), step=np.ones((90, D_V)))
    return difference(found, written(OuterProduct(), keys, values, queries))


def scalar_rate_is_mamba_2(store: Store) -> float:
    """One rate and one step for all channels: Mamba-2 with decay exp(D A)."""
    keys, values, queries = _pairs(12, 90)
    D = np.random.default_rng(13).uniform(0.05, 0.5, 90)
    found = written(store, keys, values, queries, rates=-0.8, step=D[:, None])
    return difference(found, written(Mamba2(), keys, values, queries, decay=np.exp(-0.8 * D), step=D))


def unrolled_sum(store: Store) -> float:
    """y_t = sum over s <= t of C . (exp(A (D_(s+1) + ... + D_t)) o D_s B_s u_s), channel by channel."""
    keys, values, queries = _pairs(14, 60)
    rng = np.random.default_rng(15)
    D, A = rng.uniform(0.01, 0.3, (60, D_V)), -rng.exponential(1.0, (D_V, D_K))
    later = D.sum(axis=0) - np.cumsum(D, axis=0)  # (n, d_v)
    weights = np.exp(A * later[:, :, None]) * (D * values)[:, :, None] * keys[:, None, :]
    found = written(store, keys, values, queries, rates=A, step=D)
    return difference(found, queries @ weights.sum(axis=0).T)


MAMBA_IDENTITIES = {
    rates_to_zero_is_outer: OwnRates(),
    scalar_rate_is_mamba_2: NoStep(),
    unrolled_sum: EulerDecay(),
}


@pytest.mark.parametrize(("identity", "twin"), MAMBA_IDENTITIES.items(), ids=lambda x: getattr(x, "__name__", ""))
def test_mamba_identities_hold_and_reject_a_twin(identity: Any, twin: Store) -> None:
    assert identity(Mamba()) < 1e-11
    assert identity(twin) > 1e-3


def test_three_forms_of_ssd_agree_at_several_chunk_lengths() -> None:
    keys, values, queries = _pairs(16, 100)
    a = np.random.default_rng(17).uniform(0.5, 1, 100)
    L = np.array([[np.prod(a[s + 1 : t + 1]) if s <= t else 0.0 for s in range(100)] for t in range(100)])
    dual = (L * (queries @ keys.T)) @ values
    assert difference(loop(keys, values, queries, decay=a)[1]["after"], dual) < DOUBLE
    for chunk in (7, 25, 64, 100):
        _, found = outer_chunks(np.zeros((D_K, D_V)), keys, values, decay=a, queries=queries, chunk=chunk)
        assert difference(found, dual) < DOUBLE
        assert difference(found[:-1], dual[1:]) > 0.1  # a form shifted by one pair would not pass


# ---------------------------------------------------------------------- defaults, traits, extras


def test_defaults_recall_what_was_stored() -> None:
    keys, values = np.eye(4), np.random.default_rng(18).standard_normal((4, 3))
    for store in (Mamba(), Mamba2()):
        found = written(store, keys, values, keys)
        for channel in range(3):
            ratio = found[:, channel] / values[:, channel]
            assert (ratio > 0).all(), "each value comes back with its sign, scaled by step and decay"
    steps = Mamba().form(6).steps(5)
    assert steps[0] > 1e-3
    assert steps[-1] < 0.1
    assert np.allclose(np.diff(np.log(steps)), np.diff(np.log(steps))[0])
    assert Mamba(step=0.5).form(6).steps(1).tolist() == [0.5]


def test_the_first_of_two_values_decays() -> None:
    keys, values, _ = _pairs(20, 2)
    twice = written(Mamba2(decay=0.5), np.stack([keys[0], keys[0]]), values, keys[:1])
    assert difference(twice, 0.5 * values[:1] + values[1:]) < 1e-12


def test_similarity_is_offered_only_where_nothing_decays() -> None:
    assert Mamba2().form(8) == Decay(0.99)
    assert Mamba2(decay=1.0).form(8) == KernelSum(Linear())
    assert Mamba2(step=0.0).form(8) is None
    assert Mamba(step=0.5).form(2) == ChannelDecay((-1.0, -2.0), 0.5, 0.5)


def test_settings_that_do_not_fit_are_refused() -> None:
    for make in (
        lambda: Mamba(step=(0.1, 0.01)),
        lambda: Mamba(rates=()).empty(3, 2),
        lambda: Mamba(rates=(-1.0, -2.0)).empty(3, 2),
    ):
        with pytest.raises(InputError):
            make()


def test_steps_and_rates_as_numbers_sequences_and_arrays() -> None:
    keys, values, queries = _pairs(22, 12)
    expected = written(Mamba(rates=-0.5, step=0.2), keys, values, queries)
    rates = tuple([-0.5] * D_K)
    assert difference(written(Mamba(rates=rates, step=0.2), keys, values, queries), expected) < 1e-13
    assert difference(written(Mamba(rates=list(rates), step=[0.2, 0.2]), keys, values, queries), expected) < 1e-13
    assert difference(written(Mamba(), keys, values, queries, step=0.2, rates=[[-0.5]]), expected) < 1e-13
    by_pair = np.full((12, D_V), 0.2)
    assert difference(written(Mamba(rates=-0.5), keys, values, queries, step=by_pair), expected) < 1e-13
    log = written(Mamba2(), keys, values, queries, log_decay=[-0.1] * 12)
    assert difference(log, written(Mamba2(decay=float(np.exp(-0.1))), keys, values, queries)) < 1e-13


# ---------------------------------------------------------------------- range, dtypes, libraries


def test_a_state_that_leaves_its_range_names_the_pair() -> None:
    keys, values = np.full((40, 2), 1e19, np.float32), np.full((40, 2), 1e18, np.float32)
    for store in (Mamba(rates=0.0, step=1.0), Mamba2(decay=1.0)):
        with pytest.raises(DivergedError, match="float32") as caught:
            store.write(store.empty(2, 2), keys, values)
        assert caught.value.step == 34


def test_an_overflow_inside_the_chunk_form_alone_changes_nothing() -> None:
    keys, values, queries = _pairs(26, 64)
    keys, queries = (1e20 * keys).astype(np.float32), (1e12 * queries).astype(np.float32)
    values = (1e-20 * values).astype(np.float32)
    _, found = Mamba2(decay=0.7).scan(Mamba2().empty(D_K, D_V), keys, values, queries)
    expected = loop(keys, values, queries, decay=np.full(64, 0.7))[1]["after"]
    assert difference(found / np.abs(expected).max(), expected / np.abs(expected).max()) < SINGLE


def test_drift_of_a_float32_state_over_many_writes_stays_small() -> None:
    rng = np.random.default_rng(23)
    keys, values = unit(rng, 32768, 8), rng.standard_normal((32768, 4))
    for store in (Mamba2(decay=0.999), Mamba(rates=-0.001, step=1.0)):
        narrow = store.write(store.empty(8, 4), keys.astype(np.float32), values.astype(np.float32))
        wide = store.write(
            store.empty(8, 4), keys.astype(np.float32).astype(float), values.astype(np.float32).astype(float)
        )
        name = next(iter(wide.arrays))
        assert difference(narrow[name], wide[name]) < SINGLE


@pytest.mark.parametrize("store", [Mamba(), Mamba2()])
def test_half_precision_inputs_are_computed_in_float32(store: Store) -> None:
    torch = pytest.importorskip("torch")
    keys, values, queries = _rows(24, 77)
    half = [torch.tensor(x).to(torch.bfloat16) for x in (keys, values, queries)]
    held, found = store.scan(store.empty(D_K, D_V, batch=(2,)), *half)
    name = next(iter(held.arrays))
    assert held[name].dtype == torch.float32
    assert found.dtype == torch.bfloat16
    again, _ = store.scan(store.empty(D_K, D_V, batch=(2,)), *(x.double().numpy() for x in half))
    assert difference(held[name].numpy(), again[name]) < SINGLE
