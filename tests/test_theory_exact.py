"""Exact ratios and capacities against mpmath: independent quadrature of σ^2 and an independent Bessel series."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import mpmath as mp
import numpy as np
import pytest

from assocmem.contract.errors import InputError
from assocmem.contract.form import KernelSum
from assocmem.maps.activations import GELU, Activation, Custom, Exp, ExpSeries, Linear, ReLU, SwiGLU, Swish
from assocmem.theory import capacity, gaussian_ratio, ratio
from assocmem.theory.moments import log_mean_exp, log_mean_exp_error, mean_cosine

WIDTHS = (2, 3, 4, 16, 64, 511, 4096)
BETAS = (0.0, 1e-3, 1.0, 30.0, 1000.0, 1e4)


def referee_quadrature(sigma: Callable, d: int, lower: float = -1.0) -> mp.mpf:
    """ln E σ(s)^2, s = sin θ with density ∝ (cos θ)^(d-2), by mpmath; panels follow the integrand's own peak."""
    with mp.workdps(30):
        floor = mp.asin(lower)
        grid = [floor + (mp.pi / 2 - floor) * (i + mp.mpf("0.5")) / 300 for i in range(300)]

        def log_integrand(t):
            weight = abs(sigma(mp.sin(t)))
            return -mp.inf if weight == 0 else 2 * mp.log(weight) + (d - 2) * mp.log(mp.cos(t))

        peak = max(grid, key=log_integrand)
        scale = min(mp.mpf(1) / mp.sqrt(d), mp.mpf("0.5"))
        if lower > 0:  # beyond a threshold the density falls like e^(-d s (s - threshold))
            scale = min(scale, 1 / (d * mp.mpf(lower)))
        marks = {floor, mp.pi / 2, mp.mpf(0) if lower < 0 else floor, peak}
        marks |= {peak + sign * k * scale for k in (1, 3, 6, 10, 18, 40) for sign in (-1, 1)}
        marks |= {floor + k * scale for k in (2, 8, 30)}
        edges = sorted(m for m in marks if floor <= m <= mp.pi / 2)
        top = log_integrand(peak)
        total = mp.quad(lambda t: mp.exp(log_integrand(t) - top), edges)
        return top + mp.log(total) + mp.loggamma(mp.mpf(d) / 2) - mp.loggamma(mp.mpf(d - 1) / 2) - mp.log(mp.pi) / 2


def referee_exp(beta: float, d: int) -> mp.mpf:
    """ln E e^(2 beta (s-1)) by the power series of 0F1(d/2; beta^2), all terms positive."""
    with mp.workdps(30):
        x = mp.mpf(beta) ** 2
        total, term, k = mp.mpf(1), mp.mpf(1), 0
        while term > total * mp.mpf(10) ** -28 or k * (k + d / 2) < x:
            k += 1
            term *= x / (k * (k - 1 + mp.mpf(d) / 2))
            total += term
        return mp.log(total) - 2 * mp.mpf(beta)


def check(sigma: Activation, d: int, reference: mp.mpf, signal: mp.mpf, cosine: float, n: float = 1e12) -> None:
    """Compare ratio and capacity with the referee's logarithms: within 1e-9, and within the stated error."""
    found = ratio(sigma, d, n, cosine=cosine)
    wanted = (mp.log(mp.mpf(n) - 1) + reference) / 2 - signal
    off = abs(float(mp.mpf(found.log_value) - wanted))
    assert off < 1e-9
    assert off <= found.error
    if found.value:
        assert abs(math.log(found.value) - float(wanted)) < 1e-9
    full = capacity(sigma, d, cosine=cosine)
    wanted = mp.log(1 + mp.exp(2 * signal - reference))
    off = abs(float(mp.mpf(full.log_value) - wanted))
    assert off < 1e-9
    assert off <= full.error


@pytest.mark.parametrize("d", WIDTHS)
@pytest.mark.parametrize("beta", BETAS)
def test_exponential_against_the_bessel_series(d, beta):
    reference = referee_exp(beta, d)
    for cosine in (0.5, 0.8, 1.0):
        check(Exp(beta), d, reference, mp.mpf(beta) * (mp.mpf(cosine) - 1), cosine)


