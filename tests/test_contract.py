"""Every store that the register finds is held to every check of the contract, in every array library."""

from __future__ import annotations

from pathlib import Path

import pytest

from assocmem import stores
from assocmem.checks import contract
from assocmem.contract.store import Store
from assocmem.stores import make_store
from assocmem.stores.function import FunctionStore

LIBRARIES = ("numpy", "torch", "array_api_strict")

VARIANTS = (
    ("softmax", {"beta": 0.0}),
    ("softmax", {"beta": float("inf")}),
    ("softmax", {"sharpness": "log-n", "reference": 4.0}),
    ("softmax", {"sharpness": "log-n", "reference": 4.0, "count": "stored"}),
    ("softmax", {"sharpness": "log-n", "reference": 2.0, "beta": 0.0}),
    ("softmax", {"sharpness": "yarn", "reference": 2.0, "beta": float("inf")}),
    ("swiglu", {"gate": "own"}),
    ("linear-attention", {"feature": "exp-series"}),
    ("linear-attention", {"feature": "dpfp", "normalise": False}),
    ("delta-net", {"chunk": 3}),
    ("gated-delta-net", {"chunk": 3}),
    ("mamba", {"chunk": 3}),
    ("mamba-2", {"chunk": 3}),
    ("mesa-net", {"solver": "direct"}),
    ("mesa-net", {"solver": "rls"}),
    ("mesa-net", {"decay": 0.9}),
    ("titans", {"depth": 2}),
    ("titans", {"momentum": 0.0}),
    ("titans", {"momentum": 0.9, "base_rate": 0.05}),
    ("titans", {"base_rate": 0.3, "momentum": 0.0, "forgetting": 0.2}),
    ("ttt-linear", {"mini_batch": 1}),
    ("ttt-linear", {"mini_batch": 5, "base_rate": 0.05, "bias": True}),
    ("delta-former", {"block": 2}),
    ("gradient-descent", {"form": "primal"}),
    ("gradient-descent", {"rate": 0.3, "momentum": 0.5, "weight_decay": 0.1}),
    ("gradient-descent", {"rate": 0.3, "momentum": 0.5, "form": "primal"}),
    ("gradient-descent", {"loss": "given"}),
    ("gradient-descent", {"loss": "given", "weight_decay": 0.5, "form": "primal"}),
    ("superposed-mlp", {"readout": "whitened"}),
    ("optimal-linear", {"ridge": 0.1}),
    ("hopfield", {"rule": "pseudo-inverse"}),
    ("hopfield", {"rule": "storkey", "readout": "signs"}),
    ("hopfield", {"readout": "signs", "updates": "synchronous"}),
    ("hopfield", {"steps": 1}),
    ("krotov-hopfield", {"power": 4, "readout": "signs"}),
    ("krotov-hopfield", {"power": 20, "rectified": True, "steps": 1}),
    ("demircigil", {"steps": 1}),
    ("modern-hopfield", {"steps": 1}),
    ("sdm", {"locations": None, "radius": 2}),
    ("sdm", {"readout": "signs"}),
    ("exp-series", {"terms": 3}),
    ("exp-series", {"terms": 3, "read": "features"}),
    ("product-key", {"sub_keys": 4, "k": 20, "heads": 2}),
    ("ultramem", {"sub_keys": 6, "k": 4, "cores": 1, "blocks": 1, "selection": "grid", "weights": "softmax"}),
    ("peer", {"sub_keys": 6, "k": 4, "heads": 2, "gate": "none"}),
    ("attention-over-parameters", {"rows": 8, "width": 3}),
)
"""Settings at the ends of their ranges and of other forms (chunks shorter than a write), beside the defaults."""

STANDARD = (
    "shapes",
    "split-law",
    "batch-law",
    "scan-after",
    "scan-reset",
    "merge",
    "forget",
    "layouts",
    "mask-is-absence",
    "weights",
)
"""Checks that walk every hook of a store: what of the array standard a setting's own code asks for shows in these."""
TORCH = ("autocast", "forward-mode", "reverse-mode", "vmap", "dtype-half", "hard-keys", "small-ridge", "rounded-keys")
"""Checks that torch answers in its own way."""

NUMBERS = (
    "every-pair",
    "channels",
    "order",
    "rewrite",
    "queries-apart",
    "deterministic",
    "inputs-kept",
    "explicit-state",
    "no-rescaling",
    "pure-reads",
    "scan-before",
    "state-size",
    "no-aliasing",
    "mask-per-query",
)
"""Laws of numbers: they ask the array standard for nothing that the other checks of a store do not ask for."""
ONLY = {
    ("torch", True): STANDARD + TORCH,
    ("array_api_strict", True): STANDARD,
    ("array_api_strict", False): tuple(c.name for c in contract.checks() if c.name not in NUMBERS),
}
"""The checks that a library is held to, at other settings than the usual ones or at those; all where it says none."""
USUAL = tuple((key, {}) for key in stores.names())

pytestmark = pytest.mark.usefixtures("nan_memory")


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize(("key", "settings"), USUAL + VARIANTS, ids=str)
def test_contract(key: str, settings: dict[str, object], library: str) -> None:
    """Where a recall takes steps until it rests, NumPy takes them all, and the other libraries two of them."""
    taken = {s.name for s in stores.entry(key).settings}
    few = {"steps": 2} if "steps" in taken and library != "numpy" else {}
    only = ONLY.get((library, bool(settings)))
    report = contract.check(make_store(key, **(few | settings)), xp=pytest.importorskip(library), only=only)
    assert report.ok, report.text()


def test_own_stores_of_the_example(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(Path(__file__).parents[1] / "examples")
    assert contract.check(make_store("my_store:Fading")).ok
    assert contract.check(make_store("my_store:nearest")).ok
    wrong = contract.check(make_store("my_store:Careless"))
    assert {"split-law", "rewrite", "order"} <= {f.check for f in wrong.failures}
    assert "write(7) then write(13)" in wrong.text()


def weighted(keys, values, queries):
    """Linear attention in any array library."""
    return (queries @ keys.T) @ values


def newest(keys, values, queries):
    """The value written last, whatever is asked."""
    return 0 * (queries @ keys.T) @ values + values[-1:]


def shifted(keys, values, queries):
    """A sum with an offset that the keys make."""
    return (queries @ keys.T) @ (values + 1)


FUNCTIONS = {
    weighted: ("shared", True, "adds", False),
    newest: ("shared", False, "replaces", False),
    shifted: ("shared", True, "adds", True),
}


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_traits_of_a_bare_function_are_measured(function) -> None:
    traits = FunctionStore(function).traits
    found = (traits.linear_in_values, traits.permutation_invariant, traits.overwrite, traits.affine)
    assert found == FUNCTIONS[function]


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_bare_function_keeps_the_contract(library: str) -> None:
    store: Store = FunctionStore(weighted)
    report = contract.check(store, xp=pytest.importorskip(library))
    assert report.ok, report.text()
