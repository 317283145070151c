# Written by docs/generate.py from what stores declare.
from collections.abc import Sequence
from typing import Literal, TypedDict

from assocmem.maps.activations import Activation, Sharpness
from assocmem.maps.features import FeatureMap

class AllSettings(TypedDict, total=False):
    activation: Activation | Literal["exp", "exp-series", "gelu", "linear", "relu", "swiglu", "swish"] | float
    base_rate: float | None
    beta: float | None
    bias: bool | float | None
    block: int
    blocks: int
    chunk: int
    cores: int
    count: Literal["stored", "visible"]
    decay: float
    depth: int
    expansion: int
    feature: FeatureMap | Literal["dpfp", "elu", "exp-series", "identity", "relu"]
    forgetting: float
    form: Literal["dual", "primal"]
    function: Literal["constant", "linear", "local-linear"]
    gate: Literal["none", "own", "shared", "silu", "softmax"]
    heads: int
    hidden_init_std: float | None
    init_std: float
    k: int
    kernel: Literal["linear", "rbf"]
    layer: int
    layers: int
    locations: int | None
    longest: int
    loss: Literal["given", "squared"]
    max_features: int
    max_steps: int
    mini_batch: int
    momentum: float
    norm: bool
    nu: int
    optimiser: Literal["exact", "first-step", "online"]
    persistent: int
    power: float | int
    radius: int | None
    rank: int
    rate: float
    rates: Sequence[float] | float | None
    read: Literal["features", "pairs"]
    readout: Literal["outer", "signs", "sums", "whitened"]
    rectified: bool
    reference: float
    residual: bool
    ridge: float
    rows: int
    rule: Literal["hebbian", "pseudo-inverse", "storkey"]
    s: float
    scale: float | None
    seed: int
    selection: Literal["grid", "rank-1"]
    sharpness: Literal["constant", "log-n", "qwen", "ssmax", "yarn"] | Sharpness | float
    solver: Literal["cg", "direct", "rls"]
    step: Sequence[float] | float
    steps: int
    strength: float
    sub_keys: int
    sum_normalise: bool
    tanh: bool
    terms: int
    tolerance: float | None
    updates: Literal["asynchronous", "synchronous"]
    vocabulary: int
    weight_decay: float
    weights: Literal["score", "softmax"]
    width: int | None
    window: int
