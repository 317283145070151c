"""Small stores for testing the contract itself: sound ones of every kind, and broken twins, each with one fault.

A twin is registered with the checks that must reject it. The sound stores must pass everything; without them a
check that rejects all comers would look as good as one that works.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from assocmem.contract import arrays as ar
from assocmem.contract.errors import InputError
from assocmem.contract.form import KernelSum
from assocmem.contract.recall import Dense, Mass, Recall
from assocmem.contract.slots import DenseSlots
from assocmem.contract.state import State
from assocmem.contract.store import Store
from assocmem.contract.traits import Capabilities, Extra, Traits
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

    capabilities = Capabilities(merges="adds", forgets=True)

    @property
    def traits(self) -> Traits:
        return ADDS

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

    capabilities = Capabilities(masks=True, gives=("weights", "mass"), merges="appends")

    @property
    def traits(self) -> Traits:
        return KEEPS

    def form(self, d_k):
        return KernelSum(Exp(self.beta), normalised=True)

    def _logits(self, state, queries, mask):
        xp = state.xp
        logits = self.beta * (queries @ ar.transpose(state["keys"]))
        return logits if mask is None else xp.where(mask, logits, xp.asarray(-float("inf"), dtype=logits.dtype))

    def _parts(self, state, queries, mask):
        xp = state.xp
        logits = self._logits(state, queries, mask)
        if state.n == 0:
            shape = (*logits.shape[:-1], 1)
            return logits, xp.ones(shape, dtype=logits.dtype), xp.full(shape, -float("inf"), dtype=logits.dtype)
        top = xp.max(logits, axis=-1, keepdims=True)
        safe = xp.where(xp.isfinite(top), top, xp.zeros_like(top))
        shares = xp.exp(logits - safe)
        total = xp.sum(shares, axis=-1, keepdims=True)
        divisor = xp.where(total > 0, total, xp.ones_like(total))
        return shares, divisor, xp.where(total > 0, safe + xp.log(divisor), top)

    def _weights(self, state, queries, mask):
        shares, divisor, _ = self._parts(state, queries, mask)
        return shares / divisor

    def get(self, state, queries, ask):
        weights = self._weights(state, queries, ask.mask)
        mass = self._parts(state, queries, ask.mask)[2][..., 0]
        return Recall(weights @ state["values"], Dense(weights), Mass(mass))


@dataclass(frozen=True)
class Rectified(Store):
    """An MLP of squared ReLUs over its pairs."""

    capabilities = Attend.capabilities

    @property
    def traits(self) -> Traits:
        return replace(KEEPS, overwrite="adds")

    def form(self, d_k):
        return KernelSum(ReLU(2.0))

    def _weights(self, state, queries, mask):
        weights = ReLU(2.0)(queries @ ar.transpose(state["keys"]))
        return weights if mask is None else weights * state.xp.astype(mask, weights.dtype)

    def get(self, state, queries, ask):
        weights = self._weights(state, queries, ask.mask)
        total = state.xp.sum(weights, axis=-1)
        return Recall(weights @ state["values"], Dense(weights), Mass.of_sum(total))


def _steps(store, state, keys, values, extras):
    """Run `store.step` pair by pair."""
    W = state["W"]
    for i in range(keys.shape[-2]):
        at = {"step": (..., i), "decay": (..., i, slice(None)), "share": (...,)}
        now = {name: x[at[name]] for name, x in extras.items()}
        W = store.step(W, keys[..., i, :], values[..., i, :], **now)
    return {"W": W}


@dataclass(frozen=True)
class Delta(Sum):
    """W <- W + b (v - W k) k^T on unit keys: the newest value of a key is recalled."""

    capabilities = Capabilities()

    @property
    def traits(self) -> Traits:
        return replace(ADDS, permutation_invariant=False, overwrite="replaces", keys="unit", extras=(STEP,))

    def put(self, state, keys, values, **extras):
        return _steps(self, state, keys, values, extras)

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

    @property
    def traits(self) -> Traits:
        return replace(
            ADDS, linear_in_values="per-channel", permutation_invariant=False, overwrite="decays", extras=(DECAY, SHARE)
        )

    def step(self, W, k, v, decay=None, share=None):
        kept = decay if share is None else decay * share[..., None]
        return kept[..., :, None] * W + v[..., :, None] * k[..., None, :]


@dataclass(frozen=True)
class Signs(Sum):
    """The outer product of sign vectors."""

    @property
    def traits(self) -> Traits:
        return replace(ADDS, keys="signs")


@dataclass(frozen=True)
class Table(Sum):
    """A sum of values for every token id at every place of the key, ids modulo 16."""

    @property
    def traits(self) -> Traits:
        return replace(ADDS, keys="ids")

    def form(self, d_k):
        return None

    def init(self, state):
        return {"W": state.zeros(state.d_v, state.d_k * 16)}

    def _slots(self, state, ids):
        xp = ar.namespace(ids)
        hit = (ids % 16)[..., None] == xp.arange(16)
        return xp.reshape(xp.astype(hit, state.dtype), (*ids.shape[:-1], ids.shape[-1] * 16))

    def put(self, state, keys, values, **extras):
        return {"W": state["W"] + ar.transpose(values) @ self._slots(state, keys)}

    def get(self, state, queries, ask):
        return self._slots(state, queries) @ ar.transpose(state["W"])


@dataclass(frozen=True)
class Squashed(Sum):
    """tanh(W x): not linear in the values, so a key written twice with two values has no shares that add."""

    @property
    def traits(self) -> Traits:
        return replace(ADDS, linear_in_values="no")

    def get(self, state, queries, ask):
        return state.xp.tanh(0.3 * super().get(state, queries, ask))

    def form(self, d_k):
        return None


@dataclass(frozen=True)
class Biased(Sum):
    """W x + n/(n+1) sum(x): affine in the values."""

    @property
    def traits(self) -> Traits:
        return replace(ADDS, affine=True)

    def form(self, d_k):
        return None

    def get(self, state, queries, ask):
        bias = state.xp.sum(queries, axis=-1, keepdims=True)
        return super().get(state, queries, ask) + 0.1 * state.n / (state.n + 1) * bias


@dataclass(frozen=True)
class Square(Sum):
    """The outer product for values as wide as keys only."""

    def empty(self, d_k, d_v, **settings):
        if d_k != d_v:
            raise InputError(f"`d_v` of Square.empty must equal d_k={d_k}; got {d_v}.")
        return super().empty(d_k, d_v, **settings)


SOUND: tuple[Store, ...] = (
    Sum(), Attend(), Rectified(), Delta(), Channels(), Signs(), Table(), Squashed(), Biased(), Square(),
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


@twin("shapes")
@dataclass(frozen=True)
class Transposed(Sum):
    """Hands recalls back with axes swapped."""

    def recall(self, state, queries, *, mask=None):
        return ar.transpose(super().recall(state, queries, mask=mask))


@twin("shapes", "no-pairs")
@dataclass(frozen=True)
class Miscounts(Sum):
    """Counts calls instead of pairs."""

    def write(self, state, keys, values, **extras):
        return replace(super().write(state, keys, values, **extras), n=state.n + 1)


@twin("shapes", library="torch")
@dataclass(frozen=True)
class Foreign(Sum):
    """Answers torch with NumPy."""

    def recall(self, state, queries, *, mask=None):
        return ar.to_numpy(super().recall(state, queries, mask=mask))


@twin("state-arrays")
@dataclass(frozen=True)
class BatchLast(Sum):
    """Keeps its batch axes last."""

    def init(self, state):
        return {"W": state.xp.moveaxis(state.zeros(state.d_v, state.d_k), 0, -1)}

    def put(self, state, keys, values, **extras):
        last = state["W"]
        W = last if last.ndim == 2 else state.xp.moveaxis(last, -1, 0)
        W = W + ar.transpose(values) @ keys
        return {"W": W if W.ndim == 2 else state.xp.moveaxis(W, 0, -1)}


@twin("state-arrays", "dtype-kept")
@dataclass(frozen=True)
class AlwaysDouble(Sum):
    """Keeps every state in float64."""

    def init(self, state):
        return {"W": state.xp.zeros((*state.batch, state.d_v, state.d_k), dtype=state.xp.float64)}

    def get(self, state, queries, ask):
        return super().get(state, state.xp.astype(queries, state.xp.float64), ask)


@twin("empty")
@dataclass(frozen=True)
class SmallAndLarge(Sum):
    """Answers an empty store rightly for 19 queries and wrongly from 20."""

    def get(self, state, queries, ask):
        return super().get(state, queries, ask) + (1.0 if state.n == 0 and queries.shape[-2] >= 20 else 0.0)


@twin("one-pair", "every-pair", "split-law")
@dataclass(frozen=True)
class DropsLast(Sum):
    """Loses the last pair of every write."""

    def put(self, state, keys, values, **extras):
        return super().put(state, keys[..., :-1, :], values[..., :-1, :])


@twin("one-pair")
@dataclass(frozen=True)
class Inverted(Sum):
    """Recalls the negative of what was stored."""

    def get(self, state, queries, ask):
        return -super().get(state, queries, ask)


@twin("every-pair", "hard-keys")
@dataclass(frozen=True)
class FirstSix(Attend):
    """Holds as many pairs as keys have dimensions, and forgets to say that there are more."""

    def _parts(self, state, queries, mask):
        if state.n > 50:
            return super()._parts(state, queries * float("nan"), mask)
        seen = state.xp.arange(state.n) < state.d_k
        return super()._parts(state, queries, seen if mask is None else mask & seen)


@twin("narrow")
@dataclass(frozen=True)
class Squeezed(Sum):
    """Squeezes axes of length one away."""

    def get(self, state, queries, ask):
        out = super().get(state, queries, ask)
        return out[..., 0] if state.d_v == 1 else out


@twin("no-width")
@dataclass(frozen=True)
class ByWidth(Sum):
    """Divides by the width of the keys."""

    def get(self, state, queries, ask):
        return super().get(state, queries, ask) * state.d_k / np.float64(state.d_k)


@twin("no-width")
@dataclass(frozen=True)
class OneWide(Sum):
    """Gives values without width a column."""

    def recall(self, state, queries, *, mask=None):
        out = super().recall(state, queries, mask=mask)
        return out if state.d_v else state.xp.zeros((*out.shape[:-1], 1))


@twin("zero-vectors")
@dataclass(frozen=True)
class Cosine(Sum):
    """Divides by the query's length; NaN for a query of length zero, which slips past the door."""

    def recall(self, state, queries, *, mask=None):
        with np.errstate(invalid="ignore"):
            return super().recall(state, queries) / np.linalg.norm(queries, axis=-1, keepdims=True)


