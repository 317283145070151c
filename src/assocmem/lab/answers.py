"""What is asked from Python and at the command line alike: each question answered by one kind of object, `Results`.

Every function takes what the measurement or the theory behind it takes.
"""

from __future__ import annotations

import inspect
import re
import time
from collections.abc import Callable, Iterable, Mapping
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from assocmem import theory
from assocmem.checks import contract
from assocmem.contract.columns import meanings
from assocmem.contract.results import Results, Row, header_for
from assocmem.contract.store import Store
from assocmem.lab import capacity as lab_capacity
from assocmem.lab import design as lab_design
from assocmem.lab import measure as lab_measure
from assocmem.lab import run as lab_run
from assocmem.lab.plan import LabelledStore, StoreLike, labelled
from assocmem.lab.requirements import requirements

RETURNS = """Returns
-------
Results
    Print it, `plot` it, take its `frame`; beside the rows stand sentences, and how they were made."""
P = ParamSpec("P")
Found = TypeVar("Found")
Told = tuple[Iterable[Row], Mapping[str, Any]]
"""Rows, and what the header says beside how they were made."""

CAPACITY = ("label", "d_k", "cosine", "value", "interval", "theory", "statistic", "n_trials")
RATIO = ("label", "d_k", "n_memories", "value", "interval", "theory")
KEYS = ("name", "preparation", "label", "value", "p10", "p90", "rms", "interval", "right_there", "effective_dimension")
GIVEN = ("name", "quantity", "rule", "beta", "statistic", "value", "interval", "extrapolated", "uniform")
STORES = ("label", "feasible", "ratio", "largest", "numbers_held", "cost")


def answers(found_by: Callable[P, Found]) -> Callable[[Callable[[Found], Told]], Callable[P, Results]]:
    """Return a decorator: of what `found_by` finds, a function makes the rows and what is said of them."""

    def decorator(told: Callable[[Found], Told]) -> Callable[P, Results]:
        signature = inspect.signature(found_by)

        @wraps(found_by)
        def ask(*given: P.args, **named: P.kwargs) -> Results:
            began = time.perf_counter()
            found = found_by(*given, **named)
            rows, said = told(found)
            bound = signature.bind(*given, **named)
            bound.apply_defaults()
            asked = {**bound.arguments, **bound.arguments.get("settings", {})}
            return results(told.__name__, rows, asked, time.perf_counter() - began, said)

        ask.__name__ = ask.__qualname__ = told.__name__
        ask.__module__, ask.__doc__ = told.__module__, _documented(told.__doc__, found_by.__doc__)
        vars(ask)["__signature__"] = signature.replace(return_annotation="Results")
        return ask

    return decorator


def results(
    name: str, rows: Iterable[Row], asked: Mapping[str, Any], seconds: float, said: Mapping[str, Any]
) -> Results:
    """Return results with their header; of what was asked it keeps what is no array and changes numbers."""
    table = tuple(rows)
    kept = {k: v for k, v in asked.items() if k not in ("workers", "progress", "settings") and not _numbers(v)}
    config = {k: [_name(x) for x in v] if isinstance(v, list | tuple) else _name(v) for k, v in kept.items()}
    header = header_for(config=config, seed=kept.get("seed"), seconds=seconds, definitions=meanings(table))
    return Results(name, table, header | dict(said))


def _numbers(given: Any) -> bool:
    """Say whether something is an array, or lists of lists of numbers."""
    nested = isinstance(given, list | tuple) and bool(given) and isinstance(given[0], list | tuple)
    return hasattr(given, "shape") or (nested and all(not isinstance(x, str | Store) for x in given[0]))


def _name(given: Any) -> Any:
    return given.label if isinstance(given, LabelledStore) else given


def _documented(own: str | None, whole: str | None) -> str:
    """Return a docstring with the sections of the function behind it, but what this returns and its own examples."""
    text, rest = inspect.cleandoc(own or ""), inspect.cleandoc(whole or "")
    sections = re.split(r"\n\n(?=[A-Z][a-z]+\n-{4,}\n)", rest)
    taken = {part.partition("\n")[0]: part for part in sections} | {"Returns": RETURNS}
    head, examples, tail = text.partition("\n\nExamples\n")
    return (
        "\n\n".join([head, *(taken[t] for t in ("Parameters", "Returns", "Raises", "Notes") if t in taken)])
        + examples
        + tail
    )


