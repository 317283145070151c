"""What theory says of a store's capacity: the one place that finds the formula that fits a store."""

from __future__ import annotations

from typing import Any

from assocmem import theory
from assocmem.core.sharpness import Sharpness
from assocmem.core.types import Prediction
from assocmem.lab.subject import subject


def predicted_capacity(store: Any, d_k: int, *, ratio: float = 1.0, cosine: float = 1.0) -> Prediction:
    """Return the M (a float, counting the target) at which theory puts the ratio at `ratio`, or none with a reason.

    Parameters: store, a key, Store or (label, Store); d_k; ratio > 0; cosine of query and stored key. Exact for
    random unit keys and stores of the form V^T σ(K x); the optimal store's is a labelled approximation.

    >>> round(predicted_capacity("outer-product", 64).value, 9)
    65.0
    """
    one = subject(store)
    policies = [value for value in one.store.settings().values() if isinstance(value, Sharpness)]
    if policies:
        return theory.softmax_capacity(policies[0], d_k, ratio=ratio, cosine=cosine)
    sigma = one.store.similarity(d_k, 1)
    if sigma is not None:
        return theory.capacity(sigma, d_k, ratio=ratio, cosine=cosine)
    if one.key == "optimal-linear":
        if cosine != 1:
            return theory.none("capacity", "there is no closed form for least squares asked with noisy queries")
        return theory.optimal_capacity(d_k, ratio=ratio, law="sphere")
    return theory.none("capacity", f"there is no formula for {one.label}; measure it with `assocmem capacity`")