@twin("no-pairs")
@dataclass(frozen=True)
class FadesAtEveryCall(Sum):
    """Fades even where nothing is written."""

    def write(self, state, keys, values, **extras):
        new = super().write(state, keys, values, **extras)
        return replace(new, arrays={"W": 0.9 * new["W"]})


@twin("queries-apart")
@dataclass(frozen=True)
class Centred(Sum):
    """Centres the queries of a call, so that they depend on each other."""

    def get(self, state, queries, ask):
        if queries.shape[-2] == 0:
            return super().get(state, queries, ask)
        return super().get(state, queries - 0.1 * state.xp.mean(queries, axis=-2, keepdims=True), ask)


# ------------------------------ traits


@twin("linear")
@dataclass(frozen=True)
class ClaimsLinear(Squashed):
    """Squashes, and says that it is linear."""

    @property
    def traits(self):
        return ADDS


@twin("linear")
@dataclass(frozen=True)
class DeniesLinear(Sum):
    """Linear, and says no."""

    @property
    def traits(self):
        return replace(ADDS, linear_in_values="no")


@twin("linear")
@dataclass(frozen=True)
class HidesBias(Biased):
    """Affine, and does not say so."""

    @property
    def traits(self):
        return ADDS


@twin("linear")
@dataclass(frozen=True)
class ClaimsBias(Sum):
    """Says that it is affine, and is linear."""

    @property
    def traits(self):
        return replace(ADDS, affine=True)


