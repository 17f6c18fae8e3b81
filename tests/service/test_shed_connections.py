"""Connections of an overloaded service: answers match their requests, and memory stays bounded."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest
from starlette.types import Receive, Scope, Send
from uvicorn import Config
from uvicorn.server import ServerState

from quorate.operations.caller import Caller, Role
from quorate.service.http.body_reader import AT_ONCE_BYTES
from quorate.service.http.connection import GuardedProtocol
from quorate.service.http.rest import waits_first
from quorate.service.http.shedding import Shedding
from quorate.service.limits.overload_limit import LIMIT_FIRST, Admission
from quorate.service.limits.tenant_shares import OF_ONE_PART
from tests.bounds import until_async
from tests.service.worlds import ALICE

HEAD = (
    b"POST /api/v1/runs HTTP/1.1\r\nHost: q\r\nAuthorization: Bearer qt_id_secret\r\n"
    b"Content-Length: 2\r\n\r\n"
)
WHOLE = HEAD + b"{}"
READ = b"GET /api/v1/runs/%s HTTP/1.1\r\nHost: q\r\n\r\n"


class Wire(asyncio.Transport):
    """The transport of a connection that keeps what is written and sends it nowhere."""

    def __init__(self) -> None:
        super().__init__()
        self.written = b""
        self.is_aborted = False
        self._is_closing = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written += bytes(data)

    def is_closing(self) -> bool:
        return self._is_closing

    def close(self) -> None:
        self._is_closing = True

    def abort(self) -> None:
        self._is_closing = self.is_aborted = True

    def pause_reading(self) -> None:
        """Do nothing: the test sends when it wants."""

    def resume_reading(self) -> None:
        """Do nothing: the test sends when it wants."""

    @property
    def statuses(self) -> list[int]:
        """The statuses of the responses so far, in order."""
        return [int(part[:3]) for part in self.written.split(b"HTTP/1.1 ")[1:]]


class Connection:
    """A protocol of the service with its wire, and an application that returns the path."""

    def __init__(self, admission: Admission, slow_s_max: float = 60.0) -> None:
        class Protocol(GuardedProtocol):
            shedding: Shedding | None = Shedding(admission, {"id": ALICE}.get)

        Protocol.slow_s_max = slow_s_max
        self.go_on = asyncio.Event()
        self.paths: list[str] = []
        self.wire = Wire()
        config = Config(self._app, interface="asgi3", log_config=None, proxy_headers=False)
        self.protocol = Protocol(config, ServerState(), {})
        self.protocol.connection_made(self.wire)

    async def _app(self, scope: Scope, _: Receive, send: Send) -> None:
        self.paths.append(scope["path"])
        await self.go_on.wait()
        head: dict[str, Any] = {"type": "http.response.start", "status": 200}
        await send({**head, "headers": [(b"content-length", b"2")]})
        await send({"type": "http.response.body", "body": b"ok"})

    def send(self, *parts: bytes) -> None:
        """Let each part arrive separately."""
        for part in parts:
            self.protocol.data_received(part)

    async def responses(self, count: int) -> list[int]:
        """Return the statuses when ``count`` responses are there, or the connection is closed."""
        self.go_on.set()
        wire = self.wire
        await until_async(
            lambda: wire.is_closing() or len(wire.statuses) >= count, f"{count} responses"
        )
        return wire.statuses

    def end(self) -> None:
        """Close the connection, which ends all its waits."""
        self.go_on.set()
        self.protocol.connection_lost(None)


@contextmanager
def full() -> Iterator[tuple[Admission, ExitStack]]:
    """Yield an admission without free places, and a stack that releases the places."""
    admission = Admission()
    with ExitStack() as taken:
        for number in range(LIMIT_FIRST):
            tenant = f"t{number % (2 * OF_ONE_PART)}"
            caller = Caller(actor=f"{tenant}/u", role=Role.USER, user="u", tenant=tenant)
            taken.enter_context(admission.taken(caller))
        yield admission, taken


Play = Callable[[Connection, ExitStack], Awaitable[None]]


def played(play: Play, slow_s_max: float = 60.0) -> None:
    """Run ``play`` on one connection of a service without free places."""

    async def run() -> None:
        with full() as (admission, taken):
            connection = Connection(admission, slow_s_max)
            try:
                async with asyncio.timeout(60):
                    await play(connection, taken)
            finally:
                connection.end()
                await until_async(lambda: not connection.protocol.tasks, "requests are over")

    asyncio.run(run())


LATE = b"DELETE /api/v1/runs/smuggled HTTP/1.1\r\nHost: q\r\n\r\n"


@pytest.mark.parametrize(
    "length",
    [
        b"Content-Length:  %d",
        b"Content-Length:\t%d",
        b"Content-Length: 0%d ",
        b"content-length:%d\t",
        b"X: y\nContent-Length: %d",
    ],
)
def test_the_body_of_a_rejected_request_never_becomes_a_request(length: bytes) -> None:
    async def play(connection: Connection, taken: ExitStack) -> None:
        head = HEAD.replace(b"Content-Length: 2", length % len(LATE))
        connection.send(head)
        taken.close()
        connection.send(LATE)
        connection.send(READ % b"after")
        statuses = await connection.responses(2)
        # The request with the body gets one answer, rejected or not, or is not valid HTTP.
        assert statuses in ([503, 200], [200, 200], [400])
        assert "/api/v1/runs/smuggled" not in connection.paths

    played(play)


def test_a_request_within_the_head_of_another_is_not_answered() -> None:
    async def play(connection: Connection, _: ExitStack) -> None:
        # The head of the second request has begun when the first request is answered.
        connection.send(READ % b"one" + b"GET /api/v1/runs/two HTTP/1.1\r\nX: ")
        assert await connection.responses(1) == [200]
        connection.send(WHOLE[: -len(b"{}")].replace(b"Content-Length: 2\r\n", b""))
        assert await connection.responses(2) == [200, 200]
        assert connection.paths == ["/api/v1/runs/one", "/api/v1/runs/two"]

    played(play)


def test_responses_come_in_the_order_of_requests_that_came_together() -> None:
    async def play(connection: Connection, _: ExitStack) -> None:
        connection.send(
            WHOLE + READ % b"one" + WHOLE, WHOLE, READ % b"two" + WHOLE[:20], WHOLE[20:]
        )
        assert connection.wire.statuses == [503]
        # After a request that is under way no request is rejected unread; here the application
        # answers all.
        assert await connection.responses(6) == [503, 200, 200, 200, 200, 200]

    played(play)


@pytest.mark.parametrize("request_line", [b"POST /api/v1/runs", b"GET /api/v1/runs"])
def test_after_a_request_for_another_protocol_the_connection_is_closed(
    request_line: bytes,
) -> None:
    async def play(connection: Connection, _: ExitStack) -> None:
        asked = WHOLE.replace(b"Host: q", b"Host: q\r\nConnection: upgrade\r\nUpgrade: h2c")
        asked = asked.replace(b"POST /api/v1/runs", request_line)
        # The bytes after this are not parsed, and must not get the answer of a later request.
        connection.send(asked + READ % b"unread")
        connection.go_on.set()
        await until_async(connection.wire.is_closing, "the connection is closed")
        assert connection.wire.statuses == [200]
        assert "/api/v1/runs/unread" not in connection.paths

    played(play)


def test_a_request_that_came_with_a_rejected_one_is_not_cut_off_with_it() -> None:
    async def play(connection: Connection, _: ExitStack) -> None:
        connection.send(WHOLE + WHOLE + READ % b"slow")
        assert connection.wire.statuses == [503, 503]
        # The service does not wait for the timer that closes an idle connection.
        assert connection.protocol.timeout_keep_alive_task is None
        assert await connection.responses(3) == [503, 503, 200]
        assert not connection.wire.is_closing()

    played(play)


def test_a_rejected_request_whose_body_does_not_come_is_not_waited_for_without_end() -> None:
    async def play(connection: Connection, _: ExitStack) -> None:
        connection.send(HEAD[:30], HEAD[30:])
        await until_async(connection.wire.is_closing, "the connection is closed")
        assert connection.wire.statuses == [408]

    played(play, slow_s_max=0.0)


def test_a_client_that_sends_on_and_reads_nothing_is_cut_off() -> None:
    async def play(connection: Connection, _: ExitStack) -> None:
        connection.send(WHOLE, WHOLE)
        assert connection.wire.statuses == [503, 503]
        connection.protocol.pause_writing()
        connection.send(WHOLE)
        assert connection.wire.is_aborted
        connection.send(WHOLE)
        assert connection.wire.statuses == [503, 503]

    played(play)


@pytest.mark.parametrize(
    ("headers", "body_bytes", "waits"),
    [
        ({}, AT_ONCE_BYTES, False),
        ({}, AT_ONCE_BYTES + 1, True),
        ({b"quorate-min-sequence": "7"}, 0, True),
    ],
)
def test_a_request_that_waits_before_it_is_taken_has_no_place(
    headers: dict[bytes, str], body_bytes: int, *, waits: bool
) -> None:
    assert waits_first(headers, body_bytes) is waits


def test_a_client_that_waits_before_it_sends_its_body_is_answered_by_the_application() -> None:
    async def play(connection: Connection, _: ExitStack) -> None:
        connection.send(HEAD.replace(b"Host: q", b"Host: q\r\nExpect: 100-continue"))
        assert await connection.responses(1) == [200]

    played(play)
