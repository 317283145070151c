"""Stores side by side: a grid of stores, settings, key widths and query cosines measured into one table.

A cell of the grid is one store at one width and cosine, measured by the lab's own capacity, curves or retrieval. Cells
run side by side, are kept on disk as they are finished, and are never measured twice.
"""

from __future__ import annotations

import hashlib
import inspect
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any, Literal, TypeAlias

from assocmem.contract.columns import meanings
from assocmem.contract.errors import AssocmemError, FileFormatError, InputError, place_of
from assocmem.contract.estimate import Estimate
from assocmem.contract.files import claimed
from assocmem.contract.numbers import checked_cosine, interval, is_number, is_whole, number
from assocmem.contract.results import TABLES, Results, Row, as_json, header_for, plain, setting
from assocmem.contract.settings import offered, settings_of
from assocmem.contract.store import Store
from assocmem.kernels.compute import Progress, Workers, run_tasks
from assocmem.lab.capacity import capacity
from assocmem.lab.extras import NO_EXTRAS, Extras, check_names, in_words, taken_by
from assocmem.lab.keys import Keys
from assocmem.lab.plan import LabelledStore, StoreLike, labelled
from assocmem.lab.requirements import numbers_held
from assocmem.lab.retrieval import retrieval_capacities
from assocmem.lab.run import curves
from assocmem.lab.similarities import Similarities
from assocmem.ruler.capacity import growth
from assocmem.stores.address import own_store, settings_taken

Quantity = Literal["capacity", "ratio", "retrieval"]
Place: TypeAlias = tuple[str, int, float]
"""Where a cell is: label, d_k, cosine."""
Variant: TypeAlias = tuple[LabelledStore, Mapping[str, Any]]
"""A store, and the settings that were chosen for it."""
NAME = "comparison"
CELL = ("label", "d_k", "cosine")
TABLE = (
    "label", "d_k", "cosine", "n_memories", "value", "interval", "theory", "statistic", "state_numbers",
    "multiply_adds",
)  # fmt: skip
COUNTS = {
    "capacity": ("threshold", "precision", "largest", "d_v"), "ratio": ("memories", "trials", "streams", "d_v"),
    "retrieval": ("recalls", "largest"),
}  # fmt: skip
"""What the numbers of each quantity depend on, so that it must not change in one comparison."""
WORDS = {
    "fitted_exponent": "slope of ln capacity over ln d_k by least squares over all widths",
    "theory_exponent": "slope of theory's capacities over the same widths",
    "code": "mark of the store's class, settings and own source; where it differs the cell is measured anew",
}
MEMORIES, FEW_MEMORIES = tuple(2**k for k in range(1, 14)), tuple(4**k for k in range(1, 6))


@dataclass(frozen=True)
class How:
    """How every cell is measured; one comparison has one.

    quantity; memories, the M of ratios; threshold, precision, largest of capacities; recalls of retrievals; trials and
    streams of ratios; d_v, seed and laws of extras of all.
    """

    quantity: Quantity
    memories: tuple[int, ...]
    threshold: float
    precision: float
    largest: int | None
    recalls: int
    trials: int
    streams: int
    d_v: int
    seed: int
    extras: Extras

    def told(self) -> dict[str, Any]:
        """Return all of it for a file: of extras no laws, which stand in each row."""
        found: dict[str, Any] = plain(replace(self, extras={}))
        return found


@dataclass(frozen=True)
class Cell:
    """One store at one key width and query cosine, with those settings that were chosen for it."""

    one: LabelledStore
    d_k: int
    cosine: float
    chosen: Mapping[str, Any] = field(default_factory=dict)

    @property
    def place(self) -> Place:
        """Where in the table the cell is."""
        return self.one.label, self.d_k, self.cosine


