"""The measurement: signal and interference, capacity, retrieval, information, geometry, estimates.

The checks of the store contract are in `assocmem.checks.contract`.
"""

from assocmem.ruler.capacity import Capacity, crossing, crossing_of_curve, growth
from assocmem.ruler.estimate import (
    definition_of,
    mean_interval,
    median_interval,
    per_trial_numbers,
    same_definition,
    share_interval,
    summarise,
    summarise_shares,
)
from assocmem.ruler.geometry import Geometry, key_geometry
from assocmem.ruler.given_rows import GivenRows
from assocmem.ruler.information import bits_per_recall, bits_per_state
from assocmem.ruler.patterns import Match, match
from assocmem.ruler.ratio import ESTIMATORS, by_channel_weights, by_projection, by_vectors, by_weights
from assocmem.ruler.retrieval import retrieval_capacity, retrieval_definition, top1_right
from assocmem.ruler.row_ratios import RowRatios, quantile
from assocmem.ruler.weights import own_weights, recall_weights, recall_with_own_weights
from assocmem.ruler.whitening import Preparation

__all__ = [
    "ESTIMATORS", "Capacity", "Geometry", "GivenRows", "Match", "Preparation", "RowRatios", "bits_per_recall",
    "bits_per_state", "by_channel_weights", "by_projection", "by_vectors", "by_weights", "crossing",
    "crossing_of_curve", "definition_of", "growth", "key_geometry", "match", "mean_interval", "median_interval",
    "own_weights", "per_trial_numbers", "quantile", "recall_weights", "recall_with_own_weights", "retrieval_capacity",
    "retrieval_definition", "same_definition", "share_interval", "summarise", "summarise_shares", "top1_right",
]  # fmt: skip
