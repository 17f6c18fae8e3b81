"""The one table from refusals and errors to exit codes. docs/reference/exit-codes.md."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from quorate.calc import CalcInputError
from quorate.ledger.errors import RESTORE
from quorate.model.refusal import Refusal, RefusalCode, sentence
from quorate.ports.errors import (
    CheckpointError,
    CorruptLedgerError,
    LedgerExistsError,
    QuorateError,
)
from quorate.views.exits import CommandError, Exit
from quorate.views.word_forms import shortage

EXIT_OF_REFUSAL: Final[dict[RefusalCode, Exit]] = dict.fromkeys(RefusalCode, Exit.REFUSED) | {
    RefusalCode.INVALID: Exit.INVALID
}

EXIT_OF_ERROR: Final[tuple[tuple[type[Exception], Exit], ...]] = (
    (CorruptLedgerError, Exit.UNSOUND),
    (LedgerExistsError, Exit.REFUSED),
    (CheckpointError, Exit.INVALID),
    (CalcInputError, Exit.INVALID),
    (QuorateError, Exit.UNUSABLE),
    (OSError, Exit.UNUSABLE),
)
"""The first type that fits decides."""


def exit_of(error: Exception) -> Exit | None:
    """Return the exit code of ``error``; None when it is a bug and deserves its traceback."""
    return next((code for kind, code in EXIT_OF_ERROR if isinstance(error, kind)), None)


def text_of(error: Exception) -> str:
    """Return ``error`` as one line for people."""
    if isinstance(error, OSError) and not isinstance(error, QuorateError) and error.strerror:
        return f"{error.filename or 'the output'}: {error.strerror}; check path, rights and space"
    if isinstance(error, CorruptLedgerError) and error.remedy == RESTORE:
        return f"{error}; `quorate ledger verify` says how far the ledger is sound; {RESTORE}"
    return str(error)


def refused(refusals: Sequence[Refusal]) -> CommandError:
    """Return the error with every one of ``refusals``."""
    codes = [EXIT_OF_REFUSAL[refusal.code] for refusal in refusals]
    return CommandError(max(codes), *map(_text, refusals), refusals=tuple(refusals))


def _text(refusal: Refusal) -> str:
    """Return ``refusal`` with its numbers, which cannot be read afterwards."""
    return "\n".join([refusal_line(refusal), *(f"  {shortage(s)}" for s in refusal.shortages)])


def refusal_line(refusal: Refusal) -> str:
    """Return ``refusal`` and its remedy on one line."""
    text = sentence(refusal)
    return f"{text}; {refusal.remedy}" if refusal.remedy else text
