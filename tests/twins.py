"""Small stores for testing the contract itself: sound ones of every kind, and broken twins, each with one fault.

A twin is registered with the checks that must reject it: most are a sound store with one method replaced (`mutant`)
or with a wrong promise (`claims`). The sound stores must pass everything; without them a check that rejects all comers
would look as good as one that works.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from assocmem.contract import arrays as ar
from assocmem.contract.errors import InputError
from assocmem.contract.form import KernelSum
from assocmem.contract.recall import Dense, Mass, Outcome, Recall, TopK, Trace
from assocmem.contract.slots import DenseSlots
from assocmem.contract.state import State
from assocmem.contract.store import Store
from assocmem.contract.traits import Capabilities, Extra, Option, Traits, Widths
from assocmem.maps.activations import Exp, Linear, ReLU

ADDS = Traits(linear_in_values="shared", permutation_invariant=True, overwrite="adds", constant_size=True)
KEEPS = Traits(
    linear_in_values="shared", permutation_invariant=True, overwrite="averages", constant_size=False, keeps_pairs=True
)
STEP = Extra("step", "learning rate", shape=("n",), default=1.0, low=0.0, high=1.0)
DECAY = Extra("decay", "share kept of each channel", shape=("n", "d_v"), low=0.0, high=1.0)
SHARE = Extra("share", "share kept by a whole batch item", shape=(), default=1.0, low=0.0, high=1.0)


# ---------------------------------------------------------------------- sound stores


@dataclass(frozen=True)
class Sum(Store):
    """The outer product store."""

    traits = ADDS
    capabilities = Capabilities(merges="adds", forgets=True)

    def init(self, state):
        return {"W": state.zeros(state.d_v, state.d_k)}

    def put(self, state, keys, values, **extras):
        return {"W": state["W"] + ar.transpose(values) @ keys}

    def get(self, state, queries, ask):
        return queries @ ar.transpose(state["W"])

    def form(self, d_k):
        return KernelSum(Linear())


@dataclass(frozen=True)
class Attend(Store):
    """Softmax attention, weights all at once."""

    beta: float = 2.0

    traits = KEEPS
    capabilities = Capabilities(masks=True, gives=("weights", "mass"), merges="appends", selects=True)

    def form(self, d_k):
        return KernelSum(Exp(self.beta), normalised=True)

    def logits(self, state, queries, mask):
        xp = state.xp
        logits = self.beta * (queries @ ar.transpose(state["keys"]))
        return logits if mask is None else xp.where(mask, logits, xp.asarray(-float("inf"), dtype=logits.dtype))

    def parts(self, state, queries, mask):
        """Return weights, their sum before division, and its logarithm."""
        xp, logits = state.xp, self.logits(state, queries, mask)
        if state.n == 0:
            shape = logits.shape[:-1]
            return logits, xp.ones(shape, dtype=logits.dtype), xp.full(shape, -float("inf"), dtype=logits.dtype)
        top = xp.max(logits, axis=-1)
        safe = xp.where(xp.isfinite(top), top, xp.zeros_like(top))
        shares = xp.exp(logits - safe[..., None])
        total = xp.sum(shares, axis=-1)
        divisor = xp.where(total > 0, total, xp.ones_like(total))
        return shares / divisor[..., None], divisor, xp.where(total > 0, safe + xp.log(divisor), top)

    def get(self, state, queries, ask):
        weights, _, log = self.parts(state, queries, ask.mask)
        return Recall(weights @ state["values"], Dense(weights), Mass(log))


@dataclass(frozen=True)
class Rectified(Store):
    """An MLP of squared ReLUs over its pairs."""

    traits = replace(KEEPS, overwrite="adds")
    capabilities = Attend.capabilities

    def form(self, d_k):
        return KernelSum(ReLU(2.0))

    def get(self, state, queries, ask):
        weights = ReLU(2.0)(queries @ ar.transpose(state["keys"]))
        weights = weights if ask.mask is None else weights * state.xp.astype(ask.mask, weights.dtype)
        return Recall(weights @ state["values"], Dense(weights), Mass.of_sum(state.xp.sum(weights, axis=-1)))


@dataclass(frozen=True)
class Nearest(Store):
    """The mean of the k nearest pairs, each by how much nearer it is than the k-th: sparse weights, an option."""

    traits = replace(KEEPS, options=(Option("k", "pairs that a query addresses", 3, low=2, whole=True),))
    capabilities = Capabilities(gives=("weights",), merges="appends", selects=True)

    def get(self, state, queries, ask):
        xp, k = state.xp, min(ask.options["k"], state.n)
        ids, similarity = state.slots.search(queries, k)
        far = xp.min(similarity, axis=-1, keepdims=True) if k else similarity
        weights = similarity - far + (1.0 if k < ask.options["k"] else 0.0)
        total = xp.sum(weights, axis=-1, keepdims=True)
        weights = weights / xp.where(total > 0, total, xp.ones_like(total))
        values = (weights[..., None, :] @ state.slots.take("values", ids))[..., 0, :]
        return Recall(values, self.named(ids, weights))

    def named(self, ids, weights):
        return TopK(ids, weights)


@dataclass(frozen=True)
class Settles(Attend):
    """Attention whose query goes to what it recalls of the keys, until it stays: iterated recall with a trace."""

    traits = replace(
        KEEPS,
        energy_falls=True,
        options=(
            Option("steps", "most steps", 20, low=1, whole=True),
            Option("tolerance", "step that counts as rest", 1e-6, low=1e-12, high=1.0),
        ),
    )
    capabilities = Capabilities(gives=("weights", "trace"), merges="appends", selects=True)

    def form(self, d_k):
        return None

    def energy(self, state, x, log):
        return 0.5 * state.xp.sum(x * x, axis=-1) - log / self.beta

    def get(self, state, queries, ask):
        xp, x = state.xp, queries
        weights, _, log = self.parts(state, x, None)
        steps = xp.zeros(weights.shape[:-1], dtype=xp.int64)
        moving = xp.ones(weights.shape[:-1], dtype=xp.bool)
        if not state.n:
            return Recall(weights @ state["values"], Dense(weights), None, Trace(steps, steps, log[..., None]))
        x = xp.broadcast_to(x, (*weights.shape[:-1], state.d_k))
        energies = [self.energy(state, x, log)]
        while bool(xp.any(moving)) and len(energies) <= ask.options["steps"]:
            fresh = weights @ state["keys"]
            far = xp.max(xp.abs(fresh - x), axis=-1) if state.d_k else xp.zeros_like(log)
            x = xp.where(moving[..., None], fresh, x)
            steps = steps + xp.astype(moving, xp.int64)
            moving = moving & (far > ask.options["tolerance"])
            weights, _, log = self.parts(state, x, None)
            energies.append(self.energy(state, x, log))
        outcome = xp.where(moving, int(Outcome.STEP_LIMIT) + 0 * steps, 0 * steps)
        trace = Trace(steps, outcome, xp.stack(energies, axis=-1), x)
        return Recall(weights @ state["values"], Dense(weights), None, trace)


@dataclass(frozen=True)
class Delta(Sum):
    """W <- W + b (v - W k) k^T: the newest value of a unit key is recalled."""

    traits = replace(ADDS, permutation_invariant=False, overwrite="replaces", extras=(STEP,))
    capabilities = Capabilities()

    def put(self, state, keys, values, **extras):
        W = state["W"]
        for i in range(keys.shape[-2]):
            at = {"step": (..., i), "decay": (..., i, slice(None)), "share": (...,)}
            W = self.step(W, keys[..., i, :], values[..., i, :], **{name: x[at[name]] for name, x in extras.items()})
        return {"W": W}

    def step(self, W, k, v, step=None):
        error = v - (W @ k[..., :, None])[..., 0]
        if step is not None:
            error = step[..., None] * error
        return W + error[..., :, None] * k[..., None, :]

    def form(self, d_k):
        return None


@dataclass(frozen=True)
class Channels(Delta):
    """W <- diag(decay) W + v k^T: every value channel forgets at its own rate, and a batch item at one more."""

    traits = replace(
        ADDS, linear_in_values="per-channel", permutation_invariant=False, overwrite="decays", extras=(DECAY, SHARE)
    )

    def step(self, W, k, v, decay=None, share=None):
        kept = decay if share is None else decay * share[..., None]
        return kept[..., :, None] * W + v[..., :, None] * k[..., None, :]


@dataclass(frozen=True)
class Signs(Sum):
    """The outer product of sign vectors."""

    traits = replace(ADDS, keys="signs")

    def form(self, d_k):
        return None


@dataclass(frozen=True)
class SignsOfSums(Signs):
    """The signs of what the outer product of sign vectors recalls, of values that are signs."""

    traits = replace(Signs.traits, linear_in_values="no", overwrite="averages", values="signs")

    def get(self, state, queries, ask):
        return state.xp.sign(super().get(state, queries, ask))


@dataclass(frozen=True)
class Table(Sum):
    """A sum of values for every token id at every place of the key, ids modulo 16."""

    traits = replace(ADDS, keys="ids")

    def form(self, d_k):
        return None

    def init(self, state):
        return {"W": state.zeros(state.d_v, state.d_k * 16)}

    def _hits(self, state, ids):
        xp = ar.namespace(ids)
        hit = (ids % 16)[..., None] == xp.arange(16)
        return xp.reshape(xp.astype(hit, state.dtype), (*ids.shape[:-1], ids.shape[-1] * 16))

    def put(self, state, keys, values, **extras):
        return {"W": state["W"] + ar.transpose(values) @ self._hits(state, keys)}

    def get(self, state, queries, ask):
        return self._hits(state, queries) @ ar.transpose(state["W"])


@dataclass(frozen=True)
class Squashed(Sum):
    """tanh(W x): not linear in the values, so a key written twice with two values has no shares that add."""

    traits = replace(ADDS, linear_in_values="no")

    def get(self, state, queries, ask):
        return state.xp.tanh(0.3 * super().get(state, queries, ask))

    def form(self, d_k):
        return None


@dataclass(frozen=True)
class Biased(Sum):
    """W x + n/(n+1) sum(x): affine in the values."""

    traits = replace(ADDS, affine=True)

    def form(self, d_k):
        return None

    def get(self, state, queries, ask):
        bias = state.xp.sum(queries, axis=-1, keepdims=True)
        return super().get(state, queries, ask) + 0.1 * state.n / (state.n + 1) * bias


@dataclass(frozen=True)
class Even(Sum):
    """The outer product for keys of even width and values as wide."""

    traits = replace(
        ADDS, widths=Widths(lambda d_k, d_v: d_k == d_v and d_k % 2 == 0, "equal and even", ((6, 6), (2, 2)))
    )


SOUND: tuple[Store, ...] = (
    Sum(), Attend(), Rectified(), Nearest(), Settles(), Delta(), Channels(), Signs(), SignsOfSums(), Table(),
    Squashed(), Biased(),
    Even(),
)  # fmt: skip


# ---------------------------------------------------------------------- broken twins


@dataclass(frozen=True)
class Twin:
    """A store with one fault and the checks that must find it, in the array library named."""

    store: Store
    checks: tuple[str, ...]
    library: str = "numpy"


TWINS: list[Twin] = []


def twin(*checks: str, library: str = "numpy") -> Callable[[type], type]:
    """Register a class as a broken twin that each of `checks` must reject."""

    def add(cls: type) -> type:
        TWINS.append(Twin(cls(), checks, library))
        return cls

    return add


def mutant(base: type, method: str, checks: str, why: str = "", library: str = "numpy", **members: Any) -> Any:
    """Register `base` with the function below in the place of one method, which it gets before its arguments."""

    def add(fault: Any) -> Any:
        old = getattr(base, method)

        def broken(self, *given, **named):
            return fault(partial(old, self), *given, **named)

        name = fault.__name__ if not why else "_".join(re.findall(r"\w+", why.lower())[:5])
        members.update({method: broken, "__doc__": why or fault.__doc__, "__module__": __name__})
        TWINS.append(Twin(dataclass(frozen=True)(type(name, (base,), members))(), tuple(checks.split()), library))
        return fault

    return add


def claims(base: type, check: str, **wrong: Any) -> None:
    """Register `base` with wrong traits (or capabilities) as a broken twin of `check`."""
    can = {name: wrong.pop(name) for name in tuple(wrong) if name in Capabilities.__dataclass_fields__}
    members = {"traits": replace(base().traits, **wrong), "capabilities": replace(base().capabilities, **can)}
    told = "".join(f"_{word}" for word in (*wrong.values(), *can.values()) if isinstance(word, str))
    TWINS.append(Twin(dataclass(frozen=True)(type(f"{base.__name__}_claims{told}", (base,), members))(), (check,)))


# ------------------------------ promises that do not hold

claims(Squashed, "linear", linear_in_values="shared")
claims(Sum, "linear", linear_in_values="no")
claims(Biased, "linear", affine=False)
claims(Sum, "linear", affine=True)
claims(Channels, "channels", linear_in_values="shared")
claims(Sum, "channels", linear_in_values="per-channel")
claims(Delta, "order", permutation_invariant=True)
claims(Sum, "order", permutation_invariant=False)
claims(Attend, "bounded", constant_size=True)
claims(Sum, "bounded", constant_size=False)
claims(Sum, "slots", keeps_pairs=True)
claims(Delta, "merge", merges="adds")
claims(Delta, "forget", merges="adds", forgets=True)
claims(Sum, "weights", gives=("weights",))
claims(Sum, "shards", gives=("mass",))
claims(Attend, "trace", gives=("trace",))
claims(Rectified, "options-matter", options=Nearest.traits.options)
claims(Nearest, "options-matter", options=(replace(Nearest.traits.options[0], idle=True),))
for _rule, _true in ((Sum, "adds"), (Attend, "averages"), (Delta, "replaces"), (Channels, "decays")):
    for _word in sorted({"adds", "averages", "replaces", "decays", "keeps"} - {_true}):
        claims(_rule, "rewrite", overwrite=_word)


# ------------------------------ shapes and sizes


@twin("frozen")
class Undecorated(Sum):
    """Not a dataclass of its own, so anything may be hung on it."""


@twin("frozen")
@dataclass(frozen=True)
class NewTraits(Sum):
    """Promises something else each time it is asked."""

    moods: Any = field(default_factory=lambda: itertools.cycle([True, False]), compare=False)

    @property
    def traits(self):
        return replace(ADDS, permutation_invariant=next(self.moods))


mutant(Sum, "recall", "shapes", "Hands recalls back with axes swapped.")(
    lambda old, state, x: ar.transpose(old(state, x))
)
mutant(Sum, "write", "shapes no-pairs", "Counts calls instead of pairs.")(
    lambda old, state, k, v: replace(old(state, k, v), n=state.n + 1)
)
mutant(Sum, "recall", "shapes", "Answers torch with NumPy.", library="torch")(
    lambda old, state, x: ar.to_numpy(old(state, x))
)
mutant(Sum, "init", "state-arrays", "Keeps its batch axes last.")(
    lambda old, state: {"W": np.moveaxis(old(state)["W"], 0, -1)}
)
mutant(Sum, "init", "state-arrays dtype-kept", "Keeps every state in float64.")(
    lambda old, state: {"W": state.xp.astype(old(state)["W"], state.xp.float64)}
)
mutant(Sum, "get", "empty", "Answers an empty store rightly for 19 queries and wrongly from 20.")(
    lambda old, state, x, ask: old(state, x, ask) + (1.0 if state.n == 0 and x.shape[-2] >= 20 else 0.0)
)
mutant(Sum, "put", "one-pair every-pair split-law", "Loses the last pair of every write.")(
    lambda old, state, k, v: old(state, k[..., :-1, :], v[..., :-1, :])
)
mutant(Sum, "get", "one-pair", "Recalls the negative of what was stored.")(
    lambda old, state, x, ask: -old(state, x, ask)
)


@mutant(Attend, "parts", "every-pair hard-keys")
def first_six(old, state, queries, mask):
    """Holds as many pairs as keys have dimensions, and forgets to say that there are more."""
    if state.n > 50:
        return old(state, queries * float("nan"), mask)
    seen = state.xp.arange(state.n) < state.d_k
    return old(state, queries, seen if mask is None else mask & seen)


mutant(Sum, "get", "widths", "Squeezes axes of length one away.")(
    lambda old, state, x, ask: old(state, x, ask)[..., 0] if state.d_v == 1 else old(state, x, ask)
)
mutant(Sum, "get", "widths", "Divides by the width of the keys.")(
    lambda old, state, x, ask: old(state, x, ask) * state.d_k / np.float64(state.d_k)
)
mutant(Sum, "recall", "widths", "Gives values without width a column.")(
    lambda old, state, x: old(state, x) if state.d_v else np.zeros((x.shape[-2], 1))
)


@mutant(Sum, "recall", "zero-vectors")
def cosine(old, state, queries):
    """Divides by the query's length; NaN for a query of length zero, which slips past the checks of a recall."""
    with np.errstate(invalid="ignore"):
        return old(state, queries) / np.linalg.norm(queries, axis=-1, keepdims=True)


