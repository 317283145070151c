"""Linear attention and fast weights: the outer product store seen through a feature map, with a normaliser."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Annotated

from assocmem.contract import arrays as ar
from assocmem.contract.arrays import Array, contiguous, device_of, dtype_name, is_half, namespace, transpose
from assocmem.contract.cost import D_V, Cost, by_width
from assocmem.contract.errors import InputError, RecallOverflowError
from assocmem.contract.form import KernelSum
from assocmem.contract.recall import Ask, Mass, Recall
from assocmem.contract.register import Variant, register
from assocmem.contract.settings import Help
from assocmem.contract.state import State
from assocmem.contract.traits import Capabilities, Source, Traits
from assocmem.kernels.chunked import Rows, outer_chunks
from assocmem.kernels.recurrent import Arrays, RecurrentStore, one_each
from assocmem.maps.features import DPFP, FEATURE, EluPlusOne, FeatureMap, Identity, SumNormalised

_BLOCK = 2**21
"""Features held at once, in numbers: wide maps are applied to few rows at a time."""


KATHAROPOULOS = Source(
    title="Transformers are RNNs: Fast Autoregressive Transformers with Linear Attention",
    authors="Katharopoulos, Angelos and Vyas, Apoorv and Pappas, Nikolaos and Fleuret, Francois",
    year=2020,
    venue="ICML",
    arxiv="2006.16236",
    equation="eqs. 9 to 12: recurrent form of causal linear attention",
    deviations=(
        "no constant is added to the denominator; a zero sum of weights recalls zeros",
        "queries are not scaled by 1/sqrt(d_k)",
    ),
)
SCHLAG = Source(
    title="Linear Transformers Are Secretly Fast Weight Programmers",
    authors="Schlag, Imanol and Irie, Kazuki and Schmidhuber, Jürgen",
    year=2021,
    venue="ICML",
    arxiv="2102.11174",
    equation="section 5.3: features r_j r_(j+m) of r = ReLU([x, -x]), m = 1..nu",
    deviations=(
        "the shift is r_(j-m): the same features in another order",
        "pairs are added and the sum of weights is divided out; their delta rule over these features is delta-net's "
        "feature=dpfp, and division by the features' own sum is sum_normalise",
    ),
)


@dataclass(frozen=True)
class LinearAttention(RecurrentStore):
    """f(q) = S φ(q) / (z . φ(q)) with S = sum_i v_i φ(k_i)^T and z = sum_i φ(k_i).

    Their symbols S, Z are ours `S` (d_v, width), `z` (width). Without `normalise` there is no z and f(q) = S φ(q).

    A query whose weights sum to zero (nothing stored, or no stored key shares a feature with it) recalls zeros, and
    `Recall.nothing` names it; a sum that leaves the range of the dtype, and keys whose features all do, raise
    RecallOverflowError.
    A feature map that can make weights negative (an exponential series with an even number of terms) is refused
    at recall, naming the query, where the sum of weights is not clearly above zero; φ(x) = x, whose sum has no
    definite sign at all, is refused with `normalise` from the start.

    Notes
    -----
    State: width (d_v + 1) numbers, in at least float32. Cost: width d_v multiply-adds per write and per recall.
    Source: Katharopoulos et al. 2020 (eqs. 9 to 12); fast weights and DPFP: Schlag et al. 2021 (2102.11174).

    Examples
    --------
    >>> import numpy as np
    >>> store = LinearAttention()
    >>> state = store.write(store.empty(2, 1), np.eye(2), np.array([[3.0], [5.0]]))
    >>> store.recall(state, np.array([[0.0, 1.0]])).round(3).tolist()
    [[4.111]]
    """

    feature: Annotated[FeatureMap, FEATURE, Help("feature map φ")] = field(default_factory=EluPlusOne)
    normalise: Annotated[
        bool, Help("divide by the sum of the weights, so that recall is a weighted mean of the values")
    ] = True
    sum_normalise: Annotated[
        bool, Help("divide each row of features by its sum (Schlag et al.'s way to do without a normaliser)")
    ] = False

    equation = "f(x) = S phi(x) / (z . phi(x)), S = sum_i v_i phi(k_i)^T, z = sum_i phi(k_i)"
    summary = "Adds every pair to one matrix over features of the key, and divides by the sum of weights."

    def check_together(self) -> None:
        """Refuse a sum of weights that may be zero; a map with and without its sum is one store, given either way."""
        if self.sum_normalise and not isinstance(self.feature, SumNormalised):
            object.__setattr__(self, "feature", SumNormalised(self.feature))
        object.__setattr__(self, "sum_normalise", isinstance(self.feature, SumNormalised))
        if self.normalise and isinstance(self.feature, Identity):
            raise InputError(
                "`normalise` of LinearAttention needs weights that cannot be negative; with the identity they can. "
                "Set normalise=False or choose another feature map."
            )

    @property
    def source(self) -> Source:  # type: ignore[override]
        """Schlag et al. 2021 for their features, else Katharopoulos et al. 2020."""
        inner = self.feature.inner if isinstance(self.feature, SumNormalised) else self.feature
        return SCHLAG if isinstance(inner, DPFP) else KATHAROPOULOS

    @property
    def cost(self) -> Cost:  # type: ignore[override]
        width = by_width("width", self.feature.width)
        return Cost(width * D_V, width * D_V, note=f"width is {self.feature.width(64):,} at d_k = 64")

    @cached_property
    def maker(self) -> str:
        """The class with its feature map: sums over other features mean nothing to it; with a sum of weights or not."""
        return f"{type(self).__name__} with {self.feature.words}{'' if self.normalise else ', not normalised'}"

    @property
    def traits(self) -> Traits:
        """Linear, permutation-invariant, bounded; a key written again averages where normalised, else adds."""
        return _AVERAGING if self.normalise else _ADDING

    def init(self, state: State) -> Arrays:
        width = self.feature.width(state.d_k)
        sums = {"S": state.zeros(state.d_v, width)}
        return sums | {"z": state.zeros(width)} if self.normalise else sums

    @property
    def capabilities(self) -> Capabilities:  # type: ignore[override]
        """It merges, forgets and scans; where normalised it knows the sum of the weights."""
        return _SUMMED if self.normalise else _PLAIN

    def resolved(self, state: State, keys: Array, extras: Arrays) -> dict[str, Array]:
        """Return the extras; features that a 16-bit state would round to zero are refused here."""
        if is_half(state.dtype, state.xp):
            rounded = state.xp.astype(self.feature(state.xp.astype(keys, state.xp.float32)), state.dtype)
            self._require_features(rounded, keys)
        full = super().resolved(state, keys, extras)
        return full | {"least": one_each(_least(state.dtype, state.xp), keys)} if self.normalise else full

    def put_pair(self, arrays: Arrays, key: Array, value: Array, **extras: Array) -> Arrays:
        features = self._features(key, extras.get("least"))
        sums = {"S": arrays["S"] + transpose(value) @ features}
        return sums | {"z": arrays["z"] + features[..., 0, :]} if self.normalise else sums

    def put_chunk(
        self, arrays: Arrays, keys: Array, values: Array, queries: Array | None, read: str, **extras: Array
    ) -> tuple[Arrays, Array | None]:
        """Add the pairs, a block of rows at a time, z as one more column of values."""
        xp = namespace(keys)
        total = contiguous(transpose(arrays["S"]))
        if self.normalise:
            total = xp.concat([total, arrays["z"][..., None]], axis=-1)
            ones = xp.ones((*values.shape[:-1], 1), dtype=values.dtype, device=device_of(values))
            values = xp.concat([values, ones], axis=-1)
        recalls = Rows(int(keys.shape[-2]))
        for at in self._blocks(keys):
            features = self._features(keys[..., at, :], extras["least"][..., at] if self.normalise else None)
            asked = None if queries is None else self._asked(queries[..., at, :])[0]
            after, found = outer_chunks(
                total, features, values[..., at, :], queries=asked, read=read, chunk=self.chunk
            )  # fmt: skip
            if asked is not None and found is not None:
                recalls.add(self._from_columns(found, total, features, asked, read))
            total = after
        joined = None if queries is None else recalls.joined()
        if not self.normalise:
            return {"S": transpose(total)}, joined
        return {"S": transpose(total[..., :-1]), "z": total[..., -1]}, joined

    def get(self, state: State, queries: Array, ask: Ask) -> Recall:
        """Return S φ(q), divided by z . φ(q) where normalised; a 16-bit state is read in float32."""
        xp = namespace(queries)
        arrays = state.arrays
        if is_half(state.dtype, xp):
            arrays = {name: xp.astype(array, xp.float32) for name, array in arrays.items()}
            queries = xp.astype(queries, xp.float32)
        found = [self._read(arrays, queries[..., at, :], bool(state.n)) for at in self._blocks(queries)]
        values, peaks, shares = zip(*found, strict=True)
        if not self.normalise:
            return Recall(xp.concat(values, axis=-2))
        return Recall(xp.concat(values, axis=-2), mass=Mass(xp.concat(peaks, axis=-1), xp.concat(shares, axis=-1)))

    def form(self, d_k: int) -> KernelSum:
        """Return σ with φ(q).φ(k) = σ(q.k) for the identity and the exponential series, None in it for others."""
        return KernelSum(self.feature.sigma(d_k), normalised=self.normalise)

    def _features(self, keys: Array, least: Array | None) -> Array:
        features = self.feature(keys)
        self._require_features(features, keys)
        return features if least is None else self._seen(features, keys, least[..., None])

    def _asked(self, queries: Array) -> tuple[Array, Array]:
        if not self.normalise:
            return self.feature(queries), queries
        features, log_scale = self.feature.up_to_scale(queries)
        return self._seen(features, queries, _least(features.dtype, namespace(features))), log_scale

    def _seen(self, features: Array, rows: Array, least: Array | float) -> Array:
        """Return the features, those that underflowed as the least number there is.

        So a query that meets a pair in nothing else has a weight out of range, which is refused, and not none.
        """
        above = self.feature.support(rows)
        if above is None:
            return features
        xp = namespace(features)
        return xp.where(above & (features < least), least + 0 * features, features)

    def _read(self, arrays: Mapping[str, Array], queries: Array, stored: bool) -> tuple[Array, Array, Array]:
        """Return the recall of a block of queries, and peak and share of its mass."""
        xp = namespace(queries)
        asked, log_scale = self._asked(queries)
        recall = asked @ transpose(arrays["S"])
        if not self.normalise:
            return recall, recall, recall
        sums = arrays["z"][..., None, :]
        weight = xp.sum(asked * sums, axis=-1)
        values = self._divided(recall, weight, asked, lambda: sums, stored)
        share = xp.astype(weight, xp.float64)
        peak = xp.broadcast_to(-xp.astype(log_scale[..., 0], xp.float64), share.shape)
        return values, xp.where(weight > 0, peak, xp.full_like(peak, -float("inf"))), share

    def _require_features(self, features: Array, keys: Array) -> None:
        """Refuse keys all of whose features underflow: nothing would find them again.

        Beside other pairs those of a positive map weigh nothing; alone they are refused where they are recalled.
        """
        if not self.normalise or self.feature.positive:
            return
        xp = namespace(features)
        if bool(xp.all(some := xp.any(features != 0, axis=-1))) or not features.shape[-1]:
            return
        gone = ~some & xp.any(self.feature.up_to_scale(keys)[0] > 0, axis=-1)
        if bool(xp.any(gone)):
            raise RecallOverflowError(
                f"all features {self.feature.formula} of row {_first(gone)} of `keys` of {self.name}.write are below "
                f"the range of {dtype_name(features.dtype)}; scale the keys (unit length), or use float64."
            )

    def _from_columns(self, found: Array, before: Array, features: Array, asked: Array, read: str) -> Array:
        """Return the recalls from columns [S φ(q), z . φ(q)] that a scan gives."""
        if not self.normalise:
            return found
        xp = namespace(found)

        def sums() -> Array:
            upto = xp.cumulative_sum(features, axis=-2) + before[..., None, :, -1]
            return upto if read == "after" else upto - features

        # After its own pair, and before one that is not the first here, a query has something to find.
        stored = xp.arange(int(found.shape[-2]), device=device_of(found))[:, None] >= (1 if read == "before" else 0)
        return self._divided(found[..., :-1], found[..., -1], asked, sums, stored)

    def _divided(
        self, recall: Array, weight: Array, asked: Array, sums: Callable[[], Array], stored: bool | Array
    ) -> Array:
        """Return recall (..., m, d_v) / weight (..., m), the weight being asked . sums; 0 / 0 = 0.

        Refused are weights of which rounding may have changed the sign, and those that left the range of the dtype.
        """
        xp = namespace(recall)
        if not self.feature.nonnegative:
            scale = _lengths(asked, sums())
            unclear = (weight <= scale * (1e3 * xp.finfo(weight.dtype).eps)) & (scale > 0)
            if bool(xp.any(unclear)):
                raise InputError(
                    f"the weights of query {_first(unclear)} of {self.name} do not sum to a number clearly above zero, "
                    f"so there is no weighted mean to recall: the features {self.feature.formula} allow negative "
                    "weights. Use an odd number of terms or normalise=False."
                )
        lost = weight == float("inf")
        low = weight < float(xp.finfo(weight.dtype).smallest_normal)
        if self.feature.nonnegative and bool(xp.any(low)):
            # Below the normal numbers only a sum without any term is exact.
            terms = (sums() != 0) | stored if self.feature.positive else (asked != 0) & (sums() != 0)
            lost = lost | (low & xp.any(terms, axis=-1))
        if bool(xp.any(lost)):
            raise RecallOverflowError(
                f"the sum of the weights of query {_first(lost)} of {self.name} left the range of "
                f"{dtype_name(weight.dtype)}; scale the keys (unit length), or use float64."
            )
        empty = weight == 0
        return recall / xp.where(empty, xp.ones_like(weight), weight)[..., None]

    def _blocks(self, rows: Array) -> list[slice]:
        n, width = int(rows.shape[-2]), self.feature.width(int(rows.shape[-1]))
        size = max(1, _BLOCK // max(1, width * math.prod(rows.shape[:-2])))
        size = size // self.chunk * self.chunk or size
        return [slice(i, min(i + size, n)) for i in range(0, n, size)] or [slice(0, 0)]


def _first(where: Array) -> int:
    """Return the number of the first query in `where` (..., m) that is True."""
    xp = namespace(where)
    return int(xp.argmax(xp.astype(xp.reshape(where, (-1,)), xp.int8))) % int(where.shape[-1])


def _least(dtype: ar.DType, xp: ar.Namespace) -> float:
    """Return the least number above zero."""
    return float(xp.finfo(dtype).smallest_normal) * float(xp.finfo(dtype).eps)


def _lengths(asked: Array, sums: Array) -> Array:
    xp = namespace(asked)
    return xp.sqrt(xp.sum(asked * asked, axis=-1) * xp.sum(sums * sums, axis=-1))


_AVERAGING = Traits(linear_in_values="shared", permutation_invariant=True, overwrite="averages", constant_size=True)
_SUMMED = Capabilities(gives=("mass",), merges="adds", forgets=True, scan="own")
_PLAIN = Capabilities(merges="adds", forgets=True, scan="own")
_ADDING = Traits(linear_in_values="shared", permutation_invariant=True, overwrite="adds", constant_size=True)


register("linear-attention", LinearAttention, colour="#D55E00")
register(
    "dpfp",
    Variant(LinearAttention, {"feature": "dpfp"}),
    summary="Linear attention whose features are products of rectified key entries (2 d_k nu of them).",
    label="DPFP",
    colour="#999933",
)
