"""The prediction: what a store's ratio and capacity are, before anything is measured.

A store is seen through its form alone (`contract.form`); each question is one function that answers by the form.
Exact for kernel sums V^T σ(K x) with independent uniform unit keys, at any width, also with a noisy query.
Approximations are labelled (`Prediction.exact` is False). Where there is no theory the answer is none, with a reason.
docs/theory.md derives every formula.
"""

from assocmem.theory import forgetting, kernel_sum, top_k  # noqa: F401 - they register their answers
from assocmem.theory.attractors import (
    CLASSICAL_LOAD,
    error_free_capacity,
    exponential_load,
    spherical_capacity,
    spherical_constant,
)
from assocmem.theory.design import Design, Requirement, best_sharpness, design, requirement
from assocmem.theory.gaussian import gaussian_capacity, gaussian_ratio
from assocmem.theory.key_laws import effective_ratio
from assocmem.theory.least_squares import optimal_rule
from assocmem.theory.moments import trial_deviation
from assocmem.theory.perceptron import BITS_PER_WEIGHT, separable_share
from assocmem.theory.questions import (
    capacity,
    old_value_left,
    ratio,
    ratio_by_age,
    retrieval_capacity,
    signal_by_age,
    steady_statistic,
)
from assocmem.theory.retrieval import best_retrieval_capacity, listwise_capacity
from assocmem.theory.signal_to_noise import code_retrieval, signal_to_noise

__all__ = [
    "BITS_PER_WEIGHT", "CLASSICAL_LOAD", "Design", "Requirement", "best_retrieval_capacity", "best_sharpness",
    "capacity", "code_retrieval", "design", "effective_ratio", "error_free_capacity", "exponential_load",
    "gaussian_capacity", "gaussian_ratio", "listwise_capacity", "old_value_left", "optimal_rule", "ratio",
    "ratio_by_age", "requirement", "retrieval_capacity", "separable_share", "signal_by_age", "signal_to_noise",
    "spherical_capacity", "spherical_constant", "steady_statistic", "trial_deviation",
]  # fmt: skip
