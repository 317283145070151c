"""Retrieval capacities refuse in a sentence what they cannot measure."""

from __future__ import annotations

import numpy as np
import pytest

from assocmem.contract.errors import InputError
from assocmem.lab.retrieval import retrieval_capacities
from assocmem.ruler import key_geometry


@pytest.mark.parametrize("width", [0, 1, 2.5, "16", True])
def test_widths_are_whole_numbers_from_two(width):
    with pytest.raises(InputError, match="`widths` must hold whole numbers >= 2; got"):
        retrieval_capacities(["outer-product"], [width], workers=1)


@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("largest", -1), ("largest", 0), ("largest", 1), ("largest", 2.5), ("recalls", -1), ("recalls", 0),
        ("share", "x"), ("share", None), ("share", True), ("share", 1.0),
    ],
)  # fmt: skip
def test_settings_out_of_range_are_named(name, given):
    with pytest.raises(InputError, match=f"`{name}` must be a"):
        retrieval_capacities(["outer-product"], [4], workers=1, **{name: given})


def test_settings_of_numpy_are_numbers_too():
    found = retrieval_capacities(
        ["outer-product"], np.array([4]), share=np.float64(0.9), recalls=np.int64(64), largest=np.int32(8), workers=1
    )
    assert max(n for n, _ in found[0].curve) <= 8


@pytest.mark.parametrize("keys", ["x", None, [["a"]]])
def test_a_geometry_of_no_numbers_is_refused(keys):
    with pytest.raises(InputError, match="`keys` must hold real numbers"):
        key_geometry(keys)
