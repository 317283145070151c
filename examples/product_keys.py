"""A table of values whose keys are all pairs of two short lists: product keys (Lample 2019, arXiv:1907.05242).

assocmem check product_keys:ProductKeys
assocmem capacity product_keys:ProductKeys --d-k 32
"""

from dataclasses import dataclass

import numpy as np

from assocmem import Store, Traits
from assocmem.contract.traits import Widths


@dataclass(frozen=True)
class ProductKeys(Store):
    """Each key addresses the k of side^2 slots whose two half keys are nearest to its halves; pairs add there."""

    side: int = 16
    k: int = 4
    traits = Traits(
        linear_in_values="shared", permutation_invariant=True, overwrite="adds", constant_size=True,
        widths=Widths(lambda d_k, _: d_k % 2 == 0, "even for keys", ((6, 4),)),
    )  # fmt: skip

    def init(self, state):
        return {"slots": state.zeros(self.side**2, state.d_v)}

    def address(self, state, keys):  # (..., n, d_k) -> (..., n, side^2), k of them not zero
        xp, half = state.xp, state.d_k // 2
        drawn = np.random.default_rng(0).standard_normal((2, self.side, half))  # a trained layer learns these
        first, second = (xp.asarray(rows, dtype=state.dtype, device=state.device) for rows in drawn)
        both = (keys[..., :half] @ first.mT)[..., :, None] + (keys[..., half:] @ second.mT)[..., None, :]
        scores = xp.reshape(both, (*keys.shape[:-1], self.side**2))
        least = xp.sort(scores, axis=-1)[..., -self.k, None]
        weights = xp.where(scores >= least, xp.exp(scores - xp.max(scores, axis=-1, keepdims=True)), 0 * scores)
        return weights / xp.sum(weights, axis=-1, keepdims=True)

    def put(self, state, keys, values):
        return {"slots": state["slots"] + self.address(state, keys).mT @ values}

    def get(self, state, queries, ask):
        return self.address(state, queries) @ state["slots"]
