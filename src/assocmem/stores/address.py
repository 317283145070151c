"""Stores of a user's own, found by their address MODULE:CLASS (or MODULE:FUNCTION)."""

from __future__ import annotations

import difflib
import importlib
import inspect
import os
import sys
from collections.abc import Callable
from functools import partial
from types import ModuleType
from typing import Any

from assocmem.contract.errors import InputError, UnknownNameError, place_of
from assocmem.contract.store import Store
from assocmem.stores.function import FunctionStore

_FORM = "a store of your own is named MODULE:CLASS, such as my_module:MyStore"


def load_store(address: str, **settings: Any) -> Store:
    """Return the store at `address`, made with the given settings.

    Parameters
    ----------
    address: "module:Name", the module being importable from the Python path or from the current directory;
        dotted modules and dotted names are allowed. `Name` may be a class that derives from Store, an instance
        of one, a function recall(keys, values, queries) (it becomes a `FunctionStore`), or a function that
        returns a store.
    settings: hyper-parameters of the class, or further arguments of the function.

    A class that only looks like a store (with `empty`, `write` and `recall` of its own) is refused: deriving
    from Store is what makes its input checked and its promises testable. Raises InputError or UnknownNameError,
    each in one sentence.

    >>> load_store("assocmem.stores.outer:OuterProduct").name
    'OuterProduct'
    """
    found = _found(address)
    if isinstance(found, Store):
        if settings:
            raise InputError(f"{address} is a finished store and takes no settings; got {', '.join(settings)}.")
        return found
    if inspect.isclass(found):
        if not issubclass(found, Store):
            looks = ", though it has the right methods" if hasattr(found, "write") and hasattr(found, "recall") else ""
            raise InputError(
                f"the class {address} is no store{looks}; derive it from assocmem.Store and implement traits, init, "
                "put and get; or name a function recall(keys, values, queries)."
            )
        store: Store = _made(address, found, settings)
        return store
    if not callable(found):
        raise InputError(
            f"{address} must be a class that derives from assocmem.Store or a function recall(keys, values, queries); "
            f"got {type(found).__name__}."
        )
    if _takes_three(found):
        return FunctionStore(_with_settings(address, found, settings))
    _refuse_near_recalls(address, found, settings)
    made = _made(address, found, settings)
    if not isinstance(made, Store):
        raise InputError(
            f"the function {address} must take (keys, values, queries), or return a store; "
            f"it returned {type(made).__name__}."
        )
    return made


def _found(address: str) -> Any:
    name, colon, attribute = address.partition(":")
    if not colon or not name or not attribute:
        raise InputError(f"{_FORM}; got {address!r}.")
    if name.endswith(".py") or "/" in name or os.sep in name:
        stem = os.path.basename(name).removesuffix(".py")
        raise InputError(f"{_FORM}: the module's name, not a file's. Try {stem}:{attribute} from the file's folder.")
    module = _imported(name)
    found: Any = module
    for part in attribute.split("."):
        if not hasattr(found, part):
            names = [n for n, x in vars(module).items() if getattr(x, "__module__", None) == name and n[0] != "_"]
            near = difflib.get_close_matches(attribute, names, n=3, cutoff=0.5)
            offer = f" Did you mean {' or '.join(near)}?" if near else ""
            place = getattr(module, "__file__", None) or "a folder"
            raise UnknownNameError(f"the module {name!r} ({place}) has no {attribute!r}.{offer}")
        found = getattr(found, part)
    return found


def _imported(name: str) -> ModuleType:
    """Import a module, looking in the current directory first and leaving it at the end of the path.

    It stays on the path for what the module imports later and for worker processes, behind everything that is
    installed, so that a file of the user's cannot stand in for a package of ours.
    """
    here = os.getcwd()
    known = here in sys.path or "" in sys.path
    if not known:
        sys.path.insert(0, here)
        importlib.invalidate_caches()
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name and (name == error.name or name.startswith(f"{error.name}.")):
            raise InputError(
                f"there is no module {name!r}, neither installed nor in the current directory {here}."
            ) from error
        raise InputError(f"the module {name!r} imports {error.name!r}, which is not installed.") from error
    except (Exception, SystemExit) as error:
        what = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        raise InputError(f"the module {name!r} could not be imported: {what} ({place_of(error)})") from error
    finally:
        if not known:
            sys.path.remove(here)
            sys.path.append(here)


def _made(address: str, make: Callable[..., Any], settings: dict[str, Any]) -> Any:
    if inspect.isabstract(make):
        missing = ", ".join(sorted(getattr(make, "__abstractmethods__", ())))
        raise InputError(f"{address} is not finished: it must implement {missing}.")
    _check_settings(address, make, settings)
    return make(**settings)


def _with_settings(address: str, function: Callable[..., Any], settings: dict[str, Any]) -> Callable[..., Any]:
    if not settings:
        return function
    _check_settings(address, function, settings, given=3)
    return partial(function, **settings)


def _check_settings(address: str, make: Callable[..., Any], settings: dict[str, Any], given: int = 0) -> None:
    """Refuse settings that `make` does not take, and the lack of those that it needs, naming them."""
    takes = [p for p in inspect.signature(make).parameters.values() if p.kind is not p.VAR_POSITIONAL][given:]
    names = [p.name for p in takes if p.kind is not p.VAR_KEYWORD]
    if not any(p.kind is p.VAR_KEYWORD for p in takes):
        for name in settings:
            if name not in names:
                raise InputError(f"{address} has no setting {name!r}; it takes {', '.join(names) or 'no settings'}.")
    for parameter in takes:
        needed = parameter.default is parameter.empty and parameter.kind is not parameter.VAR_KEYWORD
        if needed and parameter.name not in settings:
            raise InputError(f"{address} needs the setting {parameter.name!r}: it has no default.")


def _refuse_near_recalls(address: str, function: Callable[..., Any], settings: dict[str, Any]) -> None:
    """Refuse a function that is neither a recall (keywords only, or too few of them) nor a maker that has it all."""
    parameters = inspect.signature(function).parameters.values()
    needed = [p for p in parameters if p.default is p.empty and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
    missing = [p.name for p in needed if p.name not in settings]
    if missing:
        as_maker = f" (as one that returns a store it would need the setting {missing[0]!r})"
        raise InputError(
            f"the function {address} must take keys, values and queries, by place; it takes "
            f"{inspect.signature(function)}{'' if missing[0] in ('keys', 'values', 'queries') else as_maker}."
        )


def _takes_three(function: Callable[..., Any]) -> bool:
    """Say whether a callable needs three arguments: keys, values and queries."""
    parameters = inspect.signature(function).parameters.values()
    if any(p.kind is p.VAR_POSITIONAL for p in parameters):
        return True
    positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    return sum(p.default is p.empty for p in positional) == 3
