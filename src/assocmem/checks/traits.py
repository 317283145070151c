"""Contract: every declared trait holds, and where a store says no, a witness shows that it is no."""

from __future__ import annotations

import numpy as np

from assocmem.checks.harness import WITNESS, Bench, Findings, Lot, Numbers, promise
from assocmem.contract.errors import InputError
from assocmem.contract.form import KernelSum


@promise("linear", "recall is linear in the values, or affine, or neither, as declared")
def linear(bench: Bench) -> Findings:
    """Superpose two sets of values; recall zero values."""
    lot = bench.lot(7)
    queries = bench.queries(lot.keys, 5)
    first, second = bench.values(7), bench.values(7)
    zero = bench.answer(lot.having(values=0 * first), queries)
    apart = 2 * (bench.answer(lot.having(values=first), queries) - zero)
    apart -= 3 * (bench.answer(lot.having(values=second), queries) - zero)
    together = bench.answer(lot.having(values=2 * first - 3 * second), queries) - zero
    declared = bench.traits.linear_in_values
    if declared == "no":
        if not bench.differ(together, apart) and not bench.differ(zero, 0 * zero):
            yield (
                "traits.linear_in_values = 'no', but recall of 2 V1 - 3 V2 equals 2 recall(V1) - 3 recall(V2): "
                "it is linear; declare 'shared' or 'per-channel'."
            )
        return
    law = f"traits.linear_in_values = {declared!r}: recall of 2 V1 - 3 V2 must equal 2 recall(V1) - 3 recall(V2)"
    yield from bench.same(together, apart, law)
    if bench.traits.affine and not bench.differ(zero, 0 * zero):
        yield "traits.affine = True, but zero values are recalled as zeros: the store is linear; declare affine=False."
    if not bench.traits.affine and bench.differ(zero, 0 * zero):
        yield "zero values must be recalled as zeros, or traits.affine = True declared; the recall was not zero."


@promise("channels", "value channels share one row of recall weights, or have a row each, as declared")
def channels(bench: Bench) -> Findings:
    """Put the same numbers into one value channel after the other."""
    declared = bench.traits.linear_in_values
    if declared == "no":
        return
    lot = bench.lot(7)
    queries = bench.queries(lot.keys, 5)
    numbers = bench.rng.standard_normal(7)
    zero = bench.answer(lot.having(values=0 * lot.values), queries)
    rows = []
    for c in range(bench.d_v):
        values = np.zeros_like(lot.values)
        values[:, c] = numbers
        out = bench.answer(lot.having(values=values), queries) - zero
        rows.append(out[:, c].copy())
        out[:, c] = 0
        if np.abs(out).max() > WITNESS * max(np.abs(rows[-1]).max(), 1e-3):
            yield f"values in channel {c} leak into other channels of the recall; no row of weights can do that."
            return
    if declared == "shared":
        for c, row in enumerate(rows):
            law = f"traits.linear_in_values = 'shared': channel {c} must have channel 0's recall weights"
            yield from bench.same(row, rows[0], law)
    elif not any(bench.differ(row, rows[0]) for row in rows):
        yield "traits.linear_in_values = 'per-channel', but all channels have the same weights; declare 'shared'."


@promise("order", "the order of writes matters, or does not, as declared")
def order(bench: Bench) -> Findings:
    """Write nine pairs, one key twice among them, reversed, with two swapped, and shuffled."""
    keys = bench.keys(9)
    keys[5] = keys[2]
    lot = bench.lot(9, keys=keys)
    queries = bench.queries(lot.keys, 5)
    want = bench.answer(lot, queries)
    orders = (list(range(9))[::-1], [1, 0, *range(2, 9)], bench.rng.permutation(9).tolist())
    if bench.traits.permutation_invariant:
        for other in orders:
            yield from bench.same(
                bench.answer(lot.rows(other), queries), want, f"permutation_invariant: pairs in order {other}"
            )
    elif not any(bench.differ(bench.answer(lot.rows(other), queries), want) for other in orders):
        many = bench.lot(40)  # a store that works in batches is permutation-invariant inside one
        if not bench.differ(bench.answer(many.rows(slice(None, None, -1)), queries), bench.answer(many, queries)):
            yield (
                "traits.permutation_invariant = False, but the pairs in four other orders gave the same recall; "
                "declare True."
            )


