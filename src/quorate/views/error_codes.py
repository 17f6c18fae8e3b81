"""Which code, and so which exit code, each exception of the world has."""

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
)
from quorate.views.exits import Exit
from quorate.views.statuses import (
    INVALID,
    REFUSED,
    STATUSES,
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
    (QuorateError, UNUSABLE),
    (OSError, UNUSABLE),
)
"""Errors of the world -> code; the first type that fits decides. What is not here is a bug."""


def exit_of(error: Exception) -> Exit | None:
    """Return the exit code of ``error``; None when it is a bug and deserves its traceback."""
    code = next((code for kind, code in ERRORS if isinstance(error, kind)), None)
    return None if code is None else STATUSES[code].exit
