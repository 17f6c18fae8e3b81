"""Notes and reasons that people write. The ledger records each of them as one printable line."""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from quorate.views.exits import CommandError, Exit

_NOTES: Final = ("note", "reason")
"""The fields of requests that hold a ``Note``."""


def checked_line(text: str, field: str) -> str:
    """Return ``text``, which may be empty; raise ``CommandError`` if it is not one line."""
    if text.isprintable():
        return text
    raise CommandError(Exit.INVALID, f"{field}: must be one printable line")


def check_notes(asked: Struct) -> None:
    """Raise ``CommandError`` if a note or reason of the request is not one printable line.

    A note of several lines could imitate lines of the log, and other characters could control a
    terminal.
    """
    for field in _NOTES:
        checked_line(getattr(asked, field, "") or "", field)