def test_bessel_series_against_quadrature():
    """The two referees agree, so neither is a copy of the other's mistake."""
    for beta, d in ((3.0, 3), (8.0, 64), (40.0, 16)):
        by_quadrature = referee_quadrature(lambda s, b=beta: mp.exp(b * (s - 1)), d)
        assert abs(referee_exp(beta, d) - by_quadrature) < mp.mpf(10) ** -20


@pytest.mark.parametrize("d", [2, 3, 20, 81, 82, 83, 500, 4096])
def test_the_two_forms_of_the_bessel_function_meet(d):
    """No step where the series hands over to the uniform expansion (R = 40), in t at every width."""
    nu = d / 2 - 1
    edge = math.sqrt(max(40.0**2 - nu * nu, 1e-6))
    for t in (edge * (1 - 1e-9), edge * (1 + 1e-9)):
        assert abs(log_mean_exp(t, d) - float(referee_exp(t / 2, d))) < 1e-13


@pytest.mark.parametrize("d", [2, 3, 64, 4096])
def test_mean_cosine_is_a_ratio_of_bessel_functions(d):
    with mp.workdps(40):
        for t in (0.01, 1.0, 50.0, 300.0):
            wanted = mp.besseli(mp.mpf(d) / 2, t) / mp.besseli(mp.mpf(d) / 2 - 1, t)
            assert abs(mean_cosine(t, d) / float(wanted) - 1) < 1e-12


def test_exponential_far_outside_the_domain():
    """At d = 3, E e^(t(s-1)) = (1 - e^-2t)/(2t): exact at every t that a float holds."""
    for t in (1e-8, 1e-3, 1.0, 39.9, 41.0, 1e6, 1e15, 1e200):
        wanted = math.log(-math.expm1(-2 * t)) - math.log(2 * t)
        assert abs(log_mean_exp(t, 3) - wanted) < 1e-14 * (1 + abs(wanted))


@pytest.mark.parametrize("d", [*WIDTHS, 1])
@pytest.mark.parametrize("power", [0.25, 1, 2, 2.5, 3, math.pi, 40])
def test_relu_powers_in_closed_form(d, power):
    with mp.workdps(30):
        p = mp.mpf(power)
        moment = mp.loggamma(p + mp.mpf(1) / 2) + mp.loggamma(mp.mpf(d) / 2) - mp.loggamma(p + mp.mpf(d) / 2)
        moment -= mp.log(mp.pi) / 2 + mp.log(2)
        for cosine in (1.0,) if d == 1 else (0.5, 0.8, 1.0):
            check(ReLU(power), d, moment, p * mp.log(mp.mpf(cosine)), cosine)


@pytest.mark.parametrize("d", [3, 64])
def test_relu_closed_form_is_the_integral(d):
    for power in (1, 2.5):
        moment = referee_quadrature(lambda s, p=power: mp.mpf(s) ** p, d, lower=0.0)
        check(ReLU(power), d, moment, power * mp.log(mp.mpf("0.5")), 0.5)


SMOOTH = {
    "swiglu": (SwiGLU(), lambda s: s * s / (1 + mp.exp(-s))),
    "swish": (Swish(), lambda s: s / (1 + mp.exp(-s))),
    "gelu": (GELU(), lambda s: s * mp.ncdf(s)),
    "gelu-tanh": (
        GELU(tanh=True),
        lambda s: s / 2 * (1 + mp.tanh(mp.sqrt(2 / mp.pi) * (s + mp.mpf(0.044715) * s**3))),
    ),
}


@pytest.mark.parametrize("name", SMOOTH)
@pytest.mark.parametrize("d", [2, 64, 4096])
def test_quadrature_of_smooth_activations(name, d):
    sigma, referee = SMOOTH[name]
    reference = referee_quadrature(referee, d)
    with mp.workdps(30):
        for cosine in (0.5, 1.0):
            check(sigma, d, reference, mp.log(abs(referee(mp.mpf(cosine)))), cosine)


@pytest.mark.slow
@pytest.mark.parametrize("name", SMOOTH)
@pytest.mark.parametrize("d", [3, 4, 16, 511])
def test_quadrature_of_smooth_activations_at_more_widths(name, d):
    test_quadrature_of_smooth_activations(name, d)


