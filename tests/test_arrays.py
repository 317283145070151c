"""Arrays of every library and kind: the dtype rule, foreign arrays, gradients."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from assocmem import Memory, stores
from assocmem.checks.harness import Drawn, Harness
from assocmem.contract import arrays as ar
from assocmem.contract.errors import DTypeError, InputError, NonFiniteError, RecallOverflowError, RoundingWarning
from assocmem.contract.store import Store
from assocmem.stores import make_store
from assocmem.stores.function import FunctionStore
from assocmem.stores.mlp import MLP

D_K, D_V = 4, 3
MASKING = [key for key in stores.names() if make_store(key).capabilities.masks]
FLOATING = [key for key in stores.names() if make_store(key).traits.keys not in ("signs", "ids")]


def lot_for(store: Store, n: int, **sizes: Any) -> Drawn:
    """Draw pairs that the store accepts."""
    import array_api_compat.numpy as xp

    harness = Harness(store, xp, "arrays")
    return harness.draw(n, d_k=D_K, d_v=D_V, **sizes)


class TestAsArray:
    def test_plain_arrays_pass_untouched(self) -> None:
        for dtype in (np.float16, np.float32, np.float64):
            x = np.ones((2, 3), dtype=dtype)
            assert ar.as_array(x, "x") is x

    @pytest.mark.parametrize("dtype", [">f4", ">f8", ">f2"])
    def test_foreign_byte_order_is_turned_around(self, dtype: str) -> None:
        x = np.arange(3).astype(dtype)
        y = ar.as_array(x, "x")
        assert y.dtype.isnative
        assert y.tolist() == [0, 1, 2]

    @pytest.mark.parametrize(
        "x",
        [
            np.array([object()]), np.array(["a"]), np.array([1j]), np.zeros(2, dtype=[("a", "f8")]), None, "text",
            {"a": 1}, np.array(["2020-01-01"], dtype="datetime64[D]"), object(),
        ],
        ids=["object", "text", "complex", "structured", "None", "str", "dict", "date", "instance"],
    )  # fmt: skip
    def test_what_is_no_number_is_refused_by_name(self, x: Any) -> None:
        with pytest.raises(DTypeError, match="`keys` must hold real numbers"):
            ar.as_array(x, "keys")

    def test_ragged_rows_are_refused(self) -> None:
        with pytest.raises(InputError, match="rows differ in length"):
            ar.as_array([[1.0], [1.0, 2.0]], "keys")

    def test_masked_arrays_are_refused(self) -> None:
        hidden = np.ma.MaskedArray([1.0, 2.0], mask=[False, True])
        with pytest.raises(DTypeError, match="masked array"):
            ar.as_array(hidden, "keys")

    def test_more_than_double_precision_is_refused(self) -> None:
        if np.dtype(np.longdouble).itemsize == 8:
            pytest.skip("long double is double here")
        with pytest.raises(DTypeError, match="float64 or less"):
            ar.as_array(np.zeros(2, dtype=np.longdouble), "keys")

    def test_matrices_become_arrays(self) -> None:
        matrix = np.zeros((2, 2)).view(np.matrix)
        assert type(ar.as_array(matrix, "keys")) is np.ndarray

    def test_lists_follow_the_library_of_another_array(self) -> None:
        torch = pytest.importorskip("torch")
        out = ar.as_array([[1.0, 2.0]], "keys", like=torch.zeros(1))
        assert isinstance(out, torch.Tensor)


class TestFinite:
    @pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
    @pytest.mark.parametrize("size", [3, 3000])
    def test_the_first_bad_row_is_named(self, bad: float, size: int) -> None:
        x = np.zeros((size, 4))
        x[2, 1] = bad
        with pytest.raises(NonFiniteError, match="row 2 holds"):
            ar.require_finite(x, "keys", ar.namespace(x))

    def test_rows_of_batches_are_named_by_index(self) -> None:
        x = np.zeros((2, 3, 4))
        x[1, 2, 0] = np.nan
        with pytest.raises(NonFiniteError, match=r"row \(1, 2\)"):
            ar.require_finite(x, "keys", ar.namespace(x))

    def test_large_numbers_are_finite(self) -> None:
        x = np.full((3, 4), 1e300)
        ar.require_finite(x, "keys", ar.namespace(x))

    def test_whole_numbers_and_bools_are_finite_in_every_library(self) -> None:
        for library in ("numpy", "torch", "array_api_strict"):
            module = pytest.importorskip(library)
            for dtype in (module.int8, module.bool):
                x = module.asarray(np.ones((2, 2), dtype=bool))
                x = ar.namespace(x).astype(x, dtype)
                assert ar.all_finite(x, ar.namespace(x))


@pytest.mark.filterwarnings("ignore:.*nested tensors is in prototype:UserWarning")
def test_tensors_that_hold_no_plain_numbers_are_refused_by_name() -> None:
    torch = pytest.importorskip("torch")
    store, fine = make_store("softmax"), torch.ones(2, 4)
    state = store.write(store.empty(4, 4), fine, fine)
    rows = [torch.ones(1, 4), torch.ones(3, 4)]
    for bad in (
        fine.to(torch.float8_e4m3fn),
        fine.to(torch.float8_e5m2),
        torch.nested.nested_tensor(rows),
        torch.nested.nested_tensor(rows, layout=torch.jagged),
        fine.to_sparse(),
        fine.to("meta"),
    ):
        with pytest.raises(DTypeError, match="`keys` must be"):
            store.write(store.empty(4, 4), bad, fine)
        with pytest.raises(DTypeError, match="`values` must be"):
            store.write(store.empty(4, 4), fine, bad)
        with pytest.raises(DTypeError, match="`queries` must be"):
            store.recall(state, bad)
        with pytest.raises(DTypeError, match="`like` must be"):
            store.empty(4, 4, like=bad)


@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")  # torch warns of itself where func.jvp loads
def test_vmap_is_refused_with_batch_axes_and_jacobians_agree_in_both_modes() -> None:
    torch = pytest.importorskip("torch")
    func = torch.func
    rng = np.random.default_rng(0)
    keys, values = (torch.tensor(0.5 * rng.normal(size=(5, 3))) for _ in range(2))
    for key in ("delta-net", "optimal-linear", "softmax", "mesa-net"):
        store = make_store(key)

        def recall(k: Any, store: Store = store) -> Any:
            return store.recall(store.write(store.empty(3, 3), k, values), values[:2])

        with pytest.raises(InputError, match="use batch axes"):
            func.vmap(recall)(torch.stack([keys, keys]))
        torch.testing.assert_close(func.jacfwd(recall)(keys), func.jacrev(recall)(keys), rtol=1e-9, atol=1e-12)

        def total(k: Any, recall: Callable[[Any], Any] = recall) -> Any:
            return recall(k).sum()

        one, other = func.jacfwd(func.jacrev(total))(keys), func.jacrev(func.jacfwd(total))(keys)
        torch.testing.assert_close(one, other, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("key", ["softmax", "delta-net"])
def test_a_memory_in_torch_copies_numpy_arrays_whatever_their_strides(key: str) -> None:
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(1)
    wide = rng.uniform(-0.5, 0.5, size=(12, 10)).astype(np.float32)
    plain = wide[:4, :5]
    for x in (plain, wide[::-3, ::-2], wide.T[:5, :4].T, np.broadcast_to(wide[0, :5], (4, 5)), plain.astype(">f4")):
        own_library, memory = Memory(key, d_k=5, d_v=5), Memory(key, d_k=5, d_v=5, like=torch.zeros(1))
        own = {"strength": np.linspace(0.2, 0.8, 4, dtype=np.float32)[::-1]} if key == "delta-net" else {}
        asked = {"mask": np.array([[True, False, True, True]])[:, ::-1]} if key == "softmax" else {}
        own_library.write(x, x[::-1], **own)
        memory.write(x, x[::-1], **own)
        got = memory.recall(x[:, ::-1], **asked)
        assert isinstance(got, torch.Tensor)
        np.testing.assert_allclose(got.numpy(), own_library.recall(x[:, ::-1], **asked), rtol=1e-5, atol=1e-6)


def test_names_of_dtypes() -> None:
    import array_api_compat.numpy as xp

    names = ("float16", "float32", "float64", "int8", "bool")
    assert tuple(ar.dtype_name(np.dtype(n)) for n in names) == names
    assert ar.dtype_name(np.float32) == "float32"
    assert ar.dtype_name(xp.float64) == "float64"
    torch = pytest.importorskip("torch")
    assert ar.dtype_name(torch.bfloat16) == "bfloat16"


@pytest.mark.parametrize("key", stores.names())
class TestTwoLibraries:
    """A call is of one array library; lists and numbers follow the state's."""

    def test_mixtures_are_refused(self, key: str) -> None:
        torch = pytest.importorskip("torch")
        store = make_store(key)
        drawn = lot_for(store, 5)
        state = store.write(store.empty(D_K, D_V), drawn.keys, drawn.values, **drawn.extras)
        before = store.recall(state, drawn.keys)
        as_torch = torch.asarray(drawn.values.copy())
        for call in (
            lambda: store.write(store.empty(D_K, D_V), drawn.keys, as_torch, **drawn.extras),
            lambda: store.write(state, torch.asarray(drawn.keys.copy()), as_torch, **drawn.extras),
            lambda: store.recall(state, torch.asarray(drawn.keys.copy())),
            lambda: store.scan(
                store.empty(D_K, D_V), drawn.keys, drawn.values, torch.asarray(drawn.keys.copy()), **drawn.extras
            ),
        ):
            with pytest.raises(DTypeError, match=r"must (be|come)"):
                call()
        np.testing.assert_array_equal(store.recall(state, drawn.keys), before)

    def test_lists_are_taken_over_by_a_torch_state(self, key: str) -> None:
        torch = pytest.importorskip("torch")
        store = make_store(key)
        drawn = lot_for(store, 5)
        want = store.recall(store.write(store.empty(D_K, D_V), drawn.keys, drawn.values, **drawn.extras), drawn.keys)
        like = torch.zeros(1, dtype=torch.float64)
        extras = {name: x.tolist() for name, x in drawn.extras.items()}
        state = store.write(store.empty(D_K, D_V, like=like), drawn.keys.tolist(), drawn.values.tolist(), **extras)
        out = store.recall(state, drawn.keys.tolist())
        assert isinstance(out, torch.Tensor)
        np.testing.assert_allclose(out.numpy(), want, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("key", MASKING)
def test_a_mask_is_of_the_queries_library_or_a_list(key: str) -> None:
    torch = pytest.importorskip("torch")
    store = make_store(key)
    drawn = lot_for(store, 5)
    mask = np.array([[True, False, True, True, False]])
    extras = {name: torch.asarray(x) for name, x in drawn.extras.items()}
    state = store.write(store.empty(D_K, D_V), torch.asarray(drawn.keys), torch.asarray(drawn.values), **extras)
    want = store.recall(state, torch.asarray(drawn.keys), mask=torch.asarray(mask))
    with pytest.raises(DTypeError, match="mask"):
        store.recall(state, torch.asarray(drawn.keys), mask=mask)
    assert torch.equal(store.recall(state, torch.asarray(drawn.keys), mask=mask.tolist()), want)


@pytest.mark.parametrize("key", stores.names())
def test_what_torchs_inference_mode_wrote_can_be_written_on_outside(key: str) -> None:
    torch = pytest.importorskip("torch")
    store = make_store(key)
    first, more, last = (lot_for(store, n) for n in (3, 2, 2))

    def written(*modes: bool) -> Any:
        state = store.empty(D_K, D_V)
        for inside, drawn in zip(modes, (first, more, last), strict=True):
            with torch.inference_mode(inside):
                extras = {name: torch.tensor(x) for name, x in drawn.extras.items()}
                state = store.write(state, torch.tensor(drawn.keys), torch.tensor(drawn.values), **extras)
        return store.recall(state, torch.tensor(first.keys)).numpy()

    want = written(False, False, False)
    for modes in ((True, False, False), (True, True, False), (False, True, False), (True, False, True)):
        np.testing.assert_allclose(written(*modes), want, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("key", FLOATING)
def test_a_later_write_spoils_no_gradient(key: str) -> None:
    torch = pytest.importorskip("torch")
    store = make_store(key)
    drawn, more = lot_for(store, 3), lot_for(store, 2)
    queries = torch.tensor(drawn.keys[:2])

    def gradient(later: bool) -> Any:
        values = torch.tensor(drawn.values, requires_grad=True)
        extras = {name: torch.tensor(x) for name, x in drawn.extras.items()}
        state = store.write(store.empty(D_K, D_V), torch.tensor(drawn.keys), values, **extras)
        out = store.recall(state, queries)
        if later:
            extras = {name: torch.tensor(x) for name, x in more.extras.items()}
            store.write(state, torch.tensor(more.keys), torch.tensor(more.values), **extras)
        out.sum().backward()
        return values.grad

    want = gradient(later=False)
    assert bool((want != 0).any())
    assert torch.equal(gradient(later=True), want)


@pytest.mark.parametrize("key", FLOATING)
def test_long_sums_of_half_precision_are_finite_or_refused(key: str) -> None:
    """Thousands of equal float16 pairs: sums are kept in float32, and what float16 cannot hold is refused."""
    store = make_store(key)
    drawn = lot_for(store, 1)
    n = 3000 if not store.traits.extras else 300
    keys = np.repeat(drawn.keys, n, axis=0).astype(np.float16)
    keys /= np.linalg.norm(keys.astype(np.float64), axis=-1, keepdims=True)
    values = np.full((n, D_V), 100.0, dtype=np.float16)
    extras = {e.name: drawn.extras[e.name].repeat(n, axis=0) if e.per_pair else drawn.extras[e.name]
              for e in store.traits.extras if e.name in drawn.extras}  # fmt: skip
    state = store.write(store.empty(D_K, D_V), keys.astype(np.float16), values, **extras)
    try:
        out = store.recall(state, keys[:1].astype(np.float16))
    except OverflowError:
        out = store.recall(state, keys[:1].astype(np.float32))
    assert np.isfinite(out).all()


@pytest.mark.parametrize("key", ["outer-product", "linear-attention", "superposed-mlp"])
def test_a_bfloat16_state_says_when_its_rounding_takes_what_pairs_add(key: str) -> None:
    torch = pytest.importorskip("torch")
    store, row = make_store(key), torch.full((1, 4), 0.5)
    state = store.empty(4, 4, state_dtype="bfloat16")
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        for count in range(300):
            state = store.write(state, row, 2 * row)
            assert not heard or count > 100
    assert "the rounding of a bfloat16 state" in str(heard[-1].message)
    assert len({str(w.message) for w in heard}) == 1
    with pytest.warns(RoundingWarning):
        after = store.write(state, row, 2 * row)
    wide = store.empty(4, 4, like=row)
    exact = store.write(wide, row, 2 * row).arrays
    length = lambda sizes: sum(float((x**2).sum()) for x in sizes) ** 0.5  # noqa: E731
    lost = length(exact[n] - (after[n].float() - state[n].float()) for n in exact)
    assert lost > length(exact.values()) / 2
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        wide = store.empty(4, 4, like=row)
        for _ in range(300):
            wide = store.write(wide, row, 2 * row)


@pytest.mark.parametrize("key", ["outer-product", "delta-net"])
def test_a_long_bfloat16_stream_whose_interference_is_larger_is_not_warned_of(key: str) -> None:
    torch = pytest.importorskip("torch")
    generator, store = torch.Generator().manual_seed(0), make_store(key)
    keys, values = (torch.randn(600, 8, generator=generator) for _ in range(2))
    keys = keys / keys.norm(dim=-1, keepdim=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        narrow = store.write(store.empty(8, 8, state_dtype="bfloat16"), keys, values)
    exact = store.recall(store.write(store.empty(8, 8), keys, values), keys)
    rounding = (store.recall(narrow, keys) - exact).norm()
    assert 1e-3 < rounding / (exact - values).norm() < 0.1


def test_what_a_users_function_returns_is_told() -> None:
    def broken(keys: Any, values: Any, queries: Any) -> Any:
        weights = np.maximum(queries @ keys.T, 0)
        with np.errstate(all="ignore"):
            return weights @ values / weights.sum(axis=-1, keepdims=True)

    store = FunctionStore(broken, promises=make_store("softmax").traits)
    state = store.write(store.empty(2, 1), np.eye(2)[:1], np.ones((1, 1)))
    with pytest.raises(RecallOverflowError, match="the function broken returned NaN for query 1"):
        store.recall(state, np.array([[1.0, 0.0], [-1.0, 0.0]]))
    logs = MLP(np.log)
    state = logs.write(logs.empty(2, 1), np.eye(2), np.ones((2, 1)))
    with np.errstate(all="ignore"), pytest.raises(InputError, match=r"'log' returned NaN for a similarity of -0\.5"):
        logs.recall(state, np.array([[1.0, -0.5]]))
