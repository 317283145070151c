"""Memory: writing and asking in every shape, files that come back bit for bit or not at all, copies, light imports."""

from __future__ import annotations

import json
import math
import os
import pickle
import subprocess
import sys
import threading
from concurrent.futures import ProcessPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import array_api_strict
import numpy as np
import pytest

from assocmem import Memory, make_store
from assocmem.contract import serialization as archive
from assocmem.contract.errors import (
    DTypeError,
    FileFormatError,
    InputError,
    NonFiniteError,
    RoundingWarning,
    UnknownNameError,
)
from assocmem.contract.numbers import stream
from assocmem.contract.traits import Capabilities
from assocmem.maps.activations import LogN
from assocmem.stores.mlp import MLP
from assocmem.stores.softmax import SoftmaxAttention


def pairs(n: int, d_k: int = 4, d_v: int = 3, dtype: Any = np.float64) -> tuple[Any, Any]:
    """Return unit keys (n, d_k) and values (n, d_v)."""
    rng = stream(21, "test memory", n)
    keys, values = rng.standard_normal((n, d_k)), rng.standard_normal((n, d_v))
    return (keys / np.linalg.norm(keys, axis=1, keepdims=True)).astype(dtype), values.astype(dtype)


def filled(key: str | Any = "softmax", n: int = 7, **options: Any) -> Memory:
    """Return a memory of n pairs."""
    memory = Memory(key, d_k=4, d_v=3, **options)
    memory.write(*pairs(n))
    return memory


# ---------------------------------------------------------------------- writing and asking


def test_rows_and_single_pairs_fill_the_same_memory() -> None:
    keys, values = pairs(7)
    whole, single = Memory("softmax", d_k=4, d_v=3), Memory("softmax")
    whole.write(keys, values)
    for key, value in zip(keys, values, strict=True):
        single.write(key, value)
    assert len(whole) == len(single) == 7
    np.testing.assert_array_equal(whole.state["keys"], single.state["keys"])
    out = whole.recall(keys)
    assert out.shape == (7, 3)
    one = whole.recall(keys[2])
    assert one.shape == (3,)
    np.testing.assert_allclose(one, out[2], rtol=1e-14)


def test_a_store_that_keeps_its_pairs_but_declares_no_masks_refuses_one_truly() -> None:
    kept = type("Kept", (type(make_store("softmax")),), {"capabilities": Capabilities()})()
    state = kept.write(kept.empty(2, 1), np.eye(2), np.ones((2, 1)))
    with pytest.raises(
        InputError, match=r"^`mask` cannot .* Kept, whose capabilities say nothing of masks. Leave `mask`"
    ):
        kept.recall(state, np.eye(2), mask=np.ones((2, 2), bool))


def test_recall_is_that_of_the_store() -> None:
    memory = filled("softmax", beta=8.0)
    keys, _ = pairs(7)
    store = make_store("softmax", beta=8.0)
    assert memory.store == store
    assert memory.traits == store.traits
    assert memory.key == "softmax"
    mask = np.tri(7, dtype=bool)
    np.testing.assert_array_equal(memory.recall(keys, mask=mask), store.recall(memory.state, keys, mask=mask))
    out, weights = memory.recall(keys, return_weights=True, mask=mask)
    np.testing.assert_allclose(weights @ memory.state["values"], out, rtol=1e-13)
    out, weights = memory.recall(keys[1], return_weights=True, mask=mask[3])
    assert (out.shape, weights.shape) == ((3,), (7,))
    assert not weights[4:].any()
    with pytest.raises(InputError, match="OuterProduct gives no weights"):
        filled("outer-product").recall(keys, return_weights=True)
    with pytest.raises(InputError, match="`mask` cannot be used with OuterProduct"):
        filled("outer-product").recall(keys, mask=mask)


def test_a_store_of_ones_own_and_settings() -> None:
    keys, _ = pairs(7)
    by_key, by_store = filled("softmax", sharpness="log-n", reference=8), filled(SoftmaxAttention(LogN(8)))
    np.testing.assert_array_equal(by_key.recall(keys), by_store.recall(keys))
    assert by_store.key == "SoftmaxAttention"
    with pytest.raises(InputError, match="go with a store's key"):
        Memory(SoftmaxAttention(), beta=3.0)
    with pytest.raises(InputError, match="must be a registered key or a Store"):
        Memory(SoftmaxAttention)  # type: ignore[arg-type]
    with pytest.raises(UnknownNameError, match="softmax"):
        Memory("softmaxx")
    with pytest.raises(InputError, match="no setting 'sharp'"):
        Memory("softmax", sharp=2)


