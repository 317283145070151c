"""Array files: what was saved comes back, and every kind of damage is one sentence."""

import json
import os
import zipfile

import numpy as np
import pytest
import safetensors.numpy

from assocmem.contract.errors import FileFormatError, InputError, NonFiniteError
from assocmem.inputs import array_names, read_array, read_matrix, read_targets

ROWS = np.arange(12, dtype=np.float64).reshape(3, 4) / 7


def saved(tmp_path, array, name="a.npy"):
    np.save(tmp_path / name, array)
    return tmp_path / name


@pytest.mark.parametrize("kind", ["<f8", "<f4", "<f2", ">f4", ">f8", ">i4", "<i8", "u1", "?"])
def test_npy_comes_back_in_native_order(tmp_path, kind):
    array = (ROWS * 7).astype(kind)
    back = read_array(saved(tmp_path, array))
    np.testing.assert_array_equal(back, array)
    assert back.dtype == np.dtype(kind).newbyteorder("=")
    assert back.dtype.isnative
    back[0, 0] = 1  # the caller's own array


@pytest.mark.parametrize(
    "array", [np.asfortranarray(ROWS), ROWS[:, ::2], ROWS.T, np.float64(3.5), np.zeros((0, 4)), np.zeros((2, 3, 4, 5))]
)
def test_npy_of_any_layout_and_shape(tmp_path, array):
    np.testing.assert_array_equal(read_array(saved(tmp_path, array)), array)


def test_npz_with_one_array_needs_no_name_and_with_several_lists_them(tmp_path):
    np.savez(tmp_path / "one.npz", only=ROWS)
    np.testing.assert_array_equal(read_array(tmp_path / "one.npz"), ROWS)
    np.savez_compressed(tmp_path / "two.npz", keys=ROWS, values=-ROWS)
    np.testing.assert_array_equal(read_array(f"{tmp_path}/two.npz:values"), -ROWS)
    np.testing.assert_array_equal(read_array(tmp_path / "two.npz", name="keys"), ROWS)
    assert array_names(tmp_path / "two.npz") == ("keys", "values")
    with pytest.raises(FileFormatError, match=r"holds 2 arrays; name one, as in two.npz:keys. It has keys, values"):
        read_array(tmp_path / "two.npz")
    with pytest.raises(FileFormatError, match=r"no array called 'valus'; it has keys, values"):
        read_array(f"{tmp_path}/two.npz:valus")


def test_many_names_are_cut_short(tmp_path):
    np.savez(tmp_path / "many.npz", **{f"layer{i}": ROWS for i in range(30)})
    with pytest.raises(FileFormatError, match="and 18 more"):
        read_array(tmp_path / "many.npz")


def test_safetensors_by_its_own_writer(tmp_path):
    tensors = {
        "layer.0/weight": ROWS.astype(np.float32),
        "half": ROWS.astype(np.float16),
        "ids": np.array([1, 2, 3]),
        "flags": np.array([True, False]),
        "nothing": np.zeros((0, 4)),
        "number": np.array(2.5),
    }
    path = tmp_path / "m.safetensors"
    safetensors.numpy.save_file(tensors, path)
    assert set(array_names(path)) == set(tensors)
    for name, tensor in tensors.items():
        back = read_array(f"{path}:{name}")
        np.testing.assert_array_equal(back, tensor)
        assert back.dtype == tensor.dtype
    with pytest.raises(FileFormatError, match="holds 6 arrays"):
        read_array(path)


def test_bfloat16_becomes_float32_exactly_and_without_torch(tmp_path):
    numbers = np.array([1.0, -2.5, 3.0e38, 1e-40, 0.0078125, np.inf], dtype=np.float32)
    bits = (numbers.view(np.uint32) >> 16).astype("<u2")
    path = tmp_path / "b.safetensors"
    write_safetensors(path, {"w": ("BF16", [2, 3], bits.tobytes())})
    back = read_array(path)
    assert back.dtype == np.float32
    np.testing.assert_array_equal(back, ((bits.astype(np.uint32) << 16).view(np.float32)).reshape(2, 3))
    assert back[0, 1] == -2.5


def test_bfloat16_as_torch_saves_it(tmp_path):
    torch = pytest.importorskip("torch")
    from safetensors.torch import save_file

    tensor = torch.randn(3, 5, generator=torch.Generator().manual_seed(0)).to(torch.bfloat16)
    save_file({"w": tensor}, tmp_path / "t.safetensors")
    np.testing.assert_array_equal(read_array(tmp_path / "t.safetensors"), tensor.float().numpy())


