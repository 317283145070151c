"""What stores need for M memories: the numbers they hold, counted from small states; widths that are refused."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from assocmem import stores
from assocmem.contract.errors import InputError
from assocmem.contract.store import Store
from assocmem.lab import requirements as required
from assocmem.lab.requirements import SETTINGS, counted_state, numbers_held, requirements
from assocmem.maps.sharpness import Constant
from assocmem.stores import entry, make_store

KEYS = [key for key in stores.names() if entry(key).make().traits.keys != "ids"]


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


def test_labels_name_the_defaults_that_are_registered():
    labels = {row["store"]: row["label"] for row in requirements(16, 16, 100, 1.0)}
    assert labels["relu-power"] == f"relu-power, power {make_store('relu-power').activation.power:g}"
    series = make_store("exp-series")
    assert labels["exp-series"] == f"exp-series, {series.terms} terms, beta = sqrt(d_k)"
    assert series.beta is None
    assert labels["outer-product"] == "outer-product"


def test_the_labels_name_the_registered_defaults():
    assert make_store("relu-power").activation.power == 4
    assert (make_store("exp-series").terms, make_store("exp-series").beta) == (4, None)
    assert make_store("softmax").sharpness == Constant(None)
    assert set(SETTINGS) == {"relu-power", "exp-series", "softmax"}