def test_python_numbers_take_the_dtype_of_what_is_stored() -> None:
    memory = Memory("softmax")
    memory.write([1, 0], [3, 4, 5])
    assert memory.recall([1, 0]).dtype == np.float64
    single = Memory("softmax")
    single.write(*pairs(3, dtype=np.float32))
    single.write([0.6, 0.8, 0.0, 0.0], [1.0, 2.0, 3.0])
    assert single.state["keys"].dtype == np.float32
    assert single.recall([0.6, 0.8, 0.0, 0.0]).dtype == np.float32
    single.write(*pairs(3, dtype=np.float64))
    assert single.state["keys"].dtype == np.float64, "arrays keep to the rule of promotion"


@pytest.mark.parametrize("library", ["torch", "array_api_strict"])
def test_other_array_libraries(library: str) -> None:
    xp = pytest.importorskip(library)
    keys, values = pairs(7)
    memory = Memory("softmax", normalise=True)
    memory.write(xp.asarray(3 * keys), xp.asarray(values))
    memory.write([1.0, 0.0, 0.0, 0.0], [1.0, 2.0, 3.0])
    out = memory.recall(xp.asarray(keys))
    assert type(out) is type(xp.asarray(keys))
    plain = filled(normalise=True)
    plain.write([1.0, 0.0, 0.0, 0.0], [1.0, 2.0, 3.0])
    np.testing.assert_allclose(np.asarray(out), plain.recall(keys), rtol=1e-13)
    with pytest.raises(DTypeError, match="as the state is"):
        plain.write(xp.asarray(keys), xp.asarray(values))
    like = Memory("softmax", d_k=4, d_v=3, like=xp.asarray(keys))
    like.write(keys.tolist(), values.tolist())
    assert type(like.recall([0.0, 0.0, 0.0, 1.0])) is type(xp.asarray(keys))


def test_batches() -> None:
    rng = stream(2, "batch")
    keys, values = rng.standard_normal((2, 5, 4)), rng.standard_normal((2, 5, 3))
    memory = Memory("softmax", batch=(2,))
    memory.write(keys, values)
    memory.write(keys[0, 0], values[0, 0])
    assert len(memory) == 6
    assert memory.recall(keys).shape == (2, 5, 3)
    assert memory.recall(keys[0, 1]).shape == (2, 3)
    alone = Memory("softmax")
    alone.write(keys[1], values[1])
    alone.write(keys[0, 0], values[0, 0])
    np.testing.assert_allclose(memory.recall(keys)[1], alone.recall(keys[1]), rtol=1e-13)


def test_extras_reach_the_store() -> None:
    keys, values = pairs(5)
    memory = Memory("delta-net")
    memory.write(keys, values, strength=np.full(5, 0.5))
    memory.write(keys[0], values[0], strength=0.25)
    store = make_store("delta-net")
    state = store.write(store.empty(4, 3), keys, values, strength=np.full(5, 0.5))
    state = store.write(state, keys[:1], values[:1], strength=np.array([0.25]))
    np.testing.assert_array_equal(memory.recall(keys), store.recall(state, keys))
    with pytest.raises(InputError, match="has no use for `strength`"):
        filled().write(keys, values, strength=np.ones(5))