@twin("channels")
@dataclass(frozen=True)
class ClaimsShared(Channels):
    """A row of weights per channel, declared as one for all."""

    @property
    def traits(self):
        return replace(super().traits, linear_in_values="shared")


@twin("channels")
@dataclass(frozen=True)
class ClaimsChannels(Sum):
    """One row for all channels, declared as a row each."""

    @property
    def traits(self):
        return replace(ADDS, linear_in_values="per-channel")


@twin("channels")
@dataclass(frozen=True)
class Leaks(Sum):
    """Lets value channels leak into their neighbours."""

    def get(self, state, queries, ask):
        out = super().get(state, queries, ask)
        return out + 0.1 * state.xp.roll(out, 1, axis=-1)


@twin("order")
@dataclass(frozen=True)
class ClaimsOrderFree(Delta):
    """The delta rule, declared free of order."""

    @property
    def traits(self):
        return replace(super().traits, permutation_invariant=True)


@twin("order")
@dataclass(frozen=True)
class ClaimsOrder(Sum):
    """A sum, declared to depend on order."""

    @property
    def traits(self):
        return replace(ADDS, permutation_invariant=False)


def _claims(cls: type, rewrite: str) -> None:
    base = cls().traits
    claim = dataclass(frozen=True)(
        type(f"{cls.__name__}Claims{rewrite.title()}", (cls,), {"traits": replace(base, overwrite=rewrite)})
    )
    twin("rewrite")(claim)


for _rule, _true in ((Sum, "adds"), (Attend, "averages"), (Delta, "replaces"), (Channels, "decays")):
    for _word in sorted({"adds", "averages", "replaces", "decays", "keeps"} - {_true}):
        _claims(_rule, _word)


