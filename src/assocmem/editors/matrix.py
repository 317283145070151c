"""Editors of a matrix memory f(x) = W x: of a linear store's state, or of the down projection of a trained MLP."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, field
from functools import cached_property
from typing import Annotated, Any, TypeAlias, TypeVar

import numpy as np
from annotated_types import Interval

from assocmem.contract import arrays as ar
from assocmem.contract.errors import DivergedError, InputError
from assocmem.contract.settings import NOT_NEGATIVE, Help, WithSettings
from assocmem.contract.state import State
from assocmem.ruler import GivenRows
from assocmem.ruler.ratio import checked_numbers

Floats: TypeAlias = np.ndarray[Any, np.dtype[np.float64]]
Held = TypeVar("Held")

RANK = 1e-10
"""Directions of a second moment below this share of its largest one are rounding: no edit can go along them."""


class MatrixEditor(WithSettings):
    """A rule W, facts -> W'. Frozen; what it needs beside the facts are its settings."""

    @abstractmethod
    def edited(self, W: Floats, keys: Floats, values: Floats) -> Floats:
        """Return the matrix (d_v, d_k) after the facts keys (n, d_k), values (n, d_v), in order."""

    def directions(self, keys: Any) -> Floats:
        """Return the row u (n, d_k) along which each fact by itself is written, W' = W + (v - W k) u^T."""
        rows = np.asarray(checked_numbers(keys, "keys", 2), np.float64)
        zero = np.zeros((1, rows.shape[-1]))
        return np.array([self.edited(zero, key[None], np.ones((1, 1)))[0] for key in rows])

    def crosstalk(self, keys: Any, queries: Any = None) -> GivenRows:
        """Return on the ruler how single edits come back under other keys: `ratios().capacity()` is how many fit.

        Parameters
        ----------
        keys : array (n, d_k)
            Of the edits.
        queries : array (m, d_k), optional
            Who asks: by default the edits' own keys, each for its own edit.

        Returns
        -------
        rows : GivenRows
            Its mean square ratio is over changes v - W k of one length in random directions.
        """
        return GivenRows(
            self.directions(keys),
            keys if queries is None else queries,
            activation=lambda s: s,
        )

    def edit(self, memory: Held, keys: Any, values: Any) -> Held:
        """Return the memory with facts edited into it; the one given stays as it was.

        Parameters
        ----------
        memory : State or array (d_v, d_k)
            The state of a store that holds one matrix "W", or the matrix itself. Any array library.
        keys, values : arrays (n, d_k), (n, d_v)
            Facts, n >= 0: what is to come back for which key. One fact may be given as (d_k,), (d_v,).

        Returns
        -------
        memory : as given, in its library and dtype
            Computed in float64.

        Raises
        ------
        InputError, NonFiniteError
            For a memory without such a matrix, shapes that do not fit, and facts that hold NaN or infinity.
        DivergedError
            Where the edited matrix is no longer finite.
        """
        if isinstance(memory, State):
            if "W" not in memory.arrays or memory.batch:
                raise InputError('`memory` must be the state of a store without batch axes that holds one matrix "W".')
            W = self.edit(memory.arrays["W"], keys, values)
            return memory.after({**memory.arrays, "W": W}, memory.n, memory.slots)  # type: ignore[return-value]
        W = np.asarray(checked_numbers(memory, "memory", 2), np.float64)
        if W.ndim != 2:
            raise InputError(f"`memory` must be a matrix (d_v, d_k); got {W.shape}.")
        facts = [np.atleast_2d(np.asarray(checked_numbers(x, name, 1), np.float64))
                 for name, x in (("keys", keys), ("values", values))]  # fmt: skip
        for name, rows, width in zip(("keys", "values"), facts, W.shape[::-1], strict=True):
            if rows.ndim != 2 or rows.shape[1] != width or len(rows) != len(facts[0]):
                raise InputError(f"`{name}` must be (n, {width}), a row a fact; got {rows.shape}.")
        with np.errstate(all="ignore"):
            changed = self.edited(W, *facts) if len(facts[0]) else W.copy()
        if not np.isfinite(changed).all():
            raise DivergedError(
                f"{type(self).__name__} left the range of float64 among {len(facts[0])} facts.",
                step=0,
            )
        return _like(changed, memory)  # type: ignore[no-any-return]