def test_normalise_divides_by_the_length_and_refuses_zero_rows() -> None:
    keys, values = pairs(6)
    scale = np.array([1e-200, 1.0, 3.0, 1e150, 1e300, 0.1])[:, None]
    memory = Memory("outer-product", normalise=True)
    memory.write(keys * scale, values)
    np.testing.assert_allclose(memory.recall(keys[::-1] * scale), memory.recall(keys[::-1]), rtol=1e-12)
    plain = Memory("outer-product")
    plain.write(keys, values)
    np.testing.assert_allclose(memory.recall(keys), plain.recall(keys), rtol=1e-12)
    assert memory.normalise
    assert not plain.normalise
    bad = keys.copy()
    bad[4] = 0
    for call, name in ((lambda: memory.write(bad, values), "keys"), (lambda: memory.recall(bad), "queries")):
        with pytest.raises(InputError, match=f"`{name}` cannot be normalised: row 4 has length zero"):
            call()
    bad[4, 2] = math.nan
    with pytest.raises(NonFiniteError, match="row 4"):
        memory.write(bad, values)
    assert len(memory) == 6
    half = Memory("softmax", normalise=True)
    half.write((100 * keys).astype(np.float16), values.astype(np.float16))
    np.testing.assert_allclose(np.linalg.norm(half.state["keys"], axis=1), 1, atol=1e-3)


@pytest.mark.parametrize(
    ("keys", "values", "error", "words"),
    [
        (np.ones((2, 4)), np.ones((3, 3)), InputError, "same number of pairs"),
        (np.ones((2, 5)), np.ones((2, 3)), InputError, "d_k=4"),
        (np.ones(4), np.ones((1, 3)), InputError, "or both be a single pair"),
        (np.ones(4), 3.0, InputError, "or both be a single pair"),
        (np.full((1, 4), np.inf), np.ones((1, 3)), NonFiniteError, "`keys` must be finite; row 0"),
        (np.ones(4), np.array([1, np.nan, 2]), NonFiniteError, "`values` must be finite"),
        (["a", "b", "c", "d"], np.ones(3), DTypeError, "real numbers"),
    ],
)
def test_a_write_that_fails_changes_nothing(keys: Any, values: Any, error: type[Exception], words: str) -> None:
    for key in ("softmax", "outer-product"):
        for memory in (Memory(key, d_k=4, d_v=3), filled(key), filled(key, normalise=True)):
            state, n = memory.state, len(memory)
            with pytest.raises(error, match=words):
                memory.write(keys, values)
            assert memory.state is state
            assert len(memory) == n


def test_a_memory_that_knows_no_widths() -> None:
    memory = Memory("softmax")
    assert (len(memory), memory.size, bool(memory)) == (0, 0, True)
    with pytest.raises(InputError, match="has no widths yet"):
        memory.recall([1.0])
    with pytest.raises(InputError, match="has no widths yet"):
        memory.save("nowhere.safetensors")
    assert "widths not yet known" in repr(memory)
    with pytest.raises(NonFiniteError):
        memory.write([math.nan], [1.0])
    memory.write([1.0, 2.0], [1.0])
    assert memory.state.d_k == 2
    with pytest.raises(InputError, match="d_k=2"):
        memory.write([1.0], [1.0])
    partly = Memory("softmax", d_v=3)
    with pytest.raises(InputError, match="d_v=3"):
        partly.write([1.0], [1.0])
    empty = Memory("softmax", d_k=2, d_v=1)
    assert empty.recall([1.0, 0.0]).tolist() == [0.0]


def test_repr_says_what_is_held() -> None:
    text = repr(filled("softmax", n=7, beta=8.0, normalise=True))
    for part in ("'softmax'", "d_k=4", "d_v=3", "7 pairs", "49 numbers", "float64", "normalise=True", "beta=8.0"):
        assert part in text
    assert "batch=(2,)" in repr(Memory("softmax", 4, 3, batch=(2,)))


