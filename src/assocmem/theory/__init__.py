"""The prediction: what a store's ratio and capacity are, before anything is measured.

Exact for every store of the form V^T σ(K x) with independent uniform unit keys, at any width, also with a noisy
query. Approximations are labelled (`Prediction.exact` is False). Where there is no theory the answer is none, with a
reason. docs/theory.md derives every formula.
"""

from assocmem.theory.answer import none
from assocmem.theory.decay import (
    channel_signal,
    delta_ratio,
    delta_signal,
    fading_ratio,
    fading_signal,
)
from assocmem.theory.design import (
    Design,
    Requirement,
    best_sharpness,
    design,
    optimal_requirement,
    requirement,
)
from assocmem.theory.gaussian import gaussian_capacity, gaussian_ratio
from assocmem.theory.keylaws import effective_ratio, law_ratio
from assocmem.theory.momentum import momentum_ratio, momentum_signal
from assocmem.theory.optimal import optimal_capacity, optimal_ratio, optimal_rule
from assocmem.theory.retrieval import choice_capacity, listwise_capacity
from assocmem.theory.ridge import ridge_ratio
from assocmem.theory.similarity import capacity, ratio
from assocmem.theory.softmax import softmax_capacity, softmax_ratio

__all__ = [
    "Design",
    "Requirement",
    "best_sharpness",
    "capacity",
    "channel_signal",
    "choice_capacity",
    "delta_ratio",
    "delta_signal",
    "design",
    "effective_ratio",
    "fading_ratio",
    "fading_signal",
    "gaussian_capacity",
    "gaussian_ratio",
    "law_ratio",
    "listwise_capacity",
    "momentum_ratio",
    "momentum_signal",
    "none",
    "optimal_capacity",
    "optimal_ratio",
    "optimal_requirement",
    "optimal_rule",
    "ratio",
    "requirement",
    "ridge_ratio",
    "softmax_capacity",
    "softmax_ratio",
]
