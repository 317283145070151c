"""Rows in files: equal to rows in memory, whole after every failure, and read in memory that does not grow."""

from __future__ import annotations

import json
import os
import pickle
import shutil
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import array_api_strict
import numpy as np
import pytest

from assocmem import MappedSlots, Memory, make_store
from assocmem.checks import contract
from assocmem.contract import mapped_slots
from assocmem.contract.errors import FileFormatError, InputError
from assocmem.contract.numbers import stream
from assocmem.contract.slots import DenseSlots
from assocmem.contract.store import Store


def pairs(n: int, batch: tuple[int, ...] = (), first: int = 0) -> tuple[Any, Any]:
    """Return keys (*batch, n, 5) and values (*batch, n, 3)."""
    rng = stream(7, "test mapped", n, first)
    return rng.standard_normal((*batch, n, 5)), rng.standard_normal((*batch, n, 3))


def filled(folder: Path, n: int = 12) -> Memory:
    """Return a memory of n pairs in a folder."""
    memory = Memory("softmax", slots=MappedSlots(folder))
    memory.write(*pairs(n))
    return memory


@pytest.mark.parametrize("store", ["softmax", "delta-former", "swiglu", "optimal-linear"])
@pytest.mark.parametrize("batch", [(), (2,)])
def test_every_store_recalls_from_files_what_it_recalls_from_memory(
    tmp_path: Path, store: str, batch: tuple[int, ...]
) -> None:
    dense, mapped = Memory(store, batch=batch), Memory(store, batch=batch, slots=MappedSlots(tmp_path / "rows"))
    queries = pairs(4, batch)[0]
    for first, n in enumerate((7, 1, 9)):
        for memory in (dense, mapped):
            memory.write(*pairs(n, batch, first))
        # BLAS may round a product of rows that stand otherwise in memory in another order.
        np.testing.assert_allclose(mapped.recall(queries), dense.recall(queries), rtol=1e-12, atol=1e-13)
    assert mapped.size == dense.size
    assert isinstance(mapped.state.slots, MappedSlots)


@pytest.mark.parametrize("batch", [(), (2,)])
def test_rows_come_back_in_every_way_as_from_memory(tmp_path: Path, batch: tuple[int, ...]) -> None:
    keys, values = pairs(40, batch)
    rows = {"keys": keys, "values": values}
    none = {name: array[..., :0, :] for name, array in rows.items()}
    mapped, dense = MappedSlots(tmp_path / "rows").empty(none).append(rows), DenseSlots(rows)
    ids = stream(7, "ids").integers(0, 40, (*batch, 6, 3))
    queries = pairs(6, batch)[0]
    for name in rows:
        np.testing.assert_array_equal(mapped[name], dense[name])
        np.testing.assert_array_equal(mapped.take(name, ids), dense.take(name, ids))
        np.testing.assert_array_equal(mapped.take(name, ids[..., :1, :]), dense.take(name, ids[..., :1, :]))
        np.testing.assert_array_equal(mapped.select(ids.ravel()[:4])[name], dense.select(ids.ravel()[:4])[name])
        np.testing.assert_array_equal(np.concatenate([b[name] for _, b in mapped.blocks(7)], -2), dense[name])
        assert mapped.astype(np.float32)[name].dtype == np.float32
        np.testing.assert_array_equal(mapped.astype(np.float32)[name], dense.astype(np.float32)[name])
    for got, want in zip(mapped.search(queries, 5), dense.search(queries, 5), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-12)
    assert (mapped.count, mapped.numbers, mapped.names) == (dense.count, dense.numbers, dense.names)
    assert mapped.astype(np.float64) is mapped


@pytest.mark.parametrize("store", ["softmax", "delta-former"])
def test_the_whole_contract_holds_over_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, store: str) -> None:
    folders, empty = iter(range(10**6)), Store.empty

    def in_files(*sizes: Any, **more: Any) -> Any:
        if isinstance(more.get("like"), np.ndarray | None):
            more["slots"] = MappedSlots(tmp_path / str(next(folders)))
        return empty(*sizes, **more)

    monkeypatch.setattr(Store, "empty", in_files)
    report = contract.check(make_store(store))
    assert report.ok, report.text()
    assert next(folders) > 100


