"""Every error and warning that assocmem raises, each also an instance of the closest built-in class."""

from __future__ import annotations

import inspect
import re
import sys
import sysconfig
import traceback
import warnings
from contextvars import ContextVar
from pathlib import Path
from typing import Any

_PACKAGE = Path(__file__).parent.parent


class AssocmemError(Exception):
    """Base of all errors of this package; its text is one sentence that says what to do."""


class InputError(AssocmemError, ValueError):
    """An argument has a wrong shape, length, range or content."""


class DTypeError(AssocmemError, TypeError):
    """An argument has a type that no store can hold (objects, text, complex numbers)."""


class NonFiniteError(InputError):
    """Keys, values or queries hold NaN or infinity; the message names the first such row."""


class UnknownNameError(AssocmemError, LookupError):
    """A name is not registered; the message offers the nearest ones."""


class RecallOverflowError(AssocmemError, OverflowError):
    """A recall left the range of its dtype; the message says which."""


class DivergedError(AssocmemError, ArithmeticError):
    """A write made the state grow without bound.

    Parameters
    ----------
    message : str
        The sentence.
    step : int
        The first bad pair.
    """

    def __init__(self, message: str, *, step: int) -> None:
        super().__init__(message)
        self.step = step


class FileFormatError(AssocmemError, ValueError):
    """A file is unreadable, truncated, or holds something other than what was asked for."""


class MissingExtraError(AssocmemError, ImportError):
    """An optional dependency is needed; the message names the extra that installs it."""


class UnstableWarning(UserWarning):
    """A setting lets a store's state grow from write to write; the message states the bound."""


class IllConditionedWarning(UserWarning):
    """Stored keys are nearly dependent, so that recalls lose precision; the message states the bound."""


class ConvergenceWarning(UserWarning):
    """An iteration stopped before it reached its tolerance; the message says what was done instead."""


class RoundingWarning(UserWarning):
    """A state rounds off what recalls need, or goes on in another dtype than it was saved in."""


_kept: ContextVar[dict[str, tuple[str, type[Warning]]] | None] = ContextVar("_kept", default=None)


class ToldOnce:
    """Context whose warnings are given at its end, one of those that differ in their numbers alone.

    For work that writes many times. Nested ones leave it to the outermost; threads take part that run in a copy of its
    context (`kernels.compute.run_tasks`).
    """

    def __enter__(self) -> None:
        self._token = _kept.set({}) if _kept.get() is None else None

    def __exit__(self, *_: object) -> None:
        if self._token is not None:
            kept = _kept.get()
            _kept.reset(self._token)
            for message, kind in (kept or {}).values():
                warn(message, kind)


def warn(message: str, kind: type[Warning]) -> None:
    """Give a warning at the line that called into the package."""
    kept = _kept.get()
    if kept is not None:
        kept.setdefault(re.sub(r"\d\S*", "#", message), (message, kind))
        return
    level, frame = 3, sys._getframe(1)
    while (frame := frame.f_back) and Path(frame.f_code.co_filename).is_relative_to(_PACKAGE):  # type: ignore[assignment]
        level += 1
    warnings.warn(message, kind, stacklevel=level)


def place_of(error: BaseException) -> str:
    """Return file and line of the innermost code in an error's traceback that is a user's, or else a store's.

    Passed over are the package's own rooms but `stores`, and then whatever is installed beside it.
    """
    frames = list(traceback.extract_tb(error.__traceback__))
    installed = [Path(sysconfig.get_path(name)) for name in ("stdlib", "purelib", "platlib")]
    ours = [f for f in frames if _below(f, _PACKAGE) and not _below(f, _PACKAGE / "stores")]
    outside = [f for f in frames if f not in ours and not f.filename.startswith("<")]  # of a dataclass's __init__
    own = [f for f in outside if not any(_below(f, folder) for folder in installed)]
    for kind in (own, outside, frames):
        if kind:
            return f"{Path(kind[-1].filename).name}, line {kind[-1].lineno}"
    return "no line is known"


def defined_at(code: Any) -> str:
    """Return file and line at which a function, a method or a callable object's class is defined."""
    inner = getattr(code, "func", code)  # a partial's function
    inner = getattr(inner, "__func__", inner)
    inner = inner if inspect.isfunction(inner) else getattr(type(inner), "__call__")  # noqa: B004, B009  (an instance's)
    found = getattr(inner, "__code__", None)
    return "no line is known" if found is None else f"{Path(found.co_filename).name}, line {found.co_firstlineno}"


def _below(frame: traceback.FrameSummary, folder: Path) -> bool:
    return Path(frame.filename).is_relative_to(folder)
