"""Titans: the rule against its equations, chunks, momentum, forgetting, deep memories, the bound of stability."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from assocmem.contract.errors import DivergedError, UnstableWarning
from assocmem.kernels.momentum import stable_rate
from assocmem.stores.delta import DeltaNet, GatedDeltaNet
from assocmem.stores.titans import Titans
from batches import drawn, gap, written


def gates(seed, shape):
    rng = np.random.default_rng(seed)
    return {
        "rate": rng.uniform(0.2, 1, shape),
        "momentum": rng.uniform(0, 0.9, shape),
        "forgetting": rng.uniform(0, 0.3, shape),
    }


def by_the_equations(keys, values, theta, eta, alpha, order="paper"):
    """The rule of equations 13 and 14, one pair at a time; other orders are wrong on purpose."""
    M, S, rows = np.zeros((values.shape[-1], keys.shape[-1])), 0.0, []
    for k, v, t, e, a in zip(keys, values, theta, eta, alpha, strict=True):
        at = (1 - a) * M if order == "gradient after forgetting" else M
        S = e * S - t * 2 * np.outer(at @ k - v, k)
        M = (1 - a) * (M + S) if order == "step forgets too" else (1 - a) * M + S
        rows.append(M)
    return rows


# ---------------------------------------------------------------------- identities


def test_the_recursion_is_that_of_the_equations():
    keys, values, queries = drawn(0, 40, 8, 5)
    extras = gates(0, 40)
    store = Titans(base_rate=0.2)
    got = written(store, keys, values, **extras)["W"]
    theta, eta, alpha = 0.2 * extras["rate"], extras["momentum"], extras["forgetting"]
    np.testing.assert_allclose(got, by_the_equations(keys, values, theta, eta, alpha)[-1], rtol=0, atol=1e-12)
    for wrong in ("gradient after forgetting", "step forgets too"):
        assert gap(got, by_the_equations(keys, values, theta, eta, alpha, wrong)[-1]) > 0.02
    out = store.scan(store.empty(8, 5), keys, values, queries, **extras)[1]
    rows = by_the_equations(keys, values, theta, eta, alpha)
    want = np.stack([M @ q for M, q in zip(rows, queries, strict=True)])
    np.testing.assert_allclose(out, want, rtol=0, atol=1e-12)


def test_without_momentum_and_forgetting_it_is_the_delta_rule_of_twice_the_rate():
    keys, values, _ = drawn(1, 70, 8, 5)
    delta = written(DeltaNet(strength=0.8), keys, values)["W"]
    assert gap(written(Titans(0.4, momentum=0.0), keys, values)["W"], delta) < 1e-12
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnstableWarning)
        assert gap(written(Titans(0.8, momentum=0.0), keys, values)["W"], delta) > 1e-2  # the factor 2 forgotten
    assert gap(written(Titans(0.4, momentum=0.1), keys, values)["W"], delta) > 1e-2
    assert gap(written(Titans(momentum=0.0), keys, values)["W"], written(DeltaNet(), keys, values)["W"]) < 1e-12


def test_forgetting_everything_leaves_the_last_step_not_the_last_pair():
    keys, values, _ = drawn(2, 5, 8, 3)
    store = Titans(0.3, momentum=0.0, forgetting=1.0)
    before, after = written(store, keys[:4], values[:4])["W"], written(store, keys, values)["W"]
    step = 0.6 * np.outer(values[4] - before @ keys[4], keys[4])
    np.testing.assert_allclose(after, step, rtol=0, atol=1e-13)
    last_pair_alone = written(GatedDeltaNet(strength=0.6, decay=0.0), keys, values)["W"]
    assert gap(after, last_pair_alone) > 1e-2


def test_a_single_step_goes_on_by_a_geometric_series():
    keys, values, _ = drawn(3, 30, 6, 4)
    rate = np.zeros(30)
    rate[0] = 1
    for eta, n in ((0.5, 30), (0.9, 7), (1.0, 12), (0.0, 5)):
        store = Titans(0.05, momentum=eta)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UnstableWarning)
            got = written(store, keys[:n], values[:n], rate=rate[:n])["W"]
        want = 0.1 * sum(eta**j for j in range(n)) * np.outer(values[0], keys[0])
        np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-14)


def test_one_key_written_again_and_again_follows_heavy_ball():
    # error e_(t+1) = (1 + eta - b) e_t - eta e_(t-1), solved by its two characteristic roots
    key, b, eta = np.array([[0.6, 0.8]]), 0.7, 0.4
    store, state = Titans(b / 2, momentum=eta), Titans().empty(2, 1)
    roots = np.roots([1, -(1 + eta - b), eta]).astype(complex)
    mix = np.linalg.solve(np.stack([roots**0, roots**1]), np.array([1, 1 - b], dtype=complex))
    for t in range(1, 12):
        state = store.write(state, key, np.ones((1, 1)))
        error = (mix * roots**t).sum().real
        np.testing.assert_allclose(store.recall(state, key)[0, 0], 1 - error, rtol=0, atol=1e-13)


# ---------------------------------------------------------------------- deep memory


@pytest.mark.parametrize("depth", [2, 3])
def test_a_deep_memory_follows_automatic_differentiation(depth):
    torch = pytest.importorskip("torch")
    store = Titans(0.1, momentum=0.6, forgetting=0.1, depth=depth, expansion=2)
    keys, values, queries = drawn(4, 7, 4, 3)
    names = [f"W{i + 1}" for i in range(depth)]
    start = store.empty(4, 3)
    weights = {name: torch.tensor(np.array(start[name]), requires_grad=True) for name in names}
    steps = {name: torch.zeros_like(weights[name]) for name in names}

    def forward(x):
        for i, name in enumerate(names):
            x = weights[name] @ (torch.nn.functional.gelu(x, approximate="tanh") if i else x)
        return x

    for k, v in zip(torch.tensor(keys), torch.tensor(values), strict=True):
        loss = ((forward(k) - v) ** 2).sum()
        slopes = torch.autograd.grad(loss, list(weights.values()))
        for name, slope in zip(names, slopes, strict=True):
            steps[name] = 0.6 * steps[name] - 0.1 * slope
            weights[name] = (0.9 * weights[name].detach() + steps[name]).requires_grad_()
    state = written(store, keys, values)
    for name in names:
        np.testing.assert_allclose(state[name], weights[name].detach().numpy(), rtol=0, atol=1e-12)
        np.testing.assert_allclose(state[f"momentum_{name}"], steps[name].numpy(), rtol=0, atol=1e-12)
    want = np.stack([forward(q).detach().numpy() for q in torch.tensor(queries)])
    np.testing.assert_allclose(store.recall(state, queries), want, rtol=0, atol=1e-12)


def test_memories_recall_by_default():
    rng = np.random.default_rng(5)
    keys, values = rng.normal(size=(2, 5, 64))
    keys, values = (a / np.linalg.norm(a, axis=-1, keepdims=True) for a in (keys, values))
    for store in (Titans(), Titans(depth=2), Titans(momentum=0.9)):
        out = store.recall(written(store, keys, values), keys)
        assert ((out @ values.T).argmax(axis=-1) == np.arange(5)).all()
        assert np.diagonal(out @ values.T / np.linalg.norm(out, axis=-1, keepdims=True)).min() > 0.6


# ---------------------------------------------------------------------- forms, splits, regimes

# ---------------------------------------------------------------------- stability


@pytest.mark.parametrize("eta", [0.0, 0.3, 0.9])
@pytest.mark.parametrize("alpha", [0.0, 0.01, 0.4, 1.0])
def test_the_bound_is_where_an_eigenvalue_reaches_one(eta, alpha):
    r = 1 - alpha
    for d in (1, 2, 64):
        b = float(stable_rate(d, np.asarray(eta), np.asarray(alpha)))
        grown = []
        for step in (b * 0.999, b * 1.001):
            repeated = np.array([[r - step, eta], [-step, eta]])
            # second moments A = |M|^2, B = <M, S>, C = |S|^2 of the homogeneous rule over random unit keys
            C = np.array([step**2 / d, -2 * eta * step / d, eta**2])
            cross = np.array([-step / d, eta, 0])
            B, A = r * cross + C, r * r * np.array([1, 0, 0]) + 2 * r * cross + C
            grown.append(max(np.abs(np.linalg.eigvals(m)).max() for m in (repeated, np.stack([A, B, C]))))
        assert grown[0] <= 1 + 1e-9 < grown[1] + 1e-9
        assert grown[1] > 1


def test_random_streams_stay_below_the_bound_and_grow_above():
    rng = np.random.default_rng(8)
    d, eta = 16, 0.6
    keys = rng.normal(size=(3000, d))
    keys /= np.linalg.norm(keys, axis=-1, keepdims=True)
    first = np.concatenate([np.ones((1, 1)), np.zeros((2999, 1))])
    bound = float(stable_rate(d, np.asarray(eta), np.asarray(0.0)))
    sizes = []
    for share in (0.5, 2.0):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UnstableWarning)
            sizes.append(np.abs(written(Titans(share * bound / 2, momentum=eta), keys, first)["W"]).max())
    assert sizes[0] < 1e-6
    assert sizes[1] > 1e3


def test_a_rate_above_the_bound_is_announced_and_a_diverging_stream_stopped():
    keys, values, _ = drawn(9, 1, 4, 3)
    with pytest.warns(UnstableWarning, match=r"2 theta \|k\|\^2 reaches 3 .* above the bound 2"):
        written(Titans(1.5, momentum=0.0), keys, values)
    many = drawn(10, 40, 64, 3)
    with pytest.warns(UnstableWarning, match=r"reaches 0\.5 .* above the bound 0\.203"):
        written(Titans(0.25, momentum=0.9), *many[:2])
    with pytest.warns(UnstableWarning, match="above the bound"):
        written(Titans(5.0, depth=2, init_std=1.0), many[0][:1], many[1][:1])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        written(Titans(0.1, momentum=0.9), *many[:2])
        written(Titans(), *many[:2])
    same, ones = np.repeat(keys, 4096, axis=0), np.ones((4096, 3))
    with pytest.warns(UnstableWarning), pytest.raises(DivergedError, match="base_rate") as caught:
        written(Titans(10.0, momentum=0.0), same, ones)
    with pytest.warns(UnstableWarning):
        written(Titans(10.0, momentum=0.0), same[: caught.value.step], ones[: caught.value.step])
