"""Keys of other laws, effective dimension and retrieval capacities."""

from __future__ import annotations

import doctest
import importlib
import math
import pkgutil
import subprocess
import sys

import mpmath as mp
import numpy as np
import pytest

import assocmem.theory
from assocmem.contract.errors import InputError
from assocmem.contract.form import KernelSum
from assocmem.maps.activations import Exp, Linear, LogN, ReLU, SwiGLU
from assocmem.theory import (
    best_retrieval_capacity,
    capacity,
    effective_ratio,
    listwise_capacity,
    ratio,
    retrieval_capacity,
)


def unit(x: np.ndarray) -> np.ndarray:
    return x / np.linalg.norm(x, axis=-1, keepdims=True)


def beside(rng: np.random.Generator, centre: np.ndarray, cosine: float) -> np.ndarray:
    """Unit vectors at `cosine` to each centre, their other part uniform in the directions left."""
    noise = rng.standard_normal(centre.shape)
    noise -= (noise * centre).sum(-1, keepdims=True) * centre
    return cosine * centre + math.sqrt(1 - cosine**2) * unit(noise)


def draw(rng: np.random.Generator, law: str, trials: int, n: int, d: int) -> np.ndarray:
    if law == "gaussian":
        return rng.standard_normal((trials, n, d)) / math.sqrt(d)
    if law == "signs":
        return rng.choice([-1.0, 1.0], (trials, n, d)) / math.sqrt(d)
    if law == "orthonormal":
        return np.linalg.qr(rng.standard_normal((trials, d, n)))[0].mT
    if law == "equal-cosine":
        mean = np.broadcast_to(unit(rng.standard_normal((trials, 1, d))), (trials, n, d))
        return beside(rng, mean, math.sqrt(0.3))
    if law == "clustered":
        centres = unit(rng.standard_normal((trials, 3, d)))
        chosen = rng.integers(0, 3, (trials, n, 1))
        return beside(rng, np.take_along_axis(centres, chosen, axis=1), math.sqrt(1 - 0.6**2))
    return rng.standard_normal((trials, n, d)) * np.sqrt(np.arange(1, d + 1) / d)


SETTINGS = {
    "equal-cosine": {"rho": 0.3},
    "clustered": {"clusters": 3, "spread": 0.6},
    "spectrum": {"eigenvalues": list(range(1, 13))},
}


@pytest.mark.parametrize(
    ("law", "sigma", "cosine"),
    [
        ("signs", Linear(), 1.0),
        ("signs", Linear(), 0.7),
        ("gaussian", Linear(), 1.0),
        ("spectrum", Linear(), 1.0),
        ("orthonormal", Linear(), 0.7),
        ("equal-cosine", Linear(), 1.0),
        ("equal-cosine", Linear(), 0.7),
        ("equal-cosine", SwiGLU(), 1.0),
        ("equal-cosine", ReLU(1, -0.25), 1.0),
        ("equal-cosine", Exp(3.0), 1.0),
        ("clustered", Linear(), 1.0),
        ("clustered", Linear(), 0.7),
        ("clustered", ReLU(2), 1.0),
    ],
)
def test_drawn_keys_of_each_law(law, sigma, cosine):
    """Error rate: six standard errors over 4000 trials."""
    rng = np.random.default_rng(21)
    keys = draw(rng, law, 4000, 10, 12)
    query = beside(rng, keys[:, :1], cosine) if cosine < 1 else keys[:, :1]
    weights = sigma((keys * query).sum(-1))
    squares = (weights[:, 1:] ** 2).sum(1) / weights[:, 0] ** 2
    found = ratio(sigma, 12, 10, law=law, cosine=cosine, **SETTINGS.get(law, {}))
    assert found.exact
    assert abs(squares.mean() - found.value**2) < 6 * squares.std() / math.sqrt(len(squares))


def test_laws_that_meet():
    flat = ratio(Linear(), 64, 65, law="spectrum", eigenvalues=[0.7] * 64)
    assert flat.value == pytest.approx(ratio(Linear(), 64, 65, law="gaussian").value, rel=1e-12)
    assert ratio(SwiGLU(), 64, 65, law="sphere") == ratio(SwiGLU(), 64, 65)
    one = ratio(SwiGLU(), 64, 65, law="clustered", clusters=1, spread=0.5)
    assert one.value == pytest.approx(ratio(SwiGLU(), 64, 65, law="equal-cosine", rho=0.75).value, rel=1e-12)
    many = ratio(SwiGLU(), 64, 65, law="clustered", clusters=10**12, spread=0.5)
    assert many.value == pytest.approx(ratio(SwiGLU(), 64, 65).value, rel=1e-6)
    by_quadrature = ratio(ReLU(1, 1.5), 64, 65, law="equal-cosine", rho=0.2)  # a shifted line: its moments are known
    moment = (0.2 + 1.5) ** 2 + 0.8**2 / 63
    assert by_quadrature.value == pytest.approx(math.sqrt(64 * moment) / 2.5, rel=1e-11)


MEAN, VARIANCES = np.array([0.5, 0, 0.3, 0, 0.2, 0, 0, 0.6]), np.array([1, 0.8, 0.5, 0.3, 0.2, 0.2, 0.1, 0.1])


