"""Editors: facts put into, changed in, or taken out of a memory that is there, which stays as it was."""

from assocmem.editors.matrix import (
    MEMIT,
    ROME,
    DeltaStep,
    MatrixEditor,
    Unlearn,
    second_moment,
)
from assocmem.editors.rebuild import swap_mlp
from assocmem.editors.slots import SparseFinetuning, access_counts

__all__ = [
    "MEMIT", "ROME", "DeltaStep", "MatrixEditor", "SparseFinetuning", "Unlearn", "access_counts", "second_moment",
    "swap_mlp",
]  # fmt: skip
