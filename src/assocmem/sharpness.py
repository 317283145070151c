"""The policies β(n) by which softmax attention grows sharper with the number of stored pairs."""

from assocmem.maps.activations import Constant, LogN, QwenLogN, ScalableSoftmax, Sharpness, YaRN

__all__ = ["Constant", "LogN", "QwenLogN", "ScalableSoftmax", "Sharpness", "YaRN"]