mutant(Sum, "write", "no-pairs", "Fades even where nothing is written.")(
    lambda old, state, k, v: replace(new := old(state, k, v), arrays={"W": 0.9 * new["W"]})
)
mutant(Sum, "get", "queries-apart", "Centres the queries of a call, so that they depend on each other.")(
    lambda old, state, x, ask: old(state, x - 0.1 * np.sum(x, axis=-2, keepdims=True) / max(1, x.shape[-2]), ask)
)


# ------------------------------ traits
mutant(Sum, "get", "channels", "Lets value channels leak into their neighbours.")(
    lambda old, state, x, ask: (out := old(state, x, ask)) + 0.1 * np.roll(out, 1, axis=-1)
)
mutant(Attend, "write", "state-size", "Counts the spare rows of its buffer as state.")(
    lambda old, state, k, v: replace(new := old(state, k, v), arrays={"spare": np.zeros(new.slots.capacity - new.n)})
)


class _Claimed(State):
    """A state that reports its size by a formula."""

    @property
    def size(self):
        return self.d_k * self.d_v


@twin("state-size")
@dataclass(frozen=True)
class ByFormula(Sum):
    """Holds a matrix and a second one that its formula for the size forgets."""

    def init(self, state):
        return {"W": state.zeros(state.d_v, state.d_k), "C": state.zeros(state.d_k, state.d_k)}

    def put(self, state, keys, values, **extras):
        return {**super().put(state, keys, values), "C": state["C"] + ar.transpose(keys) @ keys}

    def write(self, state, keys, values, **extras):
        new = super().write(state, keys, values, **extras)
        return _Claimed(**{name: getattr(new, name) for name in State.__dataclass_fields__})


