"""The fault code, and so the exit code, of each exception that the environment can cause."""

from __future__ import annotations

from typing import Final

from quorate.documents.document_problem import CalcInputError
from quorate.ports.errors import (
    BlockTooLargeError,
    CheckpointError,
    CorruptLedgerError,
    LedgerExistsError,
    QuorateError,
    StoreUrlError,
    UnsureAppendError,
)
from quorate.views.exits import Exit
from quorate.views.statuses import (
    INVALID,
    REFUSED,
    STATUSES,
    TIMED_OUT,
    TOO_LARGE,
    UNSOUND,
    UNUSABLE,
    USAGE,
)

ERRORS: Final[tuple[tuple[type[Exception], str], ...]] = (
    (CorruptLedgerError, UNSOUND),
    (LedgerExistsError, REFUSED),
    (StoreUrlError, USAGE),
    (CheckpointError, INVALID),
    (CalcInputError, INVALID),
    (BlockTooLargeError, TOO_LARGE),
    (UnsureAppendError, TIMED_OUT),
    (QuorateError, UNUSABLE),
    (OSError, UNUSABLE),
)
"""Pairs of an exception that the environment causes and its code; the first match decides.

Any other exception is a bug.
"""


def code_of(error: Exception) -> str | None:
    """Return the code of ``error``; None for a bug, which gets a traceback."""
    return next((code for kind, code in ERRORS if isinstance(error, kind)), None)


def exit_of(error: Exception) -> Exit | None:
    """Return the exit code of ``error``; None if it is a bug."""
    if isinstance(error, UnsureAppendError):
        return Exit.UNCERTAIN
    code = code_of(error)
    return None if code is None else STATUSES[code].exit
