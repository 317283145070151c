"""Sparse finetuning: of many value rows only those are trained that the new facts use and other inputs do not."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Any, TypeAlias

import numpy as np

from assocmem.contract.errors import DivergedError, InputError
from assocmem.contract.numbers import is_whole
from assocmem.contract.settings import COUNT, POSITIVE, Help
from assocmem.editors.matrix import Floats, MatrixEditor
from assocmem.ruler.ratio import checked_numbers

Indices: TypeAlias = np.ndarray[Any, np.dtype[np.int64]]


def access_counts(weights: Any, k: int) -> Indices:
    """Return how many inputs have each slot among their k largest weights (by size), (n_slots,).

    Parameters
    ----------
    weights : array (m, n_slots)
        What each input gives to each slot; a slot without weight is not accessed.
    k : int
        >= 1.

    Returns
    -------
    counts : int array (n_slots,)

    Raises
    ------
    InputError, NonFiniteError
        For weights that are no finite matrix, and a k out of range.

    Examples
    --------
    >>> access_counts([[0.1, 0.9, 0.0], [0.0, 0.5, -0.6]], k=1).tolist()
    [0, 1, 1]
    """
    rows = np.abs(np.asarray(checked_numbers(weights, "weights", 2), np.float64))
    if rows.ndim != 2 or not is_whole(k):
        raise InputError(f"`weights` must be (m, n_slots), `k` a whole number >= 1; got {rows.shape}, {k!r}.")
    best = np.argsort(-rows, axis=-1, kind="stable")[:, :k]
    there = np.take_along_axis(rows, best, axis=-1) > 0
    return np.bincount(best[there], minlength=rows.shape[1])


@dataclass(frozen=True)
class SparseFinetuning(MatrixEditor):
    """Only the value rows of the highest tf-idf are trained, by gradient descent on the facts; all others stay.

    Parameters
    ----------
    rows : int
        >= 1, value rows that are trained.
    accessed : int
        >= 1, largest weights of an input that count as its accesses.
    steps : int
        >= 1, gradient steps over all facts.
    rate : float
        > 0, step size over the largest one that is stable.
    background : sequence of arrays (m, n_slots)
        What batches of other inputs give to the slots; without any, rows are chosen by their share of accesses alone.

    Notes
    -----
    Recall is weights @ table with weights that the edit does not move (a slot memory's, or an MLP's hidden units); of a
    matrix memory the columns are the rows of the table, and a key is their weights. A row's score is c(i) / sum c
    ln((B + 1) / (1 + b(i))): c counts the facts that access it, b the background batches that do, B of them. A query
    that accesses no trained row is answered as before, to the bit. Source: Lin et al. 2025, arXiv:2510.15103 (the
    formula as its re-implementations have it). Cost: steps times n rows (d_v) of the facts.
    """

    rows: Annotated[int, COUNT, Help("value rows that are trained")] = 500
    accessed: Annotated[int, COUNT, Help("largest weights of an input that count as its accesses")] = 32
    steps: Annotated[int, COUNT, Help("gradient steps over all facts")] = 100
    rate: Annotated[float, POSITIVE, Help("step size over the largest one that is stable")] = 0.9
    background: Any = field(default=(), repr=False)

    def scores(self, weights: Any) -> Floats:
        """Return every row's tf-idf (n_slots,), from the weights (n, n_slots) of the facts."""
        counts = access_counts(weights, self.accessed)
        batches = [access_counts(batch, self.accessed) > 0 for batch in self.background]
        seen = np.sum(batches, axis=0) if batches else np.zeros(len(counts))
        if seen.shape != counts.shape:
            raise InputError(f"`background` must be over the {len(counts)} slots of the facts; got {seen.shape}.")
        idf = np.log((len(batches) + 1) / (1 + seen)) if batches else 1.0
        return np.asarray(counts / max(1, counts.sum()) * idf)

    def edited(self, W: Floats, keys: Floats, values: Floats) -> Floats:
        """Return the matrix with the columns of the highest scores trained."""
        return self.trained(W.T, keys, values)[0].T

    def trained(self, table: Any, weights: Any, values: Any) -> tuple[Floats, Indices]:
        """Return the table of value rows with the facts trained into it, and which rows were trained.

        Parameters
        ----------
        table : array (n_slots, d_v)
        weights : array (n, n_slots)
            Of the facts, as the memory weighs its rows for them.
        values : array (n, d_v)
            What is to come back.

        Returns
        -------
        table : float64 array (n_slots, d_v)
        trained : int array
            In order; at most `rows`, none that no fact accesses.

        Raises
        ------
        InputError, NonFiniteError
            For shapes that do not fit, and rows that hold NaN or infinity.
        DivergedError
            Where the rows leave the range of float64.
        """
        held = np.asarray(checked_numbers(table, "table", 2), np.float64)
        asked = np.asarray(checked_numbers(weights, "weights", 2), np.float64)
        wanted = np.asarray(checked_numbers(values, "values", 2), np.float64)
        if held.ndim != 2 or asked.shape != (len(wanted), len(held)) or wanted.shape[1:] != held.shape[1:]:
            raise InputError(
                f"`weights` must be a row over {len(held)} slots for each of the `values`, as wide as `table` "
                f"{held.shape}; got {asked.shape} and {wanted.shape}."
            )
        scores = self.scores(asked)
        best = np.argsort(-scores, kind="stable")[: self.rows]
        trained = np.sort(best[scores[best] > 0])
        part, changed = asked[:, trained], held.copy()
        if not trained.size:
            return changed, trained
        step = self.rate * 2 / max(np.linalg.norm(part, 2) ** 2, np.finfo(float).tiny)
        left = wanted - asked @ held
        rows = held[trained]
        with np.errstate(over="ignore", invalid="ignore"):
            for _ in range(self.steps):
                change = step * part.T @ left
                rows, left = rows + change, left - part @ change
        if not np.isfinite(rows).all():
            raise DivergedError("training left the range of float64; give a smaller `rate`.", step=self.steps)
        changed[trained] = rows
        return changed, trained
