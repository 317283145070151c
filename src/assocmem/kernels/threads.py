"""How many threads a large recall may use, and BLAS kept to one thread while several of ours call it."""

from __future__ import annotations

import functools
import os
import threading
from collections.abc import Callable
from typing import Any, ClassVar

from assocmem.contract.errors import InputError

MAX_THREADS = 4
WORTH_A_THREAD = 2**21
"""Multiply-adds below which a further thread does not pay."""


def thread_count() -> int:
    """Return how many threads a large recall may use: ASSOCMEM_THREADS, by default min(cores, 4).

    The environment variable is read at every recall; results do not depend on it beyond rounding. Raises
    InputError where it is not a whole number >= 1.
    """
    text = os.environ.get("ASSOCMEM_THREADS")
    if text is None:
        return min(_cores(), MAX_THREADS)
    if not text.isdigit() or int(text) < 1:
        raise InputError(f"the environment variable ASSOCMEM_THREADS must be a whole number >= 1; got {text!r}.")
    return int(text)


def _cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


class SingleThreadedBlas:
    """Context in which BLAS uses one thread; nested and concurrent uses share it, the last one out restores."""

    _lock: ClassVar[threading.Lock] = threading.Lock()
    _inside: ClassVar[int] = 0
    _limiter: ClassVar[Any] = None

    def __enter__(self) -> None:
        cls = type(self)
        with cls._lock:
            if cls._inside == 0:
                cls._limiter = _blas().limit(limits=1, user_api="blas")
            cls._inside += 1

    def __exit__(self, *_: object) -> None:
        cls = type(self)
        with cls._lock:
            cls._inside -= 1
            if cls._inside == 0:
                cls._limiter.restore_original_limits()


@functools.cache
def _blas() -> Any:
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


def in_threads(run: Callable[[int], None], threads: int) -> None:
    """Call run(0), ..., run(threads - 1) at once, the first in this thread; raise the first error of any."""
    errors: list[BaseException] = []

    def guarded(worker: int) -> None:
        try:
            run(worker)
        except BaseException as error:  # noqa: BLE001 - raised again in the calling thread
            errors.append(error)

    others = [threading.Thread(target=guarded, args=(i,), daemon=True) for i in range(1, threads)]
    for thread in others:
        thread.start()
    guarded(0)
    for thread in others:
        thread.join()
    if errors:
        raise errors[0]


def run_shares(run: Callable[[int, int], None], items: int, work: float) -> None:
    """Call run(first, last) for shares that make up 0 .. items: in threads, with single-threaded BLAS, if that pays.

    work: multiply-adds of all items together. One share runs in this thread and leaves BLAS as it is.
    """
    threads = max(1, min(thread_count(), items, int(work // WORTH_A_THREAD)))
    if threads == 1:
        return run(0, items)
    cuts = [items * i // threads for i in range(threads + 1)]
    with SingleThreadedBlas():
        in_threads(lambda i: run(cuts[i], cuts[i + 1]), threads)
    return None
