"""One writer per ledger: an advisory lock on a file beside it that says who holds it.

The lock file is never removed, because removing one that another process is just opening would
give the ledger two writers. The system drops the lock when its holder dies, however it dies.
"""

from __future__ import annotations

import fcntl
import json
import os
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from quorate.ports.errors import Holder, LedgerHeldError

_COMMAND_CHARS_MAX: Final = 200
_TEXT_BYTES_MAX: Final = 4096
_TRY_AGAIN_S: Final = 0.05


class WriterLock:
    """The right to write to one ledger, from construction to ``release``."""

    def __init__(self, ledger: Path, *, wait_s: float = 0.0) -> None:
        """Take the lock beside ``ledger``, waiting up to ``wait_s`` for whoever holds it.

        Raises ``LedgerHeldError``, or OSError of the file.
        """
        path = lock_path(ledger)
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        self._fd = os.open(path, flags, mode=0o600)
        try:
            _take(self._fd, wait_s)
            self._write(_this_process())
        except BlockingIOError as error:
            holder = _holder(os.pread(self._fd, _TEXT_BYTES_MAX, 0))
            os.close(self._fd)
            raise LedgerHeldError(ledger, holder) from error
        except OSError:
            os.close(self._fd)
            raise

    def release(self) -> None:
        """Let the next writer in. Releasing twice is allowed."""
        if self._fd >= 0:
            os.ftruncate(self._fd, 0)
            os.close(self._fd)
            self._fd = -1

    def _write(self, text: bytes) -> None:
        os.ftruncate(self._fd, 0)
        os.pwrite(self._fd, text, 0)


def _take(fd: int, wait_s: float) -> None:
    """Lock ``fd``; raises ``BlockingIOError`` when it is still held after ``wait_s``."""
    deadline_s = time.monotonic() + wait_s
    while True:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            left_s = deadline_s - time.monotonic()
            if left_s <= 0:
                raise
            time.sleep(min(_TRY_AGAIN_S, left_s))
        else:
            return


def lock_path(ledger: Path) -> Path:
    """Return where the lock of ``ledger`` lies."""
    return ledger.with_name(ledger.name + ".lock")


def _this_process() -> bytes:
    """Return the note that this process leaves in its lock."""
    command = " ".join([Path(sys.argv[0]).name, *sys.argv[1:]])[:_COMMAND_CHARS_MAX]
    since = datetime.now(UTC).isoformat(timespec="seconds")
    return json.dumps({"pid": os.getpid(), "command": command, "since": since}).encode()


def _holder(text: bytes) -> Holder | None:
    """Return who left the note ``text``; None when there is none yet or it is not readable."""
    try:
        note = json.loads(text)
        return Holder(pid=int(note["pid"]), command=str(note["command"]), since=str(note["since"]))
    except (ValueError, KeyError, TypeError):
        return None
