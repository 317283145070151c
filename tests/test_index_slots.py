"""Rows behind an index: exact where all cells are read, bounded where they are not, refused where files do not fit."""

from __future__ import annotations

import pickle
import sys
from pathlib import Path
from typing import Any

import array_api_strict
import numpy as np
import pytest

from assocmem import MappedSlots, Memory
from assocmem.contract.errors import FileFormatError, InputError, MissingExtraError
from assocmem.contract.index_slots import IndexSlots
from assocmem.contract.numbers import stream
from assocmem.contract.slots import DenseSlots
from assocmem.stores.knn import MemorizingTransformer, NearestNeighbours
from assocmem.stores.softmax import SoftmaxAttention

pytest.importorskip("faiss", reason="faiss is not installed: pip install 'assocmem[index]'")

N, D, D_V, CELLS = 400, 6, 3, 20


def clustered(n: int = N, seed: int = 0) -> tuple[Any, Any, Any]:
    """Return unit keys in a dozen clusters, values, and eight queries near stored keys."""
    rng = stream(11, "test index", n, seed)
    centres = stream(11, "centres").standard_normal((12, D))
    keys = centres[rng.integers(0, 12, n)] + 0.3 * rng.standard_normal((n, D))
    keys /= np.linalg.norm(keys, axis=-1, keepdims=True)
    queries = keys[:8] + 0.1 * rng.standard_normal((8, D))
    return keys, rng.standard_normal((n, D_V)), queries / np.linalg.norm(queries, axis=-1, keepdims=True)


def over(rows: Any = None, probes: int = 2, **more: Any) -> IndexSlots:
    return IndexSlots(DenseSlots({}) if rows is None else rows, **{"cells": CELLS, "least": 50, **more}, probes=probes)


def filled(store: Any, slots: Any = None, n: int = N) -> Any:
    return store.write(store.empty(D, D_V, slots=slots), *clustered(n)[:2])


def test_where_all_cells_are_read_the_search_is_exact_and_where_few_are_it_is_not() -> None:
    keys, values, queries = clustered()
    exact = DenseSlots({"keys": keys, "values": values})
    ids, found = exact.search(queries, 30)
    none = {name: exact[name][:0] for name in exact.names}
    for probes, equal in ((CELLS, True), (1, False)):
        slots = over(probes=probes).empty(none).append({"keys": keys, "values": values})
        assert slots.indexed == N
        got = slots.search(queries[None], 30)
        assert np.array_equal(got[0][0], ids) is equal
        assert np.allclose(got[1][0], found, rtol=1e-12) is equal
        np.testing.assert_allclose(got[1][0], np.take_along_axis(queries @ keys.T, got[0][0], -1), rtol=1e-12)


@pytest.mark.parametrize("probes", [1, 3, CELLS])
@pytest.mark.parametrize("beta", [0.0, 4.0, 40.0])
def test_the_dropped_mass_bounds_the_error_through_an_index(probes: int, beta: float) -> None:
    _, values, queries = clustered()
    full = SoftmaxAttention(beta)
    want, most = full.recall(filled(full), queries), np.linalg.norm(values, axis=-1).max()
    store = NearestNeighbours(8, beta)
    state = filled(store, over(probes=probes))
    told, counted = store.ask(state, queries).dropped, store.dropped_mass(state, queries)
    error = np.linalg.norm(store.recall(state, queries) - want, axis=-1)
    assert np.all(told >= counted - 1e-12)
    assert np.all(error <= 2 * counted * most + 1e-12)
    assert np.all((told >= 0) & (told <= 1))


def test_a_bound_that_forgets_what_was_not_read_is_too_small(monkeypatch: pytest.MonkeyPatch) -> None:
    queries = stream(11, "anywhere").standard_normal((40, D))
    queries, store = queries / np.linalg.norm(queries, axis=-1, keepdims=True), NearestNeighbours(8, 60.0)
    state = filled(store, over(probes=1))
    counted = store.dropped_mass(state, queries)
    assert np.all(store.ask(state, queries).dropped >= counted - 1e-12)
    monkeypatch.setattr(IndexSlots, "unread", lambda *_: None)
    state = filled(store, over(probes=1))
    assert np.any(store.ask(state, queries).dropped < 0.5 * counted)


@pytest.mark.parametrize("bias", [None, 1.0])
def test_memorizing_transformers_read_an_index(bias: float | None) -> None:
    queries, values = clustered()[2], clustered()[1]
    whole, few = MemorizingTransformer(N, 20, bias, 8.0), MemorizingTransformer(6, 20, bias, 8.0)
    want, state = whole.recall(filled(whole), queries), filled(few, over(probes=2))
    error = np.linalg.norm(few.recall(state, queries) - want, axis=-1)
    assert np.all(error <= 2 * few.ask(state, queries).dropped * np.linalg.norm(values, axis=-1).max())
    every = filled(few, over(probes=CELLS))
    np.testing.assert_allclose(few.recall(every, queries), few.recall(filled(few), queries), rtol=1e-10)


def test_rows_that_came_since_are_found_and_indexed_when_they_have_doubled() -> None:
    memory = Memory(NearestNeighbours(1, 5.0), slots=over(probes=1))
    sizes = []
    for n in (40, 30, 60, 70, 30):
        keys, values, _ = clustered(n, len(memory))
        memory.write(keys, values)
        np.testing.assert_allclose(memory.recall(keys), values)
        sizes.append(memory.state.slots.indexed)  # type: ignore[union-attr]
    assert sizes == [0, 70, 70, 200, 200]
    assert memory.size == len(memory) * (D + D_V) + CELLS * D + CELLS + 200 + CELLS + 1


