"""Contract: derivatives by PyTorch, in forward and in reverse mode, and what torch.func makes of a store.

The checks hold in PyTorch; in other libraries there is nothing to check.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import array_api_compat
import numpy as np

from assocmem.checks.harness import Drawn, Findings, Harness, Numbers, check
from assocmem.contract.arrays import Array, to_numpy
from assocmem.contract.errors import AssocmemError

Map: TypeAlias = Callable[..., Array]
Arrays: TypeAlias = list[Array]
Mode: TypeAlias = Callable[[Map, Arrays, Arrays, Array], Any]

STEP = 1e-6
"""Step of the central differences that derivatives are held to, in float64."""
NEAR = 1e-5
"""Largest gap, relative to the largest derivative, that such differences explain."""


@check("forward-mode", "torch's forward-mode derivatives of recalls are right, or refused in a sentence")
def forward_mode(harness: Harness) -> Findings:
    """Compare torch.func.jvp and dual numbers with differences, in every way of writing."""
    yield from _held(harness, {"torch.func.jvp": _jvp, "dual numbers": _dual})


@check("reverse-mode", "torch's reverse-mode derivatives of recalls are right, or refused in a sentence")
def reverse_mode(harness: Harness) -> Findings:
    """Compare backward and torch.func.grad with differences, in every way of writing."""
    yield from _held(harness, {"backward": _backward, "torch.func.grad": _grad})


@check("vmap", "torch.func.vmap through write and recall equals one call an item, or is refused in a sentence")
def vmap(harness: Harness) -> Findings:
    """Map over two memories."""
    if not array_api_compat.is_torch_namespace(harness.xp) or harness.traits.extras:
        return
    torch = sys.modules["torch"]
    keys, values = (harness.give(x) for x in (harness.keys(5, batch=(2,)), harness.values(5, batch=(2,))))

    def item(k: Array, v: Array) -> Array:
        return harness.store.recall(harness.store.write(harness.empty(), k, v), k[:3])

    try:
        got = torch.func.vmap(item)(keys, values)
    except AssocmemError:
        return
    yield from harness.same(
        harness.read(got), np.stack([harness.read(item(keys[i], values[i])) for i in (0, 1)]), "vmap"
    )


def _held(harness: Harness, modes: dict[str, Mode]) -> Findings:
    if not array_api_compat.is_torch_namespace(harness.xp) or harness.traits.keys in ("ids", "signs"):
        return
    drawn = harness.draw(12)
    points = [drawn.keys, drawn.values, harness.queries(drawn.keys, 12), *drawn.extras.values()]
    directions = [harness.rng.standard_normal(point.shape) for point in points]
    for route, call in _routes(harness, drawn):
        moved = [[p + sign * STEP * d for p, d in zip(points, directions, strict=True)] for sign in (1, -1)]
        ahead, behind = (harness.read(call(*map(harness.give, point))) for point in moved)
        want = (ahead - behind) / (2 * STEP)
        paid = harness.rng.standard_normal(want.shape)
        for mode, derive in modes.items():
            what = f"the derivative of {route} in all arguments together, by {mode}"
            at, along = ([harness.give(x) for x in arrays] for arrays in (points, directions))
            try:
                got = derive(call, at, along, harness.give(paid))
            except AssocmemError:
                continue
            except Exception as error:  # noqa: BLE001  a stranger's store may raise anything; that is what is reported
                yield f"{what}, must be right or refused in a sentence; got {type(error).__name__}: {error}"
                continue
            if np.ndim(got):
                yield from harness.same(got, want, what, NEAR)
            elif not abs(got - np.sum(want * paid)) <= NEAR * max(np.abs(want).sum(), 1e-3):
                yield f"{what}: expected {np.sum(want * paid):.6g} along a direction, got {got:.6g}."


def _routes(harness: Harness, drawn: Drawn) -> Iterator[tuple[str, Map]]:
    """Yield the ways from pairs to recalls: one write, several, a scan."""
    store = harness.store

    def named(extras: tuple[Array, ...], at: slice) -> dict[str, Array]:
        return {name: x[at] if name in drawn.per_pair else x for name, x in zip(drawn.extras, extras, strict=True)}

    def written(*cuts: slice) -> Map:
        def call(keys: Array, values: Array, queries: Array, *extras: Array) -> Array:
            state = harness.empty()
            for at in cuts:
                state = store.write(state, keys[at], values[at], **named(extras, at))
            return store.recall(state, queries)

        return call

    yield "write and recall", written(slice(None))
    yield "writes of 1, 7 and 4 pairs and recall", written(slice(0, 1), slice(1, 8), slice(8, None))
    yield (
        "scan",
        lambda keys, values, queries, *extras: store.scan(
            harness.empty(), keys, values, queries, **named(extras, slice(None))
        )[1],
    )


def _jvp(call: Map, points: Arrays, directions: Arrays, _paid: Array) -> Numbers:
    with warnings.catch_warnings():
        # What torch warns of itself when it first loads this.
        warnings.simplefilter("ignore", DeprecationWarning)
        return to_numpy(sys.modules["torch"].func.jvp(call, tuple(points), tuple(directions))[1])


def _dual(call: Map, points: Arrays, directions: Arrays, _paid: Array) -> Numbers:
    forward = sys.modules["torch"].autograd.forward_ad
    with forward.dual_level():
        out, tangent = forward.unpack_dual(call(*map(forward.make_dual, points, directions)))
        return to_numpy(0 * out if tangent is None else tangent)


def _backward(call: Map, points: Arrays, directions: Arrays, paid: Array) -> float:
    points = [x.clone().requires_grad_() for x in points]
    total = (call(*points) * paid).sum()
    if total.requires_grad:
        total.backward()
    return sum(float((x.grad * d).sum()) for x, d in zip(points, directions, strict=True) if x.grad is not None)


def _grad(call: Map, points: Arrays, directions: Arrays, paid: Array) -> float:
    torch = sys.modules["torch"]
    gradients = torch.func.grad(lambda xs: (call(*xs) * paid).sum())(tuple(points))
    return sum(float((g * d).sum()) for g, d in zip(gradients, directions, strict=True))
