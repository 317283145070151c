"""Exact ratios of given rows against enumeration of every subset and an independent loop in float64."""

import itertools
import math

import mpmath
import numpy as np
import pytest

from assocmem.contract.errors import InputError, NonFiniteError
from assocmem.contract.numbers import stream
from assocmem.maps.activations import GELU, Linear, ReLU, Swish
from assocmem.ruler import GivenRows
from assocmem.ruler import given_rows as given_rows_module
from assocmem.stores.mlp import MLP, GatedMLP
from assocmem.stores.softmax import SoftmaxAttention

EXACT = 1e-9


def drawn(*name, shape):
    return stream(7, "given rows", *name).standard_normal(shape)


def enumerated(keys, values, recall, m):
    """Mean square ratio over all subsets of m rows and all targets in them, from a store's own recalls."""
    squares = []
    for chosen in itertools.combinations(range(len(keys)), m):
        at = list(chosen)
        out, own = recall(keys[at], values[at]), np.diagonal(recall(keys[at], np.eye(m)))
        signal = own[:, None] * values[at]
        squares.append(np.sum((out - signal) ** 2, axis=1) / np.sum(signal**2, axis=1))
    return float(np.mean(squares))


def recall_of(store, gates=None):
    def recall(keys, values):
        extras = {} if gates is None else {"gate": np.stack([gates[tuple(k)] for k in keys])}
        state = store.write(store.empty(keys.shape[1], values.shape[1]), keys, values, **extras)
        return store.recall(state, keys)

    return recall


