"""Independent tasks on any executor: same results in the same order whatever the number of workers."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor, as_completed
from functools import lru_cache, partial
from typing import Any, TypeAlias, TypeVar

from assocmem.contract.errors import InputError

Workers: TypeAlias = int | Executor | None
Progress: TypeAlias = Callable[[int, int], None]

Task = TypeVar("Task")
Result = TypeVar("Result")


def run_tasks(
    function: Callable[[Task], Result],
    tasks: Sequence[Task],
    *,
    workers: Workers = None,
    progress: Progress | None = None,
) -> list[Result]:
    """Return [function(task) for task in tasks], worked out side by side.

    Parameters
    ----------
    function: a function of a module's top level, so that a process or cluster executor can send it.
    workers: a number of threads (1: none, in this thread), None for one thread a core, or any
        `concurrent.futures.Executor` (it is left open). Threads are the default because almost all time is spent in
        NumPy calls that release the interpreter lock.
    progress: called with (tasks done, all tasks) in the caller's thread after each task.

    Every task has its BLAS to itself on one thread: threads within threads are many times slower. An error or Ctrl-C
    cancels what has not begun, waits for what has, and is raised.

    >>> run_tasks(abs, [-1, 2, -3], workers=2)
    [1, 2, 3]
    """
    if isinstance(workers, bool) or not (workers is None or isinstance(workers, int | Executor)):
        raise InputError(f"`workers` must be a whole number >= 1, an Executor or None; got {workers!r}.")
    if isinstance(workers, int) and workers < 1:
        raise InputError(f"`workers` must be a whole number >= 1, an Executor or None; got {workers}.")
    if isinstance(workers, Executor):
        return _gather(workers, partial(_alone, function), tasks, progress)
    count = min(cores() if workers is None else workers, len(tasks))
    with _blas().limit(limits=1, user_api="blas"):
        if count <= 1:
            return [_done(function(task), i, len(tasks), progress) for i, task in enumerate(tasks, 1)]
        with ThreadPoolExecutor(count) as pool:
            return _gather(pool, function, tasks, progress)


def _alone(function: Callable[[Task], Result], task: Task) -> Result:
    with _blas().limit(limits=1, user_api="blas"):
        return function(task)


@lru_cache(maxsize=1)
def _blas() -> Any:
    import numpy.linalg  # noqa: F401  only a BLAS that is loaded can be limited
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


def _done(result: Result, count: int, total: int, progress: Progress | None) -> Result:
    if progress is not None:
        progress(count, total)
    return result


def _gather(
    pool: Executor, function: Callable[[Task], Result], tasks: Sequence[Task], progress: Progress | None
) -> list[Result]:
    futures: list[Future[Result]] = [pool.submit(function, task) for task in tasks]
    try:
        for count, future in enumerate(as_completed(futures), 1):
            _done(future.result(), count, len(futures), progress)
    except BaseException:
        for future in futures:
            future.cancel()
        raise
    return [future.result() for future in futures]


def cores() -> int:
    """Return the number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
