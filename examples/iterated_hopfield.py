"""A recall in steps: the query moves among the stored keys until it rests (Ramsauer 2020, arXiv:2008.02217).

assocmem check iterated_hopfield:IteratedHopfield
assocmem capacity iterated_hopfield:IteratedHopfield --d-k 16 --statistic median
"""

from dataclasses import dataclass

from assocmem import Capabilities, Recall, Store, Traits
from assocmem.contract.recall import Dense, Outcome, Trace
from assocmem.contract.traits import Option


@dataclass(frozen=True)
class IteratedHopfield(Store):
    """x <- K^T softmax(beta K x), `steps` times or until it moves less than 1e-6; then softmax(beta K x) V.

    It keeps its pairs as they come, so that `get` alone is left to write. The energy is that of Ramsauer's equation 1.
    """

    beta: float = 8.0
    traits = Traits(
        linear_in_values="shared", permutation_invariant=True, overwrite="averages", constant_size=False,
        keeps_pairs=True, options=(Option("steps", "most steps of a recall", 3, low=0, high=100, whole=True),),
    )  # fmt: skip
    capabilities = Capabilities(gives=("weights", "trace"))

    def get(self, state, queries, ask):
        xp, keys, x = state.xp, state["keys"], queries

        def softmax(x):
            logits = self.beta * (x @ keys.mT)
            top = xp.max(logits, axis=-1, keepdims=True) if state.n else 0 * xp.sum(x, axis=-1, keepdims=True)
            weights = xp.exp(logits - top)
            total = xp.sum(weights, axis=-1, keepdims=True) + (state.n == 0)
            energy = xp.sum(x * x, axis=-1) / 2 - (top + xp.log(total))[..., 0] / self.beta
            return weights / total, energy

        weights, energy = softmax(x)
        energies, taken, resting = [energy], xp.astype(0 * energy, xp.int64), energy != energy
        for _ in range(ask.options["steps"]):
            if bool(xp.all(resting)):
                break
            moved = xp.where(resting[..., None], x, weights @ keys)
            taken = taken + xp.astype(~resting, xp.int64)
            resting, x = xp.sum((moved - x) ** 2, axis=-1) < 1e-12, moved
            weights, energy = softmax(x)
            energies.append(energy)
        outcome = xp.where(resting, int(Outcome.FIXED_POINT) + 0 * taken, int(Outcome.STEP_LIMIT) + 0 * taken)
        trace = Trace(taken, outcome, xp.stack(energies, axis=-1))
        return Recall(weights @ state["values"], Dense(weights), trace=trace)
