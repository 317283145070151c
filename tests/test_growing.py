"""Stores that keep their pairs: the shared buffer, old states that stay right, shards and states that merge."""

from __future__ import annotations

import pickle
import threading
from typing import Any

import array_api_strict
import numpy as np
import pytest

from assocmem import make_store
from assocmem.contract import slots as growing
from assocmem.contract.errors import InputError, NonFiniteError
from assocmem.contract.numbers import stream
from assocmem.contract.recall import Mass, Recall, merge
from assocmem.contract.slots import Buffer
from assocmem.contract.state import State


def pairs(n: int, batch: tuple[int, ...] = (), dtype: Any = np.float64) -> tuple[Any, Any]:
    """Return keys (n, 3) and values (n, 2)."""
    rng = stream(11, "test growing", n)
    return rng.standard_normal((*batch, n, 3)).astype(dtype), rng.standard_normal((*batch, n, 2)).astype(dtype)


@pytest.fixture
def growths(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Record the size to which each buffer was made."""
    made: list[int] = []
    original = growing._grown

    def counted(own: Any, count: int, total: int) -> Buffer:
        buffer = original(own, count, total)
        made.append(buffer.capacity)
        return buffer

    monkeypatch.setattr(growing, "_grown", counted)
    return made


# ---------------------------------------------------------------------- the buffer


def test_single_writes_share_a_doubling_buffer(growths: list[int]) -> None:
    store = make_store("softmax")
    keys, values = pairs(1000)
    state = store.empty(3, 2)
    for i in range(1000):
        state = store.write(state, keys[i : i + 1], values[i : i + 1])
    assert growths == [16, 32, 64, 128, 256, 512, 1024]
    np.testing.assert_array_equal(state["keys"], keys)
    np.testing.assert_array_equal(state["values"], values)
    assert state.size == 1000 * 5, "the size counts the used part of the buffer, not its capacity"


def test_recalls_between_writes_copy_nothing(growths: list[int]) -> None:
    store = make_store("softmax")
    keys, values = pairs(100)
    state = store.write(store.empty(3, 2), keys, values)
    for i in range(99):
        state = store.write(state, keys[i : i + 1], values[i : i + 1])
        store.recall(state, keys[:2])
    assert growths == [100, 200]


@pytest.mark.parametrize("library", ["numpy", "torch", "array_api_strict"])
@pytest.mark.parametrize("batch", [(), (2,)])
def test_two_writes_from_one_state_are_both_right_and_old_states_stay(library: str, batch: tuple[int, ...]) -> None:
    xp = pytest.importorskip(library)
    store = make_store("softmax")
    keys, values = (xp.asarray(a) for a in pairs(30, batch))

    def rows(at: slice) -> tuple[Any, Any]:
        return keys[..., at, :], values[..., at, :]

    start = store.write(store.empty(3, 2, batch=batch), *rows(slice(0, 5)))
    chain = [start]
    for i in range(5, 20):
        chain.append(store.write(chain[-1], *rows(slice(i, i + 1))))
    side = store.write(start, *rows(slice(20, 30)))
    again = store.write(start, *rows(slice(25, 26)))
    for n, state in enumerate(chain, start=5):
        assert state.n == n
        np.testing.assert_array_equal(np.asarray(state["keys"]), np.asarray(keys[..., :n, :]))
        np.testing.assert_array_equal(np.asarray(state["values"]), np.asarray(values[..., :n, :]))
    whole = np.concatenate([np.asarray(keys[..., :5, :]), np.asarray(keys[..., 20:30, :])], axis=-2)
    np.testing.assert_array_equal(np.asarray(side["keys"]), whole)
    np.testing.assert_array_equal(np.asarray(again["keys"])[..., -1, :], np.asarray(keys[..., 25, :]))


def test_a_buffer_shared_without_claims_would_be_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    """The broken twin: a buffer that lets anyone append overwrites the rows of the newer state."""
    monkeypatch.setattr(Buffer, "claim", lambda _self, _used, _total: True)
    store = make_store("softmax")
    keys, values = pairs(4)
    start = store.write(store.empty(3, 2), keys[:1], values[:1])
    first = store.write(start, keys[1:2], values[1:2])
    store.write(start, keys[2:3], values[2:3])
    assert not np.array_equal(first["keys"], keys[:2])


def test_read_only_arrays_are_written_and_the_state_grows_in_place(growths: list[int]) -> None:
    store = make_store("softmax")
    keys, values = pairs(40)
    keys.flags.writeable = values.flags.writeable = False
    state = store.empty(3, 2)
    for i in range(40):
        state = store.write(state, keys[i : i + 1], values[i : i + 1])
    np.testing.assert_array_equal(state["keys"], keys)
    assert growths == [16, 32, 64]


def test_arrays_that_carry_a_gradient_copy(growths: list[int]) -> None:
    torch = pytest.importorskip("torch")
    store = make_store("softmax")
    keys, values = (torch.asarray(a) for a in pairs(4))
    state = store.write(store.empty(3, 2), keys[:2], values[:2])
    made = len(growths)
    values.requires_grad_()
    carrying = store.write(state, keys[2:], values[2:])
    after = store.write(carrying, keys[:1], values[:1].detach())
    assert len(growths) == made
    for grown in (carrying, after):
        (gradient,) = torch.autograd.grad(store.recall(grown, keys).sum(), values, retain_graph=True)
        assert gradient[2:].abs().min() > 0
        assert not gradient[:2].any()


def test_a_failed_write_leaves_the_old_state_and_its_buffer_alone(growths: list[int]) -> None:
    store = make_store("softmax")
    keys, values = pairs(20)
    state = store.write(store.empty(3, 2), keys[:18], values[:18])
    state = store.write(state, keys[18:19], values[18:19])
    made = len(growths)
    bad = keys[19:20].copy()
    bad[0, 1] = np.nan
    with pytest.raises(NonFiniteError, match="row 0"):
        store.write(state, bad, values[19:20])
    with pytest.raises(InputError, match="same number of pairs"):
        store.write(state, keys[:2], values[:3])
    np.testing.assert_array_equal(state["keys"], keys[:19])
    state = store.write(state, keys[19:20], values[19:20])
    np.testing.assert_array_equal(state["keys"], keys)
    assert len(growths) == made, "the next write still appends in place"


def test_writes_from_one_state_in_many_threads_are_all_right() -> None:
    store = make_store("softmax")
    keys, values = pairs(64)
    start = store.write(store.empty(3, 2), keys[:20], values[:20])
    start = store.write(start, keys[20:21], values[20:21])
    found: dict[int, State] = {}
    ready = threading.Barrier(8)

    def write(i: int) -> None:
        ready.wait()
        state = start
        for j in range(5):
            state = store.write(state, keys[24 + 5 * i + j :][:1], values[24 + 5 * i + j :][:1])
        found[i] = state

    threads = [threading.Thread(target=write, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for i, state in found.items():
        np.testing.assert_array_equal(state["keys"], np.concatenate([keys[:21], keys[24 + 5 * i :][:5]]))


def test_an_end_that_is_taken_is_given_to_nobody_else() -> None:
    buffer = Buffer({"keys": np.zeros((8, 2))}, 3)
    assert not buffer.claim(3, 9), "too small"
    assert not buffer.claim(2, 4), "not the owner"
    assert buffer.used == 3
    assert buffer.claim(3, 4)
    assert buffer.used == -1
    assert not buffer.claim(3, 4), "a write is under way"
    buffer.used = 4
    assert buffer.claim(4, 8)


def test_a_state_pickles_without_its_working_storage() -> None:
    store = make_store("softmax")
    keys, values = pairs(17)
    state = store.write(store.empty(3, 2), keys[:1], values[:1])
    for i in range(1, 17):
        state = store.write(state, keys[i : i + 1], values[i : i + 1])
    copy = pickle.loads(pickle.dumps(state))
    assert (copy.slots.capacity, state.slots.capacity) == (17, 32)
    assert copy.xp is state.xp
    grown = store.write(copy, keys[:1], values[:1])
    assert (grown.n, copy.n, state.n) == (18, 17, 17)
    np.testing.assert_array_equal(store.recall(copy, keys), store.recall(state, keys))


# ---------------------------------------------------------------------- shards


def recalled(*masses: float, seed: int = 0) -> Recall:
    """Return a recall of two channels for each mass."""
    return Recall(stream(seed, "recalled").standard_normal((len(masses), 2)), mass=Mass(np.array(masses)))


def test_merge_is_associative_and_commutative_and_empty_shards_add_nothing() -> None:
    a, b, c = (
        recalled(0.0, -800.0, 3.0, seed=1),
        recalled(1.0, 900.0, -np.inf, seed=2),
        recalled(-5.0, 1.0, 2.0, seed=3),
    )
    nothing = Recall(np.zeros((3, 2)), mass=Mass(np.full(3, -np.inf)))
    whole = merge([a, b, c])
    others = (merge([c, b, a]), merge([merge([a, b]), c]), merge([a, merge([nothing, c]), b, nothing]))
    for other in others:
        np.testing.assert_allclose(other.values, whole.values, rtol=1e-14)
        np.testing.assert_allclose(other.mass.log, whole.mass.log, rtol=1e-14)
    np.testing.assert_allclose(whole.values[1], b.values[1], rtol=1e-14)
    alone = merge([nothing, nothing])
    assert not alone.values.any()
    assert alone.nothing.all()
    assert whole.nothing.tolist() == [False] * 3


def test_merge_adds_recalls_that_are_not_normalised() -> None:
    store = make_store("squared-relu")
    keys, values = pairs(9)
    shards = [store.ask(store.write(store.empty(3, 2), keys[a:b], values[a:b]), keys, want="mass")
              for a, b in ((0, 4), (4, 9))]  # fmt: skip
    whole = store.recall(store.write(store.empty(3, 2), keys, values), keys)
    joined = merge(shards)
    np.testing.assert_allclose(joined.values, whole, rtol=1e-13)
    weights = np.maximum(keys @ keys.T, 0) ** 2
    np.testing.assert_allclose(joined.mass.log, np.log(weights.sum(axis=1)), rtol=1e-13)


def test_merge_refuses_what_does_not_belong_together() -> None:
    with pytest.raises(InputError, match="at least one recall"):
        merge([])
    with pytest.raises(InputError, match="must have one shape"):
        merge([recalled(0.0), recalled(0.0, 1.0)])
    with pytest.raises(InputError, match='want="mass"'):
        merge([recalled(0.0), Recall(np.zeros((1, 2)))])
    with pytest.raises(InputError, match="same store with the same settings"):
        merge([recalled(0.0), Recall(np.zeros((1, 2)), mass=Mass(np.zeros(1), np.ones(1), "largest"))])


# ---------------------------------------------------------------------- states


def test_merged_states_take_the_wider_dtype() -> None:
    store = make_store("softmax")
    states = [store.write(store.empty(3, 2), *pairs(4, dtype=d)) for d in (np.float32, np.float64)]
    assert store.merge(*states)["keys"].dtype == np.float64
    assert store.merge(states[0], states[0])["keys"].dtype == np.float32


def test_states_that_do_not_fit_are_not_merged() -> None:
    store = make_store("softmax")
    state = store.write(store.empty(3, 2), *pairs(4))
    with pytest.raises(InputError, match="at least one state"):
        store.merge()
    with pytest.raises(InputError, match="one d_k, d_v and batch"):
        store.merge(state, store.empty(3, 4))
    strict = store.write(store.empty(3, 2), *(array_api_strict.asarray(a) for a in pairs(4)))
    with pytest.raises(InputError, match="one array library"):
        store.merge(state, strict)
