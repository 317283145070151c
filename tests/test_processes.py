"""Processes beside the main one: what they answer to, and that none is left when it is gone."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

PARENT = """
import os, time
from assocmem.kernels.processes import processes

if __name__ == "__main__":
    with processes(2) as pool:
        busy = pool.submit(time.sleep, 600)
        print(pool.submit(os.getpid).result(), *{p.pid for p in pool._processes.values()}, flush=True)
        busy.result()
"""


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="the system does not list processes")
def test_helpers_end_when_the_main_process_is_killed(tmp_path):
    script = tmp_path / "parent.py"
    script.write_text(PARENT)
    command = [sys.executable, str(script)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as running:
        assert running.stdout is not None
        helpers = {int(word) for word in running.stdout.readline().split()}
        assert len(helpers) == 2
        assert all(alive(pid) for pid in helpers)
        running.kill()
    deadline = time.monotonic() + 20
    while any(alive(pid) for pid in helpers):
        assert time.monotonic() < deadline, f"still there: {[pid for pid in helpers if alive(pid)]}"
        time.sleep(0.05)


def alive(pid: int) -> bool:
    """Say whether a process runs; one that has ended and waits for its exit status to be read does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False
