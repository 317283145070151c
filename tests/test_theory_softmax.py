"""Sharpness policies, the design rule and the Gaussian approximations."""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Decimal

import mpmath as mp
import pytest

from assocmem.contract.errors import InputError
from assocmem.contract.form import KernelSum, LeastSquares
from assocmem.maps.activations import (
    GELU,
    Constant,
    Custom,
    Exp,
    ExpSeries,
    Linear,
    LogN,
    QwenLogN,
    ReLU,
    ScalableSoftmax,
    Sharpness,
    SwiGLU,
    Swish,
    YaRN,
    as_sharpness,
)
from assocmem.theory import (
    best_sharpness,
    capacity,
    design,
    gaussian_capacity,
    gaussian_ratio,
    ratio,
    requirement,
)

RULES = {"fixed": Constant(8.0), "su": LogN(1024), "qwen": QwenLogN(1024), "yarn": YaRN(1024)}


@pytest.mark.parametrize(
    ("rule", "n", "printed"),
    [
        ("fixed", 2**21, "1.28389"),
        ("su", 2**21, "0.0038468"),
        ("qwen", 2**21, "0.0038468"),
        ("yarn", 2**21, "6.4772e-5"),
        ("fixed", 65536, "0.22696"),
        ("su", 65536, "0.0077357"),
        ("yarn", 65536, "0.0010554"),
        ("su", 1024, "0.0284"),
        ("yarn", 16384, "0.00329"),
        ("yarn", 2**20, "1.11e-4"),
    ],
)
def test_ratios_of_the_long_context_rules(rule, n, printed):
    half = 0.51 * 10 ** Decimal(printed).as_tuple().exponent
    assert abs(ratio(RULES[rule], 64, n).value - float(printed)) < half


@pytest.mark.parametrize(
    ("rule", "n", "printed"), [("su", 2**21, 0.00602), ("yarn", 2**21, 3.6e-4), ("su", 1024, 0.0292)]
)
def test_gaussian_ratios_of_the_long_context_rules(rule, n, printed):
    found = gaussian_ratio(RULES[rule], 64, n)
    assert found.value == pytest.approx(printed, rel=8e-3)
    assert not found.exact


def test_names_numbers_and_none_are_policies():
    assert as_sharpness(None) == Constant()
    assert as_sharpness(8.0) == Constant(8.0)
    assert as_sharpness("log-n") == LogN()
    with pytest.raises(InputError, match="sharpness"):
        as_sharpness("sharp")


def test_a_constant_policy_has_the_capacity_of_its_exponential():
    assert capacity(Constant(8.0), 64).value == capacity(Exp(8.0), 64).value
    cut = capacity(Constant(8.0), 64, largest=1000)
    assert cut.value is None
    assert "1.272e+06" in cut.reason


@pytest.mark.parametrize("rule", ["su", "qwen", "yarn"])
def test_log_rules_are_not_reached_in_the_articles_range(rule):
    found = capacity(RULES[rule], 64, largest=2**21)
    assert found.value is None
    assert found.reason.startswith("not reached up to M = 2.09715e+06: the ratio falls as M grows")
    assert f"{ratio(RULES[rule], 64, 2**21).value:.4g} there" in found.reason


@pytest.mark.parametrize(("rule", "d"), [("su", 64), ("yarn", 64), ("su", 16), ("qwen", 4)])
@pytest.mark.parametrize("wanted", [0.02, 1.0, 3.0])
def test_the_capacity_of_a_policy_is_a_crossing_and_the_first(rule, d, wanted):
    """Below it the ratio is below the threshold, on a grid finer than the search's; at it, equal; past it, above."""
    found = capacity(RULES[rule], d, ratio=wanted)
    assert ratio(RULES[rule], d, found.value).value == pytest.approx(wanted, rel=1e-9)
    edge = math.log(found.value - 1)
    for step in range(1, 400):
        y = edge - step * 0.07
        assert ratio(RULES[rule], d, 1 + math.exp(y)).value < wanted
    assert ratio(RULES[rule], d, 1 + (found.value - 1) * 1.01).value > wanted


def test_the_ratio_of_a_log_rule_rises_again_at_last():
    """The fall is not for ever: at M of about e^60 another key comes too close for a sharpness of order ln M."""
    found = capacity(LogN(1024), 64)
    assert 50 < found.log_value < 70
    assert "before that the ratio falls to 0.002085" in found.regime
    bottom = 9.6e9
    assert ratio(LogN(1024), 64, bottom).value < ratio(LogN(1024), 64, bottom * 3).value
    assert ratio(LogN(1024), 64, bottom).value < ratio(LogN(1024), 64, bottom / 3).value


