"""The experiments by discovery, in the order of the report: a file in this folder with an EXPERIMENT is one."""

import difflib
import importlib
import pkgutil
from collections.abc import Sequence

from assocmem.contract.errors import UnknownNameError
from assocmem.experiments.experiment import Experiment


def experiments() -> tuple[Experiment, ...]:
    """Return every experiment by its place: the article's figures and table (1 to 9), then ours."""
    package = importlib.import_module("assocmem.experiments")
    modules = [importlib.import_module(f"{package.__name__}.{m.name}") for m in pkgutil.iter_modules(package.__path__)]
    found: list[Experiment] = [vars(module)["EXPERIMENT"] for module in modules if "EXPERIMENT" in vars(module)]
    return tuple(sorted(found, key=lambda one: (one.place, one.name)))


def chosen(names: Sequence[str], *, trained: bool = False) -> tuple[Experiment, ...]:
    """Return the experiments called `names` in the order of the report; if none is named all of them.

    `trained`: those that read a trained network among them.

    Raises UnknownNameError for a name that is none, offering the nearest.
    """
    every = experiments()
    known = [e.name for e in every]
    for name in names:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=2, cutoff=0.4)
            offer = f" Did you mean {' or '.join(near)}?" if near else ""
            raise UnknownNameError(f"there is no experiment {name!r}.{offer} There are {', '.join(known)}.")
    return tuple(e for e in every if e.name in names or (not names and (trained or not e.trained)))