@twin("bounded")
@dataclass(frozen=True)
class ClaimsBounded(Attend):
    """Keeps every pair, and says that its state is bounded."""

    @property
    def traits(self):
        return replace(KEEPS, constant_size=True)


@twin("bounded")
@dataclass(frozen=True)
class DeniesBounded(Sum):
    """One matrix, declared to grow."""

    @property
    def traits(self):
        return replace(ADDS, constant_size=False)


@twin("state-size")
@dataclass(frozen=True)
class Padded(Attend):
    """Counts the spare rows of its buffer as state."""

    def write(self, state, keys, values, **extras):
        new = super().write(state, keys, values, **extras)
        buffer = new.slots._buffer
        return new if buffer is None else replace(new, arrays=dict(buffer.rows), slots=None)


class _Honest(State):
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
        return _Honest(**{name: getattr(new, name) for name in State.__dataclass_fields__})


@twin("similarity")
@dataclass(frozen=True)
class OtherSharpness(Attend):
    """Declares another sharpness than it applies."""

    def form(self, d_k):
        return KernelSum(Exp(self.beta + 0.01), normalised=True)


@twin("similarity")
@dataclass(frozen=True)
class ForgetsToDivide(Attend):
    """Declares its weights as not normalised."""

    def form(self, d_k):
        return KernelSum(Exp(self.beta))


@twin("similarity")
@dataclass(frozen=True)
class Doubled(Sum):
    """Recalls everything at twice its size."""

    def get(self, state, queries, ask):
        return 2 * super().get(state, queries, ask)


@twin("no-rescaling")
@dataclass(frozen=True)
class Rescales(Sum):
    """Brings keys to unit length without saying so."""

    def put(self, state, keys, values, **extras):
        length = state.xp.sqrt(state.xp.sum(keys * keys, axis=-1, keepdims=True))
        return super().put(state, keys / state.xp.where(length > 0, length, state.xp.ones_like(length)), values)


# ------------------------------ laws


@twin("split-law")
@dataclass(frozen=True)
class MeanOfWrite(Sum):
    """Divides by the number of pairs of each call."""

    def put(self, state, keys, values, **extras):
        return {"W": state["W"] + ar.transpose(values) @ keys / keys.shape[-2]}


@twin("batch-law")
@dataclass(frozen=True)
class OneMatrix(Sum):
    """Sums over the batch: one memory for all items."""

    def put(self, state, keys, values, **extras):
        new = super().put(state, keys, values)["W"]
        if state.batch:
            new = state.xp.broadcast_to(state.xp.mean(new, axis=0, keepdims=True), new.shape)
        return {"W": new}


@twin("batch-queries")
@dataclass(frozen=True)
class TwoAxes(Sum):
    """Reads only the first item of queries that have leading axes of their own."""

    def get(self, state, queries, ask):
        if queries.ndim == 3 and not state.batch:
            queries = state.xp.broadcast_to(queries[:1, ...], queries.shape)
        return super().get(state, queries, ask)


@twin("batch-pairs")
@dataclass(frozen=True)
class FirstItem(Sum):
    """Writes unbatched pairs into the first item only."""

    def write(self, state, keys, values, **extras):
        new = super().write(state, keys, values, **extras)
        if state.batch and keys.ndim == 2:
            W = np.array(new["W"])
            W[1:] = 0
            return replace(new, arrays={"W": W})
        return new


@twin("scan-after")
@dataclass(frozen=True)
class ScansBefore(Sum):
    """Reads before each write, whatever is asked."""

    capabilities = Capabilities(scan="own")

    def scanned(self, state, keys, values, queries, read, extras):
        return super().scanned(state, keys, values, queries, "before", extras)


@twin("scan-before")
@dataclass(frozen=True)
class ScansAfter(Sum):
    """Reads after each write, whatever is asked."""

    capabilities = Capabilities(scan="own")

    def scanned(self, state, keys, values, queries, read, extras):
        return super().scanned(state, keys, values, queries, "after", extras)


@twin("scan-after", "scan-before")
@dataclass(frozen=True)
class ScansFromNothing(Sum):
    """Forgets what was stored when it scans."""

    capabilities = Capabilities(scan="own")

    def scanned(self, state, keys, values, queries, read, extras):
        return super().scanned(self._blank(replace(state, n=0)), keys, values, queries, read, extras)


@twin("scan-after", "extras-matter")
@dataclass(frozen=True)
class ScansWithoutExtras(Delta):
    """Leaves the extras out of its scan."""

    capabilities = Capabilities(scan="own")

    def scanned(self, state, keys, values, queries, read, extras):
        return super().scanned(state, keys, values, queries, read, {})