def compare(
    stores: Iterable[StoreLike | type | Callable[..., Any]],
    d_k: int | Iterable[int] = 64,
    *,
    cosine: float | Iterable[float] = 1.0,
    quantity: Quantity = "capacity",
    memories: Iterable[int] | None = None,
    threshold: float = 1.0,
    largest: int | None = None,
    d_v: int = 64,
    extras: Extras = NO_EXTRAS,
    quick: bool = False,
    seed: int = 0,
    out: str | os.PathLike[str] | None = None,
    extend: Results | str | os.PathLike[str] | None = None,
    workers: Workers = None,
    progress: Progress | None = None,
    **settings: Any,
) -> Results:
    """Return one table of stores at several widths, settings and query cosines, theory and cost beside each number.

    Parameters
    ----------
    stores : iterable
        Register keys, MODULE:NAME, classes and functions of your own, Stores, or (label, Store).
    d_k : int or iterable of int
        Widths of the keys.
    cosine : float or iterable of float
        Of queries with the keys that they ask for, in [-1, 1]; 1 for retrieval.
    quantity : {"capacity", "ratio", "retrieval"}
        The M at which the ratio reaches `threshold`; the ratio at every M of `memories`; or the M up to which at least
        95 % of recalls are nearest to the right one of all values.
    memories : iterable of int, optional
        The M of ratios, the target counted; 2, 4, 8, ... 8,192 by default.
    threshold : float
        The interference-to-signal ratio that is a capacity, > 0.
    largest : int, optional
        The M >= 2 up to which capacities are looked for; see `capacity`.
    d_v : int
        Width of the values (of a retrieval d_k).
    extras : mapping, optional
        Laws of the further arrays that writes take, by name, for the stores that take them; see `capacity`.
    quick : bool
        Fewer trials: intervals of capacities about 15 % of M in place of 2 %.
    seed : int
        Of all random streams.
    out : path, optional
        A folder that keeps every cell as it is finished, and at the end the table as CSV and the chart. Called again,
        it measures only the cells that are not there.
    extend : Results or path, optional
        An earlier comparison, or the file that it was saved to: its cells are kept, and only new ones are measured.
    workers, progress
        See `kernels.compute.run_tasks`: any executor of concurrent.futures. Results do not depend on it.
    **settings : value or list of values
        Settings of the stores: beta=[4, 8]. A store that takes none of a name is
        measured without it, and a sentence says so.

    Returns
    -------
    Results
        A row a cell (of ratios a row for each M), in the order of the grid.

    Raises
    ------
    InputError
        For an empty grid, two cells that are the same, a setting that no store takes, and an earlier comparison that
        was measured in another way.
    FileFormatError
        For a saved comparison that is damaged.

    Notes
    -----
    Cost: a capacity takes 0.1 to 5 s on one core, in the quick form a third of that.

    Examples
    --------
    >>> found = compare(["outer-product", "relu"], [16, 32], quick=True, workers=1)
    >>> len(found), found.where(label="relu", d_k=32).theory
    (4, 65.0)
    >>> more = compare(["squared-relu"], [16, 32], quick=True, workers=1, extend=found)
    >>> len(more), more.rows[:2] == found.rows[:2]
    (6, True)
    """
    began = time.perf_counter()
    how = How(
        _one_of(quantity), _memories(memories, quick), threshold, 0.15 if quick else 0.02, largest,
        256 if quick else 2048, 4 if quick else 16, 10 if quick else 100, d_v, seed, extras,
    )  # fmt: skip
    variants, said = _variants(stores, settings)
    if extras:
        check_names([one.store for one, _ in variants], extras)
    cosines = tuple(checked_cosine(c) for c in _several("cosine", cosine))
    if how.quantity == "retrieval" and cosines != (1.0,):
        raise InputError(f"`cosine` of a retrieval must be 1: queries are stored keys; got {cosines}.")
    cells = _grid(variants, _several("d_k", d_k), cosines)
    folder = None if out is None else Path(out)
    kept = _saved(folder, extend, how)
    stale = {c.place for c in cells if (old := _cell_of(kept, c)) and old[0].get("code") != code_of(c.one, extras)}
    for label in dict.fromkeys(label for label, *_ in stale):
        said.append(f"{label} is not what it was when it was saved, and is measured anew.")
    done = {_place(row) for row in kept if row.get("n_trials")} - stale
    table = {place: [row for row in kept if _place(row) == place] for place in map(_place, kept) if place in done}
    todo = sorted((cell for cell in cells if cell.place not in done), key=lambda cell: -cell.d_k)
    order = list(dict.fromkeys([*map(_place, kept), *(cell.place for cell in cells)]))

    def so_far(said: Sequence[str] = ()) -> Results:
        return _results(table, order, how, time.perf_counter() - began, said)

    def keep(i: int, rows: list[Row]) -> None:
        table[todo[i].place] = rows
        if folder is not None:
            so_far().write(folder, TABLES[:1])

    def measure() -> None:
        run_tasks(partial(cell_rows, how), todo, workers=workers, progress=progress, keep=keep)

    if folder is None:
        measure()
        return so_far(said)
    folder.mkdir(parents=True, exist_ok=True)
    with claimed(folder):
        measure()
        if done:
            said.insert(0, f"{len(cells) - len(todo)} of {len(cells)} cells were there already.")
        found = so_far(said)
        found.write(folder, (*TABLES, *(("png", "svg") if any(row["value"] is not None for row in found) else ())))
    return found


