"""Test-time training: the memory is a small model, and writing is gradient descent on it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated

from assocmem.contract.arrays import Array
from assocmem.contract.cost import D_K, D_V, Cost
from assocmem.contract.form import DeltaRule
from assocmem.contract.register import register
from assocmem.contract.settings import COUNT, NOT_NEGATIVE, Help
from assocmem.contract.state import State
from assocmem.contract.traits import Source, Traits
from assocmem.kernels.inner_model import InnerModel
from assocmem.kernels.inner_training import RATE, InnerTraining


@dataclass(frozen=True)
class TTTLinear(InnerTraining):
    """f(k) = [LN](W k [+ b]), trained on 1/2 |f(k) - v|^2 while pairs are written; recall is f(q).

    W_t = W_0 - step_t sum_{s <= t} rate_s (f(k_s) - v_s) k_s^T inside each mini-batch, all f(k_s) at its starting W_0.
    Mini-batches of 1 are the delta rule; one over all pairs, from W = 0 with base_rate=1, is the outer product store.

    Notes
    -----
    Extra: rate (..., n) >= 0, the learning-rate gate of each pair.

    State: W (d_v, d_k) [and b], and mini_batch - 1 rows of d_k + d_v + 1 numbers for the open batch. Cost: write
    2 d_k d_v + mini_batch d_k, recall d_k d_v (+ mini_batch (d_k + d_v) while a batch is open).
    Warns (UnstableWarning) where base_rate times the batch's largest curvature exceeds 2; raises DivergedError.
    With norm nothing is announced: the output does not grow with W, and steps shrink as W grows.
    Source: Sun et al. 2024, their η_t grad -> step_t rate_s grad; W_0, LayerNorm and residual as in their layer.

    Examples
    --------
    >>> import numpy as np
    >>> store = TTTLinear()
    >>> state = store.write(store.empty(2, 1), np.eye(2), np.array([[3.0], [5.0]]))
    >>> store.recall(state, np.array([[0.0, 1.0]])).tolist()
    [[5.0]]
    """

    equation = "f(x) = W x, W <- W_0 - step sum_s rate_s grad 1/2 |f(k_s) - v_s|^2 per mini-batch"
    summary = "A linear model trained on the pairs by mini-batch gradient descent while they are written."
    source = Source(
        title="Learning to (Learn at Test Time): RNNs with Expressive Hidden States",
        authors="Sun, Yu and Li, Xinhao and Dalal, Karan and Xu, Jiarui and Vikram, Arjun and Zhang, Genghan and "
        "Dubois, Yann and Chen, Xinlei and Wang, Xiaolong and Koyejo, Sanmi and Hashimoto, Tatsunori and "
        "Guestrin, Carlos",
        year=2024,
        arxiv="2407.04620",
        equation="mini-batch TTT (section 2.4), W_t = W_{t'} - eta sum_{s=t'+1..t} grad l(W_{t'}; x_s); dual form of "
        "section 2.5",
        deviations=(
            "keys, values and queries come as they are: no learned projections, no learned LayerNorm gain or shift",
            "loss 1/2 |f(k) - v|^2 (the paper's without the 1/2 doubles the rate)",
            "by default no bias, LayerNorm or residual and W_0 = 0, so that any values are recalled",
            "base_rate=None takes a step of 1/L per batch in place of a tuned rate; the learned factor 1/t of the "
            "reference code on the t-th pair of a batch is left out",
        ),
    )

    def model(self, d_k: int) -> InnerModel:
        return InnerModel((), bias=self.bias, norm=self.norm, residual=self.residual)

    @property
    def cost(self) -> Cost:  # type: ignore[override]
        return Cost(2 * D_K * D_V + self.mini_batch * D_K, D_K * D_V, note="more while a mini-batch is open")

    @property
    def traits(self) -> Traits:
        """Linear in the values without LayerNorm; what a rewrite inside a mini-batch does depends on the settings."""
        affine = not self.norm and (self.residual or self.init_std != 0)
        return Traits(
            linear_in_values="no" if self.norm else "shared",
            permutation_invariant=False,
            overwrite=self.rewrite(),
            constant_size=True,
            affine=affine,
            extras=(RATE,),
            widths=self.widths,
        )

    def form(self, d_k: int) -> DeltaRule | None:
        """Return the delta rule: pair by pair, with nothing but the matrix, at a step that theory knows."""
        plain = self.mini_batch == 1 and not (self.bias or self.norm or self.residual or self.init_std)
        step = 1.0 if self.base_rate is None else float(self.base_rate)
        return DeltaRule(step) if plain and step <= 2 else None


@dataclass(frozen=True)
class TTTMLP(InnerTraining):
    """f(k) = [LN](W_2 g(W_1 k [+ b_1]) [+ b_2]), g = tanh-GELU, trained on 1/2 |f(k) - v|^2 while pairs are written.

    Each layer's weights move as in TTT-Linear: W_t = W_0 - step_t sum_{s <= t} rate_s error_s input_s^T, with errors
    and inputs of the pairs of the mini-batch at its starting weights. Recall is not linear in the values.

    The safe step (base_rate=None) is 1/L with L from a bound of the Gauss-Newton curvature, or less where both
    layers moving together would add more than the largest error (as with keys much shorter than 1). Biases are off
    by default: on unit keys their constant share in the gradients' overlap outweighs that of the keys.
    hidden_init_std=None gives unit keys the hidden activity that about 0.02 gives the paper's keys of length
    sqrt(d_k) = 8.

    Notes
    -----
    Extra: rate (..., n) >= 0, the learning-rate gate of each pair.

    State: W1 (expansion d_k, d_k), W2 (d_v, expansion d_k) [and b1, b2], and mini_batch - 1 rows of inputs and
    errors of both layers. Cost: with e = expansion and P = e d_k (d_k + d_v), 2 P + mini_batch e d_k per write and P
    per recall (+ mini_batch ((1 + 2e) d_k + d_v) while a batch is open).
    Warns (UnstableWarning) where base_rate times a lower bound of the curvature exceeds 2; raises DivergedError.

    Examples
    --------
    >>> import numpy as np
    >>> store = TTTMLP()
    >>> state = store.write(store.empty(8, 8), np.eye(8)[:2], np.eye(8)[2:4])
    >>> store.recall(state, np.eye(8)[:2]).argmax(axis=-1).tolist()
    [2, 3]
    """

    init_std: Annotated[
        float, NOT_NEGATIVE, Help("standard deviation of the last layer's starting weights (the paper: 0.02)")
    ] = 0.02
    hidden_init_std: Annotated[
        float | None, NOT_NEGATIVE, Help("standard deviation of the first layer's starting weights", none="1/sqrt(d_k)")
    ] = None
    expansion: Annotated[int, COUNT, Help("hidden units per key dimension")] = 4

    equation = "f(x) = W_2 gelu(W_1 x), W_l <- W_l0 - step sum_s rate_s grad 1/2 |f(k_s) - v_s|^2 per mini-batch"
    summary = "A two-layer MLP trained on the pairs by mini-batch gradient descent while they are written."
    source = replace(
        TTTLinear.source,
        deviations=(
            *TTTLinear.source.deviations[:2],
            "by default no biases, LayerNorm or residual, and W_1 ~ N(0, 1/d_k) for unit keys (the paper: 0.02)",
            *TTTLinear.source.deviations[3:],
        ),
    )

    def model(self, d_k: int) -> InnerModel:
        """Return the model with one hidden layer of expansion d_k units."""
        return InnerModel((self.expansion * d_k,), bias=self.bias, norm=self.norm, residual=self.residual)

    def start(self, state: State) -> dict[str, Array]:
        """Return the weights of a model that has learned nothing."""
        return self.model(state.d_k).drawn(state, self.init_std, self.seed, self.hidden_init_std)

    @property
    def cost(self) -> Cost:  # type: ignore[override]
        weights, hidden = self.expansion * D_K * (D_K + D_V), self.expansion * D_K
        return Cost(2 * weights + self.mini_batch * hidden, weights, note="more while a mini-batch is open")

    @property
    def traits(self) -> Traits:
        return Traits(
            linear_in_values="no",
            permutation_invariant=False,
            overwrite=self.rewrite(),
            constant_size=True,
            extras=(RATE,),
            widths=self.widths,
        )


register("ttt-linear", TTTLinear, label="TTT-Linear", colour="#A6761D")
register("ttt-mlp", TTTMLP, label="TTT-MLP", colour="#661100")