@twin("scan-queries")
@dataclass(frozen=True)
class ScansAnything(Sum):
    """Takes any word for `read`."""

    def scan(self, state, keys, values, queries, *, read="after", **extras):
        return super().scan(state, keys, values, queries, read="before" if read == "before" else "after", **extras)


@twin("old-states")
@dataclass(frozen=True)
class WritesInPlace(Sum):
    """Adds to the matrix of the state it was given."""

    def put(self, state, keys, values, **extras):
        W = state["W"]
        W += ar.transpose(values) @ keys
        return {"W": W}


@twin("old-states")
@dataclass(frozen=True)
class SharesBuffer(Attend):
    """Appends in place without asking whether the end of the buffer is its own."""

    def _write(self, state, keys, values, extras):
        if state.slots._buffer is not None:
            state.slots._buffer.used = state.n
        return super()._write(state, keys, values, extras)


@twin("inputs-kept")
@dataclass(frozen=True)
class MutatesInput(Sum):
    """Scales the caller's values in place and back again, but for the last."""

    def put(self, state, keys, values, **extras):
        out = super().put(state, keys, values)
        values *= 0.5
        return out


@twin("inputs-kept")
@dataclass(frozen=True)
class MutatesQueries(Sum):
    """Normalises the caller's queries in place."""

    def get(self, state, queries, ask):
        out = super().get(state, queries, ask)
        queries *= 0.5
        return out


@twin("no-aliasing")
@dataclass(frozen=True)
class KeepsViews(Attend):
    """Keeps the caller's arrays themselves as its first rows."""

    def _write(self, state, keys, values, extras):
        if state.n:
            return super()._write(state, keys, values, extras)
        return state.after({}, int(keys.shape[-2]), DenseSlots({"keys": keys, "values": values}))


@twin("no-aliasing")
@dataclass(frozen=True)
class ReturnsState(Sum):
    """Remembers its last answer in the state's back room and hands the same array out again."""

    def recall(self, state, queries, *, mask=None):
        if "last" in state.memo:
            return state.memo["last"]
        out = super().recall(state, queries, mask=mask)
        state.memo["last"] = out
        return out


_calls = itertools.count()
_seen: list[float] = []


@twin("deterministic", "pure-reads")
@dataclass(frozen=True)
class Drifts(Sum):
    """Depends on how often anything was recalled before."""

    def get(self, state, queries, ask):
        return super().get(state, queries, ask) * (1 + 0.01 * next(_calls))


@twin("deterministic")
@dataclass(frozen=True)
class HiddenMemory(Sum):
    """Keeps a sum over everything ever written outside of its state."""

    def put(self, state, keys, values, **extras):
        _seen.append(float(np.sum(values)))
        return super().put(state, keys, values)

    def get(self, state, queries, ask):
        return super().get(state, queries, ask) + 0.01 * sum(_seen)


@twin("pure-reads")
@dataclass(frozen=True)
class FadesWhenRead(Sum):
    """Loses a little of its state at every recall."""

    def get(self, state, queries, ask):
        out = super().get(state, queries, ask)
        W = state["W"]
        W *= 0.99
        return out


@twin("explicit-state", "save-load")
@dataclass(frozen=True)
class HeldBack(Sum):
    """Keeps its matrix in the working storage, and an empty one in the state."""

    def write(self, state, keys, values, **extras):
        new = super().write(state, keys, values, **extras)
        W = state.memo.get("W", 0) + ar.transpose(values) @ keys
        return replace(new, arrays={"W": 0 * new["W"]}, memo={"W": W})

    def get(self, state, queries, ask):
        W = state.memo.get("W", state["W"])
        return queries @ ar.transpose(W)


# ------------------------------ arrays


@twin("dtype-kept")
@dataclass(frozen=True)
class ReturnsDouble(Sum):
    """Answers float32 with float64."""

    def recall(self, state, queries, *, mask=None):
        return super().recall(state, queries, mask=mask).astype(np.float64)


@twin("dtype-half")
@dataclass(frozen=True)
class HalfState(Sum):
    """Sums half precision in half precision."""

    def put(self, state, keys, values, **extras):
        W = super().put(state, keys, values)["W"]
        return {"W": W.astype(state.io_dtype)}


@twin("dtype-half")
@dataclass(frozen=True)
class NeverCastBack(Sum):
    """Recalls half precision in float32."""

    def recall(self, state, queries, *, mask=None):
        out = super().recall(state, queries, mask=mask)
        return out.astype(np.float32) if out.dtype == np.float16 else out


