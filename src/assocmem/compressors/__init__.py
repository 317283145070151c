"""Smaller keys and values in place of an attention layer's cache: evicted, merged, matched or trained."""

from assocmem.compressors.attention_matching import AttentionMatching
from assocmem.compressors.cache import Cache, Compressed, Compressor
from assocmem.compressors.cartridges import Cartridge, self_study, train_cartridge
from assocmem.compressors.compare import compare, split
from assocmem.compressors.eviction import CaM, Evictor, HeavyHitters, KVzip, RandomRows, RecencyWindow, SinksAndWindow
from assocmem.compressors.gist import gist_mask

__all__ = [
    "AttentionMatching",
    "CaM",
    "Cache",
    "Cartridge",
    "Compressed",
    "Compressor",
    "Evictor",
    "HeavyHitters",
    "KVzip",
    "RandomRows",
    "RecencyWindow",
    "SinksAndWindow",
    "compare",
    "gist_mask",
    "self_study",
    "split",
    "train_cartridge",
]  # fmt: skip
