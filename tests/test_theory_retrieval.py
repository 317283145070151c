"""Telling values apart, signal to noise, and bits per number: theory beside simulations that know no formula."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.optimize import linprog

from assocmem.contract.errors import InputError
from assocmem.contract.form import Decay, KernelSum, LeastSquares
from assocmem.maps.activations import Exp, Linear, ReLU
from assocmem.theory import (
    BITS_PER_WEIGHT,
    code_retrieval,
    ratio,
    retrieval_capacity,
    separable_share,
    signal_to_noise,
)

SEED = 20261


def units(rng, *shape):
    rows = rng.standard_normal(shape)
    return rows / np.linalg.norm(rows, axis=-1, keepdims=True)


def kernel(sigma):
    return lambda keys, values, queries: sigma(queries @ keys.T) @ values


def least_squares(keys, values, queries):
    return queries @ np.linalg.lstsq(keys, values, rcond=None)[0]


def right(recall, d, n, trials, rng):
    """Return the share of recalls that are nearest to their own value, each of at most 200 a trial."""
    shares = []
    for _ in range(trials):
        keys, values = units(rng, n, d), units(rng, n, d)
        asked = rng.permutation(n)[:200]
        shares.append(np.mean(np.argmax(recall(keys, values, keys[asked]) @ values.T, axis=1) == asked))
    return float(np.mean(shares))


RULES = {
    "outer product": (KernelSum(Linear()), kernel(lambda s: s), kernel(lambda s: np.maximum(s, 0)), 48),
    "least squares": (LeastSquares(), least_squares, kernel(lambda s: s), 32),
    "squared ReLU": (KernelSum(ReLU(2)), kernel(lambda s: np.maximum(s, 0) ** 2), kernel(np.square), 24),
    "softmax": (KernelSum(Exp(4.5), True), kernel(lambda s: np.exp(4.5 * s)), kernel(lambda s: np.exp(4 * s)), 20),
}
"""Form, the rule it is of, a rule that it isn't, and a width. Two percent: four standard errors and theory's."""


@pytest.mark.parametrize("name", RULES)
def test_a_share_of_right_recalls_falls_where_theory_says(name):
    form, rule, other, d = RULES[name]
    found = retrieval_capacity(form, d, share=0.9)
    assert (found.exact, found.statistic) == (False, "share")
    n, rng = round(found.value), np.random.default_rng(SEED)
    assert right(rule, d, n, 60, rng) == pytest.approx(0.9, abs=0.025)
    assert abs(right(other, d, n, 60, rng) - 0.9) > 0.03


def test_more_recalls_right_allow_fewer_pairs_and_a_divisor_changes_nothing():
    found = [retrieval_capacity(KernelSum(Exp(6.0)), 32, share=s).value for s in (0.5, 0.9, 0.99)]
    assert found == sorted(found, reverse=True)
    assert retrieval_capacity(KernelSum(Exp(6.0), normalised=True), 32, share=0.9).value == found[1]


@pytest.mark.parametrize(
    ("form", "d", "share", "why"),
    [
        (LeastSquares(0.1), 32, 0.9, "no formula"), (Decay(0.9), 32, 0.9, "no formula"),
        (KernelSum(Linear(), signs=True), 32, 0.9, "no formula"), (KernelSum(None), 32, 0.9, "no formula"),
        (KernelSum(Linear()), 1, 0.9, "no formula"), (KernelSum(Linear()), 2, 0.999, "not even 2 pairs"),
        (KernelSum(ReLU(8)), 4096, 0.5, "beyond n"),
    ],
)  # fmt: skip
def test_where_no_share_is_known_the_reason_is_said(form, d, share, why):
    assert why in retrieval_capacity(form, d, share=share).reason


@pytest.mark.parametrize("share", [0, 1.0, "x", float("nan"), True])
def test_shares_out_of_range_are_refused(share):
    with pytest.raises(InputError, match="`share`"):
        retrieval_capacity(KernelSum(Linear()), 32, share=share)


def signal_and_noise(recall, d, n, trials, rng):
    """Return E |signal|^2 / E |noise|^2 of recall by its weights, read with one-hot values."""
    signal = noise = 0.0
    for _ in range(trials):
        keys = units(rng, n, d)
        weights = recall(keys, np.eye(n), keys)
        own = np.diagonal(weights) ** 2
        signal, noise = signal + own.sum(), noise + (weights**2).sum() - own.sum()
    return signal / noise


@pytest.mark.parametrize("name", ["outer product", "least squares", "squared ReLU"])
def test_signal_to_noise_is_a_quotient_of_means(name):
    form, rule, other, d = RULES[name]
    n, rng = 3 * d // 2, np.random.default_rng(SEED)
    found = signal_to_noise(form, d, n)
    assert signal_and_noise(rule, d, n, 500, rng) == pytest.approx(found.value, rel=0.035)
    assert abs(signal_and_noise(other, d, n, 60, rng) / found.value - 1) > 0.2
    if name == "least squares":  # the mean of the quotient is another number, 1/ratio^2
        assert abs(ratio(form, d, n).value ** -2 / found.value - 1) > 0.03


def test_signal_to_noise_has_its_reasons():
    assert "infinite" in signal_to_noise(LeastSquares(), 64, 64).reason
    assert "infinite" in signal_to_noise(KernelSum(Linear()), 64, 1).reason
    assert "no formula" in signal_to_noise(LeastSquares(), 64, 128, cosine=0.5).reason
    assert signal_to_noise(KernelSum(Linear()), 64, 65, cosine=0.5).value == pytest.approx(0.25)


def told_apart(d, m, n, decoded, trials, rng):
    shares = []
    for _ in range(trials):
        values, code = units(rng, n, d), rng.standard_normal((d, m))
        shares.append(np.mean(np.argmax(decoded(values @ code) @ code.T @ values.T, axis=1) == np.arange(n)))
    return float(np.mean(shares))


@pytest.mark.parametrize(("m", "printed"), [(4, 0.11), (8, 0.35), (12, 0.71), (16, 0.82), (24, 0.96)])
def test_codes_of_random_projections_tell_values_apart(m, printed):
    found, rng = code_retrieval(32, m, 256).value, np.random.default_rng(SEED)
    assert told_apart(32, m, 256, lambda code: code, 40, rng) == pytest.approx(found, abs=0.02)
    assert found == pytest.approx(printed, abs=0.06)  # one draw's of each size
    assert abs(told_apart(32, m, 256, np.sign, 30, rng) - found) > 0.05  # a code of signs holds less


def separable(points, labels):
    """Say whether some weights give all points their labels, by linear programming."""
    signed = -points * labels[:, None]
    return linprog(np.zeros(points.shape[1]), A_ub=signed, b_ub=-np.ones(len(points)), bounds=(None, None)).status == 0


@pytest.mark.parametrize("n_labels", [8, 12, 15])
def test_a_threshold_unit_stores_two_labels_a_weight(n_labels):
    n, trials, rng = 6, 150, np.random.default_rng(SEED)
    drawn = [separable(rng.standard_normal((n_labels, n)), rng.choice([-1.0, 1.0], n_labels)) for _ in range(trials)]
    found = separable_share(n_labels, n)
    error = math.sqrt(found.value * (1 - found.value) / trials)
    assert abs(np.mean(drawn) - found.value) < 3.5 * error
    # A unit with an offset, which the count isn't of, stores one label more.
    assert abs(np.mean(drawn) - separable_share(n_labels, n + 1).value) > 3.5 * error


def test_separable_labellings_are_counted():
    for n in (1, 2, 7, 40):
        assert separable_share(BITS_PER_WEIGHT * n, n).value == pytest.approx(0.5, rel=1e-12)
        assert separable_share(n, n).value == 1.0
        for p in (n + 1, 3 * n):
            count = 2 * sum(math.comb(p - 1, i) for i in range(n))
            assert separable_share(p, n).value == pytest.approx(count / 2**p, rel=1e-11)
    assert separable_share(10**6, 1000).log_value < -600_000
    with pytest.raises(InputError, match="`n_labels`"):
        separable_share(0, 5)
    with pytest.raises(InputError, match="`code`"):
        code_retrieval(32, 0, 5)
