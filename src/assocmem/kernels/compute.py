"""What work runs on: tasks side by side in threads or processes, BLAS kept to one thread, cores, free memory.

Results never depend on it beyond rounding: tasks come back in order, and each has its random numbers by name.
"""

from __future__ import annotations

import functools
import math
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor, as_completed
from contextvars import copy_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

from assocmem.contract.errors import InputError

Workers: TypeAlias = int | Executor | None
"""A number of threads (1: none, in this thread), None for one a core, or any executor (it is left open)."""
Progress: TypeAlias = Callable[[int, int], None]
"""Called with (tasks done, all tasks) in the caller's thread after each task."""

MAX_THREADS = 4
WORTH_A_THREAD = 2**21
"""Multiply-adds below which a further thread does not pay."""

Task = TypeVar("Task")
Result = TypeVar("Result")


def cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def free_bytes() -> float:
    """Return the bytes of memory free for use: what the system says, or the limit of this container if lower."""
    import psutil

    try:
        limit = Path("/sys/fs/cgroup/memory.max").read_text(encoding="ascii").strip()
    except OSError:
        limit = "max"
    return min(float(psutil.virtual_memory().available), float(limit) if limit.isdigit() else math.inf)


class _OneBlasThread:
    """See `one_blas_thread`."""

    def __init__(self) -> None:
        self._lock, self._inside = threading.Lock(), 0
        self._limits: Any = None

    def __enter__(self) -> None:
        with self._lock:
            if self._inside == 0:
                self._limits = _blas().limit(limits=1, user_api="blas")
            self._inside += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._inside -= 1
            if self._inside == 0:
                self._limits.restore_original_limits()


one_blas_thread = _OneBlasThread()
"""Context in which BLAS uses one thread: threads within threads are many times slower.

Nested and concurrent uses share it; the last one out restores what was before.
"""


@functools.cache
def _blas() -> Any:
    import numpy.linalg  # noqa: F401  only a BLAS that is loaded can be limited
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


# ---------------------------------------------------------------------- threads within one recall


def thread_count() -> int:
    """Return how many threads a large recall may use: ASSOCMEM_THREADS, by default min(cores, 4).

    The environment variable is read at every recall; results do not depend on it beyond rounding. Raises
    InputError where it is not a whole number >= 1.
    """
    text = os.environ.get("ASSOCMEM_THREADS")
    if text is None:
        return min(cores(), MAX_THREADS)
    if not text.isdigit() or int(text) < 1:
        raise InputError(f"the environment variable ASSOCMEM_THREADS must be a whole number >= 1; got {text!r}.")
    return int(text)


def in_threads(run: Callable[[int], None], threads: int) -> None:
    """Call run(0), ..., run(threads - 1) at once, the first in this thread; raise the first error of any."""
    with ThreadPoolExecutor(max(1, threads - 1)) as pool:  # it starts a thread for each call, none for none
        others = [pool.submit(run, i) for i in range(1, threads)]
        run(0)
        for other in others:
            other.result()


