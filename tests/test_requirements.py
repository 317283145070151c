"""What stores need for M memories: the numbers they hold, counted from small states; widths that are refused."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from assocmem import stores
from assocmem.contract.cost import D_K, D_V, Cost, N, larger
from assocmem.contract.errors import InputError
from assocmem.contract.store import Store
from assocmem.lab import requirements as required
from assocmem.lab.probe import counted_state
from assocmem.lab.requirements import numbers_held, requirements
from assocmem.stores import entry, make_store

KEYS = list(stores.names())


@pytest.mark.parametrize("key", KEYS)
def test_numbers_held_are_those_of_a_written_state(key):
    store = entry(key).make()
    assert numbers_held(store, 8, 5, 96) == counted_state(store, 8, 5, 96)


@pytest.mark.parametrize("key", [key for key in KEYS if entry(key).make().traits.constant_size])
@pytest.mark.parametrize("widths", [(96, 130), (7, 130)])
def test_wide_states_are_counted_without_being_built(key, widths, monkeypatch):
    store = entry(key).make()
    built = store.empty(*widths).size
    monkeypatch.setattr(required, "COUNTED_OUT", 0)
    assert numbers_held(store, *widths, 10) == built


def test_no_state_of_the_widest_keys_is_built(monkeypatch):
    plain = Store.empty

    def small(self, d_k, d_v, **settings):
        assert d_k * d_v <= 80 * 64 or not self.traits.constant_size
        return plain(self, d_k, d_v, **settings)

    monkeypatch.setattr(Store, "empty", small)
    held = {row["store"]: row["numbers_held"] for row in requirements(4096, 4096, 1000, 1.0)}
    assert held["outer-product"] == 4096**2
    assert held["optimal-linear"] == 2 * 4096**2
    assert held["softmax"] == 1000 * 2 * 4096


def test_a_store_without_a_polynomial_is_counted_as_it_is():
    odd = SimpleNamespace(
        traits=SimpleNamespace(constant_size=True), empty=lambda d_k, d_v: SimpleNamespace(size=d_k**3 * d_v)
    )
    assert numbers_held(odd, 300, 2, 10) == 300**3 * 2


@pytest.mark.parametrize("width", [0, -1, 65_537, 10**9, 2.5, True, "64"])
@pytest.mark.parametrize("name", ["d_k", "d_v"])
def test_absurd_widths_are_refused(name, width):
    with pytest.raises(InputError, match=f"`{name}` must be a whole number from 1 to 65,536; got"):
        requirements(**({"d_k": 8, "d_v": 8} | {name: width}), n_memories=10, ratio=1.0)
    assert requirements(np.int64(8), 8, 10, 1.0)


def test_labels_name_the_activation_of_stores_that_have_settings_for_it():
    labels = {row["store"]: row["label"] for row in requirements(16, 16, 100, 1.0)}
    assert labels["relu-power"] == "relu-power, σ = max(0, s)^4"
    assert labels["exp-series"] == "exp-series, σ = sum_{p<4} (4 s)^p / p!"
    assert labels["softmax"] == "softmax, σ = exp(4 (s - 1))"
    assert labels["outer-product"] == "outer-product"


@pytest.mark.parametrize("key", KEYS)
def test_a_recall_costs_more_with_more_memories_where_pairs_are_kept_and_only_there(key):
    store = entry(key).make()
    few, many = (store.cost.recall.at(8, 5, n) for n in (10, 20))
    assert few > 0
    assert (many > few) == store.traits.keeps_pairs
    assert store.cost.write.at(8, 5, 10) > 0
    assert str(store.cost).startswith(f"write {store.cost.write}")


def test_formulas_of_costs_are_written_as_they_are_worked_out():
    hidden = 4 * D_K
    cost = Cost(3 * (hidden * (D_K + D_V) + 2 * hidden**2), N * D_K, first_recall=D_K**2 * larger(N, D_K), note="more")
    words = "write 3 (4 d_k (d_k + d_v) + 32 d_k^2), first recall after a write d_k^2 max(n, d_k), recall n d_k; more"
    assert str(cost) == words
    assert cost.write.at(3, 5, 7) == 3 * (12 * 8 + 2 * 144)
    assert (cost.recall.at(3, 5, 7), cost.first_recall.at(3, 5, 7), cost.first_recall.at(3, 5, 2)) == (21, 63, 27)
    assert make_store("superposed-mlp", width=9000).cost.recall.at(2, 3, 4) == 9000 * 7
    assert str(make_store("superposed-mlp", width=9000).cost.recall) == "9,000 (2 d_k + d_v)"


def test_costs_of_a_recall_are_numbers_in_the_requirements():
    rows = {row["store"]: row for row in requirements(16, 8, 100, 1.0)}
    assert (rows["softmax"]["cost"], rows["softmax"]["multiply_adds"]) == ("n (d_k + d_v)", 2400)
    assert (rows["optimal-linear"]["cost"], rows["optimal-linear"]["multiply_adds"]) == ("d_k d_v", 128)
