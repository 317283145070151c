"""What assocmem raises and warns of: every error is an `AssocmemError`, and says itself in one sentence."""

from assocmem.contract.errors import (
    AssocmemError,
    ConvergenceWarning,
    DivergedError,
    DTypeError,
    FileFormatError,
    IllConditionedWarning,
    InputError,
    MissingExtraError,
    NonFiniteError,
    RecallOverflowError,
    RoundingWarning,
    UnknownNameError,
    UnstableWarning,
)

__all__ = [
    "AssocmemError",
    "ConvergenceWarning",
    "DTypeError",
    "DivergedError",
    "FileFormatError",
    "IllConditionedWarning",
    "InputError",
    "MissingExtraError",
    "NonFiniteError",
    "RecallOverflowError",
    "RoundingWarning",
    "UnknownNameError",
    "UnstableWarning",
]
