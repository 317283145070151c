"""What a store declares of itself: its source, its traits, the further arrays that its write takes."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from operator import attrgetter
from typing import Any, Literal, TypeAlias

from assocmem.contract.recall import Want
from assocmem.contract.settings import Worded, settings_of

Linear = Literal["shared", "per-channel", "no"]
Overwrite = Literal["adds", "averages", "replaces", "decays", "keeps", "mixes"]
KeyKind = Literal["any", "signs", "ids"]
Merges = Literal["adds", "appends", "no"]
Scan = Literal["loop", "causal", "own"]
ExtraLaw: TypeAlias = "float | tuple[float, float] | Callable[[Any], Any]"
"""How measurements draw an extra: one number, (low, high) for uniform, or a function of the keys (*batch, n, d_k)."""
SIZES = (40, 300, 2100)
"""Numbers of pairs on which it is tried whether their order matters: rules with a window see the newest ones alone."""


def crowded(n: int) -> tuple[int, ...]:
    """Return for each of n >= 3 pairs which of three keys it has, interleaved and of unequal counts.

    Of equal keys a rule of the nearest ones can't see all, so that their order tells.

    >>> crowded(12)
    (0, 1, 2, 2, 1, 2, 2, 1, 2, 2, 1, 2)
    """
    return tuple(0 if i % 12 == 0 else 1 if i % 3 == 1 else 2 for i in range(n))


@dataclass(frozen=True)
class Source:
    """Where a rule comes from: enough for a BibTeX entry, the equation it implements, and our deviations.

    Parameters
    ----------
    title, authors : str
        As BibTeX has them, authors joined by "and".
    year : int
        Of publication.
    venue, arxiv, doi : str
        Where it appeared, and its numbers there.
    equation : str
        Its number and what it says.
    deviations : tuple of str
        Where we do otherwise.
    """

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
        key = f"{family}{self.year}{words[0] if words else ''}".lower()
        return unicodedata.normalize("NFKD", key).encode("ascii", "ignore").decode()

    @property
    def short(self) -> str:
        """First author's family name and year."""
        return f"{self.authors.split(' and ')[0].split(',')[0]} {self.year}"

    @property
    def cited(self) -> str:
        """Who, when, what and where, the equation, and where we do otherwise."""
        place = ", ".join(filter(None, (self.venue, self.arxiv and f"arXiv:{self.arxiv}", self.doi)))
        parts = (f'{self.short}, "{self.title}"{place and f", {place}"}', self.equation)
        others = [f"Otherwise here: {'; '.join(self.deviations)}"] if self.deviations else []
        return " ".join(f"{part}." for part in (*parts, *others) if part)

    def bibtex(self) -> str:
        """Return the BibTeX entry of this source.

        Returns
        -------
        str
            In ASCII.
        """
        fields = {"title": "{" + self.title + "}", "author": self.authors, "year": str(self.year)}
        if self.venue:
            fields["journal"] = self.venue
        elif self.arxiv:
            fields["journal"] = f"arXiv:{self.arxiv}"
        if self.arxiv:
            fields |= {"eprint": self.arxiv, "archiveprefix": "arXiv"}
        if self.doi:
            fields["doi"] = self.doi
        body = ",\n".join(f"  {name:<13} = {{{_in_tex(text)}}}" for name, text in fields.items())
        kind = "article" if "journal" in fields else "misc"
        return f"@{kind}{{{self.cite_key},\n{body}\n}}"


_ACCENTS = dict(
    zip("\u0300\u0301\u0302\u0303\u0304\u0306\u0307\u0308\u030a\u030b\u030c\u0327\u0328", "`'^~=u.\"rHvck", strict=True)
)
_LETTERS = dict(zip("ßøØłŁæÆœŒ", ["ss", "o", "O", "l", "L", "ae", "AE", "oe", "OE"], strict=True))


def _in_tex(text: str) -> str:
    """Return a text in ASCII: letters with accents as TeX writes them, so that every encoding keeps them."""
    parts: list[str] = []
    for letter in unicodedata.normalize("NFD", text):
        if letter in _ACCENTS and parts:
            parts[-1] = f"{{\\{_ACCENTS[letter]}{{{parts[-1]}}}}}"
        elif letter in _LETTERS:
            parts.append(f"{{\\{_LETTERS[letter]}}}")
        else:
            parts.append(letter if letter.isascii() else f'{{\\symbol{{"{ord(letter):04X}}}}}')
    return "".join(parts)


@dataclass(frozen=True)
class Extra:
    """A further array that a store's `write` takes beside keys and values.

    Parameters
    ----------
    name, meaning : str
        The argument of `write`, and what it says of a pair.
    shape : tuple
        Axes after the batch axes out of "n", "d_k", "d_v" and fixed numbers; () is one number per batch item.
    default : float, str or None
        None: the extra must be given; in words: what the store works out for itself.
    low, high : float
        The range of its entries, ends included.
    instead_of : str
        An extra whose place this one takes: not both.
    law : float, tuple or callable, optional
        How measurements draw it, see `ExtraLaw`. Without one it has its default, and where there is none it is uniform
        in [low, high], or rows like the keys where it has their shape and no bounds.
    """

    name: str
    meaning: str
    shape: tuple[str | int, ...] = ("n",)
    default: float | str | None = None
    low: float = float("-inf")
    high: float = float("inf")
    instead_of: str = ""
    law: ExtraLaw | None = None

    @property
    def required(self) -> bool:
        """Whether a write must give it: it has no default and takes no other extra's place."""
        return self.default is None and not self.instead_of

    @property
    def per_pair(self) -> bool:
        """Whether the extra has one entry (or row) for every pair."""
        return bool(self.shape) and self.shape[0] == "n"