# ---------------------------------------------------------------------- the grid


def _one_of(quantity: Any) -> Quantity:
    if quantity not in ("capacity", "ratio", "retrieval"):
        raise InputError(f"`quantity` must be capacity, ratio or retrieval; got {quantity!r}.")
    found: Quantity = quantity
    return found


def _memories(memories: Iterable[int] | None, quick: bool) -> tuple[int, ...]:
    if memories is None:
        return FEW_MEMORIES if quick else MEMORIES
    given = _several("memories", memories)
    if not all(is_whole(n) for n in given):
        raise InputError(f"`memories` must be whole numbers >= 1; got {given}.")
    return tuple(sorted({int(n) for n in given}))


def _several(name: str, given: Any) -> tuple[Any, ...]:
    """Return one value or several as a tuple; InputError for none."""
    found = (given,) if isinstance(given, str | bytes) or not isinstance(given, Iterable) else tuple(given)
    if not found:
        raise InputError(f"`{name}` must hold at least one value: the grid is empty.")
    return found


def _variants(given: Any, settings: Mapping[str, Any]) -> tuple[list[Variant], list[str]]:
    """Return every store with each choice of those settings that it takes, and sentences on those that take none."""
    swept = {name: _several(name, values) for name, values in settings.items()}
    named = _several("stores", [given] if isinstance(given, Callable | str) else given)  # type: ignore[arg-type]
    found: list[Variant] = []
    without, used, made = dict[str, list[str]](), set[str](), list[str]()
    for what in named:
        taken = settings_taken(what, tuple(swept))
        used |= set(taken)
        name = labelled(what).label if not taken else getattr(what, "__name__", str(what))
        for values in product(*(swept[n] for n in taken)):
            chosen = dict(zip(taken, values, strict=True))
            one = labelled(what) if not taken else _named(what, name, chosen, [n for n in taken if len(swept[n]) > 1])
            found.append((one, chosen))
        has = () if taken else _has(what, swept)
        made += [name] * bool(has)
        if missing := [n for n in swept if n not in (*taken, *has)]:
            without.setdefault(" and no ".join(missing), []).append(name)
    if unknown := [name for name in swept if name not in used and not made]:
        raise InputError(f"none of the stores takes a setting `{unknown[0]}`; `assocmem show STORE` lists them.")
    said = [f"These take no {lacks}, and are measured without: {', '.join(w)}." for lacks, w in without.items()]
    return found, said + [f"Stores that were made already keep their settings: {', '.join(made)}."] * bool(made)


