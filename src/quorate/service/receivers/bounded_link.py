"""Connections to one host, one at a time, each with a limit on its total time."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from ssl import SSLContext
from threading import Lock, Timer
from typing import Any, Final

CONNECT_PARTS: Final = 3
"""If a host has several addresses, one address may take 1/CONNECT_PARTS of the time.

Then the next address is tried.
"""

Found = tuple[socket.AddressFamily, socket.SocketKind, int, str, Any]
"""One address of a host, as ``getaddrinfo`` returns it."""


def addresses(host: str, port: int) -> Sequence[Found]:
    """Return the addresses of ``host``, in the order to try them; raises ``OSError``."""
    return socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)


class BoundedLink:
    """Opens connections that end after ``timeout_s``, however slowly the other side answers.

    ``resolve`` returns the host's addresses.
    """

    def __init__(
        self,
        host: str,
        port: int,
        timeout_s: float,
        resolve: Callable[[str, int], Sequence[Found]] = addresses,
    ) -> None:
        self.host = host
        self.port = port
        self.timeout_s = timeout_s
        self._resolve = resolve
        self._guard = Lock()
        self._socket: socket.socket | None = None
        self._is_late = False
        self._is_aborted = False

    @property
    def is_late(self) -> bool:
        """Whether the connection was closed because its time was over."""
        return self._is_late

    @property
    def late_words(self) -> str:
        """The error text for a connection that was closed because of its time limit."""
        return "stopping" if self._is_aborted else f"no answer within {self.timeout_s:g} s"

    @contextmanager
    def bounded(self) -> Iterator[None]:
        """Limit the time of the ``with`` body, and close the connection afterwards."""
        self._is_late = False
        timer = Timer(self.timeout_s, self._cut_late)
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()
            with self._guard:
                reached, self._socket = self._socket, None
            if reached is not None:
                reached.close()

    def connect(self) -> socket.socket:
        """Return a connection to the first address that accepts it; raises the last ``OSError``.

        Raises ``TimeoutError`` if the time is over, or the link was aborted.
        """
        found = self._resolve(self.host, self.port)
        part_s = self.timeout_s if len(found) == 1 else self.timeout_s / CONNECT_PARTS
        trouble: OSError | None = None
        for family, kind, protocol, _, address in found:
            reached = self._held(socket.socket(family, kind, protocol))
            try:
                reached.settimeout(part_s)
                reached.connect(address)
            except OSError as error:
                reached.close()
                trouble = error
                continue
            reached.settimeout(self.timeout_s)
            reached.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return reached
        raise trouble or OSError("the host has no address")

    def secured(self, reached: socket.socket, context: SSLContext) -> socket.socket:
        """Return the connection with TLS over it; raises ``OSError``."""
        # The connection is stored before the handshake, so that it can be closed meanwhile.
        wrapped = context.wrap_socket(
            reached, server_hostname=self.host, do_handshake_on_connect=False
        )
        self._held(wrapped)
        wrapped.do_handshake()
        return wrapped

    def abort(self) -> None:
        """Close the connection under way, from another thread, and connect no more."""
        with self._guard:
            self._is_aborted = True
            reached = self._socket
        _shut(reached)

    def _held(self, reached: socket.socket) -> socket.socket:
        """Store a connection, so that it can be closed while it is connecting; return it."""
        with self._guard:
            if not self._is_late and not self._is_aborted:
                self._socket = reached
                return reached
        reached.close()
        raise TimeoutError

    def _cut_late(self) -> None:
        with self._guard:
            self._is_late = True
            reached = self._socket
        _shut(reached)


def _shut(reached: socket.socket | None) -> None:
    if reached is not None:
        try:
            reached.shutdown(socket.SHUT_RDWR)
        except OSError:
            return  # The connection has ended meanwhile, or is not made yet.
