"""The fast form of a scan is the loop of write and recall in float64, at odd lengths and in hard regimes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from assocmem.stores.delta_former import DeltaFormer
from assocmem.stores.gradient_descent import GradientDescent, TrainedLayer
from assocmem.stores.mesa import MesaNet
from assocmem.stores.outer import OuterProduct
from assocmem.stores.titans import Titans
from assocmem.stores.ttt import TTTMLP, TTTLinear
from batches import drawn, gap, written

LENGTHS = (1, 2, 31, 32, 33, 63, 64, 65, 77)
DECAYS = [0.0, 1e-30, 0.7, 1.0, 1.0]
OPTIMISERS: list[dict[str, float]] = [
    {}, {"rate": 0.5, "momentum": 0.6}, {"rate": 0.5, "weight_decay": 0.2},
    {"rate": 0.3, "momentum": 0.5, "weight_decay": 0.1},
]  # fmt: skip
CASES: list[tuple[Any, dict[str, Any]]] = [
    (OuterProduct(), {}),
    *((kind(**optimiser), {}) for kind in (GradientDescent, TrainedLayer) for optimiser in OPTIMISERS),
    *((DeltaFormer(beta=beta), {"strength": [0.0, 0.5, 1.0]}) for beta in (None, 0.0, 50.0)),
    (Titans(), {}),
    (Titans(), {"rate": (0.2, 1), "momentum": (0, 0.9), "forgetting": (0, 0.3)}),
    (Titans(), {"momentum": [0, 1, 0], "forgetting": [0, 1, 0]}),
    (Titans(), {"momentum": (0.999, 1), "forgetting": (0.999, 1)}),
    (Titans(), {"rate": [0, 2, 2]}),
    (TTTLinear(), {"rate": (0.2, 1)}),
    (TTTLinear(mini_batch=1), {"rate": (0.2, 1)}),
    (TTTLinear(mini_batch=5, base_rate=0.05, bias=True), {"rate": (0.2, 1)}),
    (TTTLinear(norm=True, residual=True, bias=True, init_std=0.02), {"rate": (0.2, 1)}),
    (TTTMLP(), {"rate": (0.2, 1)}),
    (TTTMLP(mini_batch=3, norm=True, residual=True, bias=True, hidden_init_std=0.02), {"rate": (0.2, 1)}),
    (MesaNet(), {"strength": (0, 2), "decay": DECAYS}),
    (MesaNet(decay=0.9), {"strength": (0, 2)}),
    (MesaNet(decay=0.0), {"strength": (0, 2)}),
    (MesaNet(solver="direct"), {"strength": (0, 2), "decay": DECAYS}),
    (MesaNet(solver="rls"), {"strength": (0, 2)}),
    (MesaNet(solver="rls", decay=0.98), {"strength": (0, 2)}),
]
"""Stores, and the extras of their writes: drawn uniformly between two numbers, or from a list."""
LONG = [
    (Titans(), 1000), (Titans(depth=2), 80), (TTTLinear(), 1000), (TTTMLP(), 1000),
    *((kind(rate=0.3, momentum=0.5, weight_decay=0.01), 1000) for kind in (GradientDescent, TrainedLayer)),
    *((MesaNet(solver=solver, decay=0.99), 1000) for solver in ("cg", "direct", "rls")),
]  # fmt: skip
pytestmark = pytest.mark.filterwarnings("ignore::assocmem.contract.errors.UnstableWarning")


def bound(store: Any) -> float:
    """Return the largest difference allowed: iterations end at their tolerance."""
    return 1e-8 if isinstance(store, MesaNet) else 1e-10


@pytest.mark.parametrize("read", ["after", "before"])
@pytest.mark.parametrize(("store", "given"), CASES, ids=str)
def test_a_scan_equals_the_loop(store: Any, given: dict[str, Any], read: Any) -> None:
    for n in LENGTHS:
        keys, values, queries = drawn(n, n + 3, 6, 6, batch=(2,))
        old = written(store, keys[:, :3], values[:, :3])
        keys, values, queries = keys[:, 3:], values[:, 3:], queries[:, 3:]
        keys[:, n // 2 :] = keys[:, n // 2 : n // 2 + 1] + 1e-9 * keys[:, n // 2 :]  # nearly parallel from here on
        rng = np.random.default_rng(n)
        extras = {
            name: rng.uniform(*x, (2, n)) if isinstance(x, tuple) else rng.choice(np.array(x, float), (2, n))
            for name, x in given.items()
        }
        state, out = store.scan(old, keys, values, queries, read=read, **extras)
        slow, want = store._loop(old, keys, values, queries, read, extras)
        assert state.n == slow.n == n + 3
        assert gap(out, want) < bound(store)
        assert all(gap(state[name], array) < 1e-10 for name, array in slow.contents.items())
    other = "before" if read == "after" else "after"
    assert gap(store.scan(old, keys, values, queries, read=other, **extras)[1], want) > 1e-4


@pytest.mark.parametrize(("store", "n"), LONG, ids=str)
def test_a_long_scan_equals_the_loop(store: Any, n: int) -> None:
    keys, values, queries = drawn(9, n, 6, 6)
    _, out = store.scan(store.empty(6, 6), keys, values, queries)
    _, want = store._loop(store.empty(6, 6), keys, values, queries, "after", {})
    assert gap(out, want) < bound(store)