def test_writes_from_several_threads_are_all_kept() -> None:
    memory = Memory("softmax", d_k=4, d_v=3)
    keys, values = pairs(200)

    def write(start: int) -> None:
        for i in range(start, start + 50):
            memory.write(keys[i], values[i])

    threads = [threading.Thread(target=write, args=(50 * i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(memory) == 200
    np.testing.assert_array_equal(np.sort(memory.state["keys"], axis=0), np.sort(keys, axis=0))


def test_merge_and_forget() -> None:
    keys, values = pairs(10)
    for key in ("softmax", "outer-product"):
        parts = [Memory(key) for _ in range(3)]
        parts[0].write(keys[:4], values[:4])
        parts[1].write(keys[4:], values[4:])
        whole, want = parts[0].merge(*parts[1:]), Memory(key)
        want.write(keys, values)
        assert (len(whole), len(parts[0]), whole.key) == (10, 4, key)
        np.testing.assert_allclose(whole.recall(keys), want.recall(keys), rtol=1e-12)
        assert len(parts[2].merge()) == 0
    with pytest.raises(InputError, match="only memories of one store"):
        filled("softmax").merge(filled("softmax", beta=2.0))
    with pytest.raises(InputError, match="only memories of one store"):
        filled("softmax").merge(filled("softmax", normalise=True))
    with pytest.raises(InputError, match="DeltaNet cannot be merged"):
        filled("delta-net").merge(filled("delta-net"))
    memory = filled("outer-product")
    memory.write(keys[9], 100 * values[9])
    memory.forget(keys[9], 100 * values[9])
    np.testing.assert_allclose(memory.recall(keys), filled("outer-product").recall(keys), atol=1e-12)
    assert len(memory) == 7
    with pytest.raises(InputError, match="SoftmaxAttention cannot forget"):
        filled("softmax").forget(keys[0], values[0])


# ---------------------------------------------------------------------- copies in other processes


def _written(memory: Memory, i: int) -> Memory:
    keys, values = pairs(12)
    memory.write(keys[3 * i : 3 * i + 3], values[3 * i : 3 * i + 3])
    return memory


def test_a_pickled_memory_is_an_independent_copy() -> None:
    for key in ("softmax", "outer-product", "optimal-linear"):
        memory = filled(key, normalise=True)
        copy = pickle.loads(pickle.dumps(memory))
        copy.write(*pairs(2))
        assert (len(memory), len(copy), copy.key, copy.normalise) == (7, 9, key, True)
        memory.write(*pairs(2))
        np.testing.assert_array_equal(memory.recall(pairs(7)[0]), copy.recall(pairs(7)[0]))


def test_writes_of_worker_processes_come_back_through_merge() -> None:
    """A write in a worker reaches the worker's copy only; what it hands back is joined by `merge`."""
    memory = Memory("softmax", d_k=4, d_v=3)
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        parts = list(pool.map(_written, [memory] * 4, range(4)))
    assert len(memory) == 0
    assert [len(part) for part in parts] == [3, 3, 3, 3]
    keys, values = pairs(12)
    whole = memory.merge(*parts)
    np.testing.assert_array_equal(whole.state["keys"], keys)
    np.testing.assert_array_equal(whole.state["values"], values)


# ---------------------------------------------------------------------- files


def _same(a: Any, b: Any) -> None:
    a, b = np.asarray(a), np.asarray(b)
    assert a.dtype == b.dtype
    assert a.shape == b.shape
    assert a.tobytes() == b.tobytes()


@pytest.mark.parametrize("n", [0, 1, 9])
@pytest.mark.parametrize("batch", [(), (2, 1)])
def test_views_empty_and_batched_states_come_back(n: int, batch: tuple[int, ...], tmp_path: Path) -> None:
    memory = Memory("softmax", d_k=4, d_v=3, batch=batch, sharpness=LogN(8, math.inf), count="stored", normalise=True)
    for i in range(n):
        memory.write(pairs(9)[0][i], pairs(9)[1][i])
    assert n < 2 or memory.state.slots.capacity > n, "the arrays must be views of a larger buffer"
    loaded = Memory.load(memory.save(tmp_path / "a.safetensors"), "softmax", d_k=4, d_v=3)
    assert (len(loaded), loaded.state.batch, loaded.normalise, loaded.key) == (n, batch, True, "softmax")
    assert loaded.store == SoftmaxAttention(LogN(8, math.inf), "stored")
    for name in ("keys", "values"):
        _same(loaded.state[name], memory.state[name])
    for one in (memory, loaded):
        one.write(*pairs(2))
    _same(loaded.recall(pairs(2)[0]), memory.recall(pairs(2)[0]))


def test_the_header_says_what_is_in_the_file(tmp_path: Path) -> None:
    from safetensors import safe_open

    path = filled("softmax", beta=8.0).save(tmp_path / "new folder" / "a.safetensors")
    with safe_open(path, framework="np") as file:
        header = json.loads(file.metadata()["assocmem"])
        np.testing.assert_array_equal(file.get_tensor("keys"), pairs(7)[0])
    for name, want in (("key", "softmax"), ("d_k", 4), ("d_v", 3), ("n", 7), ("dtype", "float64"), ("format", 1)):
        assert header[name] == want
    assert "Attention Is All You Need" in header["source"]
    assert header["class"] == "assocmem.stores.softmax:SoftmaxAttention"


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_torch_states_come_back_in_torch(dtype: str, tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    keys, values = (torch.asarray(a).to(getattr(torch, dtype)) for a in pairs(5))
    for state_dtype in (None, dtype):
        memory = Memory("softmax", d_k=4, d_v=3, state_dtype=state_dtype)
        memory.write(keys, values)
        loaded = Memory.load(memory.save(tmp_path / "a.safetensors"))
        for name in ("keys", "values"):
            assert loaded.state[name].dtype == memory.state[name].dtype
            assert torch.equal(loaded.state[name], memory.state[name])
        assert loaded.recall(keys).dtype == keys.dtype
        assert torch.equal(loaded.recall(keys), memory.recall(keys))
    for library in (np, array_api_strict):
        lacks = not hasattr(library, dtype)
        with pytest.warns(RoundingWarning, match="float32") if lacks else nullcontext():
            moved = Memory.load(tmp_path / "a.safetensors", like=library.zeros(1))
        assert type(moved.state["keys"]) is type(library.zeros(1))


def test_a_file_of_something_else_is_refused_and_both_are_named(tmp_path: Path) -> None:
    path = filled("softmax", beta=8.0).save(tmp_path / "a.safetensors")
    Memory.load(path, "softmax")
    Memory.load(path, "softmax", beta=8.0)
    Memory.load(path, SoftmaxAttention(8.0), d_k=4)
    for store, settings in (("outer-product", {}), ("softmax", {"beta": 4.0}), (SoftmaxAttention(), {})):
        with pytest.raises(FileFormatError, match=r"holds 'softmax', .*8\.0.*wanted"):
            Memory.load(path, store, **settings)
    with pytest.raises(FileFormatError, match="holds 'softmax' with d_k=4; d_k=64 was wanted"):
        Memory.load(path, d_k=64)
    with pytest.raises(FileFormatError, match="with d_v=3; d_v=4 was wanted"):
        Memory.load(path, "softmax", d_v=4)
    path = filled("squared-relu").save(tmp_path / "b.safetensors")
    Memory.load(path, "squared-relu")
    with pytest.raises(FileFormatError, match="holds 'squared-relu'"):
        Memory.load(path, "cubed-relu")


def test_broken_files_are_refused(tmp_path: Path) -> None:
    path = filled().save(tmp_path / "whole.safetensors")
    content = path.read_bytes()
    broken = tmp_path / "broken.safetensors"
    for cut in (0, 4, 8, 30, len(content) // 2, len(content) - 1):
        broken.write_bytes(content[:cut])
        with pytest.raises(FileFormatError, match=r"broken\.safetensors"):
            Memory.load(broken)
    length = int.from_bytes(content[:8], "little")
    for place in (9, length - 40, 8 + length + 3, len(content) - 1):
        changed = bytearray(content)
        changed[place] ^= 1
        broken.write_bytes(changed)
        with pytest.raises(FileFormatError, match=r"broken\.safetensors"):
            Memory.load(broken)
    broken.write_bytes(content + b"more")
    with pytest.raises(FileFormatError):
        Memory.load(broken)
    with pytest.raises(FileFormatError, match="there is no file"):
        Memory.load(tmp_path / "missing.safetensors")
    with pytest.raises(FileFormatError, match="there is no file"):
        Memory.load(tmp_path)
    from safetensors.numpy import save_file

    save_file({"keys": np.ones(3)}, broken)
    with pytest.raises(FileFormatError, match="not one that a Memory was saved to"):
        Memory.load(broken)


def _rewritten(path: Path, target: Path, **changes: Any) -> Path:
    """Write the file again with another header and the digest that goes with it."""
    header, arrays = archive._read(path)
    header |= changes
    header["digest"] = archive._digest(header, arrays)
    archive._write(str(target), header, arrays)
    return target


def test_headers_that_do_not_fit_are_refused_and_nothing_they_name_is_run(tmp_path: Path) -> None:
    path, target = filled().save(tmp_path / "a.safetensors"), tmp_path / "b.safetensors"
    assert len(Memory.load(_rewritten(path, target))) == 7
    for changes, error, words in (
        ({"format": 2, "assocmem": "9.9"}, FileFormatError, r"format 2 \(assocmem 9\.9\)"),
        ({"d_k": 5}, FileFormatError, "does not fit"),
        ({"d_v": None}, FileFormatError, "header of b.safetensors is damaged"),
        ({"class": "assocmem.stores.softmax:COUNT_BLOCK"}, FileFormatError, "no store or setting at hand"),
        ({"class": "assocmem.stores.gone:Gone"}, FileFormatError, "does not have"),
        ({"class": "os:system"}, FileFormatError, "no store or setting at hand"),
        ({"class": "this:Zen"}, InputError, "import this before loading"),
        ({"class": "assocmem.maps.activations:LogN", "settings": {}}, FileFormatError, "is no store"),
        ({"class": "assocmem.stores.outer:OuterProduct", "settings": {}}, FileFormatError, "OuterProduct keeps W"),
        ({"settings": {"sharpness": 2.0, "volume": 11}}, FileFormatError, "settings volume"),
    ):
        with pytest.raises(error, match=words):
            Memory.load(_rewritten(path, target, **changes))
    assert "this" not in sys.modules


def test_a_python_function_cannot_be_saved(tmp_path: Path) -> None:
    memory = filled(MLP(lambda s: s**3))
    path = tmp_path / "a.safetensors"
    with pytest.raises(InputError, match="MLP cannot be saved: its setting `activation` holds a Python function"):
        memory.save(path)
    assert not path.exists()


@dataclass(frozen=True)
class Sharper(SoftmaxAttention):
    """A store of a user's own module."""

    scale: float = 2.0


def test_a_store_of_a_users_module_comes_back_where_it_is_imported(tmp_path: Path) -> None:
    memory = filled(Sharper(3.0, scale=4.0))
    path = memory.save(tmp_path / "a.safetensors")
    assert Memory.load(path).store == Sharper(3.0, scale=4.0)
    code = f"from assocmem import Memory\nMemory.load({str(path)!r})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert f"import {Sharper.__module__} before loading it" in done.stderr


def test_a_file_appears_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.safetensors"
    filled(n=3).save(path)
    before = path.read_bytes()

    def failing(file: str, *_: Any) -> None:
        Path(file).write_bytes(b"half a file")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(archive, "_write", failing)
    with pytest.raises(InputError, match="No space left on device"):
        filled(n=7).save(path)
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["a.safetensors"]
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot write"):
        filled().save(tmp_path / "file" / "a.safetensors")


@pytest.mark.parametrize(
    "changes",
    [
        *({"n": 3}, {"n": 9}, {"n": -1}, {"n": "x"}, {"d_k": "x"}, {"d_v": 2.0}, {"dtype": "int8"}),
        *(
            {"dtype": "pi"},
            {"io_dtype": "x"},
            {"io_dtype": "int32"},
            {"normalise": "no"},
            {"pinned": 1},
            {"batch": 5},
            {"state_dtype": 3},
        ),
    ],
)
def test_numbers_and_flags_of_a_header_are_checked(tmp_path: Path, changes: dict[str, Any]) -> None:
    memory = Memory("softmax")
    memory.write(np.eye(5), np.eye(5))
    path = memory.save(tmp_path / "a.safetensors")
    _rewritten(path, path.with_name("b.safetensors"), **changes)
    with pytest.raises(FileFormatError, match=r"b\.safetensors"):
        Memory.load(path.with_name("b.safetensors"))


def test_pending_pairs_cannot_be_more_than_the_header_counts(tmp_path: Path) -> None:
    memory = Memory("optimal-linear")
    memory.write(np.eye(40)[:5], np.eye(40)[:5])
    path = memory.save(tmp_path / "a.safetensors")
    assert len(Memory.load(path)) == 5
    _rewritten(path, path.with_name("b.safetensors"), n=4)
    with pytest.raises(FileFormatError, match="its header names 4"):
        Memory.load(path.with_name("b.safetensors"))