def _has(what: Any, names: Iterable[str]) -> tuple[str, ...]:
    """Return those of the names that are settings of a store that is made already, none of anything else."""
    store = what[1] if isinstance(what, tuple) else getattr(what, "store", what)
    known = offered(type(store)) if isinstance(store, Store) and settings_of(type(store)) else {}
    return tuple(name for name in names if name in known and (known[name].of == "" or not known[name].idle))


def _named(what: Any, name: str, chosen: Mapping[str, Any], varied: Sequence[str]) -> LabelledStore:
    """Return a store with its chosen settings, those that vary in its label."""
    one = labelled(own_store(what, **chosen))
    told = [f"{n} {chosen[n]:g}" if isinstance(chosen[n], float) else f"{n} {chosen[n]}" for n in varied]
    return replace(one, key=name, label=", ".join([name, *told]))


def _grid(variants: Sequence[Variant], widths: Sequence[Any], cosines: Sequence[float]) -> list[Cell]:
    for d in widths:
        if not is_whole(d):
            raise InputError(f"`d_k` must hold whole numbers >= 1; got {d!r}.")
    cells = [Cell(one, int(d), c, chosen) for (one, chosen), d, c in product(variants, widths, cosines)]
    places = [cell.place for cell in cells]
    for label, d, c in places:
        if places.count((label, d, c)) > 1:
            raise InputError(
                f"two cells of the grid are the same, {label} at d_k = {d} and query cosine {c:g}; name each store, "
                "width and value once, or give stores labels of their own, as (label, store)."
            )
    return cells


def code_of(one: LabelledStore, extras: Extras = NO_EXTRAS) -> str:
    """Return a mark of a store's class, settings and given laws of extras, and of its source where it is a user's."""
    kind, values = type(one.store), one.store.settings()
    parts = [kind.__module__, kind.__qualname__, as_json({name: setting(value) for name, value in values.items()})]
    given = taken_by([one.store], extras)
    parts += [in_words(one.store, given)] if given else []
    for part in [kind, *values.values(), *given.values()]:
        parts += _written(getattr(part, "func", part))
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:12]


def _written(code: Any) -> list[str]:
    """Return the text of a user's code: its module, what it closes over, and the numbers and functions it names."""
    if not callable(code) or str(getattr(code, "__module__", "")).startswith("assocmem."):
        return []
    found = [str(getattr(code, "__qualname__", ""))]
    for what in (code, inspect.getmodule(code)):
        with suppress(OSError, TypeError):
            found.append(inspect.getsource(what))  # type: ignore[arg-type]
    if inspect.isfunction(code):
        named = inspect.getclosurevars(code)
        for name, value in sorted({**named.nonlocals, **named.globals}.items()):
            with suppress(OSError, TypeError):
                told = inspect.getsource(value) if inspect.isfunction(value) else repr(value)
                found.append(f"{name} = {told}" if inspect.isfunction(value) or _plainly_told(value) else name)
    return found


def _plainly_told(value: Any) -> bool:
    """Say whether the text of a value is all of it, and the same in every run."""
    if isinstance(value, tuple | list):
        return all(map(_plainly_told, value))
    return value is None or isinstance(value, bool | int | float | complex | str | bytes)


# ---------------------------------------------------------------------- one cell


def cell_rows(how: How, cell: Cell) -> list[Row]:
    """Return the rows of one cell; where the store refuses or fails, one that says why."""
    one = cell.one
    mark: Row = {"d_k": cell.d_k, "cosine": cell.cosine}
    mark |= {name: setting(value) for name, value in cell.chosen.items()}
    try:
        drawn = in_words(one.store, how.extras)
        mark |= {"code": code_of(one, how.extras)} | ({"extras": drawn} if drawn else {})
        rows = [row | mark | _beside(one, how, row) for row in MEASURED[how.quantity](cell, how)]
    except (Exception, SystemExit) as error:  # noqa: BLE001  a store may do anything, and the other cells go on
        told = (
            str(error) if isinstance(error, AssocmemError) else f"{type(error).__name__}: {error} ({place_of(error)})"
        )
        quantity = "retrieval capacity" if how.quantity == "retrieval" else how.quantity
        return [{"store": one.key, "label": one.label, "quantity": quantity, **mark, "value": None, "reason": told}]
    return rows