@dataclass(frozen=True)
class Steps(Sharpness):
    """A sharpness that jumps from 1 to 9 at M = 50: the ratio crosses 1 three times."""

    def __call__(self, n: float, d_k: int) -> float:
        return 1.0 + 8.0 / (1.0 + math.exp(-40.0 * (math.log(n) - math.log(50.0))))


@dataclass(frozen=True)
class Spike(Sharpness):
    """A dip of sharpness narrower than the search's step: the ratio touches 1 there only between two steps."""

    def __call__(self, n: float, d_k: int) -> float:
        return 6.0 - 5.0 * math.exp(-(((math.log(n) - 4.63) / 0.1) ** 2))


def test_several_crossings_are_all_named():
    found = capacity(Steps(), 64)
    assert found.value == pytest.approx(capacity(Exp(1.0), 64).value, rel=1e-6)
    assert "falls below again at M =" in found.regime
    again = float(found.regime.split("once more at M = ")[1])
    assert again == pytest.approx(capacity(Exp(9.0), 64).value, rel=1e-3)


def test_a_crossing_between_two_steps_of_the_search_is_found():
    found = capacity(Spike(), 64)
    assert 60 < found.value < 120
    assert ratio(Spike(), 64, found.value).value == pytest.approx(1, rel=1e-9)


def test_a_policy_that_is_never_reached_says_where_it_was_largest():
    found = capacity(ScalableSoftmax(1.0), 4096)
    assert found.value is None
    assert "up to M = 1e+300: the ratio falls as M grows" in found.reason
    assert "its largest value is 0.5001, at M = 2.001" in found.reason


# --------------------------------------------------------------------------- design


@pytest.mark.parametrize("d", [2, 16, 64, 512, pytest.param(4096, marks=pytest.mark.slow)])
@pytest.mark.parametrize("cosine", [0.3, 0.6, 0.95])
def test_best_sharpness_is_the_root_and_the_lowest_ratio(d, cosine):
    with mp.workdps(40):
        b = mp.mpf(best_sharpness(d, cosine).value)
        half = mp.mpf(d) / 2
        quotient = mp.hyp0f1(half + 1, b * b, maxterms=10**6) / mp.hyp0f1(half, b * b, maxterms=10**6)
        assert abs(quotient * b / half - mp.mpf(cosine)) < 1e-11
    best = ratio(Exp(float(b)), d, 1e6, cosine=cosine).log_value
    for factor in (0.9, 1.1):
        assert ratio(Exp(float(b) * factor), d, 1e6, cosine=cosine).log_value > best


def test_best_sharpness_at_the_ends():
    assert best_sharpness(64, 1.0).value is None
    assert "no finite one" in best_sharpness(64, 1.0).reason
    assert best_sharpness(64, 0.0).value == 0.0
    assert best_sharpness(64, -0.5).value == 0.0
    assert best_sharpness(64, 0.999999).value == pytest.approx(63 / 4e-6, rel=1e-4)


@pytest.mark.parametrize(
    ("d", "n", "wanted", "cosine"),
    [(64, 1e6, 1.0, 1.0), (64, 1e4, 0.1, 0.8), (512, 1e12, 0.01, 0.9), (2, 100, 1.0, 1.0), (4096, 1e300, 1e-3, 1.0)],
)
def test_design_gives_the_smallest_sharpness(d, n, wanted, cosine):
    plan = design(d, n, wanted, cosine)
    assert plan.feasible
    assert ratio(Exp(plan.sharpness), d, n, cosine=cosine).value == pytest.approx(wanted, rel=1e-9)
    assert ratio(Exp(plan.sharpness * 0.999), d, n, cosine=cosine).value > wanted
    assert plan.logit_scale == plan.sharpness / d
    assert plan.reached.value == pytest.approx(wanted, rel=1e-9)


def test_design_knows_its_limit():
    limit = design(64, 10, 1.0, 0.6).largest.value
    assert limit == pytest.approx(1487343.8, rel=1e-7)
    assert design(64, limit * 0.999, 1.0, 0.6).feasible
    plan = design(64, limit * 1.001, 1.0, 0.6)
    assert not plan.feasible
    assert plan.sharpness is None
    assert plan.logit_scale is None
    assert plan.reached.value > 1
    assert plan.sentence.startswith("With keys uniform on the sphere no sharpness serves")


def test_design_without_need_or_limit():
    assert design(64, 1, 0.1).sharpness == 0.0
    assert design(64, 5, 3.0).sharpness == 0.0
    assert design(64, 1e6, 1.0).largest.value is None
    assert "no limit" in design(64, 1e6, 1.0).largest.reason
    assert "above 1e150" in design(2, 1e300, 1.0).sentence
    assert design(1, 5, 1.0).largest.value == 3.0  # two unit keys: half the others share the target's
    assert not design(1, 5, 1.0).feasible
    assert not design(64, 1e6, 0.1, -0.5).feasible


