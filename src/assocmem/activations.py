"""The activations σ of stores that recall V^T σ(K x)."""

from assocmem.maps.activations import GELU, Activation, Custom, Exp, ExpSeries, Linear, ReLU, SwiGLU, Swish

__all__ = ["GELU", "Activation", "Custom", "Exp", "ExpSeries", "Linear", "ReLU", "SwiGLU", "Swish"]
