"""Patterns that are none, widths of one, memories that hold nothing, tables of one row, ids that are none."""

from __future__ import annotations

import numpy as np
import pytest

from assocmem import make_store, stores
from assocmem.contract.errors import InputError

SIGNS = np.where(np.random.default_rng(4).standard_normal((3, 8)) > 0, 1.0, -1.0)
NETWORKS = [("hopfield", {"rule": rule}) for rule in ("hebbian", "pseudo-inverse", "storkey")]
NETWORKS += [("krotov-hopfield", {}), ("krotov-hopfield", {"power": 3}), ("demircigil", {}), ("sdm", {})]


@pytest.mark.parametrize(("key", "settings"), NETWORKS)
def test_what_is_no_pattern_is_refused_and_changes_nothing(key, settings):
    store = make_store(key, **settings)
    state = store.write(store.empty(8, 8), SIGNS, SIGNS)
    before = store.recall(state, SIGNS)
    for bad, told in ((0.5 * SIGNS, "0.5"), (0 * SIGNS, "0"), (2 * SIGNS, "2")):
        with pytest.raises(InputError, match=rf"`keys` of .* must hold only \+1 and -1; got -?{told}\."):
            store.write(state, bad, SIGNS)
    with pytest.raises(InputError, match=r"`queries` of .* must hold only \+1 and -1, and 0 for what is not known"):
        store.recall(state, 0.3 * SIGNS)
    assert store.recall(state, 0 * SIGNS).shape == (3, 8)
    np.testing.assert_array_equal(store.recall(state, SIGNS), before)


@pytest.mark.parametrize(("key", "settings"), NETWORKS)
def test_networks_of_one_unit_and_of_no_pattern_recall(key, settings):
    store = make_store(key, **settings)
    one = store.write(store.empty(1, 1), SIGNS[:2, :1], SIGNS[:2, :1])
    assert np.isfinite(store.recall(one, SIGNS[:1, :1])).all()
    np.testing.assert_array_equal(store.recall(store.empty(8, 8), SIGNS), 0 * SIGNS)


SPARSE = [key for key in stores.names() if hasattr(type(make_store(key)), "addresses")]


@pytest.mark.parametrize("key", [key for key in SPARSE if make_store(key).traits.keys != "ids"])
def test_fewer_slots_than_k_give_fewer_and_never_an_id_below_0(key):
    names = make_store(key).settings()
    small = {"sub_keys": 2, "k": 30} if "sub_keys" in names else {"rows": 2}
    store = make_store(key, **{name: value for name, value in small.items() if name in names})
    keys = SIGNS / 8**0.5
    state = store.write(store.empty(8, 2), keys[:1], SIGNS[:1, :2])
    found = store.addresses(state, keys)
    assert found.ids.min() >= 0
    assert found.ids.max() < len(state["values"])
    assert found.ids.shape[-1] < 30 * names.get("heads", 1)
    assert np.isfinite(store.recall(state, keys)).all()


@pytest.mark.parametrize("rows", [0, 1, -5, 2.5])
def test_hash_tables_of_one_row_are_refused(rows):
    with pytest.raises(InputError, match="`rows` of Engram must be a whole number >= 2"):
        make_store("engram", rows=rows)


def test_ids_that_are_none_are_refused_and_change_nothing():
    store = make_store("engram", vocabulary=1000)
    ids, values = np.array([[1, 2, 3], [4, 5, 999]]), np.ones((2, 2))
    state = store.write(store.empty(3, 2), ids, values)
    before = store.recall(state, ids)
    for bad in (-ids, ids + 997, ids.astype(float), ids == 1):
        with pytest.raises(InputError):
            store.write(state, bad, values)
        with pytest.raises(InputError):
            store.recall(state, bad)
    np.testing.assert_array_equal(store.recall(state, ids), before)
    assert state.n == 2