mutant(Attend, "form", "similarity", "Declares another sharpness than it applies.")(
    lambda old, d_k: KernelSum(Exp(2.01), normalised=True)
)
mutant(Attend, "form", "similarity", "Declares its weights as not normalised.")(lambda old, d_k: KernelSum(Exp(2.0)))


@mutant(Sum, "put", "no-rescaling")
def rescales(old, state, keys, values):
    """Brings keys to unit length without saying so."""
    length = state.xp.sqrt(state.xp.sum(keys * keys, axis=-1, keepdims=True))
    return old(state, keys / state.xp.where(length > 0, length, state.xp.ones_like(length)), values)


# ------------------------------ laws
mutant(Sum, "put", "split-law", "Divides by the number of pairs of each call.")(
    lambda old, state, k, v: old(state, k / k.shape[-2], v)
)
mutant(Sum, "put", "batch-law", "Sums over the batch: one memory for all items.")(
    lambda old, state, k, v: {"W": (W := old(state, k, v)["W"]) * 0 + (W.mean(axis=0) if state.batch else W)}
)


@mutant(Sum, "get", "batch-queries")
def two_axes(old, state, queries, ask):
    """Reads only the first item of queries that have leading axes of their own."""
    if queries.ndim == 3 and not state.batch:
        queries = state.xp.broadcast_to(queries[:1, ...], queries.shape)
    return old(state, queries, ask)


