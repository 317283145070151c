"""What the two forms of a linear layer trained by gradient descent share: settings, traits, the bound of the rate."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np
from annotated_types import Interval

from assocmem.contract import arrays as ar
from assocmem.contract.arrays import Array
from assocmem.contract.errors import InputError
from assocmem.contract.form import Momentum
from assocmem.contract.settings import NOT_NEGATIVE, POSITIVE, Help
from assocmem.contract.state import State
from assocmem.contract.store import Store
from assocmem.contract.traits import Overwrite, Traits
from assocmem.kernels.momentum import stable_rate
from assocmem.kernels.stability import warn_unstable

_TOLERANCE = 1e-5
ADVICE = "Lower `rate` or `momentum`, or scale the keys to unit length."


@dataclass(frozen=True)
class Descent(Store):
    """Settings that both forms share: the optimiser of torch.optim.SGD on one pair a step, from W = 0.

    The squared loss's gradient is taken at the layer's own output; given ones, -dL/dy, are worked out by the caller
    from `recall`.
    """

    rate: Annotated[float, POSITIVE, Help("step", unit="1/|x|^2")] = 1.0
    momentum: Annotated[float, Interval(ge=0, lt=1), Help("share of the last step that goes on")] = 0.0
    weight_decay: Annotated[
        float, NOT_NEGATIVE, Help("pull of the weights towards 0 inside the gradient, as in torch.optim.SGD")
    ] = 0.0
    loss: Annotated[
        Literal["squared", "given"], Help("1/2 |W x - v|^2, or given: the values are minus the gradients of any loss")
    ] = "squared"

    def check_together(self) -> None:
        """Refuse a weight decay that lets the weights grow by themselves."""
        if self.pull > 2 * (1 + self.momentum):
            raise InputError(
                f"`rate` of {self.name} must be such that rate times weight_decay is at most 2 (1 + momentum), or the "
                f"weights grow by themselves; got {self.rate!r}."
            )

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
