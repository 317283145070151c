"""What the page's controls offer: one list for the live server, the static site and the single file."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache

from assocmem.contract.errors import UnknownNameError
from assocmem.contract.store import Store
from assocmem.stores import make_store

MEMORIES = 1024
"""The largest number of memories that the bars and the opening picture reach."""

COUNTS = (
    *(2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 24, 32, 40, 48, 64, 80, 96),
    *(128, 160, 192, 256, 320, 384, 512, 640, 768, 1024),
)
"""The numbers of memories that the slider steps through."""

BETAS = (
    *(0.5, 0.75, 1.0, 1.25, 1.5, 1.75, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5),
    *(5.0, 5.5, 6.0, 7.0, 8.0, 9.0, 10.0, 11.0, 12.0, 13.0, 14.0, 16.0),
)
COSINES = (1.0, 0.9, 0.8, 0.65, 0.5)
WIDTHS = (16, 32, 64, 128)
DRAWS = 2
LIVE_DRAWS = 100
REFERENCES = (256, 512, 1024, 2048, 4096, 8192)
LETTERS = ("A", "g", "&", "Ω")
PICTURES = ("outer", "optimal", "relu", "squared", "cubed", "softmax")
"""The stores of the opening picture: a short walk from a matrix to attention."""


@dataclass(frozen=True)
class Choice:
    """A store that the page lets people choose: its id in addresses, the words on its button, how it is made."""

    id: str
    label: str
    key: str
    settings: tuple[tuple[str, float | int], ...] = ()
    sharp: bool = False

    def store(self, beta: float) -> Store:
        """Return the store, at sharpness `beta` where it has one."""
        settings = dict(self.settings)
        if self.sharp:
            settings["beta"] = beta
        return make_store(self.key, **settings)


CHOICES = (
    Choice("outer", "outer product", "outer-product"),
    Choice("optimal", "optimal linear", "optimal-linear"),
    Choice("relu", "ReLU", "relu"),
    Choice("squared", "squared ReLU", "squared-relu"),
    Choice("swiglu", "SwiGLU", "swiglu"),
    Choice("cubed", "cubed ReLU", "cubed-relu"),
    Choice("exp2", "exp, 2 terms", "exp-series", (("terms", 2),), sharp=True),
    Choice("exp3", "exp, 3 terms", "exp-series", (("terms", 3),), sharp=True),
    Choice("exp4", "exp, 4 terms", "exp-series", (("terms", 4),), sharp=True),
    Choice("softmax", "softmax", "softmax", sharp=True),
)


@cache
def _by_id() -> dict[str, Choice]:
    return {choice.id: choice for choice in CHOICES}


def choice(name: str) -> Choice:
    """Return the choice called `name`; UnknownNameError names all of them."""
    if name not in _by_id():
        raise UnknownNameError(f"there is no store {name!r} on the page; it offers {', '.join(_by_id())}.")
    return _by_id()[name]


def rounded(values: object, digits: int = 5) -> list[float]:
    """Return numbers rounded to `digits` significant digits, as short JSON; what isn't finite is refused."""
    import numpy as np

    array = np.asarray(values, dtype=np.float64).ravel()
    if not np.isfinite(array).all():
        raise ValueError("page data must be finite.")
    return [_short(x, digits) for x in array.tolist()]


def _short(x: float, digits: int) -> float:
    if abs(x) < 1e-300:
        return 0
    places = digits - 1 - math.floor(math.log10(abs(x)))
    value = round(x, places) if places < 300 else x
    return int(value) if value == int(value) and abs(value) < 1e15 else value