def write_safetensors(path, tensors, cut=0, header=None):
    """Write a file by hand: name -> (type, shape, bytes)."""
    entries, data = {}, b""
    for name, (dtype, shape, raw) in tensors.items():
        entries[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = (json.dumps(entries) if header is None else header).encode()
    whole = len(text).to_bytes(8, "little") + text + data
    path.write_bytes(whole[: len(whole) - cut])


def test_damaged_safetensors(tmp_path):
    path = tmp_path / "d.safetensors"
    good = {"w": ("F32", [2, 2], ROWS[:2, :2].astype("<f4").tobytes())}
    write_safetensors(path, good, cut=3)
    with pytest.raises(FileFormatError, match=r"d\.safetensors is no readable .*not fully covered"):
        read_array(path)
    for header in ("{{", "[]", '{"w": 3}', '{"w": {"dtype": "F32", "shape": [2, 2], "data_offsets": [0, 4]}}'):
        write_safetensors(path, good, header=header)
        with pytest.raises(FileFormatError, match=r"is no readable .*it is damaged"):
            read_array(path)
    write_safetensors(path, good, header='{"w": {"dtype": "F32", "shape": [-2, -2], "data_offsets": [0, 16]}}')
    with pytest.raises(FileFormatError, match=r"is no readable .*it is damaged"):
        read_array(path)
    path.write_bytes(b"\xff" * 40)
    with pytest.raises(FileFormatError, match="is no readable"):
        read_array(path)
    write_safetensors(path, {"w": ("F8_E4M3", [4], b"\0" * 4)})
    with pytest.raises(FileFormatError, match="of type F8_E4M3"):
        read_array(path)
    write_safetensors(path, {})
    with pytest.raises(FileFormatError, match="holds no arrays"):
        read_array(path)


@pytest.mark.parametrize("cut", [1, 40, 90, 150, 200])
def test_truncated_npy_at_any_place(tmp_path, cut):
    path = saved(tmp_path, ROWS)
    path.write_bytes(path.read_bytes()[:-cut])
    with pytest.raises(FileFormatError, match=r"a\.npy"):
        read_array(path)


@pytest.mark.parametrize("place", [0, 120, -30])
def test_damaged_npz(tmp_path, place):
    path = tmp_path / "z.npz"
    np.savez_compressed(path, a=np.random.default_rng(0).standard_normal((50, 4)))
    data = bytearray(path.read_bytes())
    data[place] ^= 0xFF
    path.write_bytes(bytes(data[: -40 if place < 0 else None]))
    with pytest.raises(FileFormatError, match=r"z\.npz"):
        read_array(path)


@pytest.mark.parametrize(
    "shape", ["9999999999999, 4", "0, 9223372036854775807", "9223372036854775807, 4", f"{10**30},", "0," * 70]
)
@pytest.mark.parametrize("name", ["a.npy", "a.npz"])
def test_a_header_that_promises_too_much_is_refused(tmp_path, shape, name):
    header = f"{{'descr': '<f8', 'fortran_order': False, 'shape': ({shape}), }}\n".encode()
    whole = b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + b"\0" * 96
    if name == "a.npy":
        (tmp_path / name).write_bytes(whole)
    else:
        with zipfile.ZipFile(tmp_path / name, "w") as archive:
            archive.writestr("a.npy", whole)
    with pytest.raises(FileFormatError, match="is no readable array of numbers"):
        read_array(tmp_path / name)


@pytest.mark.parametrize(
    ("array", "word"),
    [
        (np.array([1, None], dtype=object), "Python objects"),
        (np.array(["a", "b"]), "real numbers"),
        (np.array([1 + 2j]), "real numbers"),
        (np.array(["2020-01-01"], dtype="datetime64[D]"), "real numbers"),
        (np.zeros(2, dtype=[("a", "<f4")]), "real numbers"),
    ],
)
def test_things_that_are_not_numbers(tmp_path, array, word):
    np.save(tmp_path / "o.npy", array, allow_pickle=True)
    np.savez(tmp_path / "o.npz", a=array)
    for name in ("o.npy", "o.npz"):
        with pytest.raises(FileFormatError, match=word):
            read_array(tmp_path / name)


def test_no_pickle_is_ever_opened(tmp_path):
    import pickle

    class Trap:
        def __reduce__(self):
            return os.mkdir, (str(tmp_path / "sprung"),)

    (tmp_path / "p.npy").write_bytes(pickle.dumps(Trap()))
    np.save(tmp_path / "q.npy", np.array([Trap()], dtype=object), allow_pickle=True)
    for name in ("p.npy", "q.npy"):
        with pytest.raises(FileFormatError):
            read_array(tmp_path / name)
    assert not (tmp_path / "sprung").exists()


def test_missing_empty_and_foreign_files(tmp_path):
    with pytest.raises(FileFormatError, match="there is no file"):
        read_array(tmp_path / "none.npy")
    with pytest.raises(FileFormatError, match="there is no file"):
        array_names(tmp_path / "none.npz")
    (tmp_path / "e.npy").touch()
    with pytest.raises(FileFormatError, match="is empty"):
        read_array(tmp_path / "e.npy")
    (tmp_path / "dir.npy").mkdir()
    with pytest.raises(FileFormatError, match="cannot be read"):
        read_array(tmp_path / "dir.npy")
    (tmp_path / "t.npy").write_text("1 2 3")
    with pytest.raises(FileFormatError, match="is no readable"):
        read_array(tmp_path / "t.npy")
    with pytest.raises(FileFormatError, match="can run code"):
        read_array(tmp_path / "model.pt")
    with pytest.raises(FileFormatError, match=r"not a \.npy"):
        read_array(tmp_path / "keys.csv")
    with zipfile.ZipFile(tmp_path / "x.npz", "w") as archive:
        archive.writestr("note.txt", "hello")
    with pytest.raises(FileFormatError, match="is no readable"):
        read_array(tmp_path / "x.npz")
    with zipfile.ZipFile(tmp_path / "y.npz", "w"):
        pass
    with pytest.raises(FileFormatError, match="holds no arrays"):
        read_array(tmp_path / "y.npz")
    saved(tmp_path, ROWS)
    with pytest.raises(FileFormatError, match="leave ':x' out"):
        read_array(f"{tmp_path}/a.npy:x")


def test_matrices_must_be_full_finite_and_of_two_or_three_axes(tmp_path):
    np.testing.assert_array_equal(read_matrix(saved(tmp_path, ROWS)), ROWS)
    assert read_matrix(saved(tmp_path, np.zeros((2, 3, 4)))).shape == (2, 3, 4)
    for bad, word in [(ROWS[0], "shape"), (np.zeros((0, 4)), "empty"), (np.zeros((3, 0)), "empty")]:
        with pytest.raises(FileFormatError, match=f"`queries` from a.npy must .*{word}|`queries` .* not be {word}"):
            read_matrix(saved(tmp_path, bad), "queries")


def test_rows_with_nan_are_named(tmp_path):
    rows = ROWS.copy()
    rows[2, 1] = np.nan
    with pytest.raises(NonFiniteError, match=r"`keys` from a.npy must be finite; row 2 holds NaN or infinity\.$"):
        read_matrix(saved(tmp_path, rows))
    heads = np.stack([ROWS, rows, rows])
    with pytest.raises(NonFiniteError, match=r"head 1, row 2 .* the first of 2 such rows\.$"):
        read_matrix(saved(tmp_path, heads))


def test_targets_are_whole_numbers_in_range(tmp_path):
    assert read_targets(saved(tmp_path, np.array([2, 0])), 3).tolist() == [2, 0]
    assert read_targets(saved(tmp_path, np.array([2.0, 0.0])), 3).dtype == np.int64
    for bad in (np.array([0.5]), np.array([np.nan]), np.zeros((1, 1, 1, 1), dtype=int), np.array([True])):
        with pytest.raises(FileFormatError, match="whole numbers"):
            read_targets(saved(tmp_path, bad), 3)
    for bad in (np.array([3]), np.array([-2])):
        with pytest.raises(InputError, match=r"must lie in \[0, 3\)"):
            read_targets(saved(tmp_path, bad), 3)


def test_npy_version_3_of_plain_numbers_is_read(tmp_path):
    with (tmp_path / "a.npy").open("wb") as stream:
        np.lib.format.write_array(stream, ROWS, version=(3, 0))
    np.testing.assert_array_equal(read_array(tmp_path / "a.npy"), ROWS)


@pytest.mark.parametrize("shape", [b"(-2, 3)", b"(True, ", b"(2, 3.5)"])
def test_npy_with_a_damaged_shape_is_refused(tmp_path, shape):
    whole = saved(tmp_path, np.ones((2, 3))).read_bytes()
    (tmp_path / "a.npy").write_bytes(whole.replace(b"(2, 3), }" + b" " * (len(shape) - 6), shape + b", }"))
    with pytest.raises(FileFormatError, match="is no readable"):
        read_array(tmp_path / "a.npy")