def _capacity(cell: Cell, how: How) -> list[Row]:
    found = capacity(
        cell.one, cell.d_k, seed=how.seed, threshold=how.threshold, cosine=cell.cosine, largest=how.largest,
        d_v=how.d_v, precision=how.precision, extras=taken_by([cell.one.store], how.extras), workers=1,
    )  # fmt: skip
    return [found.row()]


def _ratio(cell: Cell, how: How) -> list[Row]:
    sampler = Keys(how.trials) if cell.one.sigma(cell.d_k, 2) is None else Similarities(how.streams)
    shared: dict[str, Any] = {"seed": how.seed, "cosines": (cell.cosine,), "d_v": how.d_v, "workers": 1}
    shared["extras"] = taken_by([cell.one.store], how.extras)
    return curves([cell.one], cell.d_k, how.memories, sampler, **shared)


def _retrieval(cell: Cell, how: How) -> list[Row]:
    shared: dict[str, Any] = {"recalls": how.recalls, "largest": how.largest, "seed": how.seed, "workers": 1}
    shared["extras"] = taken_by([cell.one.store], how.extras)
    return [retrieval_capacities([cell.one], [cell.d_k], **shared)[0].row()]


MEASURED: dict[str, Callable[[Cell, How], list[Row]]] = {
    "capacity": _capacity, "ratio": _ratio, "retrieval": _retrieval,
}  # fmt: skip


def _beside(one: LabelledStore, how: How, row: Row) -> Row:
    """Return the numbers that the store holds there, and the multiply-adds of a recall."""
    d_k, n = row["d_k"], row["n_memories"] if how.quantity == "ratio" else row["value"] or row.get("largest_m") or 1
    d_v, cost = d_k if how.quantity == "retrieval" else how.d_v, one.store.cost
    recall = None if cost is None else cost.recall
    return {
        "state_numbers": round(numbers_held(one.store, d_k, d_v, n)),
        "multiply_adds": None if recall is None else recall.at(d_k, d_v, n),
    }  # fmt: skip


# ---------------------------------------------------------------------- the table


def _place(row: Row) -> Place:
    label, d_k, cosine = (row[name] for name in CELL)
    return label, d_k, cosine


def _cell_of(rows: Iterable[Row], cell: Cell) -> list[Row]:
    return [row for row in rows if _place(row) == cell.place]


def _saved(folder: Path | None, extend: Results | str | os.PathLike[str] | None, how: How) -> tuple[Row, ...]:
    """Return the rows of an earlier comparison; InputError where it was made in another way."""
    path = None if folder is None else folder / f"{NAME}.{TABLES[0]}"
    found = []
    if extend is not None:
        found.append((extend, "`extend`") if isinstance(extend, Results) else (Results.load(extend), str(extend)))
    if path is not None and path.exists():
        found.append((Results.load(path), str(path)))
    for earlier, where in found:
        config, now = earlier.header.get("config"), how.told()
        before = config.get("how") if isinstance(config, Mapping) else None
        if not isinstance(before, Mapping):
            raise InputError(f"{where} is no comparison, so that it cannot be extended: {earlier!r}.")
        for name in ("quantity", "seed", *COUNTS[how.quantity]):
            if before.get(name) != (value := now[name]):
                raise InputError(
                    f"{where} was measured with {name} = {before.get(name)}, and this asks for {value}: ask for the "
                    "same, or keep this comparison elsewhere."
                )
        for i, row in enumerate(earlier):
            if not (isinstance(row.get("label"), str) and is_whole(row.get("d_k")) and is_number(row.get("cosine"))):
                raise FileFormatError(f"{where} is damaged: its row {i} has no label, d_k and cosine.")
    rows: dict[Place, list[Row]] = {}
    for earlier, _ in found:
        rows |= {place: [row for row in earlier if _place(row) == place] for place in map(_place, earlier)}
    return tuple(row for cell in rows.values() for row in cell)