mutant(Sum, "write", "batch-pairs", "Writes unbatched pairs into the first item only.")(
    lambda old, state, k, v: old(
        state, k, v * np.eye(3)[0][:, None, None] if state.batch == (3,) and v.ndim == 2 else v
    )
)


OWN = Capabilities(scan="own")
mutant(Sum, "scanned", "scan-after", "Reads before each write, whatever is asked.", capabilities=OWN)(
    lambda old, state, k, v, x, read, extras: old(state, k, v, x, "before", extras)
)
mutant(Sum, "scanned", "scan-before", "Reads after each write, whatever is asked.", capabilities=OWN)(
    lambda old, state, k, v, x, read, extras: old(state, k, v, x, "after", extras)
)
mutant(Sum, "scanned", "scan-after scan-before", "Forgets what was stored when it scans.", capabilities=OWN)(
    lambda old, state, k, v, x, read, extras: old(
        replace(state, n=0, arrays={"W": 0 * state["W"]}), k, v, x, read, extras
    )
)
mutant(Delta, "scanned", "scan-after extras-matter", "Leaves the extras out of its scan.", capabilities=OWN)(
    lambda old, state, k, v, x, read, extras: old(state, k, v, x, read, {})
)
mutant(
    Attend,
    "get",
    "scan-after",
    "Declares a causal form, and lets the queries of a scan see everything.",
    capabilities=replace(Attend.capabilities, scan="causal"),
)(lambda old, state, x, ask: old(state, x, ask if hasattr(ask.visible, "shape") else replace(ask, visible=None)))
mutant(Sum, "scan", "scan-queries", "Takes any word for `read`.")(
    lambda old, *given, read="after", **asked: old(*given, read="before" if read == "before" else "after", **asked)
)


