"""Editors against the least squares that they stand for, and against each other."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from assocmem import make_store
from assocmem.contract.errors import InputError, NonFiniteError
from assocmem.editors import MEMIT, ROME, DeltaStep, SparseFinetuning, Unlearn, access_counts, second_moment, swap_mlp
from trained import needed

RNG = np.random.default_rng(0)
OLD_KEYS, OLD_VALUES = RNG.normal(size=(60, 8)) @ RNG.normal(size=(8, 8)), RNG.normal(size=(60, 5))
W = np.linalg.lstsq(OLD_KEYS, OLD_VALUES, rcond=None)[0].T
C = second_moment(OLD_KEYS)
KEYS, VALUES = RNG.normal(size=(3, 8)), RNG.normal(size=(3, 5))


def least_squares(weights: Any = 1.0, keys: Any = KEYS, values: Any = VALUES) -> Any:
    """Return the least-squares matrix of the old pairs and the facts, these weighted."""
    root = np.sqrt(weights)
    rows = np.concatenate([OLD_KEYS, root * keys]), np.concatenate([OLD_VALUES, root * values])
    return np.linalg.lstsq(*rows, rcond=None)[0].T


@pytest.mark.parametrize("editor", [DeltaStep(), ROME(), ROME(C), MEMIT(C, 0.0)], ids=repr)
def test_the_last_fact_comes_back_exactly(editor: Any) -> None:
    changed = editor.edit(W, KEYS, VALUES)
    np.testing.assert_allclose(changed @ KEYS[-1], VALUES[-1], atol=1e-10)
    np.testing.assert_array_equal(editor.edit(W, KEYS[:0], VALUES[:0]), W)
    np.testing.assert_allclose(editor.edit(W, KEYS[0], VALUES[0]), editor.edit(W, KEYS[:1], VALUES[:1]))


def test_rome_is_least_squares_with_the_new_pair_held_fast() -> None:
    """Joint least squares with an ever larger weight on the pair; with the plain key it is another matrix."""
    one = ROME(C).edit(W, KEYS[:1], VALUES[:1])
    joint = least_squares(1e9, KEYS[:1], VALUES[:1])
    np.testing.assert_allclose(one, joint, atol=1e-6)
    assert np.abs(ROME().edit(W, KEYS[:1], VALUES[:1]) - joint).max() > 0.01
    np.testing.assert_allclose(ROME().edit(W, KEYS, VALUES), DeltaStep().edit(W, KEYS, VALUES), atol=1e-12)


def test_a_second_edit_leaves_the_first_only_if_their_keys_are_orthogonal_under_the_moment() -> None:
    along = np.linalg.solve(C, KEYS[0])
    orthogonal = KEYS[1] - along * (along @ KEYS[1]) / (along @ along)
    for second, stays in ((orthogonal, True), (KEYS[1], False)):
        changed = ROME(C).edit(W, np.stack([KEYS[0], second]), VALUES[:2])
        assert np.allclose(changed @ KEYS[0], VALUES[0], atol=1e-10) == stays


def test_memit_is_least_squares_over_old_and_new_facts() -> None:
    """With weight = number of old pairs; any other weight is another matrix. Its limits: interpolation, and ROME."""
    np.testing.assert_allclose(MEMIT(C, 60.0).edit(W, KEYS, VALUES), least_squares(), atol=1e-10)
    assert np.abs(MEMIT(C, 30.0).edit(W, KEYS, VALUES) - least_squares()).max() > 1e-3
    np.testing.assert_allclose(MEMIT(C, 0.0).edit(W, KEYS, VALUES) @ KEYS.T, VALUES.T, atol=1e-9)
    np.testing.assert_allclose(
        MEMIT(C, 1e-12).edit(W, KEYS[:1], VALUES[:1]), ROME(C).edit(W, KEYS[:1], VALUES[:1]), atol=1e-9
    )
    damage = [np.linalg.norm((MEMIT(C, w).edit(W, KEYS, VALUES) - W) @ OLD_KEYS.T) for w in (1, 10, 100, 1000)]
    error = [np.linalg.norm(MEMIT(C, w).edit(W, KEYS, VALUES) @ KEYS.T - VALUES.T) for w in (1, 10, 100, 1000)]
    assert damage == sorted(damage, reverse=True)
    assert error == sorted(error)


def test_unlearning_takes_back_what_was_added_and_a_delta_step_does_not() -> None:
    store = make_store("outer-product")
    before = store.write(store.empty(8, 5), OLD_KEYS, OLD_VALUES)
    after = store.write(before, KEYS, VALUES)
    kept = {name: array.copy() for name, array in after.arrays.items()}
    again = Unlearn().edit(after, KEYS, VALUES)
    np.testing.assert_allclose(again["W"], before["W"], atol=1e-12)
    np.testing.assert_array_equal(after["W"], kept["W"])  # never in place
    other = DeltaStep().edit(after, KEYS, np.zeros((3, 5)))
    assert np.abs(other["W"] - before["W"]).max() > 0.1


@pytest.mark.parametrize("editor", [DeltaStep(), ROME(C)], ids=repr)
def test_crosstalk_on_the_ruler_is_what_edits_do_to_each_other(editor: Any) -> None:
    """Mean square of what M edits, each computed on the untouched matrix, add to one another's recall, by drawing."""
    rng = np.random.default_rng(1)
    keys = rng.normal(size=(12, 8)) @ RNG.normal(size=(8, 8))
    along = editor.directions(keys)
    np.testing.assert_allclose(np.sum(along * keys, axis=1), 1, atol=1e-10)
    exact = editor.crosstalk(keys).ratios()
    changes = rng.normal(size=(4000, 12, 6))
    changes /= np.linalg.norm(changes, axis=-1, keepdims=True)
    noise = np.einsum("tiv,ij->tjv", changes, along @ keys.T * (1 - np.eye(12)))
    drawn = np.mean(np.sum(noise**2, axis=-1), axis=0)
    np.testing.assert_allclose(exact.ratio() ** 2, drawn, rtol=0.08)
    assert np.all(exact.capacity() > 1)


