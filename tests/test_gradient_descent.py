"""A trained linear layer is attention over its training inputs: primal against dual and torch, and where it ends."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from assocmem.contract.errors import DivergedError, InputError, UnstableWarning
from assocmem.stores import make_store
from assocmem.stores.delta import DeltaNet
from assocmem.stores.gradient_descent import GradientDescent, TrainedLayer
from assocmem.stores.outer import OuterProduct
from batches import drawn, gap, written

OPTIMISERS = [
    {},
    {"rate": 0.5, "momentum": 0.6},
    {"rate": 0.5, "weight_decay": 0.2},
    {"rate": 0.3, "momentum": 0.5, "weight_decay": 0.1},
]


# ---------------------------------------------------------------------- identities


@pytest.mark.parametrize("settings", OPTIMISERS, ids=str)
@pytest.mark.parametrize("loss", ["squared", "given"])
def test_the_dual_form_equals_the_primal_form(settings, loss):
    keys, values, queries = drawn(0, 300, 8, 5)
    dual, primal = GradientDescent(**settings, loss=loss), TrainedLayer(**settings, loss=loss)
    one, two = written(dual, keys, values), written(primal, keys, values)
    assert gap(dual.layer(one), primal.layer(two)) < 1e-12
    assert gap(dual.recall(one, queries), primal.recall(two, queries)) < 1e-12
    if settings:  # without the coefficients of momentum and decay, attention over the same pairs is another layer
        assert gap(one["errors"].T @ one["keys"], primal.layer(two)) > 1e-2


@pytest.mark.parametrize("settings", OPTIMISERS, ids=str)
def test_both_forms_are_what_torch_trains(settings):
    torch = pytest.importorskip("torch")
    keys, values, _ = drawn(1, 30, 8, 5)
    layer = torch.nn.Linear(8, 5, bias=False, dtype=torch.float64)
    torch.nn.init.zeros_(layer.weight)
    names = {"rate": "lr"}
    sgd = torch.optim.SGD(layer.parameters(), **{"lr": 1.0, **{names.get(k, k): v for k, v in settings.items()}})
    for x, y in zip(torch.tensor(keys), torch.tensor(values), strict=True):
        sgd.zero_grad()
        (0.5 * ((layer(x) - y) ** 2).sum()).backward()
        sgd.step()
    trained = layer.weight.detach().numpy()
    for store in (GradientDescent(**settings), TrainedLayer(**settings)):
        assert gap(store.layer(written(store, keys, values)), trained) < 1e-12


@pytest.mark.parametrize("settings", OPTIMISERS, ids=str)
def test_any_loss_has_a_dual_form(settings):
    # logistic loss over classes: the caller works out the gradients from the recall
    rng = np.random.default_rng(2)
    keys, _, queries = drawn(2, 40, 8, 5)
    labels = rng.integers(0, 5, 40)
    dual, primal = GradientDescent(**settings, loss="given"), TrainedLayer(**settings, loss="given")
    one, two = dual.empty(8, 5), primal.empty(8, 5)
    W, u = np.zeros((5, 8)), np.zeros((5, 8))
    rate, momentum = settings.get("rate", 1.0), settings.get("momentum", 0.0)
    for x, label in zip(keys, labels, strict=True):
        logits = W @ x
        slope = np.exp(logits) / np.exp(logits).sum() - np.eye(5)[label]
        u = momentum * u + np.outer(slope, x) + settings.get("weight_decay", 0.0) * W
        W = W - rate * u
        for store, state in ((dual, one), (primal, two)):
            seen = store.recall(state, x[None])[0]
            minus = np.eye(5)[label] - np.exp(seen) / np.exp(seen).sum()
            state = store.write(state, x[None], minus[None])
            one, two = (state, two) if store is dual else (one, state)
    assert gap(dual.recall(one, queries), queries @ W.T) < 1e-12
    assert gap(primal.recall(two, queries), queries @ W.T) < 1e-12


def test_adam_leaves_the_span_of_the_training_inputs_and_so_has_no_dual_form():
    torch = pytest.importorskip("torch")
    keys, values, _ = drawn(3, 4, 8, 5)
    outside = np.eye(8) - np.linalg.pinv(keys) @ keys
    found = {}
    for name, optimiser in (("sgd", torch.optim.SGD), ("adam", torch.optim.Adam)):
        layer = torch.nn.Linear(8, 5, bias=False, dtype=torch.float64)
        torch.nn.init.zeros_(layer.weight)
        steps = optimiser(layer.parameters(), lr=0.1)
        for x, y in zip(torch.tensor(keys), torch.tensor(values), strict=True):
            steps.zero_grad()
            (0.5 * ((layer(x) - y) ** 2).sum()).backward()
            steps.step()
        found[name] = np.abs(layer.weight.detach().numpy() @ outside).max()
    assert found["sgd"] < 1e-15
    assert found["adam"] > 1e-2


def test_plain_descent_is_the_delta_rule_and_given_gradients_add_up():
    keys, values, queries = drawn(4, 70, 8, 5)
    want = DeltaNet(strength=0.7).recall(written(DeltaNet(strength=0.7), keys, values), queries)
    outer = OuterProduct().recall(written(OuterProduct(), keys, values), queries)
    for form in ("dual", "primal"):
        store = make_store("gradient-descent", rate=0.7, form=form)
        assert gap(store.recall(written(store, keys, values), queries), want) < 1e-12
        given = make_store("gradient-descent", loss="given", form=form)
        assert gap(given.recall(written(given, keys, values), queries), outer) < 1e-12
        assert gap(given.recall(written(given, keys, values), queries), want) > 1e-2


def test_it_recalls_by_default():
    rng = np.random.default_rng(5)
    keys, values = rng.normal(size=(2, 5, 64))
    keys, values = (a / np.linalg.norm(a, axis=-1, keepdims=True) for a in (keys, values))
    for form in ("dual", "primal"):
        store = make_store("gradient-descent", form=form)
        out = store.recall(written(store, keys, values), keys)
        assert np.diagonal(out @ values.T).min() > 0.7


# ---------------------------------------------------------------------- forms, splits, masks, libraries


# ---------------------------------------------------------------------- rates that are too large, settings


@pytest.mark.parametrize("kind", [GradientDescent, TrainedLayer])
def test_a_rate_above_the_bound_is_announced_and_a_diverging_stream_stopped(kind):
    keys, values, _ = drawn(11, 40, 8, 3)
    with pytest.warns(UnstableWarning, match=r"reaches 2\.5 .* above the bound 2;") as heard:
        kind(rate=2.5).write(kind(rate=2.5).empty(8, 3), keys[:1], values[:1])
    assert heard[0].filename == __file__
    with pytest.warns(UnstableWarning, match="above the bound"):
        written(kind(rate=1.0, momentum=0.9), keys, values)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        written(kind(rate=0.2, momentum=0.9), keys, values)
    same, ones = np.repeat(keys[:1], 1500, axis=0), np.ones((1500, 3))
    with pytest.warns(UnstableWarning), pytest.raises(DivergedError, match="rate") as caught:
        written(kind(rate=20.0), same, ones)
    with pytest.warns(UnstableWarning):
        written(kind(rate=20.0), same[: caught.value.step], ones[: caught.value.step])


@pytest.mark.parametrize("form", ["dual", "primal"])
def test_uniform_keys_of_any_length_are_announced_and_end_alike_in_every_library(form):
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(14)
    keys, values = rng.uniform(-1, 1, size=(2, 256, 64)).astype(np.float32)
    steps = []
    for k, v in ((keys, values), (torch.tensor(keys), torch.tensor(values))):
        with pytest.warns(UnstableWarning, match="above the bound 2"), pytest.raises(DivergedError) as caught:
            written(make_store("gradient-descent", form=form), k, v)
        steps.append(caught.value.step)
    assert abs(steps[0] - steps[1]) <= 1
    halves = rng.normal(size=(2, 64, 64)).astype(np.float16)
    tame = make_store("gradient-descent", form=form, rate=0.01)
    assert np.isfinite(tame.recall(written(tame, *halves), halves[0])).all()


def test_settings_out_of_range_are_refused():
    for kind in (GradientDescent, TrainedLayer):
        with pytest.raises(InputError, match="`rate` of"):
            kind(rate=3.0, weight_decay=1.0)
    with pytest.raises(InputError, match="gives no mass: each gradient depends"):
        GradientDescent().ask(written(GradientDescent(), *drawn(12, 3, 4, 2)[:2]), np.ones((1, 4)), want="mass")


@pytest.mark.parametrize("name", ["bfloat16", "float16"])
@pytest.mark.parametrize("momentum", [0.0, 0.5])
def test_a_state_kept_in_16_bits_is_written_and_recalled_within_its_rounding(name, momentum):
    torch = pytest.importorskip("torch")
    keys, values, queries = (torch.asarray(x, dtype=torch.float32) for x in drawn(3, 9, 6, 4)[:3])
    store, narrow = GradientDescent(rate=0.2, momentum=momentum), {"like": keys, "state_dtype": name}
    state = store.write(store.write(store.empty(6, 4, **narrow), keys[:5], values[:5]), keys[5:], values[5:])
    exact = written(store, keys, values)
    want = store.recall(exact, queries)
    close = 0.05 * float(torch.abs(want).max())
    assert state["errors"].dtype == getattr(torch, name)
    assert torch.abs(store.recall(state, queries) - want).max() < close
    mask = torch.arange(9) != 2
    masked = store.recall(state, queries, mask=mask) - store.recall(exact, queries, mask=mask)
    assert torch.abs(masked).max() < close
    final, _ = store.scan(store.empty(6, 4, **narrow), keys, values, keys)
    assert torch.abs(store.recall(final, queries) - want).max() < close
