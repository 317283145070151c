"""The prediction: what a store's ratio and capacity are, before anything is measured.

Exact for every store of the form V^T σ(K x) with independent uniform unit keys, at any width, also with a noisy
query. Approximations are labelled (`Prediction.exact` is False). Where there is no theory the answer is none, with a
reason. docs/theory.md derives every formula.
"""

from assocmem.theory.answer import none
from assocmem.theory.choice import choice_capacity, listwise_capacity
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
from assocmem.theory.optimal import optimal_capacity, optimal_ratio, optimal_rule
from assocmem.theory.ridge import ridge_ratio
from assocmem.theory.similarity import capacity, ratio
from assocmem.theory.softmax import softmax_capacity, softmax_ratio

__all__ = [
    "Design",
    "Requirement",
    "best_sharpness",
    "capacity",
    "choice_capacity",
    "design",
    "effective_ratio",
    "gaussian_capacity",
    "gaussian_ratio",
    "law_ratio",
    "listwise_capacity",
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
