"""What the public record of neighbouring projects calls a fault, asked of every store that the register finds.

Most of it is in the contract already (tests/test_contract.py); here is what needs more than one store or library,
and what is said to the user.
"""

from __future__ import annotations

import pickle
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import assocmem
from assocmem import stores
from assocmem.checks.harness import Harness
from assocmem.contract.errors import DTypeError, InputError, NonFiniteError
from assocmem.contract.store import Store
from assocmem.maps.features import FeatureMap, Rectified
from assocmem.memory import Memory
from assocmem.stores import make_store

pytestmark = [
    pytest.mark.usefixtures("nan_memory"),
    pytest.mark.filterwarnings("ignore::assocmem.contract.errors.UnstableWarning"),
]


def harness_of(key: str) -> Harness:
    return Harness(make_store(key), np, "bad input")


@pytest.mark.parametrize("key", stores.names())
class TestEveryStore:
    def test_stores_and_states_travel_to_other_processes(self, key: str) -> None:
        harness = harness_of(key)
        store: Store = pickle.loads(pickle.dumps(harness.store))
        assert store == harness.store
        assert hash(store) == hash(harness.store)

    def test_threads_writing_from_one_state_do_not_disturb_each_other(self, key: str) -> None:
        harness = harness_of(key)
        root = harness.write(harness.draw(17))
        draws = [harness.draw(3) for _ in range(8)]
        asked = harness.keys(4)
        want = [harness.recall(harness.write(drawn, root), asked) for drawn in draws]
        with ThreadPoolExecutor(4) as pool:
            found = list(pool.map(lambda drawn: harness.recall(harness.write(drawn, root), asked), draws))
        for got, right in zip(found, want, strict=True):
            np.testing.assert_allclose(got, right, rtol=1e-9, atol=1e-9)

    def test_a_batch_of_no_items(self, key: str) -> None:
        harness = harness_of(key)
        drawn = harness.draw(3, batch=(0,))
        out = harness.recall(harness.write(drawn), drawn.keys)
        assert out.shape == (0, 3, harness.d_v)


@pytest.mark.parametrize("key", ["softmax", "delta-net"])
def test_refusals_name_argument_store_want_and_got_and_give_advice(key: str) -> None:
    harness = harness_of(key)
    drawn, batched, store = harness.draw(5), harness.draw(5, batch=(2, 3)), harness.store
    with pytest.raises(InputError) as error:
        store.write(harness.empty(), drawn.keys, drawn.values[:, :-1])
    text = str(error.value)
    for part in ("`values`", f"{store.name}.write", f"d_v={harness.d_v}", f"(5, {harness.d_v - 1})"):
        assert part in text
    assert text.endswith(".")
    assert "\n" not in text
    with pytest.raises(InputError, match=r"For a single pair add an axis: keys\[None, :\]"):
        store.write(harness.empty(), drawn.keys[0], drawn.values[0])
    with pytest.raises(InputError, match=r"For a single query add an axis: queries\[None, :\]"):
        store.recall(harness.write(drawn), drawn.keys[0])
    with pytest.raises(InputError, match=r"empty\(\.\.\., batch=\(2, 3\)\)"):
        store.write(harness.empty(), batched.keys, batched.values)


# ---------------------------------------------------------------------- states of other stores


def test_the_state_of_another_store_is_refused_in_one_sentence():
    mine, other = make_store("outer-product"), make_store("ttt-linear")
    x = np.eye(3)
    state = other.write(other.empty(3, 3), x, x)
    words = r"`state` of OuterProduct\.{} must come from the `empty` of OuterProduct; it is a state of TTTLinear\."
    for again in (state, pickle.loads(pickle.dumps(state))):
        for call, given in (("write", (x, x)), ("recall", (x,)), ("scan", (x, x, x)), ("forget", (x, x))):
            with pytest.raises(InputError, match=words.format(call)):
                getattr(mine, call)(again, *given)
        with pytest.raises(InputError, match=words.format("merge")):
            mine.merge(again)
    softmax = make_store("softmax")
    own = softmax.write(softmax.empty(3, 3), x, x)
    with pytest.raises(InputError, match="it is a state of SoftmaxAttention"):
        make_store("relu").write(own, x, x)  # the quick way for few pairs
    with pytest.raises(InputError, match="it is a state of SoftmaxAttention"):
        make_store("relu").merge(own)
    for nothing in (None, 3, x):
        with pytest.raises(InputError, match=r"must come from the `empty` of OuterProduct; got"):
            mine.write(nothing, x, x)
        with pytest.raises(InputError, match=r"must come from the `empty` of OuterProduct; got"):
            mine.recall(nothing, x)
        with pytest.raises(InputError, match=r"must come from the `empty` of OuterProduct; got"):
            mine.merge(nothing)