@pytest.mark.parametrize(
    ("sigma", "normalise", "within"),
    [
        (Linear(), False, 0.0), (Linear(), True, 0.0), (Exp(1.0), False, 0.0), (Exp(1.5), False, 0.0),
        (Exp(1.0), True, 0.01), (Exp(3.0), True, 0.01), (Exp(6.0), True, 0.01), (ReLU(2), True, 0.01),
        (ReLU(1), True, 0.01), (ReLU(1), False, 0.02),
    ],
)  # fmt: skip
def test_keys_with_a_mean_and_a_spectrum(sigma, normalise, within):
    """Error rate: five standard errors of 400,000 pairs, beside 1 % of the mean square for the approximation."""
    rng = np.random.default_rng(31)
    x, k = (MEAN + rng.standard_normal((2, 400_000, 8)) * np.sqrt(VARIANCES)) / math.sqrt((MEAN**2 + VARIANCES).sum())
    if normalise:
        x, k = unit(x), unit(k)
    squares = sigma((k * x).sum(-1)) ** 2 / sigma((x * x).sum(-1)) ** 2
    settings = {"law": "spectrum", "eigenvalues": VARIANCES, "mean": MEAN, "normalise": normalise}
    found = ratio(sigma, 8, 2, **settings)
    assert found.exact is (within == 0)
    error = 5 * squares.std() / math.sqrt(len(squares)) + within * squares.mean()
    assert abs(found.value**2 - squares.mean()) < error
    longer = settings | {"eigenvalues": 3 * VARIANCES, "mean": math.sqrt(3) * MEAN}
    assert found.value == pytest.approx(ratio(sigma, 8, 2, **longer).value)
    for wrong in ({"mean": None}, {"eigenvalues": np.full(8, 0.4)}):
        assert abs(ratio(sigma, 8, 2, **settings | wrong).value ** 2 - squares.mean()) > error
    served = capacity(sigma, 8, ratio=0.5, **settings)
    assert served.value == pytest.approx(1 + 0.25 / found.value**2, rel=1e-9)
    assert served.exact is found.exact


def test_an_exponential_of_normal_keys_against_mpmath():
    """One axis: a double integral over both keys."""
    m, c, b = mp.mpf("0.8"), mp.mpf("0.2"), mp.mpf("0.7")
    scale = m * m + c
    density = lambda x: mp.exp(-((x - m) ** 2) / (2 * c)) / mp.sqrt(2 * mp.pi * c)  # noqa: E731
    inner = lambda x: mp.exp(2 * b * (m * x - x * x) / scale + 2 * b * b * c * x * x / scale**2)  # noqa: E731
    moment = mp.quad(lambda x: density(x) * inner(x), [-6, 0, 1, 2, 8])
    found = ratio(Exp(0.7), 2, 2, law="spectrum", eigenvalues=[0.2, 0], mean=[0.8, 0])
    assert found.value**2 == pytest.approx(float(moment), rel=1e-10)
    assert found.error < 1e-12
    far = ratio(Exp(2.0), 2, 2, law="spectrum", eigenvalues=[1.0, 0.0])
    assert "infinite" in far.reason
    assert "from a sharpness of 1.207" in far.reason
    told = ratio(ReLU(2), 64, 2, law="spectrum", eigenvalues=np.ones(64), normalise=True)
    assert told.value == pytest.approx(ratio(ReLU(2), 64, 2).value, rel=0.02)  # the sphere's, exactly
    assert "standard error 0." in told.source
    assert "no theory" in ratio(ReLU(), 8, 2, law="spectrum", eigenvalues=VARIANCES, cosine=0.5).reason
    either = ratio(Exp(9.0), 2, 2, law="spectrum", eigenvalues=[1, 0], normalise=True)  # cosines of 1 and -1, half each
    assert either.value == pytest.approx(math.sqrt(0.5), rel=0.1)
    assert ratio(Exp(2.0), 2, 2, law="spectrum", eigenvalues=[0, 0], mean=[1, 2], normalise=True).value == 1


def test_normal_keys_of_length_one_are_near_the_sphere_without_a_spectrum():
    """With equal variances they are uniform, which is known: the approximation misses the logarithm by 0.1 / d^1.5."""
    for d, beta in ((16, 4.0), (64, 8.0), (128, 20.0)):
        found = ratio(Exp(beta), d, 1000, law="spectrum", eigenvalues=[1.0] * d, normalise=True)
        exact = ratio(Exp(beta), d, 1000)
        assert abs(found.log_value - exact.log_value) < 0.1 / d**1.5
        linear = ratio(Linear(), d, 1000, law="spectrum", eigenvalues=[1.0] * d, normalise=True)
        assert linear.value == pytest.approx(ratio(Linear(), d, 1000).value, rel=1e-9)