@dataclass(frozen=True)
class DeltaStep(MatrixEditor):
    """W <- W + rate (v - W k) k^T / |k|^2, fact by fact: the delta rule on a matrix that is there.

    Notes
    -----
    At rate 1 the fact just written comes back exactly. Source: Widrow and Hoff 1960. Cost: 2 d_k d_v a fact.

    Examples
    --------
    >>> DeltaStep().edit(np.eye(2), [1.0, 0.0], [0.0, 5.0]).tolist()
    [[0.0, 0.0], [5.0, 1.0]]
    """

    rate: Annotated[float, Interval(gt=0, lt=2), Help("share of the error that is taken back")] = 1.0

    def edited(self, W: Floats, keys: Floats, values: Floats) -> Floats:
        """Return the matrix after the steps."""
        for key, value in zip(keys, values, strict=True):
            W = W + np.outer(self.rate * (value - W @ key) / _square(key, key), key)
        return W


@dataclass(frozen=True)
class _Whitening(MatrixEditor):
    """An editor that writes along C^-1 k; its second moment is decomposed once."""

    moment: Any = field(default=None, repr=False)

    @cached_property
    def _inverse(self) -> Floats | None:
        """C^-1, with its smallest share in place of directions that C has not; None for the identity."""
        if self.moment is None:
            return None
        C = np.asarray(checked_numbers(self.moment, "moment", 2), np.float64)
        if C.ndim != 2 or C.shape[0] != C.shape[1] or not np.allclose(C, C.T, atol=1e-6 * np.abs(C).max()):
            raise InputError(f"`moment` must be a symmetric matrix (d_k, d_k); got {C.shape}.")
        shares, axes = np.linalg.eigh(C)
        if not shares[-1] > 0 or shares[0] < -RANK * shares[-1]:
            raise InputError("`moment` must have no negative direction, and one above zero.")
        return np.asarray(axes / np.maximum(shares, RANK * shares[-1]) @ axes.T)

    def _whitened(self, keys: Floats) -> Floats:
        """Return C^-1 k for rows k."""
        if self._inverse is None:
            return keys
        if len(self._inverse) != keys.shape[1]:
            raise InputError(
                f"`moment` must be {(keys.shape[1],) * 2}, as wide as the keys; got {self._inverse.shape}."
            )
        return keys @ self._inverse

    def directions(self, keys: Any) -> Floats:
        """Return C^-1 k / (k^T C^-1 k) for each key."""
        rows = np.asarray(checked_numbers(keys, "keys", 2), np.float64)
        along = self._whitened(rows)
        return np.array([u / _square(key, u) for key, u in zip(rows, along, strict=True)])


@dataclass(frozen=True)
class ROME(_Whitening):
    """W <- W + Lambda (C^-1 k)^T, Lambda = (v - W k) / (k^T C^-1 k), fact by fact: rank-one model editing.

    Parameters
    ----------
    moment : array (d_k, d_k), optional
        The second moment C of keys whose recalls shall stay (`second_moment`); by default the identity.

    Notes
    -----
    W' k = v exactly, and W' is the one that changes recalls of keys with second moment C least (least squares under
    that constraint). Source: Meng et al. 2022, arXiv:2202.05262, eq. 2. Cost: d_k^3 once, d_k^2 + 2 d_k d_v a fact.
    """

    def edited(self, W: Floats, keys: Floats, values: Floats) -> Floats:
        """Return the matrix after the steps."""
        for key, along, value in zip(keys, self._whitened(keys), values, strict=True):
            W = W + np.outer((value - W @ key) / _square(key, along), along)
        return W


