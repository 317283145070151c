"""What a store's write and recall cost, as numbers of the sizes: multiply-adds, with their formula as text.

A family writes formulas with the symbols D_K, D_V (widths of keys and values) and N (memories):

>>> both = Cost(write=D_K + D_V, recall=N * (D_K + D_V), note="a write copies the pair")
>>> both.recall.at(64, 64, 1000), str(both.recall)
(128000, 'n (d_k + d_v)')
>>> str(both)
'write d_k + d_v, recall n (d_k + d_v); a write copies the pair'
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Count:
    """A number that depends on d_k, d_v and n: `at` works it out, `str` writes it; + and * and ** make others of it.

    words: the formula but for the whole number `times` in front of it.
    """

    words: str
    of: Callable[[Any, Any, Any], Any]
    times: int = 1
    is_sum: bool = False

    def at(self, d_k: float, d_v: float, n: float) -> float:
        """Return the number at these sizes; whole where they are."""
        return self.times * self.of(d_k, d_v, n)  # type: ignore[no-any-return]

    def __str__(self) -> str:
        return " ".join([f"{self.times:,}"] * (self.times != 1 or not self.words) + [self.words] * bool(self.words))

    def __add__(self, other: Count) -> Count:
        return Count(f"{self} + {other}", lambda *sizes: self.at(*sizes) + other.at(*sizes), is_sum=True)

    def __mul__(self, other: Count | int) -> Count:
        one = other if isinstance(other, Count) else Count("", lambda *_: 1, other)
        words = " ".join(filter(None, (self._factor(), one._factor())))
        return Count(words, lambda *sizes: self.of(*sizes) * one.of(*sizes), self.times * one.times)

    __rmul__ = __mul__

    def __pow__(self, power: int) -> Count:
        words = self.words and f"{self._factor()}^{power}"
        return Count(words, lambda *sizes: self.of(*sizes) ** power, self.times**power)

    def _factor(self) -> str:
        return f"({self.words})" if self.is_sum else self.words


def larger(first: Count, second: Count) -> Count:
    """Return the larger of two counts."""
    return Count(f"max({first}, {second})", lambda *sizes: max(first.at(*sizes), second.at(*sizes)))


def by_width(words: str, width: Callable[[int], int]) -> Count:
    """Return what a function of d_k gives, such as the number of a key's features."""
    return Count(words, lambda *sizes: width(int(sizes[0])))


D_K = Count("d_k", lambda *sizes: sizes[0])
D_V = Count("d_v", lambda *sizes: sizes[1])
N = Count("n", lambda *sizes: sizes[2])


@dataclass(frozen=True)
class Cost:
    """Multiply-adds of a store, at its settings.

    write: per pair; of a rule that works by chunks, amortised. recall: per query; None where it is the user's own
    function. first_recall: once, before the first recall after a write. note: what the numbers leave open.
    """

    write: Count
    recall: Count | None
    first_recall: Count | None = None
    note: str = ""

    def __str__(self) -> str:
        parts = [f"write {self.write}"]
        parts += [f"first recall after a write {self.first_recall}"] if self.first_recall else []
        parts += [f"recall {self.recall}"] if self.recall else []
        return ", ".join(parts) + (f"; {self.note}" if self.note else "")
