"""Finding stores: the register's keys, settings, and a user's own by MODULE:CLASS, each failure in one sentence."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import assocmem
from assocmem import Memory, stores
from assocmem.checks.contract import check
from assocmem.contract import register as register_module
from assocmem.contract.errors import InputError, UnknownNameError
from assocmem.contract.register import register
from assocmem.contract.store import Store
from assocmem.contract.traits import Traits
from assocmem.experiments.shown import Shown
from assocmem.lab.requirements import requirements
from assocmem.page.sections.stores import cards
from assocmem.stores import entry, key_of, make_store
from assocmem.stores.function import FunctionStore
from assocmem.stores.outer import OuterProduct

ARTICLE = (
    "outer-product", "optimal-linear", "relu", "squared-relu", "cubed-relu", "relu-power", "swiglu", "gelu",
    "superposed-mlp", "exp-series", "softmax",
)  # fmt: skip

MINE = """
from dataclasses import dataclass
from assocmem import Store, Traits
import numpy as np

@dataclass(frozen=True)
class Mine(Store):
    scale: float = 1.0
    traits = Traits(linear_in_values="shared", permutation_invariant=True, overwrite="adds", constant_size=True)

    def init(self, state):
        return {"W": state.zeros(state.d_v, state.d_k)}

    def put(self, state, keys, values):
        return {"W": state["W"] + self.scale * values.mT @ keys}

    def get(self, state, queries, ask):
        return queries @ state["W"].mT


@dataclass(frozen=True)
class Needy(Mine):
    rate: float = None

    def __init__(self, rate):
        object.__setattr__(self, "rate", rate)


class Unfinished(Store):
    pass


class LooksLikeOne:
    def empty(self, d_k, d_v): ...
    def write(self, state, keys, values): ...
    def recall(self, state, queries): ...


class NotOne:
    pass


def nearest(keys, values, queries):
    return values[np.argmax(queries @ keys.T, axis=-1)]


def sharper(keys, values, queries, beta=1.0):
    w = np.exp(beta * queries @ keys.T)
    return w @ values / w.sum(axis=-1, keepdims=True)


class Callable:
    def __call__(self, keys, values, queries):
        return (queries @ keys.T) @ values


called = Callable()
ready = Mine(2.0)
number = 3


def factory(scale=2.0):
    return Mine(scale)


def wrong_factory():
    return 3


def broken(keys, values, queries):
    return keys[99999]


def misshapen(keys, values, queries):
    return values
"""


NEW = """
from __future__ import annotations
from dataclasses import dataclass
from typing import Annotated
from assocmem.contract.cost import D_K, D_V, Cost
from assocmem.contract.form import KernelSum
from assocmem.contract.register import register
from assocmem.contract.settings import POSITIVE, Help
from assocmem.contract.store import Store
from assocmem.contract.traits import Capabilities, Source, Traits
from assocmem.maps.activations import Linear

@dataclass(frozen=True)
class Scaled(Store):
    scale: Annotated[float, POSITIVE, Help("factor of every recall")] = 1.0
    equation = "f(x) = scale V^T K x"
    summary = "Adds every pair, and answers louder."
    source = Source("A title", "Somebody, Ann", 2030)
    cost = Cost(D_K * D_V, D_K * D_V)
    capabilities = Capabilities(merges="adds", forgets=True)
    traits = Traits(linear_in_values="shared", permutation_invariant=True, overwrite="adds", constant_size=True)

    def form(self, d_k):
        return KernelSum(Linear()) if self.scale == 1 else None

    def init(self, state):
        return {"W": state.zeros(state.d_v, state.d_k)}

    def put(self, state, keys, values):
        return {"W": state["W"] + values.mT @ keys}

    def get(self, state, queries, ask):
        return self.scale * (queries @ state["W"].mT)

register("brand-new", Scaled, colour="#123456")
"""


def generated_store_table() -> str:
    """Return the README's table of stores as docs/generate.py writes it."""
    path = Path(__file__).parent.parent / "docs" / "generate.py"
    spec = importlib.util.spec_from_file_location("docs_generate_stores", path)
    assert spec is not None and spec.loader is not None  # noqa: PT018
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return str(module.store_table())


