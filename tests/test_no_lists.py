"""Stores are known by what they declare: no other room asks for their class or has their names."""

from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil
import re
from pathlib import Path

import assocmem
from assocmem import stores
from assocmem.contract.store import Store

ROOT = Path(assocmem.__file__).parent
FILES = [file for file in sorted(ROOT.rglob("*.py")) if "static" not in file.parts]
ROOM = {file: file.relative_to(ROOT).parts[0] for file in FILES}


def store_classes() -> set[str]:
    """Return the names of all classes of stores, those of their families included."""
    modules = [importlib.import_module(f"assocmem.stores.{m.name}") for m in pkgutil.iter_modules(stores.__path__)]
    found = {kind for module in modules for _, kind in inspect.getmembers(module, inspect.isclass)}
    return {base.__name__ for kind in found if issubclass(kind, Store) for base in kind.__mro__ if base is not object}


def named_classes(tree: ast.AST) -> list[str]:
    """Return what isinstance and issubclass are asked about in a module."""
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)]
    asked = [node.args[1] for node in calls if node.func.id in ("isinstance", "issubclass")]  # type: ignore[attr-defined]
    return [node.attr if isinstance(node, ast.Attribute) else node.id for one in asked for node in ast.walk(one)
            if isinstance(node, ast.Name | ast.Attribute)]  # fmt: skip


def literals(tree: ast.AST) -> list[str]:
    """Return the texts of a module but for those that stand alone: docstrings and words on constants."""
    alone = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    constants = [node for node in ast.walk(tree) if isinstance(node, ast.Constant) and id(node) not in alone]
    return [node.value for node in constants if isinstance(node.value, str)]


def made(tree: ast.AST) -> list[str]:
    """Return the texts that a module makes or looks up a store by."""
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and node.args]
    named = [node for node in calls if getattr(node.func, "attr", getattr(node.func, "id", "")) in MAKERS]
    return [node.args[0].value for node in named if isinstance(node.args[0], ast.Constant)]


MAKERS = ("make_store", "entry", "Memory", "subject")


def breaches(source: str, keys: set[str], classes: set[str], shapes: set[str]) -> list[str]:
    """Return the keys and classes of stores that a module names; shapes: keys that name an activation too."""
    tree = ast.parse(source)
    named = [text for text in literals(tree) if text in keys - shapes] + [text for text in made(tree) if text in shapes]
    return named + [c for c in named_classes(tree) if c in classes]


def test_outside_stores_and_experiments_no_store_is_known_by_key_or_by_class():
    classes = store_classes() - {"Store", "WithSettings", "ABC", "Generic", "Protocol"}
    maps = {text for file in FILES if ROOM[file] == "maps" for text in literals(ast.parse(file.read_text("utf-8")))}
    keys, shapes = set(stores.names()), maps & set(stores.names())
    assert shapes == {"relu", "swiglu", "gelu", "exp-series", "dpfp"}
    found = {}
    for file in FILES:
        known = set() if ROOM[file] == "experiments" else keys
        if ROOM[file] != "stores" and (wrong := breaches(file.read_text("utf-8"), known, classes, shapes & known)):
            found[str(file.relative_to(ROOT))] = wrong
    assert found == {}


def test_the_pages_scripts_have_no_stores_name():
    quoted = re.compile(r"""["'`]([a-z0-9-]+)["'`]""")
    for file in (ROOT / "page" / "static" / "js").glob("*.js"):
        assert set(quoted.findall(file.read_text(encoding="utf-8"))) & set(stores.names()) == set(), file.name


def test_a_key_and_a_class_are_found_where_they_stand_and_not_in_a_docstring():
    known = ({"softmax", "relu"}, {"SoftmaxAttention"}, {"relu"})
    wrong = 'def f(x):\n    """softmax"""\n    if isinstance(x, (int, SoftmaxAttention)):\n        return ["softmax"]\n'
    assert breaches(wrong, *known) == ["softmax", "SoftmaxAttention"]
    assert breaches('stores.make_store("relu")\n', *known) == ["relu"]
    assert breaches('"""softmax"""\nf("relu", isinstance(x, int))\n', *known) == []
