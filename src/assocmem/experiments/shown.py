"""The stores that figures and the page show, each with its words; a section of the page takes its own from here."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from assocmem.contract.settings import Setting
from assocmem.contract.store import Store
from assocmem.stores import entry, make_store


@dataclass(frozen=True)
class Shown:
    """A store as a figure or the page shows it.

    key: of the register. words: beside its line, the register's label where they are left out. settings: of the store.
    short: its name in the page's addresses, else the key. about: what the page says of it.
    """

    key: str
    words: str = ""
    settings: Mapping[str, Any] = field(default_factory=dict, hash=False)
    short: str = ""
    about: str = ""

    @property
    def label(self) -> str:
        """The words beside its line."""
        return self.words or entry(self.key).label

    @property
    def colour(self) -> str:
        """Its colour in figures that show it as one line, as #RRGGBB."""
        return entry(self.key).colour

    @property
    def id(self) -> str:
        """Its name in the page's addresses."""
        return self.short or self.key

    @property
    def store(self) -> Store:
        """The store itself."""
        return make_store(self.key, **self.settings)

    def named(self, name: str) -> tuple[Setting, ...]:
        """Return the store's setting of this name, () where it has none."""
        return tuple(setting for setting in entry(self.key).settings if setting.name == name)

    @property
    def sharp(self) -> bool:
        """Whether the store has a sharpness that can be set."""
        return bool(self.named("beta"))

    def at(self, beta: float) -> Store:
        """Return the store, at sharpness `beta` where it has one."""
        return make_store(self.key, **self.settings, **({"beta": beta} if self.sharp else {}))


def labelled(shown: Iterable[Shown]) -> list[tuple[str, Store]]:
    """Return the stores with their labels, as the lab takes them."""
    return [(one.label, one.store) for one in shown]


CHOICES = (
    Shown("outer-product", short="outer"), Shown("optimal-linear", short="optimal"), Shown("relu"),
    Shown("squared-relu", short="squared"), Shown("swiglu"), Shown("cubed-relu", short="cubed"),
    *(Shown("exp-series", f"exp, {n} terms", {"terms": n}, short=f"exp{n}") for n in (2, 3, 4)), Shown("softmax"),
)  # fmt: skip
"""Those of the page's bars and curves, in the order of the article."""
OUTER, OPTIMAL, RELU, SQUARED, SWIGLU, CUBED, EXP2, EXP3, EXP4, SOFTMAX = CHOICES
PICTURES = (OUTER, OPTIMAL, RELU, SQUARED, CUBED, SOFTMAX)
"""Those of the page's opening picture: a short walk from a matrix to attention."""
HAND = (
    Shown("outer-product", "one grid of numbers", short="outer"),
    Shown("softmax", "a list, read by softmax", {"beta": 8.0}),
)
"""Those of the memory that can be held in the hand."""
HEAD, LAYER = Shown("softmax", "an attention head", {"beta": 6.0}), Shown("relu", "a feed-forward layer")
"""Those in a language model."""
READING = (
    Shown("outer-product", about="Adds every pair to one grid. Nothing is let go, so old and new are "
          "kept alike, and all of them drown alike."),
    Shown("linear-attention", about="Adds every pair over positive features (elu + 1) and divides "
          "by the sum of weights. Every likeness is positive, so every memory gets nearly the same share."),
    Shown("mamba-2", about="Lets the whole grid fade a little, then adds the new pair."),
    Shown("delta-net", about="First takes back what the grid already says for the key, then writes the "
          "difference. Each write disturbs the others less, and the newest pair is recalled exactly at strength 1."),
    Shown("gated-delta-net", about="Fades first, then writes the difference."),
    Shown("ttt-linear", about="A small linear model, trained by gradient descent on each mini-batch of "
          "pairs as it is read; the strength scales the learning rate."),
    Shown("titans", about="Gradient descent with momentum and forgetting, pair by pair. The last step goes "
          "on a while, so the newest pair isn't yet fully written."),
    Shown("mesa-net", about="Keeps two grids and solves a ridge regression over all pairs, faded by age, "
          "for every question. It is the optimal linear store of what it has read."),
)  # fmt: skip
"""Those that the page writes while reading, and the one that it shows first."""
READ_FIRST = READING[3]