@pytest.fixture
def mine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A module `mine_<n>` in the current directory, which is not on the Python path."""
    name = f"mine_{abs(hash(str(tmp_path))) % 10**8}"
    (tmp_path / f"{name}.py").write_text(MINE)
    monkeypatch.chdir(tmp_path)
    path = list(sys.path)
    yield name
    sys.path[:] = path
    sys.modules.pop(name, None)


class TestRegister:
    def test_the_articles_stores_come_first(self) -> None:
        assert set(ARTICLE) <= set(stores.names())
        places = [entry(key).article for key in stores.names()]
        first = [place for place in places if place]
        assert first == list(range(1, len(first) + 1))
        assert not any(places[len(first) :])
        assert list(stores.names()[len(first) :]) == sorted(stores.names()[len(first) :])

    def test_listing_works_again_after_the_package_was_imported(self) -> None:
        for _ in range(2):
            assert assocmem.stores.names() == stores.names()

    @pytest.mark.parametrize("key", stores.names())
    def test_an_entry_is_complete(self, key: str) -> None:
        found = entry(key)
        store = found.make()
        assert key == key.lower()
        assert " " not in key
        assert "_" not in key
        assert found.summary.endswith(".")
        assert len(found.summary.split()) >= 3
        assert found.family
        assert store.equation
        assert store.summary
        assert store.cost
        assert store.source is not None, "where does the rule come from?"
        assert store.source.bibtex().startswith("@")
        assert type(store).__doc__

    @pytest.mark.parametrize("key", stores.names())
    def test_key_of_inverts(self, key: str) -> None:
        store = make_store(key)
        assert make_store(key_of(store)) == store

    @pytest.mark.parametrize("key", stores.names())
    def test_a_setting_it_does_not_take_is_refused(self, key: str) -> None:
        with pytest.raises(InputError, match=f"{key}.*no setting 'flavour'; it takes"):
            make_store(key, flavour=1)

    def test_unknown_names_offer_the_nearest(self) -> None:
        with pytest.raises(UnknownNameError, match="Did you mean softmax"):
            make_store("softmaxx")
        with pytest.raises(UnknownNameError, match="assocmem list"):
            make_store("zzzzzz")

    def test_the_room_gives_the_classes_that_its_families_register_and_no_others(self) -> None:
        assert stores.OuterProduct is OuterProduct
        assert {entry(key).kind.__name__ for key in stores.names()} | {"GatedMLP"} <= set(dir(stores))
        for unknown in ("OuterProdukt", "Source", "outer_product"):
            with pytest.raises(AttributeError, match=f"'assocmem.stores' has no attribute '{unknown}'"):
                getattr(stores, unknown)

    def test_a_key_is_registered_once(self) -> None:
        with pytest.raises(InputError, match="twice"):
            register("outer-product", OuterProduct)

    def test_a_new_file_shows_up_everywhere(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, ask: Callable[..., Any]
    ) -> None:
        """In list, card, options, contract, requirements, colours, README table and page, with its theory."""
        (tmp_path / "brand_new.py").write_text(NEW)
        monkeypatch.setattr(stores, "__path__", [*stores.__path__, str(tmp_path)])
        monkeypatch.setattr(stores, "entries", dict(stores.entries))
        monkeypatch.setattr(register_module, "entries", stores.entries)
        monkeypatch.setattr(stores, "_discovered", False)
        assert "brand-new" in stores.names()
        assert stores.Scaled.__name__ == "Scaled"
        assert key_of(make_store("brand-new")) == "brand-new"
        assert "brand-new" in ask("list").out
        card = ask("show", "brand-new").out
        assert "setting scale" in card
        assert "exact theory" in card
        found = ask("capacity", "brand-new", "--scale", "1", "--d-k", "16", "--json").json
        assert found["settings_used"] == {"scale": 1}
        assert found["theory"] == pytest.approx(17)
        assert check(make_store("brand-new")).ok
        rows = {row["store"]: row for row in requirements(16, 16, 10, 1.0)}
        assert rows["brand-new"]["feasible"]
        assert (Shown("brand-new").label, Shown("brand-new").colour) == (entry("brand-new").label, "#123456")
        assert "| `brand-new` | Adds every pair, and answers louder. |" in generated_store_table()
        page = cards()["stores"]
        assert next(one["capacity"] for one in page if one["key"] == "brand-new") == pytest.approx(65)
        path = Memory("brand-new", scale=3.0, d_k=2, d_v=1).save(tmp_path / "a.safetensors")
        assert Memory.load(path).store == make_store("brand-new", scale=3.0)
        sys.modules.pop("assocmem.stores.brand_new")

    def test_names_of_unregistered_stores(self) -> None:
        @dataclass(frozen=True)
        class Own(type(make_store("outer-product"))):  # type: ignore[misc]
            """A class of its own."""

        assert key_of(Own()) == "Own"


class TestAddress:
    def test_a_class_in_the_current_directory(self, mine: str) -> None:
        store = make_store(f"{mine}:Mine", scale=3.0)
        assert isinstance(store, Store)
        state = store.write(store.empty(2, 1), np.eye(2), np.array([[1.0], [2.0]]))
        assert store.recall(state, np.eye(2)).tolist() == [[3.0], [6.0]]

    def test_the_current_directory_ends_up_last_on_the_path(self, mine: str) -> None:
        make_store(f"{mine}:Mine")
        assert sys.path[-1] == str(Path.cwd())
        assert sys.path[0] != str(Path.cwd())

    def test_an_instance_and_a_factory(self, mine: str) -> None:
        assert make_store(f"{mine}:ready").settings() == {"scale": 2.0}
        assert make_store(f"{mine}:factory", scale=5.0).settings() == {"scale": 5.0}

    @pytest.mark.parametrize("name", ["nearest", "sharper", "called"])
    def test_a_function_of_keys_values_queries(self, mine: str, name: str) -> None:
        store = make_store(f"{mine}:{name}")
        assert isinstance(store, FunctionStore)
        assert store.traits.linear_in_values == "shared"
        state = store.write(store.empty(2, 1), np.eye(2), np.array([[1.0], [2.0]]))
        assert store.recall(state, 9 * np.eye(2)).shape == (2, 1)

    def test_settings_of_a_function(self, mine: str) -> None:
        sharp = make_store(f"{mine}:sharper", beta=50.0)
        state = sharp.write(sharp.empty(2, 1), np.eye(2), np.array([[1.0], [2.0]]))
        np.testing.assert_allclose(sharp.recall(state, np.eye(2)), [[1.0], [2.0]], atol=1e-12)
        assert sharp.name == "sharper"

    @pytest.mark.parametrize(
        ("address", "settings", "says"),
        [
            ("{}:Nine", {}, r"has no 'Nine'. Did you mean Mine"),
            ("{}:", {}, "MODULE:CLASS"),
            (":Mine", {}, "MODULE:CLASS"),
            ("{}.py:Mine", {}, "the module's name, not a file's"),
            ("./{}:Mine", {}, "the module's name, not a file's"),
            ("no_such_module_here:Mine", {}, "there is no module 'no_such_module_here'"),
            ("{}:LooksLikeOne", {}, r"derive it from assocmem\.Store"),
            ("{}:NotOne", {}, r"is no store; derive it"),
            ("{}:Unfinished", {}, "must implement get, traits"),
            ("{}:Needy", {}, "missing a required argument: 'rate'"),
            ("{}:Mine", {"flavour": 1}, "no setting 'flavour'; it takes scale"),
            ("{}:ready", {"scale": 1}, "takes no settings"),
            ("{}:number", {}, "got int"),
            ("{}:wrong_factory", {}, "must take .keys, values, queries., or return a store"),
            ("{}:nearest", {"beta": 1}, "takes .keys, values, queries. .got an unexpected keyword argument 'beta'"),
            ("{}:broken", {}, "the function broken failed on keys"),
            ("{}:misshapen", {}, r"must return an array of shape \(m, d_v\)"),
        ],
    )
    def test_every_failure_is_a_sentence(self, mine: str, address: str, settings: dict, says: str) -> None:
        with pytest.raises((InputError, UnknownNameError), match=says) as error:
            make_store(address.format(mine), **settings)
        assert str(error.value).endswith((".", "?")) or "broken" in address
        assert "\n" not in str(error.value)

    def test_a_module_that_cannot_be_imported(self, mine: str) -> None:
        Path(f"{mine}_a.py").write_text("import a_package_nobody_has\n")
        Path(f"{mine}_b.py").write_text("1 / 0\n")
        Path(f"{mine}_c.py").write_text("def f(:\n")
        with pytest.raises(InputError, match="imports 'a_package_nobody_has', which is not installed"):
            make_store(f"{mine}_a:X")
        with pytest.raises(InputError, match="could not be imported: ZeroDivisionError"):
            make_store(f"{mine}_b:X")
        with pytest.raises(InputError, match="could not be imported: SyntaxError"):
            make_store(f"{mine}_c:X")


class TestFunctionStore:
    def test_masks_hide_pairs_from_single_queries(self) -> None:
        def count(keys, values, queries):
            return np.full((len(queries), values.shape[1]), float(len(keys)))

        promises = Traits("no", permutation_invariant=True, overwrite="keeps", constant_size=False, keeps_pairs=True)
        store = FunctionStore(count, promises)
        state = store.write(store.empty(2, 1), np.ones((4, 2)), np.ones((4, 1)))
        mask = np.array([[True, True, False, False], [True, True, True, True], [False] * 4, [True, True, False, False]])
        assert store.recall(state, np.ones((4, 2)), mask=mask)[:, 0].tolist() == [2.0, 4.0, 0.0, 2.0]

    def test_the_function_cannot_change_the_state(self) -> None:
        def greedy(keys, values, queries):
            keys *= 0
            values *= 0
            return (queries @ keys.T) @ values

        promises = Traits("shared", permutation_invariant=True, overwrite="adds", constant_size=False, keeps_pairs=True)
        store = FunctionStore(greedy, promises)
        state = store.write(store.empty(2, 1), np.ones((3, 2)), np.ones((3, 1)))
        store.recall(state, np.ones((1, 2)))
        assert state["keys"].all()
        assert state["values"].all()

    def test_promises_it_cannot_keep_are_refused(self) -> None:
        with pytest.raises(InputError, match="keeps_pairs=True"):
            FunctionStore(lambda k, v, q: (q @ k.T) @ v, Traits("shared", True, "adds", True))
        with pytest.raises(InputError, match="`function` of FunctionStore must be a function; got 3"):
            FunctionStore(3)  # type: ignore[arg-type]

    def test_shards_of_a_function_are_refused(self) -> None:
        store = FunctionStore(lambda k, v, q: (q @ k.T) @ v)
        state = store.write(store.empty(2, 1), np.ones((3, 2)), np.ones((3, 1)))
        with pytest.raises(InputError, match="a bare function has no mass"):
            store.ask(state, np.ones((1, 2)), want="mass")
