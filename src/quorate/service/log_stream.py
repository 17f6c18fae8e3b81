"""A log that never waits for its reader.

The reader of the log may stop: a terminal after Ctrl-S, a frozen program behind a pipe, a collector
that hangs. A write would then block, and with it every thread that logs a line: the service would
answer no request, and would not even react to SIGTERM. So a line is written immediately if the
stream accepts it, and otherwise kept in memory, up to a limit. Lines above the limit are dropped
and counted.

Each request logs a line. These lines are gathered for a moment and written together, because with
each write the thread that answers requests may lose the interpreter lock.
"""

from __future__ import annotations

import logging
import os
import select
from collections import deque
from threading import Event, Thread
from typing import Final

from quorate.service.request_log import Handled

KEPT_BYTES_MAX: Final = 1024 * 1024
"""How many bytes of the log are kept for a slow reader."""
GATHER_S: Final = 0.05
"""How long log lines of requests are collected before they are written together."""
LAST_S: Final = 1.0
"""How long a service that ends waits for a slow reader of its log."""
_LOOK_MS: Final = 1_000


class StreamLog(logging.Handler):
    """Writes to the descriptor ``stream``, which the caller closes; safe for several threads."""

    def __init__(self, stream: int) -> None:
        super().__init__()
        self._stream = stream
        self._kept: deque[bytes] = deque()
        self._kept_bytes = 0
        self._left_out = 0
        self._writer: Thread | None = None
        self._is_asked = Event()
        self._is_closing = Event()

    def emit(self, record: logging.LogRecord) -> None:
        """Write ``record``, or keep it to write it later; the caller holds the lock."""
        try:
            line = f"{self.format(record)}\n".encode(errors="backslashreplace")
        except Exception:  # noqa: BLE001 - a line that cannot be made must not end its thread
            self.handleError(record)
            return
        if self._kept_bytes + len(line) > KEPT_BYTES_MAX:
            self._left_out += 1
        else:
            self._keep_left_out()
            self._keep(line)
        if not _is_of_request(record):
            self._write_kept()
        if self._kept and not self._is_asked.is_set():
            self._ask_writer()

    def close(self) -> None:
        """Wait until kept lines are read, for ``LAST_S`` at most, and log no more."""
        writer = self._writer
        if writer is not None:
            self._is_closing.set()
            self._is_asked.set()
            writer.join(LAST_S)
        super().close()

    def _ask_writer(self) -> None:
        """Ask the writer's thread to write the kept lines; the caller holds the lock."""
        self._is_asked.set()
        if self._writer is None or not self._writer.is_alive():
            self._writer = Thread(target=self._write_later, name="log", daemon=True)
            self._writer.start()

    def _keep(self, line: bytes) -> None:
        # A pipe that is ready accepts a part of this size as a whole.
        parts = [line[at : at + select.PIPE_BUF] for at in range(0, len(line), select.PIPE_BUF)]
        self._kept.extend(parts)
        self._kept_bytes += len(line)

    def _keep_left_out(self) -> None:
        """Add a line that says how many lines were dropped, if any."""
        if not self._left_out:
            return
        lines = "1 line was" if self._left_out == 1 else f"{self._left_out} lines were"
        text = f"{lines} left out of the log here: the reader was too slow, or a write failed"
        told = {"name": __name__, "levelno": logging.WARNING, "levelname": "WARNING", "msg": text}
        self._left_out = 0
        self._keep(f"{self.format(logging.makeLogRecord(told))}\n".encode())

    def _write_kept(self) -> None:
        """Write kept lines until the stream accepts no more; the caller holds the lock."""
        while self._kept and self._is_ready(0):
            parts = self._next_parts()
            chunk = b"".join(parts)
            self._kept_bytes -= len(chunk)
            try:
                written = os.write(self._stream, chunk)
            except BlockingIOError:
                written = 0  # Another process has made the stream non-blocking.
            except OSError:
                # The reader has ended, or the disk is full; the error cannot be reported elsewhere.
                self._left_out += sum(part.endswith(b"\n") for part in parts)
                continue
            if written < len(chunk):
                self._kept.appendleft(chunk[written:])
                self._kept_bytes += len(chunk) - written
                return
            if not self._kept:
                self._keep_left_out()

    def _next_parts(self) -> list[bytes]:
        """Remove and return the first kept parts, as many as a pipe accepts whole."""
        parts = [self._kept.popleft()]
        length = len(parts[0])
        while self._kept and length + len(self._kept[0]) <= select.PIPE_BUF:
            length += len(self._kept[0])
            parts.append(self._kept.popleft())
        return parts

    def _write_later(self) -> None:
        """Write kept lines a moment after each call of ``_ask_writer``, until the log is closed."""
        while not self._is_closing.is_set():
            self._is_asked.wait()
            self._is_closing.wait(GATHER_S)
            self._is_asked.clear()
            self._write_all()

    def _write_all(self) -> None:
        """Write kept lines as soon as the stream accepts them, until none is left."""
        while True:
            self._is_ready(_LOOK_MS)
            self.acquire()
            try:
                self._write_kept()
                if not self._kept:
                    return
            finally:
                self.release()

    def _is_ready(self, wait_ms: int) -> bool:
        looking = select.poll()
        looking.register(self._stream, select.POLLOUT)
        return bool(looking.poll(wait_ms))


def _is_of_request(record: logging.LogRecord) -> bool:
    """Return whether ``record`` is the normal line of an answered request."""
    return isinstance(getattr(record, "handled", None), Handled) and (
        record.levelno < logging.WARNING
    )
