"""Exact mean square ratios of given keys, queries and values, wherever recall is V^T σ(Kx): nothing is sampled.

With a_iq = σ(k_i.x_q) / σ(k_t.x_q), t the row that query q asks for, and a random subset of M of the N + 1 rows that
the query may see, the target among them, the mean square ratio of the query is

    values random, of one length:  (M - 1) A,                           A = sum_i a_iq^2 / N
    values v given:                (M - 1) A + (M - 1)(M - 2) B,        A = sum_i a_iq^2 |v_i|^2 / (N |v_t|^2),
                                   B = sum over i != l of a_iq a_lq v_i.v_l / (N (N - 1) |v_t|^2),

sums over the rows other than t. A normaliser (softmax) cancels in a_iq. Everything is computed in float64 and in
units of each query's largest weight, whose logarithm is kept, so that logits of any size neither over- nor underflow.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np

from assocmem.contract.arrays import to_numpy
from assocmem.contract.errors import InputError, RecallOverflowError
from assocmem.contract.numbers import is_number, is_whole
from assocmem.ruler.ratio import Floats, Indices, checked_numbers
from assocmem.ruler.row_ratios import Bools, RowRatios, checked_memories, require_threshold

Scale: TypeAlias = "float | Floats"

BLOCK = 1 << 20
"""Weights held at once: narrower blocks would make products of matrices slow."""
EQUAL = 1e-12
"""Weights that differ by less, relative to the target's, are equal."""
NEWTON_STEPS = 60
"""Steps at most in the search for a factor; about ten are taken."""