def test_edits_keep_library_and_dtype() -> None:
    torch = needed("torch")
    for memory in (np.float32(W), torch.as_tensor(W, dtype=torch.float32), torch.as_tensor(W, dtype=torch.bfloat16)):
        changed = ROME(C).edit(memory, KEYS, VALUES)
        assert type(changed) is type(memory)
        assert changed.dtype == memory.dtype
        plain = ROME(C).edit(np.asarray(memory.tolist()), KEYS, VALUES)
        np.testing.assert_allclose(np.asarray(changed.tolist()), plain, rtol=0.02, atol=0.02)


def test_sparse_finetuning_trains_rows_of_its_own() -> None:
    """Rows that background batches use are left alone, and what reads only those keeps every bit."""
    rng = np.random.default_rng(2)
    table = rng.normal(size=(40, 6))
    own, shared, others = np.arange(0, 10), np.arange(10, 20), np.arange(20, 40)

    def over(slots: Any, n: int) -> Any:
        rows = np.zeros((n, 40))
        rows[:, slots] = rng.random((n, len(slots))) + 0.1
        return rows / rows.sum(1, keepdims=True)

    facts, values = over(np.r_[own, shared], 4), rng.normal(size=(4, 6))
    background = [over(np.r_[shared, others], 5) for _ in range(7)]
    plain = SparseFinetuning(rows=10, accessed=40, steps=4000)
    editor = replace(plain, background=background)
    changed, trained = editor.trained(table, facts, values)
    np.testing.assert_array_equal(editor.edit(table.T, facts, values).T, changed)
    assert trained.tolist() == own.tolist()
    np.testing.assert_allclose(facts @ changed, values, atol=1e-3)
    np.testing.assert_array_equal(np.concatenate(background) @ changed, np.concatenate(background) @ table)
    _, rows = plain.trained(table, facts, values)  # without a background: by frequency alone, ties by number
    assert rows.tolist() == list(range(10))
    everywhere, rows = SparseFinetuning(rows=40, accessed=40, steps=4000).trained(table, facts, values)
    assert rows.tolist() == list(range(20))
    assert np.abs(np.concatenate(background) @ (everywhere - table)).max() > 1e-3
    assert access_counts(facts, 3).sum() == 12
    idf = np.log(8 / np.where(np.arange(20) < 10, 1, 8))
    np.testing.assert_allclose(editor.scores(facts), [*(4 / 80 * idf), *[0] * 20])


