"""What theory says of a store whose pairs were written in an order: the formula that fits it, or none with a reason."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from assocmem import theory
from assocmem.contract.estimate import Prediction
from assocmem.contract.store import Store
from assocmem.kernels.momentum import stable_rate
from assocmem.lab.labelled import Subject, Subjectlike, subject
from assocmem.maps.activations import Linear
from assocmem.maps.features import Identity
from assocmem.stores.delta import DeltaNet, GatedDeltaNet
from assocmem.stores.gradient_descent import GradientDescent, TrainedLayer
from assocmem.stores.linear_attention import LinearAttention
from assocmem.stores.mamba import Mamba, Mamba2
from assocmem.stores.optimal import OptimalLinear
from assocmem.stores.softmax import SoftmaxAttention
from assocmem.stores.titans import Titans
from assocmem.stores.ttt import TTTLinear
from assocmem.theory.decay import SIGNAL

LEFT = "old value left"


def predicted_signal(store: Subjectlike, d_k: int, age: int, *, d_v: int = 64) -> Prediction:
    """Return the rms weight of the pair written `age` pairs ago over that of the newest one, for random unit keys.

    Parameters: store, a key, Store or (label, Store); d_k; d_v, of which only Mamba's steps depend. Exact where it is
    not None.

    >>> predicted_signal("outer-product", 64, 100).value
    1.0
    """
    one = subject(store)
    decay, delta, pushed = _decay(one, d_k), _delta(one.store), _pushed(one.store, d_k)
    if decay is not None:
        return theory.fading_signal(age, decay)
    if delta is not None:
        return theory.delta_signal(d_k, age, strength=delta[0], decay=delta[1])
    if pushed is not None:
        return theory.momentum_signal(d_k, age, step=pushed[0], momentum=pushed[1], forgetting=pushed[2])
    if isinstance(one.store, Mamba):
        rates = np.broadcast_to(-np.arange(1.0, d_k + 1) if one.store.rates is None else one.store.rates, (d_k,))
        steps = one.store.resolved(one.store.empty(d_k, d_v), np.zeros((1, d_k)), {})["step"][0]
        return theory.channel_signal(list(rates), list(steps), age)
    return theory.none(SIGNAL, f"there is no formula for what {one.label} keeps of older pairs")


def predicted_age_ratio(store: Subjectlike, d_k: int, n_memories: int, age: int) -> Prediction:
    """Return what theory says of the ratio of the pair written `age` pairs ago among M, for random unit keys.

    Parameters as in `predicted_signal`. The root mean square where the signal is the same in every trial; elsewhere
    root mean square interference over root mean square signal (see its `statistic`).

    >>> predicted_age_ratio("outer-product", 64, 65, 3).value
    1.0
    """
    one = subject(store)
    decay, delta, pushed = _decay(one, d_k), _delta(one.store), _pushed(one.store, d_k)
    if decay is not None:
        return theory.fading_ratio(d_k, n_memories, age, decay)
    if delta is not None:
        return theory.delta_ratio(d_k, n_memories, age, strength=delta[0], decay=delta[1])
    if pushed is not None:
        return theory.momentum_ratio(d_k, n_memories, age, step=pushed[0], momentum=pushed[1], forgetting=pushed[2])
    return theory.none("ratio", f"there is no formula for the ratio of {one.label} by age")


def predicted_left(store: Subjectlike, d_k: int, n_memories: int, rewritten: int) -> Prediction:
    """Return what theory says is left of an old value's weight after `rewritten` of M keys were written once more.

    The same in every trial, so its median too. Known for matrices that only add and decay; for least squares of
    independent keys, which takes the mean of both values; for the delta rule and weighted means with a lone key.

    >>> predicted_left("outer-product", 64, 10, 5).value, predicted_left("optimal-linear", 64, 10, 5).value
    (1.0, 0.5)
    """
    one = subject(store)
    decay, delta = _decay(one, d_k), _delta(one.store)
    if decay is not None:
        return replace(theory.fading_signal(rewritten, decay), quantity=LEFT, statistic="median")
    lone = "the key itself is the only one"
    if isinstance(one.store, OptimalLinear) and one.store.ridge == 0 and n_memories <= d_k:
        return _exact(0.5, "least squares of independent keys takes the mean of equal keys' values")
    if delta is not None and n_memories == 1:
        return _exact(abs(1 - delta[0]) * delta[1], lone)
    averaging = isinstance(one.store, SoftmaxAttention) or (
        isinstance(one.store, LinearAttention) and one.store.normalise
    )
    if averaging and n_memories == 1:
        return _exact(0.5, lone)
    return theory.none(LEFT, f"there is no formula for {one.label} with other keys written in between")


def _exact(value: float, source: str) -> Prediction:
    return Prediction(LEFT, value, "median", "unit keys", source, math.log(value) if value else -math.inf)


def _decay(one: Subject, d_k: int) -> float | None:
    """Return the decay of a matrix that pairs of one weight are added to, None for another rule."""
    if isinstance(one.store, Mamba2):
        return float(one.store.decay) if one.store.step > 0 else None
    similarity = one.store.similarity(d_k, 2)
    plain = similarity is not None and isinstance(similarity.sigma, Linear) and not similarity.normalised
    return 1.0 if plain and one.store.traits.permutation_invariant else None


def _delta(store: Store) -> tuple[float, float] | None:
    """Return strength and decay of a delta rule on the keys themselves."""
    if isinstance(store, GatedDeltaNet):
        return float(store.strength), float(store.decay)
    if isinstance(store, DeltaNet):
        return (float(store.strength), 1.0) if isinstance(store.feature, Identity) else None
    if isinstance(store, TTTLinear):
        plain = store.mini_batch == 1 and not (store.bias or store.norm or store.residual or store.init)
        step = 1.0 if store.base_rate is None else float(store.base_rate)
        return (step, 1.0) if plain and step <= 2 else None
    return None


def _pushed(store: Store, d_k: int) -> tuple[float, float, float] | None:
    """Return step, momentum and forgetting of a linear memory trained pair by pair."""
    if isinstance(store, Titans) and store.depth == 1:
        e, forgetting = float(store.momentum), float(store.forgetting)
        safe = 0.5 * float(stable_rate(d_k, np.asarray(e), np.asarray(forgetting)))
        return (safe if store.base_rate is None else 2 * store.base_rate), e, forgetting
    if isinstance(store, GradientDescent | TrainedLayer):
        plain = store.weight_decay == 0 and store.loss == "squared"
        return (store.rate, store.momentum, 0.0) if plain else None
    return None