def run_shares(run: Callable[[int, int], None], items: int, work: float) -> None:
    """Call run(first, last) for shares that make up 0 .. items: in threads, with single-threaded BLAS, if that pays.

    work: multiply-adds of all items together. One share runs in this thread and leaves BLAS as it is.
    """
    threads = max(1, min(thread_count(), items, int(work // WORTH_A_THREAD)))
    if threads == 1:
        return run(0, items)
    cuts = [items * i // threads for i in range(threads + 1)]
    with one_blas_thread:
        in_threads(lambda i: run(cuts[i], cuts[i + 1]), threads)
    return None


# ---------------------------------------------------------------------- tasks side by side


def run_tasks(
    function: Callable[[Task], Result],
    tasks: Sequence[Task],
    *,
    workers: Workers = None,
    progress: Progress | None = None,
    keep: Callable[[int, Result], None] | None = None,
) -> list[Result]:
    """Return [function(task) for task in tasks], worked out side by side, each with BLAS on one thread.

    Threads are the default because almost all time is spent in NumPy calls that release the interpreter's lock. An
    error or Ctrl-C cancels what has not begun, waits for what has, and is raised.

    Parameters
    ----------
    function : callable
        Of a module's top level, so that an executor of processes or a cluster can send it.
    tasks : sequence
        What it is called with, one by one.
    workers : int, concurrent.futures.Executor or None
        See `Workers`.
    progress : callable, optional
        See `Progress`.
    keep : callable, optional
        Called in the caller's thread with the place of each task and its result as soon as that is there.

    Returns
    -------
    list
        The results, in the order of the tasks.

    Raises
    ------
    InputError
        Where `workers` is none of these.

    Examples
    --------
    >>> run_tasks(abs, [-1, 2, -3], workers=2)
    [1, 2, 3]
    """
    if isinstance(workers, Executor):
        return _gather(workers, function, tasks, progress, keep)
    if isinstance(workers, bool) or not (workers is None or (isinstance(workers, int) and workers >= 1)):
        raise InputError(f"`workers` must be a whole number >= 1, an Executor or None; got {workers!r}.")
    count = min(workers or cores(), len(tasks))
    with one_blas_thread:
        if count > 1:
            with ThreadPoolExecutor(count) as pool:
                return _gather(pool, function, tasks, progress, keep)
        done = []
        for i, task in enumerate(tasks):
            done.append(function(task))
            if keep is not None:
                keep(i, done[-1])
            if progress is not None:
                progress(len(done), len(tasks))
        return done


def _gather(
    pool: Executor, function: Callable[[Task], Result], tasks: Sequence[Task], progress: Progress | None,
    keep: Callable[[int, Result], None] | None,
) -> list[Result]:  # fmt: skip
    here = isinstance(pool, ThreadPoolExecutor)
    futures: list[Future[Result]] = [
        pool.submit(copy_context().run, _alone, function, task) if here else pool.submit(_alone, function, task)
        for task in tasks
    ]
    places = {future: i for i, future in enumerate(futures)}
    try:
        for count, future in enumerate(as_completed(futures), 1):
            result = future.result()
            if keep is not None:
                keep(places[future], result)
            if progress is not None:
                progress(count, len(futures))
    except BaseException:
        for future in futures:
            future.cancel()
        raise
    return [future.result() for future in futures]


def _alone(function: Callable[[Task], Result], task: Task) -> Result:
    with one_blas_thread:
        return function(task)


# ---------------------------------------------------------------------- processes beside the main one


class Helpers(ProcessPoolExecutor):
    """Executor over `count` fresh processes, started as they are needed; what they took goes back with them.

    For what threads do not speed up, and for what should give its memory back. Ctrl-C is the main process's to answer:
    it never reaches them. They end with the main process, however that ends, and at once by `end`.
    """

    def __init__(self, count: int) -> None:
        theirs, self._ours = multiprocessing.Pipe(duplex=False)
        spawn = multiprocessing.get_context("spawn")
        super().__init__(count, mp_context=spawn, initializer=_end_with, initargs=(theirs,))

    def submit(self, function: Callable[..., Result], /, *args: Any, **kwargs: Any) -> Future[Result]:
        """Schedule function(*args, **kwargs); a process that starts for it never hears Ctrl-C."""
        if not hasattr(signal, "pthread_sigmask"):
            return super().submit(function, *args, **kwargs)
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            return super().submit(function, *args, **kwargs)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)

    def end(self) -> None:
        """End the processes at once; what they had in hand fails with BrokenProcessPool."""
        self._ours.close()


def _end_with(theirs: Connection) -> None:
    """Leave when the other end of the pipe is closed: by `Helpers.end`, or because the main process is gone."""
    if not hasattr(signal, "pthread_sigmask"):
        signal.signal(signal.SIGINT, signal.SIG_IGN)

    def wait() -> None:
        theirs.poll(None)
        os._exit(1)

    threading.Thread(target=wait, daemon=True).start()