@mutant(Sum, "scan", "scan-reset")
def never_resets(old, *given, reset=(), **asked):
    """Carries everything over from one packed sequence to the next."""
    old.args[0]._checked_reset(reset, given[1].shape[-2])
    return old(*given, **asked)


mutant(Sum, "put", "old-states", "Adds to the matrix of the state it was given.")(
    lambda old, state, k, v: {"W": np.add(state["W"], np.swapaxes(v, -1, -2) @ k, out=state["W"])}
)


@mutant(Attend, "write", "old-states")
def shares_buffer(old, state, keys, values):
    """Appends in place without asking whether the end of the buffer is its own."""
    if state.slots._buffer is not None:
        state.slots._buffer.used = state.n
    return old(state, keys, values)


mutant(Sum, "put", "inputs-kept", "Scales the caller's values in place.")(
    lambda old, state, k, v: (old(state, k, v), np.multiply(v, 0.5, out=v))[0]
)
mutant(Sum, "get", "inputs-kept", "Scales the caller's queries in place.")(
    lambda old, state, x, ask: (old(state, x, ask), np.multiply(x, 0.5, out=x))[0]
)


@mutant(Attend, "put", "no-aliasing")
def keeps_views(old, state, keys, values):
    """Keeps the caller's arrays themselves as its first rows."""
    if state.n:
        return old(state, keys, values)
    return state.after({}, int(keys.shape[-2]), DenseSlots({"keys": keys, "values": values}))


mutant(Sum, "recall", "no-aliasing", "Remembers its last answer in the memo and hands the same array out again.")(
    lambda old, state, x: state.memo.setdefault("last", old(state, x))
)


_calls = itertools.count()
_seen: list[float] = []
mutant(Sum, "get", "deterministic pure-reads", "Depends on how often anything was recalled before.")(
    lambda old, state, x, ask: old(state, x, ask) * (1 + 0.01 * next(_calls))
)


@mutant(Sum, "put", "deterministic")
def hidden_memory(old, state, keys, values):
    """Keeps a sum over everything ever written outside of its state."""
    _seen.append(float(np.sum(values)))
    return {"W": old(state, keys, values)["W"] + 0.01 * sum(_seen)}


mutant(Sum, "get", "pure-reads", "Loses a little of its state at every recall.")(
    lambda old, state, x, ask: (old(state, x, ask), np.multiply(state["W"], 0.99, out=state["W"]))[0]
)


@twin("explicit-state", "save-load")
@dataclass(frozen=True)
class HeldBack(Sum):
    """Keeps its matrix in the memo, and an empty one in the state."""

    def write(self, state, keys, values, **extras):
        new = super().write(state, keys, values, **extras)
        W = state.memo.get("W", 0) + ar.transpose(values) @ keys
        return replace(new, arrays={"W": 0 * new["W"]}, memo={"W": W})

    def get(self, state, queries, ask):
        return queries @ ar.transpose(state.memo.get("W", state["W"]))


mutant(Sum, "merge", "merge", "A merge that keeps the last state only.")(lambda old, *states: states[-1])


@mutant(Sum, "merge", "merge")
def wants_full(old, *states):
    """Merges, but not with a state that holds nothing."""
    if not all(state.n for state in states):
        raise InputError("a state holds nothing.")
    return old(*states)


mutant(Attend, "put", "merge select", "Keeps rows that depend on how many came before.")(
    lambda old, state, k, v: {"keys": k, "values": v / (1 + state.n + np.arange(k.shape[-2])[:, None])}
)
mutant(Sum, "forget", "forget", "Takes pairs out and leaves their number.")(
    lambda old, state, k, v: replace(old(state, k, v), n=state.n)
)
mutant(Attend, "select", "select", "Hands selected pairs out with as many rows as before.")(
    lambda old, state, ids: replace(old(state, ids), n=state.n)
)


