"""The frozen dataclasses that cross from one room to the next."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, Literal

from assocmem.core.arrays import Array, DType, Namespace

Statistic = Literal["rms", "median", "mean"]
Rewrite = Literal["adds", "averages", "replaces", "decays", "keeps", "mixes"]


@dataclass(frozen=True)
class Source:
    """Where a rule comes from: enough for a BibTeX entry, the equation it implements, and our deviations."""

    title: str
    authors: str
    year: int
    venue: str = ""
    arxiv: str = ""
    doi: str = ""
    equation: str = ""
    deviations: tuple[str, ...] = ()

    @property
    def cite_key(self) -> str:
        """First author's family name, year and first long title word, in lower case."""
        family = self.authors.split(" and ")[0].split(",")[0].split()[-1]
        words = [w for w in "".join(c if c.isalnum() else " " for c in self.title).split() if len(w) > 3]
        return f"{family}{self.year}{words[0] if words else ''}".lower()

    def bibtex(self) -> str:
        """Return the BibTeX entry of this source."""
        fields = {"title": "{" + self.title + "}", "author": self.authors, "year": str(self.year)}
        if self.venue:
            fields["journal"] = self.venue
        elif self.arxiv:
            fields["journal"] = f"arXiv:{self.arxiv}"
        if self.arxiv:
            fields |= {"eprint": self.arxiv, "archiveprefix": "arXiv"}
        if self.doi:
            fields["doi"] = self.doi
        body = ",\n".join(f"  {name:<13} = {{{text}}}" for name, text in fields.items())
        kind = "article" if "journal" in fields else "misc"
        return f"@{kind}{{{self.cite_key},\n{body}\n}}"


@dataclass(frozen=True)
class Extra:
    """A further array that a store's `write` takes beside keys and values.

    `shape` names axes after the batch axes out of "n", "d_k", "d_v" and fixed numbers; () is one number per
    batch item. Entries lie in [low, high]. Without a `default` the extra must be given; a default in words says
    what the store works out for itself. `instead_of` names an extra whose place this one takes: not both.
    """

    name: str
    meaning: str
    shape: tuple[str | int, ...] = ("n",)
    default: float | str | None = None
    low: float = float("-inf")
    high: float = float("inf")
    instead_of: str = ""

    @property
    def required(self) -> bool:
        """Whether a write must give it: it has no default and takes no other extra's place."""
        return self.default is None and not self.instead_of

    @property
    def per_pair(self) -> bool:
        """Whether the extra has one entry (or row) for every pair."""
        return bool(self.shape) and self.shape[0] == "n"


@dataclass(frozen=True)
class Traits:
    """What a store promises; the contract checks every entry, also in the negative.

    linear_in_values: "shared" where f(x) = sum_i A_i(x) v_i with one row of weights for all value channels,
        "per-channel" where each channel has its own row, "no" where recall is not linear in the values.
    affine: recall is linear in the values only after the recall of zero values is subtracted.
    order_free: the same pairs in another order give the same recall.
    rewrite: what writing a key again does to its recall: the two values add, average, the second replaces the
        first, the first one's share decays, or the store keeps the first and ignores the second; "mixes" where
        both have shares by none of these laws (momentum lets the first one's grow for a while).
    bounded: the state stops growing however many pairs are written.
    keeps_pairs: the state holds the pairs themselves; such stores take masks and return recall weights.
    keys: which keys are accepted: any, rows of unit length, entries +-1, or whole-number token ids.
    extras: the further arrays that `write` takes.
    """

    linear_in_values: Literal["shared", "per-channel", "no"]
    order_free: bool
    rewrite: Rewrite
    bounded: bool
    keeps_pairs: bool = False
    affine: bool = False
    keys: Literal["any", "unit", "signs", "ids"] = "any"
    extras: tuple[Extra, ...] = ()


