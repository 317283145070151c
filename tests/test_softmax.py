"""Softmax attention: values against a plain float64 reference, masks, sharpness, extremes, shards, scans, gradients."""

from __future__ import annotations

import itertools
import math
import threading
import tracemalloc
from typing import Any

import array_api_strict
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from assocmem import make_store
from assocmem.contract.errors import InputError, RecallOverflowError
from assocmem.contract.numbers import stream
from assocmem.contract.recall import Causal, merge
from assocmem.kernels import attention, blockwise, torch_attention
from assocmem.kernels import compute as threads
from assocmem.kernels import fused_attention as threaded
from assocmem.kernels.argmax import exact_similarities
from assocmem.kernels.attention import attend
from assocmem.maps.activations import Constant, LogN, QwenLogN, ScalableSoftmax, Sharpness, YaRN
from assocmem.stores.softmax import SoftmaxAttention
from batches import weights_of, written


def plain(keys: Any, values: Any, queries: Any, beta: Any, mask: Any = None) -> Any:
    """Return softmax attention as one formula in float64; beta is a number or one for each query."""
    keys, values, queries = (np.asarray(a, np.float64) for a in (keys, values, queries))
    logits = queries @ keys.mT * np.asarray(beta, np.float64).reshape(-1, 1)
    logits = logits if mask is None else np.where(mask, logits, -np.inf)
    weights = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return weights / weights.sum(axis=-1, keepdims=True) @ values


def pairs(n: int, d_k: int = 6, d_v: int = 3, m: int = 5, dtype: Any = np.float64, batch: tuple[int, ...] = ()) -> Any:
    """Return keys (unit rows), values and queries (longer)."""
    rng = stream(3, "test softmax", n, d_k, d_v, m)
    shapes = ((*batch, n, d_k), (*batch, n, d_v), (*batch, m, d_k))
    keys, values, queries = (rng.standard_normal(shape) for shape in shapes)
    keys /= np.linalg.norm(keys, axis=-1, keepdims=True)
    return tuple(a.astype(dtype) for a in (keys, values, queries))


@pytest.fixture
def _small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make blocks so small that a few pairs need many of them, and let the threaded way take small work."""
    monkeypatch.setattr(blockwise, "TILE_NUMBERS", 12)
    monkeypatch.setattr(blockwise, "MIN_COLUMNS", 3)
    monkeypatch.setattr(blockwise, "MAX_ROWS", 4)


# ---------------------------------------------------------------------- values


@pytest.mark.usefixtures("_small_blocks")
@pytest.mark.parametrize("beta", [0.0, 0.3, 8.0, 300.0])
def test_recall_is_the_formula_whatever_the_blocks(beta: float) -> None:
    keys, values, queries = pairs(23, m=11)
    store = SoftmaxAttention(beta)
    state = written(store, keys, values)
    np.testing.assert_allclose(store.recall(state, queries), plain(keys, values, queries, beta), rtol=1e-12, atol=1e-13)


@pytest.mark.usefixtures("nan_memory")
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("n", "m"), [(300, 130), (4999, 1), (4999, 2), (20011, 7), (1024, 300)])
def test_threads_give_the_formula(dtype: Any, n: int, m: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attention, "WORTH_THREADS", 0)
    monkeypatch.setattr(threads, "WORTH_A_THREAD", 2**14)
    monkeypatch.setenv("ASSOCMEM_THREADS", "3")
    keys, values, queries = pairs(n, 7, 5, m, dtype)
    found = attend(keys, values, queries, 1.5)
    bound = 3e-5 if dtype is np.float32 else 1e-12
    np.testing.assert_allclose(found.values, plain(keys, values, queries, 1.5), rtol=0, atol=bound)
    logits = 1.5 * queries.astype(np.float64) @ keys.astype(np.float64).T
    mass = logits.max(axis=1) + np.log(np.exp(logits - logits.max(axis=1, keepdims=True)).sum(axis=1))
    np.testing.assert_allclose(found.mass.log, mass, rtol=1e-6 if dtype is np.float32 else 1e-14)
    each = np.linspace(0, 3, m)
    np.testing.assert_allclose(
        attend(keys, values, queries, each).values, plain(keys, values, queries, each), rtol=0, atol=2 * bound
    )


def test_threads_take_the_items_of_a_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attention, "WORTH_THREADS", 0)
    keys, values, queries = pairs(300, batch=(2, 3))
    store = SoftmaxAttention(2.0)
    state = written(store, keys[..., :280, :], values[..., :280, :])
    state = store.write(state, keys[..., 280:, :], values[..., 280:, :])
    for asked in (queries, queries[0, 0]):
        out = store.recall(state, asked)
        for i in np.ndindex(2, 3):
            one = asked[i] if asked.ndim == 4 else asked
            np.testing.assert_allclose(out[i], plain(keys[i], values[i], one, 2.0), rtol=1e-12, atol=1e-13)


def test_the_running_maximum_follows_keys_that_grow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every block brings a larger logit, first far below zero and then far above: each shift must be made good."""
    monkeypatch.setattr(attention, "WORTH_THREADS", 0)
    monkeypatch.setattr(threaded, "CHUNK_NUMBERS", 512)
    n = 4000
    _, values, _ = pairs(n)
    keys = np.linspace(-600, 700, n)[:, None]
    queries = np.array([[1.0], [-1.0], [0.01], [0.0], [0.5]])
    for way in (queries, queries[:1], queries[1:2]):
        found = attend(keys, values, way, 1.0)
        np.testing.assert_allclose(found.values, plain(keys, values, way, 1.0), rtol=1e-12)
    assert abs(found.mass.log[0] - (600 - math.log(1 - math.exp(-1300 / 3999)))) < 1e-9


