"""What the two forms of a linear layer trained by gradient descent share: settings, traits, the bound of the rate."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Literal

import numpy as np

from assocmem.contract import arrays as ar
from assocmem.contract.arrays import Array
from assocmem.contract.form import Momentum
from assocmem.contract.requirement import is_number, require
from assocmem.contract.state import State
from assocmem.contract.store import Store
from assocmem.contract.traits import Overwrite, Traits
from assocmem.kernels.momentum import stable_rate
from assocmem.kernels.stability import warn_unstable

_TOLERANCE = 1e-5
ADVICE = "Lower `rate` or `momentum`, or scale the keys to unit length."


@dataclass(frozen=True)
class Descent(Store):
    """Settings that both forms share: the optimiser of torch.optim.SGD on one pair a step, from W = 0."""

    rate: float = 1.0
    momentum: float = 0.0
    weight_decay: float = 0.0
    loss: Literal["squared", "given"] = "squared"

    def __post_init__(self) -> None:
        require(is_number(self.rate) and self.rate > 0, "rate", self, "a finite number > 0", self.rate)
        fits = is_number(self.momentum) and 0 <= self.momentum < 1
        require(fits, "momentum", self, "a number in [0, 1)", self.momentum)
        fits = is_number(self.weight_decay) and self.weight_decay >= 0
        require(fits, "weight_decay", self, "a finite number >= 0", self.weight_decay)
        require(self.loss in ("squared", "given"), "loss", self, "'squared' or 'given'", self.loss)
        words = "such that rate times weight_decay is at most 2 (1 + momentum), or the weights grow by themselves"
        require(self.pull <= 2 * (1 + self.momentum), "rate", self, words, self.rate)

    @property
    def pull(self) -> float:
        """Rate times weight decay."""
        return self.rate * self.weight_decay

    def form(self, d_k: int) -> Momentum | None:
        """Return the rule of training; None with weight decay or another loss than the squared error."""
        plain = self.weight_decay == 0 and self.loss == "squared"
        return Momentum(float(self.rate), float(self.momentum)) if plain else None

    @abstractmethod
    def layer(self, state: State) -> Array:
        """Return the layer's weights W (*batch, d_v, d_k)."""

    def descent_traits(self, *, keeps_pairs: bool) -> Traits:
        """Return the traits that these settings of descent have, whether or not the store keeps its pairs."""
        still = self.momentum == 0 and self.weight_decay == 0
        overwrite: Overwrite = "mixes" if self.momentum else "decays"
        if still and self.loss == "given":
            overwrite = "adds"
        elif still and self.rate == 1:
            overwrite = "replaces"
        return Traits(
            linear_in_values="shared",
            permutation_invariant=still and self.loss == "given",
            overwrite=overwrite,
            constant_size=not keeps_pairs,
            keeps_pairs=keeps_pairs,
        )

    def warn_where_unstable(self, state: State, keys: Array) -> None:
        """Hold rate (|x|^2 + weight decay) to the bound of a repeated input, and its mean to that of random ones."""
        if self.loss == "given":
            return
        squares = self.rate * ar.to_numpy(state.xp.sum(keys * keys, axis=-1)) + self.pull
        momentum, none = np.asarray(float(self.momentum)), np.asarray(0.0)
        cases = (
            (float(squares.max(initial=0.0)), float(stable_rate(1, momentum, none))),
            (float(squares.mean(axis=-1).max(initial=0.0)), float(stable_rate(state.d_k, momentum, none))),
        )
        largest, bound = max(cases, key=lambda case: case[0] / case[1])
        if largest > bound * (1 + _TOLERANCE):
            what = "rate times (squared input length + weight decay)"
            warn_unstable(self, what, largest, bound, ADVICE)