@dataclass(frozen=True, slots=True)
class State:
    """All that a store has learned. Made by `Store.empty` and `Store.write`; never changed in place.

    arrays: the learned numbers by name, batch axes first (for growing stores the used part of their buffers).
    n: pairs written so far (a whole number >= 0).
    io_dtype: promoted dtype of everything written, in which recalls are returned.
    dtype: dtype of the floating arrays.
    pinned: whether namespace and dtype were fixed by `empty(like=...)`; else the first write fixes them.
    held: working storage that is no part of the learned state, such as a doubling buffer.
    kind: the maker's name (`Store.maker`); stores of another refuse it. "" where that is not known.
    """

    arrays: Mapping[str, Array]
    n: int
    d_k: int
    d_v: int
    batch: tuple[int, ...]
    xp: Namespace
    dtype: DType
    io_dtype: DType
    device: Any = None
    pinned: bool = False
    state_dtype: str | None = None
    held: Any = field(default=None, repr=False, compare=False)
    kind: str = field(default="", compare=False)

    def __getitem__(self, name: str) -> Array:
        return self.arrays[name]

    @property
    def size(self) -> int:
        """Numbers held, counted from the arrays (all batch items together)."""
        return sum(_count(a) for a in self.arrays.values())

    def having(self, arrays: Mapping[str, Array], *, n: int, held: Any = None) -> State:
        """Return the state with new arrays and a new count of pairs."""
        return State(
            arrays,
            n,
            self.d_k,
            self.d_v,
            self.batch,
            self.xp,
            self.dtype,
            self.io_dtype,
            self.device,
            self.pinned,
            self.state_dtype,
            held,
            self.kind,
        )

    def __getstate__(self) -> dict[str, Any]:
        """Return what a pickle holds: the arrays by value, the array library by name, no working storage."""
        kept = {f.name: getattr(self, f.name) for f in fields(self)}
        return kept | {"xp": self.xp.__name__, "held": None, "arrays": dict(self.arrays)}

    def __setstate__(self, kept: dict[str, Any]) -> None:
        for name, value in ({"kind": ""} | kept).items():
            object.__setattr__(self, name, importlib.import_module(value) if name == "xp" else value)

    def zeros(self, *shape: int) -> Array:
        """Return zeros of the state's dtype and device, shape ``(*batch, *shape)``."""
        return self.xp.zeros((*self.batch, *shape), dtype=self.dtype, device=self.device)

    def eye(self, size: int) -> Array:
        """Return identity matrices of the state's dtype and device, shape ``(*batch, size, size)``."""
        eye = self.xp.eye(size, dtype=self.dtype, device=self.device)
        return self.xp.broadcast_to(eye, (*self.batch, size, size))


def _count(array: Array) -> int:
    total = 1
    for length in array.shape:
        total *= int(length)
    return total


@dataclass(frozen=True)
class Pairs:
    """Keys (..., n, d_k) and values (..., n, d_v) to be stored, row i of one belonging to row i of the other.

    `law` says in words how they were drawn or where they were read from.
    """

    keys: Array
    values: Array
    law: str = ""
    extras: Mapping[str, Array] = field(default_factory=dict)

    @property
    def n(self) -> int:
        """Number of pairs per batch item."""
        return int(self.keys.shape[-2])


@dataclass(frozen=True)
class Similarity:
    """Recall in the form V^T σ(K x), divided by the sum of the weights where `normalised`.

    The divisor is common to all memories, so it cancels in the interference-to-signal ratio.
    """

    sigma: Any
    normalised: bool = False


@dataclass(frozen=True)
class Estimate:
    """A measured number with its 95 % interval (None where n_trials < 2) and everything needed to repeat it.

    heaviest: of a mean or rms, the share of the sum that comes from the one largest trial.
    """

    value: float | None
    low: float | None
    high: float | None
    n_trials: int
    seed: int
    definition: str
    statistic: str = "rms"
    sampler: str = ""
    method: str = ""
    level: float = 0.95
    reason: str = ""
    heaviest: float | None = None

    def renamed(self, **changes: Any) -> Estimate:
        """Return a copy with some fields replaced."""
        return replace(self, **changes)


@dataclass(frozen=True)
class Prediction:
    """A number that theory gives: its statistic, the regime it holds in, its source, and how exact it is.

    log_value: natural logarithm of the value, finite also where `value` over- or underflows.
    exact: False for labelled approximations. error: bound on the relative error of the numerical evaluation.
    value is None where there is no theory (or no finite answer); `reason` then says why.
    """

    quantity: str
    value: float | None
    statistic: str
    regime: str
    source: str
    log_value: float | None = None
    exact: bool = True
    error: float | None = None
    reason: str = ""