def _results(
    table: Mapping[Place, list[Row]], order: Sequence[Place], how: How, seconds: float, said: Sequence[str]
) -> Results:  # fmt: skip
    labels = list(dict.fromkeys(label for label, *_ in order))
    places = sorted(table, key=lambda place: (labels.index(place[0]), place[1], -place[2]))
    rows = tuple(dict(row) for place in places for row in table[place])
    exponents = [] if how.quantity == "ratio" else list(_with_exponents(rows))
    header = header_for(config={"how": how.told()}, seed=how.seed, seconds=seconds, definitions=meanings(rows) | WORDS)
    words = [_sentence(rows, places, how), *exponents, *said]
    return Results(NAME, rows, header | {"words": words, "table": list(TABLE)})


def _with_exponents(rows: Sequence[Row]) -> Iterator[str]:
    """Write the exponents of growth with d_k into the rows of every store, and yield what they are in a sentence."""
    told = []
    for label, cosine in dict.fromkeys((row["label"], row["cosine"]) for row in rows):
        mine = [row for row in rows if (row["label"], row["cosine"]) == (label, cosine)]
        widths = [row["d_k"] for row in mine]
        found, theory = (growth(widths, [_estimate(row, column) for row in mine]) for column in ("value", "theory"))
        for row in mine:
            row |= {"fitted_exponent": found.value, "fitted_low": found.low, "fitted_high": found.high,
                    "theory_exponent": theory.value}  # fmt: skip
        if found.value is not None:
            beside = "" if theory.value is None else f"; theory {number(theory.value)}"
            at = f" at cosine {cosine:g}" if len({row["cosine"] for row in rows}) > 1 else ""
            told.append(f"{label}{at} {number(found.value)} ({interval(found.low, found.high)}{beside})")
    if told:
        yield f"Fitted exponent of the growth with d_k over all widths: {', '.join(told)}."


def _estimate(row: Row, column: str) -> Estimate:
    """Return a row's number, measured or by theory, as an estimate."""
    ends = (row.get("low"), row.get("high")) if column == "value" else (row.get("theory"), row.get("theory"))
    value = row.get(column) or None
    return Estimate(value, *ends, row.get("n_trials") or 0, row.get("seed") or 0, "", str(row.get("statistic")))


def _sentence(rows: Sequence[Row], places: Sequence[Place], how: How) -> str:
    stores = len({label for label, *_ in places})
    widths, cosines = (sorted({place[i] for place in places}) for i in (1, 2))
    what = {
        "capacity": f"capacity, the M (the pair asked for counted) at which interference over signal reaches "
        f"{how.threshold:g}",
        "ratio": f"interference over signal at {len(how.memories)} M from {how.memories[0]:,} to {how.memories[-1]:,}",
        "retrieval": "retrieval capacity, the M up to which 95 % of recalls are nearest to the right one of M values",
    }[how.quantity]
    failed = sum(not row.get("n_trials") for row in rows)
    return (
        f"{stores} store{'s' * (stores != 1)} at d_k = {', '.join(map(str, widths))}, query cosine "
        f"{', '.join(f'{c:g}' for c in cosines)} ({len(places)} cell{'s' * (len(places) != 1)}): {what}; "
        f"random unit keys, seed {how.seed}, "
        f"95 % intervals over trials{f'; {failed} cells failed, see the reasons' if failed else ''}."
    )
