"""Files that are written whole or not at all."""

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Callable
from pathlib import Path

from assocmem.contract.errors import InputError


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
        beside = target.with_name(f".{target.name}.{secrets.token_hex(8)}")
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
