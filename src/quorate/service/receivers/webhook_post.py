"""Sends one POST to a receiver: returns its status, or the error, within a time limit."""

from __future__ import annotations

import http.client
import re
import ssl
from collections.abc import Callable, Mapping, Sequence
from typing import BinaryIO, Final
from urllib.parse import urlsplit

from quorate.service.receivers.bounded_link import BoundedLink, Found, addresses
from quorate.service.receivers.delivery_result import Posted, Result

_GONE: Final = 410
_BUSY: Final = frozenset({408, 425, 429})
"""Statuses of a receiver that is busy, independent of the notice."""
_AGENT: Final = "quorate-webhooks/1"
_LINE_BYTES_MAX: Final = 65_536
_STATUS_LINE: Final = re.compile(rb"HTTP/1\.[01] ([1-5][0-9][0-9])( [^\r\n]*)?\r?\n")
_INFORMS: Final = range(100, 200)
_HEAD_LINES_MAX: Final = 1_000


class Poster:
    """Posts to one address, one body at a time, each on a separate connection.

    A poster follows no redirects, because the targets of redirects were not configured. A poster
    also ignores proxies that environment variables name. ``timeout_s`` is the limit for the whole
    exchange, however slowly the receiver answers. A complete status line counts as an answer,
    whatever follows it. ``resolve`` returns the host's addresses.
    """

    def __init__(
        self,
        url: str,
        timeout_s: float,
        resolve: Callable[[str, int], Sequence[Found]] = addresses,
    ) -> None:
        parts = urlsplit(url)
        assert parts.hostname is not None, url
        self._tls = ssl.create_default_context() if parts.scheme == "https" else None
        usual = http.client.HTTP_PORT if self._tls is None else http.client.HTTPS_PORT
        self._link = BoundedLink(parts.hostname, parts.port or usual, timeout_s, resolve)
        self._named_port = parts.port
        self._target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")

    def post(self, headers: Mapping[str, str], body: bytes) -> Posted:
        """Send ``body``, and return the result."""
        link = self._link
        try:
            with link.bounded():
                connection = self._connection()
                sent = {"user-agent": _AGENT, "connection": "close", **headers}
                connection.request("POST", self._target, body=body, headers=sent)
                with connection.sock.makefile("rb") as answer:
                    return _of_status(_status(answer))
        except TimeoutError:
            return self._late()
        except (OSError, http.client.HTTPException) as error:
            return self._late() if link.is_late else Posted(Result.UNREACHABLE, _told(error))

    def abort(self) -> None:
        """Close the connection under way, from another thread, and send nothing more."""
        self._link.abort()

    def _connection(self) -> http.client.HTTPConnection:
        """Return an open connection; raises ``OSError``."""
        host, port = self._link.host, self._named_port
        reached = self._link.connect()
        if self._tls is None:
            connection = http.client.HTTPConnection(host, port)
            connection.sock = reached
            return connection
        secure = http.client.HTTPSConnection(host, port, context=self._tls)
        secure.sock = self._link.secured(reached, self._tls)
        return secure

    def _late(self) -> Posted:
        return Posted(Result.UNREACHABLE, self._link.late_words)


def _status(answer: BinaryIO) -> int:
    """Return the status of the response; raises ``HTTPException`` if it is incomplete."""
    while True:
        line = answer.readline(_LINE_BYTES_MAX)
        if not line:
            raise http.client.RemoteDisconnected("the connection ended without an answer")
        found = _STATUS_LINE.fullmatch(line)
        if found is None:
            raise http.client.BadStatusLine("the answer is not HTTP/1.1")
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