# ------------------------------ arrays
mutant(Sum, "recall", "dtype-kept", "Answers float32 with float64.")(
    lambda old, state, x: old(state, x).astype(np.float64)
)
mutant(Sum, "put", "dtype-half", "Sums half precision in half precision.")(
    lambda old, state, k, v: {"W": old(state, k, v)["W"].astype(state.io_dtype)}
)
mutant(Sum, "recall", "dtype-half", "Recalls half precision in float32.")(
    lambda old, state, x: old(state, x).astype(np.promote_types(x.dtype, np.float32))
)


@mutant(Sum, "write", "dtype-whole")
def wraps(old, state, keys, values):
    """Multiplies whole numbers in their own type, where they wrap around."""
    if np.asarray(keys).dtype != np.int8:
        return old(state, keys, values)
    product = (np.swapaxes(values, -1, -2) @ keys).astype(np.float64)
    return replace(state, arrays={"W": state["W"] + product}, n=state.n + keys.shape[-2])


@twin("dtype-mixed")
@dataclass(frozen=True)
class KeepsFirstDtype(Sum):
    """Casts later writes and queries down to the dtype of the first."""

    def write(self, state, keys, values, **extras):
        return super().write(state, *((x.astype(state.dtype) if state.n else x) for x in (keys, values)))

    def recall(self, state, queries):
        return super().recall(state, queries.astype(state.io_dtype))


mutant(Sum, "empty", "dtype-chosen", "Pays no attention to `state_dtype`.")(
    lambda old, d_k, d_v, *, batch=(), like=None, state_dtype=None: old(d_k, d_v, batch=batch, like=like)
)


@mutant(Sum, "put", "layouts")
def reads_memory(old, state, keys, values):
    """Takes the numbers as they lie in memory."""
    base = keys if keys.base is None else keys.base
    if base.size >= keys.size and base.shape != keys.shape and state.batch == ():
        keys = base.reshape(-1)[: keys.size].reshape(keys.shape)
    return old(state, keys, values)


# ------------------------------ refusals


def _no_nan(x: Any) -> Any:
    return np.nan_to_num(x, posinf=0, neginf=0)


mutant(Sum, "write", "not-finite", "Turns NaN and infinity into zeros.")(
    lambda old, state, k, v: old(state, _no_nan(k), _no_nan(v))
)
mutant(Sum, "recall", "not-finite", "Turns NaN and infinity in queries into zeros.")(
    lambda old, state, x: old(state, _no_nan(x))
)


@mutant(Sum, "write", "not-finite")
def half_written(old, state, keys, values):
    """Writes the rows before the bad one, in place, and only then refuses."""
    good = int(np.argmin(np.isfinite(keys).all(axis=-1).reshape(-1)))
    if not np.isfinite(keys).all() and keys.ndim == 2:
        W = state["W"]
        W += values[:good].T @ keys[:good]
    return old(state, keys, values)


@mutant(Sum, "write", "wrong-shapes")
def cuts_short(old, state, keys, values):
    """Takes as many pairs as both have, and drops the rest in silence."""
    if np.ndim(keys) > 1 and np.ndim(values) > 1:
        n = min(keys.shape[-2], values.shape[-2])
        keys, values = keys[..., :n, :], values[..., :n, :]
    return old(state, keys, values)


@mutant(Sum, "write", "wrong-shapes")
def short_message(old, state, keys, values):
    """Refuses without saying what came."""
    try:
        return old(state, keys, values)
    except InputError:
        raise InputError("bad shape") from None


mutant(Sum, "write", "foreign-types", "Turns objects into floats.")(
    lambda old, state, k, v: old(state, k.astype(float) if hasattr(k, "astype") else k, v)
)
mutant(Sum, "recall", "foreign-types", "Lets an error from inside through, instead of a sentence.")(
    lambda old, state, x: old(state, x + 0.0)
)
mutant(Signs, "write", "key-kinds", "Wants signs, and takes any number.")(
    lambda old, state, k, v: old(state, np.where(k < 0, -1.0, 1.0), v)
)


mutant(SignsOfSums, "write", "key-kinds", "Wants values of signs, and takes any number.")(
    lambda old, state, k, v: old(state, k, np.where(np.nan_to_num(v) < 0, -1.0, 1.0))
)
mutant(Signs, "ask", "key-kinds", "Takes queries of other numbers than signs and 0.")(
    lambda old, state, x, **more: old(state, np.sign(x), **more)
)
mutant(Signs, "form", "similarity", "Has sign keys, and a form for keys of any length.")(
    lambda old, d_k: KernelSum(Linear())
)
claims(SignsOfSums, "linear", linear_in_values="shared")
claims(SignsOfSums, "rewrite", overwrite="adds")
claims(Signs, "linear", linear_in_values="no")


@twin("linear")
@dataclass(frozen=True)
class SignsThatAdd(Signs):
    """The outer product of sign vectors, which says that it is not linear in values that are signs."""

    traits = replace(Signs.traits, linear_in_values="no", values="signs")


@mutant(Sum, "write", "key-kinds")
def wants_unit(old, state, keys, values):
    """Says that any key will do, and refuses all but those shorter than 1.2."""
    if np.linalg.norm(keys, axis=-1).max(initial=0) > 1.2:
        raise InputError("`keys` must be short.")
    return old(state, keys, values)


