"""The k nearest keys alone, found by the slots that hold the pairs: a recall with sparse weights.

assocmem check nearest_keys:NearestKeys
assocmem capacity nearest_keys:NearestKeys --d-k 16 --set beta=4
"""

from dataclasses import dataclass

from assocmem import Capabilities, Recall, Store, Traits
from assocmem.contract.recall import TopK


@dataclass(frozen=True)
class NearestKeys(Store):
    """f(x) = sum over the k keys most similar to x of softmax(beta k_i.x) v_i; of equal ones the first stored."""

    k: int = 8
    beta: float = 4.0
    traits = Traits(
        linear_in_values="shared", permutation_invariant=False, overwrite="averages", constant_size=False,
        keeps_pairs=True,
    )  # fmt: skip
    capabilities = Capabilities(gives=("weights",), selects=True, merges="appends")

    def get(self, state, queries, ask):
        xp = state.xp
        ids, similarities = state.slots.search(queries, min(self.k, state.n))  # (..., m, k), best first
        weights = xp.exp(self.beta * (similarities - similarities[..., :1]))
        weights = weights / xp.sum(weights, axis=-1, keepdims=True)
        values = xp.sum(weights[..., None] * state.slots.take("values", ids), axis=-2)
        return Recall(values, TopK(ids, weights))
