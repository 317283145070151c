"""Exact numbers on given rows: against the weights that stores themselves give, and against counting every subset."""

import itertools
import math

import numpy as np
import pytest

from assocmem import stores
from assocmem.contract.numbers import stream
from assocmem.contract.state import Pairs
from assocmem.lab.exact import STATISTICS, Exact
from assocmem.lab.given import given, weighed
from assocmem.lab.plan import labelled
from assocmem.maps.activations import ReLU, Swish
from assocmem.ruler.ratio import by_weights
from assocmem.ruler.weights import recall_weights
from assocmem.stores.mlp import MLP, GatedMLP
from assocmem.stores.softmax import SoftmaxAttention

EXACT = 1e-9
D = 6


def drawn(*name, shape=(9, D)):
    return stream(5, "exact", *name).standard_normal(shape)


def made(key):
    required = {"exp-series": {"terms": 3}}
    return stores.make_store(key, **required.get(key, {}))


SUMS = [
    key for key in stores.names()
    if not [e for e in made(key).traits.extras if e.required] and weighed(given(drawn()).head(0), made(key), 9)
]  # fmt: skip


def test_stores_whose_recall_is_a_sum_are_told_by_their_form():
    assert {"outer-product", "softmax", "squared-relu", "gelu"} <= set(SUMS)
    assert not {"delta-net", "optimal-linear", "titans"} & set(SUMS)


@pytest.mark.parametrize("key", SUMS)
def test_ratios_are_those_of_the_weights_that_the_store_gives(key):
    keys, queries, targets = drawn("keys"), drawn("queries", shape=(5, D)), np.array([3, 0, 8, 3, 1])
    if made(key).traits.keys == "signs":
        keys, queries = np.sign(keys), np.sign(queries)
    rows = given(keys, queries=queries, targets=targets).head(0)
    found = Exact.of(rows, labelled(made(key)))
    truth = by_weights(recall_weights(made(key), Pairs(keys, np.ones((9, 1))), queries), targets)
    assert found.ratios(9).ratio(9) == pytest.approx(truth, rel=EXACT)
    assert found.ratios(9).ratio(9) != pytest.approx(np.roll(truth, 1), rel=1e-3)


def test_gated_rows_are_those_of_the_gated_store():
    keys, gates = drawn("up"), drawn("gate")
    rows = given(keys, gates=gates, queries=keys, targets="own").head(0)
    truth = recall_weights(GatedMLP(Swish()), Pairs(keys, np.ones((9, 1)), extras={"gate": gates}), keys)
    found = Exact.of(rows, labelled(GatedMLP(Swish())))
    assert found.ratios(9).ratio() == pytest.approx(by_weights(truth, np.arange(9)), rel=EXACT)
    assert Exact.of(rows, labelled(MLP(Swish()))) is None
    assert Exact.of(given(keys).head(0), labelled(GatedMLP(Swish()))) is None


@pytest.mark.parametrize("m", [2, 4, 6])
def test_choices_of_the_loudest_row_equal_the_count_over_every_subset(m):
    keys = drawn("choices", shape=(7, 2))
    found = Exact.of(given(keys).head(0), labelled(MLP(ReLU())))
    weights = np.maximum(keys @ keys.T, 0)
    right = [
        all(weights[j, j] > weights[j, i] for i in others)
        for j in range(7) for others in itertools.combinations(sorted(set(range(7)) - {j}), m - 1)
    ]  # fmt: skip
    assert 0.1 < np.mean(right) < 0.95
    assert found.loudest(m) == pytest.approx(np.mean(right), rel=EXACT)
    assert found.loudest(m) != pytest.approx(found.loudest(m + 1), rel=1e-3)


def test_an_equal_row_is_not_outvoiced():
    keys = np.repeat(drawn("equal", shape=(4, 3)), 2, axis=0)
    for store in (SoftmaxAttention(1.0), MLP(ReLU())):
        assert Exact.of(given(keys).head(0), labelled(store)).loudest(8) == 0.0


@pytest.mark.parametrize("store", [SoftmaxAttention(0.4), SoftmaxAttention("log-n"), MLP(ReLU(power=2))], ids=str)
@pytest.mark.parametrize("statistic", STATISTICS)
def test_the_statistic_at_the_crossing_is_the_threshold(store, statistic):
    found = Exact.of(given(drawn("crossing", shape=(60, D))).head(0), labelled(store))
    for threshold in (0.4, 1.0):
        m = found.crossing(threshold, statistic, 2, 1e9)
        if m is None:
            assert found.ratio(2, statistic) > threshold or found.ratio(1e9, statistic) < threshold
        else:
            assert found.ratio(m, statistic) == pytest.approx(threshold, rel=EXACT)


def test_statistics_are_over_queries_in_logarithms():
    found = Exact.of(given(drawn("statistics", shape=(30, D))).head(0), labelled("softmax"))
    ratios = found.ratios(20).ratio(20)
    truth = {"median": np.sort(ratios)[14], "p10": np.sort(ratios)[2], "p90": np.sort(ratios)[26],
             "rms": np.sqrt(np.mean(ratios**2)), "mean": np.mean(ratios)}  # fmt: skip
    assert {name: found.ratio(20, name) for name in STATISTICS} == pytest.approx(truth, rel=EXACT)
    assert found.past(20, truth["p90"]) == pytest.approx(3 / 30)
    far = Exact.of(given(1e3 * drawn("statistics", shape=(30, D))).head(0), labelled("softmax"))
    assert math.isfinite(far.log_ratio(20, "mean"))
    assert far.ratio(20, "rms") == math.inf
