"""The head file: where a ledger ended when its writer last committed, kept in ``LEDGER.head``.

SQLite treats a write-ahead log that is damaged, cut short or gone as one that was never longer, so
the ledger's file alone does not show that its end is missing. When the writer records a head here,
and how a shorter log is refused, is in ``head_record.py`` (docs/adr/0029).

The file has two slots, written in turn, each with a checksum and a number that grows by one: a
write that was cut off damages one slot, and the other still has the head before it. A record is a
checkpoint, signed where the ledger's key lies beside it.
"""

from __future__ import annotations

import errno
import os
import stat
import struct
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any, Final, Self

import msgspec

from quorate.documents.times import time_text
from quorate.ledger.checkpoint import Checkpoint
from quorate.ports.errors import (
    CorruptLedgerError,
    QuorateError,
    StoreError,
    StoreReadOnlyError,
)

SLOT_BYTES: Final = 4096
"""How far apart the slots are: no sector and no page holds parts of both."""
_SLOTS: Final = 2
_MARK: Final = b"QUORHEAD"
_VERSION: Final = 1
_LENGTH: Final = struct.Struct(">H")
_DIGEST_BYTES: Final = 32
_READS_MAX: Final = 8
_FORBIDDEN: Final = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})


@dataclass(frozen=True, slots=True)
class _Slot:
    """What one slot holds: ``number`` counts the writes since the file was made."""

    number: int
    record: Checkpoint


def head_path(ledger: Path) -> Path:
    """Return where the head file of ``ledger`` lies."""
    return ledger.with_name(ledger.name + ".head")


def read_head(ledger: Path) -> Checkpoint | None:
    """Return the last record of the head file of ``ledger``; None where there is no such file.

    A record without a signature has an empty one. Raises ``CorruptLedgerError`` when no slot can
    be read, ``StoreError`` when the file cannot be opened.
    """
    fd = _opened(ledger, os.O_RDONLY)
    if fd is None:
        return None
    try:
        return _newest(fd, ledger).record
    finally:
        os.close(fd)


