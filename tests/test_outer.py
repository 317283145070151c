"""The outer product store: exactness, sums, unlearning, and the gradient step that it is."""

from __future__ import annotations

import numpy as np
import pytest

from assocmem.contract.errors import InputError
from assocmem.stores.outer import OuterProduct
from batches import drawn_pairs as drawn

STORE = OuterProduct()


def written(keys, values, store=STORE):
    empty = store.empty(keys.shape[-1], values.shape[-1], batch=tuple(keys.shape[:-2]))
    return store.write(empty, keys, values)


def test_orthonormal_keys_are_recalled_exactly_and_others_with_every_interference_term():
    q, _ = np.linalg.qr(np.random.default_rng(0).normal(size=(8, 8)))
    _, values = drawn(1, 8, 8, 3)
    np.testing.assert_allclose(STORE.recall(written(q, values), q), values, atol=1e-14)
    keys, values = drawn(2, 30, 8, 3)
    expected = np.stack([sum((x @ k) * v for k, v in zip(keys, values, strict=True)) for x in keys])
    np.testing.assert_allclose(STORE.recall(written(keys, values), keys), expected, atol=1e-13)


def test_one_gradient_step_from_zero_writes_the_same_matrix():
    torch = pytest.importorskip("torch")
    keys, values = (torch.tensor(a) for a in drawn(4, 6, 5, 3))
    weight = torch.zeros(3, 5, dtype=torch.float64, requires_grad=True)
    (0.5 * ((keys @ weight.T - values) ** 2).sum()).backward()
    np.testing.assert_allclose(written(keys, values)["W"].numpy(), -weight.grad.numpy(), atol=1e-14)


def test_merge_takes_the_wider_dtype_and_no_more_is_forgotten_than_stored():
    keys, values = drawn(6, 4, 3, 2)
    narrow = written(keys.astype(np.float32), values.astype(np.float32))
    joined = STORE.merge(narrow, written(keys, values))
    assert joined["W"].dtype == joined.dtype == joined.io_dtype == np.float64
    with pytest.raises(InputError, match="at most the 4 stored pairs; got 5"):
        STORE.forget(narrow, np.ones((5, 3)), np.ones((5, 2)))


def test_narrow_integers_and_half_precision_accumulate_in_wide_numbers():
    ones = np.ones((300, 4), dtype=np.int8)
    assert written(ones, ones)["W"].tolist() == [[300.0] * 4] * 4
    halves = np.ones((70_000, 2), dtype=np.float16)
    state = written(halves, halves)
    assert state["W"].dtype == np.float32
    assert state["W"].tolist() == [[70_000.0] * 2] * 2
