"""The prediction: what a store's ratio and capacity are, before anything is measured.

A store is seen through its form alone (`contract.form`), and one function answers each question for every form:
`ratio`, `capacity`, `requirement`, `signal_by_age`, `ratio_by_age`, `old_value_left`. Exact for kernel sums
V^T σ(K x) with independent uniform unit keys, at any width, also with a noisy query. Approximations are labelled
(`Prediction.exact` is False). Where there is no theory the answer is none, with a reason. docs/theory.md derives every
formula.
"""

from assocmem.theory import forgetting, kernel_sum, least_squares, softmax  # noqa: F401 - they register their answers
from assocmem.theory.answer import none
from assocmem.theory.design import Design, Requirement, best_sharpness, design, requirement
from assocmem.theory.gaussian import gaussian_capacity, gaussian_ratio
from assocmem.theory.key_laws import effective_ratio
from assocmem.theory.least_squares import optimal_rule
from assocmem.theory.questions import capacity, old_value_left, ratio, ratio_by_age, signal_by_age, steady_statistic
from assocmem.theory.retrieval import choice_capacity, listwise_capacity

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
    "listwise_capacity",
    "none",
    "old_value_left",
    "optimal_rule",
    "ratio",
    "ratio_by_age",
    "requirement",
    "signal_by_age",
    "steady_statistic",
]
