"""Connections: rejects request heads that are too large or too slow."""

from __future__ import annotations

from asyncio import BaseTransport, TimerHandle, Transport
from collections.abc import Callable
from typing import Any, cast

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from quorate.service.http.accepting import Connections
from quorate.service.http.request_guard import COMING, extension
from quorate.service.http.shedding import Shedding
from quorate.service.problem_json import problem, problem_of
from quorate.views.statuses import UNAVAILABLE, USAGE


class GuardedProtocol(HttpToolsProtocol):
    """HTTP/1.1, with limits on the time and size of the head of a request."""

    header_bytes_max = 32 * 1024
    slow_s_max = 30.0
    shedding: Shedding | None = None

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self._head_bytes = 0
        self._heads = 0
        self._is_in_head = True
        # Whether the parser has read the beginning of a request that is not complete yet.
        self._has_begun = False
        self._timer: TimerHandle | None = None
        self.counted: Connections | None = None
        # The response to a rejected request, kept until the whole request has arrived.
        self._shed_answer: bytes | None = None
        # A request that has arrived counts until it is processed; this function ends the count.
        self._coming_over: Callable[[], None] | None = None

    def connection_made(self, transport: BaseTransport) -> None:
        """Wait for a head, unless there are too many connections."""
        super().connection_made(cast("Transport", transport))
        if self.counted is not None and self.counted.is_over:
            self._refuse(
                UNAVAILABLE,
                f"{self.counted.most} connections are open, which is the limit; try again later",
            )
            return
        self._begin_head()
        self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the timer, and stop counting the connection."""
        self._stop_timer()
        self._end_coming()
        if self.counted is not None:
            self.counted.lost(self)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Parse ``data``; refuse the request if its head is too large."""
        if self.transport.is_closing() or self._has_rejected(data):
            return
        if self._is_in_head and self._timer is None:
            self._begin_head()
        was_in_head, heads = self._is_in_head, self._heads
        super().data_received(data)
        # If a head ended in ``data``, only a part of ``data`` belongs to a head: do not count it.
        is_same = self._is_in_head and was_in_head and self._heads == heads
        if is_same and not self.transport.is_closing():
            self._head_bytes += len(data)
            if self._head_bytes > self.header_bytes_max:
                self._refuse("headers-too-large", "the headers are too large; send fewer")

    def on_message_begin(self) -> None:
        """Give the application a way to abort the connection."""
        super().on_message_begin()
        self._has_begun = True
        # A rejected request's timer must not abort the request that follows it.
        self._unset_keepalive_if_required()
        self.scope["extensions"] = extension(self.transport.abort, self._farewell)

    def on_headers_complete(self) -> None:
        """Stop the timer of the head, and decide whether to reject the request unread."""
        self._is_in_head = False
        self._heads += 1
        self._stop_timer()
        if self.counted is not None:
            self.counted.busy(self)
        cycle: Any = self.cycle
        is_first = cycle is None or cycle.response_complete
        if is_first and self.shedding is not None:
            method = self.parser.get_method()
            self._shed_answer = self.shedding.answer_to(method, self.url, self.headers)
            if self._shed_answer is not None:
                self._timer = self.loop.call_later(self.slow_s_max, self._too_slow)
                return
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Pass the body on, unless the request is rejected."""
        if self._shed_answer is None:
            super().on_body(body)

    def on_message_complete(self) -> None:
        """Wait for the next head; its time limit starts with its first byte."""
        self._is_in_head, self._has_begun = True, False
        self._head_bytes = 0
        answer, self._shed_answer = self._shed_answer, None
        if answer is None:
            self._count_coming()
            super().on_message_complete()
            return
        self._stop_timer()
        self._reject(answer)
        if not self.parser.should_keep_alive():
            self.transport.close()

    def on_response_complete(self) -> None:
        """Count the connection as idle, unless the next request has already arrived."""
        self._end_coming()
        super().on_response_complete()
        if self.cycle.response_complete:
            self._wait()

    def send_400_response(self, msg: str) -> None:
        """Refuse a request that is not HTTP."""
        self._refuse(USAGE, f"this is not valid HTTP/1.1: {msg.lower()}")

    def _unsupported_upgrade_warning(self) -> None:
        """Answer an upgrade request like any other, and close the connection after it.

        The parser does not read the bytes after an upgrade request, so a client would take a later
        response for the answer to those bytes.
        """
        cycle: Any = self.cycle
        if cycle is None or cycle.response_complete:
            self.transport.close()
        else:
            cycle.keep_alive = False

    def _farewell(self, last: bytes) -> None:
        """End the response with the bytes ``last``; a client has ``slow_s_max`` to read them."""
        if self.transport.is_closing() or self.cycle.response_complete:
            return
        self.transport.write(b"%x\r\n%s\r\n0\r\n\r\n" % (len(last), last))
        self.cycle.response_complete = True
        self.transport.close()
        self.loop.call_later(self.slow_s_max, self.transport.abort)

    def _wait(self) -> None:
        """Count the connection as idle: it may be closed to make room for others."""
        if self.counted is not None and not self.transport.is_closing():
            self.counted.idle(self, self.transport.abort)

    def _has_rejected(self, data: bytes) -> bool:
        """While requests are rejected, reject ``data`` unparsed if it is one whole request.

        Return whether ``data`` was rejected.
        """
        cycle: Any = self.cycle
        if self.shedding is None or self._has_begun or not self.shedding.is_full:
            return False
        if cycle is not None and not cycle.response_complete:
            return False
        answer = self.shedding.answer_to_whole(data)
        if answer is None:
            return False
        self._stop_timer()
        self._unset_keepalive_if_required()
        if self.counted is not None:
            self.counted.busy(self)
        self._reject(answer)
        self.shedding.rests.rejected(self.loop)
        return True

    def _reject(self, answer: bytes) -> None:
        """Send the response to a rejected request, and wait a while for the next one.

        A client that sends more requests and does not read the responses is disconnected, because
        the responses would fill the memory.
        """
        if self.flow.write_paused:
            self.transport.abort()
            return
        self.transport.write(answer)
        self.timeout_keep_alive_task = self.loop.call_later(
            self.timeout_keep_alive, self.timeout_keep_alive_handler
        )
        self._wait()

    def _count_coming(self) -> None:
        """Count a request that has fully arrived, unless it waits behind another request."""
        if self.shedding is None or self._coming_over is not None or self.pipeline:
            return
        if self.shedding.is_for_ledger(self.parser.get_method(), self.url):
            self._coming_over = self.shedding.coming(self.headers)
            self.scope["extensions"][COMING] = {"over": self._coming_over}

    def _end_coming(self) -> None:
        if self._coming_over is not None:
            self._coming_over()
            self._coming_over = None

    def _begin_head(self) -> None:
        self._head_bytes = 0
        self._timer = self.loop.call_later(self.slow_s_max, self._too_slow)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _too_slow(self) -> None:
        self._timer = None
        self._refuse("too-slow", "the request arrived too slowly; send it faster")

    def _refuse(self, code: str, text: str) -> None:
        """Send the reason why the connection is closed, and close it."""
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
        # If the client does not read this response, the connection is closed all the same.
        self.loop.call_later(self.slow_s_max, self.transport.abort)
