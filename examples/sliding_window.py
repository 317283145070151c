"""The newest pairs exactly, all older ones in one matrix: a sliding window beside a linear state.

assocmem check sliding_window:SlidingWindow
assocmem capacity sliding_window:SlidingWindow --d-k 64 --set window=32
"""

from dataclasses import dataclass

from assocmem import Store, Traits


@dataclass(frozen=True)
class SlidingWindow(Store):
    """f(x) = softmax(beta K x) V over the newest pairs, plus W x of the pairs that have left the window."""

    window: int = 16
    beta: float = 8.0
    traits = Traits(linear_in_values="shared", permutation_invariant=False, overwrite="averages", constant_size=True)

    def init(self, state):
        w = self.window
        return {"W": state.zeros(state.d_v, state.d_k), "K": state.zeros(w, state.d_k), "V": state.zeros(w, state.d_v)}

    def put(self, state, keys, values):
        keys, values = (state.xp.concat(both, axis=-2) for both in ((state["K"], keys), (state["V"], values)))
        old, new = slice(None, -self.window), slice(-self.window, None)
        W = state["W"] + values[..., old, :].mT @ keys[..., old, :]  # rows that were still empty add nothing
        return {"W": W, "K": keys[..., new, :], "V": values[..., new, :]}

    def get(self, state, queries, ask):
        xp, w = state.xp, self.window
        filled = xp.arange(w, device=state.device) >= w - state.n  # the first rows are zeros until they are written
        logits = xp.where(filled, self.beta * (queries @ state["K"].mT), xp.asarray(-1e30, dtype=state.dtype))
        weights = xp.exp(logits - xp.max(logits, axis=-1, keepdims=True))
        return weights / xp.sum(weights, axis=-1, keepdims=True) @ state["V"] + queries @ state["W"].mT