mutant(Sum, "write", "unknown-extras", "Swallows extras it has no use for.")(
    lambda old, state, k, v, **extras: old(state, k, v)
)
mutant(Delta, "write", "declared-extras", "Clips its step into the range instead of refusing.")(
    lambda old, state, k, v, **extras: old(state, k, v, **{name: np.clip(x, 0, 1) for name, x in extras.items()})
)
mutant(Channels, "write", "declared-extras", "Makes up numbers for an extra that has no default.")(
    lambda old, state, k, v, **extras: old(state, k, v, **{"decay": np.asarray(1.0), **extras})
)
mutant(Sum, "ask", "undeclared", "Takes a mask it cannot apply.")(
    lambda old, state, x, *, mask=None, want=(), **options: old(state, x, want=want, **options)
)
mutant(Sum, "ask", "undeclared", "Takes options that nobody declared.")(
    lambda old, state, x, *, mask=None, want=(), **options: old(state, x, mask=mask, want=want)
)
mutant(Sum, "ask", "undeclared", "Answers with values alone, whatever is wanted.")(
    lambda old, state, x, *, mask=None, want=(), **options: old(state, x, mask=mask, **options)
)
mutant(Delta, "merge", "undeclared", "Joins states that it does not declare to join.")(lambda old, *states: states[0])
mutant(Nearest, "ask", "options-refused", "Brings its option into the range instead of refusing.")(
    lambda old, state, x, *, k=None, **asked: old(
        state, x, k=max(2, int(k)) if isinstance(k, float | int) and k == k else k, **asked
    )
)
mutant(Attend, "recall", "wrong-masks", "Takes masks of numbers for booleans.")(
    lambda old, state, x, *, mask=None: old(state, x, mask=None if mask is None else np.asarray(mask, dtype=bool))
)


# ------------------------------ pairs kept, recalls
mutant(Attend, "logits", "mask-hides-all mask-is-absence weights nothing", "Ignores the mask.")(
    lambda old, state, x, mask: old(state, x, None)
)
mutant(Attend, "logits", "mask-hides-all", "Hides by a large negative number: with everything hidden, the mean.")(
    lambda old, state, x, mask: old(state, x, None) - (0 if mask is None else 1e9 * ~mask)
)
mutant(Attend, "parts", "mask-is-absence", "Hides a value but leaves its share of the weights.")(
    lambda old, state, x, mask: ((parts := old(state, x, None))[0] * (1 if mask is None else mask), *parts[1:])
)
mutant(Attend, "logits", "mask-per-query", "Applies the mask of the first query to all.")(
    lambda old, state, x, mask: old(
        state, x, None if mask is None else state.xp.broadcast_to(mask[..., :1, :], mask.shape)
    )
)


@mutant(Attend, "get", "weights")
def raw_weights(old, state, queries, ask):
    """Returns weights before they are divided by their sum."""
    weights, total, _ = Attend().parts(state, queries, ask.mask)
    return replace(old(state, queries, ask), weights=Dense(weights * total[..., None]))


@mutant(Attend, "get", "shards")
def mass_of_maximum(old, state, queries, ask):
    """Reports the largest logit as its mass."""
    logits = Attend().logits(state, queries, ask.mask)
    top = state.xp.max(logits, axis=-1) if state.n else -np.inf * np.ones(logits.shape[:-1])
    return replace(old(state, queries, ask), mass=Mass(top))


mutant(Attend, "get", "shards", "Normalised, but hands its shards out as if they added.")(
    lambda old, state, x, ask: replace(found := old(state, x, ask), mass=replace(found.mass, rule="sum"))
)
mutant(Rectified, "get", "nothing", "Reports the same mass whatever was found.")(
    lambda old, state, x, ask: replace(old(state, x, ask), mass=Mass(np.zeros((*state.batch, x.shape[-2]))))
)
mutant(Nearest, "named", "top-k weights", "Numbers pairs from one.")(lambda old, ids, weights: TopK(ids + 1, weights))
mutant(Nearest, "named", "top-k", "Names every pair twice, with half its weight.")(
    lambda old, ids, weights: TopK(np.concatenate([ids, ids], axis=-1), np.concatenate([weights, weights], axis=-1) / 2)
)


def _traced(found: Recall, name: str, wrong: Callable[[Any], Any]) -> Recall:
    return replace(found, trace=replace(found.trace, **{name: wrong(getattr(found.trace, name))}))


def _raised(energy: Any) -> Any:
    """Return energies of which the one in the middle is higher than the first."""
    energy = energy + 0.0
    if energy.shape[-1] > 2:
        energy[..., 1] = energy[..., 0] + 1
    return energy


