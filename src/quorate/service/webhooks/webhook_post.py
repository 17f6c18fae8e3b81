"""One POST to a receiver: its status, or the error; never longer than its time limit."""

from __future__ import annotations

import http.client
import re
import socket
import ssl
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from threading import Event, Lock, Timer
from typing import Any, BinaryIO, Final
from urllib.parse import urlsplit

_GONE: Final = 410
_BUSY: Final = frozenset({408, 425, 429})
"""Statuses of a receiver that has no time now, whatever it was sent."""
_AGENT: Final = "quorate-webhooks/1"
CONNECT_PARTS: Final = 3
"""One address of several may take this part of the time: behind it is one that answers, maybe."""
_LINE_BYTES_MAX: Final = 65_536
_STATUS_LINE: Final = re.compile(rb"HTTP/1\.[01] ([1-5][0-9][0-9])( [^\r\n]*)?\r?\n")
_INFORMS: Final = range(100, 200)
_HEAD_LINES_MAX: Final = 1_000

Found = tuple[socket.AddressFamily, socket.SocketKind, int, str, Any]
"""One address of a host, as ``getaddrinfo`` has it."""


def addresses(host: str, port: int) -> Sequence[Found]:
    """Return the addresses of ``host``, the first to be tried first; raises ``OSError``."""
    return socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)


class Result(Enum):
    """The result of a POST."""

    DELIVERED = auto()
    REFUSED = auto()
    """This body is not taken; another may be."""
    UNREACHABLE = auto()
    """Nothing is taken now."""
    GONE = auto()
    """Nothing will be taken any more: the receiver said so."""


@dataclass(frozen=True, slots=True)
class Posted:
    """``why`` is for the log: a status, or the system's error. Nothing of what was sent."""

    result: Result
    why: str = ""


class Poster:
    """Posts to one address, one body at a time, each on a connection of its own.

    Redirects are not followed: where they lead to was not configured. Proxies of the environment
    are not used. ``timeout_s`` is for all of it, however slowly the receiver answers. A whole
    status line is an answer, whatever comes behind it. ``resolve`` finds the host's addresses.
    """

    def __init__(
        self,
        url: str,
        timeout_s: float,
        resolve: Callable[[str, int], Sequence[Found]] = addresses,
    ) -> None:
        parts = urlsplit(url)
        assert parts.hostname is not None, url
        self._host, self._port = parts.hostname, parts.port
        self._target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        self._tls = ssl.create_default_context() if parts.scheme == "https" else None
        self._timeout_s = timeout_s
        self._resolve = resolve
        self._guard = Lock()
        self._open: http.client.HTTPConnection | None = None
        self._is_aborted = False

    def post(self, headers: Mapping[str, str], body: bytes) -> Posted:
        """Return the result of sending ``body``."""
        connection = self._connection()
        with self._guard:
            if self._is_aborted:
                return Posted(Result.UNREACHABLE, "stopping")
            self._open = connection
        late = Event()
        timer = Timer(self._timeout_s, self._cut, (connection, late))
        timer.daemon = True
        timer.start()
        try:
            self._connect(connection, late)
            sent = {"user-agent": _AGENT, "connection": "close", **headers}
            connection.request("POST", self._target, body=body, headers=sent)
            with connection.sock.makefile("rb") as answer:
                return _of_status(_status(answer))
        except TimeoutError:
            return self._late()
        except (OSError, http.client.HTTPException) as error:
            return self._late() if late.is_set() else Posted(Result.UNREACHABLE, _told(error))
        finally:
            timer.cancel()
            with self._guard:
                self._open = None
            connection.close()

    def abort(self) -> None:
        """Cut what is under way, from another thread, and send nothing more."""
        with self._guard:
            self._is_aborted = True
            connection = self._open
        if connection is not None:
            self._cut(connection, Event())

    def _connection(self) -> http.client.HTTPConnection:
        if self._tls is None:
            return http.client.HTTPConnection(self._host, self._port, timeout=self._timeout_s)
        return http.client.HTTPSConnection(
            self._host, self._port, timeout=self._timeout_s, context=self._tls
        )

    def _connect(self, connection: http.client.HTTPConnection, late: Event) -> None:
        """Connect to the first address that takes it; raises ``OSError`` of the last."""
        found = self._resolve(connection.host, connection.port)
        part_s = self._timeout_s if len(found) == 1 else self._timeout_s / CONNECT_PARTS
        trouble: OSError | None = None
        for family, kind, protocol, _, address in found:
            if late.is_set() or self._is_aborted:
                raise TimeoutError
            # Kept first, so that it can be cut while it is connecting.
            connection.sock = reached = socket.socket(family, kind, protocol)
            try:
                reached.settimeout(part_s)
                reached.connect(address)
            except OSError as error:
                reached.close()
                trouble = error
                continue
            reached.settimeout(self._timeout_s)
            reached.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self._tls is not None:
                connection.sock = self._tls.wrap_socket(reached, server_hostname=self._host)
            return
        raise trouble or OSError("the host has no address")

    def _late(self) -> Posted:
        return Posted(Result.UNREACHABLE, f"no answer within {self._timeout_s:g} s")

    @staticmethod
    def _cut(connection: http.client.HTTPConnection, done: Event) -> None:
        done.set()
        found = connection.sock
        if found is not None:
            try:
                found.shutdown(socket.SHUT_RDWR)
            except OSError:
                return  # It has ended by itself meanwhile.


def _status(answer: BinaryIO) -> int:
    """Return the status of the response; raises ``HTTPException`` if it has no whole one."""
    while True:
        line = answer.readline(_LINE_BYTES_MAX)
        if not line:
            raise http.client.RemoteDisconnected("it ended without an answer")
        found = _STATUS_LINE.fullmatch(line)
        if found is None:
            raise http.client.BadStatusLine("what it answers is not HTTP/1.1")
        status = int(found[1])
        if status not in _INFORMS:
            return status
        # After an informational response another one follows.
        for _ in range(_HEAD_LINES_MAX):
            if answer.readline(_LINE_BYTES_MAX) in (b"\r\n", b"\n", b""):
                break


def _of_status(status: int) -> Posted:
    if status in range(200, 300):
        return Posted(Result.DELIVERED)
    if status == _GONE:
        return Posted(Result.GONE, f"status {status}")
    if status in _BUSY or status in range(500, 600):
        return Posted(Result.UNREACHABLE, f"status {status}")
    return Posted(Result.REFUSED, f"status {status}")


def _told(error: Exception) -> str:
    """Return the error on one line."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return type(error).__name__ if isinstance(error, http.client.HTTPException) else str(error)