@twin("dtype-whole")
@dataclass(frozen=True)
class Wraps(Sum):
    """Multiplies whole numbers in their own type, where they wrap around."""

    def write(self, state, keys, values, **extras):
        if np.asarray(keys).dtype == np.int8:
            product = (np.swapaxes(values, -1, -2) @ keys).astype(np.float64)
            return replace(state, arrays={"W": state["W"] + product}, n=state.n + keys.shape[-2])
        return super().write(state, keys, values, **extras)


@twin("dtype-mixed")
@dataclass(frozen=True)
class KeepsFirstDtype(Sum):
    """Casts later writes down to the dtype of the first."""

    def write(self, state, keys, values, **extras):
        if state.n:
            keys, values = keys.astype(state.dtype), values.astype(state.dtype)
        return super().write(state, keys, values, **extras)

    def recall(self, state, queries, *, mask=None):
        return super().recall(state, queries.astype(state.io_dtype), mask=mask)


@twin("dtype-chosen")
@dataclass(frozen=True)
class IgnoresChoice(Sum):
    """Pays no attention to `state_dtype`."""

    def empty(self, d_k, d_v, *, batch=(), like=None, state_dtype=None):
        return super().empty(d_k, d_v, batch=batch, like=like)


@twin("layouts")
@dataclass(frozen=True)
class ReadsMemory(Sum):
    """Takes the numbers as they lie in memory."""

    def put(self, state, keys, values, **extras):
        base = keys if keys.base is None else keys.base
        if base.size >= keys.size and base.shape != keys.shape and state.batch == ():
            keys = base.reshape(-1)[: keys.size].reshape(keys.shape)
        return super().put(state, keys, values)


# ------------------------------ refusals


@twin("not-finite")
@dataclass(frozen=True)
class SwallowsNaN(Sum):
    """Turns NaN and infinity into zeros."""

    def write(self, state, keys, values, **extras):
        return super().write(state, np.nan_to_num(keys, posinf=0, neginf=0), np.nan_to_num(values, posinf=0, neginf=0))


@twin("not-finite")
@dataclass(frozen=True)
class SwallowsNaNQuery(Sum):
    """Turns NaN and infinity in queries into zeros."""

    def recall(self, state, queries, *, mask=None):
        return super().recall(state, np.nan_to_num(queries, posinf=0, neginf=0), mask=mask)


@twin("not-finite")
@dataclass(frozen=True)
class HalfWritten(Sum):
    """Writes the rows before the bad one, in place, and only then refuses."""

    def write(self, state, keys, values, **extras):
        good = int(np.argmin(np.isfinite(keys).all(axis=-1).reshape(-1)))
        if not np.isfinite(keys).all() and keys.ndim == 2:
            W = state["W"]
            W += values[:good].T @ keys[:good]
        return super().write(state, keys, values, **extras)


@twin("wrong-shapes")
@dataclass(frozen=True)
class CutsShort(Sum):
    """Takes as many pairs as both have, and drops the rest in silence."""

    def write(self, state, keys, values, **extras):
        if np.ndim(keys) > 1 and np.ndim(values) > 1:
            n = min(keys.shape[-2], values.shape[-2])
            keys, values = keys[..., :n, :], values[..., :n, :]
        return super().write(state, keys, values, **extras)


@twin("wrong-shapes")
@dataclass(frozen=True)
class ShortMessage(Sum):
    """Refuses without saying what came."""

    def write(self, state, keys, values, **extras):
        try:
            return super().write(state, keys, values, **extras)
        except InputError:
            raise InputError("bad shape") from None


@twin("foreign-types")
@dataclass(frozen=True)
class TakesObjects(Sum):
    """Turns whatever comes into floats."""

    def write(self, state, keys, values, **extras):
        if isinstance(keys, np.ndarray) and keys.dtype == object:
            keys = keys.astype(float)
        return super().write(state, keys, values, **extras)


@twin("foreign-types")
@dataclass(frozen=True)
class RaisesDeep(Sum):
    """Lets an error from inside through, instead of a sentence."""

    def recall(self, state, queries, *, mask=None):
        return super().recall(state, queries + 0.0, mask=mask)


@twin("key-kinds")
@dataclass(frozen=True)
class TakesAnyLength(Delta):
    """Wants unit keys, and takes any."""

    def _check_key_kind(self, keys, name, kind, call):
        pass


@twin("key-kinds")
@dataclass(frozen=True)
class WantsUnit(Sum):
    """Says that any key will do, and refuses all but unit ones."""

    def _checked_pairs(self, state, keys, values, extras, call="write"):
        self._check_key_kind(np.asarray(keys, dtype=float), "keys", "unit", call)
        return super()._checked_pairs(state, keys, values, extras, call)


