"""The form of a store: data that is checked, declared by every family that has one, and enough for every prediction."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from assocmem import stores, theory
from assocmem.contract.arrays import transpose
from assocmem.contract.errors import InputError
from assocmem.contract.form import (
    ChannelDecay,
    Decay,
    DeltaRule,
    Form,
    GatedSum,
    Hashed,
    Iterated,
    KernelSum,
    LeastSquares,
    Momentum,
    TopK,
)
from assocmem.contract.register import entries, register
from assocmem.contract.store import Store
from assocmem.contract.traits import Traits
from assocmem.lab.capacity import capacity
from assocmem.lab.recency import Ages, Rewrites, Sequences
from assocmem.lab.requirements import requirements
from assocmem.lab.run import curves
from assocmem.maps.activations import Activation, Constant, Exp, Linear, LogN, Swish
from assocmem.stores import make_store

D = 16


@dataclass(frozen=True)
class Halving(Store):
    """f(x) = W x, W <- W/2 + v k^T: a store that nothing of the package knows, but for its form."""

    share: float = 0.5

    @property
    def traits(self) -> Traits:
        return Traits(linear_in_values="shared", permutation_invariant=False, overwrite="decays", constant_size=True)

    def init(self, state):
        return {"W": state.zeros(state.d_v, state.d_k)}

    def put(self, state, keys, values, **extras):
        W = state["W"]
        for i in range(int(keys.shape[-2])):
            W = self.share * W + transpose(values[..., i : i + 1, :]) @ keys[..., i : i + 1, :]
        return {"W": W}

    def get(self, state, queries, ask):
        return queries @ transpose(state["W"])

    def form(self, d_k):
        return Decay(self.share)


@dataclass(frozen=True)
class Cubes(Halving):
    """f(x) = sum_i (k_i.x)^3 v_i up to rounding, kept in a tensor."""

    def init(self, state):
        return {"W": state.zeros(state.d_v, state.d_k**3)}

    def _cubed(self, x):
        return (x[..., :, None, None] * x[..., None, :, None] * x[..., None, None, :]).reshape(*x.shape[:-1], -1)

    def put(self, state, keys, values, **extras):
        return {"W": state["W"] + transpose(values) @ self._cubed(keys)}

    def get(self, state, queries, ask):
        return self._cubed(queries) @ transpose(state["W"])

    def form(self, d_k):
        return KernelSum(Cube())


@dataclass(frozen=True)
class Cube(Activation):
    """s^3, also below 0: an activation without a closed form in the package."""

    formula = "s^3"

    def __call__(self, s):
        return s**3


@pytest.fixture
def toys():
    for key, make in (("toy-halving", Halving), ("toy-cubes", Cubes)):
        register(key, make, summary="A toy.")
    yield
    for key in ("toy-halving", "toy-cubes"):
        del entries[key]


@pytest.mark.usefixtures("toys")
def test_a_new_store_with_a_form_is_predicted_everywhere():
    found = capacity(("cubes", Cubes()), D, workers=1, precision=0.1)
    exact = 1 + D * (D + 2) * (D + 4) / 15
    assert found.prediction.value == pytest.approx(exact, rel=1e-9)
    assert found.measured.low < exact < found.measured.high

    row = next(row for row in requirements(D, D, 300, 1.0) if row["store"] == "toy-cubes")
    assert (row["feasible"], row["numbers_held"]) == (True, D**4)
    assert row["largest"] == pytest.approx(exact, rel=1e-9)

    rows = curves([("halving", Halving())], D, [12], Sequences(Ages((0, 3)), 64), workers=1)
    signal = {row["age"]: row for row in rows if row["quantity"] == "signal"}
    assert signal[3]["value"] == pytest.approx(signal[3]["theory"]) == pytest.approx(1 / 8)
    ratio = next(row for row in rows if row["quantity"] == "ratio" and row["age"] == 3)
    assert ratio["low"] < ratio["theory"] < ratio["high"]
    rows = curves([Halving()], D, [4], Sequences(Rewrites(), 8), workers=1)
    left = next(row for row in rows if row["quantity"] == "left")
    assert left["value"] == pytest.approx(left["theory"]) == pytest.approx(1 / 4)


def test_every_form_answers_every_question_or_says_why_not():
    asked = [
        lambda form: theory.ratio(form, D, 9),
        lambda form: theory.capacity(form, D),
        lambda form: theory.signal_by_age(form, D, 2),
        lambda form: theory.ratio_by_age(form, D, 9, 2),
        lambda form: theory.old_value_left(form, D, 9, 2),
    ]
    answers = {
        KernelSum(Linear()): [True] * 5,
        KernelSum(LogN(), normalised=True): [True, True, False, True, False],
        KernelSum(None): [False, False, False, False, True],
        KernelSum(None, normalised=True): [False] * 5,
        LeastSquares(): [True, True, False, False, True],
        LeastSquares(0.5): [True, False, False, False, False],
        Decay(0.9): [False, False, True, True, True],
        DeltaRule(): [False, False, True, True, False],
        Momentum(0.5, 0.1): [False, False, True, True, False],
        ChannelDecay((-1.0,) * D, 0.1, 1.0): [False, False, True, False, False],
        TopK(4, KernelSum(Exp(2.0), normalised=True)): [True, True, False, False, False],
        Hashed((7, 11)): [True, True, False, False, False],
        GatedSum(Swish()): [False] * 5,
        Iterated(2, KernelSum(Exp(2.0), normalised=True)): [False] * 5,
        None: [False] * 5,
    }
    assert {type(form) for form in answers if form} == set(Form.__subclasses__())
    for form, known in answers.items():
        found = [ask(form) for ask in asked]
        assert [answer.value is not None for answer in found] == known, form
        assert all(answer.reason or answer.value is not None for answer in found), form


def test_forms_are_data_and_are_checked():
    assert KernelSum(LogN(100, 8.0), normalised=True).at(10, 64) == Exp(4.0)
    assert KernelSum(LogN()).depends_on_n
    assert not KernelSum(Linear()).depends_on_n
    assert KernelSum(None).at(3, 8) is None
    steps = ChannelDecay((-1.0,), 0.01, 1.0).steps(2)
    np.testing.assert_allclose(steps, [0.01**0.75, 0.01**0.25])
    for wrong in (
        lambda: LeastSquares(-1.0),
        lambda: Decay(1.5),
        lambda: DeltaRule(2.5),
        lambda: DeltaRule(1.0, -0.1),
        lambda: Momentum(0.0),
        lambda: Momentum(1.0, 1.5),
        lambda: ChannelDecay((0.5,), 1.0, 1.0),
        lambda: ChannelDecay((-1.0,), 2.0, 1.0),
        lambda: TopK(0, Decay(1.0)),
        lambda: Iterated(0, Decay(1.0)),
    ):
        with pytest.raises(InputError):
            wrong()


def test_the_stores_declare_their_forms():
    assert {key for key in stores.names() if make_store(key).form(D) is None} == {
        "all-attention", "attention-over-parameters", "delta-former", "functional-gradient",
        "memorizing-transformer", "memory-layers", "mesa-net", "peer", "product-key", "superposed-mlp",
        "test-time-regression",
        "ttt-linear", "ttt-mlp", "ultramem",
    }  # fmt: skip
    assert make_store("nearest-neighbours", k=3).form(D) == TopK(3, KernelSum(Constant(None), normalised=True))
    assert make_store("titans", depth=2).form(D) is None
    assert make_store("titans", base_rate=0.2, momentum=0.1, forgetting=0.3).form(D) == Momentum(0.4, 0.1, 0.3)
    assert make_store("gradient-descent", rate=0.5, momentum=0.2).form(D) == Momentum(0.5, 0.2)
    assert make_store("gradient-descent", weight_decay=0.1).form(D) is None
    assert make_store("ttt-linear", mini_batch=1, base_rate=0.7).form(D) == DeltaRule(0.7)
    assert make_store("ttt-linear", mini_batch=4).form(D) is None
    assert make_store("delta-net", feature="elu").form(D) is None
    assert make_store("optimal-linear", ridge=0.5).form(D) == LeastSquares(0.5)
