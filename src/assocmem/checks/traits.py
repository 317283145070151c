"""Contract: every declared trait holds, and where a store says no, a witness shows that it is no."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np

from assocmem.checks.harness import WITNESS, Drawn, Findings, Harness, Numbers, check
from assocmem.contract.errors import InputError
from assocmem.contract.traits import SIZES, crowded


@check("linear", "recall is linear in the values, or affine, or neither, as declared")
def linear(harness: Harness) -> Findings:
    """Superpose two sets of values of 7 and of 300 pairs; recall zero values.

    Where values are signs, exchange half of two sets' rows.
    """
    if harness.traits.values == "signs":
        yield from _linear_in_signs(harness)
        return
    declared = harness.traits.linear_in_values
    witnesses = []
    for n in (7, SIZES[1]):
        drawn = harness.draw(n)
        queries = harness.queries(drawn.keys, 5)
        first, second = harness.values(n), harness.values(n)
        zero = harness.answer(drawn.having(values=0 * first), queries)
        apart = 2 * (harness.answer(drawn.having(values=first), queries) - zero)
        apart -= 3 * (harness.answer(drawn.having(values=second), queries) - zero)
        together = harness.answer(drawn.having(values=2 * first - 3 * second), queries) - zero
        affine = harness.differ(zero, 0 * zero)
        if declared == "no":
            witnesses.append(harness.differ(together, apart) or affine)
            continue
        law = f"traits.linear_in_values = {declared!r}: recall of 2 V1 - 3 V2 must equal 2 recall(V1) - 3 recall(V2)"
        yield from harness.same(together, apart, f"{law}, {n} pairs")
        if harness.traits.affine and not affine:
            yield (
                "traits.affine = True, but zero values are recalled as zeros: the store is linear; declare "
                "affine=False."
            )
        if not harness.traits.affine and affine:
            yield "zero values must be recalled as zeros, or traits.affine = True declared; the recall was not zero."
    if declared == "no" and not any(witnesses):
        yield (
            "traits.linear_in_values = 'no', but recall of 2 V1 - 3 V2 equals 2 recall(V1) - 3 recall(V2): "
            "it is linear; declare 'shared' or 'per-channel'."
        )


def _linear_in_signs(harness: Harness) -> Findings:
    drawn, other = harness.draw(40), harness.values(40)
    queries, half = harness.queries(drawn.keys, 20), (np.arange(40) % 2 == 0)[:, None]
    sets = (drawn.values, other, np.where(half, drawn.values, other), np.where(half, other, drawn.values))
    found = [harness.answer(drawn.having(values=values), queries) for values in sets]
    differs = harness.differ(found[0] + found[1], found[2] + found[3])
    if differs is (harness.traits.linear_in_values != "no"):
        yield (
            f"traits.linear_in_values = {harness.traits.linear_in_values!r}: recalls of two sets of signs, and of the "
            f"two that come of them when every second row is exchanged, must {'not ' * (not differs)}have the same sum."
        )


@check("channels", "value channels share one row of recall weights, or have a row each, as declared")
def channels(harness: Harness) -> Findings:
    """Put the same numbers into one value channel after the other."""
    declared = harness.traits.linear_in_values
    if declared == "no" or harness.traits.values == "signs":
        return
    drawn = harness.draw(7)
    queries = harness.queries(drawn.keys, 5)
    numbers = harness.rng.standard_normal(7)
    zero = harness.answer(drawn.having(values=0 * drawn.values), queries)
    rows = []
    for c in range(harness.d_v):
        values = np.zeros_like(drawn.values)
        values[:, c] = numbers
        out = harness.answer(drawn.having(values=values), queries) - zero
        rows.append(out[:, c].copy())
        out[:, c] = 0
        if np.abs(out).max() > WITNESS * max(np.abs(rows[-1]).max(), 1e-3):
            yield f"values in channel {c} leak into other channels of the recall; no row of weights can do that."
            return
    if declared == "shared":
        for c, row in enumerate(rows):
            law = f"traits.linear_in_values = 'shared': channel {c} must have channel 0's recall weights"
            yield from harness.same(row, rows[0], law)
    elif not any(harness.differ(row, rows[0]) for row in rows):
        yield "traits.linear_in_values = 'per-channel', but all channels have the same weights; declare 'shared'."


@check("order", "the order of writes matters, or does not, as declared")
def order(harness: Harness) -> Findings:
    """Write nine pairs, one key twice among them, in other orders; then 40 to 2,100 pairs and crowded ones reversed."""
    keys = harness.keys(9)
    keys[5] = keys[2]
    drawn = harness.draw(9, keys=keys)
    queries = harness.queries(drawn.keys, 5)
    want = harness.answer(drawn, queries)
    orders = (list(range(9))[::-1], [1, 0, *range(2, 9)], harness.rng.permutation(9).tolist())
    answers = ((harness.answer(drawn.rows(other), queries), want, f"pairs in order {other}") for other in orders)
    if harness.traits.permutation_invariant:
        for got, wanted, what in itertools.chain(answers, _reversed(harness)):
            yield from harness.same(got, wanted, f"permutation_invariant: {what}")
    elif not any(harness.differ(got, wanted) for got, wanted, _ in itertools.chain(answers, _reversed(harness))):
        yield (
            f"traits.permutation_invariant = False, but up to {max(SIZES):,} pairs in other orders gave the same "
            "recall; declare True."
        )


def _reversed(harness: Harness) -> Iterator[tuple[Numbers, Numbers, str]]:
    """Yield the recalls of more and more pairs reversed, what they must be, and words: a window shows at some size."""
    crowd = harness.keys(3)[list(crowded(SIZES[0]))]
    many = itertools.chain(
        ((harness.draw(SIZES[0], keys=crowd), f"{SIZES[0]} pairs of three keys"),),
        ((harness.draw(n), f"{n:,} pairs") for n in SIZES),
    )
    for drawn, what in many:
        queries = harness.queries(drawn.keys, 5)
        yield (
            harness.answer(drawn.rows(slice(None, None, -1)), queries), harness.answer(drawn, queries),
            f"{what} in reverse order",
        )  # fmt: skip


@check("rewrite", "a key written twice: values add, average, the second replaces the first, the first decays or stays")
def rewrite(harness: Harness) -> Findings:
    """Measure the shares of both values, and of each written alone, per value channel."""
    declared = harness.traits.overwrite
    key = harness.draw(1).keys
    if harness.traits.keys == "any":
        key = key / np.linalg.norm(key)
    keys = np.concatenate([key, key])
    plain = harness.draw(2, keys=keys, extras="plain")
    if harness.traits.values == "signs":
        got, want = harness.answer(plain, key), plain.values.mean(axis=0, keepdims=True)
        if declared == "averages":
            yield from harness.same(got, want, "traits.overwrite = 'averages': signs that differ must be recalled as 0")
        elif not harness.differ(got, want):
            yield f"traits.overwrite = {declared!r}: two values of one key average; declare 'averages'."
        return
    drawn = harness.draw(2, keys=keys) if declared in ("adds", "decays") else plain
    one, two = (_share(harness, drawn, which, key, alone=False) for which in (0, 1))
    first, second = (_share(harness, drawn, which, key, alone=True) for which in (0, 1))
    where = f"traits.overwrite = {declared!r}: after one key was written with v1, then v2,"
    if declared == "adds":
        yield from harness.same(one, first, f"{where} the share of v1 must be what it is alone")
        yield from harness.same(two, second, f"{where} the share of v2 must be what it is alone")
    elif declared == "averages":
        yield from harness.same(one, two, f"{where} both must have equal shares")
        if np.any(one > 0.9 * first) or np.any(one + two < 0.9 * first):
            yield f"{where} the shares must average, half of what each is alone; got {one[0]:.4g} of {first[0]:.4g}."
    elif declared == "replaces":
        yield from harness.same(one + second, second, f"{where} nothing of v1 may be left")
        if not harness.traits.keeps_pairs:
            yield from harness.same(two, second, f"{where} the share of v2 must be what it is alone")
        elif np.any(two < 0.49 * second) or np.any(two > (1 + WITNESS) * second):  # half where a softmax is shared
            yield f"{where} v2 must have half to all of its share alone; got {two[0]:.4g} of {second[0]:.4g}."
    elif declared == "keeps":
        yield from harness.same(one, first, f"{where} the share of v1 must be what it is alone")
        yield from harness.same(two + first, first, f"{where} v2 must have no share")
    elif declared == "mixes":
        adds = not harness.differ(one, first) and not harness.differ(two, second)
        averages = not harness.differ(one, two) and not np.any(one + two < 0.9 * first)
        if adds or averages or np.any(np.abs(np.stack([one, two])) <= WITNESS * np.abs(first)):
            yield (
                f"{where} both must have shares by none of the simpler laws; the shares are {one[0]:.4g} and "
                f"{two[0]:.4g}, alone {first[0]:.4g} and {second[0]:.4g}."
            )
    elif np.any(_share(harness, plain, 0, key, alone=False) <= WITNESS * first) or np.any(
        one * second >= (1 - WITNESS) * two * first
    ):
        yield (
            f"{where} v1 must have some share left, but relative to v2 less than when each is alone; the shares are "
            f"{one[0]:.4g} and {two[0]:.4g}, alone {first[0]:.4g} and {second[0]:.4g}."
        )


def _share(harness: Harness, drawn: Drawn, which: int, key: Numbers, *, alone: bool) -> Numbers:
    """Return the recall of a value of ones in each channel, all other values being zero."""
    values = np.zeros_like(drawn.values)
    values[which] = 1
    written, nothing = drawn.having(values=values), drawn.having(values=0 * values)
    if alone:
        written, nothing = written.rows([which]), nothing.rows([which])
    share: Numbers = (harness.answer(written, key) - harness.answer(nothing, key))[0]
    return share


@check("bounded", "the state stops growing, or grows with every pair, as declared")
def bounded(harness: Harness) -> Findings:
    """Compare state sizes after more and more pairs."""
    state = harness.write(harness.draw(40))
    before, state = state.size, harness.write(harness.draw(40), state)
    after = state.size
    if not harness.traits.constant_size:
        if after <= before:
            yield f"traits.constant_size = False, but 80 pairs take no more numbers than 40 ({after}); declare True."
        return
    while after > before and state.n < 4096:
        state = harness.write(harness.draw(state.n), state)
        before, after = after, state.size
    if after > before:
        yield (
            f"traits.constant_size = True, but the state still grows at {state.n} pairs: from {before} to {after} "
            "numbers."
        )


@check("state-size", "state size counts the arrays that are held, the used part of them, and nothing else")
def state_size(harness: Harness) -> Findings:
    """Count the arrays; where pairs are kept, every pair must take the same room."""
    sizes = {}
    for n in (0, 10, 11, 20, 30):
        state = harness.write(harness.draw(n))
        sizes[n] = sum(harness.read(a).size for a in state.contents.values())
        if state.size != sizes[n]:
            yield f"state.size after {n} pairs must be the {sizes[n]} numbers of its arrays; got {state.size}."
    steps = (sizes[11] - sizes[10], (sizes[20] - sizes[10]) / 10, (sizes[30] - sizes[20]) / 10)
    if harness.traits.keeps_pairs and len(set(steps)) != 1:
        yield (
            "a store that keeps its pairs must hold the same count of numbers for each, without spare room: "
            f"sizes after 10, 11, 20, 30 pairs were {sizes[10]}, {sizes[11]}, {sizes[20]}, {sizes[30]}."
        )


@check("similarity", "where σ is declared, recall is V^T σ(K x), divided by the sum of weights if normalised")
def similarity(harness: Harness) -> Findings:
    """Compute V^T σ(K x) in NumPy at three sizes; of signs V^T σ(K x / d_k)."""
    for n in (1, 5, 20):
        form = harness.store.form(harness.d_k)
        sigma = None if form is None else form.of_keys(n, harness.d_k)
        if form is None or sigma is None:
            return
        if form.signs is not (harness.traits.keys == "signs"):
            yield f"traits.keys = {harness.traits.keys!r}, but the form says signs={form.signs}."
        drawn = harness.draw(n, extras="plain")
        queries = harness.queries(drawn.keys, 6)
        try:
            likeness = queries @ drawn.keys.T / (harness.d_k if form.signs else 1)
            weights = harness.read(sigma(harness.give(likeness)))
        except InputError:
            return  # σ at infinite sharpness is a limit, not a function
        if form.normalised:
            weights = weights / weights.sum(axis=-1, keepdims=True)
        words = "sum_i σ(k_i.x) v_i" + (" / sum_i σ(k_i.x)" if form.normalised else "")
        yield from harness.same(
            harness.answer(drawn, queries), weights @ drawn.values, f"recall of {n} pairs must be {words}"
        )


@check("no-rescaling", "keys are not rescaled silently: where any length is taken, length has an effect")
def no_rescaling(harness: Harness) -> Findings:
    """Stretch each key by another factor; a store whose recall depends on its keys at all must notice."""
    if harness.traits.keys != "any":
        return
    drawn = harness.draw(9)
    queries = harness.queries(drawn.keys, 8)
    want = harness.answer(drawn, queries)
    if not harness.differ(harness.answer(drawn.having(keys=harness.keys(9)), queries), want):
        return
    stretch = np.geomspace(0.5, 2, 9)[harness.rng.permutation(9)][:, None]
    if not harness.differ(harness.answer(drawn.having(keys=drawn.keys * stretch), queries), want):
        yield (
            "keys of other lengths gave the same recall: the store rescales them silently; leave the keys as they are."
        )
