"""The activations σ of stores that recall V^T σ(K x)."""

from assocmem.maps.activations import (
    GELU,
    Activation,
    BallOverlap,
    Custom,
    Exp,
    ExpSeries,
    Linear,
    PowerStep,
    ReLU,
    SwiGLU,
    Swish,
)

__all__ = [
    "GELU", "Activation", "BallOverlap", "Custom", "Exp", "ExpSeries", "Linear", "PowerStep", "ReLU", "SwiGLU", "Swish",
]  # fmt: skip