def test_requirement_of_every_other_store():
    assert requirement(KernelSum(ReLU(2)), 64, 2816, 1.0).feasible is True
    found = requirement(ReLU(2), 64, 2818, 1.0)
    assert found.feasible is False
    assert "up to M = 2,817" in found.sentence
    assert requirement(ReLU(), 64, 10, 1.0, cosine=-0.2).feasible is False
    assert requirement(Exp(math.inf), 64, 10, 1.0, cosine=0.9).feasible is False
    assert requirement(Exp(1e4), 4096, 1e300, 1.0).feasible is True
    assert requirement(Exp(1e4), 2, 1e300, 1.0, cosine=0.5).feasible is False  # the ratio leaves the floats


def test_requirement_of_the_optimal_store():
    assert requirement(LeastSquares(), 64, 64, 1e-6).feasible is True
    assert requirement(LeastSquares(), 64, 200, 1.0).feasible is False
    assert requirement(LeastSquares(), 64, 64, 100.0, cosine=0.9).feasible is False  # the peak
    assert requirement(LeastSquares(), 64, 20, 1.0, cosine=0.9).feasible is True


# --------------------------------------------------------------------------- Gaussian approximations


def test_gaussian_capacities_of_the_article():
    wanted = [
        (Linear(), 64),
        (ReLU(), 128),
        (ReLU(2), 2 * 64**2 / 3),
        (ReLU(3), 2 * 64**3 / 15),
        (Exp(8.0), math.exp(14)),
    ]
    for sigma, value in wanted:
        found = gaussian_capacity(sigma, 64)
        assert found.value == pytest.approx(value, rel=1e-12)
        assert not found.exact
    assert gaussian_capacity(Constant(8.0), 64).value == pytest.approx(math.exp(14), rel=1e-12)
    assert gaussian_capacity(LogN(), 64).value is None
    assert gaussian_ratio(Linear(), 64, 65).value == 1.0
    assert gaussian_ratio(Exp(8.0), 64, 4096).value == pytest.approx(64 * math.exp(-7), rel=1e-12)


@pytest.mark.parametrize(
    ("sigma", "referee"),
    [
        (SwiGLU(), lambda s: s * s / (1 + mp.exp(-s))),
        (Swish(), lambda s: s / (1 + mp.exp(-s))),
        (GELU(), lambda s: s * mp.ncdf(s)),
        (ReLU(1.5, -0.1), lambda s: max(s - mp.mpf(0.1), 0) ** mp.mpf("1.5")),
        (ExpSeries(4, 8.0), lambda s: 1 + 8 * s + 32 * s**2 + 256 * s**3 / 3),
    ],
)
def test_gaussian_moments_against_mpmath(sigma, referee):
    d = 64
    density = lambda s: mp.exp(-d * s * s / 2) * mp.sqrt(d / (2 * mp.pi))  # noqa: E731
    edges = [mp.mpf(x) / 8 for x in (-14, -6, -3, -1, 0, 0.8, 1, 3, 6, 14)]
    moment = mp.quad(lambda s: referee(s) ** 2 * density(s), edges)
    assert gaussian_capacity(sigma, d).value == pytest.approx(float(referee(mp.mpf(1)) ** 2 / moment), rel=1e-9)


def test_gaussian_has_no_answer_for_custom_activations():
    found = gaussian_ratio(Custom(lambda s: s), 64, 10)
    assert found.value is None
    assert "known on [-1, 1] only" in found.reason


@pytest.mark.parametrize("d", [2, 3, 5, 64, 4096])
@pytest.mark.parametrize("gap", [1e-2, 1e-3, 1.1e-4, 0.9e-4, 1e-6, 1e-12])
def test_the_best_sharpness_close_to_a_clean_query_is_within_its_stated_error(d, gap):
    found = best_sharpness(d, 1 - gap)
    with mp.workdps(50):
        wanted = mp.mpf(1 - gap)
        centre = mp.mpf(d - 1) / (2 * (1 - wanted)) * (1 - (d - 3) * (1 - wanted) / (2 * (d - 1)))

        def above(kappa):
            return mp.besseli(mp.mpf(d) / 2, kappa) / mp.besseli(mp.mpf(d) / 2 - 1, kappa) - wanted

        ends = (centre * (1 - mp.mpf(10) ** -3), centre * (1 + mp.mpf(10) ** -3))
        exact = mp.findroot(above, ends, solver="anderson", tol=1e-35, verify=False) / 2
        assert abs(found.value / exact - 1) <= found.error


def test_a_rule_of_infinite_sharpness_is_the_argmax_and_of_none_the_mean() -> None:
    for policy in (LogN(64, math.inf), YaRN(64, math.inf)):
        assert capacity(policy, 8) == capacity(Exp(math.inf), 8)
    assert capacity(LogN(64, 0.0), 8) == capacity(Exp(0.0), 8)