def extras_of(store: Any) -> tuple[Extra, ...]:
    """Return the extras that a store's settings declare: one for each pair, where the setting is one for all."""
    found = []
    kind: Any = type(store)
    for setting in settings_of(kind):
        if setting.per_pair:
            number = float(getattr(store, setting.name))
            found.append(Extra(setting.name, setting.help, ("n",), number, setting.low, setting.high))
        if setting.log:
            meaning = f"natural logarithm of the {setting.name}"
            found.append(Extra(f"log_{setting.name}", meaning, ("n",), high=0.0, instead_of=setting.name))
    return tuple(found)


@dataclass(frozen=True)
class Option:
    """A setting of a single recall, such as the most steps of an iterated one.

    A number in [low, high], a whole one if `whole`; with `per_query` also an array of them that broadcasts to the
    queries (..., m). `default` None means that the store works it out, or does without. `idle`: it is taken, but has no
    effect at the store's present settings.
    """

    name: str
    meaning: str
    default: float | None = None
    low: float = float("-inf")
    high: float = float("inf")
    whole: bool = False
    per_query: bool = False
    idle: bool = False


@dataclass(frozen=True)
class Widths:
    """Which widths of keys and values a store takes, where it does not take all.

    fits(d_k, d_v) says so; `words` end the refusal, "widths must be ..."; `samples` are some that fit, d_k >= 4 in the
    first, on which the contract tries the store.
    """

    fits: Callable[[int, int], bool] = field(compare=False)
    words: str
    samples: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Traits(Worded):
    """What a store promises; the contract checks every entry, also in the negative.

    Parameters
    ----------
    linear_in_values : {"shared", "per-channel", "no"}
        "shared" where f(x) = sum_i A_i(x) v_i with one row of weights for all value channels, "per-channel" where each
        channel has its own row, "no" where recall is not linear in the values.
    permutation_invariant : bool
        The same pairs in another order give the same recall.
    overwrite : {"adds", "averages", "replaces", "decays", "keeps", "mixes"}
        What writing a key again does to its recall: the two values add, average, the second replaces the first, the
        first one's share decays, or the store keeps the first and ignores the second; "mixes" where both have shares by
        none of these laws (momentum lets the first one's grow for a while).
    constant_size : bool
        The state stops growing however many pairs are written.
    keeps_pairs : bool
        The state holds the pairs themselves, one row each.
    affine : bool
        Recall is linear in the values only after the recall of zero values is subtracted.
    keys : {"any", "signs", "ids"}
        Which keys are accepted: any, entries +-1 (queries may hold 0 too, for what is not known), or whole-number token
        ids.
    values : {"any", "signs"}
        Which values are accepted: any, or entries +-1.
    energy_falls : bool
        No step of an iterated recall raises the energy that its trace tells.
    extras : tuple of Extra
        The further arrays that `write` takes.
    options : tuple of Option
        The settings of a single recall.
    widths : Widths or None
        Which widths of keys and values are accepted, None for all.

    Raises
    ------
    InputError
        For a word that is none of these.
    """

    linear_in_values: Linear
    permutation_invariant: bool
    overwrite: Overwrite
    constant_size: bool
    keeps_pairs: bool = False
    affine: bool = False
    keys: KeyKind = "any"
    values: Literal["any", "signs"] = "any"
    energy_falls: bool = False
    extras: tuple[Extra, ...] = ()
    options: tuple[Option, ...] = ()
    widths: Widths | None = None

    @cached_property
    def needs_extras(self) -> bool:
        """Whether there is an extra that a write must give."""
        return any(map(attrgetter("required"), self.extras))


@dataclass(frozen=True)
class Capabilities(Worded):
    """What a store can do beside writing and recalling; nothing of it by default.

    Parameters
    ----------
    masks : bool
        A query may be kept from seeing some of the pairs.
    gives, costly : tuple of {"weights", "mass", "trace"}
        What `ask` hands out beside the values (recalls of shards merge by their mass), and what of it takes more than
        one recall's work.
    merges : {"adds", "appends", "no"}
        How states are joined: their arrays add, their pairs are appended, or not at all.
    not_merged : str
        Why states or recalls of shards cannot be joined, as the end of the sentence that refuses it.
    forgets : bool
        Pairs that were written can be taken out again; for stores that add.
    selects : bool
        A state of some of the pairs can be made of it; for stores whose rows stand each for itself.
    scan : {"loop", "causal", "own"}
        "loop" writes and recalls one pair after the other, the slow truth; "causal" writes all pairs and asks with
        causal visibility; "own" has a form of its own (`Store.scanned`).
    """

    masks: bool = False
    gives: tuple[Want, ...] = ()
    costly: tuple[Want, ...] = ()
    merges: Merges = "no"
    not_merged: str = ""
    forgets: bool = False
    selects: bool = False
    scan: Scan = "loop"
