"""Tasks side by side: order, progress, errors, interrupts, BLAS on one thread; no helper process outlives the main."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from pathlib import Path

import psutil
import pytest
from threadpoolctl import threadpool_info

from assocmem.contract.errors import InputError
from assocmem.kernels import compute
from assocmem.kernels.compute import Helpers, cores, free_bytes, in_threads, run_tasks


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


def test_cores_and_free_memory_are_those_of_this_process(monkeypatch):
    assert 1 <= cores() <= psutil.cpu_count()
    assert 0 < free_bytes() <= psutil.virtual_memory().total
    monkeypatch.setattr(Path, "read_text", lambda *_args, **_words: "4096\n")  # the limit of a container
    assert free_bytes() == 4096


def test_nested_and_concurrent_uses_of_one_blas_thread_restore_what_was_before_at_the_end():
    before, seen = blas_threads(0), []

    def run(_worker):
        with compute.one_blas_thread:
            seen.append(blas_threads(0))

    with compute.one_blas_thread:
        in_threads(run, 3)
        seen.append(blas_threads(0))
    assert seen == [1, 1, 1, 1]
    assert blas_threads(0) == before


@pytest.mark.parametrize("wrong", [0, 2])
def test_the_error_of_any_thread_is_raised(wrong):
    def run(worker):
        if worker == wrong:
            raise ZeroDivisionError(worker)

    with pytest.raises(ZeroDivisionError, match=str(wrong)):
        in_threads(run, 3)


# ---------------------------------------------------------------------- helper processes

PARENT = """
import os, time
from assocmem.kernels.compute import Helpers

if __name__ == "__main__":
    with Helpers(2) as pool:
        busy = pool.submit(time.sleep, 600)
        print(pool.submit(os.getpid).result(), *{p.pid for p in pool._processes.values()}, flush=True)
        busy.result()
"""


def test_helpers_end_when_the_main_process_is_killed(tmp_path):
    script = tmp_path / "parent.py"
    script.write_text(PARENT)
    with subprocess.Popen([sys.executable, str(script)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as running:
        assert running.stdout is not None
        helpers = [psutil.Process(pid) for pid in {int(word) for word in running.stdout.readline().split()}]
        assert len(helpers) == 2
        running.kill()
    assert psutil.wait_procs(helpers, timeout=20)[1] == []


@pytest.mark.skipif(sys.platform == "win32", reason="the system sends no signals")
def test_ctrl_c_does_not_reach_helpers_and_they_end_when_told():
    with Helpers(1) as pool:
        pool.submit(abs, -1).result()
        (helper,) = pool._processes.values()
        psutil.Process(helper.pid).send_signal(2)
        assert pool.submit(abs, -2).result() == 2
        busy = pool.submit(time.sleep, 600)
        pool.end()
        with pytest.raises(BrokenProcessPool):
            busy.result(timeout=20)