@twin("key-kinds")
@dataclass(frozen=True)
class TooStrict(Delta):
    """Refuses unit keys that are off by rounding."""

    def _check_key_kind(self, keys, name, kind, call):
        if np.abs(np.linalg.norm(keys, axis=-1) - 1).max(initial=0) > 1e-6:
            raise InputError("`keys` must be unit.")


@twin("key-kinds")
@dataclass(frozen=True)
class AnySigns(Signs):
    """Wants signs, and takes any number."""

    def _check_key_kind(self, keys, name, kind, call):
        pass


@twin("unknown-extras")
@dataclass(frozen=True)
class TakesAnything(Sum):
    """Swallows extras it has no use for."""

    def write(self, state, keys, values, **extras):
        return super().write(state, keys, values)


@twin("declared-extras")
@dataclass(frozen=True)
class AnyRange(Delta):
    """Clips its step into the range instead of refusing."""

    def write(self, state, keys, values, **extras):
        return super().write(state, keys, values, **{name: np.clip(x, 0, 1) for name, x in extras.items()})


@twin("declared-extras")
@dataclass(frozen=True)
class SecretDefault(Channels):
    """Makes up numbers for an extra that has no default."""

    def write(self, state, keys, values, **extras):
        return super().write(state, keys, values, **{"decay": np.asarray(1.0), **extras})


@twin("mask-refused")
@dataclass(frozen=True)
class IgnoresMask(Sum):
    """Takes a mask it cannot apply."""

    def recall(self, state, queries, *, mask=None):
        return super().recall(state, queries)


@twin("wrong-masks")
@dataclass(frozen=True)
class AnyMask(Attend):
    """Takes masks of numbers for booleans."""

    def recall(self, state, queries, *, mask=None):
        return super().recall(state, queries, mask=None if mask is None else np.asarray(mask, dtype=bool))


# ------------------------------ pairs kept


@twin("mask-hides-all", "mask-is-absence", "weights")
@dataclass(frozen=True)
class DropsMask(Attend):
    """Ignores the mask."""

    def _logits(self, state, queries, mask):
        return super()._logits(state, queries, None)


@twin("mask-hides-all")
@dataclass(frozen=True)
class LargeNegative(Attend):
    """Hides by a large negative number, so that a row with everything hidden becomes the mean."""

    def _logits(self, state, queries, mask):
        logits = super()._logits(state, queries, None)
        return logits if mask is None else logits - 1e9 * ~mask


@twin("mask-is-absence")
@dataclass(frozen=True)
class ZeroLogit(Attend):
    """Hides a pair's value but leaves its share of the weights."""

    def _weights(self, state, queries, mask):
        weights = super()._weights(state, queries, None)
        return weights if mask is None else weights * mask


@twin("mask-per-query")
@dataclass(frozen=True)
class FirstMaskRow(Attend):
    """Applies the first query's mask to all."""

    def _logits(self, state, queries, mask):
        if mask is not None:
            mask = state.xp.broadcast_to(mask[..., :1, :], mask.shape)
        return super()._logits(state, queries, mask)


@twin("weights")
@dataclass(frozen=True)
class RawWeights(Attend):
    """Returns weights before they are divided by their sum."""

    def get(self, state, queries, ask):
        return replace(super().get(state, queries, ask), weights=Dense(self._parts(state, queries, ask.mask)[0]))


@twin("shards")
@dataclass(frozen=True)
class MassOfMaximum(Attend):
    """Reports the largest logit as its mass."""

    def get(self, state, queries, ask):
        logits = self._logits(state, queries, ask.mask)
        top = state.xp.max(logits, axis=-1) if state.n else -np.inf * np.ones(logits.shape[:-1])
        return replace(super().get(state, queries, ask), mass=Mass(top))


@twin("shards")
@dataclass(frozen=True)
class AddsShards(Attend):
    """Normalised, but hands its shards out as if they added."""

    def get(self, state, queries, ask):
        found = super().get(state, queries, ask)
        return replace(found, mass=replace(found.mass, rule="sum"))


@twin("merge")
@dataclass(frozen=True)
class LosesAll(Sum):
    """A merge that keeps the last state only."""

    def merge(self, *states):
        return states[-1]


@twin("merge")
@dataclass(frozen=True)
class WantsFull(Sum):
    """Merges, but not with a state that holds nothing."""

    def merge(self, *states):
        if not all(state.n for state in states):
            raise InputError("a state holds nothing.")
        return super().merge(*states)


