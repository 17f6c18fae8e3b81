"""The service's side of the server from which reader processes are forked.

The server is a separate program. The server imports only the modules that readers need, and never
the module that the service was started from. All services in one process share a server. The server
starts with the first reader, and ends when this process ends for any reason (``reader_main.py``).
"""

from __future__ import annotations

import atexit
import logging
import os
import socket
import struct
import subprocess
import sys
from itertools import count
from threading import Lock
from typing import Final

_LOG = logging.getLogger(__name__)

ORDER: Final = struct.Struct("!cQ")
"""A message to the server: an order, and the number of the reader."""
START: Final = b"S"
"""Fork a reader; its end of a socket is sent with the order."""
END: Final = b"E"
"""Kill a reader, if it has not ended."""
ORDER_S_MAX: Final = 10.0
"""How long the server may take to accept an order; a slower server is ended."""
_MODULE: Final = "quorate.service.readers.reader_main"
_PROGRAM: Final = "import sys; sys.path[:] = {path!r}; from {module} import main; main()"


class ReaderServer:
    """Starts and ends readers; safe for several threads."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._numbers = count(1)
        self._started: tuple[subprocess.Popen[bytes], socket.socket] | None = None

    def start(self) -> tuple[int, socket.socket]:
        """Start a reader; return its number and the socket at which it answers.

        If the reader cannot be forked, the socket only gives end-of-file. Raises ``OSError`` if no
        server runs and no server can be started.
        """
        ours, theirs = socket.socketpair()
        try:
            with theirs, self._lock:
                number = next(self._numbers)
                control = self._running()
                try:
                    socket.send_fds(control, [ORDER.pack(START, number)], [theirs.fileno()])
                except OSError:
                    self._stop()
                    raise
        except BaseException:
            ours.close()
            raise
        return number, ours

    def end(self, number: int) -> None:
        """Order the server to kill the reader ``number``; return before the reader has ended."""
        with self._lock:
            if self._started is None:
                return
            try:
                self._started[1].sendall(ORDER.pack(END, number))
            except OSError as error:
                # The readers end with the server.
                _LOG.warning("the server of readers accepts no orders, and is ended: %r", error)
                self._stop()

    def close(self) -> None:
        """End the server and all of its readers."""
        with self._lock:
            self._stop()

    def leave_to_parent(self) -> None:
        """Release the server in a forked child: the server belongs to the parent.

        The lock is replaced, because it may be held by a thread that does not exist in the child.
        """
        self._lock = Lock()
        started, self._started = self._started, None
        if started is not None:
            process, control = started
            # The server ends when the last copy of its socket is closed.
            control.close()
            process.returncode = 0

    def _running(self) -> socket.socket:
        """Return the socket of a running server."""
        if self._started is not None and self._started[0].poll() is not None:
            _LOG.warning("the server of readers ended with %s", self._started[0].returncode)
            self._stop()
        if self._started is None:
            ours, theirs = socket.socketpair()
            ours.settimeout(ORDER_S_MAX)
            with theirs:
                # The server gets the ``sys.path`` of this process. With -P, Python does not put a
                # folder before it.
                program = _PROGRAM.format(path=sys.path, module=_MODULE)
                words = [sys.executable, "-P", "-c", program]
                try:
                    process = subprocess.Popen(words, stdin=theirs.fileno())  # noqa: S603 - our own
                except BaseException:
                    ours.close()
                    raise
            self._started = process, ours
        return self._started[1]

    def _stop(self) -> None:
        started, self._started = self._started, None
        if started is not None:
            process, control = started
            control.close()
            process.kill()
            process.wait()


READER_SERVER: Final = ReaderServer()
"""The server of this process."""

atexit.register(READER_SERVER.close)
os.register_at_fork(after_in_child=READER_SERVER.leave_to_parent)
