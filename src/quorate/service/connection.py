"""Connections: heads of requests that are too large or too slow never become requests."""

from __future__ import annotations

from asyncio import BaseTransport, TimerHandle, Transport
from typing import Any, cast

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from quorate.operations.statuses import UNAVAILABLE, USAGE
from quorate.service.guard import extension
from quorate.service.problems import problem, problem_of


class GuardedProtocol(HttpToolsProtocol):
    """HTTP/1.1, with limits on how long and how large the head of a request may be."""

    header_bytes_max = 32 * 1024
    slow_s_max = 30.0
    connections_max = 8_000

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self._head_bytes = 0
        self._heads = 0
        self._is_in_head = True
        self._timer: TimerHandle | None = None

    def connection_made(self, transport: BaseTransport) -> None:
        """Wait for a head, unless there are too many connections."""
        super().connection_made(cast("Transport", transport))
        if len(self.connections) > self.connections_max:
            self._refuse(
                UNAVAILABLE, f"{self.connections_max} connections are open; come back later"
            )
            return
        self._begin_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait for nothing more."""
        self._stop_timer()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Read on, if the head is not too large already."""
        if self.transport.is_closing():
            return
        if self._is_in_head and self._timer is None:
            self._begin_head()
        was_in_head, heads = self._is_in_head, self._heads
        super().data_received(data)
        # Where a whole request came with it, this is not the head that went on.
        is_same = self._is_in_head and was_in_head and self._heads == heads
        if is_same and not self.transport.is_closing():
            self._head_bytes += len(data)
            if self._head_bytes > self.header_bytes_max:
                self._refuse("headers-too-large", "the headers are too large; send fewer")

    def on_message_begin(self) -> None:
        """Let whoever answers cut the connection off."""
        super().on_message_begin()
        self.scope["extensions"] = extension(self.transport.abort, self._farewell)

    def on_headers_complete(self) -> None:
        """Stop waiting: the head is there."""
        self._is_in_head = False
        self._heads += 1
        self._stop_timer()
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        """Wait for the next head, from its first byte on."""
        self._is_in_head = True
        self._head_bytes = 0
        super().on_message_complete()

    def send_400_response(self, msg: str) -> None:
        """Refuse what is not HTTP."""
        self._refuse(USAGE, f"this is not HTTP/1.1 as it is read here: {msg.lower()}")

    def _farewell(self, last: bytes) -> None:
        """End the answer under way with ``last``, which is read by whoever reads again soon."""
        if self.transport.is_closing() or self.cycle.response_complete:
            return
        self.transport.write(b"%x\r\n%s\r\n0\r\n\r\n" % (len(last), last))
        self.cycle.response_complete = True
        self.transport.close()
        self.loop.call_later(self.slow_s_max, self.transport.abort)

    def _begin_head(self) -> None:
        self._head_bytes = 0
        self._timer = self.loop.call_later(self.slow_s_max, self._too_slow)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _too_slow(self) -> None:
        self._timer = None
        self._refuse("too-slow", "the request came too slowly; send it faster")

    def _refuse(self, code: str, text: str) -> None:
        """Say why nothing is read any more, and close the connection."""
        self._stop_timer()
        found = problem_of(problem(code, text), "")
        heads = b"".join(b"%s: %s\r\n" % each for each in found.headers)
        self.transport.write(
            STATUS_LINE[found.status]
            + heads
            + b"content-length: %d\r\nconnection: close\r\n\r\n" % len(found.body)
            + found.body
        )
        self.transport.close()
        # A client that does not read this either must not keep the connection.
        self.loop.call_later(self.slow_s_max, self.transport.abort)
