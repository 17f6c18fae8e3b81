"""The head file ``LEDGER.head``: the head of a ledger after its writer's last commit.

If a write-ahead log is damaged, truncated or missing, SQLite opens the shorter database without an
error. So the ledger's file alone does not show that its end is missing. ``head_record.py`` decides
when the writer records a head in the file, and refuses a shorter log (docs/adr/0029).

The file has two slots, which are written in turn. Each slot has a checksum, and a number that grows
by one with each write. An interrupted write damages one slot only, and the other slot still has the
previous head. A slot stores its head as a checkpoint. The checkpoint is signed if the ledger's key
is in a file beside the ledger.
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
"""The distance between the slots, so large that no disk sector or page has parts of both slots."""
_SLOTS: Final = 2
_MARK: Final = b"QUORHEAD"
_VERSION: Final = 1
_LENGTH: Final = struct.Struct(">H")
_DIGEST_BYTES: Final = 32
_READS_MAX: Final = 8
_FORBIDDEN: Final = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})


@dataclass(frozen=True, slots=True)
class _Slot:
    """The content of one slot: ``number`` counts the writes since the file was created."""

    number: int
    record: Checkpoint


def head_path(ledger: Path) -> Path:
    """Return the path of the head file of ``ledger``."""
    return ledger.with_name(ledger.name + ".head")


def read_head(ledger: Path) -> Checkpoint | None:
    """Return the last record of the head file of ``ledger``; None if there is no such file.

    The signature of an unsigned record is empty. Raises ``CorruptLedgerError`` if no slot can be
    read, and ``StoreError`` if the file cannot be opened.
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
        """Create the head file of ``ledger`` with ``record`` in it, durably, and return it.

        Raises ``StoreError`` if the file exists, and OSError of the file system.
        """
        path = head_path(ledger)
        check_absent(ledger)
        draft = path.with_name(path.name + ".new")
        newest = _Slot(0, record)
        fd = os.open(draft, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, mode=0o600)
        try:
            # Allocate the whole file now, so that later writes change no metadata.
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
        """Return the head file of ``ledger``, or None; raises the errors of ``read_head``."""
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
        """Write ``record`` over the older of the two records; durable on return."""
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
    """Return a descriptor of the head file of ``ledger``; None if there is no such file.

    Raises ``CorruptLedgerError`` if the head file is not a plain file, ``StoreError`` if it cannot
    be opened, and OSError if it is a symbolic link.
    """
    path = head_path(ledger)
    try:
        # Without O_NONBLOCK, opening a pipe at this path would block.
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
            f"{path} cannot be opened ({error.strerror}), so Quorate cannot check whether the end "
            f"of the ledger is missing; let the user who runs this program read and write the file"
        ) from error
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise _unreadable(ledger, ": it is not a file")
    return fd


def check_absent(ledger: Path) -> None:
    """Raise ``StoreError`` if a head file shows that there was a ledger at the path."""
    path = head_path(ledger)
    if path.exists():
        raise StoreError(
            f"{path} remains from a ledger that was here{_where_it_ended(ledger)}; if "
            f"{ledger.name} was moved or removed, put it back with the files beside it, or "
            f"restore a backup: quorate ledger restore BACKUP.db --out NEW.db; for another ledger "
            f"choose another path, or move {path.name} away"
        )


def _where_it_ended(ledger: Path) -> str:
    try:
        end = read_head(ledger)
    except (QuorateError, OSError):
        return ""  # The file is damaged or unreadable, but its existence is enough.
    return "" if end is None else f", up to sequence {end.seq} at {time_text(end.at_ms)}"


def _encoded(slot: _Slot) -> bytes:
    """Return the bytes of ``slot``: magic, length, content, and a digest over all three."""
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
    """Return the slot in ``text``; None if it is damaged, incomplete, or of another version."""
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
    """Return the slot that was written last; raises ``CorruptLedgerError`` if both are damaged."""
    # Try several times: a slow reader may find both slots incomplete, although the writer never
    # writes both at once.
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
            f"compare the ledger with a checkpoint kept elsewhere: quorate ledger verify "
            f"--against CHECKPOINT; then move {path.name} away; Quorate creates a new one when it "
            f"next opens the ledger for writing"
        ),
        source=str(ledger),
    )


def _sync_folder(folder: Path) -> None:
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