@pytest.mark.parametrize("count", ["1", "2", "5"])
def test_the_number_of_threads_does_not_show(count: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "WORTH_A_THREAD", 1000)
    keys, values, queries = pairs(9000, 8, 8, 40)
    monkeypatch.setenv("ASSOCMEM_THREADS", count)
    few = attend(keys[:300], values[:300], np.repeat(queries, 30, axis=0), 2.0).values
    np.testing.assert_allclose(few, plain(keys[:300], values[:300], np.repeat(queries, 30, axis=0), 2.0), atol=1e-12)
    many = attend(keys, values, queries, 2.0).values
    np.testing.assert_allclose(many, plain(keys, values, queries, 2.0), atol=1e-12)


@pytest.mark.parametrize(("n", "m"), [(200_000, 1), (100_000, 9), (20_000, 300), (40, 5000)])
def test_neither_threads_nor_their_luck_show_in_a_bit(n: int, m: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "WORTH_A_THREAD", 1)
    keys, values, queries = pairs(n, 16, 8, m, np.float32)
    found = []
    for count in ("1", "2", "3", "3", "7"):
        monkeypatch.setenv("ASSOCMEM_THREADS", count)
        once = threaded.attend(keys, values, queries, 4.0)
        found.append(b"".join(np.asarray(part).tobytes() for part in vars(once).values()))
    assert len(set(found)) == 1


