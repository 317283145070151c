"""`design`: what it takes to serve M memories at a ratio, for keys uniform on the sphere or for given ones."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from assocmem.contract.errors import InputError
from assocmem.contract.numbers import interval, is_number, is_whole, number, stream
from assocmem.contract.results import Row
from assocmem.kernels.compute import Progress, Workers, run_tasks
from assocmem.lab.extrapolation import LEVEL, parts_for
from assocmem.lab.given import given
from assocmem.lab.given_keys import AS_IT_IS, NEEDED, SSMAX, GivenKeys
from assocmem.lab.longer_texts import RULES
from assocmem.ruler import Geometry, GivenRows, key_geometry
from assocmem.theory import Design
from assocmem.theory import design as uniform_design

CONTEXT_RULES = (*RULES, SSMAX)
WORST = 3
"""Heads that a summary names."""
EVEN = 2.0
"""Effective dimension over width beyond which rows are no independent ones."""


@dataclass(frozen=True)
class KeysDesign:
    """What was found of given keys.

    rows: by head and `quantity`: the `sharpness` needed, the `capacity` (the largest M) at each beta, the `ratio` at M
        under each rule; value with its 95 % interval, whether it is `extrapolated` beyond the rows there are, and the
        same for `uniform` keys. summary: quantiles over heads of each. words: the sentences.
    """

    rows: tuple[Row, ...]
    summary: tuple[Row, ...]
    words: tuple[str, ...]


def design(
    d: int | None = None, n_memories: float | None = None, ratio: float = 1.0, cosine: float | None = None, *,
    keys: Any = None, queries: Any = None, targets: Any = None, values: Any = None,
    beta: float | Iterable[float] | None = None, normalise: bool = False, rules: Sequence[str] = CONTEXT_RULES,
    reference: float | None = None, asked: int = 4096, seed: int = 0, workers: Workers = None,
    progress: Progress | None = None,
) -> Design | KeysDesign:  # fmt: skip
    """Return how sharp softmax attention must be for M memories: for keys uniform on the sphere, or for given keys.

    Parameters
    ----------
    d : int
        Width of the keys, where none are given: they are assumed independent and uniform on the unit sphere. Keys with
        a mean or a decaying spectrum need far more sharpness; give them as `keys`.
    n_memories : float
        M >= 1 (of given keys > 1), the target counted.
    ratio : float
        Wanted interference-to-signal ratio, > 0, dimensionless; root mean square over queries and values.
    cosine : float
        ρ between query and stored key, in [-1, 1], where no keys are given; default 1.
    keys : array (n, d), (heads, n, d) or (layers, heads, n, d), n >= 4, optional
        Rows as they meet the queries, of any array library. Nothing is assumed of their law.
    queries, targets : array (..., m, d), and whole numbers (m,) or (..., m), "own" or "strongest", optional
        Queries, several heads of which may read one head of keys, and the rows that they ask for; by default the stored
        keys.
    values : array (..., n, d_v), optional
        Interference of these values; by default of random ones of one length.
    beta : number or several, > 0
        Sharpnesses to judge, for keys of mean length one: factor on q.k times the mean lengths of queries and of keys;
        default sqrt(d), the usual scale 1/sqrt(d) on vectors of length sqrt(d).
    normalise : bool
        Scale given keys and queries to length one.
    rules : sequence out of "log-n", "qwen", "yarn", "ssmax"
        Context rules to judge at M.
    reference : float >= 2
        L, the number of keys at which the rules change nothing; default: the given keys.
    asked : int
        At most so many queries, drawn at random; all keys interfere.
    seed : int
        Of that draw.
    workers : int, Executor or None
        Heads side by side, see `kernels.compute.Workers`.
    progress : callable, optional
        See `kernels.compute.Progress`.

    Returns
    -------
    theory.Design or KeysDesign
        For uniform keys exact theory, for given ones what was found.

    Raises
    ------
    InputError, NonFiniteError
        For shapes and numbers that do not fit, and naming a row that holds NaN or infinity.

    Notes
    -----
    Among given rows everything is exact (`ruler.GivenRows`: random subsets of M rows). Beyond them the mean square
    ratio grows as M - 1, if the other memories are of the same kind; the interval is a jackknife over 16 held-out runs
    of rows, and `lab.extrapolation` says what speaks against it. Cost: some ten passes over asked x n x d multiply-adds
    a head: 8,192 keys of width 128 take about ten seconds on two cores.

    Examples
    --------
    >>> keys = np.random.default_rng(0).standard_normal((256, 16))
    >>> found = design(keys=keys, n_memories=1000, normalise=True, rules=(), workers=1)
    >>> [row["quantity"] for row in found.rows[:2]], 3 < found.rows[0]["value"] < 5
    (['sharpness', 'capacity'], True)
    """
    if n_memories is None:
        raise InputError("`n_memories` must be given: how many memories must be served, the target counted?")
    if keys is None:
        for name, what in (("queries", queries), ("targets", targets), ("values", values), ("beta", beta)):
            if what is not None:
                raise InputError(f"`{name}` of design goes with `keys`; none were given.")
        if d is None:
            raise InputError("`d`, the width of uniform keys, or `keys` must be given.")
        return uniform_design(d, n_memories, ratio, 1.0 if cosine is None else cosine)
    if d is not None or cosine is not None:
        raise InputError("`d` and `cosine` of design are for uniform keys; given `keys` and `queries` have their own.")
    rows, names, there = _rows_of(keys, queries, targets, values, normalise, asked, seed)
    task = _task(rows[0], n_memories, ratio, beta, rules, reference, queries is None and values is None)
    # Several heads run side by side; a single one leaves all cores to its products of matrices.
    many = len(rows) > 1
    found = run_tasks(task, list(enumerate(rows)), workers=workers, progress=progress) if many else [task((0, rows[0]))]
    table = [{"name": names[row["head"]], "label": "given keys", **row} for one in found for row in one.rows]
    shapes = [key_geometry(one.keys) for one in rows]
    summary = summed_up(table)
    drawn = len(rows[0].queries) < there
    even = [f" of head {name}" * bool(name) for name, one in zip(names, shapes, strict=True) if _too_even(one)]
    words = [
        *_words(table, summary, shapes, task, values is not None, len(rows[0].queries), drawn),
        *_warned(names, [one.warnings for one in found]),
        *_too_good(even),
    ]
    return KeysDesign(tuple(table), tuple(summary), tuple(words))


def summed_up(rows: Sequence[Row]) -> list[Row]:
    """Return for each question its quantiles over heads, and the heads that are worst off, worst first."""
    names = ("quantity", "rule", "statistic", "n_memories")
    groups: dict[tuple[Any, ...], list[Row]] = {}
    asked: dict[int, int] = {}
    for row in rows:  # a rule's beta differs between heads: its place among the head's rows is what heads share
        place = asked[row["head"]] = asked.get(row["head"], -1) + 1
        groups.setdefault((place, *(row[name] for name in names)), []).append(row)
    summary: list[Row] = []
    for key, group in groups.items():
        # No value: no sharpness serves, or no M is too large; both lie beyond every number.
        numbers = np.array([math.inf if row["value"] is None else row["value"] for row in group])
        p10, median, p90 = (float(x) for x in np.quantile(numbers, [0.1, 0.5, 0.9], method="inverted_cdf"))
        worst = np.argsort(numbers if key[1] == "capacity" else -numbers, kind="stable")[:WORST]
        betas = {row["beta"] for row in group}
        summary.append(
            dict(zip(names, key[1:], strict=True))
            | {"beta": betas.pop() if len(betas) == 1 else None, "heads": len(group), "p10": p10, "median": median,
               "p90": p90, "worst": [group[i]["name"] for i in worst],
               "extrapolated": any(row["extrapolated"] for row in group)}
        )  # fmt: skip
    return summary


# ---------------------------------------------------------------------- what a user gives


def _rows_of(
    keys: Any, queries: Any, targets: Any, values: Any, normalise: bool, asked: int, seed: int
) -> tuple[list[GivenRows], tuple[str, ...], int]:
    """Return the rows of each head, with logits of sharpness one, their names, and how many queries could be asked."""
    heads = given(keys, values, queries=queries, targets=targets)
    parts_for(heads.rows.keys.shape[-2])
    if not is_whole(asked):
        raise InputError(f"`asked` must be a whole number >= 1; got {asked!r}.")
    m = heads.rows.queries.shape[-2]
    if not isinstance(heads.rows.target, str) and heads.rows.target is not None and np.max(heads.rows.target) < 0:
        raise InputError("`targets` must name a row for some of the queries; here none asks for any.")
    chosen = np.sort(stream(seed, "asked").permutation(m)[:asked])
    rows = []
    for i, name in enumerate(heads.names):
        one, _ = heads.prepared(i, "raw", normalise=normalise)
        lengths = [float(np.linalg.norm(np.asarray(x, np.float64), axis=1).mean()) for x in (one.keys, one.queries)]
        if not all(lengths):
            of = f" of head {name}" * bool(name)
            raise InputError(
                f"`keys` and `queries`{of} must not all be zero, nor so small that their lengths underflow."
            )
        rows.append(replace(
            one, queries=one.queries[chosen], target=one.targets()[chosen], activation=None,
            scaling=1 / math.prod(lengths),
        ))  # fmt: skip
    return rows, heads.names, m


def _task(
    rows: GivenRows, n_memories: Any, ratio: Any, beta: Any, rules: Sequence[str], reference: float | None, own: bool
) -> GivenKeys:
    """Return the task of every head, its numbers checked."""
    n, d = rows.keys.shape
    if not (is_number(n_memories) and n_memories >= 2):
        raise InputError(f"`n_memories` must be a number >= 2, the target counted; got {n_memories!r}.")
    if not (is_number(ratio) and ratio > 0):
        raise InputError(f"`ratio` must be a number > 0; got {ratio!r}.")
    betas = [math.sqrt(d)] if beta is None else list(beta) if isinstance(beta, Iterable) else [beta]
    if not betas or not all(is_number(b) and b > 0 for b in betas):
        raise InputError(f"`beta` must be one number > 0 or several; got {beta!r}.")
    if isinstance(rules, str) or not set(rules) <= set(CONTEXT_RULES):
        raise InputError(f"`rules` must be among {', '.join(CONTEXT_RULES)}; got {rules!r}.")
    length = n if reference is None else reference
    if not (is_number(length) and length >= 2):
        raise InputError(f"`reference` must be a number of keys >= 2; got {length!r}.")
    return GivenKeys(float(n_memories), float(ratio), tuple(float(b) for b in betas), float(length), tuple(rules), own)


# ---------------------------------------------------------------------- sentences


def _words(
    rows: Sequence[Row],
    summary: Sequence[Row],
    shapes: Sequence[Geometry],
    task: GivenKeys,
    values: bool,
    queries: int,
    drawn: bool,
) -> list[str]:
    first = shapes[0]
    heads = f" in each of {len(shapes)} heads" if len(shapes) > 1 else ""
    cosines = [shape.mean_cosine for shape in shapes if shape.mean_cosine is not None]
    widths = [shape.effective_dimension for shape in shapes if shape.effective_dimension is not None]
    words = [
        f"{first.n:,} given keys of width {first.d}{heads}, nothing assumed of their law: mean cosine "
        f"{_span(cosines)}, effective dimension {_span(widths)}. Interference of "
        f"{'the given' if values else 'random'} values"
        + (f", for {queries:,} queries drawn among them." if drawn else ".")
    ]
    asked = {(row["quantity"], row["rule"], row["statistic"], row["beta"]): row for row in rows if row["head"] == 0}
    m, wanted = f"M = {number(task.memories)}", number(task.ratio)
    if len(shapes) > 1:
        said = {"sharpness": f"{m} memories at a ratio of {wanted} need a sharpness of",
                "capacity": "Sharpness {beta} serves up to M ="}  # fmt: skip
        words += [
            f"{said[row['quantity']].format(beta=number(row['beta']))} {number(row['median'])} for the median head "
            f"(10 % below {number(row['p10'])}, 10 % above {number(row['p90'])}); worst off: {_named(row, rows)}"
            f"{' (extrapolated)' if row['extrapolated'] else ''}."
            for row in summary if row["quantity"] in said and row["statistic"] == "rms"
        ]  # fmt: skip
    else:
        needed = next(row for row in rows if row["rule"] == NEEDED)
        words.append(
            f"{m} memories at a ratio of {wanted} (rms over queries) need a sharpness of {_told(needed)}, which is a "
            f"factor of {number(needed['logit_scale'])} on q.k; uniform keys of that width would need "
            f"{number(needed['uniform'])}."
            if needed["value"] is not None
            else f"No sharpness serves {m} memories at a ratio of {wanted}: {needed['reason'].partition(': ')[2]}."
        )
        for beta in task.betas:
            rms, median = (asked["capacity", AS_IT_IS, statistic, beta] for statistic in ("rms", "median"))
            words.append(
                f"Sharpness {number(beta)} serves up to M = {_told(rms)}, the median query up to {_told(median)}; "
                f"uniform keys up to {number(rms['uniform'])}."
                if rms["value"] is not None
                else f"At sharpness {number(beta)} no other row interferes."
            )
        ruled = [row for row in rows if row["quantity"] == "ratio" and row["statistic"] == "rms"]
        told = (f"{row['rule']} {number(row['value'])} (sharpness {number(row['beta'])})" for row in ruled)
        length = number(task.reference)
        words.append(f"Ratio at {m} as it is and under the context rules from L = {length}: {', '.join(told)}.")
        words += _explained(needed, [asked["capacity", AS_IT_IS, "rms", beta] for beta in task.betas])
    if any(row["extrapolated"] for row in rows):
        words.append(
            f"Extrapolated: beyond the {rows[0]['n_rows']:,} rows there are the mean square ratio of memories of one "
            f"kind grows as M - 1; intervals are {LEVEL:.0%}, from {parts_for(first.n)} held-out runs of rows."
        )
    return words


def _explained(needed: Row, served: Sequence[Row]) -> list[str]:
    """Return what theory says of normal keys with the mean and the covariance of the given ones."""
    told = [f"serve M = {number(row['theory'])} at sharpness {number(row['beta'])}" for row in served if row["theory"]]
    told += [f"need a sharpness of {number(needed['theory'])}"] if needed["theory"] else []
    if not told:
        reason = next((row["theory_reason"] for row in served if row["theory_reason"]), "")
        return [f"Theory has none for normal keys with their mean and covariance: {reason}."] if reason else []
    kind = "exactly" if served[0]["theory_exact"] else "approximately"
    return [
        f"Normal keys with the same mean and covariance would {kind} {' and '.join(told)}: so much of the distance "
        "from uniform keys is the mean's and the spectrum's, the rest the shape of their law"
        f"{'' if served[0]['theory_exact'] else ', or what the approximation misses'}."
    ]


def _told(row: Row) -> str:
    """Return a number with its interval, and that it is extrapolated."""
    more = ["extrapolated"] if row["extrapolated"] else []
    between = [] if row["low"] is None else [interval(row["low"], row["high"])]
    return number(row["value"]) + (f" ({', '.join(between + more)})" if between or more else "")


def _named(row: Row, rows: Sequence[Row]) -> str:
    """Return the worst heads of a summary's row with their numbers."""
    same = [r for r in rows if all(r[n] == row[n] for n in ("quantity", "rule", "statistic", "n_memories"))]
    same = [r for r in same if row["quantity"] != "capacity" or r["beta"] == row["beta"]]
    numbers = {r["name"]: r["value"] for r in same}
    return ", ".join(
        f"head {head} ({'none is enough' if numbers[head] is None else number(numbers[head])})" for head in row["worst"]
    )


