"""Files that are written whole or not at all, and folders that one run at a time writes to."""

from __future__ import annotations

import os
import re
import secrets
import shutil
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path

from assocmem.contract.errors import InputError

TEMPORARY = re.compile(r"\.assocmem-[0-9a-f]{16}")
CLAIM = ".assocmem-run-"
OLD = 3600.0
"""Seconds after which a temporary file that nobody has written to was left by a killed run."""


def temporary_in(folder: Path) -> Path:
    """Return a new name in a folder for what is not finished; the next run there sweeps it where it was left."""
    _sweep(folder)
    return folder / f".assocmem-{secrets.token_hex(8)}"


@cache
def _sweep(folder: Path) -> None:
    """Remove what killed runs left in a folder: our own temporary files and folders, only old ones."""
    with suppress(OSError):
        for entry in os.scandir(folder):
            if TEMPORARY.fullmatch(entry.name) and time.time() - entry.stat(follow_symlinks=False).st_mtime > OLD:
                if entry.is_dir(follow_symlinks=False):
                    shutil.rmtree(entry.path, ignore_errors=True)
                else:
                    os.unlink(entry.path)


@contextmanager
def claimed(folder: Path) -> Iterator[None]:
    """Write to a folder alone; InputError where another run that is alive does."""
    import psutil

    mine = folder / f"{CLAIM}{os.getpid()}"
    mine.touch()
    try:
        for other in folder.glob(f"{CLAIM}*"):
            if other == mine:
                continue
            try:  # a later process of the same number is no run that began before the claim
                alive = psutil.Process(int(other.name.removeprefix(CLAIM))).create_time() <= other.stat().st_mtime + 1
            except (psutil.Error, ValueError, OSError):
                alive = False
            if alive:
                raise InputError(
                    f"another run of assocmem, process {other.name.removeprefix(CLAIM)}, is writing to {folder}; wait "
                    "until it has ended, or name another folder with --out."
                )
            other.unlink(missing_ok=True)
        yield
    finally:
        mine.unlink(missing_ok=True)


def write_whole(path: Path, content: bytes | Callable[[str], None]) -> Path:
    """Write `content` to `path` through a temporary file beside it; return the path.

    Its folder is made where it is missing. A symbolic link is followed, and a file that stands there keeps its mode.
    Raises InputError with one sentence where something else than a regular file stands there (a folder, a device, a
    named pipe), and where writing fails.
    """
    temporary = None
    try:
        target = Path(os.path.realpath(path))
        mode = target.stat().st_mode if target.exists() else None
        if mode is not None and not stat.S_ISREG(mode):
            raise InputError(f"cannot write {path}: what stands there is no regular file; choose another name.")
        target.parent.mkdir(parents=True, exist_ok=True)
        beside = temporary_in(target.parent)
        # A file made by open has the mode that every new file gets here.
        with open(beside, "xb") as file:
            temporary = beside
            if isinstance(content, bytes):
                file.write(content)
        if not isinstance(content, bytes):
            content(str(beside))
        if mode is not None:
            os.chmod(beside, stat.S_IMODE(mode))
        os.replace(beside, target)
    except OSError as error:
        raise InputError(
            f"cannot write {path}: {error.strerror or error}; choose a folder that can be written."
        ) from error
    except ValueError as error:
        if "null" not in str(error):
            raise
        raise InputError(f"`path` must not hold a null character; got {str(path)!r}.") from error
    finally:
        if temporary is not None and os.path.exists(temporary):
            os.unlink(temporary)
    return path