def test_all_rows_trained_to_the_end_is_least_squares() -> None:
    rng = np.random.default_rng(3)
    table, facts, values = rng.normal(size=(9, 4)), rng.random((5, 9)), rng.normal(size=(5, 4))
    changed, _ = SparseFinetuning(rows=9, accessed=9, steps=60000).trained(table, facts, values)
    nearest = table + np.linalg.pinv(facts) @ (values - facts @ table)
    np.testing.assert_allclose(changed, nearest, atol=1e-6)


def test_a_swapped_mlp_is_the_one_built_from_the_edited_facts() -> None:
    store = make_store("superposed-mlp", readout="whitened", width=90)
    facts = RNG.normal(size=(40, 6)), RNG.normal(size=(40, 3))
    edits = np.concatenate([facts[0][5:9], RNG.normal(size=(2, 6))]), RNG.normal(size=(6, 3))
    state = swap_mlp(store, facts, *edits)
    values = np.concatenate([facts[1], edits[1][4:]])
    values[5:9] = edits[1][:4]
    rebuilt = store.write(store.empty(6, 3), np.concatenate([facts[0], edits[0][4:]]), values)
    np.testing.assert_array_equal(store.recall(state, facts[0]), store.recall(rebuilt, facts[0]))
    old = store.write(store.empty(6, 3), *facts)
    assert np.abs(store.recall(state, facts[0][5:9]) - store.recall(old, facts[0][5:9])).max() > 0.5


OUTER = make_store("outer-product")


@pytest.mark.parametrize(
    ("what", "call"),
    [
        ("keys", lambda: ROME().edit(W, KEYS[:, :3], VALUES)), ("values", lambda: ROME().edit(W, KEYS, VALUES[:2])),
        ("memory", lambda: ROME().edit(np.ones((2, 3, 4)), KEYS, VALUES)),
        ("memory", lambda: ROME().edit(make_store("softmax").empty(8, 5), KEYS, VALUES)),
        ("moment", lambda: ROME(np.eye(3)).edit(W, KEYS, VALUES)), ("moment", lambda: ROME(-C).edit(W, KEYS, VALUES)),
        ("keys", lambda: DeltaStep().edit(W, np.zeros(8), np.ones(5))), ("rate", lambda: DeltaStep(2.0)),
        ("weight", lambda: MEMIT(weight=-1.0)), ("keys", lambda: second_moment(np.ones((0, 3)))),
        ("ridge", lambda: second_moment(OLD_KEYS, -1.0)), ("rows", lambda: SparseFinetuning(rows=0)),
        ("weights", lambda: SparseFinetuning().trained(np.ones((4, 2)), np.ones((3, 5)), np.ones((3, 2)))),
        ("background", lambda: SparseFinetuning(background=[np.ones((2, 3))]).scores(np.ones((2, 4)))),
        ("keys", lambda: swap_mlp(OUTER, (np.eye(2), np.eye(2)), np.ones((1, 3)), np.ones((1, 2)))),
        ("values", lambda: swap_mlp(OUTER, (np.eye(2), np.eye(2)), np.eye(2), np.ones((1, 2)))),
    ],
)  # fmt: skip
def test_bad_input_is_one_sentence_that_names_it(what: str, call: Any) -> None:
    with pytest.raises(InputError, match=what):
        call()


def test_facts_that_are_not_finite_are_refused() -> None:
    with pytest.raises(NonFiniteError, match="values"):
        ROME().edit(W, KEYS, np.where(VALUES > 0, VALUES, np.nan))
