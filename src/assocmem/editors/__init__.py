"""Editors: facts put into, changed in, or taken out of a memory that is there, which stays as it was."""

from assocmem.editors.facts import Fact, read_facts
from assocmem.editors.language_model import Edited, edit_facts
from assocmem.editors.matrix import (
    MEMIT,
    ROME,
    DeltaStep,
    MatrixEditor,
    Unlearn,
    second_moment,
)
from assocmem.editors.rebuild import swap_mlp
from assocmem.editors.sparse_finetuning import SparseFinetuning, access_counts

__all__ = [
    "MEMIT", "ROME", "DeltaStep", "Edited", "Fact", "MatrixEditor", "SparseFinetuning", "Unlearn", "access_counts",
    "edit_facts", "read_facts", "second_moment", "swap_mlp",
]  # fmt: skip
