"""The growing network beside SGD and kernel interpolation; chunked cross-attention beside its definition, in time."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from assocmem import make_store
from assocmem.contract.errors import DivergedError, InputError, UnstableWarning
from assocmem.contract.numbers import stream
from assocmem.contract.slots import DenseSlots
from assocmem.kernels.cross_attention import chunked_cross_attention
from assocmem.stores.functional_gradient import FunctionalGradient


def drawn(n: int = 30, d: int = 6) -> tuple[Any, Any, Any]:
    """Return unit keys (n, d), values (n, 2) and four unit queries."""
    rng = stream(4, "test growing networks")
    rows = rng.standard_normal((n + 4, d))
    rows /= np.linalg.norm(rows, axis=-1, keepdims=True)
    return rows[:n], rng.standard_normal((n, 2)), rows[n:]


def written(store: Any, sweeps: int = 1) -> Any:
    """Return the state after so many sweeps over the pairs."""
    keys, values, _ = drawn()
    state = store.empty(keys.shape[-1], 2)
    for _ in range(sweeps):
        state = store.write(state, keys, values)
    return state


@pytest.mark.parametrize("rate", [1.0, 0.3])
@pytest.mark.parametrize("block", [1, 7, 64])
def test_the_linear_kernel_is_a_linear_layer_trained_by_sgd(rate: float, block: int) -> None:
    keys, values, queries = drawn()
    W, late = np.zeros((2, keys.shape[-1])), np.zeros((2, keys.shape[-1]))
    for _ in range(2):
        first = W.copy()
        for k, v in zip(keys, values, strict=True):
            W += rate * np.outer(v - W @ k, k)
            late += rate * np.outer(v - first @ k, k)  # all gradients of a sweep at one place: not SGD
    store = FunctionalGradient("linear", rate=rate, block=block)
    got = store.recall(written(store, 2), queries)
    np.testing.assert_allclose(got, queries @ W.T, rtol=1e-10, atol=1e-12)
    assert np.abs(got - queries @ late.T).max() > 1e-2
    delta = make_store("delta-net", strength=rate)
    np.testing.assert_allclose(got, delta.recall(written(delta, 2), queries), rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("rate", [1.0, 0.5])
def test_many_sweeps_of_the_gaussian_kernel_interpolate(rate: float) -> None:
    keys, values, queries = drawn()
    store = FunctionalGradient(beta=8.0, rate=rate)

    def kernel(x: Any, y: Any) -> Any:
        return np.exp(-4.0 * ((x[:, None] - y[None]) ** 2).sum(axis=-1))

    want = kernel(queries, keys) @ np.linalg.solve(kernel(keys, keys), values)
    off = [np.abs(store.recall(written(store, sweeps), queries) - want).max() for sweeps in (1, 200)]
    assert off[1] < 1e-8 < 1e-2 < off[0]
    smooth = kernel(queries, keys) @ np.linalg.solve(kernel(keys, keys) + 0.1 * np.eye(30), values)
    assert np.abs(smooth - want).max() > 1e-2


def test_one_pair_after_the_other_is_functional_gradient_descent() -> None:
    keys, values, queries = drawn()
    store = FunctionalGradient(beta=3.0, rate=0.7)
    state, units = store.empty(keys.shape[-1], 2), []
    for k, v in zip(keys, values, strict=True):
        now = sum((e * np.exp(-1.5 * ((x - k) ** 2).sum()) for x, e in units), np.zeros(2))
        units.append((k, 0.7 * (v - now)))
        state = store.write(state, k[None], v[None])
    errors = np.array([e for _, e in units])
    np.testing.assert_allclose(written(store)["errors"], errors, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(state["errors"], errors, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(store.recall(state, queries), store.recall(written(store), queries), rtol=1e-10)
    assert np.abs(errors - 0.7 * values).max() > 1e-2  # the values alone are not the errors


def test_steps_that_are_too_long_are_announced_and_refused() -> None:
    keys, values, _ = drawn()
    store = FunctionalGradient("linear")
    with pytest.warns(UnstableWarning, match=r"rate \|x\|\^2 reaches 9"):
        store.write(store.empty(6, 2), 3 * keys, values)
    with pytest.warns(UnstableWarning), pytest.raises(DivergedError):
        store.write(store.empty(6, 2), 1e30 * keys, values)


# ---------------------------------------------------------------------- chunked cross-attention

CHUNK, NEIGHBOURS, LENGTH, D = 4, 3, 5, 6


def retrieved(n: int) -> tuple[Any, Any, Any]:
    """Return queries (n, D), and keys and values of neighbours for every whole chunk."""
    rng = stream(5, "test retro", n)
    shape = (n // CHUNK, NEIGHBOURS, LENGTH)
    return rng.standard_normal((n, D)), rng.standard_normal((*shape, D)), rng.standard_normal((*shape, 2))


def by_token(queries: Any, keys: Any, values: Any, shift: int = 1) -> Any:
    """Return what the paper says token by token: with shift 1, the last whole chunk at that token."""
    out = np.zeros((len(queries), 2))
    for i, query in enumerate(queries):
        u = (i + shift) // CHUNK - 1
        if 0 <= u < len(keys):
            weights = np.exp(0.7 * keys[u].reshape(-1, D) @ query)
            out[i] = weights @ values[u].reshape(-1, 2) / weights.sum()
    return out


@pytest.mark.parametrize("n", [0, 3, 4, 7, 8, 17, 20])
def test_every_token_attends_to_the_last_whole_chunks_neighbours(n: int) -> None:
    queries, keys, values = retrieved(n)
    got = chunked_cross_attention(queries, keys, values, CHUNK, 0.7)
    np.testing.assert_allclose(got, by_token(queries, keys, values), rtol=1e-12, atol=1e-14)
    if n >= CHUNK:
        assert np.abs(got - by_token(queries, keys, values, shift=0)).max() > 1e-2
        assert np.abs(got - by_token(queries, keys, values, shift=CHUNK)).max() > 1e-2
    batch = [np.stack([a, a]) for a in (queries, keys, values)]
    np.testing.assert_allclose(chunked_cross_attention(*batch, CHUNK, 0.7)[1], got, rtol=1e-12, atol=1e-14)


def reaches_back(attend: Any, u: int) -> bool:
    """Say whether chunk u's neighbours change what any token before that chunk's last one gets."""
    queries, keys, values = retrieved(20)
    others = values.copy()
    others[u] += 1
    changed = np.abs(attend(queries, keys, others) - attend(queries, keys, values)).max(axis=-1) > 0
    last = (u + 1) * CHUNK - 1
    assert changed[last:].any()
    return bool(changed[:last].any())


@pytest.mark.parametrize("u", range(5))
def test_a_chunks_neighbours_change_nothing_before_its_last_token(u: int) -> None:
    assert not reaches_back(lambda q, k, v: chunked_cross_attention(q, k, v, CHUNK, 0.7), u)
    assert reaches_back(lambda q, k, v: by_token(q, k, v, shift=CHUNK), u)  # its own chunk's: sees ahead


def test_no_neighbours_leave_everything_as_it_is() -> None:
    queries, keys, values = retrieved(12)
    got = chunked_cross_attention(queries, keys[:, :0], values[:, :0], CHUNK, 0.7)
    np.testing.assert_array_equal(got, np.zeros((12, 2)))


def test_neighbours_found_by_the_slots_are_those_of_brute_force() -> None:
    rng = stream(6, "retro search")
    database, asked = rng.standard_normal((40, D)), rng.standard_normal((5, D))
    ids, _ = DenseSlots({"keys": database}).search(asked, 3)
    np.testing.assert_array_equal(ids, np.argsort(-(asked @ database.T), axis=-1)[:, :3])


def test_shapes_that_do_not_fit_are_refused() -> None:
    queries, keys, values = retrieved(12)
    for arguments, words in (
        ((queries, keys[:2], values, CHUNK), "`keys` of"),
        ((queries, keys, values[:, :2], CHUNK), "`values` of"),
        ((queries, keys[..., :3], values, CHUNK), "`keys` of"),
        ((queries, keys, values, 0), "`chunk` of"),
    ):
        with pytest.raises(InputError, match=words):
            chunked_cross_attention(*arguments, 0.7)
