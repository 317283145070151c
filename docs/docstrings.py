"""The docstrings of public names in one form that tools parse: numpydoc's, by its validator and a few rules more."""

from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil
import textwrap
import warnings
from collections.abc import Iterator
from typing import Any

import assocmem
from assocmem.contract.errors import AssocmemError
from assocmem.contract.store import Store
from assocmem.memory import Memory

LEFT_OUT = {
    "GL01": "a text begins beside the opening quotes",
    "GL02": "and one of a single line ends beside the closing ones",
    "SS02": "a summary may begin with its equation, f(x) = ...",
    "SS05": "the heuristic for verbs takes a noun's plural for a third person",
    "PR06": "types are told in words with shapes and ranges: a whole number >= 1",
    "PR07": "a name with its type may say all",
    "PR08": "a description may begin with a symbol",
    "RT02": "a single value may have a name",
    "RT03": "as PR07",
    "RT04": "as PR08",
    "ES01": "nothing is told twice to fill a section",
    "SA01": "names in backquotes lead on",
    "EX01": "asked of stores, and of functions at the top but these",
}
"""The validator's errors that are none here, and why."""
NO_EXAMPLE = {"assocmem.open_model": "needs a trained network", "assocmem.register": "would add a store to every list"}
STATE_AND_COST = ("State:", "Cost:")


def ill_told() -> list[str]:
    """Return a sentence for every fault in the docstring of a public name."""
    return [f"{name}: {fault}" for name, thing, brief in public() for fault in faults(name, thing, brief)]


def public() -> Iterator[tuple[str, Any, bool]]:
    """Yield public functions, classes and what these bring beside hooks: name, object, whether it may be told briefly.

    Memory and Store are told at length in every method; elsewhere a method may be told in a sentence.
    """
    found = [(f"assocmem.{name}", getattr(assocmem, name)) for name in assocmem.__all__]
    for room in (info.name for info in pkgutil.iter_modules(assocmem.__path__) if not info.name.startswith("_")):
        module = importlib.import_module(f"assocmem.{room}")
        for name in dir(module) if room == "stores" else getattr(module, "__all__", ()):
            thing = getattr(module, name)
            if not name.startswith("_") and getattr(thing, "__module__", "").startswith("assocmem."):
                found.append((f"assocmem.{room}.{name}", thing))
    for name, thing in {id(thing): (name, thing) for name, thing in reversed(found)}.values():
        if inspect.isfunction(thing) or inspect.isclass(thing):
            yield name, thing, False
        if inspect.isclass(thing) and (thing is Store or not issubclass(thing, Store)):
            yield from ((f"{name}.{member}", what, thing not in (Memory, Store)) for member, what in brought(thing))


def brought(kind: type) -> Iterator[tuple[str, Any]]:
    """Yield name and object of the public methods and properties of a class that its bases do not have."""
    for name, member in vars(kind).items():
        what = member.__func__ if isinstance(member, classmethod | staticmethod) else member
        told = inspect.isfunction(what) or isinstance(what, property)
        if told and not name.startswith("_") and not any(hasattr(base, name) for base in kind.__bases__):
            yield name, what


def faults(name: str, thing: Any, brief: bool = False) -> list[str]:
    """Return in words what is wrong with the docstring of an object; `brief` where a sentence may do."""
    from numpydoc.docscrape import get_doc_object
    from numpydoc.validate import validate

    if not inspect.getdoc(thing):
        return ["it has no docstring"]
    if isinstance(thing, property):
        ends = inspect.getdoc(thing).partition("\n")[0].endswith(".")
        return [] if ends else ["its first line must be a sentence with a period"]
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        try:
            doc = get_doc_object(thing, config={"show_class_members": False})
        except ValueError as error:
            return [f"it cannot be parsed: {error}"]
        found = [f"{code}: {text}" for code, text in validate(doc)["errors"] if not pardoned(code, text, doc, brief)]
    found += [str(one.message) for one in said]
    store = inspect.isclass(thing) and issubclass(thing, Store) and thing is not Store
    top = inspect.isfunction(thing) and name.count(".") == 1 and name not in NO_EXAMPLE
    if (store or top) and not doc["Examples"]:
        found.append("it has no example")
    if store:
        notes = "\n".join(doc["Notes"])
        found += [f"its Notes do not say the {word.lower()[:-1]}" for word in STATE_AND_COST if word not in notes]
        if not (doc["References"] or "Source:" in notes):
            found.append("it names no source")
    if inspect.isfunction(thing) and not brief:
        named = {name.strip() for entry in doc["Raises"] for name in entry.type.split(",")}
        found += [f"it raises {kind}, which its section Raises does not name" for kind in raised(thing, named)]
    return found


def pardoned(code: str, text: str, doc: Any, brief: bool) -> bool:
    """Say whether an error of the validator is none here.

    Left out are those above; a parameter told by where it has its type; a class's fields told as attributes; and of a
    method that is told in a sentence, that it has no sections.
    """
    if code == "PR04":
        name = text.split('"')[1]
        entry = next(one for one in doc["Parameters"] if name in one.name.split(", "))
        return bool(entry.desc) and entry.desc[0].startswith(("As ", "See "))
    if code == "PR01" and getattr(doc._obj, "_is_protocol", False):
        return True  # it is not made
    if code == "PR01" and doc["Attributes"]:
        told = {name for one in doc["Parameters"] + doc["Attributes"] for name in one.name.split(", ")}
        return set(inspect.signature(doc._obj).parameters) <= told
    return code in LEFT_OUT or (brief and code in ("PR01", "RT01"))


def raised(function: Any, named: set[str]) -> Iterator[str]:
    """Yield the errors of the package that a function itself raises, but those named as they are or by a base."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    calls = {node.exc.func for node in ast.walk(tree) if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call)}
    for name in sorted({call.id for call in calls if isinstance(call, ast.Name)}):
        kind = function.__globals__.get(name)
        ours = inspect.isclass(kind) and issubclass(kind, AssocmemError)
        if ours and named.isdisjoint(base.__name__ for base in kind.__mro__):
            yield name
