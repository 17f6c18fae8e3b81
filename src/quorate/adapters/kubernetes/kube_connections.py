"""Connections to one API server: kept open between requests, each used by one thread at a time.

A request on a kept connection takes a quarter of the CPU time of a request by a general HTTP
client. A run with pods and custom resources needs more than twenty requests (docs/adr/0041).
"""

from __future__ import annotations

import select
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from threading import Lock
from typing import Final
from urllib.parse import urlsplit

from quorate.adapters.kubernetes.cluster_access import ClusterAccess
from quorate.ports.errors import ClusterDownError

IDLE_MAX: Final = 32
"""The most idle connections that stay open."""


class KubeConnections:
    """Connections to the API server of ``access``; safe for several threads.

    ``close`` ends the connections of watches, which wait for the server. Other connections are
    closed when their threads return them.
    """

    def __init__(self, access: ClusterAccess) -> None:
        parts = urlsplit(access.server)
        self._server = access.server
        self._host, self._port = parts.hostname or "", parts.port
        self._trust = access.trust
        self.prefix = parts.path.rstrip("/")
        self._lock = Lock()
        self._idle: list[HTTPConnection] = []
        self._watching: dict[HTTPConnection, socket.socket] = {}
        self._is_closed = False

    def close(self) -> None:
        """Close idle connections, end watches, and lend no more connections."""
        with self._lock:
            self._is_closed = True
            idle, self._idle = self._idle, []
            watching = list(self._watching.values())
        for connection in idle:
            connection.close()
        for own in watching:
            with suppress(OSError):
                own.shutdown(socket.SHUT_RDWR)

    @contextmanager
    def lent(self, timeout_s: float, *, is_watch: bool = False) -> Iterator[HTTPConnection]:
        """Lend a connection whose reads wait ``timeout_s`` at most.

        The connection of a watch is already connected, and is not reused.

        Raises ``ClusterDownError`` if the server cannot be reached or does not answer.
        """
        connection = self._taken(timeout_s)
        is_whole = False
        try:
            if is_watch:
                self._begin_watch(connection)
            yield connection
            is_whole = True
        except (OSError, HTTPException) as error:
            raise ClusterDownError(
                f"{self._server} does not answer: {type(error).__name__} {error}"
            ) from None
        finally:
            self._give_back(connection, is_kept=is_whole and not is_watch)

    def _taken(self, timeout_s: float) -> HTTPConnection:
        while True:
            with self._lock:
                if self._is_closed:
                    raise ClusterDownError("the connection is closed")
                found = self._idle.pop() if self._idle else None
            if found is None:
                return self._made(timeout_s)
            if not _has_ended(found):
                found.timeout = timeout_s
                found.sock.settimeout(timeout_s)
                return found
            found.close()

    def _made(self, timeout_s: float) -> HTTPConnection:
        if self._server.startswith("http://"):
            return HTTPConnection(self._host, self._port, timeout=timeout_s)
        return HTTPSConnection(self._host, self._port, timeout=timeout_s, context=self._trust)

    def _begin_watch(self, connection: HTTPConnection) -> None:
        """Connect, and remember the socket, so that ``close`` can end the watch."""
        if connection.sock is None:
            connection.connect()
        with self._lock:
            if self._is_closed:
                raise ClusterDownError("the connection is closed")
            self._watching[connection] = connection.sock

    def _give_back(self, connection: HTTPConnection, *, is_kept: bool) -> None:
        with self._lock:
            self._watching.pop(connection, None)
            is_kept = is_kept and connection.sock is not None and not self._is_closed
            is_kept = is_kept and len(self._idle) < IDLE_MAX
            if is_kept:
                self._idle.append(connection)
        if not is_kept:
            connection.close()


def _has_ended(connection: HTTPConnection) -> bool:
    """Return whether the server has closed an idle connection, which then becomes readable."""
    if connection.sock is None:
        return True
    poll = select.poll()
    poll.register(connection.sock, select.POLLIN)
    return bool(poll.poll(0))
