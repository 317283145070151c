"""Trained networks: a checkpoint or a live model -> attention heads, MLPs and embeddings as arrays."""

from assocmem.models.architectures import ARCHITECTURES, Architecture
from assocmem.models.checkpoint import Checkpoint, open_checkpoint
from assocmem.models.layers import AttentionLayer, Embedding, MLPLayer, Norm
from assocmem.models.network import Network, open_network

__all__ = [
    "ARCHITECTURES",
    "Architecture",
    "AttentionLayer",
    "Checkpoint",
    "Embedding",
    "MLPLayer",
    "Network",
    "Norm",
    "open_checkpoint",
    "open_network",
]
