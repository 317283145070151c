"""The keys sampler: any store through write and recall, and its agreement with the similarities sampler."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pytest
from scipy import stats

from assocmem import theory
from assocmem.contract.errors import InputError
from assocmem.contract.store import Store
from assocmem.contract.traits import Traits
from assocmem.inputs import EqualCosine
from assocmem.lab import keys as keys_room
from assocmem.lab import out_of_core as large
from assocmem.lab import probe
from assocmem.lab.similarities import layout as layout_of
from assocmem.lab.similarities import sums_over_pieces
from assocmem.maps.activations import Exp, Linear, LogN, ReLU
from assocmem.stores.mlp import MLP
from assocmem.stores.outer import OuterProduct
from assocmem.stores.softmax import SoftmaxAttention
from plans import key_curves, key_plan, key_ratios


@dataclass(frozen=True)
class Hebb(Store):
    """A user's own store in ten lines, which knows nothing of batches."""

    decay: float = 1.0

    @property
    def traits(self):
        return Traits(
            linear_in_values="shared", permutation_invariant=self.decay == 1, overwrite="adds", constant_size=True
        )

    def init(self, state) -> Mapping:
        return {"W": np.zeros((state.d_v, state.d_k))}

    def put(self, state, keys, values, **extras) -> Mapping:
        W = np.array(state["W"])
        for k, v in zip(keys, values, strict=True):
            W = self.decay * W + np.outer(v, k)
        return {"W": W}

    def get(self, state, queries, ask):
        return queries @ state["W"].T


def ratios(store, d, n, count, **settings):
    plan = key_plan([store], d, [n], trials=count, targets=1, **settings)
    return key_ratios(plan)[n].reshape(-1)


# ---------------------------------------------------------------------- both samplers agree


@pytest.mark.parametrize(("sigma", "d", "n"), [(Linear(), 64, 200), (ReLU(2), 16, 60), (Exp(8.0), 64, 300)])
def test_both_samplers_draw_from_one_distribution(sigma, d, n):
    # Two-sample Kolmogorov-Smirnov on 600 and 400 trials; each of the three errs with probability 1e-3.
    drawn = ratios(("store", MLP(sigma)), d, n, 400, seed=11)
    layout = layout_of([n], length=(n - 1) * 60)
    sums = sums_over_pieces({sigma: layout}, d, seed=11, streams=10, workers=1)[sigma, n]
    signal = float(np.asarray(sigma(np.ones(1)))[0])
    assert stats.ks_2samp(drawn, np.sqrt(sums) / signal).pvalue > 1e-3


def test_the_agreement_is_not_empty():
    other = ratios(("store", MLP(ReLU(2))), 16, 66, 600, seed=11)
    layout = layout_of([60], length=59 * 60)
    sums = sums_over_pieces({ReLU(2): layout}, 16, seed=11, streams=10, workers=1)[ReLU(2), 60]
    assert stats.ks_2samp(other * 1.1, np.sqrt(sums)).pvalue < 1e-3


def test_the_vector_reading_has_the_mean_square_of_the_weights():
    plan = {"seed": 2, "trials": 300, "workers": 1}
    (rows,) = key_curves(["outer-product"], 32, [100], estimator="weights", **plan)
    (vectors,) = key_curves(["outer-product"], 32, [100], estimator="vectors", **plan)
    assert (rows["estimator"], vectors["estimator"]) == ("weights", "vectors")
    assert vectors["value"] == pytest.approx(rows["value"], rel=0.01)
    assert rows["low"] < rows["theory"] < rows["high"]


# ---------------------------------------------------------------------- stores


def test_least_squares_is_exact_to_d_and_fails_at_2d():
    rows = key_curves(["optimal-linear"], 64, [32, 64, 65, 128], trials=60, statistics=("rms", "median"), workers=1)
    value = {(r["n_memories"], r["statistic"]): r for r in rows}
    assert value[32, "rms"]["value"] < 1e-12
    assert value[64, "median"]["value"] < 1e-10
    assert value[65, "median"]["value"] == pytest.approx(value[65, "median"]["theory"], rel=0.12)
    assert value[128, "rms"]["value"] == pytest.approx(value[128, "rms"]["theory"], rel=0.01)


def test_a_users_store_without_batches_is_measured_trial_by_trial():
    assert not probe.takes_batches(Hebb())
    own, ours = key_curves([("own", Hebb()), "outer-product"], 16, [40], trials=50, workers=1)
    assert own["value"] == pytest.approx(ours["value"], rel=1e-9)
    assert own["store"] == "Hebb"
    assert own["theory"] is None


def test_batches_change_nothing_but_the_choice_of_targets(monkeypatch):
    batched = ratios("outer-product", 16, 40, 200, seed=3)
    monkeypatch.setattr(keys_room, "takes_batches", lambda _: False)
    alone = ratios("outer-product", 16, 40, 200, seed=3)
    assert stats.ks_2samp(batched, alone).pvalue > 1e-3
    assert np.sqrt(np.mean(batched**2)) == pytest.approx(np.sqrt(np.mean(alone**2)), rel=0.03)


def test_targets_of_a_store_that_forgets_lie_anywhere():
    plan = key_plan([("decays", Hebb(0.9))], 16, [50], trials=80, targets=4)
    found = key_ratios(plan)[50]
    assert found.max() / found.min() > 20


def test_stores_that_are_not_linear_are_read_by_projection_and_median():
    (row,) = key_curves(["ttt-mlp"], 16, [8], trials=6, targets=4, workers=1)
    assert (row["estimator"], row["statistic"]) == ("projection", "median")


def test_weights_of_each_channel_are_read_as_such():
    (row,) = key_curves(["mamba"], 16, [6], trials=8, targets=4, d_v=8, workers=1)
    assert row["estimator"] == "weights"
    assert row["value"] > 0