@dataclass(frozen=True)
class MEMIT(_Whitening):
    """W <- W + R K^T (weight C + K K^T)^-1, R = V - W K (columns are facts): all facts at once.

    Parameters
    ----------
    moment : array (d_k, d_k), optional
        The second moment C of keys whose recalls shall stay (`second_moment`); by default the identity.
    weight : float
        >= 0, how many pairs the second moment counts for.

    Notes
    -----
    Where W is the least-squares memory of N pairs with second moment C and weight = N, this is that of old and new
    pairs together; weight -> 0 recalls independent facts exactly. Source: Meng et al. 2023,
    arXiv:2210.07229, eq. 14. Cost: d_k^3 once, n d_k (d_k + d_v).
    """

    weight: Annotated[float, NOT_NEGATIVE, Help("how many pairs the second moment counts for")] = 15000.0

    def edited(self, W: Floats, keys: Floats, values: Floats) -> Floats:
        """Return the matrix after the one step."""
        along = self._whitened(keys)
        # (w C + K K^T)^-1 K = C^-1 K (w I + K^T C^-1 K)^-1: a system of n equations instead of d_k.
        gram = keys @ along.T
        solved = np.linalg.lstsq(gram + self.weight * np.eye(len(keys)), along, rcond=None)[0]
        return W + (values - keys @ W.T).T @ solved


@dataclass(frozen=True)
class Unlearn(MatrixEditor):
    """W <- W - v k^T for every fact: takes back what an outer product store added.

    Notes
    -----
    For a matrix that was not written by adding v k^T it removes the component of the recall along v only as far as
    W k = v |k|^2. Cost: d_k d_v a fact.
    """

    def edited(self, W: Floats, keys: Floats, values: Floats) -> Floats:
        """Return the matrix without the facts."""
        return np.asarray(W - values.T @ keys)

    def directions(self, keys: Any) -> Floats:
        """Return the keys."""
        return np.asarray(checked_numbers(keys, "keys", 2), np.float64)


def second_moment(keys: Any, ridge: float = 0.0) -> Floats:
    """Return C = (1/n) sum of k k^T, (d, d) float64, plus `ridge` times its mean diagonal on the diagonal.

    Parameters
    ----------
    keys : array (n, d)
        What the edited matrix reads on ordinary text.
    ridge : float
        >= 0. Without one, edits go along directions only that `keys` have at all.

    Returns
    -------
    moment : float64 array (d, d)

    Raises
    ------
    InputError, NonFiniteError
        For keys that are no finite matrix with a row at least, and a ridge out of range.
    """
    rows = np.asarray(checked_numbers(keys, "keys", 2), np.float64)
    if rows.ndim != 2 or len(rows) == 0:
        raise InputError(f"`keys` must be (n, d), n >= 1; got {rows.shape}.")
    if not (isinstance(ridge, int | float) and 0 <= ridge < np.inf):
        raise InputError(f"`ridge` must be a finite number >= 0; got {ridge!r}.")
    moment = rows.T @ rows / len(rows)
    return np.asarray(moment + ridge * np.trace(moment) / len(moment) * np.eye(len(moment)))


def _square(key: Floats, along: Floats) -> float:
    square = float(key @ along)
    if not square > 0:
        raise InputError("`keys` of facts must not be zero.")
    return square


def _like(changed: Floats, memory: Any) -> Any:
    """Return the numbers in the library, dtype and device of `memory`."""

    if not hasattr(memory, "__array_namespace__") and not hasattr(memory, "dtype"):
        return changed
    xp = ar.namespace(memory)
    if not xp.isdtype(memory.dtype, "real floating"):
        return changed
    return xp.astype(xp.asarray(changed, device=ar.device_of(memory)), memory.dtype)
