"""What a trial will take of the machine's memory, asked before it is drawn: a refusal is kinder than a kill."""

from __future__ import annotations

import math

import numpy as np

from assocmem.contract.errors import InputError
from assocmem.kernels.compute import Workers, cores, free_bytes
from assocmem.lab.plans import KeyTask
from assocmem.lab.trials import values_matter

COPIES = 4
"""Pairs as drawn, with one-hot channels beside them, as written and as a function gets them."""
COPIES_IN_BLOCKS = 3
"""A state in a buffer of up to twice its size, and what a function gets or the buffer before."""


def workers_that_fit(workers: Workers, tasks: list[KeyTask], *, in_blocks: bool) -> Workers:
    """Return `workers`, or fewer threads where the memory that is free would not hold their tasks side by side.

    Raises InputError where it would not hold one task.
    """
    if not tasks:
        return workers
    free = free_bytes()
    largest = max(tasks, key=lambda task: bytes_of(task, in_blocks=in_blocks))
    one = bytes_of(largest, in_blocks=in_blocks)
    if one > free:
        raise InputError(
            f"a trial of M = {largest.n} memories at d_k = {largest.plan.d_k} needs about {one / 1e9:.1f} GB of "
            f"memory, of which {free / 1e9:.1f} GB are free; measure fewer memories (--max-memories)."
        )
    if not (workers is None or isinstance(workers, int)) or one == 0 or math.isinf(free):
        return workers
    fitting = int(free // one)
    return workers if (cores() if workers is None else workers) <= fitting else fitting


def bytes_of(task: KeyTask, *, in_blocks: bool) -> int:
    """Return about how many bytes a task's pairs take; drawn in blocks, only stores that keep pairs hold them all.

    What a store or a function allocates for itself is not known and not counted.
    """
    plan = task.plan
    kept = [one.store for one in plan.stores if not in_blocks or one.store.traits.keeps_pairs]
    if not kept:
        return 0
    matter = any(values_matter(store, task.n, plan.estimator) for store in kept)
    width = plan.d_k + (plan.d_v + min(plan.targets, task.n) if matter else 1)
    return (
        (COPIES_IN_BLOCKS if in_blocks else COPIES) * task.count * task.n * width * int(np.dtype(plan.dtype).itemsize)
    )
