"""A layer trained on the pairs by gradient descent, and a torch module that writes: each a store in one line.

assocmem check trained_memory:trained
assocmem capacity trained_memory:trained --d-k 16 --statistic median
assocmem capacity optimal-linear --d-k 16 --statistic median       what training to the end would reach
"""

from functools import partial

import torch
from torch import nn

from assocmem import module_store


class Layer(nn.Linear):
    """A linear layer without bias that begins at zero."""

    def __init__(self, d_k, d_v):
        super().__init__(d_k, d_v, bias=False)
        self.weight.data.zero_()


class FastWeights(nn.Module):
    """A module with a write and a recall of its own: fast weights that fade."""

    def __init__(self, d_k, d_v):
        super().__init__()
        self.register_buffer("W", torch.zeros(d_v, d_k))

    def write(self, keys, values):
        for k, v in zip(keys, values, strict=True):
            self.W = 0.99 * self.W + torch.outer(v, k)

    def recall(self, queries):
        return queries @ self.W.mT


trained = module_store(Layer, steps=12, optimiser=partial(torch.optim.SGD, momentum=0.5), rate=1.0)
written = module_store(FastWeights)
