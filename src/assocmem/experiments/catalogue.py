"""The experiments in the order of the report."""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Sequence

from assocmem.contract.errors import UnknownNameError
from assocmem.experiments.experiment import Experiment

ARTICLE = ("opening", "bars", "linear_stores", "activations", "exponential", "long_contexts", "capacities")
BEYOND = ("widths", "query_noise", "ridge_peak", "state_bits")
SHORT_TERM = ("ages", "overwrite", "correlated", "recall_vs_state", "precision")


def experiments() -> tuple[Experiment, ...]:
    """Return every experiment: the article's figures and table first, then ours."""
    modules = (*ARTICLE, *BEYOND, *SHORT_TERM)
    return tuple(importlib.import_module(f"assocmem.experiments.{name}").EXPERIMENT for name in modules)


def chosen(names: Sequence[str]) -> tuple[Experiment, ...]:
    """Return the experiments called `names` in the order of the report; all of them if none is named.

    Raises UnknownNameError for a name that is none, offering the nearest.
    """
    every = experiments()
    known = [e.name for e in every]
    for name in names:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=2, cutoff=0.4)
            offer = f" Did you mean {' or '.join(near)}?" if near else ""
            raise UnknownNameError(f"there is no experiment {name!r}.{offer} There are {', '.join(known)}.")
    return tuple(e for e in every if not names or e.name in names)
