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


SERIES = {2: "1 + βs", 3: "1 + βs + (βs)²/2", 4: "1 + βs + (βs)²/2 + (βs)³/6"}
CHOICES = (
    Shown("outer-product", short="outer", about="Adds every pair to one grid of numbers; a value weighs as much as its "
          "key is like the query."),
    Shown("optimal-linear", short="optimal", about="One grid too, but the best one: chosen so that all answers "
          "together are as near as can be to the stored values (least squares)."),
    Shown("relu", about="Keeps a list of the pairs; keys that point away from the query weigh nothing."),
    Shown("squared-relu", short="squared", about="As ReLU, each weight squared: 1 stays 1, a stranger's 0.1 becomes "
          "0.01."),
    Shown("swiglu", about="Each weight is a likeness times a soft ReLU of it (a gate); it acts much like squared "
          "ReLU."),
    Shown("cubed-relu", short="cubed", about="As ReLU, each weight cubed: a stranger's 0.1 becomes 0.001."),
    *(Shown("exp-series", f"exp, {n} terms", {"terms": n}, short=f"exp{n}", about="Softmax's exponential cut off after "
            f"{n} terms of its sum: {series}, s being the likeness.") for n, series in SERIES.items()),
    Shown("softmax", about="Attention: keeps all pairs, weighs each by e to the power β times its likeness, and "
          "divides by the sum."),
)  # fmt: skip
"""Those of the page's bars and curves, in the order of the article."""
OUTER, OPTIMAL, RELU, SQUARED, SWIGLU, CUBED, EXP2, EXP3, EXP4, SOFTMAX = CHOICES
PICTURES = (OUTER, OPTIMAL, RELU, SQUARED, CUBED, SOFTMAX)
"""Those of the page's opening picture: a short walk from a matrix to attention."""
HAND = (
    Shown("outer-product", "outer product: one grid", short="outer"),
    Shown("softmax", "softmax: a list of the pairs", {"beta": 8.0}),
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
NETWORKS = (
    Shown("hopfield", "Hebb's network", {"readout": "signs"}, short="hebb", about="One weight for every two pixels: "
          "how often they are alike in what is stored. Letters are alike, and soon their mixture is the valley."),
    Shown("hopfield", "pseudo-inverse", {"rule": "pseudo-inverse", "readout": "signs"}, short="inverse",
          about="The same network with the weights that make every stored picture rest. Its valleys grow narrow."),
    Shown("krotov-hopfield", "power 8", {"power": 8, "readout": "signs"}, short="power", about="A dense memory: every "
          "stored picture pulls with the eighth power of its likeness, so that the nearest one wins."),
    Shown("demircigil", "exponential", {"readout": "signs"}, short="exponential", about="Pictures pull with the "
          "exponential of their likeness: as steep as an energy of pixels gets."),
    Shown("modern-hopfield", "attention, iterated", {"beta": 32.0}, short="modern", about="Every step is softmax "
          "attention over the stored pictures (β = 32), and all pixels move at once; drawn is the sign of each."),
)  # fmt: skip
"""Those that clean a spoilt letter on the page, from the oldest on."""
TABLES = (
    Shown("product-key", "product keys", {"sub_keys": 16, "heads": 1}, about="A key's two halves choose among 16 "
          "sub-keys each: 256 slots, found by looking at 32."),
    Shown("ultramem", "UltraMem", {"sub_keys": 16}, about="Sub-keys of two parts, joined by a learned core, here a "
          "drawn one; the slots are shuffled."),
    Shown("peer", "PEER", {"sub_keys": 16, "heads": 1}, about="Each slot is a neuron, found by product keys."),
)  # fmt: skip
"""Those of the page's tables of slots: 256 each."""