CASES = {
    "softmax": (SoftmaxAttention(1.3), {"scaling": 1.3}),
    "linear": (MLP(Linear()), {"activation": Linear()}),
    "squared relu": (MLP(ReLU(power=2)), {"activation": ReLU(power=2)}),
    "gelu": (MLP(GELU()), {"activation": GELU()}),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("m", [2, 3, 5, 6])
def test_given_values_equal_the_mean_over_every_subset(case, m):
    store, settings = CASES[case]
    keys, values = drawn(case, shape=(6, 4)), drawn(case, "v", shape=(6, 3))
    truth = enumerated(keys, values, recall_of(store), m)
    found = GivenRows(keys, values=values, **settings).ratios().over_queries()
    assert math.exp(found.log_mean_square(m)[0]) == pytest.approx(truth, rel=EXACT)


@pytest.mark.parametrize("m", [2, 4, 6])
def test_gated_rows_equal_the_mean_over_every_subset(m):
    keys, values, gates = (drawn("gated", i, shape=(6, 4)) for i in range(3))
    recall = recall_of(GatedMLP(Swish()), {tuple(k): g for k, g in zip(keys, gates, strict=True)})
    found = GivenRows(keys, values=values, gates=gates, activation=Swish()).ratios().over_queries()
    assert math.exp(found.log_mean_square(m)[0]) == pytest.approx(enumerated(keys, values, recall, m), rel=EXACT)


def test_random_values_are_the_mean_over_values_of_length_one():
    # Orthonormal values make every cross term zero, so they have the mean over random ones in a single draw.
    keys = drawn("random values", shape=(6, 4))
    free = GivenRows(keys).ratios()
    fixed = GivenRows(keys, values=np.eye(6)).ratios()
    assert free.log_mean_square(4) == pytest.approx(fixed.log_mean_square(4), rel=EXACT)
    assert np.abs(fixed.second).max() < 1e-15
    assert not free.second.any()


def test_a_wrong_share_of_the_rows_is_told_from_the_right_one():
    keys, values = drawn("twin", shape=(6, 4)), drawn("twin", "v", shape=(6, 3))
    truth = enumerated(keys, values, recall_of(SoftmaxAttention(1.0)), 4)
    rows = GivenRows(keys, values=values).ratios()
    a, b = (np.mean(np.exp(rows.log_scale) * x) for x in (rows.first, rows.second))
    assert 3 * a + 6 * b == pytest.approx(truth, rel=EXACT)
    for wrong in (3 * a, 3 * a + 9 * b, (3 * a + 6 * b) * 5 / 6):
        assert wrong != pytest.approx(truth, rel=1e-3)


@pytest.mark.parametrize("with_values", [False, True])
@pytest.mark.parametrize("causal", [False, True])
def test_folds_equal_rows_that_are_not_there(with_values, causal):
    keys, values = drawn("folds", shape=(11, 4)), drawn("folds", "v", shape=(11, 3)) if with_values else None
    rows = GivenRows(keys, values=values, causal=causal)
    found, part = rows.folds(3, (1.0, 2.5)), rows.part_of(3)
    assert part.tolist() == [0] * 4 + [1] * 3 + [2] * 4
    for i, scale in enumerate((1.0, 2.5)):
        assert found.log_mean_square(5)[i, 0] == pytest.approx(rows.ratios(scale).log_mean_square(5), nan_ok=True)
        for g in range(3):
            left = GivenRows(keys, values=values, causal=causal, drop=np.flatnonzero(part == g).tolist()).ratios(scale)
            kept = left.asked & (part != g)
            assert kept.sum() > 2
            assert found.others[i, 1 + g][kept].tolist() == left.others[kept].tolist()
            assert found.log_mean_square(5)[i, 1 + g][kept] == pytest.approx(
                left.log_mean_square(5)[kept], rel=EXACT, nan_ok=True
            )
    assert not np.allclose(found.first[0, 1], found.first[0, 0], equal_nan=True)
    for wrong in ({"parts": 1}, {"parts": 12}):
        with pytest.raises(InputError, match="`parts`"):
            rows.folds(**wrong)
    with pytest.raises(InputError, match="`scales`"):
        GivenRows(keys, activation=Linear()).folds(3, (2.0,))


def looped(q, k, v, t, seen, scaling, softcap, m):
    """Log mean square ratio of one query among m memories, term by term with fractions of any size."""
    logits = [mpmath.mpf(scaling) * mpmath.fdot(q.tolist(), row.tolist()) for row in k]
    if softcap:
        logits = [softcap * mpmath.tanh(s / softcap) for s in logits]
    rows = [i for i in seen if i != t]
    a = {i: mpmath.exp(logits[i] - logits[t]) for i in rows}
    n = len(rows)
    if v is None:
        return float(mpmath.log((m - 1) * mpmath.fsum(x**2 for x in a.values()) / n))
    inner = {i: {j: mpmath.fdot(v[i].tolist(), v[j].tolist()) for j in rows} for i in rows}
    one = mpmath.fsum(a[i] ** 2 * inner[i][i] for i in rows) / n
    two = mpmath.fsum(a[i] * a[j] * inner[i][j] for i in rows for j in rows if i != j) / (n * (n - 1))
    own = mpmath.fdot(v[t].tolist(), v[t].tolist())
    return float(mpmath.log(((m - 1) * one + (m - 1) * (m - 2) * two) / own))


@pytest.mark.parametrize("scaling", [0.3, 40.0])
@pytest.mark.parametrize("with_values", [False, True])
@pytest.mark.parametrize(
    ("m", "causal", "window", "drop", "softcap"),
    [(9, True, None, [0], None), (5, True, 4, [], None), (9, False, None, [2, 3], 5.0), (9, True, 3, [0], 50.0)],
)
def test_grouped_causal_heads_equal_a_loop(scaling, with_values, m, causal, window, drop, softcap, monkeypatch):
    monkeypatch.setattr(given_rows_module, "BLOCK", 20)
    keys, values = drawn("loop", shape=(2, 2, 9, 5)), drawn("loop", "v", shape=(2, 2, 9, 4))
    queries = drawn("loop", "q", shape=(2, 6, m, 5))
    rows = GivenRows(
        keys, queries, values if with_values else None, scaling=scaling, causal=causal, window=window, drop=drop,
        softcap=softcap,
    )  # fmt: skip
    found = rows.ratios()
    assert found.others.shape == (2, 6, m)
    for layer, head, i in np.ndindex(2, 6, m):
        t = 9 - m + i
        seen = [j for j in range(9) if j not in drop and (not causal or 0 <= t - j < (window or 9))]
        others = len(set(seen) - {t})
        if t not in seen or not others:
            assert found.others[layer, head, i] == 0
            assert np.isnan(found.log_mean_square(4)[layer, head, i])
            continue
        assert found.others[layer, head, i] == others
        k, v = keys[layer, head // 3], values[layer, head // 3] if with_values else None
        if others == 1 and with_values:
            continue  # one row has no pairs, and M = 2 is all there is
        truth = looped(queries[layer, head, i], k, v, t, seen, scaling, softcap, 3)
        assert found.log_mean_square(3)[layer, head, i] == pytest.approx(truth, rel=EXACT, abs=EXACT)


def test_logits_of_any_size_neither_overflow_nor_vanish():
    keys = np.array([[1.0, 0.0], [0.5, 1.0], [-1.0, 2.0]])
    for scaling in (1e3, 1e6):
        found = GivenRows(keys, scaling=scaling).ratios()
        truth = [looped(keys[i], keys, None, i, range(3), scaling, None, 3) for i in range(3)]
        assert found.log_mean_square(3) == pytest.approx(truth, rel=EXACT)
        assert np.isfinite(found.log_mean_square(3)).all()
        assert np.isfinite(found.over_queries().log_mean_square(3)).all()


def test_as_it_stands_is_the_ratio_among_all_rows_that_a_query_sees():
    keys = drawn("stands", shape=(7, 3))
    found = GivenRows(keys, causal=True).ratios()
    for t in range(1, 7):
        a = np.exp(keys[:t] @ keys[t] - keys[t] @ keys[t])
        assert found.ratio()[t] == pytest.approx(np.linalg.norm(a), rel=EXACT)
        assert found.ratio()[t] == pytest.approx(found.ratio(t + 1)[t], rel=EXACT)
    assert np.isnan(found.ratio()[0])


@pytest.mark.parametrize("with_values", [False, True])
def test_the_ratio_at_the_capacity_is_the_threshold(with_values):
    keys, values = drawn("capacity", shape=(3, 40, 8)), drawn("capacity", "v", shape=(3, 40, 8))
    found = GivenRows(keys, values=values if with_values else None, scaling=0.8).ratios()
    for rows in (found, found.over_queries()):
        for threshold in (0.2, 1.0, 3.0):
            capacity = rows.capacity(threshold)
            reached = np.isfinite(capacity)
            assert reached.mean() > 0.5
            more = capacity - 1
            square = more * (rows.first + (more - 1) * rows.second) * np.exp(rows.log_scale)
            assert square[reached] == pytest.approx(threshold**2, rel=EXACT)


def test_values_that_cancel_never_reach_the_threshold():
    keys, values = np.zeros((3, 2)), np.array([[1.0], [1.0], [-1.0]])
    found = GivenRows(keys, values=values).ratios()
    assert found.ratio(3)[0] == 0.0
    assert found.capacity(1.5)[0] == math.inf
    assert np.isnan(found.ratio(9)[0])


def test_the_rms_over_queries_is_the_mean_of_their_squares():
    found = GivenRows(drawn("rms", shape=(2, 20, 4)), causal=True, drop=[0]).ratios()
    squares = np.exp(found.log_mean_square(50))
    assert found.over_queries().ratio(50)[..., 0] == pytest.approx(np.sqrt(np.nanmean(squares, axis=-1)), rel=EXACT)
    rms, heaviest = found.rms(50)
    assert rms == pytest.approx(np.sqrt(np.nanmean(squares, axis=-1)), rel=EXACT)
    assert heaviest == pytest.approx(np.nanmax(squares, axis=-1) / np.nansum(squares, axis=-1), rel=EXACT)
    as_it_stands = np.exp(found.log_mean_square())
    assert found.rms()[0] == pytest.approx(np.sqrt(np.nanmean(as_it_stands, axis=-1)), rel=EXACT)


def test_targets_are_named_or_the_strongest_row_seen():
    keys, queries = drawn("targets", shape=(8, 4)), drawn("targets", "q", shape=(5, 4))
    best = np.argmax(queries @ keys.T, axis=1)
    strongest, named = (GivenRows(keys, queries, target=t).ratios() for t in ("strongest", best))
    assert np.array_equal(strongest.ratio(), named.ratio())
    assert np.array_equal(GivenRows(keys, queries, target="strongest").targets(), best)
    assert (strongest.log_mean_square(2) <= 0).all()
    left_out = GivenRows(keys, queries, target=np.array([-1, *best[1:]])).ratios()
    assert left_out.asked.tolist() == [False, True, True, True, True]
    assert np.array_equal(left_out.ratio()[1:], named.ratio()[1:])
    mask = np.ones((5, 8), bool)
    mask[np.arange(5), best] = False
    second = GivenRows(keys, queries, mask=mask, target="strongest").ratios()
    assert np.array_equal(second.others, np.full(5, 6))


def test_a_mask_is_the_causal_window_that_it_draws():
    keys, queries = drawn("mask", shape=(2, 8, 4)), drawn("mask", "q", shape=(4, 8, 4))
    back = np.arange(8)[:, None] - np.arange(8)
    by_mask = GivenRows(keys, queries, mask=(back >= 0) & (back < 3)).ratios()
    assert np.array_equal(by_mask.ratio(), GivenRows(keys, queries, causal=True, window=3).ratios().ratio(), True)


def test_a_target_without_weight_has_an_infinite_ratio():
    found = GivenRows(np.eye(2), -np.eye(2), activation=ReLU()).ratios()
    assert found.ratio().tolist() == [math.inf, math.inf]
    assert found.capacity().tolist() == [1.0, 1.0]
    assert found.over_queries().ratio(2).tolist() == [math.inf]


def test_the_rows_that_interfere_most_come_first():
    keys = drawn("strongest", shape=(2, 9, 4))
    rows = GivenRows(keys, causal=True, scaling=0.5)
    names, a = rows.strongest(3)
    for head, t in np.ndindex(2, 9):
        ratios = {j: math.exp(0.5 * (keys[head, j] - keys[head, t]) @ keys[head, t]) for j in range(t)}
        order = sorted(ratios, key=ratios.get, reverse=True)[:3]
        assert names[head, t].tolist() == order + [-1] * (3 - len(order))
        assert a[head, t] == pytest.approx([ratios[j] for j in order] + [0.0] * (3 - len(order)), rel=EXACT)


def test_the_share_of_a_row_is_its_softmax_weight_also_where_it_is_dropped():
    keys, queries = drawn("share", shape=(9, 4)), drawn("share", "q", shape=(9, 4))
    found = GivenRows(keys, queries, causal=True, drop=[2]).share_of(2)
    for t in range(9):
        e = np.exp(keys[: t + 1] @ queries[t])
        assert found[t] == pytest.approx(e[2] / e.sum() if t >= 2 else 0.0, rel=EXACT)


def test_the_histogram_counts_every_row_that_interferes():
    keys = drawn("histogram", shape=(2, 9, 4))
    rows, edges = GivenRows(keys, causal=True, drop=[0]), [-2.0, -1.0, 0.0, 1.0]
    found = rows.log_histogram(edges)
    for head in range(2):
        logs = [(keys[head, j] - keys[head, t]) @ keys[head, t] for t in range(1, 9) for j in range(1, t)]
        assert found[head].tolist() == np.histogram(np.clip(logs, -2, 1), edges)[0].tolist()


def test_logits_grown_by_the_factor_have_the_ratio():
    keys = drawn("factors", shape=(2, 30, 6))
    rows = GivenRows(keys, causal=True, target="strongest")
    memories = [40, 3, 4096, 131072]
    factors = rows.logit_factors(memories, 0.7)
    assert factors.shape == (2, 30, 4)
    assert np.isnan(factors[:, 0]).all()
    for (head, t, j), c in np.ndenumerate(factors):
        if t:
            ratio = rows.ratios(scale=c).ratio(memories[j])[head, t]
            assert ratio == pytest.approx(0.7, rel=EXACT)
    order = np.argsort(memories)
    assert (np.diff(factors[:, 1:, order], axis=-1) > 0).all()


def test_no_factor_serves_where_another_row_has_as_large_a_logit():
    keys = np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0], [2.0, 0.0]])
    factors = GivenRows(keys, keys[:1], target=np.array([0])).logit_factors([100, 2], 1.0)
    assert factors.tolist() == [[math.inf, 0.0]]
    # With one larger logit among many small ones the mean square falls before it rises: a factor serves up to there.
    many = np.concatenate([[[1.0, 0.0], [1.2, 0.0]], np.tile([[-3.0, 0.0]], (50, 1))])
    rows = GivenRows(many, many[:1], target=np.array([0]))
    easy, hard = rows.logit_factors([20, 80], 1.0)[0]
    assert rows.ratios(scale=easy).ratio(20) == pytest.approx(1.0, rel=EXACT)
    assert hard == math.inf