def _span(numbers: Sequence[float]) -> str:
    if not numbers:
        return "unknown"
    low, high = f"{min(numbers):.3g}", f"{max(numbers):.3g}"
    return low if low == high else f"{low} to {high}"


def _too_good(heads: Sequence[str]) -> list[str]:
    return [
        f"Warning: the rows{' and'.join(heads)} overlap less than independent rows of their width can: more of them "
        "would overlap more, so that what is extrapolated is too good."
    ] * bool(heads)


def _too_even(found: Geometry) -> bool:
    """Say whether rows overlap less than independent ones would, as orthonormal rows do."""
    return found.n > 2 and (found.effective_dimension is None or found.effective_dimension > EVEN * found.d)


def _warned(names: Sequence[str], warnings: Sequence[Mapping[str, str]]) -> list[str]:
    """Return each kind of warning once, in the words of the first head that has it."""
    told = []
    for kind in dict.fromkeys(kind for one in warnings for kind in one):
        heads = [head for head, one in enumerate(warnings) if kind in one]
        where = "" if len(warnings) == 1 else f"head {names[heads[0]]}"
        where += (f" and {len(heads) - 1} others" if len(heads) > 1 else "") + ": " * (len(warnings) > 1)
        told.append(f"Warning: {where}{warnings[heads[0]][kind]}.")
    return told
