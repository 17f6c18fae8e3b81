"""A cluster's report on how work ended, as a note: one short printable line. Pure.

The note may contain the last message of a container. It is stored in the ledger, and shown in
terminals.
"""

from __future__ import annotations

from typing import Final

NOTE_CHARS_MAX: Final = 200
"""The longest note, in characters."""
_READ_CHARS_MAX: Final = 4 * NOTE_CHARS_MAX


def note_of(*words: object) -> str:
    """Return the non-empty ``words``, joined by colons, as one line.

    A note that is too long is cut at its end. Characters that cannot be printed become spaces.
    """
    lines = [_line(each) for each in words if isinstance(each, str)]
    note = ": ".join(filter(None, lines))
    return note if len(note) <= NOTE_CHARS_MAX else f"{note[: NOTE_CHARS_MAX - 3].rstrip()}..."


def _line(text: str) -> str:
    plain = "".join(each if each.isprintable() else " " for each in text[:_READ_CHARS_MAX])
    return " ".join(plain.split())