@dataclass(frozen=True, eq=False)
class GivenRows:
    """Keys, the queries that read them, which of them each query sees, and which one it asks for.

    Parameters
    ----------
    keys : array (..., h_k, n, d) or (n, d)
        The stored rows; any array library, any floating dtype (computed in float64).
    queries : array (..., h, m, d) or (m, d)
        Their leading axes are those of the keys, the last of them a multiple of h_k: grouped heads, where queries of
        head i read the keys of head i // (h / h_k). Default: the keys themselves.
    values : array (..., h_k, n, d_v)
        Given values; without them the ratio is the root mean square over random values of one length.
    gates : array (..., h_k, n, d)
        Rows of a gated unit, whose weight is σ(g_i.x) (k_i.x).
    activation : function of an array of logits, or None
        σ, any function that keeps the shape (an `Activation`); None is the exponential, softmax's.
    scaling, softcap : float
        A logit is scaling k.x, soft-capped as c tanh(logit / c) where a softcap c is given.
    causal, window : bool, int
        Causal queries stand at the last m of the n positions and see no later key, and with a window w >= 1 only the
        last w, their own included.
    mask : bool array (..., m, n)
        What a query may see, True for a row seen, broadcasting against the leading axes of the queries.
    drop : sequence of int
        Positions of keys that count as absent (an attention sink); queries that ask for them are left out.
    target : "own", "strongest" or int array (m,) or (..., m)
        The row that a query asks for: the key at its own position, the key of its largest weight, or the rows named
        (-1: the query asks for none and is left out).

    Raises
    ------
    InputError, NonFiniteError
        For shapes, positions and settings that do not fit, and naming a row that holds NaN or infinity.

    Notes
    -----
    Cost of every method: one pass over the weights seen, m n (d + d_v) multiply-adds a head; some BLOCK numbers held.

    Examples
    --------
    >>> rows = GivenRows(np.eye(3), scaling=2.0)
    >>> rows.ratios().ratio().round(6).tolist() == [round(math.sqrt(2) * math.exp(-2), 6)] * 3
    True
    """

    keys: Any
    queries: Any = None
    values: Any = None
    gates: Any = None
    activation: Callable[[Any], Any] | None = None
    scaling: float = 1.0
    softcap: float | None = None
    causal: bool = False
    window: int | None = None
    mask: Any = None
    drop: Sequence[int] = ()
    target: Any = "own"

    def __post_init__(self) -> None:
        keys = checked_numbers(self.keys, "keys", 2)
        queries = keys if self.queries is None else checked_numbers(self.queries, "queries", 2)
        if 0 in (*keys.shape, *queries.shape):
            raise InputError(f"`keys` and `queries` must not be empty; got {keys.shape} and {queries.shape}.")
        alike = (keys.ndim, keys.shape[:-3], keys.shape[-1]) == (queries.ndim, queries.shape[:-3], queries.shape[-1])
        if not alike or (keys.ndim > 2 and queries.shape[-3] % keys.shape[-3]):
            raise InputError(
                f"`queries` must have the leading axes and the width of the keys {keys.shape}, and a multiple of "
                f"their heads; got {queries.shape}."
            )
        object.__setattr__(self, "keys", keys)
        object.__setattr__(self, "queries", queries)
        for name, width in (("values", None), ("gates", keys.shape[-1])):
            if getattr(self, name) is not None:
                rows = checked_numbers(getattr(self, name), name, 2)
                if rows.shape[:-1] != keys.shape[:-1] or rows.shape[-1] != (width or rows.shape[-1]):
                    raise InputError(f"`{name}` must have a row for each of the keys {keys.shape}; got {rows.shape}.")
                object.__setattr__(self, name, rows)
        m, n, shape = queries.shape[-2], keys.shape[-2], queries.shape[:-1]
        _require_settings(self, m, n)
        if self.gates is not None and self.activation is None:
            raise InputError("`gates` need an `activation`.")
        if self.mask is not None:
            mask = _plain(self.mask)
            if mask.dtype != np.bool_ or mask.ndim < 2 or not _broadcasts(mask.shape, (*shape, n)):
                raise InputError(f"`mask` must be true or false for queries and keys {(*shape, n)}; got {mask.shape}.")
            object.__setattr__(self, "mask", mask)
        object.__setattr__(self, "target", _target(self.target, shape, n, self.causal))

    def head(self, *place: int) -> GivenRows:
        """Return the rows of one head, by its place in the leading axes of the queries; its keys are its group's."""
        if not place:
            return self
        grouped = self.queries.shape[-3] // self.keys.shape[-3]
        shared = (*place[:-1], place[-1] // grouped)
        keys, values, gates = (x if x is None else x[shared] for x in (self.keys, self.values, self.gates))
        shape = (*self.queries.shape[:-1], self.keys.shape[-2])
        mask = self.mask if self.mask is None or self.mask.ndim == 2 else np.broadcast_to(self.mask, shape)[place]
        target = "strongest" if self.target is None else self.target[place]
        return replace(
            self, keys=keys, queries=self.queries[place], values=values, gates=gates, mask=mask, target=target
        )

    def ratios(self, scale: Scale = 1.0) -> RowRatios:
        """Return every query's mean square ratio as a function of M.

        Parameters
        ----------
        scale : float or array (...)
            One number, or one for each head, that multiplies the soft-capped logits.

        Returns
        -------
        RowRatios
            Of all queries.
        """
        found = _Moments.empty((), self.queries.shape[:-1])
        for block in self._blocks(scale):
            found.put((), block, [slice(None)], np.ones((1, 1)))
        return found.ratios()

    def folds(self, parts: int, scales: Sequence[float] = (1.0,)) -> RowRatios:
        """Return every query's ratio among all rows, and as it would be without each of some runs of rows.

        Parameters
        ----------
        parts : int
            The rows are cut into this many runs of neighbours, as equal as can be; at least 2, at most the rows.
        scales : sequence of numbers
            Each multiplies the soft-capped logits; several share one product of queries and keys.

        Returns
        -------
        ratios : RowRatios (s, 1 + parts, ..., m)
            First with all rows, then without the rows of each part. Targets stay where they are: to hold a part out
            wholly leave out the queries whose target lies in it (`part_of`).

        Raises
        ------
        InputError
            For parts out of range, and for a scale other than 1 where σ is not the exponential.

        Examples
        --------
        >>> GivenRows(np.eye(6)).folds(3).ratio(4).shape
        (1, 4, 6)
        """
        n = self.keys.shape[-2]
        if not is_whole(parts, 2) or parts > n:
            raise InputError(f"`parts` must be a whole number in [2, {n}], the rows; got {parts!r}.")
        if self.activation is not None and any(scale != 1 for scale in scales):
            raise InputError("`scales` are for the exponential: σ of another kind is not sharpened by a factor.")
        edges = np.linspace(0, n, parts + 1).round().astype(np.int64)
        slices = [slice(a, b) for a, b in itertools.pairwise(edges.tolist())]
        kept = np.concatenate([np.ones((1, parts)), 1.0 - np.eye(parts)])
        found = _Moments.empty((len(scales), 1 + parts), self.queries.shape[:-1])
        for block in self._blocks(1.0):
            for i, scale in enumerate(scales):
                found.put((i, slice(None)), block.sharpened(scale), slices, kept)
        return found.ratios()

    def part_of(self, parts: int) -> Indices:
        """Return the part of `folds` in which each query's target lies.

        Parameters
        ----------
        parts : int
            As for `folds`.

        Returns
        -------
        int array (..., m)
            -1 where a query has no target.
        """
        n = self.keys.shape[-2]
        edges = np.linspace(0, n, parts + 1).round().astype(np.int64)
        targets = self.targets() if self.target is None else np.asarray(self.target)
        return np.where(targets < 0, -1, np.searchsorted(edges, targets, side="right") - 1)

    def strongest(self, count: int, scale: Scale = 1.0) -> tuple[Indices, Floats]:
        """Return the `count` rows that interfere most with each query, strongest first.

        Parameters
        ----------
        count : int
            >= 1.
        scale
            As for `ratios`.

        Returns
        -------
        rows, weights : arrays (..., m, count)
            Indices, and their a_iq with its sign (inf where the target has no weight); -1 and 0 where fewer are seen.

        Raises
        ------
        InputError
            For another count.
        """
        if not is_whole(count):
            raise InputError(f"`count` must be a whole number >= 1; got {count!r}.")
        shape = (*self.queries.shape[:-1], min(count, self.keys.shape[-2]))
        names, found = np.full(shape, -1), np.zeros(shape)
        for block in self._blocks(scale):
            names[block.at], found[block.at] = block.strongest(shape[-1])
        return names, found

    def targets(self) -> Indices:
        """Return the row that each query asks for.

        Returns
        -------
        int array (..., m)
            -1 where it sees none.
        """
        found = np.full(self.queries.shape[:-1], -1)
        for block in self._blocks(1.0):
            found[block.at] = np.where(block.found, block.target, -1)
        return found

    def seen(self) -> Bools:
        """Return which rows each query sees, dropped ones left out (..., m, n)."""
        seen = self._seen((..., slice(None)))
        seen[..., list(self.drop)] = False
        return seen

    def louder(self, scale: Scale = 1.0) -> Indices:
        """Return how many rows that a query sees are at least as large in weight as the one it asks for (..., m)."""
        found = np.zeros(self.queries.shape[:-1], np.int64)
        for block in self._blocks(scale):
            found[block.at] = block.louder()
        return found

    def right(self) -> Bools:
        """Return whether the value nearest to each recall, by inner product, is the one asked for (..., m).

        Among the values of the rows that the query sees, which must be given; equally near ones are not right.
        """
        if self.values is None:
            raise InputError("`values` are needed to say which of them a recall is nearest to.")
        found = np.zeros(self.queries.shape[:-1], dtype=bool)
        for block in self._blocks(1.0):
            found[block.at] = block.right()
        return found

    def log_histogram(self, edges: Sequence[float]) -> Indices:
        """Return how many rows interfere with ln |a_iq| between edges.

        Parameters
        ----------
        edges : sequence of float
            e + 1 of them, increasing; the outer bins are without end.

        Returns
        -------
        int array (..., e)
            Counts over all queries.
        """
        found = np.zeros((*self.queries.shape[:-2], len(edges) - 1), np.int64)
        for block in self._blocks(1.0):
            weights, top = block.relative()
            with np.errstate(divide="ignore"):
                logs = (np.log(np.abs(weights)) + top[:, None])[~block.hidden & block.found[:, None]]
            found[block.at[:-1]] += np.histogram(np.clip(logs, edges[0], edges[-1]), edges)[0]
        return found

    def logit_factors(self, memories: Sequence[float], ratio: float = 1.0) -> Floats:
        """Return by how much each query's logits must grow for its ratio among M memories to be `ratio`.

        Parameters
        ----------
        memories : sequence of float
            The M >= 2, of rows of the same kind as these.
        ratio : float
            The ratio to reach, > 0, over random values.

        Returns
        -------
        float64 array (..., m, len(memories))
            The smallest factor that is >= 0, below one where the logits are sharper than needed; infinity where none
            serves, because other rows have as large a logit as the target; NaN for queries that are left out.

        Raises
        ------
        InputError
            Where σ is not the exponential.

        Notes
        -----
        Cost: about ten passes for each M.
        """
        if self.activation is not None:
            raise InputError("`logit_factors` is for the exponential: σ of another kind is not sharpened by a factor.")
        require_threshold(ratio)
        aims = [2 * math.log(ratio) - math.log(checked_memories(m) - 1.0) for m in memories]
        found = np.full((*self.queries.shape[:-1], len(aims)), np.nan)
        for block in self._blocks(1.0):
            factors = np.zeros(len(block.target))
            for place in np.argsort(aims)[::-1]:  # the factor for fewer memories is where the search for more begins
                factors = block.factors(aims[place], factors)
                found[(*block.at, place)] = factors
        return found

    def share_of(self, position: int, scale: Scale = 1.0) -> Floats:
        """Return the share that one row has in the absolute weights of all rows seen, dropped ones too.

        Parameters
        ----------
        position : int
            The row; the mass of an attention sink is `share_of(0)`.
        scale
            As for `ratios`.

        Returns
        -------
        float64 array (..., m)
            In [0, 1]; 0 where a query does not see the row.

        Raises
        ------
        InputError
            Where there is no such row.
        """
        n = self.keys.shape[-2]
        if not is_whole(position, 0) or position >= n:
            raise InputError(f"`position` must lie in [0, {n}), the rows; got {position!r}.")
        found = np.zeros(self.queries.shape[:-1])
        for block in self._blocks(scale, asked=int(position)):
            found[block.at] = block.share()
        return found

    def _blocks(self, scale: Scale, asked: int | None = None) -> Iterator[_Block]:
        """Yield the weights block by block; with `asked` every query asks for that row and nothing is dropped."""
        heads, m, n = self.queries.shape[:-2], self.queries.shape[-2], self.keys.shape[-2]
        grouped = self.queries.shape[-3] // self.keys.shape[-3] if heads else 1
        kept = np.ones(n, dtype=bool)
        if asked is None:
            kept[list(self.drop)] = False
        scales = np.broadcast_to(np.asarray(scale, np.float64), heads)
        same = self.mask is None or self.mask.ndim == 2
        step = max(1, BLOCK // n)
        for start in range(0, m, step):
            rows = slice(start, min(start + step, m))
            seen: Bools | None = None
            for head in np.ndindex(heads):
                if seen is None or not same:
                    seen = self._seen((*head, rows)) & kept
                    # Rows that no query of the block sees, above all later ones, cost nothing.
                    c = int(np.max(np.flatnonzero(seen.any(axis=0)), initial=0)) + 1
                shared = (*head[:-1], head[-1] // grouped) if head else ()
                x = np.asarray(self.queries[(*head, rows)], np.float64)
                keys, gates, values = (None if given is None else np.asarray(given[shared][:c], np.float64)
                                       for given in (self.keys, self.gates, self.values))  # fmt: skip
                weights = self._weights(x, keys, gates, float(scales[head]))
                target = self._asked((*head, rows), weights, seen[:, :c]) if asked is None else np.full(len(x), asked)
                yield _block((*head, rows), weights, seen[:, :c], target, values, self.activation is None)

    def _weights(self, x: Floats, keys: Any, gates: Floats | None, scale: float) -> Floats:
        """Return the weights of rows (r, c), of the exponential their logarithms."""
        with np.errstate(over="ignore", invalid="ignore"):
            logits = (self.scaling * x) @ (keys if gates is None else gates).T
        if not np.isfinite(logits).all():
            raise RecallOverflowError("inner products of keys and queries left the range of float64; normalise them.")
        if self.softcap:
            logits = self.softcap * np.tanh(logits / self.softcap)
        if scale != 1:
            logits *= scale
        if self.activation is None:
            return logits
        with np.errstate(over="ignore"):
            weights = np.array(self.activation(logits), np.float64)
            if weights.shape != logits.shape or np.isnan(weights).any():
                raise InputError("`activation` must return numbers, none of them NaN, in the shape of its logits.")
            if gates is not None:
                weights *= x @ keys.T
        if not np.isfinite(weights).all():
            raise RecallOverflowError("weights left the range of float64; normalise the keys.")
        return weights

    def _asked(self, at: tuple[Any, ...], weights: Floats, seen: Bools) -> Indices:
        """Return the rows that a block of queries asks for (r,), -1 where none."""
        if self.target is not None:
            return np.asarray(self.target[at])
        shown = weights.copy()
        np.copyto(shown, -np.inf, where=~seen)
        return np.where(seen.any(axis=1), np.argmax(shown, axis=1), -1)

    def _seen(self, at: tuple[Any, ...]) -> Bools:
        """Return which rows a block of queries may see (r, n)."""
        m, n = self.queries.shape[-2], self.keys.shape[-2]
        places = np.arange(n - m, n)[at[-1]]
        seen = np.ones((len(places), n), dtype=bool)
        if self.mask is not None:
            seen &= np.broadcast_to(self.mask, (*self.queries.shape[:-1], n))[at]
        if self.causal:
            back = places[:, None] - np.arange(n)
            seen &= (back >= 0) & (back < (self.window or n))
        return seen


@dataclass(frozen=True, eq=False)
class _Moments:
    """Others, log scale, A and B of all queries, filled block by block; the axes of folds come first."""

    others: Indices
    numbers: Floats

    @classmethod
    def empty(cls, folds: tuple[int, ...], shape: tuple[int, ...]) -> _Moments:
        """Return the moments of queries of this shape, none known yet."""
        return cls(np.zeros((*folds, *shape), np.int64), np.full((3, *folds, *shape), np.nan))

    def put(self, fold: tuple[Any, ...], block: _Block, parts: Sequence[slice], kept: Floats) -> None:
        """Fill in what a block of queries has, without the axis of folds where `fold` names none."""
        at = (*fold, *block.at)
        for place, found in zip((self.others, *self.numbers), block.moments(parts, kept), strict=True):
            place[at] = found if fold or np.ndim(found) < 2 else found[0]

    def ratios(self) -> RowRatios:
        """Return them as the function of M that they are of."""
        return RowRatios(self.others, *self.numbers)


@dataclass(frozen=True, eq=False)
class _Block:
    """Weights of a block of queries of one head.

    at: where the queries stand. weights (r, c): of the rows that interfere, 0 for the others, and own (r,), of the
    targets; of the exponential (`logs`) ln(weight / own), -inf for the others. hidden (r, c): which rows do not
    interfere. counts (r,): how many do, 0 where the target is not seen. target (r,). values (c, d_v).
    """

    at: tuple[Any, ...]
    weights: Floats
    own: Floats
    hidden: Bools
    counts: Indices
    found: Bools
    target: Indices
    values: Floats | None
    logs: bool

    def relative(self) -> tuple[Floats, Floats]:
        """Return a (r, c) in units of its largest, 0 for rows that do not interfere, and the log of that unit (r,)."""
        if self.logs:
            top = self.weights.max(axis=1)
            top[np.isneginf(top)] = 0.0
            above = self.weights - top[:, None]
            return np.exp(above, out=above), top
        top = np.abs(self.weights).max(axis=1)
        top[top == 0] = 1.0
        with np.errstate(divide="ignore"):
            return self.weights / np.copysign(top, self.own)[:, None], np.log(top) - np.log(np.abs(self.own))

    def sharpened(self, scale: float) -> _Block:
        """Return the block with its logits, of the exponential, times a number."""
        return self if scale == 1 else replace(self, weights=scale * self.weights)

    def moments(self, parts: Sequence[slice], kept: Floats) -> tuple[Any, ...]:
        """Return counts, log scale, A and B of `RowRatios` (f, r), `kept` (f, p) saying which parts each has."""
        weights, top = self.relative()
        if len(parts) == 1:
            n = self.counts[None].astype(np.float64)
        else:
            there = [(~self.hidden[:, part]).sum(axis=1) for part in parts]
            n = np.where(self.found, kept @ np.array(there, np.float64), 0.0)
        some = np.maximum(n, 1.0)
        if self.values is None:
            squares = kept @ np.array([np.einsum("ij,ij->i", weights[:, p], weights[:, p]) for p in parts])
            return n, 2 * top, squares / some, 0.0
        lengths = np.einsum("ij,ij->i", self.values, self.values)
        own = lengths[np.minimum(self.target, len(lengths) - 1)]
        total = np.tensordot(kept, np.array([weights[:, p] @ self.values[p] for p in parts]), axes=1)  # (f, r, d_v)
        weights *= weights
        squares = kept @ np.array([weights[:, p] @ lengths[p] for p in parts])
        cross = np.einsum("fij,fij->fi", total, total) - squares
        with np.errstate(divide="ignore"):  # a target whose value is zero brings no signal
            return n, 2 * top - np.log(own), squares / some, np.where(
                n > 1, cross / (some * np.maximum(n - 1, 1)), 0.0)  # fmt: skip

    def louder(self) -> Indices:
        """Return how many rows are as large as the target's (r,), whatever rounding makes of equal ones."""
        if self.logs:
            return np.asarray(np.count_nonzero(self.weights >= -EQUAL, axis=1))
        level = (1 - EQUAL) * np.abs(self.own)[:, None]
        return np.asarray(np.count_nonzero((np.abs(self.weights) >= level) & ~self.hidden, axis=1))

    def right(self) -> Bools:
        """Return whether a recall is nearer to its target's value than to any other seen (r,)."""
        assert self.values is not None
        weights, top = self.relative()
        shift = np.maximum(top, 0.0)
        with np.errstate(invalid="ignore"):
            louder = np.where(np.isposinf(top), 1.0, np.exp(top - shift))
        recalls = louder[:, None] * (weights @ self.values) + np.exp(-shift)[:, None] * self.values[self.target]
        if not self.logs:
            recalls *= np.where(self.own < 0, -1.0, 1.0)[:, None]
        scores = recalls @ self.values.T
        own = scores[np.arange(len(scores)), self.target]
        np.copyto(scores, -np.inf, where=self.hidden)
        return np.asarray(self.found & (own > scores.max(axis=1)))

    def strongest(self, count: int) -> tuple[Indices, Floats]:
        """Return the rows that interfere most (r, count) and their a."""
        weights, top = self.relative()
        size = np.abs(weights)
        size[self.hidden] = -1.0
        names = np.argsort(-size, axis=1, kind="stable")[:, :count]
        shown = ~np.take_along_axis(self.hidden, names, axis=1) & self.found[:, None]
        a = np.take_along_axis(weights, names, axis=1)
        with np.errstate(over="ignore", invalid="ignore"):
            a = np.where(shown & (a != 0), a * np.exp(top)[:, None], 0.0)
        short = ((0, 0), (0, count - names.shape[1]))
        return np.pad(np.where(shown, names, -1), short, constant_values=-1), np.pad(a, short)

    def share(self) -> Floats:
        """Return the target's share of the absolute weights seen (r,)."""
        weights, top = self.relative()
        with np.errstate(over="ignore"):
            return np.where(self.found, 1.0 / (1.0 + np.exp(top) * np.abs(weights).sum(axis=1)), 0.0)

    def factors(self, aim: float, begin: Floats) -> Floats:
        """Return the least c >= begin at which ln mean a^(2c) = aim (r,), inf where there is none.

        The function is convex in c and starts at 0 > aim, so Newton's method comes to its first crossing from the
        left and never passes it; where it turns upwards first there is none.
        """
        ends = np.where(self.counts > 0, begin, np.nan)
        rows = np.flatnonzero(np.isfinite(ends))
        logs = 2 * self.weights[rows]
        mean = np.sum(logs, axis=1, where=~self.hidden[rows]) / self.counts[rows]
        with np.errstate(divide="ignore", invalid="ignore"):
            first = np.where(mean < 0, min(aim, 0.0) / mean, 0.0 if aim >= 0 else np.inf)
        ends[rows] = np.maximum(begin[rows], first)  # at c = 0 the slope is the mean
        logs[self.hidden[rows]] = -1e300  # finite, so that it times a weight of zero is zero
        for _ in range(NEWTON_STEPS):
            left = np.isfinite(ends[rows]) & (ends[rows] > 0)
            rows, logs = rows[left], logs[left]
            if not len(rows):
                break
            c = ends[rows]
            top = c * logs.max(axis=1)
            weights = c[:, None] * logs
            weights -= top[:, None]
            np.exp(weights, out=weights)
            total = weights.sum(axis=1)
            excess = top + np.log(total / self.counts[rows]) - aim
            slope = np.einsum("ij,ij->i", weights, logs) / total
            going = excess > 1e-13 * max(1.0, -aim)
            with np.errstate(divide="ignore"):
                ends[rows[going]] = np.where(slope < 0, c - excess / slope, np.inf)[going]
            rows, logs = rows[going], logs[going]
        ends[rows] = np.inf
        return ends


def _block(
    at: tuple[Any, ...], weights: Floats, seen: Bools, target: Indices, values: Floats | None, logs: bool
) -> _Block:
    """Return a block of weights (r, c), which it keeps and changes."""
    rows, inside = np.arange(len(weights)), np.minimum(np.maximum(target, 0), weights.shape[1] - 1)
    own, found = weights[rows, inside], (target == inside) & seen[rows, inside]
    hidden = ~seen
    hidden[rows, inside] |= found
    counts = np.where(found, weights.shape[1] - np.count_nonzero(hidden, axis=1), 0)
    if logs:
        weights -= own[:, None]
    np.copyto(weights, -np.inf if logs else 0.0, where=hidden)
    return _Block(at, weights, own, hidden, counts, found, inside, values, logs)


def _target(target: Any, shape: tuple[int, ...], n: int, causal: bool) -> Indices | None:
    """Return the rows asked for (*shape) as indices, None for those of the largest weight."""
    m = shape[-1]
    if target is None:  # a copy of rows whose targets are the strongest
        return None
    if isinstance(target, str):
        if target not in ("own", "strongest"):
            raise InputError(f"`target` must be 'own', 'strongest' or the rows asked for; got {target!r}.")
        if target == "own" and (m > n or (m < n and not causal)):
            raise InputError(f"`target` must name rows where {m} queries are not at the positions of {n} keys.")
        return None if target == "strongest" else np.broadcast_to(np.arange(n - m, n), shape)
    rows = _plain(target)
    if rows.shape not in ((m,), shape) or rows.dtype.kind not in "iu" or rows.min() < -1 or rows.max() >= n:
        raise InputError(
            f"`target` must be {m} whole numbers in [-1, {n}), one for every query; got shape {rows.shape}, "
            f"dtype {rows.dtype}."
        )
    return np.broadcast_to(rows, shape)


def _require_settings(given: GivenRows, m: int, n: int) -> None:
    """Raise InputError for a setting out of range."""
    if not is_number(given.scaling):
        raise InputError(f"`scaling` must be a finite number; got {given.scaling!r}.")
    if given.softcap is not None and not (is_number(given.softcap) and given.softcap > 0):
        raise InputError(f"`softcap` must be a number > 0, or None; got {given.softcap!r}.")
    if given.window is not None and not (is_whole(given.window) and given.causal):
        raise InputError(f"`window` must be a whole number >= 1 beside causal=True, or None; got {given.window!r}.")
    if given.causal and m > n:
        raise InputError(f"causal queries must be no more than the keys; got {m} queries and {n} keys.")
    if not all(is_whole(i, 0) and i < n for i in given.drop):
        raise InputError(f"`drop` must hold positions in [0, {n}), the keys'; got {list(given.drop)!r}.")


def _plain(x: Any) -> np.ndarray[Any, Any]:
    return np.asarray(to_numpy(x) if hasattr(x, "__dlpack__") else x)


def _broadcasts(shape: tuple[int, ...], to: tuple[int, ...]) -> bool:
    return len(shape) <= len(to) and all(a in (1, b) for a, b in zip(shape[::-1], to[::-1], strict=False))
