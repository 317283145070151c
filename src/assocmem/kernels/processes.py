"""Fresh processes for what threads do not speed up, and for what should give its memory back."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from concurrent.futures import ProcessPoolExecutor
from multiprocessing.connection import wait


def processes(count: int, *, ends_on_ctrl_c: bool = False) -> ProcessPoolExecutor:
    """Return an executor over `count` fresh processes, started as they are needed: it gives back what they took.

    Ctrl-C is the main process's to answer; theirs ignore it, or end without a word. They end with the main process,
    however that ends.
    """
    heard = signal.getsignal(signal.SIGINT) is not signal.SIG_IGN
    answer = signal.SIG_DFL if ends_on_ctrl_c and heard else signal.SIG_IGN
    spawn = multiprocessing.get_context("spawn")
    return ProcessPoolExecutor(count, mp_context=spawn, initializer=_set_out, initargs=(answer,))


def _set_out(answer: signal.Handlers) -> None:
    signal.signal(signal.SIGINT, answer)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """Leave when the process that started this one is gone, killed perhaps: nobody else would end it."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)
