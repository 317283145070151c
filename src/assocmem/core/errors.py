"""Every error and warning that assocmem raises, each also an instance of the closest built-in class."""

from __future__ import annotations


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
    """A write made the state grow without bound; `step` is the first bad pair."""

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
