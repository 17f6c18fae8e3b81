"""Sends requests over one plain connection, for a command that sends one request.

Importing httpx takes longer than the service takes to respond. Only httpx supports proxies.
"""

from __future__ import annotations

import os
import select
from collections.abc import Mapping
from typing import Final
from urllib.parse import quote, urlencode, urlsplit

from quorate.client import transport_errors
from quorate.client.errors import QuorateClientError
from quorate.client.failover import runner_of
from quorate.client.http_exchange import Exchange, NotHttpError, Response
from quorate.client.service_address import Place
from quorate.client.sync_runner import (
    STREAM_SILENCE_S_MAX,
    TIMEOUT_S,
    Opened,
    SyncRunner,
    own_headers,
)
from quorate.client.wire import Reply, Request

_PROXIES: Final = ("http_proxy", "https_proxy", "all_proxy")


def driver_for(
    place: Place, *, timeout_s: float, environ: Mapping[str, str] = os.environ
) -> SyncRunner:
    """Return the driver for ``place``; the httpx driver if the environment names a proxy."""
    if any(environ.get(name) or environ.get(name.upper()) for name in _PROXIES):
        from quorate.client.drivers import Driver  # noqa: PLC0415 - what this module spares others

        return runner_of(place, lambda each: Driver(each, timeout_s=timeout_s))
    return runner_of(place, lambda each: PlainDriver(each, timeout_s=timeout_s))


class PlainDriver(SyncRunner):
    """A driver with one connection, which stays open until the service closes it."""

    def __init__(self, place: Place, *, timeout_s: float = TIMEOUT_S) -> None:
        parts = urlsplit(place.server)
        assert parts.hostname is not None, place
        self._server = place.server
        self._base = quote(parts.path, safe="/%:@!$&'()*+,;=~")
        self._headers = own_headers(place)
        self._timeout_s = timeout_s
        self._waited_s = timeout_s
        self._is_connected = False
        tls = place.tls() if place.is_tls else None
        self._http = Exchange(parts.hostname, parts.port, tls=tls, timeout_s=timeout_s)

    def close(self) -> None:
        """Close the connection."""
        self._http.close()

    def send(self, request: Request) -> Reply:
        """Return the complete response to ``request``."""
        response = self._asked(request, self._timeout_s)
        return _reply(response, b"".join(response.body))

    def open(self, request: Request, opened: Opened) -> Reply:
        """Return the status and the headers of the response; ``opened`` then gives its body."""
        response = self._asked(request, STREAM_SILENCE_S_MAX)
        opened.chunks, opened.shut = response.body, self.close
        opened.is_ready = self._http.is_ready
        found = _reply(response, b"")
        return found if found.is_ok else _reply(response, b"".join(response.body))

    def fault_of(self, error: Exception) -> QuorateClientError | None:
        """Return the client error for ``error``; None if the request did not cause ``error``."""
        if not isinstance(error, OSError | NotHttpError):
            return None
        self.close()
        untrusted = transport_errors.untrusted(error, self._server)
        if untrusted is not None:
            return untrusted
        is_late = isinstance(error, TimeoutError)
        if not self._is_connected:
            return transport_errors.unconnected(error, self._server, is_late=is_late)
        if is_late:
            return transport_errors.unanswered(self._server, self._waited_s)
        return transport_errors.cut_off(error, self._server)

    def _asked(self, request: Request, silence_s: float) -> Response:
        """Return the response to ``request``; its status and headers have been read."""
        if self._http.sock is not None and select.select([self._http.sock], [], [], 0)[0]:
            self.close()  # There is something to read, so the service has closed the connection.
        if self._http.sock is None:
            self._is_connected = False
            self._http.connect()
        self._is_connected = True
        self._http.wait_at_most(silence_s)
        self._waited_s = silence_s
        path = self._base + request.path
        if request.query:
            path += "?" + urlencode(request.query, quote_via=quote)
        headers = {**self._headers, **request.headers}
        return self._http.ask(request.method, path, headers, request.body)


def _reply(response: Response, body: bytes) -> Reply:
    return Reply(status=response.status, headers=response.headers, body=body)
