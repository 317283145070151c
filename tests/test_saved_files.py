"""Memories saved by earlier versions load and recall what they recalled then."""

import json
from pathlib import Path

import numpy as np
import pytest

from assocmem import Memory

FOLDER = Path(__file__).parent / "data" / "saved-0.1.0"
RECALLS = json.loads((FOLDER / "recalls.json").read_text())


@pytest.mark.parametrize("name", sorted(RECALLS))
def test_a_memory_saved_by_version_0_1_0_recalls_the_same(name):
    keys = np.random.default_rng(5).standard_normal((5, 6))
    keys /= np.linalg.norm(keys, axis=1, keepdims=True)
    memory = Memory.load(FOLDER / f"{name}.safetensors")
    assert len(memory) == 5
    # Sums of at most 6 numbers of order 1: another BLAS may add them in another order.
    np.testing.assert_allclose(memory.recall(keys[:2]), RECALLS[name], rtol=0, atol=1e-14)


def test_no_saved_file_lacks_its_recalls():
    assert {file.stem for file in FOLDER.glob("*.safetensors")} == set(RECALLS)