@promise(
    "rewrite", "a key written twice: values add, average, the second replaces the first, the first decays or stays"
)
def rewrite(bench: Bench) -> Findings:
    """Measure the shares of both values, and of each written alone, per value channel."""
    declared = bench.traits.overwrite
    key = bench.lot(1).keys
    if bench.traits.keys == "any":
        key = key / np.linalg.norm(key)
    keys = np.concatenate([key, key])
    plain = bench.lot(2, keys=keys, extras="plain")
    lot = bench.lot(2, keys=keys) if declared in ("adds", "decays") else plain
    one, two = (_share(bench, lot, which, key, alone=False) for which in (0, 1))
    first, second = (_share(bench, lot, which, key, alone=True) for which in (0, 1))
    where = f"traits.overwrite = {declared!r}: after one key was written with v1, then v2,"
    if declared == "adds":
        yield from bench.same(one, first, f"{where} the share of v1 must be what it is alone")
        yield from bench.same(two, second, f"{where} the share of v2 must be what it is alone")
    elif declared == "averages":
        yield from bench.same(one, two, f"{where} both must have equal shares")
        if np.any(one > 0.9 * first) or np.any(one + two < 0.9 * first):
            yield f"{where} the shares must average, half of what each is alone; got {one[0]:.4g} of {first[0]:.4g}."
    elif declared == "replaces":
        yield from bench.same(one + second, second, f"{where} nothing of v1 may be left")
        if not bench.traits.keeps_pairs:
            yield from bench.same(two, second, f"{where} the share of v2 must be what it is alone")
        elif np.any(two < 0.49 * second) or np.any(two > (1 + WITNESS) * second):  # half where a softmax is shared
            yield f"{where} v2 must have half to all of its share alone; got {two[0]:.4g} of {second[0]:.4g}."
    elif declared == "keeps":
        yield from bench.same(one, first, f"{where} the share of v1 must be what it is alone")
        yield from bench.same(two + first, first, f"{where} v2 must have no share")
    elif declared == "mixes":
        adds = not bench.differ(one, first) and not bench.differ(two, second)
        if adds or not bench.differ(one, two) or np.any(np.abs(np.stack([one, two])) <= WITNESS * np.abs(first)):
            yield (
                f"{where} both must have shares by none of the simpler laws; the shares are {one[0]:.4g} and "
                f"{two[0]:.4g}, alone {first[0]:.4g} and {second[0]:.4g}."
            )
    elif np.any(_share(bench, plain, 0, key, alone=False) <= WITNESS * first) or np.any(
        one * second >= (1 - WITNESS) * two * first
    ):
        yield (
            f"{where} v1 must have some share left, but relative to v2 less than when each is alone; the shares are "
            f"{one[0]:.4g} and {two[0]:.4g}, alone {first[0]:.4g} and {second[0]:.4g}."
        )


def _share(bench: Bench, lot: Lot, which: int, key: Numbers, *, alone: bool) -> Numbers:
    """Return the recall of a value of ones in each channel, all other values being zero."""
    values = np.zeros_like(lot.values)
    values[which] = 1
    written, nothing = lot.having(values=values), lot.having(values=0 * values)
    if alone:
        written, nothing = written.rows([which]), nothing.rows([which])
    share: Numbers = (bench.answer(written, key) - bench.answer(nothing, key))[0]
    return share


@promise("bounded", "the state stops growing, or grows with every pair, as declared")
def bounded(bench: Bench) -> Findings:
    """Compare state sizes after more and more pairs."""
    state = bench.write(bench.lot(40))
    before, state = state.size, bench.write(bench.lot(40), state)
    after = state.size
    if not bench.traits.constant_size:
        if after <= before:
            yield f"traits.constant_size = False, but 80 pairs take no more numbers than 40 ({after}); declare True."
        return
    while after > before and state.n < 4096:
        state = bench.write(bench.lot(state.n), state)
        before, after = after, state.size
    if after > before:
        yield (
            f"traits.constant_size = True, but the state still grows at {state.n} pairs: from {before} to {after} "
            "numbers."
        )


@promise("state-size", "state size counts the arrays that are held, the used part of them, and nothing else")
def state_size(bench: Bench) -> Findings:
    """Count the arrays; where pairs are kept, every pair must take the same room."""
    sizes = {}
    for n in (0, 10, 11, 20, 30):
        state = bench.write(bench.lot(n))
        sizes[n] = sum(bench.read(a).size for a in state.contents.values())
        if state.size != sizes[n]:
            yield f"state.size after {n} pairs must be the {sizes[n]} numbers of its arrays; got {state.size}."
    steps = (sizes[11] - sizes[10], (sizes[20] - sizes[10]) / 10, (sizes[30] - sizes[20]) / 10)
    if bench.traits.keeps_pairs and len(set(steps)) != 1:
        yield (
            "a store that keeps its pairs must hold the same count of numbers for each, without spare room: "
            f"sizes after 10, 11, 20, 30 pairs were {sizes[10]}, {sizes[11]}, {sizes[20]}, {sizes[30]}."
        )


@promise("similarity", "where σ is declared, recall is V^T σ(K x), divided by the sum of weights if normalised")
def similarity(bench: Bench) -> Findings:
    """Compute V^T σ(K x) in NumPy at two sizes."""
    for n in (1, 5, 20):
        form = bench.store.form(bench.d_k)
        if not isinstance(form, KernelSum) or form.sigma is None:
            return
        lot = bench.lot(n, extras="plain")
        queries = bench.queries(lot.keys, 6)
        try:
            weights = bench.read(form.at(n, bench.d_k)(bench.give(queries @ lot.keys.T)))
        except InputError:
            return  # σ at infinite sharpness is a limit, not a function
        if form.normalised:
            weights = weights / weights.sum(axis=-1, keepdims=True)
        words = "sum_i σ(k_i.x) v_i" + (" / sum_i σ(k_i.x)" if form.normalised else "")
        yield from bench.same(bench.answer(lot, queries), weights @ lot.values, f"recall of {n} pairs must be {words}")


@promise("no-rescaling", "keys are not rescaled silently: where any length is taken, length has an effect")
def no_rescaling(bench: Bench) -> Findings:
    """Stretch each key by another factor; a store whose recall depends on its keys at all must notice."""
    if bench.traits.keys != "any":
        return
    lot = bench.lot(9)
    queries = bench.queries(lot.keys, 8)
    want = bench.answer(lot, queries)
    if not bench.differ(bench.answer(lot.having(keys=bench.keys(9)), queries), want):
        return
    stretch = np.geomspace(0.5, 2, 9)[bench.rng.permutation(9)][:, None]
    if not bench.differ(bench.answer(lot.having(keys=lot.keys * stretch), queries), want):
        yield (
            "keys of other lengths gave the same recall: the store rescales them silently; "
            "declare traits.keys = 'unit' and refuse other lengths, or leave the keys as they are."
        )