@twin("merge")
@dataclass(frozen=True)
class Remembers(Attend):
    """Keeps rows that depend on how many came before, and joins them as if they did not."""

    def put(self, state, keys, values, **extras):
        places = state.n + np.arange(keys.shape[-2])[:, None]
        return {"keys": keys, "values": values / (1 + places)}


# ------------------------------ extras


@twin("extras-default")
@dataclass(frozen=True)
class OtherDefault(Delta):
    """Takes a step of one half where the traits say one."""

    def step(self, W, k, v, step=None):
        error = v - (W @ k[..., :, None])[..., 0]
        error = error * 0.5 if step is None else step[..., None] * error
        return W + error[..., :, None] * k[..., None, :]


@twin("extras-matter")
@dataclass(frozen=True)
class IdleExtra(Delta):
    """Declares a step and makes nothing of it."""

    def step(self, W, k, v, step=None):
        return super().step(W, k, v)


@twin("extras-broadcast")
@dataclass(frozen=True)
class FirstStepOnly(Delta):
    """Applies a single number to the first pair only."""

    def write(self, state, keys, values, **extras):
        if "step" in extras and np.ndim(extras["step"]) == 0:
            extras["step"] = np.concatenate([[float(extras["step"])], np.ones(keys.shape[-2] - 1)])
        return super().write(state, keys, values, **extras)


# ------------------------------ hard regimes, files


@twin("hard-keys")
@dataclass(frozen=True)
class SolvesGram(Sum):
    """Divides by the smallest eigenvalue of K^T K, which is zero for equal keys: a warning and NaN."""

    def get(self, state, queries, ask):
        out = super().get(state, queries, ask)
        rank_deficient = state.n > 1 and np.linalg.matrix_rank(state["W"]) < 2
        return out * (np.float64(1) / np.float64(0) if rank_deficient else 1)


@twin("hard-keys")
@dataclass(frozen=True)
class Warns(Sum):
    """Lets a warning of NumPy out."""

    def get(self, state, queries, ask):
        np.log(np.zeros(1))
        return super().get(state, queries, ask)


@twin("forward-mode", library="torch")
@dataclass(frozen=True)
class LosesTangents(Sum):
    """Keeps what carries a gradient in reverse mode and detaches all else."""

    def put(self, state, keys, values, **extras):
        sums = super().put(state, keys, values)
        return sums if sums["W"].requires_grad else {"W": sums["W"].detach()}


@twin("reverse-mode", library="torch")
@dataclass(frozen=True)
class Detaches(Sum):
    """Lets no gradient through."""

    def get(self, state, queries, ask):
        return super().get(state, queries.detach(), ask)


@twin("scan-reset")
@dataclass(frozen=True)
class NeverResets(Sum):
    """Carries everything over from one packed sequence to the next."""

    def scan(self, *arrays, reset=(), **asked):
        self._checked_reset(reset, arrays[1].shape[-2])
        return super().scan(*arrays, **asked)


@twin("autocast", library="torch")
@dataclass(frozen=True)
class AsAutocastLikes(Sum):
    """Recalls before the door has set the dtypes to compute in."""

    def ask(self, state, queries, **asked):
        return replace(super().ask(state, queries, **asked), values=queries @ state["W"].mT)


@twin("vmap", library="torch")
@dataclass(frozen=True)
class Branches(Sum):
    """Looks at the numbers before the door has seen them."""

    def write(self, state, keys, values, **extras):
        return super().write(state, keys if keys[0, 0] > 0 else +keys, values, **extras)


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


@twin("rounded-keys")
@dataclass(frozen=True)
class RankOfFloat32(PlainRidge):
    """Takes for directions what is more than the rounding of the dtype that it computes in."""

    def get(self, state, queries, ask):
        return queries @ np.linalg.pinv(state["H"], rtol=1e-8) @ state["W"].T


@twin("small-ridge")
@dataclass(frozen=True)
class CutByRidge(PlainRidge):
    """Leaves out what is shorter than a multiple of the ridge, so that directions come and go as it falls."""

    def get(self, state, queries, ask):
        size, axes = np.linalg.eigh(state["H"])
        kept = size > 3e4 * self.ridge
        return (queries @ axes * np.where(kept, 1 / np.where(kept, size, 1), 0)) @ axes.T @ state["W"].T


@twin("large-numbers")
@dataclass(frozen=True)
class SilentOverflow(Sum):
    """Returns what overflowed."""

    def _finish(self, out, state, queries):
        return out


@twin("save-load")
@dataclass(frozen=True)
class ForgetsSetting(Attend):
    """Has a setting that is no field of it, so that no file can keep it."""

    def __post_init__(self):
        object.__setattr__(self, "beta", 3.0 if self.beta == 2.0 else 1.0)
