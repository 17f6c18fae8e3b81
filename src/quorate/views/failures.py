"""Exceptions of the environment and refusals, turned into the error that ends a command."""

from __future__ import annotations

from collections.abc import Sequence

from quorate.ledger.errors import RESTORE
from quorate.model.refusal import Refusal, sentence
from quorate.ports.errors import CorruptLedgerError, QuorateError
from quorate.views.error_codes import code_of
from quorate.views.error_length import in_bounds
from quorate.views.exits import CommandError
from quorate.views.statuses import STATUSES
from quorate.views.word_forms import shortage


def as_command_error(error: Exception) -> CommandError | None:
    """Return ``error`` as an error for the caller, with bounded length; None if it is a bug."""
    if isinstance(error, CommandError):
        return in_bounds(error)
    code = code_of(error)
    if code is None:
        return None
    return in_bounds(CommandError(STATUSES[code].exit, text_of(error), fault=code))


def text_of(error: Exception) -> str:
    """Return ``error`` as one line for people."""
    if isinstance(error, OSError) and not isinstance(error, QuorateError) and error.strerror:
        return f"{error.filename or 'the output'}: {error.strerror}; check path, rights and space"
    if isinstance(error, CorruptLedgerError) and error.remedy == RESTORE:
        return (
            f"{error}; `quorate ledger verify` shows which part of the ledger is intact; {RESTORE}"
        )
    return str(error)


def refused(refusals: Sequence[Refusal]) -> CommandError:
    """Return one error that lists all of ``refusals``."""
    codes = [STATUSES[refusal.code.value].exit for refusal in refusals]
    return CommandError(max(codes), *map(_text, refusals), refusals=tuple(refusals))


def _text(refusal: Refusal) -> str:
    """Return ``refusal`` with its numbers, because the caller cannot look them up later."""
    numbers = [f"  {shortage(each, refusal.code)}" for each in refusal.shortages]
    return "\n".join([refusal_line(refusal), *numbers])


def refusal_line(refusal: Refusal) -> str:
    """Return ``refusal`` and its remedy on one line."""
    text = sentence(refusal)
    return f"{text}; {refusal.remedy}" if refusal.remedy else text
