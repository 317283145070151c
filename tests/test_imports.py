"""What importing costs and needs: every module alone, nothing heavy before it is touched, no torch wanted."""

from __future__ import annotations

import importlib
import inspect
import json
import os
import pkgutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

import assocmem

MODULES = sorted(
    name for _, name, _ in pkgutil.walk_packages(assocmem.__path__, "assocmem.") if not name.endswith("__main__")
)
HEAVY = ("scipy", "torch", "jax", "polars", "altair", "vl_convert", "typer", "rich", "safetensors", "pandas")

# What others import stays loaded, what is ours does not: each module meets an empty package.
IMPORT_EACH = """
import importlib, json, sys
failures = {}
for name in json.loads(sys.argv[1]):
    for ours in [m for m in sys.modules if m.partition(".")[0] == "assocmem"]:
        del sys.modules[ours]
    try:
        importlib.import_module(name)
    except BaseException as error:
        failures[name] = f"{type(error).__name__}: {error}"
print(json.dumps(failures))
"""


def python(code: str, *arguments: str, path: Path | None = None, flags: Sequence[str] = ()) -> str:
    """Run code in a fresh interpreter and return what it prints; warnings are errors there too."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    if path is not None:
        environment["PYTHONPATH"] = str(path)
    done = subprocess.run(
        [sys.executable, "-W", "error", *flags, "-c", code, *arguments],
        capture_output=True, text=True, env=environment, timeout=400, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


def test_every_module_is_importable_alone() -> None:
    assert len(MODULES) > 15
    failures = json.loads(python(IMPORT_EACH, json.dumps(MODULES)))
    assert not failures


def test_import_assocmem_is_light() -> None:
    code = "import sys, assocmem; print('\\n'.join(sys.modules))"
    loaded = set(python(code).split())
    heavy = [name for name in (*HEAVY, "numpy") if name in loaded]
    assert not heavy, f"import assocmem loads {heavy}"
    assert len([name for name in loaded if name.startswith("assocmem")]) <= 3


def test_using_a_store_is_light() -> None:
    code = """
import sys, numpy as np, assocmem
for key in assocmem.stores.names():
    store = assocmem.make_store(key)
for key in ("outer-product", "softmax", "squared-relu", "optimal-linear"):
    store = assocmem.make_store(key)
    state = store.write(store.empty(4, 4), np.eye(4), np.eye(4))
    store.recall(state, np.eye(4))
print("\\n".join(sys.modules))
"""
    loaded = set(python(code).split())
    heavy = [name for name in HEAVY if name in loaded]
    assert not heavy, f"writing and recalling loads {heavy}"


@pytest.mark.parametrize("error", ["ImportError('broken torch')", "RuntimeError('libcuda is missing')"])
def test_a_broken_torch_on_the_path_is_not_touched(tmp_path: Path, error: str) -> None:
    for name in ("torch", "jax"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text(f"raise {error}\n")
    code = """
import numpy as np, assocmem
for key in ("outer-product", "softmax"):
    store = assocmem.make_store(key)
    state = store.write(store.empty(3, 3), np.eye(3), np.eye(3))
    print(store.recall(state, np.eye(3)).shape)
from assocmem.checks import contract
print(contract.check(assocmem.make_store("outer-product")).ok)
"""
    assert python(code, path=tmp_path).split("\n")[-2] == "True"


def test_public_names_are_few_reachable_and_listed() -> None:
    names = [name for name in assocmem.__all__ if not inspect.ismodule(getattr(assocmem, name))]
    assert 15 <= len(names) <= 25
    assert set(assocmem.__all__) <= set(dir(assocmem)) | {"__version__"}
    with pytest.raises(AttributeError, match="attribute nothing"):
        assocmem.nothing  # noqa: B018


def test_no_module_prints_or_draws_random_numbers_on_import() -> None:
    code = f"""
import importlib, json, sys, numpy as np
before = np.random.get_state()[1].tolist()
for name in {MODULES!r}:
    importlib.import_module(name)
assert np.random.get_state()[1].tolist() == before
"""
    assert python(code) == ""


@pytest.mark.parametrize(
    ("room", "home", "base"),
    [
        ("activations", "maps.activations", "Activation"),
        ("sharpness", "maps.activations", "Sharpness"),
        ("errors", "contract.errors", "Exception"),
    ],
)
def test_a_public_room_has_every_class_of_its_home(room: str, home: str, base: str) -> None:
    there = vars(importlib.import_module(f"assocmem.{home}"))
    kind = there.get(base, Exception)
    classes = {n for n, x in there.items() if inspect.isclass(x) and issubclass(x, kind) and n[0] != "_"}
    assert set(importlib.import_module(f"assocmem.{room}").__all__) == classes


def test_everything_works_without_docstrings_and_asserts() -> None:
    code = """
import numpy as np, assocmem
for name in assocmem.__all__:
    getattr(assocmem, name)
for key in ("softmax", "delta-net", "optimal-linear"):
    memory = assocmem.Memory(key)
    memory.write(np.eye(3), np.eye(3))
    memory.recall(np.eye(3))
print(assocmem.check(assocmem.make_store("outer-product")).ok)
from assocmem.cli import run
print(run(["list"]), run(["show", "softmax"]), run(["design", "--memories", "200"]), run(["--help"]))
"""
    assert python(code, flags=["-OO"]).split()[-4:] == ["0"] * 4
