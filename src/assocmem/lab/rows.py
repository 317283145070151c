"""Tidy rows: one measured ratio a row, with its interval, its theory and what it takes to repeat it."""

from __future__ import annotations

from assocmem.contract.estimate import Estimate, Prediction
from assocmem.contract.results import Row
from assocmem.lab.labelled import Subject

DEFINITIONS = {
    "experiment": "the figure or table that the row belongs to",
    "store": "the store's key, or the class of one that has none",
    "label": "the store with its settings, as a chart names it",
    "d_k": "width of keys and queries",
    "d_v": "width of the values, null where only similarities are drawn",
    "n_memories": "M, stored pairs, counting the target",
    "cosine": "between a query and the stored key that it asks for",
    "beta": "sharpness on unit keys, where the store has one",
    "sampler": "keys: keys and values are drawn, written and recalled. similarities: the similarities of independent "
    "random unit keys are drawn exactly and σ is applied; tilted: by importance sampling",
    "statistic": "of the ratio over trials: rms, mean or median",
    "estimator": "weights: sqrt(sum over i != j of A_ij^2)/|A_jj|; vectors: ||f(k_j) - A_jj v_j||/(|A_jj| ||v_j||); "
    "projection: the same with the least-squares coefficient of f(k_j) on v_j in place of A_jj",
    "value": "interference-to-signal ratio, a dimensionless amplitude ratio",
    "low": "lower end of the 95 % interval over trials, null where there is none",
    "high": "upper end of the 95 % interval over trials, null where there is none",
    "n_trials": "independent trials behind the value",
    "seed": "of the random streams",
    "theory": "the rms ratio that theory gives by weights, null where there is none",
    "theory_source": "what theory rests on",
    "reason": "why there is no value or no interval, empty where there is",
    "article": "the article's number, null where it prints none",
}


def ratio_row(
    one: Subject,
    estimate: Estimate,
    *,
    experiment: str,
    d_k: int,
    d_v: int | None,
    n_memories: int,
    cosine: float,
    estimator: str,
    prediction: Prediction | None,
) -> Row:
    """Return one row of a curve; the columns are explained in DEFINITIONS."""
    return {
        "experiment": experiment,
        "store": one.key,
        "label": one.label,
        "d_k": d_k,
        "d_v": d_v,
        "n_memories": n_memories,
        "cosine": cosine,
        "beta": one.beta(d_k, n_memories),
        "sampler": estimate.sampler,
        "statistic": estimate.statistic,
        "estimator": estimator,
        "value": estimate.value,
        "low": estimate.low,
        "high": estimate.high,
        "n_trials": estimate.n_trials,
        "seed": estimate.seed,
        "theory": None if prediction is None else prediction.value,
        "theory_source": None if prediction is None else prediction.source,
        "reason": estimate.reason,
    }
