"""What theory says of a store's ratio and capacity: the one place that finds the formula that fits a store."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from assocmem import theory
from assocmem.contract.estimate import Prediction, Statistic
from assocmem.inputs import Law, key_law
from assocmem.lab.labelled import subject
from assocmem.maps.sharpness import Sharpness
from assocmem.stores.optimal import OptimalLinear
from assocmem.theory.keylaws import LAWS


def predicted_ratio(
    store: Any,
    d_k: int,
    n_memories: float,
    *,
    cosine: float = 1.0,
    law: str | Law = "sphere",
    statistic: Statistic = "rms",
) -> Prediction:
    """Return what theory says of the ratio at M = n_memories, or none with a reason.

    Parameters: store, a key, Store or (label, Store); d_k; n_memories >= 1; cosine of query and stored key; law of
    the keys; statistic over trials. Exact in the root mean square for the sphere's law and stores of the form
    V^T σ(K x); the optimal store's over unit keys is a labelled approximation.

    >>> predicted_ratio("outer-product", 64, 65).value
    1.0
    """
    one, keys = subject(store), key_law(law)
    sigma = one.sigma(d_k, max(1, round(n_memories)))
    if sigma is not None:
        if statistic != "rms":
            return theory.none("ratio", f"theory gives the root mean square, not the {statistic}", statistic=statistic)
        if keys.name not in LAWS:
            return theory.none("ratio", f"there is no formula for keys by the law {keys.name!r}")
        return theory.law_ratio(keys.name, sigma, d_k, n_memories, cosine=cosine, **_settings(keys))
    if isinstance(one.store, OptimalLinear) and keys.name in ("sphere", "gaussian"):
        plain = cosine == 1 and one.store.ridge == 0
        if not plain and statistic != "rms":
            return theory.none("ratio", "noisy queries and ridges have theory for the rms alone", statistic=statistic)
        settings: Any = {"law": keys.name, "statistic": statistic, "cosine": cosine, "ridge": one.store.ridge}
        return theory.optimal_ratio(d_k, n_memories, **settings)
    return theory.none(
        "ratio", f"there is no formula for {one.label} and keys by the law {keys.name!r}", statistic=statistic
    )


def predicted_capacity(
    store: Any, d_k: int, *, ratio: float = 1.0, cosine: float = 1.0, statistic: Statistic = "rms"
) -> Prediction:
    """Return the M (a float, counting the target) at which theory puts the ratio at `ratio`, or none with a reason.

    Parameters: store, a key, Store or (label, Store); d_k; ratio > 0; cosine of query and stored key; statistic over
    trials. Exact for random unit keys and stores of the form V^T σ(K x); the optimal store's is a labelled
    approximation.

    >>> round(predicted_capacity("outer-product", 64).value, 9)
    65.0
    """
    one = subject(store)
    policies = [value for value in one.store.settings().values() if isinstance(value, Sharpness)]
    sigma = one.sigma(d_k, 1)
    if sigma is not None and statistic != "rms":
        return theory.none("capacity", f"theory gives the root mean square, not the {statistic}", statistic=statistic)
    if sigma is not None and policies:
        return theory.softmax_capacity(policies[0], d_k, ratio=ratio, cosine=cosine)
    if sigma is not None:
        return theory.capacity(sigma, d_k, ratio=ratio, cosine=cosine)
    if isinstance(one.store, OptimalLinear):
        if one.store.ridge:
            return theory.none(
                "capacity", "least squares with a ridge has a formula for its ratio, none for its capacity"
            )
        if abs(cosine) != 1 and statistic != "rms":
            return theory.none("capacity", "noisy queries have theory for the rms alone", statistic=statistic)
        return theory.optimal_capacity(d_k, ratio=ratio, law="sphere", statistic=statistic, cosine=cosine)
    return theory.none("capacity", f"there is no formula for {one.label}")


def _settings(law: Law) -> dict[str, Any]:
    return {f.name: getattr(law, f.name) for f in fields(law)}