class HeadFile:
    """The head file of one ledger, open for its writer."""

    def __init__(self, fd: int, newest: _Slot) -> None:
        self._fd = fd
        self._newest = newest

    @classmethod
    def create(cls, ledger: Path, record: Checkpoint) -> Self:
        """Return the new head file of ``ledger`` with ``record`` in it, durable.

        Raises ``StoreError`` when there is one already, OSError of the file.
        """
        path = head_path(ledger)
        check_absent(ledger)
        draft = path.with_name(path.name + ".new")
        newest = _Slot(0, record)
        fd = os.open(draft, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, mode=0o600)
        try:
            # All of it is allocated now, so that a write later changes no metadata.
            os.pwrite(fd, bytes(_SLOTS * SLOT_BYTES), 0)
            os.pwrite(fd, _encoded(newest), 0)
            os.fsync(fd)
            draft.rename(path)
            _sync_folder(path.parent)
        except OSError:
            os.close(fd)
            with suppress(FileNotFoundError):
                draft.unlink()
            raise
        return cls(fd, newest)

    @classmethod
    def open(cls, ledger: Path) -> Self | None:
        """Return the head file of ``ledger``; None where there is none. Raises as ``read_head``."""
        fd = _opened(ledger, os.O_RDWR)
        if fd is None:
            return None
        try:
            return cls(fd, _newest(fd, ledger))
        except BaseException:
            os.close(fd)
            raise

    @property
    def record(self) -> Checkpoint:
        """The last record."""
        return self._newest.record

    def write(self, record: Checkpoint) -> None:
        """Record ``record`` in the slot of the record before the last one; durable on return."""
        slot = _Slot(self._newest.number + 1, record)
        os.pwrite(self._fd, _encoded(slot), slot.number % _SLOTS * SLOT_BYTES)
        os.fdatasync(self._fd)
        self._newest = slot

    def close(self) -> None:
        """Close the file. Closing twice is allowed."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def _opened(ledger: Path, flags: int) -> int | None:
    """Return a descriptor of the head file of ``ledger``; None where there is no such file.

    Raises ``CorruptLedgerError`` when it is no file, ``StoreError`` when it cannot be opened, and
    OSError when it is a symbolic link.
    """
    path = head_path(ledger)
    try:
        # A pipe in its place would be waited for.
        fd = os.open(path, flags | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:
        return None
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise
        if error.errno in (errno.EISDIR, errno.ENXIO):
            raise _unreadable(ledger, f": {error.strerror}") from error
        kind = StoreReadOnlyError if error.errno in _FORBIDDEN else StoreError
        raise kind(
            f"{path} cannot be opened ({error.strerror}), so whether the end of the ledger is "
            "missing cannot be told; let the user who runs this read and write it"
        ) from error
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise _unreadable(ledger, ": it is not a file")
    return fd


def check_absent(ledger: Path) -> None:
    """Raise ``StoreError`` where a head file says that a ledger was at the path, which is gone."""
    path = head_path(ledger)
    if path.exists():
        raise StoreError(
            f"{path} is left of a ledger that was here{_where_it_ended(ledger)}; if "
            f"{ledger.name} was moved or removed, put it back with the files beside it, or restore "
            "a backup: quorate ledger restore BACKUP.db --out NEW.db; for another ledger choose "
            f"another path, or move {path.name} away"
        )


def _where_it_ended(ledger: Path) -> str:
    try:
        end = read_head(ledger)
    except (QuorateError, OSError):
        return ""  # Damaged, or shut; that it is there says enough.
    return "" if end is None else f", up to sequence {end.seq} at {time_text(end.at_ms)}"


def _encoded(slot: _Slot) -> bytes:
    """Return the bytes of ``slot``: mark, length, content, and the digest of all of these."""
    kept = slot.record
    content = msgspec.msgpack.encode(
        (
            _VERSION,
            slot.number,
            kept.ledger_id,
            kept.height,
            kept.seq,
            kept.hash,
            kept.at_ms,
            kept.public_key,
            kept.signature,
        )
    )
    text = _MARK + _LENGTH.pack(len(content)) + content
    found = text + sha256(text).digest()
    assert len(found) <= SLOT_BYTES, len(found)
    return found


def _decoded(text: bytes) -> _Slot | None:
    """Return what the bytes of a slot hold; None when they are not whole."""
    begin = len(_MARK) + _LENGTH.size
    if text[: len(_MARK)] != _MARK or len(text) < begin:
        return None
    end = begin + _LENGTH.unpack(text[len(_MARK) : begin])[0]
    if sha256(text[:end]).digest() != text[end : end + _DIGEST_BYTES]:
        return None
    found: Any = msgspec.msgpack.decode(text[begin:end])
    version, number, ledger_id, height, seq, digest, at_ms, public_key, signature = found
    if version != _VERSION:
        return None
    return _Slot(
        number,
        Checkpoint(
            ledger_id=ledger_id,
            height=height,
            seq=seq,
            hash=digest,
            at_ms=at_ms,
            public_key=public_key,
            signature=signature,
        ),
    )


def _newest(fd: int, ledger: Path) -> _Slot:
    """Return the slot that was written last; raises ``CorruptLedgerError`` where none is whole."""
    # A writer may be at work: it never has both slots unreadable, but a slow reader may see that.
    for _ in range(_READS_MAX):
        text = os.pread(fd, _SLOTS * SLOT_BYTES, 0)
        slots = [_decoded(text[at * SLOT_BYTES : (at + 1) * SLOT_BYTES]) for at in range(_SLOTS)]
        whole = [slot for slot in slots if slot is not None]
        if whole:
            return max(whole, key=lambda slot: slot.number)
    raise _unreadable(ledger)


def _unreadable(ledger: Path, why: str = "") -> CorruptLedgerError:
    """Return the error for a head file that cannot be read; ``why`` is the reason, if known."""
    path = head_path(ledger)
    return CorruptLedgerError(
        f"{path.name} cannot be read{why}, so a missing end of the ledger would not be detected",
        remedy=(
            "compare the ledger with a checkpoint kept elsewhere: quorate ledger verify --against "
            f"CHECKPOINT; then move {path.name} away, and the next opening for writing makes a new "
            "one"
        ),
        source=str(ledger),
    )


def _sync_folder(folder: Path) -> None:
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
