"""One writer per ledger: an advisory lock on a file beside the ledger, which names the writer.

The lock file is never removed: if another process opened the file just before its removal, the
ledger could get two writers. The system always releases the lock when its holder ends.
"""

from __future__ import annotations

import json
import logging
import os
import sys
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from quorate.keeper.locks import locked
from quorate.ports.errors import Holder, LedgerHeldError, StoreError

_LOG = logging.getLogger(__name__)

_COMMAND_CHARS_MAX: Final = 200
_TEXT_BYTES_MAX: Final = 4096


class WriterLock:
    """The right to write to one ledger, from construction to ``release``."""

    def __init__(self, ledger: Path, *, wait_s: float = 0.0) -> None:
        """Take the lock beside ``ledger``; retry for ``wait_s`` while another process holds it.

        Raises ``LedgerHeldError``, or OSError of the file.
        """
        path = lock_path(ledger)
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        self._fd = os.open(path, flags, mode=0o600)
        with ExitStack() as undo:
            undo.callback(os.close, self._fd)
            if not self._take(ledger, wait_s):
                raise LedgerHeldError(ledger, self._holder())
            self._write(_this_process())
            undo.pop_all()

    def release(self) -> None:
        """Release the lock. Releasing twice is allowed."""
        if self._fd >= 0:
            os.ftruncate(self._fd, 0)
            os.close(self._fd)
            self._fd = -1

    def _take(self, ledger: Path, wait_s: float) -> bool:
        """Return whether the lock was taken within ``wait_s``."""
        if locked(self._fd, 0.0):
            return True
        _LOG.info("%s; trying for %g s", LedgerHeldError(ledger, self._holder()), wait_s)
        return locked(self._fd, wait_s)

    def _holder(self) -> Holder | None:
        return _holder(os.pread(self._fd, _TEXT_BYTES_MAX, 0))

    def _write(self, text: bytes) -> None:
        os.ftruncate(self._fd, 0)
        os.pwrite(self._fd, text, 0)


def check_only_link(ledger: Path) -> None:
    """Raise ``StoreError`` if the file of ``ledger`` has another name (a hard link).

    The lock is beside one name, so a writer that uses another name would not find the lock. Call
    this function while the lock is held. If someone creates a link later, a writer that opens this
    link calls this function, too, and is refused.
    """
    links = ledger.stat().st_nlink
    if links > 1:
        raise StoreError(
            f"{ledger} has {links} names (hard links), and two writers that open it by different "
            "names would destroy each other's records; find the names with: find -samefile "
            f"{ledger.name}; remove all but one, or copy the ledger instead: quorate ledger "
            f"backup --out NEW.db"
        )


def lock_path(ledger: Path) -> Path:
    """Return the path of the lock of ``ledger``."""
    return ledger.with_name(ledger.name + ".lock")


def _this_process() -> bytes:
    """Return the text that names this process in its lock file."""
    command = " ".join([Path(sys.argv[0]).name, *sys.argv[1:]])[:_COMMAND_CHARS_MAX]
    since = datetime.now(UTC).isoformat(timespec="seconds")
    return json.dumps({"pid": os.getpid(), "command": command, "since": since}).encode()


def _holder(text: bytes) -> Holder | None:
    """Return the holder that the text of a lock file names; None if the text is unreadable."""
    try:
        note = json.loads(text)
        return Holder(pid=int(note["pid"]), command=str(note["command"]), since=str(note["since"]))
    except (ValueError, KeyError, TypeError):
        return None
