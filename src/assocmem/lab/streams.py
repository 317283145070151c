"""The similarities sampler: one stream of similarities serves every σ and every M of its trials."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from assocmem.contract.errors import NonFiniteError
from assocmem.contract.random import stream
from assocmem.kernels.compute import Progress, Workers, run_tasks
from assocmem.lab.importance_sampling import tilt_for
from assocmem.lab.layout import Layout
from assocmem.lab.sphere import BLOCK, SimilarityLaw
from assocmem.lab.weighing import Block, dtype_for, sums_of_squares, weigh
from assocmem.maps.activations import Activation

FloatArray = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Column:
    """One σ with the pieces that it is summed over and the dtype that it is worked out in."""

    sigma: Activation
    layout: Layout
    dtype: str


@dataclass(frozen=True)
class StreamTask:
    """One generator's work: its one or two streams of similarities, read once by every column.

    dtype: of the similarities, float64 where float32 would be too coarse for a sharp σ.
    """

    seed: int
    name: str
    index: int
    d: int
    columns: tuple[Column, ...]
    dtype: str


def sums_over_pieces(
    layouts: Mapping[Activation, Layout],
    d: int,
    *,
    seed: int,
    streams: int,
    name: str = "similarities",
    workers: Workers = None,
    progress: Progress | None = None,
) -> dict[tuple[Activation, int], FloatArray]:
    """Return, for each σ and each M of its layout, the sums of σ(s)² over M - 1 similarities, one for each trial.

    Parameters: layouts by σ; d, key width >= 1; seed and name, of the streams; streams, how many are drawn (>= 1).
    Cost: one draw and one evaluation of each σ for each similarity of the longest layout; memory is a block of
    65,536 similarities for each worker.
    """
    if not layouts:
        return {}
    sharp = {sigma: tilt_for(sigma, d).sharp for sigma in layouts}
    columns = tuple(
        Column(sigma, layout, "float64" if sharp[sigma] else dtype_for(sigma, d).name)
        for sigma, layout in layouts.items()
    )
    dtype = "float64" if any(sharp.values()) else "float32"
    each = SimilarityLaw(d, size=1).streams
    tasks = [StreamTask(seed, name, i, d, columns, dtype) for i in range(-(-streams // each))]
    done = run_tasks(read_stream, tasks, workers=workers, progress=progress)
    sums = {}
    for i, column in enumerate(columns):
        segments = np.concatenate([found[i] for found in done])[:streams]
        for n, pieces in zip(column.layout.memories, column.layout.pieces(segments), strict=True):
            sums[column.sigma, n] = pieces.reshape(-1)
    return sums


def read_stream(task: StreamTask) -> list[FloatArray]:
    """Return for each column the sums of σ² between its cuts, (streams of this generator, cuts - 1)."""
    size = block_size(max(column.layout.length for column in task.columns))
    law = SimilarityLaw(task.d, task.dtype, size=size)
    rng = stream(task.seed, task.name, task.d, task.index)
    columns = [(c, c.layout.blocks(size), np.zeros((law.streams, len(c.layout.cuts) - 1))) for c in task.columns]
    narrow, wide = Block(), Block()
    widened = any(column.dtype == "float64" for column in task.columns)
    for at in range(max(len(blocks) for _, blocks, _ in columns)):
        for row, s in enumerate(law.draw(rng)):
            narrow.load(s)
            if widened:
                wide.load(s.astype(np.float64))
            for column, blocks, sums in columns:
                if at < len(blocks):
                    first, cuts = blocks[at]
                    block = wide if column.dtype == "float64" else narrow
                    weights = weigh(column.sigma, block)
                    sums[row, first : first + len(cuts) - 1] += sums_of_squares(weights, cuts, block.buffer("squares"))
    for column, _, sums in columns:
        if not np.all(np.isfinite(sums)):
            raise NonFiniteError(f"σ(s) = {column.sigma.formula} gives NaN or infinity for some s in [-1, 1].")
    return [sums for _, _, sums in columns]


def block_size(length: int) -> int:
    """Return how many similarities of a stream are drawn at once: a power of two from 1024 to BLOCK that holds it.

    The numbers of a stream depend on it, so a stream is the same in every plan whose longest M is of one size.
    """
    return min(BLOCK, 1 << max(10, (length - 1).bit_length()))
