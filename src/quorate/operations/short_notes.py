"""Notes and reasons that people write; the ledger records each as one printable line."""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from quorate.views.exits import CommandError, Exit

_NOTES: Final = ("note", "reason")
"""The fields of requests that hold a ``Note``."""


def checked_line(text: str, field: str) -> str:
    """Return ``text``, which may be empty; raises ``CommandError`` unless it is one line."""
    if text.isprintable():
        return text
    raise CommandError(Exit.INVALID, f"{field}: must be one printable line")


def check_notes(asked: Struct) -> None:
    """Raise ``CommandError`` unless the note or reason of a request is one printable line.

    Otherwise a note could imitate further lines of the log, or send control codes to a terminal.
    """
    for field in _NOTES:
        checked_line(getattr(asked, field, "") or "", field)