THRESHOLDS = [(1.0, 0.3, 64), (2.0, 0.95, 64), (2.5, -0.2, 16), (0.7, 0.05, 511), (1.5, 0.5, 4096), (1.0, -1.5, 4)]


@pytest.mark.parametrize(("power", "threshold", "d"), THRESHOLDS)
def test_quadrature_splits_at_a_threshold(power, threshold, d):
    """Deep in the tail too: at d = 4096 a key passes the threshold 0.5 with probability about e^-590."""
    edge = mp.mpf(threshold)
    reference = referee_quadrature(lambda s: (s - edge) ** power if s > edge else mp.mpf(0), d, max(threshold, -1.0))
    with mp.workdps(30):
        check(ReLU(power, -threshold), d, reference, power * mp.log(1 - edge), 1.0)


@pytest.mark.parametrize(("terms", "beta", "d"), [(2, 8, 64), (4, 8, 64), (7, 1e4, 3), (60, 30, 511), (300, 5, 4096)])
def test_truncated_exponential_is_a_polynomial_in_moments(terms, beta, d):
    """Against the double sum over i, j of beta^(i+j) E s^(i+j) / (i! j!) in exact arithmetic."""
    with mp.workdps(40):
        b = mp.mpf(beta)
        series = [b**i / mp.factorial(i) for i in range(terms)]
        moments = [mp.mpf(1)]
        for k in range(terms - 1):
            moments.append(moments[-1] * (2 * k + 1) / (d + 2 * k))
        total = mp.fsum(
            series[i] * series[j] * moments[(i + j) // 2]
            for i, j in itertools.product(range(terms), repeat=2)
            if (i + j) % 2 == 0
        )
        for cosine in (1.0, 0.5, -0.5):
            signal = mp.log(abs(mp.fsum(c * mp.mpf(cosine) ** i for i, c in enumerate(series))))
            found = ratio(ExpSeries(terms, float(beta)), d, 1e6, cosine=cosine)
            off = abs(float(mp.mpf(found.log_value) - (mp.log(mp.mpf(10**6 - 1)) + mp.log(total)) / 2 + signal))
            assert off <= found.error
            assert cosine < 0 or off < 1e-9


def test_many_terms_are_the_exponential():
    assert abs(capacity(ExpSeries(120, 8.0), 64).log_value - capacity(Exp(8.0), 64).log_value) < 1e-12


PRINTED = [
    (Linear(), 65.0, 1e-12),
    (ReLU(), 129.0, 1e-12),
    (ReLU(2), 2817.0, 1e-12),
    (SwiGLU(), 2957.5, 5e-5),
    (ReLU(3), 38298.6, 1e-12),
    (ExpSeries(2, 8.0), 41.5, 1e-12),
    (ExpSeries(3, 8.0), 452.0, 1e-12),
    (ExpSeries(4, 8.0), 3144.5, 2e-5),
    (Exp(8.0), 1272264, 1e-6),
    (Exp(2.0), 49.2, 3e-4),
]


@pytest.mark.parametrize(("sigma", "printed", "tolerance"), PRINTED, ids=lambda x: getattr(x, "formula", ""))
def test_capacities_at_width_64(sigma, printed, tolerance):
    found = capacity(KernelSum(sigma, normalised=True), 64)
    assert found.value == pytest.approx(printed, rel=tolerance)
    assert found.exact
    assert found.statistic == "rms"
    assert ratio(sigma, 64, found.value).value == pytest.approx(1, rel=1e-12)


@pytest.mark.parametrize("sigma", [Linear(), ReLU(), ReLU(2), ReLU(2.5, -0.1), SwiGLU(), Exp(8.0), ExpSeries(4, 8.0)])
def test_the_gaussian_approximation_fails_the_exact_check(sigma):
    """The check's broken twin: s ~ N(0, 1/d) is off by far more than 1e-9, and says that it is not exact."""
    exact, twin = ratio(sigma, 64, 1e12), gaussian_ratio(sigma, 64, 1e12)
    assert not twin.exact
    if isinstance(sigma, Linear | ReLU) and sigma in (Linear(), ReLU()):  # these two moments are alike
        assert twin.log_value == pytest.approx(exact.log_value, abs=1e-12)
    else:
        assert abs(twin.log_value - exact.log_value) > 1e-3


@pytest.mark.parametrize(("sigma", "d", "cosine"), [(SwiGLU(), 8, 0.7), (ReLU(1, -0.2), 5, 1.0), (Exp(3.0), 8, 0.8)])
def test_drawn_keys_and_noisy_queries_have_this_ratio(sigma, d, cosine):
    """Error rate: six standard errors of 4000 trials, a false alarm in fewer than 1 of 1e8 seeds."""
    rng = np.random.default_rng(5)
    keys = rng.standard_normal((4000, 50, d))
    keys /= np.linalg.norm(keys, axis=-1, keepdims=True)
    target = keys[:, :1]
    noise = rng.standard_normal(target.shape)
    noise -= (noise * target).sum(-1, keepdims=True) * target
    noise /= np.linalg.norm(noise, axis=-1, keepdims=True)
    query = cosine * target + math.sqrt(1 - cosine**2) * noise
    weights = sigma((keys * query).sum(-1))
    squares = (weights[:, 1:] ** 2).sum(1) / weights[:, 0] ** 2
    error = squares.std() / math.sqrt(len(squares))
    assert abs(squares.mean() - ratio(sigma, d, 50, cosine=cosine).value ** 2) < 6 * error


CUSTOM = {
    "jump that nobody states": (Custom(lambda s: 1.0 * (s > 0.3123)), lambda s: mp.mpf(s > mp.mpf(0.3123)), 0.3123),
    "kink that nobody states": (Custom(lambda s: np.maximum(s - 0.1, 0)), lambda s: max(s - mp.mpf(0.1), 0), 0.1),
    "kink that is stated": (
        Custom(lambda s: np.maximum(s - 0.1, 0), kinks=(0.1,)),
        lambda s: max(s - mp.mpf(0.1), 0),
        0.1,
    ),
}


@pytest.mark.parametrize("name", CUSTOM)
def test_custom_activations_within_the_stated_error(name):
    sigma, referee, edge = CUSTOM[name]
    for d in (2, 64):
        reference = referee_quadrature(referee, d, lower=edge)
        check(sigma, d, reference, mp.log(referee(mp.mpf(1))), 1.0)


def test_custom_oscillation_within_the_stated_error():
    """E cos(t s) is the Bessel function J in place of I: 300 oscillations on [-1, 1]."""
    t = mp.mpf(1000)
    for d in (2, 5):
        nu = mp.mpf(d) / 2 - 1
        mean = mp.gamma(nu + 1) * (2 / t) ** nu * mp.besselj(nu, t)
        check(Custom(lambda s: np.cos(500 * s)), d, mp.log((1 + mean) / 2), mp.log(abs(mp.cos(500))), 1.0)


def test_an_underflowing_custom_activation_states_no_error():
    found = ratio(Custom(lambda s: np.exp(1e4 * (s - 1))), 4096, 100)
    assert found.error is None
    assert "underflows" in found.source
    assert ratio(Custom(lambda s: np.exp(1e2 * (s - 1))), 4096, 100).error < 1e-10


def test_one_memory_and_no_signal():
    assert ratio(SwiGLU(), 64, 1).value == 0.0
    assert ratio(Exp(math.inf), 64, 1, cosine=0.5).value == 0.0
    for answer in (ratio(ReLU(), 64, 5, cosine=-0.5), capacity(ReLU(1, -0.9), 64, cosine=0.8)):
        assert answer.value is None
        assert "no recall" in answer.reason


def test_argmax():
    """beta = inf: a clean query is never lost on the sphere, a noisy one has an infinite mean square."""
    assert ratio(Exp(math.inf), 64, 1e9).value == 0.0
    assert "no finite capacity" in capacity(Exp(math.inf), 64).reason
    noisy = ratio(Exp(math.inf), 64, 1e9, cosine=0.9)
    assert noisy.value is None
    assert noisy.reason.startswith("infinite")
    assert ratio(Exp(math.inf), 1, 9).value == pytest.approx(2, rel=1e-14)  # a half of the keys is the target's


def test_width_one_has_two_keys():
    assert capacity(Linear(), 1).value == 2.0
    assert capacity(ReLU(), 1).value == 3.0
    assert capacity(SwiGLU(), 1).log_value == pytest.approx(
        math.log1p(2 / (1 + (SwiGLU()(np.array([-1.0])) / SwiGLU()(np.array([1.0])))[0] ** 2)), rel=1e-13
    )
    assert ratio(Exp(0.5), 1, 2).value == pytest.approx(math.sqrt((1 + math.exp(-2)) / 2), rel=1e-14)


def test_no_overflow_at_the_ends_of_the_domain():
    for sigma, d, n, cosine in itertools.product(
        [Exp(1e4), ExpSeries(50, 1e4), ReLU(200), SwiGLU()], [2, 4096], [1, 2, 1e12, 1e300], [0.5, 1.0]
    ):
        found = ratio(sigma, d, n, cosine=cosine)
        assert found.value is not None or (found.log_value > 709 and "range of floats" in found.reason)
    over = capacity(Exp(1e4), 4096)
    assert over.value is None
    assert over.log_value > 709
    assert ratio(Linear(), 64, 10**300).value == pytest.approx(1.25e149, rel=1e-12)


def referee_debye(t: float, d: float) -> mp.mpf:
    """ln E e^(t (s - 1)) by four terms of Debye's expansion, the cancelling parts in 340 digits."""
    nu, t = mp.mpf(d) / 2 - 1, mp.mpf(t)
    R = mp.sqrt(nu * nu + t * t)
    p = nu / R
    u1, u2 = (3 - 5 * p**2) / (24 * R), (81 - 462 * p**2 + 385 * p**4) / (1152 * R**2)
    u3 = (30375 - 369603 * p**2 + 765765 * p**4 - 425425 * p**6) / (414720 * R**3)
    whole = mp.loggamma(nu + 1) + nu * mp.log(2 / t) + R + nu * mp.log(t / (nu + R)) - t
    return whole - mp.log(2 * mp.pi * R) / 2 + mp.log(1 + u1 + u2 + u3)


@pytest.mark.parametrize("d", [2, 3, 21.9, 22.1, 4096, 1e9, 1e15])
@pytest.mark.parametrize("t", [1e4, 1e9, 4.9e8, 5.1e8, 1e15, 1e150, 1e300])
def test_very_large_arguments_are_within_the_stated_error(t, d):
    found = log_mean_exp(t, d)
    with mp.workdps(340):
        assert abs(found - referee_debye(t, d)) <= log_mean_exp_error(t, found) <= 1e-14 * (3 + abs(found))


@pytest.mark.parametrize("waves", [3e5, 1e6, 1e7])
def test_where_panels_run_out_the_error_says_so(waves):
    """E sin(ws)^2 over a uniform s (d = 3); 40,000 panels hold 3e5 radians, and no more."""
    found = ratio(Custom(lambda s: np.sin(waves * s)), 3, 2, cosine=0.5)
    exact = 0.5 * math.log(0.5 - math.sin(2 * waves) / (4 * waves)) - math.log(abs(math.sin(waves / 2)))
    assert abs(found.log_value - exact) <= found.error
    assert (found.error < 1e-9) == (waves < 1e6)


@pytest.mark.parametrize(
    "call",
    [
        lambda: ratio(Linear(), 0, 5),
        lambda: ratio(Linear(), 1.5, 5),
        lambda: ratio(Linear(), math.nan, 5),
        lambda: ratio(Linear(), 64, 0),
        lambda: ratio(Linear(), 64, math.inf),
        lambda: ratio(Linear(), 64, 10**400),
        lambda: ratio(Linear(), 64, True),
        lambda: ratio(Linear(), "64", 5),
        lambda: ratio(Linear(), 64, 5, cosine=1.1),
        lambda: ratio(Linear(), 1, 5, cosine=0.5),
        lambda: ratio("softmax", 64, 5),
        lambda: capacity(Linear(), 64, ratio=0),
        lambda: capacity(Custom(lambda s: 1 / (s - s)), 64),
        lambda: capacity(Custom(lambda s: s[:1]), 64),
    ],
)
def test_numbers_out_of_range_are_refused(call):
    with pytest.raises(InputError, match=r"must"):
        call()
