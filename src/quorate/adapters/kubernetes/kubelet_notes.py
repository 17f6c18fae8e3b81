"""What a cluster says of how work has ended, as a note: one short line that can be printed. Pure.

A container writes its own last message, and it goes into the ledger and to terminals.
"""

from __future__ import annotations

from typing import Final

NOTE_CHARS_MAX: Final = 200
"""How long such a note may be."""
_READ_CHARS_MAX: Final = 4 * NOTE_CHARS_MAX


def note_of(*words: object) -> str:
    """Return ``words`` with colons between them, as one line; those that are missing are left out.

    Where it is too long, its beginning is kept. What cannot be printed becomes a space.
    """
    lines = [_line(each) for each in words if isinstance(each, str)]
    note = ": ".join(filter(None, lines))
    return note if len(note) <= NOTE_CHARS_MAX else f"{note[: NOTE_CHARS_MAX - 3].rstrip()}..."


def _line(text: str) -> str:
    plain = "".join(each if each.isprintable() else " " for each in text[:_READ_CHARS_MAX])
    return " ".join(plain.split())