def test_capacity_of_other_laws_is_where_their_ratio_is_one():
    for law, settings in SETTINGS.items():
        sigma = Linear() if law == "spectrum" else ReLU(2)
        served = capacity(sigma, 12, law=law, **settings)
        assert ratio(sigma, 12, served.value, law=law, **settings).value == pytest.approx(1, rel=1e-9)
    assert "at most d" in capacity(Linear(), 12, law="orthonormal").reason
    assert "no theory" in capacity(LogN(16.0, 4.0), 12, law="equal-cosine", rho=0.3).reason


def test_a_spectrum_against_mpmath():
    """Width 4 with eigenvalues in two pairs: |k|^2 is a sum of two exponential variables, a double integral."""
    a, b = mp.mpf(1), mp.mpf("0.2")
    weight = lambda x, y: mp.exp(-x / (2 * a) - y / (2 * b)) / (4 * a * b)  # noqa: E731
    moment = mp.quad(
        lambda x, y: weight(x, y) * (a * x + b * y) / (x + y) ** 2, [0, 1, 8, 80], [0, 0.2, 2, 20], maxdegree=5
    )
    found = ratio(Linear(), 4, 2, law="spectrum", eigenvalues=[1, 1, 0.2, 0.2])
    assert found.value**2 == pytest.approx(float(moment), rel=2e-4)


@pytest.mark.parametrize("d", [1, 2, 3])
def test_shared_directions_in_few_dimensions(d):
    assert ratio(ReLU(2), d, 5, law="equal-cosine", rho=1.0).value == pytest.approx(2, rel=1e-12)
    other = ratio(SwiGLU(), d, 5, law="equal-cosine", rho=0.4)
    assert 0 < other.value < 2 or d == 1


@pytest.mark.parametrize(
    ("law", "sigma", "n", "cosine", "words"),
    [
        ("gaussian", ReLU(), 5, 1.0, "but for the outer product"),
        ("gaussian", Linear(), 5, 0.5, "varying length"),
        ("orthonormal", Linear(), 65, 1.0, "no 65 orthonormal"),
        ("equal-cosine", SwiGLU(), 5, 0.5, "share a direction"),
        ("signs", Linear(), 5, 0.0, "no recall"),
        ("equal-cosine", ReLU(1, -1.0), 5, 1.0, "no recall"),
    ],
)
def test_none_comes_with_a_reason(law, sigma, n, cosine, words):
    found = ratio(sigma, 64, n, law=law, cosine=cosine, rho=0.1)
    assert found.value is None
    assert words in found.reason


def test_gaussian_keys_in_two_dimensions_are_infinite():
    assert "infinite" in ratio(Linear(), 2, 5, law="gaussian").reason
    assert "infinite" in ratio(Linear(), 3, 5, law="spectrum", eigenvalues=[1, 1, 0]).reason


@pytest.mark.parametrize(
    ("law", "settings"),
    [
        ("equal-cosine", {}),
        ("equal-cosine", {"rho": 1.5}),
        ("clustered", {"spread": 0.5}),
        ("clustered", {"clusters": 2}),
        ("spectrum", {}),
        ("spectrum", {"eigenvalues": [-1, 1]}),
    ],
)
def test_settings_of_a_law_are_checked(law, settings):
    with pytest.raises(InputError, match="must"):
        ratio(Linear(), 64, 5, law=law, **settings)


def test_effective_dimension():
    assert effective_ratio(64.0, 65).value == 1.0
    shared = ratio(Linear(), 64, 1000, law="equal-cosine", rho=0.3).value
    assert effective_ratio(1 / (0.3**2 + 0.7**2 / 63), 1000).value == pytest.approx(shared, rel=1e-12)
    assert effective_ratio(16, 65, cosine=0.5).value == 4.0
    with pytest.raises(InputError, match="d_effective"):
        effective_ratio(0.5, 10)


def test_retrieval_capacities_solve_their_equations():
    for d in (32, 128, 4096):
        for found, constant in ((retrieval_capacity(KernelSum(Linear()), d), 8), (best_retrieval_capacity(d), 2)):
            assert constant * found.value * math.log(found.value) == pytest.approx(d * d, rel=1e-12)
            assert not found.exact
    assert "no formula" in retrieval_capacity(KernelSum(ReLU(2)), 64).reason


def test_listwise_loads():
    printed = {0.5: 0.6577, 0.1: 0.2458, 0.05: 0.1905, 0.01: 0.1234, 0.001: 0.0811}
    for share, load in printed.items():
        assert listwise_capacity(100, share).value / 1e4 == pytest.approx(load, abs=6e-5)
    with pytest.raises(InputError, match="share"):
        listwise_capacity(64, 1.0)


@pytest.mark.parametrize("name", [m.name for m in pkgutil.iter_modules(assocmem.theory.__path__)])
def test_examples_in_the_docstrings(name):
    module = importlib.import_module(f"assocmem.theory.{name}")
    assert doctest.testmod(module).failed == 0


def test_theory_loads_neither_scipy_nor_other_rooms():
    code = "import sys, assocmem.theory; print(*sys.modules)"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = found.stdout.split()
    assert "assocmem.theory.design" in loaded
    assert not [m for m in loaded if m.split(".")[0] in ("scipy", "torch", "mpmath")]
    assert not [m for m in loaded if m.startswith(("assocmem.stores", "assocmem.ruler", "assocmem.inputs"))]