@pytest.mark.parametrize("key", ["linear-attention", "delta-net"])
def test_the_state_of_another_feature_map_is_refused_and_that_of_the_same_is_taken(key):
    class Doubled(FeatureMap):
        formula = "2 x^2"
        nonnegative = True

        def __call__(self, x):
            return 2 * x**2

        def width(self, d):
            return d

    keys, values = np.array([[0.6, 0.8]]), np.array([[3.0]])
    mine, again, other = (make_store(key, feature=f) for f in (Doubled(), Doubled(), Rectified()))
    state = mine.write(mine.empty(2, 1), keys, values)
    np.testing.assert_array_equal(again.recall(state, keys), mine.recall(state, keys))
    with pytest.raises(InputError, match=r"with Rectified\(.*\); it is a state of \w+ with Doubled, φ\(x\) = 2 x\^2\."):
        other.recall(state, keys)
    with pytest.raises(InputError, match="it is a state of"):
        other.write(state, keys, values)


# ---------------------------------------------------------------------- settings and arguments of a wrong kind


@pytest.mark.parametrize(
    ("key", "settings"),
    [("relu", {"bias": -0.5}), ("relu-power", {"power": 2.5}), ("softmax", {"beta": 8.0}),
     ("delta-net", {"strength": 0.5}),
     ("gradient-descent", {"rate": 0.5}), ("optimal-linear", {"ridge": 0.5}), ("exp-series", {"beta": 2.0})],
)  # fmt: skip
@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_scalars_of_numpy_are_numbers_and_widen_no_dtype(key: str, settings: dict[str, Any], kind: Any) -> None:
    plain, store = make_store(key, **settings), make_store(key, **{n: kind(v) for n, v in settings.items()})
    assert store == plain
    x = np.eye(3, dtype=np.float32)
    state = store.write(store.empty(3, 3), x, x)
    assert {a.dtype for a in state.contents.values()} == {np.dtype(np.float32)}
    np.testing.assert_array_equal(store.recall(state, x), plain.recall(plain.write(plain.empty(3, 3), x, x), x))


@pytest.mark.parametrize(
    "settings",
    [
        *({"batch": 5}, {"batch": None}, {"batch": "ab"}, {"state_dtype": 3}, {"d_k": 2**70}, {"d_k": 2**45, "d_v": 4}),
        *({"d_k": -1}, {"d_v": -1}, {"d_k": 2.0}, {"d_k": "3"}, {"d_k": None}, {"d_k": True}),
    ],
)
def test_sizes_of_a_wrong_kind_are_refused_in_one_sentence(settings: dict[str, Any]) -> None:
    with pytest.raises((InputError, DTypeError), match=r"OuterProduct"):
        make_store("outer-product").empty(**({"d_k": 2, "d_v": 2} | settings))


def test_an_empty_state_that_cannot_be_allocated_is_refused_in_one_sentence() -> None:
    words = r"^an empty OptimalLinear with d_k=4294967296, d_v=1, batch=\(\) does not fit into memory; take smaller"
    with pytest.raises(InputError, match=words):  # d_k^2 numbers: more than NumPy counts
        Memory("optimal-linear", d_k=2**32, d_v=1)
    with pytest.raises(InputError, match=words):
        Memory("optimal-linear", d_k=2**32, d_v=1, like=np.zeros(1, np.float32))


def test_handles_refuse_what_is_no_store_memory_or_path(tmp_path: Any) -> None:
    memory = Memory("softmax")
    memory.write([[1.0, 0.0]], [[1.0]])
    for attempt in (
        lambda: make_store(3),  # type: ignore[arg-type]
        lambda: memory.merge(3),  # type: ignore[arg-type]
        lambda: memory.save(None),  # type: ignore[arg-type]
        lambda: memory.save(str(tmp_path / "a\0b")),
        lambda: Memory("softmax", normalise="no"),  # type: ignore[arg-type]
    ):
        with pytest.raises(InputError, match="must") as error:
            attempt()
        assert "\0" not in str(error.value)
    assert not list(tmp_path.iterdir())


def test_inside_assume_finite_no_number_is_looked_at():
    store, bad = make_store("outer-product"), np.array([[np.nan, 1.0]])
    with assocmem.assume_finite():
        state = store.write(store.empty(2, 2), bad, np.eye(2)[:1])
        assert np.isnan(store.recall(state, bad)).any()
    with pytest.raises(NonFiniteError, match="row 0"):
        store.write(state, bad, np.eye(2)[:1])
