"""A matrix that forgets channel by channel and erases along the key it is written at, as RWKV-7 (arXiv:2503.14456).

assocmem check generalised_delta:GeneralisedDelta
assocmem capacity generalised_delta:GeneralisedDelta --d-k 16
assocmem capacity generalised_delta:GeneralisedDelta --d-k 16 --extra decay=0.99 --extra rate=0.5:1
"""

from dataclasses import dataclass

from assocmem import Extra, Store, Traits


@dataclass(frozen=True)
class GeneralisedDelta(Store):
    """S <- S (diag(w) - k (a * k)^T) + v k^T for unit keys k; a model works w and a out of its input, token by token.

    Both are extras of `write` without a default: measurements draw them uniformly from the range or the law declared
    here, unless told otherwise (`--extra`). The contract judges what a key written twice does at the upper end of the
    ranges: with w = a = 1 it is the delta rule, which replaces.
    """

    traits = Traits(
        linear_in_values="shared", permutation_invariant=False, overwrite="replaces", constant_size=True,
        extras=(
            Extra("decay", "factor w on each channel of the keys", ("n", "d_k"), low=0.5, high=1, law=(0.98, 1.0)),
            Extra("rate", "share a of what is recalled for the key that is erased", ("n", "d_k"), low=0, high=1),
        ),
    )  # fmt: skip

    def init(self, state):
        return {"S": state.zeros(state.d_v, state.d_k)}

    def put(self, state, keys, values, decay, rate):
        S = state["S"]
        for i in range(keys.shape[-2]):
            k, w, a = keys[..., i, None, :], decay[..., i, None, :], rate[..., i, None, :]
            S = S * w - (S @ k.mT) @ (a * k) + values[..., i, :, None] @ k
        return {"S": S}

    def get(self, state, queries, ask):
        return queries @ state["S"].mT