def test_a_needed_extra_is_drawn_like_keys():
    from assocmem.stores.mlp import GatedMLP

    (row,) = key_curves([("gated", GatedMLP())], 16, [10], trials=20, workers=1)
    assert math.isfinite(row["value"])


# ---------------------------------------------------------------------- laws, noise, sizes


def test_noisy_queries_meet_theory():
    rows = key_curves(["squared-relu"], 64, [100], trials=200, cosines=(1.0, 0.7), seed=4, workers=1)
    for row in rows:
        assert row["value"] == pytest.approx(row["theory"], rel=0.04)
        assert row["cosine"] in (1.0, 0.7)


def test_other_laws_of_keys_have_their_own_theory():
    law = EqualCosine(0.25)
    (row,) = key_curves(["outer-product"], 32, [60], trials=200, keys=law, workers=1)
    want = theory.ratio(Linear(), 32, 60, law="equal-cosine", rho=0.25).value
    assert row["theory"] == want
    assert row["value"] == pytest.approx(want, rel=0.02)


@pytest.mark.parametrize("name", ["softmax", "outer-product"])
def test_many_pairs_written_block_by_block_give_the_ratios_of_one_write(monkeypatch, name):
    store = SoftmaxAttention(4.0) if name == "softmax" else OuterProduct()
    plan = key_plan([(name, store)], 16, [3000], trials=1, targets=5, cosines=(1.0, 0.8), estimator="vectors")
    whole = key_ratios(plan)[3000]
    monkeypatch.setattr(keys_room, "LARGE", 2000)
    monkeypatch.setattr(large, "WRITTEN_AT_ONCE", 700)
    blocks = key_ratios(plan)[3000]
    np.testing.assert_allclose(blocks, whole, rtol=1e-9)


def test_many_pairs_are_read_by_weights_a_few_queries_at_once(monkeypatch):
    plan = key_plan(["softmax"], 16, [3000], trials=1, targets=5, cosines=(1.0, 0.8))
    whole = key_ratios(plan)[3000]
    monkeypatch.setattr(keys_room, "LARGE", 2000)
    monkeypatch.setattr(large, "WRITTEN_AT_ONCE", 700)
    monkeypatch.setattr(large, "WEIGHTS_AT_ONCE", 7000)
    np.testing.assert_allclose(key_ratios(plan)[3000], whole, rtol=1e-9)


def test_stores_that_hold_pairs_alike_read_one_state(monkeypatch):
    sharp = [(f"beta {beta}", SoftmaxAttention(beta)) for beta in (2.0, 8.0)]
    plan = key_plan([*sharp, "outer-product"], 16, [3000], trials=1, targets=5)
    whole = key_ratios(plan)[3000]
    monkeypatch.setattr(keys_room, "LARGE", 2000)
    drawn = []
    plain = large.stream
    monkeypatch.setattr(large, "stream", lambda seed, *name: drawn.append(name[0]) or plain(seed, *name))
    alike = key_ratios(plan)[3000]
    np.testing.assert_allclose(alike[:, :2], whole[:, :2], rtol=1e-9)
    assert drawn.count("keys") == 2


def test_what_is_held_alike():
    assert probe.holds_alike(SoftmaxAttention(2.0), SoftmaxAttention(LogN()))
    assert not probe.holds_alike(SoftmaxAttention(2.0), OuterProduct())
    assert not probe.holds_alike(Hebb(0.9), Hebb(0.8))


def test_laws_with_something_shared_are_not_drawn_in_blocks(monkeypatch):
    monkeypatch.setattr(keys_room, "LARGE", 100)
    with pytest.raises(InputError, match="cannot be drawn in blocks"):
        key_curves(["softmax"], 16, [200], trials=1, keys=EqualCosine(0.5), workers=1)


def test_smaller_m_get_more_trials():
    plan = key_plan(["relu"], 16, [10, 100, 1000], trials=4, most=100)
    assert [plan.sampler.trials_at(n, 1000) for n in plan.memories] == [100, 40, 4]


def test_keys_do_not_depend_on_the_number_of_workers():
    settings = {"trials": 10, "seed": 8}
    alone = key_curves(["outer-product", "softmax"], 16, [5, 400], workers=1, **settings)
    assert key_curves(["outer-product", "softmax"], 16, [5, 400], workers=3, **settings) == alone


def test_progress_counts_every_task():
    seen = []
    key_curves(["relu"], 8, [4, 1000], trials=6, workers=1, progress=lambda done, total: seen.append((done, total)))
    assert [done for done, _ in seen] == list(range(1, len(seen) + 1))
    assert {total for _, total in seen} == {len(seen)}


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"memories": []}, "`memories` must be"),
        ({"trials": 0}, "must be whole numbers >= 1"),
        ({"dtype": "float16"}, "`dtype` must be"),
        ({"keys": "spheres"}, "there is no law called 'spheres'"),
    ],
)
def test_plans_that_cannot_be_are_refused(settings, words):
    given = {"memories": [10]} | settings
    with pytest.raises((InputError, LookupError), match=words):
        key_curves(["relu"], 8, given.pop("memories"), workers=1, **given)


@pytest.mark.slow
def test_intervals_of_keys_cover():
    # 300 seeds of 12 trials with 8 targets each: coverage in 92-98 %; errs with probability 0.02 at a true 95 %.
    want = theory.ratio(ReLU(2), 32, 200).value
    hits = []
    for seed in range(300):
        (row,) = key_curves(["squared-relu"], 32, [200], trials=12, most=12, targets=8, seed=seed, workers=1)
        hits.append(row["low"] < want < row["high"])
    assert 0.92 <= np.mean(hits) <= 0.98
