"""A store of your own in ten lines, one with a mistake, and a plain function: check and measure each of them.

From this folder:

    assocmem check my_store:Fading             keeps the contract
    assocmem check my_store:Careless           breaks it, and the report says where
    assocmem capacity my_store:Fading --d-k 64
    assocmem capacity my_store:nearest --d-k 64
"""

from dataclasses import dataclass

import numpy as np

from assocmem import Store, Traits


@dataclass(frozen=True)
class Fading(Store):
    """An outer product store whose memories lose a little of their strength at every write."""

    keep: float = 0.99
    traits = Traits(linear_in_values="shared", permutation_invariant=False, overwrite="decays", constant_size=True)

    def init(self, state):
        return {"W": state.zeros(state.d_v, state.d_k)}

    def put(self, state, keys, values):
        W = state["W"]
        for i in range(keys.shape[-2]):
            W = self.keep * W + values[..., i, :, None] * keys[..., i, None, :]
        return {"W": W}

    def get(self, state, queries, ask):
        return queries @ state["W"].mT


@dataclass(frozen=True)
class Careless(Fading):
    """The same with a mistake: it fades once per call of write instead of once per pair."""

    def put(self, state, keys, values):
        return {"W": self.keep * state["W"] + values.mT @ keys}


def nearest(keys, values, queries):
    """Recall the value whose key has the largest inner product with the query."""
    return values[np.argmax(queries @ keys.T, axis=-1)]