def test_cells_that_hold_too_few_rows_are_not_enough() -> None:
    keys, values, queries = clustered(60)
    slots = IndexSlots(DenseSlots({"keys": keys, "values": values}), cells=30, probes=1, least=10)
    ids, _ = slots.search(queries, 60)
    np.testing.assert_array_equal(np.sort(ids, axis=-1), np.broadcast_to(np.arange(60), (8, 60)))
    assert slots.search(queries, 5)[0].min() >= 0


def test_equal_keys_are_taken_in_their_order() -> None:
    slots = IndexSlots(DenseSlots({"keys": np.ones((64, 2)), "values": np.zeros((64, 1))}), cells=4, probes=4, least=8)
    np.testing.assert_array_equal(slots.search(np.ones((1, 2)), 5)[0], [[0, 1, 2, 3, 4]])


def test_copies_keep_what_they_hold(tmp_path: Path) -> None:
    queries, store = clustered()[2], NearestNeighbours(8, 10.0)
    state = filled(store, over(MappedSlots(tmp_path / "rows"), 3))
    want = store.recall(state, queries)
    np.testing.assert_array_equal(store.recall(pickle.loads(pickle.dumps(state)), queries), want)
    some = store.select(state, np.arange(0, N, 2))
    assert some.slots.indexed == N // 2
    narrow = state.astype(np.float32, np.float32)
    np.testing.assert_allclose(store.recall(narrow, queries.astype(np.float32)), want, atol=1e-4)
    slots = state.slots
    slots.save_index(tmp_path / "index")
    again = IndexSlots.opened(MappedSlots.opened(tmp_path / "rows"), tmp_path / "index", probes=3)
    np.testing.assert_array_equal(store.recall(state.after({}, N, again), queries), want)
    memory = Memory(store, slots=over(MappedSlots(tmp_path / "more"), 3))
    memory.write(*clustered()[:2])
    memory.save(tmp_path / "m.safetensors")
    loaded = Memory.load(tmp_path / "m.safetensors")
    np.testing.assert_allclose(loaded.recall(queries), store.recall(filled(store), queries), rtol=1e-12)  # exact


def test_an_index_of_other_rows_is_refused(tmp_path: Path) -> None:
    keys, values, _ = clustered()
    file = over(DenseSlots({"keys": keys, "values": values})).save_index(tmp_path / "index")
    (tmp_path / "cut").write_bytes(file.read_bytes()[:-40])
    (tmp_path / "words").write_text("no index")
    changed = keys.copy()
    changed[-1] += 1
    cases = (
        (keys[:, :4], file, "index of rows of width 6; these have 4"), (keys[:300], file, "of 400 rows; there are 300"),
        (changed, file, "of other rows"), (keys, tmp_path / "cut", "cannot be read"),
        (keys, tmp_path / "words", "cannot be read"), (keys, tmp_path / "none", "cannot be read"),
    )  # fmt: skip
    for rows, path, words in cases:
        with pytest.raises(FileFormatError, match=words):
            IndexSlots.opened(DenseSlots({"keys": rows, "values": values[: len(rows)]}), path)


def test_a_file_cut_while_it_is_open_is_refused(tmp_path: Path) -> None:
    queries, store = clustered()[2], NearestNeighbours(8, 10.0)
    state = filled(store, over(MappedSlots(tmp_path / "rows")))
    for name in ("values", "keys"):
        file = tmp_path / "rows" / f"{name}.rows"
        whole = file.read_bytes()
        file.write_bytes(whole[:-8])
        with pytest.raises(FileFormatError, match="cut short"):
            store.recall(state, queries)
        file.write_bytes(whole)
    assert np.isfinite(store.recall(state, queries)).all()


def test_settings_and_arrays_that_do_not_fit_are_refused() -> None:
    strict = array_api_strict.ones((2, D))
    for call, words in (
        (lambda: over(probes=0), "`probes` of IndexSlots"), (lambda: over(cells=2.5), "`cells`"),
        (lambda: over(least=-1), "`least`"), (lambda: IndexSlots(np.ones(3)), "`rows`"),  # type: ignore[arg-type]
        (lambda: over(over()), "`rows` of IndexSlots must be slots without an index"),
        (lambda: Memory("nearest-neighbours", D, D_V, batch=(2,), slots=over()), "no batch axes"),
        (lambda: Memory("nearest-neighbours", slots=over()).write(strict, strict), "NumPy's arrays alone"),
        (lambda: over().save_index("x"), "no index to save"),
    ):  # fmt: skip
        with pytest.raises(InputError, match=words):
            call()


def test_without_faiss_the_extra_is_named_and_nothing_is_written(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    keys, values, queries = clustered()
    rows = DenseSlots({"keys": keys, "values": values})
    want = over(rows).search(queries, 3)[0]
    file = over(rows).save_index(tmp_path / "index")
    memory = Memory(NearestNeighbours(1, 5.0), slots=over())
    memory.write(keys[:40], values[:40])
    monkeypatch.setitem(sys.modules, "faiss", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'assocmem\[index\]'"):
        memory.write(keys, values)
    assert len(memory) == 40
    np.testing.assert_array_equal(IndexSlots.opened(rows, file, probes=2).search(queries, 3)[0], want)
