# Written by docs/generate.py from what stores declare.
from collections.abc import Sequence
from typing import Literal, TypedDict

from assocmem.maps.activations import Sharpness
from assocmem.maps.features import FeatureMap

class AllSettings(TypedDict, total=False):
    base_rate: float | None
    beta: float | None
    bias: bool | float
    block: int
    chunk: int
    count: Literal["stored", "visible"]
    decay: float
    depth: int
    expansion: int
    feature: FeatureMap | Literal["dpfp", "elu", "exp-series", "identity", "relu"]
    forgetting: float
    form: Literal["dual", "primal"]
    function: Literal["constant", "linear", "local-linear"]
    gate: Literal["own", "shared"]
    hidden_init_std: float | None
    init_std: float
    loss: Literal["given", "squared"]
    max_features: int
    max_steps: int
    mini_batch: int
    momentum: float
    norm: bool
    nu: int
    optimiser: Literal["exact", "first-step", "online"]
    power: float
    rate: float
    rates: Sequence[float] | float | None
    read: Literal["features", "pairs"]
    readout: Literal["outer", "whitened"]
    reference: float
    residual: bool
    ridge: float
    s: float
    seed: int
    sharpness: Literal["constant", "log-n", "qwen", "ssmax", "yarn"] | Sharpness | float
    solver: Literal["cg", "direct", "rls"]
    step: Sequence[float] | float
    strength: float
    sum_normalise: bool
    tanh: bool
    terms: int
    tolerance: float | None
    weight_decay: float
    width: int | None