def test_two_writes_from_one_state_are_both_right_and_a_copy_ends_with_its_slots(tmp_path: Path) -> None:
    store, folder = make_store("softmax"), tmp_path / "rows"
    start = store.empty(5, 3, slots=MappedSlots(folder))
    old = store.write(start, *pairs(6))
    states = [store.write(old, *pairs(3, first=i)) for i in range(2)]
    again = store.write(start, *pairs(2))
    for state, parts in ((old, []), (again, None), *((s, [i]) for i, s in enumerate(states))):
        written = [pairs(6), *(pairs(3, first=i) for i in parts)] if parts is not None else [pairs(2)]
        np.testing.assert_array_equal(state["keys"], np.concatenate([p[0] for p in written]))
        np.testing.assert_array_equal(state["values"], np.concatenate([p[1] for p in written]))
    copies = [s.slots.folder for s in (states[1], again)]
    assert [c.parent == folder and c.exists() for c in copies] == [True, True]
    assert [s.slots.place for s in (states[0], states[1])] == [str(folder), None]
    kept = pickle.loads(pickle.dumps(states[1]))
    del states, again, state
    assert not any(c.exists() for c in copies)
    np.testing.assert_array_equal(kept["keys"], np.concatenate([pairs(6)[0], pairs(3, first=1)[0]]))


def test_pickles_and_files_name_the_folder_and_hold_the_rows_that_there_were(tmp_path: Path) -> None:
    memory = filled(tmp_path / "here" / "rows")
    queries, file = pairs(4)[0], tmp_path / "here" / "memory.safetensors"
    want = memory.recall(queries)
    copy = pickle.loads(pickle.dumps(memory))
    memory.save(file)
    memory.write(*pairs(3, first=1))
    assert file.stat().st_size < 2000
    np.testing.assert_array_equal(copy.recall(queries), want)
    (tmp_path / "here").rename(tmp_path / "there")
    loaded = Memory.load(tmp_path / "there" / "memory.safetensors")
    assert isinstance(loaded.state.slots, MappedSlots)
    np.testing.assert_array_equal(loaded.recall(queries), want)
    # Three rows stand behind those of the file: a write goes on in a copy, and loses neither.
    loaded.write(*pairs(2, first=2))
    assert (len(loaded), MappedSlots.opened(tmp_path / "there" / "rows").count) == (14, 15)
    strict = Memory.load(tmp_path / "there" / "memory.safetensors", like=array_api_strict.asarray([0.0]))
    np.testing.assert_allclose(np.asarray(strict.recall(array_api_strict.asarray(queries))), want, rtol=1e-12)