@answers(lab_capacity.capacity)
def capacity(found: lab_capacity.MeasuredCapacity) -> Told:
    """Return how many memories a store holds for random unit keys: measured, with the ratios around it, and predicted.

    The answer is one row; `plot("ratio")` draws the measured ratios that it was read from.

    Examples
    --------
    >>> import assocmem
    >>> found = assocmem.capacity("outer-product", 64, workers=1)
    >>> found
    <Results 'capacity': outer-product, d_k = 64, 65.02 (64.66 to 65.37)>
    >>> found.theory, found.low < 65 < found.high
    (65.0, True)
    """
    one, read = found.one, found.measured
    rows = [found.row()]
    for n, estimate in found.curve:
        said = found.plan.predicted(one, n, found.cosine, read.statistic)  # type: ignore[arg-type]
        same = said.value if said.statistic == estimate.statistic else None
        rows.append(
            {"store": one.key, "label": one.label, "quantity": "ratio", "d_k": found.d_k, "n_memories": n,
             "cosine": found.cosine, "value": estimate.value, "low": estimate.low, "high": estimate.high,
             "statistic": estimate.statistic, "sampler": estimate.sampler, "n_trials": estimate.n_trials,
             "seed": estimate.seed, "theory": same, "theory_source": said.source if same is not None else None}
        )  # fmt: skip
    notes = [read.note] if read.note else []
    view = {} if len(rows) < 3 else {"quantity": "ratio"}
    return rows, {"table": CAPACITY, "notes": notes, "view": view}


@answers(lab_measure.measure)
def measure(found: lab_measure.Measurement) -> Told:
    """Return how many of a user's own keys every store holds, with the geometry that explains it.

    The answer is a row for each head, preparation and store, with the geometry of the keys; behind it are the ratios
    and the shares of right recalls at every M.

    Examples
    --------
    >>> import numpy as np
    >>> import assocmem
    >>> rows = np.random.default_rng(0).standard_normal((200, 16))
    >>> found = assocmem.measure(rows, stores=["outer-product"], normalise=True, workers=1)
    >>> round(found.value)
    17
    """
    shapes = {(row["name"], row["preparation"]): row for row in found.geometry}
    rows = [{"quantity": "capacity", **shapes[row["name"], row["preparation"]], **row} for row in found.capacities]
    notes = list(dict.fromkeys(row["note"] for row in found.capacities if row.get("note")))
    said = {"table": KEYS, "words": found.words, "notes": notes, "summary": found.over_heads()}
    return [*rows, *found.curve], said | {"view": {"quantity": "ratio"}}


@answers(lab_run.curves)
def curves(found: list[Row]) -> Told:
    """Return the ratio of every store at every M, measured with its interval, theory beside it.

    Examples
    --------
    >>> import assocmem
    >>> print(assocmem.curves(["outer-product"], 64, [17, 65], workers=1))
     store           M   ratio     95 % interval  theory
     ───────────────────────────────────────────────────
     outer-product  17  0.5022  0.4937 to 0.5109     0.5
     outer-product  65   1.004   0.9842 to 1.024       1
    In all rows d_k = 64.
    """
    return found, {"table": RATIO}


@answers(lab_design.design)
def design(found: theory.Design | lab_design.KeysDesign) -> Told:
    """Return how sharp softmax attention must be to serve M memories.

    With the width of keys, which are assumed independent and uniform on the unit sphere, also what every store would
    need. With `keys`, of which nothing is assumed, for each head: the sharpness needed, the largest M at each `beta`,
    the ratio at M under each context rule, extrapolated beyond the rows there are; `header["summary"]` has quantiles
    over heads.

    Examples
    --------
    >>> import assocmem
    >>> found = assocmem.design(64, 1272264, 1.0)
    >>> round(found.facts["sharpness"], 5)
    8.0
    """
    if isinstance(found, lab_design.KeysDesign):
        said = {"words": found.words, "summary": found.summary, "table": GIVEN, "prints": "all"}
        return found.rows, said
    rows = requirements(int(found.d), int(found.d), found.n_memories, found.ratio, found.cosine)
    facts = {
        "feasible": found.feasible, "sharpness": found.sharpness, "logit_scale": found.logit_scale,
        "best_sharpness": found.best_sharpness.value, "largest": found.largest.value, "ratio": found.reached.value,
    }  # fmt: skip
    return rows, {"words": [found.sentence], "facts": facts, "table": STORES}


def check(store: StoreLike, *, xp: Any = None, only: str | tuple[str, ...] | None = None) -> Results:
    """Hold a store to the contract and say in words where it fails; a row for every check, and its finding.

    Parameters
    ----------
    store : str, Store or (label, Store)
        A register key, MODULE:CLASS or a Store; its traits decide which keys and extras are drawn.
    xp : array library, optional
        To try it in (numpy, torch, array_api_strict, or any of the array API standard); NumPy by default.
    only : str or tuple of str, optional
        Names of the checks to run; all by default.

    Returns
    -------
    Results
        `ok` says whether the contract is kept.

    Raises
    ------
    InputError
        Where `store` is none.
    UnknownNameError
        For an unknown store or check.

    Examples
    --------
    >>> import assocmem
    >>> found = assocmem.check("outer-product", only=("split-law", "order"))
    >>> found.ok
    True
    >>> print(found)
    OuterProduct keeps the contract: 2 checks passed.
    """
    began = time.perf_counter()
    one = labelled(store)
    report = contract.check(one.store, xp=xp, only=only)
    rows: list[Row] = [{"label": one.label, "check": name, "passed": True, "message": ""} for name in report.passed]
    rows += [{"label": one.label, "check": f.check, "passed": False, "message": f.message} for f in report.failures]
    said = {"words": report.text().split("\n"), "table": ()}
    asked = {"store": one.label, "only": only}
    return results("check", rows, asked, time.perf_counter() - began, said)
