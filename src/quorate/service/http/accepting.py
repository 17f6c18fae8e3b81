"""Counts connections from when they are accepted: before TLS, and before authentication.

At the limit of open connections, the connection that has been idle longest is closed. A connection
is idle until it has sent a complete request head, and between two requests. The client of a closed
connection reconnects, as after any close of a kept-alive connection. A limit per address works in
the same way.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
import ssl
from collections import Counter, OrderedDict
from collections.abc import Callable
from contextlib import suppress
from time import monotonic
from typing import Any, Final

_LOG = logging.getLogger(__name__)

IDLE_S_MIN: Final = 1.0
"""How long a connection must be idle before it may be closed to admit another connection."""
REFUSED_MAX: Final = 64
"""How many connections above the limit may be open to get a refusal; others get no response."""
FULL_S: Final = 0.1
"""The pause before the next accept while the system has no descriptors left."""
_NO_DESCRIPTOR: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})


class Connections:
    """The open connections, and since when each is idle; for the event loop only.

    One address may have ``of_address_max`` connections; None means no limit.
    """

    def __init__(
        self,
        most: int,
        now_s: Callable[[], float] = monotonic,
        *,
        of_address_max: int | None = None,
    ) -> None:
        self.most = most
        self._now_s = now_s
        self._of_address_max = of_address_max
        self._open = 0
        self._address_of: dict[object, str] = {}
        self._of_address: Counter[str] = Counter()
        self._leaving: set[object] = set()
        # Oldest first.
        self._idle: OrderedDict[object, tuple[float, Callable[[], None]]] = OrderedDict()

    @property
    def open(self) -> int:
        """The number of open connections, including refused connections."""
        return self._open

    @property
    def is_over(self) -> bool:
        """Whether the limit is exceeded."""
        return self._open > self.most

    @property
    def trouble(self) -> str:
        """Why no connection is accepted; empty while connections are accepted."""
        if self._open < self.most or self._is_one_idle():
            return ""
        return f"{self._open} connections are open, the limit is {self.most}"

    def opened(self) -> None:
        """Count a new connection; above the limit, close the connection idle for longest."""
        self._open += 1
        if self._open > self.most and self._is_one_idle():
            self._close(next(iter(self._idle)))

    def begin(self, connection: object, address: str) -> bool:
        """Count an open ``connection`` for ``address``; return False if the address has too many.

        If the address is at its limit, that connection of the address that has been idle longest is
        closed to admit the new connection.
        """
        most = self._of_address_max
        if most is None:
            return True
        if self._of_address[address] >= most:
            own = (each for each in self._idle if self._address_of.get(each) == address)
            oldest = next(own, None)
            if oldest is None or not self._is_idle(oldest):
                return False
            self._close(oldest)
        self._address_of[connection] = address
        self._of_address[address] += 1
        return True

    def _close(self, connection: object) -> None:
        """Close an idle connection immediately, and stop counting it."""
        _, make_room = self._idle.pop(connection)
        self._leaving.add(connection)
        self._open -= 1
        self._leave_address(connection)
        make_room()

    def _leave_address(self, connection: object) -> None:
        address = self._address_of.pop(connection, None)
        if address is not None:
            self._of_address[address] -= 1
            if not self._of_address[address]:
                del self._of_address[address]

    def lost(self, connection: object) -> None:
        """Stop counting ``connection``, which is closed."""
        if connection in self._leaving:
            self._leaving.discard(connection)
        else:
            self._open -= 1
        self._leave_address(connection)
        self._idle.pop(connection, None)

    def idle(self, connection: object, make_room: Callable[[], None]) -> None:
        """Record that ``connection`` waits for a request; no effect if it waits already."""
        if connection not in self._leaving:
            self._idle.setdefault(connection, (self._now_s(), make_room))

    def busy(self, connection: object) -> None:
        """Record that ``connection`` has sent the head of a request."""
        self._idle.pop(connection, None)

    def _is_one_idle(self) -> bool:
        return bool(self._idle) and self._is_idle(next(iter(self._idle)))

    def _is_idle(self, connection: object) -> bool:
        """Return whether ``connection`` has been idle long enough to be closed for another."""
        since_s, _ = self._idle[connection]
        return self._now_s() - since_s >= IDLE_S_MIN


class Acceptor:
    """Accepts connections at ``listening`` until ``close``, as a server of asyncio does."""

    def __init__(
        self,
        listening: socket.socket,
        create: Callable[[], Any],
        connections: Connections,
        *,
        tls: ssl.SSLContext | None,
        handshake_s_max: float,
    ) -> None:
        self._listening = listening
        self._create = create
        self._connections = connections
        self._tls = tls
        self._handshake_s_max = handshake_s_max
        self._beginning: set[asyncio.Task[None]] = set()
        self._accepting = asyncio.ensure_future(self._accept())

    def close(self) -> None:
        """Accept no more connections."""
        self._accepting.cancel()

    async def wait_closed(self) -> None:
        """Cancel the handshakes under way, and wait until they have ended."""
        for task in self._beginning:
            task.cancel()
        await asyncio.gather(self._accepting, *self._beginning, return_exceptions=True)

    async def _accept(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                accepted, peer = await loop.sock_accept(self._listening)
            except OSError as error:
                # The client has disconnected, or no descriptor is left: the service continues in
                # both cases.
                if error.errno in _NO_DESCRIPTOR:
                    _LOG.error("no connection can be accepted: %s", error)
                    await asyncio.sleep(FULL_S)
                continue
            self._connections.opened()
            beyond = self._connections.open - self._connections.most
            is_over = beyond > (0 if self._tls else REFUSED_MAX)
            protocol = None if is_over else self._create()
            if protocol is None or not self._connections.begin(protocol, str(peer[0])):
                accepted.close()
                self._connections.lost(accepted)
                continue
            task = asyncio.create_task(self._begin(accepted, protocol))
            self._beginning.add(task)
            task.add_done_callback(self._beginning.discard)

    async def _begin(self, accepted: socket.socket, protocol: Any) -> None:
        """Start to serve a connection, which counts as idle until its handshake is done."""
        loop = asyncio.get_running_loop()
        protocol.counted = self._connections
        timeout_s = None
        if self._tls is not None:
            timeout_s = self._handshake_s_max
            self._connections.idle(protocol, lambda: _hang_up(accepted))
        accepted.setblocking(False)  # noqa: FBT003 - the API of sockets
        try:
            await loop.connect_accepted_socket(
                lambda: protocol, accepted, ssl=self._tls, ssl_handshake_timeout=timeout_s
            )
        except OSError:
            # The handshake failed, took too long, or was closed for another connection. If the
            # protocol was never connected, its ``connection_lost`` is not called.
            if protocol.transport is None:
                self._connections.lost(protocol)


def _hang_up(accepted: socket.socket) -> None:
    """Close a connection during its handshake, which then fails."""
    with suppress(OSError):
        accepted.shutdown(socket.SHUT_RDWR)