def cut(folder: Path) -> None:
    """Take half of a file away."""
    file = folder / "values.rows"
    os.truncate(file, file.stat().st_size // 2)


def reheaded(**changes: Any) -> Callable[[Path], None]:
    """Change what the header says."""

    def change(folder: Path) -> None:
        header = json.loads((folder / "slots.json").read_text())
        (folder / "slots.json").write_text(json.dumps({**header, **changes}))

    return change


FAULTS: dict[str, tuple[Callable[[Path], Any], str]] = {
    "cut short": (cut, "values.rows holds 6 of its 12 rows"),
    "a missing file": (lambda folder: (folder / "keys.rows").unlink(), "keys.rows cannot be read"),
    "no folder": (shutil.rmtree, "holds no slots"),
    "an index of more rows than the values have": (reheaded(count=13), "keys.rows holds 12 of its 13 rows"),
    "another format": (reheaded(format=9), "has format 9"),
    "a negative count": (reheaded(count=-1), "is damaged"),
    "an object dtype": (reheaded(rows={"keys": {"shape": [5], "dtype": "object"}}), "is damaged"),
    "a path for a name": (reheaded(rows={"../keys": {"shape": [5], "dtype": "float64"}}), "is damaged"),
    "other widths": (reheaded(rows={n: {"shape": [2], "dtype": "float64"} for n in ("keys", "values")}), "shape"),
    "no JSON": (lambda folder: (folder / "slots.json").write_text("{"), "is damaged"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_damaged_folder_is_refused_in_a_sentence(tmp_path: Path, fault: str) -> None:
    filled(tmp_path / "rows").save(tmp_path / "m.safetensors")
    damage, words = FAULTS[fault]
    damage(tmp_path / "rows")
    with pytest.raises(FileFormatError, match=words):
        Memory.load(tmp_path / "m.safetensors")


def test_files_cut_while_they_are_open_are_refused_and_written_to_no_more(tmp_path: Path) -> None:
    memory = filled(tmp_path / "rows")
    whole = (tmp_path / "rows" / "values.rows").read_bytes()
    memory.recall(pairs(2)[0])
    cut(tmp_path / "rows")
    for use in (lambda: memory.recall(pairs(2)[0]), lambda: memory.write(*pairs(2))):
        with pytest.raises(FileFormatError, match="cut short"):
            use()
    (tmp_path / "rows" / "values.rows").write_bytes(whole)
    memory.write(*pairs(2))
    np.testing.assert_array_equal(memory.state["values"], np.concatenate([pairs(12)[1], pairs(2)[1]]))


def test_a_folder_that_is_anothers_is_refused_and_stays_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "letter.txt").write_text("dear")
    memory = filled(tmp_path / "rows")
    for folder, words in (("mine", r"other files \(letter.txt\)"), ("rows", "holds 12 rows already")):
        with pytest.raises(InputError, match=words):
            filled(tmp_path / folder)
    assert [p.name for p in (tmp_path / "mine").iterdir()] == ["letter.txt"]
    np.testing.assert_array_equal(memory.state["keys"], pairs(12)[0])
    filled(tmp_path / "rows" / "inner")


def test_arguments_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    strict = array_api_strict.asarray(pairs(2)[0]), array_api_strict.asarray(pairs(2)[1])
    opened = filled(tmp_path / "rows").state.slots
    (tmp_path / "file").write_text("")
    cases: tuple[tuple[Callable[[], Any], str], ...] = (
        (lambda: MappedSlots(3), "`folder` of MappedSlots"),  # type: ignore[arg-type]
        (lambda: Memory("softmax", 5, 3, slots=opened), "must hold no rows; got 12"),
        (lambda: Memory("outer-product", 5, 3, slots=MappedSlots(tmp_path / "a")), "takes no `slots`"),
        (lambda: Memory("softmax", slots=MappedSlots(tmp_path / "a")).write(*strict), "NumPy's arrays alone"),
        (lambda: filled(tmp_path / "file"), "cannot write"),
        (lambda: filled(tmp_path / "file" / "below"), "cannot write"),
    )
    for call, words in cases:
        with pytest.raises(InputError, match=words):
            call()
    assert not (tmp_path / "a").exists()


def test_a_write_that_fails_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    memory = filled(tmp_path / "rows")

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(mapped_slots, "write_whole", full)
        with pytest.raises(InputError, match="No space left on device; what it held is unchanged"):
            memory.write(*pairs(5, first=1))
    assert len(memory) == MappedSlots.opened(tmp_path / "rows").count == 12
    memory.write(*pairs(2))
    np.testing.assert_array_equal(memory.state["keys"], np.concatenate([pairs(12)[0], pairs(2)[0]]))


@pytest.mark.parametrize("n", [50_000, 200_000])
def test_memory_does_not_grow_with_the_rows(tmp_path: Path, n: int) -> None:
    """Both sizes stay below 48 MB; the larger one's rows alone are 51 MB (float32)."""
    rng = stream(7, "large")
    memory = Memory("softmax", slots=MappedSlots(tmp_path / "rows"))
    tracemalloc.start()
    try:
        for _ in range(0, n, 10_000):
            memory.write(*(rng.standard_normal((10_000, 32), dtype=np.float32) for _ in range(2)))
        queries = rng.standard_normal((64, 32), dtype=np.float32)
        memory.recall(queries)
        memory.state.slots.search(queries, 8)  # type: ignore[union-attr]
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 48e6
