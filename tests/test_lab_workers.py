"""Tasks side by side: order, progress, errors, interrupts, and BLAS kept to one thread."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context

import pytest
from threadpoolctl import threadpool_info

from assocmem.contract.errors import InputError
from assocmem.lab.workers import cores, run_tasks


def slow_square(x):
    time.sleep(0.002 * (5 - x % 5))
    return x * x


def blas_threads(_):
    return max((library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"), default=1)


@pytest.mark.parametrize("workers", [1, 2, 7, None])
def test_results_come_in_the_order_of_the_tasks(workers):
    assert run_tasks(slow_square, list(range(12)), workers=workers) == [x * x for x in range(12)]
    assert run_tasks(slow_square, [], workers=workers) == []


def test_any_executor_does_and_is_left_open():
    with ThreadPoolExecutor(2) as pool:
        assert run_tasks(slow_square, [1, 2, 3], workers=pool) == [1, 4, 9]
        assert pool.submit(slow_square, 4).result() == 16
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        assert run_tasks(slow_square, [1, 2, 3], workers=pool) == [1, 4, 9]
        assert run_tasks(blas_threads, [0], workers=pool) == [1]


@pytest.mark.parametrize("workers", [1, 3])
def test_progress_is_told_in_the_callers_thread(workers):
    seen = []
    me = threading.get_ident()
    run_tasks(
        slow_square, [1, 2, 3], workers=workers, progress=lambda *n: seen.append((*n, threading.get_ident() == me))
    )
    assert seen == [(1, 3, True), (2, 3, True), (3, 3, True)]


@pytest.mark.parametrize("workers", [1, 2])
def test_an_interrupt_cancels_what_has_not_begun(workers):
    begun = []

    def task(i):
        begun.append(i)
        time.sleep(0.01)
        if i == 1:
            raise KeyboardInterrupt
        return i

    with pytest.raises(KeyboardInterrupt):
        run_tasks(task, list(range(200)), workers=workers)
    assert len(begun) < 20


def test_an_error_of_a_task_is_raised():
    with pytest.raises(ZeroDivisionError):
        run_tasks(lambda x: 1 // x, [1, 0, 2], workers=2)


@pytest.mark.parametrize("workers", [1, 2])
def test_blas_has_one_thread_inside_and_its_own_outside(workers):
    before = blas_threads(0)
    assert run_tasks(blas_threads, [0, 1], workers=workers) == [1, 1]
    assert blas_threads(0) == before


@pytest.mark.parametrize("workers", [0, -1, True, "two", 1.5])
def test_impossible_workers_are_refused(workers):
    with pytest.raises(InputError, match="`workers` must be"):
        run_tasks(slow_square, [1], workers=workers)


def test_cores_are_those_of_this_process():
    assert cores() >= 1
