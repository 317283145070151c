"""Capacities, predicted and measured, by both samplers; how they grow with the width of the keys."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

import assocmem
from assocmem import make_store, theory
from assocmem.contract.errors import InputError
from assocmem.contract.form import DeltaRule, LeastSquares
from assocmem.inputs import EqualCosine
from assocmem.lab.capacity import capacity
from assocmem.maps.activations import ExpSeries, LogN, QwenLogN, ReLU, ScalableSoftmax
from assocmem.ruler import growth
from assocmem.stores.mlp import MLP
from assocmem.stores.softmax import SoftmaxAttention

EXACT = [
    ("outer-product", 65.0),
    ("relu", 129.0),
    ("squared-relu", 2817.0),
    ("swiglu", 2957.5),
    ("cubed-relu", 38_299.0),
    (("exp 2", MLP(ExpSeries(2, 8.0))), 41.5),
    (("exp 3", MLP(ExpSeries(3, 8.0))), 452.0),
    (("exp 4", MLP(ExpSeries(4, 8.0))), 3144.5),
    ("softmax", 1_272_264.0),
]


@pytest.mark.parametrize(("store", "exact"), EXACT, ids=lambda x: x if isinstance(x, str) else "")
def test_capacities_of_the_article(store, exact):
    # Ten intervals of 95 %, and 2 % of M, about six standard errors: fixed seed.
    found = capacity(store, 64)
    assert found.prediction.value == pytest.approx(exact, rel=2e-4)
    assert found.measured.value == pytest.approx(exact, rel=0.02)
    assert found.measured.high - found.measured.low < 0.03 * exact
    assert found.measured.low < found.measured.value < found.measured.high
    assert found.measured.sampler == "similarities"
    assert found.row()["difference"] == found.difference


def test_least_squares_fails_at_2d_by_keys():
    found = capacity("optimal-linear", 32, precision=0.03)
    assert found.measured.sampler == "keys"
    assert found.measured.value == pytest.approx(found.prediction.value, rel=0.03)
    median = capacity("optimal-linear", 32, precision=0.03, statistic="median")
    assert median.measured.statistic == median.prediction.statistic == "median"


def test_both_samplers_give_one_capacity():
    by_keys = capacity("squared-relu", 16, sampler="keys").measured
    by_similarities = capacity("squared-relu", 16).measured
    assert by_keys.low < by_similarities.value < by_keys.high
    assert by_keys.sampler == "keys"


def test_a_sharpness_that_grows_is_not_reached():
    found = capacity(("su", SoftmaxAttention(LogN())), 64, largest=2**17)
    assert found.measured.value is None
    assert "not reached below M = 131072; the ratio there is 0.00" in found.measured.reason
    assert found.measured.ratio_there == pytest.approx(theory.ratio(LogN(), 64, 2**17).value, rel=0.02)


def test_a_sharpness_that_grows_too_slowly_is_reached():
    found = capacity(("qwen", SoftmaxAttention(QwenLogN())), 16)
    assert found.measured.low < found.prediction.value < found.measured.high


def test_noisy_queries_cost_softmax_most():
    found = capacity("softmax", 64, cosine=0.6)
    assert found.measured.value == pytest.approx(2115, rel=0.02)
    assert found.prediction.value == pytest.approx(2114.94, rel=1e-5)


@pytest.mark.parametrize(("beta", "d"), [(25.0, 64), (512**0.5, 512)])
def test_capacities_that_nobody_could_draw_are_measured_tilted(beta, d):
    found = capacity(("sharp", SoftmaxAttention(beta)), d)
    assert found.measured.sampler == "similarities, tilted"
    assert found.measured.value == pytest.approx(found.prediction.value, rel=0.005)


@pytest.mark.parametrize("d", [1, 2])
def test_the_smallest_widths(d):
    found = capacity("outer-product", d)
    assert found.measured.value == pytest.approx(d + 1, rel=0.01)


def test_beta_zero_is_the_plain_mean():
    assert capacity(("mean", SoftmaxAttention(0.0)), 64).measured.value == 2.0


def test_a_store_without_signal_fails_at_once():
    found = capacity(("blind", MLP(ReLU(1, -1.0))), 64)
    assert found.measured.value is None
    assert "already above 1 at the smallest M = 1" in found.measured.reason
    assert found.prediction.value is None


def test_another_threshold_and_another_statistic():
    tenth = capacity("softmax", 64, threshold=0.1)
    assert tenth.measured.low < tenth.prediction.value < tenth.measured.high
    median = capacity("squared-relu", 64, statistic="median")
    assert median.measured.statistic == "median"
    assert median.prediction.value is None
    assert "root mean square" in median.prediction.reason
    assert median.measured.value == pytest.approx(2817, rel=0.05)


def test_other_laws_are_measured_by_keys():
    found = capacity("outer-product", 16, keys=EqualCosine(0.5), precision=0.05)
    assert found.measured.sampler == "keys"
    assert found.measured.value < 6


def test_seeds_repeat_and_workers_do_not_matter():
    one = capacity("relu", 64, workers=1, seed=5)
    assert capacity("relu", 64, workers=2, seed=5) == one
    assert capacity("relu", 64, workers=1, seed=6).measured.value != one.measured.value


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"sampler": "guess"}, "`sampler` must be"),
        ({"store": "optimal-linear", "sampler": "similarities"}, "measure it by the keys sampler"),
        ({"threshold": 0.0}, "`threshold` must be"),
        ({"precision": 1.0}, "`precision` must lie"),
        ({"d_k": 0}, "must be"),
    ],
)
def test_impossible_questions_are_refused(settings, words):
    given = {"store": "relu", "d_k": 8} | settings
    with pytest.raises(InputError, match=words):
        capacity(given.pop("store"), given.pop("d_k"), **given)


def test_predictions_say_why_there_is_none():
    assert "no formula" in theory.capacity(DeltaRule(), 64).reason
    assert "none for its capacity" in theory.capacity(LeastSquares(0.5), 64).reason
    assert "no formula" in theory.ratio(DeltaRule(), 64, 10).reason
    assert theory.ratio(LeastSquares(1.0), 64, 128, statistic="mean").value is None
    assert theory.ratio(LeastSquares(), 64, 128, law="gaussian", statistic="mean").value == pytest.approx(
        1.0078, rel=1e-3
    )


# ---------------------------------------------------------------------- growth with the width


@pytest.mark.parametrize("sampler", ["similarities", "keys"])
@pytest.mark.parametrize(
    ("store", "settings", "exact"),
    [
        ("softmax", {"cosine": 0.0}, 1.1798),
        ("outer-product", {"threshold": 0.1}, 1.08),
        (("tenth", SoftmaxAttention(0.1)), {}, 2.2184),
        (("ssmax", SoftmaxAttention(ScalableSoftmax(0.43))), {"seed": 1}, 4.0372),
    ],
)
def test_capacities_of_a_few_memories(store, settings, exact, sampler):
    # Eight intervals of 95 %: fixed seeds.
    found = capacity(store, 8, sampler=sampler, precision=0.03, **settings)
    assert found.prediction.value == pytest.approx(exact, rel=1e-4)
    assert found.measured.low < exact < found.measured.high
    assert ("between 1 and 2 memories" in found.measured.note) == (exact < 2)
    assert ("the sharpness follows M" in found.measured.note) == (found.one.label == "ssmax")


def test_argmax_is_measured_by_keys_and_its_jump_is_named():
    argmax = ("argmax", SoftmaxAttention(float("inf")))
    found = capacity(argmax, 8, cosine=0.3).measured
    assert found.sampler == "keys"
    assert found.value is None
    assert found.reason.startswith("between 1 and 2: the ratio jumps from 0 at M = 1 to infinity at M = 2")
    with pytest.raises(InputError, match="σ finite; measure it by the keys sampler"):
        capacity(argmax, 8, sampler="similarities")


def test_a_ratio_that_rises_from_zero_does_so_in_its_square():
    # Least squares: 0 up to M = d, then sqrt(M/d - 1).
    found = capacity("optimal-linear", 8, threshold=0.1, largest=64, precision=0.03)
    assert found.prediction.value < 8.1
    assert found.measured.value == pytest.approx(found.prediction.value, abs=0.03)


def test_the_fitted_growth_meets_the_exact_one():
    widths = (16, 64, 256)
    found = [capacity("squared-relu", d, precision=0.02, workers=1) for d in widths]
    slope, exact = growth(widths, [one.measured for one in found]), [one.prediction.log_value for one in found]
    error = abs(slope.value - np.polyfit(np.log(widths), exact, 1)[0])
    assert error < slope.high - slope.low < 0.02  # four standard errors
    assert slope.value == pytest.approx(1.96, abs=0.02)


def test_growth_leaves_out_what_was_not_reached():
    found = [capacity("relu", d, precision=0.05, workers=1).measured for d in (16, 32)]
    missing = replace(found[0], value=None)
    assert growth([8, 16, 32], [missing, *found]) == growth([16, 32], found)
    assert growth([16, 32], [found[0], missing]).reason == "a slope needs capacities at two sizes"
    assert growth([16, 32], [found[0], replace(found[1], low=None)]).low is None


def test_a_slow_store_is_not_followed_for_ever(monkeypatch):
    monkeypatch.setattr("assocmem.lab.capacity.PATIENCE", -1.0)
    found = capacity("optimal-linear", 32)
    assert found.measured.value is None
    assert "not reached below M = 2" in found.measured.reason


def test_theory_beside_each_ratio_is_that_of_the_law_of_the_keys():
    found = assocmem.capacity("relu", 16, keys=EqualCosine(0.3), workers=1, precision=0.05)
    wanted = theory.capacity(make_store("relu").form(16), 16, law="equal-cosine", rho=0.3).value
    assert found.theory == pytest.approx(wanted)
    for row in found.where(quantity="ratio"):
        assert row["theory"] == pytest.approx(row["value"], rel=0.15)
        assert row["theory"] != pytest.approx(math.sqrt(0.5 * (row["n_memories"] - 1) / 16), rel=0.3)  # uniform keys


def test_what_makes_it_repeatable_is_in_the_header():
    found = assocmem.curves(["outer-product"], 16, [5], seed=3, workers=1)
    assert (found.header["seed"], found.header["config"]["seed"]) == (3, 3)
    rows = [[float(i == j) for j in range(4)] for i in range(4)]
    assert "keys" not in assocmem.measure(rows, stores=[("a", make_store("relu"))], workers=1).header["config"]
