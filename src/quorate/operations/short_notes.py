"""Texts of people that are kept in the ledger, or repeated: one line, nothing hidden in it."""

from __future__ import annotations

from quorate.views.exits import CommandError, Exit


def checked_line(text: str, field: str) -> str:
    """Return ``text``, which may be empty; raises ``CommandError`` where it is no line."""
    if text.isprintable():
        return text
    raise CommandError(Exit.INVALID, f"{field}: must be one printable line")
