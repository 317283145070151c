"""How recall depends on the pairs, as data: what theory reads of a store."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Similarity:
    """Recall in the form V^T σ(K x), divided by the sum of the weights where `normalised`.

    The divisor is common to all memories, so it cancels in the interference-to-signal ratio.
    """

    sigma: Any
    normalised: bool = False