@pytest.mark.parametrize(
    ("n", "m"),
    [(10**6, 1), (10**6, 64), (3 * 10**4, 8), (10**5, 1000), (6000, 1000), (10**6, 10**4), (100, 10**6), (5, 3)],
)
def test_shares_cover_the_work_once_and_keep_few_sums(n: int, m: int) -> None:
    block = threaded._Block(min(threaded.TILE_ROWS, m), 64, 64, np.float32)
    tiles = -(-m // threaded.TILE_ROWS)
    cuts, groups = threaded._shares(n, m, tiles, block)
    assert cuts[0] == 0
    assert cuts[-1] == n
    assert all(a < b for a, b in itertools.pairwise(cuts))
    assert [i for group in groups for i in group] == list(range(tiles))
    parts = len(cuts) - 1
    assert parts == 1 or parts * m * 64 <= threaded.SUMS_KEPT
    assert parts * len(groups) <= threaded.MOST_SHARES
    if n * m > 10**6:  # enough of them for every thread
        assert parts * len(groups) >= 6


def test_the_number_of_threads_must_be_a_number(monkeypatch: pytest.MonkeyPatch) -> None:
    for text in ("0", "two", "-1", ""):
        monkeypatch.setenv("ASSOCMEM_THREADS", text)
        with pytest.raises(InputError, match="ASSOCMEM_THREADS must be a whole number >= 1"):
            threads.thread_count()
    monkeypatch.delenv("ASSOCMEM_THREADS")
    assert 1 <= threads.thread_count() <= threads.MAX_THREADS


def test_recalls_leave_the_settings_of_blas_as_they_were(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also when several recalls overlap and when one fails."""
    from threadpoolctl import threadpool_info, threadpool_limits

    def limits() -> list[int]:
        return [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]

    keys, values, queries = pairs(60_000, 8, 8, 32)
    with threadpool_limits(2, user_api="blas"):
        before = limits()
        recalls = [threading.Thread(target=attend, args=(keys, values, queries, 2.0)) for _ in range(4)]
        for recall in recalls:
            recall.start()
        for recall in recalls:
            recall.join()
        assert limits() == before
        monkeypatch.setattr(threaded, "_go_through", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            attend(keys, values, queries, 2.0)
        assert limits() == before


@pytest.mark.usefixtures("_small_blocks")
def test_other_libraries_give_the_same_numbers() -> None:
    torch = pytest.importorskip("torch")
    keys, values, queries = pairs(17, batch=(2,))
    mask = stream(3, "mask").random((2, 5, 17)) < 0.5
    for store in (SoftmaxAttention(3.0), SoftmaxAttention(LogN(8)), SoftmaxAttention(math.inf)):
        state = written(store, keys, values)
        want = store.recall(state, queries, mask=mask), weights_of(store, state, queries, mask=mask)
        for xp in (torch, array_api_strict):
            other = written(store, xp.asarray(keys), xp.asarray(values))
            got = store.recall(other, xp.asarray(queries), mask=xp.asarray(mask))
            np.testing.assert_allclose(np.asarray(got), want[0], rtol=1e-12, atol=1e-13)
            got = weights_of(store, other, xp.asarray(queries), mask=xp.asarray(mask))
            np.testing.assert_allclose(np.asarray(got), want[1], rtol=1e-12, atol=1e-13)


# ---------------------------------------------------------------------- masks and what a query can see


def test_n_is_what_a_segment_leaves_visible() -> None:
    """Of 1000 items a segment leaves 10, 1 and 0; n = 1 gives weight exactly 1."""
    keys, values, _ = pairs(1000)
    queries = keys[[500, 3, 7]]
    mask = np.zeros((3, 1000), dtype=bool)
    mask[0, 495:505] = True
    mask[1, 3] = True
    policy = LogN(100, 4.0)
    store = SoftmaxAttention(policy)
    state = written(store, keys, values)
    out, weights = store.recall(state, queries, mask=mask), weights_of(store, state, queries, mask=mask)
    want = plain(keys[495:505], values[495:505], queries[:1], 4 * math.log(10) / math.log(100))
    np.testing.assert_allclose(out[:1], want, rtol=1e-12)
    np.testing.assert_array_equal(out[1], values[3])
    assert weights[1, 3] == 1.0
    assert np.count_nonzero(weights[1]) == 1
    assert not out[2].any()
    stored = SoftmaxAttention(policy, "stored")
    want = plain(keys[495:505], values[495:505], queries[:1], policy(1000, 6))
    np.testing.assert_allclose(stored.recall(state, queries, mask=mask)[:1], want, rtol=1e-12)
    assert np.abs(stored.recall(state, queries, mask=mask)[0] - out[0]).max() > 1e-3


@pytest.mark.usefixtures("_small_blocks")
@pytest.mark.parametrize(
    "policy", [LogN(8), QwenLogN(8), YaRN(8), ScalableSoftmax(0.7), Constant(2.0), LogN(8, math.inf)]
)
@pytest.mark.parametrize("read", ["after", "before"])
def test_scan_is_the_loop_and_n_counts_what_each_query_sees(policy: Sharpness, read: Any) -> None:
    keys, values, queries = pairs(64, m=64)
    store = SoftmaxAttention(policy)
    start = written(store, keys[:5], values[:5])
    for state in (store.empty(6, 3), start):
        final, out = store.scan(state, keys, values, queries, read=read)
        _, want = store._loop(state, keys, values, queries, read, {})
        np.testing.assert_allclose(out, want, rtol=1e-11, atol=1e-12)
        assert final.n == state.n + 64
    if policy.depends_on_n and read == "after" and not math.isinf(policy(9, 6)):
        _, out = store.scan(store.empty(6, 3), keys, values, queries)
        total = [policy(64, 6)] * 64
        wrong = plain(keys, values, queries, total, np.tri(64, dtype=bool))
        assert np.abs(out - wrong).max() > 1e-3, "a scan with the total length for every query would go unnoticed"
        each = [policy(i + 1, 6) for i in range(64)]
        np.testing.assert_allclose(out, plain(keys, values, queries, each, np.tri(64, dtype=bool)), rtol=1e-11)


def _peak(call: Any) -> float:
    """Return the megabytes of arrays held at most during a call."""
    tracemalloc.start()
    try:
        call()
        return tracemalloc.get_traced_memory()[1] / 2**20
    finally:
        tracemalloc.stop()


def test_memory_does_not_grow_with_pairs_times_queries() -> None:
    keys, values, _ = pairs(6000, 4, 4, dtype=np.float32)
    store = SoftmaxAttention(1.0)
    state = written(store, keys, values)
    queries = np.concatenate([keys] * 2)
    dense = queries.shape[0] * 6000 * 4 / 2**20
    assert dense > 250
    assert _peak(lambda: store.recall(state, queries)) < 30
    assert _peak(lambda: store.scan(store.empty(4, 4), keys, values, keys)) < 40
    row = np.arange(6000) < 4000
    assert _peak(lambda: store.recall(state, queries, mask=row)) < 40
    assert _peak(lambda: SoftmaxAttention(LogN()).recall(state, queries, mask=row)) < 40


# ---------------------------------------------------------------------- sharpness


@pytest.mark.parametrize("beta", [-1.0, math.nan])
def test_a_policy_that_gives_nonsense_is_refused(beta: float) -> None:
    class Odd(Sharpness):
        def __call__(self, n: float, d_k: int) -> float:
            return beta

    store = SoftmaxAttention(Odd())
    keys, values, queries = pairs(4)
    with pytest.raises(InputError, match="must be >= 0"):
        store.recall(written(store, keys, values), queries)


def test_beta_zero_is_the_mean_and_infinity_the_argmax_with_shared_ties() -> None:
    keys, values, queries = pairs(50)
    mean = SoftmaxAttention(0.0)
    out = mean.recall(written(mean, keys, values), queries)
    np.testing.assert_allclose(out, np.broadcast_to(values.mean(axis=0), out.shape), rtol=1e-13)
    keys[[13, 31, 49]] = keys[4]
    hard = SoftmaxAttention(math.inf)
    state = written(hard, keys, values)
    best = (queries @ keys.T).argmax(axis=1)
    lone = ~np.isin(best, [4, 13, 31, 49])
    assert lone.any()
    np.testing.assert_array_equal(hard.recall(state, queries)[lone], values[best[lone]])
    query = 10 * keys[4:5]
    np.testing.assert_allclose(hard.recall(state, query)[0], values[[4, 13, 31, 49]].mean(axis=0), rtol=1e-13)
    weights = weights_of(hard, state, query)[0]
    assert weights.nonzero()[0].tolist() == [4, 13, 31, 49]
    assert (weights[weights > 0] == 0.25).all()
    limit = SoftmaxAttention(1e300)
    np.testing.assert_allclose(limit.recall(state, queries)[lone], values[best[lone]], rtol=1e-12)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_ties_do_not_depend_on_where_equal_keys_stand(dtype: Any) -> None:
    """Matrix products round differently at the edge of a block; an exact tie must not notice."""
    rng = stream(5, "ties")
    keys = rng.standard_normal((2**14 + 77, 37)).astype(dtype)
    keys /= np.linalg.norm(keys, axis=1, keepdims=True)
    at = [0, 5, 1000, 2**14 - 1, 2**14 + 76]
    keys[at] = keys[3]
    at = sorted([*at, 3])
    values = np.arange(len(keys), dtype=dtype)[:, None]
    store = SoftmaxAttention(math.inf)
    for m in (1, 7, 70):
        queries = np.concatenate([keys[3:4]] * m)
        found = store.ask(written(store, keys, values), queries, want="mass")
        assert (found.mass.share == len(at)).all()
        np.testing.assert_allclose(found.values, np.mean(at), rtol=1e-6 if dtype is np.float32 else 1e-14)


def test_exact_similarities_are_the_product() -> None:
    keys, _, queries = pairs(9, batch=(2,))
    np.testing.assert_allclose(exact_similarities(queries, keys), queries @ keys.mT, rtol=1e-13, atol=1e-14)


def test_policies_meet_the_constant_at_their_reference_length() -> None:
    keys, values, queries = pairs(40)
    want = SoftmaxAttention(5.0).recall(written(SoftmaxAttention(5.0), keys, values), queries)
    same = (LogN(40, 5.0), QwenLogN(40, 5.0), YaRN(40, 5.0), ScalableSoftmax(5 / math.log(40)), QwenLogN(41, 5.0))
    for policy in same:
        store = SoftmaxAttention(policy)
        np.testing.assert_allclose(store.recall(written(store, keys, values), queries), want, rtol=1e-11)
    store = SoftmaxAttention(YaRN(10, 5.0))
    got = store.recall(written(store, keys, values), queries)
    np.testing.assert_allclose(
        got, plain(keys, values, queries, 5 * (0.1 * math.log(4) + 1) ** 2), rtol=1e-12, err_msg="YaRN above L"
    )


def test_settings_by_key() -> None:
    assert make_store("softmax") == SoftmaxAttention(None) == SoftmaxAttention(Constant())
    assert make_store("softmax", beta=np.float32(4)) == SoftmaxAttention(4.0)
    assert make_store("softmax", sharpness="log-n", beta=8, reference=64) == SoftmaxAttention(LogN(64, 8))
    assert make_store("softmax", sharpness="yarn", count="stored") == SoftmaxAttention(YaRN(), "stored")
    assert make_store("softmax", sharpness="qwen").sharpness == QwenLogN(1024)
    assert make_store("softmax", sharpness="ssmax", s=0.4).sharpness == ScalableSoftmax(0.4)
    assert make_store("softmax", sharpness=LogN(9)).sharpness == LogN(9)
    assert SoftmaxAttention("log-n").sharpness == LogN()
    for wrong, word in (
        ({"sharpness": "ssmax"}, "needs `s`"),
        ({"sharpness": "ssmax", "s": 1.0, "beta": 2.0}, "has no setting `beta`"),
        ({"reference": 10}, "has no setting `reference`"),
        ({"sharpness": "yarn", "s": 1.0}, "has no setting `s`"),
        ({"sharpness": "loud"}, "must be one of"),
        ({"sharpness": LogN(9), "beta": 1.0}, "give beta to it instead"),
    ):
        with pytest.raises(InputError, match=word):
            make_store("softmax", **wrong)


def test_the_declared_similarity_follows_n() -> None:
    form = SoftmaxAttention(LogN(100, 8.0)).form(64)
    assert form.normalised
    assert form.at(10, 64).beta == pytest.approx(4.0)
    assert SoftmaxAttention().form(64).at(10, 64).beta == 8.0
    assert SoftmaxAttention(LogN(9, math.inf)).form(4).at(1, 4).beta == 0.0
    for policy in (LogN(9, math.inf), QwenLogN(9, 0.0), YaRN(9, math.inf), ScalableSoftmax(0.0)):
        assert not policy.depends_on_n
        assert policy(2, 4) == policy(1000, 4)
    for n in (1, 2, 63, 64):
        assert YaRN(64, 3.0)(n, 4) == QwenLogN(64, 3.0)(n, 4) == 3.0  # constant up to the reference length
    assert YaRN(64, 3.0)(64 * math.exp(10), 4) == pytest.approx(12.0)
    for policy in (LogN(9), QwenLogN(9, 1e-300), YaRN(9, 1e300), ScalableSoftmax(1e-3)):
        assert policy.depends_on_n
        assert policy(20, 4) != policy(1000, 4)


# ---------------------------------------------------------------------- extreme numbers


@pytest.mark.parametrize("copies", [1, 300])
def test_logits_at_the_end_of_float32_give_the_float64_answer(copies: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both ways: blocks (3 pairs) and threads (900)."""
    monkeypatch.setattr(attention, "WORTH_THREADS", 0)
    keys = np.tile(np.array([[3e38, 0], [2.9e38, 1], [-3e38, 2]], np.float32), (copies, 1))
    values = np.tile(np.array([[1.0], [2.0], [4.0]], np.float32), (copies, 1))
    queries = np.array([[1, 0], [-1, 0], [1e-38, 0], [3e38, 0], [1e-36, 0.3]], np.float32)
    store = SoftmaxAttention(1.0)
    state = written(store, keys, values)
    want = plain(keys, values, queries, 1.0)
    np.testing.assert_allclose(store.recall(state, queries), want, rtol=1e-5)
    wide = written(store, keys.astype(np.float64), values.astype(np.float64))
    np.testing.assert_allclose(store.recall(wide, queries.astype(np.float64)), want, rtol=1e-12)
    np.testing.assert_allclose(weights_of(store, state, queries) @ values, want, rtol=1e-5)


def test_a_large_float32_logit_is_computed_in_float64() -> None:
    """At beta = 1e5 float32 logits are off by about 0.01: that error must not reach the weights."""
    rng = stream(5, "large logits")
    keys = (1 + 1e-5 * rng.standard_normal((400, 8))).astype(np.float32) / np.float32(math.sqrt(8))
    values, queries = rng.standard_normal((400, 2)).astype(np.float32), keys[:50]
    store = SoftmaxAttention(1e5)
    out = store.recall(written(store, keys, values), queries)
    np.testing.assert_allclose(out, plain(keys, values, queries, 1e5), rtol=0, atol=2e-6)
    single = queries @ keys.T * np.float32(1e5)
    single = np.exp(single - single.max(axis=1, keepdims=True))
    wrong = single / single.sum(axis=1, keepdims=True) @ values
    assert np.abs(wrong - out).max() > 1e-4, "float32 alone would have done, so this test shows nothing"


def test_logits_beyond_float64_are_refused() -> None:
    for n in (2, 3000):
        for beta, size in ((1.0, 1e200), (1e300, 1e10), (math.inf, 1e200)):
            store = SoftmaxAttention(beta)
            state = written(store, np.full((n, 2), size), np.ones((n, 1)))
            for queries in (np.full((3, 2), size), np.full((90, 2), -size)):
                with pytest.raises(RecallOverflowError, match="left the range of float64"):
                    store.recall(state, queries)
                with pytest.raises(RecallOverflowError):
                    weights_of(store, state, queries)


def test_values_at_the_end_of_the_range_average(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attention, "WORTH_THREADS", 0)
    for n in (5, 3000):
        keys = np.zeros((n, 2), np.float32)
        values = np.full((n, 1), 3e38, np.float32)
        store = SoftmaxAttention(1.0)
        out = store.recall(written(store, keys, values), np.ones((2, 2), np.float32))
        np.testing.assert_allclose(out, 3e38, rtol=1e-6)


@pytest.mark.parametrize("library", ["numpy", "torch"])
def test_half_precision_is_finite_and_sums_to_one(library: str) -> None:
    xp = pytest.importorskip(library)
    keys, values, _ = pairs(30, m=30)
    keys *= 300 / np.linalg.norm(keys, axis=1, keepdims=True)
    halves = [xp.asarray(a).astype(np.float16) if library == "numpy" else xp.asarray(a).half() for a in (keys, values)]
    store = SoftmaxAttention()
    state = written(store, *halves)
    causal = xp.asarray(np.tri(30, dtype=bool))
    out = store.recall(state, halves[0], mask=causal)
    assert str(out.dtype).endswith("float16")
    exact = [np.asarray(a).astype(np.float64) for a in halves]
    want = plain(exact[0], exact[1], exact[0], math.sqrt(6), np.tri(30, dtype=bool))
    np.testing.assert_allclose(np.asarray(out).astype(np.float64), want, rtol=2e-3, atol=1e-3)


def test_a_uniform_softmax_of_bfloat16_does_not_stick_at_256() -> None:
    torch = pytest.importorskip("torch")
    keys, values = torch.ones(512, 4, dtype=torch.bfloat16), torch.ones(512, 2, dtype=torch.bfloat16)
    for state_dtype in (None, "bfloat16"):
        store = SoftmaxAttention()
        state = store.write(store.empty(4, 2, state_dtype=state_dtype), keys, values)
        assert store.recall(state, keys[:3]).float().sub(1).abs().max() < 1e-2
        weights = weights_of(store, state, keys[:3])
        assert weights.sum(dim=-1).sub(1).abs().max() < 1e-2
        assert (weights * 512).sub(1).abs().max() < 1e-2


# ---------------------------------------------------------------------- shards


def _shards(store: SoftmaxAttention, keys: Any, values: Any, queries: Any, cuts: Any, n_total: Any, mask: Any) -> Any:
    edges = [0, *cuts, len(keys)]
    found = []
    for a, b in itertools.pairwise(edges):
        state = written(store, keys[a:b], values[a:b])
        seen = None if mask is None else mask[:, a:b]
        found.append(store.ask(state, queries, mask=seen, n_total=n_total, want="mass"))
    return found


@pytest.mark.parametrize("beta", [0.0, 1.0, 30.0, math.inf])
@settings(max_examples=25, deadline=None)
@given(cuts=st.lists(st.integers(0, 40), min_size=1, max_size=5).map(sorted), order=st.randoms(use_true_random=False))
def test_shards_merge_into_the_whole(beta: float, cuts: list[int], order: Any) -> None:
    keys, values, queries = pairs(40)
    keys[[7, 20, 39]] = keys[2]
    queries[0] = keys[2]
    store = SoftmaxAttention(beta)
    whole = store.ask(written(store, keys, values), queries, want="mass")
    shards = _shards(store, keys, values, queries, cuts, None, None)
    order.shuffle(shards)
    half = len(shards) // 2
    nested = merge([merge(shards[: half + 1]), *shards[half + 1 :]])
    for joined in (merge(shards), nested):
        np.testing.assert_allclose(joined.values, whole.values, rtol=0, atol=1e-12)
        np.testing.assert_allclose(joined.mass.log, whole.mass.log, rtol=1e-12)
        if math.isinf(beta):
            np.testing.assert_array_equal(joined.mass.share, whole.mass.share)
            assert joined.mass.share[0] == 4


@pytest.mark.parametrize("policy", [LogN(8), QwenLogN(8), YaRN(8), ScalableSoftmax(0.6), YaRN(8, math.inf)])
def test_shards_merge_where_sharpness_follows_n_of_each_query(policy: Sharpness) -> None:
    keys, values, queries = pairs(40, m=4)
    mask = np.arange(40) < np.array([[40], [25], [1], [0]])
    counts = np.array([40, 25, 1, 0])
    store = SoftmaxAttention(policy)
    state = written(store, keys, values)
    whole = store.ask(state, queries, mask=mask, n_total=counts, want="mass")
    np.testing.assert_array_equal(whole.values, store.recall(state, queries, mask=mask))
    joined = merge(_shards(store, keys, values, queries, (3, 17), counts, mask))
    np.testing.assert_allclose(joined.values, whole.values, rtol=0, atol=1e-12)
    np.testing.assert_allclose(joined.mass.log, whole.mass.log, rtol=1e-12)
    assert joined.mass.log[3] == -math.inf
    if not math.isinf(policy(9, 6)):
        own = [store.ask(written(store, keys[a:b], values[a:b]), queries[:1], n_total=b - a, want="mass")
               for a, b in ((0, 20), (20, 40))]  # fmt: skip
        assert np.abs(merge(own).values - whole.values[:1]).max() > 1e-4, "each shard's own n would go unnoticed"


def test_a_sharpness_that_follows_n_needs_the_total_of_all_shards() -> None:
    keys, values, queries = pairs(8)
    store = SoftmaxAttention(LogN(4))
    state = written(store, keys, values)
    with pytest.raises(InputError, match="is needed for the mass of a recall of SoftmaxAttention: LogN"):
        store.ask(state, queries, want="mass")
    for wrong in (2.5, -1, [1, 2]):
        with pytest.raises(InputError, match="`n_total` of a recall of SoftmaxAttention"):
            store.ask(state, queries, n_total=wrong)


# ---------------------------------------------------------------------- gradients


@pytest.mark.usefixtures("_small_blocks")
@pytest.mark.parametrize("policy", [Constant(1.3), LogN(4), Constant(0.0)])
def test_gradients_of_recall_match_finite_differences(policy: Sharpness) -> None:
    torch = pytest.importorskip("torch")
    store = SoftmaxAttention(policy)
    inputs = [torch.asarray(a).requires_grad_() for a in pairs(9, 3, 2, 5)]
    mask = torch.asarray(stream(1, "gradient mask").random((5, 9)) < 0.6)
    mask[1] = False

    def recall(keys: Any, values: Any, queries: Any) -> Any:
        state = store.write(written(store, keys[:4], values[:4]), keys[4:], values[4:])
        return store.recall(state, queries), store.recall(state, queries, mask=mask), weights_of(store, state, queries)

    assert torch.autograd.gradcheck(recall, inputs)

    def scan(keys: Any, values: Any, queries: Any) -> Any:
        return store.scan(store.empty(3, 2), keys, values, queries)[1]

    assert torch.autograd.gradcheck(scan, (*inputs[:2], inputs[0].detach().clone().requires_grad_()))

    def mass(keys: Any, values: Any, queries: Any) -> Any:
        parts = [written(store, keys[a:b], values[a:b]) for a, b in ((0, 3), (3, 9))]
        joined = merge([store.ask(part, queries, n_total=9, want="mass") for part in parts])
        return joined.values, joined.mass.log

    assert torch.autograd.gradcheck(mass, inputs)


def test_the_argmax_passes_gradients_to_the_values() -> None:
    torch = pytest.importorskip("torch")
    keys, values, queries = (torch.asarray(a) for a in pairs(6, 3, 2, 4))
    store = SoftmaxAttention(math.inf)

    def recall(held: Any) -> Any:
        return store.recall(written(store, keys, held), queries)

    assert torch.autograd.gradcheck(recall, values.requires_grad_())


def test_two_writes_from_one_state_have_gradients_of_their_own() -> None:
    torch = pytest.importorskip("torch")
    keys, values, queries = (torch.asarray(a) for a in pairs(5, 3, 2, 4))
    store = SoftmaxAttention(1.0)
    for carries in (False, True):
        start = written(store, keys[:3], values[:3].clone().requires_grad_(carries))
        more = [values[3:4].clone().requires_grad_(), values[4:5].clone().requires_grad_()]
        states = [store.write(start, keys[3 + i : 4 + i], more[i]) for i in (0, 1)]
        for i in (0, 1):
            out = store.recall(states[i], queries)
            want = plain(keys[[0, 1, 2, 3 + i]], values[[0, 1, 2, 3 + i]], queries, 1.0)
            np.testing.assert_allclose(out.detach().numpy(), want, rtol=1e-12)
            (got,) = torch.autograd.grad(out.sum(), more[i])
            weight = weights_of(store, states[i], queries)[:, 3].sum().item()
            np.testing.assert_allclose(got.numpy(), weight, rtol=1e-12)


@pytest.mark.parametrize("beta", [1e20, 1e30, 1e300])
@pytest.mark.parametrize("library", ["numpy", "torch"])
def test_ties_across_shards_count_at_any_finite_sharpness(beta, library):
    xp = np if library == "numpy" else pytest.importorskip("torch")
    store, key, query = SoftmaxAttention(beta), xp.asarray([[1.0, 0.5]]), xp.asarray([[1.0, 0.0], [0.5, 0.5]])
    values = xp.asarray([[0.0]] * 3 + [[1.0]])
    keys = xp.concat([key] * 4) if library == "torch" else np.concatenate([key] * 4)
    parts = [store.ask(written(store, keys[a:b], values[a:b]), query, want="mass") for a, b in ((0, 1), (1, 3), (3, 4))]
    for joined in (merge(parts), merge([merge(parts[:2]), parts[2]]), merge([parts[0], merge(parts[1:])])):
        np.testing.assert_allclose(np.asarray(joined.values)[:, 0], 0.25, rtol=1e-14)


def test_ties_across_large_and_small_shards_count():
    store, width = SoftmaxAttention(2.0**100), 64
    keys = np.tile(np.full((1, width), 0.5), (4096, 1))
    values = np.concatenate([np.zeros((4095, 1)), np.ones((1, 1))])
    cuts = ((0, 4092), (4092, 4096))
    parts = [store.ask(written(store, keys[a:b], values[a:b]), keys[:256], want="mass") for a, b in cuts]
    np.testing.assert_allclose(merge(parts).values, 1 / 4096, rtol=1e-10)


def test_an_error_in_one_thread_ends_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "WORTH_A_THREAD", 1)
    monkeypatch.setenv("ASSOCMEM_THREADS", "2")
    through, begun, gone = threaded._go_through, [], threading.Event()

    def failing(*words: Any) -> None:
        begun.append(threading.current_thread())
        if begun[0] is threading.current_thread():
            gone.set()
            raise MemoryError("no room")
        gone.wait(5)
        through(*words)

    monkeypatch.setattr(threaded, "_go_through", failing)
    with pytest.raises(MemoryError, match="no room"):
        threaded.attend(*pairs(200_000, 8, 8, 3, np.float32), 1.0)
    assert len(begun) <= 3


# ---------------------------------------------------------------------- torch's fused kernel


@pytest.fixture
def kernel(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return the calls of torch's kernel that gave a recall, masks cut into blocks of a few rows."""
    pytest.importorskip("torch")
    kept: list[Any] = []
    through = attention._fused

    def fused(*asked: Any) -> Any:
        found = through(*asked)
        kept.extend([] if found is None else [found])
        return found

    monkeypatch.setattr(attention, "_fused", fused)
    monkeypatch.setattr(torch_attention, "BIAS_NUMBERS", 60)
    return kept


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("policy", [Constant(1.3), Constant(0.0), LogN(4)])
@pytest.mark.parametrize("batch", [(), (2,), (2, 3), (1, 2, 2)])
def test_torch_goes_through_its_kernel_and_recalls_as_numpy_does(
    batch: Any, policy: Any, dtype: Any, kernel: Any
) -> None:
    import torch

    store = SoftmaxAttention(policy)
    given = pairs(11, 4, 4, 11, dtype, batch)
    rng = stream(2, "kernel masks")
    masks = [None, rng.random((*batch, 11, 11)) < 0.4, rng.random((11, 11)) < 0.4]
    for mask in masks[1:]:
        mask[..., 3, :] = False
    close = {"rtol": 2e-5 if dtype == np.float32 else 1e-12, "atol": 1e-6 if dtype == np.float32 else 1e-13}
    states = [written(store, *(xp.asarray(a) for a in given[:2])) for xp in (np, torch)]
    for mask in masks:
        seen = [None, None] if mask is None else [mask, torch.asarray(mask)]
        want, got = (
            store.ask(state, xp.asarray(given[2]), mask=m, want="mass", n_total=11)
            for state, m, xp in zip(states, seen, (np, torch), strict=True)
        )
        np.testing.assert_allclose(got.values, want.values, **close)
        np.testing.assert_allclose(got.mass.log, want.mass.log, **close)
    half = [written(store, *(xp.asarray(a[..., :4, :]) for a in given[:2])) for xp in (np, torch)]
    empty = [store.empty(4, 4, batch=batch, like=xp.asarray(given[0])) for xp in (np, torch)]
    for (old, new), read in itertools.product(((empty[0], empty[1]), (half[0], half[1])), ("after", "before")):
        rows = [a[..., int(old.n) :, :] for a in given]
        want, got = store.scan(old, *rows, read=read)[1], store.scan(new, *map(torch.asarray, rows), read=read)[1]
        np.testing.assert_allclose(got, want, **close)
        wrong = store.scan(new, *map(torch.asarray, rows), read="after" if read == "before" else "before")[1]
        assert np.abs(wrong.numpy() - want).max() > 1e-2
    assert len(kernel) == 11


@pytest.mark.parametrize("scale", [1.0, -1.0])
def test_what_the_kernel_cannot_hold_is_recalled_by_blocks(scale: float, kernel: Any) -> None:
    import torch

    keys, values, queries = (torch.asarray(a) for a in pairs(9, 4, 4, 5, np.float32))
    keys, queries = scale * abs(keys), abs(queries)
    for beta in (3e3, 1e36, 1e38):
        store = SoftmaxAttention(beta)
        want = store.recall(written(store, keys.double(), values.double()), queries.double())
        kernel.clear()
        np.testing.assert_allclose(store.recall(written(store, keys, values), queries), want, rtol=1e-5, atol=1e-6)
        assert not kernel
    with pytest.raises(RecallOverflowError):
        store.recall(written(store, 1e200 * keys.double(), values.double()), 1e200 * queries.double())


def test_derivatives_through_the_kernel_are_right_twice(kernel: Any) -> None:
    import torch

    store = SoftmaxAttention(1.3)
    inputs = [torch.asarray(a).requires_grad_() for a in pairs(5, 3, 3, 5)]
    mask = torch.asarray(stream(1, "kernel gradient mask").random((5, 5)) < 0.6)
    mask[1] = False

    def recall(keys: Any, values: Any, queries: Any) -> Any:
        state = written(store, keys, values)
        return (
            store.recall(state, queries), store.recall(state, queries, mask=mask),
            store.scan(store.empty(3, 3), keys, values, queries)[1],
        )  # fmt: skip

    assert torch.autograd.gradcheck(recall, inputs)
    assert torch.autograd.gradgradcheck(recall, inputs)
    assert kernel


# ---------------------------------------------------------------------- threads that skip what cannot be seen


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("beta", [0.0, 8.0, 1e4])
def test_threads_see_what_blocks_see(beta: float, dtype: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    keys, values, queries = pairs(400, 8, 5, 300, dtype, (2,))
    mask = stream(5, "threaded masks").random((2, 300, 400)) < 0.3
    mask[:, 7], mask[:, :200, :250] = False, False
    sharp = np.where(np.arange(300) % 9 == 0, beta, 3.0)  # rows of one tile need float64, others do not
    close = {"rtol": 1e-4 if dtype == np.float32 else 1e-10, "atol": 1e-5 if dtype == np.float32 else 1e-12}
    through, calls = threaded.attend, []
    monkeypatch.setattr(threaded, "attend", lambda *asked: calls.append(asked) or through(*asked))
    for visible in (Causal(0), Causal(1), Causal(101), mask, np.broadcast_to(mask[0, 0], mask.shape)):
        for own in (beta, sharp):
            got = attend(keys, values, queries, own, visible)
            wide = (a.astype(np.float64) for a in (keys, values, queries))
            with np.errstate(all="ignore"):
                want = attention._in_blocks(*wide, own, visible)
            np.testing.assert_allclose(got.values, want.values, **close)
            np.testing.assert_allclose(got.mass.log, want.mass.log, **close)
            assert not np.any(got.values[got.nothing])
    assert len(calls) == 20
    later = attend(keys, values, queries, 3.0, Causal(2)).values - attend(keys, values, queries, 3.0, Causal(1)).values
    assert np.abs(later).max() > 1e-2
