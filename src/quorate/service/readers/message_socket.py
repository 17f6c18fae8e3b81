"""Messages over a connected socket, each prefixed with its length, with time limits."""

from __future__ import annotations

import select
import socket
import struct
from time import monotonic
from typing import Final

_LENGTH: Final = struct.Struct("!Q")


class MessageSocket:
    """Sends and receives whole messages; for one thread at a time."""

    def __init__(self, connected: socket.socket) -> None:
        self._socket = connected

    def send(self, data: bytes, within_s: float | None = None) -> None:
        """Send ``data``; raises ``TimeoutError`` if the other side does not receive it in time."""
        self._socket.settimeout(within_s)
        # The time limit applies to the whole message, however many pieces it is sent in.
        self._socket.sendall(_LENGTH.pack(len(data)) + data)

    def receive(self, within_s: float | None = None) -> bytearray:
        """Return the next message; raises ``TimeoutError`` if it is not complete in time.

        Raises ``EOFError`` if the other side has closed the socket.
        """
        end_s = None if within_s is None else monotonic() + within_s
        (length,) = _LENGTH.unpack(self._read(_LENGTH.size, end_s))
        return self._read(length, end_s)

    def wait(self, within_s: float) -> bool:
        """Return whether a message or the end of the stream arrives within ``within_s``."""
        # Not select.select, which supports no descriptor above 1,023.
        poll = select.poll()
        poll.register(self._socket, select.POLLIN)
        return bool(poll.poll(within_s * 1_000))

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()

    def _read(self, length: int, end_s: float | None) -> bytearray:
        found = bytearray(length)
        left = memoryview(found)
        while left:
            if end_s is not None:
                left_s = end_s - monotonic()
                if left_s <= 0:
                    raise TimeoutError("the message was not complete in time")
                self._socket.settimeout(left_s)
            else:
                self._socket.settimeout(None)
            count = self._socket.recv_into(left)
            if not count:
                raise EOFError("the other side has closed the socket")
            left = left[count:]
        return found
