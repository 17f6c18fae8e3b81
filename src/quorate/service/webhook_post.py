"""One POST to a receiver: its status, or what was in the way; never longer than it may take."""

from __future__ import annotations

import http.client
import socket
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, auto
from threading import Event, Lock, Timer
from typing import Final
from urllib.parse import urlsplit

_GONE: Final = 410
_BUSY: Final = frozenset({408, 425, 429})
"""Statuses of a receiver that has no time now, whatever it was sent."""
_AGENT: Final = "quorate-webhooks/1"


class Result(Enum):
    """What came of a POST."""

    DELIVERED = auto()
    REFUSED = auto()
    """This body is not taken; another may be."""
    UNREACHABLE = auto()
    """Nothing is taken now."""
    GONE = auto()
    """Nothing will be taken any more: the receiver said so."""


@dataclass(frozen=True, slots=True)
class Posted:
    """``why`` is for the log: a status, or what the system said. Nothing of what was sent."""

    result: Result
    why: str = ""


class Poster:
    """Posts to one address, one body at a time, each on a connection of its own.

    Redirects are not followed: where they lead to was not configured. Proxies of the environment
    are not used. ``timeout_s`` is for all of it, however slowly the receiver answers.
    """

    def __init__(self, url: str, timeout_s: float) -> None:
        parts = urlsplit(url)
        assert parts.hostname is not None, url
        self._host, self._port = parts.hostname, parts.port
        self._target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        self._tls = ssl.create_default_context() if parts.scheme == "https" else None
        self._timeout_s = timeout_s
        self._guard = Lock()
        self._open: http.client.HTTPConnection | None = None
        self._is_aborted = False

    def post(self, headers: Mapping[str, str], body: bytes) -> Posted:
        """Return what came of sending ``body``."""
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
            sent = {"user-agent": _AGENT, "connection": "close", **headers}
            connection.request("POST", self._target, body=body, headers=sent)
            status = connection.getresponse().status
            # What was cut by the timer looks as if the other side had ended its answer there.
            return self._late() if late.is_set() else _of_status(status)
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


def _of_status(status: int) -> Posted:
    if status in range(200, 300):
        return Posted(Result.DELIVERED)
    if status == _GONE:
        return Posted(Result.GONE, f"status {status}")
    if status in _BUSY or status in range(500, 600):
        return Posted(Result.UNREACHABLE, f"status {status}")
    return Posted(Result.REFUSED, f"status {status}")


def _told(error: Exception) -> str:
    """Return what went wrong on one line."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return type(error).__name__ if isinstance(error, http.client.HTTPException) else str(error)
