"""Smaller caches against brute force, the exact eviction formula, duplicates, and a trained model's heads."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from assocmem.compressors import (
    AttentionMatching,
    Cache,
    CaM,
    Compressor,
    HeavyHitters,
    KVzip,
    RandomRows,
    RecencyWindow,
    SinksAndWindow,
    compare,
    gist_mask,
    self_study,
    split,
    train_cartridge,
)
from assocmem.contract.errors import InputError, NonFiniteError
from assocmem.contract.recall import merge
from trained import live_smollm2, needed, random_network

EVICTORS = (RecencyWindow(), SinksAndWindow(2), RandomRows(3), HeavyHitters(recent=3), KVzip())
ALL: tuple[Compressor, ...] = (*EVICTORS, CaM(), AttentionMatching(), AttentionMatching("omp", "nnls"))


def drawn(heads: int = 4, key_heads: int = 2, n: int = 24, m: int = 15, seed: int = 0, causal: bool = False) -> Cache:
    rng = np.random.default_rng(seed)
    keys, values = rng.normal(size=(key_heads, n, 6)), rng.normal(size=(key_heads, n, 5))
    return Cache(keys, values, 2 * rng.normal(size=(heads, m, 6)), causal=causal)


def attention(cache: Cache, queries: Any, hidden: Any = ()) -> tuple[Any, Any]:
    """Return outputs (h, m, d_v) and weights (h, m, n) of plain attention, written out."""
    group = len(queries) // len(cache.keys)
    outputs, weights = [], []
    for head, rows in enumerate(queries):
        logits = cache.scaling * rows @ cache.keys[head // group].T
        logits[:, list(hidden)] = -np.inf
        w = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
        weights.append(w)
        outputs.append(w @ cache.values[head // group])
    return np.array(outputs), np.array(weights)


@pytest.mark.parametrize("compressor", ALL, ids=repr)
def test_the_whole_budget_is_the_cache_and_a_smaller_one_holds_what_it_says(compressor: Compressor) -> None:
    cache = drawn()
    asked = np.random.default_rng(1).normal(size=(4, 7, 6))
    for budget in (24, 1.0):
        np.testing.assert_allclose(compressor.compress(cache, budget).recall(asked).values, attention(cache, asked)[0],
                                   atol=1e-12)  # fmt: skip
    for budget, rows in ((5, 5), (0.25, 6), (1, 1)):
        small = compressor.compress(cache, budget)
        assert [len(k) for k in small.keys] == [rows, rows]
        assert small.share == rows / 24
        assert np.isfinite(small.recall(asked).values).all()
        plain = 2 * rows * (6 + 5)
        assert small.numbers == plain + (2 * rows if any(b.any() for b in small.bias) else 0)


@pytest.mark.parametrize("evictor", EVICTORS, ids=repr)
def test_eviction_leaves_exactly_what_the_formula_says(evictor: Compressor) -> None:
    """o' = (o - sum of a_i v_i over the dropped) / (1 - sum of a_i); without the division it is another number."""
    cache = drawn()
    small = evictor.compress(cache, 9)
    assert small.kept is not None
    asked = np.random.default_rng(2).normal(size=(4, 7, 6))
    outputs, weights = attention(cache, asked)
    for head, got in enumerate(small.recall(asked).values):
        gone = np.setdiff1d(np.arange(24), small.kept[head // 2])
        left = outputs[head] - weights[head][:, gone] @ cache.values[head // 2][gone]
        np.testing.assert_allclose(got, left / (1 - weights[head][:, gone].sum(axis=1, keepdims=True)), atol=1e-12)
        assert np.abs(got - left).max() > 1e-3


def test_scores_are_those_of_their_papers() -> None:
    cache = drawn(causal=True)
    whole = np.zeros((4, 15, 24))
    for head in range(4):
        for i in range(15):
            logits = cache.scaling * cache.keys[head // 2][: 24 - 15 + i + 1] @ cache.queries[head, i]
            whole[head, i, : len(logits)] = np.exp(logits) / np.exp(logits).sum()
    grouped = whole.reshape(2, 30, 24)
    np.testing.assert_allclose(HeavyHitters().scores(cache), grouped.sum(axis=1), atol=1e-12)
    np.testing.assert_allclose(KVzip().scores(cache), grouped.max(axis=1), atol=1e-12)
    assert np.isinf(HeavyHitters(recent=2).scores(cache)[:, -2:]).all()
    assert RecencyWindow().compress(cache, 3).kept[1].tolist() == [21, 22, 23]  # type: ignore[index]
    assert SinksAndWindow(2).compress(cache, 3).kept[1].tolist() == [0, 1, 23]  # type: ignore[index]


def test_kvzip_counts_the_repeated_text_in_its_softmax() -> None:
    cache = drawn(heads=2, key_heads=1, n=6, m=4)
    beside = np.random.default_rng(5).normal(size=(1, 4, 6))
    best = np.zeros(6)
    for head in range(2):
        for i in range(4):
            seen = np.concatenate([cache.keys[0], beside[0, : i + 1]])
            weights = np.exp(cache.scaling * seen @ cache.queries[head, i])
            best = np.maximum(best, (weights / weights.sum())[:6])
    np.testing.assert_allclose(KVzip(beside).scores(cache)[0], best, atol=1e-12)
    assert np.abs(KVzip().scores(cache)[0] - best).max() > 1e-3


def test_a_budget_for_all_heads_goes_where_scores_are_highest() -> None:
    cache, evictor = drawn(), KVzip()
    scores = evictor.scores(cache)
    small = evictor.compress(cache, 20, per="all")
    assert small.kept is not None
    assert sum(map(len, small.kept)) == 20
    kept = {(h, int(i)) for h, ids in enumerate(small.kept) for i in ids}
    lowest = min(scores[at] for at in kept)
    assert all(scores[h, i] <= lowest for h in range(2) for i in range(24) if (h, i) not in kept)
    flat = Cache(np.stack([cache.keys[0] * 20, cache.keys[1] * 0]), cache.values, cache.queries)
    assert min(map(len, evictor.compress(flat, 2, per="all").keys)) == 1  # no head is left without a row


def test_matching_is_exact_where_rows_repeat_and_on_queries_not_seen() -> None:
    rng = np.random.default_rng(0)
    keys, values = rng.normal(size=(5, 6)), rng.normal(size=(20, 3))
    cache = Cache(np.repeat(keys, 4, axis=0), values, rng.normal(size=(40, 6)))
    for solve in ("clamped", "nnls"):
        small = AttentionMatching("omp", solve).compress(cache, 5)  # type: ignore[arg-type]
        np.testing.assert_allclose(np.exp(small.bias[0]), 4, atol=1e-6)
        asked = rng.normal(size=(1, 30, 6))
        np.testing.assert_allclose(small.recall(asked).values, cache.whole().recall(asked).values, atol=1e-6)
        kept = KVzip().compress(cache, 5)
        assert np.abs(kept.recall(asked).values - cache.whole().recall(asked).values).max() > 0.01
    every = drawn(heads=1, key_heads=1, m=60)
    fitted = AttentionMatching().compressed(every, np.array([24]))
    np.testing.assert_allclose(np.exp(fitted.bias[0]), 1, atol=1e-8)
    np.testing.assert_allclose(fitted.values[0], every.values[0], atol=1e-8)


def test_clamped_and_nonnegative_shares_are_the_solutions_they_name() -> None:
    """At the optimum of nnls the gradient is 0 where B > 0 and not negative elsewhere; the clamped fit is not that."""
    cache = drawn(heads=1, key_heads=1, n=60, m=40, seed=1)
    terms = np.exp(cache.scaling * (cache.queries[0] @ cache.keys[0].T))
    terms /= terms.max(axis=-1, keepdims=True)
    ids = np.sort(np.argsort(-cache.attention[0].max(axis=0), kind="stable")[:30])
    worst = {}
    for solve in ("nnls", "clamped"):
        b = np.exp(AttentionMatching("max", solve).compress(cache, 30).bias[0])  # type: ignore[arg-type]
        gradient = terms[:, ids].T @ (terms[:, ids] @ b - terms.sum(axis=1))
        worst[solve] = max(np.abs(gradient[b > 1e-9]).max(), -gradient[b <= 1e-9].min(initial=0.0))
    assert worst["nnls"] < 1e-8 < 1e-3 < worst["clamped"]


@pytest.mark.parametrize("compressor", [KVzip(), AttentionMatching()], ids=repr)
def test_a_smaller_cache_merges_with_another_shard_by_its_mass(compressor: Compressor) -> None:
    cache = drawn()
    first = Cache(cache.keys[:, :16], cache.values[:, :16], cache.queries)
    rest = Cache(cache.keys[:, 16:], cache.values[:, 16:], cache.queries).whole()
    asked = np.random.default_rng(3).normal(size=(4, 7, 6))
    joined = merge([first.whole().recall(asked), rest.recall(asked)])
    np.testing.assert_allclose(joined.values, attention(cache, asked)[0], atol=1e-12)
    small = compressor.compress(first, 8)
    joined = merge([small.recall(asked), rest.recall(asked)])
    for head in range(4):
        logits = np.concatenate([cache.scaling * asked[head] @ small.keys[head // 2].T + small.bias[head // 2],
                                 cache.scaling * asked[head] @ rest.keys[head // 2].T], axis=1)  # fmt: skip
        weights = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
        values = np.concatenate([small.values[head // 2], rest.values[head // 2]])
        np.testing.assert_allclose(joined.values[head], weights @ values, atol=1e-12)


def test_merged_values_are_those_of_the_rule() -> None:
    """Where all attention is equal every evicted row is merged; where it has none it is not."""
    values = np.arange(12.0).reshape(6, 2)
    cache = Cache(np.zeros((6, 3)), values, np.ones((1, 3)))
    small = CaM(SinksAndWindow(1), into=2).compress(cache, 4)  # keeps 0, 3, 4, 5; 1 and 2 go into 3 and 4
    expected = values[[0, 3, 4, 5]].copy()
    expected[1:3] += values[1] / 2 + values[2] / 2
    np.testing.assert_allclose(small.values[0], expected)
    keys = np.zeros((6, 3))
    keys[1:3] = -1e3
    np.testing.assert_array_equal(
        CaM(SinksAndWindow(1)).compress(Cache(keys, values, np.ones((1, 3))), 4).values[0], values[[0, 3, 4, 5]]
    )


@pytest.mark.parametrize(
    ("what", "call"),
    [
        ("budget", lambda c: KVzip().compress(c, 0)), ("budget", lambda c: KVzip().compress(c, 0.0)),
        ("budget", lambda c: KVzip().compress(c, 25)), ("budget", lambda c: KVzip().compress(c, 1.5)),
        ("budget", lambda c: KVzip().compress(c, math.nan)), ("budget", lambda c: KVzip().compress(c, True)),
        ("budget", lambda c: KVzip().compress(c, 1, per="all")), ("per", lambda c: KVzip().compress(c, 5, per="layer")),
        ("per", lambda c: AttentionMatching().compress(c, 5, per="all")),
        ("repeat_keys", lambda c: KVzip(np.ones((2, 3, 6))).compress(c, 5)),
        ("queries", lambda c: Cache(c.keys, c.values, np.ones((3, 2, 6)))),
        ("queries", lambda c: Cache(c.keys, c.values, np.ones((4, 2, 5)))),
        ("queries", lambda c: Cache(c.keys, c.values, np.ones((4, 30, 6)), causal=True)),
        ("values", lambda c: Cache(c.keys, c.values[:, :3], c.queries)),
        ("scaling", lambda c: Cache(c.keys, c.values, c.queries, scaling=0.0)),
        ("queries", lambda c: c.whole().recall(np.ones((3, 2, 6)))), ("head", lambda c: c.whole().pairs(2)),
        ("sinks", lambda _: SinksAndWindow(-1)), ("select", lambda _: AttentionMatching("first")),
        ("gist", lambda _: gist_mask(4, 3, 3)), ("gist", lambda _: gist_mask(4, 1, 5)),
    ],
)  # fmt: skip
def test_bad_input_is_one_sentence_that_names_it(what: str, call: Any) -> None:
    with pytest.raises(InputError, match=what):
        call(drawn())


def test_a_row_that_is_not_finite_is_named() -> None:
    keys = np.ones((1, 4, 3))
    keys[0, 2, 1] = np.nan
    with pytest.raises(NonFiniteError, match=r"keys.*\(0, 2\)"):
        Cache(keys, np.ones((1, 4, 3)), np.ones((1, 2, 3)))


def test_a_gist_is_all_that_is_left_of_what_it_stands_for() -> None:
    """Under the mask later outputs equal those from the gist's cache alone; under the causal one they do not."""
    torch, network = needed("torch"), random_network("llama")
    transformers = needed("transformers")
    ids = torch.randint(0, 60, (1, 12), generator=torch.Generator().manual_seed(0))
    start, stop = 5, 7

    def run(seen: Any, **more: Any) -> Any:
        mask = torch.where(torch.as_tensor(seen), 0.0, torch.finfo(torch.float32).min)[None, None]
        with torch.no_grad():
            return network(ids, attention_mask=mask, use_cache=True, **more)

    masked = run(gist_mask(12, start, stop))
    kept = transformers.DynamicCache([(layer.keys[:, :, start:stop], layer.values[:, :, start:stop])
                                      for layer in masked.cache.layers])  # fmt: skip
    places = torch.arange(stop, 12)[None]
    with torch.no_grad():
        alone = network(ids[:, stop:], cache=kept, position_ids=places).logits
    np.testing.assert_allclose(masked.logits[0, stop:], alone[0], atol=2e-4)
    plain = run(np.tri(12, dtype=bool)).logits
    assert (plain[0, stop:] - alone[0]).abs().max() > 0.05
    np.testing.assert_allclose(plain[0, :stop], masked.logits[0, :stop], atol=2e-4)


def test_a_cartridge_as_long_as_its_context_loses_nothing_and_a_short_one_learns() -> None:
    needed("torch")
    network = random_network("llama")
    context, texts = list(range(3, 19)), self_study(network, list(range(3, 19)), [[1], [2, 5]], length=12)
    assert [len(t) for t in texts] == [13, 14]
    assert texts == self_study(network, context, [[1], [2, 5]], length=12)
    whole = train_cartridge(network, context, texts, tokens=16, steps=0, top=60)
    assert whole.losses[0] == pytest.approx(whole.teacher, abs=1e-5)
    assert whole.tokens == 16
    short = train_cartridge(network, context, texts, tokens=4, steps=60, rate=0.02, top=60)
    assert short.losses[0] > short.teacher  # with every word counted none is below it
    assert short.losses[-1] - short.teacher < 0.5 * (short.losses[0] - short.teacher)
    plain = train_cartridge(network, context, texts, tokens=4, steps=0)
    for now, before in zip((*short.keys, *short.values), (*plain.keys, *plain.values), strict=True):
        np.testing.assert_array_equal(now[:, 0], before[:, 0])  # the sink is frozen
    assert all(p.requires_grad for p in network.parameters())
    for wrong in ({"tokens": 0}, {"tokens": 17}, {"tokens": 2, "rate": 0.0}, {"tokens": 2, "texts": [[1]]}):
        with pytest.raises(InputError, match=next(reversed(wrong))):
            train_cartridge(network, context, **{"texts": texts, **wrong})  # type: ignore[arg-type]


@pytest.mark.slow
@pytest.mark.xdist_group("smollm2")
def test_on_a_trained_model_matching_beats_eviction_beats_chance() -> None:
    """SmolLM2, layers 4 and 20, 300 tokens, a quarter kept, held-out queries; medians over 9 heads and 50 queries."""
    from assocmem.models.tracing import trace_text

    live = live_smollm2()
    text = " ".join(f"Item {i} is {w}." for i, w in enumerate(("red", "old", "far", "wet", "new", "big", "hot") * 9))
    traced = trace_text(live, text, length=300)
    labels = {"matching": AttentionMatching(), "kvzip": KVzip(), "random": RandomRows(0), "window": SinksAndWindow(4)}
    for layer in (4, 20):
        cache, held_out = split(traced.layers[layer], 200)
        table = compare(cache, held_out, labels, [0.25])
        error = {row["compressor"]: row["error"] for row in table.rows}
        assert error["matching"] < error["kvzip"] < error["random"], error
        assert {row["kept"] for row in table.rows} == {0.25}
    with pytest.raises(InputError, match="context"):
        split(traced.layers[0], 300)
