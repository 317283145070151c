"""What importing costs and needs: every module alone, nothing heavy before it is touched, no torch wanted."""

from __future__ import annotations

import ast
import importlib
import inspect
import os
import pkgutil
import subprocess
import sys
from collections.abc import Collection, Iterator, Sequence
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import assocmem

MODULES = sorted(
    name for _, name, _ in pkgutil.walk_packages(assocmem.__path__, "assocmem.") if not name.endswith("__main__")
)
HEAVY = ("scipy", "torch", "jax", "polars", "altair", "vl_convert", "typer", "rich", "safetensors", "pandas")


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


def when_imported(body: Sequence[ast.AST]) -> Iterator[ast.Import | ast.ImportFrom]:
    """Yield the imports of a module that run as it is imported: none of functions, none for type checkers alone."""
    for node in body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield node
        elif isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            yield from when_imported(node.orelse)
        elif not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield from when_imported(list(ast.iter_child_nodes(node)))


def wanted(name: str, source: str, known: Collection[str]) -> set[str]:
    """Return the modules that must have been imported before this one: named ones, and the packages they lie in."""
    found = set()
    for node in when_imported(ast.parse(source).body):
        for alias in node.names:
            full = alias.name if isinstance(node, ast.Import) else f"{node.module}.{alias.name}"
            found.add(full if full in known else full.rpartition(".")[0])
    inside = {".".join(one.split(".")[:depth]) for one in found for depth in range(1, one.count(".") + 1)}
    return (found | {one for one in inside if not f"{name}.".startswith(f"{one}.")}) & set(known) - {name}


def test_every_module_is_importable_alone() -> None:
    """No circle among imports: where all import one after the other, as they do below, each does so first as well."""
    root = Path(assocmem.__file__).parents[1]
    bases = {name: root.joinpath(*name.split(".")) for name in MODULES}
    files = {name: base / "__init__.py" if base.is_dir() else base.with_suffix(".py") for name, base in bases.items()}
    assert len(MODULES) > 15
    asked = {name: wanted(name, file.read_text(encoding="utf-8"), files) for name, file in files.items()}
    assert len(list(TopologicalSorter(asked).static_order())) == len(MODULES)
    asked["assocmem.maps.activations"] |= wanted("assocmem.maps.activations", "import assocmem.stores.softmax", files)
    with pytest.raises(CycleError, match=r"assocmem\.maps\.activations"):
        TopologicalSorter(asked).prepare()


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


def test_a_broken_torch_on_the_path_is_not_touched(tmp_path: Path) -> None:
    for name in ("torch", "jax"):
        (tmp_path / f"{name}.py").write_text("raise RuntimeError('libcuda is missing')")
    code = f"""
import numpy as np, assocmem
memory = assocmem.Memory("softmax", beta=8.0)
memory.write(np.eye(3), np.eye(3))
memory.recall(np.eye(3), return_weights=True)
memory.save({str(tmp_path / "a.safetensors")!r})
assert len(assocmem.Memory.load({str(tmp_path / "a.safetensors")!r})) == 3
from assocmem.checks import contract
print(contract.check(assocmem.make_store("outer-product")).ok)
"""
    assert python(code, path=tmp_path).split() == ["True"]


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
