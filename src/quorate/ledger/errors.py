"""Errors in a ledger's bytes. The list of all errors is in ``ports/errors.py``.

``QuorateError`` is defined here because the ledger is the lowest layer that raises an error.
"""

from __future__ import annotations

from typing import Final

RESTORE: Final = (
    "restore it from a backup: quorate ledger restore BACKUP.db --out NEW.db, or from an export: "
    "quorate ledger import FILE --out NEW.db"
)
"""The remedy for a ledger that cannot be repaired."""


class QuorateError(Exception):
    """The base class of all errors that users may see; an error's text is one or two sentences."""


class CorruptLedgerError(QuorateError):
    """The stored bytes of a ledger are not the bytes that were written.

    ``height`` and ``seq`` name the block and the first event that may be wrong, as far as they are
    known. ``source`` is the file, if there is one. ``remedy`` says how to repair the ledger. If the
    caller gives a ``remedy``, it is part of the error's text. Otherwise ``remedy`` is ``RESTORE``,
    which is not part of the text.
    """

    def __init__(
        self,
        what: str,
        *,
        height: int | None = None,
        seq: int | None = None,
        source: str = "",
        remedy: str = "",
    ) -> None:
        places = []
        if height is not None:
            places.append(f"block {height}")
        if seq is not None:
            places.append(f"sequence {seq}")
        told = f"{source} is damaged: {what}" if source else what
        text = f"{told} (at {', '.join(places)})" if places else told
        super().__init__(f"{text}; {remedy}" if remedy else text)
        self.what = what
        self.remedy = remedy or RESTORE
        self.height = height
        self.seq = seq


class NewerLedgerError(QuorateError):
    """The ledger is sound, but a part of it can be read only by a newer Quorate."""

    def __init__(self, what: str, *, seq: int | None = None) -> None:
        place = "" if seq is None else f" at sequence {seq}"
        super().__init__(
            f"{what}{place} is unknown here: the ledger was written by a newer Quorate; "
            "read it with that version or later"
        )
        self.seq = seq


class UnknownEventError(NewerLedgerError):
    """The tag of an event is not known to this version of Quorate."""

    def __init__(self, tag: str, *, seq: int | None = None) -> None:
        super().__init__(f"event {tag!r}", seq=seq)
        self.tag = tag


class CheckpointError(QuorateError):
    """A text is not a checkpoint."""


class ArchiveError(QuorateError):
    """The archive of ended runs cannot be read; the ledger itself is not affected.

    ``place`` is the file of the archive, if there is one.
    """

    def __init__(self, what: str, place: str = "") -> None:
        where = place or "LEDGER.archive"
        super().__init__(
            f"{what}; the ledger is not affected: stop the process that writes to it, remove "
            f"{where}, and start the process again: it derives the file from the ledger"
        )
        self.what = what