def test_a_factor_may_be_zero_where_any_logits_serve():
    assert GivenRows(np.eye(4)).logit_factors([2], 1.5).tolist() == [[0.0]] * 4


def test_capped_logits_and_half_precision_are_computed_in_float64():
    keys = drawn("half", shape=(12, 4)).astype(np.float16)
    wide = GivenRows(keys.astype(np.float64), softcap=2.0).ratios().ratio()
    assert np.array_equal(GivenRows(keys, softcap=2.0).ratios().ratio(), wide)


def test_torch_arrays_give_the_same_numbers():
    torch = pytest.importorskip("torch")
    keys = drawn("torch", shape=(2, 8, 4)).astype(np.float32)
    given = GivenRows(torch.asarray(keys), mask=torch.ones(8, 8, dtype=torch.bool)).ratios().ratio()
    assert np.array_equal(given, GivenRows(keys).ratios().ratio())


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"keys": np.ones((0, 3))}, "must not be empty"),
        ({"queries": np.ones((4, 2))}, "leading axes and the width of the keys"),
        ({"keys": np.ones((2, 4, 3)), "queries": np.ones((3, 4, 3))}, "a multiple of their heads"),
        ({"values": np.ones((3, 3))}, "`values` must have a row for each"),
        ({"gates": np.ones((4, 3))}, "need an `activation`"),
        ({"scaling": math.nan}, "`scaling` must be a finite number"),
        ({"softcap": 0.0}, "`softcap` must be a number > 0"),
        ({"window": 3}, "beside causal=True"),
        ({"causal": True, "queries": np.ones((5, 3))}, "no more than the keys"),
        ({"drop": [4]}, "`drop` must hold positions in"),
        ({"target": "weakest"}, "`target` must be 'own', 'strongest' or"),
        ({"target": np.array([0, 1, 2, 4])}, "whole numbers in"),
        ({"queries": np.ones((2, 3))}, "must name rows where 2 queries"),
        ({"mask": np.ones((4, 3), bool)}, "`mask` must be true or false"),
        ({"mask": np.ones((4, 4))}, "`mask` must be true or false"),
    ],
)
def test_what_does_not_fit_is_refused_in_a_sentence(settings, words):
    with pytest.raises(InputError, match=words):
        GivenRows(**{"keys": np.ones((4, 3)), **settings})


def test_numbers_that_cannot_be_asked_for_are_refused_in_a_sentence():
    rows = GivenRows(np.eye(3))
    with pytest.raises(InputError, match="`n_memories` must be a number >= 2"):
        rows.ratios().ratio(1)
    with pytest.raises(InputError, match="`threshold` must be a finite number > 0"):
        rows.ratios().capacity(0)
    with pytest.raises(InputError, match="`count` must be a whole number"):
        rows.strongest(0)
    with pytest.raises(InputError, match="`position` must lie in"):
        rows.share_of(3)
    with pytest.raises(InputError, match="for the exponential"):
        GivenRows(np.eye(3), activation=ReLU()).logit_factors([2])
    with pytest.raises(InputError, match="must return numbers"):
        GivenRows(np.eye(3), activation=lambda s: s[:1]).ratios()
    with pytest.raises(NonFiniteError, match="row 1"):
        GivenRows(np.array([[1.0], [math.nan]]))