mutant(Settles, "get", "trace", "Reports energies with their sign turned.")(
    lambda old, state, x, ask: _traced(old(state, x, ask), "energy", lambda e: -e)
)
mutant(Settles, "get", "trace", "Calls every end a fixed point, at the limit of its steps too.")(
    lambda old, state, x, ask: _traced(old(state, x, ask), "outcome", lambda o: 0 * o)
)
mutant(Settles, "get", "trace", "Lets the energy rise in between, and says that it falls.")(
    lambda old, state, x, ask: _traced(old(state, x, ask), "energy", _raised)
)
mutant(Settles, "get", "trace", "Says that a query rests where it does not.")(
    lambda old, state, x, ask: _traced(old(state, x, ask), "settled", lambda s: 0.5 * s + 1)
)
mutant(Settles, "get", "trace", "Says where queries rest in the values' width.")(
    lambda old, state, x, ask: _traced(old(state, x, ask), "settled", lambda s: s[..., :-1])
)
mutant(Settles, "get", "trace", "Counts one step more than it takes.")(
    lambda old, state, x, ask: _traced(old(state, x, ask), "steps", lambda n: n + 1)
)
mutant(Settles, "ask", "options-default", "Takes one step where the number of steps is left out.")(
    lambda old, state, x, *, steps=None, **asked: old(state, x, steps=steps or 1, **asked)
)
mutant(Settles, "get", "trace", "Takes one step alone where no trace is wanted.")(
    lambda old, state, x, ask: old(state, x, ask if ask.want else replace(ask, options={**ask.options, "steps": 1}))
)


# ------------------------------ extras
mutant(Delta, "step", "extras-default", "Takes a step of one half where the traits say one.")(
    lambda old, W, k, v, step=None: old(W, k, v, np.asarray(0.5) if step is None else step)
)
mutant(Delta, "step", "extras-matter", "Declares a step and makes nothing of it.")(
    lambda old, W, k, v, step=None: old(W, k, v)
)


@mutant(Delta, "write", "extras-broadcast")
def first_step_only(old, state, keys, values, **extras):
    """Applies a single number to the first pair only."""
    if "step" in extras and np.ndim(extras["step"]) == 0:
        extras["step"] = np.concatenate([[float(extras["step"])], np.ones(keys.shape[-2] - 1)])
    return old(state, keys, values, **extras)


# ------------------------------ hard regimes, derivatives, files


@mutant(Sum, "get", "hard-keys")
def solves_gram(old, state, queries, ask):
    """Divides by the smallest eigenvalue of K^T K, which is zero for equal keys: a warning and NaN."""
    rank_deficient = state.n > 1 and np.linalg.matrix_rank(state["W"]) < 2
    return old(state, queries, ask) * (np.float64(1) / np.float64(0) if rank_deficient else 1)


@mutant(Sum, "get", "hard-keys")
def warns(old, state, queries, ask):
    """Lets a warning of NumPy out."""
    np.log(np.zeros(1))
    return old(state, queries, ask)


mutant(Sum, "put", "forward-mode", "Detaches what carries no gradient of reverse mode.", library="torch")(
    lambda old, state, k, v: {"W": W if (W := old(state, k, v)["W"]).requires_grad else W.detach()}
)
mutant(Sum, "get", "reverse-mode", "Lets no gradient through.", library="torch")(
    lambda old, state, x, ask: old(state, x.detach(), ask)
)
mutant(Sum, "write", "vmap", "Looks at the numbers before they were checked.", library="torch")(
    lambda old, state, k, v: old(state, k if k[0, 0] > 0 else +k, v)
)
mutant(Sum, "ask", "autocast", "Recalls before the dtypes to compute in are set.", library="torch")(
    lambda old, state, x, **asked: replace(old(state, x, **asked), values=x @ state["W"].mT)
)


@twin("small-ridge")
@dataclass(frozen=True)
class PlainRidge(Sum):
    """Solves K^T K + ridge I as it stands, with the rounding of the sum in directions that no key has."""

    ridge: float = 0.1

    def init(self, state):
        return super().init(state) | {"H": state.zeros(state.d_k, state.d_k)}

    def put(self, state, keys, values, **extras):
        return super().put(state, keys, values) | {"H": state["H"] + ar.transpose(keys) @ keys}

    def get(self, state, queries, ask):
        system = state["H"] + self.ridge * np.eye(state.d_k, dtype=state.dtype)
        return np.linalg.solve(system, queries.T).T @ state["W"].T


@mutant(PlainRidge, "get", "small-ridge")
def cut_by_ridge(old, state, queries, ask):
    """Leaves out what is shorter than a multiple of the ridge, so that directions come and go as it falls."""
    ridge = old.args[0].ridge
    size, axes = np.linalg.eigh(state["H"])
    kept = size > 3e4 * ridge
    return (queries @ axes * np.where(kept, 1 / np.where(kept, size, 1), 0)) @ axes.T @ state["W"].T


@mutant(PlainRidge, "get", "rounded-keys")
def a_twentieth_more(old, state, queries, ask):
    """Recalls a twentieth more where the numbers came in a narrow dtype: small, but no rounding."""
    return (1 if state.io_dtype == state.xp.float64 else 1.05) * old(state, queries, ask)


mutant(PlainRidge, "get", "rounded-keys", "Takes for directions what is more than the rounding of float64.")(
    lambda old, state, x, ask: x @ np.linalg.pinv(state["H"], rtol=1e-8) @ state["W"].T
)
mutant(Sum, "_finish", "large-numbers", "Returns what overflowed.")(lambda old, out, state, x: out)


@twin("save-load")
@dataclass(frozen=True)
class ForgetsSetting(Attend):
    """Has a setting that is no field of it, so that no file can keep it."""

    def __post_init__(self):
        object.__setattr__(self, "beta", 3.0 if self.beta == 2.0 else 1.0)
