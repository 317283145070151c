"""Sparse slots: product keys, shared pools, Tucker keys, experts, hashed n-grams, learned slots, tied to each other.

Every identity comes with a wrong variant that it must reject.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

from assocmem.contract.arrays import to_numpy, top_k
from assocmem.contract.errors import AssocmemError, InputError, NonFiniteError
from assocmem.contract.recall import merge
from assocmem.kernels.attention import attend
from assocmem.kernels.hashing import mixed, next_primes, odd_multipliers
from assocmem.kernels.top_k import top_of_sums
from assocmem.maps.activations import ReLU
from assocmem.stores import make_store
from assocmem.stores.all_attention import AllAttention, AttentionOverParameters
from assocmem.stores.engram import Engram
from assocmem.stores.mlp import MLP
from assocmem.stores.peer import PEER
from assocmem.stores.product_key import MemoryLayers, ProductKeyMemory
from assocmem.stores.softmax import SoftmaxAttention
from assocmem.stores.ultramem import UltraMem, _spread
from batches import LIBRARIES, drawn, written

RNG = np.random.default_rng
TABLES = ("product-key", "memory-layers", "ultramem", "peer", "engram")


def same(got, want, gap=1e-11):
    got = to_numpy(got)
    return got.shape == want.shape and bool(np.abs(got - want).max() <= gap * max(1.0, np.abs(want).max()))


def softmax(s):
    powers = np.exp(s - s.max(axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True)


# ---------------------------------------------------------------------- product keys


def all_sums(first, second, k):
    """Return the k largest of all n m sums by a stable sort: the slow truth."""
    sums = (first[..., :, None] + second[..., None, :]).reshape(*first.shape[:-1], -1)
    ids = np.argsort(-sums, axis=-1, kind="stable")[..., :k]
    return ids, np.take_along_axis(sums, ids, axis=-1)


@pytest.mark.parametrize("library", LIBRARIES)
def test_two_stages_find_the_largest_of_all_sums_ties_by_index(library):
    xp = pytest.importorskip(library)
    rng = RNG(0)
    for n, m, k in ((7, 7, 5), (9, 4, 3), (3, 3, 20), (1, 6, 2), (40, 40, 32)):
        for draw in (rng.standard_normal, lambda size: rng.integers(0, 3, size).astype(float), np.zeros):
            first, second = draw((5, n)), draw((5, m))
            ids, scores = top_of_sums(xp.asarray(first), xp.asarray(second), k)
            want = all_sums(first, second, k)
            assert np.array_equal(to_numpy(ids), want[0])
            assert np.array_equal(to_numpy(scores), want[1])
            assert ids.shape[-1] == min(k, n * m)
    ties = rng.integers(0, 3, (5, 9)).astype(float)
    later_first = (8 - np.argsort(-ties[:, ::-1], axis=-1, kind="stable"))[:, :4]
    assert not np.array_equal(np.sort(later_first), to_numpy(top_k(xp.asarray(ties), 4)))
    half = all_sums(np.sort(first)[..., -2:], second, 4)[0]  # too few candidates of one half
    assert not np.array_equal(half, all_sums(first + rng.standard_normal(first.shape), second, 4)[0])


def by_all_slots(state, x, k, scale):
    """Return recall by scoring every slot, head by head."""
    first, second, table = (to_numpy(state[name]) for name in ("first", "second", "values"))
    cut, out = first.shape[-1], 0
    for own, other in zip(first, second, strict=True):
        ids, scores = all_sums(scale * x[:, :cut] @ own.T, scale * x[:, cut:] @ other.T, k)
        out = out + (softmax(scores)[..., None] * table[ids]).sum(axis=-2)
    return out


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize(("n", "k", "heads", "d"), [(12, 5, 3, 9), (4, 40, 2, 6)])
def test_product_keys_recall_as_if_every_slot_were_scored(library, n, k, heads, d):
    xp = pytest.importorskip(library)
    keys, values, queries = drawn(1, 30, d)
    store = ProductKeyMemory(sub_keys=n, k=k, heads=heads, seed=4)
    state = written(store, xp.asarray(keys), xp.asarray(values), cuts=(11,))
    got = store.recall(state, xp.asarray(queries))
    assert same(got, by_all_slots(state, queries, min(k, n * n), math.sqrt(d)))
    assert not same(got, by_all_slots(state, queries, min(k, n * n) - 1, math.sqrt(d)), 1e-3)
    found = store.addresses(state, xp.asarray(queries))
    ids = to_numpy(found.ids)
    assert ids.shape == (30, heads * min(k, n * n))
    assert 0 <= ids.min() <= ids.max() < n * n


def test_all_slots_together_are_a_product_of_two_softmaxes():
    keys, values, queries = drawn(2, 20, 8)
    store = ProductKeyMemory(sub_keys=6, k=36, heads=1, scale=2.0)
    state = written(store, keys, values)
    first, second, table = state["first"][0], state["second"][0], state["values"]
    one, two = softmax(2 * queries[:, :4] @ first.T), softmax(2 * queries[:, 4:] @ second.T)
    assert same(store.recall(state, queries), np.einsum("mi,mj,ijv->mv", one, two, table.reshape(6, 6, -1)))
    assert not same(store.recall(state, queries), np.einsum("mi,mj,ijv->mv", two, one, table.reshape(6, 6, -1)), 1e-3)


def test_a_million_slots_answer_as_dense_softmax_over_the_slots_they_select():
    rng, n, k, d = RNG(3), 1024, 32, 16
    store = ProductKeyMemory(sub_keys=n, k=k, heads=1)
    keys, queries = (rng.standard_normal((3, d)) for _ in range(2))
    state = written(store, keys, rng.standard_normal((3, 2)))
    found = store.addresses(state, keys)
    sums = 4 * ((keys[:, :8] @ state["first"][0].T)[:, :, None] + (keys[:, 8:] @ state["second"][0].T)[:, None, :])
    flat = sums.reshape(3, n * n)
    hidden = np.full_like(flat, -np.inf)
    np.put_along_axis(hidden, found.ids, np.take_along_axis(flat, found.ids, -1), -1)
    assert np.array_equal(np.sort(found.ids), np.sort(np.argsort(-flat, kind="stable")[:, :k]))
    assert same(store.recall(state, keys), softmax(hidden) @ state["values"])
    assert not same(store.recall(state, keys), softmax(flat) @ state["values"], 1e-3)
    assert not np.array_equal(found.ids, store.addresses(state, queries).ids)


# ---------------------------------------------------------------------- one pool of several layers


def test_memory_layers_without_gate_are_product_keys_and_with_it_silu_of_their_own():
    keys, values, queries = drawn(5, 25, 8, 4)
    plain, gated = (MemoryLayers(sub_keys=8, k=5, heads=2, layers=2, layer=1, gate=gate) for gate in ("none", "silu"))
    state = written(plain, keys, values)
    alone = ProductKeyMemory(sub_keys=8, k=5, heads=2)
    base = alone.loaded(alone.empty(8, 4), first=state["first"][1], second=state["second"][1])
    base = alone.write(base, keys, values)
    assert same(plain.recall(state, queries), alone.recall(base, queries))
    open_state = gated.loaded(gated.empty(8, 4), values=state["values"])
    s = queries @ open_state["gate"][1].T
    assert same(gated.recall(open_state, queries), s / (1 + np.exp(-s)) * plain.recall(state, queries))
    assert not same(gated.recall(open_state, queries), plain.recall(state, queries), 1e-3)


def test_what_one_layer_writes_the_others_see_in_the_pool_that_they_share():
    keys, values, queries = drawn(6, 40, 8, 4)
    first, second = (MemoryLayers(sub_keys=6, k=4, layers=2, layer=layer) for layer in (0, 1))
    before = second.write(second.empty(8, 4), keys[:20], values[:20])
    after = first.write(before, keys[20:], values[20:])
    assert np.abs(second.recall(after, queries) - second.recall(before, queries)).max() > 1e-3
    assert not same(first.recall(after, queries), second.recall(after, queries), 1e-3)
    with pytest.raises(InputError, match="`layer` of MemoryLayers must be below layers=2; got 2"):
        MemoryLayers(layers=2, layer=2)


# ---------------------------------------------------------------------- Tucker keys


def test_a_tucker_grid_with_identity_core_and_a_constant_component_is_product_keys():
    rng, n, k = RNG(7), 9, 6
    a, b = rng.standard_normal((2, n, 3))
    units = np.eye(4)[[3] * n]
    pad = lambda rows: np.concatenate([rows, np.zeros((n, 1))], axis=-1)  # noqa: E731
    keys = np.ones((20, 8))
    keys[:, :3], keys[:, 4:7] = rng.standard_normal((2, 20, 3))
    values = rng.standard_normal((20, 2))
    tucker = UltraMem(sub_keys=n, k=k, cores=1, blocks=1, selection="grid", weights="softmax", scale=1.0)
    product = ProductKeyMemory(sub_keys=n, k=k, heads=1, scale=1.0)
    rows = {"first": np.stack([pad(a), units]), "second": np.stack([units, pad(b)])}
    recalls = {}
    for name, core in (("identity", np.eye(2)), ("exchanged", np.eye(2)[::-1])):
        state = tucker.loaded(tucker.empty(8, 2), **rows, core=core[None])
        recalls[name] = tucker.recall(tucker.write(state, keys, values), keys)
    base = product.loaded(product.empty(8, 2), first=pad(a)[None], second=pad(b)[None])
    want = product.recall(product.write(base, keys, values), keys)
    assert same(recalls["identity"], want)
    assert not same(recalls["exchanged"], want, 1e-3)


def grid_of(state, x, scale):
    """Return S of every core on the whole grid, (m, h, n', n')."""
    first, second, cut = state["first"], state["second"], state["first"].shape[-1]
    one = scale * np.einsum("md,rnd->mnr", x[:, :cut], first)
    two = scale * np.einsum("md,rnd->mnr", x[:, cut:], second)
    return np.einsum("mia,hab,mjb->mhij", one, state["core"], two)


def by_grid(store, state, x, spread):
    """Return recall by the whole grid: cores for their channels, blocks with their signs."""
    grids = grid_of(state, x, math.sqrt(x.shape[-1]))
    flat = grids.reshape(*grids.shape[:2], -1)
    ids = np.argsort(-flat.sum(axis=1), axis=-1, kind="stable")[:, : store.k]
    scores = np.take_along_axis(flat, ids[:, None], axis=-1)  # (m, h, k)
    d_v, rows = state["values"].shape[-1], store.sub_keys**2
    weights = np.stack([scores[:, c * store.cores // d_v] for c in range(d_v)], axis=-1)
    virtual = spread[ids]
    return (weights * state["signs"][virtual // rows] * state["values"][virtual % rows]).sum(axis=-2)


def test_virtual_blocks_and_cores_recall_by_their_formula():
    keys, values, queries = drawn(8, 30, 8, 6)
    store = UltraMem(sub_keys=5, k=7, cores=3, blocks=4, selection="grid", seed=2)
    state = written(store, keys, values, cuts=(9,))
    spread = _spread(2, 100)
    assert sorted(spread.tolist()) == list(range(100))
    assert same(store.recall(state, queries), by_grid(store, state, queries, spread))
    assert not same(store.recall(state, queries), by_grid(store, state, queries, np.arange(100)), 1e-3)


def chosen_share(store, state, x):
    """Return the share of the k best slots of the whole grid that the store addresses."""
    grids = grid_of(state, x, math.sqrt(x.shape[-1])).sum(axis=1).reshape(len(x), -1)
    best = np.argsort(-grids, axis=-1, kind="stable")[:, : store.k]
    spread = _spread(store.seed, grids.shape[-1]) if store.blocks > 1 else np.arange(grids.shape[-1])
    found = store.addresses(state, x).ids
    return np.mean([np.isin(spread[b] % store.sub_keys**2, f).mean() for b, f in zip(best, found, strict=True)])


def test_candidates_by_singular_vectors_are_exact_for_a_core_of_rank_one_and_scores_that_are_not_negative():
    rng = RNG(9)
    store = UltraMem(sub_keys=20, k=8, cores=1, blocks=1)
    positive = {name: rng.random((2, 20, 4)) for name in ("first", "second")}
    core = np.outer([0.8, 0.6], [0.3, 0.9])[None]
    state = store.loaded(store.empty(8, 1), **positive, core=core)
    assert chosen_share(store, state, rng.random((50, 8))) == 1
    assert chosen_share(store, store.loaded(state, core=np.eye(2)[None]), rng.random((50, 8))) < 1
    assert chosen_share(store, store.empty(8, 1), rng.standard_normal((50, 8))) < 1


# ---------------------------------------------------------------------- experts of one neuron


def test_all_experts_without_gate_are_an_mlp():
    keys, values, queries = drawn(10, 40, 8, 3)
    plain, gated = (PEER(sub_keys=6, k=36, heads=1, activation=ReLU(), gate=gate) for gate in ("none", "softmax"))
    state = written(plain, keys, values)
    mlp = MLP(ReLU())
    want = mlp.recall(written(mlp, state["inputs"], state["values"]), queries)
    assert same(plain.recall(state, queries), want)
    assert not same(gated.recall(state, queries), want, 1e-3)
    few = PEER(sub_keys=6, k=4, heads=1, activation=ReLU(), gate="none")
    assert not same(few.recall(state, queries), want, 1e-3)


# ---------------------------------------------------------------------- hashed n-grams


def test_a_hash_is_the_big_integer_one_and_tables_have_primes_of_their_own():
    ids, multipliers = RNG(11).integers(0, 2**17, (200, 3)), odd_multipliers(5, 3, 2**17 + 1)
    want = [int(a) * int(multipliers[2]) ^ int(b) * int(multipliers[1]) ^ int(c) * int(multipliers[0])
            for a, b, c in ids]  # fmt: skip
    assert mixed(ids, multipliers).tolist() == want
    assert mixed(ids[:, ::-1], multipliers).tolist() != want
    assert all(a % 2 for a in multipliers)
    assert max(int(a) for a in multipliers) * 2**17 < 2**63
    store = Engram(rows=50, heads=4, seed=5)
    assert store.primes == next_primes(50, 8) == (53, 59, 61, 67, 71, 73, 79, 83)
    begins = np.cumsum((0, *store.primes))[:-1]
    found = store.addresses(store.empty(3, 1), ids).ids - begins
    for t, prime in enumerate(store.primes):
        assert np.array_equal(found[:, t], mixed(ids[:, 1:] if t < 4 else ids, multipliers) % prime)


def test_without_collisions_it_is_a_dictionary_and_keys_that_end_alike_share_their_rows():
    rng = RNG(12)
    ids = rng.permutation(1000)[:300].reshape(100, 3)
    values = rng.standard_normal((100, 2))
    wide, narrow = Engram(rows=200_003, heads=2), Engram(rows=31, heads=2)
    held = {tuple(row): value for row, value in zip(ids.tolist(), values, strict=True)}
    want = np.stack([held[tuple(row)] for row in ids.tolist()])
    assert len(np.unique(wide.addresses(wide.empty(3, 2), ids).ids)) == 400
    assert same(wide.recall(written(wide, ids, values), ids), want)
    assert not same(narrow.recall(written(narrow, ids, values), ids), want, 1e-3)
    long = np.concatenate([rng.integers(0, 1000, (100, 4)), ids], axis=-1)
    state = written(wide, long, values)
    other = np.concatenate([rng.integers(0, 1000, (100, 4)), ids], axis=-1)
    assert same(wide.recall(state, other), want)
    other[:, -1] += 1
    assert not wide.recall(state, other).any()
    short = written(wide, ids[:, 2:], values)  # before the first id stands padding
    padded = np.concatenate([np.full((100, 2), wide.vocabulary), ids[:, 2:]], axis=-1)
    hashes = mixed(padded, odd_multipliers(0, 3, wide.vocabulary + 1))
    assert np.array_equal(wide.addresses(short, ids[:, 2:]).ids[:, 2] - sum(wide.primes[:2]), hashes % wide.primes[2])


def test_collisions_of_random_n_grams_are_as_many_as_chance_has_it():
    ids = RNG(13).integers(0, 2**17, (2000, 3))
    store = Engram(rows=4001, heads=8)
    begins = np.cumsum((0, *store.primes))[:-1]
    found = store.addresses(store.empty(3, 1), ids).ids - begins
    pairs = [sum(c * (c - 1) // 2 for c in np.bincount(column)) for column in found.T]
    want = sum(2000 * 1999 / 2 / p for p in store.primes)
    assert abs(sum(pairs) - want) < 4 * math.sqrt(want)  # a false alarm in 16,000
    assert abs(sum(pairs) - 2 * want) > 4 * math.sqrt(want)


def test_the_gated_layer_is_its_formula():
    rng = RNG(14)
    ids, values, hidden = rng.integers(0, 50, (12, 3)), rng.standard_normal((12, 4)), rng.standard_normal((12, 4))
    maps, kernel = rng.standard_normal((4, 4)), rng.standard_normal((4, 4))
    store = Engram(rows=64)
    state = written(store, ids, values)
    e = store.recall(state, ids)
    rms = lambda x: x / np.sqrt((x**2).mean(-1, keepdims=True))  # noqa: E731
    g = (rms(e @ maps.T) * rms(hidden)).sum(-1) / 2
    value = e / (1 + np.exp(-np.sign(g) * np.sqrt(np.abs(g))))[:, None]
    want = value.copy()
    for t in range(12):
        total = sum(kernel[:, 3 - j] * rms(value)[t - 3 * j] for j in range(4) if t >= 3 * j)
        want[t] += total / (1 + np.exp(-total))
    assert same(store.gated(state, ids, hidden, key_map=maps, kernel=kernel), want)
    assert not same(store.gated(state, ids, hidden, key_map=maps, kernel=kernel[:, ::-1]), want, 1e-3)
    assert same(store.gated(state, ids, hidden, key_map=maps), value)
    for bad in ({"hidden": hidden[:5]}, {"key_map": maps[:2]}, {"kernel": kernel[:3]}):
        with pytest.raises(InputError, match=next(iter(bad))):
            store.gated(state, ids, **{"hidden": hidden, **bad})


# ---------------------------------------------------------------------- learned slots


@pytest.mark.parametrize("library", LIBRARIES)
def test_persistent_memory_is_one_softmax_and_the_merge_of_two_recalls(library):
    xp = pytest.importorskip(library)
    keys, values, queries = (xp.asarray(x) for x in drawn(15, 20, 6))
    own_keys, own_values, _ = (xp.asarray(x) for x in drawn(16, 7, 6))
    store = AllAttention(persistent=7, beta=2.0)
    state = store.loaded(store.empty(6, 3), persistent_keys=own_keys, persistent_values=own_values)
    empty, full = state, store.write(state, keys, values)
    plain = SoftmaxAttention(2.0)
    joined = plain.recall(written(plain, xp.concat([keys, own_keys]), xp.concat([values, own_values])), queries)
    assert same(store.recall(full, queries), to_numpy(joined))
    parts = [attend(keys, values, queries, 2.0), attend(own_keys, own_values, queries, 2.0)]
    assert same(merge(parts).values, to_numpy(joined))
    assert not same((parts[0].values + parts[1].values) / 2, to_numpy(joined), 1e-3)
    assert same(store.recall(empty, queries), to_numpy(parts[1].values))
    weights = store.ask(full, queries, want="weights").weights.dense(20)
    want = softmax(2 * to_numpy(queries) @ to_numpy(xp.concat([keys, own_keys])).T)[:, :20]
    assert same(weights, want)


@pytest.mark.parametrize(("heads", "rows"), [(8, 1536), (16, 512)])
def test_attention_over_parameters_has_as_many_numbers_as_the_layer_that_it_replaces(heads, rows):
    state = AttentionOverParameters(heads=heads, rows=rows, width=64).empty(512, 512)
    assert state.size == 2 * 512 * 2048 == 2_097_152
    assert AttentionOverParameters(heads=heads, rows=rows + 1, width=64).empty(512, 512).size != 2_097_152


def test_attention_over_parameters_recalls_by_its_formula():
    rng = RNG(17)
    store = AttentionOverParameters(heads=3, rows=10, width=4)
    tables = {name: rng.standard_normal(array.shape) for name, array in store.empty(6, 5).arrays.items()}
    state, x = store.loaded(store.empty(6, 5), **tables), rng.standard_normal((7, 6))

    def by_heads(scale):
        parts = [
            softmax(scale * (x @ tables["queries"][4 * h : 4 * h + 4].T) @ tables["keys"][h].T)
            @ (math.sqrt(5) * tables["values"][h])
            for h in range(3)
        ]
        return np.concatenate(parts, axis=-1) @ tables["out"].T

    assert same(store.recall(state, x), by_heads(math.sqrt(3)))
    assert not same(store.recall(state, x), by_heads(math.sqrt(3) / 2), 1e-3)


# ---------------------------------------------------------------------- what all tables promise


@pytest.mark.parametrize("key", TABLES)
def test_a_pair_alone_comes_back_and_few_slots_give_few_addresses(key):
    store = make_store(key) if key == "engram" else make_store(key, sub_keys=2, k=50)
    keys = np.array([[3, 1, 4, 1]]) if key == "engram" else drawn(18, 1, 4)[0]
    value = np.array([[2.0, -1.0, 0.5, 3.0]])
    state = written(store, keys, value)
    found = store.addresses(state, keys)
    assert found.ids.min() >= 0
    assert found.ids.max() < store.slot_count(state)
    if key in ("product-key", "peer", "engram"):
        assert same(store.recall(state, keys), value)
        assert not same(store.recall(state, keys), 1.1 * value, 1e-3)
    if key != "engram":
        slots = 16 if key == "ultramem" else 4  # virtual addresses: four of each row
        assert found.ids.shape[-1] == getattr(store, "heads", 1) * slots


def refusals():
    product, engram, own = ProductKeyMemory(sub_keys=4), Engram(), AllAttention()
    state, ids = product.empty(6, 3), np.array([[1, 2, 3]])
    written_ids = written(engram, ids, np.ones((1, 2)))
    return [
        ("hash tables of size 1", lambda: Engram(rows=1), "`rows` of Engram must be a whole number >= 2; got 1"),
        ("k = 0", lambda: ProductKeyMemory(k=0), "`k` of ProductKeyMemory must be a whole number >= 1; got 0"),
        ("no sub-keys", lambda: PEER(sub_keys=0), "`sub_keys` of PEER must be a whole number >= 1; got 0"),
        ("blocks not square", lambda: UltraMem(blocks=3), r"`blocks` of UltraMem .* square grid: give 1, 4, .* got 3"),
        ("an id too large", lambda: engram.write(written_ids, ids + 2**17, np.ones((1, 2))),
         r"`keys` of Engram must be whole-number token ids in \[0, vocabulary=131072\); got 131073"),
        ("a query's id too large", lambda: engram.recall(written_ids, ids + 2**17), "`queries` of Engram"),
        ("a negative id", lambda: engram.recall(written_ids, ids - 5), "`queries` of Engram .* got -4 to -2"),
        ("a fractional id", lambda: engram.addresses(written_ids, ids + 0.5), "`queries` of Engram"),
        ("values of another index", lambda: product.loaded(state, values=np.ones((15, 3))),
         r"`values` of ProductKeyMemory.loaded must have shape \(16, 3\).* got \(15, 3\)"),
        ("an index of other sizes", lambda: product.loaded(state, first=np.ones((4, 5, 3)), values=np.ones((16, 3))),
         r"`first` of ProductKeyMemory.loaded must have shape \(4, 4, 3\).* got \(4, 5, 3\)"),
        ("a table that it has not", lambda: product.loaded(state, up=np.ones(3)), "has no table `up`; it has first"),
        ("no table", lambda: product.loaded(state), "needs at least one table"),
        ("text", lambda: product.loaded(state, values="all"), "`values` must hold real numbers"),
        ("NaN", lambda: product.loaded(state, values=np.full((16, 3), np.nan)), "`values` must be finite; row 0"),
        ("persistent values without their keys' number",
         lambda: own.loaded(own.empty(6, 3), persistent_values=np.ones((15, 3))), r"shape \(16, 3\)"),
        ("a state of another store", lambda: engram.loaded(state, values=np.ones((16, 3))), "must come from"),
    ]  # fmt: skip


@pytest.mark.parametrize(("call", "says"), [case[1:] for case in refusals()], ids=[case[0] for case in refusals()])
def test_bad_input_is_refused_in_one_sentence(call, says):
    with pytest.raises(AssocmemError, match=says) as caught:
        call()
    assert "\n" not in str(caught.value)
    assert isinstance(caught.value, InputError | NonFiniteError) or "real numbers" in str(caught.value)


def test_a_refusal_changes_nothing_and_loaded_tables_can_be_written_on():
    keys, values, queries = drawn(19, 12, 6)
    store = ProductKeyMemory(sub_keys=4, k=3)
    table = RNG(20).standard_normal((16, 3))
    state = store.loaded(store.empty(6, 3), values=table)
    assert state.n == 16
    before = store.recall(state, queries)
    with pytest.raises(InputError):
        store.loaded(state, values=table[:, :2])
    assert np.array_equal(store.recall(state, queries), before)
    after = store.write(state, keys, values)
    assert same(store.recall(after, queries) - before, store.recall(written(store, keys, values), queries))
    table[:] = 0
    assert np.array_equal(store.recall(state, queries), before)
