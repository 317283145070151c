"""Stores of a user's own, found by their address MODULE:CLASS (or MODULE:FUNCTION)."""

from __future__ import annotations

import difflib
import importlib
import inspect
import os
import pkgutil
import sys
from collections.abc import Callable, Sequence
from functools import partial
from types import ModuleType
from typing import Any

from assocmem.contract.errors import InputError, UnknownNameError, place_of
from assocmem.contract.settings import made, offered, settings_of
from assocmem.contract.store import Store
from assocmem.stores import entry, make_store
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
    return _made(address, found_at(address), settings)


def own_store(what: str | type | Callable[..., Any], **settings: Any) -> Store:
    """Return the store of a key, a MODULE:NAME, or a class or function of a user's own, made with the given settings.

    >>> import numpy as np
    >>> def mean(keys, values, queries):
    ...     return np.broadcast_to(values.mean(axis=0), (len(queries), values.shape[1]))
    >>> own_store(mean).name
    'mean'
    """
    if isinstance(what, str):
        return make_store(what, **settings)
    return _made(getattr(what, "__name__", repr(what)), what, settings)


def settings_taken(what: Any, names: Sequence[str]) -> tuple[str, ...]:
    """Return those of `names` that are settings of a key, a MODULE:NAME, a class or a function; none of a made store.

    >>> settings_taken("softmax", ("beta", "window")), settings_taken("outer-product", ("beta",))
    (('beta',), ())
    """
    if isinstance(what, str) and ":" in what:
        what = found_at(what)
    if isinstance(what, str):
        known = {setting.name: setting for setting in entry(what).settings}
    elif inspect.isclass(what) and issubclass(what, Store) and settings_of(what):
        known = offered(what)
    elif callable(what) and not isinstance(what, Store):
        return tuple(name for name in names if name in inspect.signature(what).parameters)
    else:
        return ()
    return tuple(name for name in names if name in known and (not known[name].idle or known[name].of in names))


def _made(address: str, found: Any, settings: dict[str, Any]) -> Store:
    if isinstance(found, Store):
        if settings:
            raise InputError(f"{address} is a finished store and takes no settings; got {', '.join(settings)}.")
        return found
    if not callable(found):
        raise InputError(
            f"{address} must be a class that derives from assocmem.Store or a function recall(keys, values, queries); "
            f"got {type(found).__name__}."
        )
    if inspect.isclass(found):
        return _of_class(address, found, settings)
    parameters = inspect.signature(found).parameters.values()
    as_maker, as_recall = _misfit(found, **settings), _misfit(found, None, None, None, **settings)
    if as_recall is None and (as_maker or any(p.kind is p.VAR_POSITIONAL for p in parameters)):
        return FunctionStore(partial(found, **settings) if settings else found)
    if as_maker is not None:
        raise InputError(
            f"the function {address} must take keys, values and queries, by place, and these settings, or return a "
            f"store; it takes {inspect.signature(found)} ({as_recall or as_maker})."
        )
    store = found(**settings)
    if not isinstance(store, Store):
        raise InputError(
            f"the function {address} must take (keys, values, queries), or return a store; "
            f"it returned {type(store).__name__}."
        )
    return store


def _of_class(address: str, kind: type, settings: dict[str, Any]) -> Store:
    if not issubclass(kind, Store):
        looks = ", though it has the right methods" if hasattr(kind, "write") and hasattr(kind, "recall") else ""
        if any(base.__module__.startswith("torch.") for base in kind.__mro__):
            raise InputError(
                f"the class {address} is a torch module; wrap it, assocmem.module_store(...), and name what that "
                "returns."
            )
        raise InputError(
            f"the class {address} is no store{looks}; derive it from assocmem.Store and implement traits, init, "
            "put and get; or name a function recall(keys, values, queries)."
        )
    if inspect.isabstract(kind):
        missing = ", ".join(sorted(getattr(kind, "__abstractmethods__", ())))
        raise InputError(f"{address} is not finished: it must implement {missing}.")
    if set(inspect.signature(kind).parameters) == {setting.name for setting in settings_of(kind)}:
        store: Store = made(kind, settings, address)
        return store
    if misfit := _misfit(kind, **settings):
        raise InputError(f"{address} takes the settings {inspect.signature(kind)}: {misfit}.")
    return kind(**settings)


def _misfit(function: Callable[..., Any], *arguments: Any, **settings: Any) -> str | None:
    """Return why a function cannot be called like this, None where it can."""
    try:
        inspect.signature(function).bind(*arguments, **settings)
    except TypeError as error:
        return str(error)
    return None


def found_at(address: str) -> Any:
    """Return the object at `address`, MODULE:NAME, looking in the current directory too; failures in one sentence."""
    name, _, attribute = address.partition(":")
    if not name or not attribute:
        raise InputError(f"{_FORM}; got {address!r}.")
    if name.endswith(".py") or "/" in name or os.sep in name:
        stem = os.path.basename(name).removesuffix(".py")
        raise InputError(f"{_FORM}: the module's name, not a file's. Try {stem}:{attribute} from the file's folder.")
    module = _imported(name)
    try:
        return pkgutil.resolve_name(address)
    except (AttributeError, ValueError) as error:
        names = [n for n, x in vars(module).items() if getattr(x, "__module__", None) == name and n[0] != "_"]
        near = difflib.get_close_matches(attribute, names, n=3, cutoff=0.5)
        offer = f" Did you mean {' or '.join(near)}?" if near else ""
        place = getattr(module, "__file__", None) or "a folder"
        raise UnknownNameError(f"the module {name!r} ({place}) has no {attribute!r}.{offer}") from error


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
