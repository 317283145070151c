"""Roots to the last digit and minima within what was asked, against mpmath and by construction."""

from __future__ import annotations

import math

import mpmath
import pytest

from assocmem.theory.roots import lowest, root


@pytest.mark.parametrize(
    ("f", "low", "high", "wanted"),
    [
        (lambda x: x * x - 2, 0.0, 2.0, float(mpmath.sqrt(2))),
        (lambda x: 2 - x * x, 0.0, 2.0, float(mpmath.sqrt(2))),
        (lambda x: math.cos(x) - x, -1.0, 1.0, float(mpmath.findroot(lambda x: mpmath.cos(x) - x, 0.7))),
        (lambda x: x - 1e-30, 0.0, 1.0, 1e-30),
        (lambda x: x + 1e12, -1e15, 5.0, -1e12),
        (lambda x: -math.inf if x < 3 else 1.0, 0.0, 7.0, 3.0),
        (lambda x: x, 0.0, 1.0, 0.0),
        (lambda x: x - 1, 0.0, 1.0, 1.0),
        (lambda x: x - 3, 1.0, 9.0, 3.0),  # met on the way, and by halving: (1 + 5) / 2
        (lambda x: 3 - x, 1.0, 9.0, 3.0),
        (lambda x: -1.0 if x < 3 else math.inf, 0.0, 7.0, math.nextafter(3, 0)),  # of two neighbours the smaller |f|
        (lambda x: x**3 - 1e300, 1e-300, 1e102, 1e100),
    ],
)
def test_a_root_is_right_to_the_last_digit(f, low, high, wanted):
    assert root(f, low, high) == pytest.approx(wanted, rel=4e-16, abs=0)


def test_without_a_change_of_sign_there_is_no_root():
    with pytest.raises(ValueError, match="no change of sign"):
        root(lambda x: x * x + 1, -1.0, 1.0)


@pytest.mark.parametrize("place", [-0.999, -0.3, 0.0, 0.7, 1.0])
def test_a_minimum_is_found_within_what_was_asked(place):
    calls = []

    def f(x):
        calls.append(x)
        return abs(x - place)

    assert abs(lowest(f, -1.0, 1.0, within=1e-9) - place) <= 1e-9
    assert min(calls) >= -1
    assert max(calls) <= 1
    assert len(calls) < 60
    assert math.isclose(lowest(lambda x: x**4, -3.0, 1.0, within=1e-3), 0, abs_tol=1e-3)
    assert lowest(f, place, place, within=1e-9) == place
    steep = lowest(lambda x: -x, 1.0, 1 + 4e-16, within=0.0)  # ends where floats do, though less was asked
    assert 1 <= steep <= 1 + 4e-16
